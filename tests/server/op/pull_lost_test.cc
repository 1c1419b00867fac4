// Goal: what a lost extent is rebuilt from is as urgent as it was: the rest of its stripe comes
// behind it, parity of the first layer is read before it is asked for, later layers wait, for a
// while. Method: the rig with 2+1, blocks without one fragment, and a target that keeps its reads.
#include <algorithm>

#include "server/op/catalog.h"
#include "server/op/pull.h"
#include "tests/server/op/rig.h"

namespace varve {
namespace {

RigOptions even() {
  RigOptions options;
  options.op.scheme = {2, 1};
  options.op.repair_bytes_per_s = 0;
  options.targets = 3;
  options.layer_bytes.assign(6, 70000);
  return options;
}

// Blocks 1 to 4, on flash only; the fragment with extent 0 of block 3 is lost.
struct Thinned {
  explicit Thinned(RigOptions options = even()) : rig(std::move(options)) {
    rig.push({1, 2, 3, 4});
    for (uint32_t n = 1; n < 5; ++n)
      rig.drop_from_dram(n);
    rig.lose(3, flash::position_at(rig.table(), rig.block(3), 0));
    pull = rig.make_pull({1, 2, 3, 4});
  }
  uint32_t parity() const { return rig.table().parity_at(0, 0); }
  const OpMetrics& metrics() const { return rig.context->metrics; }
  Rig rig;
  std::unique_ptr<Rig::Pull> pull;
};

// One extent in progress at a time.
RigOptions one_by_one() {
  RigOptions options = even();
  options.op.pull_windows_max = 1;
  options.op.pull_window_bytes = 65536;
  return options;
}

TEST(PullLost, WhatALostExtentIsRebuiltFromComesNext) {
  Thinned thin(one_by_one());
  thin.rig.start(*thin.pull);
  thin.rig.finish(*thin.pull);
  ASSERT_FALSE(thin.pull->lost.empty());
  ASSERT_EQ(thin.pull->order.size() + thin.pull->lost.size(), 4u * 6);
  const std::vector<std::pair<uint32_t, uint32_t>> expected = {{0, 0}, {0, 1}, {1, 2}, {0, 3},
                                                               {1, 0}, {1, 1}, {1, 3}};
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), thin.pull->order.begin()));
  thin.rig.expect_bytes(*thin.pull, {1, 2, 3, 4});
  thin.rig.expect_at_rest();
}

TEST(PullLost, ParityOfTheFirstLayerIsThereWhenItsReaderAsks) {
  Thinned thin;
  thin.rig.start(*thin.pull);
  ASSERT_TRUE(thin.rig.run_until([&] { return !thin.pull->lost.empty(); }));
  EXPECT_EQ(thin.metrics().pull_extents_ahead.value(), 1u) << "not of later layers";
  EXPECT_EQ(thin.metrics().pull_held_back.value(), 1u);
  thin.rig.finish(*thin.pull);
  const uint64_t reads = thin.rig.flash.extent_reads;
  const auto wants = thin.rig.make_wants({3}, {{0, thin.parity()}});
  thin.rig.start(*wants);
  thin.rig.finish(*wants);
  EXPECT_TRUE(wants->got.at({0, thin.parity()}) == thin.rig.bytes_of_extent(3, thin.parity()));
  EXPECT_EQ(thin.rig.flash.extent_reads, reads);
  thin.rig.expect_at_rest();
}

// The rest of the stripe is of a layer that this pull does not ask for: it is read as well.
TEST(PullLost, WhatAPullOfOneLayerDoesNotSendOfTheStripeIsThereWhenItsReaderAsks) {
  Thinned thin;
  thin.pull = thin.rig.make_pull({3});
  thin.pull->part.extent_end = 1;
  thin.rig.start(*thin.pull);
  thin.rig.finish(*thin.pull);
  EXPECT_EQ(thin.pull->lost.size(), 1u);
  EXPECT_EQ(thin.metrics().pull_held_back.value(), 0u) << "there is no later layer";
  const auto wants = thin.rig.make_wants({3}, {{0, 1}, {0, thin.parity()}});
  thin.rig.start(*wants);
  thin.rig.finish(*wants);
  EXPECT_EQ(wants->got.size(), 2u);
  EXPECT_EQ(thin.rig.flash.lead_reads + thin.rig.flash.extent_reads, 2u);
  thin.rig.expect_at_rest();
}

