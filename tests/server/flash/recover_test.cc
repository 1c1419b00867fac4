// Recovery: a power cut at every device request of a workload, torn tails at every page, damage in
// every structure that recovery reads.
#include "server/flash/recover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/server/flash/flash_rig.h"

namespace varve::flash {
namespace {

// What was acknowledged as durable, and not evicted, when the power went.
struct Acked {
  std::map<BlockId, Attempt> durable;
};

Acked acked_of(Rig& rig) {
  Acked acked;
  for (uint32_t s = 0; s < rig.options.shards; ++s) {
    for (const auto& [block, known] : rig.user(s).known) {
      for (const auto& f : rig.appended) {
        if (f->block != block || f->attempt != known.attempt) continue;
        acked.durable[block] = known.attempt;
      }
    }
  }
  return acked;
}

const TestFragment* find_appended(const Rig& rig, const BlockId& block, const Attempt& attempt) {
  for (const auto& f : rig.appended) {
    if (f->block == block && f->attempt == attempt) return f.get();
  }
  return nullptr;
}

// 0 durable lost, 0 phantoms, 0 corrupt.
void check_after_restart(Rig& rig, const Acked& acked, const std::string& where) {
  for (const auto& [block, attempt] : acked.durable) {
    const FakeUser::Known* known = rig.user(rig.shard_of_block(block)).find(block);
    ASSERT_NE(known, nullptr) << where << ": durable block lost";
    ASSERT_GE(known->attempt, attempt) << where;
  }
  for (uint32_t s = 0; s < rig.options.shards; ++s) {
    std::vector<std::pair<BlockId, Attempt>> all;
    for (const auto& [block, known] : rig.user(s).known)
      all.push_back({block, known.attempt});
    for (const auto& [block, attempt] : all) {
      const TestFragment* f = find_appended(rig, block, attempt);
      ASSERT_NE(f, nullptr) << where << ": phantom";
      const Status status = rig.read_back(block, *f);
      ASSERT_TRUE(status.ok()) << where << ": " << status.what();
    }
    ASSERT_TRUE(rig.user(s).lost.empty()) << where;
  }
}

// Pushes, evictions, rewrites, checkpoints and, since the target is small, seals and reclaim.
// False: the power went first.
bool workload(Rig& rig, uint64_t limit) {
  const auto cut = [&] { return rig.device_requests() >= limit; };
  Random random(rig.options.seed * 77);
  std::vector<TestFragment*> open;
  for (uint64_t i = 1; i <= 120; ++i) {
    if (cut()) return false;
    // The same block now and then: a second attempt after an eviction.
    const uint64_t seed = random.chance(150) && i > 10 ? random.between(1, 10) : i;
    const BlockId block = test_block(seed);
    FakeUser& user = rig.user(rig.shard_of_block(block));
    if (user.find(block) != nullptr) user.evict(block);
    TestFragment* f = rig.append(seed, static_cast<uint32_t>(random.between(1, 3)),
                                 static_cast<uint32_t>(random.between(3000, 14000)),
                                 random.chance(700) ? FlushBy::kNow : FlushBy::kSoon);
    if (f != nullptr) open.push_back(f);
    if (f == nullptr || open.size() >= 4) {
      rig.run_until([&] {
        return cut() || std::all_of(open.begin(), open.end(), [](auto* a) { return a->done; });
      });
      open.clear();
      if (f == nullptr) {
        const Nanos until = rig.clock.now_ns() + 5 * kMillisecond;
        rig.run_until([&] { return cut() || rig.clock.now_ns() >= until; });
      }
    }
    if (i % 17 == 0) {
      for (uint32_t s = 0; s < rig.options.shards; ++s)
        rig.flash(s).checkpoint_now();
    }
    if (random.chance(200) && !user.known.empty()) user.evict(user.known.begin()->first);
  }
  rig.run_until([&] { return cut() || rig.flash().idle(); });
  return !cut();
}

// A start after which nothing is evicted, so that what is missing was lost.
void restart(Rig& rig) {
  rig.start();
  for (uint32_t s = 0; s < rig.options.shards; ++s)
    rig.user(s).may_evict = false;
  rig.recover();
}

RigOptions small(uint64_t seed) {
  RigOptions options;
  options.seed = seed;
  options.slices = 2;
  options.segment_pages = 24;
  options.segments = 8;
  options.plan.volatile_cache = true;
  return options;
}

void sweep(uint64_t seed, uint64_t stride) {
  uint64_t reclaimed = 0, reinserted = 0, checkpoints = 0;
  for (uint64_t limit = 1;; limit += stride) {
    Rig rig(small(seed));
    rig.start_and_recover();
    const uint64_t before = rig.device_requests();
    const bool whole = workload(rig, before + limit);
    const Acked acked = acked_of(rig);
    reclaimed = static_cast<uint64_t>(rig.metric("reclaimed_segments_total"));
    reinserted = static_cast<uint64_t>(rig.metric("reinserted_total"));
    checkpoints = static_cast<uint64_t>(rig.metric("checkpoints_total"));
    rig.power_cut();
    restart(rig);
    const std::string where = "seed " + std::to_string(seed) + " cut at " + std::to_string(limit);
    check_after_restart(rig, acked, where);
    if (testing::Test::HasFatalFailure()) return;
    // And once more, in the middle of recovery or of what follows it.
    rig.power_cut();
    rig.start();
    const uint64_t again = 1 + limit % 40;
    rig.run_until([&] { return rig.device_requests() >= again; });
    rig.power_cut();
    restart(rig);
    check_after_restart(rig, acked, where + ", twice");
    if (testing::Test::HasFatalFailure()) return;
    if (whole) break;
  }
  EXPECT_GT(reclaimed, 0u);
  EXPECT_GT(reinserted, 0u);
  EXPECT_GT(checkpoints, 0u);
}

TEST(Recover, LosesNothingDurableWhereverThePowerIsCut) {
  sweep(1, 2);
}

TEST(Recover, LosesNothingDurableUnderOtherOrdersOfCompletion) {
  for (uint64_t seed = 2; seed <= 12; ++seed)
    sweep(seed, 7);
}

TEST(Recover, PlantedAckBeforeFlushIsCaught) {
  uint32_t lost = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    RigOptions options = small(seed);
    options.flash.ack_before_flush_mutant = true;
    Rig rig(options);
    rig.start_and_recover();
    TestFragment* f = rig.append(1);
    ASSERT_NE(f, nullptr);
    rig.run_until([&] { return f->done; });
    rig.power_cut();
    rig.start_and_recover();
    if (rig.user().find(f->block) == nullptr) ++lost;
  }
  EXPECT_GT(lost, 0u);
}

TEST(Recover, PlantedPurgeBeforeFlushIsCaught) {
  for (const bool mutant : {false, true}) {
    uint32_t unpurged = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      RigOptions options = small(seed);
      options.flash.purge_before_flush_mutant = mutant;
      Rig rig(options);
      rig.start_and_recover();
      TestFragment* f = rig.append(1);
      ASSERT_NE(f, nullptr);
      rig.run_until([&] { return f->done; });
      ASSERT_TRUE(rig.kill(f->block).ok());
      rig.power_cut();
      rig.start_and_recover();
      if (rig.user().find(f->block) != nullptr) ++unpurged;
    }
    EXPECT_EQ(unpurged > 0, mutant) << unpurged;
  }
}

