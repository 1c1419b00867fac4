// The door: who gets a session, which lanes join it, and that every refusal is typed and leaves
// nothing.
#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

// Sends one HELLO on a fresh lane and answers the lane.
std::unique_ptr<ClientLane> knock(World& world, wire::Hello body, const std::string& token = "") {
  std::vector<std::byte> buffer(kHeadBytesMax);
  auto lane = std::make_unique<ClientLane>(world, world.connect());
  lane->send(wire::Encoder(buffer).hello(
      1, body, std::as_bytes(std::span(token.data(), token.size())), "knock"));
  world.run_until([&] { return !lane->got.empty() || lane->closed(); });
  return lane;
}

Code refusal(World& world, ClientLane& lane) {
  EXPECT_TRUE(world.run_until([&] { return lane.closed(); }, 5 * kSecond));
  const Got* got = lane.find(wire::FrameType::kRefused);
  if (got == nullptr) return Code::kOk;
  const wire::Frame frame = got->frame();
  const auto& view = std::get<wire::RefusedView>(frame.body);
  EXPECT_FALSE(view.text.empty());
  return static_cast<Code>(view.body.code);
}

TEST(SessionTable, HelloIsAnsweredWithWhatTheServerIs) {
  SessionOptions options;
  options.boot_id = 1234;
  options.epoch = 5;
  Digest salt;
  salt.bytes[3] = std::byte{9};
  options.domains = Domains(salt, {});
  World world(1, options);
  TestClient client(world, 4);
  EXPECT_EQ(client.welcome.boot_id, 1234u);
  EXPECT_EQ(client.welcome.epoch, 5u);
  EXPECT_EQ(client.welcome.slices, kSlicesDefault);
  EXPECT_EQ(client.welcome.domain_salt, salt);
  EXPECT_NE(client.welcome.session, 0u);
  EXPECT_EQ(client.welcome.session & 0xff, 0u);  // the session shard
  EXPECT_NE(client.welcome.session_secret, 0u);
  EXPECT_EQ(world.table->session_count(), 1u);
  EXPECT_EQ(world.metric("varve_session_lanes"), 5);
}

TEST(SessionTable, AWrongTokenIsRefusedAndTypedAndCounted) {
  SessionOptions options;
  const std::string token = "a long enough token";
  options.domains = Domains({}, token);
  World world(1, options);
  const auto none = knock(world, TestClient::hello());
  EXPECT_EQ(refusal(world, *none), Code::kUnauthorized);
  const auto wrong = knock(world, TestClient::hello(), "a long enough tokem");
  EXPECT_EQ(refusal(world, *wrong), Code::kUnauthorized);
  EXPECT_EQ(world.metric("varve_session_hellos_refused_total", "code=\"unauthorized\""), 2);
  const auto right = knock(world, TestClient::hello(), token);
  EXPECT_NE(right->find(wire::FrameType::kHelloOk), nullptr);
  EXPECT_EQ(world.table->session_count(), 1u);
  right->close();
  world.run_for(kSecond);
  EXPECT_TRUE(world.table->at_rest());
}

// Three domains: the default one with a token, and two more.
struct ThreeDomains {
  ThreeDomains() : table(salt(1), "a long enough token") {
    EXPECT_TRUE(table.add("team-a", {salt(2), "token of team a"}, 1).ok());
    EXPECT_TRUE(table.add("team-b", {salt(3), "token of team b"}, 1).ok());
    options.domains = table;
  }
  static Digest salt(uint8_t first) {
    Digest digest;
    digest.bytes[0] = std::byte{first};
    return digest;
  }
  Domains table;
  SessionOptions options;
};

TEST(SessionTable, TheTokenSaysTheDomainAndItsSaltComesWithIt) {
  ThreeDomains domains;
  World world(1, domains.options);
  TestClient own(world, 1, 64 * kMiB, "a long enough token");
  TestClient a(world, 1, 64 * kMiB, "token of team a"), b(world, 1, 64 * kMiB, "token of team b");
  const TestClient* clients[] = {&own, &a, &b};
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(clients[i]->welcome.domain, i + 1);
    EXPECT_EQ(clients[i]->welcome.domain_salt, ThreeDomains::salt(static_cast<uint8_t>(i + 1)));
  }
  const auto nobody = knock(world, TestClient::hello(), "token of team c");
  EXPECT_EQ(refusal(world, *nobody), Code::kUnauthorized);
  const auto none = knock(world, TestClient::hello());
  EXPECT_EQ(refusal(world, *none), Code::kUnauthorized);
  EXPECT_EQ(world.metric("varve_domain_sessions", "domain=\"team-a\""), 1);
  EXPECT_EQ(world.metric("varve_domain_sessions", "domain=\"default\""), 1);
}

