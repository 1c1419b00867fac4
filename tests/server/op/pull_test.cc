// Goal: a pull delivers exactly the committed bytes, layer-major, within its credit and its pages,
// and ends well however it is cut: cancel, deadline, lease, faults (I1, I4, I8, I9).
// Method: real bytes through the rig; every stage is held once and cut there; zero is left each
// time.
#include "server/op/pull.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "server/op/fetch.h"
#include "tests/server/op/rig.h"

namespace varve {
namespace {

constexpr uint8_t kDramBit = wire::tier_bit(wire::TierKind::kDram);
constexpr uint8_t kFlashBit = wire::tier_bit(wire::TierKind::kFlash);
constexpr uint64_t kBlockReads = 4;  // one lead and three extents in the default format

void evict_from_dram(Rig& rig, const std::vector<uint32_t>& blocks) {
  for (const uint32_t n : blocks)
    rig.drop_from_dram(n);
}

void expect_all(const Rig::Pull& pull, Code code) {
  for (size_t i = 0; i < pull.codes.size(); ++i) {
    EXPECT_EQ(pull.code(static_cast<uint32_t>(i)), code) << i;
  }
}

TEST(Pull, DeliversResidentBlocksWithoutADeviceRead) {
  Rig rig;
  rig.push({1, 2, 3});
  auto pull = rig.make_pull({1, 2, 3});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_TRUE(pull->part.status.ok());
  expect_all(*pull, Code::kOk);
  rig.expect_bytes(*pull, {1, 2, 3});
  EXPECT_EQ(rig.flash.lead_reads + rig.flash.extent_reads, 0u);
  EXPECT_EQ(rig.context->metrics.pull_bytes_dram.value(), 3 * rig.table().block_bytes);
  EXPECT_EQ(pull->part.tiers, kDramBit);
  rig.expect_at_rest();
}

TEST(Pull, DeliversBlocksFromFlashAndKeepsThemResident) {
  Rig rig;
  rig.push({1, 2});
  evict_from_dram(rig, {1, 2});
  for (int round = 0; round < 2; ++round) {
    auto pull = rig.make_pull({1, 2});
    rig.start(*pull);
    rig.finish(*pull);
    rig.expect_bytes(*pull, {1, 2});
    expect_all(*pull, Code::kOk);
    EXPECT_EQ(pull->part.tiers, round == 0 ? kFlashBit : kDramBit);
  }
  EXPECT_EQ(rig.flash.lead_reads, 2u) << "header and first extent in one read";
  EXPECT_EQ(rig.flash.extent_reads, 2 * (kBlockReads - 1)) << "the second pull reads nothing";
  rig.expect_at_rest();
}

TEST(Pull, SendsLayerByLayerOverAllBlocks) {
  Rig rig;
  rig.push({1, 2, 3});
  auto pull = rig.make_pull({1, 2, 3});
  rig.start(*pull);
  rig.finish(*pull);
  std::vector<std::pair<uint32_t, uint32_t>> expected;
  for (uint32_t e = 0; e < 4; ++e) {
    for (uint32_t i = 0; i < 3; ++i)
      expected.emplace_back(e, i);
  }
  EXPECT_EQ(pull->order, expected);
}

TEST(Pull, SendsOnlyTheExtentsAskedFor) {
  Rig rig;
  rig.push({1});
  evict_from_dram(rig, {1});
  auto pull = rig.make_pull({1});
  pull->part.extent_first = 2;
  pull->part.extent_end = 3;
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  EXPECT_EQ(pull->got.size(), 1u);
  rig.expect_bytes(*pull, {1});
  EXPECT_EQ(rig.flash.lead_reads, 1u);
  EXPECT_EQ(rig.flash.extent_reads, 1u);
  rig.expect_at_rest();
}

TEST(Pull, CutsLargeExtentsIntoFramesInOrder) {
  RigOptions options;
  options.layer_bytes = {1000000, 1000000};
  Rig rig(options);
  rig.push({1, 2});
  evict_from_dram(rig, {2});
  auto pull = rig.make_pull({1, 2});
  rig.start(*pull);
  rig.finish(*pull);
  rig.expect_bytes(*pull, {1, 2});
  EXPECT_EQ(pull->part.tiers, kDramBit | kFlashBit);
  rig.expect_at_rest();
}

TEST(Pull, MissesWhatIsNotThereAndDeliversTheRest) {
  Rig rig;
  rig.push({1, 3});
  auto pull = rig.make_pull({1, 2, 3});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_TRUE(pull->part.status.ok());
  EXPECT_EQ(pull->code(0), Code::kOk);
  EXPECT_EQ(pull->code(1), Code::kUnavailable);
  EXPECT_EQ(pull->code(2), Code::kOk);
  rig.expect_bytes(*pull, {1, 2, 3});
  rig.expect_at_rest();
}

TEST(Pull, DeliversABlockTwiceWhenItIsNamedTwice) {
  Rig rig;
  rig.push({1});
  evict_from_dram(rig, {1});
  auto pull = rig.make_pull({1, 1});
  rig.start(*pull);
  rig.finish(*pull);
  expect_all(*pull, Code::kOk);
  rig.expect_bytes(*pull, {1, 1});
  EXPECT_EQ(rig.flash.lead_reads, 1u);
  rig.expect_at_rest();
}

TEST(Pull, SharesEveryDeviceReadWithAnotherPull) {
  Rig rig;
  rig.push({1, 2});
  evict_from_dram(rig, {1, 2});
  auto a = rig.make_pull({1, 2});
  auto b = rig.make_pull({1, 2});
  rig.start(*a);
  rig.start(*b);
  rig.finish(*a);
  rig.finish(*b);
  rig.expect_bytes(*a, {1, 2});
  rig.expect_bytes(*b, {1, 2});
  EXPECT_EQ(rig.flash.lead_reads, 2u);
  EXPECT_EQ(rig.flash.extent_reads, 2 * (kBlockReads - 1));
  EXPECT_EQ(rig.context->metrics.pull_bytes_shared.value() > 0, true);
  rig.expect_at_rest();
}

TEST(Pull, AsksForCreditBeforeItTakesPagesOrReads) {
  Rig rig;
  rig.push({1});
  evict_from_dram(rig, {1});
  rig.hold_credit = true;
  auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.settle();
  ASSERT_EQ(rig.asks.size(), 1u);
  EXPECT_EQ(rig.asks[0]->bytes, rig.table().block_bytes);
  EXPECT_EQ(rig.tier.used_bytes(Budget::kPull), 0u);
  EXPECT_EQ(rig.flash.lead_reads, 0u);
  rig.hold_credit = false;
  rig.answer_credit();
  rig.finish(*pull);
  rig.expect_bytes(*pull, {1});
  rig.expect_at_rest();
}

TEST(Pull, HasNoMoreWindowsInProgressThanItsLimit) {
  RigOptions options;
  options.op.pull_windows_max = 2;
  options.layer_bytes = std::vector<uint32_t>(8, 65536);
  options.op.pull_window_bytes = 4 * 65536;
  Rig rig(options);
  rig.push({1, 2, 3, 4});
  rig.hold_data = true;
  auto pull = rig.make_pull({1, 2, 3, 4});
  rig.start(*pull);
  rig.settle();
  EXPECT_EQ(rig.sends.size(), 8u) << "two windows of four extents";
  EXPECT_EQ(pull->granted_bytes, 8 * 65536u);
  rig.hold_data = false;
  rig.answer_data();
  rig.finish(*pull);
  rig.expect_bytes(*pull, {1, 2, 3, 4});
  rig.expect_at_rest();
}

TEST(Pull, TellsFlashAndSessionWhenEachLayerIsWanted) {
  Rig rig;
  rig.push({1});
  evict_from_dram(rig, {1});
  rig.hold_credit = true;
  auto pull = rig.make_pull({1});
  pull->part.first_wanted_ns = 1000000;
  pull->part.layer_ns = 500;
  rig.start(*pull);
  rig.settle();
  EXPECT_EQ(rig.asks[0]->wanted_ns, 1000000u);
  rig.hold_credit = false;
  rig.answer_credit();
  rig.finish(*pull);
  EXPECT_EQ(rig.flash.read_wanted_ns, (std::vector<Nanos>{1000000, 1000501, 1001002, 1001503}));
}

TEST(Pull, ReadsNothingWhenTheLeaseItNeedsIsOver) {
  Rig rig;
  rig.push({1});
  evict_from_dram(rig, {1});
  const Rig::Matched matched = rig.match({1}, 100);
  rig.run_for(101 * kMillisecond);
  auto pull = rig.make_pull({1});
  pull->part.lease = matched.lease;
  pull->part.lease_required = true;
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->part.status.code(), Code::kTimedOut);
  EXPECT_EQ(pull->code(0), Code::kTimedOut);
  EXPECT_EQ(rig.flash.lead_reads, 0u);
  rig.expect_at_rest();
}

TEST(Pull, KeepsWhatItReadsInTheIndexAfterItsLeaseRanOut) {
  Rig rig;
  rig.push({1});
  evict_from_dram(rig, {1});
  const Rig::Matched matched = rig.match({1}, 20);
  rig.hold_data = true;
  auto pull = rig.make_pull({1});
  pull->part.lease = matched.lease;
  pull->part.lease_required = true;
  rig.start(*pull);
  rig.run_for(100 * kMillisecond);
  EXPECT_EQ(rig.operations->catalog().evict(*rig.index.base_slot(kDomainDefault, rig.id(1))), 0u);
  rig.hold_data = false;
  rig.answer_data();
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  rig.expect_bytes(*pull, {1});
  rig.expect_at_rest();
  EXPECT_GT(rig.operations->catalog().evict(*rig.index.base_slot(kDomainDefault, rig.id(1))), 0u);
}

TEST(Pull, FailsOnlyTheBlockWhoseBytesRotted) {
  Rig rig;
  rig.push({1, 2, 3});
  evict_from_dram(rig, {1, 2, 3});
  rig.flash.rot(rig.block(2));
  auto pull = rig.make_pull({1, 2, 3});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  EXPECT_EQ(pull->code(1), Code::kCorrupt);
  EXPECT_EQ(pull->code(2), Code::kOk);
  rig.expect_bytes(*pull, {1, 2, 3});
  rig.expect_at_rest();
}

TEST(Pull, FailsBlocksOfATargetThatIsGone) {
  Rig rig;
  std::vector<uint32_t> ids;
  for (uint32_t n = 0; n < 8; ++n)
    ids.push_back(n);
  rig.push(ids);
  evict_from_dram(rig, ids);
  rig.flash.ok[1] = false;
  auto pull = rig.make_pull(ids);
  rig.start(*pull);
  rig.finish(*pull);
  for (uint32_t n = 0; n < 8; ++n) {
    const bool there = rig.place_of(rig.block(n)).target == 0;
    EXPECT_EQ(pull->code(n), there ? Code::kOk : Code::kUnavailable) << n;
  }
  rig.expect_bytes(*pull, ids);
  rig.expect_at_rest();
}

TEST(Pull, RefusesABlockOfAnotherFormat) {
  Rig rig;
  rig.push({1, 2});
  evict_from_dram(rig, {2});
  SessionFormat other = rig.format;
  other.fingerprint.bytes[0] ^= std::byte{1};
  auto pull = rig.make_pull({1, 2});
  pull->part.format = &other;
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kInvalid) << "from DRAM";
  EXPECT_EQ(pull->code(1), Code::kInvalid) << "from flash";
  EXPECT_EQ(rig.match({1, 2}).found(), 2u) << "the blocks are none the worse for it";
  rig.expect_at_rest();
}

