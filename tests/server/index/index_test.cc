// Goal: the index is an exact map from blocks to places whose slots hold still, that never drops
// what is leased, never allocates after construction and stays within its memory.
// Method: large sets for tag collisions; every position of a miss for match; a counting operator
// new. Blocks of several fragments in index_coding_test.cc, a random walk in index_walk_test.cc.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <new>
#include <vector>

#include "server/policy/policy.h"
#include "server/tier/tier.h"
#include "tests/server/index/index_rig.h"

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

// X1: the sum in the door is the sum of what the rooms really keep.
static_assert(IndexBytes::kPolicy == kPolicyBytesPerSlot);
static_assert(IndexBytes::kTierMap == kTierMapBytesPerBlock);
static_assert(IndexBytes::kSiblings == 1);  // kSiblingBytesPerSlot of server/op, above this room

TEST(Index, AnswersNothingWhenEmpty) {
  const Index index({.blocks_max = 8});
  EXPECT_EQ(index.ranks_of(kDomainDefault, id_of(1)), 0u);
  EXPECT_FALSE(index.find({id_of(1), 0}).has_value());
  EXPECT_FALSE(index.base_slot(kDomainDefault, id_of(1)).has_value());
  const std::vector<BaseId> ids = {id_of(1)};
  EXPECT_EQ(index.match(kDomainDefault, ids, 1), 0u);
  EXPECT_EQ(index.match(kDomainDefault, {}, 1), 0u);
}

TEST(Index, APrefetchOfAnyIdChangesNothing) {
  Index index({.blocks_max = 4});
  index.prefetch(kDomainDefault, id_of(1));
  EXPECT_EQ(index.base_count(), 0u);
  insert_on_flash(index, {id_of(1), 0}, place_of(1));
  index.prefetch(kDomainDefault, id_of(1));
  index.prefetch(kDomainDefault, id_of(2));
  EXPECT_EQ(index.base_count(), 1u);
  EXPECT_EQ(index.ranks_of(kDomainDefault, id_of(1)), 1u);
  EXPECT_EQ(index.ranks_of(kDomainDefault, id_of(2)), 0u);
}

// Expect: under one id each domain has its own; a move changes what it has, a loss takes it away.
TEST(Index, CountsWhatEachDomainHas) {
  Index index({.blocks_max = 8});
  const BlockId of_one{id_of(1), 0, kDomainDefault}, of_two{id_of(1), 0, 2};
  const flash::Place place = place_of(1);
  flash::Place small = place_of(2);
  small.pages = small.lead_pages = 1;
  insert_on_flash(index, of_one, place);
  const Located where = insert_on_flash(index, of_two, small);
  insert_on_flash(index, {id_of(2), 1, 2}, small);
  EXPECT_EQ(index.blocks_by_domain().of(kDomainDefault), 1u);
  EXPECT_EQ(index.blocks_by_domain().of(2), 2u);
  EXPECT_EQ(index.pages_by_domain().of(kDomainDefault), place.pages);
  EXPECT_EQ(index.pages_by_domain().of(2), 2u);
  ASSERT_TRUE(index.place_move(of_one, place, small));
  EXPECT_EQ(index.pages_by_domain().of(kDomainDefault), 1u);
  index.lose(where, 0);
  EXPECT_EQ(index.pages_by_domain().of(2), 1u);
  EXPECT_EQ(index.blocks_by_domain().of(2), 2u);
  index.remove(of_one);
  index.drop(of_two);
  EXPECT_EQ(index.blocks_by_domain().of(kDomainDefault), 0u);
  EXPECT_EQ(index.pages_by_domain().rows().size(), 1u);
  EXPECT_EQ(index.blocks_by_domain().of(2), 1u);
}

TEST(Index, KeepsEveryFieldOfAPlaceAtItsExtremes) {
  Index index({.blocks_max = 4, .slice_count = kSlicesMax});
  const flash::Place largest{.target = kTargetsMax - 1,
                             .slice = kSlicesMax - 1,
                             .segment = 65535,
                             .page = 65535,
                             .pages = 65535,
                             .lead_pages = 65535};
  insert_on_flash(index, {id_of(1), kRanksMax - 1}, largest);
  const auto found = index.find({id_of(1), kRanksMax - 1});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(index.place_of(*found, 0), largest);
  EXPECT_EQ(index.ranks_of(kDomainDefault, id_of(1)), 1u << (kRanksMax - 1));
}

