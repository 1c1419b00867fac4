// These bars never have a number that nothing stands behind. That they have one is the smoke test
// `tools/dev bench ec --quick`, which needs the daemon's binary.
#include "tools/kvbench/degraded_bars.h"

#include <gtest/gtest.h>

namespace varve::kvbench {
namespace {

DegradedBarOptions without_daemon() {
  DegradedBarOptions options;
  options.shape = {.blocks = 1, .layers = 1, .layer_bytes = 256 * kKiB};
  options.varved = "/no/such/varved";
  options.folder = ::testing::TempDir() + "/kvbench_degraded";
  return options;
}

TEST(DegradedBars, WithoutADaemonBothAreRefused) {
  const DegradedBars bars = ec_degraded_bars(without_daemon());
  EXPECT_EQ(bars.whole.line().find("refused ec_degraded_whole "), 0u) << bars.whole.line();
  EXPECT_EQ(bars.first.line().find("refused ec_degraded_first "), 0u) << bars.first.line();
}

TEST(DegradedBars, WithoutADaemonNobodyIsStuck) {
  const Bar bar = ec_stuck_first_bar(without_daemon());
  EXPECT_EQ(bar.line().find("refused ec_stuck_first "), 0u) << bar.line();
}

}  // namespace
}  // namespace varve::kvbench
