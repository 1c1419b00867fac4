// Goal: DRAM is accounted to the page, what is pinned or dirty stays, what is clean and idle makes
// room, and "no room" is only said when there is none.
// Method: small arenas and hand-made blocks for each rule; a random walk of pushes and pulls with
// patterned bytes against a model that knows what every block may cost (D2, D3, D5).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <new>
#include <vector>

#include "server/tier/tier.h"

namespace {
uint64_t allocations = 0;
}  // namespace

// noinline: gcc pairs an inlined free() with the call of new and takes them for a mismatch.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace varve {
namespace {

constexpr Budget kAllBudgets[] = {Budget::kPush, Budget::kPull, Budget::kFollow, Budget::kRepair,
                                  Budget::kResident};

ExtentTable table_of(const std::vector<uint32_t>& extent_bytes) {
  ExtentTable table;
  for (const uint32_t bytes : extent_bytes) {
    table.extents.push_back({.layer_count = 1, .bytes = bytes});
    table.block_bytes += bytes;
  }
  return table;
}

// `extents` data extents of one layer each, in stripes of k, all as long as 64 KiB and a bit.
constexpr uint32_t kCodedPages = kExtentBytesMin / kPageBytes + 1;
ExtentTable coded_table(uint32_t extents, Scheme scheme) {
  const std::vector<LayerSpec> layers(extents, {LayerKind::kFull, kExtentBytesMin + 100});
  Result<ExtentTable> table = ExtentTable::of(layers, scheme);
  VARVE_ASSERT(table.has_value() && table->data_count() == extents);
  return *table;
}

BlockId block_of(uint64_t n) {
  BlockId block;
  std::memcpy(block.base.bytes.data(), &n, sizeof(n));
  return block;
}

// An arena full of 0xEE and a tier over it; limits in pages.
struct Rig {
  struct Pages {
    uint32_t push = 0, pull = 0, resident = 0;
  };
  Rig(uint32_t arena_pages, const Pages& limits, uint32_t blocks_max)
      : memory(std::aligned_alloc(kPageBytes, bytes_of(arena_pages))),
        arena(poisoned(memory, arena_pages)),
        tier(arena, options_of(limits, blocks_max)) {}
  ~Rig() { std::free(memory); }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  static ByteSpan poisoned(void* memory, uint32_t pages) {
    std::memset(memory, 0xEE, bytes_of(pages));
    return {static_cast<std::byte*>(memory), bytes_of(pages)};
  }
  static TierOptions options_of(const Pages& limits, uint32_t blocks_max) {
    TierOptions options;
    options.limit_bytes[static_cast<uint32_t>(Budget::kPush)] = bytes_of(limits.push);
    options.limit_bytes[static_cast<uint32_t>(Budget::kPull)] = bytes_of(limits.pull);
    options.limit_bytes[static_cast<uint32_t>(Budget::kResident)] = bytes_of(limits.resident);
    options.blocks_max = blocks_max;
    return options;
  }
  uint64_t used_pages(Budget budget) const { return tier.used_bytes(budget) / kPageBytes; }
  // Through the life of a pulled block of one-page extents, up to the unpin.
  TierBlock* pull(uint32_t slot, uint32_t extents) {
    TierBlock* block = tier.open(block_of(slot), slot, extents, Budget::kPull);
    if (block == nullptr) return nullptr;
    tier.pin(*block);
    block->header_present = true;
    for (uint32_t e = 0; e < extents; ++e) {
      if (!tier.take_extent(*block, e, kPageBytes)) break;
      tier.extent_read(*block, e, Status());
    }
    tier.unpin(*block);
    return block;
  }

