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
  uint64_t kills = 0, target_faults = 0, pushed_blocks = 0, hit_blocks = 0, pulled_blocks = 0;
  uint64_t rebuilt_extents = 0, repaired_blocks = 0, evicted_blocks = 0, audited_blocks = 0;
  uint64_t followed_blocks = 0, denied_blocks = 0, foreign_follows = 0;
  uint64_t renewed_leases = 0, holds = 0, purges = 0, dropped_siblings = 0, drained_targets = 0;
  uint64_t returned_blocks = 0, refused_starts = 0;
  uint64_t late_extents = 0, hedged_extents = 0;  // a reader was told so; it asked for the rest
  uint64_t ahead_extents = 0, existing_ids = 0, replaced_targets = 0;
};

// What is counted. Many seeds in which one of these never happened test nothing of it.
struct RunCount {
  uint64_t RunResult::*of;
  const char* name;
};
inline constexpr RunCount kRunCounts[] = {
    {&RunResult::kills, "kills"},
    {&RunResult::target_faults, "target faults"},
    {&RunResult::pushed_blocks, "blocks pushed"},
    {&RunResult::hit_blocks, "hit"},
    {&RunResult::existing_ids, "said to exist"},
    {&RunResult::pulled_blocks, "pulled"},
    {&RunResult::rebuilt_extents, "extents rebuilt"},
    {&RunResult::repaired_blocks, "blocks repaired"},
    {&RunResult::evicted_blocks, "evicted"},
    {&RunResult::audited_blocks, "audited after the last kill"},
    {&RunResult::followed_blocks, "followed to their commit"},
    {&RunResult::denied_blocks, "to their abort"},
    {&RunResult::foreign_follows, "in vain, of another domain"},
    {&RunResult::renewed_leases, "leases renewed"},
    {&RunResult::holds, "holds listed"},
    {&RunResult::purges, "purges"},
    {&RunResult::drained_targets, "targets drained"},
    {&RunResult::replaced_targets, "replaced while it ran"},
    {&RunResult::dropped_siblings, "runs dropped that lacked a rank"},
    {&RunResult::returned_blocks, "blocks back with their targets"},
    {&RunResult::refused_starts, "starts refused, stale"},
    {&RunResult::late_extents, "extents late"},
    {&RunResult::hedged_extents, "hedged"},
    {&RunResult::ahead_extents, "read ahead of their reader"},
};

// Ends the process with a message on a broken invariant.
RunResult run(uint64_t seed, const RunOptions& options);

}  // namespace varve::sim
