// ReplayResults: what a replay did, summed up and declared.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tools/kvbench/replay.h"

namespace varve::kvbench {

struct ReplayRound {
  double ceiling_rate = 0;  // GB/s of the raw socket; open loop: the mean of before and after
  uint64_t pulled_bytes = 0;
  Nanos pull_busy_ns = 0;  // at least one pull was under way
  Nanos took_ns = 0;
  double request_p99_ms = 0;
  uint64_t flash_blocks = 0;  // of its pulls, as the matches answered
  double drive_rate = 0;      // GB/s of the drive's ceiling; 0: none was measured
};

struct ReplayRun {
  std::vector<ReplayRound> rounds;
  std::vector<LoadTime> times;  // by request
  pid_t server_pid = 0;         // 0: not ours
  Nanos server_cpu_ns = 0, client_cpu_ns = 0;
  uint64_t verified_bytes = 0;  // of the ceiling
  uint64_t bypassed = 0;
  std::string drive_refused;  // why the drive's ceiling was not measured, where flash served
  uint64_t dram_bytes = 0, flash_bytes = 0;  // pulled, as a server of ours counted
};

// What the rate is a rate of: "storage_only", "memory_only", or "storage_plus_memory" where both
// served. Pure.
const char* mode_of(uint64_t dram, uint64_t flash);

// All that is known of a replay.
struct ReplayView {
  const ReplayOptions& options;
  const trace::Trace& trace;
  const ReplayPlan& plan;
  const std::vector<Played>& played;  // by prompt
  const ReplayRun& run;
};

// The rule by which a run that a server mostly failed has no result: more than a quarter of its
// matches, pulls and pushes `failed`, or were answered by an open breaker. What the server refused,
// or did not end in time, is what a busy one does and a result, with a warning. Pure.
Status check_failures(const std::vector<Played>& played, uint64_t bypassed);

// Fails by check_failures, and when nothing was hit: then there is no rate of a store to speak of.
// What of `conditions` only the results tell is filled in.
Status conclude(const ReplayView& view, Conditions conditions, Declaration& out,
                std::vector<std::string>& lines);

}  // namespace varve::kvbench
