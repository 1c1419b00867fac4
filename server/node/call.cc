// Gates and calls between main's thread and the cores: locks that no request ever waits for.
#include "server/node/call.h"

#include <chrono>

namespace varve {

void Gate::arrive_and_wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  VARVE_ASSERT(missing_ > 0);
  if (--missing_ == 0) changed_.notify_all();
  changed_.wait(lock, [this] { return missing_ == 0; });
}

bool ShardCall::run(Reactor& reactor, Work work, void* context, Nanos limit_ns) {
  VARVE_ASSERT(work != nullptr);
  const SystemClock clock;
  const Nanos until_ns = clock.now_ns() + limit_ns;
  std::unique_lock<std::mutex> lock(mutex_);
  if (!wait_back(lock, limit_ns)) return false;  // an earlier one, whose caller gave it up
  out_ = true;
  work_ = work;
  context_ = context;
  message_.owner = this;
  message_.deliver = [](Message& message) { static_cast<ShardCall*>(message.owner)->deliver(); };
  reactor.post(message_);
  const Nanos now_ns = clock.now_ns();
  return wait_back(lock, now_ns < until_ns ? until_ns - now_ns : 0);
}

bool ShardCall::wait_back(std::unique_lock<std::mutex>& lock, Nanos limit_ns) {
  VARVE_ASSERT(lock.owns_lock());
  return done_.wait_for(lock, std::chrono::nanoseconds(limit_ns), [this] { return !out_; });
}

void ShardCall::deliver() {
  VARVE_ASSERT(out_);
  work_(context_);
  const std::lock_guard<std::mutex> lock(mutex_);
  out_ = false;
  done_.notify_all();
}

}  // namespace varve
