// Goal: F1 to F5 hold over TCP on io_uring, TCP on epoll and the simulated fabric alike.
// Method: the same tests on two reactors of one thread; the only clock is a manual one.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/common/fabric/link_harness.h"

namespace varve {
namespace {

class LinkSuite : public testing::TestWithParam<FabricKind> {
 protected:
  void SetUp() override {
    world_ = std::make_unique<LinkWorld>(GetParam());
    if (!world_->has_backend()) GTEST_SKIP() << "io_uring is refused on this machine";
  }
  LinkWorld& world() { return *world_; }

 private:
  std::unique_ptr<LinkWorld> world_;
};

INSTANTIATE_TEST_SUITE_P(Fabrics, LinkSuite,
                         testing::Values(FabricKind::kTcpUring, FabricKind::kTcpEpoll,
                                         FabricKind::kSim),
                         [](const auto& kind) { return fabric_kind_name(kind.param); });

using Messages = std::vector<std::unique_ptr<TestMessage>>;

Messages random_messages(Random& random, uint32_t count) {
  Messages messages;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t head_bytes = static_cast<uint32_t>(
        random.chance(20) ? random.between(1, kHeadBytesMax) : random.between(1, 300));
    uint32_t payload_bytes = 0;
    if (random.chance(600)) {
      payload_bytes = static_cast<uint32_t>(random.chance(300) ? random.between(1, kPayloadBytesMax)
                                                               : random.between(1, 9000));
    }
    const uint32_t pieces = static_cast<uint32_t>(random.between(1, kPayloadPiecesMax));
    messages.push_back(std::make_unique<TestMessage>(random, head_bytes, payload_bytes, pieces));
  }
  return messages;
}

// Sends all, as fast as can_send allows, and turns until the other side has them.
[[nodiscard]] bool transfer(LinkWorld& world, Link& link, Messages& messages,
                            const RecordingUser& receiver) {
  const uint64_t want = receiver.count() + messages.size();
  size_t next = 0;
  return world.until([&] {
    while (next < messages.size() && link.can_send(messages[next]->request.payload_bytes())) {
      link.send(messages[next++]->request);
    }
    if (receiver.count() != want) return false;
    for (const auto& message : messages) {
      if (message->completions != 1) return false;
    }
    return true;
  });
}

TEST_P(LinkSuite, MessagesArriveInOrderAndWholeInBothDirections) {
  LinkPair pair(world());
  ASSERT_TRUE(pair.connect());
  Random random(11);
  pair.server.piece_bytes = 4096 + 13;
  for (const bool to_server : {true, false}) {
    Messages messages = random_messages(random, 400);
    RecordingUser& from = to_server ? pair.client : pair.server;
    RecordingUser& to = to_server ? pair.server : pair.client;
    ASSERT_TRUE(transfer(world(), *from.link(), messages, to));
    ASSERT_EQ(to.messages().size(), messages.size());
    for (size_t i = 0; i < messages.size(); ++i) {
      ASSERT_EQ(to.messages()[i].head, messages[i]->head) << i;
      ASSERT_EQ(to.messages()[i].payload, messages[i]->payload) << i;
      EXPECT_TRUE(messages[i]->request.status.ok());
    }
    EXPECT_EQ(from.link()->counters().sent_messages, messages.size());
    EXPECT_EQ(to.link()->counters().received_messages, messages.size());
    EXPECT_EQ(from.link()->counters().sent_bytes, to.link()->counters().received_bytes);
  }
}

TEST_P(LinkSuite, BothDirectionsAtOnce) {
  LinkPair pair(world());
  ASSERT_TRUE(pair.connect());
  Random random(12);
  Messages up = random_messages(random, 100);
  Messages down = random_messages(random, 100);
  for (auto& message : up)
    pair.client.link()->send(message->request);
  for (auto& message : down)
    pair.server.link()->send(message->request);
  ASSERT_TRUE(world().until(
      [&] { return pair.server.count() == up.size() && pair.client.count() == down.size(); }));
  for (size_t i = 0; i < up.size(); ++i) {
    ASSERT_EQ(pair.server.messages()[i].payload, up[i]->payload);
    ASSERT_EQ(pair.client.messages()[i].payload, down[i]->payload);
  }
  pair.close();  // before the messages go: their completions may be under way
}

TEST_P(LinkSuite, ABigPayloadIsScatteredIntoItsPieces) {
  LinkPair pair(world());
  ASSERT_TRUE(pair.connect());
  Random random(13);
  pair.server.piece_bytes = kPageBytes;  // 64 pieces
  Messages messages;
  for (int i = 0; i < 20; ++i) {
    messages.push_back(
        std::make_unique<TestMessage>(random, 80, kPayloadBytesMax, kPayloadPiecesMax));
  }
  ASSERT_TRUE(transfer(world(), *pair.client.link(), messages, pair.server));
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(pair.server.messages()[i].payload, messages[i]->payload) << i;
  }
}

