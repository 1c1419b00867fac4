// node_check: what of a running node is not as it should be. Pure.
#pragma once

#include <varve/v1/control.pb.h>

#include <vector>

#include "tools/kvctl/finding.h"

namespace varve::kvctl {

std::vector<Finding> check_node(const v1::GetStatusResponse& status,
                                const v1::ListTargetsResponse& targets);

}  // namespace varve::kvctl
