// Goal: what a session asks of a home is of its domain, in every kind of part; and what a session
// of another domain is writing is as if it were not there, for reservations and for follows.
// Method: clients with the tokens of two domains who name the same ids, on homes that keep what
// they have by domain.
#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

constexpr char kToken[] = "token of team a";
constexpr uint32_t kDomain = 2;  // the first that is made

SessionOptions two_domains() {
  SessionOptions options;
  EXPECT_TRUE(options.domains.add("team-a", {{{std::byte{1}}}, kToken}, 1).ok());
  return options;
}

struct Asking {
  explicit Asking(World& world, const std::string& token = "")
      : client(world, 2, 64 * kMiB, token), format(client.register_format(small_format())) {}
  wire::ReservedView reserve(const std::vector<BaseId>& ids) {
    reserve_op = client.reserve(format, ids);
    return client.wait<wire::ReservedView>(reserve_op);
  }
  TestClient client;
  uint32_t format;
  uint64_t reserve_op = 0;
};

TEST(Domain, EveryKindOfPartSaysIt) {
  World world(1, two_domains());
  FakeHome& home = *world.homes[0];
  const std::vector<BaseId> ids = ids_of(3);
  {
    Asking own(world, kToken);
    TestClient& client = own.client;
    const wire::ReservedView granted = own.reserve(ids);
    ASSERT_EQ(granted.answers.size(), 3u);
    const BlockId block{ids[0], 0};
    client.send_extents(own.reserve_op, 0, block, granted.answers[0].attempt, {});
    const uint64_t commit = client.commit(own.reserve_op, 0, block, granted.answers[0].attempt);
    EXPECT_EQ(client.wait<wire::CommittedView>(commit).body.code, 0);
    const uint64_t abort = client.abort(own.reserve_op, 1, granted.answers[1].attempt);
    EXPECT_EQ(client.wait<wire::AbortedView>(abort).body.code, 0);
    home.known[ids[0]] = wire::TierKind::kFlash;
    const auto matched = client.wait<wire::MatchedView>(client.match(own.format, {ids[0]}, 5000));
    ASSERT_NE(matched.body.lease, 0u);
    client.urgent->send(client.encoder().renew(client.next_op, {matched.body.lease, 1000}));
    EXPECT_EQ(client.wait<wire::RenewedView>(client.next_op++).body.code, 0);
    home.send_slowly = true;
    const uint64_t pull = client.pull(own.format, {ids[0]}, matched.body.lease);
    EXPECT_TRUE(world.run_until([&] { return home.pulls == 1; }));
    client.cancel_extent(pull, 0, 3);
    EXPECT_TRUE(world.run_until([&] { return home.fences == 1; }));
    home.send_slowly = false;
    for (uint32_t i = 0; i < 4; ++i)
      home.release_sends();
    client.wait<wire::PulledView>(pull);
    client.urgent->send(client.encoder().release(client.next_op, {matched.body.lease}));
    EXPECT_EQ(client.wait<wire::ReleasedView>(client.next_op++).body.code, 0);
    client.urgent->send(client.encoder().purge(client.next_op, {}, ids));
    EXPECT_EQ(client.wait<wire::PurgedView>(client.next_op++).body.code, 0);
  }
  EXPECT_TRUE(world.settle());
  std::set<Part::Kind> kinds;
  for (const auto& [kind, domain] : home.part_domains) {
    EXPECT_EQ(domain, kDomain) << static_cast<uint32_t>(kind);
    kinds.insert(kind);
  }
  EXPECT_EQ(kinds.size(), static_cast<size_t>(Part::Kind::kGone) + 1) << "every kind was asked";
}

TEST(Domain, AnIdThatAnotherDomainWritesIsNotBusy) {
  World world(1, two_domains());
  Asking own(world), other(world, kToken);
  const auto ids = ids_of(2);
  own.reserve(ids);
  const wire::ReservedView view = other.reserve(ids);
  ASSERT_EQ(view.answers.size(), 2u);
  for (uint32_t i = 0; i < 2; ++i)
    EXPECT_EQ(view.answers[i].outcome, wire::ReserveOutcome::kGranted);
}

