// Facts without a daemon are refused like any bar.
#include "tools/kvbench/layout_bar.h"

#include <gtest/gtest.h>

namespace varve::kvbench {
namespace {

TEST(LayoutBar, WithoutADaemonThereAreNoFacts) {
  LayoutBarOptions options;
  options.shape = {.blocks = 1, .layers = 1, .layer_bytes = 256 * kKiB};
  options.varved = "/no/such/varved";
  options.folder = ::testing::TempDir() + "/kvbench_layout";
  const Bar bar = ec_layout_bar(options);
  EXPECT_EQ(bar.line().find("refused ec_layout "), 0u) << bar.line();
}

}  // namespace
}  // namespace varve::kvbench
