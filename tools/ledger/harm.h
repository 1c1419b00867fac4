// Harm: what is done to the target files of a daemon that does not run.
//
// Each call leaves the files as a real loss would: gone, beginning with zeros, with superblocks
// that nobody wrote, with bytes that changed, or in each other's place.
#pragma once

#include <map>
#include <string>

#include "common/base/base.h"
#include "tools/ledger/damage.h"

namespace varve::ledger {

// All of it but kSwap. `target_bytes`: of a file that is made to replace one.
Status do_harm(const std::string& folder, const Deed& deed, uint64_t target_bytes);
// Exchanges two target files; the same call again puts them back.
Status swap_targets(const std::string& folder, const Deed& deed);

// When which of the files of targets, and of their list, was written last, and its size.
std::map<std::string, std::string> marks_of(const std::string& folder);

}  // namespace varve::ledger
