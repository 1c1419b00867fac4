// Goal: a daemon that does not answer costs matches nothing but a probe now and then, and is
// believed again with its first answer. Method: the rule by hand with numbers for a clock; then a
// core whose daemon goes silent, in virtual time.
#include "client/breaker.h"

#include <gtest/gtest.h>

#include "tests/client/client_rig.h"

namespace varve {
namespace {

Event ended(Event::Kind kind, Code code) {
  Event event;
  event.kind = kind;
  event.status = Status(code, "");
  return event;
}
using Kind = Event::Kind;

TEST(BreakerTest, OpensAfterFailuresInARowAndLetsAProbeThrough) {
  Breaker breaker(3, 100);
  for (const Code code : {Code::kTimedOut, Code::kUnavailable}) {
    EXPECT_TRUE(breaker.admit(0));
    breaker.on_end(ended(Kind::kMatched, code), 0);
  }
  EXPECT_FALSE(breaker.is_open());
  breaker.on_end(ended(Kind::kPulled, Code::kTimedOut), 10);
  EXPECT_TRUE(breaker.is_open());
  EXPECT_EQ(breaker.opens(), 1u);
  // Expect: nothing for one interval, then one, then nothing for another.
  EXPECT_FALSE(breaker.admit(10));
  EXPECT_FALSE(breaker.admit(109));
  EXPECT_TRUE(breaker.admit(110));
  EXPECT_FALSE(breaker.admit(111));
  breaker.on_end(ended(Kind::kMatched, Code::kTimedOut), 150);
  EXPECT_FALSE(breaker.admit(209));
  EXPECT_TRUE(breaker.admit(210));
  EXPECT_EQ(breaker.answers(), 4u);
  EXPECT_EQ(breaker.probes(), 2u);
  EXPECT_EQ(breaker.opens(), 1u);
  // Expect: any answer closes it, a refusal too.
  breaker.on_end(ended(Kind::kMatched, Code::kOverloaded), 220);
  EXPECT_FALSE(breaker.is_open());
  EXPECT_TRUE(breaker.admit(221));
}

TEST(BreakerTest, AnAnswerInBetweenBeginsTheCountAnew) {
  Breaker breaker(2, 100);
  for (int i = 0; i < 5; ++i) {
    breaker.on_end(ended(Kind::kMatched, Code::kTimedOut), 0);
    breaker.on_end(ended(Kind::kPushed, Code::kOk), 0);
  }
  EXPECT_FALSE(breaker.is_open());
}

TEST(BreakerTest, WhatSaysNothingOfTheDaemonDoesNotCount) {
  Breaker breaker(1, 100);
  for (const Kind kind : {Kind::kFollowed, Kind::kRenewed, Kind::kPurged, Kind::kHolds})
    breaker.on_end(ended(kind, Code::kTimedOut), 0);
  breaker.on_end(ended(Kind::kMatched, Code::kCancelled), 0);
  // Its layers did not come, or a full node made no room.
  breaker.on_end(ended(Kind::kPushed, Code::kTimedOut), 0);
  EXPECT_FALSE(breaker.is_open());
  breaker.on_end(ended(Kind::kMatched, Code::kTimedOut), 0);
  breaker.on_end(ended(Kind::kMatched, Code::kCancelled), 0);
  EXPECT_TRUE(breaker.is_open());
}

TEST(BreakerTest, WithoutALimitItNeverOpens) {
  Breaker breaker(0, 100);
  for (int i = 0; i < 100; ++i)
    breaker.on_end(ended(Kind::kMatched, Code::kTimedOut), 0);
  EXPECT_TRUE(breaker.admit(0));
  EXPECT_EQ(breaker.opens(), 0u);
}

class BreakerRigTest : public testing::Test {
 protected:
  BreakerRigTest() : rig_({1000}, 1, options()) {}
  static RigOptions options() {
    RigOptions options;
    options.client = rig_client();
    options.client.breaker_failures = 3;
    return options;
  }
  Event match() {
    MatchRequest match;
    match.format = rig_.format_id;
    match.ids = ids_of(0, 1);
    match.deadline_ns = 100 * kMillisecond;
    return rig_.finish(*rig_.core->match(std::move(match)));
  }
  KvRig rig_;
};

TEST_F(BreakerRigTest, ASilentDaemonIsAskedOnceASecond) {
  rig_.put(0, 1);
  ASSERT_TRUE(rig_.ready());
  rig_.daemon->hook = [](const auto& r) { return r.type == Type::kMatch; };
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(match().status.code(), Code::kTimedOut);
  const Nanos opened = rig_.clock.now_ns();
  const size_t asked = rig_.daemon->count(Type::kMatch);
  for (int i = 0; i < 50; ++i) {
    const Event event = match();
    EXPECT_EQ(event.status.code(), Code::kUnavailable);
    EXPECT_NE(std::string(event.status.what()).find("breaker"), std::string::npos);
    EXPECT_EQ(event.n_blocks, 0u);
    EXPECT_LT(event.done_ns, kMillisecond);  // at once, in virtual time
  }
  EXPECT_EQ(rig_.daemon->count(Type::kMatch), asked);
  rig_.run_for(opened + kSecond - rig_.clock.now_ns());
  EXPECT_EQ(match().status.code(), Code::kTimedOut);  // the probe
  EXPECT_EQ(match().status.code(), Code::kUnavailable);
  EXPECT_EQ(rig_.daemon->count(Type::kMatch), asked + 1);
  rig_.daemon->hook = nullptr;
  EXPECT_EQ(match().status.code(), Code::kUnavailable);
  rig_.run_for(kSecond);
  EXPECT_EQ(match().n_blocks, 1u);
  EXPECT_EQ(match().n_blocks, 1u);
  EXPECT_EQ(rig_.core->counters().breaker_opens, 1u);
  EXPECT_EQ(rig_.core->counters().breaker_answers, 52u);
  EXPECT_EQ(rig_.core->counters().breaker_probes, 2u);
}

TEST_F(BreakerRigTest, ANewSessionClosesIt) {
  rig_.put(0, 1);
  ASSERT_TRUE(rig_.ready());
  rig_.daemon->hook = [](const auto& r) { return r.type == Type::kMatch; };
  for (int i = 0; i < 3; ++i)
    match();
  EXPECT_EQ(match().status.code(), Code::kUnavailable);
  rig_.daemon->hook = nullptr;
  rig_.daemon->close_lane(0);
  ASSERT_TRUE(rig_.run_until([&] { return rig_.core->counters().connects == 2; }));
  EXPECT_EQ(match().n_blocks, 1u);
}

TEST(BreakerTest, ABreakerThatNeverProbesIsRefused) {
  ManualClock clock;
  SimFabric fabric(1);
  SeededEntropy entropy(1);
  Env env{clock, entropy, fabric};
  Reactor reactor(clock, nullptr, ReactorOptions{});
  ClientOptions options;
  options.breaker_failures = 1;
  options.breaker_probe_ns = 0;
  EXPECT_EQ(ClientCore::open(env, reactor, options).error().code(), Code::kInvalid);
}

}  // namespace
}  // namespace varve