TEST_P(LinkSuite, DiscardedPayloadsLeaveTheirNeighboursWhole) {
  LinkPair pair(world());
  ASSERT_TRUE(pair.connect());
  Random random(14);
  pair.server.discard_every = 2;
  Messages messages;
  uint64_t discarded_bytes = 0;
  for (uint32_t i = 0; i < 60; ++i) {
    messages.push_back(std::make_unique<TestMessage>(
        random, 100, static_cast<uint32_t>(random.between(1, kPayloadBytesMax)), 3));
    if (i % 2 == 1) discarded_bytes += messages.back()->payload.size();
  }
  ASSERT_TRUE(transfer(world(), *pair.client.link(), messages, pair.server));
  for (size_t i = 0; i < messages.size(); ++i) {
    ASSERT_EQ(pair.server.messages()[i].head, messages[i]->head) << i;
    if (i % 2 == 0) {
      ASSERT_EQ(pair.server.messages()[i].payload, messages[i]->payload) << i;
    }
  }
  EXPECT_EQ(pair.server.link()->counters().discarded_bytes, discarded_bytes);
}

TEST_P(LinkSuite, SmallHeadsGoThroughTheLinksOwnQueue) {
  LinkPair pair(world());
  ASSERT_TRUE(pair.connect());
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(pair.client.link()->send_head(text_bytes("head " + std::to_string(i))));
  }
  ASSERT_TRUE(world().until([&] { return pair.server.count() == 1000; }));
  EXPECT_EQ(pair.server.messages()[999].head, "head 999");
}

TEST_P(LinkSuite, WhatIsQueuedWhileConnectingIsSent) {
  LinkPair pair(world());
  auto link = world().fabric().connect(world().client(), pair.listener().address(), {});
  ASSERT_TRUE(link.has_value());
  pair.client.take(std::move(*link));
  ASSERT_TRUE(pair.client.link()->send_head(text_bytes("early")));
  ASSERT_TRUE(world().until([&] { return pair.server.count() == 1; }));
  EXPECT_EQ(pair.server.messages()[0].head, "early");
}

TEST_P(LinkSuite, AnErrorFromPlaceClosesWithThatCause) {
  LinkPair pair(world());
  ASSERT_TRUE(pair.connect());
  Random random(15);
  pair.server.place_status = Status::quota("no grant for this payload");
  TestMessage message(random, 10, 1000, 1);
  pair.client.link()->send(message.request);
  ASSERT_TRUE(world().until([&] { return pair.server.is_closed() && pair.client.is_closed(); }));
  EXPECT_EQ(pair.server.cause().code(), Code::kQuota);
  EXPECT_EQ(pair.client.cause().code(), Code::kUnavailable);
}

TEST_P(LinkSuite, ConnectingToNobodyIsUnavailable) {
  RecordingUser user;
  auto link = world().fabric().connect(world().client(), world().dead_address(), {});
  ASSERT_TRUE(link.has_value());
  user.take(std::move(*link));
  EXPECT_FALSE(user.is_closed());  // R1: not inside the call
  ASSERT_TRUE(world().until([&] { return user.is_closed(); }));
  EXPECT_EQ(user.cause().code(), Code::kUnavailable);
}

