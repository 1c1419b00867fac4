// Leases are bounded in count and age, belong to their session, and end everywhere at once.
#include "server/session/leases.h"

#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

struct Leasing {
  explicit Leasing(World& world)
      : client(world), format(client.register_format(small_format())), ids(ids_of(20)) {
    for (const BaseId& id : ids)
      world.home_of(id).known[id] = wire::TierKind::kDram;
  }
  wire::Matched lease(uint32_t lease_ms) {
    return client.wait<wire::MatchedView>(client.match(format, ids, lease_ms)).body;
  }
  Code release(uint64_t id) {
    const uint64_t op = client.next_op++;
    client.urgent->send(client.encoder().release(op, wire::Release{id}));
    return static_cast<Code>(client.wait<wire::ReleasedView>(op).body.code);
  }
  TestClient client;
  uint32_t format;
  std::vector<BaseId> ids;
};

TEST(Leases, ReleaseReachesEveryHome) {
  World world(4);
  Leasing a(world);
  const wire::Matched held = a.lease(10000);
  EXPECT_EQ(world.metric("varve_session_leases"), 1);
  EXPECT_EQ(a.release(held.lease), Code::kOk);
  for (const auto& home : world.homes)
    EXPECT_TRUE(home->leases.empty());
  EXPECT_EQ(world.metric("varve_session_leases"), 0);
  EXPECT_EQ(a.release(held.lease), Code::kTimedOut);
}

TEST(Leases, TheyEndByTheirTimeAndAreThenRefused) {
  World world(2);
  Leasing a(world);
  const wire::Matched held = a.lease(200);
  world.run_for(150 * kMillisecond);
  EXPECT_EQ(world.metric("varve_session_leases"), 1);
  world.run_for(100 * kMillisecond);
  EXPECT_EQ(world.metric("varve_session_leases"), 0);
  EXPECT_EQ(world.metric("varve_session_leases_expired_total"), 1);
  const uint64_t pull = a.client.pull(a.format, a.ids, held.lease);
  EXPECT_EQ(a.client.wait<wire::PulledView>(pull).body.code, static_cast<uint8_t>(Code::kTimedOut));
  EXPECT_EQ(world.homes[0]->pulls + world.homes[1]->pulls, 0u);  // refused before memory is touched
}

TEST(Leases, LongerOnesAreCutToTheLimitAndSaySo) {
  World world;
  Leasing a(world);
  EXPECT_EQ(a.lease(3600000).lease_ms, 60000u);
}

TEST(Leases, BeyondTheLimitAMatchIsAnsweredWithoutOne) {
  SessionOptions options;
  options.leases_max = 3;
  World world(1, options);
  Leasing a(world);
  const uint64_t first = a.lease(10000).lease;
  a.lease(10000);
  a.lease(10000);
  const wire::Matched fourth = a.lease(10000);
  EXPECT_EQ(fourth.code, 0);
  EXPECT_EQ(fourth.n_blocks, 20u) << "what is there is there";
  EXPECT_EQ(fourth.lease, 0u);
  EXPECT_EQ(fourth.lease_ms, 0u);
  EXPECT_EQ(world.metric("varve_session_leases_refused_total"), 1);
  EXPECT_EQ(a.release(first), Code::kOk);
  EXPECT_NE(a.lease(10000).lease, 0u);
  EXPECT_EQ(a.lease(0).n_blocks, 20u);  // without a lease there is no limit
}

TEST(Leases, AnotherSessionCannotUseThem) {
  World world;
  Leasing a(world), b(world);
  const wire::Matched held = a.lease(10000);
  EXPECT_EQ(b.release(held.lease), Code::kTimedOut);
  const uint64_t pull = b.client.pull(b.format, b.ids, held.lease);
  EXPECT_EQ(b.client.wait<wire::PulledView>(pull).body.code, static_cast<uint8_t>(Code::kTimedOut));
  EXPECT_EQ(a.release(held.lease), Code::kOk);
}

TEST(Leases, AnEarlierBootIsRefused) {
  World world;
  Leasing a(world);
  const wire::Matched held = a.lease(10000);
  ++a.client.welcome.boot_id;
  const uint64_t pull = a.client.pull(a.format, a.ids, held.lease);
  EXPECT_EQ(a.client.wait<wire::PulledView>(pull).body.code, static_cast<uint8_t>(Code::kTimedOut));
  EXPECT_EQ(world.homes[0]->pulls, 0u);
}

TEST(Leases, TheyGoWithTheirSession) {
  World world(4);
  {
    Leasing a(world);
    a.lease(60000);
    a.lease(60000);
    for (const auto& home : world.homes)
      EXPECT_EQ(home->leases.size(), 2u);
  }
  EXPECT_TRUE(world.settle());
  for (const auto& home : world.homes) {
    EXPECT_TRUE(home->leases.empty());
    EXPECT_EQ(home->gone, 1u);
  }
  EXPECT_EQ(world.metric("varve_session_leases"), 0);
}

TEST(Leases, AReleaseOnItsWayWhenTheSessionEndsIsWaitedFor) {
  World world;
  {
    Leasing a(world);
    const wire::Matched held = a.lease(60000);
    world.homes[0]->hold = true;
    world.homes[0]->hold_kind = Part::Kind::kRelease;
    a.client.urgent->send(
        a.client.encoder().release(a.client.next_op++, wire::Release{held.lease}));
    EXPECT_TRUE(world.run_until([&] { return world.homes[0]->held_count() == 1; }));
  }
  world.run_for(kSecond);
  EXPECT_EQ(world.homes[0]->gone, 0u);
  EXPECT_FALSE(world.table->at_rest());
  world.homes[0]->release_held();
  EXPECT_TRUE(world.settle());
}

}  // namespace
}  // namespace varve::test
