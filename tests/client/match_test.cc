// Goal: a match answers the longest prefix over all batches, a miss with its reason when it cannot,
// and no lease is ever left behind. Method: the rig with a store; answers by script for what a
// daemon should not say.
#include "client/match.h"

#include <gtest/gtest.h>

#include "tests/client/client_rig.h"

namespace varve {
namespace {

class MatchTest : public testing::Test {
 protected:
  explicit MatchTest(RigOptions options = {}) : rig_({1000, 2000}, 1, std::move(options)) {}
  MatchRequest request(uint32_t first, uint32_t count, uint32_t lease_ms = 0) {
    MatchRequest match;
    match.format = rig_.format_id;
    match.ids = ids_of(first, count);
    match.lease_ms = lease_ms;
    match.tag = 99;
    return match;
  }
  Event match(uint32_t first, uint32_t count, uint32_t lease_ms = 0) {
    return rig_.finish(*rig_.core->match(request(first, count, lease_ms)));
  }
  KvRig rig_;
};

TEST_F(MatchTest, AnswersTheLeadingBlocksThatAreThere) {
  rig_.put(0, 3);
  rig_.put(4, 1);
  const Event event = match(0, 6);
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.kind, Event::Kind::kMatched);
  EXPECT_EQ(event.tag, 99u);
  EXPECT_EQ(event.n_blocks, 3u);
  EXPECT_EQ(event.tiers.size(), 3u);
  EXPECT_EQ(event.lease, 0u);
  EXPECT_GT(event.done_ns, 0u);
  EXPECT_EQ(rig_.core->counters().matches, 1u);
  EXPECT_EQ(rig_.core->counters().match_ids, 6u);
  EXPECT_EQ(rig_.core->counters().hit_ids, 3u);
}

TEST_F(MatchTest, ALongPrefixGoesInBatches) {
  rig_.put(0, 5000);
  const Event event = match(0, 5000, 1000);
  EXPECT_EQ(event.n_blocks, 5000u);
  EXPECT_EQ(event.tiers.size(), 5000u);
  EXPECT_EQ(rig_.daemon->count(Type::kMatch), 3u);
  EXPECT_EQ(rig_.daemon->leases().size(), 3u);
  // Expect: one lease of ours stands for the three of the daemon's.
  rig_.core->release(event.lease);
  EXPECT_TRUE(rig_.run_until([&] { return rig_.daemon->leases().empty(); }));
}

TEST_F(MatchTest, BatchesStopAtTheFirstGap) {
  rig_.put(0, 3000);
  EXPECT_EQ(match(0, 6000).n_blocks, 3000u);
  EXPECT_EQ(rig_.daemon->count(Type::kMatch), 2u);
  EXPECT_EQ(match(3000, 5000).n_blocks, 0u);
  EXPECT_EQ(rig_.daemon->count(Type::kMatch), 3u);
}

TEST_F(MatchTest, ALeaseEndsNoLaterThanTheDaemonThinks) {
  rig_.put(0, 1);
  const Event event = match(0, 1, 500);
  EXPECT_NE(event.lease, 0u);
  EXPECT_GT(event.lease_ns, 490 * kMillisecond);
  EXPECT_LT(event.lease_ns, 500 * kMillisecond);  // the way there and back
}

TEST_F(MatchTest, APullUnderALeaseNamesThePartThatCoversIt) {
  rig_.put(0, 2050);
  const Event event = match(0, 2050, 1000);
  ASSERT_EQ(event.n_blocks, 2050u);
  for (const auto& [first, lease] : {std::pair(0u, 1u), std::pair(2049u, 2u)}) {
    PullRequest pull = rig_.pull_of(ids_of(first, 1));
    pull.lease = event.lease;
    EXPECT_TRUE(rig_.finish(*rig_.core->pull(pull)).status.ok());
    const auto frame = rig_.daemon->last(Type::kPull)->frame();
    const auto& body = std::get<wire::PullView>(frame.body).body;
    EXPECT_EQ(body.lease, lease);
    EXPECT_EQ(body.boot_id, 1u);
  }
}

// No one lease of the daemon covers both: refused loudly instead of covering the first half only.
TEST_F(MatchTest, APullOverSeveralBatchesOfALeaseIsRefused) {
  rig_.put(0, 2050);
  const Event event = match(0, 2050, 1000);
  ASSERT_EQ(event.n_blocks, 2050u);
  PullRequest pull = rig_.pull_of(ids_of(2047, 2));
  pull.slots = {0, 0};
  pull.lease = event.lease;
  const Event pulled = rig_.finish(*rig_.core->pull(pull));
  EXPECT_EQ(pulled.status.code(), Code::kInvalid);
  EXPECT_EQ(rig_.daemon->count(Type::kPull), 0u);
}

TEST_F(MatchTest, RecoveringIsSaidWithTheMiss) {
  rig_.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kMatch) return false;
    wire::Matched nothing;
    nothing.recovering = 1;
    rig_.daemon->send(0, rig_.daemon->encoder().matched(r.op, nothing, {}));
    return true;
  };
  const Event event = match(0, 3);
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.n_blocks, 0u);
  EXPECT_TRUE(event.recovering);
}

