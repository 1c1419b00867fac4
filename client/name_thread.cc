// One lock, which is never held while a resolver is waited for.
#include "client/name_thread.h"

#include <condition_variable>
#include <mutex>

namespace varve {

struct NameThread::State {
  std::unique_ptr<Resolver> resolver;
  NameUser* user = nullptr;
  std::mutex mutex;
  std::condition_variable changed;
  std::string address;       // mutex, as all below; empty: nothing is asked
  bool under_way = false;    // a lookup
  bool stopped = false;      // N1
  bool left_behind = false;  // N2: this is the thread's to free
};

NameThread::NameThread(std::unique_ptr<Resolver> resolver, NameUser& user)
    : state_(std::make_unique<State>()) {
  VARVE_ASSERT(resolver != nullptr);
  state_->resolver = std::move(resolver);
  state_->user = &user;
  thread_ = std::thread(run, state_.get());
}

NameThread::~NameThread() {
  stop();
  {
    const std::lock_guard lock(state_->mutex);
    state_->left_behind = state_->under_way;
    if (!state_->left_behind) {
      state_->changed.notify_all();
    } else {
      thread_.detach();
    }
  }
  // From here on a state that is left behind may be gone.
  if (thread_.joinable()) {
    thread_.join();
  } else {
    static_cast<void>(state_.release());
  }
}

void NameThread::ask(const std::string& address) {
  VARVE_ASSERT(!address.empty());
  const std::lock_guard lock(state_->mutex);
  if (state_->stopped) return;
  VARVE_ASSERT(state_->address.empty() && !state_->under_way);
  state_->address = address;
  state_->changed.notify_all();
}

void NameThread::stop() {
  const std::lock_guard lock(state_->mutex);
  state_->stopped = true;
  state_->changed.notify_all();
}

void NameThread::run(State* state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return state->stopped || !state->address.empty(); });
    if (state->stopped) return;
    const std::string address = std::move(state->address);
    state->address.clear();
    state->under_way = true;
    lock.unlock();
    Result<std::vector<std::string>> found = state->resolver->look_up(address);
    lock.lock();
    state->under_way = false;
    if (state->left_behind) {
      lock.unlock();
      delete state;
      return;
    }
    if (!state->stopped) state->user->on_looked_up(std::move(found));
  }
}

}  // namespace varve
