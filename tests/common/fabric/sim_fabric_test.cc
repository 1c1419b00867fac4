// Goal: the simulated fabric is as cruel as it says, and the same for the same seed.
#include "tests/doubles/sim_fabric.h"

#include <gtest/gtest.h>

#include "tests/common/fabric/link_harness.h"

namespace varve {
namespace {

TEST(SimFabric, TheSameSeedGivesTheSameTimes) {
  const auto trace = [](uint64_t seed) {
    LinkWorld world(FabricKind::kSim, seed);
    LinkPair pair(world);
    EXPECT_TRUE(pair.connect());
    std::string times;
    pair.server.at_message = [&](ConstByteSpan) {
      times += std::to_string(world.server().now_ns()) + " ";
    };
    Random random(1);
    std::vector<std::unique_ptr<TestMessage>> messages;
    for (int i = 0; i < 20; ++i) {
      messages.push_back(std::make_unique<TestMessage>(random, 10, i * 1000, 1));
      pair.client.link()->send(messages.back()->request);
    }
    EXPECT_TRUE(world.until([&] { return pair.server.count() == 20; }));
    pair.close();  // before the messages go
    return times;
  };
  EXPECT_EQ(trace(7), trace(7));
  EXPECT_NE(trace(7), trace(8));
}

TEST(SimFabric, PayloadsBecomeVisiblePiecemealBeforeTheyAreComplete) {
  LinkWorld world(FabricKind::kSim, 3);
  LinkPair pair(world);
  ASSERT_TRUE(pair.connect());
  Random random(1);
  bool partly = false;
  for (int i = 0; i < 50; ++i) {
    TestMessage message(random, 10, 100'000, 1);
    std::fill(pair.server.memory().begin(), pair.server.memory().end(), std::byte{0});
    pair.client.link()->send(message.request);
    const uint64_t want = pair.server.count() + 1;
    ASSERT_TRUE(world.until([&] {
      const bool all =
          std::equal(message.payload.begin(), message.payload.end(), pair.server.memory().begin());
      const bool none =
          pair.server.memory()[0] == std::byte{0} && pair.server.memory()[99'999] == std::byte{0};
      if (!all && !none) partly = true;
      return pair.server.count() == want && message.completions == 1;
    }));
  }
  EXPECT_TRUE(partly);
}

TEST(SimFabric, WritesMayLandAfterCloseButNotAfterTheFence) {
  uint64_t late = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    LinkWorld world(FabricKind::kSim, seed);
    LinkPair pair(world);
    ASSERT_TRUE(pair.connect());
    Random random(seed);
    TestMessage message(random, 10, kPayloadBytesMax, 1);
    bool placed = false;
    pair.server.at_place = [&](ConstByteSpan, uint32_t) { placed = true; };
    pair.client.link()->send(message.request);
    ASSERT_TRUE(world.until([&] { return placed; }));
    pair.server.link()->close(Status::cancelled("mid payload"));
    ASSERT_TRUE(world.until([&] { return pair.server.is_closed(); }));
    std::fill(pair.server.memory().begin(), pair.server.memory().end(), std::byte{0xDD});
    world.settle();
    for (const std::byte byte : pair.server.memory())
      ASSERT_EQ(byte, std::byte{0xDD});
    late += world.sim().counters().pieces_after_close;
  }
  EXPECT_GT(late, 0u);
}

TEST(SimFabric, ABrokenConnectionIsHeardOfByBothSides) {
  LinkWorld world(FabricKind::kSim);
  LinkPair pair(world);
  ASSERT_TRUE(pair.connect());
  EXPECT_EQ(world.sim().connection_count(), 1u);
  Random random(1);
  TestMessage message(random, 10, 1000, 1);
  pair.client.link()->send(message.request);
  ASSERT_TRUE(world.sim().break_one());
  ASSERT_TRUE(world.until([&] { return pair.server.is_closed() && pair.client.is_closed(); }));
  EXPECT_EQ(pair.client.cause().code(), Code::kUnavailable);
  EXPECT_EQ(message.completions, 1u);
  EXPECT_EQ(message.request.status.code(), Code::kUnavailable);
  EXPECT_EQ(pair.server.count(), 0u);
  EXPECT_FALSE(world.sim().break_one());
}

TEST(SimFabric, ASilentConnectionReportsNothingUntilItStalls) {
  LinkOptions options;
  options.stall_ns_max = 5 * kSecond;
  LinkWorld world(FabricKind::kSim);
  LinkPair pair(world, options, options);
  ASSERT_TRUE(pair.connect());
  ASSERT_TRUE(world.sim().silence_one());
  ASSERT_TRUE(pair.client.link()->send_head(text_bytes("into the void")));
  world.pass(4 * kSecond);
  EXPECT_FALSE(pair.client.is_closed());
  world.pass(2 * kSecond);
  ASSERT_TRUE(world.until([&] { return pair.client.is_closed(); }));
  EXPECT_EQ(pair.client.cause().code(), Code::kTimedOut);
  // Expect: the other side does not even learn of that.
  world.pass(100 * kSecond);
  EXPECT_FALSE(pair.server.is_closed());
  EXPECT_EQ(pair.server.count(), 0u);
}

TEST(SimFabric, APartitionHoldsEverythingBackAndThenLetsItThrough) {
  LinkWorld world(FabricKind::kSim);
  LinkPair pair(world);
  ASSERT_TRUE(pair.connect());
  Random random(1);
  const std::string address = pair.listener().address();
  TestMessage message(random, 10, 100'000, 1);
  pair.client.link()->send(message.request);
  bool placed = false;
  pair.server.at_place = [&](ConstByteSpan, uint32_t) { placed = true; };
  ASSERT_TRUE(world.until([&] { return placed; }));
  world.sim().partition(address, true);  // in the middle of the payload
  world.settle();
  EXPECT_EQ(pair.server.count(), 0u);
  world.sim().partition(address, false);
  ASSERT_TRUE(world.until([&] { return pair.server.count() == 1 && message.completions == 1; }));
  EXPECT_EQ(pair.server.messages()[0].payload, message.payload);
}

TEST(SimFabric, ConnectingIntoAPartitionTimesOut) {
  LinkOptions options;
  options.stall_ns_max = 5 * kSecond;
  LinkWorld world(FabricKind::kSim);
  LinkPair pair(world);
  world.sim().partition(pair.listener().address(), true);
  auto link = world.fabric().connect(world.client(), pair.listener().address(), options);
  pair.client.take(std::move(*link));
  world.pass(6 * kSecond);
  ASSERT_TRUE(world.until([&] { return pair.client.is_closed(); }));
  EXPECT_EQ(pair.client.cause().code(), Code::kTimedOut);
}

TEST(SimFabric, AKilledProcessMakesNoUpcallsAndItsPeersHearAReset) {
  LinkWorld world(FabricKind::kSim);
  auto pair = std::make_unique<LinkPair>(world);
  ASSERT_TRUE(pair->connect());
  Random random(1);
  TestMessage to_dead(random, 10, 100'000, 1);
  TestMessage from_dead(random, 10, 100'000, 1);
  pair->client.link()->send(to_dead.request);
  pair->server.link()->send(from_dead.request);
  world.turn();
  world.sim().kill(world.server(), SimFabric::Death::kReset);
  ASSERT_TRUE(world.until([&] { return pair->client.is_closed(); }));
  EXPECT_EQ(to_dead.completions, 1u);
  // Expect: nothing happened to the dead, and it can be taken apart.
  EXPECT_FALSE(pair->server.is_closed());
  EXPECT_EQ(from_dead.completions, 0u);
  EXPECT_TRUE(pair->server.link()->closing());
  pair->server.release().reset();
  // Expect: its address is free for its next life.
  auto again = world.fabric().listen(world.server(), pair->listener().address(), LinkOptions{});
  EXPECT_TRUE(again.has_value());
}

TEST(SimFabric, APowerCutTellsNobody) {
  LinkWorld world(FabricKind::kSim);
  LinkPair pair(world);
  ASSERT_TRUE(pair.connect());
  world.sim().kill(world.server(), SimFabric::Death::kSilent);
  world.pass(1000 * kSecond);
  EXPECT_FALSE(pair.client.is_closed());
  pair.server.release().reset();
}

TEST(SimFabricDeathTest, ChangingALentPayloadIsABug) {
  LinkWorld world(FabricKind::kSim);
  LinkPair pair(world);
  ASSERT_TRUE(pair.connect());
  Random random(1);
  TestMessage message(random, 10, 1000, 1);
  pair.client.link()->send(message.request);
  message.payload[500] ^= std::byte{1};
  EXPECT_DEATH((void)world.until([&] { return pair.server.count() == 1; }), "payload_crc");
  message.payload[500] ^= std::byte{1};
  pair.close();
}

}  // namespace
}  // namespace varve
