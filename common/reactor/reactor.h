// reactor: the turn of one core.
//
// Owns: the ready queue of tasks, the timers, the mailbox, one IoBackend. Called by every room that
// starts work on a core. Thread rule: everything here is for the owner core, except Reactor::post()
// and Reactor::stop(), which any thread may call. Order of a turn, with reasons:
//   1 mailbox     (other shards wait for us; their news may make tasks ready)
//   2 completions (bounded batch; RDMA queues will stand before io_uring: they are cheaper to poll)
//   3 timers due
//   4 ready tasks until the budget
//   5 submit      (one system call for all that 1-4 started)
//   6 sleep only when 1-4 did nothing in two turns in a row
// Invariants:
//   R1 nothing completes inside the call that started it.
//   R2 now_ns() is read once per turn.
//   R3 a task is in the ready queue at most once.
//   R4 a turn that comes kStandstill late is noticed: whoever judges a device or a peer by how long
//      it has been silent counts from awake_ns() at the earliest.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/base/base.h"
#include "common/reactor/io.h"
#include "common/reactor/mailbox.h"
#include "common/time/time.h"

namespace varve {

// Something that runs on a core when made ready.
class Task {
 public:
  virtual void run() = 0;
  virtual const char* name() const = 0;  // for asserts and the watchdog
  Task* next_ready = nullptr;
  bool ready = false;

 protected:
  ~Task() = default;
};

// A core that should have turned this much sooner stood still: a process that was stopped, a
// machine that was paused, no CPU for it. Whoever answered meanwhile could not be heard. Also the
// longest sleep, so that it is noticed whatever timers there are.
inline constexpr Nanos kStandstill = 1 * kSecond;

struct ReactorOptions {
  uint32_t shard = 0;
  uint32_t messages_per_turn = 256;
  uint32_t completions_per_turn = 256;
  uint32_t timers_per_turn = 256;
  uint32_t tasks_per_turn = 512;
};

class Reactor {
 public:
  // `io` may be null in simulation, where devices and links complete through timers.
  Reactor(const Clock& clock, IoBackend* io, const ReactorOptions& options);
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  uint32_t shard() const { return options_.shard; }
  Nanos now_ns() const { return now_ns_; }  // R2
  // The turn after the last standstill; 0: there was none. R4.
  Nanos awake_ns() const { return awake_ns_; }
  // What a limit that began before the last standstill still owes whom it judges; 0: nothing.
  Nanos owed_ns(Nanos limit_ns) const {
    const Nanos awake_for_ns = now_ns_ - awake_ns_;
    return awake_ns_ == 0 || awake_for_ns >= limit_ns ? 0 : limit_ns - awake_for_ns;
  }
  IoBackend& io();  // asserts that there is one
  bool has_io() const { return io_ != nullptr; }
  TimerQueue& timers() { return timers_; }
  bool on_owner_core() const;

  void make_ready(Task& task);  // R3
  void arm(Timer& timer, Nanos delay_ns) { timers_.arm(timer, now_ns_ + delay_ns); }
  void cancel(Timer& timer) { timers_.cancel(timer); }

  void post(Message& message);  // any thread; wakes the core when it sleeps

  // One turn without sleeping; true when it did anything.
  bool turn();
  // Turns and sleeps until stop(). Claims the calling thread as owner core.
  void run();
  void stop();  // any thread
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }

  // When the next turn would find work: now_ns() if something is ready, else the next timer.
  Nanos next_work_ns() const;
  bool idle() const;

  struct Counters {
    uint64_t turns = 0, messages = 0, completions = 0, timers = 0, tasks = 0, sleeps = 0;
    uint64_t standstills = 0;
  };
  const Counters& counters() const { return counters_; }

 private:
  void look_back(Nanos before_ns);

  const Clock& clock_;
  IoBackend* io_;
  ReactorOptions options_;
  Nanos now_ns_ = 0;
  Nanos meant_ns_ = kNever;  // when run() means the next turn to come at the latest
  Nanos awake_ns_ = 0;
  LogLimit standstill_log_{60 * kSecond};
  TimerQueue timers_;
  Queue<Task, &Task::next_ready> ready_;
  Mailbox mailbox_;
  std::atomic<bool> stopping_{false};
  uint64_t owner_thread_ = 0;
  Counters counters_;
};

}  // namespace varve
