// The working set: known bytes in scattered pages, and a check that cannot be satisfied by luck.
#include "tools/kvbench/working_set.h"

#include <gtest/gtest.h>

namespace varve::kvbench {
namespace {

constexpr WorkingSetShape kSmall{.blocks = 3, .layers = 2, .layer_bytes = 512 * kKiB};

TEST(WorkingSet, FilledBytesAreRight) {
  auto set = WorkingSet::make(kSmall);
  ASSERT_TRUE(set.has_value());
  (*set)->fill();
  EXPECT_EQ((*set)->wrong_extents(), 0u);
}

TEST(WorkingSet, OneChangedByteIsOneWrongExtent) {
  auto set = WorkingSet::make(kSmall);
  ASSERT_TRUE(set.has_value());
  (*set)->fill();
  (*set)->memory()[5 * kPageBytes + 77] ^= std::byte{1};
  EXPECT_EQ((*set)->wrong_extents(), 1u);
}

TEST(WorkingSet, SomeSlotsHaveADigestOfAllTheirBytes) {
  auto set = WorkingSet::make(kSmall);
  ASSERT_TRUE(set.has_value());
  (*set)->fill();
  const uint64_t right = (*set)->digest_of_slots(1, 2), other = (*set)->digest_of_slots(0, 1);
  EXPECT_EQ((*set)->wrong_extents_of(1, 2), 0u);
  // Expect: what is written over poison is seen, be it what was there before.
  (*set)->poison_slots(1, 2);
  const uint64_t poisoned = (*set)->digest_of_slots(1, 2);
  EXPECT_NE(poisoned, right);
  EXPECT_EQ((*set)->wrong_extents_of(1, 2), 2 * kSmall.layers);
  (*set)->fill_slot(2, 2);
  EXPECT_NE((*set)->digest_of_slots(1, 2), poisoned);
  EXPECT_EQ((*set)->digest_of_slots(0, 1), other) << "not of these";
  EXPECT_EQ((*set)->wrong_extents_of(0, 1), 0u);
}

TEST(WorkingSet, PoisonMakesEveryExtentWrongAndTwiceIsNoCure) {
  auto set = WorkingSet::make(kSmall);
  ASSERT_TRUE(set.has_value());
  (*set)->fill();
  (*set)->poison();
  EXPECT_EQ((*set)->wrong_extents(), kSmall.extents());
  (*set)->poison();
  EXPECT_EQ((*set)->wrong_extents(), kSmall.extents());
}

TEST(WorkingSet, PiecesWrittenWithTheContentMakeEverythingRightAgain) {
  auto set = WorkingSet::make(kSmall);
  ASSERT_TRUE(set.has_value());
  (*set)->fill();
  (*set)->poison();
  std::vector<std::byte> extent(kSmall.layer_bytes);
  for (uint32_t b = 0; b < kSmall.blocks; ++b) {
    for (uint32_t l = 0; l < kSmall.layers; ++l) {
      WorkingSet::content(b, l, extent);
      for (uint32_t at = 0; at < kSmall.layer_bytes; at += kPieceBytes) {
        iovec pieces[kPieceBytes / kPageOfLayerBytes];
        const uint32_t count = (*set)->pieces(b, l, at, kPieceBytes, pieces);
        EXPECT_EQ(count, 4u);
        uint32_t done = at;
        for (uint32_t i = 0; i < count; ++i) {
          std::memcpy(pieces[i].iov_base, extent.data() + done, pieces[i].iov_len);
          done += static_cast<uint32_t>(pieces[i].iov_len);
        }
      }
    }
  }
  EXPECT_EQ((*set)->wrong_extents(), 0u);
}

TEST(WorkingSet, NeighbouringPagesOfALayerAreNotNeighboursInMemory) {
  auto set = WorkingSet::make(kSmall);
  ASSERT_TRUE(set.has_value());
  iovec pieces[2];
  ASSERT_EQ((*set)->pieces(1, 1, 0, 2 * kPageOfLayerBytes, pieces), 2u);
  EXPECT_NE(static_cast<std::byte*>(pieces[0].iov_base) + kPageOfLayerBytes, pieces[1].iov_base);
}

TEST(WorkingSet, TheLayoutNamesTheSamePlacesAsThePieces) {
  auto set = WorkingSet::make(kSmall);
  ASSERT_TRUE(set.has_value());
  const Layout layout = (*set)->layout(1, 1);
  ASSERT_EQ(layout.layers.size(), kSmall.layers);
  const LayerLayout& layer = layout.layers[1];
  iovec piece;
  ASSERT_EQ((*set)->pieces(2, 1, 3 * kPageOfLayerBytes, 1000, &piece), 1u);
  const uint64_t offset = layer.offset + 2 * layer.stride + 3 * layer.segment_stride;
  EXPECT_EQ((*set)->memory().data() + offset, piece.iov_base);
  EXPECT_EQ(layer.segments * uint64_t{kPageOfLayerBytes}, kSmall.layer_bytes);
}

TEST(WorkingSet, ALayerThatIsCutNamesTheSamePlacesInTheSameOrder) {
  auto set = WorkingSet::make(kSmall);
  ASSERT_TRUE(set.has_value());
  const Layout layout = (*set)->layout(1, 4);
  ASSERT_EQ(layout.layers.size(), kSmall.layers * 4);
  const LayerLayout& quarter = layout.layers[1 * 4 + 3];
  EXPECT_EQ(quarter.segments, 2u);
  iovec piece;
  ASSERT_EQ((*set)->pieces(2, 1, 7 * kPageOfLayerBytes, 1000, &piece), 1u);
  const uint64_t offset = quarter.offset + 2 * quarter.stride + quarter.segment_stride;
  EXPECT_EQ((*set)->memory().data() + offset, piece.iov_base);
  const Format format = (*set)->format(4);
  EXPECT_EQ(format.ranks[0].size(), layout.layers.size());
  EXPECT_EQ(format.ranks[0][0].bytes, kSmall.layer_bytes / 4);
  EXPECT_NE(format.lineage, (*set)->format(1).lineage) << "their blocks are not each other's";
}

TEST(WorkingSet, ASlotHoldsTheBlockThatItWasFilledWithAndNoOther) {
  auto set = WorkingSet::make({.blocks = 2, .layers = 2, .layer_bytes = 64 * kKiB});
  ASSERT_TRUE(set.has_value());
  (*set)->fill_slot(1, 7);
  EXPECT_TRUE((*set)->slot_is(1, 7));
  EXPECT_FALSE((*set)->slot_is(1, 8));
  EXPECT_FALSE((*set)->slot_is(0, 7));
  iovec piece;
  ASSERT_EQ((*set)->pieces(1, 1, 64 * kKiB - 1, 1, &piece), 1u);
  auto* last = static_cast<std::byte*>(piece.iov_base);
  *last ^= std::byte{1};
  EXPECT_FALSE((*set)->slot_is(1, 7));
  *last ^= std::byte{1};
  (*set)->poison_slots(0, 1);
  EXPECT_TRUE((*set)->slot_is(1, 7));
  (*set)->poison_slots(1, 1);
  EXPECT_FALSE((*set)->slot_is(1, 7));
}

TEST(WorkingSet, SizesThatDoNotFitAreRefused) {
  EXPECT_FALSE(WorkingSet::make({.blocks = 0}).has_value());
  EXPECT_FALSE(WorkingSet::make({.blocks = 1, .layers = 1, .layer_bytes = 1000}).has_value());
}

}  // namespace
}  // namespace varve::kvbench
