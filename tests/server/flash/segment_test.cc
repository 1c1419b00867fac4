// Geometry and the accounting of segments: a reservation that was given always finds its place.
#include "server/flash/segment.h"

#include <gtest/gtest.h>

#include "server/flash/catalog.h"

namespace varve::flash {
namespace {

TargetGeometry tiny(uint32_t segments = 12, uint32_t segment_pages = 32) {
  TargetGeometry g;
  g.slices = 1;
  g.segment_pages = segment_pages;
  g.segments = segments;
  g.checkpoint_pages = 4;
  return g;
}

struct Log : SliceLog {
  explicit Log(const TargetGeometry& g, uint32_t kept = 2) : SliceLog(g, 0, 0, kept) {
    for (uint32_t i = 0; i < g.segments; ++i)
      free_found(i);
    ready = true;
  }
};

// next_to_seal() takes a never-written segment for free: give it an io as the writer would.
void mark_written(OpenSegment& open) {
  open.io = reinterpret_cast<SegmentIo*>(&open);
}

TEST(Geometry, FollowsTheDocumentForEveryCapacity) {
  struct Case {
    uint64_t mib;
    uint32_t slices;
    uint32_t segment_mib;
  };
  for (const Case& c :
       {Case{400, 1, 32}, Case{512, 1, 64}, Case{1024, 2, 64}, Case{4096, 8, 64},
        Case{16 * 1024, 16, 128}, Case{64 * 1024, 16, 256}, Case{1024 * 1024, 16, 256}}) {
    const auto g = choose_geometry(c.mib * kMiB, {});
    ASSERT_TRUE(g.has_value()) << c.mib;
    EXPECT_LE(bytes_of(g->pages()), c.mib * kMiB);
    EXPECT_EQ(g->slices, c.slices) << c.mib;
    EXPECT_EQ(g->segment_pages, c.segment_mib * 256) << c.mib;
    EXPECT_GE(g->segments, 7u) << c.mib;
  }
}

// Goal: a block of 32 MiB (a model of 8 B, 256 tokens) finds room on the default target.
TEST(Geometry, TheDefaultTargetTakesABlockOf32MiB) {
  const auto g = choose_geometry(kGiB, {});
  ASSERT_TRUE(g.has_value());
  EXPECT_GE(bytes_of(g->fragment_pages_max()), 32 * kMiB + bytes_of(kHeaderPagesMax));
}

TEST(Geometry, EveryShardHasASlice) {
  EXPECT_EQ(choose_slices(400 * kMiB, 1), 1u);
  EXPECT_EQ(choose_slices(400 * kMiB, 3), 4u);
  EXPECT_EQ(choose_slices(1024 * kGiB, 1), 16u);
  for (const uint32_t shards : {1u, 2u, 3u, 5u, 9u, 16u}) {
    const auto g = choose_geometry(400 * kMiB, {choose_slices(400 * kMiB, shards), 0});
    EXPECT_TRUE(g.has_value()) << shards;  // the smallest target that a daemon accepts
  }
}

TEST(Geometry, RefusesWhatCannotBe) {
  EXPECT_FALSE(choose_geometry(kMiB, {}).has_value());
  EXPECT_FALSE(choose_geometry(8 * kMiB, {}).has_value());
  EXPECT_FALSE(choose_geometry(kGiB, {3, 0}).has_value());
  EXPECT_FALSE(choose_geometry(kGiB, {128, 0}).has_value());
  EXPECT_FALSE(choose_geometry(kGiB, {16, 4}).has_value());
  EXPECT_FALSE(choose_geometry(kGiB, {16, 70000}).has_value());
}

TEST(SliceLog, GivesNothingBeforeItIsReady) {
  Log log(tiny());
  log.ready = false;
  EXPECT_FALSE(log.reserve(4));
}

TEST(SliceLog, FillsTheOpenSegmentExactlyFooterIncluded) {
  Log log(tiny());
  // 32 pages: header 1, footer 1, so 30 are left.
  EXPECT_TRUE(log.reserve(30));
  EXPECT_EQ(log.free_count(), 11u);
  EXPECT_TRUE(log.reserve(2));  // does not fit behind it
  EXPECT_EQ(log.free_count(), 10u);
  EXPECT_TRUE(log.reserve(28));
  EXPECT_EQ(log.free_count(), 10u);
  EXPECT_EQ(log.reserved_pages(), 60u);
}

TEST(SliceLog, TakesAFragmentThatIsAHeaderOnly) {
  Log log(tiny());
  ASSERT_TRUE(log.reserve(1));
  const Place place = log.place(log.take_reserved(1), 1, 1);
  EXPECT_EQ(place.pages, 1u);
  EXPECT_EQ(place.lead_pages, 1u);
}

TEST(SliceLog, KeepsSegmentsForReclaim) {
  Log log(tiny(12));  // fewer than 16: one is kept
  uint32_t granted = 0;
  while (log.reserve(30))
    ++granted;
  EXPECT_EQ(granted, 11u);
  EXPECT_EQ(log.free_count(), 1u);
  OpenSegment* open = log.take_reclaim(30);
  ASSERT_NE(open, nullptr);
  log.place(*open, 30, 2);
  EXPECT_EQ(log.take_reclaim(30), nullptr);
}

TEST(SliceLog, ReturnsASegmentThatWasNeverWritten) {
  Log log(tiny());
  ASSERT_TRUE(log.reserve(10));
  log.unreserve(10);
  EXPECT_EQ(log.next_to_seal(SealScope::kFull), nullptr);  // still the newest
  EXPECT_EQ(log.next_to_seal(SealScope::kAll), nullptr);
  EXPECT_EQ(log.open_count(), 0u);
  EXPECT_EQ(log.free_count(), 12u);
}

TEST(SliceLog, SealsAnOldSegmentOnlyWhenNothingIsOutForIt) {
  Log log(tiny());
  ASSERT_TRUE(log.reserve(20));
  ASSERT_TRUE(log.reserve(20));  // opens the second
  OpenSegment& first = log.take_reserved(20);
  mark_written(first);
  log.place(first, 20, 2);
  EXPECT_EQ(log.next_to_seal(SealScope::kFull), nullptr);  // its append is pending
  log.append_ended(first);
  EXPECT_EQ(log.next_to_seal(SealScope::kFull), &first);
  const uint32_t segment = first.segment;
  log.sealing(first);
  log.sealed(segment);
  EXPECT_EQ(log.victim(), segment);
}

// L2: whatever is reserved, appended and given back in whatever order, a reservation finds its
// place.
TEST(SliceLog, AReservationIsNeverBroken) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Log log(tiny(20, 64));
    Random random(seed);
    std::vector<uint32_t> out;
    for (int step = 0; step < 3000; ++step) {
      const uint64_t dice = random.below(10);
      if (dice < 5) {
        const auto pages = static_cast<uint32_t>(random.between(2, random.chance(100) ? 62 : 20));
        if (log.reserve(pages)) out.push_back(pages);
      } else if (!out.empty()) {
        const size_t i = random.below(out.size());
        const uint32_t pages = out[i];
        out.erase(out.begin() + static_cast<ptrdiff_t>(i));
        if (dice == 5) {
          log.unreserve(pages);
        } else {
          OpenSegment& open = log.take_reserved(pages);
          mark_written(open);
          const Place place = log.place(open, pages, 2);  // asserts that it fits
          ASSERT_LE(place.page + pages + footer_pages_of(open.entries), 64u);
          log.append_ended(open);
        }
      }
      while (OpenSegment* open = log.next_to_seal(SealScope::kFull)) {
        const uint32_t segment = open->segment;
        log.sealing(*open);
        log.sealed(segment);
      }
      // Reclaim in one line: the best victim dies.
      while (log.free_count() < 4) {
        const auto victim = log.victim();
        if (!victim.has_value()) break;
        Segment& segment = log.segment(*victim);
        while (segment.live_count > 1)
          log.live_drop(*victim, 1);
        if (segment.live_count == 1) log.live_drop(*victim, segment.live_pages);
        log.reclaiming(*victim);
        log.erasing(*victim);
        log.erased(*victim);
      }
    }
    for (const uint32_t pages : out)
      log.unreserve(pages);
    EXPECT_EQ(log.reserved_pages(), 0u);
  }
}

