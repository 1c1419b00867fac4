// Goal: a lease of ours finds the daemon's one that covers a pull, and is over in time, whoever
// looks (L1). Method: leases by hand in a core over the rig.
#include "client/lease.h"

#include <gtest/gtest.h>

#include "client/core.h"
#include "tests/client/client_rig.h"

namespace varve {
namespace {

ClientLease lease_over(const std::vector<std::vector<uint32_t>>& batches) {
  ClientLease lease;
  lease.boot_id = 1;
  for (const auto& batch : batches) {
    ServerLease part{lease.parts.size() + 1, {}};
    for (const uint32_t n : batch)
      part.ids.push_back(id_of(n).prefix64());
    lease.parts.push_back(part);
  }
  return lease;
}

std::vector<BaseId> ids(const std::vector<uint32_t>& numbers) {
  std::vector<BaseId> out;
  for (const uint32_t n : numbers)
    out.push_back(id_of(n));
  return out;
}

TEST(ClientLeaseTest, ThePartThatCoversThePull) {
  const ClientLease one = lease_over({{0, 1}});
  EXPECT_EQ(one.part_of(ids({0})), 1u);
  EXPECT_EQ(one.part_of(ids({7})), 1u);  // best effort under it
  const ClientLease two = lease_over({{0, 1}, {2, 3}});
  EXPECT_EQ(two.part_of(ids({1, 0})), 1u);
  EXPECT_EQ(two.part_of(ids({3, 9})), 2u);
  EXPECT_EQ(two.part_of(ids({9})), 1u);
  EXPECT_EQ(two.part_of(ids({1, 2})), 0u);  // in several: no one lease covers it
}

struct LeasesTest : testing::Test {
  LeasesTest() { EXPECT_TRUE(rig.ready()); }
  ClientLeases& leases() { return dynamic_cast<Core&>(*rig.core).leases(); }
  uint64_t add(uint32_t lease_ms) {
    ClientLease lease = lease_over({{0}});
    lease.lease_ms = lease_ms;
    lease.expires_ns = rig.client_reactor.now_ns() + lease_ms * kMillisecond;
    return leases().add(std::move(lease));
  }
  ClientRig rig;
};

TEST_F(LeasesTest, IsOverInTime) {
  const uint64_t lease = add(1000);
  EXPECT_EQ(leases().left_ns(lease), kSecond);
  EXPECT_FALSE(leases().is_half_over(lease));
  EXPECT_FALSE(leases().empty());
  rig.run_for(550 * kMillisecond);
  EXPECT_TRUE(leases().is_half_over(lease));
  EXPECT_NE(leases().find(lease), nullptr);
  rig.run_for(500 * kMillisecond);
  EXPECT_EQ(leases().left_ns(lease), 0u);
  EXPECT_FALSE(leases().is_half_over(lease));  // too late
  EXPECT_EQ(leases().find(lease), nullptr);
  EXPECT_TRUE(leases().empty());
}

TEST_F(LeasesTest, WhatIsOverGoesWithTheNextUnlessItIsBeingRenewed) {
  const uint64_t over = add(100);
  const uint64_t renewing = add(100);
  leases().find(renewing)->renewal = 99;
  rig.run_for(150 * kMillisecond);
  add(1000);
  EXPECT_EQ(leases().find_any(over), nullptr);
  ASSERT_NE(leases().find_any(renewing), nullptr);
  leases().find_any(renewing)->renewal = 0;
}

TEST_F(LeasesTest, OfAnotherBootItIsNone) {
  const uint64_t lease = add(1000);
  leases().find(lease)->boot_id = 2;
  EXPECT_EQ(leases().find(lease), nullptr);
}

TEST_F(LeasesTest, AReleaseIsSaidOncePerPart) {
  const uint64_t lease = leases().add(lease_over({{0}, {1}, {2}}));
  leases().release(lease);
  leases().release(lease);
  rig.run_for(100 * kMillisecond);
  EXPECT_EQ(rig.daemon->count(Type::kRelease), 3u);
}

}  // namespace
}  // namespace varve
