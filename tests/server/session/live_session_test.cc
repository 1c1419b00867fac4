// One session's frames: what is malformed ends it with a typed cause, what is idle ends in time.
#include "server/session/live_session.h"

#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

// Everything but `label` closes nothing; expects the session to end with REFUSED and to leave
// nothing.
void expect_malformed(World& world, TestClient& client, const char* label) {
  EXPECT_TRUE(world.run_until([&] { return client.urgent->closed(); }, 5 * kSecond)) << label;
  const Got* got = client.urgent->find(wire::FrameType::kRefused);
  ASSERT_NE(got, nullptr) << label;
  const wire::Frame frame = got->frame();
  const auto& view = std::get<wire::RefusedView>(frame.body);
  EXPECT_NE(view.body.code, 0) << label;
  EXPECT_FALSE(view.text.empty()) << label;
  EXPECT_TRUE(world.settle()) << label;
}

TEST(LiveSession, PingIsAnsweredWithItsValue) {
  World world;
  TestClient client(world, 0);
  client.urgent->send(client.encoder().ping(55, wire::Ping{4711}));
  EXPECT_EQ(client.wait<wire::PongView>(55).body.value, 4711u);
}

TEST(LiveSession, ASilentSessionIsPingedAndThenDropped) {
  World world;
  TestClient client(world, 1);
  world.run_for(31 * kSecond);
  EXPECT_EQ(client.urgent->count(wire::FrameType::kPing), 1u);
  EXPECT_FALSE(client.urgent->closed());
  world.run_for(31 * kSecond);
  EXPECT_TRUE(client.urgent->closed());
  EXPECT_TRUE(world.table->at_rest());
  EXPECT_EQ(world.metric("varve_session_closed_total", "code=\"timed_out\""), 1);
}

// The whole process was stopped for longer than idle_ms_max: what the client sent meanwhile is
// heard before anybody is dropped.
TEST(LiveSession, NobodyIsDroppedForASilenceInWhichTheServerStoodStill) {
  World world;
  TestClient client(world, 0);
  world.run_for(kSecond);
  world.clock.advance_by(70 * kSecond);
  world.reactor.turn();  // before anything that came is read
  world.run_for(29 * kSecond);
  EXPECT_FALSE(client.urgent->closed());
  world.run_for(2 * kSecond);
  EXPECT_GE(client.urgent->count(wire::FrameType::kPing), 1u) << "it is asked";
}

TEST(LiveSession, OneWhoAnswersPingsLives) {
  World world;
  TestClient client(world, 1);
  for (uint32_t round = 0; round < 10; ++round) {
    world.run_for(20 * kSecond);
    client.urgent->send(client.encoder().pong(0, wire::Ping{round}));
  }
  EXPECT_FALSE(client.urgent->closed());
}

TEST(LiveSession, FramesOnTheWrongLaneOrSideCloseIt) {
  using Send = void (*)(TestClient&);
  const std::pair<const char*, Send> cases[] = {
      {"match on bulk",
       [](TestClient& c) {
         c.bulk[0]->send(c.encoder().match(9, {.format = 1, .count = 1}, ids_of(1)));
       }},
      {"ping on bulk", [](TestClient& c) { c.bulk[0]->send(c.encoder().ping(9, {})); }},
      {"credit on bulk", [](TestClient& c) { c.bulk[0]->send(c.encoder().credit(9, {})); }},
      {"goodbye from a client", [](TestClient& c) { c.urgent->send(c.encoder().goodbye(9, {})); }},
      {"pulled from a client",
       [](TestClient& c) { c.urgent->send(c.encoder().pulled(9, {}, {})); }},
      {"hello_ok from a client",
       [](TestClient& c) { c.urgent->send(c.encoder().hello_ok(9, c.welcome)); }},
      {"a second hello",
       [](TestClient& c) { c.urgent->send(c.encoder().hello(9, TestClient::hello(), {}, "")); }},
      {"extent without payload",
       [](TestClient& c) {
         wire::Extent body;
         body.extent_bytes = 100;
         body.attempt.counter = 1;
         c.bulk[0]->send(c.encoder().extent(9, body));
       }},
      {"extent on urgent",
       [](TestClient& c) {
         wire::Extent body;
         body.extent_bytes = 100;
         body.attempt.counter = 1;
         c.urgent->send(c.encoder().extent(9, body), std::vector<std::byte>(100));
       }},
      {"payload behind a ping",
       [](TestClient& c) { c.urgent->send(c.encoder().ping(9, {}), std::vector<std::byte>(10)); }},
      {"data from a client",
       [](TestClient& c) {
         wire::Data body;
         body.entry.stored_bytes = body.entry.decoded_bytes = 100;
         body.attempt.counter = 1;
         c.bulk[0]->send(c.encoder().data(9, body), std::vector<std::byte>(100));
       }},
  };
  for (const auto& [label, send] : cases) {
    World world;
    TestClient client(world, 1);
    send(client);
    expect_malformed(world, client, label);
  }
}

