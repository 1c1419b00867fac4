// The whole room on simulated drives: append, read, restart, stop, rot, stuck drives, shards.
#include "server/flash/flash.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/server/flash/flash_rig.h"

namespace varve::flash {
namespace {

TEST(Flash, ReadsBackEveryByteThatWasAppended) {
  Rig rig({});
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 20; ++seed)
    ASSERT_NE(rig.append(seed, 1 + seed % 4), nullptr);
  ASSERT_TRUE(rig.run_until([&] { return rig.user().known.size() == 20; }));
  for (const auto& f : rig.appended) {
    EXPECT_TRUE(f->status.ok());
    const Status status = rig.read_back(f->block, *f);
    EXPECT_TRUE(status.ok()) << status.what();
  }
  EXPECT_EQ(rig.metric("appends_total"), 20);
  EXPECT_GE(rig.metric("reads_total"), 20);
}

TEST(Flash, NeverLosesADurableBlockWhenPowerIsCut) {
  RigOptions options;
  options.plan.volatile_cache = true;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 20; ++seed)
    ASSERT_NE(rig.append(seed), nullptr);
  ASSERT_TRUE(rig.run_until([&] { return rig.user().known.size() == 20; }));
  rig.power_cut();
  rig.start_and_recover();
  EXPECT_EQ(rig.user().known.size(), 20u);
  for (const auto& f : rig.appended)
    EXPECT_TRUE(rig.read_back(f->block, *f).ok());
}

TEST(Flash, FindsEverythingAgainAfterACleanStopFromCheckpointsAlone) {
  Rig rig({});
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 30; ++seed)
    ASSERT_NE(rig.append(seed), nullptr);
  ASSERT_TRUE(rig.run_until([&] { return rig.user().known.size() == 30; }));
  rig.user().evict(test_block(7));
  rig.stop();
  rig.start_and_recover();
  EXPECT_EQ(rig.user().known.size(), 29u);  // a clean stop revives nothing
  EXPECT_EQ(rig.metric("recovered_total", 0, ",source=\"checkpoint\""), 29);
  for (const auto& f : rig.appended) {
    if (f->block == test_block(7)) continue;
    EXPECT_TRUE(rig.read_back(f->block, *f).ok());
  }
}

// The same slices regrouped: whatever the number of shards at a start, all is found and readable.
TEST(Flash, TheNumberOfShardsMayChangeAtAnyStart) {
  RigOptions options;
  options.slices = 8;
  options.targets = 2;
  options.plan.volatile_cache = true;
  Rig rig(options);
  uint64_t seed = 0;
  for (const uint32_t shards : {1u, 4u, 3u, 8u, 1u}) {
    rig.start_and_recover(shards);
    size_t known = 0;
    for (uint32_t s = 0; s < shards; ++s) {
      known += rig.user(s).known.size();
      for (const auto& [block, entry] : rig.user(s).known) {
        EXPECT_EQ(rig.shard_of_block(block), s);
      }
    }
    EXPECT_EQ(known, seed);
    for (const auto& f : rig.appended)
      EXPECT_TRUE(rig.read_back(f->block, *f).ok()) << shards;
    for (int i = 0; i < 16; ++i) {
      ++seed;
      ASSERT_NE(rig.append(seed, 2, 6000, FlushBy::kNow, static_cast<uint32_t>(seed % 2)), nullptr);
    }
    ASSERT_TRUE(rig.run_until([&] { return rig.appended.back()->done; }));
    ASSERT_TRUE(rig.run_until([&] {
      return std::all_of(rig.appended.begin(), rig.appended.end(),
                         [](const auto& f) { return f->done; });
    }));
    if (seed % 32 == 0) {
      rig.stop();
    } else {
      rig.power_cut();
    }
  }
}

