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
      {DegradedReason::kThin, {.blocks_thin = 1}},
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

void put(MetricSnapshot& sum, const char* name, const char* labels, int64_t number) {
  sum.append({{name, labels, ""}, MetricSnapshot::Value::Kind::kGauge, number, {}});
}

TEST(Degraded, TheNumbersOfANodeSayItsState) {
  MetricSnapshot sum;
  put(sum, "varve_target_ok_shards", "target=\"0\"", 2);
  put(sum, "varve_target_ok_shards", "target=\"1\"", 2);
  put(sum, "varve_recovering", "", 1);
  put(sum, "varve_reserve_refused_total", "reason=\"no_space\"", 3);
  put(sum, "varve_push_committed_total", "ack=\"cached\"", 4);
  put(sum, "varve_push_committed_total", "ack=\"durable\"", 5);
  put(sum, "varve_match_ids_total", "", 6);
  put(sum, "varve_match_hits_total", "tier=\"dram\"", 1);
  put(sum, "varve_match_hits_total", "tier=\"flash\"", 1);
  put(sum, "varve_index_thin_blocks", "", 12);
  NodeFacts facts{{false, false}, 0, 2, 1, 0};
  DegradedSeen seen = degraded_seen(sum, facts);
  EXPECT_EQ(seen.targets_failed, 0u);
  EXPECT_EQ(seen.shards_on_fallback, 1u);
  EXPECT_EQ(seen.shards_recovering, 1u);
  EXPECT_EQ(seen.refused_no_space, 3u);
  EXPECT_EQ(seen.blocks_thin, 12u);
  EXPECT_EQ(seen.committed, 9u);
  EXPECT_EQ(seen.asked, 6u);
  EXPECT_EQ(seen.hits, 2u);
  // Expect: a target is failed when one of the shards that counted does not have it.
  facts.shards_counted = 3;
  EXPECT_EQ(degraded_seen(sum, facts).targets_failed, 2u);
  // Expect: a shard that never answered says nothing about the targets, a lost one stays lost.
  facts = {{false, true}, 0, 2, 0, 1};
  seen = degraded_seen(sum, facts);
  EXPECT_EQ(seen.targets_failed, 1u);
  EXPECT_EQ(seen.shards_stalled, 1u);
  // Expect: nobody misses one that was emptied and taken out.
  facts.drained = 0b10;
  EXPECT_EQ(degraded_seen(sum, facts).targets_failed, 0u);
}

TEST(Degraded, ABulkLoaderIsNoWarning) {
  Degraded degraded;
  testing::internal::CaptureStderr();
  degraded.see({.committed = 5000, .asked = 5000}, kSecond);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(degraded.is(DegradedReason::kNoHits));
  EXPECT_EQ(log.find("warn"), std::string::npos) << log;
  EXPECT_NE(log.find("no_hits"), std::string::npos) << log;
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
