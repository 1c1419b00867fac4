// Cell: one combination of a sweep, its repetitions, and whether they are what the cell claims.
// Pure.
//
// A hot cell is one whose every block was in the server's DRAM, a cold one's on flash, as the match
// before each pull answered. A repetition of which that is not true of all blocks is not pure, and
// a cell with one has no numbers: what came from memory never improves a number of storage.
#pragma once

#include <string>
#include <vector>

#include "tools/kvbench/declaration.h"
#include "tools/kvbench/player.h"

namespace varve::kvbench {

enum class Warmth : uint8_t { kHot, kCold };

struct CellRepetition {
  uint32_t blocks = 0;  // of all pulls
  uint32_t dram_blocks = 0, flash_blocks = 0;
  uint32_t failed_blocks = 0;  // missed, or did not come
  uint64_t bytes = 0;
  Nanos busy_ns = 0;                       // at least one pull was under way
  double socket_rate = 0, drive_rate = 0;  // GB/s of the ceilings of this repetition; 0: none
  std::vector<double> first_ms, last_ms;   // by pull

  void add(const Played& played);
};

struct Cell {
  uint32_t extent_kib = 0, blocks = 0, concurrency = 0;
  Warmth warmth = Warmth::kHot;
  std::vector<CellRepetition> repetitions;

  // Empty: pure, all of it. Else why the cell has no numbers.
  std::string impurity() const;
  std::vector<double> rates() const;   // GB/s
  std::vector<double> ratios() const;  // hot: of the socket; cold: of the drive, where measured
  Json json() const;
  std::string line() const;
};

}  // namespace varve::kvbench
