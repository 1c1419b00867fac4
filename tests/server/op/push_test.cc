// Goal: a block is visible from its accepted commit on and never before (I2), is answered as it was
// asked, and an attempt that fails at any step leaves nothing.
// Method: the rig's session writes real bytes and tables; flash is held, failed or vanishes.
#include "server/op/push.h"

#include <gtest/gtest.h>

#include "tests/server/op/rig.h"

namespace varve {
namespace {

using wire::AckKind;

struct Commit {  // a commit whose answer is awaited by the test
  explicit Commit(Rig& rig, const GrantLoan& loan, AckKind ack) {
    part.push = loan.push;
    part.attempt = loan.attempt;
    part.epoch = 1;
    part.ack = ack;
    part.session_reactor = &rig.reactor;
    part.owner = this;
    part.on_back = [](Part& p) { static_cast<Commit*>(p.owner)->back = true; };
    rig.operations->begin(part);
  }
  CommitPart part;
  bool back = false;
};

GrantLoan granted(Rig& rig, uint32_t n) {
  GrantLoan loan = rig.reserve({n}).loans[0];
  EXPECT_EQ(loan.outcome, wire::ReserveOutcome::kGranted);
  rig.fill(loan, n);
  return loan;
}

TEST(Push, IsInvisibleBeforeItsCommit) {
  Rig rig;
  const GrantLoan loan = granted(rig, 1);
  EXPECT_EQ(rig.match({1}).found(), 0u);
  EXPECT_TRUE(rig.commit(loan).ok());
  EXPECT_EQ(rig.match({1}).found(), 1u);
  rig.expect_at_rest();
  EXPECT_EQ(rig.flash.appends_done, 1u);
}

TEST(Push, AnswersCachedBeforeFlashAndDurableAfter) {
  Rig rig;
  rig.flash.hold_appends = true;
  const GrantLoan one = granted(rig, 1);
  EXPECT_TRUE(rig.commit(one, AckKind::kCached).ok());
  const GrantLoan two = granted(rig, 2);
  Commit durable(rig, two, AckKind::kDurable);
  rig.settle();
  EXPECT_FALSE(durable.back);
  EXPECT_EQ(rig.match({2}).found(), 1u) << "visible, in DRAM";
  rig.flash.let_go();
  ASSERT_TRUE(rig.run_until([&] { return durable.back; }));
  EXPECT_TRUE(durable.part.status.ok());
  EXPECT_EQ(rig.flash.appends_soon, 1u) << "nobody waits for the flush of the cached one";
  EXPECT_EQ(rig.flash.appends_now, 1u);
  rig.expect_at_rest();
}

TEST(Push, WritesTheWholeHeader) {
  Rig rig;
  const Rig::Reserved reserved = rig.reserve({5, 6});
  rig.fill(reserved.loans[1], 6);
  rig.fill(reserved.loans[0], 5);
  EXPECT_TRUE(rig.commit(reserved.loans[1]).ok());
  const auto header = *reinterpret_cast<const flash::FragmentHeader*>(
      rig.arena.byte_at(reserved.loans[1].block->header, 0));
  EXPECT_EQ(header.base, rig.id(6));
  EXPECT_EQ(header.parent, rig.id(5)) << "the id before it in the request";
  EXPECT_EQ(header.fingerprint, rig.format.fingerprint);
  EXPECT_EQ(header.attempt, reserved.loans[1].attempt);
  EXPECT_EQ(header.extent_count, rig.table().extents.size());
  EXPECT_EQ(header.rank_count, 1u);
  EXPECT_EQ(header.block_bytes_low, rig.table().block_bytes);
  EXPECT_EQ(header.lineage, 42u);
  EXPECT_EQ(header.k, 1);
  EXPECT_TRUE(rig.abort(reserved.loans[0]).ok());
  rig.expect_at_rest();
}

TEST(Push, LeavesNothingWhenAborted) {
  Rig rig;
  const GrantLoan loan = granted(rig, 1);
  EXPECT_TRUE(rig.abort(loan).ok());
  EXPECT_EQ(rig.match({1}).found(), 0u);
  rig.expect_at_rest();
  EXPECT_EQ(rig.arena.free_pages(), rig.arena.page_count());
  EXPECT_EQ(rig.flash.appends_done, 0u);
}

TEST(Push, RefusesATableThatDoesNotFitTheFormat) {
  Rig rig;
  for (const uint32_t offset : {4u, 8u, 12u, 14u, 20u}) {  // sizes, codec, flags, reserved
    const GrantLoan loan = granted(rig, 1);
    *rig.arena.byte_at(loan.block->header, 256 + 32 + offset) ^= std::byte{1};
    EXPECT_EQ(rig.commit(loan).code(), Code::kCorrupt) << offset;
    EXPECT_EQ(rig.match({1}).found(), 0u);
  }
  rig.expect_at_rest();
  EXPECT_EQ(rig.context->metrics.push_invalid.value(), 5u);
}

TEST(Push, RefusesACommitOfAnotherEpoch) {
  Rig rig;
  const GrantLoan loan = granted(rig, 1);
  rig.options.op.epoch = 2;  // what the session sends
  EXPECT_EQ(rig.commit(loan).code(), Code::kInvalid);
  rig.expect_at_rest();
}

TEST(Push, DropsACachedBlockThatFlashRefuses) {
  Rig rig;
  rig.flash.fail_appends = Status::unavailable("target");
  const GrantLoan loan = granted(rig, 1);
  EXPECT_TRUE(rig.commit(loan, AckKind::kCached).ok());
  rig.settle();
  EXPECT_EQ(rig.match({1}).found(), 0u) << "no drive holds it";
  EXPECT_EQ(rig.context->metrics.push_lost_writes.value(), 1u);
  rig.expect_at_rest();
  EXPECT_EQ(rig.arena.free_pages(), rig.arena.page_count());
}

TEST(Push, AnswersTheFailureOfADurableAppend) {
  Rig rig;
  rig.flash.fail_appends = Status::unavailable("target");
  EXPECT_EQ(rig.commit(granted(rig, 1), AckKind::kDurable).code(), Code::kUnavailable);
  EXPECT_EQ(rig.match({1}).found(), 0u);
  rig.expect_at_rest();
}

TEST(Push, DropsALeasedBlockThatFlashRefusedWithoutBreakingTheLease) {
  Rig rig;
  rig.flash.hold_appends = true;
  EXPECT_TRUE(rig.commit(granted(rig, 1)).ok());
  const Rig::Matched matched = rig.match({1}, 1000);
  EXPECT_NE(matched.lease, 0u);
  rig.flash.fail_appends = Status::unavailable("target");
  rig.flash.let_go();
  rig.settle();
  EXPECT_EQ(rig.match({1}).found(), 0u);
  rig.release(matched.lease);
  rig.expect_at_rest();
}

// Who pushed may be gone, and his format with him, while what he committed is still written behind.
TEST(Push, IsWrittenBehindWhenItsFormatIsGone) {
  RigOptions options;
  options.layer_bytes = {kPageBytes};
  Rig rig(options);
  rig.flash.hold_appends = true;
  std::vector<uint32_t> blocks;
  for (uint32_t n = 0; n < 3 * options.op.appends_max; ++n)  // most of them wait for a slot
    blocks.push_back(n);
  const Rig::Reserved reserved = rig.reserve(blocks);
  for (const uint32_t n : blocks) {
    ASSERT_EQ(reserved.loans[n].outcome, wire::ReserveOutcome::kGranted) << n;
    rig.fill(reserved.loans[n], n);
    EXPECT_TRUE(rig.commit(reserved.loans[n], wire::AckKind::kCached).ok());
  }
  const SessionFormat kept = rig.format;
  rig.format = {};
  rig.flash.let_go();
  rig.settle();
  rig.format = kept;
  for (const uint32_t n : blocks)
    rig.drop_from_dram(n);
  auto pull = rig.make_pull(blocks);
  rig.start(*pull);
  rig.finish(*pull);
  rig.expect_bytes(*pull, blocks);
  rig.expect_at_rest();
}

TEST(Push, KeepsPagesFromUseThatTheDeviceHasNotGivenBack) {
  Rig rig;
  rig.flash.fail_appends = Status::unavailable("stuck");
  rig.flash.held_by_device = true;
  EXPECT_EQ(rig.commit(granted(rig, 1), AckKind::kDurable).code(), Code::kUnavailable);
  rig.settle();
  EXPECT_TRUE(rig.operations->pushes_done()) << "the op ended";
  EXPECT_LT(rig.arena.free_pages(), rig.arena.page_count()) << "its pages did not";
  rig.flash.return_limbo();
  rig.expect_at_rest();
  EXPECT_EQ(rig.arena.free_pages(), rig.arena.page_count());
}

TEST(Push, AnswersOkWhenRecoveryFoundTheBlockMeanwhile) {
  Rig rig;
  const GrantLoan loan = granted(rig, 1);
  EXPECT_TRUE(rig.operations->catalog().recovered(
      {.block = rig.block(1), .attempt = {1, 0, 1}, .place = {.pages = 1}, .block_bytes = 1}));
  EXPECT_TRUE(rig.commit(loan, AckKind::kDurable).ok());
  EXPECT_EQ(rig.flash.appends_done, 0u) << "the attempt was dropped";
  EXPECT_EQ(rig.context->metrics.push_exists.value(), 1u);
  rig.expect_at_rest();
}

TEST(Push, ReadsBackWhatWasWrittenAfterDramForgotIt) {
  Rig rig;
  rig.push({1});
  rig.drop_from_dram(1);
  auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  rig.expect_bytes(*pull, {1});
  rig.expect_at_rest();
}

TEST(Push, OrdersThePushedPrefixLeafFirstWhateverTheOrderOfCommits) {
  RigOptions options;
  options.targets = 1;
  options.op.slices = 1;
  Rig rig(options);
  const Rig::Reserved reserved = rig.reserve({0, 1, 2, 3});
  for (const uint32_t n : {2u, 0u, 3u, 1u}) {
    rig.fill(reserved.loans[n], n);
    EXPECT_TRUE(rig.commit(reserved.loans[n]).ok());
  }
  rig.expect_at_rest();
  std::vector<BaseId> order;
  for (uint32_t slot = rig.eviction->victim(0, kNoSlot); slot != kNoSlot;
       slot = rig.eviction->victim(0, slot)) {
    order.push_back(rig.index.block_at(slot, 0).base);
  }
  EXPECT_EQ(order, (std::vector<BaseId>{rig.id(3), rig.id(2), rig.id(1), rig.id(0)}));
}

}  // namespace
}  // namespace varve
