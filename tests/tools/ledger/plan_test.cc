// Goal: the plan is a pure function of seed and loop, and over a run everything happens.
// Method: draw 200 loops and look at them.
#include "tools/ledger/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace varve::ledger {
namespace {

LedgerPlan seeded(uint64_t seed, std::optional<Scheme> scheme = std::nullopt) {
  return {.seed = seed, .scheme = scheme};
}

TEST(Plan, EqualSeedsPlanEqualLoops) {
  for (uint32_t loop = 0; loop < 50; ++loop) {
    const LoopPlan a = plan_loop(seeded(7), loop), b = plan_loop(seeded(7), loop);
    EXPECT_EQ(a.seed, b.seed);
    EXPECT_EQ(a.load_ms, b.load_ms);
    EXPECT_EQ(a.harm, b.harm);
    EXPECT_EQ(a.harm_seed, b.harm_seed);
    EXPECT_EQ(daemon_arguments(a, {}), daemon_arguments(b, {}));
  }
  EXPECT_NE(plan_loop(seeded(7), 1).seed, plan_loop(seeded(8), 1).seed);
}

TEST(Plan, ALongRunMeetsEveryKindOfLoop) {
  std::set<Ending> endings;
  std::set<uint32_t> shards, spills, unaudited;
  std::set<Harm> harms;
  std::set<std::string> schemes;
  uint32_t tight = 0, beyond = 0, harmed = 0, drains = 0, at_purge = 0;
  for (uint32_t loop = 0; loop < 200; ++loop) {
    const LoopPlan plan = plan_loop(seeded(1), loop);
    endings.insert(plan.ending);
    shards.insert(plan.shards);
    spills.insert(plan.spill_per_mille);
    if (!plan.audited) unaudited.insert(loop);
    harms.insert(plan.harm);
    schemes.insert(plan.folder.scheme.text());
    harmed += plan.harm != Harm::kNone ? 1 : 0;
    beyond += plan.harm != Harm::kNone && plan.beyond ? 1 : 0;
    EXPECT_GE(plan.folder.targets, plan.folder.scheme.width());
    EXPECT_LE(plan.folder.targets, std::max(3u, plan.folder.scheme.width() + 1));
    tight += plan.folder.room == Room::kTight ? 1 : 0;
    drains += plan.drains ? 1 : 0;
    at_purge += plan.at_purge ? 1 : 0;
    EXPECT_TRUE(!plan.drains || plan.folder.targets > plan.folder.scheme.width());
    EXPECT_GE(plan.load_ms, 5u);
    EXPECT_LE(plan.load_ms, 1500u);
  }
  EXPECT_EQ(endings.size(), 3u);
  EXPECT_EQ(shards, (std::set<uint32_t>{1, 2, 3}));
  EXPECT_EQ(spills.size(), 4u);
  EXPECT_GT(unaudited.size(), 10u);
  EXPECT_EQ(tight, 50u);
  EXPECT_EQ(harms.size(), 7u) << "all kinds that a plan may ask for, and none";
  EXPECT_EQ(schemes, (std::set<std::string>{"1+0", "1+1", "2+1", "4+2"}));
  EXPECT_EQ(harmed, 100u);
  EXPECT_GT(beyond, 10u);
  EXPECT_LT(beyond, 50u);
  EXPECT_GT(drains, 10u);
  EXPECT_GT(at_purge, 40u);
}

TEST(Plan, AFolderKeepsItsShapeAndBeginsAudited) {
  for (uint32_t folder = 0; folder < 10; ++folder) {
    const LoopPlan first = plan_loop(seeded(3), folder * kLoopsPerFolder);
    EXPECT_TRUE(first.first_of_folder);
    EXPECT_TRUE(first.audited);
    EXPECT_EQ(first.harm, Harm::kNone);
    for (uint32_t i = 1; i < kLoopsPerFolder; ++i) {
      const LoopPlan plan = plan_loop(seeded(3), folder * kLoopsPerFolder + i);
      EXPECT_FALSE(plan.first_of_folder);
      EXPECT_EQ(plan.folder.targets, first.folder.targets);
      EXPECT_EQ(plan.folder.target_bytes, first.folder.target_bytes);
      EXPECT_EQ(plan.folder.scale, first.folder.scale);
      EXPECT_EQ(plan.folder.scheme, first.folder.scheme);
    }
  }
}

TEST(Plan, AGivenSchemeIsThatOfEveryFolder) {
  for (uint32_t loop = 0; loop < 60; ++loop) {
    const LoopPlan plan = plan_loop(seeded(5, Scheme{4, 2}), loop);
    EXPECT_EQ(plan.folder.scheme, (Scheme{4, 2}));
    EXPECT_GE(plan.folder.targets, 6u);
  }
}

TEST(Plan, TheRepairMutantLosesATargetBeforeEveryLifeAndIsAlwaysAudited) {
  LedgerPlan run = seeded(1);
  run.mutant = Mutant::kRepair;
  for (uint32_t loop = 0; loop < 40; ++loop) {
    const LoopPlan plan = plan_loop(run, loop);
    EXPECT_GT(plan.folder.scheme.m, 0u);
    EXPECT_EQ(plan.folder.room, Room::kRoomy);
    EXPECT_EQ(plan.harm, plan.first_of_folder ? Harm::kNone : Harm::kDestroy);
    EXPECT_FALSE(plan.harm != Harm::kNone && plan.beyond);
    EXPECT_TRUE(plan.audited);
  }
}

TEST(Plan, TheMutantOfAPurgeIsKilledAfterAPurgeAndHurtsNoTarget) {
  LedgerPlan run = seeded(1);
  run.mutant = Mutant::kPurge;
  for (uint32_t loop = 0; loop < 40; ++loop) {
    const LoopPlan plan = plan_loop(run, loop);
    EXPECT_TRUE(plan.at_purge && plan.audited);
    EXPECT_EQ(plan.ending, Ending::kKill);
    EXPECT_EQ(plan.spill_per_mille, 0u);
    EXPECT_EQ(plan.harm, Harm::kNone);
    EXPECT_FALSE(plan.drains);
  }
}

TEST(Plan, OnlyAMutantIsAskedToBreakAPromise) {
  const LoopPlan plan = plan_loop(seeded(1), 0);
  const auto has = [&](Mutant mutant, const std::string& option) {
    LifeOptions life;
    life.data_dir = "d";
    life.mutant = mutant;
    const auto arguments = daemon_arguments(plan, life);
    return std::count(arguments.begin(), arguments.end(), option) == 1;
  };
  EXPECT_FALSE(has(Mutant::kNone, "--fault-ack-before-flush"));
  EXPECT_TRUE(has(Mutant::kFlush, "--fault-ack-before-flush"));
  EXPECT_FALSE(has(Mutant::kFlush, "--fault-purge-before-flush"));
  EXPECT_TRUE(has(Mutant::kPurge, "--fault-purge-before-flush"));
  EXPECT_FALSE(has(Mutant::kNone, "--repair-mb-per-s"));
  EXPECT_TRUE(has(Mutant::kRepair, "--repair-mb-per-s"));
  EXPECT_TRUE(has(Mutant::kNone, "--fault-volatile-cache"));
  EXPECT_TRUE(has(Mutant::kNone, plan.folder.scheme.text()));
}

TEST(Plan, ALifeIsAskedForMissingFilesAndForScrubAndToDrain) {
  LifeOptions life;
  life.data_dir = "d";
  life.create_targets = life.scrub = true;
  life.draining = 2;
  const auto plain = daemon_arguments(plan_loop(seeded(1), 0), {});
  const auto asked = daemon_arguments(plan_loop(seeded(1), 0), life);
  for (const std::string option :
       {"--create-targets", "--scrub-interval-s", "--drain-target", "d/target-2.dat"}) {
    EXPECT_EQ(std::count(plain.begin(), plain.end(), option), 0);
    EXPECT_EQ(std::count(asked.begin(), asked.end(), option), 1);
  }
}

}  // namespace
}  // namespace varve::ledger
