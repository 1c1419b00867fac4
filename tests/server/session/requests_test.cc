// What requests have in common: their number is bounded, their pools too, and CANCEL is always
// safe.
#include "server/session/requests.h"

#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

TEST(Requests, MoreThanTheLimitInFlightAreRefusedByQuota) {
  SessionOptions options;
  options.requests_max = 3;
  World world(1, options);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  world.homes[0]->hold = true;
  std::vector<uint64_t> held;
  for (uint32_t i = 0; i < 3; ++i)
    held.push_back(client.match(format, ids_of(2)));
  const uint64_t fourth = client.match(format, ids_of(2));
  EXPECT_EQ(client.wait<wire::MatchedView>(fourth).body.code, static_cast<uint8_t>(Code::kQuota));
  const uint64_t fifth = client.reserve(format, ids_of(2));
  EXPECT_EQ(client.wait<wire::ReservedView>(fifth).body.code, static_cast<uint8_t>(Code::kQuota));
  world.homes[0]->release_held();
  for (const uint64_t op : held)
    EXPECT_EQ(client.wait<wire::MatchedView>(op).body.code, 0);
  EXPECT_EQ(client.wait<wire::MatchedView>(client.match(format, ids_of(2))).body.code, 0);
}

TEST(Requests, AnEmptyPoolIsOverloadedForTheOneWhoComesLast) {
  SessionOptions options;
  options.matches_sum_max = 1;
  options.reserves_sum_max = 1;
  options.pulls_sum_max = 1;
  options.leases_sum_max = 1;
  World world(1, options);
  TestClient a(world), b(world);
  const uint32_t format = a.register_format(small_format());
  b.register_format(small_format());
  const auto overloaded = static_cast<uint8_t>(Code::kOverloaded);
  FakeHome& home = *world.homes[0];
  home.known[id_of(0)] = wire::TierKind::kDram;
  home.hold = true;
  const uint64_t match = a.match(format, ids_of(1));
  EXPECT_TRUE(world.run_until([&] { return home.held_count() == 1; }));
  EXPECT_EQ(b.wait<wire::MatchedView>(b.match(format, ids_of(1))).body.code, overloaded);
  home.hold_kind = Part::Kind::kReserve;
  const uint64_t reserve = a.reserve(format, ids_of(1, 9));
  EXPECT_TRUE(world.run_until([&] { return home.held_count() == 2; }));
  EXPECT_EQ(b.wait<wire::ReservedView>(b.reserve(format, ids_of(1, 9))).body.code, overloaded);
  home.hold_kind = Part::Kind::kPull;
  const uint64_t pull = a.pull(format, ids_of(1));
  EXPECT_TRUE(world.run_until([&] { return home.held_count() == 3; }));
  EXPECT_EQ(b.wait<wire::PulledView>(b.pull(format, ids_of(1))).body.code, overloaded);
  home.release_held();
  EXPECT_EQ(a.wait<wire::MatchedView>(match).body.code, 0);
  EXPECT_EQ(a.wait<wire::ReservedView>(reserve).body.code, 0);
  EXPECT_EQ(a.wait<wire::PulledView>(pull).body.code, 0);
  EXPECT_NE(a.wait<wire::MatchedView>(a.match(format, ids_of(1), 5000)).body.lease, 0u);
  const auto last = b.wait<wire::MatchedView>(b.match(format, ids_of(1), 5000)).body;
  EXPECT_EQ(last.code, 0) << "only the lease is refused";
  EXPECT_EQ(last.lease, 0u);
}

TEST(Requests, FencedComesForOpsThatNeverWere) {
  World world;
  TestClient client(world);
  client.cancel(4711);
  EXPECT_TRUE(world.run_until([&] { return client.urgent->count(wire::FrameType::kFenced) == 1; }));
  const wire::Frame frame = client.urgent->find(wire::FrameType::kFenced)->frame();
  EXPECT_EQ(std::get<wire::FencedView>(frame.body).body.target_op, 4711u);
}

TEST(Requests, AReplayedRequestInFlightClosesTheSession) {
  World world;
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  world.homes[0]->hold = true;
  client.match(format, ids_of(2));
  --client.next_op;
  client.match(format, ids_of(2));
  world.run_for(100 * kMillisecond);
  world.homes[0]->release_held();
  EXPECT_TRUE(world.run_until([&] { return client.urgent->closed(); }, 5 * kSecond));
  EXPECT_TRUE(world.settle());
  EXPECT_EQ(world.metric("varve_session_malformed_total", "reason=\"state\""), 1);
}

TEST(Requests, ASessionThatEndsWaitsForEveryPartOfEveryKind) {
  for (const Part::Kind kind : {Part::Kind::kMatch, Part::Kind::kReserve, Part::Kind::kPull}) {
    World world(3);
    {
      TestClient client(world);
      const uint32_t format = client.register_format(small_format());
      world.homes[1]->hold = true;
      world.homes[1]->hold_kind = kind;
      client.match(format, ids_of(30), 1000);
      client.reserve(format, ids_of(30));
      client.pull(format, ids_of(30));
      EXPECT_TRUE(world.run_until([&] { return world.homes[1]->held_count() == 1; }));
    }
    world.run_for(5 * kSecond);
    EXPECT_FALSE(world.table->at_rest());
    EXPECT_EQ(world.homes[0]->gone, 0u);
    world.homes[1]->release_held();
    EXPECT_TRUE(world.settle());
    for (const auto& home : world.homes)
      EXPECT_EQ(home->gone, 1u);
  }
}

}  // namespace
}  // namespace varve::test
