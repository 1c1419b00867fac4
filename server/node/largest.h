// The largest block of a node is that of its smallest target: said at start where that costs much.
#pragma once

#include <string>
#include <vector>

#include "server/node/target.h"

namespace varve {

// Which targets keep the largest fragment under half of what the others alone would take, and what
// to do; empty: none. Lost ones and those being drained take nothing, so they limit nothing.
std::string limiting_targets(const std::vector<NodeTarget>& targets);

}  // namespace varve
