// Goal: every counter of a target reaches the text under its own name and label, and every reason
// for a drop has a name of its own.
// Method: registers two targets in one set, looks for duplicates and for names operators rely on.
#include "server/flash/metric.h"

#include <gtest/gtest.h>

#include <set>

#include "server/flash/flash.h"

namespace varve::flash {
namespace {

TEST(FlashMetrics, HaveUniqueNamesWhateverTheTarget) {
  TargetMetrics first, second;
  MetricSet set;
  first.register_in(set, "target=\"0\"");
  second.register_in(set, "target=\"1\"");
  std::set<std::string> seen;
  for (const auto& value : set.snapshot().values) {
    EXPECT_TRUE(seen.insert(value.name.name + "{" + value.name.labels + "}").second)
        << value.name.name << " " << value.name.labels;
  }
  EXPECT_GT(seen.size(), 80u);
}

TEST(FlashMetrics, CountUnderTheNamesThatOperatorsKnow) {
  TargetMetrics metrics;
  MetricSet set;
  metrics.register_in(set, "target=\"3\"");
  metrics.ok.set(1);
  metrics.reads_corrupt.add(2);
  metrics.recovered[1].add(5);
  metrics.dropped_torn_bytes.add(4096);
  const MetricSnapshot snapshot = set.snapshot();
  EXPECT_EQ(snapshot.number("varve_flash_target_ok", "target=\"3\""), 1);
  EXPECT_EQ(snapshot.number("varve_flash_reads_corrupt_total", "target=\"3\""), 2);
  EXPECT_EQ(snapshot.number("varve_flash_recovered_total", "target=\"3\",source=\"footer\""), 5);
  EXPECT_EQ(snapshot.number("varve_flash_dropped_bytes_total", "target=\"3\",reason=\"torn\""),
            4096);
}

TEST(DropReason, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (uint32_t r = 0; r < kDropReasons; ++r)
    names.insert(drop_reason_name(static_cast<DropReason>(r)));
  EXPECT_EQ(names.size(), kDropReasons);
  EXPECT_EQ(names.count("unknown"), 0u);
}

}  // namespace
}  // namespace varve::flash
