// How many records a slice takes, and what one costs that has to wait.
#include "server/flash/kill_pump.h"

#include <gtest/gtest.h>

#include "tests/server/flash/flash_rig.h"

namespace varve::flash {
namespace {

// A record that may have to wait.
struct Purged {
  Purged(Rig& rig, uint64_t seed) {
    const BlockId block = test_block(seed);
    kill.slice = rig.slice_of_block(block);
    kill.base = block.base;
    kill.limit = {rig.super(0).boot_generation, 0, seed};
    kill.owner = this;
    kill.on_done = [](Kill& of) { static_cast<Purged*>(of.owner)->done = true; };
    rig.flash().kill(kill);
  }
  Kill kill;
  bool done = false;
};

RigOptions small_slice() {
  RigOptions options;
  options.plan.volatile_cache = true;
  options.slices = 1;
  return options;
}

BlockId append(Rig& rig, uint64_t seed) {
  TestFragment* f = rig.append(seed);
  VARVE_ASSERT(f != nullptr);
  rig.run_until([&] { return f->done; });
  VARVE_ASSERT(f->status.ok());
  return f->block;
}

// Kills ids that nobody knows until one is refused; how many were taken.
int64_t kill_unknown(Rig& rig, uint64_t first_seed) {
  for (uint64_t seed = first_seed; seed < first_seed + 200; ++seed) {
    if (const Status status = rig.kill(test_block(seed)); !status.ok()) {
      EXPECT_EQ(status.code(), Code::kNoSpace);
      return static_cast<int64_t>(seed - first_seed);
    }
  }
  return -1;
}

// Goal: purges of whatever ids leave the slice to its blocks. Method: more records than it takes;
// none beyond is written, waited for or evicted for, nor after a restart.
TEST(KillPump, AnEighthOfASliceTakesRecordsAndNoMore) {
  Rig rig(small_slice());
  rig.start_and_recover();
  std::vector<BlockId> blocks;
  for (uint64_t seed = 1; seed <= 6; ++seed)
    blocks.push_back(append(rig, seed));
  testing::internal::CaptureStderr();
  const int64_t taken = kill_unknown(rig, 1000);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(taken, 48);  // 12 segments of 32 pages
  EXPECT_NE(log.find("48 pages, all that it may or domain 1 may have of it, are"),
            std::string::npos)
      << log;
  EXPECT_NE(log.find("purge the lineage or the domain"), std::string::npos) << log;
  EXPECT_EQ(rig.metric("kills_live"), 48);
  EXPECT_EQ(rig.metric("kills_refused_total"), 1);
  const uint64_t live_pages = rig.flash().usage(0).live_pages;
  const Nanos at_ns = rig.clock.now_ns();
  EXPECT_EQ(rig.kill(test_block(2000)).code(), Code::kNoSpace);
  EXPECT_EQ(rig.clock.now_ns(), at_ns);  // at once
  EXPECT_EQ(rig.flash().usage(0).live_pages, live_pages);
  EXPECT_EQ(rig.user().room_asks, 0u);
  for (const bool clean : {false, true}) {
    if (clean) {
      rig.stop();
    } else {
      rig.power_cut();
    }
    rig.start_and_recover();
    EXPECT_EQ(rig.metric("kills_live"), 48);
    EXPECT_EQ(rig.kill(test_block(2001)).code(), Code::kNoSpace);
    for (const BlockId& block : blocks)
      EXPECT_NE(rig.user().find(block), nullptr);
  }
}

// Goal: whoever purges whatever ids in one domain, the purges of another have their records, at
// once and after a restart.
TEST(KillPump, RecordsOfOneDomainLeaveThoseOfAnotherTheirRoom) {
  Rig rig(small_slice());
  rig.start_and_recover();
  const auto kill_of = [&](uint32_t domain, uint64_t seed) {
    BlockId block = test_block(seed);
    block.domain = domain;
    return rig.kill(block, 0, 0, 2).code();
  };
  for (uint64_t seed = 0; seed < 24; ++seed)
    ASSERT_EQ(kill_of(2, 1000 + seed), Code::kOk) << seed;
  EXPECT_EQ(kill_of(2, 1100), Code::kNoSpace);
  EXPECT_EQ(kill_of(1, 1200), Code::kOk);
  rig.power_cut();
  rig.start_and_recover();
  EXPECT_EQ(kill_of(2, 1100), Code::kNoSpace);
  for (uint64_t seed = 0; seed < 23; ++seed)
    ASSERT_EQ(kill_of(1, 1300 + seed), Code::kOk) << seed;
  EXPECT_EQ(kill_of(1, 1400), Code::kNoSpace);
}

// New data turns the log over: segments full of records that are done with are emptied, too.
TEST(KillPump, WhenTheLogHasTurnedThereIsRoomForRecordsAgain) {
  Rig rig(small_slice());
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 6; ++seed)
    append(rig, seed);
  ASSERT_EQ(kill_unknown(rig, 1000), 48);
  for (uint64_t seed = 3000; seed < 4000 && rig.metric("kills_live") > 0; ++seed) {
    TestFragment* f = rig.append(seed, 2, 9000);
    if (f == nullptr) {
      rig.settle(20 * kMillisecond);
      continue;
    }
    rig.run_until([&] { return f->done; });
  }
  EXPECT_EQ(rig.metric("kills_live"), 0);
  EXPECT_TRUE(rig.kill(test_block(2000)).ok());
}

// Goal: a record that finds no page costs next to nothing while it waits, and little eviction when
// there is something to evict. Method: a full slice of which nothing may go; turns are counted.
TEST(KillPump, ARecordThatWaitsDoesNotSpinNorEmptyTheSlice) {
  std::vector<std::unique_ptr<Purged>> records;
  Rig rig(small_slice());
  rig.start_and_recover();
  rig.user().may_evict = false;
  ASSERT_GT(rig.fill(1), 10u);
  const auto waits = [&] { return !records.empty() && !records.back()->done; };
  for (uint64_t seed = 1000; seed < 1040 && !waits(); ++seed) {
    records.push_back(std::make_unique<Purged>(rig, seed));
    rig.settle(10 * kMillisecond);
  }
  ASSERT_TRUE(waits());
  const uint32_t pages = rig.user().room_pages;
  const Nanos end_ns = rig.clock.now_ns() + kSecond;
  uint32_t turns = 0;
  for (; turns < 2000 && rig.clock.now_ns() < end_ns; ++turns)
    rig.step();
  EXPECT_GE(rig.clock.now_ns(), end_ns) << "time stands still";
  EXPECT_LE(rig.user().room_pages - pages, 5u * 32 / 16);
  EXPECT_FALSE(records.back()->done);
  // Expect: nothing that happens in its slice makes it try again before its time.
  const int64_t tries = rig.metric("kill_waits_total");
  for (uint64_t seed = 5000; seed < 5100; ++seed) {
    EXPECT_EQ(rig.append(seed, 3, 14000), nullptr);
    for (int turn = 0; turn < 10; ++turn)
      rig.reactor().turn();
  }
  EXPECT_LE(rig.metric("kill_waits_total") - tries, 1);
  rig.user().may_evict = true;
  ASSERT_TRUE(rig.run_until([&] { return records.back()->done; }));
  EXPECT_TRUE(records.back()->kill.status.ok());
  EXPECT_LE(rig.user().evicted.size(), 4u);
}

}  // namespace
}  // namespace varve::flash
