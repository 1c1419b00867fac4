// Reclaim: room is made without losing anything live, whatever the load and the sizes.
#include "server/flash/reclaim.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/server/flash/flash_rig.h"

namespace varve::flash {
namespace {

RigOptions one_slice(uint32_t segments = 12, uint32_t segment_pages = 32) {
  RigOptions options;
  options.slices = 1;
  options.segments = segments;
  options.segment_pages = segment_pages;
  return options;
}

// Appends until it is granted; asks again as time goes by, as a client would.
TestFragment* append_somehow(Rig& rig, uint64_t seed, uint32_t extents, uint32_t bytes) {
  for (int tries = 0; tries < 200; ++tries) {
    TestFragment* f = rig.append(seed, extents, bytes);
    if (f != nullptr) {
      rig.run_until([&] { return f->done; });
      return f;
    }
    rig.settle(2 * kMillisecond);
  }
  return nullptr;
}

void check_all(Rig& rig) {
  std::vector<std::pair<BlockId, Attempt>> all;
  for (const auto& [block, known] : rig.user().known)
    all.push_back({block, known.attempt});
  for (const auto& [block, attempt] : all) {
    const TestFragment* f = rig.fragment(block);
    ASSERT_EQ(f->attempt, attempt);
    const Status status = rig.read_back(block, *f);
    if (rig.user().evicted.contains(block)) continue;  // meanwhile
    ASSERT_TRUE(status.ok()) << status.what();
  }
  EXPECT_TRUE(rig.user().lost.empty());
}

TEST(Reclaim, AWhollyDeadSegmentIsErasedWithoutCopying) {
  Rig rig(one_slice());
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    ASSERT_NE(append_somehow(rig, seed, 1, 9000), nullptr) << seed;
    if (seed > 20) rig.user().evict(test_block(seed - 20));  // FIFO: segments die whole
  }
  EXPECT_GT(rig.metric("reclaimed_segments_total"), 5);
  EXPECT_EQ(rig.metric("reinserted_total"), 0);
  EXPECT_EQ(rig.user().room_asks, 0u);
  check_all(rig);
}

// Pinned blocks stay through many generations of churn; all are read back byte by byte.
TEST(Reclaim, NeverLosesALiveFragmentUnderFullLoad) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    RigOptions options = one_slice(14);
    options.seed = seed;
    Rig rig(options);
    rig.start_and_recover();
    Random random(seed);
    for (uint64_t i = 1; i <= 20; ++i) {
      ASSERT_NE(append_somehow(rig, i, 2, 6000), nullptr);
      rig.user().pinned.insert(test_block(i));
    }
    for (uint64_t i = 100; i <= 700; ++i) {
      ASSERT_NE(append_somehow(rig, i, static_cast<uint32_t>(random.between(1, 4)),
                               static_cast<uint32_t>(random.between(2000, 16000))),
                nullptr)
          << i;
    }
    EXPECT_GT(rig.metric("reinserted_total"), 0);
    for (uint64_t i = 1; i <= 20; ++i)
      EXPECT_NE(rig.user().find(test_block(i)), nullptr) << i;
    check_all(rig);
    // And nothing of the accounting drifts: what the user knows is what flash counts as live.
    uint64_t pages = 0;
    for (const auto& [block, known] : rig.user().known)
      pages += known.place.pages;
    rig.run_until([&] { return rig.flash().idle(); });
    pages = 0;
    for (const auto& [block, known] : rig.user().known)
      pages += known.place.pages;
    EXPECT_EQ(rig.flash().usage(0).live_pages, pages);
    EXPECT_EQ(rig.flash().usage(0).reserved_pages, 0u);
  }
}

TEST(Reclaim, DropsWhatIsNotWorthCopying) {
  Rig rig(one_slice());
  rig.start_and_recover();
  rig.user().may_evict = false;
  rig.user().drop_in_reclaim = true;
  uint64_t granted = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    if (seed % 3 == 0 && rig.user().find(test_block(seed - 1)) != nullptr) {
      rig.user().evict(test_block(seed - 1));  // holes, so that victims have a gain
    }
    granted += append_somehow(rig, seed, 1, 9000) != nullptr ? 1 : 0;
  }
  EXPECT_EQ(granted, 200u);
  EXPECT_GT(rig.metric("reclaim_dropped_total"), 0);
  EXPECT_EQ(rig.metric("reinserted_total"), 0);
  check_all(rig);
}

TEST(Reclaim, ARefusedReservationAlwaysStartsMakingRoom) {
  Rig rig(one_slice());
  rig.start_and_recover();
  uint64_t seed = 1;
  while (rig.append(seed, 1, 9000) != nullptr)
    ++seed;  // as fast as it goes
  const uint32_t asks = rig.user().room_asks;
  rig.run_until([&] { return rig.flash().idle(); });
  EXPECT_GT(rig.user().room_asks, asks);
  EXPECT_NE(append_somehow(rig, 10000, 1, 9000), nullptr);
}

