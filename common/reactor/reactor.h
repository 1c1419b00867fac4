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
  IoBackend& io();                          // asserts that there is one
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
  };
  const Counters& counters() const { return counters_; }

 private:
  const Clock& clock_;
  IoBackend* io_;
  ReactorOptions options_;
  Nanos now_ns_ = 0;
  TimerQueue timers_;
  Queue<Task, &Task::next_ready> ready_;
  Mailbox mailbox_;
  std::atomic<bool> stopping_{false};
  uint64_t owner_thread_ = 0;
  Counters counters_;
};

}  // namespace varve