TEST_F(MatchTest, AnExpiredOrLostLeaseIsSaidBeforeAnythingIsAsked) {
  rig_.put(0, 1);
  PullRequest pull = rig_.pull_of(ids_of(0, 1));
  pull.lease = match(0, 1, 100).lease;
  rig_.run_for(200 * kMillisecond);
  EXPECT_EQ(rig_.finish(*rig_.core->pull(pull)).status.code(), Code::kTimedOut);
  pull.lease = match(0, 1, 60000).lease;
  rig_.daemon->close_lane(0);
  ASSERT_TRUE(rig_.run_until([&] { return rig_.core->counters().disconnects == 1; }));
  ASSERT_TRUE(rig_.ready());
  EXPECT_EQ(rig_.finish(*rig_.core->pull(pull)).status.code(), Code::kTimedOut);
  EXPECT_EQ(rig_.daemon->count(Type::kPull), 0u);
  rig_.core->release(pull.lease);
}

TEST_F(MatchTest, ADaemonKnownToBeDownIsAMissAtOnce) {
  ASSERT_TRUE(rig_.ready());
  rig_.stop_daemon();
  ASSERT_TRUE(rig_.run_until([&] { return rig_.core->state() == SessionState::kWaiting; }));
  const Nanos from = rig_.clock.now_ns();
  const Event event = match(0, 3);
  EXPECT_EQ(event.status.code(), Code::kUnavailable);
  EXPECT_EQ(event.n_blocks, 0u);
  EXPECT_LT(rig_.clock.now_ns() - from, 10 * kMillisecond);
}

TEST_F(MatchTest, AMatchLostUnderWayIsAskedOnceMore) {
  rig_.put(0, 3000);
  uint32_t asked = 0;
  rig_.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kMatch || ++asked != 2) return false;
    rig_.daemon->close_lane(0);
    return true;
  };
  const Event event = match(0, 3000, 1000);
  EXPECT_TRUE(event.status.ok()) << event.status.what();
  EXPECT_EQ(event.n_blocks, 3000u);
  EXPECT_EQ(event.tiers.size(), 3000u);  // counted once
  EXPECT_EQ(asked, 4u);                  // from the start again
  EXPECT_EQ(rig_.core->counters().disconnects, 1u);
  // Expect: the lease is of this session alone; what the lost one promised is not released here.
  rig_.core->release(event.lease);
  rig_.run_for(kMillisecond);
  EXPECT_EQ(rig_.daemon->count(Type::kRelease), 2u);
}

TEST_F(MatchTest, ASecondLossIsTheEnd) {
  rig_.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kMatch) return false;
    rig_.daemon->close_lane(0);
    return true;
  };
  EXPECT_EQ(match(0, 1).status.code(), Code::kUnavailable);
  EXPECT_EQ(rig_.daemon->count(Type::kMatch), 2u);
}

TEST_F(MatchTest, ALostMatchEndsWhenTheDaemonDoesNotComeBack) {
  rig_.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kMatch) return false;
    rig_.daemon->stop();
    return true;
  };
  const Nanos from = rig_.clock.now_ns();
  EXPECT_EQ(match(0, 1).status.code(), Code::kUnavailable);
  EXPECT_LT(rig_.clock.now_ns() - from, 200 * kMillisecond);  // not the deadline
}

