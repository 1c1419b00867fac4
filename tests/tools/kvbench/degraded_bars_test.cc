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
  for (const auto& [scheme, suffix] : {std::pair{Scheme{2, 1}, ""}, {Scheme{4, 2}, "_4+2"}}) {
    const DegradedBars bars = ec_degraded_bars(without_daemon(), scheme);
    const std::string whole = bars.whole.line(), first = bars.first.line();
    EXPECT_TRUE(whole.starts_with("refused ec_degraded_whole" + std::string(suffix) + " "))
        << whole;
    EXPECT_TRUE(first.starts_with("refused ec_degraded_first" + std::string(suffix) + " "))
        << first;
    EXPECT_EQ(bars.whole.target, 1.5);
    EXPECT_EQ(bars.first.target, 3.0);
  }
}

TEST(DegradedBars, WithoutADaemonNobodyIsStuck) {
  const Bar bar = ec_stuck_first_bar(without_daemon());
  EXPECT_EQ(bar.line().find("refused ec_stuck_first "), 0u) << bar.line();
}

}  // namespace
}  // namespace varve::kvbench
