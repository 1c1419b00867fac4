// Goal: the order of victims is least recently used per room, and leaves go before the prefix they
// need. Method: a list per room as the model under random operations; random prefix trees fed leaf
// to root; the oldest quarter for reinsertion.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <vector>

#include "server/index/index.h"
#include "server/policy/policy.h"

namespace varve {
namespace {

static_assert(kPolicyBytesPerSlot == IndexBytes::kPolicy);

std::vector<uint32_t> victims_of(const EvictionPolicy& policy, uint32_t room) {
  std::vector<uint32_t> order;
  for (uint32_t slot = policy.victim(room, kNoSlot); slot != kNoSlot;
       slot = policy.victim(room, slot)) {
    order.push_back(slot);
  }
  return order;
}

TEST(LeafFirstLru, ProposesNothingInAnEmptyRoom) {
  const auto policy = make_leaf_first_lru(4, 3);
  EXPECT_STREQ(policy->name(), "leaf_first_lru");
  for (uint32_t room = 0; room < 3; ++room)
    EXPECT_EQ(policy->victim(room, kNoSlot), kNoSlot);
  EXPECT_FALSE(policy->reinsert(0));
}

TEST(LeafFirstLru, IgnoresTouchAndRemoveOfWhatIsNotIn) {
  const auto policy = make_leaf_first_lru(4, 1);
  policy->touch(2);
  policy->remove(2);
  EXPECT_TRUE(victims_of(*policy, 0).empty());
}

TEST(LeafFirstLru, MovesASlotThatIsInsertedAgainToItsNewRoom) {
  const auto policy = make_leaf_first_lru(4, 2);
  policy->insert(1, 0);
  policy->insert(2, 0);
  policy->insert(1, 1);
  EXPECT_EQ(victims_of(*policy, 0), std::vector<uint32_t>{2});
  EXPECT_EQ(victims_of(*policy, 1), std::vector<uint32_t>{1});
}

TEST(LeafFirstLru, AgreesWithAListPerRoomUnderRandomOperations) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    constexpr uint32_t kSlots = 60;
    constexpr uint32_t kRooms = 4;
    const auto policy = make_leaf_first_lru(kSlots, kRooms);
    std::vector<std::list<uint32_t>> model(kRooms);
    const auto forget = [&](uint32_t slot) {
      for (auto& room : model)
        room.remove(slot);
    };
    for (uint32_t step = 0; step < 3000; ++step) {
      const auto slot = static_cast<uint32_t>(random.below(kSlots));
      const auto room = static_cast<uint32_t>(random.below(kRooms));
      switch (random.below(3)) {
        case 0:
          policy->insert(slot, room);
          forget(slot);
          model[room].push_back(slot);
          break;
        case 1:
          policy->touch(slot);
          for (auto& order : model) {
            const auto at = std::find(order.begin(), order.end(), slot);
            if (at != order.end()) order.splice(order.end(), order, at);
          }
          break;
        default:
          policy->remove(slot);
          forget(slot);
      }
      if (step % 50 != 0) continue;
      for (uint32_t r = 0; r < kRooms; ++r) {
        ASSERT_EQ(victims_of(*policy, r), std::vector<uint32_t>(model[r].begin(), model[r].end()))
            << "seed " << seed << " step " << step;
      }
    }
  }
}

// Random trees; a request is a path from the root to any node. Blocks lie in rooms at random, as
// placement does. Expect: at any time, victims in order, a node only after all its descendants of
// the same room.
TEST(LeafFirstLru, ProposesALeafBeforeThePrefixItNeeds) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    constexpr uint32_t kNodes = 300;
    constexpr uint32_t kRooms = 3;
    std::vector<uint32_t> parent(kNodes, kNoSlot), room(kNodes, 0);
    for (uint32_t n = 0; n < kNodes; ++n) {
      if (n > 0 && !random.chance(30)) {
        parent[n] = static_cast<uint32_t>(random.between(n > 8 ? n - 8 : 0, n - 1));
      }
      room[n] = static_cast<uint32_t>(random.below(kRooms));
    }
    const auto policy = make_leaf_first_lru(kNodes, kRooms);
    std::vector<bool> is_in(kNodes, false);
    for (uint32_t request = 0; request < 400; ++request) {
      const auto leaf = static_cast<uint32_t>(random.below(kNodes));
      std::vector<uint32_t> path;  // leaf to root
      for (uint32_t n = leaf; n != kNoSlot; n = parent[n])
        path.push_back(n);
      for (auto n = path.rbegin(); n != path.rend(); ++n) {  // pushed root to leaf
        if (!is_in[*n]) policy->insert(*n, room[*n]);
        is_in[*n] = true;
      }
      for (const uint32_t n : path)
        policy->touch(n);
      if (request % 20 != 0) continue;
      for (uint32_t r = 0; r < kRooms; ++r) {
        std::vector<bool> gone(kNodes, false);
        for (const uint32_t n : victims_of(*policy, r)) {
          gone[n] = true;
          for (uint32_t a = parent[n]; a != kNoSlot; a = parent[a]) {
            ASSERT_FALSE(gone[a] && room[a] == r)
                << "seed " << seed << ": " << a << " before " << n;
          }
        }
      }
      const auto evicted = policy->victim(static_cast<uint32_t>(random.below(kRooms)), kNoSlot);
      if (evicted != kNoSlot) {
        policy->remove(evicted);
        is_in[evicted] = false;
      }
    }
  }
}