  void* memory;
  Arena arena;
  DramTier tier;
};

TEST(DramTier, TakesAllPagesOfAGrantAtOnceAndZeroesHeaderAndPads) {
  Rig rig(64, {.push = 64}, 4);
  const ExtentTable table = table_of({kPageBytes, 5000, 1, 3 * kPageBytes - 1});
  TierBlock* block = rig.tier.grant(block_of(1), {1, 2, 3}, table, Budget::kPush);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(rig.used_pages(Budget::kPush), 1u + 1 + 2 + 1 + 3);
  EXPECT_EQ(rig.arena.free_pages(), 64u - 8);
  EXPECT_TRUE(block->dirty);
  EXPECT_EQ(block->attempt, (Attempt{1, 2, 3}));
  EXPECT_EQ(block->extent_count, 4u);
  EXPECT_EQ(block->state[0], ExtentState::kReading);
  for (uint32_t b = 0; b < kPageBytes; ++b) {
    ASSERT_EQ(*rig.arena.byte_at(block->header, b), std::byte{0});
  }
  for (uint32_t e = 0; e < 4; ++e) {  // D6
    const Slab& slab = rig.tier.extent(*block, e);
    const uint32_t bytes = table.extents[e].bytes;
    EXPECT_EQ(slab.page_count, pages_of(bytes));
    EXPECT_EQ(*rig.arena.byte_at(slab, bytes - 1), std::byte{0xEE}) << "no more than the pad";
    for (uint64_t b = bytes; b < bytes_of(slab.page_count); ++b) {
      ASSERT_EQ(*rig.arena.byte_at(slab, b), std::byte{0}) << e;
    }
  }
  rig.tier.forget(*block);
  EXPECT_EQ(rig.arena.free_pages(), 64u);
  EXPECT_TRUE(rig.tier.at_rest());
}

TEST(DramTier, KeepsTheSlabsOfManyExtentsInAPageOfTheirOwn) {
  Rig rig(1200, {.push = 1200}, 2);
  const ExtentTable table = table_of(std::vector<uint32_t>(kExtentsMax, kPageBytes + 1));
  TierBlock* block = rig.tier.grant(block_of(1), {1, 0, 1}, table, Budget::kPush);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->charged_pages, flash::header_pages_of(kExtentsMax) + 1 + 2 * kExtentsMax);
  std::vector<bool> seen(1200, false);
  for (uint32_t e = 0; e < kExtentsMax; ++e) {
    EXPECT_FALSE(seen[rig.tier.extent(*block, e).first_page]);
    seen[rig.tier.extent(*block, e).first_page] = true;
  }
  rig.tier.forget(*block);
  EXPECT_EQ(rig.arena.free_pages(), 1200u);
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
  rig.tier.drop_coding(*block, table.data_count());
  EXPECT_TRUE(block->spare_headers.empty());
  EXPECT_EQ(block->state[3], ExtentState::kPresent);
  EXPECT_EQ(block->state[4], ExtentState::kAbsent);
  EXPECT_EQ(block->state[5], ExtentState::kPresent);
  EXPECT_EQ(block->present_count, 5u);
  EXPECT_EQ(rig.used_pages(Budget::kPush), pages - 2 - kCodedPages);
  rig.tier.unpin(*block);
  --block->users[5];
  rig.tier.drop_coding(*block, table.data_count());  // again: only what is left
  EXPECT_EQ(block->present_count, 4u);
  rig.tier.unpin(*block);
  EXPECT_EQ(rig.used_pages(Budget::kPush), 0u);
  EXPECT_EQ(rig.used_pages(Budget::kResident), 1 + 4 * kCodedPages);
  EXPECT_EQ(rig.tier.evictable_bytes(), bytes_of(1 + 4 * kCodedPages));
  EXPECT_EQ(rig.tier.find(7), block);
  rig.tier.forget(*block);
  EXPECT_EQ(rig.arena.free_pages(), 300u);
}

// A rebuild read one parity extent into a resident block, on kPull. Expect: its pages go back to
// kPull, the resident ones stay counted.
TEST(DramTier, DropsParityThatWasReadIntoAResidentBlock) {
  Rig rig(60, {.pull = 20, .resident = 20}, 4);
  TierBlock* block = rig.tier.open(block_of(1), 5, 3, Budget::kPull);
  rig.tier.pin(*block);
  ASSERT_TRUE(rig.tier.take_extent(*block, 0, kPageBytes));
  rig.tier.extent_read(*block, 0, Status());
  rig.tier.unpin(*block);
  rig.tier.pin(*block);
  ASSERT_TRUE(rig.tier.take_extent(*block, 2, 3 * kPageBytes));
  rig.tier.drop_coding(*block, 2);  // still being read: stays
  EXPECT_EQ(rig.used_pages(Budget::kPull), 3u);
  rig.tier.extent_read(*block, 2, Status());
  rig.tier.drop_coding(*block, 2);
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
  EXPECT_DEATH(rig.tier.drop_coding(*block, 2), "dirty");
}

