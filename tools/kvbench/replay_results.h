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
  std::string drive_refused;    // why the drive's ceiling was not measured, where flash served
  uint64_t dram_bytes = 0, flash_bytes = 0;  // pulled, as a server of ours counted
};

// All that is known of a replay.
struct ReplayView {
  const ReplayOptions& options;
  const trace::Trace& trace;
  const ReplayPlan& plan;
  const std::vector<Played>& played;  // by prompt
  const ReplayRun& run;
};

// The rule by which a run that a server mostly failed has no result: more than a quarter of its
// matches, pulls and pushes `failed`. What the server refused, or did not end in time, is what a
// busy one does and a result, with a warning. Pure.
Status check_failures(const std::vector<Played>& played);

// The rule by which a run that was to be of storage only has no result: one block that a match
// found in DRAM, one byte that was sent from it, or bytes of which nobody counted where they were.
// Pure.
Status check_storage_only(const std::vector<Played>& played, const ReplayRun& run);

// Fails by these two, and when nothing was hit: then there is no rate of a store to speak of.
// What of `conditions` only the results tell is filled in.
Status conclude(const ReplayView& view, Conditions conditions, Declaration& out,
                std::vector<std::string>& lines);

}  // namespace varve::kvbench
