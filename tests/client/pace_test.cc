// Goal: a client keeps to what HELLO_OK names, so that an idle daemon refuses nothing, and asks
// again for what was refused for now, in prefix order. Method: the rig with a daemon that holds to
// its limits, or refuses and grants by script.
#include "client/pace.h"

#include <gtest/gtest.h>

#include "tests/client/client_rig.h"

namespace varve {
namespace {

const std::vector<uint32_t> kLayers = {20000, 4096, 44000};

struct PaceTest : testing::Test {
  static void fill(KvRig& rig, uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i)
      rig.fill(i, id_of(first + i));
  }
  static void expect_stored(const KvRig& rig, uint32_t n) {
    ASSERT_EQ(rig.daemon->store().count(BlockId{id_of(n), 0}), 1u);
    for (uint32_t l = 0; l < rig.layout.layers.size(); ++l) {
      EXPECT_EQ(rig.stored_layer(id_of(n), l), rig.layer_content(id_of(n), l)) << n << " " << l;
    }
  }
  static OpId push_all(KvRig& rig, PushRequest request) {
    const OpId op = *rig.core->push(std::move(request));
    EXPECT_TRUE(rig.core->push_layer(op, ClientCore::kEveryLayer).ok());
    return op;
  }
};

TEST_F(PaceTest, PullsBeyondTheLimitWaitAndTheSoonestDueGoesFirst) {
  RigOptions options;
  options.daemon.pulls_max = 3;
  KvRig rig(kLayers, 1, options);
  rig.put(0, 1);
  ASSERT_TRUE(rig.ready());
  std::vector<ScriptedDaemon::Received> held;
  rig.daemon->hook = [&](const auto& r) {
    if (r.type == Type::kPull) held.push_back(r);
    return r.type == Type::kPull;
  };
  std::vector<OpId> ops;
  for (uint32_t i = 0; i < 200; ++i) {
    PullRequest pull = rig.pull_of(ids_of(0, 1));
    pull.slack_ns = (200 - i) * kMillisecond;  // the later one is due sooner
    ops.push_back(*rig.core->pull(pull));
  }
  size_t answered = 0;
  Nanos last_due = 0;
  while (answered < 200) {
    ASSERT_TRUE(rig.run_until([&] { return held.size() > answered; }, kSecond)) << answered;
    rig.run_for(kMillisecond);
    ASSERT_LE(held.size() - answered, 3u);
    const auto next = held[answered++];
    const auto frame = next.frame();
    const auto& body = std::get<wire::PullView>(frame.body).body;
    // The first three went before the others came.
    if (answered > 4) {
      EXPECT_GT(body.slack_ns, last_due);
    }
    last_due = body.slack_ns;
    rig.daemon->answer_pull(next);
  }
  for (const OpId op : ops)
    EXPECT_TRUE(rig.finish(op).status.ok());
  EXPECT_EQ(rig.core->counters().retries, 0u);
}

TEST_F(PaceTest, ManySmallPushesAreAskedForAFewAtATimeInOrder) {
  KvRig rig(kLayers, 1);
  ASSERT_TRUE(rig.ready());
  std::vector<ScriptedDaemon::Received> held;
  rig.daemon->hook = [&](const auto& r) {
    if (r.type == Type::kReserve) held.push_back(r);
    return r.type == Type::kReserve;
  };
  std::vector<OpId> ops;
  for (uint32_t i = 0; i < 200; ++i)
    ops.push_back(push_all(rig, rig.push_of({id_of(i)})));
  for (uint32_t answered = 0; answered < 200; ++answered) {
    ASSERT_TRUE(rig.run_until([&] { return held.size() > answered; }, kSecond)) << answered;
    rig.run_for(kMillisecond);
    ASSERT_LE(held.size() - answered, kReservesUnderWayMax);
    const auto frame = held[answered].frame();
    ASSERT_EQ(std::get<wire::ReserveView>(frame.body).ids[0], id_of(answered));
    wire::ReserveAnswer exists;
    exists.outcome = wire::ReserveOutcome::kExists;
    rig.daemon->send(0, rig.daemon->encoder().reserved(held[answered].op, {}, {&exists, 1}));
  }
  for (const OpId op : ops)
    EXPECT_TRUE(rig.finish(op).status.ok());
  EXPECT_EQ(rig.core->counters().retries, 0u);
}

TEST_F(PaceTest, MatchesGoAFewAtATime) {
  KvRig rig(kLayers, 1);
  ASSERT_TRUE(rig.ready());
  std::vector<uint64_t> held;
  rig.daemon->hook = [&](const auto& r) {
    if (r.type == Type::kMatch) held.push_back(r.op);
    return r.type == Type::kMatch;
  };
  MatchRequest match;
  match.format = rig.format_id;
  match.ids = ids_of(0, 1);
  std::vector<OpId> ops;
  for (uint32_t i = 0; i < 100; ++i)
    ops.push_back(*rig.core->match(match));
  for (uint32_t answered = 0; answered < 100; ++answered) {
    ASSERT_TRUE(rig.run_until([&] { return held.size() > answered; }, 100 * kMillisecond));
    ASSERT_LE(held.size() - answered, kMatchesUnderWayMax);
    rig.daemon->send(0, rig.daemon->encoder().matched(held[answered], {}, {}));
  }
  for (const OpId op : ops)
    EXPECT_TRUE(rig.finish(op).status.ok());
}

// A push larger than attempts_max goes on window by window, each chained on the block before it.
TEST_F(PaceTest, APushBeyondTheAttemptsGoesOnAsTheyEnd) {
  RigOptions options;
  options.daemon.attempts_max = 16;
  options.client.bulk_lanes = 2;
  KvRig rig({4096, 5000}, 100, options);
  fill(rig, 0, 100);
  const OpId op = push_all(rig, rig.push_of(ids_of(0, 100)));
  const Event event = rig.finish(op);
  EXPECT_TRUE(event.status.ok()) << event.status.what();
  EXPECT_EQ(event.codes, std::vector<Code>(100, Code::kOk));
  for (uint32_t b = 0; b < 100; ++b)
    expect_stored(rig, b);
  EXPECT_LE(rig.daemon->reservations_most(), 16u);
  EXPECT_GE(rig.daemon->reservations_most(), 12u);
  EXPECT_EQ(rig.core->counters().retries, 0u);
  EXPECT_EQ(rig.core->counters().refused_blocks, 0u);
  uint32_t next = 0;
  for (const auto& r : rig.daemon->log()) {
    if (r.type != Type::kReserve) continue;
    const auto frame = r.frame();
    const auto& view = std::get<wire::ReserveView>(frame.body);
    ASSERT_EQ(view.ids[0], id_of(next));
    EXPECT_EQ(view.body.parent, next == 0 ? BaseId() : id_of(next - 1));
    next += static_cast<uint32_t>(view.ids.size());
  }
  EXPECT_EQ(next, 100u);
  const auto reserved = rig.of(op, Event::Kind::kReserved);
  EXPECT_GT(reserved.size(), 5u);
  EXPECT_EQ(reserved.front().codes[99], Code::kOverloaded);
  EXPECT_EQ(reserved.back().codes, std::vector<Code>(100, Code::kOk));
}

TEST_F(PaceTest, ManyLargePushesShareTheAttemptsAndLosesLeaveNoneTaken) {
  for (uint32_t steps = 0; steps < 400; steps += 25) {
    SCOPED_TRACE(steps);
    RigOptions options;
    options.daemon.attempts_max = 8;
    KvRig rig({4096}, 30, options);
    fill(rig, 0, 30);
    ASSERT_TRUE(rig.ready());
    std::vector<OpId> ops;
    for (uint32_t i = 0; i < 3; ++i) {
      PushRequest request = rig.push_of(ids_of(10 * i, 10));
      for (uint32_t& slot : request.slots)
        slot += 10 * i;
      ops.push_back(push_all(rig, request));
    }
    for (uint32_t i = 0; i < steps; ++i)
      rig.step();
    rig.core->cancel(ops[1]);
    rig.fabric.break_all();
    for (const OpId op : ops)
      rig.finish(op, kSecond);
    ASSERT_TRUE(rig.ready());
    // Expect: the new session has all its attempts.
    const OpId again = push_all(rig, rig.push_of(ids_of(0, 30)));
    EXPECT_TRUE(rig.finish(again, 5 * kSecond).status.ok());
    EXPECT_LE(rig.daemon->reservations_most(), 8u);
  }
}

TEST_F(PaceTest, APushThatEndsInLineLetsTheNextOneGo) {
  RigOptions options;
  options.daemon.attempts_max = 1;
  KvRig rig({4096}, 3, options);
  fill(rig, 0, 3);
  ASSERT_TRUE(rig.ready());
  const OpId first = *rig.core->push(rig.push_of(ids_of(0, 1)));
  ASSERT_TRUE(rig.run_until([&] { return rig.daemon->reservations() == 1; }));
  const OpId second = push_all(rig, rig.push_of(ids_of(1, 1)));
  const OpId third = push_all(rig, rig.push_of(ids_of(2, 1)));
  rig.run_for(10 * kMillisecond);
  EXPECT_EQ(rig.daemon->count(Type::kReserve), 1u);
  rig.core->cancel(second);
  EXPECT_EQ(rig.finish(second, 10 * kMillisecond).status.code(), Code::kCancelled);
  EXPECT_TRUE(rig.core->push_layer(first, 0).ok());
  EXPECT_TRUE(rig.finish(first, kSecond).status.ok());
  EXPECT_TRUE(rig.finish(third, kSecond).status.ok());
}

TEST_F(PaceTest, APullThatIsRefusedForNowIsAskedAgain) {
  KvRig rig(kLayers, 2);
  rig.put(0, 2);
  uint32_t refusals = 4;
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kPull || refusals == 0) return false;
    --refusals;
    wire::Pulled no;
    no.code = static_cast<uint8_t>(Code::kOverloaded);
    rig.daemon->send(0, rig.daemon->encoder().pulled(r.op, no, {}));
    return true;
  };
  const Event event = rig.finish(*rig.core->pull(rig.pull_of(ids_of(0, 2))), kSecond);
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.bytes, 2 * rig.table.block_bytes);
  EXPECT_EQ(rig.core->counters().retries, 4u);
  EXPECT_EQ(rig.core->counters().failed_blocks, 0u);
}

