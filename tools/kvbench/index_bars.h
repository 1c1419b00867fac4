// The bars of the index, in process: match rate and memory per fragment.
#pragma once

#include "tools/kvbench/bar.h"

namespace varve::kvbench {

struct IndexBarOptions {
  uint32_t fragments = 1310720;  // = the table's capacity, so its load is 0.8
  uint32_t prefix_ids = 800;
  uint32_t rounds = 9;
};

Bar match_bar(const IndexBarOptions& options);
Bar index_bytes_bar(const IndexBarOptions& options);

}  // namespace varve::kvbench
