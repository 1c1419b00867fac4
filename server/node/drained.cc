// The end of a target that is being drained. It is marked before it is said to be removable, so
// that no start after the removal misses it, and one at which it is still there does not take what
// lies there for a part of the node.
#include <cinttypes>
#include <optional>

#include "server/node/node.h"

namespace varve {

namespace {

// Nothing more can come: its shards have told all that recovery found, and give it nothing new. Of
// one that did not answer the numbers may be of before it knew of the drain, and say so.
bool is_empty(const MetricSnapshot& sum, const std::string& label, size_t shards) {
  return sum.number("varve_target_ok_shards", label) == static_cast<int64_t>(shards) &&
         sum.number("varve_target_draining", label) == 1 &&
         sum.number("varve_recovering", "") == 0 &&
         sum.number("varve_target_fragments", label) == 0;
}

// What pushes of before the drain were promised there has come and gone: all that is live on it are
// records of purges.
bool is_quiet(const MetricSnapshot& sum, const std::string& label) {
  const int64_t records = sum.number("varve_flash_kills_live", label);
  return sum.number("varve_target_reserved_bytes", label) == 0 &&
         sum.number("varve_target_live_bytes", label) ==
             static_cast<int64_t>(bytes_of(static_cast<uint64_t>(records)));
}

// Durable blocks that recovery found and the index had no room for: they lie where they lay, on
// whichever target, and nobody has moved them.
int64_t left_out(const MetricSnapshot& sum) {
  return sum.number("varve_recovered_dropped_total", "reason=\"index_full\"");
}

// What cannot be read cannot be moved, however long one waits.
std::string unreadable_text(const MetricSnapshot& sum, const std::string& label) {
  const int64_t segments = sum.number("varve_flash_unreadable_segments_total", label);
  if (segments == 0) return "";
  return ", BUT FOR " + std::to_string(segments) +
         " SEGMENTS OF IT THAT CANNOT BE READ: what lies there was not moved, and is lost with it "
         "where no parity covers it";
}

// Which of the others a start without this one would be refused for, because nobody else knows of a
// purge that it missed: records of purges are not moved.
std::optional<uint32_t> needed_by(const Node& node, uint32_t target) {
  std::vector<flash::TargetLook> others;
  for (uint32_t t = 0; t < node.targets.size(); ++t) {
    if (t == target || node.targets[t].drained) continue;
    others.push_back({.index = t, .witness = node.targets[t].witness});
  }
  const std::vector<flash::Stale> stale = flash::stale_ones(others);
  return stale.empty() ? std::nullopt : std::optional<uint32_t>(stale.front().target);
}

Failure mark(const Node& node, uint32_t target) {
  TargetList list;
  Failure failure = reload_records(node.config.data_dir, &list);
  for (TargetRecord& record : list.records)
    record.drained = record.drained || record.index == target;
  if (failure.ok()) failure = save_records(node.config.data_dir, list);
  return failure;
}

// What is said of it at most once a minute while it stays as it is.
void say(Node& node, const std::string& text) {
  uint64_t swallowed = 0;
  if (!node.drained_log.admit(node.clock.now_ns(), &swallowed)) return;
  logf(LogLevel::kError, "main", "%s (%" PRIu64 " more times since the last line)", text.c_str(),
       swallowed);
}

// Why it may not be removed though it holds no block that the index knows; empty: it may.
std::string needed_text(const Node& node, const MetricSnapshot& sum, uint32_t target) {
  if (const int64_t blocks = left_out(sum); blocks > 0) {
    return "holds nothing that the index knows, but at this start " + std::to_string(blocks) +
           " fragments found no room in the index, and some may lie there: leave it where it is, "
           "and start with as many --shards as before, or so that the slices divide evenly";
  }
  if (const std::optional<uint32_t> other = needed_by(node, target)) {
    return "holds no block any more, but only it knows of purges that target " +
           std::to_string(*other) + " " + node.targets[*other].info.path +
           " missed: leave it where it is, and drain or replace that one first";
  }
  return {};
}

}  // namespace

bool see_drains(Node& node, const Seen& seen) {
  VARVE_ASSERT(seen.shards_counted <= node.config.shards, seen.shards_counted);
  if (seen.shards_counted < node.config.shards) return true;
  const MetricSnapshot& sum = seen.sum;
  const std::lock_guard<std::timed_mutex> list(node.list_mutex);  // N5
  bool kept = true;
  for (uint32_t t = 0; t < node.targets.size(); ++t) {
    std::unique_lock<std::mutex> lock(node.mutex);  // N4
    NodeTarget& target = node.targets[t];
    const std::string label = "target=\"" + std::to_string(t) + "\"";
    // Numbers that were asked for before it was drained say nothing of what came since.
    if (!target.draining || target.drain_round >= seen.round) continue;
    if (target.drained || !is_empty(sum, label, node.config.shards)) continue;
    if (target.drain_late && !is_quiet(sum, label)) continue;
    const std::string name = "target " + std::to_string(t) + " " + target.info.path + " ";
    if (const std::string needed = needed_text(node, sum, t); !needed.empty()) {
      say(node, name + needed);
      continue;
    }
    lock.unlock();
    if (const Failure failure = mark(node, t); !failure.ok()) {
      kept = false;
      say(node,
          name + "is empty, but that cannot be kept: " + failure.text + "; leave it where it is");
      continue;
    }
    lock.lock();
    target.drained = true;
    logf(LogLevel::kWarn, "main",
         "%sIS EMPTY AND MAY BE REMOVED%s: stop this daemon, take it out, and start %s; all else "
         "stays as it is, its place is free for another",
         name.c_str(), unreadable_text(sum, label).c_str(),
         target.drain_set ? "without this --drain-target" : "again");
  }
  return kept;
}

}  // namespace varve