TEST_F(PaceTest, AMatchThatIsRefusedForNowIsAskedAgain) {
  KvRig rig(kLayers, 1);
  rig.put(0, 1);
  uint32_t refusals = 2;
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kMatch || refusals == 0) return false;
    --refusals;
    wire::Matched no;
    no.code = static_cast<uint8_t>(Code::kOverloaded);
    rig.daemon->send(0, rig.daemon->encoder().matched(r.op, no, {}));
    return true;
  };
  MatchRequest match;
  match.format = rig.format_id;
  match.ids = ids_of(0, 1);
  const Event event = rig.finish(*rig.core->match(match), 100 * kMillisecond);
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.n_blocks, 1u);
  EXPECT_EQ(rig.core->counters().retries, 2u);
}

// A busy block is asked for until it is ours or there; what comes behind it does not wait.
TEST_F(PaceTest, ABusyBlockIsAskedForAgainUntilItExists) {
  KvRig rig(kLayers, 3);
  fill(rig, 0, 3);
  const OpId first = *rig.core->push(rig.push_of(ids_of(0, 1)));
  ASSERT_TRUE(rig.run_until([&] { return rig.daemon->reservations() == 1; }));
  const OpId second = push_all(rig, rig.push_of(ids_of(0, 3)));
  ASSERT_TRUE(rig.run_until([&] { return rig.daemon->store().size() == 2; }, 50 * kMillisecond));
  expect_stored(rig, 1);
  expect_stored(rig, 2);
  rig.run_for(300 * kMillisecond);
  EXPECT_EQ(rig.terminal(second), nullptr);
  EXPECT_EQ(rig.of(second, Event::Kind::kReserved).back().codes,
            (std::vector<Code>{Code::kOverloaded, Code::kOk, Code::kOk}));
  // Expect: pauses that double up to 100 ms, not a flood.
  EXPECT_GE(rig.core->counters().retried_blocks, 5u);
  EXPECT_LE(rig.core->counters().retried_blocks, 12u);
  EXPECT_TRUE(rig.core->push_layer(first, ClientCore::kEveryLayer).ok());
  EXPECT_TRUE(rig.finish(first).status.ok());
  const Event event = rig.finish(second, 200 * kMillisecond);
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.codes, std::vector<Code>(3, Code::kOk));
  EXPECT_EQ(rig.of(second, Event::Kind::kReserved).back().codes,
            (std::vector<Code>{Code::kCancelled, Code::kOk, Code::kOk}));
  EXPECT_EQ(rig.core->counters().refused_blocks, 0u);
}

