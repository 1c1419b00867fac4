// Goal: what an operator reads is short, right at every border, and cannot steer his terminal.
#include "tools/kvctl/text.h"

#include <gtest/gtest.h>

#include "common/base/base.h"

namespace varve::kvctl {
namespace {

TEST(Text, WritesSizesInTheLargestUnitThatFits) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1024), "1.0 KiB");
  EXPECT_EQ(size_text(kMiB - 1), "1.0 MiB");  // not 1024.0 KiB
  EXPECT_EQ(size_text(3 * kMiB / 2), "1.5 MiB");
  EXPECT_EQ(size_text(10 * kGiB), "10.0 GiB");
  EXPECT_EQ(size_text(1024 * kGiB), "1.0 TiB");
  EXPECT_EQ(size_text(~uint64_t{0}), "16.0 EiB");
}

TEST(Text, WritesAgesInTwoUnitsAtMost) {
  EXPECT_EQ(age_text(0), "0 s");
  EXPECT_EQ(age_text(999), "999 ns");
  EXPECT_EQ(age_text(850 * kMicrosecond), "850 us");
  EXPECT_EQ(age_text(12 * kMillisecond), "12 ms");
  EXPECT_EQ(age_text(3400 * kMillisecond), "3.4 s");
  EXPECT_EQ(age_text(59 * kSecond), "59 s");
  EXPECT_EQ(age_text(60 * kSecond), "1 min");
  EXPECT_EQ(age_text(200 * kSecond), "3 min 20 s");
  EXPECT_EQ(age_text(Nanos{5} * 3600 * kSecond + 120 * kSecond), "5 h 2 min");
  EXPECT_EQ(age_text(Nanos{76} * 3600 * kSecond), "3 d 4 h");
}

TEST(Text, GroupsThousandsAndWritesShares) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(1234567), "1,234,567");
  EXPECT_EQ(share_text(1, 3), "33.3 %");
  EXPECT_EQ(share_text(0, 0), "-");
  EXPECT_EQ(plural(1, "block"), "1 block");
  EXPECT_EQ(plural(2000, "block"), "2,000 blocks");
}

TEST(Text, TakesTheTeethOutOfForeignText) {
  EXPECT_EQ(printable("a\x1b[31mb\nc\x7f"), "a?[31mb?c?");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "?2J");  // U+009B is an escape of one character
  EXPECT_EQ(printable("caf\xc3\xa9 \xc2\xa0"), "caf\xc3\xa9 \xc2\xa0");
}

TEST(Text, WritesBytesInHex) {
  EXPECT_EQ(hex_text(std::string("\x01\xff", 2)), "01ff");
  EXPECT_EQ(hex_text(std::string("\x01\xff\x02", 3), 2), "01ff...");
  EXPECT_EQ(session_text(0xa1), "00000000000000a1");
}

TEST(Text, WrapsAtBlanksAndCountsCodePoints) {
  EXPECT_EQ(columns_of("caf\xc3\xa9"), 4u);
  EXPECT_EQ(wrapped("one two three", 7, "  "), "one two\n  three");
  EXPECT_EQ(wrapped("", 7, ""), "");
  EXPECT_EQ(wrapped("unbreakable", 3, ""), "unbreakable");
}

TEST(Text, ColoursOnlyWhereTheyAreShown) {
  EXPECT_EQ(Paint(false)(Tone::kBad, "FAILED"), "FAILED");
  EXPECT_EQ(Paint(true)(Tone::kBad, "FAILED"), "\033[31mFAILED\033[0m");
  EXPECT_EQ(Paint(true)(Tone::kPlain, "ok"), "ok");
}

}  // namespace
}  // namespace varve::kvctl
