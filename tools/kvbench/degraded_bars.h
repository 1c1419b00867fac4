// The bars of what pulls notice of drives that are lost or stuck.
#pragma once

#include <string>

#include "common/model/model.h"
#include "tools/kvbench/bar.h"
#include "tools/kvbench/working_set.h"

namespace varve::kvbench {

struct DegradedBarOptions {
  WorkingSetShape shape = {.blocks = 128, .layers = 32, .layer_bytes = 256 * kKiB};  // 1 GiB
  std::string varved;                                                                // the program
  std::string folder;  // for the daemons' data; emptied by the caller
  uint32_t lanes = 1;
  uint32_t rounds = 5;
  uint32_t passes = 4;       // over the set, of each side in each round
  uint32_t pull_blocks = 4;  // 32 MiB
  uint32_t stuck_pulls = 4;  // under way at once in the stuck bar: its load
};

// Measured together: the same pulls.
struct DegradedBars {
  Bar whole, first;
};
// Without m targets against whole; 2+1 is what bars mean whose names do not say a scheme.
DegradedBars ec_degraded_bars(const DegradedBarOptions& options, Scheme scheme);
// 2+1 with a target that does not answer for the time of a pass, before it counts as failed.
Bar ec_stuck_first_bar(const DegradedBarOptions& options);

}  // namespace varve::kvbench