TEST_F(PaceTest, ABusyBlockWhoseWriterGivesUpIsWrittenByTheNext) {
  KvRig rig(kLayers, 1);
  fill(rig, 0, 1);
  const OpId first = *rig.core->push(rig.push_of(ids_of(0, 1)));
  ASSERT_TRUE(rig.run_until([&] { return rig.daemon->reservations() == 1; }));
  const OpId second = push_all(rig, rig.push_of(ids_of(0, 1)));
  rig.run_for(20 * kMillisecond);
  rig.core->cancel(first);
  EXPECT_EQ(rig.finish(second, 200 * kMillisecond).codes[0], Code::kOk);
  expect_stored(rig, 0);
  EXPECT_EQ(rig.finish(first).status.code(), Code::kCancelled);
}

// Two busy blocks apart from each other: the first one does not starve the second.
TEST_F(PaceTest, BusyBlocksApartAreEachAskedForAgain) {
  KvRig rig({70000}, 4);
  fill(rig, 0, 4);
  PushRequest one = rig.push_of({id_of(0)});
  const OpId first = *rig.core->push(one);
  PushRequest other = rig.push_of({id_of(2)});
  other.slots = {2};
  const OpId third = *rig.core->push(other);
  ASSERT_TRUE(rig.run_until([&] { return rig.daemon->reservations() == 2; }));
  const OpId all = push_all(rig, rig.push_of(ids_of(0, 4)));
  ASSERT_TRUE(rig.run_until([&] { return rig.daemon->store().size() == 2; }));
  EXPECT_TRUE(rig.core->push_layer(third, 0).ok());
  ASSERT_TRUE(rig.run_until(
      [&] { return rig.of(all, Event::Kind::kReserved).back().codes[2] == Code::kCancelled; },
      300 * kMillisecond));
  rig.core->cancel(first);
  EXPECT_TRUE(rig.finish(all, 300 * kMillisecond).status.ok());
  rig.finish(third);
}

