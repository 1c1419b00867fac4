// Goal: exactly the offered schemes are read, by their names; everything else is refused.
// Method: every pair of small numbers, and texts that look alike.
#include "common/model/scheme.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

TEST(Scheme, ReadsExactlyTheOfferedOnes) {
  uint32_t offered = 0;
  for (uint32_t k = 0; k < 12; ++k) {
    for (uint32_t m = 0; m < 6; ++m) {
      const Scheme scheme{k, m};
      const Result<Scheme> read = Scheme::parse(scheme.text());
      ASSERT_EQ(read.has_value(), scheme.is_offered()) << scheme.text();
      if (!read.has_value()) continue;
      EXPECT_EQ(*read, scheme);
      EXPECT_LE(scheme.width(), kWidthMax);
      ++offered;
    }
  }
  EXPECT_EQ(offered, 8u);
  for (const char* text : {"", "1", "1+", "+1", "1+0 ", "01+0", "4+2x", "4-2", "-1+0"}) {
    EXPECT_FALSE(Scheme::parse(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace varve