TEST(Flash, AStuckDriveFailsAloneAndTheOthersDoNotNotice) {
  RigOptions options;
  options.targets = 2;
  options.flash.io_ns_max = kSecond;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    ASSERT_NE(rig.append(seed, 2, 6000, FlushBy::kNow, seed % 2), nullptr);
  }
  rig.run_until([&] { return rig.user().known.size() == 10; });
  rig.device(1).stuck_set(true);
  int returned = 0;
  rig.append_limbo = {[](void* owner) { ++*static_cast<int*>(owner); }, &returned};
  TestFragment* stuck = rig.append(11, 2, 6000, FlushBy::kNow, 1);
  TestFragment* good = rig.append(12, 2, 6000, FlushBy::kNow, 0);
  ASSERT_NE(stuck, nullptr);
  const Nanos before = rig.clock.now_ns();
  rig.run_until([&] { return good->done; });
  EXPECT_LT(rig.clock.now_ns() - before, 100 * kMillisecond);
  rig.run_until([&] { return stuck->done; });
  EXPECT_EQ(stuck->status.code(), Code::kUnavailable);
  EXPECT_TRUE(stuck->append.held);
  EXPECT_EQ(returned, 0);
  EXPECT_FALSE(rig.flash().target_ok(1));
  EXPECT_TRUE(rig.flash().target_ok(0));
  rig.run_until([&] { return !rig.user().failed.empty(); }, 10);
  EXPECT_EQ(rig.user().failed, std::vector<uint32_t>{1});
  for (uint64_t seed = 2; seed <= 10; seed += 2) {
    const TestFragment& f = *rig.fragment(test_block(seed));
    EXPECT_TRUE(rig.read_back(f.block, f).ok());
  }
  const TestFragment& lost = *rig.fragment(test_block(1));
  EXPECT_EQ(rig.read_back(lost.block, lost).code(), Code::kUnavailable);
  EXPECT_EQ(rig.user().failed.size(), 1u);  // told once
  rig.stop();                               // a stuck target does not hold up the end
}

TEST(Flash, ATargetThatFailsDuringRecoveryDoesNotHoldUpTheOthers) {
  RigOptions options;
  options.targets = 2;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    ASSERT_NE(rig.append(seed, 2, 6000, FlushBy::kNow, seed % 2), nullptr);
  }
  rig.run_until([&] { return rig.user().known.size() == 10; });
  rig.power_cut();
  rig.start();
  rig.device(1).vanish();
  rig.recover();
  EXPECT_FALSE(rig.flash().target_ok(1));
  for (uint32_t slice = 0; slice < 2; ++slice)
    EXPECT_TRUE(rig.flash().slice_ready(slice));
  EXPECT_EQ(rig.user().known.size(), 5u);
  EXPECT_EQ(rig.user().failed, std::vector<uint32_t>{1});
  EXPECT_NE(rig.append(20, 2, 6000, FlushBy::kNow, 0), nullptr);
  EXPECT_EQ(rig.append(21, 2, 6000, FlushBy::kNow, 1), nullptr);
}

// What an operator gives up is as what erred: its user is told once, in a turn of its own, what is
// under way ends, and the others go on.
TEST(Flash, ATargetThatIsDeclaredFailedHasFailed) {
  RigOptions options;
  options.targets = 2;
  Rig rig(options);
  rig.start_and_recover();
  TestFragment* f = rig.append(1, 2, 6000);
  ASSERT_NE(f, nullptr);
  rig.flash().fail_target(0, Status::unavailable("declared"));
  EXPECT_TRUE(rig.user().failed.empty()) << "not inside the call";
  EXPECT_FALSE(rig.flash().target_ok(0));
  EXPECT_TRUE(rig.flash().target_ok(1));
  rig.flash().fail_target(0, Status::unavailable("declared"));
  rig.settle(kSecond);
  EXPECT_EQ(rig.user().failed, std::vector<uint32_t>{0});
  EXPECT_TRUE(f->done);
  EXPECT_FALSE(rig.flash().reserve(0, 0, 4));
  EXPECT_FALSE(rig.flash().scrub_start(0)) << "there is nothing to read there";
  EXPECT_TRUE(rig.flash().idle());
}

TEST(Flash, RefusesReservationsThatCannotBe) {
  Rig rig({});
  rig.start();
  EXPECT_FALSE(rig.flash().reserve(0, 0, 4));  // not recovered yet
  rig.recover();
  EXPECT_EQ(rig.flash().fragment_pages_max(), 30u);
  EXPECT_FALSE(rig.flash().reserve(0, 0, 31));
  EXPECT_TRUE(rig.flash().reserve(0, 0, 30));
  EXPECT_EQ(rig.flash().usage(0).reserved_pages, 30u);
  rig.flash().unreserve(0, 0, 30);
  EXPECT_EQ(rig.flash().usage(0).reserved_pages, 0u);
}

