// Goal: a failed assertion says what, with which operands, and where the core stood.
// Method: death tests matching the printed text.
#include "common/base/assert.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

TEST(AssertDeathTest, PrintsExpressionOperandsShardOpAndStage) {
  const auto fail = [] {
    const uint32_t used = 7;
    const int delta = -3;
    assert_context() = {2, "pull", "kRead"};
    VARVE_ASSERT(used == 8, used, delta);
  };
  EXPECT_DEATH(fail(),
               "used == 8(.|\n)*assert_test.cc(.|\n)*operand 0: 7\n(.|\n)*operand 1: "
               "18446744073709551613 .-3.\n(.|\n)*shard: 2, op: pull, stage: kRead");
}

TEST(AssertDeathTest, NamesNoOpWhereNoneRuns) {
  EXPECT_DEATH(VARVE_ASSERT(1 + 1 == 3), "shard: 0, op: -, stage: -");
}

TEST(Assert, EvaluatesTheConditionOnceAndGoesOnWhenItHolds) {
  int calls = 0;
  VARVE_ASSERT(++calls == 1);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace varve
