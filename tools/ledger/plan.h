// Plan: what each loop of a run does, as a pure function of (seed, loop), so that --seed repeats
// all choices. When exactly the kill strikes inside the daemon is the one thing that is real.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/model/model.h"
#include "tools/ledger/book.h"

namespace varve::ledger {

inline constexpr uint32_t kLoopsPerFolder = 10;  // then a new data folder, empty again
inline constexpr uint32_t kLoadThreads = 3;

enum class Ending : uint8_t {
  kKill,       // SIGKILL in the middle of the load
  kKillTwice,  // and again while the next life starts or recovers
  kStop,       // SIGTERM: a graceful stop must lose nothing either
};

// What happens to targets between two lives; the last three follow from it, or from a drain.
enum class Harm : uint8_t {
  kNone,
  kDestroy,  // the file is deleted
  kBlank,    // it begins with zeros, as a drive that was replaced
  kBreak,    // both superblocks are rot
  kRot,      // bytes of it changed
  kAway,     // unplugged; it comes back as it was
  kSwap,     // two are in each other's place: the daemon must not start
  kReturn,   // after kAway
  kReplace,  // after kDestroy, kBreak and kTakeOut: by a blank one
  kTakeOut,  // it was drained: its file is deleted
};
inline constexpr uint32_t kHarmCount = 10;
const char* harm_name(Harm harm);

// A fault that is planted in the daemon, or in what the ledger takes for repaired: must be seen.
enum class Mutant : uint8_t {
  kNone,
  kFlush,   // a block is acknowledged as durable before its flush
  kRepair,  // repair is off, and taken for done
  kPurge,   // a purge is answered before its records are flushed
};

struct LedgerPlan {  // of a whole run
  uint64_t seed = 1;
  std::optional<Scheme> scheme;  // of every folder; none: drawn for each
  Mutant mutant = Mutant::kNone;
};

struct FolderPlan {
  uint32_t number = 0;
  Room room = Room::kRoomy;
  Scheme scheme;
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
  bool at_purge = false;        // the end comes as soon as the next purge is answered
  uint32_t second_kill_us = 0;  // after the next start; kKillTwice
  Harm harm = Harm::kNone;      // before this life, if the budget allows it
  bool beyond = false;          // more targets than the scheme can do without
  uint32_t absent_loops = 0;    // what is gone comes back after so many; 0: at once
  bool heals = false;           // waits for repair and scrub before the load, if audited
  bool drains = false;          // one more target is emptied from now on, if it can be
  uint64_t harm_seed = 0;
};

// In a folder of that name.
std::string target_file(const std::string& folder, uint32_t target);

LoopPlan plan_loop(const LedgerPlan& run, uint32_t loop);

// What a life of varved is asked for beside its plan.
struct LifeOptions {
  std::string data_dir;
  Mutant mutant = Mutant::kNone;
  bool create_targets = false;
  bool scrub = false;                               // all the time
  std::optional<uint32_t> draining = std::nullopt;  // the target that is being emptied
};
std::vector<std::string> daemon_arguments(const LoopPlan& plan, const LifeOptions& life);

}  // namespace varve::ledger
