// Goal: the three digests equal their published values and their streaming forms equal one shot.
// Method: known answers (RFC 3720 B.4, FIPS 180-4 examples, xxhash sanity values), every split of a
// short message, random splits of a long one.
#include "common/base/hash.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "common/base/random.h"

namespace varve {
namespace {

ConstByteSpan text(std::string_view s) {
  return std::as_bytes(std::span<const char>(s.data(), s.size()));
}

std::vector<std::byte> noise(size_t size, uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes)
    b = static_cast<std::byte>(random.next());
  return bytes;
}

// The definition, bit by bit, as a reference for the fast kernel.
uint32_t crc32c_by_definition(ConstByteSpan bytes) {
  uint32_t state = ~0u;
  for (std::byte b : bytes) {
    state ^= static_cast<uint8_t>(b);
    for (int i = 0; i < 8; ++i)
      state = state & 1 ? state >> 1 ^ 0x82F63B78u : state >> 1;
  }
  return ~state;
}

TEST(Crc32c, EqualsThePublishedValues) {
  EXPECT_EQ(crc32c(0, text("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c(0, std::vector<std::byte>(32, std::byte{0})), 0x8A9136AAu);
  EXPECT_EQ(crc32c(0, std::vector<std::byte>(32, std::byte{0xff})), 0x62A8AB43u);
  EXPECT_EQ(crc32c(0, {}), 0u);
}

TEST(Crc32c, EqualsItsDefinitionAtEveryLengthAndAlignment) {
  const std::vector<std::byte> bytes = noise(1200, 1);
  for (size_t size = 0; size < 1100; size += size < 300 ? 1 : 37) {
    for (size_t offset : {0u, 1u, 7u, 63u}) {
      const ConstByteSpan part = ConstByteSpan(bytes).subspan(offset, size);
      ASSERT_EQ(crc32c(0, part), crc32c_by_definition(part)) << size << " at " << offset;
    }
  }
}

TEST(Crc32c, ContinuesFromAnySplitAndFromASeed) {
  const std::vector<std::byte> bytes = noise(257, 2);
  const ConstByteSpan all(bytes);
  for (size_t i = 0; i <= all.size(); ++i) {
    ASSERT_EQ(crc32c(crc32c(0, all.first(i)), all.subspan(i)), crc32c(0, all));
    ASSERT_EQ(crc32c(crc32c(77, all.first(i)), all.subspan(i)), crc32c(77, all));
  }
  EXPECT_NE(crc32c(77, all), crc32c(78, all));
}

TEST(Xxh3, EqualsThePublishedValueOfNothing) {
  EXPECT_EQ(xxh3(0, {}), 0x2D06800538D394C2ull);
}

TEST(Xxh3, StreamEqualsOneShotForAnyPiecesAndSeeds) {
  const std::vector<std::byte> bytes = noise(20000, 3);
  Random random(4);
  for (int round = 0; round < 200; ++round) {
    const uint64_t seed = round % 3 == 0 ? 0 : random.next();
    const ConstByteSpan all = ConstByteSpan(bytes).first(random.below(bytes.size() + 1));
    Xxh3Stream stream(seed);
    for (ConstByteSpan rest = all; !rest.empty();) {
      const size_t n = random.between(1, std::min<size_t>(rest.size(), 1 + random.below(3000)));
      stream.update(rest.first(n));
      rest = rest.subspan(n);
    }
    ASSERT_EQ(stream.digest(), xxh3(seed, all)) << round;
  }
}

TEST(Xxh3, CopyOfAStreamGoesItsOwnWay) {
  Xxh3Stream a(9);
  a.update(text("layer "));
  Xxh3Stream b = a;
  a.update(text("one"));
  b.update(text("two"));
  EXPECT_EQ(a.digest(), xxh3(9, text("layer one")));
  EXPECT_EQ(b.digest(), xxh3(9, text("layer two")));
}

TEST(Sha256, EqualsThePublishedValues) {
  EXPECT_EQ(to_hex(Sha256().update(text("abc")).finish().bytes),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(Sha256().finish().bytes),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, IsReadyForTheNextMessageAfterFinish) {
  Sha256 sha;
  const Digest first = sha.update(text("a")).update(text("bc")).finish();
  EXPECT_EQ(sha.update(text("abc")).finish(), first);
}

TEST(Digest, KnowsZeroAndItsLittleEndianPrefix) {
  Digest d;
  EXPECT_TRUE(d.is_zero());
  d.bytes[1] = std::byte{2};
  EXPECT_FALSE(d.is_zero());
  EXPECT_EQ(d.prefix64(), 0x200u);
}

TEST(EqualSecret, ComparesTheWhole) {
  EXPECT_TRUE(equal_secret(text("abc"), text("abc")));
  EXPECT_FALSE(equal_secret(text("abc"), text("abd")));
  EXPECT_FALSE(equal_secret(text("abc"), text("ab")));
  EXPECT_FALSE(equal_secret(text("abc"), {}));
  EXPECT_TRUE(equal_secret({}, {}));
}

}  // namespace
}  // namespace varve
