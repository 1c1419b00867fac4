// The metrics of a node: every shard is asked once a second, the sum goes to one file.
#include "server/node/node.h"

namespace varve {

namespace {

constexpr Nanos kAnswerWait = kSecond;
using Kind = MetricSnapshot::Value::Kind;

void add(MetricSnapshot& snapshot, MetricName name, Kind kind, uint64_t number) {
  snapshot.append({std::move(name), kind, static_cast<int64_t>(number), {}});
}

void collect(void* context) {
  auto& thread = *static_cast<ShardThread*>(context);
  MetricSnapshot snapshot = thread.shard->metrics();
  if (thread.index == kSessionShard) snapshot.merge(thread.node.session_metrics.snapshot());
  const Reactor::Counters& counters = thread.reactor->counters();
  const std::string label = "shard=\"" + std::to_string(thread.index) + "\"";
  add(snapshot, {"varve_reactor_turns_total", label, "Turns of the core."}, Kind::kCounter,
      counters.turns);
  add(snapshot, {"varve_reactor_sleeps_total", label, "Turns that ended in a sleep."},
      Kind::kCounter, counters.sleeps);
  add(snapshot, {"varve_reactor_messages_total", label, "Mailbox messages."}, Kind::kCounter,
      counters.messages);
  add(snapshot,
      {"varve_io_backend", std::string("kind=\"") + thread.io->name() + "\"",
       "Shards on this kind of I/O."},
      Kind::kGauge, 1);
  thread.snapshot = std::move(snapshot);
}

// What the numbers of this second say about the state of the node.
DegradedSeen seen(const Node& node, const MetricSnapshot& sum, uint32_t stalled) {
  DegradedSeen out;
  for (uint32_t t = 0; t < node.targets.size(); ++t) {
    const std::string label = "target=\"" + std::to_string(t) + "\"";
    const int64_t ok = sum.number("varve_target_ok_shards", label);
    if (!node.targets[t].lost.ok() || ok + stalled < node.config.shards) ++out.targets_failed;
  }
  for (const auto& thread : node.threads) {
    if (!thread->io_refusal.ok()) ++out.shards_on_fallback;
  }
  out.shards_stalled = stalled;
  const auto counted = [&sum](const char* name, const char* labels) {
    return static_cast<uint64_t>(sum.number(name, labels));
  };
  out.shards_recovering = counted("varve_recovering", "");
  out.refused_no_space = counted("varve_reserve_refused_total", "reason=\"no_space\"");
  out.committed = counted("varve_push_committed_total", "ack=\"cached\"") +
                  counted("varve_push_committed_total", "ack=\"durable\"");
  out.asked = counted("varve_match_ids_total", "");
  out.hits = counted("varve_match_hits_total", "tier=\"dram\"") +
             counted("varve_match_hits_total", "tier=\"flash\"");
  return out;
}

}  // namespace

int32_t write_metrics(Node& node) {
  MetricSnapshot sum;
  uint32_t stalled = 0;
  for (const auto& thread : node.threads) {
    // A shard that does not answer within the bound keeps its last numbers and is counted.
    if (thread->call.run(*thread->reactor, collect, thread.get(), kAnswerWait)) {
      sum.merge(thread->snapshot);
    } else {
      ++stalled;
    }
  }
  add(sum, {"varve_shards_stalled", "", "Shards that did not answer within a second."},
      Kind::kGauge, stalled);
  node.degraded.see(seen(node, sum, stalled), node.clock.now_ns());
  for (uint32_t r = 0; r < kDegradedReasons; ++r) {
    const auto reason = static_cast<DegradedReason>(r);
    add(sum,
        {"varve_degraded", std::string("reason=\"") + degraded_name(reason) + "\"",
         "1 while the node is worse than it should be for this reason."},
        Kind::kGauge, node.degraded.is(reason) ? 1 : 0);
  }
  return replace_file(node.config.metrics_path(), sum.prometheus_text(), Durability::kNone);
}

void rewrite_metrics(Node& node) {
  const int32_t error = write_metrics(node);
  uint64_t swallowed = 0;
  if (error == 0 || !node.metrics_log.admit(node.clock.now_ns(), &swallowed)) return;
  logf(LogLevel::kWarn, "main",
       "--metrics-file %s is not written%s (%llu more times since the last line); what is in it is "
       "old; free space or check the folder",
       node.config.metrics_path().c_str(), errno_suffix(error).c_str(),
       static_cast<unsigned long long>(swallowed));
}

}  // namespace varve
