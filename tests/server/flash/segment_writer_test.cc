// Appends: when they count, how they are grouped, how segments follow each other.
#include "server/flash/segment_writer.h"

#include <gtest/gtest.h>

#include "tests/server/flash/flash_rig.h"

namespace varve::flash {
namespace {

// Goal: every append ends with its flush, at once or with whichever comes first; and what ended is
// there after a power cut.
TEST(SegmentWriter, ACachedAppendWaitsForAFlushThatNeedNotBeItsOwn) {
  RigOptions options;
  options.plan.volatile_cache = true;
  Rig rig(options);
  rig.start_and_recover();
  TestFragment* cached = rig.append(1, 2, 6000, FlushBy::kSoon);
  ASSERT_NE(cached, nullptr);
  const uint64_t flushes = rig.device(0).counters().flushes;
  rig.settle(kSoonNs / 2);
  EXPECT_FALSE(cached->done);
  EXPECT_EQ(rig.device(0).counters().flushes, flushes);
  TestFragment* durable = rig.append(2);
  rig.run_until([&] { return durable->done && cached->done; });
  EXPECT_EQ(rig.device(0).counters().flushes, flushes + 1);
  TestFragment* alone = rig.append(3, 2, 6000, FlushBy::kSoon);
  rig.run_until([&] { return alone->done; });
  rig.power_cut();
  rig.start_and_recover();
  for (const TestFragment* f : {cached, durable, alone})
    EXPECT_TRUE(rig.read_back(f->block, *f).ok());
}

TEST(SegmentWriter, ManyAppendsShareAFlush) {
  Rig rig({});
  rig.start_and_recover();
  const int64_t before = rig.metric("flushes_total");
  for (uint64_t seed = 1; seed <= 30; ++seed)
    ASSERT_NE(rig.append(seed, 1, 4000), nullptr);
  rig.run_until([&] { return rig.user().known.size() == 30; });
  EXPECT_LT(rig.metric("flushes_total") - before, 20);
}

// A fragment without its segment's header is not found again, so an append must not be acknowledged
// before the header is on the drive too. One append on a fresh target, many orders of completion.
TEST(SegmentWriter, DurableIncludesTheHeaderOfTheSegment) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    RigOptions options;
    options.seed = seed;
    options.plan.volatile_cache = true;
    options.plan.slow_per_mille = 300;  // so that the header comes after the fragment now and then
    options.plan.slow_ns = kMillisecond;
    Rig rig(options);
    rig.start_and_recover();
    TestFragment* f = rig.append(seed, 1, 4000);
    ASSERT_NE(f, nullptr);
    rig.run_until([&] { return f->done; });
    rig.power_cut();
    rig.start_and_recover();
    ASSERT_NE(rig.user().find(f->block), nullptr) << seed;
  }
}

TEST(SegmentWriter, AFullSegmentIsSealedAndTheNextOneOpened) {
  RigOptions options;
  options.slices = 1;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    TestFragment* f = rig.append(seed, 1, 20000);
    ASSERT_NE(f, nullptr);
    rig.run_until([&] { return f->done; });
  }
  rig.settle(kSecond / 10);
  EXPECT_GE(rig.metric("seals_total"), 1);
  std::set<uint32_t> segments;
  for (const auto& f : rig.appended)
    segments.insert(f->append.place.segment);
  EXPECT_GE(segments.size(), 2u);
  for (const auto& f : rig.appended)
    EXPECT_TRUE(rig.read_back(f->block, *f).ok());
}

TEST(SegmentWriter, AppendsToAFailedTargetEndUnavailable) {
  Rig rig({});
  rig.start_and_recover();
  TestFragment* f = rig.append(1);
  ASSERT_NE(f, nullptr);
  rig.device(0).vanish();
  rig.run_until([&] { return f->done; });
  EXPECT_EQ(f->status.code(), Code::kUnavailable);
  EXPECT_FALSE(rig.flash().target_ok(0));
  EXPECT_EQ(rig.append(2), nullptr);
  EXPECT_EQ(rig.metric("target_ok"), 0);
}

// A drive that swallows writes or flushes and is asked for nothing else is suspect too.
TEST(SegmentWriter, AnAppendThatTheDriveKeepsMakesItSuspect) {
  Rig rig({});
  rig.start_and_recover();
  rig.device(0).stuck_set(true);
  TestFragment* kept = rig.append(1);
  ASSERT_NE(kept, nullptr);
  rig.settle(900 * kMillisecond);
  rig.reactor().turn();  // reads the clock
  EXPECT_FALSE(rig.flash().target_suspect(0));
  rig.settle(200 * kMillisecond);
  rig.reactor().turn();
  EXPECT_TRUE(rig.flash().target_suspect(0));
  EXPECT_TRUE(rig.flash().target_ok(0));
  rig.device(0).stuck_set(false);
  EXPECT_TRUE(rig.run_until([&] { return kept->done; }));
  EXPECT_TRUE(kept->status.ok());
  EXPECT_FALSE(rig.flash().target_suspect(0));
}

}  // namespace
}  // namespace varve::flash
