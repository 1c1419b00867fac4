// ReplaceTarget: another drive in the place of a target that failed, while the node runs
// (ADR-0008).
//
// Refused or vacated, written down, formatted, handed over to each core. What a core is asked is
// void once its asker has given up, so that no core opens what a later call has put there; a call
// that comes again goes on where the one before ended.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstring>
#include <memory>

#include "server/node/ingress.h"
#include "server/node/newcomer.h"

namespace varve {

namespace {

using control::Refusal;

constexpr auto kPause = std::chrono::milliseconds(20);
constexpr const char* kWorks = ", works: fail or drain it first";

struct AskReplaceable {
  Shard* shard;
  uint32_t target;
  Status why = {};
  void on_core() { why = shard->replaceable(target); }
};

// Of a core that has taken it.
bool has_failed(const Shard& shard, uint32_t target) {
  return shard.replaceable(target).code() != Code::kInvalid;  // "it works", also while it is read
}

struct AskWorks {
  Shard* shard;
  uint32_t target;
  bool works = false, failed = false;
  void on_core() {
    works = shard->flash().target_ok(target);
    failed = has_failed(*shard, target);
  }
};

struct AskGenerations {
  Shard* shard;
  flash::Generations rows = {};
  void on_core() { rows = shard->flash().generations(); }
};

struct TakeTarget {
  const Node* node;
  ShardThread* thread;
  flash::TargetInfo info;
  Nanos until_ns;
  Status status = {};