TEST_F(MatchTest, TheDeadlineEndsItAndTheLateLeaseGoesBack) {
  rig_.put(0, 1);
  ASSERT_TRUE(rig_.ready());
  std::vector<ScriptedDaemon::Received> late;
  rig_.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kMatch) return false;
    late.push_back(r);
    return true;
  };
  MatchRequest ask = request(0, 1, 60000);
  ask.deadline_ns = 50 * kMillisecond;
  const Event event = rig_.finish(*rig_.core->match(ask));
  EXPECT_EQ(event.status.code(), Code::kTimedOut);
  EXPECT_EQ(rig_.core->counters().timeouts, 1u);
  wire::Matched matched;
  matched.lease = 5;
  matched.lease_ms = 60000;
  const wire::TierKind tier[] = {wire::TierKind::kDram};
  rig_.daemon->send(0, rig_.daemon->encoder().matched(late.at(0).op, matched, tier));
  ASSERT_TRUE(rig_.run_until([&] { return rig_.saw(Type::kRelease); }, kSecond));
  const auto frame = rig_.daemon->last(Type::kRelease)->frame();
  EXPECT_EQ(std::get<wire::ReleaseView>(frame.body).body.lease, 5u);
  EXPECT_TRUE(rig_.core->at_rest());
}

TEST_F(MatchTest, AFailedSecondBatchGivesTheFirstLeaseBack) {
  rig_.put(0, 3000);
  rig_.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kMatch || rig_.daemon->count(Type::kMatch) < 2) return false;
    wire::Matched no;
    no.code = static_cast<uint8_t>(Code::kOverloaded);
    rig_.daemon->send(0, rig_.daemon->encoder().matched(r.op, no, {}));
    return true;
  };
  const Event event = match(0, 3000, 1000);
  EXPECT_EQ(event.status.code(), Code::kOverloaded);
  EXPECT_EQ(event.n_blocks, 0u);
  EXPECT_TRUE(event.tiers.empty());
  EXPECT_EQ(event.lease, 0u);
  EXPECT_TRUE(rig_.run_until([&] { return rig_.daemon->leases().empty(); }, kSecond));
}

TEST_F(MatchTest, MoreBlocksThanAskedIsNoAnswer) {
  rig_.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kMatch) return false;
    const std::vector<wire::TierKind> tiers(7, wire::TierKind::kDram);
    wire::Matched matched;
    matched.n_blocks = 7;
    rig_.daemon->send(0, rig_.daemon->encoder().matched(r.op, matched, tiers));
    return true;
  };
  const Event event = match(0, 6);
  EXPECT_EQ(event.status.code(), Code::kInvalid);
  EXPECT_EQ(event.n_blocks, 0u);
}

TEST_F(MatchTest, CancelEndsItAtAnyStep) {
  rig_.put(0, 3000);
  for (uint32_t steps = 0; steps < 60; ++steps) {
    SCOPED_TRACE(steps);
    const OpId op = *rig_.core->match(request(0, 3000, 60000));
    for (uint32_t i = 0; i < steps; ++i)
      rig_.step();
    rig_.core->cancel(op);
    const Event event = rig_.finish(op, kSecond);
    if (event.status.ok()) {
      rig_.core->release(event.lease);
    } else {
      EXPECT_EQ(event.status.code(), Code::kCancelled);
      EXPECT_EQ(event.lease, 0u);
    }
    ASSERT_TRUE(rig_.run_until([&] { return rig_.core->at_rest(); }, kSecond));
    rig_.run_for(5 * kMillisecond);
    EXPECT_TRUE(rig_.daemon->leases().empty());
  }
}

TEST_F(MatchTest, ADisconnectAtAnyStepEndsInAnAnswer) {
  rig_.put(0, 3000);
  for (uint32_t steps = 0; steps < 60; ++steps) {
    SCOPED_TRACE(steps);
    ASSERT_TRUE(rig_.ready());
    const OpId op = *rig_.core->match(request(0, 3000, 60000));
    for (uint32_t i = 0; i < steps; ++i)
      rig_.step();
    rig_.fabric.break_all();
    const Event event = rig_.finish(op, 2 * kSecond);
    if (event.status.ok()) {
      EXPECT_EQ(event.n_blocks, 3000u);
      EXPECT_EQ(event.tiers.size(), 3000u);
    } else {
      EXPECT_EQ(event.status.code(), Code::kUnavailable);
      EXPECT_EQ(event.n_blocks, 0u);
    }
    rig_.core->release(event.lease);
  }
}

