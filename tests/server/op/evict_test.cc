// Goal: room is made in eviction order, a bounded step at a time, never from what must stay, and a
// wish that cannot be met is given up and counted.
// Method: a single room filled on the rig; wishes large and small, leases at the front of the
// order.
#include "server/op/evict.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/server/op/rig.h"

namespace varve {
namespace {

RigOptions one_room() {
  RigOptions options;
  options.targets = 1;
  options.op.slices = 1;
  options.layer_bytes = {1000};  // two pages a fragment
  options.push_pages = 2000;
  options.resident_pages = 1000;
  options.blocks_max = 1024;
  return options;
}

void push_many(Rig& rig, uint32_t count) {
  std::vector<uint32_t> ids;
  for (uint32_t n = 0; n < count; ++n)
    ids.push_back(n);
  rig.push(ids);  // leaf first: block count - 1 is the oldest
}

TEST(EvictOp, FreesAboutWhatIsWantedOldestFirst) {
  Rig rig(one_room());
  push_many(rig, 10);
  rig.operations->room_wanted(0, 0, 5);
  EXPECT_EQ(rig.context->metrics.evicted_blocks.value(), 3u) << "two pages each";
  EXPECT_EQ(rig.match({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}).found(), 7u);
  rig.expect_at_rest();
}

TEST(EvictOp, MeetsALargeWishOverSeveralTurns) {
  Rig rig(one_room());
  push_many(rig, 300);
  rig.operations->room_wanted(0, 0, 400);
  EXPECT_LE(rig.context->metrics.evicted_blocks.value(), EvictOp::kCandidatesPerTurn);
  EXPECT_FALSE(rig.operations->at_rest());
  rig.settle();
  EXPECT_EQ(rig.context->metrics.evicted_blocks.value(), 200u);
  rig.expect_at_rest();
}

TEST(EvictOp, LooksPastWhatIsLeased) {
  Rig rig(one_room());
  push_many(rig, 200);
  // Lease the 150 oldest: those that eviction would take first.
  std::vector<uint32_t> oldest;
  for (uint32_t n = 50; n < 200; ++n)
    oldest.push_back(n);
  const Rig::Matched matched = rig.match(oldest, 5000);
  ASSERT_EQ(matched.found(), 150u);
  for (uint32_t n = 0; n < 50; ++n)
    rig.match({n});  // and make the rest younger still
  rig.operations->room_wanted(0, 0, 20);
  rig.settle();
  EXPECT_EQ(rig.context->metrics.evicted_blocks.value(), 10u);
  EXPECT_EQ(rig.match(oldest).found(), 150u) << "nothing leased went";
  rig.release(matched.lease);
  rig.expect_at_rest();
}

TEST(EvictOp, GivesUpWhenEverythingMustStay) {
  Rig rig(one_room());
  push_many(rig, 20);
  std::vector<uint32_t> all;
  for (uint32_t n = 0; n < 20; ++n)
    all.push_back(n);
  const Rig::Matched matched = rig.match(all, 5000);
  rig.operations->room_wanted(0, 0, 4);
  rig.settle();
  EXPECT_EQ(rig.context->metrics.evicted_blocks.value(), 0u);
  EXPECT_EQ(rig.context->metrics.evict_unsatisfied.value(), 1u);
  rig.release(matched.lease);
  rig.expect_at_rest();
}

TEST(EvictOp, GivesUpAtOnceInAnEmptyRoom) {
  Rig rig(one_room());
  rig.operations->room_wanted(0, 0, 4);
  EXPECT_EQ(rig.context->metrics.evict_unsatisfied.value(), 1u);
  rig.expect_at_rest();
}

// A wish that nothing can meet looks everywhere, but at one room a turn.
TEST(EvictOp, LooksIntoOneRoomATurnWhenAllAreLeased) {
  RigOptions options = one_room();
  options.targets = 4;
  options.op.scheme = {2, 1};
  options.op.repair_bytes_per_s = 0;
  Rig rig(options);
  push_many(rig, 120);  // forty of each position, and of these ten on each target
  std::vector<uint32_t> all(120);
  std::iota(all.begin(), all.end(), 0);
  const Rig::Matched matched = rig.match(all, 60000);
  ASSERT_EQ(matched.found(), 120u);
  const Counter& looked = rig.context->metrics.evict_candidates;
  rig.operations->room_wanted(0, 0, 4);
  EXPECT_GT(looked.value(), 0u);
  uint64_t most = looked.value(), before = looked.value();
  for (uint32_t turns = 0; turns < 200; ++turns) {
    rig.reactor.turn();
    most = std::max(most, looked.value() - before);
    before = looked.value();
  }
  EXPECT_LT(most, 60u) << "a room has about thirty";
  EXPECT_GE(looked.value(), 120u) << "all of them were looked at";
  EXPECT_EQ(rig.context->metrics.evict_unsatisfied.value(), 1u);
  rig.release(matched.lease);
  rig.operations->room_wanted(0, 0, 4);
  rig.settle();
  EXPECT_GT(rig.context->metrics.evicted_blocks.value(), 0u);
  rig.expect_at_rest();
}

// An index without a place, and the blocks of many rooms leased: a bounded look for each id that
// asks, in other rooms each time, so that what may go is found.
TEST(EvictOp, ABoundedLookForAPlaceInTheIndexFindsTheOneBlockThatMayGo) {
  RigOptions options = one_room();
  options.op.slices = 16;
  options.targets = 4;
  options.index_blocks_max = 512;
  Rig rig(options);
  for (uint32_t n = 0; n < 512; ++n)
    rig.push({n});
  std::vector<uint32_t> leased(511);
  std::iota(leased.begin(), leased.end(), 1);
  const Rig::Matched matched = rig.match(leased, 60000);
  ASSERT_EQ(matched.found(), 511u);
  const Counter& looked = rig.context->metrics.evict_candidates;
  const Counter& evicted = rig.context->metrics.evicted_blocks;
  uint32_t asked = 0;
  while (evicted.value() == 0 && asked < 100) {
    const uint64_t before = looked.value();
    const Rig::Reserved reserved = rig.reserve({1000});
    EXPECT_LE(looked.value() - before, EvictOp::kCandidatesPerTurn);
    ++asked;
    if (evicted.value() > 0) {
      EXPECT_EQ(reserved.loans[0].outcome, wire::ReserveOutcome::kGranted);
      EXPECT_TRUE(rig.abort(reserved.loans[0]).ok());
    } else {
      EXPECT_EQ(reserved.loans[0].code, Code::kOverloaded) << "not all rooms were looked at";
    }
  }
  EXPECT_EQ(evicted.value(), 1u);
  EXPECT_GT(asked, 1u) << "not in one look";
  EXPECT_EQ(rig.match({0}).found(), 0u);
  rig.release(matched.lease);
  rig.push({1000});
  rig.expect_at_rest();
}

TEST(EvictOp, ThatNoRoomHasAPlaceInTheIndexIsSaidWhenAllWereLookedAt) {
  RigOptions options = one_room();
  options.op.slices = 16;
  options.targets = 4;
  options.index_blocks_max = 256;
  Rig rig(options);
  std::vector<uint32_t> all(256);
  std::iota(all.begin(), all.end(), 0);
  for (const uint32_t n : all)
    rig.push({n});
  const Rig::Matched matched = rig.match(all, 60000);
  ASSERT_EQ(matched.found(), 256u);
  uint32_t asked = 0;
  while (rig.reserve({1000}).loans[0].code == Code::kOverloaded && asked < 100)
    ++asked;
  EXPECT_EQ(rig.reserve({1000}).loans[0].code, Code::kNoSpace);
  EXPECT_GT(asked, 0u);
  rig.release(matched.lease);
  rig.push({1000});
  rig.expect_at_rest();
}

TEST(EvictOp, MakesRoomForPushesThatFoundNone) {
  Rig rig(one_room());
  rig.flash.capacity_pages = 20;  // ten fragments
  for (uint32_t n = 0; n < 50; ++n)
    rig.push({n});
  EXPECT_EQ(rig.flash.fragments(), 10u);
  EXPECT_EQ(rig.context->metrics.evicted_blocks.value(), 40u);
  for (uint32_t n = 40; n < 50; ++n)
    EXPECT_EQ(rig.match({n}).found(), 1u) << n;
  rig.expect_at_rest();
}

}  // namespace
}  // namespace varve
