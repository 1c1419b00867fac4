// Goal: the TCP fabric says at once what can never work and at on_closed what did not work out.
#include <gtest/gtest.h>

#include "tests/common/fabric/link_harness.h"

namespace varve {
namespace {

TEST(TcpFabric, BadAddressesAreRefusedAtOnce) {
  LinkWorld world(FabricKind::kTcpEpoll);
  EXPECT_EQ(world.fabric().listen(world.server(), "nowhere", {}).error().code(), Code::kInvalid);
  EXPECT_EQ(world.fabric().connect(world.client(), "127.0.0.1:x", {}).error().code(),
            Code::kInvalid);
  EXPECT_STREQ(world.fabric().name(), "tcp");
}

TEST(TcpFabric, AnAddressThatIsNotOursCannotBeListenedOn) {
  LinkWorld world(FabricKind::kTcpEpoll);
  const auto listener = world.fabric().listen(world.server(), "192.0.2.1:0", {});
  ASSERT_FALSE(listener.has_value());
  EXPECT_EQ(listener.error().code(), Code::kIo);
  EXPECT_NE(listener.error().errno_value(), 0);
}

TEST(TcpFabric, ARefusedCongestionControlDoesNotStopAnything) {
  LinkWorld world(FabricKind::kTcpEpoll);
  LinkOptions options;
  options.congestion = "no-such-control";
  LinkPair pair(world, options, options);
  ASSERT_TRUE(pair.connect());
  ASSERT_TRUE(pair.client.link()->send_head(text_bytes("works")));
  EXPECT_TRUE(world.until([&] { return pair.server.count() == 1; }));
}

TEST(TcpFabric, ALinkThatIsNeverStartedCostsNothing) {
  LinkWorld world(FabricKind::kTcpEpoll);
  auto link = world.fabric().connect(world.client(), "127.0.0.1:1", {});
  ASSERT_TRUE(link.has_value());
  EXPECT_TRUE((*link)->peer_is_loopback());
  EXPECT_EQ((*link)->peer(), "127.0.0.1:1");
  link->reset();
  EXPECT_TRUE(world.client().idle());
}

}  // namespace
}  // namespace varve