TEST(DramTier, ForgetsTheLeadExtentWithTheBlock) {
  Rig rig(40, {.pull = 20, .resident = 20}, 1);
  TierBlock* block = rig.pull(1, 2);
  EXPECT_EQ(block->lead_extent, ~0u);
  block->lead_extent = 1;
  EXPECT_EQ(rig.pull(2, 2), block);  // the only TierBlock there is
  EXPECT_EQ(block->lead_extent, ~0u);
}

TEST(DramTier, RefusesAGrantBeyondItsBudgetAndCountsIt) {
  Rig rig(100, {.push = 10, .pull = 40, .resident = 50}, 4);
  MetricSet metrics;
  rig.tier.register_metrics(metrics);
  EXPECT_EQ(rig.tier.grant(block_of(1), {1, 0, 1}, table_of({10 * kPageBytes}), Budget::kPush),
            nullptr);
  EXPECT_EQ(metrics.snapshot().number("varve_tier_refused_total", "budget=\"push\""), 1);
  EXPECT_EQ(rig.arena.free_pages(), 100u);
  TierBlock* block =
      rig.tier.grant(block_of(1), {1, 0, 1}, table_of({9 * kPageBytes}), Budget::kPush);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(metrics.snapshot().number("varve_tier_used_bytes", "budget=\"push\""),
            static_cast<int64_t>(bytes_of(10)));
  rig.tier.forget(*block);
  EXPECT_EQ(metrics.snapshot().number("varve_tier_used_bytes", "budget=\"push\""), 0);
}

TEST(DramTier, KeepsADirtyBlockUntilItsAppendIsDoneAndThenMakesItResident) {
  Rig rig(40, {.push = 10, .resident = 30}, 4);
  TierBlock* block = rig.tier.grant(block_of(1), {1, 0, 1}, table_of({kPageBytes}), Budget::kPush);
  rig.tier.pin(*block);
  rig.tier.extent_read(*block, 0, Status());
  rig.tier.bind(*block, 77);
  rig.tier.unpin(*block);  // a reader left; the append has not begun
  EXPECT_EQ(rig.tier.find(77), block);
  EXPECT_EQ(rig.tier.evictable_bytes(), 0u);
  EXPECT_FALSE(rig.tier.at_rest());
  rig.tier.pin(*block);
  block->dirty = false;
  rig.tier.unpin(*block);
  EXPECT_EQ(rig.used_pages(Budget::kPush), 0u);
  EXPECT_EQ(rig.used_pages(Budget::kResident), 2u);
  EXPECT_EQ(rig.tier.evictable_bytes(), bytes_of(2));
  EXPECT_EQ(rig.tier.find(77), block);
  EXPECT_TRUE(rig.tier.at_rest());
}

TEST(DramTier, EvictsTheOldestResidentFirstAndAPinMakesYounger) {
  Rig rig(40, {.pull = 20, .resident = 6}, 8);
  for (uint32_t slot = 0; slot < 3; ++slot)
    rig.pull(slot, 1);  // two pages each
  rig.tier.pin(*rig.tier.find(0));
  rig.tier.unpin(*rig.tier.find(0));
  rig.pull(3, 1);
  EXPECT_NE(rig.tier.find(0), nullptr);
  EXPECT_EQ(rig.tier.find(1), nullptr);
  EXPECT_NE(rig.tier.find(2), nullptr);
  EXPECT_NE(rig.tier.find(3), nullptr);
  EXPECT_EQ(rig.used_pages(Budget::kResident), 6u);
}

TEST(DramTier, NeverEvictsWhatAReaderHolds) {
  Rig rig(40, {.pull = 20, .resident = 4}, 8);
  TierBlock* held = rig.pull(0, 1);
  rig.tier.pin(*held);  // D5
  rig.pull(1, 1);
  for (uint32_t slot = 2; slot < 6; ++slot)
    rig.pull(slot, 1);
  EXPECT_EQ(rig.tier.find(0), held);
  EXPECT_EQ(rig.tier.find(4), nullptr);
  EXPECT_NE(rig.tier.find(5), nullptr);
  rig.tier.unpin(*held);
  EXPECT_TRUE(rig.tier.at_rest());
}

TEST(DramTier, FreesACleanBlockThatTheResidentBudgetCannotTake) {
  Rig rig(40, {.pull = 20, .resident = 4}, 8);
  rig.pull(0, 1);
  rig.pull(1, 9);  // ten pages: evicting the first would not help, so it stays
  EXPECT_NE(rig.tier.find(0), nullptr);
  EXPECT_EQ(rig.tier.find(1), nullptr);
  EXPECT_EQ(rig.arena.free_pages(), 38u);
}

