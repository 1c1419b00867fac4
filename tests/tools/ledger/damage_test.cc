// Goal: a loop within the budget never hurts more than m targets, and what is absent comes back.
// Method: plans by hand, and the plans of whole folders.
#include "tools/ledger/damage.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace varve::ledger {
namespace {

LoopPlan harmed(uint32_t loop, Harm harm, uint32_t absent_loops = 0, bool beyond = false) {
  LoopPlan plan;
  plan.loop = loop;
  plan.harm = harm;
  plan.absent_loops = absent_loops;
  plan.beyond = beyond;
  plan.harm_seed = 2 * loop;
  return plan;
}

LoopPlan drains(uint32_t loop, uint64_t seed) {
  LoopPlan plan = harmed(loop, Harm::kNone);
  plan.drains = true;
  plan.harm_seed = seed;
  return plan;
}

uint32_t bits(uint32_t mask) {
  return static_cast<uint32_t>(std::popcount(mask));
}

TEST(Damage, OneTargetIsHurtUntilAllIsWholeAgain) {
  Damage damage(3, {2, 1});
  ASSERT_EQ(damage.next(harmed(1, Harm::kRot)).size(), 1u);
  EXPECT_EQ(bits(damage.hurt()), 1u);
  EXPECT_EQ(damage.struck(), damage.hurt());
  EXPECT_EQ(damage.rotten(), damage.hurt());
  EXPECT_TRUE(damage.next(harmed(2, Harm::kBlank)).empty()) << "the budget is spent";
  EXPECT_EQ(damage.struck(), 0u);
  damage.healed();
  EXPECT_EQ(damage.rotten(), 0u);
  EXPECT_EQ(damage.next(harmed(3, Harm::kBlank)).size(), 1u);
}

TEST(Damage, BeyondTheBudgetOneMoreThanTheSchemeCanDoWithout) {
  Damage damage(6, {4, 2});
  EXPECT_EQ(damage.next(harmed(1, Harm::kBlank)).size(), 1u);
  EXPECT_TRUE(damage.within());
  EXPECT_EQ(damage.next(harmed(2, Harm::kRot, 0, true)).size(), 2u);
  EXPECT_EQ(bits(damage.hurt()), 3u);
  EXPECT_FALSE(damage.within());
  EXPECT_TRUE(damage.next(harmed(3, Harm::kRot, 0, true)).empty());
}

TEST(Damage, WithoutParityEveryHarmIsBeyond) {
  Damage damage(2, {1, 0});
  EXPECT_TRUE(damage.next(harmed(1, Harm::kRot)).empty());
  EXPECT_EQ(damage.next(harmed(2, Harm::kRot, 0, true)).size(), 1u);
  EXPECT_FALSE(damage.within());
}

TEST(Damage, WhatIsDestroyedStaysAwayForItsLoopsAndComesBackBlank) {
  Damage damage(3, {2, 1});
  ASSERT_EQ(damage.next(harmed(1, Harm::kDestroy, 2)).size(), 1u);
  EXPECT_EQ(damage.absent(), damage.hurt());
  EXPECT_EQ(damage.thin(), damage.absent());
  EXPECT_FALSE(damage.complete());
  EXPECT_TRUE(damage.next(harmed(2, Harm::kNone)).empty());
  const auto deeds = damage.next(harmed(3, Harm::kNone));
  ASSERT_EQ(deeds.size(), 1u);
  EXPECT_EQ(deeds[0].harm, Harm::kReplace);
  EXPECT_EQ(1u << deeds[0].target, damage.hurt());
  EXPECT_EQ(damage.absent(), 0u);
  EXPECT_TRUE(damage.complete());
  EXPECT_EQ(bits(damage.hurt()), 1u) << "blank is not whole";
}

TEST(Damage, WhatIsUnpluggedComesBackAsItWas) {
  Damage damage(4, {2, 1});
  ASSERT_EQ(damage.next(harmed(1, Harm::kAway, 1)).size(), 1u);
  EXPECT_TRUE(damage.complete());
  EXPECT_EQ(damage.thin(), 0u) << "a spare target takes its place";
  damage.healed();
  const auto deeds = damage.next(harmed(2, Harm::kNone));
  ASSERT_EQ(deeds.size(), 1u);
  EXPECT_EQ(deeds[0].harm, Harm::kReturn);
  EXPECT_EQ(damage.hurt(), 0u);
}

TEST(Damage, SwappedTargetsAreTwoThatAreThereAndNobodyIsHurt) {
  Damage damage(2, {1, 1});
  const auto deeds = damage.next(harmed(1, Harm::kSwap));
  ASSERT_EQ(deeds.size(), 1u);
  EXPECT_NE(deeds[0].target, deeds[0].other);
  EXPECT_EQ(damage.hurt(), 0u);
  damage.next(harmed(2, Harm::kDestroy, 2));
  EXPECT_TRUE(damage.next(harmed(3, Harm::kSwap)).empty());
}

TEST(Damage, WhatIsReplacedInThisLoopIsNotSwapped) {
  Damage damage(3, {1, 1});
  damage.next(harmed(1, Harm::kDestroy, 1));
  const uint32_t destroyed = damage.hurt();
  damage.healed();
  LoopPlan swap = harmed(2, Harm::kSwap);
  swap.harm_seed = 7;
  const auto deeds = damage.next(swap);
  ASSERT_EQ(deeds.size(), 2u);
  EXPECT_EQ(deeds[1].harm, Harm::kSwap);
  EXPECT_FALSE(deeds[0].by_daemon) << "a start that is refused makes no file";
  EXPECT_EQ((1u << deeds[1].target | 1u << deeds[1].other) & destroyed, 0u);
}

TEST(Damage, TheDaemonIsAskedForAFileOnlyWhenItIsTheOnlyOneThatIsMissing) {
  bool asked = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Damage damage(7, {4, 2});
    LoopPlan plan = harmed(1, Harm::kDestroy, 0);
    plan.harm_seed = seed;
    for (const Deed& deed : damage.next(plan))
      asked |= deed.by_daemon;
    Damage two(7, {4, 2});
    two.next(harmed(1, Harm::kAway, 2));
    plan.loop = 2;
    for (const Deed& deed : two.next(plan))
      EXPECT_FALSE(deed.by_daemon);
  }
  EXPECT_TRUE(asked);
}

