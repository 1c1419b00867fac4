// The bars of matches over the wire never have a number that nothing stands behind. That they have
// one is the smoke test `tools/dev bench --quick`, which needs the daemon's binary.
#include "tools/kvbench/match_bars.h"

#include <gtest/gtest.h>

namespace varve::kvbench {
namespace {

TEST(MatchBars, WithoutADaemonBothBarsAreRefused) {
  MatchBarOptions options;
  options.varved = "/no/such/varved";
  options.folder = "nowhere";
  const MatchBars bars = match_wire_bars(options);
  EXPECT_EQ(bars.wire.line().find("refused match_wire "), 0u) << bars.wire.line();
  EXPECT_EQ(bars.tail.line().find("refused match_wire_tail "), 0u) << bars.tail.line();
}

// The targets of the architecture, both ways around.
TEST(MatchBars, EachHasATargetThatItCanMiss) {
  MatchBarOptions options;
  options.varved = "/no/such/varved";
  options.folder = "nowhere";
  MatchBars bars = match_wire_bars(options);
  bars.wire.refused = bars.tail.refused = "";
  bars.wire.rounds = {2e6};
  bars.tail.rounds = {2.5};
  EXPECT_EQ(bars.wire.line(), "bar match_wire 2000000 1000000 ok");
  EXPECT_EQ(bars.tail.line(), "bar match_wire_tail 2.500 3.000 ok");
  bars.wire.rounds = {9e5};
  bars.tail.rounds = {12};
  EXPECT_FALSE(bars.wire.is_ok());
  EXPECT_FALSE(bars.tail.is_ok());
  // Expect: they are one measurement, whose bytes and time are counted once.
  EXPECT_EQ(bars.wire.measurement, bars.tail.measurement);
  EXPECT_LT(bars.wire.setup.client_memory_bytes, bars.wire.setup.pushed_bytes);
}

}  // namespace
}  // namespace varve::kvbench