// X2 over enough ids that some share a 32-bit tag (about ten pairs), in two differently seeded
// tables. Expect: what was inserted and not removed is found at its place, nothing else is.
TEST(Index, FindsExactlyWhatIsThereAmongManyIds) {
  constexpr uint32_t kIds = 300'000;
  for (const uint64_t hash_seed : {0ull, 99ull}) {
    Index index({.blocks_max = kIds, .hash_seed = hash_seed});
    for (uint32_t n = 0; n < kIds; ++n) {
      insert_on_flash(index, {id_of(n), 0}, place_of(n));
    }
    std::vector<BaseId> ids;
    for (uint32_t n = 0; n < kIds; ++n)
      ids.push_back(id_of(n));
    ASSERT_EQ(index.match(kDomainDefault, ids, 1), kIds);
    for (uint32_t n = 0; n < kIds; n += 3) {
      ASSERT_TRUE(index.remove({id_of(n), 0}).has_value());
    }
    for (uint32_t n = 0; n < kIds; ++n) {
      const auto found = index.find({id_of(n), 0});
      ASSERT_EQ(found.has_value(), n % 3 != 0) << n;
      if (found) {
        ASSERT_EQ(index.place_of(*found, 0), place_of(n)) << n;
      }
      ASSERT_EQ(index.ranks_of(kDomainDefault, id_of(n + kIds)), 0u);
    }
    EXPECT_EQ(index.block_count(), kIds - (kIds + 2) / 3);
  }
}

TEST(Index, TellsIdsApartThatDifferInOneBitOnly) {
  Index index({.blocks_max = 300});
  const BaseId root = id_of(5);
  for (uint32_t bit = 0; bit < 256; ++bit) {
    BaseId id = root;
    id.bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    insert_on_flash(index, {id, 0}, place_of(bit));
  }
  EXPECT_EQ(index.ranks_of(kDomainDefault, root), 0u);
  for (uint32_t bit = 0; bit < 256; ++bit) {
    BaseId id = root;
    id.bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_EQ(index.place_of(*index.find({id, 0}), 0), place_of(bit));
  }
}

TEST(Index, MatchStopsAtTheFirstIdThatLacksARankWhereverItIs) {
  constexpr uint32_t kRanks = 3;
  std::vector<BaseId> ids;
  for (uint32_t n = 0; n < 70; ++n)
    ids.push_back(id_of(n));
  for (uint32_t gap = 0; gap <= ids.size(); ++gap) {
    Index index({.blocks_max = 256});
    for (uint32_t n = 0; n < ids.size(); ++n) {
      for (uint32_t rank = 0; rank < kRanks; ++rank) {
        if (n == gap && rank == gap % kRanks) continue;
        index.insert({ids[n], rank}, BlockState::kMemory, nullptr);
      }
    }
    ASSERT_EQ(index.match(kDomainDefault, ids, kRanks), gap);
  }
}

TEST(Index, MatchAnswersADuplicateLikeAnyOtherId) {
  Index index({.blocks_max = 8});
  for (uint32_t n = 0; n < 2; ++n)
    index.insert({id_of(n), 0}, BlockState::kMemory, nullptr);
  const std::vector<BaseId> ids = {id_of(0), id_of(0), id_of(1), id_of(0), id_of(7), id_of(0)};
  EXPECT_EQ(index.match(kDomainDefault, ids, 1), 4u);
}