TEST(Damage, ADrainGoesOnUntilTheTargetIsEmptyAndIsTakenOutWithoutHarm) {
  Damage damage(4, {2, 1});
  EXPECT_TRUE(damage.next(drains(1, 4)).empty());
  ASSERT_TRUE(damage.draining().has_value());
  const uint32_t target = *damage.draining();
  EXPECT_TRUE(damage.complete());
  damage.next(drains(2, 5));
  EXPECT_EQ(damage.draining(), target);
  damage.emptied();
  EXPECT_EQ(damage.draining(), target) << "the daemon runs, and may start again";
  LoopPlan plan = harmed(3, Harm::kNone, 1);
  plan.harm_seed = 1;
  auto deeds = damage.next(plan);
  ASSERT_EQ(deeds.size(), 1u);
  EXPECT_EQ(deeds[0].harm, Harm::kTakeOut);
  EXPECT_EQ(deeds[0].target, target);
  EXPECT_EQ(damage.absent(), 1u << target);
  EXPECT_EQ(damage.hurt(), 0u);
  EXPECT_EQ(damage.thin(), 0u);
  EXPECT_FALSE(damage.draining().has_value());
  deeds = damage.next(harmed(4, Harm::kNone));
  ASSERT_EQ(deeds.size(), 1u);
  EXPECT_EQ(deeds[0].harm, Harm::kReplace);
  EXPECT_EQ(damage.hurt(), 0u);
}

TEST(Damage, WhatIsEmptyAndStaysIsFormattedAnew) {
  Damage damage(3, {1, 1});
  damage.next(drains(1, 4));
  damage.emptied();
  EXPECT_TRUE(damage.next(drains(2, 6)).empty());
  EXPECT_FALSE(damage.draining().has_value());
  EXPECT_EQ(damage.absent() | damage.hurt(), 0u);
}

TEST(Damage, NothingIsDrainedWhileATargetIsHurtAndADrainOfAHurtOneIsGivenUp) {
  Damage damage(4, {2, 1});
  damage.next(harmed(1, Harm::kRot));
  damage.next(drains(2, 4));
  EXPECT_FALSE(damage.draining().has_value());
  bool given_up = false;
  for (uint32_t i = 0; i < 40 && !given_up; ++i) {
    damage.healed();
    damage.next(drains(3, 4));
    ASSERT_TRUE(damage.draining().has_value());
    LoopPlan plan = harmed(4, Harm::kRot);
    plan.harm_seed = i;
    const uint32_t target = *damage.draining();
    damage.next(plan);
    given_up = damage.hurt() == 1u << target;
    EXPECT_EQ(damage.draining().has_value(), !given_up);
  }
  EXPECT_TRUE(given_up);
}