TEST(DramTier, FreesABlockOfWhichNothingWasRead) {
  Rig rig(40, {.pull = 20, .resident = 20}, 8);
  TierBlock* block = rig.tier.open(block_of(1), 5, 2, Budget::kPull);
  rig.tier.pin(*block);
  ASSERT_TRUE(rig.tier.take_extent(*block, 1, 100));
  rig.tier.extent_read(*block, 1, Status::corrupt("rot"));
  EXPECT_EQ(block->state[1], ExtentState::kAbsent);
  EXPECT_EQ(rig.used_pages(Budget::kPull), 1u);
  rig.tier.unpin(*block);
  EXPECT_EQ(rig.tier.find(5), nullptr);
  EXPECT_EQ(rig.arena.free_pages(), 40u);
}

// A pull larger than its budget moves on by unpinning: what it read becomes resident, and the next
// extent of the same block is charged to kPull again until its unpin.
TEST(DramTier, ReadsMissingExtentsIntoAResidentBlockOnThePullBudget) {
  Rig rig(40, {.pull = 4, .resident = 20}, 8);
  TierBlock* block = rig.tier.open(block_of(1), 5, 6, Budget::kPull);
  for (uint32_t e = 0; e < 6; ++e) {
    rig.tier.pin(*block);
    ASSERT_TRUE(rig.tier.take_extent(*block, e, 2 * kPageBytes)) << e;
    rig.tier.extent_read(*block, e, Status());
    EXPECT_EQ(rig.used_pages(Budget::kPull), e == 0 ? 3u : 2u);
    rig.tier.unpin(*block);
    EXPECT_EQ(rig.used_pages(Budget::kPull), 0u);
    EXPECT_EQ(rig.used_pages(Budget::kResident), 1 + 2 * (e + 1));
    ASSERT_EQ(rig.tier.find(5), block);
  }
  EXPECT_EQ(block->present_count, 6u);
  rig.tier.pin(*block);
  rig.tier.forget(*block);
  EXPECT_EQ(rig.tier.find(5), nullptr);
  rig.tier.unpin(*block);
  EXPECT_EQ(rig.arena.free_pages(), 40u);
}

TEST(DramTier, GivesBackOnlyTheExtentWhoseReadFailedInAResidentBlock) {
  Rig rig(40, {.pull = 10, .resident = 20}, 8);
  TierBlock* block = rig.tier.open(block_of(1), 5, 2, Budget::kPull);
  rig.tier.pin(*block);
  ASSERT_TRUE(rig.tier.take_extent(*block, 0, 2 * kPageBytes));
  rig.tier.extent_read(*block, 0, Status());
  rig.tier.unpin(*block);
  rig.tier.pin(*block);
  ASSERT_TRUE(rig.tier.take_extent(*block, 1, kPageBytes));
  rig.tier.extent_read(*block, 1, Status::io("read", 5));
  EXPECT_EQ(rig.used_pages(Budget::kPull), 0u);
  EXPECT_EQ(rig.used_pages(Budget::kResident), 3u);
  EXPECT_EQ(block->present_count, 1u);
  rig.tier.unpin(*block);
  EXPECT_EQ(rig.tier.find(5), block);
}

TEST(DramTier, DropsAnExtentThatWasSentAndCountsItsPagesBack) {
  Rig rig(60, {.pull = 20, .resident = 20}, 8);
  TierBlock* block = rig.pull(5, 3);  // resident: header and three extents
  EXPECT_EQ(rig.tier.evictable_bytes(), bytes_of(4));
  rig.tier.drop_extent(*block, 0);  // not pinned
  EXPECT_EQ(block->state[0], ExtentState::kAbsent);
  EXPECT_EQ(block->present_count, 2u);
  EXPECT_EQ(rig.tier.evictable_bytes(), bytes_of(3));
  EXPECT_EQ(rig.used_pages(Budget::kResident), 3u);
  rig.tier.pin(*block);
  ASSERT_TRUE(rig.tier.take_extent(*block, 0, 3 * kPageBytes));
  EXPECT_EQ(rig.used_pages(Budget::kPull), 3u);
  rig.tier.drop_extent(*block, 1);  // one of the old pages goes: two on kPull are left
  rig.tier.extent_read(*block, 0, Status::io("read", 5));
  EXPECT_EQ(rig.used_pages(Budget::kPull), 0u);
  EXPECT_EQ(rig.used_pages(Budget::kResident), 2u);
  EXPECT_EQ(block->present_count, 1u);
  rig.tier.unpin(*block);
  EXPECT_EQ(rig.tier.evictable_bytes(), bytes_of(2));
  EXPECT_EQ(rig.arena.free_pages(), 58u);
}