TEST(Index, MatchAgreesWithRanksOfOnRandomBatches) {
  Random random(11);
  Index index({.blocks_max = 5000});
  for (uint32_t n = 0; n < 2000; ++n) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      if (!random.chance(20)) index.insert({id_of(n), rank}, BlockState::kMemory, nullptr);
    }
  }
  for (uint32_t trial = 0; trial < 2000; ++trial) {
    std::vector<BaseId> ids(random.below(200));
    for (BaseId& id : ids)
      id = id_of(random.below(2000));
    const auto rank_count = static_cast<uint32_t>(random.between(1, 2));
    const uint32_t mask = (1u << rank_count) - 1;
    uint32_t expected = 0;
    while (expected < ids.size() && (index.ranks_of(kDomainDefault, ids[expected]) & mask) == mask)
      ++expected;
    ASSERT_EQ(index.match(kDomainDefault, ids, rank_count), expected);
    std::vector<uint32_t> slots(ids.size(), 7);
    index.match_each(kDomainDefault, ids, rank_count, slots);
    for (size_t i = 0; i < ids.size(); ++i) {
      const bool whole = (index.ranks_of(kDomainDefault, ids[i]) & mask) == mask;
      ASSERT_EQ(slots[i], whole ? *index.base_slot(kDomainDefault, ids[i]) : ~0u);
    }
  }
}

TEST(Index, MovesAPlaceOnlyFromWhereTheCallerThinksItIs) {
  Index index({.blocks_max = 4});
  const BlockId block{id_of(1), 2};
  const flash::Place first = place_of(1), second = place_of(2);
  EXPECT_FALSE(index.place_move(block, first, second));  // unknown block
  Located where;
  index.insert(block, BlockState::kMemory, &where);
  EXPECT_FALSE(index.place_move(block, first, second));  // still in memory
  index.place_add(where, 0, first);
  index.settle(where);
  EXPECT_FALSE(index.place_move(block, second, second));  // elsewhere
  EXPECT_EQ(index.place_of(*index.find(block), 0), first);
  EXPECT_TRUE(index.place_move(block, first, second));
  EXPECT_EQ(index.find(block)->state, BlockState::kFlash);
  EXPECT_EQ(index.place_of(*index.find(block), 0), second);
  EXPECT_FALSE(index.place_move({id_of(1), 1}, second, first));  // a rank that is not there
}

TEST(Index, SaysFullAtItsLimitAndTakesAgainAfterARemoval) {
  Index index({.blocks_max = 100});
  for (uint32_t n = 0; n < 100; ++n) {
    ASSERT_EQ(index.insert({id_of(n), 0}, BlockState::kMemory, nullptr), Index::Insert::kDone);
  }
  EXPECT_EQ(index.insert({id_of(100), 0}, BlockState::kMemory, nullptr), Index::Insert::kFull);
  EXPECT_EQ(index.insert({id_of(3), 1}, BlockState::kMemory, nullptr), Index::Insert::kFull);
  EXPECT_EQ(index.insert({id_of(3), 0}, BlockState::kMemory, nullptr), Index::Insert::kExists);
  ASSERT_TRUE(index.remove({id_of(50), 0}).has_value());
  EXPECT_EQ(index.insert({id_of(100), 0}, BlockState::kMemory, nullptr), Index::Insert::kDone);
}

TEST(Index, VisitsRanksInOrderAndLetsTheVisitorRemoveThem) {
  Index index({.blocks_max = 64});
  for (const uint32_t rank : {9u, 0u, 31u, 4u}) {
    insert_on_flash(index, {id_of(1), rank}, place_of(rank));
  }
  const uint32_t slot = *index.base_slot(kDomainDefault, id_of(1));
  EXPECT_EQ(index.block_at(slot, 0).base, id_of(1));
  std::vector<uint32_t> seen;
  index.for_each_rank(slot, [&](uint32_t rank, const Located& where) {
    EXPECT_EQ(index.place_of(where, 0), place_of(rank));
    EXPECT_EQ(where.base_slot, slot);
    EXPECT_EQ(index.remove({id_of(1), rank})->block_slot, where.block_slot);
    seen.push_back(rank);
  });
  EXPECT_EQ(seen, (std::vector<uint32_t>{0, 4, 9, 31}));
  EXPECT_EQ(index.base_count(), 0u);
  EXPECT_EQ(index.block_count(), 0u);
}

TEST(IndexDeathTest, NeverEvictsWhatIsLeased) {
  Index index({.blocks_max = 4});
  Located where;
  index.insert({id_of(1), 0}, BlockState::kMemory, &where);
  index.lease_add(where.base_slot);
  EXPECT_DEATH((void)index.remove({id_of(1), 0}), "leases == 0");  // X3
  index.lease_drop(where.base_slot);
  EXPECT_TRUE(index.remove({id_of(1), 0}).has_value());
  EXPECT_DEATH(index.lease_drop(where.base_slot), "live == 1");
}

