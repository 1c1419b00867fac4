// Goal: a coded block takes what its fragments need, to the page, and keeps only what readers want.
// Method: grants of every scheme against sums by hand; the same block through its life, with a
// reader on it.
#include <gtest/gtest.h>

#include "tests/server/tier/tier_rig.h"

namespace varve {
namespace {

using Rig = TierRig;

// `extents` data extents of one layer each, in stripes of k, all as long as 64 KiB and a bit.
constexpr uint32_t kCodedPages = kExtentBytesMin / kPageBytes + 1;
ExtentTable coded_table(uint32_t extents, Scheme scheme) {
  const std::vector<LayerSpec> layers(extents, {LayerKind::kFull, kExtentBytesMin + 100});
  Result<ExtentTable> table = ExtentTable::of(layers, scheme);
  VARVE_ASSERT(table.has_value() && table->data_count() == extents);
  return *table;
}

// A coded block: slabs for parity as for data, and a header for every fragment, all charged and
// all zero where the sender does not write. Expect: exact, for every scheme, and all pages back.
TEST(DramTier, GrantsParityAndAHeaderForEachFragmentOfEveryScheme) {
  for (const Scheme scheme : kSchemes) {
    const ExtentTable table = coded_table(17, scheme);
    const uint32_t headers = flash::header_pages_of(table.count()) * scheme.width();
    const uint32_t pages = headers + 1 + kCodedPages * table.count();
    EXPECT_EQ(DramTier::pages_of_block(table), pages) << scheme.text();
    Rig rig(pages + 1, {.push = pages}, 4);
    TierBlock* block = rig.tier.grant(block_of(1), {1, 0, 1}, table, Budget::kPush);
    ASSERT_NE(block, nullptr) << scheme.text();
    EXPECT_EQ(block->extent_count, table.count());
    EXPECT_EQ(block->header.page_count + block->spare_headers.page_count, headers);
    EXPECT_EQ(rig.used_pages(Budget::kPush), pages);
    EXPECT_EQ(rig.arena.free_pages(), 1u);
    for (uint64_t b = 0; b < bytes_of(block->spare_headers.page_count); ++b) {
      ASSERT_EQ(*rig.arena.byte_at(block->spare_headers, b), std::byte{0});
    }
    for (uint32_t e = 0; e < table.count(); ++e) {  // D6
      const Slab& slab = rig.tier.extent(*block, e);
      ASSERT_EQ(slab.page_count, kCodedPages) << e;
      EXPECT_EQ(*rig.arena.byte_at(slab, table.bytes_at(e) - 1), std::byte{0xEE});
      EXPECT_EQ(*rig.arena.byte_at(slab, table.bytes_at(e)), std::byte{0}) << e;
      EXPECT_EQ(*rig.arena.byte_at(slab, bytes_of(slab.page_count) - 1), std::byte{0}) << e;
    }
    rig.tier.forget(*block);
    EXPECT_EQ(rig.arena.free_pages(), pages + 1);
  }
}

TEST(DramTier, RefusesACodedGrantThatFitsOnlyWithoutItsParity) {
  const ExtentTable table = coded_table(4, {4, 2});
  const uint32_t pages = DramTier::pages_of_block(table);
  EXPECT_EQ(pages, 6 + 6 * kCodedPages);
  Rig rig(2 * pages, {.push = pages - 1, .resident = pages}, 4);
  EXPECT_EQ(rig.tier.grant(block_of(1), {1, 0, 1}, table, Budget::kPush), nullptr);
  EXPECT_EQ(rig.used_pages(Budget::kPush), 0u);
  EXPECT_EQ(rig.arena.free_pages(), 2 * pages);
}

// The appends are done, a reader still holds the block and one parity extent. Expect: what only the
// appends wanted goes at once, the rest when nobody needs it; the data stays and becomes resident.
TEST(DramTier, DropsTheCodingOfAPinnedBlockButWhatASendNeeds) {
  const ExtentTable table = coded_table(4, {2, 1});  // two stripes, extents 4 and 5 are parity
  const uint32_t pages = DramTier::pages_of_block(table);
  Rig rig(300, {.push = pages, .resident = 100}, 4);
  TierBlock* block = rig.tier.grant(block_of(1), {1, 0, 1}, table, Budget::kPush);
  ASSERT_NE(block, nullptr);
  rig.tier.pin(*block);  // the append
  rig.tier.pin(*block);  // a reader
  for (uint32_t e = 0; e < table.count(); ++e)
    rig.tier.extent_read(*block, e, Status());
  rig.tier.bind(*block, 7);
  ++block->users[5];
  block->dirty = false;
  rig.tier.settle_written(*block);
  EXPECT_TRUE(block->spare_headers.empty());
  EXPECT_EQ(block->state[3], ExtentState::kPresent);
  EXPECT_EQ(block->state[4], ExtentState::kAbsent);
  EXPECT_EQ(block->state[5], ExtentState::kPresent);
  EXPECT_EQ(block->present_count, 5u);
  EXPECT_TRUE(block->whole());
  EXPECT_EQ(rig.used_pages(Budget::kPush), 0u) << "readers hold up no push";
  EXPECT_EQ(rig.used_pages(Budget::kResident), pages - 2 - kCodedPages);
  EXPECT_EQ(rig.tier.evictable_bytes(), 0u);
  rig.tier.unpin(*block);
  --block->users[5];
  rig.tier.settle_written(*block);  // again: only what is left
  EXPECT_EQ(block->present_count, 4u);
  EXPECT_TRUE(block->whole());
  rig.tier.unpin(*block);
  EXPECT_EQ(rig.used_pages(Budget::kPush), 0u);
  EXPECT_EQ(rig.used_pages(Budget::kResident), 1 + 4 * kCodedPages);
  EXPECT_EQ(rig.tier.evictable_bytes(), bytes_of(1 + 4 * kCodedPages));
  EXPECT_EQ(rig.tier.find(7), block);
  rig.tier.forget(*block);
  EXPECT_EQ(rig.arena.free_pages(), 300u);
}

// Readers hold all that may be resident. Expect: what is written then stays charged as it was, and
// is freed by its last reader.
TEST(DramTier, KeepsAWrittenBlockOnPushWhereNothingMayBeResident) {
  const ExtentTable table = table_of({3 * kPageBytes});
  Rig rig(40, {.push = 8, .resident = 7}, 4);
  TierBlock* blocks[2] = {};
  for (uint32_t i = 0; i < 2; ++i) {
    TierBlock*& block = blocks[i];
    block = rig.tier.grant(block_of(i), {1, 0, 1 + i}, table, Budget::kPush);
    ASSERT_NE(block, nullptr) << i;
    rig.tier.pin(*block);  // the append
    rig.tier.pin(*block);  // a reader
    rig.tier.extent_read(*block, 0, Status());
    rig.tier.bind(*block, i);
    block->dirty = false;
    rig.tier.settle_written(*block);
    rig.tier.unpin(*block);
  }
  EXPECT_EQ(rig.used_pages(Budget::kResident), 4u);
  EXPECT_EQ(rig.used_pages(Budget::kPush), 4u);
  rig.tier.unpin(*blocks[1]);
  EXPECT_EQ(rig.used_pages(Budget::kPush), 0u);
  EXPECT_EQ(rig.tier.find(1), nullptr);
  rig.tier.unpin(*blocks[0]);
  EXPECT_EQ(rig.tier.find(0), blocks[0]);
  EXPECT_EQ(rig.tier.evictable_bytes(), bytes_of(4));
}

// A rebuild read one parity extent into a resident block, on kPull. Expect: its pages go back to
// kPull, the resident ones stay counted.
TEST(DramTier, DropsParityThatWasReadIntoAResidentBlock) {
  Rig rig(60, {.pull = 20, .resident = 20}, 4);
  TierBlock* block = rig.tier.open(block_of(1), 5, 3, 2, Budget::kPull);
  rig.tier.pin(*block);
  ASSERT_TRUE(rig.tier.take_extent(*block, 0, kPageBytes));
  rig.tier.extent_read(*block, 0, Status());
  rig.tier.unpin(*block);
  rig.tier.pin(*block);
  ASSERT_TRUE(rig.tier.take_extent(*block, 2, 3 * kPageBytes));
  rig.tier.settle_written(*block);  // still being read: stays
  EXPECT_EQ(rig.used_pages(Budget::kPull), 3u);
  rig.tier.extent_read(*block, 2, Status());
  rig.tier.settle_written(*block);
  EXPECT_EQ(rig.used_pages(Budget::kPull), 0u);
  EXPECT_EQ(rig.used_pages(Budget::kResident), 2u);
  rig.tier.unpin(*block);
  EXPECT_EQ(rig.arena.free_pages(), 58u);
}

TEST(DramTierDeathTest, KeepsTheCodingOfABlockThatIsStillAppended) {
  const ExtentTable table = coded_table(2, {2, 1});
  Rig rig(100, {.push = 100}, 2);
  TierBlock* block = rig.tier.grant(block_of(1), {1, 0, 1}, table, Budget::kPush);
  rig.tier.pin(*block);
  EXPECT_DEATH(rig.tier.settle_written(*block), "dirty");
}

TEST(DramTier, IsWholeWhenAllDataIsThereWhateverIsThereOfParity) {
  Rig rig(40, {.pull = 20, .resident = 20}, 4);
  TierBlock* block = rig.tier.open(block_of(1), 5, 3, 2, Budget::kPull);
  rig.tier.pin(*block);
  for (const uint32_t e : {0u, 2u}) {
    ASSERT_TRUE(rig.tier.take_extent(*block, e, kPageBytes));
    rig.tier.extent_read(*block, e, Status());
    EXPECT_FALSE(block->whole()) << e;
  }
  ASSERT_TRUE(rig.tier.take_extent(*block, 1, kPageBytes));
  EXPECT_FALSE(block->whole());
  rig.tier.extent_read(*block, 1, Status());
  EXPECT_TRUE(block->whole());
  rig.tier.drop_extent(*block, 2);
  EXPECT_TRUE(block->whole());
  rig.tier.drop_extent(*block, 1);
  EXPECT_FALSE(block->whole());
  rig.tier.unpin(*block);
}

TEST(DramTier, ForgetsTheLeadExtentWithTheBlock) {
  Rig rig(40, {.pull = 20, .resident = 20}, 1);
  TierBlock* block = rig.pull(1, 2);
  EXPECT_EQ(block->lead_extent, ~0u);
  block->lead_extent = 1;
  EXPECT_EQ(rig.pull(2, 2), block);  // the only TierBlock there is
  EXPECT_EQ(block->lead_extent, ~0u);
}

}  // namespace
}  // namespace varve
