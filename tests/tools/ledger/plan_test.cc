// Goal: the plan is a pure function of seed and loop, and over a run everything happens.
// Method: draw 200 loops and look at them.
#include "tools/ledger/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace varve::ledger {
namespace {

TEST(Plan, EqualSeedsPlanEqualLoops) {
  for (uint32_t loop = 0; loop < 50; ++loop) {
    const LoopPlan a = plan_loop(7, loop), b = plan_loop(7, loop);
    EXPECT_EQ(a.seed, b.seed);
    EXPECT_EQ(a.load_ms, b.load_ms);
    EXPECT_EQ(daemon_arguments(a, "d", false), daemon_arguments(b, "d", false));
  }
  EXPECT_NE(plan_loop(7, 1).seed, plan_loop(8, 1).seed);
}

TEST(Plan, ALongRunMeetsEveryKindOfLoop) {
  std::set<Ending> endings;
  std::set<uint32_t> shards, spills, unaudited;
  uint32_t tight = 0;
  for (uint32_t loop = 0; loop < 200; ++loop) {
    const LoopPlan plan = plan_loop(1, loop);
    endings.insert(plan.ending);
    shards.insert(plan.shards);
    spills.insert(plan.spill_per_mille);
    if (!plan.audited) unaudited.insert(loop);
    tight += plan.folder.room == Room::kTight ? 1 : 0;
    EXPECT_GE(plan.load_ms, 5u);
    EXPECT_LE(plan.load_ms, 1500u);
  }
  EXPECT_EQ(endings.size(), 3u);
  EXPECT_EQ(shards, (std::set<uint32_t>{1, 2, 3}));
  EXPECT_EQ(spills.size(), 4u);
  EXPECT_GT(unaudited.size(), 10u);
  EXPECT_EQ(tight, 50u);
}

TEST(Plan, AFolderKeepsItsShapeAndBeginsAudited) {
  for (uint32_t folder = 0; folder < 10; ++folder) {
    const LoopPlan first = plan_loop(3, folder * kLoopsPerFolder);
    EXPECT_TRUE(first.first_of_folder);
    EXPECT_TRUE(first.audited);
    for (uint32_t i = 1; i < kLoopsPerFolder; ++i) {
      const LoopPlan plan = plan_loop(3, folder * kLoopsPerFolder + i);
      EXPECT_FALSE(plan.first_of_folder);
      EXPECT_EQ(plan.folder.targets, first.folder.targets);
      EXPECT_EQ(plan.folder.target_bytes, first.folder.target_bytes);
      EXPECT_EQ(plan.folder.scale, first.folder.scale);
    }
  }
}

TEST(Plan, OnlyTheMutantIsAskedToAcknowledgeEarly) {
  const auto plain = daemon_arguments(plan_loop(1, 0), "d", false);
  const auto mutant = daemon_arguments(plan_loop(1, 0), "d", true);
  const std::string flag = "--fault-ack-before-flush";
  EXPECT_EQ(std::count(plain.begin(), plain.end(), flag), 0);
  EXPECT_EQ(std::count(mutant.begin(), mutant.end(), flag), 1);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), "--fault-volatile-cache"), 1);
}

}  // namespace
}  // namespace varve::ledger
