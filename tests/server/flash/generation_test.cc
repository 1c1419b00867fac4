// Generations: the table as a value, and what restarts make of it.
#include "server/flash/generation.h"

#include <gtest/gtest.h>

#include "tests/server/flash/flash_rig.h"

namespace varve::flash {
namespace {

constexpr uint64_t kOne = 111, kTwo = 222;

Generations after(const Generations& rows, uint64_t lineage, uint32_t expect) {
  uint32_t generation = 0;
  Result<Generations> table = raised(rows, 1, lineage, &generation);
  EXPECT_TRUE(table.has_value());
  EXPECT_EQ(generation, expect);
  return *table;
}

TEST(Generation, ARaisedLineageEndsWhatWasCommittedBefore) {
  const Generations none;
  const LineageMark before = current_mark(none, 1, kOne);
  EXPECT_FALSE(is_old(none, before));
  const Generations rows = after(none, kOne, 1);
  EXPECT_TRUE(is_old(rows, before));
  EXPECT_FALSE(is_old(rows, current_mark(rows, 1, kOne)));
  EXPECT_FALSE(is_old(rows, current_mark(none, 1, kTwo)));
  EXPECT_FALSE(is_old(rows, current_mark(none, 2, kOne)));
  EXPECT_TRUE(is_old(after(rows, kOne, 2), current_mark(rows, 1, kOne)));
}

TEST(Generation, ARaisedDomainEndsAllAndFreesTheRowsOfItsLineages) {
  Generations rows = after(after({}, kOne, 1), kTwo, 1);
  const LineageMark one = current_mark(rows, 1, kOne);
  rows = after(rows, 0, 1);
  EXPECT_EQ(rows.size(), 1u);
  EXPECT_TRUE(is_old(rows, one));
  EXPECT_TRUE(is_old(rows, current_mark({}, 1, 333)));
  EXPECT_FALSE(is_old(rows, current_mark(rows, 1, kOne)));
  rows = after(rows, kOne, 1);  // from 0 again, in the new generation of the domain
  EXPECT_TRUE(is_old(rows, one));
}

TEST(Generation, AFullTableRefusesALineageAndTakesItsDomain) {
  Generations rows;
  for (uint64_t lineage = 1; lineage <= kLineageRowsMax; ++lineage)
    rows = after(rows, lineage, 1);
  uint32_t generation = 77;
  const Result<Generations> more = raised(rows, 1, 999, &generation);
  ASSERT_FALSE(more.has_value());
  EXPECT_EQ(more.error().code(), Code::kNoSpace);
  EXPECT_EQ(generation, 77u) << "there is no new one";
  rows = after(rows, 5, 2);  // one that has a row goes on
  EXPECT_EQ(after(rows, 0, 1).size(), 1u);
}

TEST(Generation, AGenerationAtItsEndIsNotRaised) {
  Generations rows = {{.domain = 1, .domain_generation = ~0u}};
  uint32_t generation = 0;
  EXPECT_EQ(raised(rows, 1, 0, &generation).error().code(), Code::kUnsupported);
}

TEST(Generation, MergedTablesHaveTheLargerOfEach) {
  const Generations a = after(after({}, kOne, 1), kTwo, 1);
  const Generations b = after(a, kOne, 2);
  EXPECT_FALSE(is_old(merged(a, b), current_mark(b, 1, kOne)));
  EXPECT_TRUE(is_old(merged(b, a), current_mark(a, 1, kOne)));
  const Generations c = after({}, 0, 1);  // raised where a and b were away
  for (const Generations& all : {merged(merged(a, b), c), merged(c, merged(b, a))}) {
    EXPECT_EQ(all.size(), 1u);
    EXPECT_TRUE(is_old(all, current_mark(b, 1, kOne)));
    EXPECT_FALSE(is_old(all, current_mark(c, 1, kOne)));
  }
}

// Two full tables without a row in common: the domain is raised, so that nothing comes back.
TEST(Generation, TooManyRowsTogetherEndTheDomain) {
  Generations a, b;
  for (uint64_t lineage = 1; lineage <= kGenerationsMax; ++lineage) {
    a.push_back({.domain = 1, .lineage = lineage, .lineage_generation = 1});
    b.push_back({.domain = 1, .lineage = 1000 + lineage, .lineage_generation = 1});
  }
  const Generations all = merged(a, b);
  EXPECT_EQ(all.size(), 1u);
  EXPECT_TRUE(is_old(all, current_mark(a, 1, 3)));
  EXPECT_TRUE(is_old(all, current_mark(b, 1, 1003)));
}

// --- on drives

Status raise(Rig& rig, uint64_t lineage) {
  uint32_t generation = 0;
  const Result<Generations> rows = raised(rig.flash().generations(), 1, lineage, &generation);
  VARVE_ASSERT(rows.has_value());
  struct Waiting {
    Raise raise;
    bool done = false;
  } waiting;
  waiting.raise.rows = *rows;
  waiting.raise.owner = &waiting;
  waiting.raise.on_done = [](Raise& done) { static_cast<Waiting*>(done.owner)->done = true; };
  rig.flash().raise(waiting.raise);
  VARVE_ASSERT(rig.run_until([&] { return waiting.done; }));
  return waiting.raise.status;
}

TestFragment* appended(Rig& rig, uint64_t seed, uint64_t lineage, uint32_t target = 0) {
  rig.mark = current_mark(rig.flash().generations(), 1, lineage);
  TestFragment* f = rig.append(seed, 2, 6000, FlushBy::kNow, target);
  rig.run_until([&] { return f->done; });
  VARVE_ASSERT(f->status.ok());
  return f;
}

bool found(Rig& rig, const TestFragment* f) {
  return rig.user().find(f->block) != nullptr;
}

TEST(Generation, APurgedLineageStaysAwayAcrossRestarts) {
  RigOptions options;
  options.plan.volatile_cache = true;
  Rig rig(options);
  rig.start_and_recover();
  const TestFragment* gone = appended(rig, 1, kOne);
  const TestFragment* other = appended(rig, 2, kTwo);
  rig.stop();  // the checkpoint lists both
  rig.start_and_recover();
  ASSERT_TRUE(found(rig, gone));
  ASSERT_TRUE(raise(rig, kOne).ok());
  const TestFragment* fresh = appended(rig, 3, kOne);
  rig.power_cut();
  for (int restart = 0; restart < 3; ++restart) {
    rig.start_and_recover();
    EXPECT_FALSE(found(rig, gone)) << restart;
    EXPECT_TRUE(found(rig, other)) << restart;
    EXPECT_TRUE(found(rig, fresh)) << restart;
    EXPECT_GE(rig.metric("dropped_total", 0, ",reason=\"old_generation\""), 1);
    rig.power_cut();
  }
  rig.start_and_recover();
  ASSERT_TRUE(raise(rig, 0).ok());
  rig.power_cut();
  rig.start_and_recover();
  EXPECT_TRUE(rig.user().known.empty());
}

TEST(Generation, ATargetThatWasAwayGetsTheLargerOnesFromTheOthers) {
  RigOptions options;
  options.targets = 2;
  options.plan.volatile_cache = true;
  Rig rig(options);
  rig.start_and_recover();
  const TestFragment* away = appended(rig, 1, kOne, 1);
  rig.stop();
  rig.absent = 1u << 1;
  rig.start_and_recover();
  ASSERT_TRUE(raise(rig, kOne).ok());
  rig.power_cut();
  rig.absent = 0;
  rig.start_and_recover();
  EXPECT_FALSE(found(rig, away));
  EXPECT_EQ(rows_of(rig.super(1)).size(), 1u);
  rig.stop();
  rig.start_and_recover();
  EXPECT_FALSE(found(rig, away));
}

// Goal: a torn superblock costs the raise that was not answered, never the target. Method: the
// power goes at each request of the raise.
TEST(Generation, APowerCutDuringARaiseLeavesTheOldOrTheNewTable) {
  for (uint64_t cut = 0; cut < 6; ++cut) {
    RigOptions options;
    options.seed = 100 + cut;
    options.plan.volatile_cache = true;
    Rig rig(options);
    rig.start_and_recover();
    const TestFragment* f = appended(rig, 1, kOne);
    uint32_t generation = 0;
    Raise raise;
    static bool done;
    done = false;
    raise.rows = *raised(rig.flash().generations(), 1, kOne, &generation);
    raise.on_done = [](Raise&) { done = true; };
    const uint64_t limit = rig.device_requests() + cut;
    rig.flash().raise(raise);
    rig.run_until([&] { return done || rig.device_requests() >= limit; });
    const bool answered = done;
    rig.power_cut();
    rig.start_and_recover();
    const bool raised_now = !rig.flash().generations().empty();
    EXPECT_TRUE(raised_now || !answered) << cut;
    EXPECT_EQ(found(rig, f), !raised_now) << cut;
  }
}

// --- domains

TEST(Generation, ARaiseEndsNothingOfAnotherDomain) {
  uint32_t generation = 0;
  Generations rows = *raised({}, 2, kOne, &generation);
  rows = after(rows, kOne, 1);
  rows = after(rows, 0, 1);  // and drops rows of its own lineages
  EXPECT_EQ(current_mark(rows, 2, kOne), (LineageMark{2, 0, kOne, 1}));
  EXPECT_FALSE(is_old(rows, {2, 0, kTwo, 0}));
  EXPECT_TRUE(is_old(rows, {2, 0, kOne, 0}));
  EXPECT_TRUE(is_old(rows, {1, 0, kTwo, 0}));
  EXPECT_EQ(rows.size(), 2u);
}

TEST(Generation, MergedTablesKeepDomainsApart) {
  uint32_t generation = 0;
  const Generations a = *raised({}, 2, kOne, &generation);
  const Generations b = after({}, 0, 1);
  for (const Generations& all : {merged(a, b), merged(b, a)}) {
    EXPECT_EQ(all.size(), 2u);
    EXPECT_EQ(domain_generation(all, 1), 1u);
    EXPECT_EQ(domain_generation(all, 2), 0u);
    EXPECT_FALSE(is_old(all, current_mark(a, 2, kOne)));
    EXPECT_TRUE(is_old(all, {2, 0, kOne, 0}));
  }
}

// The domain whose lineages fill the table pays for it, not the one with a row of its own.
TEST(Generation, TooManyRowsTogetherEndTheDomainThatHasMostOfThem) {
  Generations a = {{.domain = 1, .domain_generation = 4}, {.domain = 1, .lineage = kOne}};
  Generations b;
  for (uint64_t lineage = 1; lineage <= kGenerationsMax - 1; ++lineage)
    b.push_back({.domain = 2, .lineage = lineage, .lineage_generation = 1});
  a[1].domain_generation = 4;
  a[1].lineage_generation = 3;
  const Generations all = merged(a, b);
  EXPECT_EQ(all.size(), 3u);
  EXPECT_EQ(current_mark(all, 1, kOne), (LineageMark{1, 4, kOne, 3}));
  EXPECT_EQ(domain_generation(all, 2), 1u);
}

TEST(Generation, ADomainHasItsShareOfTheTable) {
  DomainIds domains;
  EXPECT_EQ(lineages_max(domains), kLineageRowsMax);
  while (domains.ids.size() < kDomainsMax)
    domains.ids.push_back(++domains.last);
  EXPECT_EQ(lineages_max(domains), 1u);
  Generations rows;
  uint32_t generation = 0;
  for (uint64_t lineage = 1; lineage <= 2; ++lineage)
    rows = *raised(rows, 1, lineage, &generation, 2);
  EXPECT_EQ(raised(rows, 1, 3, &generation, 2).error().code(), Code::kNoSpace);
  EXPECT_TRUE(raised(rows, 1, 2, &generation, 2).has_value());
  EXPECT_TRUE(raised(rows, 1, 0, &generation, 2).has_value());
  EXPECT_TRUE(raised(rows, 2, 3, &generation, 2).has_value());
}

// Whatever others have purged before a domain was there, it can end what is its own.
TEST(Generation, EachDomainThereCanBeHasARowOfItsOwn) {
  Generations rows;
  uint32_t generation = 0;
  for (uint64_t lineage = 1; lineage <= kLineageRowsMax; ++lineage)
    rows = *raised(rows, 1, lineage, &generation);
  EXPECT_EQ(raised(rows, 2, 3, &generation, 2).error().code(), Code::kNoSpace);
  for (uint32_t domain = 2; domain <= kDomainsMax; ++domain) {
    const Result<Generations> more = raised(rows, domain, 0, &generation, 1);
    ASSERT_TRUE(more.has_value()) << domain;
    EXPECT_EQ(generation, 1u);
    rows = *more;
  }
  EXPECT_EQ(raised(rows, 1, 0, &generation, 1)->size(), kDomainsMax);
}

// An earlier version gave up to 64 rows to the lineages of one domain. Expect: a start ends nothing
// for that; a domain that finds no row is told whose purge frees some, and finds one after it.
TEST(Generation, AnOlderTableOfMoreLineagesStays) {
  Generations rows = {{.domain = 2, .lineage = kOne, .lineage_generation = 1}};
  for (uint64_t lineage = 1; lineage < kGenerationsMax; ++lineage)
    rows.push_back({.domain = 1, .lineage = lineage, .lineage_generation = 1});
  for (const Generations& all : {merged(rows, {}), merged({}, rows), merged(rows, rows)}) {
    EXPECT_EQ(all.size(), kGenerationsMax);
    EXPECT_FALSE(is_old(all, current_mark(rows, 1, 2)));
  }
  uint32_t generation = 0;
  const Result<Generations> full = raised(rows, 3, 0, &generation);
  ASSERT_FALSE(full.has_value());
  EXPECT_NE(std::string(full.error().what()).find("purge the domain that purged most"),
            std::string::npos);
  EXPECT_EQ(raised(rows, 1, kGenerationsMax, &generation).error().code(), Code::kNoSpace);
  EXPECT_TRUE(raised(rows, 1, 2, &generation).has_value()) << "it has a row";
  rows = *raised(rows, 1, 0, &generation);
  EXPECT_EQ(rows.size(), 2u);
  EXPECT_TRUE(raised(rows, 3, 0, &generation).has_value());
}

// Of domains that no list has, a table can be full: said so, and never more than there is.
TEST(Generation, RowsOfDomainsThatNoListHasAreNotExceeded) {
  Generations rows;
  for (uint32_t i = 0; i < kGenerationsMax; ++i)
    rows.push_back({.domain = 100 + i, .domain_generation = 1});
  uint32_t generation = 0;
  EXPECT_EQ(raised(rows, 1, 0, &generation).error().code(), Code::kNoSpace);
  EXPECT_EQ(raised(rows, 1, kOne, &generation).error().code(), Code::kNoSpace);
  EXPECT_TRUE(raised(rows, 100, 0, &generation).has_value());
}

TEST(Generation, RowsOfDroppedDomainsGoAndThoseOfALostListStay) {
  const DomainIds domains{.ids = {1, 4}, .last = 5};
  const Generations rows = kept(
      {{.domain = 1}, {.domain = 2}, {.domain = 4, .lineage = 9}, {.domain = 5}, {.domain = 6}},
      domains);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_TRUE(rows[0].domain == 1 && rows[1].domain == 4 && rows[2].domain == 6);
}

}  // namespace
}  // namespace varve::flash
