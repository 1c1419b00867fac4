// Goal: a snapshot reads as the Prometheus text that scrapers know: families together, whole
// numbers whole, histograms cumulative and in their units.
#include <gtest/gtest.h>

#include "server/monitor/monitor.h"

namespace varve {
namespace {

TEST(PrometheusText, PrintsFamiliesTogetherInOrderOfFirstMention) {
  Counter hit, miss;
  Gauge depth;
  MetricSet set;
  set.add({"varve_match_total", "outcome=\"hit\"", "Lookups.\nBy \\ outcome."}, &hit);
  set.add({"varve_queue_depth", "", "Ops waiting."}, &depth);
  set.add({"varve_match_total", "outcome=\"miss\"", "Lookups."}, &miss);
  hit.add(3);
  miss.add();
  depth.set(-2);
  const std::string text = prometheus_text(set.snapshot());
  EXPECT_NE(text.find("# TYPE varve_match_total counter\n"
                      "varve_match_total{outcome=\"hit\"} 3\n"
                      "varve_match_total{outcome=\"miss\"} 1\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("# TYPE varve_queue_depth gauge\nvarve_queue_depth -2\n"), std::string::npos)
      << text;
  EXPECT_LT(text.find("varve_match_total"), text.find("varve_queue_depth"));
  EXPECT_TRUE(text.starts_with("# HELP ")) << "check_metrics() knows a metrics file by it";
}

TEST(PrometheusText, SplitsLabelsAndEscapesTheirValues) {
  Counter one;
  MetricSet set;
  set.add({"varve_a_total", R"(path="C:\\d \"x\", y",shard="0")", ""}, &one);
  EXPECT_NE(
      prometheus_text(set.snapshot()).find(R"(varve_a_total{path="C:\\d \"x\", y",shard="0"} 0)"),
      std::string::npos)
      << prometheus_text(set.snapshot());
}

TEST(PrometheusText, PrintsHistogramsCumulativelyAndNanosecondsAsSeconds) {
  Histogram seconds, bytes;
  MetricSet set;
  set.add({"varve_stage_seconds", "stage=\"read\"", "Time."}, &seconds);
  set.add({"varve_frame_bytes", "", "Size."}, &bytes);
  seconds.record(1'000'000'000);
  seconds.record(500'000'000);
  seconds.record(uint64_t{1} << 50);  // beyond the last edge: only in +Inf
  bytes.record(4096);
  const std::string text = prometheus_text(set.snapshot());
  const auto has = [&](const std::string& line) { return text.find(line + "\n") != text.npos; };
  EXPECT_TRUE(has("# TYPE varve_stage_seconds histogram")) << text;
  EXPECT_TRUE(has("varve_stage_seconds_bucket{stage=\"read\",le=\"0.536870911\"} 1")) << text;
  EXPECT_TRUE(has("varve_stage_seconds_bucket{stage=\"read\",le=\"1.073741823\"} 2")) << text;
  EXPECT_TRUE(has("varve_stage_seconds_bucket{stage=\"read\",le=\"1099.511627775\"} 2")) << text;
  EXPECT_TRUE(has("varve_stage_seconds_bucket{stage=\"read\",le=\"+Inf\"} 3")) << text;
  EXPECT_TRUE(has("varve_stage_seconds_count{stage=\"read\"} 3")) << text;
  EXPECT_TRUE(has("varve_frame_bytes_bucket{le=\"4095\"} 0")) << text;
  EXPECT_TRUE(has("varve_frame_bytes_bucket{le=\"8191\"} 1")) << text;
  EXPECT_TRUE(has("varve_frame_bytes_sum 4096")) << text;
}

TEST(PrometheusText, LargeCountersStayWhole) {
  Counter bytes;
  bytes.add(123'456'789'012'345);
  MetricSet set;
  set.add({"varve_bytes_total", "", "b"}, &bytes);
  EXPECT_NE(prometheus_text(set.snapshot()).find("varve_bytes_total 123456789012345\n"),
            std::string::npos)
      << prometheus_text(set.snapshot());
}

}  // namespace
}  // namespace varve
