// The end of a target that is being drained. It is marked before it is said to be removable, so
// that no start after the removal misses it, and one at which it is still there does not take what
// lies there for a part of the node.
#include <cinttypes>

#include "server/node/node.h"

namespace varve {

namespace {

// Nothing more can come: its shards have told all that recovery found, and give it nothing new.
bool is_empty(const MetricSnapshot& sum, const std::string& label, size_t shards) {
  return sum.number("varve_target_ok_shards", label) == static_cast<int64_t>(shards) &&
         sum.number("varve_recovering", "") == 0 &&
         sum.number("varve_target_fragments", label) == 0;
}

Failure mark(const Node& node, uint32_t target) {
  TargetList list;
  Failure failure = load_records(node.config.data_dir, &list);
  for (TargetRecord& record : list.records)
    record.drained = record.drained || record.index == target;
  if (failure.ok()) failure = save_records(node.config.data_dir, list);
  return failure;
}

}  // namespace

void see_drains(Node& node, const MetricSnapshot& sum, uint32_t shards_counted) {
  VARVE_ASSERT(shards_counted <= node.config.shards, shards_counted);
  if (shards_counted < node.config.shards) return;
  for (uint32_t t = 0; t < node.targets.size(); ++t) {
    NodeTarget& target = node.targets[t];
    const std::string label = "target=\"" + std::to_string(t) + "\"";
    if (!target.draining || target.drained || !is_empty(sum, label, node.config.shards)) continue;
    const char* path = target.info.path.c_str();
    if (const Failure failure = mark(node, t); !failure.ok()) {
      uint64_t swallowed = 0;
      if (!node.drained_log.admit(node.clock.now_ns(), &swallowed)) continue;
      logf(LogLevel::kError, "main",
           "target %u %s is empty, but that cannot be kept: %s; leave it where it is (%" PRIu64
           " more times since the last line)",
           t, path, failure.text.c_str(), swallowed);
      continue;
    }
    target.drained = true;
    logf(LogLevel::kWarn, "main",
         "target %u %s IS EMPTY AND MAY BE REMOVED: stop this daemon, take it out, and start "
         "without this --drain-target; all else stays as it is, its place is free for another",
         t, path);
  }
}

}  // namespace varve
