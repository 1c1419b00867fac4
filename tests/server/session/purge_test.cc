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

constexpr char kToken[] = "token of team a";

SessionOptions two_domains() {
  SessionOptions options;
  EXPECT_TRUE(options.domains.add("team-a", {{{std::byte{1}}}, kToken}, 1).ok());
  return options;
}

struct Asked : NodePurge {
  explicit Asked(wire::PurgeKind kind, uint32_t of) {
    what = kind;
    domain = of;
    owner = this;
    on_done = [](NodePurge& asked) { static_cast<Asked*>(asked.owner)->done = true; };
  }
  bool done = false;
};

// Goal: whoever purges in one domain, as often as it likes, leaves the others and the operator
// their turn. Method: a home that ends none of them.
TEST(Purge, NoDomainTakesThePlacesOfAnother) {
  World world(1, two_domains());
  TestClient own(world), greedy(world, 2, 64 * kMiB, kToken);
  FakeHome& home = *world.homes[0];
  home.hold = true;
  home.hold_kind = Part::Kind::kPurge;
  std::vector<uint64_t> taken, mine;
  for (uint32_t i = 0; i < 2; ++i)
    taken.push_back(purge(greedy, wire::PurgeKind::kBlocks, ids_of(1, i)));
  const uint64_t third = purge(greedy, wire::PurgeKind::kBlocks, ids_of(1, 2));
  EXPECT_EQ(greedy.wait<wire::PurgedView>(third).body.code,
            static_cast<uint8_t>(Code::kOverloaded));
  for (uint32_t i = 0; i < 2; ++i)
    mine.push_back(purge(own, wire::PurgeKind::kBlocks, ids_of(1, 10 + i)));
  world.run_for(kMillisecond);
  EXPECT_EQ(home.held_count(), 3u) << "the last place is the operator's";
  Asked blocks(wire::PurgeKind::kBlocks, kDomainDefault);
  blocks.ids = ids_of(1, 20);
  world.table->purge(blocks);
  world.run_for(kMillisecond);
  EXPECT_EQ(home.held_count(), 4u);
  EXPECT_FALSE(blocks.done);
  home.release_held();
  for (const uint64_t op : mine)
    EXPECT_EQ(own.wait<wire::PurgedView>(op).body.code, 0);
  for (const uint64_t op : taken)
    EXPECT_EQ(greedy.wait<wire::PurgedView>(op).body.code, 0);
  EXPECT_TRUE(world.run_until([&] { return blocks.done; }));
  EXPECT_EQ(home.purged.size(), 5u);
}

// Goal: nobody keeps the lineage or the domain of another one from being purged, by purging its
// own without end.
TEST(Purge, OneOfAnotherDomainWaitsItsTurnAndIsNotRefused) {
  World world(2, two_domains());
  TestClient own(world), greedy(world, 2, 64 * kMiB, kToken);
  world.homes[1]->hold = true;
  world.homes[1]->hold_kind = Part::Kind::kPurge;
  const uint64_t first = purge(greedy, wire::PurgeKind::kDomain);
  world.run_for(kMillisecond);
  const uint64_t mine = purge(own, wire::PurgeKind::kDomain);
  world.run_for(kMillisecond);
  Asked drop(wire::PurgeKind::kDomain, 2);
  world.table->purge(drop);
  const uint64_t again = purge(greedy, wire::PurgeKind::kDomain);
  EXPECT_EQ(greedy.wait<wire::PurgedView>(again).body.code,
            static_cast<uint8_t>(Code::kOverloaded));
  world.run_for(kSecond);
  EXPECT_EQ(world.homes[0]->raises, 1u) << "the order of generations is that of their purges";
  world.homes[1]->release_held();
  EXPECT_EQ(greedy.wait<wire::PurgedView>(first).body.generation, 1u);
  EXPECT_EQ(own.wait<wire::PurgedView>(mine).body.generation, 2u);
  EXPECT_TRUE(world.run_until([&] { return drop.done; }));
  EXPECT_EQ(drop.answer.generation, 3u);
}

// A session that goes while its purge waits has it done all the same (I10).
TEST(Purge, OneThatWaitsOutlivesItsClient) {
  World world(1, two_domains());
  TestClient greedy(world, 2, 64 * kMiB, kToken);
  world.homes[0]->hold = true;
  world.homes[0]->hold_kind = Part::Kind::kPurge;
  purge(greedy, wire::PurgeKind::kDomain);
  {
    TestClient own(world);
    purge(own, wire::PurgeKind::kDomain);
    world.run_for(kMillisecond);
    own.urgent->close();
  }
  greedy.urgent->close();
  world.run_for(kSecond);
  EXPECT_FALSE(world.at_rest());
  world.homes[0]->release_held();
  EXPECT_TRUE(world.settle());
  EXPECT_EQ(world.homes[0]->walks, 2u);
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