SessionFormat foreign_format(std::vector<uint32_t> layer_bytes, uint32_t ranks = 1) {
  SessionFormat f;
  f.format.model.bytes[0] = std::byte{9};
  std::vector<LayerSpec> layers;
  for (const uint32_t bytes : layer_bytes)
    layers.push_back({LayerKind::kFull, bytes});
  for (uint32_t r = 0; r < ranks; ++r) {
    f.format.ranks.push_back(layers);
    f.tables.push_back(*ExtentTable::of(layers, Scheme{}));
  }
  f.fingerprint = f.format.fingerprint();
  return f;
}

// What a client says of its format must not decide how much of a fragment is read.
TEST(Pull, RefusesFormatsOfEveryOtherShape) {
  Rig rig;
  rig.push({1});
  const std::vector<uint32_t> own = rig.options.layer_bytes;
  std::vector<uint32_t> many(100, 4096);
  const std::vector<SessionFormat> formats = {
      foreign_format({4096, 4096, 4096, 4096}),       // smaller extents
      foreign_format({300000, 70000, 70000, 70000}),  // larger ones
      foreign_format({70000}),                        // fewer
      foreign_format(many),                           // more, with more header pages
      foreign_format({70000, 70000, 70000, 200000}),  // as many pages, otherwise cut
      foreign_format(own, 4),                         // more ranks
      foreign_format(own),                            // the same shape, another model
  };
  for (const bool in_dram : {true, false}) {
    for (size_t f = 0; f < formats.size(); ++f) {
      for (const uint32_t extent_first : {0u, 1u}) {
        if (extent_first >= formats[f].tables[0].extents.size()) continue;
        if (!in_dram) evict_from_dram(rig, {1});
        auto pull = rig.make_pull({1});
        pull->part.format = &formats[f];
        pull->part.extent_first = extent_first;
        pull->part.extent_end = static_cast<uint32_t>(formats[f].tables[0].extents.size());
        rig.start(*pull);
        rig.finish(*pull);
        EXPECT_EQ(pull->code(0), Code::kInvalid) << f << " " << in_dram;
        EXPECT_TRUE(pull->got.empty());
      }
    }
  }
  EXPECT_EQ(rig.match({1}).found(), 1u) << "nothing was lost";
  auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  rig.expect_bytes(*pull, {1});
  rig.expect_at_rest();
}