TEST_P(LinkSuite, ClosingTellsBothSidesOnceAndInALaterTurn) {
  LinkPair pair(world());
  ASSERT_TRUE(pair.connect());
  pair.client.link()->close(Status::cancelled("done"));
  EXPECT_FALSE(pair.client.is_closed());
  EXPECT_TRUE(pair.client.link()->closing());
  EXPECT_FALSE(pair.client.link()->can_send(0));
  EXPECT_FALSE(pair.client.link()->send_head(text_bytes("late")));
  pair.client.link()->close(Status::internal("only the first cause counts"));
  ASSERT_TRUE(world().until([&] { return pair.server.is_closed() && pair.client.is_closed(); }));
  EXPECT_EQ(pair.client.cause().code(), Code::kCancelled);
  EXPECT_EQ(pair.server.cause().code(), Code::kUnavailable);
  world().settle();
}

TEST_P(LinkSuite, OnClosedComesInALaterTurnThanClose) {
  LinkPair pair(world());
  ASSERT_TRUE(pair.connect());
  uint64_t close_turn = 0;
  uint64_t closed_turn = 0;
  pair.server.at_closed = [&] { closed_turn = world().server().counters().turns; };
  pair.server.at_message = [&](ConstByteSpan) {
    close_turn = world().server().counters().turns;
    pair.server.link()->close(Status::cancelled("inside a turn"));
  };
  ASSERT_TRUE(pair.client.link()->send_head(text_bytes("x")));
  ASSERT_TRUE(world().until([&] { return pair.server.is_closed(); }));
  EXPECT_GT(closed_turn, close_turn);
}

TEST_P(LinkSuite, AStallIsCountedFromWhenSomethingWasQueued) {
  LinkOptions options;
  options.stall_ns_max = 5 * kSecond;
  options.socket_buffer_bytes = 64 * 1024;
  LinkPair pair(world(), options, options);
  ASSERT_TRUE(pair.connect());
  ASSERT_TRUE(pair.client.link()->send_head(text_bytes("arms the timer")));
  ASSERT_TRUE(world().until([&] { return pair.server.count() == 1; }));
  world().pass(4 * kSecond);
  Random random(19);
  Messages messages;
  for (int i = 0; i < 40; ++i) {
    messages.push_back(std::make_unique<TestMessage>(random, 10, kPayloadBytesMax, 1));
    pair.client.link()->send(messages.back()->request);
  }
  world().pass(4 * kSecond, LinkWorld::Turn::kClientOnly);
  EXPECT_FALSE(pair.client.is_closed());
  world().pass(2 * kSecond, LinkWorld::Turn::kClientOnly);
  ASSERT_TRUE(world().until([&] { return pair.client.is_closed(); }, LinkWorld::Turn::kClientOnly));
  EXPECT_EQ(pair.client.cause().code(), Code::kTimedOut);
}

TEST_P(LinkSuite, CloseFromWithinAnUpcallEndsTheUpcalls) {
  LinkPair pair(world());
  ASSERT_TRUE(pair.connect());
  uint64_t after_close = 0;
  pair.server.at_message = [&](ConstByteSpan) {
    if (pair.server.link()->closing()) ++after_close;
    pair.server.link()->close(Status::cancelled("enough"));
  };
  for (int i = 0; i < 50; ++i)
    ASSERT_TRUE(pair.client.link()->send_head(text_bytes("x")));
  ASSERT_TRUE(world().until([&] { return pair.server.is_closed() && pair.client.is_closed(); }));
  EXPECT_EQ(pair.server.count(), 1u);
  EXPECT_EQ(after_close, 0u);
}

