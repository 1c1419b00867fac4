// Goal: a look says what a match would say, and where every fragment lies, and changes nothing: no
// recency, no counter, no read (I5). Method: pushed blocks on the rig, with ranks, targets and DRAM
// taken away.
#include "server/op/look.h"

#include <gtest/gtest.h>

#include "tests/server/op/rig.h"

namespace varve {
namespace {

using wire::TierKind;

TEST(Look, NamesTheTierOfEveryRun) {
  RigOptions options;
  options.ranks = 2;
  Rig rig(options);
  rig.push({0, 1, 2}, 0);
  rig.push({0, 1}, 1);
  EXPECT_EQ(look_tier(*rig.context, kDomainDefault, rig.id(0), 2), TierKind::kDram);
  EXPECT_EQ(look_tier(*rig.context, kDomainDefault, rig.id(2), 2), TierKind::kNone)
      << "a rank is missing";
  EXPECT_EQ(look_tier(*rig.context, kDomainDefault, rig.id(2), 1), TierKind::kDram);
  EXPECT_EQ(look_tier(*rig.context, kDomainDefault, rig.id(7), 1), TierKind::kNone);
  rig.drop_from_dram(1, 1);
  EXPECT_EQ(look_tier(*rig.context, kDomainDefault, rig.id(1), 2), TierKind::kFlash)
      << "the slowest rank decides";
}

TEST(Look, TellsOfEveryRankAndFragment) {
  RigOptions options;
  options.ranks = 2;
  Rig rig(options);
  rig.push({0}, 0);
  rig.push({0}, 1);
  rig.drop_from_dram(0, 0);
  const BaseLook look = look_base(*rig.context, kDomainDefault, rig.id(0));
  ASSERT_EQ(look.blocks.size(), 2u);
  EXPECT_FALSE(look.recovering);
  EXPECT_EQ(look.leases, 0u);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const BlockLook& block = look.blocks[rank];
    EXPECT_EQ(block.rank, rank);
    EXPECT_EQ(block.state, BlockState::kFlash);
    EXPECT_EQ(block.lacking, 0u);
    EXPECT_EQ(block.in_dram, rank == 1);
    EXPECT_EQ(block.attempt.is_none(), rank == 0) << "only a drive says it";
    ASSERT_EQ(block.pieces.size(), rig.context->options.scheme.width());
    EXPECT_TRUE(block.pieces[0].readable);
    EXPECT_TRUE(rig.flash.holds(block.pieces[0].place));
  }
  EXPECT_TRUE(look_base(*rig.context, kDomainDefault, rig.id(5)).blocks.empty());
}

TEST(Look, KnowsALease) {
  Rig rig;
  rig.push({0});
  const auto matched = rig.match({0}, 1000);
  EXPECT_EQ(look_base(*rig.context, kDomainDefault, rig.id(0)).leases, 1u);
  rig.release(matched.lease);
  EXPECT_EQ(look_base(*rig.context, kDomainDefault, rig.id(0)).leases, 0u);
}

// What lies on a target that fails is no hit from that moment on, whatever the index still says.
TEST(Look, MissesWhatIsGone) {
  Rig rig;
  rig.push({0});
  rig.drop_from_dram(0);
  const uint32_t target =
      look_base(*rig.context, kDomainDefault, rig.id(0)).blocks[0].pieces[0].place.target;
  rig.flash.ok[target] = false;
  rig.context->catalog->target_failed(target);
  EXPECT_EQ(look_tier(*rig.context, kDomainDefault, rig.id(0), 1), TierKind::kNone);
  const BaseLook look = look_base(*rig.context, kDomainDefault, rig.id(0));
  ASSERT_EQ(look.blocks.size(), 1u);
  EXPECT_FALSE(look.blocks[0].pieces[0].readable);
}

TEST(Look, ChangesNothing) {
  Rig rig;
  rig.push({0, 1});
  rig.drop_from_dram(0);
  const uint64_t resident = rig.tier.used_bytes(Budget::kResident);
  const uint32_t oldest = rig.context->eviction.victim(0, ~0u);
  for (int i = 0; i < 10; ++i) {
    (void)look_tier(*rig.context, kDomainDefault, rig.id(0), 1);
    (void)look_base(*rig.context, kDomainDefault, rig.id(0));
    (void)look_tier(*rig.context, kDomainDefault, rig.id(1), 1);
  }
  EXPECT_EQ(rig.context->eviction.victim(0, ~0u), oldest);
  EXPECT_EQ(rig.tier.used_bytes(Budget::kResident), resident);
  EXPECT_EQ(rig.flash.lead_reads + rig.flash.extent_reads, 0u);
  EXPECT_EQ(rig.context->metrics.match_parts.value(), 0u);
  rig.expect_at_rest();
}

TEST(Look, SeesOneDomainOnly) {
  Rig rig;
  rig.push({1});
  EXPECT_EQ(look_tier(*rig.context, 2, rig.id(1), 1), TierKind::kNone);
  EXPECT_TRUE(look_base(*rig.context, 2, rig.id(1)).blocks.empty());
  EXPECT_EQ(look_base(*rig.context, 1, rig.id(1)).blocks.size(), 1u);
}

}  // namespace
}  // namespace varve
