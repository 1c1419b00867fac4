// Goal: a lease pins what it says for as long as it says, and its end, however it comes, leaves
// nothing behind (I4, I6).
// Method: a table over a real index in manual time; ends by release, trim, time and session.
#include "server/op/lease.h"

#include <gtest/gtest.h>

#include "tests/server/op/rig.h"

namespace varve {
namespace {

constexpr uint32_t kBases = 200;

struct Leases {
  Leases() : table(rig.reactor, rig.index, metrics, {4, 240, 1000}) {
    for (uint32_t n = 0; n < kBases; ++n) {
      Located located;
      EXPECT_EQ(rig.index.insert(rig.block(n), BlockState::kMemory, &located),
                Index::Insert::kDone);
      slots.push_back(located.base_slot);
      positions.push_back(static_cast<uint16_t>(n));
    }
  }
  LeaseId grant(uint64_t session, uint32_t count, uint32_t ms) {
    return table.grant(session, std::span<const uint32_t>(slots).first(count),
                       std::span<const uint16_t>(positions).first(count), ms);
  }
  uint32_t pinned() const {
    uint32_t sum = 0;
    for (const uint32_t slot : slots)
      sum += rig.index.leases(slot);
    return sum;
  }
  Rig rig;
  OpMetrics metrics;
  LeaseTable table;
  std::vector<uint32_t> slots;
  std::vector<uint16_t> positions;
};

TEST(LeaseTable, PinsEveryBaseAndDropsThemAtRelease) {
  Leases t;
  const LeaseId lease = t.grant(1, 100, 500);
  ASSERT_NE(lease, 0u);
  EXPECT_EQ(t.pinned(), 100u);
  EXPECT_TRUE(t.table.holds(lease, 1));
  t.table.release(lease, 1, 0);
  EXPECT_EQ(t.pinned(), 0u);
  EXPECT_FALSE(t.table.holds(lease, 1));
  EXPECT_EQ(t.table.live(), 0u);
  t.table.release(lease, 1, 0);  // again: nothing
}

TEST(LeaseTable, TrimsWhatLiesBeyondAPosition) {
  Leases t;
  const LeaseId lease = t.grant(1, 100, 500);
  t.table.release(lease, 1, 41);
  EXPECT_EQ(t.pinned(), 41u);
  EXPECT_EQ(t.table.pins(), 41u);
  EXPECT_EQ(t.rig.index.leases(t.slots[40]), 1u);
  EXPECT_EQ(t.rig.index.leases(t.slots[41]), 0u);
  EXPECT_TRUE(t.table.holds(lease, 1));
}

TEST(LeaseTable, EndsByTimeOnItsOwn) {
  Leases t;
  const LeaseId early = t.grant(1, 10, 100);
  const LeaseId late = t.grant(1, 10, 300);
  const LeaseId middle = t.grant(1, 10, 200);
  t.rig.run_for(150 * kMillisecond);
  EXPECT_FALSE(t.table.holds(early, 1));
  EXPECT_TRUE(t.table.holds(middle, 1));
  t.rig.run_for(100 * kMillisecond);
  EXPECT_FALSE(t.table.holds(middle, 1));
  EXPECT_TRUE(t.table.holds(late, 1));
  EXPECT_EQ(t.pinned(), 10u);
  t.rig.run_for(100 * kMillisecond);
  EXPECT_EQ(t.pinned(), 0u);
  EXPECT_EQ(t.metrics.leases_expired.value(), 3u);
}

TEST(LeaseTable, CountsAsOverOnceItsTimeHasComeEvenBeforeTheTimerRan) {
  Leases t;
  const LeaseId lease = t.grant(1, 1, 100);
  Part part(Part::Kind::kGone);  // something ready, so that the turn reads the clock
  t.rig.clock.advance_by(100 * kMillisecond);
  t.rig.reactor.turn();
  EXPECT_FALSE(t.table.holds(lease, 1));
}

TEST(LeaseTable, NeverLastsLongerThanTheMaximum) {
  Leases t;
  const LeaseId lease = t.grant(1, 1, 4000000000u);
  t.rig.run_for(1001 * kMillisecond);
  EXPECT_FALSE(t.table.holds(lease, 1));
}

TEST(LeaseTable, RefusesWhenItsPoolOrItsPinsAreFull) {
  Leases t;
  EXPECT_NE(t.grant(1, 200, 500), 0u);
  EXPECT_EQ(t.grant(1, 41, 500), 0u) << "240 pins in all";
  EXPECT_NE(t.grant(1, 1, 500), 0u);
  EXPECT_NE(t.grant(1, 1, 500), 0u);
  EXPECT_NE(t.grant(1, 1, 500), 0u);
  EXPECT_EQ(t.grant(1, 1, 500), 0u) << "four leases in all";
  EXPECT_EQ(t.metrics.leases_refused.value(), 2u);
  EXPECT_EQ(t.pinned(), 203u) << "a refused lease pins nothing";
}

TEST(LeaseTable, BelongsToItsSessionAndGoesWithIt) {
  Leases t;
  const LeaseId mine = t.grant(1, 10, 500);
  const LeaseId other = t.grant(2, 10, 500);
  EXPECT_FALSE(t.table.holds(mine, 2));
  t.table.release(mine, 2, 0);  // not theirs to release
  EXPECT_TRUE(t.table.holds(mine, 1));
  t.table.session_gone(1);
  EXPECT_FALSE(t.table.holds(mine, 1));
  EXPECT_TRUE(t.table.holds(other, 2));
  EXPECT_EQ(t.pinned(), 10u);
}

TEST(LeaseTable, NeverTakesAnOldIdForALaterLease) {
  Leases t;
  const LeaseId old = t.grant(1, 1, 500);
  t.table.release(old, 1, 0);
  const LeaseId later = t.grant(1, 1, 500);
  EXPECT_NE(old, later);
  EXPECT_FALSE(t.table.holds(old, 1));
  t.table.release(old, 1, 0);
  EXPECT_TRUE(t.table.holds(later, 1));
}

TEST(LeaseTable, ReusesItsRunsAfterManyTrims) {
  Leases t;
  for (uint32_t round = 0; round < 1000; ++round) {
    const LeaseId lease = t.grant(1, 199, 500);
    ASSERT_NE(lease, 0u) << round;
    t.table.release(lease, 1, 1 + round % 150);
    t.table.release(lease, 1, 0);
    ASSERT_EQ(t.pinned(), 0u);
  }
}

TEST(LeaseTable, ARenewalMovesItsEndAndItsPlaceInLine) {
  Leases t;
  const LeaseId first = t.grant(1, 10, 100);
  const LeaseId second = t.grant(1, 10, 200);
  t.rig.run_for(50 * kMillisecond);
  EXPECT_TRUE(t.table.renew(first, 1, 300));   // to 350
  EXPECT_TRUE(t.table.renew(second, 1, 100));  // to 150: sooner than before
  t.rig.run_for(110 * kMillisecond);           // 160
  EXPECT_TRUE(t.table.holds(first, 1));
  EXPECT_FALSE(t.table.holds(second, 1));
  EXPECT_EQ(t.pinned(), 10u) << "the timer ended the second on its own";
  t.rig.run_for(180 * kMillisecond);  // 340
  EXPECT_TRUE(t.table.holds(first, 1));
  t.rig.run_for(20 * kMillisecond);
  EXPECT_EQ(t.pinned(), 0u);
  EXPECT_EQ(t.metrics.leases_renewed.value(), 2u);
}

TEST(LeaseTable, RenewsNothingThatIsOverOrAnothers) {
  Leases t;
  const LeaseId lease = t.grant(1, 10, 100);
  EXPECT_FALSE(t.table.renew(lease, 2, 100));
  EXPECT_FALSE(t.table.renew(0, 1, 100));
  t.table.release(lease, 1, 0);
  EXPECT_FALSE(t.table.renew(lease, 1, 100));
  const LeaseId late = t.grant(1, 10, 100);
  EXPECT_NE(late, 0u);
  t.rig.run_for(100 * kMillisecond);
  EXPECT_FALSE(t.table.renew(late, 1, 100));
  EXPECT_EQ(t.pinned(), 0u);
}

TEST(LeaseTable, ARenewalNeverLastsLongerThanTheMaximum) {
  Leases t;
  const LeaseId lease = t.grant(1, 1, 100);
  EXPECT_TRUE(t.table.renew(lease, 1, 4000000000u));
  t.rig.run_for(1001 * kMillisecond);
  EXPECT_FALSE(t.table.holds(lease, 1));
}

}  // namespace
}  // namespace varve
