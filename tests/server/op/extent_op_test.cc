// Goal: frames of an extent leave in order and together, bounded by the pool, and a stage that
// fails gives back what it held. Method: pulls on the rig with a tiny pool of frames, slow
// sessions, and reads that fail.
#include "server/op/extent_op.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "server/op/pull.h"
#include "tests/server/op/rig.h"

namespace varve {
namespace {

RigOptions few_frames(uint32_t sends) {
  RigOptions options;
  options.layer_bytes = {900000, 900000};
  options.op.data_sends_max = sends;
  return options;
}

TEST(ExtentOp, SendsThroughFewerFramesThanAnExtentHas) {
  Rig rig(few_frames(2));
  rig.push({1, 2});
  auto pull = rig.make_pull({1, 2});
  rig.start(*pull);
  rig.finish(*pull);
  rig.expect_bytes(*pull, {1, 2});
  rig.expect_at_rest();
}

TEST(SendTable, NeverPutsAnotherExtentBetweenTheFramesOfOne) {
  Rig rig(few_frames(3));  // an extent is four frames
  rig.push({1, 2});
  rig.hold_data = true;
  auto late = rig.make_pull({1, 2});
  late->part.first_wanted_ns = 2000000;
  rig.session = 8;
  auto soon = rig.make_pull({2});
  soon->part.first_wanted_ns = 1000000;
  rig.start(*late);
  rig.settle();
  ASSERT_EQ(rig.sends.size(), 3u);
  rig.start(*soon);
  rig.settle();
  rig.answer_data(1);
  rig.settle();
  ASSERT_EQ(rig.sends.size(), 3u);
  EXPECT_EQ(rig.sends[2]->part, &late->part) << "the extent that was begun is finished first";
  EXPECT_EQ(rig.sends[2]->data.offset, 3 * kPayloadBytesMax);
  rig.answer_data(1);
  rig.settle();
  EXPECT_EQ(rig.sends[2]->part, &soon->part) << "then who has the least slack";
  rig.hold_data = false;
  rig.answer_data();
  rig.finish(*soon);
  rig.finish(*late);
  rig.expect_bytes(*late, {1, 2});
  rig.expect_bytes(*soon, {2});
  rig.expect_at_rest();
}

TEST(SendTable, GivesUpTheFramesOfAPullThatWasCut) {
  Rig rig(few_frames(3));
  rig.push({1, 2});
  rig.hold_data = true;
  auto pull = rig.make_pull({1, 2});
  rig.start(*pull);
  rig.settle();
  pull->part.cancelled = true;
  rig.hold_data = false;
  rig.answer_data();
  rig.finish(*pull);
  EXPECT_LT(pull->posted_bytes, 2 * rig.table().block_bytes);
  EXPECT_EQ(pull->part.status.code(), Code::kCancelled);
  rig.expect_at_rest();
}

// Goal: a pull that is cut while its extents wait for frames ends at once, whoever has the frames.
TEST(SendTable, ACutPullDoesNotWaitForTheLanesOfOthers) {
  Rig rig(few_frames(3));
  rig.push({1, 2});
  rig.hold_data = true;
  std::vector<std::unique_ptr<Rig::Pull>> others;
  for (uint64_t session = 20; session < 24; ++session) {
    others.push_back(rig.make_pull({1}));
    others.back()->part.session = session;
    rig.start(*others.back());
    rig.settle();
  }
  const size_t held = rig.sends.size();
  auto pull = rig.make_pull({2});
  pull->part.session = 30;
  rig.start(*pull);
  rig.settle();
  ASSERT_EQ(rig.sends.size(), held);  // no frame was left for it
  pull->part.cancelled = true;
  rig.settle();
  EXPECT_TRUE(pull->back);
  rig.hold_data = false;
  rig.answer_data();
  for (const auto& other : others)
    rig.finish(*other);
  rig.expect_at_rest();
}

TEST(ExtentOp, LeavesOthersTheirFramesWhenOneSessionDrainsNothing) {
  Rig rig(few_frames(64));
  std::vector<uint32_t> ids;
  for (uint32_t n = 0; n < 2; ++n)
    ids.push_back(n);
  rig.push(ids);
  rig.hold_data = true;
  rig.session = 1;
  std::vector<std::unique_ptr<Rig::Pull>> slow;
  for (uint32_t i = 0; i < 40; ++i) {
    slow.push_back(rig.make_pull(ids));
    rig.start(*slow.back());
  }
  rig.settle();
  const size_t held = rig.sends.size();
  EXPECT_LT(held, 64u) << "not all of them";
  rig.session = 2;
  auto other = rig.make_pull(ids);
  rig.start(*other);
  rig.settle();
  EXPECT_GT(rig.sends.size(), held) << "another session's frames are not behind them";
  rig.hold_data = false;
  rig.answer_data();
  rig.finish(*other);
  for (const auto& pull : slow)
    rig.finish(*pull);
  rig.expect_at_rest();
}

TEST(ExtentOp, GivesItsPagesBackWhenTheHeaderItWaitsForFails) {
  Rig rig;
  rig.push({1});
  rig.drop_from_dram(1);
  rig.flash.fail_reads = Status::io("read", 5);
  auto pull = rig.make_pull({1});
  pull->part.extent_first = 2;  // takes pages for extent 2 besides those of the lead
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kIo);
  EXPECT_EQ(rig.flash.extent_reads, 0u);
  rig.expect_at_rest();
  EXPECT_EQ(rig.tier.used_bytes(Budget::kResident), 0u);
}

TEST(ExtentOp, RefusesAHeaderWhoseTableDoesNotFitTheFormat) {
  Rig rig;
  rig.push({1});
  TierBlock* block = rig.tier.find(rig.index.find(rig.block(1))->block_slot);
  *rig.arena.byte_at(block->header, 256 + 4) ^= std::byte{1};  // stored bytes of extent 0
  auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kCorrupt);
  rig.expect_at_rest();
}