// While the lead read of someone who believes in another format is under way, the right one waits.
TEST(Pull, IsNotRefusedForAnothersWrongFormat) {
  Rig rig;
  rig.push({1});
  evict_from_dram(rig, {1});
  const SessionFormat other = foreign_format(rig.options.layer_bytes);
  rig.flash.hold_reads = true;
  auto wrong = rig.make_pull({1});
  wrong->part.format = &other;
  auto right = rig.make_pull({1});
  rig.start(*wrong);
  rig.settle();
  rig.start(*right);
  rig.settle();
  EXPECT_FALSE(right->back);
  rig.flash.let_go();
  rig.finish(*wrong);
  rig.finish(*right);
  EXPECT_EQ(wrong->code(0), Code::kInvalid);
  EXPECT_EQ(right->code(0), Code::kOk);
  rig.expect_bytes(*right, {1});
  rig.expect_at_rest();
}

// A pull is cut at each place where it can wait; every time it ends, and nothing is left.
enum class Cut : uint8_t { kCancel, kDeadline };
class PullCut : public testing::TestWithParam<Cut> {
 protected:
  void cut(Rig& rig, Rig::Pull& pull) {
    if (GetParam() == Cut::kCancel) {
      pull.part.cancelled = true;
    } else {
      rig.run_for(200 * kMillisecond);
    }
  }
  std::unique_ptr<Rig::Pull> make(Rig& rig, const std::vector<uint32_t>& blocks) {
    auto pull = rig.make_pull(blocks);
    if (GetParam() == Cut::kDeadline) {
      pull->part.deadline_ns = rig.clock.now_ns() + 100 * kMillisecond;
    }
    return pull;
  }
  Code code() const { return GetParam() == Cut::kCancel ? Code::kCancelled : Code::kTimedOut; }
};