TEST_F(MatchTest, OfEachIdItIsSaidWhereverItStands) {
  rig_.put(1, 3);
  rig_.put(5, 1);
  rig_.put(8, 1);
  MatchRequest each = request(0, 9);
  each.of = MatchOf::kEach;
  const Event event = rig_.finish(*rig_.core->match(std::move(each)));
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.n_blocks, 5u);
  constexpr Code kMiss = Code::kUnavailable;
  EXPECT_EQ(event.codes, (std::vector<Code>{kMiss, Code::kOk, Code::kOk, Code::kOk, kMiss,
                                            Code::kOk, kMiss, kMiss, Code::kOk}));
  using wire::TierKind;
  EXPECT_EQ(event.tiers,
            (std::vector<TierKind>{TierKind::kNone, TierKind::kDram, TierKind::kDram,
                                   TierKind::kDram, TierKind::kNone, TierKind::kDram,
                                   TierKind::kNone, TierKind::kNone, TierKind::kDram}));
  EXPECT_EQ(rig_.daemon->count(Type::kMatch), 1u);
  EXPECT_EQ(rig_.core->counters().hit_ids, 5u);
}

// A round trip for each that is missing made a cold look-up of a few hundred ids time out.
TEST_F(MatchTest, OfEachIdOneRequestAnswersWhatIsMissing) {
  rig_.put(5000, 1);
  MatchRequest each = request(0, 5001);
  each.of = MatchOf::kEach;
  const Event event = rig_.finish(*rig_.core->match(std::move(each)));
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.n_blocks, 1u);
  ASSERT_EQ(event.codes.size(), 5001u);
  EXPECT_EQ(event.codes[5000], Code::kOk);
  EXPECT_EQ(rig_.daemon->count(Type::kMatch), 3u) << "2048 ids each";
}

TEST_F(MatchTest, OfEachIdAnAnswerThatLeavesSomeOutIsNone) {
  rig_.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kMatch) return false;
    const std::vector<wire::TierKind> tiers(2, wire::TierKind::kDram);
    rig_.daemon->send(0, rig_.daemon->encoder().matched(r.op, {}, tiers));
    return true;
  };
  MatchRequest each = request(0, 3);
  each.of = MatchOf::kEach;
  const Event event = rig_.finish(*rig_.core->match(std::move(each)));
  EXPECT_EQ(event.status.code(), Code::kInvalid);
  EXPECT_EQ(event.codes, std::vector<Code>(3, Code::kInvalid));
}

TEST_F(MatchTest, OfEachIdTheReasonIsSaidWhenThereIsNoAnswer) {
  ASSERT_TRUE(rig_.ready());
  rig_.daemon->hook = [](const auto& r) { return r.type == Type::kMatch; };
  MatchRequest each = request(0, 3);
  each.of = MatchOf::kEach;
  const Event event = rig_.finish(*rig_.core->match(std::move(each)));
  EXPECT_EQ(event.status.code(), Code::kTimedOut);
  EXPECT_EQ(event.codes, std::vector<Code>(3, Code::kTimedOut));
}

TEST_F(MatchTest, OfEachIdThereIsNoLease) {
  MatchRequest each = request(0, 2, 1000);
  each.of = MatchOf::kEach;
  EXPECT_EQ(rig_.core->match(std::move(each)).error().code(), Code::kInvalid);
}

class OldDaemonTest : public MatchTest {
 protected:
  static RigOptions options() {
    RigOptions options;
    options.daemon.features = wire::kFeatureCore;
    return options;
  }
  OldDaemonTest() : MatchTest(options()) {}
};

TEST_F(OldDaemonTest, OneThatKnowsPrefixesOnlyIsNotAskedOfEach) {
  rig_.put(0, 2);
  MatchRequest each = request(0, 2);
  each.of = MatchOf::kEach;
  const Event event = rig_.finish(*rig_.core->match(std::move(each)));
  EXPECT_EQ(event.status.code(), Code::kUnsupported);
  EXPECT_EQ(event.codes, std::vector<Code>(2, Code::kUnsupported));
  EXPECT_EQ(rig_.daemon->count(Type::kMatch), 0u);
  EXPECT_EQ(match(0, 2).n_blocks, 2u);
}

}  // namespace
}  // namespace varve