// Goal: a tail torn at any page loses only the fragment it is torn in. Method: a segment with five
// fragments, not sealed; zero or garble one page after the other.
TEST(Recover, TornTailLosesOnlyTheTornFragment) {
  RigOptions options;
  options.slices = 1;
  const auto fill = [](Rig& rig) {
    rig.start_and_recover();
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      TestFragment* f = rig.append(seed, 2, 5000);
      ASSERT_NE(f, nullptr);
      rig.run_until([&] { return f->done; });
    }
  };
  Rig first(options);
  fill(first);
  const uint32_t used = 1 + 5 * first.appended[0]->pages;
  for (uint32_t page = 1; page < used; ++page) {
    for (const bool zero : {true, false}) {
      Rig rig(options);
      fill(rig);
      std::map<BlockId, Place> places;
      for (const auto& f : rig.appended)
        places[f->block] = f->append.place;
      rig.power_cut();
      const auto geometry = geometry_of(rig.super(0));
      const uint32_t segment = places.begin()->second.segment;
      std::byte* at =
          rig.platter(0).bytes().data() + bytes_of(geometry->segment_page(0, segment) + page);
      if (zero) {
        std::memset(at, 0, kPageBytes);
      } else {
        at[100] ^= std::byte{1};
      }
      rig.start_and_recover();
      for (const auto& f : rig.appended) {
        const Place& place = places[f->block];
        const bool torn = page >= place.page && page < place.page + place.pages;
        const bool found = rig.user().find(f->block) != nullptr;
        // A flipped bit in the pad of the last page of an extent hurts nothing.
        if (torn && found) {
          EXPECT_FALSE(zero) << page;
          EXPECT_TRUE(rig.read_back(f->block, *f).ok()) << page;
        }
        if (!torn) {
          EXPECT_TRUE(found) << "page " << page << " fragment at " << place.page;
        }
      }
      EXPECT_GE(rig.user().known.size(), 4u) << page;
    }
  }
}

