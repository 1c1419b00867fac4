// The metrics of a node: every shard is asked once a second, the sum goes to one file.
#include "server/node/node.h"

namespace varve {

namespace {

constexpr Nanos kAnswerWait = kSecond;
using Kind = MetricSnapshot::Value::Kind;

void add(MetricSnapshot& snapshot, MetricName name, Kind kind, uint64_t number) {
  snapshot.append({std::move(name), kind, static_cast<int64_t>(number), {}});
}

void collect_devices(const ShardThread& thread, MetricSnapshot& snapshot) {
  for (size_t t = 0; t < thread.devices.size(); ++t) {
    const BlockDevice::Counters& counters = thread.devices[t]->counters();
    const std::string label = "target=\"" + std::to_string(t) + "\"";
    const auto counter = [&](const char* name, uint64_t number, const char* help) {
      add(snapshot, {std::string("varve_device_") + name, label, help}, Kind::kCounter, number);
    };
    counter("reads_total", counters.reads, "requests to read");
    counter("read_bytes_total", counters.read_bytes, "bytes read, whatever they were for");
    counter("writes_total", counters.writes, "requests to write");
    counter("written_bytes_total", counters.written_bytes,
            "bytes written: fragments, headers, footers, checkpoints and copies");
    counter("flushes_total", counters.flushes, "flushes");
  }
}

// A target whose file was taken away under it is failed like a drive that was pulled: what it
// still serves would be gone at the next start, so it is rebuilt on the others while it can be.
void fail_what_is_gone(ShardThread& thread) {
  for (uint32_t t = 0; t < thread.devices.size(); ++t) {
    if (thread.devices[t]->failed()) continue;
    const Status cause = thread.devices[t]->gone();
    if (!cause.ok()) thread.shard->flash().fail_target(t, cause);
  }
}

void collect(void* context) {
  auto& thread = *static_cast<ShardThread*>(context);
  fail_what_is_gone(thread);
  MetricSnapshot snapshot = thread.shard->metrics();
  if (thread.index == kSessionShard) snapshot.merge(thread.node.session_metrics.snapshot());
  const Reactor::Counters& counters = thread.reactor->counters();
  const std::string label = "shard=\"" + std::to_string(thread.index) + "\"";
  add(snapshot, {"varve_reactor_turns_total", label, "Turns of the core."}, Kind::kCounter,
      counters.turns);
  add(snapshot, {"varve_reactor_sleeps_total", label, "Turns that ended in a sleep."},
      Kind::kCounter, counters.sleeps);
  add(snapshot,
      {"varve_reactor_standstills_total", label,
       "Times the core came to its next turn a second late or more."},
      Kind::kCounter, counters.standstills);
  add(snapshot, {"varve_reactor_messages_total", label, "Mailbox messages."}, Kind::kCounter,
      counters.messages);
  add(snapshot,
      {"varve_io_backend", std::string("kind=\"") + thread.io->name() + "\"",
       "Shards on this kind of I/O."},
      Kind::kGauge, 1);
  collect_devices(thread, snapshot);
  if (thread.index == kSessionShard && thread.formats.empty()) {
    thread.node.sessions->take_formats(&thread.formats);
  }
  thread.answered = std::move(snapshot);
}

NodeHealth health_of(const Node& node, const MetricSnapshot& sum, const NodeFacts& facts) {
  NodeHealth health;
  health.shards_stalled = facts.shards_stalled;
  health.shards_recovering = static_cast<uint32_t>(sum.number("varve_recovering", ""));
  health.targets_least = node.config.scheme.k;
  for (size_t t = 0; t < node.targets.size(); ++t) {
    const int64_t ok = sum.number("varve_target_ok_shards", "target=\"" + std::to_string(t) + "\"");
    if (ok == static_cast<int64_t>(facts.shards_counted)) ++health.targets_work;
  }
  return health;
}

// What the control plane is told until the next look.
void publish(Node& node, MetricSnapshot sum, uint32_t shards_counted, std::vector<bool> answers) {
  NodeView& view = node.view;
  view.sum = std::move(sum);
  view.at_ns = node.clock.now_ns();
  view.shards_counted = shards_counted;
  view.answers = std::move(answers);
  for (uint32_t r = 0; r < kDegradedReasons; ++r)
    view.degraded[r] = node.degraded.is(static_cast<DegradedReason>(r));
  if (node.control != nullptr) node.control->readiness_set(readiness(node));
}

}  // namespace

Failure write_metrics(Node& node) {
  MetricSnapshot sum;
  NodeFacts facts;
  std::vector<bool> answers;
  {
    const std::lock_guard<std::mutex> lock(node.mutex);  // N4
    for (NodeTarget& target : node.targets)
      target.drain_new = false;
  }
  for (const auto& thread : node.threads) {
    // A shard that does not answer within the bound keeps its last numbers and is counted.
    if (thread->call.run(*thread->reactor, collect, thread.get(), kAnswerWait)) {
      thread->snapshot = std::move(thread->answered);
      thread->has_snapshot = true;
      for (const std::vector<std::byte>& format : std::exchange(thread->formats, {}))
        (void)node.book.add(node.config.data_dir, format);
      answers.push_back(true);
    } else {
      answers.push_back(false);
      ++facts.shards_stalled;
    }
    if (!thread->io_refusal.ok()) ++facts.shards_on_fallback;
    if (!thread->has_snapshot) continue;
    ++facts.shards_counted;
    sum.merge(thread->snapshot);
  }
  node.shards_stalled = facts.shards_stalled;
  node.book.keep(node.config.data_dir, node.clock.now_ns());
  const std::unique_lock<std::mutex> lock(node.mutex);  // N4
  // In this order: one that is drained teaches nobody any more.
  see_missed(node, sum, facts.shards_counted);
  see_drains(node, sum, facts.shards_counted);
  see_domains(node, sum, facts.shards_counted);
  for (const NodeTarget& target : node.targets) {
    facts.drained |= target.drained ? 1u << facts.target_lost.size() : 0;
    facts.target_lost.push_back(!target.lost.ok());
  }
  for (size_t t = 0; t < node.targets.size(); ++t) {
    add(sum,
        {"varve_target_missed", "target=\"" + std::to_string(t) + "\"",
         "1: purges were answered without it, or may have been; it may not start alone."},
        Kind::kGauge, node.targets[t].witness.missed.empty() ? 0 : 1);
  }
  add(sum, {"varve_shards_stalled", "", "Shards that did not answer within a second."},
      Kind::kGauge, facts.shards_stalled);
  node.degraded.see(degraded_seen(sum, facts), node.clock.now_ns());
  for (uint32_t r = 0; r < kDegradedReasons; ++r) {
    const auto reason = static_cast<DegradedReason>(r);
    add(sum,
        {"varve_degraded", std::string("reason=\"") + degraded_name(reason) + "\"",
         "1 while the node is worse than it should be for this reason."},
        Kind::kGauge, node.degraded.is(reason) ? 1 : 0);
  }
  if (node.control != nullptr) sum.merge(node.control->metrics());
  std::string text = prometheus_text(sum);
  Failure failure = replace_metrics(node.config.metrics_path(), text);
  node.watch.see(std::move(text), health_of(node, sum, facts));
  publish(node, std::move(sum), facts.shards_counted, std::move(answers));
  return failure;
}

Failure open_monitor(Node& node) {
  const std::string& address = node.config.http;
  if (address == kNoListener) return {};
  Result<std::unique_ptr<Monitor>> monitor = Monitor::open(
      {.address = address, .threads = kHttpThreads, .waiting = kHttpWaiting}, node.watch);
  if (!monitor) {
    return environment("--http " + address + ": " + monitor.error().what() +
                       errno_suffix(monitor.error().errno_value()) +
                       "; give another address, or none");
  }
  node.monitor = *std::move(monitor);
  logf(LogLevel::kInfo, "main", "metrics at http://%s/metrics, probes at /healthz and /readyz",
       node.monitor->address().c_str());
  return {};
}

void rewrite_metrics(Node& node) {
  const Failure failure = write_metrics(node);
  uint64_t swallowed = 0;
  if (failure.ok() || !node.metrics_log.admit(node.clock.now_ns(), &swallowed)) return;
  logf(LogLevel::kWarn, "main",
       "%s; the numbers in it are old (%llu more times since the last line)", failure.text.c_str(),
       static_cast<unsigned long long>(swallowed));
}

}  // namespace varve
