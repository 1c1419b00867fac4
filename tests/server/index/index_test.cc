// Goal: the index is an exact map from blocks to places whose slots hold still, that never drops
// what is leased, never allocates after construction and stays within its memory.
// Method: a std::map as the model under random operations on a small, full table; large sets for
// tag collisions; every position of a miss for match; a counting operator new.
#include "server/index/index.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <new>
#include <set>
#include <vector>

#include "server/policy/policy.h"
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

// X1: the sum in the door is the sum of what the rooms really keep.
static_assert(IndexBytes::kPolicy == kPolicyBytesPerSlot);
static_assert(IndexBytes::kTierMap == kTierMapBytesPerBlock);

BaseId id_of(uint64_t n) {
  Random random(n);
  BaseId id;
  for (size_t i = 0; i < id.bytes.size(); i += 8) {
    const uint64_t word = random.next();
    std::memcpy(&id.bytes[i], &word, sizeof(word));
  }
  return id;
}

flash::Place place_of(uint64_t n) {
  Random random(n ^ 0x517C);
  flash::Place place;
  place.target = static_cast<uint8_t>(random.below(kTargetsMax));
  place.slice = static_cast<uint8_t>(random.below(kSlicesDefault));
  place.segment = static_cast<uint16_t>(random.below(65536));
  place.page = static_cast<uint32_t>(random.below(65536));
  place.pages = static_cast<uint32_t>(random.between(2, 65535));
  place.lead_pages = static_cast<uint32_t>(random.between(1, place.pages));
  return place;
}

TEST(Index, AnswersNothingWhenEmpty) {
  const Index index({.fragments_max = 8});
  EXPECT_EQ(index.ranks_of(id_of(1)), 0u);
  EXPECT_FALSE(index.find({id_of(1), 0}).has_value());
  EXPECT_FALSE(index.base_slot(id_of(1)).has_value());
  const std::vector<BaseId> ids = {id_of(1)};
  EXPECT_EQ(index.match(ids, 1), 0u);
  EXPECT_EQ(index.match({}, 1), 0u);
}

TEST(Index, APrefetchOfAnyIdChangesNothing) {
  Index index({.fragments_max = 4});
  index.prefetch(id_of(1));
  EXPECT_EQ(index.base_count(), 0u);
  ASSERT_EQ(index.insert({id_of(1), 0}, FragmentState::kFlash, place_of(1), nullptr),
            Index::Insert::kDone);
  index.prefetch(id_of(1));
  index.prefetch(id_of(2));
  EXPECT_EQ(index.base_count(), 1u);
  EXPECT_EQ(index.ranks_of(id_of(1)), 1u);
  EXPECT_EQ(index.ranks_of(id_of(2)), 0u);
}

TEST(Index, KeepsEveryFieldOfAPlaceAtItsExtremes) {
  Index index({.fragments_max = 4, .slice_count = kSlicesMax});
  const flash::Place largest{.target = kTargetsMax - 1,
                             .slice = kSlicesMax - 1,
                             .segment = 65535,
                             .page = 65535,
                             .pages = 65535,
                             .lead_pages = 65535};
  ASSERT_EQ(index.insert({id_of(1), kRanksMax - 1}, FragmentState::kFlash, largest, nullptr),
            Index::Insert::kDone);
  const auto found = index.find({id_of(1), kRanksMax - 1});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->place, largest);
  EXPECT_EQ(index.ranks_of(id_of(1)), 1u << (kRanksMax - 1));
}

