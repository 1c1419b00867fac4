// The bar of cancelled pulls never has a number that nothing stands behind. That it has one, and
// that memory stays as it was, needs the daemon: tests/e2e/bars_test.py.
#include "tools/kvbench/cancel_bar.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace varve::kvbench {
namespace {

TEST(CancelBar, WithoutADaemonTheBarIsRefused) {
  CancelBarOptions options;
  options.shape = {.blocks = 4, .layers = 1, .layer_bytes = 64 * kKiB};
  options.varved = "/no/such/varved";
  options.folder = testing::TempDir() + "/kvbench_cancel";
  const Bar bar = cancel_fenced_bar(options);
  EXPECT_FALSE(bar.has_value());
  EXPECT_EQ(bar.line().find("refused cancel_fenced "), 0u) << bar.line();
  EXPECT_EQ(bar.verified_bytes, 0u);
  std::filesystem::remove_all(options.folder);
}

TEST(CancelBar, ItIsAFactWithoutATarget) {
  CancelBarOptions options;
  options.shape = {.blocks = 4, .layers = 1, .layer_bytes = 64 * kKiB};
  options.varved = "/no/such/varved";
  options.folder = testing::TempDir() + "/kvbench_cancel_fact";
  Bar bar = cancel_fenced_bar(options);
  bar.refused = "";
  bar.rounds = {100, 300, 200};
  EXPECT_EQ(bar.line(), "fact cancel_fenced 200.0");
  std::filesystem::remove_all(options.folder);
}

}  // namespace
}  // namespace varve::kvbench