// A fault takes the bytes of a leased block. Expect: a miss at once, the slot valid for the lease,
// the same id may be published again meanwhile or after.
TEST(Index, LosesLeasedBytesButKeepsTheSlotUntilTheLeaseGoes) {
  Index index({.blocks_max = 2});
  const Located where = insert_on_flash(index, {id_of(1), 0}, place_of(1));
  index.lease_add(where.base_slot);
  EXPECT_EQ(index.drop({id_of(1), 0})->block_slot, where.block_slot);
  EXPECT_EQ(index.ranks_of(kDomainDefault, id_of(1)), 0u);
  EXPECT_FALSE(index.find({id_of(1), 0}).has_value());
  EXPECT_FALSE(index.base_slot(kDomainDefault, id_of(1)).has_value());
  EXPECT_FALSE(index.drop({id_of(1), 0}).has_value());
  EXPECT_EQ(index.block_at(where.base_slot, 0).base, id_of(1));
  EXPECT_EQ(index.leases(where.base_slot), 1u);
  EXPECT_EQ(index.block_count(), 0u);
  EXPECT_EQ(index.base_count(), 1u);

  Located again;
  ASSERT_EQ(index.insert({id_of(1), 0}, BlockState::kMemory, &again), Index::Insert::kDone);
  EXPECT_EQ(again.base_slot, where.base_slot);
  index.drop({id_of(1), 0});
  index.insert({id_of(2), 0}, BlockState::kMemory, nullptr);
  EXPECT_EQ(index.insert({id_of(3), 0}, BlockState::kMemory, nullptr), Index::Insert::kFull);
  index.lease_drop(where.base_slot);
  EXPECT_EQ(index.base_count(), 1u);
  EXPECT_EQ(index.insert({id_of(3), 0}, BlockState::kMemory, nullptr), Index::Insert::kDone);
}

TEST(Index, ScansEveryBlockThatStaysExactlyOnce) {
  for (const uint32_t limit : {1u, 7u, 1000u}) {
    Index index({.blocks_max = 500});
    for (uint32_t n = 0; n < 200; ++n) {
      insert_on_flash(index, {id_of(n), n % 3}, place_of(n));
    }
    std::map<BlockId, uint32_t> seen;
    const auto visit = [](void* context, const BlockId& block, const Located&) {
      ++(*static_cast<std::map<BlockId, uint32_t>*>(context))[block];
    };
    uint32_t cursor = 0, calls = 0;
    do {
      cursor = index.scan(cursor, limit, visit, &seen);
      // Churn between the calls: what comes and goes may be seen or not.
      const uint32_t n = 100 + calls++ % 100;
      index.remove({id_of(n), n % 3});
      if (index.ranks_of(kDomainDefault, id_of(1000 + n)) == 0) {
        insert_on_flash(index, {id_of(1000 + n), 0}, place_of(n));
      }
    } while (cursor != 0);
    for (uint32_t n = 0; n < 100; ++n)
      EXPECT_EQ((seen[{id_of(n), n % 3}]), 1u) << n;
    for (const auto& [block, count] : seen)
      EXPECT_LE(count, 1u);
  }
}

// X1: a bound to the byte, buckets and the few bytes of the class included.
TEST(Index, NeedsNoMoreBytesABlockThanItsSchemeSays) {
  constexpr uint32_t kBlocks = 100'000;
  for (const Scheme scheme : kSchemes) {
    const Index index({.blocks_max = kBlocks, .scheme = scheme});
    const uint64_t block_bytes = 48 + 10 + 12 + 6 + 2 + 1 + 16 * scheme.width();
    EXPECT_LE(index.memory_bytes(), kBlocks * block_bytes + 400) << scheme.text();
    EXPECT_GE(index.memory_bytes(), kBlocks * block_bytes) << scheme.text();
    EXPECT_LE(index.memory_bytes(), uint64_t{96} * scheme.width() * kBlocks) << scheme.text();
    EXPECT_EQ(index.blocks_max(), kBlocks);
    EXPECT_EQ(index.base_slots_max(), kBlocks);
  }
}

