// These bars never have a number that nothing stands behind; see degraded_bars_test.cc.
#include "tools/kvbench/store_bars.h"

#include <gtest/gtest.h>

namespace varve::kvbench {
namespace {

StoreBarOptions without_daemon() {
  StoreBarOptions options;
  options.shape = {.blocks = 1, .layers = 1, .layer_bytes = 256 * kKiB};
  options.varved = "/no/such/varved";
  options.folder = ::testing::TempDir() + "/kvbench_store";
  return options;
}

TEST(StoreBars, WithoutADaemonNothingIsWritten) {
  const Bar bar = ec_flash_bytes_bar(without_daemon());
  EXPECT_EQ(bar.line().find("refused ec_flash_bytes "), 0u) << bar.line();
}

TEST(StoreBars, WithoutADaemonNothingIsPushed) {
  const Bar bar = ec_push_bar(without_daemon());
  EXPECT_EQ(bar.line().find("refused ec_push_2+1 "), 0u) << bar.line();
}

}  // namespace
}  // namespace varve::kvbench