// A token of a domain that is gone must not open the default one, though that needs none.
TEST(SessionTable, ATokenThatIsNobodysIsRefusedAlsoWhereNoneIsNeeded) {
  World world;
  const auto lane = knock(world, TestClient::hello(), "of a domain that was dropped");
  EXPECT_EQ(refusal(world, *lane), Code::kUnauthorized);
  TestClient client(world);
  EXPECT_EQ(client.welcome.domain, kDomainDefault);
}

// Who knows number and secret of a session of another domain does not come into it.
TEST(SessionTable, ABulkLaneComesFromTheDomainOfItsSession) {
  ThreeDomains domains;
  World world(1, domains.options);
  TestClient a(world, 1, 64 * kMiB, "token of team a");
  wire::Hello body;
  body.lane = wire::LaneKind::kBulk;
  body.lane_index = 1;
  body.session = a.welcome.session;
  body.session_secret = a.welcome.session_secret;
  for (const std::string token : {"token of team b", "a long enough token"}) {
    const auto other = knock(world, body, token);
    EXPECT_EQ(refusal(world, *other), Code::kUnauthorized);
  }
  const auto own = knock(world, body, "token of team a");
  EXPECT_NE(own->find(wire::FrameType::kHelloOk), nullptr);
  own->close();
  EXPECT_TRUE(world.run_until([&] { return a.urgent->closed(); }));
}

TEST(SessionTable, ARotatedTokenIsRefusedAndWhoIsThereStays) {
  ThreeDomains domains;
  World world(1, domains.options);
  TestClient a(world, 1, 64 * kMiB, "token of team a");
  ASSERT_TRUE(domains.table.rotate("team-a", "a newer token").ok());
  world.table->domains_set(domains.table);
  const auto old = knock(world, TestClient::hello(), "token of team a");
  EXPECT_EQ(refusal(world, *old), Code::kUnauthorized);
  TestClient newer(world, 1, 64 * kMiB, "a newer token");
  EXPECT_EQ(newer.welcome.domain, a.welcome.domain);
  EXPECT_EQ(newer.welcome.domain_salt, a.welcome.domain_salt);
  a.register_format(small_format());
}

TEST(SessionTable, ADroppedDomainEndsWithItsSessionsAndNobodyElses) {
  ThreeDomains domains;
  World world(1, domains.options);
  TestClient a(world, 1, 64 * kMiB, "token of team a"), b(world, 1, 64 * kMiB, "token of team b");
  ASSERT_TRUE(domains.table.drop("team-a").ok());
  world.table->domains_set(domains.table);
  EXPECT_EQ(refusal(world, *a.urgent), Code::kUnauthorized);
  const auto again = knock(world, TestClient::hello(), "token of team a");
  EXPECT_EQ(refusal(world, *again), Code::kUnauthorized);
  b.register_format(small_format());
  EXPECT_EQ(world.table->session_count(), 1u);
  EXPECT_EQ(world.metric("varve_domain_sessions", "domain=\"team-a\""), 0);
  // Expect: what has its name later goes on with its numbers, and is another domain.
  ASSERT_TRUE(domains.table.add("team-a", {ThreeDomains::salt(9), "token of a new team"}, 1).ok());
  world.table->domains_set(domains.table);
  TestClient later(world, 1, 64 * kMiB, "token of a new team");
  EXPECT_EQ(later.welcome.domain, 4u);
  EXPECT_EQ(world.metric("varve_domain_sessions", "domain=\"team-a\""), 1);
}