// X2 over enough ids that some share a 32-bit tag (about ten pairs), in two differently seeded
// tables. Expect: what was inserted and not removed is found at its place, nothing else is.
TEST(Index, FindsExactlyWhatIsThereAmongManyIds) {
  constexpr uint32_t kIds = 300'000;
  for (const uint64_t hash_seed : {0ull, 99ull}) {
    Index index({.fragments_max = kIds, .hash_seed = hash_seed});
    for (uint32_t n = 0; n < kIds; ++n) {
      ASSERT_EQ(index.insert({id_of(n), 0}, FragmentState::kFlash, place_of(n), nullptr),
                Index::Insert::kDone);
    }
    std::vector<BaseId> ids;
    for (uint32_t n = 0; n < kIds; ++n)
      ids.push_back(id_of(n));
    ASSERT_EQ(index.match(ids, 1), kIds);
    for (uint32_t n = 0; n < kIds; n += 3) {
      ASSERT_TRUE(index.remove({id_of(n), 0}).has_value());
    }
    for (uint32_t n = 0; n < kIds; ++n) {
      const auto found = index.find({id_of(n), 0});
      ASSERT_EQ(found.has_value(), n % 3 != 0) << n;
      if (found) {
        ASSERT_EQ(found->place, place_of(n)) << n;
      }
      ASSERT_EQ(index.ranks_of(id_of(n + kIds)), 0u);
    }
    EXPECT_EQ(index.fragment_count(), kIds - (kIds + 2) / 3);
  }
}

TEST(Index, TellsIdsApartThatDifferInOneBitOnly) {
  Index index({.fragments_max = 300});
  const BaseId root = id_of(5);
  for (uint32_t bit = 0; bit < 256; ++bit) {
    BaseId id = root;
    id.bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    ASSERT_EQ(index.insert({id, 0}, FragmentState::kFlash, place_of(bit), nullptr),
              Index::Insert::kDone);
  }
  EXPECT_EQ(index.ranks_of(root), 0u);
  for (uint32_t bit = 0; bit < 256; ++bit) {
    BaseId id = root;
    id.bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_EQ(index.find({id, 0})->place, place_of(bit));
  }
}

TEST(Index, MatchStopsAtTheFirstIdThatLacksARankWhereverItIs) {
  constexpr uint32_t kRanks = 3;
  std::vector<BaseId> ids;
  for (uint32_t n = 0; n < 70; ++n)
    ids.push_back(id_of(n));
  for (uint32_t gap = 0; gap <= ids.size(); ++gap) {
    Index index({.fragments_max = 256});
    for (uint32_t n = 0; n < ids.size(); ++n) {
      for (uint32_t rank = 0; rank < kRanks; ++rank) {
        if (n == gap && rank == gap % kRanks) continue;
        index.insert({ids[n], rank}, FragmentState::kMemory, {}, nullptr);
      }
    }
    ASSERT_EQ(index.match(ids, kRanks), gap);
  }
}

TEST(Index, MatchAnswersADuplicateLikeAnyOtherId) {
  Index index({.fragments_max = 8});
  for (uint32_t n = 0; n < 2; ++n)
    index.insert({id_of(n), 0}, FragmentState::kMemory, {}, nullptr);
  const std::vector<BaseId> ids = {id_of(0), id_of(0), id_of(1), id_of(0), id_of(7), id_of(0)};
  EXPECT_EQ(index.match(ids, 1), 4u);
}

TEST(Index, MatchAgreesWithRanksOfOnRandomBatches) {
  Random random(11);
  Index index({.fragments_max = 5000});
  for (uint32_t n = 0; n < 2000; ++n) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      if (!random.chance(20)) index.insert({id_of(n), rank}, FragmentState::kMemory, {}, nullptr);
    }
  }
  for (uint32_t trial = 0; trial < 2000; ++trial) {
    std::vector<BaseId> ids(random.below(200));
    for (BaseId& id : ids)
      id = id_of(random.below(2000));
    const auto rank_count = static_cast<uint32_t>(random.between(1, 2));
    const uint32_t mask = (1u << rank_count) - 1;
    uint32_t expected = 0;
    while (expected < ids.size() && (index.ranks_of(ids[expected]) & mask) == mask)
      ++expected;
    ASSERT_EQ(index.match(ids, rank_count), expected);
  }
}

