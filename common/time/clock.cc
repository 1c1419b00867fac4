// SystemClock: the monotonic clock of the kernel.
// The only reading of time in the product; everything else gets it through the Clock seam.
#include <ctime>

#include "common/time/time.h"

namespace varve {

Nanos SystemClock::now_ns() const {
  timespec t{};
  const int result = clock_gettime(CLOCK_MONOTONIC, &t);
  VARVE_ASSERT(result == 0, result);
  return static_cast<Nanos>(t.tv_sec) * kSecond + static_cast<Nanos>(t.tv_nsec);
}

}  // namespace varve
