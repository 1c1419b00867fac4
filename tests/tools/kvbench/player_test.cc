// How ops ended is counted apart, and without a server there is no player. What it plays is
// checked against a real server in tests/e2e/kvbench_test.py.
#include "tools/kvbench/player.h"

#include <gtest/gtest.h>

namespace varve::kvbench {
namespace {

TEST(Player, RefusedTimedOutAndFailedAreNotTheSame) {
  Outcomes outcomes;
  for (const Code code : {Code::kOk, Code::kOverloaded, Code::kQuota, Code::kNoSpace,
                          Code::kTimedOut, Code::kUnavailable, Code::kCorrupt})
    outcomes.count(code);
  Outcomes sum;
  sum.add(outcomes);
  sum.add(outcomes);
  EXPECT_EQ(sum.ops, 14u);
  EXPECT_EQ(sum.ok, 2u);
  EXPECT_EQ(sum.refused, 6u);
  EXPECT_EQ(sum.timed_out, 2u);
  EXPECT_EQ(sum.failed, 4u);
}

}  // namespace
}  // namespace varve::kvbench
