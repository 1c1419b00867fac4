// Goal: a run whose ranks are not all there is dropped within twice sibling_ms_max, and nothing
// else is.
// Method: the rig with two ranks and a short bound; runs that are whole, late, leased, being
// written, and recovered.
#include "server/op/siblings.h"

#include "server/op/catalog.h"
#include "tests/server/op/rig.h"

namespace varve {
namespace {

constexpr Nanos kMax = kSecond;

RigOptions two_ranks() {
  RigOptions options;
  options.ranks = 2;
  options.op.sibling_ns_max = kMax;
  return options;
}

bool is_there(const Rig& rig, uint32_t n) {
  return rig.index.ranks_of(kDomainDefault, rig.id(n)) != 0;
}

TEST(Siblings, DropsARunThatLacksARankAndKeepsThoseThatAreWhole) {
  Rig rig(two_ranks());
  rig.push({1, 2}, 0);
  rig.push({2}, 1);
  rig.run_for(kMax / 2);
  EXPECT_TRUE(is_there(rig, 1)) << "its rank may still come";
  rig.run_for(2 * kMax);
  EXPECT_FALSE(is_there(rig, 1));
  EXPECT_EQ(rig.index.ranks_of(kDomainDefault, rig.id(2)), 3u);
  EXPECT_EQ(rig.context->metrics.siblings_dropped.value(), 1u);
  EXPECT_EQ(rig.flash.fragments(), 2u);
}

TEST(Siblings, KeepsARunWhoseRankComesBetweenTheWalks) {
  Rig rig(two_ranks());
  rig.push({1}, 0);
  rig.run_for(kMax + kMax / 2);  // one walk has seen it
  rig.push({1}, 1);
  rig.run_for(4 * kMax);
  EXPECT_EQ(rig.index.ranks_of(kDomainDefault, rig.id(1)), 3u);
}

// The mark is of a base id, not of the slot that it had.
TEST(Siblings, JudgesANewRunInAnOldSlotAfresh) {
  Rig rig(two_ranks());
  rig.push({1}, 0);
  rig.run_for(kMax + kMax / 2);
  const uint32_t slot = *rig.index.base_slot(kDomainDefault, rig.id(1));
  EXPECT_GT(rig.operations->catalog().evict(slot), 0u);
  rig.push({3}, 0);
  ASSERT_EQ(*rig.index.base_slot(kDomainDefault, rig.id(3)), slot);
  rig.run_for(kMax / 2 + kMax / 4);  // the next walk
  EXPECT_TRUE(is_there(rig, 3));
  rig.run_for(kMax);
  EXPECT_FALSE(is_there(rig, 3));
}

TEST(Siblings, LeavesWhatIsLeasedOrBeingWritten) {
  Rig rig(two_ranks());
  rig.push({1}, 0);
  const uint32_t slot = *rig.index.base_slot(kDomainDefault, rig.id(1));
  rig.index.lease_add(slot);
  rig.run_for(4 * kMax);
  EXPECT_TRUE(is_there(rig, 1));
  rig.index.lease_drop(slot);
  rig.run_for(2 * kMax);
  EXPECT_FALSE(is_there(rig, 1));
}

TEST(Siblings, NeverWalksForFormatsOfOneRank) {
  Rig rig;
  rig.push({1});
  rig.run_for(10 * rig.options.op.sibling_ns_max);
  EXPECT_TRUE(is_there(rig, 1));
  EXPECT_EQ(rig.reactor.next_work_ns(), kNever) << "no timer is left";
}

TEST(Siblings, DropsWhatRecoveryFoundWithoutARankAfterTheGrace) {
  RigOptions options = two_ranks();
  options.op.lease_ms_max = 3000;
  Rig rig(options);
  rig.push({9}, 0);  // for a fragment that is really there
  const flash::Place place = rig.place_of(rig.block(9));
  const flash::FragmentInfo found{.block = rig.block(1),
                                  .rank_count = 2,
                                  .attempt = {1, 0, 1},
                                  .place = place,
                                  .block_bytes = 1};
  ASSERT_TRUE(rig.operations->catalog().recovered(found));
  rig.operations->catalog().recovery_done();
  rig.run_for(2 * kSecond + kSecond / 2);
  EXPECT_TRUE(is_there(rig, 1)) << "in its grace";
}

// Rank 0 is in one domain and rank 1 in another: each lacks the other rank.
TEST(Siblings, ARankOfAnotherDomainIsNoSibling) {
  Rig rig(two_ranks());
  rig.push({1}, 0);
  rig.domain = 2;
  rig.push({1}, 1);
  rig.run_for(4 * kMax);
  EXPECT_EQ(rig.index.ranks_of(1, rig.id(1)), 0u);
  EXPECT_EQ(rig.index.ranks_of(2, rig.id(1)), 0u);
  EXPECT_EQ(rig.context->metrics.siblings_dropped.value(), 2u);
}

}  // namespace
}  // namespace varve
