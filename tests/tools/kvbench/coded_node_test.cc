// What is read of a daemon's metrics, and how times are told.
#include "tools/kvbench/coded_node.h"

#include <gtest/gtest.h>

namespace varve::kvbench {
namespace {

constexpr const char* kText =
    "varve_device_reads_total{target=\"0\"} 10\n"
    "varve_device_reads_total{target=\"1\"} 20\n"
    "varve_device_read_bytes_total{target=\"0\"} 4096\n"
    "varve_device_written_bytes_total{target=\"1\"} 8192\n"
    "varve_pull_extents_lost_total 5\n"
    "varve_pull_extents_late_total 6\n"
    "varve_repair_bytes_total{outcome=\"done\"} 7\n"
    "varve_repair_bytes_total{outcome=\"gone\"} 100\n";

TEST(CodedNode, CountsAreOverAllTargetsAndSinceBefore) {
  NodeCounts before;
  before.device_reads = 1;
  before.extents_lost = 2;
  const NodeCounts counts = NodeCounts::parse(kText).since(before);
  EXPECT_EQ(counts.device_reads, 29u);
  EXPECT_EQ(counts.device_read_bytes, 4096u);
  EXPECT_EQ(counts.device_written_bytes, 8192u);
  EXPECT_EQ(counts.extents_lost, 3u);
  EXPECT_EQ(counts.extents_late, 6u);
  EXPECT_EQ(counts.repaired_bytes, 7u) << "what was not done was not repaired";
}

TEST(CodedNode, TimesAreTheMedianAndTheLastHundredth) {
  std::vector<Puller::Pulled> pulls(100);
  for (uint32_t i = 0; i < 100; ++i)
    pulls[i].took_ns = (i + 1) * kMillisecond;
  EXPECT_EQ(times_text(times_ms(pulls, &Puller::Pulled::took_ns)), "p50 50.00 ms, p99 99.00 ms");
}

TEST(CodedNode, WithoutADaemonThereIsNoNode) {
  auto set = WorkingSet::make({.blocks = 1, .layers = 1, .layer_bytes = 256 * kKiB});
  ASSERT_TRUE(set.has_value());
  CodedNodeOptions options;
  options.daemon.varved = "/no/such/varved";
  options.daemon.folder = ::testing::TempDir() + "/kvbench_node";
  options.daemon.scheme = {2, 1};
  EXPECT_FALSE(CodedNode::make(options, **set).has_value());
}

}  // namespace
}  // namespace varve::kvbench
