// The bars of the pull: from DRAM against a raw socket, from flash against raw device reads.
#pragma once

#include <string>

#include "tools/kvbench/bar.h"
#include "tools/kvbench/working_set.h"

namespace varve::kvbench {

struct PullBarOptions {
  WorkingSetShape shape;                          // 1 GiB
  WorkingSetShape flash_shape = {.blocks = 512};  // of the flash bar: 2 GiB
  std::string varved;                             // the program
  std::string folder;                             // for the daemon's data; emptied by the caller
  uint32_t lanes = 1;
  uint32_t rounds = 9;
  uint32_t targets = 2;
  uint64_t target_bytes = 4 * kGiB;        // enough that no slice evicts
  uint64_t flash_dram_bytes = 384 * kMiB;  // of the flash bar's daemon: little stays in DRAM
};

// One measurement, three bars.
struct DramPullBars {
  Bar pull;         // tcp_dram_pull: raw time / pull time
  Bar server_cpu;   // of varved a byte, over that of the raw sender
  Bar first_layer;  // its share of the pull, over 1.5 / layers and the share of one extent
};
DramPullBars dram_pull_bars(const PullBarOptions& options);
Bar flash_pull_bar(const PullBarOptions& options);

}  // namespace varve::kvbench