// Method: every prefix and every changed byte of the header of one frame of each kind that a client
// sends.
TEST(LiveSession, TruncatedAndChangedFramesNeverHarmTheServer) {
  World world;
  std::vector<std::vector<std::byte>> heads;
  {
    std::vector<std::byte> buffer(kHeadBytesMax);
    wire::Encoder encoder{buffer};
    const auto keep = [&heads](ConstByteSpan head) {
      heads.emplace_back(head.begin(), head.end());
    };
    keep(encoder.format(1, small_format().encode()));
    keep(encoder.match(2, {.format = 1, .count = 2, .lease_ms = 1000}, ids_of(2)));
    keep(encoder.release(3, {7}));
    wire::Reserve reserve;
    reserve.format = 1;
    reserve.hold_ms = 1000;
    reserve.count = 2;
    keep(encoder.reserve(4, reserve, ids_of(2)));
    wire::Pull pull;
    pull.format = 1;
    pull.deadline_ns = kSecond;
    pull.layer_count = 4;
    pull.count = 2;
    keep(encoder.pull(5, pull, ids_of(2)));
    keep(encoder.cancel(6, {5}));
  }
  Random random(11);
  for (const auto& head : heads) {
    for (uint32_t round = 0; round < 12; ++round) {
      TestClient client(world, 1);
      auto changed = head;
      if (round < 4) {
        changed.resize(random.below(changed.size() - 1) + 1);
      } else {
        changed[random.below(std::min<size_t>(changed.size(), 80))] ^=
            static_cast<std::byte>(1 << random.below(8));
      }
      client.urgent->send(changed);
      world.run_for(20 * kMillisecond);
      // Expect: a typed end, or a frame that was a good one all the same.
      if (client.urgent->closed() || client.urgent->find(wire::FrameType::kRefused) != nullptr) {
        EXPECT_NE(client.urgent->find(wire::FrameType::kRefused), nullptr);
      }
    }
  }
  EXPECT_TRUE(world.settle());
}

TEST(LiveSession, FormatsAreRefusedByNameAndTheSessionLives) {
  World world;
  TestClient client(world, 0);
  auto bytes = small_format().encode();
  bytes.resize(bytes.size() / 2);
  client.urgent->send(client.encoder().format(77, bytes));
  const auto refused = client.wait<wire::FormatOkView>(77);
  EXPECT_NE(refused.body.code, 0);
  EXPECT_EQ(refused.body.format, 0u);
  EXPECT_EQ(client.register_format(small_format()), 1u);
  EXPECT_EQ(client.register_format(small_format()), 1u);
  EXPECT_EQ(client.register_format(two_rank_format()), 2u);
  EXPECT_EQ(world.metric("varve_session_formats"), 2);
}

TEST(LiveSession, FormatsGoWithTheirLastSession) {
  World world;
  {
    TestClient a(world, 0), b(world, 0);
    a.register_format(small_format());
    b.register_format(small_format());
    EXPECT_EQ(world.metric("varve_session_formats"), 1);
  }
  EXPECT_TRUE(world.settle());
  EXPECT_EQ(world.metric("varve_session_formats"), 0);
}

TEST(LiveSession, AnyLaneThatGoesTakesTheSessionWithIt) {
  for (uint32_t lane = 0; lane < 3; ++lane) {
    World world(2);
    TestClient client(world, 2);
    (lane == 0 ? client.urgent : client.bulk[lane - 1])->close();
    EXPECT_TRUE(world.run_until(
        [&] {
          return client.urgent->closed() && client.bulk[0]->closed() && client.bulk[1]->closed();
        },
        5 * kSecond))
        << lane;
    EXPECT_TRUE(world.settle()) << lane;
    EXPECT_EQ(world.homes[0]->gone, 1u);
    EXPECT_EQ(world.homes[1]->gone, 1u);
  }
}

TEST(LiveSession, OneWhoReadsNothingIsDroppedAndHoldsNothing) {
  World world(1, {}, {}, LinkOptions{.send_messages_max = 8, .stall_ns_max = 2 * kSecond});
  TestClient client(world, 1);
  world.fabric.partition("server", true);  // nothing passes any more, and nobody says so
  for (uint32_t i = 0; i < 4; ++i)
    client.urgent->send(client.encoder().ping(i + 100, {}));
  world.run_for(70 * kSecond);
  EXPECT_TRUE(world.table->at_rest());
  world.fabric.partition("server", false);
}

TEST(LiveSession, SessionsComeAndGoWithoutATrace) {
  SessionOptions options;
  options.sessions_max = 4;
  World world(2, options);
  for (uint32_t round = 0; round < 50; ++round) {
    TestClient a(world, round % 5), b(world, 1);
    const uint32_t format = a.register_format(small_format());
    a.match(format, ids_of(30), 5000);
    a.reserve(format, ids_of(3, round));
    if (round % 2 == 0) world.run_for(kMillisecond);
  }
  EXPECT_TRUE(world.settle());
  EXPECT_EQ(world.metric("varve_sessions"), 0);
  EXPECT_EQ(world.metric("varve_session_lanes"), 0);
  EXPECT_EQ(world.metric("varve_session_requests"), 0);
}

}  // namespace
}  // namespace varve::test