// Goal: a tag that came from another domain tells nothing and gives nothing, while its push is
// under way, when it ends, and when it was given up.
TEST(Domain, APushOfAnotherDomainCannotBeFollowed) {
  World world(1, two_domains());
  Asking own(world), other(world, kToken);
  const auto ids = ids_of(2);
  const wire::ReservedView granted = own.reserve(ids);
  std::vector<Attempt> attempts;
  for (uint32_t i = 0; i < 2; ++i)
    attempts.push_back(granted.answers[i].attempt);
  const BlockId block{ids[0], 0};
  own.client.send_extents(own.reserve_op, 0, block, attempts[0], {});
  for (int when = 0; when < 2; ++when) {
    const uint64_t follow = other.client.follow(other.format, ids, attempts);
    const auto view = other.client.wait<wire::PulledView>(follow);
    ASSERT_EQ(view.codes.size(), 2u);
    for (uint32_t i = 0; i < 2; ++i)
      EXPECT_EQ(static_cast<Code>(view.codes[i]), Code::kUnavailable) << when;
    if (when > 0) break;
    const uint64_t commit = own.client.commit(own.reserve_op, 0, block, attempts[0]);
    EXPECT_EQ(own.client.wait<wire::CommittedView>(commit).body.code, 0);
    const uint64_t abort = own.client.abort(own.reserve_op, 1, attempts[1]);
    EXPECT_EQ(own.client.wait<wire::AbortedView>(abort).body.code, 0);
  }
  EXPECT_TRUE(other.client.bulk[0]->got.empty());
  EXPECT_TRUE(other.client.bulk[1]->got.empty());
}

// Goal: who takes all that it can get of every limit of all clients keeps nobody else from working.
TEST(Domain, OneThatTakesAllItCanLeavesTheOthersTheirPart) {
  SessionOptions options = two_domains();
  options.sessions_max = 4;
  options.matches_sum_max = options.reserves_sum_max = options.pulls_sum_max = 4;
  options.grants_sum_max = options.leases_sum_max = 8;
  World world(1, options);
  FakeHome& home = *world.homes[0];
  const std::vector<BaseId> ids = ids_of(20);
  for (const BaseId& id : ids)
    home.known[id] = wire::TierKind::kFlash;
  const auto code_of = [](uint8_t code) { return static_cast<Code>(code); };

  std::vector<std::unique_ptr<Asking>> greedy;
  for (int i = 0; i < 3; ++i)
    greedy.push_back(std::make_unique<Asking>(world, kToken));
  {
    ClientLane fourth(world, world.connect());
    std::vector<std::byte> buffer(kHeadBytesMax);
    const std::string_view token(kToken);
    fourth.send(wire::Encoder(buffer).hello(1, TestClient::hello(), std::as_bytes(std::span(token)),
                                            "greedy"));
    EXPECT_TRUE(world.run_until([&] { return fourth.closed(); }, 5 * kSecond));
    const Got* refused = fourth.find(wire::FrameType::kRefused);
    ASSERT_NE(refused, nullptr) << "the last one is not its";
    const wire::Frame frame = refused->frame();
    EXPECT_EQ(code_of(std::get<wire::RefusedView>(frame.body).body.code), Code::kOverloaded);
  }
  uint32_t leases = 0, granted = 0;
  for (uint32_t i = 0; i < 8; ++i) {
    TestClient& client = greedy[i % 3]->client;
    const uint64_t match = client.match(greedy[i % 3]->format, {ids[i]}, 60000);
    leases += client.wait<wire::MatchedView>(match).body.lease != 0;
    const wire::ReservedView view = greedy[i % 3]->reserve({id_of(100 + i)});
    ASSERT_EQ(view.answers.size(), 1u);
    granted += view.answers[0].outcome == wire::ReserveOutcome::kGranted;
  }
  EXPECT_EQ(leases, 6u);
  EXPECT_EQ(granted, 6u);
  home.send_slowly = true;
  for (uint32_t i = 0; i < 4; ++i)
    greedy[i % 3]->client.pull(greedy[i % 3]->format, {ids[i]}, 0);
  EXPECT_TRUE(world.run_until([&] { return home.pulls == 3; }));

  home.send_slowly = false;
  Asking own(world);
  const uint64_t match = own.client.match(own.format, {ids[9]}, 60000);
  const wire::MatchedView matched = own.client.wait<wire::MatchedView>(match);
  EXPECT_EQ(code_of(matched.body.code), Code::kOk);
  EXPECT_NE(matched.body.lease, 0u);
  EXPECT_EQ(own.reserve({id_of(200)}).answers[0].outcome, wire::ReserveOutcome::kGranted);
  const uint64_t pull = own.client.pull(own.format, {ids[9]}, matched.body.lease);
  EXPECT_EQ(code_of(own.client.wait<wire::PulledView>(pull).body.code), Code::kOk);
}

// The operator says of which domain, whatever his own scope is.
TEST(Domain, APurgeOfTheOperatorIsOfTheDomainThatHeNames) {
  World world(2);
  NodePurge purge;
  purge.domain = 7;
  purge.what = wire::PurgeKind::kDomain;
  static bool done;
  done = false;
  purge.on_done = [](NodePurge&) { done = true; };
  world.table->purge(purge);
  EXPECT_TRUE(world.run_until([&] { return done; }));
  for (const auto& home : world.homes) {
    for (const auto& [kind, domain] : home->part_domains)
      EXPECT_EQ(domain, 7u);
  }
}

}  // namespace
}  // namespace varve::test
