// What targets see of the purges of this node is written down while it is so: at a start at which
// only such come back that missed some nobody else remembers.
#include <cinttypes>

#include "server/node/node.h"

namespace varve {

namespace {

std::vector<flash::WitnessNow> witnesses(const Node& node, const MetricSnapshot& sum) {
  std::vector<flash::WitnessNow> all;
  for (size_t t = 0; t < node.targets.size(); ++t) {
    const NodeTarget& target = node.targets[t];
    const std::string label = "target=\"" + std::to_string(t) + "\"";
    const int64_t ok = sum.number("varve_target_ok_shards", label);
    const int64_t kept = sum.number("varve_target_kills_missed", label);
    all.push_back({.witness = target.witness,
                   .works = ok == static_cast<int64_t>(node.config.shards),
                   .kept = static_cast<uint32_t>(kept),
                   .drained = target.drained});
  }
  return all;
}

Failure keep(const Node& node, const std::vector<flash::WitnessNow>& all) {
  TargetList list;
  Failure failure = reload_records(node.config.data_dir, &list);
  for (TargetRecord& record : list.records) {
    if (record.index < all.size()) note_witness(all[record.index].witness, &record);
  }
  if (failure.ok()) failure = save_records(node.config.data_dir, list);
  return failure;
}

}  // namespace

bool see_missed(Node& node, const Seen& seen) {
  VARVE_ASSERT(seen.shards_counted <= node.config.shards, seen.shards_counted);
  if (seen.shards_counted < node.config.shards) return true;
  const std::lock_guard<std::timed_mutex> list(node.list_mutex);  // N5
  std::unique_lock<std::mutex> lock(node.mutex);                  // N4
  std::vector<flash::WitnessNow> all = witnesses(node, seen.sum);
  flash::witness_now(all, node.targets.front().info.super.boot_generation,
                     seen.sum.number("varve_recovering", "") > 0);
  bool changed = false;
  for (size_t t = 0; t < all.size(); ++t)
    changed = changed || all[t].witness != node.targets[t].witness;
  lock.unlock();
  if (!changed) return true;
  if (const Failure failure = keep(node, all); !failure.ok()) {
    uint64_t swallowed = 0;
    if (!node.missed_log.admit(node.clock.now_ns(), &swallowed)) return false;
    logf(LogLevel::kError, "main",
         "targets miss purges, and that cannot be kept: %s; a start with those alone would "
         "bring back what is purged (%" PRIu64 " more times since the last line)",
         failure.text.c_str(), swallowed);
    return false;
  }
  lock.lock();
  for (size_t t = 0; t < all.size(); ++t) {
    NodeTarget& target = node.targets[t];
    if (std::exchange(target.witness, all[t].witness) == all[t].witness) continue;
    const std::vector<flash::Starts>& missed = target.witness.missed;
    const bool misses = !missed.empty() && missed.back().end == 0;
    const char* what = "knows of every purge again";
    if (misses) {
      what = "misses what is purged from now on: the next start needs one that works beside it";
    } else if (!missed.empty()) {
      what = "takes purges again; what it missed is known to others, which a start needs beside it";
    }
    logf(misses ? LogLevel::kWarn : LogLevel::kInfo, "main", "target %zu %s %s", t,
         target.info.path.c_str(), what);
  }
  return true;
}

}  // namespace varve
