// Goal: room is made in eviction order, a bounded step at a time, never from what must stay, and a
// wish that cannot be met is given up and counted.
// Method: a single room filled on the rig; wishes large and small, leases at the front of the
// order.
#include "server/op/evict.h"

#include <gtest/gtest.h>

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
