// Scrub: every live fragment is looked at, rot is told once, nothing else is.
#include "server/flash/scrub.h"

#include <gtest/gtest.h>

#include "tests/server/flash/flash_rig.h"

namespace varve::flash {
namespace {

struct World : Rig {
  World() : Rig(of()) {
    start_and_recover();
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      TestFragment* f = append(seed, 2, 6000);
      if (f == nullptr) break;
      run_until([&] { return f->done; });
    }
    settle(kSecond / 10);
  }
  static RigOptions of() {
    RigOptions options;
    options.slices = 2;
    options.segments = 16;
    return options;
  }
  size_t sealed_live() {  // fragments that are not in an open segment any more
    size_t count = 0;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> last;
    for (const auto& [block, known] : user().known) {
      auto& of_slice = last[{known.place.target, known.place.slice}];
      of_slice = std::max<uint32_t>(of_slice, known.place.segment);
    }
    for (const auto& [block, known] : user().known) {
      count += known.place.segment < last[{known.place.target, known.place.slice}] ? 1 : 0;
    }
    return count;
  }
  void scrub() {
    flash().scrub_now();
    ASSERT_TRUE(run_until([this] { return flash().idle(); }));
  }
};

TEST(Scrub, LooksAtEveryLiveFragmentOfSealedSegments) {
  World world;
  ASSERT_EQ(world.user().known.size(), 40u);
  world.user().evict(test_block(1));
  world.scrub();
  EXPECT_EQ(world.metric("scrubbed_total"), static_cast<int64_t>(world.sealed_live()));
  EXPECT_GT(world.metric("scrubbed_total"), 20);
  EXPECT_EQ(world.metric("scrub_rot_total"), 0);
}

TEST(Scrub, FindsAFlippedBitInHeaderAndExtents) {
  World world;
  const auto geometry = geometry_of(world.super(0));
  const auto flip = [&](const TestFragment& f, uint32_t page, uint32_t at) {
    const Place& place = f.append.place;
    world.platter(0)
        .bytes()[bytes_of(geometry->segment_page(place.slice, place.segment) + place.page + page) +
                 at] ^= std::byte{1};
  };
  flip(*world.appended[0], 0, 60);
  flip(*world.appended[1], world.appended[1]->table[1].page_offset, 300);
  world.scrub();
  EXPECT_EQ(world.metric("scrub_rot_total"), 2);
  EXPECT_EQ(world.user().lost,
            (std::set<BlockId>{world.appended[0]->block, world.appended[1]->block}));
  world.scrub();
  EXPECT_EQ(world.metric("scrub_rot_total"), 2);  // forgotten: not told again
}

TEST(Scrub, TakesNoReclaimForRot) {
  World world;
  for (uint64_t seed = 100; seed <= 300; ++seed) {
    world.flash().scrub_now();
    TestFragment* f = world.append(seed, 1, 9000);
    if (f != nullptr) world.run_until([&] { return f->done; });
    world.settle(kMillisecond);
  }
  EXPECT_GT(world.metric("reclaimed_segments_total"), 0);
  EXPECT_GT(world.metric("scrubbed_total"), 100);
  EXPECT_EQ(world.metric("scrub_rot_total"), 0);
  EXPECT_TRUE(world.user().lost.empty());
}

TEST(Scrub, OfOneTargetSaysHowFarItIs) {
  World world;
  EXPECT_FALSE(world.flash().usage(0).scrub_running);
  EXPECT_TRUE(world.flash().scrub_start(0));
  EXPECT_FALSE(world.flash().scrub_start(0)) << "one runs";
  uint64_t done = 0;
  bool rose = false;
  ASSERT_TRUE(world.run_until([&] {
    const Flash::Usage usage = world.flash().usage(0);
    if (!usage.scrub_running) return true;
    EXPECT_EQ(usage.scrub_pass_pages, usage.live_pages);
    EXPECT_GE(usage.scrub_pass_done_pages, done);
    EXPECT_LE(usage.scrub_pass_done_pages, usage.scrub_pass_pages);
    rose = rose || (done > 0 && usage.scrub_pass_done_pages > done);
    done = usage.scrub_pass_done_pages;
    return false;
  }));
  EXPECT_TRUE(rose);
  EXPECT_EQ(world.metric("scrub_passes_total"), 1);
  EXPECT_EQ(world.flash().usage(0).scrub_pass_pages, 0u);
}

TEST(Scrub, RunsByIntervalWhenAsked) {
  RigOptions options;
  options.slices = 1;
  options.flash.scrub_interval_ns = 60 * kSecond;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    TestFragment* f = rig.append(seed, 1, 9000);
    ASSERT_NE(f, nullptr);
    rig.run_until([&] { return f->done; });
  }
  EXPECT_EQ(rig.metric("scrubbed_total"), 0);
  rig.settle(61 * kSecond);
  const int64_t once = rig.metric("scrubbed_total");
  EXPECT_GT(once, 0);
  rig.settle(60 * kSecond);
  EXPECT_EQ(rig.metric("scrubbed_total"), 2 * once);
}