TEST(LeafFirstLru, LetsTheCallerWalkPastWhatIsLeased) {
  const auto policy = make_leaf_first_lru(3, 1);
  for (uint32_t slot = 0; slot < 3; ++slot)
    policy->insert(slot, 0);
  const uint32_t leased = policy->victim(0, kNoSlot);
  const uint32_t next = policy->victim(0, leased);
  policy->remove(next);
  EXPECT_EQ(victims_of(*policy, 0), (std::vector<uint32_t>{0, 2}));
}

TEST(LeafFirstLru, ReinsertsAllButTheOldestQuarter) {
  constexpr uint32_t kSlots = 4000;
  const auto policy = make_leaf_first_lru(kSlots, 1);
  for (uint32_t slot = 0; slot < kSlots; ++slot)
    policy->insert(slot, 0);
  // One steady round of use, in a mixed order: then ages are spread evenly over the room.
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t i = 0; i < kSlots; ++i)
      policy->touch(i * 7 % kSlots);
  }
  uint32_t position = 0, dropped = 0;
  for (const uint32_t slot : victims_of(*policy, 0)) {
    const bool kept = policy->reinsert(slot);
    if (position < kSlots / 8) {
      EXPECT_FALSE(kept) << position;
    }
    if (position >= kSlots / 2) {
      EXPECT_TRUE(kept) << position;
    }
    dropped += kept ? 0 : 1;
    ++position;
  }
  EXPECT_GE(dropped, kSlots / 8);
  EXPECT_LE(dropped, kSlots / 2);
}

TEST(LeafFirstLru, ReinsertsEverythingWhereNothingIsOldYet) {
  const auto policy = make_leaf_first_lru(8, 2);
  for (uint32_t slot = 0; slot < 3; ++slot)
    policy->insert(slot, 1);
  for (uint32_t slot = 0; slot < 3; ++slot)
    EXPECT_TRUE(policy->reinsert(slot));
  EXPECT_FALSE(policy->reinsert(7));
}

TEST(LeafFirstLru, ProposesWhatCameInAsTheOldestFirst) {
  const auto policy = make_leaf_first_lru(8, 2);
  policy->insert_oldest(4, 1);  // into an empty room
  EXPECT_EQ(victims_of(*policy, 1), (std::vector<uint32_t>{4}));
  for (uint32_t slot = 0; slot < 3; ++slot)
    policy->insert(slot, 0);
  policy->insert_oldest(3, 0);
  policy->insert_oldest(4, 0);  // from the other room
  policy->insert_oldest(2, 0);  // from the end of this one
  EXPECT_EQ(victims_of(*policy, 0), (std::vector<uint32_t>{2, 4, 3, 0, 1}));
  EXPECT_TRUE(victims_of(*policy, 1).empty());
  policy->touch(4);
  EXPECT_EQ(victims_of(*policy, 0), (std::vector<uint32_t>{2, 3, 0, 1, 4}));
  policy->remove(2);
  policy->remove(1);
  EXPECT_EQ(victims_of(*policy, 0), (std::vector<uint32_t>{3, 0, 4}));
}

// It ages nothing else, and is itself no younger than the oldest.
TEST(LeafFirstLru, ReinsertsNothingThatCameInAsTheOldest) {
  const auto policy = make_leaf_first_lru(101, 1);
  for (uint32_t slot = 0; slot < 100; ++slot)
    policy->insert(slot, 0);
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t slot = 0; slot < 100; ++slot)
      policy->touch(slot);
  }
  ASSERT_FALSE(policy->reinsert(0));
  ASSERT_TRUE(policy->reinsert(60));
  for (uint32_t i = 0; i < 1000; ++i)
    policy->insert_oldest(100, 0);
  EXPECT_FALSE(policy->reinsert(100));
  EXPECT_TRUE(policy->reinsert(60));
}

TEST(LeafFirstLruDeathTest, RefusesAStartingPointOutsideTheRoom) {
  const auto policy = make_leaf_first_lru(3, 2);
  policy->insert(0, 0);
  EXPECT_DEATH((void)policy->victim(1, 0), "room == room");
}

}  // namespace
}  // namespace varve
