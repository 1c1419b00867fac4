// What the operator changes: targets that are drained, given up or scrubbed, and the end of the
// node. Each is said on the log, because somebody will ask who did it.
#include <cinttypes>
#include <cstring>

#include "server/node/ingress.h"

namespace varve {

namespace {

using control::Refusal;

struct SetDraining {
  Shard* shard;
  uint32_t target;
  Draining draining;
  void on_core() { shard->draining_set(target, draining); }
};

struct FailTarget {
  Shard* shard;
  uint32_t target;
  void on_core() {
    shard->flash().fail_target(target, Status::unavailable("the operator declared it failed"));
  }
};

struct StartScrub {
  Shard* shard;
  uint32_t targets;  // bits
  uint32_t begun = 0, running = 0;
  void on_core() {
    flash::Flash& flash = shard->flash();
    for (uint32_t t = 0; t < flash.target_count(); ++t) {
      if ((targets >> t & 1) == 0) continue;
      const bool ran = flash.usage(t).scrub_running;
      if (flash.scrub_start(t)) begun |= 1u << t;
      if (ran) running |= 1u << t;
    }
  }
};

}  // namespace

control::Answer<Nanos> NodeIngress::drain() {
  const std::lock_guard<std::mutex> lock(node_.mutex);
  if (!node_.draining && !node_.stop_wanted) {
    logf(LogLevel::kWarn, "control", "the node is to stop, as it was asked");
  }
  node_.stop_wanted = true;
  return Nanos{node_.config.drain_ms} * kMillisecond;
}

bool stop_wanted(Node& node) {
  const std::lock_guard<std::mutex> lock(node.mutex);
  return node.stop_wanted;
}

std::optional<Refusal> NodeIngress::refuse_name(const control::TargetName& name) const {
  const size_t count = node_.targets.size();
  if (name.index >= count) {
    return Refusal::not_found("there is no target " + std::to_string(name.index) +
                              "; this node has 0 to " + std::to_string(count - 1));
  }
  const NodeTarget& target = node_.targets[name.index];
  const auto& uuid = target.info.super.target_uuid;
  if (name.has_uuid && std::memcmp(name.uuid, uuid, sizeof(uuid)) != 0) {
    return Refusal::state("target " + std::to_string(name.index) + ", " + target.info.path +
                          ", has uuid " + to_hex(uuid) + ", not " + to_hex(name.uuid) +
                          "; list the targets");
  }
  return std::nullopt;
}

// Targets that take fragments, but for this one.
uint32_t NodeIngress::working_without(uint32_t target) const {
  uint32_t count = 0;
  for (uint32_t t = 0; t < node_.targets.size(); ++t) {
    const NodeTarget& other = node_.targets[t];
    count += t != target && works(t) && !other.drained && !other.draining ? 1 : 0;
  }
  return count;
}

control::Answer<std::unique_lock<std::timed_mutex>> lock_list(Node& node, Nanos limit_ns) {
  std::unique_lock<std::timed_mutex> lock(node.list_mutex, std::defer_lock);
  if (lock.try_lock_for(std::chrono::nanoseconds(limit_ns))) return lock;
  return Refusal::of(Code::kTimedOut,
                     "a write of " + node.config.data_dir +
                         "/targets.list has not ended; look at the disk of that folder");
}

Failure NodeIngress::keep_draining(uint32_t target, Draining draining) {
  TargetList list;
  Failure failure = reload_records(node_.config.data_dir, &list);
  for (TargetRecord& record : list.records) {
    if (record.index == target) record.draining = draining == Draining::kOn;
  }
  if (failure.ok()) failure = save_records(node_.config.data_dir, list);
  return failure;
}

// What a core takes late it takes all the same: the list says it, and the question stays with it.
control::Answer<control::Target> NodeIngress::tell_draining(uint32_t target, Draining draining,
                                                            const Until& until) {
  std::optional<Refusal> late;
  for (uint32_t s = 0; s < node_.threads.size(); ++s) {
    auto told = ask(s, SetDraining{node_.threads[s]->shard.get(), target, draining}, until);
    if (!told && !late) late = told.refusal();
  }
  if (late) return *late;
  const std::lock_guard<std::mutex> lock(node_.mutex);
  return row(target);
}

control::Answer<control::Target> NodeIngress::target_drain(const control::TargetName& name,
                                                           Nanos limit_ns) {
  const Until until = this->until(limit_ns);
  auto change = begin_change(until);
  if (!change) return change.refusal();
  auto list = lock_list(node_, until.left_ns());  // N5
  if (!list) return list.refusal();
  std::unique_lock<std::mutex> lock(node_.mutex);
  if (auto refusal = refuse_name(name)) return *refusal;
  NodeTarget& target = node_.targets[name.index];
  const std::string text = "target " + std::to_string(name.index) + ", " + target.info.path;
  if (target.drained || (target.draining && target.lost.ok())) return row(name.index);
  if (!works(name.index)) {
    return Refusal::state(
        text +
        ", does not work, so nothing can be copied from it; what parity covers is "
        "rebuilt on the others by itself");
  }
  const uint32_t width = node_.config.scheme.width();
  if (const uint32_t left = working_without(name.index); left < width) {
    return Refusal::state("besides " + text + ", " + std::to_string(left) +
                          " targets work and are not drained, but scheme " +
                          node_.config.scheme.text() + " puts a block on " + std::to_string(width) +
                          ", so nothing could be moved; give this node more targets first");
  }
  if (!node_.threads.front()->shard->can_drain()) {
    return Refusal::state(
        "--repair-mb-per-s is 0, and moving blocks is the work of repair; restart this node with a "
        "rate");
  }
  if (values_.repair_mb_per_s == 0) {
    return Refusal::state(
        "repair is paused, and moving blocks is its work: set the policy repair_mb_per_s to a "
        "rate, then drain");
  }
  lock.unlock();
  if (const Failure failure = keep_draining(name.index, Draining::kOn); !failure.ok()) {
    return Refusal::of(Code::kIo, failure.text + "; nothing was changed");
  }
  lock.lock();
  target.draining = target.drain_kept = target.drain_late = true;
  target.drain_round = node_.round;
  logf(LogLevel::kWarn, "control",
       "target %u %s IS BEING DRAINED, as the operator asked, also after a restart: it takes "
       "nothing new, and what it holds is copied to the others; wait for the line that says that "
       "it may be removed",
       name.index, target.info.path.c_str());
  lock.unlock();
  list->unlock();
  return tell_draining(name.index, Draining::kOn, until);
}

control::Answer<control::Target> NodeIngress::target_undrain(const control::TargetName& name,
                                                             Nanos limit_ns) {
  const Until until = this->until(limit_ns);
  auto change = begin_change(until);
  if (!change) return change.refusal();
  auto list = lock_list(node_, until.left_ns());  // N5
  if (!list) return list.refusal();
  std::unique_lock<std::mutex> lock(node_.mutex);
  if (auto refusal = refuse_name(name)) return *refusal;
  NodeTarget& target = node_.targets[name.index];
  if (target.drain_set) {
    return Refusal::state("target " + std::to_string(name.index) + ", " + target.info.path +
                          ", is drained by --drain-target; restart without that setting");
  }
  if (!target.drain_kept) return row(name.index);
  lock.unlock();
  if (const Failure failure = keep_draining(name.index, Draining::kOff); !failure.ok()) {
    return Refusal::of(Code::kIo, failure.text + "; nothing was changed");
  }
  lock.lock();
  target.drain_kept = false;
  logf(LogLevel::kWarn, "control", "target %u %s is no longer drained, as the operator asked%s",
       name.index, target.info.path.c_str(),
       target.drained ? "; it is empty, and is formatted and used from the next start on" : "");
  // Nobody misses what was marked as drained, and purges since then are not known to it.
  if (target.drained) return row(name.index);
  target.draining = target.drain_late = false;
  lock.unlock();
  list->unlock();
  return tell_draining(name.index, Draining::kOff, until);
}

// The caller has set failed_now: the numbers say so in a second, and the next call may come before.
std::optional<Refusal> NodeIngress::fail_on_cores(uint32_t target, const Until& until) {
  std::optional<Refusal> late;
  for (uint32_t s = 0; s < node_.threads.size(); ++s) {
    auto told = ask(s, FailTarget{node_.threads[s]->shard.get(), target}, until);
    if (!told && !late) late = told.refusal();
  }
  return late;
}

// Behind no other change: what that one waits for may be the very disk that is to be given up.
control::Answer<control::Target> NodeIngress::target_fail(const control::TargetName& name,
                                                          control::Force force, Nanos limit_ns) {
  const Until until = this->until(limit_ns);
  if (auto refusal = refuse_stopping()) return *refusal;
  std::unique_lock<std::mutex> lock(node_.mutex);
  if (auto refusal = refuse_name(name)) return *refusal;
  NodeTarget& target = node_.targets[name.index];
  uint32_t left = 0;
  for (uint32_t t = 0; t < node_.targets.size(); ++t)
    left += t != name.index && works(t) && !node_.targets[t].drained ? 1 : 0;
  const Scheme scheme = node_.config.scheme;
  if (works(name.index) && left < scheme.k && force == control::Force::kNo) {
    return Refusal::state("without target " + std::to_string(name.index) + " " +
                          std::to_string(left) + " targets work, and blocks of scheme " +
                          scheme.text() + " need " + std::to_string(scheme.k) +
                          ": everything would be away; say force to do it all the same");
  }
  logf(LogLevel::kError, "control",
       "target %u %s IS DECLARED FAILED by the operator: no I/O to it until the next start, or "
       "until it is replaced",
       name.index, target.info.path.c_str());
  target.failed_now = true;  // under the lock of the question above
  lock.unlock();
  if (auto late = fail_on_cores(name.index, until)) return *late;
  lock.lock();
  control::Target out = row(name.index);  // of a second ago: it failed just now
  if (out.state != control::TargetState::kLost && out.state != control::TargetState::kDrained) {
    out.state = control::TargetState::kFailed;
    out.shards_ok = 0;
    out.why =
        "it failed in this run: what parity covers is rebuilt, the rest is away; check the drive "
        "and restart, or replace it";
  }
  return out;
}

control::Answer<control::ScrubBegun> NodeIngress::scrub(const std::vector<uint32_t>& targets,
                                                        Nanos limit_ns) {
  const Until until = this->until(limit_ns);
  if (auto refusal = refuse_stopping()) return *refusal;
  uint32_t bits = targets.empty() ? ~0u : 0;
  {
    const std::lock_guard<std::mutex> lock(node_.mutex);
    for (const uint32_t target : targets) {
      if (auto refusal = refuse_name({.index = target})) return *refusal;
      bits |= 1u << target;
    }
  }
  uint32_t begun = 0, running = 0;
  for (uint32_t s = 0; s < node_.threads.size(); ++s) {
    auto told = ask(s, StartScrub{node_.threads[s]->shard.get(), bits}, until);
    if (!told) return told.refusal();
    begun |= told->begun;
    running |= told->running;
  }
  control::ScrubBegun out;
  out.begun = static_cast<uint32_t>(std::popcount(begun));
  out.running = static_cast<uint32_t>(std::popcount(running & ~begun));
  logf(LogLevel::kInfo, "control", "scrub: %u targets begin a pass, %u were in one", out.begun,
       out.running);
  return out;
}

}  // namespace varve
