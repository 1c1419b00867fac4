// Goal: the operator sees every hold and session once, in pages, ends those he names, and purges as
// a session does, with an answer of his own. Method: the session world with clients of all kinds.
#include "server/session/operator.h"

#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

struct Asked : NodePurge {
  explicit Asked(wire::PurgeKind kind) {
    what = kind;
    owner = this;
    on_done = [](NodePurge& done) { ++static_cast<Asked*>(done.owner)->answers; };
  }
  Code code() const { return static_cast<Code>(answer.code); }
  uint32_t answers = 0;
};

TEST(Operator, PurgesBlocksOfAllHomes) {
  World world(3);
  Asked purge(wire::PurgeKind::kBlocks);
  purge.ids = ids_of(40);
  for (const BaseId& id : purge.ids)
    world.home_of(id).known[id] = wire::TierKind::kFlash;
  world.table->purge(purge);
  EXPECT_FALSE(world.table->at_rest()) << "a stop waits for it";
  ASSERT_TRUE(world.run_until([&] { return purge.answers > 0; }));
  EXPECT_EQ(purge.code(), Code::kOk);
  EXPECT_EQ(purge.answer.blocks, 40u);
  EXPECT_EQ(world.metric("varve_session_requests_total", "kind=\"purge\""), 1);
  EXPECT_TRUE(world.settle());
}

TEST(Operator, OneLineageIsPurgedAtATimeWhoeverAsks) {
  World world(2);
  TestClient client(world);
  world.homes[0]->hold = true;
  world.homes[0]->hold_kind = Part::Kind::kPurge;
  Asked first(wire::PurgeKind::kLineage), second(wire::PurgeKind::kDomain);
  first.lineage = 7;
  world.table->purge(first);
  world.table->purge(second);
  EXPECT_EQ(second.answers, 1u);
  EXPECT_EQ(second.code(), Code::kOverloaded);
  wire::Purge body;
  body.kind = wire::PurgeKind::kDomain;
  const uint64_t op = client.next_op++;
  client.urgent->send(client.encoder().purge(op, body, {}));
  world.run_for(kMillisecond);
  EXPECT_EQ(world.homes[0]->held_count(), 1u) << "the client's waits for that of the operator";
  world.homes[0]->hold = false;
  world.homes[0]->release_held();
  EXPECT_EQ(client.wait<wire::PurgedView>(op).body.generation, 2u);
  ASSERT_EQ(first.answers, 1u);
  EXPECT_EQ(first.code(), Code::kOk);
  EXPECT_EQ(first.answer.generation, 1u);
  EXPECT_EQ(world.homes[1]->walks, 2u);
  client.urgent->close();
  EXPECT_TRUE(world.settle());
}

TEST(Operator, IsToldOnceThatAPurgeLasts) {
  SessionOptions options;
  options.purge_ms_max = 1000;
  World world(1, options);
  world.homes[0]->hold = true;
  world.homes[0]->hold_kind = Part::Kind::kPurge;
  Asked purge(wire::PurgeKind::kDomain);
  world.table->purge(purge);
  ASSERT_TRUE(world.run_until([&] { return purge.answers > 0; }, 5 * kSecond));
  EXPECT_EQ(purge.code(), Code::kTimedOut);
  EXPECT_FALSE(world.table->at_rest());
  world.homes[0]->hold = false;
  world.homes[0]->release_held();
  EXPECT_TRUE(world.settle());
  EXPECT_EQ(purge.answers, 1u);
}

TEST(Operator, PurgesNothingInADrain) {
  World world(1);
  world.table->drain();
  Asked purge(wire::PurgeKind::kDomain);
  world.table->purge(purge);
  EXPECT_EQ(purge.answers, 1u);
  EXPECT_EQ(purge.code(), Code::kUnavailable);
  EXPECT_EQ(world.homes[0]->raises, 0u);
}

TEST(Operator, SeesSessionsInPagesByTheirNumbers) {
  World world(1);
  TestClient a(world), b(world), c(world);
  (void)b.register_format(small_format());
  world.run_for(kSecond);
  world.reactor.turn();  // its time is that of its last turn
  std::vector<SessionRow> rows;
  const uint64_t next = world.table->list_sessions(0, 2, &rows);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].id, a.welcome.session);
  EXPECT_EQ(rows[1].id, b.welcome.session);
  EXPECT_EQ(rows[1].formats, 1u);
  EXPECT_EQ(rows[0].formats, 0u);
  EXPECT_EQ(rows[0].lanes, 2u);
  EXPECT_GE(rows[0].age_ns, kSecond);
  EXPECT_LE(rows[0].quiet_ns, rows[0].age_ns);
  // Expect: the page behind is good though the first session went meanwhile.
  EXPECT_TRUE(world.table->close_session(a.welcome.session, Status::cancelled("by the operator")));
  EXPECT_TRUE(world.run_until([&] { return a.urgent->closed(); }));
  EXPECT_EQ(world.table->list_sessions(next, 2, &rows), 0u);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].id, c.welcome.session);
  EXPECT_TRUE(world.run_until([&] { return world.table->session_count() == 2; }));
  EXPECT_FALSE(world.table->close_session(a.welcome.session, Status::cancelled("again")));
  EXPECT_EQ(world.table->list_sessions(~uint64_t{0}, 2, &rows), 0u);
  EXPECT_TRUE(rows.empty());
}

TEST(Operator, SeesHoldsInPages) {
  World world(1);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  const auto ids = ids_of(5);
  client.wait<wire::ReservedView>(client.reserve(format, ids, 5000));
  std::vector<SessionHold> rows;
  std::vector<uint64_t> seen;
  uint64_t cursor = 0;
  do {
    cursor = world.table->list_holds(cursor, 2, &rows);
    EXPECT_LE(rows.size(), 2u);
    for (const SessionHold& row : rows) {
      seen.push_back(row.hold.hold);
      EXPECT_EQ(row.domain, kDomainDefault);
    }
  } while (cursor != 0);
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

// Each format is given out once, also when its sessions went and came, unless it was known.
TEST(Operator, TakesFormatsThatAreNew) {
  World world(1);
  world.table->format_known(two_rank_format().fingerprint());
  std::vector<std::vector<std::byte>> taken;
  for (uint32_t life = 0; life < 2; ++life) {
    TestClient client(world);
    (void)client.register_format(small_format());
    (void)client.register_format(two_rank_format());
    std::vector<std::vector<std::byte>> now;
    world.table->take_formats(&now);
    for (auto& format : now)
      taken.push_back(std::move(format));
    client.urgent->close();
    EXPECT_TRUE(world.run_until([&] { return world.table->session_count() == 0; }, 5 * kSecond));
  }
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0], small_format().encode());
}

TEST(Operator, SaysWhyAFormatCouldNotBe) {
  SessionOptions options;
  options.fragment_pages_max = 10;
  World world(1, options);
  EXPECT_NE(world.table->format_problem(small_format()).find("--target-bytes"), std::string::npos);
  Format tiny = small_format();
  tiny.ranks = {{{LayerKind::kFull, 100}}};
  EXPECT_EQ(world.table->format_problem(tiny), "");
  tiny.ranks.clear();
  EXPECT_NE(world.table->format_problem(tiny), "");
}

}  // namespace
}  // namespace varve::test
