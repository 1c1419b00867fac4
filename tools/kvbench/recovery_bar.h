// The bar of a restart: fragments a second from checkpoints into an index, as a shard does it.
#pragma once

#include <string>

#include "tools/kvbench/bar.h"

namespace varve::kvbench {

struct RecoveryBarOptions {
  std::string folder;
  uint64_t fragments = 2000000;  // of 64 KiB each: the target is a sparse file
  uint32_t rounds = 5;
};

Bar recovery_bar(const RecoveryBarOptions& options);

}  // namespace varve::kvbench