  bool has_it() const {
    uint64_t key = 0;
    std::memcpy(&key, info.super.target_uuid, sizeof(key));
    return thread->shard->flash().target_key(info.super.target_index) == key;
  }
  void on_core() {
    if (node->clock.now_ns() >= until_ns) {
      status = Status::unavailable("the time of the call was over");
      return;
    }
    const uint32_t index = info.super.target_index;
    status = thread->shard->replaceable(index);
    if (has_it()) {  // an earlier call came so far
      status = has_failed(*thread->shard, index)
                   ? Status::invalid("it failed since it was taken in")
                   : Status();
      return;
    }
    if (!status.ok()) return;
    Result<std::unique_ptr<BlockDevice>> device = open_device(*node, *thread, index);
    if (!device) {
      status = device.error();
      return;
    }
    BlockDevice* opened = device->get();
    status = thread->shard->replace(info, *std::move(device));
    if (status.ok()) thread->devices[index] = opened;
  }
};

}  // namespace

std::optional<Refusal> NodeIngress::refuse_replace(const control::TargetName& name,
                                                   const std::string& path) const {
  if (auto refusal = refuse_name(name)) return refusal;
  const NodeTarget& target = node_.targets[name.index];
  const std::string& place = target.info.path;
  const std::string text = "target " + std::to_string(name.index) + ", " + place;
  if (works(name.index) && !target.drained) {
    return Refusal::state(
        text + (target.draining ? ", is being drained: wait until it is empty" : kWorks));
  }
  if (node_.view.at_ns == 0 ||
      node_.view.degraded[static_cast<uint8_t>(DegradedReason::kRecovering)]) {
    return Refusal::of(Code::kUnavailable,
                       "the node still rebuilds its index; try again when it serves");
  }
  if (!target.drained && !target.failed_now && !target.coming && row(name.index).shards_ok > 0) {
    return Refusal::state(text +
                          ", failed for some cores only, others read it still: fail it "
                          "first, which says what that would cost");
  }
  if (target.drain_set) {
    return Refusal::state(text +
                          ", is drained by --drain-target; restart without that setting, with the "
                          "blank drive in its place");
  }
  if (!path.empty() && !same_place(path, place)) {
    return Refusal::state(
        text +
        ", has that path in the settings of this node: put the blank drive under it, or "
        "stop the node, give " +
        path + " in its place there, and start it again");
  }
  if (node_.config.faults.stuck_target == name.index) {
    return Refusal::state(text + ", is that of --fault-stuck-target; restart without it");
  }
  return std::nullopt;
}

// Every core is through with it, and begins nothing with it again.
std::optional<Refusal> NodeIngress::vacate(uint32_t target, const Until& until) {
  if (auto late = fail_on_cores(target, until)) return late;
  const Nanos limit_ns = until.left_ns() / 2;  // the rest is for the other drive
  const Until vacant = this->until(limit_ns);
  while (true) {
    Status why;
    for (uint32_t s = 0; s < node_.threads.size() && why.ok(); ++s) {
      auto asked = ask(s, AskReplaceable{node_.threads[s]->shard.get(), target}, until);
      if (!asked) return asked.refusal();
      why = asked->why;
    }
    if (why.ok()) return std::nullopt;
    if (vacant.left_ns() == 0) {
      return Refusal::of(Code::kTimedOut,
                         "target " + std::to_string(target) +
                             " cannot be replaced yet: " + why.what() +
                             "; try again later, or restart with the blank drive in its place");
    }
    rest();
  }
}

// From here on the old one is no part of this node, whatever ends first.
std::optional<Refusal> NodeIngress::bring_in(const Newcomer& newcomer, uint64_t capacity_bytes,
                                             const Until& until) {
  NodeTarget& target = node_.targets[newcomer.index];
  if (until.left_ns() == 0) {
    return Refusal::of(Code::kTimedOut,
                       "the time of the call is over; nothing was changed but that "
                       "the old drive counts as failed; ask again");
  }
  std::byte uuid[16];
  node_.entropy.fill(uuid);
  {
    auto list = lock_list(node_, until.left_ns());  // N5
    if (!list) return list.refusal();
    flash::Witness witness;
    const Failure failure = keep_newcomer(newcomer, uuid, capacity_bytes, &witness);
    if (!failure.ok()) return Refusal::of(Code::kIo, failure.text + "; nothing was changed");
    const std::lock_guard<std::mutex> lock(node_.mutex);
    target.witness = std::move(witness);
    target.draining = target.drain_kept = target.drain_late = target.drained = false;
    target.coming.reset();
  }
  auto known = ask(kSessionShard, AskGenerations{node_.threads[kSessionShard]->shard.get()}, until);
  if (!known) return known.refusal();
  flash::TargetInfo info;
  const Failure failure = format_newcomer(newcomer, uuid, known->rows, node_.entropy, &info);
  if (!failure.ok()) {
    return Refusal::of(Code::kIo, failure.text +
                                      "; the old one is no part of this node any more: put a blank "
                                      "drive there and ask again, or restart with it");
  }
  const std::lock_guard<std::mutex> lock(node_.mutex);
  target.coming = std::move(info);
  return std::nullopt;
}

std::optional<Refusal> NodeIngress::hand_over(uint32_t index, const Until& until) {
  const flash::TargetInfo info = *node_.targets[index].coming;
  const std::string again = "; ask again, it goes on where it ended";
  for (uint32_t s = 0; s < node_.threads.size(); ++s) {
    while (true) {
      auto told = ask(s, TakeTarget{&node_, node_.threads[s].get(), info, until.at_ns}, until);
      if (!told) return Refusal::of(told.refusal().code, told.refusal().text + again);
      if (told->status.ok()) break;
      const std::string what = "shard " + std::to_string(s) + " cannot take target " +
                               std::to_string(index) + ", " + info.path + ": " +
                               told->status.what() + errno_suffix(told->status.errno_value());
      const Code code = told->status.code();
      if (code == Code::kInvalid || code == Code::kIo) {
        return Refusal::state(what + "; put another blank drive there and ask again");
      }
      if (code != Code::kUnavailable) return Refusal::of(code, what + again);
      if (until.left_ns() == 0) return Refusal::of(Code::kTimedOut, what + again);
      rest();
    }
  }
  const std::lock_guard<std::mutex> lock(node_.mutex);
  NodeTarget& target = node_.targets[index];
  const std::string old_uuid = to_hex(target.info.super.target_uuid);
  if (std::memcmp(target.info.super.target_uuid, info.super.target_uuid, 16) == 0) {
    return std::nullopt;  // an earlier call came so far
  }
  // Others read the rest without N4.
  std::memcpy(target.info.super.target_uuid, info.super.target_uuid, 16);
  target.info.super.capacity_bytes = info.super.capacity_bytes;
  target.lost = Status();
  target.failed_now = false;  // who fails it from here on fails the new one
  ++target.replaced;
  logf(LogLevel::kWarn, "control",
       "target %u %s HAS ANOTHER DRIVE, as the operator asked: uuid %s, %" PRIu64
       " MiB, in the place of %s, which is refused from now on; it is taken in while the node "
       "serves, and what parity covers is rebuilt",
       index, info.path.c_str(), to_hex(info.super.target_uuid).c_str(),
       info.super.capacity_bytes / kMiB, old_uuid.c_str());
  return std::nullopt;
}

bool NodeIngress::works_now(uint32_t target, const Until& until) {
  return std::all_of(node_.threads.begin(), node_.threads.end(), [&](const auto& thread) {
    auto asked = ask(thread->index, AskWorks{thread->shard.get(), target}, until);
    return asked && asked->works;
  });
}

// It serves when its slices are known to be empty, on every core.
std::optional<Refusal> NodeIngress::settle_in(uint32_t target, const Until& until) {
  for (uint32_t s = 0; s < node_.threads.size();) {
    auto asked = ask(s, AskWorks{node_.threads[s]->shard.get(), target}, until);
    if (asked && asked->works) {
      ++s;
      continue;
    }
    if (asked && asked->failed) {
      return Refusal::state("target " + std::to_string(target) +
                            " was replaced, and its new drive failed too; put another blank one "
                            "there and ask again");
    }
    if (!asked || until.left_ns() == 0) {
      return Refusal::of(Code::kTimedOut,
                         "target " + std::to_string(target) +
                             " was replaced, and its new drive is still being read; list the "
                             "targets to see when it works");
    }
    rest();
  }
  return std::nullopt;
}

// Between two questions; not any longer when the node ends.
void NodeIngress::rest() {
  std::unique_lock<std::mutex> lock(node_.mutex);
  node_.closed_changed.wait_for(lock, kPause, [this] { return node_.closed; });
}

control::Answer<control::Target> NodeIngress::target_replace(const control::TargetName& name,
                                                             const std::string& path,
                                                             Nanos limit_ns) {
  const Until until = this->until(limit_ns);
  auto change = begin_change(until);
  if (!change) return change.refusal();
  bool is_drained = false;
  {
    const std::lock_guard<std::mutex> lock(node_.mutex);
    if (auto refusal = refuse_replace(name, path)) return *refusal;
    is_drained = node_.targets[name.index].drained;
  }
  NodeTarget& target = node_.targets[name.index];
  Newcomer newcomer{node_.config, node_.identity, name.index, target};
  for (const auto& thread : node_.threads) {  // a value that never changes after open
    newcomer.fragment_pages =
        std::max(newcomer.fragment_pages, thread->shard->flash().fragment_pages_max());
  }
  uint64_t capacity_bytes = 0;
  bool resumes = false;
  const Failure failure = look_newcomer(newcomer, &capacity_bytes, &resumes);
  if (!failure.ok()) {
    // The numbers are of a second ago: another call may have replaced it since.
    if (!is_drained && works_now(name.index, until)) {
      return Refusal::state("target " + std::to_string(name.index) + ", " + target.info.path +
                            kWorks);
    }
    return Refusal::state(failure.text + "; nothing was changed");
  }
  if (!resumes) {
    if (auto refusal = vacate(name.index, until)) return *refusal;
    if (auto refusal = bring_in(newcomer, capacity_bytes, until)) return *refusal;
  }
  if (auto refusal = hand_over(name.index, until)) return *refusal;
  const auto late = settle_in(name.index, until);
  const std::lock_guard<std::mutex> lock(node_.mutex);
  if (late) return *late;
  target.coming.reset();
  control::Target out = row(name.index);  // of a second ago, but for this
  out.state = control::TargetState::kOk;
  out.shards_ok = out.shards;
  out.why.clear();
  return out;
}

}  // namespace varve
