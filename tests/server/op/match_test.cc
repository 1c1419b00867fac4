// Goal: a match says exactly what is here, changes nothing but recency and an asked lease (I5), and
// counts all ranks.
// Method: pushed prefixes on the rig, with a rank missing, a block out of DRAM, duplicates.
#include <gtest/gtest.h>

#include "tests/server/op/rig.h"

namespace varve {
namespace {

using wire::TierKind;

TEST(Match, AnswersTheLeadingBlocksAndNothingBehindTheFirstMiss) {
  Rig rig;
  rig.push({0, 1, 2, 4});
  const Rig::Matched matched = rig.match({0, 1, 2, 3, 4});
  EXPECT_EQ(matched.found(), 3u);
  EXPECT_EQ(matched.tiers[3], TierKind::kNone);
  EXPECT_EQ(matched.tiers[4], TierKind::kNone);
  EXPECT_EQ(matched.lease, 0u);
  rig.expect_at_rest();
}

TEST(Match, OfEachItAnswersEveryIdByItself) {
  RigOptions options;
  options.ranks = 2;
  Rig rig(options);
  rig.push({1, 2, 4, 5}, 0);
  rig.push({1, 4, 5}, 1);
  rig.drop_from_dram(4, 1);
  const Rig::Matched matched = rig.match({0, 1, 2, 3, 4, 5, 5}, 0, wire::MatchOf::kEach);
  EXPECT_EQ(matched.tiers, (std::vector<TierKind>{TierKind::kNone, TierKind::kDram, TierKind::kNone,
                                                  TierKind::kNone, TierKind::kFlash,
                                                  TierKind::kDram, TierKind::kDram}));
  EXPECT_EQ(matched.lease, 0u);
  rig.expect_at_rest();
}

TEST(Match, OfEachWhatIsLostOrNotReadYetIsNotThere) {
  Rig rig;
  rig.push({0, 1, 2});
  rig.drop_from_dram(1);
  rig.lose(1, 0);
  EXPECT_EQ(rig.match({0, 1, 2}, 0, wire::MatchOf::kEach).tiers,
            (std::vector<TierKind>{TierKind::kDram, TierKind::kNone, TierKind::kDram}));
  rig.expect_at_rest();
}

TEST(Match, NamesTheTierOfEachBlock) {
  Rig rig;
  rig.push({0, 1});
  rig.drop_from_dram(1);
  const Rig::Matched matched = rig.match({0, 1});
  EXPECT_EQ(matched.tiers[0], TierKind::kDram);
  EXPECT_EQ(matched.tiers[1], TierKind::kFlash);
}

TEST(Match, NeedsEveryRank) {
  RigOptions options;
  options.ranks = 2;
  Rig rig(options);
  rig.push({0, 1}, 0);
  EXPECT_EQ(rig.match({0, 1}).found(), 0u);
  rig.push({0}, 1);
  EXPECT_EQ(rig.match({0, 1}).found(), 1u);
  rig.drop_from_dram(0, 1);
  EXPECT_EQ(rig.match({0, 1}).tiers[0], TierKind::kFlash) << "the slowest rank decides";
}

TEST(Match, LeasesWhatItFoundAndOnlyThat) {
  Rig rig;
  rig.push({0, 1, 3});
  const Rig::Matched matched = rig.match({0, 1, 2, 3}, 1000);
  ASSERT_NE(matched.lease, 0u);
  EXPECT_EQ(rig.index.leases(*rig.index.base_slot(kDomainDefault, rig.id(1))), 1u);
  EXPECT_EQ(rig.index.leases(*rig.index.base_slot(kDomainDefault, rig.id(3))), 0u);
  rig.release(matched.lease);
  rig.expect_at_rest();
}

TEST(Match, GivesNoLeaseWhenItFoundNothing) {
  Rig rig;
  EXPECT_EQ(rig.match({0, 1}, 1000).lease, 0u);
  rig.expect_at_rest();
}

TEST(Match, AnswersDuplicatesLikeAnyOtherId) {
  Rig rig;
  rig.push({0, 1});
  const Rig::Matched matched = rig.match({0, 0, 1, 1}, 1000);
  EXPECT_EQ(matched.found(), 4u);
  rig.release(matched.lease);
  rig.expect_at_rest();
}

TEST(Match, ChangesNothingButRecency) {
  Rig rig;
  rig.push({0, 1});
  rig.drop_from_dram(0);
  const uint64_t resident = rig.tier.used_bytes(Budget::kResident);
  for (int i = 0; i < 10; ++i)
    rig.match({0, 1});
  EXPECT_EQ(rig.tier.used_bytes(Budget::kResident), resident);
  EXPECT_EQ(rig.flash.lead_reads + rig.flash.extent_reads, 0u);
  rig.expect_at_rest();
}

TEST(Match, FeedsRecencyFromLeafToRoot) {
  RigOptions options;
  options.targets = 1;
  options.op.slices = 1;  // one room, so that the order shows
  Rig rig(options);
  rig.push({0});
  rig.push({1});
  rig.push({2});
  rig.match({0, 1, 2});
  std::vector<BaseId> order;
  for (uint32_t slot = rig.eviction->victim(0, kNoSlot); slot != kNoSlot;
       slot = rig.eviction->victim(0, slot)) {
    order.push_back(rig.index.block_at(slot, 0).base);
  }
  EXPECT_EQ(order, (std::vector<BaseId>{rig.id(2), rig.id(1), rig.id(0)}));
}

TEST(Match, OfEachItFeedsRecencyOfWhatIsThere) {
  RigOptions options;
  options.targets = 1;
  options.op.slices = 1;
  Rig rig(options);
  rig.push({0});
  rig.push({1});
  rig.push({2});
  rig.match({0, 9, 1}, 0, wire::MatchOf::kEach);
  std::vector<BaseId> order;
  for (uint32_t slot = rig.eviction->victim(0, kNoSlot); slot != kNoSlot;
       slot = rig.eviction->victim(0, slot)) {
    order.push_back(rig.index.block_at(slot, 0).base);
  }
  EXPECT_EQ(order, (std::vector<BaseId>{rig.id(2), rig.id(1), rig.id(0)}));
}

TEST(Match, SaysWhenTheIndexIsStillBeingRebuilt) {
  Rig rig;
  rig.flash.is_recovering = true;
  auto request = std::make_unique<RequestIds>();
  MatchPart part;
  part.request = request.get();
  bool back = false;
  part.session_reactor = &rig.reactor;
  part.owner = &back;
  part.on_back = [](Part& p) { *static_cast<bool*>(p.owner) = true; };
  rig.operations->begin(part);
  EXPECT_FALSE(back) << "never inside the call";
  ASSERT_TRUE(rig.run_until([&] { return back; }));
  EXPECT_TRUE(part.recovering);
}

TEST(Match, AnIdOfAnotherDomainIsAMissAndPinsNothing) {
  Rig rig;
  rig.push({1, 2});
  rig.domain = 2;
  const Rig::Matched none = rig.match({1, 2}, 500);
  EXPECT_EQ(none.found(), 0u);
  EXPECT_EQ(none.lease, 0u);
  EXPECT_EQ(rig.match({1, 2}, 0, wire::MatchOf::kEach).tiers,
            std::vector<TierKind>(2, TierKind::kNone));
  rig.push({1});
  EXPECT_EQ(rig.match({1, 2}).found(), 1u);
  const Rig::Matched leased = rig.match({1}, 500);
  rig.domain = 1;
  EXPECT_EQ(rig.match({1, 2}).found(), 2u);
  EXPECT_EQ(rig.index.leases(*rig.index.base_slot(1, rig.id(1))), 0u);
  EXPECT_EQ(rig.index.leases(*rig.index.base_slot(2, rig.id(1))), 1u);
  rig.release(leased.lease);
  rig.expect_at_rest();
}

}  // namespace
}  // namespace varve