TEST(SessionTable, StrangersFromElsewhereGetNotAByteWithoutAToken) {
  SimFabricOptions fabric;
  fabric.peers_are_loopback = false;
  World world(1, {}, fabric);
  const auto lane = knock(world, TestClient::hello());
  EXPECT_TRUE(world.run_until([&] { return lane->closed(); }));
  EXPECT_TRUE(lane->got.empty());
  EXPECT_EQ(world.metric("varve_session_links_refused_total"), 1);
}

TEST(SessionTable, AnotherVersionIsToldWhichOneIsSpoken) {
  World world;
  wire::Hello body = TestClient::hello();
  body.version_min = 2;
  body.version_max = 7;
  const auto lane = knock(world, body);
  EXPECT_EQ(refusal(world, *lane), Code::kUnsupported);
  const wire::Frame frame = lane->find(wire::FrameType::kRefused)->frame();
  const auto& view = std::get<wire::RefusedView>(frame.body);
  EXPECT_EQ(view.body.version_max, wire::kVersion);
  EXPECT_EQ(view.text,
            "this server speaks version 1 of the wire, the client 2 to 7: update the older of the "
            "two");
}

// A client from the future writes its own version into the header; its HELLO has the layout of
// every version.
TEST(SessionTable, AHelloWithAnotherHeaderVersionIsUnderstood) {
  World world;
  std::vector<std::byte> buffer(kHeadBytesMax);
  const auto say = [&](uint16_t version_min) {
    wire::Hello body = TestClient::hello();
    body.version_min = 1;
    body.version_max = 3;
    const ConstByteSpan head = wire::Encoder(buffer).hello(5, body, {}, "later");
    store(buffer, 0, uint16_t{3});
    store(buffer, sizeof(wire::FrameHeader) + offsetof(wire::Hello, version_min), version_min);
    auto lane = std::make_unique<ClientLane>(world, world.connect());
    lane->send(head);
    world.run_until([&] { return !lane->got.empty() || lane->closed(); });
    return lane;
  };
  const auto can_speak_ours = say(1);
  EXPECT_NE(can_speak_ours->find(wire::FrameType::kHelloOk), nullptr);
  const auto cannot = say(2);
  EXPECT_EQ(refusal(world, *cannot), Code::kUnsupported);
  const wire::Frame frame = cannot->find(wire::FrameType::kRefused)->frame();
  EXPECT_NE(std::get<wire::RefusedView>(frame.body).text.find("the client 2 to 3"),
            std::string_view::npos);
  can_speak_ours->close();
  EXPECT_TRUE(world.run_until([&] { return can_speak_ours->closed(); }));
  EXPECT_TRUE(world.settle());
}

TEST(SessionTable, BulkLanesNeedTheSecretOfTheirSession) {
  World world;
  TestClient client(world, 1);
  wire::Hello body;
  body.lane = wire::LaneKind::kBulk;
  body.lane_index = 1;
  body.session = client.welcome.session;
  body.session_secret = client.welcome.session_secret ^ 1;
  const auto guessed = knock(world, body);
  EXPECT_EQ(refusal(world, *guessed), Code::kUnauthorized);
  body.session ^= 0x100;
  body.session_secret = client.welcome.session_secret;
  const auto unknown = knock(world, body);
  EXPECT_EQ(refusal(world, *unknown), Code::kUnauthorized);
  // Expect: the session did not notice.
  client.register_format(small_format());
}

TEST(SessionTable, ABulkLaneIsNotTakenTwice) {
  World world;
  TestClient client(world, 1);
  wire::Hello body;
  body.lane = wire::LaneKind::kBulk;
  body.lane_index = 0;
  body.session = client.welcome.session;
  body.session_secret = client.welcome.session_secret;
  const auto second = knock(world, body);
  EXPECT_EQ(refusal(world, *second), Code::kInvalid);
  client.register_format(small_format());
}

TEST(SessionTable, ALateLaneFindsNoSession) {
  World world;
  wire::Hello body;
  body.lane = wire::LaneKind::kBulk;
  {
    TestClient client(world, 0);
    body.session = client.welcome.session;
    body.session_secret = client.welcome.session_secret;
  }
  EXPECT_TRUE(world.settle());
  const auto late = knock(world, body);
  EXPECT_EQ(refusal(world, *late), Code::kUnauthorized);
}