// F2 for the receiver. A stream of big payloads; close at every kind of moment; after on_closed the
// memory is poisoned and must stay so.
TEST_P(LinkSuite, AfterClosedNothingTouchesThePlacedMemory) {
  for (uint32_t round = 0; round < 60; ++round) {
    LinkPair pair(world());
    ASSERT_TRUE(pair.connect());
    Random random(100 + round);
    Messages messages;
    for (int i = 0; i < 12; ++i) {
      messages.push_back(std::make_unique<TestMessage>(random, 80, kPayloadBytesMax, 8));
      pair.client.link()->send(messages.back()->request);
    }
    const uint64_t close_at = random.between(1, 10);
    const bool inside_place = random.chance(500);
    uint64_t turns_more = random.below(4);
    uint64_t places = 0;
    pair.server.at_place = [&](ConstByteSpan, uint32_t) {
      if (++places == close_at && inside_place) {
        pair.server.link()->close(Status::cancelled("in place"));
      }
    };
    ASSERT_TRUE(world().until([&] { return places >= close_at || pair.server.is_closed(); }));
    while (turns_more-- > 0)
      world().turn();
    if (pair.server.link() != nullptr && !pair.server.link()->closing()) {
      pair.server.link()->close(Status::cancelled("between turns"));
    }
    ASSERT_TRUE(world().until([&] { return pair.server.is_closed(); }));
    const ByteSpan memory = pair.server.memory();
    std::fill(memory.begin(), memory.end(), std::byte{0xDD});
    ASSERT_TRUE(world().until([&] { return pair.client.is_closed(); }));
    for (int i = 0; i < 50; ++i)
      world().turn();
    for (const std::byte byte : memory)
      ASSERT_EQ(byte, std::byte{0xDD}) << "round " << round;
    for (const auto& message : messages)
      EXPECT_EQ(message->completions, 1u);  // F3
  }
}

// F2 for the sender: once a send is complete its memory may be reused; the peer sees whole, old
// bytes or nothing.
TEST_P(LinkSuite, AfterClosedNothingReadsTheSendersMemory) {
  for (uint32_t round = 0; round < 30; ++round) {
    LinkPair pair(world());
    ASSERT_TRUE(pair.connect());
    Random random(200 + round);
    Messages messages;
    std::vector<std::vector<std::byte>> originals;
    for (int i = 0; i < 8; ++i) {
      messages.push_back(std::make_unique<TestMessage>(random, 80, kPayloadBytesMax, 8));
      originals.push_back(messages.back()->payload);
      messages.back()->request.on_sent = [](SendRequest& request) {
        auto& message = *static_cast<TestMessage*>(request.owner);
        ++message.completions;
        std::fill(message.payload.begin(), message.payload.end(), std::byte{0xDD});
      };
      pair.client.link()->send(messages.back()->request);
    }
    for (uint64_t turns = random.below(30); turns > 0; --turns)
      world().turn();
    pair.client.link()->close(Status::cancelled("now"));
    ASSERT_TRUE(world().until([&] { return pair.server.is_closed() && pair.client.is_closed(); }));
    for (size_t i = 0; i < messages.size(); ++i)
      EXPECT_EQ(messages[i]->completions, 1u);
    for (size_t i = 0; i < pair.server.messages().size(); ++i) {
      ASSERT_EQ(pair.server.messages()[i].payload, originals[i]) << "round " << round;
    }
  }
}

TEST_P(LinkSuite, EverySendCompletesExactlyOnceWhenTheLinkCloses) {
  LinkPair pair(world());
  ASSERT_TRUE(pair.connect());
  Random random(16);
  Messages messages = random_messages(random, 150);
  for (auto& message : messages)
    pair.client.link()->send(message->request);
  for (auto& message : messages)
    ASSERT_EQ(message->completions, 0u);  // F3: not inside send()
  pair.client.link()->close(Status::cancelled("at once"));
  for (auto& message : messages)
    ASSERT_EQ(message->completions, 0u);  // nor inside close()
  ASSERT_TRUE(world().until([&] { return pair.client.is_closed(); }));
  uint32_t unavailable = 0;
  for (auto& message : messages) {
    ASSERT_EQ(message->completions, 1u);
    if (message->request.status.code() == Code::kUnavailable) ++unavailable;
  }
  EXPECT_GT(unavailable, 0u);
}

