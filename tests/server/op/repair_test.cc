// Goal: thin blocks are found and made whole in the background: at a bounded rate, within the
// memory there is, again and again while something can be done and seldom while nothing can;
// restarts lose nothing and double nothing. Method: RepairRig, simulated time.
#include "server/op/repair.h"

#include <bit>

#include "tests/server/op/repair_rig.h"

namespace varve {
namespace {

uint64_t fragment_bytes(RepairRig& rig, uint32_t n, uint32_t position) {
  return bytes_of(flash::fragment_pages_of(rig.table, rig.block(n), position));
}

TEST(RepairTable, FindsWhatIsThinAfterAStart) {
  RepairRig rig({});
  for (uint32_t n = 0; n < 12; ++n)
    rig.put(n, n % 3 == 0 ? 0 : 1u << n % 3);
  rig.power_cut();
  rig.boot();
  EXPECT_EQ(rig.index->thin_count(), 8u);
  ASSERT_TRUE(rig.run_until_whole());
  for (uint32_t n = 0; n < 12; ++n)
    rig.expect_whole(n);
  EXPECT_EQ(rig.visits(RepairOutcome::kDone), 8u);
  rig.expect_at_rest();
}

TEST(RepairTable, MakesBlocksWholeAfterATargetFails) {
  RepairRig rig({.targets = 5});
  for (uint32_t n = 0; n < 16; ++n)
    rig.put(n, 0);
  rig.unplug(2);
  ASSERT_TRUE(rig.run_until([&] { return !rig.operations->catalog().losing(); }));
  EXPECT_GT(rig.index->thin_count(), 4u);
  rig.run_for(30 * kSecond);
  EXPECT_EQ(rig.index->thin_count(), 0u);
  for (uint32_t n = 0; n < 16; ++n) {
    const Located now = rig.locate(n);
    ASSERT_EQ(now.live, rig.all());
    for (uint32_t p = 0; p < 3; ++p)
      EXPECT_NE(rig.index->place_of(now, p).target, 2);
  }
  EXPECT_EQ(rig.index->block_count(), 16u);
}

TEST(RepairTable, WaitsForATargetWithoutHaste) {
  RepairRig rig({.targets = 3});
  for (uint32_t n = 0; n < 5; ++n)
    rig.put(n, 0);
  rig.unplug(1);
  rig.run_for(10 * 60 * kSecond);
  EXPECT_EQ(rig.index->thin_count(), 5u);
  const uint64_t visits = rig.visits(RepairOutcome::kUnplaced);
  EXPECT_GE(visits, 5u);
  EXPECT_LE(visits, 5u * 20) << "the pause grows";
  EXPECT_EQ(rig.context->metrics.repair_read_bytes.value(), 0u) << "seen without I/O";
  EXPECT_EQ(rig.context->metrics.repair_eta_s.value(), 0);
  rig.power_cut();
  rig.boot();  // the target is back, and so is what lay there
  ASSERT_TRUE(rig.run_until_whole());
  for (uint32_t n = 0; n < 5; ++n)
    rig.expect_whole(n);
}

TEST(RepairTable, UsesSpaceThatComesBack) {
  RepairRig rig({.targets = 3});
  rig.put(0, 1);
  rig.put(1, 1u << 1);
  std::vector<uint32_t> held[3];
  for (uint32_t n = 0; n < 2; ++n)  // a full drive evicts what is not wanted
    rig.index->lease_add(rig.locate(n).base_slot);
  for (uint32_t t = 0; t < 3; ++t) {  // all the room there is
    for (uint32_t slice = 0; slice < 2; ++slice) {
      uint32_t count = 0;
      while (rig.flash->reserve(t, slice, 30))
        ++count;
      held[t].push_back(count);
    }
  }
  rig.wake();
  rig.run_for(100 * kSecond);
  EXPECT_EQ(rig.index->thin_count(), 2u);
  EXPECT_GE(rig.visits(RepairOutcome::kNoSpace), 2u);
  EXPECT_EQ(rig.visits(RepairOutcome::kDone), 0u);
  EXPECT_EQ(rig.tier->used_bytes(Budget::kRepair), 0u);
  for (uint32_t t = 0; t < 3; ++t) {
    for (uint32_t slice = 0; slice < 2; ++slice) {
      for (uint32_t i = 0; i < held[t][slice]; ++i)
        rig.flash->unreserve(t, slice, 30);
    }
  }
  ASSERT_TRUE(rig.run_until_whole(5 * kSecond)) << "nobody calls: it looks by itself";
  rig.expect_whole(0);
  rig.expect_whole(1);
  for (uint32_t n = 0; n < 2; ++n)
    rig.index->lease_drop(rig.locate(n).base_slot);
}

TEST(RepairTable, WritesNoFasterThanItMay) {
  constexpr uint64_t kRate = 1000 * 1000;
  RepairRig rig({.bytes_per_s = kRate});
  uint64_t bytes = 0;
  for (uint32_t n = 0; n < 20; ++n) {
    rig.put(n, 1u << n % 3);
    bytes += fragment_bytes(rig, n, n % 3);
  }
  const Nanos begun_ns = rig.clock.now_ns();
  rig.wake();
  rig.run_for(begun_ns + 2 * kSecond - rig.clock.now_ns());
  const uint64_t early = rig.context->metrics.repair_bytes[0].value();
  EXPECT_GT(early, 0u);
  EXPECT_LE(early, 2 * kRate + 4 * 512 * kKiB) << "as many at once, and no more";
  EXPECT_GT(rig.context->metrics.repair_eta_s.value(), 0);
  ASSERT_TRUE(rig.run_until_whole());
  const Nanos took_ns = rig.clock.now_ns() - begun_ns;
  const Nanos least_ns = (bytes - 4 * 512 * kKiB) * kSecond / kRate;
  EXPECT_GE(took_ns, least_ns);
  EXPECT_LE(took_ns, bytes * kSecond / kRate + 1 * kSecond);
  rig.context->repair->watch();
  EXPECT_EQ(rig.context->metrics.repair_eta_s.value(), 0);
  EXPECT_EQ(rig.context->metrics.repair_bytes[0].value(), bytes);
}

// Expect: at a rate of 0 what is under way ends and nothing follows; a rate goes on from there.
TEST(RepairTable, PausesAndGoesOn) {
  RepairRig rig({});
  for (uint32_t n = 0; n < 12; ++n)
    rig.put(n, 1u << n % 3);
  rig.wake();
  ASSERT_TRUE(rig.run_until([&] { return rig.context->repair->live() > 0; }));
  rig.context->repair->rate_set(0);
  ASSERT_TRUE(rig.run_until([&] { return rig.context->repair->at_rest(); }));
  const uint32_t left = rig.index->thin_count();
  EXPECT_GT(left, 0u);
  rig.wake();
  rig.run_for(100 * kSecond);
  EXPECT_EQ(rig.index->thin_count(), left);
  rig.context->repair->rate_set(1000 * 1000 * 1000);
  EXPECT_TRUE(rig.run_until_whole());
  rig.expect_at_rest();
}

TEST(RepairTable, IsOffWhereItMayWriteNothing) {
  RepairRig rig({.bytes_per_s = 0});
  rig.put(0, 1);
  rig.wake();
  rig.run_for(100 * kSecond);
  EXPECT_EQ(rig.index->thin_count(), 1u);
  EXPECT_EQ(rig.context->metrics.repair_read_bytes.value(), 0u);
}

// Of the smallest budget in which one block can be rebuilt, to one for several: all are, whoever
// finds no room waits for the others, and none fails.
TEST(RepairTable, WaitsForMemoryAndNeverTakesMore) {
  for (uint32_t pages = 136; pages < 400; pages += 45) {
    RepairRig rig({.repair_pages = pages});
    for (uint32_t n = 0; n < 12; ++n)
      rig.put(n, 1u << n % 3);
    rig.wake();
    bool within = true;
    ASSERT_TRUE(rig.run_until([&] {
      within = within && rig.tier->used_bytes(Budget::kRepair) <= bytes_of(pages);
      return rig.index->thin_count() == 0 && rig.context->repair->at_rest();
    })) << pages;
    EXPECT_TRUE(within);
    EXPECT_EQ(rig.visits(RepairOutcome::kDone), 12u) << pages;
    EXPECT_EQ(rig.visits(RepairOutcome::kNoMemory), 0u) << pages;
    rig.expect_at_rest();
  }
}

TEST(RepairTable, SaysWhatDoesNotFitAtAll) {
  RepairRig rig({.repair_pages = 40});
  rig.put(0, 1);
  rig.wake();
  rig.run_for(10 * kSecond);
  EXPECT_GE(rig.visits(RepairOutcome::kNoMemory), 1u);
  EXPECT_EQ(rig.index->thin_count(), 1u);
  rig.expect_at_rest();
}

// Two missing positions and memory for one: two visits.
TEST(RepairTable, RebuildsOneAfterTheOtherWhereMemoryIsShort) {
  uint32_t in_two = 0;
  for (uint32_t pages = 110; pages < 260; pages += 10) {
    RepairRig rig({.scheme = {.k = 4, .m = 2}, .targets = 6, .repair_pages = pages});
    rig.put(0, 0x11);
    rig.wake();
    rig.run_for(100 * kSecond);
    const uint64_t done = rig.visits(RepairOutcome::kDone);
    if (done == 0) {
      EXPECT_EQ(in_two, 0u) << "more memory is never worse";
      continue;
    }
    if (pages < 136) continue;  // not enough for the larger of the two
    EXPECT_EQ(rig.index->thin_count(), 0u) << pages;
    rig.expect_whole(0);
    if (done == 2) ++in_two;
  }
  EXPECT_GT(in_two, 0u);
}

TEST(RepairTable, LosesAndDoublesNothingInAPowerCut) {
  for (uint32_t moment = 0; moment < 24; ++moment) {
    RepairRig rig({.scheme = {.k = 2, .m = 1}, .targets = 4});
    for (uint32_t n = 0; n < 8; ++n)
      rig.put(n, 1u << n % 3);
    rig.wake();
    ASSERT_TRUE(rig.run_until([&] { return rig.context->repair->live() > 0; }));
    rig.run_for(moment * 1200 * kMicrosecond);
    rig.power_cut();
    rig.boot();
    EXPECT_EQ(rig.index->block_count(), 8u) << moment;
    ASSERT_TRUE(rig.run_until_whole()) << moment;
    for (uint32_t n = 0; n < 8; ++n)
      rig.expect_whole(n);
    rig.expect_at_rest();
  }
}

// A slow drive has not told yet what lies there, and what others have looks thin.
TEST(RepairTable, DoesNotBeginWhileRecoveryStillFindsFragments) {
  RepairRig rig({});
  for (uint32_t n = 0; n < 12; ++n)
    rig.put(n, 0);
  rig.power_cut();
  rig.on_recovery = [&] {
    rig.devices[1]->stuck_set(true);
    rig.wake();
    rig.run_for(2 * kSecond);
    EXPECT_TRUE(rig.flash->recovering());
    EXPECT_GT(rig.index->thin_count(), 0u);
    rig.devices[1]->stuck_set(false);
  };
  rig.boot();
  rig.run_for(10 * kSecond);
  EXPECT_EQ(rig.index->thin_count(), 0u);
  EXPECT_EQ(rig.context->metrics.repair_read_bytes.value(), 0u);
  EXPECT_EQ(rig.visits(RepairOutcome::kDone), 0u);
}

// One look at a slice that is full is enough for a pass.
TEST(RepairTable, AsksAFullDriveSeldom) {
  RepairRig rig({.targets = 3, .repairs_max = 1});
  for (uint32_t n = 0; n < 10; ++n) {
    rig.put(n, 1u << n % 3);
    rig.index->lease_add(rig.locate(n).base_slot);
  }
  for (uint32_t t = 0; t < 3; ++t) {
    for (uint32_t slice = 0; slice < 2; ++slice) {
      while (rig.flash->reserve(t, slice, 30)) {
      }
    }
  }
  rig.wake();
  rig.run_for(500 * kMillisecond);
  EXPECT_EQ(rig.visits(RepairOutcome::kNoSpace), 10u) << "one pass";
  EXPECT_LE(rig.context->metrics.repair_read_bytes.value(), 2 * bytes_of(50)) << "a lead a slice";
}

// Passes follow each other closely there, and each finds another number of blocks.
TEST(RepairTable, SaysOnceAMinuteThatADriveIsFull) {
  constexpr uint32_t kBlocks = 45;
  RepairRig rig({.targets = 3, .layer_bytes = {70000, 70000}});
  for (uint32_t n = 0; n < kBlocks; ++n) {
    rig.put(n, n == 0 ? 1 : 0);
    rig.index->lease_add(rig.locate(n).base_slot);
  }
  for (uint32_t t = 0; t < 3; ++t) {
    for (uint32_t slice = 0; slice < 2; ++slice) {
      while (rig.flash->reserve(t, slice, 1)) {
      }
    }
  }
  testing::internal::CaptureStderr();
  rig.wake();
  for (uint32_t n = 1; n < kBlocks; ++n) {  // three minutes
    rig.run_for(4 * kSecond);
    rig.index->lose(rig.locate(n), 0);
  }
  rig.run_for(60 * kSecond);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_GT(rig.visits(RepairOutcome::kNoSpace), kBlocks * kBlocks / 2) << "a pass each 4 s";
  uint32_t lines = 0;
  for (size_t at = log.find("has rebuilt"); at != log.npos; at = log.find("has rebuilt", at + 1))
    ++lines;
  EXPECT_GE(lines, 4u) << log;
  EXPECT_LE(lines, 5u) << log;
  EXPECT_NE(log.find("; 45 still lack one"), log.npos)
      << log;  // what was not said is not forgotten
}

}  // namespace
}  // namespace varve