TEST_F(PaceTest, WhatIsRefusedForNowIsAskedForAgainAndAllIsStored) {
  RigOptions options;
  options.daemon.grants_max = 1;
  KvRig rig(kLayers, 5, options);
  fill(rig, 0, 5);
  const Event event = rig.finish(push_all(rig, rig.push_of(ids_of(0, 5))));
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.codes, std::vector<Code>(5, Code::kOk));
  for (uint32_t b = 0; b < 5; ++b)
    expect_stored(rig, b);
  EXPECT_GE(rig.core->counters().retries, 4u);
  EXPECT_EQ(rig.core->counters().refused_blocks, 0u);
  EXPECT_EQ(rig.daemon->reservations(), 0u);
}

// The daemon grants around a hole: nothing behind it is sent, and it holds nothing for us there.
TEST_F(PaceTest, NothingBehindAHoleIsStoredBeforeIt) {
  KvRig rig(kLayers, 4);
  fill(rig, 0, 4);
  uint32_t refusals = 3;
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kReserve) return false;
    const auto frame = r.frame();
    const auto& view = std::get<wire::ReserveView>(frame.body);
    std::vector<wire::ReserveAnswer> answers(view.ids.size());
    bool hole = false;
    for (uint32_t i = 0; i < view.ids.size(); ++i) {
      hole |= view.ids[i] == id_of(1);
      answers[i].outcome = wire::ReserveOutcome::kGranted;
      answers[i].attempt = Attempt{1, 0, 1000 + i};
      if (view.ids[i] != id_of(1)) continue;
      answers[i] = {};
      answers[i].outcome = wire::ReserveOutcome::kRefused;
      answers[i].code = static_cast<uint8_t>(Code::kOverloaded);
    }
    if (!hole || refusals == 0) return false;
    --refusals;
    rig.daemon->send(0, rig.daemon->encoder().reserved(r.op, {}, answers));
    return true;
  };
  PushRequest request = rig.push_of(ids_of(0, 4));
  request.parent = id_of(50);
  const OpId op = push_all(rig, request);
  ASSERT_TRUE(rig.run_until([&] { return refusals == 0; }, kSecond));
  rig.run_for(600 * kMicrosecond);
  // Expect: the two grants behind the hole went back each time.
  EXPECT_EQ(rig.daemon->count(Type::kAbort), 6u);
  for (const auto& r : rig.daemon->log()) {
    if (r.type != Type::kExtent) continue;
    const auto frame = r.frame();
    EXPECT_EQ(std::get<wire::ExtentView>(frame.body).body.index, 0u);
  }
  // Expect: what is asked again is chained on the block before it.
  ASSERT_TRUE(rig.run_until([&] { return rig.daemon->store().size() == 3; }, kSecond));
  const auto frame = rig.daemon->last(Type::kReserve)->frame();
  EXPECT_EQ(std::get<wire::ReserveView>(frame.body).body.parent, id_of(0));
  rig.core->cancel(op);  // block 0 was granted by script only
  rig.finish(op);
}

