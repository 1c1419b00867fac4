// Goal: a name is looked up when it is due and not before, its numbers have their turns, and a
// failure takes nothing away. Method: an Endpoint and times that are numbers.
#include "client/endpoint.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

using Numbers = std::vector<std::string>;

ClientOptions named() {
  ClientOptions options;
  options.address = "varve.test:7440";
  options.lookup_ns_min = 10 * kSecond;
  return options;
}

TEST(Endpoint, AnAddressThatIsANumberIsNeverLookedUp) {
  Endpoint endpoint(ClientOptions(), Names::kAsGiven);
  EXPECT_FALSE(endpoint.begin_lookup(0));
  EXPECT_FALSE(endpoint.begin_lookup(1000 * kSecond));
  ASSERT_TRUE(endpoint.known());
  EXPECT_EQ(endpoint.number(), "127.0.0.1:7440");
  endpoint.begin_round();
  EXPECT_FALSE(endpoint.next());
  EXPECT_EQ(endpoint.number(), "127.0.0.1:7440");
}

TEST(Endpoint, LookupsAreOneAtATimeAndNotTooOften) {
  Endpoint endpoint(named(), Names::kLookedUp);
  EXPECT_FALSE(endpoint.known());
  EXPECT_TRUE(endpoint.begin_lookup(0));
  EXPECT_EQ(endpoint.failure().code(), Code::kUnavailable) << "for as long as there is no answer";
  EXPECT_FALSE(endpoint.begin_lookup(100 * kSecond)) << "one is under way";
  EXPECT_TRUE(endpoint.on_looked_up(Numbers{"10.0.0.1:7440"}, 100 * kSecond));
  EXPECT_TRUE(endpoint.failure().ok());
  EXPECT_FALSE(endpoint.begin_lookup(110 * kSecond - 1)) << "since its answer";
  EXPECT_TRUE(endpoint.begin_lookup(110 * kSecond));
  EXPECT_FALSE(endpoint.on_looked_up(Numbers{"10.0.0.1:7440"}, 110 * kSecond)) << "no news";
}

TEST(Endpoint, AFailureTakesNoNumberAway) {
  Endpoint endpoint(named(), Names::kLookedUp);
  ASSERT_TRUE(endpoint.begin_lookup(0));
  EXPECT_FALSE(endpoint.on_looked_up(Status::unavailable("by script"), 0));
  EXPECT_FALSE(endpoint.known());
  EXPECT_STREQ(endpoint.failure().what(), "by script");
  ASSERT_TRUE(endpoint.begin_lookup(10 * kSecond));
  EXPECT_TRUE(endpoint.on_looked_up(Numbers{"10.0.0.1:7440"}, 10 * kSecond));
  ASSERT_TRUE(endpoint.begin_lookup(20 * kSecond));
  EXPECT_FALSE(endpoint.on_looked_up(Status::unavailable("by script"), 20 * kSecond));
  ASSERT_TRUE(endpoint.known());
  EXPECT_EQ(endpoint.number(), "10.0.0.1:7440");
  EXPECT_FALSE(endpoint.failure().ok());
  ASSERT_TRUE(endpoint.begin_lookup(30 * kSecond));
  EXPECT_FALSE(endpoint.on_looked_up(Numbers{}, 30 * kSecond)) << "an answer without a number";
  EXPECT_TRUE(endpoint.known());
}

TEST(Endpoint, EachNumberHasOneTurnInARound) {
  Endpoint endpoint(named(), Names::kLookedUp);
  ASSERT_TRUE(endpoint.begin_lookup(0));
  ASSERT_TRUE(endpoint.on_looked_up(Numbers{"a:1", "b:1", "c:1"}, 0));
  for (int round = 0; round < 2; ++round) {
    endpoint.begin_round();
    EXPECT_EQ(endpoint.number(), "a:1");
    EXPECT_TRUE(endpoint.next());
    EXPECT_EQ(endpoint.number(), "b:1");
    EXPECT_TRUE(endpoint.next());
    EXPECT_EQ(endpoint.number(), "c:1");
    EXPECT_FALSE(endpoint.next());
  }
  // Expect: the one that worked last stays the first to be tried, wherever it stands in a new list.
  endpoint.begin_round();
  ASSERT_TRUE(endpoint.next());
  ASSERT_TRUE(endpoint.begin_lookup(10 * kSecond));
  EXPECT_TRUE(endpoint.on_looked_up(Numbers{"d:1", "b:1"}, 10 * kSecond));
  EXPECT_EQ(endpoint.number(), "b:1");
  ASSERT_TRUE(endpoint.begin_lookup(20 * kSecond));
  EXPECT_TRUE(endpoint.on_looked_up(Numbers{"d:1", "e:1"}, 20 * kSecond));
  EXPECT_EQ(endpoint.number(), "d:1");
}

}  // namespace
}  // namespace varve
