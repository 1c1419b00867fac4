// Goal: whatever a foreign or broken peer does on a TCP connection, the link closes with its cause
// and nothing else happens. Method: a raw blocking socket on loopback against a link, on io_uring
// and on epoll; time is a manual clock.
#include "common/fabric/tcp_link.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fabric/message_prefix.h"
#include "tests/common/fabric/link_harness.h"

namespace varve {
namespace {

std::vector<std::byte> message_bytes(std::string_view head, ConstByteSpan payload) {
  MessagePrefix prefix;
  prefix.head_bytes = static_cast<uint32_t>(head.size());
  prefix.payload_bytes = static_cast<uint32_t>(payload.size());
  prefix.head_crc = crc32c(0, text_bytes(head));
  std::vector<std::byte> bytes;
  for (const ConstByteSpan part : {bytes_view(prefix), text_bytes(head), payload}) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

class TcpLinkTest : public testing::TestWithParam<FabricKind> {
 protected:
  void SetUp() override {
    world_ = std::make_unique<LinkWorld>(GetParam());
    if (!world_->has_backend()) GTEST_SKIP() << "io_uring is refused on this machine";
    LinkOptions options;
    options.stall_ns_max = 5 * kSecond;
    auto listener = world().fabric().listen(world().server(), world().any_address(), options);
    ASSERT_TRUE(listener.has_value());
    listener_ = std::move(*listener);
    listener_->start(user_);
    connect_raw();
  }
  void TearDown() override {
    if (listener_ == nullptr) return;
    listener_->stop();
    raw_.reset();
    ASSERT_TRUE(world().until([&] { return user_.link() == nullptr; }));
  }
  void connect_raw() {
    const auto address = resolve(listener_->address());
    ASSERT_TRUE(address.has_value());
    raw_ = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(raw_.fd(), address->get(), address->bytes), 0);
    ASSERT_TRUE(world().until([&] { return user_.link() != nullptr; }));
  }
  void put(ConstByteSpan bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(raw_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) bytes = bytes.subspan(static_cast<size_t>(n));
      if (n < 0 && errno != EAGAIN) return;  // the link has closed already
      world().turn();
    }
  }
  [[nodiscard]] bool closes() {
    return world().until([&] { return user_.is_closed(); });
  }
  LinkWorld& world() { return *world_; }

