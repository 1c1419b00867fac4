// Bars: lookups over the wire: a client that matches prefixes of a daemon which has all of them.
#pragma once

#include <string>

#include "tools/kvbench/bar.h"

namespace varve::kvbench {

struct MatchBarOptions {
  std::string varved;         // the program
  std::string folder;         // for the daemon's data; emptied by the caller
  uint32_t prefix_ids = 800;  // of one match
  uint32_t prefixes = 16;
  uint32_t matches = 2000;  // of a round
  uint32_t under_way = 16;  // matches at once
  uint32_t rounds = 9;
};

struct MatchBars {
  Bar wire;  // ids a second, all hits
  Bar tail;  // at half of that rate, each match counted from when it was due: p99 over p50
};
MatchBars match_wire_bars(const MatchBarOptions& options);

}  // namespace varve::kvbench