TEST(Index, MovesAPlaceOnlyFromWhereTheCallerThinksItIs) {
  Index index({.fragments_max = 4});
  const BlockId block{id_of(1), 2};
  EXPECT_FALSE(index.place_set(block, nullptr, place_of(1)));  // unknown block
  index.insert(block, FragmentState::kMemory, {}, nullptr);
  const flash::Place first = place_of(1), second = place_of(2);
  EXPECT_FALSE(index.place_set(block, &first, second));  // still in memory
  EXPECT_TRUE(index.place_set(block, nullptr, first));
  EXPECT_FALSE(index.place_set(block, nullptr, second));  // already placed
  EXPECT_FALSE(index.place_set(block, &second, second));  // elsewhere
  EXPECT_EQ(index.find(block)->place, first);
  EXPECT_TRUE(index.place_set(block, &first, second));
  EXPECT_EQ(index.find(block)->state, FragmentState::kFlash);
  EXPECT_EQ(index.find(block)->place, second);
  EXPECT_FALSE(index.place_set({id_of(1), 1}, &second, first));  // a rank that is not there
}

TEST(Index, SaysFullAtItsLimitAndTakesAgainAfterARemoval) {
  Index index({.fragments_max = 100});
  for (uint32_t n = 0; n < 100; ++n) {
    ASSERT_EQ(index.insert({id_of(n), 0}, FragmentState::kMemory, {}, nullptr),
              Index::Insert::kDone);
  }
  EXPECT_EQ(index.insert({id_of(100), 0}, FragmentState::kMemory, {}, nullptr),
            Index::Insert::kFull);
  EXPECT_EQ(index.insert({id_of(3), 1}, FragmentState::kMemory, {}, nullptr), Index::Insert::kFull);
  EXPECT_EQ(index.insert({id_of(3), 0}, FragmentState::kMemory, {}, nullptr),
            Index::Insert::kExists);
  ASSERT_TRUE(index.remove({id_of(50), 0}).has_value());
  EXPECT_EQ(index.insert({id_of(100), 0}, FragmentState::kMemory, {}, nullptr),
            Index::Insert::kDone);
}

TEST(Index, VisitsRanksInOrderAndLetsTheVisitorRemoveThem) {
  Index index({.fragments_max = 64});
  for (const uint32_t rank : {9u, 0u, 31u, 4u}) {
    index.insert({id_of(1), rank}, FragmentState::kFlash, place_of(rank), nullptr);
  }
  const uint32_t slot = *index.base_slot(id_of(1));
  EXPECT_EQ(index.base_at(slot), id_of(1));
  std::vector<uint32_t> seen;
  index.for_each_rank(slot, [&](uint32_t rank, const Located& where) {
    EXPECT_EQ(where.place, place_of(rank));
    EXPECT_EQ(where.base_slot, slot);
    EXPECT_EQ(index.remove({id_of(1), rank})->fragment_slot, where.fragment_slot);
    seen.push_back(rank);
  });
  EXPECT_EQ(seen, (std::vector<uint32_t>{0, 4, 9, 31}));
  EXPECT_EQ(index.base_count(), 0u);
  EXPECT_EQ(index.fragment_count(), 0u);
}

TEST(IndexDeathTest, NeverEvictsWhatIsLeased) {
  Index index({.fragments_max = 4});
  Located where;
  index.insert({id_of(1), 0}, FragmentState::kMemory, {}, &where);
  index.lease_add(where.base_slot);
  EXPECT_DEATH((void)index.remove({id_of(1), 0}), "leases == 0");  // X3
  index.lease_drop(where.base_slot);
  EXPECT_TRUE(index.remove({id_of(1), 0}).has_value());
  EXPECT_DEATH(index.lease_drop(where.base_slot), "live == 1");
}