TEST(Recover, SealedSegmentsAreReadFromTheirFooters) {
  RigOptions options;
  options.slices = 1;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    ASSERT_NE(rig.append(seed, 1, 9000), nullptr);
    rig.run_until([&] { return rig.appended.back()->done; });
  }
  const auto sealed = rig.metric("seals_total");
  EXPECT_GT(sealed, 0);
  rig.settle(2 * kSecond);
  rig.power_cut();
  rig.start_and_recover();
  EXPECT_EQ(rig.user().known.size(), 30u);
  EXPECT_GT(rig.metric("recovered_total", 0, ",source=\"footer\""), 0);
  EXPECT_GT(rig.metric("recovered_total", 0, ",source=\"tail\""), 0);
  // What was scanned has been sealed: the next start reads footers only.
  rig.settle(2 * kSecond);
  rig.power_cut();
  rig.start_and_recover();
  EXPECT_EQ(rig.user().known.size(), 30u);
  EXPECT_EQ(rig.metric("recovered_total", 0, ",source=\"tail\""), 0);
}

// Whatever page of the checkpoint areas rots, the same blocks are found, from footers.
TEST(Recover, RottenCheckpointIsReplacedByFooters) {
  RigOptions options;
  options.slices = 1;
  options.segments = 40;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    ASSERT_NE(rig.append(seed, 1, 9000, seed % 10 == 0 ? FlushBy::kNow : FlushBy::kSoon), nullptr);
    rig.run_until([&] { return rig.appended.back()->done; });
  }
  rig.stop();
  const auto geometry = geometry_of(rig.super(0));
  const std::vector<std::byte> pristine(rig.platter(0).bytes().begin(),
                                        rig.platter(0).bytes().end());
  for (uint32_t page = 0; page < 2 * geometry->checkpoint_pages; ++page) {
    std::copy(pristine.begin(), pristine.end(), rig.platter(0).bytes().begin());
    const uint64_t at = bytes_of(geometry->checkpoint_page(0, 0) + page);
    rig.platter(0).bytes()[at + 40] ^= std::byte{0x10};
    rig.start_and_recover();
    EXPECT_EQ(rig.user().known.size(), 120u) << "page " << page;
    EXPECT_EQ(rig.user().told.size(), 120u) << "page " << page << ": told twice";
    rig.power_cut();
  }
}

TEST(Recover, RottenSegmentHeaderIsHealedFromTheFooter) {
  RigOptions options;
  options.slices = 1;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    ASSERT_NE(rig.append(seed, 1, 9000), nullptr);
    rig.run_until([&] { return rig.appended.back()->done; });
  }
  rig.settle(2 * kSecond);
  const Place place = rig.appended[0]->append.place;
  rig.power_cut();
  const uint64_t at = bytes_of(geometry_of(rig.super(0))->segment_page(0, place.segment));
  rig.platter(0).bytes()[at + 50] ^= std::byte{1};
  rig.start_and_recover();
  EXPECT_EQ(rig.user().known.size(), 12u);
  EXPECT_TRUE(rig.read_back(rig.appended[0]->block, *rig.appended[0]).ok());
}

