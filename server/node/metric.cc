// The metrics of a node: every shard is asked once a second, the sum is shown, and goes to one
// file.
#include <map>

#include "server/node/node.h"

namespace varve {

namespace {

constexpr Nanos kAnswerWait = kSecond;
constexpr Nanos kStillMax = 5 * kSecond;  // that a write may last unsaid
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
  const IoRegistered registered = thread.io->registered();
  add(snapshot,
      {"varve_io_registered_bytes", label,
       "Memory that io_uring has registered for disk I/O; 0: the kernel refused, or no io_uring."},
      Kind::kGauge, registered.bytes);
  add(snapshot,
      {"varve_io_registered_files", label, "Targets that io_uring has registered, likewise."},
      Kind::kGauge, registered.files);
  collect_devices(thread, snapshot);
  if (thread.index == kSessionShard && thread.formats.empty()) {
    thread.node.sessions->take_formats(&thread.formats);
  }
  thread.uses_answered = thread.shard->domain_use();
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

// What every domain has, by name, which cores do not know. Of one that was dropped something may
// be left until its purge has come to it.
void add_domain_use(const Node& node, MetricSnapshot& sum) {
  const Domains domains = node.domains.now();
  std::map<std::string, DomainUse> uses;
  for (const Domain& domain : domains.all())
    uses[domain.name] = {};
  for (const auto& thread : node.threads) {
    for (const DomainUse& use : thread->uses) {
      const Domain* domain = domains.find(use.domain);
      DomainUse& of = uses[domain != nullptr ? domain->name : "(dropped)"];
      of.dram_bytes += use.dram_bytes;
      of.flash_bytes += use.flash_bytes;
      of.blocks += use.blocks;
    }
  }
  for (const auto& [name, use] : uses) {
    const std::string label = "domain=\"" + name + "\"";
    add(sum,
        {"varve_domain_used_bytes", label + ",tier=\"dram\"",
         "In whole pages, by domain: resident in DRAM; live on flash, what is away included."},
        Kind::kGauge, use.dram_bytes);
    add(sum, {"varve_domain_used_bytes", label + ",tier=\"flash\"", "The same, on flash."},
        Kind::kGauge, use.flash_bytes);
  }
  for (const auto& [name, use] : uses) {
    add(sum, {"varve_domain_blocks", "domain=\"" + name + "\"", "Blocks in the index, by domain."},
        Kind::kGauge, use.blocks);
  }
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

// ---- on threads of their own (N5)

bool write_metrics(void* context) {
  Node& node = *static_cast<Node*>(context);
  node.metrics_failure = replace_metrics(node.config.metrics_path(), node.metrics_text);
  return node.metrics_failure.ok();
}

// In this order: one that is drained teaches nobody any more.
bool write_lists(void* context) {
  Node& node = *static_cast<Node*>(context);
  // Each says itself what it could not keep, and keeps no other from being kept.
  bool well = see_missed(node, node.lists_seen);
  well = see_drains(node, node.lists_seen) && well;
  well = see_domains(node, node.lists_seen) && well;
  return node.book.keep(node.config.data_dir, node.clock.now_ns(), kSecond) && well;
}

// ---- on main's

void say_still(Node& node, const FileThread& file, const std::string& what, LogLimit& limit) {
  const Nanos lasts_ns = file.under_way_ns();
  uint64_t swallowed = 0;
  if (lasts_ns < kStillMax || !limit.admit(node.clock.now_ns(), &swallowed)) return;
  logf(LogLevel::kError, "main",
       "%s: a write has not ended for %llu s; the node serves on, and stops all the same; look at "
       "the disk under it (%llu more times since the last line)",
       what.c_str(), static_cast<unsigned long long>(lasts_ns / kSecond),
       static_cast<unsigned long long>(swallowed));
}

void begin_files(Node& node, Seen seen, std::string text) {
  if (node.lists.idle()) {
    node.lists_seen = std::move(seen);
    node.lists.begin(write_lists, &node);
  }
  if (node.metrics_file.idle()) {
    const Failure failure = std::exchange(node.metrics_failure, {});
    uint64_t swallowed = 0;
    if (!failure.ok() && node.metrics_log.admit(node.clock.now_ns(), &swallowed)) {
      logf(LogLevel::kWarn, "main",
           "%s; the numbers in it are old (%llu more times since the last line)",
           failure.text.c_str(), static_cast<unsigned long long>(swallowed));
    }
    node.metrics_text = std::move(text);
    node.metrics_file.begin(write_metrics, &node);
  }
  say_still(node, node.lists, "the lists of " + node.config.data_dir, node.lists_still_log);
  say_still(node, node.metrics_file,
            "--metrics-file " + node.config.metrics_path() + ": the numbers in it are old",
            node.metrics_still_log);
}

// Asks every shard; one that does not answer within the bound keeps its last numbers.
NodeFacts ask_shards(Node& node, MetricSnapshot* sum, std::vector<bool>* answers) {
  NodeFacts facts;
  for (const auto& thread : node.threads) {
    answers->push_back(thread->call.run(*thread->reactor, collect, thread.get(), kAnswerWait));
    if (answers->back()) {
      thread->snapshot = std::move(thread->answered);
      thread->uses = std::move(thread->uses_answered);
      thread->has_snapshot = true;
      for (const std::vector<std::byte>& format : std::exchange(thread->formats, {}))
        (void)node.book.add(format);
    } else {
      ++facts.shards_stalled;
    }
    if (!thread->io_refusal.ok()) ++facts.shards_on_fallback;
    if (!thread->has_snapshot) continue;
    ++facts.shards_counted;
    sum->merge(thread->snapshot);
  }
  return facts;
}

// What the node itself adds to the numbers of its shards.
void add_own(Node& node, const NodeFacts& facts, MetricSnapshot& sum) {
  for (size_t t = 0; t < node.targets.size(); ++t) {
    add(sum,
        {"varve_target_missed", "target=\"" + std::to_string(t) + "\"",
         "1: purges were answered without it, or may have been; it may not start alone."},
        Kind::kGauge, node.targets[t].witness.missed.empty() ? 0 : 1);
    add(sum,
        {"varve_target_replaced_total", "target=\"" + std::to_string(t) + "\"",
         "Drives that were put in the place of this target while the node ran."},
        Kind::kCounter, node.targets[t].replaced);
  }
  add_domain_use(node, sum);
  add(sum, {"varve_sessions_limit", "", "How many there may be (--sessions)."}, Kind::kGauge,
      node.config.sessions);
  add(sum, {"varve_shards_stalled", "", "Shards that did not answer within a second."},
      Kind::kGauge, facts.shards_stalled);
  for (uint32_t r = 0; r < kDegradedReasons; ++r) {
    const auto reason = static_cast<DegradedReason>(r);
    add(sum,
        {"varve_degraded", std::string("reason=\"") + degraded_name(reason) + "\"",
         "1 while the node is worse than it should be for this reason."},
        Kind::kGauge, node.degraded.is(reason) ? 1 : 0);
  }
  const auto age = [&sum](const char* files, Nanos age_ns) {
    add(sum,
        {"varve_files_age_seconds", std::string("files=\"") + files + "\"",
         "Since the metrics file was last replaced, and the lists of the data folder last seen "
         "to."},
        Kind::kGauge, age_ns / kSecond);
  };
  age("metrics", node.metrics_file.age_ns());
  age("lists", node.lists.age_ns());
  if (node.control != nullptr) sum.merge(node.control->metrics());
}

}  // namespace

void see_node(Node& node) {
  Seen seen;
  {
    const std::lock_guard<std::mutex> lock(node.mutex);  // N4
    seen.round = ++node.round;
  }
  std::vector<bool> answers;
  NodeFacts facts = ask_shards(node, &seen.sum, &answers);
  MetricSnapshot sum = seen.sum;
  seen.shards_counted = facts.shards_counted;
  node.shards_stalled = facts.shards_stalled;
  std::string text;
  {
    const std::lock_guard<std::mutex> lock(node.mutex);  // N4
    for (const NodeTarget& target : node.targets) {
      facts.drained |= target.drained ? 1u << facts.target_lost.size() : 0;
      facts.target_lost.push_back(!target.lost.ok());
    }
    node.degraded.see(degraded_seen(sum, facts), node.clock.now_ns());
    add_own(node, facts, sum);
    text = prometheus_text(sum);
    node.watch.see(text, health_of(node, sum, facts));
    publish(node, std::move(sum), facts.shards_counted, std::move(answers));
  }
  begin_files(node, std::move(seen), std::move(text));
}

Failure see_node_whole(Node& node, Nanos limit_ns, std::string* unended) {
  unended->clear();
  const Nanos until_ns = node.clock.now_ns() + limit_ns;
  const auto left_ns = [&node, until_ns] {
    const Nanos now_ns = node.clock.now_ns();
    return now_ns < until_ns ? until_ns - now_ns : 0;
  };
  // Of the round before: what is to be written now is this one's.
  (void)node.lists.rest(left_ns() / 2);
  (void)node.metrics_file.rest(left_ns() / 2);
  see_node(node);
  // What still wrote an older round when this one was seen was given nothing of it.
  const bool listed = node.lists.rest(left_ns()) && node.lists_seen.round == node.round;
  const bool shown = node.metrics_file.rest(left_ns());
  if (!listed) *unended = "the lists of " + node.config.data_dir;
  if (!shown) {
    *unended +=
        (unended->empty() ? "" : " and ") + ("--metrics-file " + node.config.metrics_path());
  }
  return shown ? std::exchange(node.metrics_failure, {}) : Failure{};
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

}  // namespace varve