TEST(Index, AllocatesNothingAfterConstruction) {
  Index index({.blocks_max = 1000});
  std::vector<BaseId> ids;
  for (uint32_t n = 0; n < 1200; ++n)
    ids.push_back(id_of(n));
  const uint64_t before = allocations;
  for (uint32_t round = 0; round < 3; ++round) {
    for (const BaseId& id : ids)
      index.insert({id, 0}, BlockState::kMemory, nullptr);
    index.match(kDomainDefault, ids, 1);
    for (const BaseId& id : ids)
      index.remove({id, 0});
  }
  EXPECT_EQ(allocations, before);  // X1
}

// X2. Each step is done in one domain and looked at in the other.
TEST(Index, TheSameIdInTwoDomainsIsTwo) {
  Index index({.blocks_max = 8});
  const BlockId one{id_of(1), 0, 1}, other{id_of(1), 0, 2};
  const std::vector<BaseId> ids = {id_of(1)};
  Located here, there;
  ASSERT_EQ(index.insert(one, BlockState::kMemory, &here), Index::Insert::kDone);
  EXPECT_FALSE(index.find(other).has_value());
  EXPECT_FALSE(index.find_any(other).has_value());
  EXPECT_FALSE(index.base_slot(2, id_of(1)).has_value());
  EXPECT_EQ(index.ranks_of(2, id_of(1)), 0u);
  EXPECT_EQ(index.match(2, ids, 1), 0u);
  EXPECT_FALSE(index.remove(other).has_value());
  EXPECT_FALSE(index.drop(other).has_value());
  EXPECT_EQ(index.match(1, ids, 1), 1u);
  ASSERT_EQ(index.insert(other, BlockState::kMemory, &there), Index::Insert::kDone);
  EXPECT_NE(here.base_slot, there.base_slot);
  EXPECT_EQ(index.block_at(here.base_slot, 0), one);
  EXPECT_EQ(index.block_at(there.base_slot, 0), other);
  index.lease_add(here.base_slot);
  EXPECT_EQ(index.leases(there.base_slot), 0u);
  index.place_add(here, 0, {.page = 1, .pages = 4, .lead_pages = 2});
  index.place_add(there, 0, {.page = 9, .pages = 4, .lead_pages = 2});
  EXPECT_FALSE(index.place_move(other, index.place_of(*index.find(one), 0), {.page = 30}));
  EXPECT_TRUE(index.remove(other).has_value());  // not leased, whatever the other one is
  EXPECT_TRUE(index.find(one).has_value());
  EXPECT_EQ(index.match(1, ids, 1), 1u);
  EXPECT_EQ(index.match(2, ids, 1), 0u);
  index.lease_drop(here.base_slot);
}

// So many that two domains have the same tag for an id: then only the whole comparison tells them
// apart.
TEST(Index, OneIdInVeryManyDomainsIsAsMany) {
  constexpr uint32_t kDomains = 300000;
  Index index({.blocks_max = kDomains});
  for (uint32_t d = 1; d <= kDomains; ++d)
    ASSERT_EQ(index.insert({id_of(1), 0, d}, BlockState::kMemory, nullptr), Index::Insert::kDone);
  const std::vector<BaseId> ids = {id_of(1)};
  for (uint32_t d = 1; d <= kDomains; ++d) {
    ASSERT_EQ(index.match(d, ids, 1), 1u);
    ASSERT_EQ(index.block_at(*index.base_slot(d, id_of(1)), 0).domain, d);
  }
}

TEST(Index, AScanSaysTheDomain) {
  Index index({.blocks_max = 8});
  for (const uint32_t domain : {1u, 7u})
    index.insert({id_of(1), 3, domain}, BlockState::kMemory, nullptr);
  std::vector<BlockId> seen;
  index.scan(
      0, 100,
      [](void* context, const BlockId& block, const Located&) {
        static_cast<std::vector<BlockId>*>(context)->push_back(block);
      },
      &seen);
  EXPECT_EQ(seen, (std::vector<BlockId>{{id_of(1), 3, 1}, {id_of(1), 3, 7}}));
}

}  // namespace
}  // namespace varve