TEST(DramTierDeathTest, RefusesToDropWhatASendStillNeeds) {
  Rig rig(40, {.pull = 20, .resident = 20}, 2);
  TierBlock* block = rig.pull(1, 1);
  ++block->users[0];
  EXPECT_DEATH(rig.tier.drop_extent(*block, 0), "users");
  --block->users[0];
}

// Somebody else's slabs fill the arena: the budget has room, the pages come from residents (D3).
TEST(DramTier, EvictsResidentsWhenTheArenaItselfIsShort) {
  Rig rig(20, {.push = 10, .resident = 10}, 8);
  for (uint32_t slot = 0; slot < 4; ++slot) {
    TierBlock* block =
        rig.tier.grant(block_of(slot), {1, 0, 1}, table_of({kPageBytes}), Budget::kPush);
    rig.tier.pin(*block);
    rig.tier.bind(*block, slot);
    rig.tier.extent_read(*block, 0, Status());
    block->dirty = false;
    rig.tier.unpin(*block);
  }
  Slab other = rig.arena.take(rig.arena.free_pages());
  TierBlock* block =
      rig.tier.grant(block_of(9), {1, 0, 1}, table_of({5 * kPageBytes}), Budget::kPush);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(rig.tier.find(0), nullptr);
  EXPECT_EQ(rig.tier.find(2), nullptr);
  EXPECT_NE(rig.tier.find(3), nullptr);
  EXPECT_EQ(rig.tier.grant(block_of(8), {1, 0, 1}, table_of({2 * kPageBytes}), Budget::kPush),
            nullptr);
  EXPECT_NE(rig.tier.find(3), nullptr) << "evicted although it would not have helped";
  rig.arena.give(other);
}

TEST(DramTier, TakesATierBlockFromTheResidentsWhenThePoolIsEmpty) {
  Rig rig(40, {.pull = 20, .resident = 20}, 2);
  rig.pull(0, 1);
  TierBlock* held = rig.pull(1, 1);
  rig.tier.pin(*held);
  EXPECT_NE(rig.pull(2, 1), nullptr);
  EXPECT_EQ(rig.tier.find(0), nullptr);
  TierBlock* other = rig.tier.find(2);
  rig.tier.pin(*other);
  EXPECT_EQ(rig.pull(3, 1), nullptr);
  rig.tier.unpin(*other);
  rig.tier.unpin(*held);
}

TEST(DramTier, WakesTheWaitersOfThatExtentOnlyInTheOrderTheyCame) {
  Rig rig(40, {.pull = 20, .resident = 20}, 2);
  TierBlock* block = rig.tier.open(block_of(1), 5, 2, Budget::kPull);
  rig.tier.pin(*block);
  ASSERT_TRUE(rig.tier.take_extent(*block, 0, 100));
  ASSERT_TRUE(rig.tier.take_extent(*block, 1, 100));
  struct Woken {
    std::vector<uint32_t> order;
    std::vector<Code> codes;
  } woken;
  ExtentWaiter waiters[4];
  for (uint32_t i = 0; i < 4; ++i) {
    waiters[i].owner = &woken;
    waiters[i].extent = i % 2;
    waiters[i].on_ready = [](ExtentWaiter& w, Status status) {
      static_cast<Woken*>(w.owner)->order.push_back(w.extent);
      static_cast<Woken*>(w.owner)->codes.push_back(status.code());
    };
    block->waiters.push(&waiters[i]);
  }
  rig.tier.extent_read(*block, 1, Status());
  EXPECT_EQ(woken.order, (std::vector<uint32_t>{1, 1}));
  EXPECT_EQ(block->waiters.size(), 2u);
  rig.tier.extent_read(*block, 0, Status::io("read", 5));
  EXPECT_EQ(woken.order, (std::vector<uint32_t>{1, 1, 0, 0}));
  EXPECT_EQ(woken.codes, (std::vector<Code>{Code::kOk, Code::kOk, Code::kIo, Code::kIo}));
  EXPECT_TRUE(block->waiters.empty());
  rig.tier.unpin(*block);
}

