// Goal: a block of several fragments knows each by its position, is seen exactly from publication
// or from enough fragments on, and is counted while one is missing.
// Method: blocks of 4+2 by hand through push, recovery, loss and repair; every subset of fragments
// of every scheme.
#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "tests/server/index/index_rig.h"

namespace varve {
namespace {

constexpr Scheme kFourTwo = {4, 2};

flash::Place place_at(uint32_t n, uint32_t position) {
  return place_of(100 * n + position);
}

// A block with the fragments of `live`, in `state` kAway or kMemory.
Located insert_with(Index& index, uint32_t n, BlockState state, uint32_t live) {
  Located where;
  EXPECT_EQ(index.insert({id_of(n), 0}, state, &where), Index::Insert::kDone);
  for (uint32_t p = 0; p < kWidthMax; ++p) {
    if ((live >> p & 1) != 0) index.place_add(where, p, place_at(n, p));
  }
  return *index.find_any({id_of(n), 0});
}

TEST(IndexCoding, KeepsAPlaceForEachPosition) {
  Index index({.blocks_max = 4, .scheme = kFourTwo});
  for (uint32_t n = 1; n <= 4; ++n)
    insert_with(index, n, BlockState::kMemory, 0b111111);
  for (uint32_t n = 1; n <= 4; ++n) {
    const auto found = index.find({id_of(n), 0});
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->live, 0b111111);
    for (uint32_t p = 0; p < 6; ++p) {
      EXPECT_TRUE(found->has(p));
      EXPECT_EQ(index.place_of(*found, p), place_at(n, p));
      EXPECT_EQ(index.position_of(*found, place_at(n, p)), p);
      EXPECT_FALSE(index.position_of(*found, place_at(n + 1, p)).has_value());
    }
  }
}

TEST(IndexCoding, MovesTheFragmentThatLiesThereAndNoOther) {
  Index index({.blocks_max = 4, .scheme = kFourTwo});
  const BlockId block{id_of(1), 0};
  insert_with(index, 1, BlockState::kMemory, 0b101011);
  EXPECT_FALSE(index.place_move(block, place_at(1, 2), place_at(2, 2)));  // that one has no place
  EXPECT_TRUE(index.place_move(block, place_at(1, 3), place_at(2, 3)));
  EXPECT_FALSE(index.place_move(block, place_at(1, 3), place_at(3, 3)));  // it went already
  const Located where = *index.find(block);
  EXPECT_EQ(where.live, 0b101011);
  for (const uint32_t p : {0u, 1u, 5u})
    EXPECT_EQ(index.place_of(where, p), place_at(1, p)) << p;
  EXPECT_EQ(index.place_of(where, 3), place_at(2, 3));
}

// What recovery finds fragment by fragment is not there for anybody but recovery, until it settles.
// Whatever happens to blocks, the count of each target is that of the places that are on it.
TEST(IndexCoding, CountsTheFragmentsOfEachTarget) {
  Index index({.blocks_max = 4, .scheme = kFourTwo});
  const auto at = [](uint32_t target, uint32_t page) {
    return flash::Place{.target = static_cast<uint8_t>(target), .page = page, .pages = 1};
  };
  for (uint32_t n = 1; n <= 3; ++n) {
    Located where;
    ASSERT_EQ(index.insert({id_of(n), 0}, BlockState::kMemory, &where), Index::Insert::kDone);
    for (uint32_t p = 0; p < 6; ++p)
      index.place_add(where, p, at(p, n));
  }
  for (uint32_t t = 0; t < 6; ++t)
    EXPECT_EQ(index.fragments_on(t), 3u);
  EXPECT_EQ(index.fragments_on(6), 0u);
  EXPECT_TRUE(index.place_move({id_of(1), 0}, at(2, 1), at(6, 1)));
  EXPECT_EQ(index.fragments_on(2), 2u);
  EXPECT_EQ(index.fragments_on(6), 1u);
  index.lose(*index.find({id_of(2), 0}), 2);
  EXPECT_EQ(index.fragments_on(2), 1u);
  index.remove({id_of(1), 0});
  index.drop({id_of(2), 0});
  for (uint32_t t = 0; t < 7; ++t)
    EXPECT_EQ(index.fragments_on(t), t < 6 ? 1u : 0u) << t;
  index.drop({id_of(3), 0});
  for (uint32_t t = 0; t < 7; ++t)
    EXPECT_EQ(index.fragments_on(t), 0u);
}

TEST(IndexCoding, HidesWhatIsAwayFromReaders) {
  Index index({.blocks_max = 4, .scheme = kFourTwo});
  const BlockId block{id_of(1), 0};
  const std::vector<BaseId> ids = {id_of(1)};
  const Located gathered = insert_with(index, 1, BlockState::kAway, 0b110001);
  EXPECT_EQ(index.ranks_of(kDomainDefault, id_of(1)), 0u);
  EXPECT_EQ(index.match(kDomainDefault, ids, 1), 0u);
  EXPECT_FALSE(index.find(block).has_value());
  EXPECT_EQ(index.thin_count(), 0u);

  // Expect: found by who looks for every block, and counted as what it takes.
  ASSERT_TRUE(index.find_any(block).has_value());
  EXPECT_EQ(index.find_any(block)->state, BlockState::kAway);
  EXPECT_EQ(index.find_any(block)->live, 0b110001);
  EXPECT_EQ(index.block_count(), 1u);
  uint32_t visited = 0, scanned = 0;
  index.for_each_rank(*index.base_slot(kDomainDefault, id_of(1)),
                      [&](uint32_t rank, const Located& where) {
                        EXPECT_EQ(rank, 0u);
                        EXPECT_EQ(where.block_slot, gathered.block_slot);
                        ++visited;
                      });
  index.scan(
      0, 100, [](void* count, const BlockId&, const Located&) { ++*static_cast<uint32_t*>(count); },
      &scanned);
  EXPECT_EQ(visited, 1u);
  EXPECT_EQ(scanned, 1u);
  EXPECT_EQ(index.insert(block, BlockState::kMemory, nullptr), Index::Insert::kExists);

  index.place_add(gathered, 1, place_at(1, 1));
  index.settle(gathered);
  EXPECT_EQ(index.ranks_of(kDomainDefault, id_of(1)), 1u);
  EXPECT_EQ(index.match(kDomainDefault, ids, 1), 1u);
  EXPECT_EQ(index.find(block)->state, BlockState::kFlash);
  EXPECT_EQ(index.find(block)->block_slot, gathered.block_slot);
  EXPECT_EQ(index.away_count(), 0u);

  index.lease_add(gathered.base_slot);
  index.hide(gathered);  // leased or not
  EXPECT_EQ(index.away_count(), 1u);
  EXPECT_EQ(index.ranks_of(kDomainDefault, id_of(1)), 0u);
  EXPECT_EQ(index.match(kDomainDefault, ids, 1), 0u);
  EXPECT_FALSE(index.find(block).has_value());
  EXPECT_EQ(index.find_any(block)->live, 0b110011) << "with all its places";
  EXPECT_EQ(index.thin_count(), 0u);
  index.lease_drop(gathered.base_slot);
  EXPECT_TRUE(index.remove(block).has_value());
  EXPECT_EQ(index.away_count(), 0u);
}

TEST(IndexCoding, ShowsOnlyTheSeenRanksOfABase) {
  Index index({.blocks_max = 8, .scheme = {2, 1}});
  Located where;
  index.insert({id_of(1), 0}, BlockState::kMemory, &where);
  index.insert({id_of(1), 1}, BlockState::kAway, &where);
  index.insert({id_of(1), 2}, BlockState::kMemory, nullptr);
  const std::vector<BaseId> ids = {id_of(1)};
  EXPECT_EQ(index.ranks_of(kDomainDefault, id_of(1)), 0b101u);
  EXPECT_EQ(index.match(kDomainDefault, ids, 1), 1u);
  EXPECT_EQ(index.match(kDomainDefault, ids, 2), 0u);
  EXPECT_EQ(index.drop({id_of(1), 1})->block_slot, where.block_slot);
  EXPECT_EQ(index.ranks_of(kDomainDefault, id_of(1)), 0b101u);
}

// Any subset of fragments of any scheme. Expect: k of them settle, and it is thin unless all are
// there; position by position it becomes whole, and loses each again without going.
TEST(IndexCoding, SettlesAnyKFragmentsAndCountsWhatIsThin) {
  for (const Scheme scheme : kSchemes) {
    const uint32_t all = (1u << scheme.width()) - 1;
    for (uint32_t live = 1; live <= all; ++live) {
      if (std::popcount(live) < static_cast<int>(scheme.k)) continue;
      Index index({.blocks_max = 1, .scheme = scheme});
      const Located where = insert_with(index, 1, BlockState::kAway, live);
      index.settle(where);
      ASSERT_EQ(index.thin_count(), live == all ? 0u : 1u) << scheme.text() << " " << live;
      for (uint32_t p = 0; p < scheme.width(); ++p) {
        if ((live >> p & 1) == 0) index.place_add(where, p, place_at(2, p));
      }
      ASSERT_EQ(index.thin_count(), 0u) << scheme.text() << " " << live;
      for (uint32_t p = 0; p < scheme.width(); ++p)
        index.lose(where, p);
      ASSERT_EQ(index.thin_count(), 1u) << scheme.text() << " " << live;
      const auto found = index.find({id_of(1), 0});
      ASSERT_TRUE(found.has_value());
      ASSERT_EQ(found->live, 0);
      ASSERT_EQ(found->state, BlockState::kFlash);
    }
  }
}

TEST(IndexCoding, LosesOnePositionAndKeepsTheBlock) {
  Index index({.blocks_max = 2, .scheme = kFourTwo});
  const Located where = insert_with(index, 1, BlockState::kMemory, 0b111111);
  index.settle(where);
  index.lose(where, 0);  // the one that keeps what the block says of itself
  index.lose(where, 4);
  const auto found = index.find({id_of(1), 0});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->live, 0b101110);
  EXPECT_EQ(index.ranks_of(kDomainDefault, id_of(1)), 1u);
  EXPECT_FALSE(index.position_of(*found, place_at(1, 4)).has_value());
  EXPECT_EQ(index.thin_count(), 1u);
  index.place_add(where, 4, place_at(2, 4));  // repaired, elsewhere
  index.place_add(where, 0, place_at(2, 0));
  EXPECT_EQ(index.thin_count(), 0u);
  EXPECT_EQ(index.place_of(*index.find({id_of(1), 0}), 4), place_at(2, 4));
  EXPECT_EQ(index.place_of(*index.find({id_of(1), 0}), 5), place_at(1, 5));
}

