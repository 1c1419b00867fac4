// The turn of one core: mailbox, completions, timers, tasks, submit, sleep.
// The order and its reasons stand in the door; this file keeps to it top to bottom.
#include "common/reactor/reactor.h"

#include <pthread.h>

#include <algorithm>
#include <cinttypes>

namespace varve {

namespace {

// The calling thread as a number; never zero, which stands for "nobody yet".
uint64_t this_thread() {
  const auto id = static_cast<uint64_t>(pthread_self());
  VARVE_ASSERT(id != 0);
  return id;
}

}  // namespace

Reactor::Reactor(const Clock& clock, IoBackend* io, const ReactorOptions& options)
    : clock_(clock), io_(io), options_(options), now_ns_(clock.now_ns()) {
  VARVE_ASSERT(options.messages_per_turn > 0);
  VARVE_ASSERT(options.completions_per_turn > 0);
  VARVE_ASSERT(options.timers_per_turn > 0);
  VARVE_ASSERT(options.tasks_per_turn > 0);
}

IoBackend& Reactor::io() {
  VARVE_ASSERT(io_ != nullptr, options_.shard);
  return *io_;
}

bool Reactor::on_owner_core() const {
  return owner_thread_ == 0 || owner_thread_ == this_thread();
}

void Reactor::make_ready(Task& task) {
  VARVE_ASSERT(on_owner_core(), options_.shard);
  if (task.ready) return;  // R3
  task.ready = true;
  ready_.push(&task);
}

void Reactor::post(Message& message) {
  VARVE_ASSERT(message.deliver != nullptr);
  const bool asleep = mailbox_.post(message);
  if (asleep && io_ != nullptr) io_->wake();
}

// R4. Before anything is judged in this turn. Work that is ready is meant to run at once, a timer
// when it is due.
void Reactor::look_back(Nanos before_ns) {
  Nanos meant_ns = std::min(meant_ns_, timers_.next_due_ns());
  if (!ready_.empty()) meant_ns = 0;
  meant_ns = std::max(meant_ns, before_ns);
  if (meant_ns == kNever || now_ns_ < meant_ns + kStandstill) return;
  awake_ns_ = now_ns_;
  ++counters_.standstills;
  uint64_t swallowed = 0;
  if (!standstill_log_.admit(now_ns_, &swallowed)) return;
  const Nanos late_ms = (now_ns_ - meant_ns) / kMillisecond;
  logf(LogLevel::kWarn, "reactor",
       "core %u stood still for %" PRIu64 ".%03" PRIu64
       " s (stopped, paused, or without CPU): drives and peers get their time anew (%" PRIu64
       " more not logged)",
       options_.shard, late_ms / 1000, late_ms % 1000, swallowed);
}

bool Reactor::turn() {
  if (owner_thread_ == 0) owner_thread_ = this_thread();
  VARVE_ASSERT(on_owner_core(), options_.shard);
  const Nanos before_ns = now_ns_;
  now_ns_ = clock_.now_ns();  // R2
  look_back(before_ns);
  AssertContext& context = assert_context();
  context.shard = options_.shard;

  context.op = "mailbox";
  const uint32_t messages = mailbox_.drain(options_.messages_per_turn);
  context.op = "completions";
  const uint32_t completions = io_ == nullptr ? 0 : io_->reap(options_.completions_per_turn);
  context.op = "timers";
  const uint32_t timers = timers_.fire_due(now_ns_, options_.timers_per_turn);
  // Only what is ready now: a task that asks for again() gets its next stage in the next turn, so
  // that a chain of tasks cannot keep completions and other shards waiting.
  const auto ready = static_cast<uint32_t>(ready_.size());
  const uint32_t tasks = std::min(ready, options_.tasks_per_turn);
  for (uint32_t i = 0; i < tasks; ++i) {
    Task* task = ready_.pop();
    VARVE_ASSERT(task != nullptr && task->ready);
    task->ready = false;  // before run(): it may make itself ready again
    context.op = task->name();
    task->run();
  }
  context.op = "submit";
  if (io_ != nullptr) io_->submit();
  context.op = "";

  counters_.turns += 1;
  counters_.messages += messages;
  counters_.completions += completions;
  counters_.timers += timers;
  counters_.tasks += tasks;
  return messages + completions + timers + tasks > 0;
}

void Reactor::run() {
  VARVE_ASSERT(io_ != nullptr);  // without a backend nothing could wake a sleeping core
  owner_thread_ = this_thread();
  now_ns_ = clock_.now_ns();  // what came before run() was no standstill
  uint32_t turns_empty = 0;
  while (!stopping()) {
    const bool did = turn();
    meant_ns_ = now_ns_;
    if (did) {
      turns_empty = 0;
      continue;
    }
    if (++turns_empty < 2) continue;
    turns_empty = 0;
    if (mailbox_.prepare_sleep()) {
      VARVE_ASSERT(ready_.empty());
      const Nanos due_ns = timers_.next_due_ns();
      const Nanos now_ns = clock_.now_ns();
      const Nanos timeout_ns = std::min(due_ns - std::min(due_ns, now_ns), kStandstill);
      meant_ns_ = now_ns + timeout_ns;
      counters_.sleeps += 1;
      io_->sleep(timeout_ns);
    }
    mailbox_.end_sleep();
  }
  owner_thread_ = 0;  // whoever joins this thread may take down what is left
}

void Reactor::stop() {
  stopping_.store(true, std::memory_order_release);
  if (io_ != nullptr) io_->wake();
}

Nanos Reactor::next_work_ns() const {
  if (!ready_.empty() || !mailbox_.empty()) return now_ns_;
  return timers_.next_due_ns();
}

bool Reactor::idle() const {
  return ready_.empty() && mailbox_.empty() && timers_.size() == 0 &&
         (io_ == nullptr || io_->in_flight() == 0);
}

}  // namespace varve
