// Goal: what a device keeps long, or will not give back, costs its readers little: they are told,
// rebuild, fence, and nothing of a fenced extent is sent; a header is read from any fragment.
// Method: the rig with 2+1 and a target whose reads are held, suspect or kept for ever; fences at
// each stage of an extent.
#include <bit>

#include "server/op/catalog.h"
#include "server/op/pull.h"
#include "tests/server/op/rig.h"

namespace varve {
namespace {

using wire::LostState;

RigOptions coded() {
  RigOptions options;
  options.op.scheme = {2, 1};
  options.op.repair_bytes_per_s = 0;
  options.targets = 3;
  options.layer_bytes = {70000, 70000, 200000, 70000, 68000, 131072};
  return options;
}

size_t count_of(const Rig::Pull& pull, LostState state) {
  return static_cast<size_t>(std::count_if(pull.lost.begin(), pull.lost.end(),
                                           [&](const auto& row) { return row.state == state; }));
}

// A read at the device for longer than hedge_ns: told late once, sent when it comes.
TEST(Degraded, TellsOnceThatAReadIsLateAndSendsItWhenItComes) {
  Rig rig(coded());
  rig.push({1});
  rig.drop_from_dram(1);
  const auto pull = rig.make_pull({1});
  // The header comes from the holder of extent 0, so only the others' extents are late.
  const uint32_t stuck = rig.holder_of(1, 1);
  ASSERT_NE(stuck, rig.holder_of(1, 0));
  rig.hold_reads_of(stuck);
  rig.start(*pull);
  rig.run_for(rig.options.op.hedge_ns / 2);
  EXPECT_TRUE(pull->lost.empty()) << "not yet";
  rig.run_for(rig.options.op.hedge_ns * 4);
  EXPECT_GT(count_of(*pull, LostState::kLate), 0u);
  EXPECT_EQ(count_of(*pull, LostState::kLost), 0u);
  const size_t told = pull->lost.size();
  for (const auto& row : pull->lost)
    EXPECT_EQ(rig.holder_of(1, row.extent), stuck);
  rig.run_for(100 * kMillisecond);
  EXPECT_EQ(pull->lost.size(), told) << "once";
  EXPECT_FALSE(pull->back);
  rig.flash.let_go();
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  EXPECT_EQ(pull->got.size(), rig.table().data_count());
  rig.expect_bytes(*pull, {1});
  rig.expect_at_rest();
}

TEST(Degraded, SendsNothingOfALateExtentThatWasFenced) {
  Rig rig(coded());
  rig.push({1});
  rig.drop_from_dram(1);
  const auto pull = rig.make_pull({1});
  rig.hold_reads_of(rig.holder_of(1, 1));
  rig.start(*pull);
  rig.run_for(rig.options.op.hedge_ns * 4);
  std::vector<uint32_t> late;
  for (const auto& row : pull->lost)
    late.push_back(row.extent);
  ASSERT_FALSE(late.empty());
  for (const uint32_t extent : late)
    rig.fence(*pull, 0, extent);
  rig.finish(*pull);  // it waits for nothing more, though the device still does not answer
  EXPECT_EQ(pull->code(0), Code::kOk);
  rig.flash.let_go();
  rig.settle();
  for (const uint32_t extent : late)
    EXPECT_FALSE(pull->got.contains({0, extent})) << extent;
  EXPECT_EQ(pull->got.size() + late.size(), rig.table().data_count());
  rig.expect_at_rest();
}

TEST(Degraded, AnswersAFenceWhenTheLastFrameIsOffTheLane) {
  Rig rig(coded());
  rig.push({1});
  const auto pull = rig.make_pull({1});
  rig.hold_data = true;
  rig.start(*pull);
  ASSERT_TRUE(rig.run_until([&] { return !rig.sends.empty(); }));
  const uint32_t extent = rig.sends.front()->data.extent;
  bool back = false;
  FencePart part;
  part.session_reactor = &rig.reactor;
  part.pull = &pull->part;
  part.extent = extent;
  part.owner = &back;
  part.on_back = [](Part& p) { *static_cast<bool*>(p.owner) = true; };
  rig.operations->begin(part);
  rig.settle();
  EXPECT_FALSE(back) << "its frames are on the lane";
  rig.hold_data = false;
  rig.answer_data();
  ASSERT_TRUE(rig.run_until([&] { return back; }));
  rig.finish(*pull);
  rig.expect_at_rest();
}

TEST(Degraded, NeverBeginsWhatWasFencedBeforeItBegan) {
  Rig rig(coded());
  rig.push({1, 2});
  const auto pull = rig.make_pull({1, 2});
  rig.hold_credit = true;
  rig.start(*pull);
  ASSERT_TRUE(rig.run_until([&] { return !rig.asks.empty(); }));
  rig.fence(*pull, 1, 3);
  rig.hold_credit = false;
  rig.answer_credit();
  rig.finish(*pull);
  EXPECT_EQ(pull->code(1), Code::kOk);
  EXPECT_FALSE(pull->got.contains({1, 3}));
  EXPECT_TRUE(pull->got.contains({0, 3}));
  rig.expect_at_rest();
}

TEST(Degraded, AnswersAFenceOfAPullThatIsOverOrOfNoneAtOnce) {
  Rig rig(coded());
  rig.push({1});
  const auto pull = rig.make_pull({1});
  pull->part.number = 5;
  rig.start(*pull);
  rig.finish(*pull);
  rig.fence(*pull, 0, 0);
  const auto other = rig.make_pull({1});
  other->part.number = 6;
  rig.start(*other);
  other->part.number = 7;  // a fence of an earlier use of the part is not for this one
  rig.fence(*other, 9, 0);
  rig.finish(*other);
  EXPECT_EQ(other->got.size(), rig.table().data_count());
  rig.expect_at_rest();
}

// Reads of a suspect target are not begun: parity, or the others, at once.
TEST(Degraded, PassesOverASuspectTargetWhileTheOthersAreEnough) {
  Rig rig(coded());
  rig.push({1});
  rig.drop_from_dram(1);
  const uint32_t suspect = rig.holder_of(1, 0);
  rig.hold_reads_of(suspect);
  rig.flash.suspect_target = static_cast<int>(suspect);
  const auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  EXPECT_GT(count_of(*pull, LostState::kLost), 0u);
  rig.expect_bytes(*pull, {1});
  EXPECT_EQ(rig.index.thin_count(), 0u) << "suspicion loses nothing";
  rig.flash.let_go();
  rig.expect_at_rest();
}

// Suspicion moves while a pull goes on: what is left out of a stripe may not add up to more than
// parity covers, whether its reads have begun or not.
TEST(Degraded, LeavesOutNoMoreThanTheReaderCanRebuild) {
  for (const bool begun : {true, false}) {
    SCOPED_TRACE(begun);
    RigOptions options = coded();
    options.layer_bytes.assign(6, 70000);  // stripes of two
    if (!begun) {
      options.op.pull_window_bytes = 70000;
      options.op.pull_windows_max = 1;
    }
    Rig rig(options);
    rig.push({1});
    rig.drop_from_dram(1);
    const auto pull = rig.make_pull({1});
    const uint32_t first = rig.holder_of(1, 0), second = rig.holder_of(1, 1);
    rig.flash.suspect_target = static_cast<int>(first);
    rig.flash.latency_ns = 1 * kMillisecond;
    rig.start(*pull);
    ASSERT_TRUE(rig.run_until([&] { return !pull->lost.empty(); }));
    if (begun) {
      rig.hold_reads_of(second);
      rig.run_for(rig.options.op.hedge_ns * 2);
    }
    rig.flash.suspect_target = static_cast<int>(second);
    rig.run_for(rig.options.op.hedge_ns * 4);
    rig.flash.let_go();
    rig.finish(*pull);
    EXPECT_EQ(pull->code(0), Code::kOk);
    uint32_t lost[3] = {};  // of each stripe
    for (const auto& row : pull->lost) {
      lost[row.extent / 2] += row.state == LostState::kLost ? 1 : 0;
    }
    for (const uint32_t of_stripe : lost)
      EXPECT_LE(of_stripe, 1u);
    EXPECT_EQ(lost[0], 1u);
    rig.flash.suspect_target = -1;
    rig.expect_at_rest();
  }
}

// The header of a block that needs a slow target comes from another all the same.
TEST(Degraded, ReadsTheHeaderElsewhereWhereASlowTargetIsNeeded) {
  RigOptions options = coded();
  options.layer_bytes.assign(6, 70000);
  Rig rig(options);
  rig.push({1});
  rig.drop_from_dram(1);
  const uint32_t first = rig.holder_of(1, 0), second = rig.holder_of(1, 1);
  rig.flash.suspect_target = static_cast<int>(first);
  rig.flash.hold_reads = true;  // the header too, so that nothing of the block is there yet
  const auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.run_for(rig.options.op.hedge_ns / 2);
  rig.flash.suspect_target = static_cast<int>(second);
  rig.flash.hold_targets = 1u << second;
  rig.run_for(rig.options.op.hedge_ns * 4);
  rig.flash.let_go();
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  EXPECT_LT(rig.context->metrics.pull_leads_given_up.value(), 4u);
  rig.flash.suspect_target = -1;
  rig.expect_at_rest();
}

// What is left out for being slow is read after all when another target fails.
TEST(Degraded, ReadsWhatItLeftOutWhenAnotherTargetFails) {
  RigOptions options = coded();
  options.layer_bytes.assign(6, 70000);
  Rig rig(options);
  rig.push({1});
  rig.drop_from_dram(1);
  const uint32_t first = rig.holder_of(1, 0), second = rig.holder_of(1, 1);
  rig.flash.latency_ns = 1 * kMillisecond;
  rig.hold_reads_of(first);
  const auto pull = rig.make_wants({1}, {{0, 1}, {0, 3}, {0, 0}, {0, 2}});
  rig.start(*pull);
  rig.run_for(rig.options.op.hedge_ns / 2);
  for (uint32_t t = 0; t < 3; ++t) {  // the parity's
    if (t == first || t == second) continue;
    rig.flash.ok[t] = false;
    rig.operations->catalog().target_failed(t);
  }
  rig.flash.suspect_target = static_cast<int>(first);
  rig.run_for(rig.options.op.hedge_ns * 4);
  rig.flash.let_go();
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  EXPECT_EQ(count_of(*pull, LostState::kLost), 0u);
  rig.flash.suspect_target = -1;
  rig.expect_at_rest();
}

// ... however many extents of a block those are: they cost it no tries.
TEST(Degraded, ReadsAllThatItLeftOutWhenAnotherTargetFails) {
  RigOptions options = coded();
  options.layer_bytes.assign(140, 70000);
  options.arena_pages = 11264;
  options.pull_pages = 5120;
  options.op.pull_windows_max = 8;
  Rig rig(options);
  rig.push({1});
  rig.drop_from_dram(1);
  const uint32_t slow = rig.holder_of(1, 0), second = rig.holder_of(1, 1);
  std::vector<wire::Want> wants;
  for (uint32_t e = 0; e < rig.table().data_count(); e += 2)
    wants.push_back({0, e});
  rig.flash.suspect_target = static_cast<int>(slow);
  rig.hold_reads_of(second);  // the header
  const auto pull = rig.make_wants({1}, wants);
  rig.start(*pull);
  rig.run_for(2 * kMillisecond);
  ASSERT_EQ(rig.context->pulls->extents_live(), 70u) << "more than a block has tries";
  const uint32_t parity = 3 - slow - second;  // of three targets
  rig.flash.ok[parity] = false;
  rig.operations->catalog().target_failed(parity);
  rig.flash.let_go();
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  EXPECT_EQ(pull->got.size(), 70u);
  EXPECT_TRUE(pull->lost.empty());
  rig.flash.suspect_target = -1;
  rig.expect_at_rest();
}

// ... but when it is needed it is read, suspect or not.
TEST(Degraded, ReadsASuspectTargetWhenItIsNeeded) {
  Rig rig(coded());
  rig.push({1});
  rig.drop_from_dram(1);
  rig.lose(1, 2);
  rig.flash.suspect_target = static_cast<int>(rig.holder_of(1, 0));
  const auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->got.size(), rig.table().data_count());
  EXPECT_TRUE(pull->lost.empty());
  rig.expect_at_rest();
}

// The target of the header becomes suspect while the header is read: another fragment has it too.
TEST(Degraded, ReadsTheHeaderElsewhereWhenItsTargetTurnsOutSuspect) {
  Rig rig(coded());
  rig.push({1});
  rig.drop_from_dram(1);
  const uint32_t stuck = rig.holder_of(1, 0);
  rig.hold_reads_of(stuck);
  const auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.run_for(2 * kMillisecond);
  EXPECT_TRUE(pull->got.empty());
  rig.flash.suspect_target = static_cast<int>(stuck);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  EXPECT_EQ(rig.context->metrics.pull_leads_given_up.value(), 1u);
  rig.expect_bytes(*pull, {1});
  rig.flash.let_go();
  rig.expect_at_rest();
}

// A header that rotted: the block is read by another fragment's.
TEST(Degraded, ReadsTheHeaderElsewhereWhenOneIsBad) {
  for (const Status status : {Status::corrupt("rot"), Status(Code::kIo, "sector")}) {
    Rig rig(coded());
    rig.push({1});
    rig.drop_from_dram(1);
    const auto pull = rig.make_pull({1});
    rig.flash.fail_reads = status;
    rig.start(*pull);
    ASSERT_TRUE(rig.run_until([&] { return rig.flash.lead_reads == 1; }));
    ASSERT_TRUE(rig.run_until([&] { return rig.flash.lead_reads == 2; }));
    rig.flash.fail_reads = Status();
    rig.finish(*pull);
    EXPECT_EQ(pull->code(0), Code::kOk);
    rig.expect_bytes(*pull, {1});
    rig.expect_at_rest();
  }
}

// A device that keeps the pages of an extent for ever: that extent is lost, the rest of the block
// is read and stays in DRAM, and so are later pulls of it.
TEST(Degraded, KeepsABlockOfWhichADeviceHoldsAnExtent) {
  Rig rig(coded());
  rig.push({1});
  rig.drop_from_dram(1);
  const uint32_t stuck = rig.holder_of(1, 1);
  ASSERT_NE(stuck, rig.holder_of(1, 0));
  const auto pull = rig.make_pull({1});
  rig.hold_reads_of(stuck);
  rig.start(*pull);
  rig.run_for(5 * kMillisecond);
  rig.flash.ok[stuck] = false;
  rig.flash.held_by_device = true;
  rig.operations->catalog().target_failed(stuck);
  rig.flash.let_go();
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  EXPECT_GT(count_of(*pull, LostState::kLost), 0u);
  rig.expect_bytes(*pull, {1});
  const auto again = rig.make_pull({1});
  rig.start(*again);
  rig.finish(*again);
  EXPECT_EQ(again->code(0), Code::kOk);
  EXPECT_GT(count_of(*again, LostState::kLost), 0u);
  rig.expect_bytes(*again, {1});
  rig.flash.return_limbo();
  rig.expect_at_rest();
}

// Many extents of a block wait for one header: that it is given up is one try of the block's, not
// one for each of them.
TEST(Degraded, AHeaderThatIsGivenUpCostsABlockOneTry) {
  RigOptions options = coded();
  options.layer_bytes.assign(80, 70000);
  options.arena_pages = 11264;
  options.pull_pages = 5120;
  options.op.pull_windows_max = 8;
  Rig rig(options);
  rig.push({1});
  rig.drop_from_dram(1);
  const uint32_t stuck = rig.holder_of(1, 0);
  rig.hold_reads_of(stuck);
  const auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.run_for(2 * kMillisecond);
  ASSERT_GT(rig.context->pulls->extents_live(), 70u) << "more than a block has tries";
  rig.flash.suspect_target = static_cast<int>(stuck);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  EXPECT_EQ(rig.context->metrics.pull_leads_given_up.value(), 1u);
  EXPECT_EQ(pull->got.size() + pull->lost.size(), rig.table().data_count());
  rig.expect_bytes(*pull, {1});
  // Expect: what is begun again comes in the order of the layers.
  EXPECT_TRUE(std::is_sorted(pull->order.begin(), pull->order.end()));
  rig.flash.let_go();
  rig.expect_at_rest();
}

// What a target has when it becomes suspect is lost, not late: the first layers of all pulls under
// way are there, and hedges have a budget.
TEST(Degraded, WhatASuspectTargetAlreadyReadsIsLostAtOnce) {
  for (const bool needed : {false, true}) {
    Rig rig(coded());
    rig.push({1});
    rig.drop_from_dram(1);
    const uint32_t stuck = rig.holder_of(1, 1);
    ASSERT_NE(stuck, rig.holder_of(1, 0));
    if (needed) rig.lose(1, 2);
    rig.hold_reads_of(stuck);
    const auto pull = rig.make_pull({1});
    rig.start(*pull);
    rig.run_for(2 * kMillisecond);
    EXPECT_TRUE(pull->lost.empty());
    rig.flash.suspect_target = static_cast<int>(stuck);
    rig.run_for(100 * kMillisecond);
    EXPECT_EQ(pull->back, !needed);
    EXPECT_EQ(count_of(*pull, LostState::kLate), 0u);
    EXPECT_EQ(count_of(*pull, LostState::kLost) > 0, !needed);
    rig.flash.let_go();
    rig.finish(*pull);
    EXPECT_EQ(pull->code(0), Code::kOk);
    rig.expect_bytes(*pull, {1});
    rig.expect_at_rest();
  }
}

// Two reads a target; those of the blocks [0] and [1] are at one that answers nothing, and the pull
// under test waits there for a share, with nothing in progress.
struct FullShare {
  FullShare() : rig(options()) {
    stuck = holder_of_first(0);
    blocks = {0};
    for (uint32_t n = 1; n < 40 && blocks.size() < 3; ++n) {
      if (holder_of_first(n) == stuck) blocks.push_back(n);
    }
    for (const uint32_t n : blocks)
      rig.drop_from_dram(n);
    rig.hold_reads_of(stuck);
    for (uint32_t i = 0; i < 2; ++i) {
      readers.push_back(rig.make_pull({blocks[i]}));
      readers[i]->part.extent_end = 1;
      rig.start(*readers[i]);
    }
    rig.run_for(2 * kMillisecond);
    EXPECT_EQ(rig.context->fetches->live(), 2u);
  }
  static RigOptions options() {
    RigOptions options = coded();
    options.op.fetches_max = 4;
    return options;
  }
  uint32_t holder_of_first(uint32_t n) {
    rig.push({n});
    return rig.holder_of(n, 0);
  }
  void wait_for_share(Rig::Pull& pull) {
    rig.start(pull);
    rig.run_for(2 * kMillisecond);
    EXPECT_EQ(rig.context->metrics.pull_target_waits.value(), 1u);
    EXPECT_TRUE(pull.got.empty() && !pull.back);
  }
  // It ends although the target never answers.
  void expect_goes_on(Rig::Pull& pull, uint32_t block) {
    rig.flash.suspect_target = static_cast<int>(stuck);
    ASSERT_TRUE(rig.run_until([&] { return pull.back; }, kSecond));
    EXPECT_EQ(pull.code(0), Code::kOk);
    rig.expect_bytes(pull, {block});
    for (const auto& reader : readers) {
      rig.finish(*reader);
      EXPECT_EQ(reader->code(0), Code::kOk);
    }
    rig.flash.let_go();
    rig.expect_at_rest();
  }
  Rig rig;
  uint32_t stuck = 0;
  std::vector<uint32_t> blocks;
  std::vector<std::unique_ptr<Rig::Pull>> readers;
};

TEST(Degraded, WhoWaitsForAShareOfATargetGoesOnWhenThatIsSuspect) {
  FullShare full;
  const auto pull = full.rig.make_pull({full.blocks[2]});
  full.wait_for_share(*pull);
  full.expect_goes_on(*pull, full.blocks[2]);
}

// It has pinned a block that another pull opened, whose header is given up before this one began
// anything of it.
TEST(Degraded, ABlockPinnedBeforeItsHeaderWasGivenUpIsReadElsewhere) {
  FullShare full;
  uint32_t extent = 1;
  while (full.rig.holder_of(full.blocks[0], extent) != full.stuck)
    ++extent;
  ASSERT_LT(extent, full.rig.table().data_count());
  const auto pull = full.rig.make_pull({full.blocks[0]});
  pull->part.extent_first = extent;
  pull->part.extent_end = extent + 1;
  full.wait_for_share(*pull);
  full.expect_goes_on(*pull, full.blocks[0]);
}

// What does not fit the format is so in every fragment: no other header is tried.
TEST(Degraded, ATableThatDoesNotFitTheFormatIsCorruptAtOnce) {
  Rig rig(coded());
  rig.push({1});
  TierBlock* block = rig.tier.find(rig.index.find(rig.block(1))->block_slot);
  *rig.arena.byte_at(block->header, 256 + 4) ^= std::byte{1};  // stored bytes of extent 0
  const auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kCorrupt);
  EXPECT_EQ(rig.flash.lead_reads, 0u);
  rig.expect_at_rest();
}