TEST(SliceLog, ChoosesTheVictimThatWinsMost) {
  Log log(tiny());
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j)
      ASSERT_TRUE(log.reserve(10));
    for (int j = 0; j < 3; ++j) {
      OpenSegment& open = log.take_reserved(10);
      mark_written(open);
      log.place(open, 10, 2);
      log.segment(open.segment).sequence = 10 - static_cast<uint64_t>(i);
      log.append_ended(open);
    }
  }
  while (OpenSegment* open = log.next_to_seal(SealScope::kAll)) {
    const uint32_t segment = open->segment;
    log.sealing(*open);
    log.sealed(segment);
  }
  EXPECT_EQ(log.gain(log.segment(0)), 0u);  // full of its kind
  EXPECT_EQ(log.victim(), 2u);              // equal: the lowest sequence
  log.live_drop(0, 10);
  EXPECT_EQ(log.gain(log.segment(0)), 10u);
  EXPECT_EQ(log.victim(), 0u);
  log.live_drop(1, 10);
  log.live_drop(1, 10);
  EXPECT_EQ(log.victim(), 1u);
}

TEST(SliceLog, OneLargeFragmentIsNoGain) {
  Log log(tiny());
  ASSERT_TRUE(log.reserve(20));
  OpenSegment& open = log.take_reserved(20);
  mark_written(open);
  log.place(open, 20, 2);
  log.append_ended(open);
  const uint32_t segment = open.segment;
  log.sealing(open);
  log.sealed(segment);
  EXPECT_EQ(log.gain(log.segment(segment)), 0u);
}