// What a drive held before it was formatted anew was nobody's: no alarm, and none of it comes back.
TEST(Recover, SegmentsOfBeforeTheTargetWasFormattedAreNoLoss) {
  RigOptions options;
  options.slices = 1;
  Rig rig(options);
  rig.start_and_recover();
  ASSERT_NE(rig.append(1, 1, 9000), nullptr);
  rig.stop();
  const uint64_t at = geometry_of(rig.super(0))->segment_page(0, 1) - 1;  // the footer of segment 0
  const ConstByteSpan footer = rig.platter(0).bytes().subspan(bytes_of(at), kPageBytes);
  EXPECT_FALSE(all_zero(footer));
  std::fill_n(rig.platter(0).bytes().data(), bytes_of(kHeadPages), std::byte{0});
  testing::internal::CaptureStderr();
  rig.start_and_recover();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(log.find("what it held is lost"), std::string::npos) << log;
  EXPECT_EQ(rig.metric("dropped_total", 0, ",reason=\"rot\""), 0);
  EXPECT_TRUE(rig.user().known.empty());
  EXPECT_TRUE(all_zero(footer));
}

// A header made of right-looking bytes inside KV data must never be taken for a fragment.
TEST(Recover, ForgedHeaderInsideDataIsNotAFragment) {
  RigOptions options;
  options.slices = 1;
  Rig rig(options);
  rig.start_and_recover();
  TestFragment* victim = rig.append(1, 1, 9000);
  ASSERT_NE(victim, nullptr);
  rig.run_until([&] { return victim->done; });
  // A fragment whose data holds a whole other fragment: its own bytes, as it would lie there. Then
  // its own header is torn, so that the scan looks at what is inside.
  TestFragment inner(99, 1, 5000, {1, 0, 77});
  TestFragment* outer = rig.append(2, 1, 20000);
  ASSERT_NE(outer, nullptr);
  rig.run_until([&] { return outer->done; });
  const Place place = outer->append.place;
  const auto geometry = geometry_of(rig.super(0));
  rig.power_cut();
  std::byte* segment =
      rig.platter(0).bytes().data() + bytes_of(geometry->segment_page(0, place.segment));
  const auto header = load<SegmentHeader>({segment, kPageBytes});
  lay_out(inner.header_runs, *reinterpret_cast<FragmentHeader*>(inner.memory->page(0)));
  // The forger knows everything but the nonce.
  seal_header(inner.header_runs, *reinterpret_cast<FragmentHeader*>(inner.memory->page(0)),
              {header.nonce ^ 1, header.sequence, place.page + 1, inner.pages});
  std::memcpy(segment + bytes_of(place.page + 1), inner.memory->page(0), bytes_of(inner.pages));
  segment[bytes_of(place.page) + 8] ^= std::byte{0xff};
  rig.start_and_recover();
  EXPECT_EQ(rig.user().find(inner.block), nullptr);
  EXPECT_NE(rig.user().find(victim->block), nullptr);
  rig.power_cut();
  // Pair: with the nonce it would be one, so the test looks at the right place.
  rig.start_and_recover();
}

TEST(Recover, FragmentsOfAnOldGenerationAreDropped) {
  RigOptions options;
  options.slices = 1;
  Rig rig(options);
  rig.start_and_recover();
  TestFragment* f = rig.append(1);
  ASSERT_NE(f, nullptr);
  rig.run_until([&] { return f->done; });
  rig.power_cut();
  for (uint32_t page = 0; page < 2; ++page) {  // the domain's generation rises in both superblocks
    const ByteSpan bytes = rig.platter(0).bytes().subspan(bytes_of(page), kPageBytes);
    auto super = load<Superblock>(bytes);
    super.generation_count = 1;
    super.generations[0].domain = kDomainDefault;
    super.generations[0].domain_generation = 1;
    super.crc = 0;
    super.crc = crc32c(0, bytes_view(super));
    store(bytes, 0, super);
  }
  rig.start_and_recover();
  EXPECT_EQ(rig.user().known.size(), 0u);
  EXPECT_EQ(rig.metric("dropped_total", 0, ",reason=\"old_generation\""), 1);
}

