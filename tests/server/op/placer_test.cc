// Goal: every position of a block gets a target of its own, the map's where that can take it; the
// others step in by the target order; thin blocks have their data positions first.
// Method: the rig's targets; takers that refuse some of them.
#include "server/op/placer.h"

#include <gtest/gtest.h>

#include <bit>

#include "tests/server/op/rig.h"

namespace varve {
namespace {

RigOptions coded(Scheme scheme, uint32_t targets) {
  RigOptions options;
  options.op.scheme = scheme;
  options.targets = targets;
  return options;
}

struct Taker {
  uint32_t full = 0;   // targets that refuse
  uint32_t asked = 0;  // in all
  static bool take(void* context, uint32_t, uint32_t target) {
    Taker& self = *static_cast<Taker*>(context);
    ++self.asked;
    return (self.full >> target & 1) == 0;
  }
};

Placer::Spots place(Rig& rig, uint32_t n, Taker& taker, uint32_t only = ~0u, uint32_t used = 0) {
  return rig.context->placer->place(rig.id(n), only, used, Taker::take, &taker);
}

uint32_t targets_of(const Placer::Spots& spots, uint32_t width) {
  uint32_t targets = 0;
  for (uint32_t p = 0; p < width; ++p) {
    if (spots.target[p] == Placer::kNone) continue;
    EXPECT_EQ(targets >> spots.target[p] & 1, 0u) << "twice on one target";
    targets |= 1u << spots.target[p];
  }
  return targets;
}

TEST(Placer, GivesEachPositionATargetOfItsOwnAndTheSameOneAgain) {
  Rig rig(coded({4, 2}, 8));
  for (uint32_t n = 0; n < 200; ++n) {
    Taker taker;
    const Placer::Spots spots = place(rig, n, taker);
    EXPECT_EQ(spots.count, 6u);
    EXPECT_EQ(taker.asked, 6u);
    EXPECT_EQ(std::popcount(targets_of(spots, 6)), 6);
    const Placer::Spots again = place(rig, n, taker);
    for (uint32_t p = 0; p < 6; ++p)
      EXPECT_EQ(again.target[p], spots.target[p]);
  }
}

TEST(Placer, PassesOverTargetsThatAreFullAndMovesNothingElse) {
  Rig rig(coded({2, 1}, 4));
  for (uint32_t n = 0; n < 50; ++n) {
    Taker all;
    const Placer::Spots spots = place(rig, n, all);
    Taker one_full{.full = 1u << spots.target[1]};
    const Placer::Spots other = place(rig, n, one_full);
    EXPECT_EQ(other.count, 3u);
    EXPECT_EQ(other.target[0], spots.target[0]);
    EXPECT_EQ(other.target[2], spots.target[2]);
    EXPECT_NE(other.target[1], spots.target[1]);
    targets_of(other, 3);
  }
}

TEST(Placer, LeavesAPositionOutWhenNoTargetIsLeftDataFirst) {
  Rig rig(coded({2, 1}, 3));
  rig.flash.ok[1] = false;
  for (uint32_t n = 0; n < 50; ++n) {
    Taker taker;
    const Placer::Spots spots = place(rig, n, taker);
    EXPECT_EQ(spots.count, 2u);
    EXPECT_EQ(spots.target[2], Placer::kNone);
    EXPECT_EQ(targets_of(spots, 3), 0b101u);
  }
  EXPECT_EQ(rig.context->placer->usable(), 0b101u);
}

// One that is being drained takes nothing new, as if it were lost, and is no place for a move.
TEST(Placer, GivesATargetThatIsDrainedNothing) {
  for (const Scheme scheme : {Scheme{1, 0}, Scheme{2, 1}}) {
    RigOptions options = coded(scheme, 4);
    options.op.draining_targets = 0b0100;
    Rig rig(options);
    EXPECT_EQ(rig.context->placer->usable(), 0b1011u);
    for (uint32_t n = 0; n < 50; ++n) {
      Taker taker;
      const Placer::Spots spots = place(rig, n, taker);
      EXPECT_EQ(spots.count, scheme.width());
      EXPECT_EQ(targets_of(spots, scheme.width()) & 0b0100, 0u);
      EXPECT_EQ(place(rig, n, taker, 1, 0b1011).count, 0u);
    }
  }
}

// Repair asks for one position, beside the targets that the others of the block have.
TEST(Placer, GivesOnePositionATargetThatNoOtherHas) {
  Rig rig(coded({2, 1}, 4));
  for (uint32_t n = 0; n < 50; ++n) {
    Taker taker;
    const Placer::Spots spots = place(rig, n, taker, 0b010, 0b0101);
    EXPECT_EQ(spots.count, 1u);
    EXPECT_TRUE(spots.target[1] == 1 || spots.target[1] == 3);
    EXPECT_EQ(spots.target[0], Placer::kNone);
  }
}

TEST(Placer, FollowsTheTargetOrderForASingleFragment) {
  Rig rig(coded({1, 0}, 5));
  uint64_t keys[5];
  for (uint32_t t = 0; t < 5; ++t)
    keys[t] = rig.flash.target_key(t);
  for (uint32_t n = 0; n < 50; ++n) {
    uint8_t order[5];
    target_order(rig.id(n), keys, order);
    Taker taker{.full = 1u << order[0]};
    EXPECT_EQ(place(rig, n, taker).target[0], order[1]);
  }
}

}  // namespace
}  // namespace varve
