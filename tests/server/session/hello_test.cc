// Who may come in: a table of HELLOs and their refusals, the credential first.
#include "server/session/hello.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

ConstByteSpan view(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

wire::HelloView urgent() {
  wire::HelloView hello;
  hello.body.pull_credit_bytes = 64 * kMiB;
  return hello;
}

wire::HelloView bulk() {
  wire::HelloView hello;
  hello.body.lane = wire::LaneKind::kBulk;
  hello.body.session = 5;
  return hello;
}

TEST(Hello, LoopbackNeedsNoTokenWhenNoneIsSet) {
  EXPECT_TRUE(check_hello(urgent(), {}, PeerPlace::kLoopback).ok());
  EXPECT_TRUE(check_hello(bulk(), {}, PeerPlace::kLoopback).ok());
  EXPECT_EQ(check_hello(urgent(), {}, PeerPlace::kElsewhere).code(), Code::kUnauthorized);
}

TEST(Hello, ATokenIsNeededEverywhereOnceItIsSet) {
  SessionOptions options;
  options.token = "a long enough token";
  const std::string wrong = "a long enough tokeN", longer = options.token + "x";
  wire::HelloView hello = urgent();
  for (const PeerPlace place : {PeerPlace::kLoopback, PeerPlace::kElsewhere}) {
    hello.token = {};
    EXPECT_EQ(check_hello(hello, options, place).code(), Code::kUnauthorized);
    hello.token = view(wrong);
    EXPECT_EQ(check_hello(hello, options, place).code(), Code::kUnauthorized);
    hello.token = view(longer);
    EXPECT_EQ(check_hello(hello, options, place).code(), Code::kUnauthorized);
    hello.token = view(options.token);
    EXPECT_TRUE(check_hello(hello, options, place).ok());
  }
}

TEST(Hello, AStrangerLearnsNothingButThatHeIsOne) {
  SessionOptions options;
  options.token = "a long enough token";
  wire::HelloView hello = urgent();
  hello.body.version_min = hello.body.version_max = 9;
  hello.body.pull_credit_bytes = 0;
  EXPECT_EQ(check_hello(hello, options, PeerPlace::kLoopback).code(), Code::kUnauthorized);
}

TEST(Hello, VersionsMustOverlap) {
  wire::HelloView hello = urgent();
  hello.body.version_min = 2;
  hello.body.version_max = 3;
  EXPECT_EQ(check_hello(hello, {}, PeerPlace::kLoopback).code(), Code::kUnsupported);
  hello.body.version_min = 1;
  EXPECT_TRUE(check_hello(hello, {}, PeerPlace::kLoopback).ok());
}

TEST(Hello, AVersionMismatchNamesBothSides) {
  const std::string text = version_text(2, 3);
  EXPECT_NE(text.find("server speaks version 1 "), std::string::npos) << text;
  EXPECT_NE(text.find("client 2 to 3"), std::string::npos) << text;
  EXPECT_LE(version_text(65535, 65535).size(), wire::kTextBytesMax);
}

TEST(Hello, LanesSayWhatTheyAre) {
  wire::HelloView nameless = bulk();
  nameless.body.session = 0;
  EXPECT_EQ(check_hello(nameless, {}, PeerPlace::kLoopback).code(), Code::kInvalid);
  wire::HelloView fifth = bulk();
  fifth.body.lane_index = 4;
  EXPECT_EQ(check_hello(fifth, {}, PeerPlace::kLoopback).code(), Code::kInvalid);
  wire::HelloView claiming = urgent();
  claiming.body.session = 7;
  EXPECT_EQ(check_hello(claiming, {}, PeerPlace::kLoopback).code(), Code::kInvalid);
}

TEST(Hello, CreditBelowOneWindowIsRefused) {
  wire::HelloView hello = urgent();
  hello.body.pull_credit_bytes = 4 * kMiB - 1;
  EXPECT_EQ(check_hello(hello, {}, PeerPlace::kLoopback).code(), Code::kInvalid);
  hello.body.pull_credit_bytes = 4 * kMiB;
  EXPECT_TRUE(check_hello(hello, {}, PeerPlace::kLoopback).ok());
}

TEST(Hello, NamesInTheLogAreTame) {
  EXPECT_EQ(printable_name("worker-1"), "worker-1");
  EXPECT_EQ(printable_name("a\n\x1b[31mb"), "a??[31mb");
  EXPECT_EQ(printable_name(std::string(300, 'x')).size(), 64u);
}

}  // namespace
}  // namespace varve