TEST(IndexCoding, GivesAThinBlockBackWithItsCountAndItsPlaces) {
  Index index({.blocks_max = 1, .scheme = kFourTwo});
  const Located where = insert_with(index, 1, BlockState::kMemory, 0b001111);
  index.settle(where);
  EXPECT_EQ(index.thin_count(), 1u);
  EXPECT_EQ(index.remove({id_of(1), 0})->live, 0b001111);
  EXPECT_EQ(index.thin_count(), 0u);
  Located next;  // in the same slot
  ASSERT_EQ(index.insert({id_of(2), 0}, BlockState::kMemory, &next), Index::Insert::kDone);
  EXPECT_EQ(next.block_slot, where.block_slot);
  EXPECT_EQ(next.live, 0) << "places of the block before";
}

TEST(IndexCoding, CountsNoBlockInMemoryAsThin) {
  Index index({.blocks_max = 1, .scheme = kFourTwo});
  const Located where = insert_with(index, 1, BlockState::kMemory, 0);
  EXPECT_EQ(index.thin_count(), 0u);
  for (uint32_t p = 0; p < 6; ++p) {
    index.place_add(where, p, place_at(1, p));
    EXPECT_EQ(index.thin_count(), 0u) << p;
  }
  index.settle(where);
  EXPECT_EQ(index.thin_count(), 0u);
}

TEST(IndexCodingDeathTest, SettlesNothingOfWhichTooFewFragmentsAreThere) {
  Index index({.blocks_max = 1, .scheme = kFourTwo});
  const Located where = insert_with(index, 1, BlockState::kAway, 0b100101);
  EXPECT_DEATH(index.settle(where), "popcount");
  index.place_add(where, 1, place_at(1, 1));
  index.settle(where);
  EXPECT_DEATH(index.settle(where), "kFlash") << "twice";
}

TEST(IndexCodingDeathTest, AddsAPlaceOnlyWhereNoneIs) {
  Index index({.blocks_max = 1, .scheme = kFourTwo});
  const Located where = insert_with(index, 1, BlockState::kMemory, 0b000010);
  EXPECT_DEATH(index.place_add(where, 1, place_at(2, 1)), "has_place");
  EXPECT_DEATH(index.place_add(where, 6, place_at(2, 6)), "position");
  EXPECT_DEATH(index.lose(where, 0), "has_place");
  EXPECT_DEATH((void)index.place_of(where, 0), "has_place");
}

}  // namespace
}  // namespace varve
