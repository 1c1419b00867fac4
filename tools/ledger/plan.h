// Plan: what each loop of a run does, as a pure function of (seed, loop), so that --seed repeats
// all choices. When exactly the kill strikes inside the daemon is the one thing that is real.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/ledger/book.h"

namespace varve::ledger {

inline constexpr uint32_t kLoopsPerFolder = 10;  // then a new data folder, empty again
inline constexpr uint32_t kLoadThreads = 3;

enum class Ending : uint8_t {
  kKill,       // SIGKILL in the middle of the load
  kKillTwice,  // and again while the next life starts or recovers
  kStop,       // SIGTERM: a graceful stop must lose nothing either
};

struct FolderPlan {
  uint32_t number = 0;
  Room room = Room::kRoomy;
  uint32_t targets = 4;
  uint64_t target_bytes = 0;
  uint32_t scale = 1;  // of the number of ids
};

// Half of it passes before the load's sessions are closed.
inline constexpr uint64_t kDrainMs = 1000;

struct LoopPlan {
  uint32_t loop = 0;
  FolderPlan folder;
  bool first_of_folder = false;
  uint64_t seed = 0;  // of the load threads and of the daemon's coins
  uint32_t shards = 1;
  uint32_t spill_per_mille = 0;
  // False: the load begins as soon as the daemon listens, while it recovers; audited later.
  bool audited = true;
  uint32_t load_ms = 0;
  Ending ending = Ending::kKill;
  uint32_t second_kill_us = 0;  // after the next start; kKillTwice
};

LoopPlan plan_loop(uint64_t seed, uint32_t loop);

// Options of varved for this loop.
std::vector<std::string> daemon_arguments(const LoopPlan& plan, const std::string& data_dir,
                                          bool mutant);

}  // namespace varve::ledger
