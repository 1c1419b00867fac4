// Goal: every counter of the ops reaches the text under its own name and label (M2).
// Method: registers a fresh set, looks for duplicates and for the names that operators rely on.
#include "server/op/metric.h"

#include <gtest/gtest.h>

#include <set>

namespace varve {
namespace {

TEST(OpMetrics, HaveUniqueNames) {
  OpMetrics metrics;
  MetricSet set;
  metrics.register_in(set);
  std::set<std::string> seen;
  for (const auto& value : set.snapshot().values) {
    EXPECT_TRUE(seen.insert(value.name.name + "{" + value.name.labels + "}").second)
        << value.name.name << " " << value.name.labels;
  }
  EXPECT_GT(seen.size(), 60u);
}

TEST(OpMetrics, CountUnderTheNamesThatOperatorsKnow) {
  OpMetrics metrics;
  MetricSet set;
  metrics.register_in(set);
  metrics.match_parts.add(3);
  metrics.refused[static_cast<uint32_t>(Code::kNoSpace)].add(2);
  metrics.evicted_blocks.add(5);
  metrics.pull_bytes_flash.add(7);
  const MetricSnapshot snapshot = set.snapshot();
  EXPECT_EQ(snapshot.number("varve_match_parts_total"), 3);
  EXPECT_EQ(snapshot.number("varve_reserve_refused_total", "reason=\"no_space\""), 2);
  EXPECT_EQ(snapshot.number("varve_evicted_blocks_total"), 5);
  EXPECT_EQ(snapshot.number("varve_pull_bytes_total", "tier=\"flash\""), 7);
}

}  // namespace
}  // namespace varve
