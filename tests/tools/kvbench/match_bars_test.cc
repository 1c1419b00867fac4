// The bar of matches over the wire never has a number that nothing stands behind. That it has one
// is the smoke test `tools/dev bench --quick`, which needs the daemon's binary.
#include "tools/kvbench/match_bars.h"

#include <gtest/gtest.h>

namespace varve::kvbench {
namespace {

TEST(MatchBars, WithoutADaemonTheBarIsRefused) {
  MatchBarOptions options;
  options.varved = "/no/such/varved";
  options.folder = "nowhere";
  const Bar bar = match_wire_bar(options);
  EXPECT_FALSE(bar.has_value());
  EXPECT_EQ(bar.line().find("refused match_wire "), 0u) << bar.line();
}

}  // namespace
}  // namespace varve::kvbench