TEST_P(LinkSuite, CanSendStopsAtItsLimits) {
  LinkOptions few;
  few.send_messages_max = 4;
  few.send_bytes_max = kPayloadBytesMax;
  LinkPair pair(world(), {}, few);
  ASSERT_TRUE(pair.connect());
  Link& link = *pair.client.link();
  Random random(17);
  TestMessage big(random, 10, kPayloadBytesMax - 100, 1);
  ASSERT_TRUE(link.can_send(kPayloadBytesMax));
  link.send(big.request);
  EXPECT_TRUE(link.can_send(100));
  EXPECT_FALSE(link.can_send(101));
  ASSERT_TRUE(link.send_head(text_bytes("2")));
  ASSERT_TRUE(link.send_head(text_bytes("3")));
  ASSERT_TRUE(link.send_head(text_bytes("4")));
  EXPECT_FALSE(link.can_send(0));
  EXPECT_FALSE(link.send_head(text_bytes("5")));
  ASSERT_TRUE(world().until([&] { return pair.server.count() == 4; }));
  ASSERT_TRUE(world().until([&] { return link.can_send(kPayloadBytesMax); }));
  pair.close();
}

TEST_P(LinkSuite, APeerThatDrainsNothingIsClosed) {
  LinkOptions options;
  options.stall_ns_max = 5 * kSecond;
  options.socket_buffer_bytes = 64 * 1024;
  LinkPair pair(world(), options, options);
  ASSERT_TRUE(pair.connect());
  Random random(18);
  Messages messages;
  for (int i = 0; i < 40; ++i) {
    messages.push_back(std::make_unique<TestMessage>(random, 10, kPayloadBytesMax, 1));
    pair.client.link()->send(messages.back()->request);
  }
  // The server's core does not run any more.
  world().settle(LinkWorld::Turn::kClientOnly);
  world().pass(4 * kSecond, LinkWorld::Turn::kClientOnly);
  EXPECT_FALSE(pair.client.is_closed());
  world().pass(3 * kSecond, LinkWorld::Turn::kClientOnly);
  ASSERT_TRUE(world().until([&] { return pair.client.is_closed(); }, LinkWorld::Turn::kClientOnly));
  EXPECT_EQ(pair.client.cause().code(), Code::kTimedOut);
  for (const auto& message : messages)
    EXPECT_EQ(message->completions, 1u);
}

TEST_P(LinkSuite, AnIdleLinkDoesNotStall) {
  LinkOptions options;
  options.stall_ns_max = 5 * kSecond;
  LinkPair pair(world(), options, options);
  ASSERT_TRUE(pair.connect());
  ASSERT_TRUE(pair.client.link()->send_head(text_bytes("before")));
  ASSERT_TRUE(world().until([&] { return pair.server.count() == 1; }));
  world().settle();
  world().pass(60 * kSecond);
  EXPECT_FALSE(pair.client.is_closed());
  // Expect: a message after a long silence is not taken for a stall of that length.
  ASSERT_TRUE(pair.client.link()->send_head(text_bytes("after")));
  ASSERT_TRUE(world().until([&] { return pair.server.count() == 2; }));
  world().settle();
  EXPECT_FALSE(pair.client.is_closed());
}

TEST_P(LinkSuite, AHeadOverTheLimitOfTheReceiverClosesIt) {
  LinkPair pair(world());
  ASSERT_TRUE(pair.connect());
  pair.server.link()->set_head_bytes_max(1000);
  ASSERT_TRUE(pair.client.link()->send_head(text_bytes(std::string(1000, 'a'))));
  ASSERT_TRUE(world().until([&] { return pair.server.count() == 1; }));
  ASSERT_TRUE(pair.client.link()->send_head(text_bytes(std::string(1001, 'a'))));
  ASSERT_TRUE(world().until([&] { return pair.server.is_closed(); }));
  EXPECT_EQ(pair.server.cause().code(), Code::kInvalid);
  EXPECT_EQ(pair.server.count(), 1u);
}

