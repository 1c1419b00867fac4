// Goal: histograms keep their error bound, snapshots merge by addition. Method: every bucket edge,
// random values against sorted ones.
#include "common/metrics/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace varve {
namespace {

// The bucket that one recorded value falls in.
uint32_t bucket_of(uint64_t value) {
  Histogram h;
  h.record(value);
  const auto& buckets = h.buckets();
  return static_cast<uint32_t>(std::find(buckets.begin(), buckets.end(), 1u) - buckets.begin());
}

TEST(Histogram, EveryValueLiesAtOrBelowItsLimitAndAboveTheOneBefore) {
  for (uint32_t bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
    const uint64_t limit = Histogram::bucket_limit(bucket);
    const uint64_t before = bucket == 0 ? 0 : Histogram::bucket_limit(bucket - 1);
    ASSERT_GE(limit, before);
    if (limit == before) continue;  // below 8 there are more steps than values
    ASSERT_EQ(bucket_of(limit), bucket);
    ASSERT_EQ(bucket_of(before + 1), bucket);
    ASSERT_LE(limit - (before + 1), (before + 1) / 8) << "error over 12.5 %";
  }
  EXPECT_EQ(bucket_of(0), 0u);
  EXPECT_EQ(bucket_of(~uint64_t{0}), Histogram::kBuckets - 1);
  EXPECT_EQ(bucket_of(uint64_t{1} << 40), Histogram::kBuckets - Histogram::kSteps);
}

TEST(Histogram, QuantilesAreWithinTheirErrorOfTheTrueOnes) {
  Random random(31);
  Histogram h;
  std::vector<uint64_t> values;
  EXPECT_EQ(h.quantile(500), 0u);
  for (int i = 0; i < 10'000; ++i) {
    values.push_back(random.next() >> random.between(24, 60));
    h.record(values.back());
  }
  std::sort(values.begin(), values.end());
  for (uint32_t per_mille : {1u, 10u, 500u, 900u, 990u, 999u, 1000u}) {
    const uint64_t truth = values[std::max<size_t>(1, values.size() * per_mille / 1000) - 1];
    EXPECT_GE(h.quantile(per_mille), truth) << per_mille;
    EXPECT_LE(h.quantile(per_mille), truth + truth / 8 + 1) << per_mille;
  }
}

TEST(Histogram, MergingIsRecordingBoth) {
  Histogram a, b, both;
  for (uint64_t v : {0u, 1u, 5u, 100u})
    a.record(v), both.record(v);
  for (uint64_t v : {5u, 70'000u})
    b.record(v), both.record(v);
  a.merge(b);
  EXPECT_EQ(a.count(), 6u);
  EXPECT_EQ(a.sum(), 70'111u);
  EXPECT_EQ(a.buckets(), both.buckets());
}

TEST(MetricSnapshot, MergesShardsByNameAndLabels) {
  Counter a_pull, b_pull, b_only;
  Histogram a_time, b_time;
  MetricSet a, b;
  a.add({"pull", "", ""}, &a_pull);
  a.add({"time", "", ""}, &a_time);
  b.add({"only", "shard=\"1\"", ""}, &b_only);
  b.add({"pull", "", ""}, &b_pull);
  b.add({"time", "", ""}, &b_time);
  a_pull.add(2);
  b_pull.add(5);
  b_only.add(9);
  a_time.record(1);
  b_time.record(2);
  MetricSnapshot sum = a.snapshot();
  sum.merge(b.snapshot());
  EXPECT_EQ(sum.number("pull"), 7);
  EXPECT_EQ(sum.number("only", "shard=\"1\""), 9);
  EXPECT_EQ(sum.number("only"), 0);
  ASSERT_EQ(sum.values.size(), 3u);
  EXPECT_EQ(sum.values[1].histogram.count(), 2u);
}

TEST(MetricSnapshot, MergesAGaugeThatSaysSoByItsWorst) {
  Gauge a_ok, b_ok, a_used, b_used, a_eta, b_eta;
  MetricSet a, b;
  a.add({"ok", "", ""}, &a_ok, GaugeMerge::kMin);
  b.add({"ok", "", ""}, &b_ok, GaugeMerge::kMin);
  a.add({"used", "", ""}, &a_used);
  b.add({"used", "", ""}, &b_used);
  a.add({"eta", "", ""}, &a_eta, GaugeMerge::kMax);
  b.add({"eta", "", ""}, &b_eta, GaugeMerge::kMax);
  a_eta.set(5);
  b_eta.set(9);
  a_ok.set(1);
  a_used.set(1);
  b_used.set(2);
  MetricSnapshot sum;
  sum.merge(a.snapshot());
  EXPECT_EQ(sum.number("ok"), 1);
  sum.merge(b.snapshot());
  EXPECT_EQ(sum.number("ok"), 0) << "failed for one";
  EXPECT_EQ(sum.number("used"), 3);
  EXPECT_EQ(sum.number("eta"), 9) << "the slowest";
}

TEST(MetricSnapshotDeathTest, HoldsANameOnce) {
  MetricSnapshot snapshot;
  snapshot.append({{"varve_a", "", ""}, MetricSnapshot::Value::Kind::kGauge, 1, {}});
  snapshot.append({{"varve_a", "shard=\"1\"", ""}, MetricSnapshot::Value::Kind::kGauge, 1, {}});
  EXPECT_DEATH(snapshot.append({{"varve_a", "", ""}, MetricSnapshot::Value::Kind::kGauge, 1, {}}),
               "is_same");
}

TEST(MetricSnapshot, IsAValueThatLaterCountsDoNotChange) {
  Counter c;
  MetricSet set;
  set.add({"c", "", ""}, &c);
  const MetricSnapshot before = set.snapshot();
  c.add(10);
  EXPECT_EQ(before.number("c"), 0);
  EXPECT_EQ(set.snapshot().number("c"), 10);
}

TEST(MetricSetDeathTest, ANameIsRegisteredOnce) {  // M2
  Counter a, b;
  MetricSet set;
  set.add({"a", "x=\"1\"", ""}, &a);
  set.add({"a", "x=\"2\"", ""}, &b);
  EXPECT_DEATH(set.add({"a", "x=\"1\"", ""}, &b), "is_same");
}

}  // namespace
}  // namespace varve
