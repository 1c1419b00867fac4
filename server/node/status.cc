// What main saw last, in the words of the control plane.
#include <cinttypes>
#include <cstring>

#include "server/node/ingress.h"

namespace varve {

namespace {

uint64_t number(const MetricSnapshot& sum, const char* name, const std::string& labels = "") {
  return static_cast<uint64_t>(std::max<int64_t>(0, sum.number(name, labels)));
}

void count(const MetricSnapshot& sum, control::NodeStatus* out) {
  out->sessions = number(sum, "varve_sessions");
  out->match_ids = number(sum, "varve_match_ids_total");
  out->hits_dram = number(sum, "varve_match_hits_total", "tier=\"dram\"");
  out->hits_flash = number(sum, "varve_match_hits_total", "tier=\"flash\"");
  out->misses = number(sum, "varve_match_misses_total");
  out->refused = number(sum, "varve_match_refused_ids_total");
  out->errors = number(sum, "varve_match_failed_ids_total", "outcome=\"error\"");
  out->timeouts = number(sum, "varve_match_failed_ids_total", "outcome=\"timeout\"");
  out->cancelled = number(sum, "varve_match_failed_ids_total", "outcome=\"cancelled\"");
  out->pushed_bytes = number(sum, "varve_push_bytes_total");
  out->pulled_bytes = number(sum, "varve_pull_sent_bytes_total");
  out->committed_blocks = number(sum, "varve_push_committed_total", "ack=\"cached\"") +
                          number(sum, "varve_push_committed_total", "ack=\"durable\"");
  out->evicted_blocks = number(sum, "varve_evicted_blocks_total");
  out->lost_blocks = number(sum, "varve_lost_blocks_total");
  out->purged_blocks = number(sum, "varve_purged_blocks_total");
  out->repair_blocks_left = number(sum, "varve_index_thin_blocks");
  out->repair_done_blocks = number(sum, "varve_repair_blocks_total", "outcome=\"done\"");
  out->repair_eta_ns = number(sum, "varve_repair_eta_seconds") * kSecond;
}

// The remedy of the one cause, where it has one; the errno belongs to the cause.
std::string lost_text(const Status& why) {
  const std::string what = why.what();
  const size_t end = std::min(what.find("; "), what.size());
  return "it could not be used at the start: " + what.substr(0, end) +
         errno_suffix(why.errno_value()) +
         (end < what.size() ? what.substr(end) + ", and restart, or replace it by a blank one"
                            : "; bring it back and restart, or replace it by a blank one");
}

// Cause and remedy of a state that is not as it should be.
std::string why_text(const control::Target& target, const NodeTarget& of) {
  switch (target.state) {
    case control::TargetState::kOk:
      return {};
    case control::TargetState::kSuspect:
      return "its device is slow or keeps requests; reads and pushes go round it where others "
             "suffice; check the drive";
    case control::TargetState::kDraining:
      return target.fragments == 0
                 ? "nothing is left on it but what pushes of before may still bring; wait"
                 : "what it holds is copied to the others; wait until it is drained";
    case control::TargetState::kDrained:
      return of.draining && (of.drain_kept || of.drain_set)
                 ? "it is empty and may be removed; stop the node, take it out, start again"
                 : "it is empty; what is in its place at the next start is formatted and used";
    case control::TargetState::kFailed:
      if (of.coming) {
        return "another drive was formatted for its place, and not every core has it; ask for the "
               "replacement again: it goes on where it ended, or says what failed";
      }
      return "it failed in this run: what parity covers is rebuilt, the rest is away; check the "
             "drive and restart, or replace it";
    case control::TargetState::kLost:
      return lost_text(of.lost);
  }
  return {};
}

}  // namespace

control::Readiness readiness(const Node& node) {
  return node.watch.health().not_ready.empty() ? control::Readiness::kReady
                                               : control::Readiness::kNotReady;
}

control::NodeStatus NodeIngress::status() {
  const std::lock_guard<std::mutex> lock(node_.mutex);
  const ServerConfig& config = node_.config;
  const NodeView& view = node_.view;
  const Nanos now_ns = node_.clock.now_ns();
  control::NodeStatus out;
  out.version = version_text();
  out.data_dir = config.data_dir;
  out.listen = node_.sessions->address();
  out.control = node_.control_address;
  std::memcpy(out.node_uuid, node_.identity.node_uuid, sizeof(out.node_uuid));
  out.boot_id = node_.boot_id;
  out.boot_generation = node_.targets.front().info.super.boot_generation;
  out.uptime_ns = now_ns - node_.started_ns;
  out.state = control::NodeState::kServing;
  if (view.degraded[static_cast<uint8_t>(DegradedReason::kRecovering)]) {
    out.state = control::NodeState::kRecovering;
  }
  if (view.at_ns == 0) out.state = control::NodeState::kStarting;
  if (node_.draining) out.state = control::NodeState::kDraining;
  out.why_not_ready = node_.watch.health().not_ready;
  for (uint32_t r = 0; r < kDegradedReasons; ++r) {
    const auto reason = static_cast<DegradedReason>(r);
    if (view.degraded[r]) out.degraded.push_back({degraded_name(reason), degraded_remedy(reason)});
  }
  out.scheme = config.scheme;
  out.slices = node_.targets.front().info.super.slices;
  out.sessions_max = config.sessions;
  out.numbers_age_ns = view.at_ns == 0 ? 0 : now_ns - view.at_ns;
  for (const auto& thread : node_.threads) {
    control::NodeStatus::ShardState shard;
    shard.io = thread->io->name();
    if (!thread->io_refusal.ok()) {
      shard.io_refusal = thread->io_refusal.what() + errno_suffix(thread->io_refusal.errno_value());
    }
    shard.answers = thread->index < view.answers.size() && view.answers[thread->index];
    out.shards.push_back(shard);
  }
  count(view.sum, &out);
  out.repair_rate_bytes_per_s = uint64_t{values_.repair_mb_per_s} * 1000000;
  for (const NodeTarget& target : node_.targets) {
    if (!target.draining || target.drained) continue;
    const auto index = static_cast<uint32_t>(&target - node_.targets.data());
    out.repair_blocks_left +=
        number(view.sum, "varve_target_fragments", "target=\"" + std::to_string(index) + "\"");
  }
  return out;
}

std::vector<control::Tier> NodeIngress::tiers() {
  const std::lock_guard<std::mutex> lock(node_.mutex);
  const MetricSnapshot& sum = node_.view.sum;
  control::Tier dram;
  dram.name = "dram";
  const Shard& shard = *node_.threads.front()->shard;  // all have the same
  dram.admission = shard.dram_policy().admission;
  dram.eviction = shard.dram_policy().eviction;
  for (uint32_t b = 0; b < kBudgets; ++b) {
    const auto budget = static_cast<Budget>(b);
    const std::string label = std::string("budget=\"") + budget_name(budget) + "\"";
    const uint64_t used = number(sum, "varve_tier_used_bytes", label);
    (budget == Budget::kResident ? dram.used_bytes : dram.reserved_bytes) += used;
    // What keeps blocks: the rest comes and goes with pushes, pulls and repair.
    if (budget == Budget::kResident) {
      dram.capacity_bytes = number(sum, "varve_tier_limit_bytes", label);
    }
  }
  dram.blocks = number(sum, "varve_tier_blocks");
  dram.hits = number(sum, "varve_match_hits_total", "tier=\"dram\"");
  dram.pulled_bytes = number(sum, "varve_pull_bytes_total", "tier=\"dram\"");
  control::Tier flash;
  flash.name = "flash";
  flash.admission = shard.flash_policy().admission;
  flash.eviction = shard.flash_policy().eviction;
  for (size_t t = 0; t < node_.targets.size(); ++t) {
    const std::string label = "target=\"" + std::to_string(t) + "\"";
    if (node_.targets[t].drained || !works(static_cast<uint32_t>(t))) continue;
    flash.capacity_bytes += number(sum, "varve_target_capacity_bytes", label);
    flash.used_bytes += number(sum, "varve_target_live_bytes", label);
    flash.reserved_bytes += number(sum, "varve_target_reserved_bytes", label);
  }
  flash.blocks =
      number(sum, "varve_index_blocks") -
      std::min(number(sum, "varve_index_blocks"), number(sum, "varve_index_away_blocks"));
  flash.hits = number(sum, "varve_match_hits_total", "tier=\"flash\"");
  flash.pulled_bytes = number(sum, "varve_pull_bytes_total", "tier=\"flash\"");
  return {dram, flash};
}

std::vector<control::Target> NodeIngress::targets() {
  const std::lock_guard<std::mutex> lock(node_.mutex);
  std::vector<control::Target> rows;
  for (uint32_t t = 0; t < node_.targets.size(); ++t)
    rows.push_back(row(t));
  return rows;
}

bool NodeIngress::works(uint32_t target) const {
  const NodeTarget& of = node_.targets[target];
  const std::string label = "target=\"" + std::to_string(target) + "\"";
  return of.lost.ok() && !of.failed_now &&
         number(node_.view.sum, "varve_target_ok_shards", label) >= node_.view.shards_counted;
}

control::Target NodeIngress::row(uint32_t target) const {
  const MetricSnapshot& sum = node_.view.sum;
  const NodeTarget& of = node_.targets[target];
  const std::string label = "target=\"" + std::to_string(target) + "\"";
  control::Target out;
  out.index = target;
  out.path = of.info.path;
  std::memcpy(out.uuid, of.info.super.target_uuid, sizeof(out.uuid));
  out.capacity_bytes = number(sum, "varve_target_capacity_bytes", label);
  out.live_bytes = number(sum, "varve_target_live_bytes", label);
  out.reserved_bytes = number(sum, "varve_target_reserved_bytes", label);
  out.free_segments = number(sum, "varve_target_free_segments", label);
  out.fragments = number(sum, "varve_target_fragments", label);
  out.limbo = number(sum, "varve_target_limbo", label);
  out.read_bytes = number(sum, "varve_device_read_bytes_total", label);
  out.written_bytes = number(sum, "varve_device_written_bytes_total", label);
  out.shards_ok = static_cast<uint32_t>(number(sum, "varve_target_ok_shards", label));
  out.shards = node_.config.shards;
  out.shards_suspect = static_cast<uint32_t>(number(sum, "varve_target_suspect", label));
  out.missed_purges = !of.witness.missed.empty();
  out.drained_by_setting = of.drain_set;
  out.scrub_running = number(sum, "varve_target_scrubbing", label) > 0;
  out.scrub_pass_bytes = number(sum, "varve_target_scrub_pass_bytes", label);
  out.scrub_pass_done_bytes = number(sum, "varve_target_scrub_pass_done_bytes", label);
  out.scrub_passes = number(sum, "varve_flash_scrub_passes_total", label);
  out.scrubbed_bytes = number(sum, "varve_flash_scrubbed_bytes_total", label);
  out.scrub_rot = number(sum, "varve_flash_scrub_rot_total", label);
  if (out.shards_suspect > 0) out.state = control::TargetState::kSuspect;
  if (of.draining) out.state = control::TargetState::kDraining;
  if (!works(target)) out.state = control::TargetState::kFailed;
  if (!of.lost.ok()) out.state = control::TargetState::kLost;
  if (of.drained) out.state = control::TargetState::kDrained;
  out.why = why_text(out, of);
  return out;
}

}  // namespace varve
