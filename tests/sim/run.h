// One run of the small world: a drawn configuration, a workload with faults, an audit at the end.
#pragma once

#include <cstdint>

namespace varve::sim {

struct RunOptions {
  bool trace = false;
  bool ack_before_flush_mutant = false;
};

struct RunResult {
  uint64_t hash = 0;
  uint64_t kills = 0, pushed_blocks = 0, hit_blocks = 0, pulled_blocks = 0, evicted_blocks = 0;
  uint64_t audited_blocks = 0, target_faults = 0, rebuilt_extents = 0, repaired_blocks = 0;
  uint64_t followed_blocks = 0, denied_blocks = 0;  // followed to their commit; not committed
  uint64_t renewed_leases = 0, holds = 0, purges = 0;
  uint64_t dropped_siblings = 0;
  uint64_t drained_targets = 0;
};

// Ends the process with a message on a broken invariant.
RunResult run(uint64_t seed, const RunOptions& options);

}  // namespace varve::sim
