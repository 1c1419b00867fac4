// The bars of what coding costs a push: bytes on flash, and time.
#pragma once

#include <string>

#include "tools/kvbench/bar.h"
#include "tools/kvbench/working_set.h"

namespace varve::kvbench {

struct StoreBarOptions {
  WorkingSetShape shape = {.blocks = 64, .layers = 32, .layer_bytes = 256 * kKiB};  // 512 MiB
  std::string varved;                                                               // the program
  std::string folder;  // for the daemons' data; emptied by the caller
  uint32_t lanes = 1;
  uint32_t rounds = 5;
  uint32_t pushes = 4;  // under way at once, of 32 MiB each
  uint64_t dram_bytes = 512 * kMiB;
};

// All that the daemon's devices wrote for a set, from its first push to the end of its drain, per
// byte pushed, over (k+m)/k.
Bar ec_flash_bytes_bar(const StoreBarOptions& options);
// Durable pushes of 2+1 against 1+0, daemons on as many targets, files on one disk all of them.
Bar ec_push_bar(const StoreBarOptions& options);

}  // namespace varve::kvbench