TEST(Damage, BlocksAreThinWhileTheOthersAreFewerThanABlockNeeds) {
  Damage damage(4, {2, 1});
  damage.next(drains(1, 4));
  uint32_t seed = 0;
  while (damage.draining() && damage.absent() == 0) {
    LoopPlan plan = harmed(2, Harm::kDestroy, 5);
    plan.harm_seed = seed++;
    damage.next(plan);
  }
  ASSERT_TRUE(damage.draining().has_value());
  EXPECT_FALSE(damage.complete()) << "there is nowhere to move to";
  EXPECT_NE(damage.thin() & 1u << *damage.draining(), 0u);
}

// Else one that missed a purge might be alone, with nobody there who knows of it.
TEST(Damage, ATargetThatWasThereBeforeIsLeftAsItWas) {
  Damage damage(2, {1, 0});
  damage.next(harmed(1, Harm::kAway, 1, true));
  const uint32_t away = damage.absent();
  const auto deeds = damage.next(harmed(2, Harm::kDestroy, 2, true));
  ASSERT_EQ(deeds.size(), 1u) << "the one that is back is no witness of what the other took";
  EXPECT_EQ(deeds[0].harm, Harm::kReturn);
  EXPECT_EQ(1u << deeds[0].target, away);
}

// It has what was purged meanwhile for good, or until it is blank.
TEST(Damage, OneThatWasAwayNeedsTheOtherUntilItIsBlank) {
  Damage damage(2, {1, 0});
  damage.next(harmed(1, Harm::kAway, 1, true));
  const uint32_t away = damage.absent();
  damage.next(harmed(2, Harm::kNone));
  uint32_t loop = 3;
  for (; damage.struck() == 0 && loop < 40; ++loop) {
    damage.healed();
    damage.next(harmed(loop, Harm::kBlank, 0, true));
    EXPECT_EQ(damage.struck() & ~away, 0u) << loop;
  }
  ASSERT_EQ(damage.struck(), away);
  uint32_t struck = 0;
  for (; loop < 80; ++loop) {
    damage.healed();
    damage.next(harmed(loop, Harm::kBlank, 0, true));
    struck |= damage.struck();
  }
  EXPECT_EQ(struck, 3u) << "now it may be either";
}

// What `tools/dev test` runs must hold what the ledger is about, in its few loops.
TEST(Damage, TheRunOfTheGateDestroysDrainsRotsAndSwapsTargetsOfACodedScheme) {
  LedgerPlan run;
  run.seed = 111;
  run.scheme = Scheme{2, 1};
  Damage damage(plan_loop(run, 0).folder.targets, *run.scheme);
  std::set<Harm> done;
  for (uint32_t loop = 0; loop < 6; ++loop) {
    const LoopPlan plan = plan_loop(run, loop);
    for (const Deed& deed : damage.next(plan))
      done.insert(deed.harm);
    EXPECT_TRUE(damage.within());
    if (!plan.heals || !plan.audited || !damage.complete()) continue;
    damage.healed();
    if (damage.draining() && !damage.is_empty()) damage.emptied();
  }
  EXPECT_EQ(done, (std::set<Harm>{Harm::kDestroy, Harm::kRot, Harm::kSwap, Harm::kReplace,
                                  Harm::kTakeOut}));
}

TEST(Damage, OverManyFoldersTheBudgetHoldsAndATargetIsAlwaysThere) {
  uint32_t struck = 0, taken_out = 0;
  for (uint32_t folder = 0; folder < 40; ++folder) {
    LedgerPlan run;
    run.seed = 11;
    const LoopPlan first = plan_loop(run, folder * kLoopsPerFolder);
    Damage damage(first.folder.targets, first.folder.scheme);
    bool beyond = false;
    for (uint32_t i = 0; i < kLoopsPerFolder; ++i) {
      const LoopPlan plan = plan_loop(run, folder * kLoopsPerFolder + i);
      for (const Deed& deed : damage.next(plan))
        taken_out += deed.harm == Harm::kTakeOut ? 1 : 0;
      struck += bits(damage.struck());
      beyond = plan.beyond || beyond;
      EXPECT_TRUE(beyond || damage.within());
      EXPECT_LT(bits(damage.absent()), first.folder.targets);
      if (plan.heals && plan.audited && damage.complete()) {
        damage.healed();
        beyond = false;
        if (damage.draining() && !damage.is_empty()) damage.emptied();
      }
    }
  }
  EXPECT_GT(struck, 80u);
  EXPECT_GT(taken_out, 20u);
}

}  // namespace
}  // namespace varve::ledger
