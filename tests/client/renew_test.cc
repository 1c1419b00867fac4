// Goal: a lease ends here no later than at the daemon (L1), lasts as long as it is asked for or
// while a pull needs it, and one RENEW of it is under way at a time (L2). Method: the rig with
// leases that the daemon keeps until the test ends them; RENEWED held back or refused by script.
#include "client/renew.h"

#include <gtest/gtest.h>

#include "tests/client/client_rig.h"

namespace varve {
namespace {

class RenewTest : public testing::Test {
 protected:
  explicit RenewTest(RigOptions options = {}) : rig_({1000, 2000}, 1, std::move(options)) {}
  uint64_t lease_of(uint32_t count, uint32_t lease_ms) {
    rig_.put(0, count);
    MatchRequest match;
    match.format = rig_.format_id;
    match.ids = ids_of(0, count);
    match.lease_ms = lease_ms;
    const Event event = rig_.finish(*rig_.core->match(match));
    EXPECT_NE(event.lease, 0u);
    return event.lease;
  }
  OpId begin(uint64_t lease, uint32_t lease_ms, Nanos deadline_ns = kSecond) {
    return *rig_.core->renew({lease, lease_ms, deadline_ns, 7});
  }
  Event renew(uint64_t lease, uint32_t lease_ms, Nanos deadline_ns = kSecond) {
    return rig_.finish(begin(lease, lease_ms, deadline_ns));
  }
  PullRequest pull_under(uint64_t lease) {
    PullRequest pull = rig_.pull_of(ids_of(0, 1));
    pull.lease = lease;
    return pull;
  }
  uint64_t lease_of_last_pull() {
    const auto frame = rig_.daemon->last(Type::kPull)->frame();
    return std::get<wire::PullView>(frame.body).body.lease;
  }
  void answer(uint64_t op, Code code, uint32_t lease_ms) {
    wire::Renewed renewed;
    renewed.code = static_cast<uint8_t>(code);
    renewed.lease_ms = lease_ms;
    rig_.daemon->send(0, rig_.daemon->encoder().renewed(op, renewed));
  }
  // RENEW frames stay unanswered and are collected.
  void hold_renewals() {
    rig_.daemon->hook = [this](const auto& r) {
      if (r.type == Type::kRenew) held_.push_back(r.op);
      return r.type == Type::kRenew;
    };
  }
  Nanos left(uint64_t lease) const { return rig_.core->lease_left_ns(lease); }
  const ClientCounters& counts() const { return rig_.core->counters(); }

