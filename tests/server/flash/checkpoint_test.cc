// Checkpoints: what they hold, where they go, what happens when they do not fit.
#include "server/flash/checkpoint.h"

#include <gtest/gtest.h>

#include "tests/server/flash/flash_rig.h"

namespace varve::flash {
namespace {

RigOptions one_slice(uint32_t segments = 16) {
  RigOptions options;
  options.slices = 1;
  options.segments = segments;
  return options;
}

void fill(Rig& rig, uint64_t first, uint64_t last, uint32_t bytes = 9000) {
  for (uint64_t seed = first; seed <= last; ++seed) {
    TestFragment* f = rig.append(seed, 1, bytes);
    ASSERT_NE(f, nullptr);
    rig.run_until([&] { return f->done; });
  }
}

CheckpointHeader header_on_drive(Rig& rig, uint32_t area) {
  const auto geometry = geometry_of(rig.super(0));
  return load<CheckpointHeader>(
      rig.platter(0).bytes().subspan(bytes_of(geometry->checkpoint_page(0, area)), kPageBytes));
}

TEST(Checkpoint, HoldsTheLiveFragmentsOfSealedSegmentsOnly) {
  Rig rig(one_slice());
  rig.start_and_recover();
  fill(rig, 1, 25);
  rig.settle(kSecond / 10);
  rig.user().evict(test_block(1));
  rig.user().evict(test_block(2));
  rig.flash().checkpoint_now();
  rig.run_until([&] { return rig.metric("checkpoints_total") == 1; });
  const int64_t entries = rig.metric("checkpoint_entries_total");
  EXPECT_GT(entries, 0);
  EXPECT_LT(entries, 23);  // the open segment is not in it
  rig.settle(2 * kSecond);
  rig.power_cut();
  rig.start_and_recover();
  EXPECT_EQ(rig.metric("recovered_total", 0, ",source=\"checkpoint\""), entries);
  EXPECT_EQ(rig.user().find(test_block(1)), nullptr);  // evicted before: not revived
  EXPECT_EQ(rig.user().known.size(), 23u);
}

TEST(Checkpoint, AlternatesBetweenTheTwoAreas) {
  Rig rig(one_slice());
  rig.start_and_recover();
  for (uint64_t round = 0; round < 4; ++round) {
    fill(rig, 1 + round * 9, 9 + round * 9);
    rig.settle(kSecond / 10);
    rig.flash().checkpoint_now();
    rig.run_until(
        [&] { return rig.metric("checkpoints_total") == static_cast<int64_t>(round) + 1; });
  }
  EXPECT_EQ(header_on_drive(rig, 0).write_count, 3u);
  EXPECT_EQ(header_on_drive(rig, 1).write_count, 4u);
}

TEST(Checkpoint, ContinuesItsCountAfterAStart) {
  Rig rig(one_slice());
  rig.start_and_recover();
  fill(rig, 1, 12);
  rig.stop();
  rig.start_and_recover();
  fill(rig, 13, 24);
  rig.stop();
  rig.start_and_recover();
  EXPECT_EQ(rig.user().known.size(), 24u);
  EXPECT_EQ(header_on_drive(rig, 1).write_count, 2u);
}

TEST(Checkpoint, NothingChangedMeansNoCheckpoint) {
  Rig rig(one_slice());
  rig.start_and_recover();
  fill(rig, 1, 12);
  rig.stop();
  rig.start_and_recover();
  rig.flash().checkpoint_now();
  rig.settle(100 * kSecond);
  EXPECT_EQ(rig.metric("checkpoints_total"), 0);
}

TEST(Checkpoint, IsMadeByIntervalWhenEnoughChanged) {
  Rig rig(one_slice());
  rig.start_and_recover();
  fill(rig, 1, 40);
  rig.settle(31 * kSecond);
  EXPECT_EQ(rig.metric("checkpoints_total"), 1);
  rig.settle(200 * kSecond);
  EXPECT_EQ(rig.metric("checkpoints_total"), 1);
}

// More fragments than the area has room for: what is left out is found in footers.
TEST(Checkpoint, LeavesOutWhatDoesNotFit) {
  RigOptions options = one_slice(40);
  options.segment_pages = 64;
  Rig rig(options);
  rig.start_and_recover();
  const auto geometry = geometry_of(rig.super(0));
  const uint64_t room = (geometry->checkpoint_pages - 2ull) * kEntriesPerPage;
  const uint64_t count = room + 200;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    TestFragment* f = rig.append(seed, 1, 3000, FlushBy::kSoon);
    ASSERT_NE(f, nullptr) << seed;
    if (seed % 8 == 0) rig.run_until([&] { return f->done; });
  }
  rig.stop();
  rig.start_and_recover();
  EXPECT_EQ(rig.user().known.size(), count);
  EXPECT_GT(rig.metric("recovered_total", 0, ",source=\"footer\""), 0);
  EXPECT_LE(rig.metric("recovered_total", 0, ",source=\"checkpoint\""), static_cast<int64_t>(room));
  EXPECT_EQ(rig.user().told.size(), count);
}

// Goal: rot that was found, and repaired elsewhere, is not told of again at the next start: its
// footer still lists it, and the first that is told counts. Method: a sealed, checkpointed segment;
// one of its fragments rots; a read, or scrub, finds it.
TEST(Checkpoint, RotThatWasFoundIsNotToldOfAfterTheNextCheckpoint) {
  for (const bool scrubbed : {false, true}) {
    RigOptions options;
    options.slices = 1;
    Rig rig(options);
    rig.start_and_recover();
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      const TestFragment* f = rig.append(seed, 1, 9000);
      ASSERT_NE(f, nullptr);
      rig.run_until([&] { return f->done; });
    }
    rig.flash().checkpoint_now();
    rig.settle(kSecond / 10);
    const TestFragment& rotten = *rig.fragment(test_block(2));
    const auto geometry = geometry_of(rig.super(0));
    const Place place = rotten.append.place;
    rig.platter(0)
        .bytes()[bytes_of(geometry->segment_page(0, place.segment) + place.page + 1) + 9] ^=
        std::byte{1};
    if (scrubbed) {
      rig.flash().scrub_now();
      rig.settle(kSecond / 10);
    } else {
      EXPECT_FALSE(rig.read_back(rotten.block, rotten).ok());
    }
    ASSERT_EQ(rig.user().lost, std::set<BlockId>{rotten.block});
    rig.run_until([&, until_ns = rig.clock.now_ns() + 2 * options.flash.checkpoint_interval_ns] {
      return rig.clock.now_ns() >= until_ns;
    });
    rig.power_cut();
    rig.start_and_recover();
    EXPECT_EQ(rig.user().find(rotten.block), nullptr) << scrubbed;
    EXPECT_NE(rig.user().find(test_block(1)), nullptr) << scrubbed;
    EXPECT_EQ(rig.user().known.size(), 29u);
  }
}

}  // namespace
}  // namespace varve::flash