  std::unique_ptr<LinkWorld> world_;
  RecordingUser user_;
  std::unique_ptr<Listener> listener_;
  Socket raw_;
};

INSTANTIATE_TEST_SUITE_P(Backends, TcpLinkTest,
                         testing::Values(FabricKind::kTcpUring, FabricKind::kTcpEpoll),
                         [](const auto& kind) { return fabric_kind_name(kind.param); });

TEST_P(TcpLinkTest, AWellFormedMessageFromARawSocketArrives) {
  put(message_bytes("hello", text_bytes("payload")));
  ASSERT_TRUE(world().until([&] { return user_.count() == 1; }));
  EXPECT_EQ(user_.messages()[0].head, "hello");
}

TEST_P(TcpLinkTest, AMessageThatDripsInByteByByteArrives) {
  for (const std::byte byte : message_bytes("hello", text_bytes("payload"))) {
    put({&byte, 1});
    for (int i = 0; i < 5; ++i)
      world().turn();
  }
  ASSERT_TRUE(world().until([&] { return user_.count() == 1; }));
  EXPECT_EQ(user_.messages()[0].payload.size(), 7u);
}

TEST_P(TcpLinkTest, AnHttpRequestIsNotAVarvePeer) {
  put(text_bytes("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  ASSERT_TRUE(closes());
  EXPECT_EQ(user_.cause().code(), Code::kInvalid);
  EXPECT_STREQ(user_.cause().what(), "not a Varve peer");
  char byte = 0;
  EXPECT_LE(::recv(raw_.fd(), &byte, 1, 0), 0);  // and the peer sees the connection closed
}

TEST_P(TcpLinkTest, LengthsOverTheirLimitsClose) {
  MessagePrefix prefix;
  prefix.head_bytes = 0xFFFFFFF0;
  put(bytes_view(prefix));
  ASSERT_TRUE(closes());
  EXPECT_STREQ(user_.cause().what(), "head over its limit");
}

TEST_P(TcpLinkTest, APayloadOverItsLimitCloses) {
  MessagePrefix prefix;
  prefix.head_bytes = 8;
  prefix.payload_bytes = kPayloadBytesMax + 1;
  put(bytes_view(prefix));
  ASSERT_TRUE(closes());
  EXPECT_STREQ(user_.cause().what(), "payload over its limit");
}

TEST_P(TcpLinkTest, AHeadWithAWrongChecksumCloses) {
  std::vector<std::byte> bytes = message_bytes("hello", {});
  bytes.back() ^= std::byte{1};
  put(bytes);
  ASSERT_TRUE(closes());
  EXPECT_EQ(user_.cause().code(), Code::kCorrupt);
  EXPECT_EQ(user_.count(), 0u);
}

TEST_P(TcpLinkTest, MessagesBeforeABadOneAreDelivered) {
  std::vector<std::byte> bytes = message_bytes("first", text_bytes("x"));
  const std::vector<std::byte> second = message_bytes("second", {});
  bytes.insert(bytes.end(), second.begin(), second.end());
  bytes.resize(bytes.size() + 64);  // zeros are no prefix
  put(bytes);
  ASSERT_TRUE(closes());
  EXPECT_EQ(user_.count(), 2u);
  EXPECT_EQ(user_.cause().code(), Code::kInvalid);
}

TEST_P(TcpLinkTest, AnEndBetweenMessagesIsOrderlyAndOneInsideIsNot) {
  put(message_bytes("hello", {}));
  ASSERT_TRUE(world().until([&] { return user_.count() == 1; }));
  raw_.reset();
  ASSERT_TRUE(closes());
  EXPECT_STREQ(user_.cause().what(), "peer closed");
}

TEST_P(TcpLinkTest, ATruncatedMessageClosesWithItsCause) {
  const std::vector<std::byte> bytes = message_bytes("hello", text_bytes("payload"));
  put(ConstByteSpan(bytes).first(bytes.size() - 1));
  ASSERT_TRUE(world().until([&] { return user_.in_place(); }));
  raw_.reset();
  ASSERT_TRUE(closes());
  EXPECT_EQ(user_.cause().code(), Code::kUnavailable);
  EXPECT_STREQ(user_.cause().what(), "peer closed inside a message");
  EXPECT_EQ(user_.count(), 0u);
}

TEST_P(TcpLinkTest, APeerThatStopsInTheMiddleOfAMessageIsClosed) {
  const std::vector<std::byte> bytes = message_bytes("hello", text_bytes("payload"));
  put(ConstByteSpan(bytes).first(bytes.size() - 1));
  ASSERT_TRUE(world().until([&] { return user_.in_place(); }));
  world().pass(4 * kSecond);
  EXPECT_FALSE(user_.is_closed());
  world().pass(2 * kSecond);
  ASSERT_TRUE(closes());
  EXPECT_EQ(user_.cause().code(), Code::kTimedOut);
}

// Goal: memory that a message is received into is not held by a byte now and then (F5).
TEST_P(TcpLinkTest, APeerThatTricklesIsClosed) {
  const std::vector<std::byte> bytes =
      message_bytes("hello", std::vector<std::byte>(kPayloadBytesMax, std::byte{7}));
  put(ConstByteSpan(bytes).first(1000));
  ASSERT_TRUE(world().until([&] { return user_.in_place(); }));
  size_t at = 1000;
  for (int second = 0; second < 4; ++second) {
    put(ConstByteSpan(bytes).subspan(at++, 1));
    world().settle();
    world().pass(kSecond);
  }
  EXPECT_FALSE(user_.is_closed());
  put(ConstByteSpan(bytes).subspan(at, 1));
  world().settle();
  world().pass(2 * kSecond);
  ASSERT_TRUE(closes());
  EXPECT_EQ(user_.cause().code(), Code::kTimedOut);
}

TEST_P(TcpLinkTest, APeerThatIsSlowButNotThatSlowIsServed) {
  const std::vector<std::byte> bytes =
      message_bytes("hello", std::vector<std::byte>(kPayloadBytesMax, std::byte{7}));
  for (size_t at = 0; at < bytes.size(); at += 64 * kKiB) {
    put(ConstByteSpan(bytes).subspan(at, std::min<size_t>(64 * kKiB, bytes.size() - at)));
    world().settle();
    world().pass(4 * kSecond);
  }
  ASSERT_TRUE(world().until([&] { return user_.count() == 1; }));
  EXPECT_FALSE(user_.is_closed());
}

TEST_P(TcpLinkTest, APeerThatStopsInsideAPrefixIsClosed) {
  put(text_bytes("V"));
  world().settle();
  world().pass(6 * kSecond);
  ASSERT_TRUE(closes());
  EXPECT_EQ(user_.cause().code(), Code::kTimedOut);
}

TEST_P(TcpLinkTest, AResetOfTheConnectionIsUnavailable) {
  const linger hard{1, 0};
  ASSERT_EQ(setsockopt(raw_.fd(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)), 0);
  raw_.reset();  // RST
  ASSERT_TRUE(closes());
  EXPECT_EQ(user_.cause().code(), Code::kUnavailable);
}

TEST_P(TcpLinkTest, GarbageOfAnyKindClosesAndTheListenerLives) {
  Random random(3);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::byte> bytes = message_bytes("head of the message", text_bytes("payload"));
    const size_t at = random.below(16 + 19);
    bytes[at] ^= static_cast<std::byte>(1 + random.below(255));
    bytes.resize(bytes.size() + 300'000);  // more than any length below its limit could want
    put(bytes);
    ASSERT_TRUE(closes()) << "byte " << at;
    EXPECT_TRUE(user_.cause().code() == Code::kInvalid || user_.cause().code() == Code::kCorrupt);
    raw_.reset();
    user_ = RecordingUser();
    connect_raw();
  }
}

TEST_P(TcpLinkTest, AHeadMayFillItsLimitAndNoMemoryGrows) {
  const std::string head(kHeadBytesMax, 'h');
  const std::vector<std::byte> payload(kPayloadBytesMax, std::byte{7});
  const std::vector<std::byte> bytes = message_bytes(head, payload);
  user_.keep = false;
  for (int i = 0; i < 20; ++i)
    put(bytes);
  ASSERT_TRUE(world().until([&] { return user_.count() == 20; }));
  EXPECT_EQ(user_.link()->counters().received_bytes,
            20ull * (uint64_t{kHeadBytesMax} + kPayloadBytesMax));
}

}  // namespace
}  // namespace varve