TEST(Reclaim, RestsWhenNothingMayGoAndWakesWhenSomethingDoes) {
  Rig rig(one_slice());
  rig.start_and_recover();
  rig.user().may_evict = false;
  uint64_t seed = 1;
  while (append_somehow(rig, seed, 1, 9000) != nullptr)
    ++seed;
  rig.settle(5 * kSecond);
  EXPECT_TRUE(rig.flash().idle());  // it does not copy around what is full
  const int64_t copied = rig.metric("reinserted_total");
  EXPECT_EQ(rig.append(5000, 1, 9000), nullptr);
  rig.settle(kSecond);
  EXPECT_EQ(rig.metric("reinserted_total"), copied);
  for (uint64_t gone = 1; gone <= 12; ++gone)
    rig.user().evict(test_block(gone));
  EXPECT_NE(append_somehow(rig, 5001, 1, 9000), nullptr);
  check_all(rig);
}

// Fragments of more than half a segment: the rest of each segment is of use to nobody.
TEST(Reclaim, DoesNotCopyLargeFragmentsAroundForever) {
  Rig rig(one_slice());
  rig.start_and_recover();
  rig.user().may_evict = false;
  uint64_t seed = 1;
  while (append_somehow(rig, seed, 1, 100000) != nullptr)
    ++seed;
  rig.settle(5 * kSecond);
  EXPECT_TRUE(rig.flash().idle());
  EXPECT_EQ(rig.metric("reinserted_total"), 0);
}

TEST(Reclaim, WaitsForTheReadersOfItsVictim) {
  RigOptions options = one_slice();
  options.flash.reads_max = 1;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 20; ++seed)
    ASSERT_NE(append_somehow(rig, seed, 1, 9000), nullptr);
  rig.settle(kSecond / 10);
  // A long queue of reads of the first segment, then everything in it dies and room is needed.
  struct One {
    Read read;
    PageMemory memory{8};
    iovec run;
    bool done = false;
  };
  std::vector<std::unique_ptr<One>> reads;
  const Place place = rig.appended[0]->append.place;
  for (int i = 0; i < 50; ++i) {
    auto one = std::make_unique<One>();
    one->run = {one->memory.page(0), bytes_of(place.lead_pages)};
    one->read.kind = Read::Kind::kLead;
    one->read.block = rig.appended[0]->block;
    one->read.place = place;
    one->read.fingerprint = rig.appended[0]->fingerprint;
    one->read.runs = {&one->run, 1};
    one->read.owner = one.get();
    one->read.on_done = [](Read& read) { static_cast<One*>(read.owner)->done = true; };
    rig.flash().read(one->read);
    reads.push_back(std::move(one));
  }
  for (const auto& f : rig.appended) {
    if (f->append.place.segment == place.segment) rig.user().evict(f->block);
  }
  uint64_t seed = 100;
  while (rig.append(seed, 1, 9000) != nullptr)
    ++seed;
  rig.run_until([&] { return reads.back()->done; });
  for (const auto& one : reads) {
    EXPECT_TRUE(one->done);
    EXPECT_TRUE(one->read.status.ok()) << one->read.status.what();
  }
}

TEST(Reclaim, RotInAVictimIsToldAndTheRestIsKept) {
  Rig rig(one_slice());
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    ASSERT_NE(append_somehow(rig, seed, 1, 9000), nullptr);
    ASSERT_NE(append_somehow(rig, 50 + seed, 1, 9000), nullptr);
    rig.user().pinned.insert(test_block(seed));
    rig.user().evict(test_block(50 + seed));  // so that its segment is worth emptying
  }
  const TestFragment& rotten = *rig.appended[4];  // seed 3
  const auto geometry = geometry_of(rig.super(0));
  const Place place = rotten.append.place;
  rig.platter(0).bytes()[bytes_of(geometry->segment_page(0, place.segment) + place.page + 1) + 9] ^=
      std::byte{1};
  for (uint64_t seed = 100; seed <= 300 && rig.user().lost.empty(); ++seed) {
    append_somehow(rig, seed, 1, 9000);
  }
  EXPECT_EQ(rig.user().lost, std::set<BlockId>{rotten.block});
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    if (seed == 3) continue;
    const TestFragment& f = *rig.fragment(test_block(seed));
    EXPECT_TRUE(rig.read_back(f.block, f).ok()) << seed;
  }
}

TEST(Reclaim, LargeFragmentsAreCopiedThroughSeveralWindows) {
  RigOptions options = one_slice(10, 1024);
  Rig rig(options);
  rig.start_and_recover();
  ASSERT_NE(append_somehow(rig, 1, 3, 500000), nullptr);  // about 370 pages
  rig.user().pinned.insert(test_block(1));
  for (uint64_t seed = 10; seed <= 60 && rig.user().moves == 0; ++seed) {
    ASSERT_NE(append_somehow(rig, seed, 2, 500000), nullptr);
  }
  EXPECT_GT(rig.user().moves, 0u);
  EXPECT_TRUE(rig.read_back(rig.appended[0]->block, *rig.appended[0]).ok());
}

