// HedgeBudget: how many bytes may be asked for a second time because the first are late: a share of
// what the pulls of this client brought, and a burst to begin with. Hedges beyond it are refused,
// so that a slow daemon is not made slower by them.
#pragma once

#include <algorithm>

#include "common/base/base.h"

namespace varve {

class HedgeBudget {
 public:
  // At most so much is saved up: a pull that just began can hedge, an idle hour cannot be spent.
  static constexpr uint64_t kBurstBytes = 8 * kMiB;

  explicit HedgeBudget(uint32_t percent) : percent_(percent), left_(percent > 0 ? kMost : 0) {}
  void earn(uint64_t pulled_bytes) { left_ = std::min(left_ + pulled_bytes * percent_, kMost); }
  [[nodiscard]] bool take(uint64_t bytes) {
    if (percent_ == 0 || bytes * 100 > left_) return false;
    VARVE_ASSERT(left_ <= kMost, left_);
    left_ -= bytes * 100;
    return true;
  }

 private:
  static constexpr uint64_t kMost = kBurstBytes * 100;
  uint32_t percent_;
  uint64_t left_;  // hundredths of bytes
};

}  // namespace varve
