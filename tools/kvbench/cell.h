// Cell: one combination of a sweep, its repetitions, and whether they are what the cell claims.
// Pure.
//
// Where its blocks are (tier) and what was done with them before (state) are two things. The tier
// is what the match before each pull answered: a repetition of which it is not true of all blocks
// is not pure, and a cell with one has no numbers: what came from memory never improves a number of
// storage. The state is what the sweep did; what it means depends on the tier, see meaning_of.
#pragma once

#include <string>
#include <vector>

#include "tools/kvbench/declaration.h"
#include "tools/kvbench/player.h"

namespace varve::kvbench {

enum class CellTier : uint8_t { kDram, kFlash };
enum class CellState : uint8_t { kHot, kCold };
struct CellKind {
  CellTier tier = CellTier::kDram;
  CellState state = CellState::kHot;
  bool operator==(const CellKind&) const = default;
};
const char* name_of(CellTier tier);    // "dram", "flash"
const char* name_of(CellState state);  // "hot", "cold"
// What hot or cold is of that tier, and in which layer; of all kinds but dram x cold, see
// problem_of_kind.
const char* meaning_of(CellKind kind);
// Why there is no such cell; empty: there is.
const char* problem_of_kind(CellKind kind);

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
  CellKind kind;
  std::vector<CellRepetition> repetitions;

  bool is_of_flash() const { return kind.tier == CellTier::kFlash; }
  // Empty: pure, all of it. Else why the cell has no numbers.
  std::string impurity() const;
  std::vector<double> rates() const;   // GB/s
  std::vector<double> ratios() const;  // dram: of the socket; flash: of the drive
  Json json() const;
  std::string line() const;
};

}  // namespace varve::kvbench
