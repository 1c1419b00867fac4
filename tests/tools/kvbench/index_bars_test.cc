// The index bars on a small table: they measure something, and what they measure is the index.
#include "tools/kvbench/index_bars.h"

#include <gtest/gtest.h>

namespace varve::kvbench {
namespace {

constexpr IndexBarOptions kSmall{.fragments = 20000, .prefix_ids = 800, .rounds = 3};

TEST(IndexBars, TheMatchBarHasARatePerRound) {
  const Bar bar = match_bar(kSmall);
  EXPECT_TRUE(bar.has_value()) << bar.refused;
  EXPECT_EQ(bar.rounds.size(), 3u);
  EXPECT_GT(bar.value(), 0);
  EXPECT_EQ(bar.target, 3e6) << "of the architecture, in process; over the wire it is 1 M";
}

TEST(IndexBars, AFragmentCostsLessThanItsTarget) {
  const Bar bar = index_bytes_bar(kSmall);
  ASSERT_TRUE(bar.has_value()) << bar.refused;
  EXPECT_TRUE(bar.is_ok()) << bar.line();
  EXPECT_GT(bar.value(), 32) << "an id alone has 32 bytes";
  // Expect: of a block of three fragments (79 + 3 * 16) / 3, and a little for the whole table.
  EXPECT_NE(bar.details().find("2+1 42.3"), std::string::npos) << bar.details();
}

}  // namespace
}  // namespace varve::kvbench
