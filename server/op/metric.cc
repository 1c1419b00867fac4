// Names and help of the op counters: one line each, so that this file reads as their documentation.
//
// Labels name the outcome, the tier, the stage or the code; the words are those of the
// architecture.
#include "server/op/metric.h"

#include <iterator>
#include <string>

#include "server/flash/flash.h"

namespace varve {

namespace {

std::string label(const char* key, const char* value) {
  return std::string(key) + "=\"" + value + "\"";
}

void register_match(const OpMetrics& m, MetricSet& set) {
  set.add({"varve_match_parts_total", "", "Match parts answered by homes."}, &m.match_parts);
  set.add({"varve_lease_granted_total", "", "Leases granted."}, &m.leases_granted);
  set.add({"varve_lease_released_total", "", "Leases released by their session."},
          &m.leases_released);
  set.add({"varve_lease_renewed_total", "", "Leases made to last longer."}, &m.leases_renewed);
  set.add({"varve_lease_expired_total", "", "Leases that ended by time."}, &m.leases_expired);
  set.add({"varve_lease_refused_total", "", "Leases not given: table or pins full."},
          &m.leases_refused);
  set.add({"varve_lease_live", "", "Leases now."}, &m.leases_live);
  set.add({"varve_lease_pins", "", "Base ids under leases now."}, &m.lease_pins);
}

void register_push(const OpMetrics& m, MetricSet& set) {
  set.add({"varve_reserve_ids_total", label("outcome", "exists"), "Ids answered at reserve."},
          &m.reserve_exists);
  set.add({"varve_reserve_ids_total", label("outcome", "busy"), ""}, &m.reserve_busy);
  set.add({"varve_reserve_ids_total", label("outcome", "granted"), ""}, &m.reserve_granted);
  set.add({"varve_reserve_ids_asked_total", "", "Ids asked for at reserve."}, &m.reserve_ids);
  for (uint32_t i = 1; i < kCodeCount; ++i) {
    set.add({"varve_reserve_refused_total", label("reason", code_name(static_cast<Code>(i))),
             "Reservations refused: what overload or a full drive shed."},
            &m.refused[i]);
  }
  set.add({"varve_push_committed_total", label("ack", "cached"), "Blocks committed."},
          &m.push_committed_cached);
  set.add({"varve_push_committed_total", label("ack", "durable"), ""}, &m.push_committed_durable);
  set.add({"varve_push_exists_total", "", "Commits of a block that was there meanwhile."},
          &m.push_exists);
  set.add({"varve_push_aborted_total", "", "Attempts aborted or expired."}, &m.push_aborted);
  set.add({"varve_push_invalid_total", "", "Commits whose table did not fit the format."},
          &m.push_invalid);
  set.add({"varve_push_bytes_total", "", "Bytes of committed blocks, without parity."},
          &m.push_bytes);
  set.add({"varve_push_lost_writes_total", "",
           "Cached blocks dropped because flash did not take them."},
          &m.push_lost_writes);
  set.add({"varve_push_fragments_lost_total", "",
           "Fragments that a target did not take; their blocks are thin, or lost writes."},
          &m.push_fragments_lost);
  set.add({"varve_push_overdue_total", "", "Commits seen unwritten for too long by the watchdog."},
          &m.push_overdue);
  set.add({"varve_push_target_full_total", "",
           "Reservations that passed over a target or were refused to a session or domain with too "
           "much."},
          &m.push_share_full);
  set.add({"varve_push_live", "", "Live attempts, write-behind included."}, &m.pushes_live);
  set.add({"varve_push_block_bytes_max", "",
           "The largest block, header and padding included, that may ever be granted."},
          &m.push_block_bytes_max, GaugeMerge::kMin);
  set.add({"varve_push_appends_waiting", "", "Commits waiting for flash."}, &m.appends_waiting);
  set.add({"varve_push_stage_seconds", label("stage", "receive"), "Grant to commit."},
          &m.push_stage_receive);
  set.add({"varve_push_stage_seconds", label("stage", "write"), "Commit to flash."},
          &m.push_stage_write);
}

void register_pull(const OpMetrics& m, MetricSet& set) {
  set.add({"varve_pull_requests_total", "", "Pull parts."}, &m.pull_requests);
  set.add({"varve_pull_ended_total", label("outcome", "cancelled"), "Pull parts cut short."},
          &m.pull_cancelled);
  set.add({"varve_pull_ended_total", label("outcome", "timed_out"), ""}, &m.pull_timed_out);
  set.add({"varve_pull_ended_total", label("outcome", "lease_refused"), ""}, &m.pull_lease_refused);
  set.add({"varve_pull_blocks_total", "", "Blocks sent whole."}, &m.pull_blocks_ok);
  for (uint32_t i = 1; i < kCodeCount; ++i) {
    set.add({"varve_pull_blocks_failed_total", label("reason", code_name(static_cast<Code>(i))),
             "Blocks that a pull could not send; the others of the pull went on (I9)."},
            &m.pull_blocks_failed[i]);
  }
  set.add({"varve_pull_bytes_total", label("tier", "dram"), "Bytes sent, by where they were."},
          &m.pull_bytes_dram);
  set.add({"varve_pull_bytes_total", label("tier", "flash"), ""}, &m.pull_bytes_flash);
  set.add({"varve_pull_bytes_shared_total", "", "Of these, from a read that another pull began."},
          &m.pull_bytes_shared);
  set.add({"varve_pull_extents_streamed_total", "",
           "Extents whose bytes left DRAM as soon as they were sent."},
          &m.pull_extents_streamed);
  set.add({"varve_pull_room_waits_total", "", "Times a pull waited for DRAM pages."},
          &m.pull_room_waits);
  set.add({"varve_pull_target_waits_total", "",
           "Times a pull waited because its target holds half of the reads or their pages."},
          &m.pull_target_waits);
  set.add({"varve_pull_sheds_total", "", "Times idle blocks were unpinned to make room."},
          &m.pull_sheds);
  set.add({"varve_pull_overdue_total", "", "Pulls seen past their deadline by the watchdog."},
          &m.pull_overdue);
  set.add({"varve_pull_extents_lost_total", "", "Extents that a reader was told to rebuild."},
          &m.pull_extents_lost);
  set.add({"varve_pull_extents_late_total", "",
           "Extents that a reader was told are late: a device keeps the read."},
          &m.pull_extents_late);
  set.add({"varve_pull_extents_ahead_total", "",
           "Extents that lost ones are rebuilt from, read before their reader asked for them."},
          &m.pull_extents_ahead);
  set.add({"varve_pull_held_back_total", "",
           "Pulls that began later layers after what lost extents of the first are rebuilt from."},
          &m.pull_held_back);
  set.add({"varve_pull_leads_given_up_total", "",
           "Header reads at a suspect target that were begun again at another."},
          &m.pull_leads_given_up);
  set.add({"varve_pull_blocks_outlived_total", "",
           "Blocks read anew because a device that failed keeps pages of them."},
          &m.pull_blocks_outlived);
  set.add({"varve_pull_fences_total", "", "Extents of pulls that a client fenced."},
          &m.pull_fences);
  set.add({"varve_pull_live", "", "Pulls now."}, &m.pulls_live);
  set.add({"varve_pull_extents_live", "", "Extents being read or sent now."}, &m.extents_live);
  set.add({"varve_pull_fetches_live", "", "Device reads in progress now."}, &m.fetches_live);
  set.add({"varve_pull_seconds", "", "Whole pull parts."}, &m.pull_seconds);
  set.add({"varve_pull_stage_seconds", label("stage", "credit"), "Stages of a pull."},
          &m.pull_stage_credit);
  set.add({"varve_pull_stage_seconds", label("stage", "read"), ""}, &m.pull_stage_read);
  set.add({"varve_pull_stage_seconds", label("stage", "send"), ""}, &m.pull_stage_send);
}

void register_catalog(const OpMetrics& m, MetricSet& set) {
  set.add({"varve_published_total", "", "Blocks made visible by commit."}, &m.published);
  set.add({"varve_evicted_blocks_total", "", "Blocks evicted from flash."}, &m.evicted_blocks);
  set.add({"varve_evicted_bytes_total", "", ""}, &m.evicted_bytes);
  set.add({"varve_evicted_away_blocks_total", "",
           "Of those, blocks that could not be read because targets were away."},
          &m.evicted_away);
  set.add({"varve_evict_skipped_total", label("reason", "leased"), "Victims left alone."},
          &m.evict_skipped_leased);
  set.add({"varve_evict_skipped_total", label("reason", "grace"), ""}, &m.evict_skipped_grace);
  set.add({"varve_evict_skipped_total", label("reason", "busy"), ""}, &m.evict_skipped_busy);
  set.add({"varve_evict_unsatisfied_total", "", "Wishes for room that no victim could meet."},
          &m.evict_unsatisfied);
  set.add({"varve_evict_candidates_total", "", "Victims that were looked at."},
          &m.evict_candidates);
  set.add({"varve_siblings_dropped_total", "",
           "Base ids dropped because a rank of theirs did not come within sibling_ms_max."},
          &m.siblings_dropped);
  set.add(
      {"varve_recovered_blocks_total", "", "Blocks found again at start, of k fragments or more."},
      &m.recovered_blocks);
  set.add({"varve_recovered_bytes_total", "", ""}, &m.recovered_bytes);
  set.add({"varve_recovered_dropped_total", label("reason", "older_attempt"),
           "Fragments that recovery found and did not keep."},
          &m.recovered_older);
  set.add({"varve_recovered_dropped_total", label("reason", "index_full"), ""}, &m.recovered_full);
  set.add({"varve_recovered_dropped_total", label("reason", "unknown_domain"), ""},
          &m.recovered_unknown);
  set.add({"varve_recovered_unknown_domain_bytes_total", "",
           "Of fragments of domains that this node does not have (any more): dropped."},
          &m.recovered_unknown_bytes);
  set.add({"varve_recovered_too_few_total", "",
           "Blocks of which recovery found fewer than k fragments, and no target is away that may "
           "have the others; dropped."},
          &m.recovered_too_few);
  set.add({"varve_recovered_crowded_total", "",
           "Fragments given up at recovery because their target held another of the block."},
          &m.recovered_crowded);
  set.add({"varve_recovered_replaced_total", "", "Kept ones that a larger attempt replaced."},
          &m.replaced_older);
  set.add({"varve_reclaim_fragments_total", label("verdict", "dead"), "Asked for by reclaim."},
          &m.reclaim_dead);
  set.add({"varve_reclaim_fragments_total", label("verdict", "reinserted"), ""},
          &m.reclaim_reinserted);
  set.add({"varve_reclaim_fragments_total", label("verdict", "dropped"), ""}, &m.reclaim_dropped);
  for (uint32_t i = 0; i < std::size(m.lost_fragments); ++i) {
    const char* reason = flash::drop_reason_name(static_cast<flash::DropReason>(i));
    set.add({"varve_lost_fragments_total", label("reason", reason),
             "Fragments lost to a fault; repair rebuilds those of blocks that parity covers."},
            &m.lost_fragments[i]);
  }
  set.add({"varve_lost_blocks_total", "",
           "Blocks that were hits until a fault left fewer than k of their fragments."},
          &m.lost_blocks);
}

void register_purge(const OpMetrics& m, MetricSet& set) {
  set.add({"varve_purges_total", label("outcome", "done"), "Purge parts, by how they ended."},
          &m.purges_done);
  set.add({"varve_purges_total", label("outcome", "failed"), ""}, &m.purges_failed);
  set.add({"varve_purges_away_total", "",
           "Of those done, with a target away: it learns of them from the others at its return."},
          &m.purges_away);
  set.add({"varve_purge_ids_total", "", "Base ids purged one by one."}, &m.purge_ids);
  set.add({"varve_purge_records_total", "", "KILL records flushed."}, &m.purge_records);
  set.add({"varve_purged_blocks_total", "", "Blocks that became unreachable."}, &m.purged_blocks);
  set.add({"varve_purged_bytes_total", "", ""}, &m.purged_bytes);
  set.add({"varve_purge_seconds", "", "Whole purge parts."}, &m.purge_seconds);
  set.add({"varve_push_purged_total", "", "Pushes whose block was purged under way."},
          &m.push_purged);
  set.add({"varve_recovered_dropped_total", label("reason", "purged"), ""}, &m.recovered_purged);
}

void register_repair(const OpMetrics& m, MetricSet& set) {
  for (uint32_t i = 0; i < kRepairOutcomes; ++i) {
    const std::string outcome =
        label("outcome", repair_outcome_name(static_cast<RepairOutcome>(i)));
    set.add({"varve_repair_blocks_total", outcome, "Visits to blocks, by how they ended."},
            &m.repair_blocks[i]);
  }
  for (uint32_t i = 0; i < kRepairOutcomes; ++i) {
    const std::string outcome =
        label("outcome", repair_outcome_name(static_cast<RepairOutcome>(i)));
    set.add({"varve_repair_bytes_total", outcome, "Bytes of the fragments that they were for."},
            &m.repair_bytes[i]);
  }
  set.add({"varve_repair_read_bytes_total", "", "Bytes asked for to rebuild others."},
          &m.repair_read_bytes);
  set.add(
      {"varve_repair_eta_seconds", "",
       "Until nothing is missing or to be moved, at the recent rate; 0: nothing is, or no block "
       "is being rebuilt."},
      &m.repair_eta_s, GaugeMerge::kMax);
  set.add({"varve_repair_live", "", "Blocks being rebuilt now."}, &m.repairs_live);
}

}  // namespace

const char* repair_outcome_name(RepairOutcome outcome) {
  static constexpr const char* kNames[kRepairOutcomes] = {
      "done", "gone", "no_target", "no_space", "no_memory", "corrupt", "failed", "stopped"};
  VARVE_ASSERT(static_cast<uint32_t>(outcome) < kRepairOutcomes, static_cast<uint32_t>(outcome));
  return kNames[static_cast<uint32_t>(outcome)];
}

void OpMetrics::register_in(MetricSet& metrics) const {
  register_match(*this, metrics);
  register_push(*this, metrics);
  register_pull(*this, metrics);
  register_catalog(*this, metrics);
  register_purge(*this, metrics);
  register_repair(*this, metrics);
}

}  // namespace varve
