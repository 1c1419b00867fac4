// Cost: one draw of weighted rendezvous hashing, in whole numbers.
//
// A hash x is a uniform u = x / 2^64; -log2(u) / weight is an exponential variate with a rate
// proportional to the weight, so the least of several is each one's with a chance proportional to
// its weight. Fixed point keeps it equal on every compiler (P5). Inside the room only.
#pragma once

#include <cstdint>

namespace varve {

inline constexpr uint32_t kCostFractionBits = 32;

// The finalizer of splitmix64: every input bit reaches every output bit.
constexpr uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// -log2(x / 2^64) in units of 2^-32, from 1 to 64 * 2^32 (x = 0 counts as 1): the leading bit gives
// the whole part, a table of 257 entries and a straight line between two of them the rest. Never
// rises with x. Off by at most 2^-18, and by at most a thousandth of itself plus two units.
uint64_t minus_log2(uint64_t x);

// One candidate of a draw. Costs are compared as fractions, exactly, by cross multiplication.
struct Cost {
  uint64_t log = 0;     // minus_log2(x)
  uint64_t weight = 0;  // at most kTargetWeightMax: products fit 64 bits
  uint64_t x = 0;       // the hash itself: between equal fractions the larger wins

  static Cost of(uint64_t x, uint64_t weight);
  bool less_than(const Cost& other) const {
    const uint64_t mine = log * other.weight, its = other.log * weight;
    return mine != its ? mine < its : x > other.x;
  }
};

}  // namespace varve
