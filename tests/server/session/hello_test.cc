// Who may come in: a table of HELLOs and their refusals, the credential first.
#include "server/session/hello.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

ConstByteSpan view(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

constexpr uint64_t kCreditMin = 4 * kMiB;

Domains with_token(const std::string& token) {
  return Domains({}, token);
}

// kOk: it comes in.
Code code_of(const wire::HelloView& hello, const Domains& domains = {},
             PeerPlace place = PeerPlace::kLoopback) {
  const Result<uint32_t> checked = check_hello(hello, domains, kCreditMin, place);
  return checked ? Code::kOk : checked.error().code();
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
  EXPECT_EQ(code_of(urgent()), Code::kOk);
  EXPECT_EQ(code_of(bulk()), Code::kOk);
  EXPECT_EQ(code_of(urgent(), {}, PeerPlace::kElsewhere), Code::kUnauthorized);
}

TEST(Hello, ATokenIsNeededEverywhereOnceItIsSet) {
  const std::string right = "a long enough token", wrong = "a long enough tokeN";
  const std::string longer = right + "x", shorter = right.substr(1);
  const Domains domains = with_token(right);
  wire::HelloView hello = urgent();
  for (const PeerPlace place : {PeerPlace::kLoopback, PeerPlace::kElsewhere}) {
    hello.token = {};
    EXPECT_EQ(code_of(hello, domains, place), Code::kUnauthorized);
    for (const std::string& other : {wrong, longer, shorter}) {
      hello.token = view(other);
      EXPECT_EQ(code_of(hello, domains, place), Code::kUnauthorized);
    }
    hello.token = view(right);
    EXPECT_EQ(code_of(hello, domains, place), Code::kOk);
  }
}

TEST(Hello, TheTokenSaysTheDomain) {
  Domains domains = with_token("a long enough token");
  ASSERT_TRUE(domains.add("team-a", {{{std::byte{1}}}, "token of team a"}, 1).ok());
  ASSERT_TRUE(domains.add("team-b", {{{std::byte{2}}}, "token of team b"}, 1).ok());
  wire::HelloView hello = urgent();
  const auto domain_of = [&](const std::string& token) {
    hello.token = view(token);
    return *check_hello(hello, domains, kCreditMin, PeerPlace::kElsewhere);
  };
  EXPECT_EQ(domain_of("a long enough token"), kDomainDefault);
  EXPECT_EQ(domain_of("token of team a"), 2u);
  EXPECT_EQ(domain_of("token of team b"), 3u);
  ASSERT_TRUE(domains.drop("team-a").ok());
  const std::string dropped = "token of team a";
  hello.token = view(dropped);
  EXPECT_EQ(code_of(hello, domains), Code::kUnauthorized);
}

// Beyond loopback a node without a token of its own serves nobody, whoever's token he has.
TEST(Hello, ATokenOfADomainDoesNotOpenANodeWithoutOne) {
  Domains domains;
  ASSERT_TRUE(domains.add("team-a", {{{std::byte{1}}}, "token of team a"}, 1).ok());
  const std::string token = "token of team a";
  wire::HelloView hello = urgent();
  hello.token = view(token);
  EXPECT_EQ(code_of(hello, domains, PeerPlace::kElsewhere), Code::kUnauthorized);
  EXPECT_EQ(code_of(hello, domains, PeerPlace::kLoopback), Code::kOk);
}

TEST(Hello, AStrangerLearnsNothingButThatHeIsOne) {
  wire::HelloView hello = urgent();
  hello.body.version_min = hello.body.version_max = 9;
  hello.body.pull_credit_bytes = 0;
  EXPECT_EQ(code_of(hello, with_token("a long enough token")), Code::kUnauthorized);
}

TEST(Hello, VersionsMustOverlap) {
  wire::HelloView hello = urgent();
  hello.body.version_min = 2;
  hello.body.version_max = 3;
  EXPECT_EQ(code_of(hello), Code::kUnsupported);
  hello.body.version_min = 1;
  EXPECT_EQ(code_of(hello), Code::kOk);
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
  EXPECT_EQ(code_of(nameless), Code::kInvalid);
  wire::HelloView fifth = bulk();
  fifth.body.lane_index = 4;
  EXPECT_EQ(code_of(fifth), Code::kInvalid);
  wire::HelloView claiming = urgent();
  claiming.body.session = 7;
  EXPECT_EQ(code_of(claiming), Code::kInvalid);
}

TEST(Hello, CreditBelowOneWindowIsRefused) {
  wire::HelloView hello = urgent();
  hello.body.pull_credit_bytes = kCreditMin - 1;
  EXPECT_EQ(code_of(hello), Code::kInvalid);
  hello.body.pull_credit_bytes = kCreditMin;
  EXPECT_EQ(code_of(hello), Code::kOk);
}

TEST(Hello, NamesInTheLogAreTame) {
  EXPECT_EQ(printable_name("worker-1"), "worker-1");
  EXPECT_EQ(printable_name("a\n\x1b[31mb"), "a??[31mb");
  EXPECT_EQ(printable_name(std::string(300, 'x')).size(), 64u);
}

}  // namespace
}  // namespace varve