// A drive does not give the header of a segment that reclaim has erased, and of which a footer of
// its earlier life would say what lay there: the segment of what was appended first.
struct ErasedTest : testing::Test {
  ErasedTest() {
    rig.start_and_recover();
    while (rig.metric("reclaimed_segments_total") == 0)
      append();
    segment = rig.appended[0]->append.place.segment;
    const uint64_t header = geometry_of(rig.super(0))->segment_page(0, segment);
    header_at = bytes_of(header);
    EXPECT_TRUE(all_zero(rig.platter(0).bytes().subspan(header_at, kPageBytes)));
  }
  // The next one; one that is old goes, so that segments die whole.
  const Place& append() {
    const TestFragment* f = append_somehow(rig, ++seed, 1, 9000);
    VARVE_ASSERT(f != nullptr, seed);
    if (seed > 20) rig.user().evict(test_block(seed - 20));
    return f->append.place;
  }
  void start_without_header() {
    rig.start();
    rig.device(0).sector_error_set(header_at, kPageBytes);
    rig.recover();
  }
  size_t told_there() {
    return static_cast<size_t>(
        std::count_if(rig.user().told.begin(), rig.user().told.end(),
                      [&](const FragmentInfo& f) { return f.place.segment == segment; }));
  }
  Rig rig{one_slice()};
  uint64_t seed = 0, header_at = 0;
  uint32_t segment = 0;
};

TEST_F(ErasedTest, NothingIsKnownOfAFreeSegmentWhoseHeaderCannotBeRead) {
  std::set<BlockId> before, after;
  for (const auto& [block, known] : rig.user().known)
    before.insert(block);
  rig.stop();
  start_without_header();
  EXPECT_EQ(told_there(), 0u);
  for (const auto& [block, known] : rig.user().known)
    after.insert(block);
  EXPECT_EQ(after, before);
  EXPECT_EQ(rig.metric("unreadable_segments_total"), 1);
}

// What is in it now is not sealed under the name of what was: another start can read it.
TEST_F(ErasedTest, AnOpenSegmentIsNotTakenForWhatItWasBefore) {
  while (append().segment != segment) {
  }
  const Place& second = append();
  ASSERT_EQ(second.segment, segment);
  const TestFragment& kept = *rig.appended.back();
  rig.power_cut();
  start_without_header();
  EXPECT_EQ(told_there(), 0u);
  EXPECT_EQ(rig.user().find(kept.block), nullptr);
  EXPECT_EQ(rig.metric("unreadable_segments_total"), 1);
  rig.power_cut();
  rig.start_and_recover();
  EXPECT_EQ(told_there(), 2u);
  EXPECT_TRUE(rig.read_back(kept.block, kept).ok());
}

// Goal: a stop leaves room for the next start. A stop in the middle of a victim once sealed
// reclaim's own segment under it: nothing was free any more and nothing dead, though the slice was
// half empty. Method: a small slice whose segments are all partly live; stops at every few moments
// of reclaim, the next start must get a fragment in, and lose none.
TEST(Reclaim, AStopInTheMiddleOfAVictimLeavesAFreeSegment) {
  uint32_t moved = 0;
  for (int moment = 0; moment < 60; ++moment) {
    RigOptions options = one_slice(6);
    options.flash.free_segments_min = 1;
    Rig rig(options);
    rig.start_and_recover();
    rig.user().may_evict = false;
    uint64_t seed = 1;
    while (append_somehow(rig, seed, 1, 9000) != nullptr)
      ++seed;
    for (uint64_t gone = 1; gone < seed; gone += 2)
      rig.user().evict(test_block(gone));  // every segment is half live
    static_cast<void>(rig.append(5000, 1, 9000));
    for (int step = 0; step < moment; ++step)
      rig.step();
    moved += rig.user().moves > 0 ? 1 : 0;
    const auto known = rig.user().known.size();
    rig.stop();
    rig.start_and_recover();
    rig.user().may_evict = false;
    EXPECT_GE(rig.user().known.size(), known) << moment;
    EXPECT_NE(append_somehow(rig, 6000, 1, 9000), nullptr) << moment;
    check_all(rig);
  }
  EXPECT_GT(moved, 10u);
}

// A stop that comes in the turn in which reclaim was woken for nothing ends as soon as any other.
TEST(Reclaim, AStopInTheTurnOfAWakeEnds) {
  Rig rig(one_slice());
  rig.start_and_recover();
  rig.user().may_evict = false;
  uint64_t seed = 1;
  while (append_somehow(rig, seed, 1, 9000) != nullptr)
    ++seed;
  rig.stop();  // nothing is open, nothing has changed since
  rig.start_and_recover();
  rig.settle(kSecond);
  ASSERT_TRUE(rig.flash().idle());
  uint32_t granted = 0;
  while (rig.flash().reserve(0, 0, 20))
    ++granted;
  for (; granted > 0; --granted)
    rig.flash().unreserve(0, 0, 20);
  rig.flash().drain();
  EXPECT_TRUE(rig.run_until([&] { return rig.flash().idle(); }, 20000));
}

}  // namespace
}  // namespace varve::flash
