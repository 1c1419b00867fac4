// ResolverScript: what names mean is what a test says, and a lookup stands still for as long as it
// says. Any thread.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/fabric/address.h"

namespace varve {

class ResolverScript {
 public:
  using Numbers = std::vector<std::string>;
  ResolverScript() = default;
  ~ResolverScript() { let_go(); }
  ResolverScript(const ResolverScript&) = delete;
  ResolverScript& operator=(const ResolverScript&) = delete;

  std::unique_ptr<Resolver> resolver() { return std::make_unique<Scripted>(state_); }
  void say(Result<Numbers> answer) {
    change([&](State& s) { s.answer = std::move(answer); });
  }
  void hold() {
    change([](State& s) { s.held = true; });
  }
  void let_go() {
    change([](State& s) { s.held = false; });
  }
  void wait_asked(uint32_t times) {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->asked >= times; });
  }
  void wait_freed() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->resolvers == 0; });
  }
  uint32_t asked() const {
    std::lock_guard lock(state_->mutex);
    return state_->asked;
  }
  std::string last_address() const {
    std::lock_guard lock(state_->mutex);
    return state_->address;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    Result<Numbers> answer = Status::unavailable("the name cannot be resolved: by script");
    bool held = false;
    uint32_t asked = 0, resolvers = 0;
    std::string address;
  };
  template <class Change>
  void change(Change body) {
    std::lock_guard lock(state_->mutex);
    body(*state_);
    state_->changed.notify_all();
  }
  class Scripted final : public Resolver {
   public:
    explicit Scripted(std::shared_ptr<State> state) : state_(std::move(state)) {
      std::lock_guard lock(state_->mutex);
      ++state_->resolvers;
    }
    ~Scripted() override {
      std::lock_guard lock(state_->mutex);
      --state_->resolvers;
      state_->changed.notify_all();
    }
    Result<Numbers> look_up(const std::string& address) override {
      std::unique_lock lock(state_->mutex);
      ++state_->asked;
      state_->address = address;
      state_->changed.notify_all();
      state_->changed.wait(lock, [&] { return !state_->held; });
      return state_->answer;
    }

   private:
    std::shared_ptr<State> state_;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace varve
