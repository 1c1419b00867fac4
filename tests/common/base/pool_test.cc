// Goal: a pool hands out each object once and says no when empty.
// Method: direct calls.
#include "common/base/pool.h"

#include <gtest/gtest.h>

#include <set>

namespace varve {
namespace {

struct Part {
  explicit Part(int t) : tag(t) {}
  int tag;
};

TEST(Pool, GivesEveryObjectOnceThenSaysNo) {
  Pool<Part> pool(3, 42);
  std::set<Part*> seen;
  for (int i = 0; i < 3; ++i) {
    Part* part = pool.take();
    ASSERT_NE(part, nullptr);
    EXPECT_EQ(part->tag, 42);
    EXPECT_TRUE(seen.insert(part).second);
  }
  EXPECT_EQ(pool.take(), nullptr);
  EXPECT_EQ(pool.used(), 3u);
  for (Part* part : seen)
    pool.give(part);
  EXPECT_EQ(pool.available(), 3u);
  EXPECT_EQ(seen.count(pool.take()), 1u);
}

TEST(PoolDeathTest, MoreCannotComeBackThanWentOut) {
  Pool<Part> pool(1, 0);
  Part stranger(1);
  EXPECT_DEATH(pool.give(&stranger), "free_.size");
}

}  // namespace
}  // namespace varve