// Seals `segment`; its sequence is what the writer would have given it.
void seal(Log& log, OpenSegment& open, uint64_t sequence) {
  mark_written(open);
  log.segment(open.segment).sequence = sequence;
  log.sequence_seen(sequence);
  const uint32_t segment = open.segment;
  log.sealing(open);
  log.sealed(segment);
}

TEST(SliceLog, RecordsAreCountedApartAndOneInEightPagesAtMost) {
  Log log(tiny());
  EXPECT_EQ(log.kill_pages_max(), 12u * 32 / 8);
  OpenSegment* open = log.take_kill();
  ASSERT_NE(open, nullptr);
  EXPECT_EQ(log.place_kill(*open, 1, 5).pages, 1u);
  log.kill_add(open->segment, 1, 5);
  EXPECT_EQ(log.kill_pages(), 2u);
  EXPECT_EQ(log.live_pages(), 2u);
  log.kill_drop(open->segment, 1);
  EXPECT_EQ(log.kill_pages(), 1u);
  EXPECT_EQ(log.live_pages(), 1u);
}

TEST(SliceLog, EachDomainHasItsShareOfTheRecords) {
  Log log(tiny());
  OpenSegment* open = log.take_kill();
  ASSERT_NE(open, nullptr);
  for (uint32_t i = 0; i < 24; ++i) {
    EXPECT_FALSE(log.kills_full(2, 2)) << i;
    log.kill_add(open->segment, 2, 5);
  }
  EXPECT_TRUE(log.kills_full(2, 2));
  EXPECT_FALSE(log.kills_full(1, 2));
  EXPECT_FALSE(log.kills_full(2, 1));  // the others are no more
  log.kill_add(open->segment, 1, 5);
  log.kill_drop(open->segment, 2);
  EXPECT_FALSE(log.kills_full(2, 2));
  EXPECT_TRUE(log.has_kill(open->segment, 1));
  log.kill_drop(open->segment, 1);
  EXPECT_FALSE(log.has_kill(open->segment, 1));
  while (log.has_kill(open->segment, 2))
    log.kill_drop(open->segment, 2);
  EXPECT_EQ(log.kill_pages(), 0u);
  EXPECT_EQ(log.live_pages(), 0u);
  for (uint32_t i = 0; i < 48; ++i)
    log.kill_add(open->segment + i % 2, 2, 5);
  EXPECT_TRUE(log.kills_full(1, 2)) << "of when there was one domain";
}

// Goal: a segment full of records whose work is done is a victim, or they would stay for good.
TEST(SliceLog, RecordsThatAreNotNeededAnyMoreAreAGain) {
  Log log(tiny());
  ASSERT_TRUE(log.reserve(30));
  OpenSegment& first = log.take_reserved(30);  // of the time of the records
  log.place(first, 30, 2);
  log.append_ended(first);
  const uint32_t old = first.segment;
  uint32_t records = 0;
  for (uint32_t i = 0; i < 30; ++i) {
    OpenSegment* open = log.take_kill();
    ASSERT_NE(open, nullptr);
    records = open->segment;
    log.place_kill(*open, 1, 2);
    log.append_ended(*open);
  }
  ASSERT_NE(records, old);
  seal(log, first, 1);
  seal(log, *log.segment(records).open, 2);
  EXPECT_EQ(log.gain(log.segment(records)), 0u);
  EXPECT_EQ(log.victim(), old);
  log.live_drop(old, 30);
  log.reclaiming(old);
  log.erasing(old);
  log.erased(old);
  EXPECT_EQ(log.gain(log.segment(records)), 30u);
  EXPECT_EQ(log.victim(), records);
  log.kill_add(records, 1, ~uint64_t{0});  // a target was away
  EXPECT_EQ(log.gain(log.segment(records)), 0u);
}

TEST(SliceLog, AStalledSliceWakesUpWhenEnoughWasReleased) {
  Log log(tiny());
  ASSERT_TRUE(log.reserve(20));
  OpenSegment& open = log.take_reserved(20);
  log.place(open, 10, 2);
  log.place(open, 2, 2);
  log.stall();
  EXPECT_TRUE(log.stalled());
  log.live_drop(open.segment, 1);
  EXPECT_TRUE(log.stalled());
  log.live_drop(open.segment, 2);
  EXPECT_FALSE(log.stalled());
}

}  // namespace
}  // namespace varve::flash