TEST_P(PullCut, BeforeItBegan) {
  Rig rig;
  rig.push({1});
  auto pull = make(rig, {1});
  if (GetParam() == Cut::kDeadline) pull->part.deadline_ns = rig.clock.now_ns();
  pull->part.cancelled = GetParam() == Cut::kCancel;
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->part.status.code(), code());
  EXPECT_EQ(pull->posted_bytes, 0u);
  rig.expect_at_rest();
}

TEST_P(PullCut, WhileItWaitsForCredit) {
  Rig rig;
  rig.push({1});
  rig.hold_credit = true;
  auto pull = make(rig, {1});
  rig.start(*pull);
  rig.settle();
  cut(rig, *pull);
  rig.settle();
  EXPECT_FALSE(pull->back) << "the ask is the session's";
  rig.credit_status = Status::cancelled("pull");
  rig.answer_credit();
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), code());
  EXPECT_EQ(pull->posted_bytes, 0u);
  rig.expect_at_rest();
}

TEST_P(PullCut, WhileTheDeviceReads) {
  Rig rig;
  rig.push({1, 2});
  evict_from_dram(rig, {1, 2});
  rig.flash.hold_reads = true;
  auto pull = make(rig, {1, 2});
  rig.start(*pull);
  rig.settle();
  cut(rig, *pull);
  ASSERT_TRUE(rig.run_until([&] { return pull->back; }, 20 * kMillisecond))
      << "a cancel does not wait for the device";
  expect_all(*pull, code());
  EXPECT_EQ(pull->part.credit_unused_bytes, pull->granted_bytes);
  rig.flash.let_go();
  rig.settle();
  EXPECT_EQ(pull->posted_bytes, 0u);
  rig.expect_at_rest();
}