// A device that failed may read the pages of an append for as long as it likes: bytes that were
// sent leave DRAM early where that is tight, but not these.
TEST(ExtentOp, StreamsNothingThatADeviceStillReads) {
  RigOptions options;
  options.op.scheme = {4, 2};
  options.op.repair_bytes_per_s = 0;
  options.targets = 6;
  options.layer_bytes.assign(4, 70000);
  options.pull_pages = 36;  // one extent and its header are more than half
  Rig rig(options);
  rig.push({2});
  rig.drop_from_dram(2);
  const GrantLoan loan = rig.reserve({1}).loans[0];
  rig.fill(loan, 1);
  rig.flash.hold_appends = true;
  rig.flash.hold_targets = 1;
  ASSERT_TRUE(rig.commit(loan).ok());
  rig.settle();
  rig.flash.held_by_device = true;
  rig.flash.ok[0] = false;
  rig.operations->catalog().target_failed(0);
  rig.flash.let_go();
  ASSERT_TRUE(rig.run_until([&] { return rig.operations->pushes_done(); }));
  rig.flash.held_by_device = false;
  const TierBlock* block = rig.tier.peek(rig.index.find(rig.block(1))->block_slot);
  ASSERT_TRUE(block != nullptr && !block->dirty);
  EXPECT_EQ(block->lent, 1u);
  EXPECT_FALSE(block->spare_headers.empty()) << "nor does the coding go";
  rig.hold_data = true;
  const auto other = rig.make_pull({2});
  other->part.session = 8;
  rig.start(*other);
  rig.settle();
  ASSERT_TRUE(rig.context->pulls->is_tight());
  for (const bool lent : {true, false}) {
    const auto pull = rig.make_pull({1});
    rig.start(*pull);
    while (!pull->back) {
      rig.settle();
      const auto own = std::find_if(rig.sends.begin(), rig.sends.end(), [&](const DataSend* send) {
        return send->part == &pull->part;
      });
      ASSERT_NE(own, rig.sends.end());
      std::iter_swap(rig.sends.begin(), own);  // the other pull's frame stays on its lane
      rig.answer_data(1);
      rig.settle();
    }
    EXPECT_EQ(pull->code(0), Code::kOk);
    rig.expect_bytes(*pull, {1});
    EXPECT_EQ(block->whole(), lent);
    EXPECT_EQ(rig.context->metrics.pull_extents_streamed.value(), lent ? 0u : 4u);
    if (lent) rig.flash.return_limbo();
    EXPECT_EQ(block->lent, 0u);
  }
  rig.hold_data = false;
  rig.answer_data();
  rig.finish(*other);
  rig.expect_at_rest();
}

}  // namespace
}  // namespace varve