// ... and once its fragment is on another target, the block is read anew and whole: not while
// somebody reads it, and never into the pages that the device keeps.
TEST(Degraded, ReadsABlockAnewOfWhichADeviceHoldsAnExtentThatIsElsewhereNow) {
  RigOptions options = coded();
  options.targets = 4;
  Rig rig(options);
  rig.push({1});
  rig.drop_from_dram(1);
  const uint32_t position = flash::position_at(rig.table(), rig.block(1), 1);
  const flash::Place place = rig.place_of(rig.block(1), position);
  uint32_t spare = 0b1111;
  for (uint32_t p = 0; p < 3; ++p)
    spare &= ~(1u << rig.place_of(rig.block(1), p).target);
  const flash::Place copy =
      rig.flash.copy_of(place, static_cast<uint32_t>(std::countr_zero(spare)));
  rig.hold_reads_of(place.target);
  const auto first = rig.make_pull({1});
  rig.start(*first);
  rig.run_for(5 * kMillisecond);
  rig.flash.ok[place.target] = false;
  rig.flash.held_by_device = true;
  rig.operations->catalog().target_failed(place.target);
  rig.flash.let_go();
  rig.finish(*first);
  EXPECT_GT(count_of(*first, LostState::kLost), 0u);
  rig.settle();
  const TierBlock* block = rig.tier.peek(rig.index.find(rig.block(1))->block_slot);
  ASSERT_TRUE(block != nullptr && block->held_count > 0);
  rig.hold_data = true;
  const auto reader = rig.make_pull({1});
  rig.start(*reader);
  rig.settle();
  EXPECT_GT(count_of(*reader, LostState::kLost), 0u) << "it is nowhere else yet";
  ASSERT_TRUE(rig.operations->catalog().repaired(rig.block(1), block->attempt, position, copy));
  const auto beside = rig.make_pull({1});
  rig.start(*beside);
  rig.settle();
  EXPECT_GT(count_of(*beside, LostState::kLost), 0u) << "its reader keeps it";
  rig.hold_data = false;
  rig.answer_data();
  rig.finish(*reader);
  rig.finish(*beside);
  const auto anew = rig.make_pull({1});
  rig.start(*anew);
  rig.finish(*anew);
  EXPECT_EQ(anew->code(0), Code::kOk);
  EXPECT_TRUE(anew->lost.empty());
  rig.expect_bytes(*anew, {1});
  EXPECT_EQ(rig.context->metrics.pull_blocks_outlived.value(), 1u);
  rig.flash.return_limbo();
  rig.expect_at_rest();
}

TEST(Degraded, EndsACancelledPullWhileNotesAreOut) {
  Rig rig(coded());
  rig.push({1});
  rig.drop_from_dram(1);
  rig.hold_reads_of(rig.holder_of(1, 1));
  const auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.run_for(rig.options.op.hedge_ns * 4);
  ASSERT_FALSE(pull->lost.empty());
  pull->part.cancelled = true;
  rig.finish(*pull);
  EXPECT_EQ(pull->part.status.code(), Code::kCancelled);
  rig.flash.let_go();
  rig.expect_at_rest();
}

}  // namespace
}  // namespace varve