TEST_P(PullCut, WhileAnotherReaderGoesOn) {
  Rig rig;
  rig.push({1});
  evict_from_dram(rig, {1});
  rig.flash.hold_reads = true;
  auto first = make(rig, {1});
  rig.start(*first);
  rig.settle();
  auto second = rig.make_pull({1});
  rig.start(*second);
  rig.settle();
  cut(rig, *first);
  ASSERT_TRUE(rig.run_until([&] { return first->back; }, 20 * kMillisecond));
  rig.flash.let_go();
  rig.finish(*second);
  EXPECT_EQ(second->code(0), Code::kOk);
  rig.expect_bytes(*second, {1});
  EXPECT_EQ(rig.flash.lead_reads, 1u) << "the read of the pull that was cut served";
  EXPECT_EQ(rig.flash.extent_reads, kBlockReads - 1);
  rig.expect_at_rest();
}

TEST_P(PullCut, WhileFramesAreOnTheLane) {
  Rig rig;
  rig.push({1});
  rig.hold_data = true;
  auto pull = make(rig, {1});
  rig.start(*pull);
  rig.settle();
  ASSERT_GT(rig.sends.size(), 0u);
  cut(rig, *pull);
  rig.settle();
  EXPECT_FALSE(pull->back) << "the lane still needs the slabs";
  rig.data_status = Status::cancelled("lane");
  rig.hold_data = false;
  rig.answer_data();
  rig.finish(*pull);
  EXPECT_EQ(pull->part.status.code(), code());
  rig.expect_at_rest();
}

TEST_P(PullCut, WhileItWaitsForPages) {
  RigOptions options;
  options.pull_pages = 120;
  options.resident_pages = 0;
  Rig rig(options);
  rig.push({1, 2, 3, 4, 5, 6, 7, 8});
  rig.hold_data = true;
  std::vector<std::unique_ptr<Rig::Pull>> first;  // of a session each: one may not take all pages
  for (uint32_t n = 4; n < 9; ++n) {
    first.push_back(rig.make_pull({n}));
    first.back()->part.session = 20 + n;
    rig.start(*first.back());
    rig.settle();
  }
  auto pull = make(rig, {3, 2});
  rig.start(*pull);
  rig.settle();
  ASSERT_GT(rig.context->metrics.pull_room_waits.value(), 0u);
  cut(rig, *pull);
  rig.settle();
  rig.hold_data = false;
  rig.answer_data();
  rig.finish(*pull);
  EXPECT_EQ(pull->part.status.code(), code());
  for (uint32_t n = 4; n < 9; ++n) {
    rig.finish(*first[n - 4]);
    rig.expect_bytes(*first[n - 4], {n});
  }
  rig.expect_at_rest();
}

