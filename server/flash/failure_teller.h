// FailureTeller: tells the user of targets that failed, in a turn of its own.
//
// A failure is noticed in the middle of a completion, where nobody upstairs expects a word.
#pragma once

#include <bit>

#include "common/reactor/reactor.h"
#include "server/flash/flash.h"

namespace varve::flash {

class FailureTeller final : public Task {
 public:
  FailureTeller(Reactor& reactor, FlashUser& user) : reactor_(reactor), user_(user) {}
  void note(uint32_t target) {
    VARVE_ASSERT(target < kTargetsMax, target);
    VARVE_ASSERT((told_ & 1u << target) == 0, target);  // a target fails once, as does the next
    failed_ |= 1u << target;
    reactor_.make_ready(*this);
  }
  void run() override {
    while (const uint32_t fresh = failed_ & ~told_) {
      const auto target = static_cast<uint32_t>(std::countr_zero(fresh));
      told_ |= 1u << target;
      user_.on_target_failed(target);
    }
  }
  bool owes(uint32_t target) const { return ((failed_ & ~told_) >> target & 1) != 0; }
  // Another has its place, which may fail as well.
  void forget(uint32_t target) {
    VARVE_ASSERT(!owes(target), target);
    failed_ &= ~(1u << target);
    told_ &= ~(1u << target);
  }
  const char* name() const override { return "flash.failure"; }

 private:
  static_assert(kTargetsMax <= 32);
  Reactor& reactor_;
  FlashUser& user_;
  uint32_t failed_ = 0, told_ = 0;  // bit i: target i
};

}  // namespace varve::flash
