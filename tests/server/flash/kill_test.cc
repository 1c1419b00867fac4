// KILL records: as bytes, and what a purged block must not do at any restart after it.
#include "server/flash/kill.h"

#include <gtest/gtest.h>

#include "server/flash/tail_scan.h"
#include "tests/server/flash/flash_rig.h"

namespace varve::flash {
namespace {

KillInfo some_kill() {
  return {
      .base = test_block(3).base, .limit = {7, 0, 99}, .away = 4, .domain = 1, .last_sequence = 12};
}

const HeaderExpect kAt = {77, 9, 5, 1};

TEST(Kill, TheLimitComparesByStartThenCounterWhateverTheTarget) {
  const Attempt limit{5, 0, 10};
  EXPECT_TRUE(is_killed({4, 31, 1000}, limit));
  EXPECT_TRUE(is_killed({5, 31, 10}, limit));
  EXPECT_FALSE(is_killed({5, 0, 11}, limit));
  EXPECT_FALSE(is_killed({6, 0, 1}, limit));
}

TEST(Kill, EntryAndRecordSayTheSame) {
  const KillInfo kill = some_kill();
  const CatalogEntry entry = entry_of(kill, 5);
  EXPECT_TRUE(is_kill(entry) && check_kill(entry));
  EXPECT_TRUE(check_entry(entry, 1, 32));
  EXPECT_EQ(kill_of(entry), kill);
  PageMemory page(1);
  fill_kill_record(page.span(0, 1), kill, kAt);
  EXPECT_EQ(read_kill_record(page.span(0, 1), kAt), kill);
}

TEST(Kill, EveryDamagedByteOfARecordEndsIt) {
  PageMemory page(1);
  for (size_t i = 0; i < kPageBytes; ++i) {
    fill_kill_record(page.span(0, 1), some_kill(), kAt);
    page.page(0)[i] ^= std::byte{1};
    ASSERT_FALSE(read_kill_record(page.span(0, 1), kAt).has_value()) << i;
  }
  fill_kill_record(page.span(0, 1), some_kill(), kAt);
  EXPECT_FALSE(read_kill_record(page.span(0, 1), {78, 9, 5, 1}).has_value());
  EXPECT_FALSE(read_kill_record(page.span(0, 1), {77, 8, 5, 1}).has_value());
  EXPECT_FALSE(read_kill_record(page.span(0, 1), {77, 9, 6, 1}).has_value());
}

TEST(Kill, AnEntryThatUsesMoreThanItMayIsRefused) {
  const CatalogEntry good = entry_of(some_kill(), 5);
  const auto refused = [&](auto change) {
    CatalogEntry entry = good;
    change(entry);
    return !check_entry(entry, 1, 32);
  };
  EXPECT_TRUE(refused([](CatalogEntry& e) { e.which |= 1; }));
  EXPECT_TRUE(refused([](CatalogEntry& e) { e.which |= 1u << 14; }));
  EXPECT_TRUE(refused([](CatalogEntry& e) { e.pages = 2; }));
  EXPECT_TRUE(refused([](CatalogEntry& e) { e.lead_pages = 1; }));
  EXPECT_TRUE(refused([](CatalogEntry& e) { e.attempt.target = 1; }));
  EXPECT_TRUE(refused([](CatalogEntry& e) { e.lineage_generation = 1; }));
  EXPECT_TRUE(refused([](CatalogEntry& e) { e.lineage = kSequenceMax + 1; }));
  EXPECT_TRUE(refused([](CatalogEntry& e) { e.page = 31; }));
}

TEST(Kill, ItIsNeededWhileASegmentOfItsTimeOrATargetThatMissedItIsThere) {
  KillInfo kill = some_kill();
  kill.away = 0;
  EXPECT_TRUE(kill_needed(entry_of(kill, 5), 0));
  EXPECT_TRUE(kill_needed(entry_of(kill, 5), 12));
  EXPECT_FALSE(kill_needed(entry_of(kill, 5), 13));
  EXPECT_TRUE(kill_needed(entry_of(some_kill(), 5), 13));
}

// A torn record counts as nothing; the scan goes on behind it and finds a whole one.
TEST(Kill, TheTailScanPassesOverATornRecord) {
  PageMemory pages(8);
  fill_kill_record(pages.span(1, 1), some_kill(), {77, 9, 1, 1});
  fill_kill_record(pages.span(2, 1), some_kill(), {77, 9, 2, 1});
  pages.page(1)[40] ^= std::byte{1};
  TailScan scan;
  scan.begin(77, 9, 8);
  scan.feed(pages.span(1, 7));
  ASSERT_TRUE(scan.done());
  ASSERT_EQ(scan.entries().size(), 1u);
  EXPECT_EQ(scan.entries()[0].page, 2);
  EXPECT_EQ(kill_of(scan.entries()[0]), some_kill());
  EXPECT_EQ(scan.used_pages(), 3u);
}

// --- on a drive

RigOptions volatile_cache() {
  RigOptions options;
  options.plan.volatile_cache = true;
  return options;
}

TestFragment* appended(Rig& rig, uint64_t seed, uint32_t target = 0) {
  TestFragment* f = rig.append(seed, 2, 6000, FlushBy::kNow, target);
  VARVE_ASSERT(f != nullptr);
  rig.run_until([&] { return f->done; });
  VARVE_ASSERT(f->status.ok());
  return f;
}

bool found(Rig& rig, const BlockId& block) {
  return rig.user(rig.shard_of_block(block)).find(block) != nullptr;
}

// Goal: the answer is a promise. Method: the power goes in the turn of the answer; nothing of it is
// sealed or checkpointed.
TEST(Kill, APurgedBlockStaysAwayAfterAPowerCut) {
  Rig rig(volatile_cache());
  rig.start_and_recover();
  const BlockId gone = appended(rig, 1)->block;
  const BlockId stays = appended(rig, 2)->block;
  ASSERT_TRUE(rig.kill(gone).ok());
  rig.power_cut();
  for (int restart = 0; restart < 3; ++restart) {
    rig.start_and_recover();
    EXPECT_FALSE(found(rig, gone)) << restart;
    EXPECT_TRUE(found(rig, stays)) << restart;
    rig.power_cut();
  }
}

// The checkpoint still lists the fragment; the record stands behind it, in a tail or a footer.
TEST(Kill, ACheckpointOfBeforeThePurgeBringsNothingBack) {
  for (const bool clean : {false, true}) {
    Rig rig(volatile_cache());
    rig.start_and_recover();
    const BlockId gone = appended(rig, 1)->block;
    rig.stop();  // sealed and checkpointed
    rig.start_and_recover();
    ASSERT_TRUE(found(rig, gone));
    ASSERT_TRUE(rig.kill(gone).ok());
    if (clean) {
      rig.stop();
    } else {
      rig.power_cut();
    }
    rig.start_and_recover();
    EXPECT_FALSE(found(rig, gone)) << clean;
    EXPECT_GE(rig.metric("kills_recovered_total"), 1);
    rig.stop();  // now a checkpoint lists the record
    rig.start_and_recover();
    EXPECT_FALSE(found(rig, gone)) << clean;
  }
}

// An evicted fragment is still on the drive, and the index knows nothing of it.
TEST(Kill, WhatWasEvictedBeforeThePurgeIsNotRevived) {
  Rig rig(volatile_cache());
  rig.start_and_recover();
  const BlockId block = appended(rig, 1)->block;
  rig.user(rig.shard_of_block(block)).evict(block);
  ASSERT_TRUE(rig.kill(block).ok());
  rig.power_cut();
  rig.start_and_recover();
  EXPECT_FALSE(found(rig, block));
}

TEST(Kill, WhatIsWrittenAfterThePurgeCounts) {
  Rig rig(volatile_cache());
  rig.start_and_recover();
  const BlockId block = appended(rig, 1)->block;
  ASSERT_TRUE(rig.kill(block).ok());
  TestFragment* again = appended(rig, 1);
  rig.power_cut();
  for (int restart = 0; restart < 2; ++restart) {
    rig.start_and_recover();
    ASSERT_TRUE(found(rig, block));
    EXPECT_TRUE(rig.read_back(block, *again).ok());
    rig.power_cut();
  }
}

// Goal: a drive that was away during the purge brings nothing back, the record being on the other
// one only.
TEST(Kill, ATargetThatWasAwayLearnsOfThePurgeFromTheOthers) {
  RigOptions options = volatile_cache();
  options.targets = 2;
  Rig rig(options);
  rig.start_and_recover();
  const BlockId block = appended(rig, 1, 1)->block;
  rig.stop();
  rig.absent = 1u << 1;
  rig.start_and_recover();
  ASSERT_FALSE(found(rig, block));
  ASSERT_FALSE(rig.kill(block, 1, 0).ok());
  ASSERT_TRUE(rig.kill(block, 0, 1u << 1).ok());
  rig.power_cut();
  rig.absent = 0;
  for (int restart = 0; restart < 2; ++restart) {
    rig.start_and_recover();
    EXPECT_FALSE(found(rig, block)) << restart;
    rig.power_cut();
  }
}

TEST(Kill, AFullTargetStillTakesPurges) {
  RigOptions options = volatile_cache();
  options.slices = 1;
  Rig rig(options);
  rig.start_and_recover();
  rig.user().may_evict = false;
  ASSERT_GT(rig.fill(1), 10u);
  std::vector<BlockId> purged;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    ASSERT_TRUE(found(rig, test_block(seed)));
    ASSERT_TRUE(rig.kill(test_block(seed)).ok());
    purged.push_back(test_block(seed));
  }
  rig.power_cut();
  rig.start_and_recover();
  for (const BlockId& block : purged)
    EXPECT_FALSE(found(rig, block));
}

// Goal: reclaim keeps a record while what it ends may be there, and drops it when it is not.
// Method: churn a small slice until every segment of the time of the purge was erased.
TEST(Kill, ReclaimCopiesARecordThenDropsIt) {
  RigOptions options = volatile_cache();
  options.slices = 1;
  Rig rig(options);
  rig.start_and_recover();
  const BlockId gone = appended(rig, 1)->block;
  ASSERT_TRUE(rig.kill(gone).ok());
  bool copied = false;
  for (uint64_t seed = 10; seed < 3000; ++seed) {
    TestFragment* f = rig.append(seed, 2, 9000);
    if (f == nullptr) {
      rig.settle(20 * kMillisecond);
      continue;
    }
    rig.run_until([&] { return f->done; });
    copied = copied || rig.metric("kills_copied_total") > 0;
    if (rig.metric("kills_dropped_total") > 0) break;
    if (seed % 97 == 0) {  // a crash at any time changes nothing
      rig.power_cut();
      rig.start_and_recover();
      ASSERT_FALSE(found(rig, gone)) << seed;
    }
  }
  EXPECT_GT(rig.metric("kills_dropped_total"), 0);
  rig.power_cut();
  rig.start_and_recover();
  EXPECT_FALSE(found(rig, gone));
  EXPECT_EQ(rig.metric("kills_recovered_total"), 0);
}

// Goal: a domain may have as many records while reclaim copies them as at any other time. Method:
// records that stay needed are churned through; how many count is looked at in every step.
TEST(Kill, ARecordThatReclaimCopiesCountsOnce) {
  RigOptions options = volatile_cache();
  options.slices = 1;
  Rig rig(options);
  rig.start_and_recover();
  constexpr int64_t kRecords = 20;
  for (uint64_t seed = 1; seed <= kRecords; ++seed)
    ASSERT_TRUE(rig.kill(appended(rig, seed)->block, 0, 1u << 1).ok());
  ASSERT_EQ(rig.metric("kills_live"), kRecords);
  int64_t most = 0;
  const auto look = [&] {
    most = std::max(most, rig.metric("kills_live"));
    return false;
  };
  for (uint64_t seed = 100; seed < 3000 && rig.metric("kills_copied_total") < kRecords; ++seed) {
    TestFragment* f = rig.append(seed, 2, 9000);
    if (f == nullptr) {
      rig.settle(20 * kMillisecond);
      continue;
    }
    rig.run_until([&] { return look() || f->done; });
  }
  EXPECT_GE(rig.metric("kills_copied_total"), kRecords);
  EXPECT_LE(most, kRecords + 1) << "the one that is being written";
  rig.settle(kSecond);
  EXPECT_EQ(rig.metric("kills_live"), kRecords);
}

// Goal: a record that a checkpoint tells of and the footer does not list keeps its segment: what it
// ends may be on the target that is away. Method: as for fragments, in recover_test.cc.
TEST(Kill, AFooterThatLacksARecordOfTheCheckpointKeepsItsSegment) {
  RigOptions options;
  options.slices = 1;
  options.segment_pages = 256;
  options.segments = 12;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ASSERT_NE(rig.append(seed, 1, 5000), nullptr);
    rig.run_until([&] { return rig.appended.back()->done; });
  }
  const uint32_t segment = rig.appended[0]->append.place.segment;
  ASSERT_EQ(rig.appended[19]->append.place.segment, segment);
  for (const uint64_t seed : {1u, 2u})  // of which the last is forgotten
    ASSERT_TRUE(rig.kill(test_block(seed), 0, 1u << 1).ok());
  rig.stop();
  rig.cut_footer(0, segment);
  rig.start_and_recover();
  ASSERT_EQ(rig.metric("kills_recovered_total"), 2);
  ASSERT_EQ(rig.user().known.size(), 18u);
  while (!rig.user().known.empty())
    rig.user().evict(rig.user().known.begin()->first);
  for (uint64_t seed = 1000; seed < 2000; ++seed) {
    if (rig.append(seed, 1, 5000) != nullptr) {
      rig.run_until([&] { return rig.appended.back()->done; });
    } else {
      rig.settle(100 * kMillisecond);
    }
  }
  EXPECT_GT(rig.metric("reclaimed_segments_total"), 0);
  EXPECT_GE(rig.metric("kills_copied_total"), 1);
  EXPECT_EQ(rig.metric("reclaim_unaccounted_total"), 1);
  EXPECT_EQ(rig.metric("kills_live"), 2);
}

