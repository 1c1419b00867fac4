// Goal: sizes, bounds-checked loads and hex hold at their edges.
// Method: direct calls, a death test for the bounds.
#include "common/base/bytes.h"

#include <gtest/gtest.h>

#include <array>

namespace varve {
namespace {

TEST(Bytes, RoundsToUnitsAndPages) {
  EXPECT_EQ(round_up(0, 4096), 0u);
  EXPECT_EQ(round_up(1, 4096), 4096u);
  EXPECT_EQ(round_up(4096, 4096), 4096u);
  EXPECT_EQ(round_down(4097, 4096), 4096u);
  EXPECT_EQ(pages_of(0), 0u);
  EXPECT_EQ(pages_of(1), 1u);
  EXPECT_EQ(pages_of(4096), 1u);
  EXPECT_EQ(pages_of(4097), 2u);
  EXPECT_EQ(bytes_of(3), 12288u);
}

TEST(Bytes, LoadReturnsWhatStoreWroteInLittleEndian) {
  std::array<std::byte, 12> buffer{};
  store(buffer, 4, uint32_t{0x04030201});
  EXPECT_EQ(to_hex(buffer), "000000000102030400000000");
  EXPECT_EQ(load<uint32_t>(buffer, 4), 0x04030201u);
}

TEST(BytesDeathTest, LoadPastTheEndIsAProgrammerError) {
  std::array<std::byte, 7> buffer{};
  EXPECT_DEATH((void)load<uint64_t>(buffer), "offset");
  EXPECT_DEATH(store(buffer, 4, uint32_t{1}), "offset");
}

TEST(Hex, TakesBothCasesAndGivesLowerCase) {
  std::array<std::byte, 4> out{};
  EXPECT_TRUE(from_hex("DEADbeef", out));
  EXPECT_EQ(to_hex(out), "deadbeef");
}

TEST(Hex, RefusesWrongLengthAndForeignDigits) {
  std::array<std::byte, 2> out{};
  EXPECT_FALSE(from_hex("abc", out));
  EXPECT_FALSE(from_hex("abcde", out));
  EXPECT_FALSE(from_hex("", out));
  EXPECT_FALSE(from_hex("ab g", out));
  EXPECT_FALSE(from_hex("0x12", out));
  EXPECT_TRUE(from_hex("", ByteSpan{}));
}

}  // namespace
}  // namespace varve
