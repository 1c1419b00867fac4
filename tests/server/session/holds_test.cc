// HELD: every hold of every session once, by rising number, with owner, age, rest and size, however
// many frames that takes.
#include "server/session/holds.h"

#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

constexpr uint64_t kBlockBytes = 300 * 1024 + 100 + (80 + 70 + 65) * 1024;

struct Holding {
  explicit Holding(World& world, const std::string& token = "")
      : client(world, 1, 64 * kMiB, token), format(client.register_format(small_format())) {}
  wire::HeldView ask(uint64_t cursor) {
    const uint64_t op = client.next_op++;
    client.urgent->send(client.encoder().holds(op, wire::Holds{cursor}));
    return client.wait<wire::HeldView>(op);
  }
  std::vector<wire::Hold> all(uint32_t* frames = nullptr) {
    std::vector<wire::Hold> rows;
    uint64_t cursor = 0;
    do {
      const wire::HeldView view = ask(cursor);
      EXPECT_EQ(view.body.code, 0);
      for (uint32_t i = 0; i < view.holds.size(); ++i)
        rows.push_back(view.holds[i]);
      if (frames != nullptr) ++*frames;
      cursor = view.body.cursor;
    } while (cursor != 0 && rows.size() < 10000);
    return rows;
  }
  TestClient client;
  uint32_t format;
};

TEST(Holds, NothingHeldIsAnEmptyAnswer) {
  World world;
  Holding a(world);
  EXPECT_TRUE(a.all().empty());
  EXPECT_EQ(a.ask(~uint64_t{0}).body.cursor, 0u);
}

TEST(Holds, EachKindHasItsOwnerItsTimesAndItsSize) {
  World world;
  Holding a(world), b(world);
  const auto ids = ids_of(3);
  for (const BaseId& id : ids)
    world.homes[0]->known[id] = wire::TierKind::kDram;
  a.client.wait<wire::MatchedView>(a.client.match(a.format, ids, 10000));
  world.run_for(kSecond);
  const auto fresh = ids_of(2, 100);
  a.client.wait<wire::ReservedView>(a.client.reserve(a.format, fresh, 5000));
  world.homes[0]->hold = true;
  world.homes[0]->hold_kind = Part::Kind::kPull;
  const uint64_t pull = b.client.pull(b.format, ids, 0, 3 * kSecond);
  world.run_for(kSecond);
  const auto rows = b.all();  // another session's holds are seen, too, in its domain
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].kind, wire::HoldKind::kLease);
  EXPECT_EQ(rows[0].session, a.client.welcome.session);
  EXPECT_EQ(rows[0].count, 3u);
  EXPECT_EQ(rows[0].bytes, 3 * kBlockBytes);
  EXPECT_GE(rows[0].age_ns, 2 * kSecond);
  EXPECT_LT(rows[0].age_ns, 3 * kSecond);
  EXPECT_LE(rows[0].left_ns, 8 * kSecond);
  EXPECT_GT(rows[0].left_ns, 7 * kSecond);
  EXPECT_STREQ(rows[0].name, "test");
  for (const uint32_t i : {1u, 2u}) {
    EXPECT_EQ(rows[i].kind, wire::HoldKind::kReservation);
    EXPECT_EQ(rows[i].session, a.client.welcome.session);
    EXPECT_EQ(rows[i].count, 1u);
    EXPECT_EQ(rows[i].bytes, kBlockBytes);
    EXPECT_LE(rows[i].left_ns, 4 * kSecond);
    EXPECT_GT(rows[i].left_ns, 3 * kSecond);
  }
  EXPECT_EQ(rows[3].kind, wire::HoldKind::kPull);
  EXPECT_EQ(rows[3].session, b.client.welcome.session);
  EXPECT_EQ(rows[3].bytes, 3 * kBlockBytes);
  EXPECT_GE(rows[3].age_ns, kSecond - kMillisecond);
  EXPECT_EQ(rows[3].age_ns + rows[3].left_ns, 3 * kSecond);
  world.homes[0]->release_held();
  b.client.wait<wire::PulledView>(pull);
  EXPECT_EQ(b.all().size(), 3u);
  EXPECT_GE(world.metric("varve_session_requests_total", "kind=\"holds\""), 2);
}

// Goal: a client sees nothing of what another domain holds, not even that there is something; the
// operator sees all, and whose it is.
TEST(Holds, ADomainSeesItsOwnOnly) {
  SessionOptions options;
  ASSERT_TRUE(options.domains.add("team-a", {{{std::byte{1}}}, "token of team a"}, 1).ok());
  World world(1, options);
  Holding own(world), other(world, "token of team a");
  own.client.wait<wire::ReservedView>(own.client.reserve(own.format, ids_of(3), 5000));
  EXPECT_TRUE(other.all().empty());
  EXPECT_EQ(other.ask(0).body.cursor, 0u);
  other.client.wait<wire::ReservedView>(other.client.reserve(other.format, ids_of(2, 50), 5000));
  EXPECT_EQ(own.all().size(), 3u);
  const auto seen = other.all();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].session, other.client.welcome.session);
  std::vector<SessionHold> rows;
  EXPECT_EQ(world.table->list_holds(0, 256, &rows), 0u);
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[2].domain, kDomainDefault);
  EXPECT_EQ(rows[3].domain, 2u);
}

// Goal: a long list comes in frames, in order, each hold once, also when some end in between.
TEST(Holds, TheCursorGoesThroughAllOfThem) {
  SessionOptions options;
  options.leases_max = 1000;
  World world(1, options);
  Holding a(world);
  const auto ids = ids_of(1);
  world.homes[0]->known[ids[0]] = wire::TierKind::kDram;
  std::vector<uint64_t> leases;
  for (uint32_t i = 0; i < 600; ++i) {
    const auto matched = a.client.wait<wire::MatchedView>(a.client.match(a.format, ids, 60000));
    leases.push_back(matched.body.lease);
    a.client.urgent->got.clear();
  }
  uint32_t frames = 0;
  const auto rows = a.all(&frames);
  EXPECT_EQ(frames, 3u);
  ASSERT_EQ(rows.size(), 600u);
  for (uint32_t i = 1; i < 600; ++i)
    EXPECT_LT(rows[i - 1].hold, rows[i].hold);
  const wire::HeldView first = a.ask(0);
  ASSERT_EQ(first.holds.size(), kHoldRowsMax);
  const uint64_t cursor = first.body.cursor;
  for (const uint32_t i : {0u, 255u, 256u, 300u}) {
    const uint64_t op = a.client.next_op++;
    a.client.urgent->send(a.client.encoder().release(op, wire::Release{leases[i]}));
    a.client.wait<wire::ReleasedView>(op);
  }
  const wire::HeldView second = a.ask(cursor);
  ASSERT_EQ(second.holds.size(), kHoldRowsMax);
  EXPECT_EQ(second.holds[0].hold, rows[257].hold);
}

}  // namespace
}  // namespace varve::test