// A fault takes the bytes of a leased block. Expect: a miss at once, the slot valid for the lease,
// the same id may be published again meanwhile or after.
TEST(Index, LosesLeasedBytesButKeepsTheSlotUntilTheLeaseGoes) {
  Index index({.fragments_max = 2});
  Located where;
  index.insert({id_of(1), 0}, FragmentState::kFlash, place_of(1), &where);
  index.lease_add(where.base_slot);
  EXPECT_EQ(index.lose({id_of(1), 0})->place, place_of(1));
  EXPECT_EQ(index.ranks_of(id_of(1)), 0u);
  EXPECT_FALSE(index.find({id_of(1), 0}).has_value());
  EXPECT_FALSE(index.base_slot(id_of(1)).has_value());
  EXPECT_FALSE(index.lose({id_of(1), 0}).has_value());
  EXPECT_EQ(index.base_at(where.base_slot), id_of(1));
  EXPECT_EQ(index.leases(where.base_slot), 1u);
  EXPECT_EQ(index.fragment_count(), 0u);
  EXPECT_EQ(index.base_count(), 1u);

  Located again;
  ASSERT_EQ(index.insert({id_of(1), 0}, FragmentState::kMemory, {}, &again), Index::Insert::kDone);
  EXPECT_EQ(again.base_slot, where.base_slot);
  index.lose({id_of(1), 0});
  index.insert({id_of(2), 0}, FragmentState::kMemory, {}, nullptr);
  EXPECT_EQ(index.insert({id_of(3), 0}, FragmentState::kMemory, {}, nullptr), Index::Insert::kFull);
  index.lease_drop(where.base_slot);
  EXPECT_EQ(index.base_count(), 1u);
  EXPECT_EQ(index.insert({id_of(3), 0}, FragmentState::kMemory, {}, nullptr), Index::Insert::kDone);
}

TEST(Index, ScansEveryBlockThatStaysExactlyOnce) {
  for (const uint32_t limit : {1u, 7u, 1000u}) {
    Index index({.fragments_max = 500});
    for (uint32_t n = 0; n < 200; ++n) {
      index.insert({id_of(n), n % 3}, FragmentState::kFlash, place_of(n), nullptr);
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
      index.insert({id_of(1000 + n), 0}, FragmentState::kFlash, place_of(n), nullptr);
    } while (cursor != 0);
    for (uint32_t n = 0; n < 100; ++n)
      EXPECT_EQ((seen[{id_of(n), n % 3}]), 1u) << n;
    for (const auto& [block, count] : seen)
      EXPECT_LE(count, 1u);
  }
}

// A random walk against a map of what should be there, on a table that is often full. Slots are
// recorded at insertion and must never change while the entry lives.
class IndexWalk {
 public:
  explicit IndexWalk(uint64_t seed) : random_(seed) {}

  void step() {
    const BlockId block{id_of(random_.below(kIds)), static_cast<uint32_t>(random_.below(kRanks))};
    switch (random_.below(8)) {
      case 0:
      case 1:
      case 2:
        return insert(block);
      case 3:
        return remove(block);
      case 4:
        return move(block);
      case 5:
        return lease(block.base);
      case 6:
        return drop_lease();
      default:
        return lose(block);
    }
  }

  void check() const {
    std::map<BaseId, uint32_t> ranks;
    for (const auto& [block, where] : blocks_) {
      ranks[block.base] |= 1u << block.rank;
      const auto found = index_.find(block);
      ASSERT_TRUE(found.has_value());
      ASSERT_EQ(found->base_slot, where.base_slot);
      ASSERT_EQ(found->fragment_slot, where.fragment_slot);
      ASSERT_EQ(found->state, where.state);
      ASSERT_EQ(found->place, where.place);
    }
    for (uint64_t n = 0; n < kIds; ++n)
      ASSERT_EQ(index_.ranks_of(id_of(n)), ranks[id_of(n)]);
    std::set<BaseId> bases;
    for (const auto& [base, mask] : ranks) {
      if (mask != 0) bases.insert(base);
    }
    for (const auto& [slot, base] : leases_) {
      ASSERT_EQ(index_.base_at(slot), base);
      ASSERT_EQ(index_.leases(slot), leases_.count(slot));
      bases.insert(base);
    }
    ASSERT_EQ(index_.fragment_count(), blocks_.size());
    ASSERT_EQ(index_.base_count(), bases.size());
  }

  bool was_full() const { return full_ > 0; }

 private:
  static constexpr uint64_t kIds = 40;
  static constexpr uint32_t kRanks = 4;

