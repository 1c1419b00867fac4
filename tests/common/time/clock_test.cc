// Goal: T1 for both clocks: never backwards, and the manual one only when told.
// Method: direct readings; nothing here waits.
#include <gtest/gtest.h>

#include "common/time/time.h"

namespace varve {
namespace {

TEST(SystemClock, NeverGoesBack) {
  SystemClock clock;
  Nanos last = clock.now_ns();
  EXPECT_GT(last, 0u);
  for (int i = 0; i < 10000; ++i) {
    const Nanos now = clock.now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(ManualClock, MovesOnlyWhenTold) {
  ManualClock clock;
  const Nanos start = clock.now_ns();
  EXPECT_EQ(clock.now_ns(), start);
  clock.advance_by(5);
  EXPECT_EQ(clock.now_ns(), start + 5);
  clock.advance_to(start + 9);
  EXPECT_EQ(clock.now_ns(), start + 9);
}

TEST(ManualClockDeathTest, RefusesToGoBack) {
  ManualClock clock;
  clock.advance_to(100);
  EXPECT_DEATH(clock.advance_to(99), "t >= now_ns_");
}

}  // namespace
}  // namespace varve
