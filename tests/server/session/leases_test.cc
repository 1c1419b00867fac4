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
  uint64_t ask_renewal(uint64_t id, uint32_t lease_ms) {
    client.urgent->send(client.encoder().renew(client.next_op, wire::Renew{id, lease_ms}));
    return client.next_op++;
  }
  wire::Renewed renew(uint64_t id, uint32_t lease_ms) {
    return client.wait<wire::RenewedView>(ask_renewal(id, lease_ms)).body;
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

TEST(Leases, RenewReachesEveryHomeAndMakesItLast) {
  World world(4);
  Leasing a(world);
  const wire::Matched held = a.lease(200);
  world.run_for(150 * kMillisecond);
  const wire::Renewed renewed = a.renew(held.lease, 500);
  EXPECT_EQ(renewed.code, 0);
  EXPECT_EQ(renewed.lease_ms, 500u);
  for (const auto& home : world.homes)
    EXPECT_EQ(home->renewed_ms, std::vector<uint32_t>{500});
  world.run_for(400 * kMillisecond);
  EXPECT_EQ(world.metric("varve_session_leases"), 1);
  const uint64_t pull = a.client.pull(a.format, a.ids, held.lease);
  EXPECT_EQ(a.client.wait<wire::PulledView>(pull).body.code, 0);
  world.run_for(200 * kMillisecond);
  EXPECT_EQ(world.metric("varve_session_leases"), 0);
  EXPECT_EQ(world.metric("varve_session_leases_renewed_total"), 1);
  EXPECT_EQ(world.requests_timed("renew"), 1u);
  EXPECT_EQ(a.renew(held.lease, 500).code, static_cast<uint8_t>(Code::kTimedOut));
  EXPECT_EQ(world.requests_timed("renew"), 1u) << "no home was asked";
}

TEST(Leases, ARenewalIsCutToTheLimitAndSaysSo) {
  World world;
  Leasing a(world);
  EXPECT_EQ(a.renew(a.lease(1000).lease, 3600000).lease_ms, 60000u);
  EXPECT_EQ(world.homes[0]->renewed_ms, std::vector<uint32_t>{60000});
}

// Expect: over at one home is over, and what the others keep of it goes.
TEST(Leases, ARenewalThatOneHomeCannotGiveEndsTheLease) {
  World world(4);
  Leasing a(world);
  const wire::Matched held = a.lease(10000);
  world.homes[2]->lease_gone = true;
  EXPECT_EQ(a.renew(held.lease, 500).code, static_cast<uint8_t>(Code::kTimedOut));
  EXPECT_TRUE(world.run_until([&] { return world.metric("varve_session_leases") == 0; }));
  for (const auto& home : world.homes)
    EXPECT_TRUE(home->leases.empty());
  EXPECT_EQ(world.metric("varve_session_leases_expired_total"), 1);
  EXPECT_EQ(a.release(held.lease), Code::kTimedOut);
}

TEST(Leases, OneRenewalAtATimeAndOnlyOfOnesOwn) {
  World world;
  Leasing a(world), b(world);
  const wire::Matched held = a.lease(10000);
  EXPECT_EQ(b.renew(held.lease, 500).code, static_cast<uint8_t>(Code::kTimedOut));
  world.homes[0]->hold = true;
  world.homes[0]->hold_kind = Part::Kind::kRenew;
  const uint64_t first = a.ask_renewal(held.lease, 500);
  EXPECT_EQ(a.renew(held.lease, 500).code, static_cast<uint8_t>(Code::kInvalid));
  world.homes[0]->release_held();
  EXPECT_EQ(a.client.wait<wire::RenewedView>(first).body.code, 0);
  EXPECT_EQ(a.renew(held.lease, 700).code, 0);
}

TEST(Leases, AReleaseDuringItsRenewalWins) {
  World world(2);
  Leasing a(world);
  const wire::Matched held = a.lease(10000);
  world.homes[1]->hold = true;
  world.homes[1]->hold_kind = Part::Kind::kRenew;
  const uint64_t renewal = a.ask_renewal(held.lease, 500);
  const uint64_t release = a.client.next_op++;
  a.client.urgent->send(a.client.encoder().release(release, wire::Release{held.lease}));
  world.run_for(10 * kMillisecond);
  EXPECT_EQ(a.client.answer(release), nullptr);
  EXPECT_EQ(a.client.wait<wire::PulledView>(a.client.pull(a.format, a.ids, held.lease)).body.code,
            static_cast<uint8_t>(Code::kTimedOut));
  world.homes[1]->release_held();
  EXPECT_EQ(a.client.wait<wire::RenewedView>(renewal).body.code,
            static_cast<uint8_t>(Code::kTimedOut));
  EXPECT_EQ(a.client.wait<wire::ReleasedView>(release).body.code, 0);
  for (const auto& home : world.homes)
    EXPECT_TRUE(home->leases.empty());
  EXPECT_EQ(world.metric("varve_session_leases"), 0);
}

TEST(Leases, ARenewalOnItsWayWhenTheSessionEndsIsWaitedFor) {
  World world;
  {
    Leasing a(world);
    const wire::Matched held = a.lease(200);
    world.homes[0]->hold = true;
    world.homes[0]->hold_kind = Part::Kind::kRenew;
    a.ask_renewal(held.lease, 500);
    EXPECT_TRUE(world.run_until([&] { return world.homes[0]->held_count() == 1; }));
  }
  world.run_for(kSecond);
  EXPECT_EQ(world.homes[0]->gone, 0u);
  EXPECT_FALSE(world.table->at_rest());
  world.homes[0]->release_held();
  EXPECT_TRUE(world.settle());
  EXPECT_EQ(world.metric("varve_session_leases"), 0);
  EXPECT_EQ(world.requests_timed("renew"), 0u) << "nobody was answered";
}

}  // namespace
}  // namespace varve::test