TEST(SessionTable, WhoSaysNothingIsDroppedInTime) {
  World world;
  ClientLane silent(world, world.connect());
  world.run_for(4 * kSecond);
  EXPECT_FALSE(silent.closed());
  EXPECT_FALSE(world.table->at_rest());
  world.run_for(2 * kSecond);
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(silent.got.empty());
  EXPECT_TRUE(world.table->at_rest());
}

TEST(SessionTable, WhatIsNotHelloIsClosedWithoutAnAnswer) {
  World world;
  std::vector<std::byte> buffer(kHeadBytesMax);
  wire::Encoder encoder{buffer};
  ClientLane early(world, world.connect());
  early.send(encoder.ping(1, wire::Ping{1}));
  ClientLane garbage(world, world.connect());
  garbage.send(std::vector<std::byte>(64, std::byte{0x5a}));
  ClientLane loaded(world, world.connect());
  loaded.send(encoder.hello(1, TestClient::hello(), {}, ""), std::vector<std::byte>(100));
  for (ClientLane* lane : {&early, &garbage, &loaded}) {
    EXPECT_TRUE(world.run_until([&] { return lane->closed(); }));
    EXPECT_TRUE(lane->got.empty());
  }
  EXPECT_TRUE(world.settle());
}

TEST(SessionTable, SessionsBeyondTheLimitAreRefusedAndOldOnesLive) {
  SessionOptions options;
  options.sessions_max = 2;
  World world(1, options);
  TestClient a(world), b(world);
  const auto third = knock(world, TestClient::hello());
  EXPECT_EQ(refusal(world, *third), Code::kOverloaded);
  a.register_format(small_format());
  b.register_format(small_format());
  EXPECT_EQ(world.table->session_count(), 2u);
}

TEST(SessionTable, UnnamedLanesBeyondTheLimitAreDropped) {
  SessionOptions options;
  options.lanes_unnamed_max = 2;
  World world(1, options);
  ClientLane a(world, world.connect()), b(world, world.connect()), c(world, world.connect());
  world.run_for(kSecond);
  EXPECT_EQ(uint32_t{a.closed()} + b.closed() + c.closed(), 1u);
  world.run_for(10 * kSecond);
  EXPECT_TRUE(a.closed() && b.closed() && c.closed());
  EXPECT_TRUE(world.table->at_rest());
  TestClient client(world);  // the room is there again
}

TEST(SessionTable, DrainSaysGoodbyeAndRefusesNewcomers) {
  World world;
  TestClient client(world, 1);
  const uint32_t format = client.register_format(small_format());
  world.table->drain();
  EXPECT_TRUE(
      world.run_until([&] { return client.urgent->find(wire::FrameType::kGoodbye) != nullptr; }));
  // Expect: what is open goes on.
  EXPECT_EQ(client.wait<wire::MatchedView>(client.match(format, ids_of(1))).body.code, 0);
  ClientLane late(world, world.connect());
  EXPECT_TRUE(world.run_until([&] { return late.closed(); }));
}

TEST(SessionTable, CloseAllEndsEverybodyWithTheCause) {
  World world;
  TestClient a(world, 2), b(world, 1);
  world.table->close_all(Status::cancelled("enough"));
  EXPECT_TRUE(world.settle());
  EXPECT_TRUE(world.run_until(
      [&] { return a.urgent->closed() && b.urgent->closed() && a.bulk[1]->closed(); }));
  const wire::Frame frame = a.urgent->find(wire::FrameType::kRefused)->frame();
  EXPECT_EQ(std::get<wire::RefusedView>(frame.body).text, "enough");
}

TEST(SessionTable, ImpossibleOptionsAreRefused) {
  World world;
  std::vector<Shard*> none, one = {world.homes[0].get()};
  EXPECT_FALSE(SessionTable::open(world.env, world.reactor, none, {}).has_value());
  SessionOptions options;
  options.credit_bytes_min = kGiB;
  EXPECT_FALSE(SessionTable::open(world.env, world.reactor, one, options).has_value());
  options = {};
  options.sessions_max = 0;
  EXPECT_FALSE(SessionTable::open(world.env, world.reactor, one, options).has_value());
}

}  // namespace
}  // namespace varve::test