TEST_F(PaceTest, RefusedUntilTheDeadlineEndsWithTheReason) {
  RigOptions options;
  options.daemon.grants_max = 0;
  KvRig rig(kLayers, 2, options);
  rig.put(0, 1);
  PushRequest request = rig.push_of(ids_of(0, 2));
  request.deadline_ns = 500 * kMillisecond;
  const OpId op = push_all(rig, request);
  const Event event = rig.finish(op);
  EXPECT_EQ(event.status.code(), Code::kTimedOut);
  EXPECT_EQ(event.codes, (std::vector<Code>{Code::kOk, Code::kQuota}));
  EXPECT_EQ(rig.core->counters().refused_blocks, 1u);
  EXPECT_EQ(rig.of(op, Event::Kind::kReserved).back().codes,
            (std::vector<Code>{Code::kCancelled, Code::kOverloaded}));
}

// What lies behind a block that is not there is found by nobody: it is not stored, and what is
// there already stays so.
TEST_F(PaceTest, NoSpaceIsFinalAndEndsWhatIsBehind) {
  RigOptions options;
  options.daemon.grants_max = 4;  // the last two are not even asked for
  KvRig rig(kLayers, 6, options);
  fill(rig, 0, 6);
  rig.put(2, 1);
  rig.daemon->options().refuse_block = id_of(1);
  rig.daemon->options().refuse_block_code = Code::kNoSpace;
  const OpId op = push_all(rig, rig.push_of(ids_of(0, 6)));
  const Event event = rig.finish(op, kSecond);
  EXPECT_TRUE(event.status.ok());
  constexpr Code kNo = Code::kNoSpace;
  EXPECT_EQ(event.codes, (std::vector<Code>{Code::kOk, kNo, Code::kOk, kNo, kNo, kNo}));
  expect_stored(rig, 0);
  for (const uint32_t n : {1, 3, 4, 5})
    EXPECT_EQ(rig.daemon->store().count(BlockId{id_of(n), 0}), 0u) << n;
  EXPECT_EQ(rig.core->counters().refused_blocks, 4u);
  EXPECT_EQ(rig.core->counters().retries, 0u);
  rig.run_for(kSecond);
  EXPECT_EQ(rig.daemon->reservations(), 0u) << "what was granted behind it was given back";
}

TEST_F(PaceTest, AnotherRefusalIsOfItsBlockAlone) {
  KvRig rig(kLayers, 2);
  fill(rig, 0, 2);
  rig.daemon->options().refuse_block = id_of(0);
  rig.daemon->options().refuse_block_code = Code::kUnsupported;
  const Event event = rig.finish(push_all(rig, rig.push_of(ids_of(0, 2))), kSecond);
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.codes, (std::vector<Code>{Code::kUnsupported, Code::kOk}));
  EXPECT_EQ(rig.core->counters().refused_blocks, 1u);
}

TEST_F(PaceTest, AWholeRefusalForNowIsAskedAgain) {
  KvRig rig(kLayers, 2);
  fill(rig, 0, 2);
  uint32_t refusals = 3;
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kReserve || refusals == 0) return false;
    --refusals;
    wire::Reserved no;
    no.code = static_cast<uint8_t>(Code::kOverloaded);
    rig.daemon->send(0, rig.daemon->encoder().reserved(r.op, no, {}));
    return true;
  };
  const OpId op = push_all(rig, rig.push_of(ids_of(0, 2)));
  const Event event = rig.finish(op);
  EXPECT_EQ(event.codes, std::vector<Code>(2, Code::kOk));
  EXPECT_EQ(rig.core->counters().retries, 3u);
  EXPECT_EQ(rig.of(op, Event::Kind::kReserved).size(), 1u);
}

}  // namespace
}  // namespace varve