// Goal: a crash between two steps of reclaim finds fragments twice; neither copy of a purged one
// may count. Method: power cuts at every device request while a churned slice purges as it goes.
TEST(Kill, NoPowerCutDuringReclaimBringsAPurgedBlockBack) {
  for (uint64_t cut = 200; cut < 2200; cut += 37) {
    RigOptions options = volatile_cache();
    options.slices = 1;
    options.segments = 8;
    options.seed = cut;
    Rig rig(options);
    rig.start_and_recover();
    std::vector<BlockId> purged;
    for (uint64_t seed = 1; rig.device_requests() < cut && seed < 2000; ++seed) {
      TestFragment* f = rig.append(seed, 2, 9000);
      if (f == nullptr) {
        rig.settle(5 * kMillisecond);
        continue;
      }
      rig.run_until([&] { return f->done || rig.device_requests() >= cut; });
      const BlockId old = test_block(seed > 6 ? seed - 6 : 1);
      if (seed % 3 != 0 || !f->done || rig.device_requests() >= cut) continue;
      if (rig.kill(old).ok()) purged.push_back(old);
    }
    rig.power_cut();
    rig.start_and_recover();
    for (const BlockId& block : purged)
      ASSERT_FALSE(found(rig, block)) << "cut at request " << cut;
    ASSERT_TRUE(rig.user().lost.empty());
  }
}