// Goal: a pass by interval takes its time, and a drain does not wait for it.
TEST(Scrub, APacedPassPausesAndEndsAtADrain) {
  RigOptions options;
  options.slices = 1;
  options.segment_pages = 128;
  options.flash.scrub_interval_ns = 60 * kSecond;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 18; ++seed) {
    TestFragment* f = rig.append(seed, 1, 200000);
    ASSERT_NE(f, nullptr);
    rig.run_until([&] { return f->done; });
  }
  rig.settle(60 * kSecond);
  EXPECT_EQ(rig.metric("scrub_passes_total"), 0);  // at most ten windows a second
  ASSERT_FALSE(rig.flash().idle());
  const Nanos before = rig.clock.now_ns();
  rig.stop();
  EXPECT_LT(rig.clock.now_ns() - before, 50 * kMillisecond);
}

// Whoever asks for a pass while one makes pauses gets that one without them, and another pace for
// the next.
TEST(Scrub, AnOperatorDoesNotWaitForAPacedPass) {
  RigOptions options;
  options.slices = 1;
  options.segment_pages = 128;
  options.flash.scrub_interval_ns = 60 * kSecond;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 18; ++seed) {
    TestFragment* f = rig.append(seed, 1, 200000);
    ASSERT_NE(f, nullptr);
    rig.run_until([&] { return f->done; });
  }
  rig.settle(60 * kSecond);
  ASSERT_TRUE(rig.flash().usage(0).scrub_running);
  EXPECT_FALSE(rig.flash().scrub_start(0));
  const Nanos before = rig.clock.now_ns();
  ASSERT_TRUE(rig.run_until([&] { return !rig.flash().usage(0).scrub_running; }));
  EXPECT_LT(rig.clock.now_ns() - before, kSecond);
  EXPECT_EQ(rig.metric("scrub_passes_total"), 1);
  rig.flash().scrub_interval_set(0);
  rig.settle(600 * kSecond);
  EXPECT_EQ(rig.metric("scrub_passes_total"), 1) << "never";
  rig.flash().scrub_interval_set(10 * kSecond);
  rig.settle(100 * kSecond);
  EXPECT_GT(rig.metric("scrub_passes_total"), 1);
}

TEST(Scrub, GivesUpASegmentThatReclaimChose) {
  RigOptions options;
  options.slices = 1;
  options.flash.scrub_interval_ns = 5 * kSecond;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    TestFragment* f = rig.append(seed, 1, 9000);
    if (f != nullptr) rig.run_until([&] { return f->done; });
    rig.settle(50 * kMillisecond);
  }
  EXPECT_GT(rig.metric("reclaimed_segments_total"), 20);
  EXPECT_GT(rig.metric("scrubbed_total"), 0);
  EXPECT_EQ(rig.metric("scrub_rot_total"), 0);
}

}  // namespace
}  // namespace varve::flash
