// Goal: one live attempt per block (I3), and more commits than append slots all reach flash.
// Method: the table through the rig, with one slot and with a slot lost to the device.
#include <gtest/gtest.h>

#include "server/op/push.h"
#include "tests/server/op/rig.h"

namespace varve {
namespace {

TEST(PushTable, FindsALiveAttemptByBlockAndRank) {
  RigOptions options;
  options.ranks = 2;
  Rig rig(options);
  const GrantLoan loan = rig.reserve({1}, 0).loans[0];
  PushTable& table = *rig.context->pushes;
  EXPECT_EQ(table.find(rig.block(1, 0)), loan.push);
  EXPECT_EQ(table.find(rig.block(1, 1)), nullptr);
  EXPECT_EQ(table.find(rig.block(2, 0)), nullptr);
  EXPECT_TRUE(rig.abort(loan).ok());
  EXPECT_EQ(table.find(rig.block(1, 0)), nullptr);
}

TEST(PushTable, BringsAllCommitsToFlashThroughOneSlot) {
  RigOptions options;
  options.op.appends_max = 1;
  Rig rig(options);
  rig.push({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(rig.flash.appends_done, 6u);
  rig.expect_at_rest();
}

TEST(PushTable, CountsWhoWaitsForASlot) {
  RigOptions options;
  options.op.appends_max = 1;
  Rig rig(options);
  rig.flash.hold_appends = true;
  const Rig::Reserved reserved = rig.reserve({1, 2, 3});
  for (uint32_t i = 0; i < 3; ++i) {
    rig.fill(reserved.loans[i], i + 1);
    EXPECT_TRUE(rig.commit(reserved.loans[i]).ok()) << "cached is answered all the same";
  }
  EXPECT_EQ(rig.context->metrics.appends_waiting.value(), 2);
  rig.flash.let_go();
  rig.expect_at_rest();
  EXPECT_EQ(rig.context->metrics.appends_waiting.value(), 0);
  EXPECT_EQ(rig.flash.appends_done, 3u);
}

// Four slots, one target that takes nothing: its commits wait for two of them, the others' do not.
TEST(PushTable, LeavesOtherTargetsTheirSlots) {
  RigOptions options;
  options.op.appends_max = 4;
  options.layer_bytes = {1000};
  Rig rig(options);
  rig.flash.hold_appends = true;
  rig.flash.hold_targets = 1;
  std::vector<uint32_t> ids;
  for (uint32_t n = 0; n < 12; ++n)
    ids.push_back(n);
  const Rig::Reserved reserved = rig.reserve(ids);
  uint32_t of_stuck = 0;
  for (uint32_t n = 0; n < ids.size(); ++n) {
    ASSERT_EQ(reserved.loans[n].outcome, wire::ReserveOutcome::kGranted);
    of_stuck += reserved.loans[n].attempt.target == 0 ? 1 : 0;
    rig.fill(reserved.loans[n], n);
    EXPECT_TRUE(rig.commit(reserved.loans[n]).ok());
  }
  ASSERT_GT(of_stuck, 2u);
  rig.settle();
  EXPECT_EQ(rig.flash.appends_done, ids.size() - of_stuck);
  EXPECT_EQ(rig.context->pushes->appends_live(), 2u);
  EXPECT_EQ(rig.context->metrics.appends_waiting.value(), of_stuck - 2);
  rig.flash.let_go();
  rig.expect_at_rest();
  EXPECT_EQ(rig.flash.appends_done, ids.size());
}

// As many may be stuck as the scheme does without.
TEST(PushTable, TwoStuckTargetsLeaveTheOthersSlots) {
  RigOptions options;
  options.op.scheme = {4, 2};
  options.op.appends_max = 6;
  options.targets = 6;
  options.layer_bytes = {1000};
  Rig rig(options);
  rig.flash.hold_appends = true;
  rig.flash.hold_targets = 0b11000;
  const std::vector<uint32_t> ids = {1, 2, 3, 4, 5};
  const Rig::Reserved reserved = rig.reserve(ids);
  for (uint32_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(reserved.loans[i].outcome, wire::ReserveOutcome::kGranted);
    rig.fill(reserved.loans[i], ids[i]);
    EXPECT_TRUE(rig.commit(reserved.loans[i]).ok());
  }
  rig.settle();
  EXPECT_EQ(rig.context->pushes->appends_live(), 4u) << "a third of the slots each";
  EXPECT_EQ(rig.flash.appends_done, 4 * ids.size());
  rig.flash.let_go();
  rig.expect_at_rest();
}

// A target that failed keeps the appends it had, for ever: what waits for it ends all the same, and
// nothing of those blocks is used again before the device gives it back.
TEST(PushTable, CommitsThatWaitForATargetThatFailedEnd) {
  RigOptions options;
  options.op.scheme = {4, 2};
  options.op.repair_bytes_per_s = 0;
  options.op.appends_max = 6;
  options.targets = 6;
  options.layer_bytes = {1000};
  Rig rig(options);
  rig.flash.hold_appends = true;
  rig.flash.hold_targets = 1u << 3;
  const std::vector<uint32_t> ids = {1, 2, 3, 4, 5};
  const Rig::Reserved reserved = rig.reserve(ids);
  for (uint32_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(reserved.loans[i].outcome, wire::ReserveOutcome::kGranted);
    rig.fill(reserved.loans[i], ids[i]);
    EXPECT_TRUE(rig.commit(reserved.loans[i]).ok());
  }
  rig.settle();
  EXPECT_EQ(rig.context->pushes->appends_live(), 2u);
  EXPECT_EQ(rig.context->metrics.appends_waiting.value(), 3) << "a third is all one target gets";
  EXPECT_EQ(rig.flash.appends_done, 25u);
  rig.flash.ok[3] = false;
  rig.flash.held_by_device = true;
  rig.operations->catalog().target_failed(3);
  rig.flash.let_go();
  ASSERT_TRUE(rig.run_until([&] { return rig.context->metrics.appends_waiting.value() < 3; }));
  rig.flash.held_by_device = false;  // what it did not have yet is refused
  rig.settle();
  EXPECT_EQ(rig.context->metrics.appends_waiting.value(), 0);
  EXPECT_EQ(rig.context->pushes->live(), 0u) << "every push has ended";
  EXPECT_EQ(rig.match(ids).found(), ids.size()) << "thin, and whole enough";
  EXPECT_FALSE(rig.operations->at_rest());
  rig.flash.return_limbo();
  rig.expect_at_rest();
}

// What a device had of a push and gives back later is the cache's from then on, whoever reads it.
TEST(PushTable, WhatADeviceGivesBackLateHoldsUpNoPush) {
  RigOptions options;
  options.op.scheme = {4, 2};
  options.op.repair_bytes_per_s = 0;
  options.targets = 6;
  options.layer_bytes = {1000};
  Rig rig(options);
  rig.flash.hold_appends = true;
  rig.flash.hold_targets = 1u << 3;
  const Rig::Reserved reserved = rig.reserve({1});
  ASSERT_EQ(reserved.loans[0].outcome, wire::ReserveOutcome::kGranted);
  rig.fill(reserved.loans[0], 1);
  EXPECT_TRUE(rig.commit(reserved.loans[0]).ok());
  rig.hold_data = true;
  auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.settle();
  rig.flash.ok[3] = false;
  rig.flash.held_by_device = true;
  rig.operations->catalog().target_failed(3);
  rig.flash.let_go();
  ASSERT_TRUE(rig.run_until([&] { return rig.context->pushes->live() == 0; }));
  EXPECT_GT(rig.tier.used_bytes(Budget::kPush), 0u) << "the device may read it yet";
  rig.flash.return_limbo();
  rig.settle();
  EXPECT_EQ(rig.tier.used_bytes(Budget::kPush), 0u);
  EXPECT_FALSE(pull->back) << "it holds the block all this time";
  rig.hold_data = false;
  rig.answer_data();
  rig.finish(*pull);
  rig.expect_bytes(*pull, {1});
  rig.expect_at_rest();
}

TEST(PushTable, NamesCommitsThatFlashDoesNotTake) {
  Rig rig;
  rig.flash.hold_appends = true;
  const Rig::Reserved reserved = rig.reserve({1, 2});
  rig.fill(reserved.loans[0], 1);
  EXPECT_TRUE(rig.commit(reserved.loans[0]).ok());
  rig.run_for(29 * kSecond);
  EXPECT_EQ(rig.operations->watch(), 0u);
  rig.run_for(2 * kSecond);
  EXPECT_EQ(rig.operations->watch(), 1u) << "the other one is its session's to watch";
  rig.flash.let_go();
  EXPECT_TRUE(rig.abort(reserved.loans[1]).ok());
  rig.expect_at_rest();
  EXPECT_EQ(rig.operations->watch(), 0u);
}

TEST(PushTable, HoldsManyAttemptsOfAllKindsOfIds) {
  RigOptions options;
  options.layer_bytes = {1000};
  options.op.pushes_max = 64;
  Rig rig(options);
  std::vector<uint32_t> ids;
  for (uint32_t n = 0; n < 64; ++n)
    ids.push_back(n);
  const Rig::Reserved reserved = rig.reserve(ids);
  for (uint32_t n = 0; n < 64; ++n) {
    EXPECT_EQ(rig.context->pushes->find(rig.block(n)), reserved.loans[n].push) << n;
  }
  for (uint32_t n = 64; n > 0; n -= 2)
    EXPECT_TRUE(rig.abort(reserved.loans[n - 1]).ok());
  for (uint32_t n = 0; n < 64; n += 2) {
    EXPECT_EQ(rig.context->pushes->find(rig.block(n)), reserved.loans[n].push) << n;
    EXPECT_TRUE(rig.abort(reserved.loans[n]).ok());
  }
  rig.expect_at_rest();
}

}  // namespace
}  // namespace varve
