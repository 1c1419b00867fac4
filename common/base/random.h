// Random: splitmix64, a pure function of its seed and equal on every compiler. Not a secret source;
// secrets (nonces, salts) come from the operating system through Entropy in common/time.
#pragma once

#include <cstdint>

#include "common/base/assert.h"

namespace varve {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ull;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  // Uniform in [0, limit); the bias of the modulo is below 2^-32 for limits under 2^32.
  uint64_t below(uint64_t limit) {
    VARVE_ASSERT(limit > 0);
    return next() % limit;
  }
  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
  // True with probability per_mille / 1000.
  bool chance(uint32_t per_mille) { return below(1000) < per_mille; }

 private:
  uint64_t state_;
};

}  // namespace varve