TEST_P(LinkSuite, TheHeadLimitCanBeRaisedAgain) {
  LinkPair pair(world());
  ASSERT_TRUE(pair.connect());
  pair.server.link()->set_head_bytes_max(1000);
  ASSERT_TRUE(pair.client.link()->send_head(text_bytes("hello")));
  ASSERT_TRUE(world().until([&] { return pair.server.count() == 1; }));
  pair.server.link()->set_head_bytes_max(kHeadBytesMax);
  ASSERT_TRUE(pair.client.link()->send_head(text_bytes(std::string(kHeadBytesMax, 'a'))));
  ASSERT_TRUE(world().until([&] { return pair.server.count() == 2; }));
}

TEST_P(LinkSuite, AStoppedListenerMakesNoMoreLinks) {
  LinkPair pair(world());
  pair.listener().stop();
  RecordingUser user;
  auto link = world().fabric().connect(world().client(), pair.listener().address(), {});
  ASSERT_TRUE(link.has_value());
  user.take(std::move(*link));
  ASSERT_TRUE(world().until([&] { return user.is_closed(); }));
  EXPECT_EQ(user.cause().code(), Code::kUnavailable);
  EXPECT_EQ(pair.server.link(), nullptr);
}

TEST_P(LinkSuite, AnAddressInUseIsRefused) {
  LinkPair pair(world());
  EXPECT_FALSE(
      world().fabric().listen(world().server(), pair.listener().address(), {}).has_value());
}

class DroppingUser final : public ListenerUser {
 public:
  uint32_t dropped = 0;
  void on_accepted(std::unique_ptr<Link> link) override {
    ++dropped;
    link.reset();
  }
};

TEST_P(LinkSuite, ALinkThatIsDroppedBeforeItsStartClosesThePeer) {
  DroppingUser dropper;
  auto listener = world().fabric().listen(world().server(), world().any_address(), {});
  ASSERT_TRUE(listener.has_value());
  (*listener)->start(dropper);
  RecordingUser user;
  auto link = world().fabric().connect(world().client(), (*listener)->address(), {});
  ASSERT_TRUE(link.has_value());
  user.take(std::move(*link));
  ASSERT_TRUE(world().until([&] { return user.is_closed(); }));
  EXPECT_EQ(dropper.dropped, 1u);
  EXPECT_EQ(user.cause().code(), Code::kUnavailable);
}

TEST_P(LinkSuite, TheAcceptedSideKnowsItsPeerIsLoopback) {
  LinkPair pair(world());
  ASSERT_TRUE(pair.connect());
  EXPECT_TRUE(pair.server.link()->peer_is_loopback());
  EXPECT_FALSE(pair.server.link()->peer().empty());
}

TEST_P(LinkSuite, SendingFromACompletionKeepsTheOrder) {
  LinkPair pair(world());
  ASSERT_TRUE(pair.connect());
  struct Chain {
    RecordingUser* user;
    SendRequest request;
    std::string head;
    uint32_t left = 200;
  } chain{&pair.client, {}, "chain 200", 200};
  chain.request.head = text_bytes(chain.head);
  chain.request.owner = &chain;
  chain.request.on_sent = [](SendRequest& request) {
    auto& self = *static_cast<Chain*>(request.owner);
    if (--self.left == 0) return;
    self.head = "chain " + std::to_string(self.left);
    request.head = text_bytes(self.head);
    self.user->link()->send(request);
  };
  pair.client.link()->send(chain.request);
  ASSERT_TRUE(world().until([&] { return chain.left == 0 && pair.server.count() == 200; }));
  for (uint32_t i = 0; i < 200; ++i) {
    ASSERT_EQ(pair.server.messages()[i].head, "chain " + std::to_string(200 - i));
  }
}

}  // namespace
}  // namespace varve