// One that takes nothing new does not keep the others' fragments small.
TEST(Flash, ATargetThatIsDrainedDoesNotLimitTheLargestFragment) {
  RigOptions options;
  options.targets = 2;
  options.last_segment_pages = 16;
  const struct { uint32_t draining, pages; } cases[] = {{0, 14}, {1, 14}, {2, 30}, {3, 14}};
  for (const auto& [draining, pages] : cases) {
    options.flash.draining_targets = draining;
    Rig rig(options);
    rig.start_and_recover();
    EXPECT_EQ(rig.flash().fragment_pages_max(), pages) << draining;
  }
}

TEST(Flash, SaysWhetherAFullTargetMakesRoom) {
  RigOptions options;
  options.slices = 1;
  Rig rig(options);
  rig.start_and_recover();
  rig.user().may_evict = false;
  rig.fill(1);
  rig.settle(5 * kSecond);
  EXPECT_FALSE(rig.flash().reserve(0, 0, 20));
  EXPECT_FALSE(rig.flash().making_room(0, 0)) << "nothing to gain, and nothing on its way";
  std::vector<BlockId> gone;
  for (const auto& [block, known] : rig.user().known)
    gone.push_back(block);
  for (const BlockId& block : gone)
    rig.user().evict(block);
  EXPECT_TRUE(rig.flash().making_room(0, 0));
  rig.settle(5 * kSecond);
  EXPECT_TRUE(rig.flash().reserve(0, 0, 20));
  rig.flash().unreserve(0, 0, 20);
}

TEST(Flash, DrainWaitsForReservationsAndThenEndsClean) {
  Rig rig({});
  rig.start_and_recover();
  ASSERT_TRUE(rig.flash().reserve(0, 0, 8));
  rig.flash().drain();
  rig.settle(kSecond);
  EXPECT_FALSE(rig.flash().idle());
  EXPECT_FALSE(rig.flash().reserve(0, 0, 8));  // no new ones
  rig.flash().unreserve(0, 0, 8);
  rig.settle(kSecond);
  EXPECT_TRUE(rig.flash().idle());
}

TEST(Flash, AnIdleShardHasNothingToDo) {
  Rig rig({});
  rig.start_and_recover();
  ASSERT_NE(rig.append(1), nullptr);
  rig.settle(100 * kSecond);
  EXPECT_TRUE(rig.flash().idle());
  EXPECT_EQ(rig.reactor().next_work_ns(), kNever);
}

TEST(Flash, ReadsTheSameRunTwiceForEqualSeeds) {
  uint64_t requests[2] = {};
  Nanos ends[2] = {};
  for (int run = 0; run < 2; ++run) {
    RigOptions options;
    options.plan.volatile_cache = true;
    Rig rig(options);
    rig.start_and_recover();
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      rig.append(seed, 1 + seed % 3, 9000);
      rig.settle(kMillisecond);
    }
    rig.settle(kSecond);
    requests[run] = rig.device_requests();
    ends[run] = rig.clock.now_ns();
  }
  EXPECT_EQ(requests[0], requests[1]);
  EXPECT_EQ(ends[0], ends[1]);
}

TEST(Flash, OpenRefusesWhatDoesNotFitTogether) {
  ManualClock clock;
  Reactor reactor(clock, nullptr, ReactorOptions{});
  SeededEntropy entropy(1);
  FakeUser user;
  MemoryPlatter platter(8 * kMiB), small(2 * kMiB);
  TargetOptions options;
  options.geometry = {2, 32};
  const std::byte node[16] = {};
  const auto info = prepare_platter(platter, options, node, entropy);
  ASSERT_TRUE(info.has_value());
  const auto open = [&](TargetInfo target, MemoryPlatter& on, FlashOptions with) {
    std::vector<std::unique_ptr<BlockDevice>> devices;
    devices.push_back(make_memory_device(reactor, on, {}));
    return Flash::open(reactor, clock, entropy, {std::move(target)}, std::move(devices), user, with)
        .has_value();
  };
  EXPECT_TRUE(open(*info, platter, {}));
  EXPECT_FALSE(open(*info, small, {}));
  FlashOptions many;
  many.shards = 4;  // of two slices
  EXPECT_FALSE(open(*info, platter, many));
  FlashOptions none;
  none.reads_max = 0;
  EXPECT_FALSE(open(*info, platter, none));
  TargetInfo other = *info;
  other.super.target_index = 1;
  EXPECT_FALSE(open(other, platter, {}));
}

}  // namespace
}  // namespace varve::flash
