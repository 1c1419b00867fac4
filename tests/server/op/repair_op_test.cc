// Goal: a block that lacks fragments gets exactly those back, byte for byte, from whatever is left,
// and nothing that does not verify; whoever interferes gets his way and nothing is left over.
// Method: RepairRig, real flash on platters: every loss that a scheme bears, blocks of many shapes,
// rot, lies, stuck and failed drives, evictions and successors while a visit is in progress.
#include "server/op/repair_op.h"

#include <bit>

#include "tests/server/op/repair_rig.h"

namespace varve {
namespace {

TEST(RepairOp, RebuildsEveryLossThatASchemeBears) {
  for (const Scheme scheme : kSchemes) {
    if (scheme.m == 0) continue;
    RepairRig rig({.scheme = scheme,
                   .targets = scheme.width() + 1,
                   .target_bytes = scheme.width() > 7 ? 32 * kMiB : 64 * kMiB,
                   .slices = 2});
    uint32_t blocks = 0;
    for (uint32_t missing = 1; missing <= rig.all(); ++missing) {
      const auto count = static_cast<uint32_t>(std::popcount(missing));
      if (count > scheme.m) continue;
      if (scheme.width() > 7 && missing % 7 != 0 && count > 1) continue;  // a seventh will do
      rig.put(blocks++, missing);
    }
    rig.wake();
    ASSERT_TRUE(rig.run_until_whole()) << scheme.text();
    for (uint32_t n = 0; n < blocks; ++n)
      rig.expect_whole(n);
    EXPECT_EQ(rig.visits(RepairOutcome::kDone), blocks) << "all of a block in one visit";
    rig.expect_at_rest();
  }
}

TEST(RepairOp, RebuildsBlocksOfAnyShape) {
  const std::vector<std::vector<uint32_t>> shapes = {
      {100},                                 // cut no further: fewer extents than k
      {5000},                                // two extents
      {70000},                               // cut in k
      {70000, 70000, 70000, 70000, 66000},   // a last stripe of one
      {70000, 300000, 66000, 66000, 66000},  // stripes by size class
      std::vector<uint32_t>(130, 4096),      // runs
      std::vector<uint32_t>(100, 66000),     // a table of two pages
  };
  for (const auto& shape : shapes) {
    RepairRig rig({.scheme = {.k = 4, .m = 2},
                   .targets = 7,
                   .target_bytes = 32 * kMiB,
                   .segment_pages = 512,
                   .layer_bytes = shape});
    uint32_t blocks = 0;
    for (uint32_t p = 0; p < 6; ++p)
      rig.put(blocks++, 1u << p | 1u << (p + 1) % 6);
    rig.wake();
    ASSERT_TRUE(rig.run_until_whole());
    for (uint32_t n = 0; n < blocks; ++n)
      rig.expect_whole(n);
    rig.expect_at_rest();
    rig.power_cut();
    rig.boot();
    for (uint32_t n = 0; n < blocks; ++n)
      rig.expect_whole(n);
  }
}

// Pages lie anywhere: every second one of the arena is taken.
TEST(RepairOp, RebuildsIntoScatteredPages) {
  RepairRig rig({.targets = 3});
  std::vector<Slab> taken, holes;
  while (rig.arena->free_pages() > 0)
    (taken.size() == holes.size() ? taken : holes).push_back(rig.arena->take(1));
  for (Slab& slab : holes)
    rig.arena->give(slab);
  rig.put(0, 1);
  rig.put(1, 4);
  rig.wake();
  ASSERT_TRUE(rig.run_until_whole());
  rig.expect_whole(0);
  rig.expect_whole(1);
  for (Slab& slab : taken)
    rig.arena->give(slab);
}

TEST(RepairOp, TakesTheTargetsThatAPushWouldTake) {
  RepairRig rig({.targets = 6});
  for (uint32_t n = 0; n < 20; ++n) {
    rig.put(n, 0);
    const uint32_t position = n % 3;
    const Located whole = rig.locate(n);
    const uint32_t home = rig.index->place_of(whole, position).target;
    rig.operations->catalog().lost(rig.block(n), rig.index->place_of(whole, position),
                                   flash::DropReason::kRot);
    ASSERT_TRUE(rig.run_until_whole());
    EXPECT_EQ(rig.index->place_of(rig.locate(n), position).target, home);
  }
}

TEST(RepairOp, FlagsAFragmentThatLeavesTheBlockThin) {
  // Two positions are missing and only one further target is there.
  RepairRig rig({.scheme = {.k = 4, .m = 2}, .targets = 5});
  rig.put(0, 0x21);
  rig.wake();
  ASSERT_TRUE(rig.run_until([&] { return rig.visits(RepairOutcome::kDone) == 1; }));
  const Located located = rig.locate(0);
  EXPECT_EQ(std::popcount(located.live), 5);
  EXPECT_TRUE(located.has(0)) << "data first";
  std::vector<ExtentEntry> rows;
  EXPECT_EQ(rig.read_lead(located, rig.block(0), 0, &rows).flags, flash::kFragmentThin);
}

TEST(RepairOp, DoesWithoutASourceThatRots) {
  RepairRig rig({.scheme = {.k = 4, .m = 2}, .targets = 7});
  rig.put(0, 1);
  uint32_t victim = 0;  // a data extent that the first visit reads
  while (!rig.locate(0).has(flash::position_at(rig.table, rig.block(0), victim)))
    ++victim;
  rig.rot(0, victim);
  rig.wake();
  ASSERT_TRUE(rig.run_until([&] { return rig.visits(RepairOutcome::kDone) == 1; }));
  ASSERT_TRUE(rig.run_until_whole()) << "and what rotted is rebuilt by the next visit";
  rig.expect_whole(0);
  EXPECT_EQ(
      rig.context->metrics.lost_fragments[static_cast<uint32_t>(flash::DropReason::kRot)].value(),
      1u);
  rig.expect_at_rest();
}

TEST(RepairOp, GivesUpABlockThatLosesTooMuch) {
  RepairRig rig({.targets = 4});
  rig.put(0, 1);
  const uint32_t victim =
      flash::position_at(rig.table, rig.block(0), 0) == 0 ? 1 : 0;  // of the data that is left
  rig.rot(0, victim);
  rig.wake();
  ASSERT_TRUE(rig.run_until_whole());
  EXPECT_FALSE(rig.index->find(rig.block(0)).has_value());
  EXPECT_EQ(rig.visits(RepairOutcome::kGone), 1u);
  rig.expect_at_rest();
}

// Parity that was never that of its data: what it gives is not what the table says, and is not
// written, whatever the checksums of the sources say (R1).
TEST(RepairOp, WritesNothingThatDoesNotVerify) {
  RepairRig rig({.targets = 4});
  const uint32_t parity = rig.table.parity_at(0, 0);
  rig.put(0, 1, 1u << parity);
  rig.put(1, 1u << 2, 1u << parity);  // parity itself cannot be made again either
  rig.put(2, 1u << 2, 0, 1u << parity);
  rig.wake();
  ASSERT_TRUE(rig.run_until([&] { return rig.visits(RepairOutcome::kCorrupt) >= 3; }));
  EXPECT_EQ(rig.visits(RepairOutcome::kDone), 0u);
  EXPECT_EQ(rig.locate(0).live, 0b110);
  EXPECT_EQ(rig.locate(1).live, 0b011);
  EXPECT_EQ(rig.locate(2).live, 0b011);
  rig.expect_at_rest();
}

TEST(RepairOp, PinsTheBlockUntilItHasEnded) {
  RepairRig rig({.targets = 4});
  rig.put(0, 1);
  const Located located = rig.locate(0);
  rig.run_for(20 * kMillisecond);  // the grace after the start is over
  rig.wake();
  ASSERT_TRUE(rig.run_until([&] { return rig.context->repair->live() == 1; }));
  EXPECT_EQ(rig.operations->catalog().evict(located.base_slot), 0u);
  ASSERT_TRUE(rig.run_until_whole());
  rig.expect_whole(0);
  EXPECT_GT(rig.operations->catalog().evict(located.base_slot), 0u);
  rig.expect_at_rest();
}

// At any moment of the visit: what was being rebuilt goes, and another attempt takes its name.
TEST(RepairOp, LeavesTheSuccessorOfABlockAlone) {
  for (uint32_t moment = 0; moment < 15; ++moment) {
    RepairRig rig({.targets = 4});
    rig.put(0, 1);
    rig.wake();
    ASSERT_TRUE(rig.run_until([&] { return rig.context->repair->live() == 1; }));
    rig.run_for(moment * 200 * kMicrosecond);
    const bool in_progress = rig.context->repair->live() == 1;
    rig.operations->catalog().drop(rig.block(0), rig.locate(0));
    rig.put(0, 1);
    ASSERT_TRUE(rig.run_until_whole()) << moment;
    rig.expect_whole(0);
    EXPECT_EQ(rig.visits(RepairOutcome::kGone), in_progress ? 1u : 0u) << moment;
    EXPECT_EQ(rig.visits(RepairOutcome::kDone), in_progress ? 1u : 2u) << moment;
    rig.expect_at_rest();
  }
}

// A device keeps what it was asked for: its pages stay out of use until it gives them back, the
// visit ends, and the block is rebuilt from others. Reads and appends: at any moment.
TEST(RepairOp, LeavesPagesToADeviceThatIsStuck) {
  uint32_t failed = 0, kept_some = 0;
  for (uint32_t moment = 0; moment < 12; ++moment) {
    const uint32_t target = moment % 5;
    RepairRig rig({.scheme = {.k = 2, .m = 1}, .targets = 5});
    for (uint32_t n = 0; n < 8; ++n)
      rig.put(n, 1u << n % 3);
    rig.wake();
    ASSERT_TRUE(rig.run_until([&] { return rig.context->repair->live() > 0; }));
    rig.run_for(moment * 150 * kMicrosecond);
    rig.devices[target]->stuck_set(true);
    rig.run_for(1 * kSecond);
    EXPECT_FALSE(rig.flash->target_suspect(target)) << "nobody waits for what repair reads";
    rig.run_for(60 * kSecond);
    EXPECT_EQ(rig.context->repair->live(), 0u);
    const uint64_t kept = rig.tier->used_bytes(Budget::kRepair);
    EXPECT_EQ(kept > 0, !rig.context->repair->at_rest()) << moment;
    kept_some += kept > 0 ? 1 : 0;
    for (uint32_t n = 0; n < 8 && !rig.flash->target_ok(target); ++n) {
      if (rig.index->find(rig.block(n))) rig.expect_whole(n);  // with two of three lost it is gone
    }
    failed += rig.flash->target_ok(target) ? 0 : 1;
    rig.devices[target]->stuck_set(false);
    rig.run_for(1 * kSecond);
    EXPECT_TRUE(rig.context->repair->at_rest());
    EXPECT_EQ(rig.tier->used_bytes(Budget::kRepair), 0u);
    EXPECT_EQ(rig.index->thin_count(), 0u);
  }
  EXPECT_GT(failed, 2u);
  EXPECT_GT(kept_some, 2u);
}

// A drive that keeps a reader waiting is not asked while others suffice.
TEST(RepairOp, DoesWithoutASuspectTarget) {
  RepairRig rig({.scheme = {.k = 4, .m = 2}, .targets = 7});
  rig.put(0, 1u << 5);
  const Located located = rig.locate(0);
  const flash::Place place = rig.index->place_of(located, 0);
  std::vector<std::byte> memory(bytes_of(place.lead_pages + 1));
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  iovec run = {memory.data() + (round_up(address, kPageBytes) - address),
               bytes_of(place.lead_pages)};
  bool done = false;
  flash::Read read;
  read.kind = flash::Read::Kind::kLead;
  read.block = rig.block(0);
  read.place = place;
  read.runs = {&run, 1};
  read.owner = &done;
  read.on_done = [](flash::Read& r) { *static_cast<bool*>(r.owner) = true; };
  rig.devices[place.target]->stuck_set(true);
  rig.flash->read(read);
  rig.run_for(500 * kMillisecond);
  ASSERT_TRUE(rig.flash->target_suspect(place.target));
  rig.wake();
  ASSERT_TRUE(rig.run_until_whole(2 * kSecond)) << "before the drive is given up";
  rig.devices[place.target]->stuck_set(false);
  ASSERT_TRUE(rig.run_until([&] { return done; }));
  EXPECT_TRUE(read.status.ok());
  rig.expect_whole(0);
}

TEST(RepairOp, EndsAtADrainAtAnyMoment) {
  uint64_t stopped = 0;
  for (uint32_t moment = 0; moment < 15; ++moment) {
    RepairRig rig({.targets = 4});
    for (uint32_t n = 0; n < 6; ++n)
      rig.put(n, 1u << n % 3);
    rig.wake();
    ASSERT_TRUE(rig.run_until([&] { return rig.context->repair->live() > 0; }));
    rig.run_for(moment * 400 * kMicrosecond);
    rig.operations->drain();
    ASSERT_TRUE(rig.run_until([&] { return rig.operations->pushes_done(); }, 1 * kSecond));
    rig.expect_at_rest();
    const uint64_t done = rig.visits(RepairOutcome::kDone);
    stopped += rig.visits(RepairOutcome::kStopped);
    rig.run_for(100 * kSecond);
    EXPECT_EQ(rig.visits(RepairOutcome::kDone), done) << "nothing new begins";
    EXPECT_LE(rig.visits(RepairOutcome::kStopped), 4u) << "and nothing is tried";
    rig.stop();
    rig.boot();
    ASSERT_TRUE(rig.run_until_whole());
    for (uint32_t n = 0; n < 6; ++n)
      rig.expect_whole(n);
  }
  EXPECT_GT(stopped, 3u) << "what is not being written is not waited for";
}

}  // namespace
}  // namespace varve
