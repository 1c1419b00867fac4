// Goal: a target that is to be taken out is emptied while it works: never a copy fewer at any
// moment, nothing lost whatever fails or is cut off meanwhile, blocks in danger first; and once it
// is empty its loss costs nothing.
// Method: RepairRig; blocks are put on all targets, and a start later one of them is drained.
#include <algorithm>
#include <bit>

#include "server/op/repair.h"
#include "tests/server/op/repair_rig.h"

namespace varve {
namespace {

constexpr uint32_t kDrained = 1;  // target

// Without parity nothing is set aside, as on a node.
RepairRigOptions of(Scheme scheme) {
  return {.scheme = scheme,
          .targets = scheme.width() + 1,
          .repair_pages = scheme.m > 0 ? 2048u : 0u,
          .target_bytes = 32 * kMiB};
}

void drain(RepairRig& rig) {
  rig.power_cut();
  rig.options.draining_targets = 1u << kDrained;
  rig.boot();
}

bool is_empty(const RepairRig& rig) {
  return rig.index->fragments_on(kDrained) == 0;
}

bool run_until_empty(RepairRig& rig, Nanos for_ns = 100 * kSecond) {
  return rig.run_until([&] { return is_empty(rig) && rig.context->repair->at_rest(); }, for_ns);
}

// The drive is gone for good, and another one has its place.
void take_out(RepairRig& rig) {
  rig.power_cut();
  rig.platters[kDrained] = std::make_unique<MemoryPlatter>(rig.options.target_bytes);
  rig.options.draining_targets = 0;
  rig.boot();
}

class Drain : public ::testing::TestWithParam<Scheme> {};

TEST_P(Drain, EmptiesTheTargetAndNoBlockEverHasAFragmentLess) {
  RepairRig rig(of(GetParam()));
  for (uint32_t n = 0; n < 12; ++n)
    rig.put(n, 0);
  drain(rig);
  const uint32_t count = rig.index->fragments_on(kDrained);
  EXPECT_GT(count, 1u);
  bool whole = true;
  ASSERT_TRUE(rig.run_until([&] {
    whole = whole && rig.index->thin_count() == 0 && rig.index->block_count() == 12;
    return is_empty(rig) && rig.context->repair->at_rest();
  }));
  EXPECT_TRUE(whole);
  EXPECT_EQ(rig.visits(RepairOutcome::kDone), count);
  EXPECT_EQ(rig.flash->usage(kDrained).live_pages, 0u);
  for (uint32_t n = 0; n < 12; ++n)
    rig.expect_whole(n);
  rig.expect_at_rest();
  take_out(rig);
  EXPECT_EQ(rig.index->block_count(), 12u);
  EXPECT_EQ(rig.index->thin_count(), 0u);
  for (uint32_t n = 0; n < 12; ++n)
    rig.expect_whole(n);
}

// What was moved is durable before the other copy is given up; of two that are found one counts.
TEST_P(Drain, LosesAndDoublesNothingInAPowerCut) {
  for (uint32_t moment = 0; moment < 16; ++moment) {
    RepairRig rig(of(GetParam()));
    for (uint32_t n = 0; n < 8; ++n)
      rig.put(n, 0);
    drain(rig);
    ASSERT_TRUE(rig.run_until([&] { return rig.context->repair->live() > 0; }));
    rig.run_for(moment * 1700 * kMicrosecond);
    rig.power_cut();
    // Expect: whether the next start goes on or not, all is there, and once.
    if (moment % 2 == 1) rig.options.draining_targets = 0;
    rig.boot();
    EXPECT_EQ(rig.index->block_count(), 8u) << moment;
    EXPECT_EQ(rig.index->thin_count(), 0u) << moment;
    for (uint32_t n = 0; n < 8; ++n)
      rig.expect_whole(n);
    if (moment % 2 == 1) continue;
    ASSERT_TRUE(run_until_empty(rig)) << moment;
    take_out(rig);
    EXPECT_EQ(rig.index->block_count(), 8u) << moment;
    for (uint32_t n = 0; n < 8; ++n)
      rig.expect_whole(n);
  }
}

// A place that cannot be read there is rebuilt from the others, where there are any.
TEST_P(Drain, RebuildsWhatItCannotRead) {
  RepairRig rig(of(GetParam()));
  uint32_t n = 0;
  rig.put(n, 0);
  while (rig.index->fragments_on(kDrained) == 0)
    rig.put(++n, 0);
  uint32_t extent = 0;  // of those that lie there
  const auto target_of = [&](uint32_t e) {
    const uint32_t position = flash::position_at(rig.table, rig.block(n), e);
    return rig.index->place_of(rig.locate(n), position).target;
  };
  drain(rig);
  while (target_of(extent) != kDrained)
    ++extent;
  rig.rot(n, extent);
  ASSERT_TRUE(run_until_empty(rig));
  ASSERT_TRUE(rig.run_until_whole());
  EXPECT_EQ(
      rig.context->metrics.lost_fragments[static_cast<uint32_t>(flash::DropReason::kRot)].value(),
      1u);
  EXPECT_EQ(rig.index->block_count(), GetParam().m > 0 ? n + 1 : n);
  if (GetParam().m > 0) rig.expect_whole(n);
  rig.expect_at_rest();
}

// At any moment of the move: the block goes, and another attempt takes its name.
TEST_P(Drain, LeavesTheSuccessorOfABlockAlone) {
  for (uint32_t moment = 0; moment < 12; ++moment) {
    RepairRig rig(of(GetParam()));
    uint32_t n = 0;
    rig.put(n, 0);
    while (rig.index->fragments_on(kDrained) == 0)
      rig.put(++n, 0);
    drain(rig);
    ASSERT_TRUE(rig.run_until([&] { return rig.context->repair->live() == 1; }));
    rig.run_for(moment * 200 * kMicrosecond);
    rig.operations->catalog().drop(rig.block(n), rig.locate(n));
    rig.put(n, 0);
    ASSERT_TRUE(run_until_empty(rig)) << moment;
    rig.expect_whole(n);
    rig.expect_at_rest();
  }
}

// A drain that the operator begins, and takes back, while the node runs: at any moment nothing has
// a fragment less, and what was moved stays moved.
TEST_P(Drain, BeginsAndEndsAtAnyMoment) {
  for (uint32_t moment = 0; moment < 12; ++moment) {
    RepairRigOptions options = of(GetParam());
    RepairRig rig(options);
    ASSERT_TRUE(rig.operations->repairs());
    for (uint32_t n = 0; n < 8; ++n)
      rig.put(n, 0);
    const uint32_t held = rig.index->fragments_on(kDrained);
    ASSERT_GT(held, 0u);
    rig.operations->draining_set(kDrained, Draining::kOn);
    rig.run_for(moment * 300 * kMicrosecond);
    EXPECT_EQ(rig.index->thin_count(), 0u);
    rig.operations->draining_set(kDrained, Draining::kOff);
    ASSERT_TRUE(rig.run_until([&] { return rig.context->repair->at_rest(); }));
    const uint32_t left = rig.index->fragments_on(kDrained);
    rig.run_for(10 * kSecond);
    EXPECT_EQ(rig.index->fragments_on(kDrained), left) << "nothing leaves it any more";
    EXPECT_LE(left, held);
    rig.operations->draining_set(kDrained, Draining::kOn);
    ASSERT_TRUE(run_until_empty(rig)) << moment;
    EXPECT_EQ(rig.index->block_count(), 8u);
    EXPECT_EQ(rig.index->thin_count(), 0u);
    for (uint32_t n = 0; n < 8; ++n)
      rig.expect_whole(n);
    rig.expect_at_rest();
  }
}

// Expect: what is moved at once is in memory of the cache, never more than pushes may hold, and the
// cache has all of it back when nothing moves. While readers pin the cache nothing is moved, nor
// lost, and it goes on when they let go.
TEST(DrainTarget, BorrowsOfTheCacheWhereThereIsNoParity) {
  RepairRig rig(of({.k = 1, .m = 0}));
  for (uint32_t n = 0; n < 12; ++n)
    rig.put(n, 0);
  const uint64_t cache = rig.tier->limit_bytes(Budget::kResident);
  EXPECT_EQ(rig.tier->limit_bytes(Budget::kRepair), 0u);
  ASSERT_TRUE(rig.tier->shift_limit(Budget::kResident, Budget::kPull, pages_of(cache)));
  rig.operations->draining_set(kDrained, Draining::kOn);
  rig.run_for(3 * kSecond);
  EXPECT_FALSE(is_empty(rig));
  EXPECT_GT(rig.visits(RepairOutcome::kNoMemory), 0u);
  ASSERT_TRUE(rig.tier->shift_limit(Budget::kPull, Budget::kResident, pages_of(cache)));
  uint64_t most = 0;
  ASSERT_TRUE(rig.run_until([&] {
    most = std::max(most, rig.tier->limit_bytes(Budget::kRepair));
    EXPECT_EQ(rig.tier->limit_bytes(Budget::kRepair) + rig.tier->limit_bytes(Budget::kResident),
              cache);
    return is_empty(rig) && rig.context->repair->at_rest();
  }));
  EXPECT_GT(most, 0u);
  EXPECT_LE(most, rig.tier->limit_bytes(Budget::kPush));
  EXPECT_EQ(rig.tier->limit_bytes(Budget::kResident), cache);
  for (uint32_t n = 0; n < 12; ++n)
    rig.expect_whole(n);
  rig.expect_at_rest();
}

INSTANTIATE_TEST_SUITE_P(Schemes, Drain,
                         ::testing::Values(Scheme{1, 0}, Scheme{1, 1}, Scheme{2, 1}, Scheme{4, 2}),
                         [](const auto& of_test) {
                           return std::to_string(of_test.param.k) + "p" +
                                  std::to_string(of_test.param.m);
                         });

TEST(DrainTarget, WaitsWhileNoOtherTargetCanTakeIt) {
  RepairRig rig({.targets = 3});
  for (uint32_t n = 0; n < 5; ++n)
    rig.put(n, 0);
  drain(rig);
  rig.run_for(60 * kSecond);
  EXPECT_EQ(rig.index->fragments_on(kDrained), 5u);
  EXPECT_GE(rig.visits(RepairOutcome::kUnplaced), 5u);
  EXPECT_LE(rig.visits(RepairOutcome::kUnplaced), 5u * 8) << "the pause grows";
  EXPECT_EQ(rig.context->metrics.repair_read_bytes.value(), 0u);
  for (uint32_t n = 0; n < 5; ++n)
    rig.expect_whole(n);
}

TEST(DrainTarget, GoesNoFasterThanRepairMayAndTellsWhen) {
  constexpr uint64_t kRate = 1000 * 1000;
  RepairRig rig({.bytes_per_s = kRate});
  for (uint32_t n = 0; n < 20; ++n)
    rig.put(n, 0);
  drain(rig);
  rig.run_for(3 * kSecond);
  const uint64_t early = rig.context->metrics.repair_bytes[0].value();
  EXPECT_GT(early, 0u);
  EXPECT_LE(early, 3 * kRate + 4 * 512 * kKiB);
  EXPECT_GT(rig.index->fragments_on(kDrained), 0u);
  EXPECT_GT(rig.context->metrics.repair_eta_s.value(), 0);
  ASSERT_TRUE(run_until_empty(rig));
  rig.context->repair->watch();
  EXPECT_EQ(rig.context->metrics.repair_eta_s.value(), 0);
}

// Blocks that can lose nothing more, then thin ones, then what is moved.
TEST(DrainTarget, ComesAfterWhatIsInDanger) {
  RepairRig rig({.scheme = {.k = 4, .m = 2},
                 .targets = 7,
                 .target_bytes = 32 * kMiB,
                 .bytes_per_s = 4 * 1000 * 1000,
                 .repairs_max = 1});
  for (uint32_t n = 0; n < 24; ++n)
    rig.put(n, n % 4 == 0 ? 0b000011 : n % 4 == 1 ? 0b000001 : 0);
  drain(rig);
  const uint32_t held = rig.index->fragments_on(kDrained);
  const auto endangered = [&] {
    uint32_t count = 0;
    for (uint32_t n = 0; n < 24; ++n)
      count += std::popcount(rig.locate(n).live) == 4 ? 1 : 0;
    return count;
  };
  EXPECT_EQ(endangered(), 6u);
  ASSERT_TRUE(rig.run_until([&] { return endangered() == 0; }));
  EXPECT_GE(rig.index->thin_count(), 6u) << "the others wait";
  ASSERT_TRUE(rig.run_until([&] { return rig.index->thin_count() == 0; }));
  EXPECT_EQ(rig.index->fragments_on(kDrained), held);
  ASSERT_TRUE(rig.run_until([&] { return rig.index->fragments_on(kDrained) < held; }));
  // Expect: a block that becomes thin meanwhile does not wait for the end of the drain.
  const Located located = rig.locate(2);
  const uint32_t position = rig.index->place_of(located, 0).target == kDrained ? 1 : 0;
  rig.operations->catalog().lost(rig.block(2), rig.index->place_of(located, position),
                                 flash::DropReason::kRot);
  ASSERT_TRUE(rig.run_until([&] { return rig.index->thin_count() == 0; }));
  ASSERT_TRUE(run_until_empty(rig));
  for (uint32_t n = 0; n < 24; ++n)
    rig.expect_whole(n);
}

// It fails in the middle: what it held is lost, and rebuilt as after any failure.
TEST(DrainTarget, ThatFailsMeanwhileIsRepaired) {
  for (uint32_t moment = 0; moment < 6; ++moment) {
    RepairRig rig({.targets = 4});
    for (uint32_t n = 0; n < 10; ++n)
      rig.put(n, 0);
    drain(rig);
    ASSERT_TRUE(rig.run_until([&] { return rig.context->repair->live() > 0; }));
    rig.run_for(moment * 700 * kMicrosecond);
    rig.devices[kDrained]->stuck_set(true);
    rig.run_for(60 * kSecond);
    EXPECT_EQ(rig.index->fragments_on(kDrained), 0u) << moment;
    EXPECT_EQ(rig.index->thin_count(), 0u) << moment;
    for (uint32_t n = 0; n < 10; ++n)
      rig.expect_whole(n);
    rig.devices[kDrained]->stuck_set(false);
    rig.run_for(1 * kSecond);
    rig.expect_at_rest();
  }
}

// A block that is thin and cannot be made whole is moved all the same.
TEST(DrainTarget, MovesWhatCannotBeRebuilt) {
  RepairRig rig({.targets = 4});
  const uint32_t parity = rig.table.parity_at(0, 0);
  uint32_t n = 0;
  rig.put(n, 1, 1u << parity);
  while (rig.index->fragments_on(kDrained) == 0)
    rig.put(++n, 1, 1u << parity);
  testing::internal::CaptureStderr();
  drain(rig);
  ASSERT_TRUE(run_until_empty(rig));
  for (uint32_t i = 0; i < 20; ++i) {
    rig.wake();
    rig.run_for(2 * kSecond);
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(rig.locate(n).live, 0b110);
  EXPECT_GE(rig.visits(RepairOutcome::kCorrupt), 10u);
  const std::string said = "cannot be rebuilt and stays as it is";
  const size_t first = log.find(said);
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find(said, first + 1), std::string::npos) << "once a minute";
}

}  // namespace
}  // namespace varve
