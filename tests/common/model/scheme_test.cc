// Goal: only the offered schemes exist, as text, as value and with the matrix that FORMAT 4.4 says.
#include "common/model/scheme.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

TEST(Scheme, TheOfferedOnesParseToWhatTheirTextSays) {
  for (const Scheme scheme : kSchemes) {
    EXPECT_TRUE(scheme.valid()) << scheme.text();
    EXPECT_EQ(Scheme::parse(scheme.text()).value(), scheme);
  }
  EXPECT_EQ(Scheme::parse("4+2").value(), (Scheme{4, 2}));
  EXPECT_EQ((Scheme{8, 3}).text(), "8+3");
  EXPECT_EQ((Scheme{5, 2}).width(), 7u);
}

TEST(Scheme, AllOthersAreRefusedByName) {
  for (const char* text : {"", "4", "4+", "+2", "4+3", "2+2", "04+2", "4+2 ", " 4+2", "4-2", "0+0",
                           "255+255", "4+2+1"}) {
    const auto scheme = Scheme::parse(text);
    ASSERT_FALSE(scheme.has_value()) << text;
    EXPECT_EQ(scheme.error().code(), Code::kInvalid) << text;
  }
  uint32_t count = 0;
  for (uint32_t k = 0; k < 256; ++k) {
    for (uint32_t m = 0; m < 256; ++m)
      count += Scheme{k, m}.valid();
  }
  EXPECT_EQ(count, kSchemes.size());
}

TEST(Scheme, TheMatrixFollowsFromTheParity) {
  EXPECT_EQ(matrix_of({1, 0}), Matrix::kNone);
  EXPECT_EQ(matrix_of({1, 1}), Matrix::kXor);
  EXPECT_EQ(matrix_of({4, 1}), Matrix::kXor);
  EXPECT_EQ(matrix_of({4, 2}), Matrix::kCauchy);
  EXPECT_EQ(matrix_of({8, 3}), Matrix::kCauchy);
  EXPECT_DEATH(matrix_of({4, 3}), "valid");
}

}  // namespace
}  // namespace varve
