// Cost: the table is made by the compiler, bit by bit, by squaring: nothing here can differ between
// two builds.
#include "common/placement/cost.h"

#include <array>
#include <bit>

#include "common/base/base.h"
#include "common/placement/cluster_map.h"

namespace varve {

namespace {

constexpr uint32_t kSteps = 256;  // of the table between 1 and 2

// round(2^32 * log2(1 + i/256)). Squaring a number of [1, 2) doubles its logarithm; whether it
// passed 2 is the next bit. 52 bits are made and 32 kept, so what the squares truncate (below
// 2^-60 in all) decides no rounding: no entry is nearer than 2^-43 to a half unit.
constexpr uint64_t table_entry(uint32_t i) {
  if (i == kSteps) return uint64_t{1} << kCostFractionBits;
  __extension__ using Wide = unsigned __int128;
  Wide m = static_cast<Wide>(kSteps + i) << (63 - 8);
  uint64_t bits = 0;
  for (int step = 0; step < 52; ++step) {
    m = m * m >> 63;
    const bool passed = (m >> 64) != 0;
    bits = bits << 1 | (passed ? 1 : 0);
    if (passed) m >>= 1;
  }
  return (bits + (uint64_t{1} << 19)) >> 20;
}

constexpr std::array<uint64_t, kSteps + 1> make_table() {
  std::array<uint64_t, kSteps + 1> table{};
  for (uint32_t i = 0; i <= kSteps; ++i)
    table[i] = table_entry(i);
  return table;
}

constexpr std::array<uint64_t, kSteps + 1> kTable = make_table();
static_assert(kTable[0] == 0 && kTable[1] == 24157255 && kTable[255] == 4282853259);

// The largest cost times the largest weight is below 2^64, so fractions are compared exactly.
static_assert((uint64_t{64} << kCostFractionBits) <= ~uint64_t{0} / kTargetWeightMax);

}  // namespace

uint64_t minus_log2(uint64_t x) {
  if (x == 0) x = 1;
  const int zeros = std::countl_zero(x);
  // Everything below the leading bit, at the top of the word: 8 bits choose the step, 32 the point.
  const uint64_t fraction = zeros == 63 ? 0 : x << (zeros + 1);
  const uint64_t step = fraction >> 56, point = fraction >> 24 & 0xFFFFFFFFull;
  const uint64_t rise = kTable[step + 1] - kTable[step];
  const uint64_t log = kTable[step] + (rise * point >> 32);
  VARVE_DASSERT(log < uint64_t{1} << kCostFractionBits, log);
  return (static_cast<uint64_t>(zeros + 1) << kCostFractionBits) - log;
}

Cost Cost::of(uint64_t x, uint64_t weight) {
  VARVE_ASSERT(weight >= 1 && weight <= kTargetWeightMax, weight);
  const Cost cost{minus_log2(x), weight, x};
  VARVE_ASSERT(cost.log >= 1 && cost.log <= uint64_t{64} << kCostFractionBits, cost.log);
  return cost;
}

}  // namespace varve