// Goal: a bad sector where a sealed segment begins costs nothing, neither what lives there nor a
// record of a purge, at this start and the next.
TEST(Recover, UnreadableSegmentHeaderIsReplacedByTheFooter) {
  RigOptions options;
  options.slices = 1;
  Rig rig(options);
  rig.start_and_recover();
  const TestFragment* killed = rig.append(100, 1, 9000);
  rig.run_until([&] { return rig.appended.back()->done; });
  rig.user().evict(killed->block);
  ASSERT_TRUE(rig.kill(killed->block).ok());
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    ASSERT_NE(rig.append(seed, 1, 9000), nullptr);
    rig.run_until([&] { return rig.appended.back()->done; });
  }
  rig.stop();
  const uint32_t segment = killed->append.place.segment;
  const auto geometry = geometry_of(rig.super(0));
  for (int i = 0; i < 2; ++i) {
    rig.start();
    rig.device(0).sector_error_set(bytes_of(geometry->segment_page(0, segment)), kPageBytes);
    rig.recover();
    EXPECT_EQ(rig.user().known.size(), 12u);
    EXPECT_TRUE(rig.user().killed.contains({killed->block.base, 0, killed->block.domain}));
    EXPECT_EQ(rig.metric("unreadable_segments_total"), 0);
    EXPECT_TRUE(rig.read_back(rig.appended[1]->block, *rig.appended[1]).ok());
    rig.power_cut();
  }
}

TEST(Recover, UnreadableSegmentHeaderWithoutAFooterCostsOnlyThatSegment) {
  RigOptions options;
  options.slices = 1;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ASSERT_NE(rig.append(seed, 1, 9000), nullptr);
    rig.run_until([&] { return rig.appended.back()->done; });
  }
  const uint32_t segment = rig.appended.back()->append.place.segment;  // the open one
  size_t there = 0;
  for (const auto& f : rig.appended)
    there += f->append.place.segment == segment ? 1 : 0;
  rig.power_cut();
  rig.start();
  const auto geometry = geometry_of(rig.super(0));
  rig.device(0).sector_error_set(bytes_of(geometry->segment_page(0, segment)), kPageBytes);
  rig.recover();
  EXPECT_TRUE(rig.flash().target_ok(0));
  EXPECT_EQ(rig.user().known.size(), 20u - there);
  EXPECT_EQ(rig.metric("unreadable_segments_total"), 1);
}

// Goal: what a checkpoint told and the tail scan does not confirm must not stop the daemon later.
// Method: one checkpoint page, one footer and one fragment of the same segment rot; then reclaim.
TEST(Recover, ToldByACheckpointButRottenInTheTailDoesNotStopReclaim) {
  RigOptions options;
  options.slices = 1;
  options.segment_pages = 256;
  options.segments = 12;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    ASSERT_NE(rig.append(seed, 1, 5000), nullptr);
    rig.run_until([&] { return rig.appended.back()->done; });
  }
  const TestFragment* f = rig.appended[0].get();
  const Place place = f->append.place;
  rig.stop();
  const auto geometry = geometry_of(rig.super(0));
  for (uint32_t area = 0; area < 2; ++area) {
    rig.platter(0).bytes()[bytes_of(geometry->checkpoint_page(0, area) + 3) + 40] ^= std::byte{1};
  }
  const uint64_t segment = geometry->segment_page(0, place.segment);
  rig.platter(0).bytes()[bytes_of(segment + geometry->segment_pages - 1) + 100] ^= std::byte{1};
  rig.platter(0).bytes()[bytes_of(segment + place.page + 1) + 100] ^= std::byte{1};
  rig.start_and_recover();
  EXPECT_EQ(rig.user().find(f->block), nullptr);  // told, and taken back
  EXPECT_EQ(rig.user().lost.count(f->block), 1u);
  EXPECT_EQ(rig.user().known.size(), 99u);
  rig.settle(kSecond);
  std::vector<BlockId> others;
  for (const auto& [block, known] : rig.user().known) {
    if (block != f->block && known.place.segment == place.segment) others.push_back(block);
  }
  for (const BlockId& block : others)
    rig.user().evict(block);
  for (uint64_t seed = 1000; seed < 2000; ++seed) {
    if (rig.append(seed, 1, 5000) != nullptr) {
      rig.run_until([&] { return rig.appended.back()->done; });
    } else {
      rig.settle(100 * kMillisecond);
    }
  }
  EXPECT_GT(rig.metric("reclaimed_segments_total"), 0);
  EXPECT_EQ(rig.metric("reclaim_unaccounted_total"), 0);
}