INSTANTIATE_TEST_SUITE_P(Each, PullCut, testing::Values(Cut::kCancel, Cut::kDeadline),
                         [](const testing::TestParamInfo<Cut>& cut) {
                           return cut.param == Cut::kCancel ? "Cancel" : "Deadline";
                         });

TEST(Pull, EndsWhenTheSessionRefusesItsCredit) {
  Rig rig;
  rig.push({1});
  rig.credit_status = Status::unavailable("session");
  auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->part.status.code(), Code::kUnavailable);
  EXPECT_EQ(pull->code(0), Code::kUnavailable);
  rig.expect_at_rest();
}

TEST(Pull, FailsTheBlocksWhoseFramesTheLaneDidNotTake) {
  Rig rig;
  rig.push({1, 2});
  rig.data_status = Status::unavailable("lane");
  auto pull = rig.make_pull({1, 2});
  rig.start(*pull);
  rig.finish(*pull);
  expect_all(*pull, Code::kUnavailable);
  rig.expect_at_rest();
}

TEST(Pull, StreamsAPrefixManyTimesLargerThanItsPages) {
  RigOptions options;
  options.pull_pages = 160;  // one block and a half
  options.resident_pages = 160;
  options.op.pull_window_bytes = 200000;
  Rig rig(options);
  std::vector<uint32_t> ids;
  for (uint32_t n = 0; n < 12; ++n)
    ids.push_back(n);
  for (const uint32_t n : ids)
    rig.push({n});
  evict_from_dram(rig, ids);
  auto pull = rig.make_pull(ids);
  rig.start(*pull);
  rig.finish(*pull);
  expect_all(*pull, Code::kOk);
  rig.expect_bytes(*pull, ids);
  EXPECT_GT(rig.context->metrics.pull_extents_streamed.value(), 0u);
  EXPECT_EQ(rig.flash.lead_reads, 12u) << "headers stay, no first extent is read twice";
  EXPECT_EQ(rig.flash.extent_reads, 36u);
  rig.expect_at_rest();
}

TEST(Pull, MovesOnWhenHeadersAloneFillItsPages) {
  RigOptions options;
  options.layer_bytes = {70000, 70000};
  options.pull_pages = 60;  // far fewer than a header a block and the extents in progress
  options.resident_pages = 0;
  options.op.pull_window_bytes = 70000;
  Rig rig(options);
  std::vector<uint32_t> ids;
  for (uint32_t n = 0; n < 100; ++n)
    ids.push_back(n);
  for (const uint32_t n : ids)
    rig.push({n});
  auto pull = rig.make_pull(ids);
  rig.start(*pull);
  rig.finish(*pull);
  expect_all(*pull, Code::kOk);
  rig.expect_bytes(*pull, ids);
  EXPECT_GT(rig.context->metrics.pull_sheds.value(), 0u);
  rig.expect_at_rest();
}

TEST(Pull, FailsABlockThatNoPagesCouldEverHold) {
  RigOptions options;
  options.pull_pages = 10;
  options.resident_pages = 0;
  Rig rig(options);
  rig.push({1});
  auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOverloaded);
  rig.expect_at_rest();
}

TEST(Pull, CompetesForPagesWithManyOthersAndAllEnd) {
  RigOptions options;
  options.pull_pages = 200;
  options.resident_pages = 100;
  options.op.pull_window_bytes = 200000;
  Rig rig(options);
  std::vector<uint32_t> ids;
  for (uint32_t n = 0; n < 10; ++n)
    ids.push_back(n);
  for (const uint32_t n : ids)
    rig.push({n});
  evict_from_dram(rig, ids);
  std::vector<std::unique_ptr<Rig::Pull>> pulls;
  std::vector<std::vector<uint32_t>> wants;
  for (uint32_t p = 0; p < 8; ++p) {
    std::rotate(ids.begin(), ids.begin() + 3, ids.end());
    wants.push_back(ids);
    pulls.push_back(rig.make_pull(ids));
    rig.start(*pulls.back());
  }
  for (uint32_t p = 0; p < 8; ++p) {
    rig.finish(*pulls[p]);
    expect_all(*pulls[p], Code::kOk);
    rig.expect_bytes(*pulls[p], wants[p]);
  }
  rig.expect_at_rest();
}

