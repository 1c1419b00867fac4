// erasure: Reed-Solomon coding of stripes of extents, column by column (docs/FORMAT.md 4.4).
//
// Owns: Coder: encode and rebuild are one thing, a linear map from k positions to others. Called by
// whoever pushes, pulls degraded, repairs. Pure: no I/O, no clock, no allocation. Thread rule:
// values, free.
// Invariants:
//   E1 any k of the k+m positions of a stripe give back the others, byte for byte; fewer give
//      `unavailable` and write nothing.
//   E2 padding is neither stored, read nor written: a source that ends counts as zero behind its
//      end, an output ends where its span ends.
//   E3 what is rebuilt is as right as its sources: the caller checks each of them against its
//      stored checksum, and the outcome against that of the lost extent (I1).
#pragma once

#include "common/erasure/coder.h"  // IWYU pragma: export
