// Goal: DRAM is accounted to the page, what is pinned or dirty stays, what is clean and idle makes
// room, and "no room" is only said when there is none.
// Method: small arenas and hand-made blocks for each rule; blocks of every scheme in
// dram_coding_test.cc, a random walk in dram_walk_test.cc.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <vector>

#include "tests/server/tier/tier_rig.h"

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

using Rig = TierRig;

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

// Expect: what is resident is its domain's, whoever reads it again or evicts it; what is at work is
// nobody's.
TEST(DramTier, CountsWhatIsResidentByDomain) {
  Rig rig(42, {.push = 10, .pull = 20, .resident = 12}, 8);
  const auto pull = [&rig](uint32_t slot, uint32_t domain, uint32_t extents) {
    BlockId id = block_of(slot);
    id.domain = domain;
    TierBlock* block = rig.tier.open(id, slot, extents, extents, Budget::kPull);
    rig.tier.pin(*block);
    block->header_present = true;
    for (uint32_t e = 0; e < extents; ++e) {
      EXPECT_TRUE(rig.tier.take_extent(*block, e, kPageBytes));
      rig.tier.extent_read(*block, e, Status());
    }
    return block;
  };
  TierBlock* one = pull(1, 1, 3);
  EXPECT_EQ(rig.tier.resident_pages().total(), 0u);
  rig.tier.unpin(*one);
  TierBlock* two = pull(2, 2, 4);
  rig.tier.unpin(*two);
  EXPECT_EQ(rig.tier.resident_pages().of(1), 4u);  // with a header
  EXPECT_EQ(rig.tier.resident_pages().of(2), 5u);
  rig.tier.drop_extent(*two, 0);
  EXPECT_EQ(rig.tier.resident_pages().of(2), 4u);
  rig.tier.pin(*two);  // it is more pages again, of a pull until its end
  EXPECT_TRUE(rig.tier.take_extent(*two, 0, kPageBytes));
  rig.tier.extent_read(*two, 0, Status());
  EXPECT_EQ(rig.tier.resident_pages().of(2), 4u);
  rig.tier.unpin(*two);
  EXPECT_EQ(rig.tier.resident_pages().of(2), 5u);
  rig.tier.unpin(*pull(3, 2, 5));  // the first is the oldest, and has to go
  EXPECT_EQ(rig.tier.resident_pages().of(1), 0u);
  EXPECT_EQ(rig.tier.resident_pages().of(2), 11u);
  EXPECT_EQ(bytes_of(11), rig.tier.used_bytes(Budget::kResident));
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
  TierBlock* block = rig.tier.open(block_of(1), 5, 2, 2, Budget::kPull);
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
  TierBlock* block = rig.tier.open(block_of(1), 5, 6, 6, Budget::kPull);
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
  TierBlock* block = rig.tier.open(block_of(1), 5, 2, 2, Budget::kPull);
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
  TierBlock* block = rig.tier.open(block_of(1), 5, 2, 2, Budget::kPull);
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

// A device that answers a read with "not any more, and the pages stay mine". Expect: the readers go
// on at once, the pages stay charged and are nobody's until they come back, the rest is not
// touched.
TEST(DramTier, KeepsThePagesThatADeviceHoldsUntilTheyComeBack) {
  Rig rig(40, {.pull = 20, .resident = 20}, 2);
  TierBlock* block = rig.tier.open(block_of(1), 5, 2, 2, Budget::kPull);
  rig.tier.pin(*block);  // the reader
  rig.tier.pin(*block);  // the device
  ASSERT_TRUE(rig.tier.take_extent(*block, 0, 3 * kPageBytes));
  ASSERT_TRUE(rig.tier.take_extent(*block, 1, kPageBytes));
  Code woken = Code::kOk;
  ExtentWaiter waiter;
  waiter.owner = &woken;
  waiter.on_ready = [](ExtentWaiter& w, Status s) { *static_cast<Code*>(w.owner) = s.code(); };
  block->waiters.push(&waiter);
  rig.tier.extent_held(*block, 0, Status::unavailable("held"));
  EXPECT_EQ(woken, Code::kUnavailable);
  EXPECT_EQ(block->state[0], ExtentState::kHeld);
  rig.tier.extent_read(*block, 1, Status());
  rig.tier.settle_written(*block);
  rig.tier.forget(*block);  // its target failed
  rig.tier.unpin(*block);
  EXPECT_EQ(rig.used_pages(Budget::kPull), 1u + 3 + 1);
  EXPECT_FALSE(rig.tier.at_rest());
  rig.tier.extent_read(*block, 0, Status::unavailable("came back"));
  EXPECT_EQ(block->state[0], ExtentState::kAbsent);
  EXPECT_EQ(rig.used_pages(Budget::kPull), 1u + 1);
  rig.tier.unpin(*block);
  EXPECT_TRUE(rig.tier.at_rest());
  EXPECT_EQ(rig.arena.free_pages(), 40u);
}

TEST(DramTierDeathTest, BelievesNoBytesOfAReadThatWasGivenUp) {
  Rig rig(40, {.pull = 20, .resident = 20}, 2);
  TierBlock* block = rig.tier.open(block_of(1), 5, 1, 1, Budget::kPull);
  rig.tier.pin(*block);
  ASSERT_TRUE(rig.tier.take_extent(*block, 0, kPageBytes));
  rig.tier.extent_held(*block, 0, Status::unavailable("held"));
  EXPECT_DEATH(rig.tier.extent_read(*block, 0, Status()), "kReading");
}

TEST(DramTier, WakesWithoutEndingTheRead) {
  Rig rig(40, {.pull = 20, .resident = 20}, 2);
  TierBlock* block = rig.tier.open(block_of(1), 5, 1, 1, Budget::kPull);
  rig.tier.pin(*block);
  ASSERT_TRUE(rig.tier.take_extent(*block, 0, kPageBytes));
  uint32_t woken = 0;
  ExtentWaiter waiter;
  waiter.owner = &woken;
  waiter.on_ready = [](ExtentWaiter& w, Status) { ++*static_cast<uint32_t*>(w.owner); };
  block->waiters.push(&waiter);
  DramTier::wake(*block, 0, Status());
  EXPECT_EQ(woken, 1u);
  EXPECT_EQ(block->state[0], ExtentState::kReading);
  rig.tier.extent_read(*block, 0, Status());
  EXPECT_EQ(woken, 1u) << "it waits no longer";
  rig.tier.unpin(*block);
}

// Pages that no block has: charged, refused and counted like any others, and residents make room.
TEST(DramTier, LendsPagesWithoutABlockWithinTheBudget) {
  Rig rig(24, {.pull = 12, .resident = 12}, 8);
  MetricSet metrics;
  rig.tier.register_metrics(metrics);
  for (uint32_t slot = 0; slot < 3; ++slot)
    rig.pull(slot, 3);  // twelve pages resident
  Slab slab = rig.tier.take_slab(10, Budget::kPull);
  EXPECT_EQ(slab.page_count, 10u);
  EXPECT_EQ(rig.used_pages(Budget::kPull), 10u);
  EXPECT_TRUE(rig.tier.take_slab(3, Budget::kPull).empty());
  EXPECT_EQ(metrics.snapshot().number("varve_tier_refused_total", "budget=\"pull\""), 1);
  Slab other = rig.arena.take(2);  // now only residents are left
  Slab more = rig.tier.take_slab(2, Budget::kPull);
  EXPECT_EQ(more.page_count, 2u);
  EXPECT_EQ(rig.tier.find(0), nullptr);
  EXPECT_NE(rig.tier.find(1), nullptr);
  rig.tier.give_slab(more, Budget::kPull);
  rig.tier.give_slab(slab, Budget::kPull);
  EXPECT_TRUE(slab.empty() && more.empty());
  rig.arena.give(other);
  EXPECT_EQ(rig.used_pages(Budget::kPull), 0u);
  EXPECT_EQ(rig.arena.free_pages(), 24u - 8);
}

// Expect: the sum stays, the oldest residents go for it, and what is pinned or in use is no room.
TEST(DramTier, ShiftsWhatABudgetDoesNotUseToAnother) {
  Rig rig(24, {.pull = 12, .resident = 12}, 8);
  MetricSet metrics;
  rig.tier.register_metrics(metrics);
  for (uint32_t slot = 0; slot < 3; ++slot)
    rig.pull(slot, 3);  // twelve pages resident
  EXPECT_TRUE(rig.tier.take_slab(1, Budget::kRepair).empty());
  ASSERT_TRUE(rig.tier.shift_limit(Budget::kResident, Budget::kRepair, 5));
  EXPECT_EQ(rig.tier.find(0), nullptr);
  EXPECT_EQ(rig.tier.find(1), nullptr);
  TierBlock* pinned = rig.tier.find(2);
  ASSERT_NE(pinned, nullptr);
  EXPECT_EQ(metrics.snapshot().number("varve_tier_limit_bytes", "budget=\"resident\""),
            static_cast<int64_t>(bytes_of(7)));
  EXPECT_EQ(metrics.snapshot().number("varve_tier_limit_bytes", "budget=\"repair\""),
            static_cast<int64_t>(bytes_of(5)));
  rig.tier.pin(*pinned);
  EXPECT_FALSE(rig.tier.shift_limit(Budget::kResident, Budget::kRepair, 4));
  EXPECT_TRUE(rig.tier.shift_limit(Budget::kResident, Budget::kRepair, 3));
  rig.tier.unpin(*pinned);
  EXPECT_NE(rig.tier.find(2), nullptr);
  Slab slab = rig.tier.take_slab(8, Budget::kRepair);
  EXPECT_EQ(slab.page_count, 8u);
  EXPECT_FALSE(rig.tier.shift_limit(Budget::kRepair, Budget::kResident, 1));
  rig.tier.give_slab(slab, Budget::kRepair);
  EXPECT_TRUE(rig.tier.shift_limit(Budget::kRepair, Budget::kResident, 8));
  EXPECT_EQ(rig.tier.limit_bytes(Budget::kResident), bytes_of(12));
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

TEST(DramTier, CountsTheBlocksThatCanBeFound) {
  Rig rig(40, {.pull = 20, .resident = 20}, 4);
  MetricSet metrics;
  rig.tier.register_metrics(metrics);
  const auto blocks = [&metrics] { return metrics.snapshot().number("varve_tier_blocks"); };
  EXPECT_EQ(blocks(), 0);
  rig.pull(1, 1);
  rig.pull(2, 1);
  EXPECT_EQ(blocks(), 2);
  rig.tier.pin(*rig.tier.peek(1));
  EXPECT_EQ(blocks(), 2) << "read or not";
  rig.tier.unpin(*rig.tier.peek(1));
  rig.tier.forget(*rig.tier.peek(2));
  EXPECT_EQ(blocks(), 1);
  rig.tier.forget(*rig.tier.peek(1));
  EXPECT_EQ(blocks(), 0);
}

TEST(DramTierDeathTest, RefusesBudgetsThatTogetherExceedTheArena) {
  EXPECT_DEATH(Rig(10, {.push = 5, .pull = 5, .resident = 1}, 1), "page_count");
}

TEST(DramTierDeathTest, RefusesTwoBlocksForOneIndexSlot) {
  Rig rig(40, {.pull = 20, .resident = 20}, 2);
  rig.pull(1, 1);
  EXPECT_DEATH((void)rig.tier.open(block_of(2), 1, 1, 1, Budget::kPull), "map_find");
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

}  // namespace
}  // namespace varve
