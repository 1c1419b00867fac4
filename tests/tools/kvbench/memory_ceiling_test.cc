// The copy puts every byte where a pull would.
#include "tools/kvbench/memory_ceiling.h"

#include <gtest/gtest.h>

namespace varve::kvbench {
namespace {

TEST(MemoryCeiling, EveryByteIsCopiedAgainAndAgain) {
  const WorkingSetShape shape{.blocks = 3, .layers = 2, .layer_bytes = 192 * kKiB};
  auto set = WorkingSet::make(shape);
  ASSERT_TRUE(set.has_value());
  (*set)->fill();
  auto ceiling = MemoryCeiling::make(shape);
  ASSERT_TRUE(ceiling.has_value());
  for (int round = 0; round < 2; ++round) {
    (*set)->poison();
    EXPECT_GT((*ceiling)->round(**set), 0u);
    EXPECT_EQ((*set)->wrong_extents(), 0u);
  }
}

}  // namespace
}  // namespace varve::kvbench
