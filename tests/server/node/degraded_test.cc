// Goal: a flag per reason, said once when it comes and once when it goes, within seconds.
#include <gtest/gtest.h>

#include <algorithm>

#include "server/node/node.h"

namespace varve {
namespace {

TEST(Degraded, ASoundNodeIsNotDegraded) {
  Degraded degraded;
  degraded.see(DegradedSeen{}, kSecond);
  EXPECT_FALSE(degraded.any());
}

TEST(Degraded, EveryReasonHasItsFlagAndLeavesAgain) {
  const struct {
    DegradedReason reason;
    DegradedSeen seen;
  } cases[] = {
      {DegradedReason::kTarget, {.targets_failed = 1}},
      {DegradedReason::kIoFallback, {.shards_on_fallback = 2}},
      {DegradedReason::kRecovering, {.shards_recovering = 1}},
      {DegradedReason::kStalled, {.shards_stalled = 1}},
      {DegradedReason::kNoHits, {.committed = 5000, .asked = 5000}},
  };
  for (const auto& given : cases) {
    Degraded degraded;
    degraded.see(given.seen, kSecond);
    for (uint32_t r = 0; r < kDegradedReasons; ++r) {
      const auto reason = static_cast<DegradedReason>(r);
      EXPECT_EQ(degraded.is(reason), reason == given.reason) << degraded_name(reason);
    }
    degraded.see(DegradedSeen{}, 2 * kSecond);
    EXPECT_FALSE(degraded.any());
  }
}

TEST(Degraded, OneHitOrALittleTrafficIsNoSignOfForeignIds) {
  Degraded degraded;
  degraded.see({.committed = 5000, .asked = 5000, .hits = 1}, kSecond);
  degraded.see({.committed = 999, .asked = 5000}, 2 * kSecond);
  EXPECT_FALSE(degraded.any());
}

TEST(Degraded, NoSpaceLastsWhileRefusalsComeAndABitLonger) {
  Degraded degraded;
  degraded.see({.refused_no_space = 5}, kSecond);
  EXPECT_TRUE(degraded.is(DegradedReason::kNoSpace));
  degraded.see({.refused_no_space = 5}, 10 * kSecond);
  EXPECT_TRUE(degraded.is(DegradedReason::kNoSpace));
  degraded.see({.refused_no_space = 6}, 10 * kSecond + 1);
  degraded.see({.refused_no_space = 6}, 20 * kSecond);
  EXPECT_TRUE(degraded.is(DegradedReason::kNoSpace));
  degraded.see({.refused_no_space = 6}, 20 * kSecond + 2);
  EXPECT_FALSE(degraded.any());
}

TEST(Degraded, EachChangeIsOneLine) {
  Degraded degraded;
  testing::internal::CaptureStderr();
  for (uint32_t i = 1; i < 5; ++i)
    degraded.see({.targets_failed = 1}, i * kSecond);
  degraded.see({}, 6 * kSecond);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;
}

}  // namespace
}  // namespace varve
