// Goal: what a session gives back, or leaves behind, is back (I6).
// Method: leases made by matches on the rig, released, trimmed, and left by a session that goes.
#include <gtest/gtest.h>

#include "server/op/lease.h"
#include "tests/server/op/rig.h"

namespace varve {
namespace {

TEST(Release, GivesAWholeLeaseBackOnce) {
  Rig rig;
  rig.push({0, 1});
  const Rig::Matched matched = rig.match({0, 1}, 1000);
  rig.release(matched.lease);
  rig.release(matched.lease);
  rig.release(12345);
  rig.expect_at_rest();
}

TEST(Release, KeepsThePositionsBelowATrim) {
  Rig rig;
  rig.push({0, 1, 2});
  const Rig::Matched matched = rig.match({0, 1, 2}, 1000);
  rig.release(matched.lease, 1);
  EXPECT_TRUE(rig.context->leases->holds(matched.lease, rig.session));
  EXPECT_EQ(rig.context->leases->pins(), 1u);
  rig.release(matched.lease);
  rig.expect_at_rest();
}

TEST(Release, EndsTheLeasesOfASessionThatIsGoneAndNoOthers) {
  Rig rig;
  rig.push({0, 1});
  rig.session = 1;
  rig.match({0, 1}, 1000);
  rig.match({0}, 1000);
  rig.session = 2;
  const Rig::Matched other = rig.match({1}, 1000);
  rig.session = 1;
  rig.gone();
  EXPECT_EQ(rig.context->leases->live(), 1u);
  EXPECT_TRUE(rig.context->leases->holds(other.lease, 2));
  rig.session = 2;
  rig.gone();
  rig.expect_at_rest();
}

}  // namespace
}  // namespace varve