TEST(DramTier, CountsHitsAndMissesOfFindButNotOfPeek) {
  Rig rig(40, {.pull = 20, .resident = 20}, 2);
  MetricSet metrics;
  rig.tier.register_metrics(metrics);
  rig.pull(1, 1);
  EXPECT_NE(rig.tier.peek(1), nullptr);
  EXPECT_EQ(rig.tier.peek(2), nullptr);
  EXPECT_NE(rig.tier.find(1), nullptr);
  EXPECT_EQ(rig.tier.find(2), nullptr);
  EXPECT_EQ(metrics.snapshot().number("varve_tier_hits_total"), 1);
  EXPECT_EQ(metrics.snapshot().number("varve_tier_misses_total"), 1);
}

TEST(DramTierDeathTest, RefusesBudgetsThatTogetherExceedTheArena) {
  EXPECT_DEATH(Rig(10, {.push = 5, .pull = 5, .resident = 1}, 1), "page_count");
}

TEST(DramTierDeathTest, RefusesTwoBlocksForOneIndexSlot) {
  Rig rig(40, {.pull = 20, .resident = 20}, 2);
  rig.pull(1, 1);
  EXPECT_DEATH((void)rig.tier.open(block_of(2), 1, 1, Budget::kPull), "map_find");
}

// Issue: internal waste <= 12.5 % over a mix of formats. Formats as engines have them: 32 layers of
// 1 MiB and of 512 KiB, latent layers of 288 KiB, hybrid with small state layers, small models.
TEST(DramTier, WastesAtMostAnEighthOverAMixOfFormats) {
  const std::vector<std::vector<LayerSpec>> formats = {
      std::vector<LayerSpec>(32, {LayerKind::kFull, 1024 * 1024}),
      std::vector<LayerSpec>(80, {LayerKind::kFull, 512 * 1024}),
      std::vector<LayerSpec>(61, {LayerKind::kLatent, 256 * 576 * 2}),
      std::vector<LayerSpec>(24, {LayerKind::kSliding, 70'001}),
      std::vector<LayerSpec>(28, {LayerKind::kState, 9'000}),
      {{LayerKind::kOpaque, 6 * 1024 * 1024 + 1}},
      {{LayerKind::kOpaque, 65'537}},
  };
  uint64_t taken = 0, useful = 0;
  Rig rig(30'000, {.push = 30'000}, 16);
  std::vector<TierBlock*> blocks;
  for (uint64_t n = 0; n < formats.size(); ++n) {
    const Result<ExtentTable> table = ExtentTable::of(formats[n], Scheme{});
    ASSERT_TRUE(table.has_value());
    TierBlock* block = rig.tier.grant(block_of(n), {1, 0, n + 1}, *table, Budget::kPush);
    ASSERT_NE(block, nullptr);
    blocks.push_back(block);
    taken += bytes_of(block->charged_pages);
    useful += table->block_bytes;
    // Expect: each alone as well, header page included; the smallest has one page of it on 16.
    EXPECT_LE(bytes_of(block->charged_pages) - table->block_bytes, table->block_bytes / 8) << n;
  }
  EXPECT_LE((taken - useful) * 8, taken);
  EXPECT_EQ(taken, rig.tier.used_bytes(Budget::kPush));
  for (TierBlock* block : blocks)
    rig.tier.forget(*block);
}

TEST(DramTier, AllocatesNothingAfterConstruction) {
  Rig rig(2000, {.push = 900, .pull = 600, .resident = 500}, 8);
  const ExtentTable table = table_of(std::vector<uint32_t>(200, kPageBytes));
  const BlockId id = block_of(1);
  const uint64_t before = allocations;
  for (uint32_t round = 0; round < 20; ++round) {
    TierBlock* block = rig.tier.grant(id, {1, 0, 1}, table, Budget::kPush);
    rig.tier.pin(*block);
    for (uint32_t e = 0; e < 200; ++e)
      rig.tier.extent_read(*block, e, Status());
    rig.tier.bind(*block, 1000 + round);
    block->dirty = false;
    rig.tier.unpin(*block);
    rig.pull(round, kExtentsMax);
  }
  EXPECT_EQ(allocations, before);  // D1
}

// Random pushes and pulls. Every present extent carries its block's number in every page; the model
// knows each block that must still be there because it is pinned or dirty.
class TierWalk {
 public:
  explicit TierWalk(uint64_t seed) : random_(seed) {}

  void step() {
    switch (random_.below(6)) {
      case 0:
        return push();
      case 1:
        return pull();
      case 2:
      case 3:
        return advance();
      case 4:
        return take_outside();
      default:
        return evict();
    }
  }

  void check() {
    uint64_t used = 0;
    for (const Budget budget : kAllBudgets) {
      ASSERT_LE(rig_.tier.used_bytes(budget), rig_.tier.limit_bytes(budget));  // D2
      used += rig_.tier.used_bytes(budget) / kPageBytes;
    }
    uint32_t outside = 0;
    for (const Slab& slab : outside_)
      outside += slab.page_count;
    ASSERT_EQ(used + outside + rig_.arena.free_pages(), kPages);
    for (const Held& held : held_) {  // D5
      if (!held.gone) {
        ASSERT_EQ(rig_.tier.peek(held.slot), held.bound ? held.block : nullptr);
      }
      verify(*held.block, held.number);
    }
    ASSERT_EQ(rig_.tier.at_rest(), held_.empty());
  }

  void finish() {
    while (!held_.empty())
      advance();
    for (Slab& slab : outside_)
      rig_.arena.give(slab);
    outside_.clear();
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      if (TierBlock* block = rig_.tier.find(slot)) rig_.tier.forget(*block);
    }
    ASSERT_TRUE(rig_.tier.at_rest());
    ASSERT_EQ(rig_.arena.free_pages(), kPages);
  }

  uint32_t refused = 0, hits = 0;

 private:
  static constexpr uint32_t kPages = 200;
  static constexpr uint32_t kSlots = 24;
  static constexpr uint32_t kBlocks = 12;
  struct Held {
    TierBlock* block;
    uint32_t slot;
    uint64_t number;
    bool push, bound, gone;
  };

  // The table of a slot's block: fixed, so that pushes and pulls agree. Every other one is coded.
  static ExtentTable table_at(uint32_t slot) {
    Random random(slot);
    std::vector<uint32_t> sizes(random.between(1, 12));
    for (uint32_t& bytes : sizes)
      bytes = static_cast<uint32_t>(random.between(1, 3 * kPageBytes));
    ExtentTable table = table_of(sizes);
    if (slot % 2 == 0) return table;
    table.scheme = {2, 1};
    for (uint32_t e = 0; e < sizes.size(); e += 2) {
      const auto count = std::min<uint32_t>(2, static_cast<uint32_t>(sizes.size()) - e);
      const uint32_t bytes = *std::max_element(&sizes[e], &sizes[e] + count);
      table.stripes.push_back({.first = e, .count = count, .bytes = bytes});
    }
    return table;
  }
  static uint32_t overhead(size_t extents) { return extents > TierBlock::kFewExtents ? 2 : 1; }

  template <class Visit>
  void each_page(TierBlock& block, uint32_t extent, Visit visit) {
    const Slab slab = rig_.tier.extent(block, extent);
    for (uint32_t p = 0; p < slab.page_count; ++p) {
      visit(rig_.arena.byte_at(slab, bytes_of(p)));
    }
  }
  void fill(TierBlock& block, uint32_t extent, uint64_t number) {
    each_page(block, extent, [&](std::byte* at) { std::memcpy(at, &number, sizeof(number)); });
  }
  void verify(TierBlock& block, uint64_t number) {
    for (uint32_t e = 0; e < block.extent_count; ++e) {
      if (block.state[e] != ExtentState::kPresent) continue;
      each_page(block, e, [&](std::byte* at) {
        ASSERT_EQ(load<uint64_t>({at, kPageBytes}), number);
      });
    }
  }
  uint32_t pool_left() const {  // TierBlocks that are free or evictable
    return kBlocks - static_cast<uint32_t>(held_.size());
  }
  void check_refusal(uint32_t pages, Budget budget) {
    ++refused;
    const uint64_t left = rig_.tier.limit_bytes(budget) - rig_.tier.used_bytes(budget);
    const uint64_t takeable = bytes_of(rig_.arena.free_pages()) + rig_.tier.evictable_bytes();
    ASSERT_TRUE(bytes_of(pages) > left || bytes_of(pages) > takeable || pool_left() == 0);  // D3
  }
  bool is_held(uint32_t slot) const {
    return std::any_of(held_.begin(), held_.end(), [&](const Held& h) { return h.slot == slot; });
  }

  void push() {
    const auto slot = static_cast<uint32_t>(random_.below(kSlots));
    if (is_held(slot)) return;
    if (TierBlock* old = rig_.tier.find(slot)) rig_.tier.forget(*old);
    const ExtentTable table = table_at(slot);
    uint32_t pages = overhead(table.count()) + table.scheme.width() - 1;
    for (uint32_t e = 0; e < table.count(); ++e)
      pages += pages_of(table.bytes_at(e));
    TierBlock* block = rig_.tier.grant(block_of(slot), {1, 0, 1}, table, Budget::kPush);
    if (block == nullptr) return check_refusal(pages, Budget::kPush);
    rig_.tier.pin(*block);
    held_.push_back({block, slot, slot, true, false, false});
  }

  void pull() {
    const auto slot = static_cast<uint32_t>(random_.below(kSlots));
    if (is_held(slot)) return;
    const uint32_t extents = table_at(slot).count();
    TierBlock* block = rig_.tier.find(slot);
    if (block == nullptr) {
      block = rig_.tier.open(block_of(slot), slot, extents, Budget::kPull);
      if (block == nullptr) return check_refusal(overhead(extents), Budget::kPull);
      block->header_present = true;
    } else {
      ++hits;
      verify(*block, slot);
    }
    rig_.tier.pin(*block);
    held_.push_back({block, slot, slot, false, true, false});
  }

  // One held block does its next thing.
  void advance() {
    if (held_.empty()) return;
    const auto i = static_cast<size_t>(random_.below(held_.size()));
    Held& held = held_[i];
    TierBlock& block = *held.block;
    const bool leave = random_.chance(150);
    const auto e = static_cast<uint32_t>(random_.below(block.extent_count));
    if (held.push && !leave) {
      if (block.state[e] == ExtentState::kReading) {
        fill(block, e, held.number);
        rig_.tier.extent_read(block, e, Status());
      } else if (block.present_count == block.extent_count) {
        if (!held.bound && !held.gone) {
          rig_.tier.bind(block, held.slot);
          held.bound = true;
        }
        block.dirty = false;
        rig_.tier.drop_coding(block, table_at(held.slot).data_count());
        release(i);
      }
      return;
    }
    if (!held.push && !leave && block.state[e] == ExtentState::kAbsent) {
      const uint32_t bytes = table_at(held.slot).bytes_at(e);
      if (!rig_.tier.take_extent(block, e, bytes)) {
        check_refusal(pages_of(bytes), Budget::kPull);
        return release(i);  // a window that finds no room is given back
      }
      fill(block, e, held.number);
      rig_.tier.extent_read(block, e, random_.chance(100) ? Status::io("read", 5) : Status());
      return;
    }
    if (!held.push && !leave && block.state[e] == ExtentState::kPresent) {
      rig_.tier.drop_extent(block, e);
      return;
    }
    if (leave && held.push && !held.gone) rig_.tier.forget(block);  // abort
    if (leave) release(i);
  }
  void release(size_t i) {
    TierBlock& block = *held_[i].block;
    verify(block, held_[i].number);
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(i));
    rig_.tier.unpin(block);
  }
  // Others take and give pages of the same arena, within what the budgets leave over.
  void take_outside() {
    if (!outside_.empty() && random_.chance(500)) {
      rig_.arena.give(outside_.back());
      outside_.pop_back();
      return;
    }
    const Slab slab = rig_.arena.take(static_cast<uint32_t>(random_.between(1, 30)));
    if (!slab.empty()) outside_.push_back(slab);
  }
  // The index evicts a slot, in use or not.
  void evict() {
    const auto slot = static_cast<uint32_t>(random_.below(kSlots));
    TierBlock* block = rig_.tier.find(slot);
    if (block == nullptr) return;
    for (Held& held : held_) {
      if (held.block == block) held.gone = true;
    }
    rig_.tier.forget(*block);
  }

  Random random_;
  Rig rig_{kPages, {.push = 80, .pull = 60, .resident = 60}, kBlocks};
  std::vector<Held> held_;
  std::vector<Slab> outside_;
};

TEST(DramTier, HoldsItsBudgetsAndItsPinnedBlocksUnderRandomOperations) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    TierWalk walk(seed);
    for (uint32_t step = 0; step < 3000; ++step) {
      walk.step();
      walk.check();
      if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " step " << step;
    }
    EXPECT_GT(walk.refused, 0u) << seed;
    EXPECT_GT(walk.hits, 0u) << seed;
    walk.finish();
  }
}

}  // namespace
}  // namespace varve
