// Goal: B2, the same numbers everywhere. Method: the published splitmix64 sequence of seed 1234567,
// and the ranges of the derived draws.
#include "common/base/random.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

TEST(Random, EqualsThePublishedSequence) {
  Random random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317ull);
  EXPECT_EQ(random.next(), 3203168211198807973ull);
  EXPECT_EQ(random.next(), 9817491932198370423ull);
}

TEST(Random, StaysInItsRangesAndReachesTheirEnds) {
  Random random(6);
  uint32_t low = 0, high = 0, yes = 0;
  for (int i = 0; i < 4000; ++i) {
    const uint64_t v = random.between(10, 13);
    ASSERT_GE(v, 10u);
    ASSERT_LE(v, 13u);
    low += v == 10;
    high += v == 13;
    yes += random.chance(250);
    ASSERT_FALSE(random.chance(0));
    ASSERT_TRUE(random.chance(1000));
  }
  EXPECT_GT(low, 800u);
  EXPECT_GT(high, 800u);
  EXPECT_GT(yes, 800u);
  EXPECT_LT(yes, 1200u);
}

}  // namespace
}  // namespace varve
