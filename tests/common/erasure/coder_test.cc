// Goal: parity is what docs/FORMAT.md 4.4 says, and every loss within it is undone, byte for byte.
// Method: a slow coder that shares no code (reference.h), golden vectors that check_vectors.py
// recomputes, and every loss pattern of every offered scheme, exhaustively.
#include "common/erasure/coder.h"

#include <gtest/gtest.h>

#include <bit>

#include "tests/common/erasure/reference.h"

namespace varve {
namespace {

using reference::Bytes;
using reference::Rows;

constexpr Positions bit(uint32_t position) {
  return static_cast<Positions>(1u << position);
}

// Sizes of the members of a stripe: equal, one byte, ragged, across columns of any size.
std::vector<std::vector<size_t>> shapes(uint32_t members, Random& random) {
  std::vector<std::vector<size_t>> out = {
      std::vector<size_t>(members, 1), std::vector<size_t>(members, 257), {}, {}};
  for (uint32_t i = 0; i < members; ++i) {
    out[2].push_back(random.between(1, 300));
    out[3].push_back(i == members / 2 ? 1 : 90 - 17 * (i % 4));
  }
  return out;
}

// The parity that the product makes for members of these sizes is that of `rows`.
bool encodes_as(Scheme scheme, const Rows& rows, const std::vector<size_t>& sizes,
                size_t column_bytes) {
  Random random(scheme.width() * 1000 + sizes.size());
  std::vector<Bytes> members;
  for (const size_t size : sizes)
    members.push_back(reference::random_bytes(random, size));
  std::vector<Bytes> wanted;
  for (const std::vector<uint8_t>& row : rows)
    wanted.push_back(reference::parity_of(row, members));
  members.resize(scheme.k);
  const std::vector<size_t> parity_sizes(scheme.m, *std::max_element(sizes.begin(), sizes.end()));
  return reference::run(Coder(scheme), members, parity_sizes, column_bytes) == wanted;
}

TEST(Coder, ParityEqualsTheSlowReference) {
  Random random(1);
  for (const Scheme scheme : kSchemes) {
    const Rows rows = reference::parity_rows(scheme);
    for (uint32_t members = 1; members <= scheme.k; ++members) {
      for (const std::vector<size_t>& sizes : shapes(members, random)) {
        for (const size_t column_bytes : {1u, 7u, 64u, 100u, 4096u}) {
          ASSERT_TRUE(encodes_as(scheme, rows, sizes, column_bytes))
              << scheme.text() << " members " << members << " column " << column_bytes;
        }
      }
    }
  }
}

TEST(Coder, LargeExtentsInFullAndInOddColumnsGiveTheSameParity) {
  for (const Scheme scheme : {Scheme{4, 1}, Scheme{4, 2}, Scheme{8, 3}}) {
    std::vector<size_t> sizes(scheme.k, 3 * kColumnBytes + 4095);
    sizes[1] = kColumnBytes + 1;
    sizes[scheme.k - 1] = 2 * kColumnBytes;
    const Rows rows = reference::parity_rows(scheme);
    for (const size_t column_bytes : {kColumnBytes, kColumnBytes - 1, 4999u})
      EXPECT_TRUE(encodes_as(scheme, rows, sizes, column_bytes)) << scheme.text();
  }
}

// The check above can fail: it sees any two coefficients change places.
TEST(Coder, ASwappedCoefficientIsCaught) {
  for (const Scheme scheme : {Scheme{4, 2}, Scheme{5, 2}, Scheme{8, 3}}) {
    const std::vector<size_t> sizes(scheme.k, 64);
    const uint32_t count = uint32_t{scheme.k} * scheme.m;
    uint32_t swaps = 0;
    for (uint32_t a = 0; a < count; ++a) {
      for (uint32_t b = a + 1; b < count; ++b) {
        Rows rows = reference::parity_rows(scheme);
        uint8_t &first = rows[a / scheme.k][a % scheme.k],
                &second = rows[b / scheme.k][b % scheme.k];
        if (first == second) continue;
        std::swap(first, second);
        swaps += 1;
        ASSERT_FALSE(encodes_as(scheme, rows, sizes, 64)) << scheme.text() << " " << a << " " << b;
      }
    }
    EXPECT_GT(swaps, count) << scheme.text();
  }
}

// Rebuilds `wanted` and compares with what was lost.
void expect_rebuilt(Scheme scheme, const std::vector<Bytes>& extents, Loss loss,
                    size_t column_bytes) {
  const auto coder = Coder::rebuild(scheme, loss);
  ASSERT_TRUE(coder.has_value()) << scheme.text() << " present " << loss.present;
  ASSERT_EQ(coder->sources().size(), scheme.k);
  std::vector<Bytes> wanted;
  std::vector<size_t> sizes;
  for (const uint8_t position : coder->outputs()) {
    ASSERT_TRUE(loss.wanted & bit(position));
    wanted.push_back(extents[position]);
    sizes.push_back(extents[position].size());
  }
  ASSERT_EQ(sizes.size(), static_cast<size_t>(std::popcount(loss.wanted)));
  // Expect: a lost extent is never looked at.
  std::vector<Bytes> left = extents;
  for (uint32_t p = 0; p < scheme.width(); ++p) {
    if (!(loss.present & bit(p))) left[p].assign(left[p].size(), std::byte{0xEE});
  }
  ASSERT_EQ(reference::run(*coder, left, sizes, column_bytes), wanted)
      << scheme.text() << " present " << loss.present << " wanted " << loss.wanted;
}

// Every loss of at most m of the extents that a stripe has, and every subset of it as the wanted.
void expect_every_loss_rebuilt(Scheme scheme, const std::vector<size_t>& sizes, uint64_t seed) {
  Random random(seed);
  const std::vector<Bytes> extents = reference::stripe(scheme, sizes, random);
  const Positions hollow = hollow_positions(scheme, static_cast<uint32_t>(sizes.size()));
  const auto all = static_cast<Positions>(bit(scheme.width()) - 1);
  for (uint32_t lost = 1; lost <= all; ++lost) {
    if ((lost & hollow) != 0 || static_cast<uint32_t>(std::popcount(lost)) > scheme.m) continue;
    const auto present = static_cast<Positions>(all & ~lost);
    for (uint32_t wanted = lost; wanted != 0; wanted = (wanted - 1) & lost) {
      expect_rebuilt(scheme, extents, {present, static_cast<Positions>(wanted)},
                     random.between(20, 400));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Coder, EveryLossPatternOfEveryOfferedSchemeIsRebuilt) {
  Random random(2);
  for (const Scheme scheme : kSchemes) {
    for (uint32_t members = 1; members <= scheme.k; ++members) {
      for (const std::vector<size_t>& sizes : shapes(members, random))
        expect_every_loss_rebuilt(scheme, sizes, random.next());
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Coder, WhichKOfTheExtentsAreReadIsTheCallersChoice) {
  Random random(3);
  for (const Scheme scheme : kSchemes) {
    const std::vector<Bytes> extents =
        reference::stripe(scheme, std::vector<size_t>(scheme.k, 130), random);
    for (uint32_t present = 0; present < bit(scheme.width()); ++present) {
      if (static_cast<uint32_t>(std::popcount(present)) != scheme.k) continue;
      const auto wanted = static_cast<Positions>((bit(scheme.width()) - 1) & ~present);
      expect_rebuilt(scheme, extents, {static_cast<Positions>(present), wanted}, 4096);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Coder, ALossBeyondTheParityIsUnavailable) {
  for (const Scheme scheme : kSchemes) {
    uint32_t refused = 0;
    for (uint32_t present = 0; present < bit(scheme.width()); ++present) {
      if (static_cast<uint32_t>(std::popcount(present)) >= scheme.k) continue;
      for (uint32_t p = 0; p < scheme.width(); ++p) {
        if ((present & bit(p)) != 0) continue;
        const auto coder = Coder::rebuild(scheme, {static_cast<Positions>(present), bit(p)});
        ASSERT_FALSE(coder.has_value()) << scheme.text() << " present " << present;
        EXPECT_EQ(coder.error().code(), Code::kUnavailable);
        refused += 1;
      }
    }
    EXPECT_GE(refused, scheme.width()) << scheme.text();
  }
}

TEST(Coder, MembersThatAStripeDoesNotHaveCountAsPresent) {
  EXPECT_EQ(hollow_positions({4, 2}, 4), 0);
  EXPECT_EQ(hollow_positions({4, 2}, 1), 0b1110);
  EXPECT_EQ(hollow_positions({8, 3}, 6), 0b11000000);
  // One member of 4+2 is left to its parity alone: both lost is still one too many.
  const Positions hollow = hollow_positions({4, 2}, 1);
  const auto with = [&](Positions more) { return static_cast<Positions>(hollow | more); };
  EXPECT_TRUE(Coder::rebuild({4, 2}, {with(bit(5)), bit(0)}).has_value());
  EXPECT_FALSE(Coder::rebuild({4, 2}, {hollow, bit(0)}).has_value());
}

TEST(Coder, AnOutputThatNoSourceReachesIsZero) {
  const std::vector<Bytes> nothing(4);
  const std::vector<Bytes> made = reference::run(Coder({4, 2}), nothing, {300, 70}, 128);
  EXPECT_EQ(made, (std::vector<Bytes>{Bytes(300), Bytes(70)}));
}

TEST(Coder, WithoutParityThereIsNothingToDo) {
  const Coder coder({1, 0});
  EXPECT_EQ(coder.outputs().size(), 0u);
  const Bytes data(10);
  const ConstByteSpan source(data);
  coder.run({&source, 1}, {});
}

TEST(Coder, DigestsOfOutputsAreThoseOfTheWholeExtents) {
  Random random(4);
  const Scheme scheme{5, 2};
  const std::vector<Bytes> extents = reference::stripe(scheme, {40000, 9, 70000, 12345, 1}, random);
  std::vector<ExtentDigest> digests, wanted;
  for (uint32_t p = scheme.k; p < scheme.width(); ++p) {
    const ChecksumSeed seed = checksum_seed({}, p, {1, 0, 1});
    digests.emplace_back(seed);
    wanted.emplace_back(seed).update(extents[p]);
  }
  reference::run(Coder(scheme), extents, {70000, 70000}, 5001, digests);
  for (uint32_t i = 0; i < scheme.m; ++i) {
    EXPECT_EQ(digests[i].stored_crc(), wanted[i].stored_crc());
    EXPECT_EQ(digests[i].decoded_xxh3(), wanted[i].decoded_xxh3());
  }
}

TEST(Coder, WhatNoCallerMayAskAborts) {
  EXPECT_DEATH(Coder({4, 3}), "valid");
  EXPECT_DEATH((void)Coder::rebuild({4, 2}, {0b011111, 0b010000}), "wanted");
  EXPECT_DEATH((void)Coder::rebuild({4, 2}, {0b0001111, 0b1000000}), "wanted");
  EXPECT_DEATH(Coder({4, 2}).run({}, {}), "source_count_");
  EXPECT_DEATH(hollow_positions({4, 2}, 0), "members");
}

}  // namespace
}  // namespace varve
