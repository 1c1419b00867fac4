// Whole layers against every layer cut in k: what each costs, as facts for docs/adr/ADR-0005.
#pragma once

#include <string>

#include "common/model/model.h"
#include "tools/kvbench/bar.h"
#include "tools/kvbench/working_set.h"

namespace varve::kvbench {

struct LayoutBarOptions {
  WorkingSetShape shape = {.blocks = 64, .layers = 32, .layer_bytes = 256 * kKiB};  // 512 MiB
  std::string varved;                                                               // the program
  std::string folder;  // for the daemons' data; emptied by the caller
  uint32_t lanes = 1;
  uint32_t rounds = 5;
  uint32_t passes = 2;       // over the set, of each of the four sides in each round
  uint32_t pull_blocks = 4;  // 32 MiB
};

// The value is the median first layer of the cut format over that of the whole one, 2+1 healthy;
// everything else are facts, for 2+1 and 4+2.
Bar ec_layout_bar(const LayoutBarOptions& options);

}  // namespace varve::kvbench
