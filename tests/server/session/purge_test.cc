// PURGE: split over homes, merged, one of a lineage at a time, carried on without its client.
#include "server/session/purge.h"

#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

uint64_t purge(TestClient& client, wire::PurgeKind kind, const std::vector<BaseId>& ids = {},
               uint32_t format = 0) {
  const uint64_t op = client.next_op++;
  wire::Purge body;
  body.kind = kind;
  body.format = format;
  client.urgent->send(client.encoder().purge(op, body, ids));
  return op;
}

void know(World& world, const std::vector<BaseId>& ids) {
  for (const BaseId& id : ids)
    world.home_of(id).known[id] = wire::TierKind::kFlash;
}

TEST(Purge, BlocksOfAllHomesAreSummedUp) {
  World world(3);
  TestClient client(world);
  const auto ids = ids_of(40);
  know(world, ids);
  auto asked = ids;
  asked.push_back(id_of(1000));  // unknown: purged all the same
  const auto body =
      client.wait<wire::PurgedView>(purge(client, wire::PurgeKind::kBlocks, asked)).body;
  EXPECT_EQ(body.code, 0);
  EXPECT_EQ(body.blocks, 40u);
  EXPECT_EQ(body.bytes, 40000u);
  EXPECT_EQ(body.generation, 0u);
  EXPECT_EQ(body.erased_ns, kSecond + 2);  // the latest
  size_t purged = 0;
  for (const auto& home : world.homes)
    purged += home->purged.size();
  EXPECT_EQ(purged, 41u);
  EXPECT_EQ(world.metric("varve_session_requests_total", "kind=\"purge\""), 1);
  EXPECT_EQ(world.metric("varve_session_purged_blocks_total"), 40);
}

TEST(Purge, AHomeThatCannotSaysWhy) {
  World world(3);
  TestClient client(world);
  const auto ids = ids_of(40);
  world.home_of(ids[7]).fail_next = Status::unavailable("no target works");
  const auto body =
      client.wait<wire::PurgedView>(purge(client, wire::PurgeKind::kBlocks, ids)).body;
  EXPECT_EQ(body.code, static_cast<uint8_t>(Code::kUnavailable));
}

TEST(Purge, ALineageIsRaisedByOneHomeAndWalkedByAll) {
  World world(3);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  know(world, ids_of(30));
  const auto body =
      client.wait<wire::PurgedView>(purge(client, wire::PurgeKind::kLineage, {}, format)).body;
  EXPECT_EQ(body.code, 0);
  EXPECT_EQ(body.generation, 1u);
  EXPECT_EQ(body.blocks, 30u);
  EXPECT_EQ(world.homes[0]->raises, 1u);
  for (const auto& home : world.homes) {
    EXPECT_EQ(home->walks, 1u);
    ASSERT_EQ(home->rows.size(), 1u);
    EXPECT_NE(home->rows[0].lineage, 0u);
  }
  const auto domain = client.wait<wire::PurgedView>(purge(client, wire::PurgeKind::kDomain)).body;
  EXPECT_EQ(domain.generation, 2u);
  EXPECT_EQ(world.homes[1]->rows[0].lineage, 0u);
}

TEST(Purge, ARaiseThatFailedWalksNowhere) {
  World world(2);
  TestClient client(world);
  world.homes[0]->fail_next = Status::no_space("all 64 generations are in use");
  const auto body = client.wait<wire::PurgedView>(purge(client, wire::PurgeKind::kDomain)).body;
  EXPECT_EQ(body.code, static_cast<uint8_t>(Code::kNoSpace));
  EXPECT_EQ(world.homes[0]->walks + world.homes[1]->walks, 0u);
  EXPECT_EQ(client.wait<wire::PurgedView>(purge(client, wire::PurgeKind::kDomain)).body.code, 0);
}

TEST(Purge, AnUnknownFormatIsRefused) {
  World world;
  TestClient client(world);
  const auto body =
      client.wait<wire::PurgedView>(purge(client, wire::PurgeKind::kLineage, {}, 9)).body;
  EXPECT_EQ(body.code, static_cast<uint8_t>(Code::kInvalid));
  EXPECT_EQ(world.homes[0]->raises, 0u);
}

TEST(Purge, OneLineageAtATimeOnANode) {
  World world(2);
  TestClient a(world), b(world);
  world.homes[1]->hold = true;
  world.homes[1]->hold_kind = Part::Kind::kPurge;
  const uint64_t first = purge(a, wire::PurgeKind::kDomain);
  world.run_for(kMillisecond);
  const auto refused = b.wait<wire::PurgedView>(purge(b, wire::PurgeKind::kDomain)).body;
  EXPECT_EQ(refused.code, static_cast<uint8_t>(Code::kOverloaded));
  world.homes[1]->release_held();
  EXPECT_EQ(a.wait<wire::PurgedView>(first).body.code, 0);
  EXPECT_EQ(b.wait<wire::PurgedView>(purge(b, wire::PurgeKind::kDomain)).body.code, 0);
}

TEST(Purge, MoreThanFewAreOverloaded) {
  World world;
  TestClient client(world);
  world.homes[0]->hold = true;
  world.homes[0]->hold_kind = Part::Kind::kPurge;
  std::vector<uint64_t> ops;
  for (uint32_t i = 0; i < 4; ++i)
    ops.push_back(purge(client, wire::PurgeKind::kBlocks, ids_of(1, i)));
  const auto refused =
      client.wait<wire::PurgedView>(purge(client, wire::PurgeKind::kBlocks, ids_of(1, 9))).body;
  EXPECT_EQ(refused.code, static_cast<uint8_t>(Code::kOverloaded));
  world.homes[0]->release_held();
  for (const uint64_t op : ops)
    EXPECT_EQ(client.wait<wire::PurgedView>(op).body.code, 0);
}

TEST(Purge, OneThatLastsTooLongIsSaidToAndGoesOn) {
  SessionOptions options;
  options.purge_ms_max = 100;
  World world(2, options);
  TestClient client(world);
  world.homes[1]->hold = true;
  world.homes[1]->hold_kind = Part::Kind::kPurge;
  const uint64_t op = purge(client, wire::PurgeKind::kDomain);
  EXPECT_EQ(client.wait<wire::PurgedView>(op).body.code, static_cast<uint8_t>(Code::kTimedOut));
  world.homes[1]->release_held();
  world.run_for(kSecond);
  EXPECT_EQ(world.homes[1]->walks, 1u);
  EXPECT_EQ(client.wait<wire::PurgedView>(purge(client, wire::PurgeKind::kDomain)).body.code, 0);
}

// Goal: what was begun is carried to its end, and the session waits for it (N3).
TEST(Purge, AClientThatGoesStopsNothing) {
  World world(2);
  TestClient client(world);
  world.homes[0]->hold = true;
  world.homes[0]->hold_kind = Part::Kind::kPurge;
  purge(client, wire::PurgeKind::kDomain);
  world.run_for(kMillisecond);
  client.urgent->close();
  world.run_for(kSecond);
  EXPECT_FALSE(world.at_rest());
  world.homes[0]->release_held();
  EXPECT_TRUE(world.settle());
  EXPECT_EQ(world.homes[0]->walks + world.homes[1]->walks, 2u);
}

}  // namespace
}  // namespace varve::test
