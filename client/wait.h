// How long a caller's thread waits: the client's own time comes from its reactor and nowhere else.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/time/time.h"

namespace varve {

// A point in time for condition variables; what would overflow them is a year.
inline std::chrono::steady_clock::time_point after(Nanos timeout_ns) {
  const Nanos bounded = std::min<Nanos>(timeout_ns, 365 * 24 * 3600 * kSecond);
  return std::chrono::steady_clock::now() + std::chrono::nanoseconds(bounded);
}

}  // namespace varve
