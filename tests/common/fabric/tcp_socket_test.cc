// Goal: addresses are parsed strictly, printed as they are written, and loopback is told from the
// rest; sockets carry the options asked for.
#include "common/fabric/tcp_socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "common/fabric/address.h"

namespace varve {
namespace {

TEST(TcpSocket, NumericAddressesComeBackAsWritten) {
  for (const char* text : {"127.0.0.1:4711", "10.1.2.3:1", "[::1]:65535", "0.0.0.0:0"}) {
    const auto address = resolve(text);
    ASSERT_TRUE(address.has_value()) << text;
    EXPECT_EQ(address->text(), text);
    EXPECT_EQ(*address_kind(text), AddressKind::kNumber);
  }
}

// Expect: who listens there and who connects there mean the same, whichever comes first in the
// hosts of a machine.
TEST(TcpSocket, LocalhostIsOneAddress) {
  const auto address = resolve("localhost:4711");
  ASSERT_TRUE(address.has_value()) << address.error().what();
  EXPECT_EQ(address->text(), "127.0.0.1:4711");
  EXPECT_EQ(address->storage.ss_family, AF_INET);
}

TEST(TcpSocket, MalformedAddressesAreInvalid) {
  for (const char* text :
       {"", "127.0.0.1", ":80", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:123456", "::1:80", "[]:80", "127.0.0.1:80 "}) {
    const auto address = resolve(text);
    ASSERT_FALSE(address.has_value()) << text;
    EXPECT_EQ(address.error().code(), Code::kInvalid) << text;
    EXPECT_FALSE(address_kind(text).has_value()) << text;
  }
}

TEST(TcpSocket, WhatTakesAResolverIsKnownWithoutOne) {
  EXPECT_EQ(*address_kind("localhost:7440"), AddressKind::kNumber);
  for (const char* text : {"varve:7440", "varve-0.varve.svc.cluster.local:7440", "a_b:1", "1a:2"})
    EXPECT_EQ(*address_kind(text), AddressKind::kName) << text;
  const std::string too_long = std::string(254, 'x') + ":7440";
  for (const std::string& text :
       {std::string("10.1.2.300:1"), std::string("[varve]:1"), std::string("a b:1"),
        std::string("http://varve:1"), std::string("varve\n:1"), std::string("varve:70000"),
        std::string("varve"), too_long}) {
    const auto kind = address_kind(text);
    ASSERT_FALSE(kind.has_value()) << text;
    EXPECT_EQ(kind.error().code(), Code::kInvalid) << text;
  }
}

// Goal: the system's resolver answers numbers. Method: of a number, which asks no name server.
TEST(TcpSocket, ALookupAnswersNumbers) {
  const auto resolver = make_system_resolver();
  const auto found = resolver->look_up("127.0.0.1:4711");
  ASSERT_TRUE(found.has_value()) << found.error().what();
  EXPECT_EQ(*found, std::vector<std::string>{"127.0.0.1:4711"});
  EXPECT_EQ(resolver->look_up("no-port").error().code(), Code::kInvalid);
}

TEST(TcpSocket, LoopbackIsAllOf127AndOneOfIpv6) {
  EXPECT_TRUE(resolve("127.0.0.1:1")->is_loopback());
  EXPECT_TRUE(resolve("127.9.9.9:1")->is_loopback());
  EXPECT_TRUE(resolve("[::1]:1")->is_loopback());
  EXPECT_TRUE(resolve("[::ffff:127.0.0.1]:1")->is_loopback());
  EXPECT_FALSE(resolve("[::ffff:10.0.0.1]:1")->is_loopback());
  EXPECT_FALSE(resolve("10.0.0.1:1")->is_loopback());
  EXPECT_FALSE(resolve("128.0.0.1:1")->is_loopback());
  EXPECT_FALSE(resolve("[fe80::1]:1")->is_loopback());
  EXPECT_FALSE(resolve("0.0.0.0:1")->is_loopback());
}

TEST(TcpSocket, OptionsAreSet) {
  auto socket = open_socket(*resolve("127.0.0.1:0"));
  ASSERT_TRUE(socket.has_value());
  LinkOptions options;
  options.congestion = "reno";
  options.stall_ns_max = 7 * kSecond;
  ASSERT_TRUE(set_options(*socket, options).ok());
  int value = 0;
  socklen_t bytes = sizeof(value);
  ASSERT_EQ(getsockopt(socket->fd(), IPPROTO_TCP, TCP_NODELAY, &value, &bytes), 0);
  EXPECT_NE(value, 0);
  ASSERT_EQ(getsockopt(socket->fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &bytes), 0);
  EXPECT_EQ(value, 7000);
  char name[16] = {};
  bytes = sizeof(name);
  ASSERT_EQ(getsockopt(socket->fd(), IPPROTO_TCP, TCP_CONGESTION, name, &bytes), 0);
  EXPECT_STREQ(name, "reno");
}

TEST(TcpSocket, AnUnknownCongestionControlIsUnsupportedAndTheSocketStillWorks) {
  const auto address = resolve("127.0.0.1:0");
  auto socket = open_socket(*address);
  ASSERT_TRUE(socket.has_value());
  LinkOptions options;
  options.congestion = "no-such-control";
  EXPECT_EQ(set_options(*socket, options).code(), Code::kUnsupported);
  EXPECT_TRUE(bind_and_listen(*socket, *address).ok());
  EXPECT_NE(local_address(*socket)->text(), "127.0.0.1:0");
}

TEST(TcpSocket, ASocketHasOneOwner) {
  auto opened = open_socket(*resolve("127.0.0.1:0"));
  ASSERT_TRUE(opened.has_value());
  Socket a = std::move(*opened);
  const int fd = a.fd();
  Socket b;
  b = std::move(a);
  EXPECT_FALSE(a.is_open());
  EXPECT_EQ(b.fd(), fd);
  b.reset();
  EXPECT_FALSE(b.is_open());
  int value = 0;
  socklen_t bytes = sizeof(value);
  EXPECT_NE(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &bytes), 0);  // really closed
}

}  // namespace
}  // namespace varve