  KvRig rig_;
  std::vector<uint64_t> held_;
};

TEST_F(RenewTest, ALeaseLastsFromTheRenewalOn) {
  const uint64_t lease = lease_of(1, 500);
  rig_.run_for(300 * kMillisecond);
  const Event event = renew(lease, 2000);
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.kind, Event::Kind::kRenewed);
  EXPECT_EQ(event.tag, 7u);
  EXPECT_EQ(event.lease, lease);
  EXPECT_GT(event.lease_ns, 1990 * kMillisecond);
  EXPECT_LT(event.lease_ns, 2000 * kMillisecond);  // counted from the question
  rig_.run_for(1500 * kMillisecond);
  EXPECT_TRUE(rig_.finish(*rig_.core->pull(pull_under(lease))).status.ok());
  EXPECT_NE(lease_of_last_pull(), 0u);
  EXPECT_EQ(counts().renewed_leases, 1u);
}

TEST_F(RenewTest, SoonerThanBefore) {
  const uint64_t lease = lease_of(1, 10000);
  EXPECT_TRUE(renew(lease, 100).status.ok());
  EXPECT_LE(left(lease), 100 * kMillisecond);
  rig_.run_for(150 * kMillisecond);
  EXPECT_EQ(left(lease), 0u);
  const Event event = rig_.finish(*rig_.core->pull(pull_under(lease)));
  EXPECT_EQ(event.status.code(), Code::kTimedOut);
  EXPECT_EQ(rig_.daemon->count(Type::kPull), 0u);
  EXPECT_EQ(counts().lapsed_leases, 1u);
}

TEST_F(RenewTest, TheDaemonCapsIt) {
  rig_.daemon->options().lease_ms_max = 300;
  const uint64_t lease = lease_of(1, 300);
  const Event event = renew(lease, 5000);
  EXPECT_TRUE(event.status.ok());
  EXPECT_LT(event.lease_ns, 300 * kMillisecond);
  // Expect: one that promises more than was asked is not believed.
  hold_renewals();
  const OpId op = begin(lease, 200);
  ASSERT_TRUE(rig_.run_until([&] { return held_.size() == 1; }));
  answer(held_[0], Code::kOk, 90000);
  EXPECT_LT(rig_.finish(op).lease_ns, 200 * kMillisecond);
}

TEST_F(RenewTest, EveryBatchOfItsMatchIsRenewed) {
  const uint64_t lease = lease_of(2050, 500);
  EXPECT_TRUE(renew(lease, 3000).status.ok());
  EXPECT_EQ(rig_.daemon->count(Type::kRenew), 2u);
  // Expect: the shortest of them counts.
  hold_renewals();
  const OpId op = begin(lease, 3000);
  ASSERT_TRUE(rig_.run_until([&] { return held_.size() == 2; }));
  answer(held_[0], Code::kOk, 700);
  answer(held_[1], Code::kOk, 3000);
  EXPECT_LT(rig_.finish(op).lease_ns, 700 * kMillisecond);
}

TEST_F(RenewTest, OnePartThatIsOverEndsAll) {
  const uint64_t lease = lease_of(2050, 5000);
  rig_.daemon->leases().erase(2);
  const Event event = renew(lease, 5000);
  EXPECT_EQ(event.status.code(), Code::kTimedOut);
  EXPECT_EQ(event.lease_ns, 0u);
  EXPECT_EQ(left(lease), 0u);
  EXPECT_EQ(counts().lapsed_leases, 1u);
  // Expect: the other part is given back.
  EXPECT_TRUE(rig_.run_until([&] { return rig_.daemon->leases().empty(); }));
}

TEST_F(RenewTest, WhatIsOverIsNotAsked) {
  const uint64_t lease = lease_of(1, 100);
  rig_.run_for(150 * kMillisecond);
  EXPECT_EQ(renew(lease, 1000).status.code(), Code::kTimedOut);
  EXPECT_EQ(renew(lease + 5, 1000).status.code(), Code::kTimedOut);
  EXPECT_EQ(rig_.core->renew({lease, 0, kSecond, 0}).error().code(), Code::kInvalid);
  EXPECT_EQ(rig_.daemon->count(Type::kRenew), 0u);
}

// L1: which of the two the daemon did is unknown.
TEST_F(RenewTest, WithoutAnAnswerTheSoonerEndCounts) {
  const uint64_t lease = lease_of(1, 1000);
  hold_renewals();
  EXPECT_EQ(renew(lease, 60000, 10 * kMillisecond).status.code(), Code::kTimedOut);
  EXPECT_GT(left(lease), 900 * kMillisecond);
  EXPECT_LT(left(lease), 1000 * kMillisecond);
  const Event event = renew(lease, 200, 10 * kMillisecond);
  EXPECT_EQ(event.status.code(), Code::kTimedOut);
  EXPECT_LT(event.lease_ns, 200 * kMillisecond);
  EXPECT_GT(event.lease_ns, 180 * kMillisecond);
}

TEST_F(RenewTest, AnAnswerBehindItsEndBringsItBack) {
  const uint64_t lease = lease_of(1, 100);
  hold_renewals();
  const OpId op = begin(lease, 1000);
  rig_.run_for(120 * kMillisecond);
  EXPECT_EQ(left(lease), 0u);
  lease_of(1, 100);  // sweeps what is over
  answer(held_.at(0), Code::kOk, 1000);
  EXPECT_TRUE(rig_.finish(op).status.ok());
  EXPECT_GT(left(lease), 500 * kMillisecond);
}

TEST_F(RenewTest, RefusedForNowIsAskedAgain) {
  const uint64_t lease = lease_of(2050, 500);
  hold_renewals();
  const OpId op = begin(lease, 1000);
  ASSERT_TRUE(rig_.run_until([&] { return held_.size() == 2; }));
  answer(held_[0], Code::kOverloaded, 0);
  answer(held_[1], Code::kOk, 1000);
  ASSERT_TRUE(rig_.run_until([&] { return held_.size() == 4; }));
  answer(held_[2], Code::kOk, 1000);
  answer(held_[3], Code::kOk, 1000);
  EXPECT_TRUE(rig_.finish(op).status.ok());
  // Expect: a refusal for good is said, and the lease stays.
  const OpId refused = begin(lease, 1000);
  ASSERT_TRUE(rig_.run_until([&] { return held_.size() == 6; }));
  answer(held_[4], Code::kInvalid, 0);
  answer(held_[5], Code::kOverloaded, 0);
  EXPECT_EQ(rig_.finish(refused).status.code(), Code::kInvalid);
  EXPECT_GT(left(lease), 500 * kMillisecond);
}

TEST_F(RenewTest, AReleaseMeanwhileWins) {
  const uint64_t lease = lease_of(1, 500);
  hold_renewals();
  const OpId op = begin(lease, 1000);
  ASSERT_TRUE(rig_.run_until([&] { return held_.size() == 1; }));
  rig_.core->release(lease);
  answer(held_[0], Code::kOk, 1000);
  EXPECT_EQ(rig_.finish(op).status.code(), Code::kTimedOut);
  EXPECT_EQ(left(lease), 0u);
  EXPECT_EQ(counts().renewed_leases, 0u);
}

TEST_F(RenewTest, OneAtATime) {
  const uint64_t lease = lease_of(1, 500);
  hold_renewals();
  const OpId first = begin(lease, 1000);
  const OpId second = begin(lease, 400);
  rig_.run_for(100 * kMillisecond);
  ASSERT_EQ(held_.size(), 1u);  // L2
  answer(held_[0], Code::kOk, 1000);
  EXPECT_TRUE(rig_.finish(first).status.ok());
  ASSERT_TRUE(rig_.run_until([&] { return held_.size() == 2; }));
  answer(held_[1], Code::kOk, 400);
  EXPECT_TRUE(rig_.finish(second).status.ok());
  EXPECT_LT(left(lease), 400 * kMillisecond);
}

TEST_F(RenewTest, ALostSessionTakesItAlong) {
  const uint64_t lease = lease_of(1, 500);
  hold_renewals();
  const OpId op = begin(lease, 1000);
  ASSERT_TRUE(rig_.run_until([&] { return held_.size() == 1; }));
  rig_.daemon->close_all();
  EXPECT_EQ(rig_.finish(op).status.code(), Code::kUnavailable);
  EXPECT_EQ(left(lease), 0u);
  ASSERT_TRUE(rig_.ready());
  EXPECT_EQ(renew(lease, 1000).status.code(), Code::kTimedOut);
}

RigOptions one_message() {
  RigOptions options;
  options.client.link.send_messages_max = 1;
  return options;
}
struct RenewLaneTest : RenewTest {
  RenewLaneTest() : RenewTest(one_message()) {}
};

TEST_F(RenewLaneTest, AFullLaneOnlyMakesItLater) {
  const uint64_t lease = lease_of(5 * wire::kIdsMax, 5000);
  EXPECT_TRUE(renew(lease, 5000).status.ok());
  EXPECT_EQ(rig_.daemon->count(Type::kRenew), 5u);
}

RigOptions one_pull() {
  RigOptions options;
  options.daemon.pulls_max = 1;
  return options;
}
struct RenewInUseTest : RenewTest {
  RenewInUseTest() : RenewTest(one_pull()) {}
  // A pull that stands in the daemon until answered, so that others wait in line.
  OpId block_the_line() {
    rig_.put(100, 1);
    rig_.daemon->hook = [this](const auto& r) {
      if (r.type != Type::kPull || blocker_ != 0) return false;
      blocker_ = r.op;
      return true;
    };
    const OpId op = *rig_.core->pull(rig_.pull_of(ids_of(100, 1)));
    EXPECT_TRUE(rig_.run_until([this] { return blocker_ != 0; }));
    return op;
  }
  void unblock() { rig_.daemon->answer_pull(*rig_.daemon->last(Type::kPull)); }
  uint64_t blocker_ = 0;
};

TEST_F(RenewInUseTest, APullThatWaitsKeepsItsLease) {
  const OpId blocker = block_the_line();
  const uint64_t lease = lease_of(1, 400);
  const OpId op = *rig_.core->pull(pull_under(lease));
  for (uint32_t i = 0; i < 30; ++i) {
    rig_.run_for(100 * kMillisecond);
    EXPECT_GT(left(lease), 150 * kMillisecond) << i;
  }
  const size_t renewals = rig_.daemon->count(Type::kRenew);
  EXPECT_GE(renewals, 10u);
  EXPECT_LE(renewals, 16u);  // at half of the time, not all the time
  EXPECT_EQ(counts().renewed_leases, renewals);
  unblock();
  EXPECT_TRUE(rig_.finish(blocker).status.ok());
  EXPECT_TRUE(rig_.finish(op).status.ok());
  EXPECT_NE(lease_of_last_pull(), 0u);
  // Expect: nobody hears of it, and with the pull it ends.
  for (const Event& event : rig_.events)
    EXPECT_NE(event.kind, Event::Kind::kRenewed);
  rig_.run_for(kSecond);
  EXPECT_EQ(left(lease), 0u);
  EXPECT_LE(rig_.daemon->count(Type::kRenew), renewals + 1);
}

TEST_F(RenewInUseTest, TwoPullsOfOneLeaseRenewItOnce) {
  const OpId blocker = block_the_line();
  const uint64_t lease = lease_of(1, 400);
  const OpId one = *rig_.core->pull(pull_under(lease));
  const OpId two = *rig_.core->pull(pull_under(lease));
  rig_.run_for(300 * kMillisecond);
  EXPECT_EQ(rig_.daemon->count(Type::kRenew), 1u);
  unblock();
  for (const OpId op : {blocker, one, two})
    EXPECT_TRUE(rig_.finish(op).status.ok());
}

TEST_F(RenewInUseTest, OneThatIsOverIsSaidWhenItsTurnComes) {
  const OpId blocker = block_the_line();
  const uint64_t lease = lease_of(1, 400);
  const OpId op = *rig_.core->pull(pull_under(lease));
  rig_.daemon->leases().clear();
  rig_.run_for(500 * kMillisecond);
  EXPECT_EQ(rig_.daemon->count(Type::kRenew), 1u);
  EXPECT_EQ(left(lease), 0u);
  unblock();
  EXPECT_TRUE(rig_.finish(blocker).status.ok());
  EXPECT_EQ(rig_.finish(op).status.code(), Code::kTimedOut);
}

}  // namespace
}  // namespace varve
