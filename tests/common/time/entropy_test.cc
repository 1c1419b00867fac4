// Goal: seeded entropy repeats, system entropy does not, and both fill every byte asked for.
// Method: equal and different seeds; sizes around a word.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "common/time/time.h"

namespace varve {
namespace {

TEST(SeededEntropy, RepeatsForEqualSeedsOnly) {
  SeededEntropy a(1), b(1), c(2);
  const uint64_t first = a.next64();
  EXPECT_EQ(first, b.next64());
  EXPECT_NE(first, c.next64());
  EXPECT_NE(first, a.next64());
}

TEST(Entropy, FillsEveryByteAndNothingBeyond) {
  SeededEntropy seeded(3);
  SystemEntropy system;
  for (Entropy* entropy : {static_cast<Entropy*>(&seeded), static_cast<Entropy*>(&system)}) {
    for (size_t size : {0u, 1u, 7u, 8u, 9u, 100u}) {
      // A byte that stays zero over 8 draws was not filled (chance 2^-64 a byte).
      std::vector<uint8_t> seen(size + 1, 0);
      std::vector<std::byte> out(size + 1);
      for (int draw = 0; draw < 8; ++draw) {
        out.assign(size + 1, std::byte{0});
        entropy->fill(ByteSpan(out).first(size));
        for (size_t i = 0; i <= size; ++i)
          seen[i] |= static_cast<uint8_t>(out[i]);
      }
      for (size_t i = 0; i < size; ++i)
        EXPECT_NE(seen[i], 0) << i << " of " << size;
      EXPECT_EQ(seen[size], 0);
    }
  }
}

TEST(SystemEntropy, DoesNotRepeat) {
  SystemEntropy entropy;
  EXPECT_NE(entropy.next64(), entropy.next64());
}

}  // namespace
}  // namespace varve