  bool is_leased(const BaseId& base) const {
    for (const auto& [slot, leased] : leases_) {
      if (leased == base) return true;
    }
    return false;
  }
  void insert(const BlockId& block) {
    const bool flash = random_.chance(500);
    const flash::Place place = flash ? place_of(random_.next()) : flash::Place{};
    Located where;
    const auto answer =
        index_.insert(block, flash ? FragmentState::kFlash : FragmentState::kMemory, place, &where);
    if (blocks_.count(block) != 0) {
      ASSERT_EQ(answer, Index::Insert::kExists);
      ASSERT_EQ(where.fragment_slot, blocks_[block].fragment_slot);
      return;
    }
    if (answer == Index::Insert::kFull) {
      ++full_;
      ASSERT_TRUE(index_.fragment_count() == kFragments || index_.base_count() == kFragments);
      return;
    }
    ASSERT_EQ(answer, Index::Insert::kDone);
    ASSERT_EQ(where.place, place);
    blocks_[block] = where;
  }
  void remove(const BlockId& block) {
    if (is_leased(block.base)) return;
    const auto was = index_.remove(block);
    ASSERT_EQ(was.has_value(), blocks_.count(block) != 0);
    if (was) {
      ASSERT_EQ(was->place, blocks_[block].place);
    }
    blocks_.erase(block);
  }
  void lose(const BlockId& block) {
    ASSERT_EQ(index_.lose(block).has_value(), blocks_.erase(block) != 0);
  }
  void move(const BlockId& block) {
    const auto at = blocks_.find(block);
    const flash::Place to = place_of(random_.next());
    if (at == blocks_.end()) {
      ASSERT_FALSE(index_.place_set(block, nullptr, to));
      return;
    }
    const bool in_memory = at->second.state == FragmentState::kMemory;
    ASSERT_TRUE(index_.place_set(block, in_memory ? nullptr : &at->second.place, to));
    at->second.state = FragmentState::kFlash;
    at->second.place = to;
  }
  void lease(const BaseId& base) {
    const auto slot = index_.base_slot(base);
    if (!slot || leases_.size() >= 10) return;
    index_.lease_add(*slot);
    leases_.emplace(*slot, base);
  }
  void drop_lease() {
    if (leases_.empty()) return;
    auto at = leases_.begin();
    std::advance(at, random_.below(leases_.size()));
    index_.lease_drop(at->first);
    leases_.erase(at);
  }

  static constexpr uint32_t kFragments = 60;
  Random random_;
  Index index_{{.fragments_max = kFragments}};
  std::map<BlockId, Located> blocks_;
  std::multimap<uint32_t, BaseId> leases_;
  uint32_t full_ = 0;
};

TEST(Index, AgreesWithAMapUnderRandomOperations) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    IndexWalk walk(seed);
    for (uint32_t step = 0; step < 4000; ++step) {
      walk.step();
      if (step % 10 == 0) walk.check();
      if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " step " << step;
    }
    EXPECT_TRUE(walk.was_full()) << seed;
  }
}

TEST(Index, NeedsAtMost96BytesAFragmentAllIn) {
  for (const uint32_t fragments : {1000u, 1'000'000u}) {
    const Index index({.fragments_max = fragments});
    EXPECT_LE(index.memory_bytes(), uint64_t{96} * fragments) << fragments;
    EXPECT_EQ(index.fragments_max(), fragments);
    EXPECT_EQ(index.base_slots_max(), fragments);
  }
}

TEST(Index, AllocatesNothingAfterConstruction) {
  Index index({.fragments_max = 1000});
  std::vector<BaseId> ids;
  for (uint32_t n = 0; n < 1200; ++n)
    ids.push_back(id_of(n));
  const uint64_t before = allocations;
  for (uint32_t round = 0; round < 3; ++round) {
    for (const BaseId& id : ids)
      index.insert({id, 0}, FragmentState::kMemory, {}, nullptr);
    index.match(ids, 1);
    for (const BaseId& id : ids)
      index.remove({id, 0});
  }
  EXPECT_EQ(allocations, before);  // X1
}

}  // namespace
}  // namespace varve