TEST(Pull, RefusesWhenAllPullsAreBusy) {
  RigOptions options;
  options.op.pulls_max = 1;
  Rig rig(options);
  rig.push({1});
  rig.hold_data = true;
  auto first = rig.make_pull({1});
  auto second = rig.make_pull({1});
  rig.start(*first);
  rig.start(*second);
  rig.finish(*second);
  EXPECT_EQ(second->part.status.code(), Code::kOverloaded);
  EXPECT_EQ(second->code(0), Code::kOverloaded);
  rig.hold_data = false;
  rig.settle();
  rig.answer_data();
  rig.finish(*first);
  rig.expect_at_rest();
}

TEST(Pull, FeedsRecencyFromLeafToRoot) {
  RigOptions options;
  options.targets = 1;
  options.op.slices = 1;
  Rig rig(options);
  for (uint32_t n = 0; n < 3; ++n)
    rig.push({n});
  auto pull = rig.make_pull({0, 1, 2});
  rig.start(*pull);
  rig.finish(*pull);
  std::vector<BaseId> order;
  for (uint32_t slot = rig.eviction->victim(0, kNoSlot); slot != kNoSlot;
       slot = rig.eviction->victim(0, slot)) {
    order.push_back(rig.index.block_at(slot, 0).base);
  }
  EXPECT_EQ(order, (std::vector<BaseId>{rig.id(2), rig.id(1), rig.id(0)}));
}

TEST(Pull, ReadsABlockThatIsStillBeingWritten) {
  Rig rig;
  rig.flash.hold_appends = true;
  const GrantLoan loan = rig.reserve({1}).loans[0];
  rig.fill(loan, 1);
  EXPECT_TRUE(rig.commit(loan).ok());
  auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  rig.expect_bytes(*pull, {1});
  rig.flash.let_go();
  rig.expect_at_rest();
}

TEST(Pull, NeverReadsAnotherAttemptIntoABlockThatWasReplaced) {
  Rig rig;
  rig.push({1});
  evict_from_dram(rig, {1});
  rig.hold_data = true;
  auto pull = rig.make_pull({1});
  pull->part.extent_end = 2;
  rig.context->options.pull_window_bytes = 70000;  // the second extent waits for the first
  rig.start(*pull);
  rig.settle();
  auto whole = rig.make_pull({1});
  rig.hold_credit = true;
  rig.start(*whole);
  rig.settle();
  Catalog& catalog = rig.operations->catalog();
  catalog.lost(rig.block(1), rig.place_of(rig.block(1)), flash::DropReason::kRot);
  rig.push({1});  // a new attempt of the same block
  evict_from_dram(rig, {1});
  rig.hold_credit = rig.hold_data = false;
  rig.answer_credit();
  rig.answer_data();
  rig.finish(*pull);
  rig.finish(*whole);
  EXPECT_EQ(rig.match({1}).found(), 1u) << "the new attempt is untouched";
  rig.expect_bytes(*pull, {1});
  rig.expect_bytes(*whole, {1});
  rig.expect_at_rest();
}

TEST(Pull, LosesABlockThatVanishesUnderItAndDeliversTheRest) {
  Rig rig;
  rig.push({1, 2});
  evict_from_dram(rig, {1, 2});
  rig.hold_credit = true;
  auto pull = rig.make_pull({1, 2});
  rig.start(*pull);
  rig.settle();
  rig.operations->catalog().lost(rig.block(1), rig.place_of(rig.block(1)), flash::DropReason::kRot);
  rig.hold_credit = false;
  rig.answer_credit();
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kUnavailable);
  EXPECT_EQ(pull->code(1), Code::kOk);
  rig.expect_bytes(*pull, {1, 2});
  rig.expect_at_rest();
}

}  // namespace
}  // namespace varve