// Goal: a record ends what is of its domain, whatever has the same id elsewhere, at any start.
// Method: one id written in two domains and killed in one; power cuts, a drained stop, and scrub.
TEST(Kill, ARecordEndsNothingOfAnotherDomain) {
  Rig rig(volatile_cache());
  rig.start_and_recover();
  const TestFragment* fragments[2];
  for (const uint32_t domain : {1u, 2u}) {
    rig.mark.domain = domain;
    fragments[domain - 1] = rig.append(1);
    ASSERT_NE(fragments[domain - 1], nullptr);
    rig.run_until([&] { return fragments[domain - 1]->done; });
  }
  ASSERT_NE(fragments[0]->block, fragments[1]->block);
  ASSERT_EQ(fragments[0]->block.base, fragments[1]->block.base);
  for (const TestFragment* f : fragments)
    EXPECT_TRUE(rig.read_back(f->block, *f).ok());
  ASSERT_TRUE(rig.kill(fragments[0]->block).ok());
  for (int start = 0; start < 3; ++start) {
    start == 1 ? rig.stop() : rig.power_cut();
    rig.start_and_recover();
    EXPECT_FALSE(found(rig, fragments[0]->block)) << start;
    EXPECT_TRUE(found(rig, fragments[1]->block)) << start;
    EXPECT_TRUE(rig.read_back(fragments[1]->block, *fragments[1]).ok()) << start;
  }
}

}  // namespace
}  // namespace varve::flash
