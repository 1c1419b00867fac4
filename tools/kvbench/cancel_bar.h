// Bar: how long a reader who cancels a pull waits until its memory is its own again.
//
// Pulls from flash are under way all the time; one of them is cancelled at a random moment, and its
// terminal event, which comes after FENCED, is waited for. Until its memory is pulled into again it
// must stay as it was then (I8), else the bar is refused. The architecture wants p99 published and
// sets no target.
#pragma once

#include <string>

#include "tools/kvbench/bar.h"
#include "tools/kvbench/working_set.h"

namespace varve::kvbench {

struct CancelBarOptions {
  WorkingSetShape shape = {.blocks = 32, .layers = 32, .layer_bytes = 256 * kKiB};  // 256 MiB
  std::string varved;                                                               // the program
  std::string folder;  // for the daemon's data; emptied by the caller
  uint32_t lanes = 1;
  uint32_t rounds = 5;
  uint32_t cancels = 200;  // of a round
};

// p99 of a round, in microseconds.
Bar cancel_fenced_bar(const CancelBarOptions& options);

}  // namespace varve::kvbench