// What is rebuilt from is at a device that keeps it: the rest of the pull waits so long, no longer,
// and nothing of it for what it only read ahead.
TEST(PullLost, HoldsLaterLayersBackForAWhileOnly) {
  Thinned thin;
  Rig& rig = thin.rig;
  const uint32_t stuck = rig.place_of(rig.block(3), 2).target;  // parity of 2+1
  rig.hold_reads_of(stuck);
  rig.start(*thin.pull);
  rig.run_for(rig.options.op.hedge_ns / 2);
  for (const auto& [extent, block] : thin.pull->order)
    EXPECT_TRUE(extent == 0 || block == 2) << extent;
  const uint64_t reads = rig.flash.extent_reads;
  rig.run_for(rig.options.op.hedge_ns);
  EXPECT_GT(rig.flash.extent_reads, reads);
  rig.flash.let_go();
  rig.finish(*thin.pull);
  EXPECT_EQ(thin.pull->code(2), Code::kOk);
  rig.expect_bytes(*thin.pull, {1, 2, 3, 4});
  rig.expect_at_rest();
}

TEST(PullLost, APullEndsWhileWhatItReadAheadIsAtADevice) {
  for (const bool cancelled : {false, true}) {
    Thinned thin;
    Rig& rig = thin.rig;
    thin.pull = rig.make_pull({3});
    rig.hold_reads_of(rig.place_of(rig.block(3), 2).target);
    rig.start(*thin.pull);
    rig.run_for(2 * kMillisecond);
    EXPECT_EQ(thin.metrics().pull_extents_ahead.value(), 1u);
    thin.pull->part.cancelled = cancelled;
    // A client may fence what it will: this is not of the pull.
    rig.fence(*thin.pull, 0, thin.parity());
    rig.finish(*thin.pull);
    EXPECT_EQ(thin.pull->part.status.code(), cancelled ? Code::kCancelled : Code::kOk);
    EXPECT_FALSE(thin.pull->got.contains({0, thin.parity()}));
    rig.flash.let_go();
    rig.expect_at_rest();
  }
}

// A read that fails while it waits is lost too: its stripe's next one does not stand behind those
// of another block.
TEST(PullLost, WhatTurnsOutLostBringsItsStripeForwardToo) {
  Rig rig(one_by_one());
  rig.push({1, 2});
  rig.drop_from_dram(1);
  rig.drop_from_dram(2);
  const uint32_t stuck = rig.holder_of(1, 2);
  rig.hold_reads_of(stuck);
  const auto pull = rig.make_pull({1, 2});
  pull->part.extent_first = 2;
  // Somebody else has read the header, elsewhere.
  const auto opener = rig.make_pull({1});
  opener->part.extent_first = rig.holder_of(1, 0) == stuck ? 1 : 0;
  opener->part.extent_end = opener->part.extent_first + 1;
  rig.start(*opener);
  rig.finish(*opener);
  rig.start(*pull);
  rig.run_for(2 * kMillisecond);
  EXPECT_TRUE(pull->got.empty());
  rig.flash.suspect_target = static_cast<int>(stuck);
  rig.finish(*pull);
  EXPECT_FALSE(pull->lost.empty());
  ASSERT_FALSE(pull->order.empty());
  EXPECT_EQ(pull->order.front(), (std::pair<uint32_t, uint32_t>{3, 0}));
  rig.expect_bytes(*pull, {1, 2});
  rig.flash.let_go();
  rig.expect_at_rest();
}

}  // namespace
}  // namespace varve
