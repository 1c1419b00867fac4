// The counters of the ops of one shard, in the words of the ops.
//
// Plain numbers on their own core; registered once by OpMetrics::register_in. A rate that is
// refused or shed is counted by its reason, so that an overload explains itself (I11).
#pragma once

#include "common/base/base.h"
#include "common/metrics/metrics.h"
#include "server/flash/flash.h"

namespace varve {

// How a visit of repair to a thin block ended.
enum class RepairOutcome : uint8_t {
  kDone,      // it has a fragment more
  kGone,      // evicted, lost or replaced meanwhile
  kUnplaced,  // no further target works
  kNoSpace,
  kNoMemory,  // Budget::kRepair is too small, or a device that failed keeps it
  kCorrupt,   // what its fragments give does not verify
  kFailed,    // reads or writes failed
  kStopped,   // by a drain
};
inline constexpr uint32_t kRepairOutcomes = 8;
const char* repair_outcome_name(RepairOutcome outcome);

struct OpMetrics {
  // match
  Counter match_parts;
  // leases
  Counter leases_granted, leases_expired, leases_refused, leases_released, leases_renewed;
  Gauge leases_live, lease_pins;
  // reserve and push
  Counter reserve_ids, reserve_exists, reserve_busy, reserve_granted;
  Counter refused[kCodeCount];  // by code
  Counter push_committed_cached, push_committed_durable, push_exists, push_aborted, push_invalid;
  Counter push_bytes, push_lost_writes, push_overdue, push_share_full;
  Counter push_fragments_lost, push_purged;
  Gauge pushes_live, appends_waiting, push_block_bytes_max;
  Histogram push_stage_receive, push_stage_write;
  // pull
  Counter pull_requests, pull_cancelled, pull_timed_out, pull_lease_refused;
  Counter pull_blocks_ok, pull_blocks_failed[kCodeCount];
  Counter pull_bytes_dram, pull_bytes_flash, pull_bytes_shared;
  Counter pull_extents_streamed, pull_room_waits, pull_target_waits, pull_sheds, pull_overdue;
  Counter pull_extents_lost, pull_extents_late, pull_leads_given_up, pull_fences;
  Counter pull_extents_ahead, pull_held_back;
  Counter pull_blocks_outlived;
  Gauge pulls_live, extents_live, fetches_live;
  Histogram pull_seconds, pull_stage_credit, pull_stage_read, pull_stage_send;
  // catalog
  Counter published, evicted_blocks, evicted_bytes, evict_skipped_leased, evict_skipped_grace;
  Counter evict_skipped_busy, evict_unsatisfied, evict_candidates, evicted_away, siblings_dropped;
  Counter recovered_blocks, recovered_bytes, recovered_older, recovered_full, replaced_older;
  Counter recovered_crowded, recovered_too_few, recovered_purged;
  Counter recovered_unknown, recovered_unknown_bytes;
  Counter reclaim_dead, reclaim_reinserted, reclaim_dropped;
  Counter lost_fragments[flash::kDropReasons];  // by flash::DropReason
  Counter lost_blocks;                          // of which too few fragments were left
  // purge
  Counter purges_done, purges_failed, purges_away, purge_ids, purge_records;
  Counter purged_blocks, purged_bytes;
  Histogram purge_seconds;
  // repair
  Counter repair_blocks[kRepairOutcomes], repair_bytes[kRepairOutcomes];  // by RepairOutcome
  Counter repair_read_bytes;
  Gauge repair_eta_s, repairs_live;

  void register_in(MetricSet& metrics) const;
};

}  // namespace varve
