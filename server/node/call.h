// What main's thread and the shards' threads need of each other: a gate where all meet, and calls
// to a shard's core that are waited for with a bound. Off the data path.
#pragma once

#include <condition_variable>
#include <mutex>

#include "common/reactor/reactor.h"
#include "common/time/time.h"

namespace varve {

// Everybody waits until everybody is here.
class Gate {
 public:
  explicit Gate(uint32_t count) : missing_(count) {}
  void expect(uint32_t count) { missing_ = count; }  // before anybody arrives
  void arrive_and_wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t missing_;
};

// Work that main wants done on a shard's core: posted by mailbox, waited for with a bound. When the
// bound passes the call stays out; a later one waits for its end within its own bound, so that a
// slow core costs one answer and not the next question.
class ShardCall {
 public:
  using Work = void (*)(void*);
  [[nodiscard]] bool run(Reactor& reactor, Work work, void* context, Nanos limit_ns);

 private:
  void deliver();
  bool wait_back(std::unique_lock<std::mutex>& lock, Nanos limit_ns);  // false: still out
  Message message_;
  std::mutex mutex_;
  std::condition_variable done_;
  bool out_ = false;
  Work work_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace varve
