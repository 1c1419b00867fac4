// Goal: the logarithm is right within its stated bounds, never rises, and is equal to its golden
// vectors; a draw is won in proportion to weight. Method: vectors that check_vectors.py recomputes;
// long double as a reference, which the product itself may not use.
#include "common/placement/cost.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>

#include "common/base/base.h"
#include "tests/common/model/vector_file.h"

namespace varve {
namespace {

constexpr long double kUnit = 4294967296.0L;

TEST(MinusLog2, EqualsTheGoldenVectors) {
  uint32_t checked = 0;
  for (const vectors::Record& r : vectors::read("tests/vectors/placement_1.txt")) {
    if (!r.has("x")) continue;
    ++checked;
    EXPECT_EQ(minus_log2(std::stoull(r.text("x"), nullptr, 16)), r.number("log")) << r.text("x");
  }
  EXPECT_GE(checked, 20u);
}

// FORMAT 10.3: at most 2 units too small; at most 2^-18, and a thousandth and 2 units, too large.
void check_bounds(uint64_t x) {
  const long double exact = 64 - std::log2(static_cast<long double>(x));
  const long double got = static_cast<long double>(minus_log2(x)) / kUnit;
  ASSERT_GE(got, exact - 2 / kUnit) << x;
  ASSERT_LE(got, exact + 1 / 262144.0L) << x;
  ASSERT_LE(got, exact * 1.001L + 2 / kUnit) << x;
}

TEST(MinusLog2, IsWithinItsStatedBounds) {
  Random random(31);
  for (uint32_t i = 0; i < 200'000; ++i) {
    check_bounds(random.next() >> random.below(64) | 1);
    check_bounds(~(random.next() >> random.below(64)) | 1);  // near 2^64: the winners of a draw
  }
  for (uint64_t step = 0; step < 256; ++step) {  // the middle of each line, where it is worst
    check_bounds((256 + step) << 55 | uint64_t{1} << 54);
  }
}

TEST(MinusLog2, NeverRisesAndStaysInItsRange) {
  EXPECT_EQ(minus_log2(0), minus_log2(1));
  EXPECT_EQ(minus_log2(1), uint64_t{64} << 32);
  EXPECT_GE(minus_log2(~uint64_t{0}), 1u);
  for (uint32_t bit = 0; bit < 64; ++bit) {
    for (uint64_t step = 0; step < 1024 && bit >= 10; ++step) {  // across every edge of the table
      const uint64_t x = (uint64_t{1024} + step) << (bit - 10);
      ASSERT_LE(minus_log2(x), minus_log2(x - 1)) << x;
      ASSERT_LE(minus_log2(x + 1), minus_log2(x)) << x;
    }
    EXPECT_EQ(minus_log2(uint64_t{1} << bit), uint64_t{64 - bit} << 32);
  }
}

TEST(Cost, IsATotalOrderOfFractions) {
  const Cost light = Cost::of(1000, 3), same = Cost::of(1000, 3), heavy = Cost::of(1000, 4);
  EXPECT_TRUE(heavy.less_than(light));
  EXPECT_FALSE(light.less_than(heavy));
  EXPECT_FALSE(light.less_than(same));
  // Expect: where the logarithm cannot tell two hashes apart, the larger hash wins.
  const Cost a = Cost::of(~uint64_t{0}, 7), b = Cost::of(~uint64_t{0} - 1, 7);
  ASSERT_EQ(a.log, b.log);
  EXPECT_TRUE(a.less_than(b));
  EXPECT_FALSE(b.less_than(a));
}

TEST(Cost, IsWonInProportionToWeight) {
  constexpr std::array<uint64_t, 5> kWeights = {1, 2, 3, 10, 16};  // 32 in all
  constexpr uint32_t kDraws = 320'000;
  std::array<uint32_t, 5> won{};
  Random random(32);
  for (uint32_t draw = 0; draw < kDraws; ++draw) {
    size_t best = 0;
    Cost least = Cost::of(random.next(), kWeights[0]);
    for (size_t i = 1; i < kWeights.size(); ++i) {
      const Cost cost = Cost::of(random.next(), kWeights[i]);
      if (!cost.less_than(least)) continue;
      least = cost;
      best = i;
    }
    ++won[best];
  }
  double chi_square = 0;
  for (size_t i = 0; i < kWeights.size(); ++i) {
    const double expected = kDraws / 32.0 * static_cast<double>(kWeights[i]);
    chi_square += (won[i] - expected) * (won[i] - expected) / expected;
  }
  EXPECT_LT(chi_square, 18.5);  // 4 degrees of freedom, 1 in 1000
}

}  // namespace
}  // namespace varve