// Goal: a footer that lists less than what a checkpoint told keeps its segment, and nobody stops.
// Method: the footer of one segment is sealed anew without its last entry.
TEST(Recover, AFooterThatListsLessThanTheCheckpointKeepsItsSegment) {
  RigOptions options;
  options.slices = 1;
  options.segment_pages = 256;
  options.segments = 12;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    ASSERT_NE(rig.append(seed, 1, 5000), nullptr);
    rig.run_until([&] { return rig.appended.back()->done; });
  }
  const Place place = rig.appended[0]->append.place;
  rig.stop();
  rig.cut_footer(0, place.segment);
  rig.start_and_recover();
  EXPECT_EQ(rig.user().known.size(), 100u);
  std::vector<BlockId> others;
  const TestFragment* kept = nullptr;
  for (const auto& [block, known] : rig.user().known) {
    if (known.place.segment != place.segment) continue;
    const TestFragment* f = rig.fragment(block);
    if (kept == nullptr || f->append.place.page > kept->append.place.page) kept = f;
  }
  for (const auto& [block, known] : rig.user().known) {
    if (block != kept->block && known.place.segment == place.segment) others.push_back(block);
  }
  rig.user().pinned.insert(kept->block);
  for (const BlockId& block : others)
    rig.user().evict(block);
  for (uint64_t seed = 1000; seed < 2000; ++seed) {
    if (rig.append(seed, 1, 5000) != nullptr) {
      rig.run_until([&] { return rig.appended.back()->done; });
    } else {
      rig.settle(100 * kMillisecond);
    }
  }
  EXPECT_GT(rig.metric("reclaimed_segments_total"), 0);
  EXPECT_EQ(rig.metric("reclaim_unaccounted_total"), 1);
  EXPECT_TRUE(rig.read_back(kept->block, *kept).ok());  // what the index names is still there
}

// Goal: a region that cannot be read costs a bounded number of reads, and what lies before and
// behind it is found.
TEST(Recover, AnUnreadableRegionOfATailIsPassedOverInBoundedReads) {
  RigOptions options;
  options.slices = 1;
  options.segment_pages = 4096;
  options.segments = 8;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 600; ++seed)
    ASSERT_NE(rig.append(seed, 1, 5000), nullptr);
  rig.run_until([&] { return rig.user().known.size() == 600; });
  const Place first = rig.appended[100]->append.place;
  const Place last = rig.appended[500]->append.place;
  ASSERT_EQ(first.segment, last.segment);
  rig.power_cut();
  rig.start();
  const auto geometry = geometry_of(rig.super(0));
  rig.device(0).sector_error_set(bytes_of(geometry->segment_page(0, first.segment) + first.page),
                                 bytes_of(last.page - first.page));
  const uint64_t before = rig.device_requests();
  rig.recover();
  EXPECT_GE(rig.user().known.size(), 100u);
  EXPECT_NE(rig.user().find(rig.appended[599]->block), nullptr);
  EXPECT_LT(rig.device_requests() - before, 400u);  // the region has 1200 pages
}

// Goal: one bad sector in a tail costs the fragment it lies in, not a whole window of them.
TEST(Recover, OneBadSectorInATailCostsOneFragment) {
  RigOptions options;
  options.slices = 1;
  options.segment_pages = 512;
  options.segments = 8;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 60; ++seed)
    ASSERT_NE(rig.append(seed, 1, 5000), nullptr);
  rig.run_until([&] { return rig.user().known.size() == 60; });
  const Place place = rig.appended[30]->append.place;
  rig.power_cut();
  rig.start();
  const auto geometry = geometry_of(rig.super(0));
  rig.device(0).sector_error_set(
      bytes_of(geometry->segment_page(0, place.segment) + place.page + 1), kPageBytes);
  rig.recover();
  EXPECT_TRUE(rig.flash().target_ok(0));
  EXPECT_EQ(rig.user().known.size(), 59u);
  EXPECT_EQ(rig.user().find(rig.appended[30]->block), nullptr);
  EXPECT_EQ(rig.metric("dropped_total", 0, ",reason=\"torn\""), 1);
  EXPECT_EQ(rig.metric("dropped_bytes_total", 0, ",reason=\"torn\""),
            static_cast<int64_t>(bytes_of(place.pages)));
}

}  // namespace
}  // namespace varve::flash
