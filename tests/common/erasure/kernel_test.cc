// Goal: every inner loop that this processor can run multiplies as the field says, at any length
// and alignment, and writes nothing besides.
// Method: against products of single bytes (reference.h), which share no code with either.
#include "common/erasure/kernel.h"

#include <gtest/gtest.h>

#include "tests/common/erasure/reference.h"

namespace varve {
namespace {

constexpr std::byte kFence{0xa5};

struct Case {
  Kernel::Loop loop;
  uint32_t rows, columns;
  size_t bytes, shift;  // of every pointer, from an aligned one
};

// Two bytes of fence stand around every output.
bool multiplies(const Case& c, Random& random) {
  std::vector<uint8_t> dense;
  for (uint32_t i = 0; i < c.rows * c.columns; ++i)
    dense.push_back(static_cast<uint8_t>(random.below(256)));
  std::vector<reference::Bytes> sources, outputs;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (uint32_t i = 0; i < c.columns; ++i) {
    sources.push_back(reference::random_bytes(random, c.shift + c.bytes));
    from.push_back(sources.back().data() + c.shift);
  }
  for (uint32_t i = 0; i < c.rows; ++i) {
    outputs.emplace_back(c.shift + c.bytes + 2, kFence);
    to.push_back(outputs.back().data() + c.shift + 1);
  }
  Kernel(c.loop, dense, c.columns).run(c.bytes, from.data(), to.data());
  for (uint32_t r = 0; r < c.rows; ++r) {
    if (to[r][-1] != kFence || to[r][c.bytes] != kFence) return false;
    for (size_t i = 0; i < c.bytes; ++i) {
      uint8_t sum = 0;
      for (uint32_t s = 0; s < c.columns; ++s) {
        sum ^= reference::times(dense[r * c.columns + s], static_cast<uint8_t>(from[s][i]));
      }
      if (static_cast<uint8_t>(to[r][i]) != sum) return false;
    }
  }
  return true;
}

TEST(Kernel, MultiplyAsTheFieldSaysAtAnyLength) {
  Random random(3);
  for (const Kernel::Loop loop : Kernel::loops()) {
    for (uint32_t rows = 1; rows <= kParityMax; ++rows) {
      for (uint32_t columns = 1; columns <= kDataMax; ++columns) {
        for (const size_t bytes : {1u, 63u, 64u, 65u, 127u, 128u, 129u, 300u, 1024u}) {
          ASSERT_TRUE(multiplies({loop, rows, columns, bytes, random.below(64)}, random))
              << static_cast<int>(loop) << " " << rows << "x" << columns << " " << bytes;
        }
      }
    }
  }
}

TEST(Kernel, EveryCoefficientTimesEveryByte) {
  for (const Kernel::Loop loop : Kernel::loops()) {
    reference::Bytes source(256), product(256);
    for (uint32_t i = 0; i < 256; ++i)
      source[i] = static_cast<std::byte>(i);
    for (uint32_t c = 0; c < 256; ++c) {
      const auto coefficient = static_cast<uint8_t>(c);
      const std::byte* from = source.data();
      std::byte* to = product.data();
      Kernel(loop, {&coefficient, 1}, 1).run(256, &from, &to);
      for (uint32_t i = 0; i < 256; ++i) {
        ASSERT_EQ(static_cast<uint8_t>(product[i]),
                  reference::times(coefficient, static_cast<uint8_t>(i)));
      }
    }
  }
}

// ISA-L's loop runs everywhere, and is the one that others must equal.
TEST(Kernel, ThereIsAlwaysALoop) {
  ASSERT_FALSE(Kernel::loops().empty());
  EXPECT_EQ(Kernel::loops().front(), Kernel::Loop::kIsal);
}

}  // namespace
}  // namespace varve
