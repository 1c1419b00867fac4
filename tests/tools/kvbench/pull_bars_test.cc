// The pull bars never have a number that nothing stands behind. That they have one is the smoke
// test `tools/dev bench --quick`, which needs the daemon's binary.
#include "tools/kvbench/pull_bars.h"

#include <gtest/gtest.h>

namespace varve::kvbench {
namespace {

PullBarOptions without_daemon() {
  PullBarOptions options;
  options.shape = {.blocks = 1, .layers = 1, .layer_bytes = 256 * kKiB};
  options.varved = "/no/such/varved";
  options.folder = "nowhere";
  return options;
}

TEST(PullBars, WithoutADaemonTheDramBarsAreRefused) {
  const DramPullBars bars = dram_pull_bars(without_daemon());
  EXPECT_EQ(bars.pull.line().find("refused tcp_dram_pull "), 0u) << bars.pull.line();
  EXPECT_EQ(bars.server_cpu.line().find("refused server_cpu "), 0u) << bars.server_cpu.line();
  EXPECT_EQ(bars.first_layer.line().find("refused first_layer "), 0u) << bars.first_layer.line();
}

TEST(PullBars, WithoutADaemonTheFlashBarIsRefused) {
  const Bar bar = flash_pull_bar(without_daemon());
  EXPECT_FALSE(bar.has_value());
  EXPECT_EQ(bar.line().find("refused flash_pull "), 0u) << bar.line();
}

}  // namespace
}  // namespace varve::kvbench
