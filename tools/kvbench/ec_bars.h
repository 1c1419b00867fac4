// The bars of erasure coding, in process: what coding costs of a core, cold and fused, and
// rebuilding.
#pragma once

#include "common/erasure/erasure.h"
#include "tools/kvbench/bar.h"

namespace varve::kvbench {

struct EcBarOptions {
  Scheme scheme{4, 2};
  uint64_t data_bytes = kGiB;  // more than a core's share of the caches, so that every byte is cold
  uint32_t extent_bytes = 1 * kMiB;
  uint32_t column_bytes = 8 * kKiB;  // a stripe of columns stays near the first-level cache
  uint32_t rounds = 9;
};

// Values are shares of a core at 4 GB/s of data. Parity and rebuilt columns land in scratch, from
// which a push sends and a pull verifies and copies.
Bar ec_encode_bar(const EcBarOptions& options);
// What coding adds to the pass that digests every extent of a stripe anyway.
Bar ec_fused_bar(const EcBarOptions& options);
// As many data extents lost as there is parity.
Bar ec_decode_bar(const EcBarOptions& options);

}  // namespace varve::kvbench
