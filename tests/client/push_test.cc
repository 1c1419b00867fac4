// Goal: a push stores exactly the caller's bytes, layer by layer as they become final, each block
// for itself, and gives back what it does not use. Method: the rig with a store that checks every
// byte and both checksums; losses and cancels at every step.
#include "client/push.h"

#include <gtest/gtest.h>

#include "tests/client/push_rig.h"

namespace varve {
namespace {

const std::vector<uint32_t> kLayers = {20000, 4096, 44000, 100000, 400000, 65537};

TEST_F(PushTest, StoresTheBytesOfEveryBlock) {
  for (uint32_t lanes = 1; lanes <= 4; ++lanes) {
    SCOPED_TRACE(lanes);
    RigOptions options;
    options.client.bulk_lanes = lanes;
    KvRig rig(kLayers, 6, options);
    fill(rig, 0, 6);
    PushRequest request = rig.push_of(ids_of(0, 6));
    request.tag = 5;
    request.parent = id_of(77);
    const OpId op = push_all(rig, request);
    const Event event = rig.finish(op);
    EXPECT_TRUE(event.status.ok()) << event.status.what();
    EXPECT_EQ(event.tag, 5u);
    EXPECT_EQ(event.codes, std::vector<Code>(6, Code::kOk));
    EXPECT_EQ(event.bytes, 6 * rig.table.block_bytes);
    for (uint32_t b = 0; b < 6; ++b)
      expect_stored(rig, b);
    const auto reserved = rig.of(op, Event::Kind::kReserved);
    ASSERT_EQ(reserved.size(), 1u);
    EXPECT_EQ(reserved[0].codes, std::vector<Code>(6, Code::kOk));
    const auto frame = rig.daemon->last(Type::kReserve)->frame();
    const auto& body = std::get<wire::ReserveView>(frame.body).body;
    EXPECT_EQ(body.parent, id_of(77));
    EXPECT_EQ(body.epoch, 1u);
    EXPECT_GT(body.hold_ms, 0u);
    EXPECT_LE(body.hold_ms, 30000u);
    EXPECT_EQ(rig.core->counters().pushed_blocks, 6u);
    EXPECT_EQ(rig.core->counters().pushed_bytes, event.bytes);
    EXPECT_EQ(rig.daemon->reservations(), 0u);
  }
}

TEST_F(PushTest, LayersLeaveAsTheyBecomeFinal) {
  KvRig rig({70000, 80000, 90000}, 2);
  fill(rig, 0, 2);
  const OpId op = *rig.core->push(rig.push_of(ids_of(0, 2)));
  ASSERT_TRUE(rig.run_until([&] { return !rig.of(op, Event::Kind::kReserved).empty(); }));
  const auto sent = [&] {
    rig.run_for(10 * kMillisecond);
    uint64_t bytes = 0;
    for (const auto& r : rig.daemon->log())
      bytes += r.payload_bytes;
    return bytes;
  };
  EXPECT_EQ(sent(), 0u);
  EXPECT_TRUE(rig.core->push_layer(op, 1).ok());
  EXPECT_EQ(sent(), 0u);  // layer 0 comes first
  EXPECT_TRUE(rig.core->push_layer(op, 0).ok());
  EXPECT_EQ(sent(), 2 * 150000u);
  EXPECT_EQ(rig.core->push_layer(op, 3).code(), Code::kInvalid);
  EXPECT_FALSE(rig.core->done(op));
  EXPECT_EQ(rig.daemon->count(Type::kCommit), 0u);
  EXPECT_TRUE(rig.core->push_layer(op, 2).ok());
  EXPECT_TRUE(rig.finish(op).status.ok());
  expect_stored(rig, 0);
  expect_stored(rig, 1);
}

// The window that was refused it goes on meanwhile, and has sent other blocks' first layers
// already.
TEST_F(PushTest, ABlockThatALaterWindowWasGrantedIsSentByThatOneOnly) {
  RigOptions options;
  options.daemon.grants_max = 1;  // of a RESERVE
  KvRig rig({70000, 80000, 90000}, 3, options);
  fill(rig, 0, 3);
  const OpId op = *rig.core->push(rig.push_of(ids_of(0, 3)));
  EXPECT_TRUE(rig.core->push_layer(op, 0).ok());
  ASSERT_TRUE(rig.run_until([&] { return rig.daemon->reservations() == 3; }));
  rig.run_for(10 * kMillisecond);
  EXPECT_TRUE(rig.core->push_layer(op, 1).ok());
  EXPECT_TRUE(rig.core->push_layer(op, 2).ok());
  const Event event = rig.finish(op);
  EXPECT_TRUE(event.status.ok()) << event.status.what();
  EXPECT_EQ(event.codes, std::vector<Code>(3, Code::kOk));
  EXPECT_EQ(event.bytes, 3 * 240000u) << "each block once";
  for (uint32_t b = 0; b < 3; ++b)
    expect_stored(rig, b);
}

// Extent-major: no block's later extent before another's earlier one.
TEST_F(PushTest, EveryBlocksFirstExtentComesBeforeAnySecond) {
  KvRig rig(kLayers, 3);
  fill(rig, 0, 3);
  rig.finish(push_all(rig, rig.push_of(ids_of(0, 3))));
  uint32_t extent = 0;
  for (const auto& r : rig.daemon->log()) {
    if (r.type != Type::kExtent) continue;
    const auto frame = r.frame();
    const uint32_t now = std::get<wire::ExtentView>(frame.body).body.extent;
    EXPECT_GE(now, extent);
    extent = now;
  }
  EXPECT_EQ(extent, rig.table.extents.size() - 1);
}

TEST_F(PushTest, CommitFollowsItsExtentsOnTheirLane) {
  RigOptions options;
  options.client.bulk_lanes = 3;
  KvRig rig(kLayers, 7, options);
  fill(rig, 0, 7);
  PushRequest request = rig.push_of(ids_of(0, 7));
  request.ack = wire::AckKind::kCached;
  EXPECT_TRUE(rig.finish(push_all(rig, request)).status.ok());
  std::map<uint32_t, uint32_t> lane_of;
  for (const auto& r : rig.daemon->log()) {
    const auto frame = r.frame();
    if (r.type == Type::kExtent) {
      lane_of[std::get<wire::ExtentView>(frame.body).body.index] = r.lane;
    } else if (r.type == Type::kCommit) {
      const auto& body = std::get<wire::CommitView>(frame.body).body;
      EXPECT_EQ(lane_of.at(body.index), r.lane);
      EXPECT_EQ(body.ack, wire::AckKind::kCached);
    }
  }
  EXPECT_EQ(lane_of.size(), 7u);
}

TEST_F(PushTest, BlocksThatExistAreASuccessAndNotSent) {
  KvRig rig(kLayers, 3);
  fill(rig, 0, 3);
  rig.put(1, 1);
  const auto before = rig.daemon->store().at(BlockId{id_of(1), 0}).extents;
  const OpId op = push_all(rig, rig.push_of(ids_of(0, 3)));
  const Event event = rig.finish(op);
  EXPECT_EQ(event.codes, std::vector<Code>(3, Code::kOk));
  EXPECT_EQ(rig.of(op, Event::Kind::kReserved)[0].codes[1], Code::kCancelled);
  EXPECT_EQ(event.bytes, 2 * rig.table.block_bytes);
  EXPECT_EQ(rig.daemon->store().at(BlockId{id_of(1), 0}).extents, before);
  EXPECT_EQ(rig.core->counters().existing_blocks, 1u);
  EXPECT_EQ(rig.core->counters().pushed_blocks, 2u);
}

TEST_F(PushTest, WhenEverythingExistsNoLayerIsWaitedFor) {
  KvRig rig(kLayers, 2);
  rig.put(0, 2);
  const OpId op = *rig.core->push(rig.push_of(ids_of(0, 2)));
  const Event event = rig.finish(op, kSecond);
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.bytes, 0u);
  EXPECT_EQ(event.codes, std::vector<Code>(2, Code::kOk));
}

TEST_F(PushTest, AWholeRefusalForGoodEndsThePush) {
  KvRig rig(kLayers, 2);
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kReserve) return false;
    wire::Reserved no;
    no.code = static_cast<uint8_t>(Code::kUnavailable);
    rig.daemon->send(0, rig.daemon->encoder().reserved(r.op, no, {}));
    return true;
  };
  const OpId op = push_all(rig, rig.push_of(ids_of(0, 2)));
  const Event event = rig.finish(op);
  EXPECT_EQ(event.status.code(), Code::kUnavailable);
  EXPECT_EQ(event.codes, std::vector<Code>(2, Code::kUnavailable));
  EXPECT_TRUE(rig.of(op, Event::Kind::kReserved).empty());
}

TEST_F(PushTest, AnotherNumberOfAnswersIsNoAnswer) {
  KvRig rig(kLayers, 2);
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kReserve) return false;
    const std::vector<wire::ReserveAnswer> answers(2000);
    rig.daemon->send(0, rig.daemon->encoder().reserved(r.op, {}, answers));
    return true;
  };
  EXPECT_EQ(rig.finish(push_all(rig, rig.push_of(ids_of(0, 2)))).status.code(), Code::kInvalid);
}

TEST_F(PushTest, ABlockThatFailsItsCommitFailsAlone) {
  KvRig rig(kLayers, 3);
  fill(rig, 0, 3);
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kCommit) return false;
    const auto frame = r.frame();
    const auto& body = std::get<wire::CommitView>(frame.body).body;
    if (body.index != 1) return false;
    wire::Committed no;
    no.code = static_cast<uint8_t>(Code::kNoSpace);
    no.ack = body.ack;
    no.index = body.index;
    no.attempt = body.attempt;
    rig.daemon->send(0, rig.daemon->encoder().committed(r.op, no));
    return true;
  };
  const Event event = rig.finish(push_all(rig, rig.push_of(ids_of(0, 3))));
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.codes, (std::vector<Code>{Code::kOk, Code::kNoSpace, Code::kOk}));
}

TEST_F(PushTest, BytesChangedUnderWayAreFoundCorrupt) {
  RigOptions options;
  options.client.link.send_messages_max = 1;  // so that the last piece is queued after the change
  KvRig rig({600000}, 1, options);
  fill(rig, 0, 1);
  const OpId op = push_all(rig, rig.push_of(ids_of(0, 1)));
  ASSERT_TRUE(rig.run_until([&] { return rig.saw(Type::kExtent); }));
  rig.memory[rig.memory.size() - KvRig::kGap - 1] ^= std::byte{1};
  EXPECT_EQ(rig.finish(op).codes[0], Code::kCorrupt);
}

// A COMMITTED that answers nothing, or promises less than was asked, must not count as
// acknowledged.
TEST_F(PushTest, ACommittedBeforeItsCommitEndsThePush) {
  KvRig rig({70000}, 1);
  const OpId op = *rig.core->push(rig.push_of(ids_of(0, 1)));
  ASSERT_TRUE(rig.run_until([&] { return !rig.of(op, Event::Kind::kReserved).empty(); }));
  wire::Committed committed;
  committed.ack = wire::AckKind::kDurable;
  committed.attempt = Attempt{1, 0, 1};
  const uint64_t op_on_wire = rig.daemon->last(Type::kReserve)->op;
  rig.daemon->send(0, rig.daemon->encoder().committed(op_on_wire, committed));
  const Event event = rig.finish(op);
  EXPECT_EQ(event.status.code(), Code::kInvalid);
  EXPECT_EQ(event.codes[0], Code::kInvalid);
}

TEST_F(PushTest, CachedIsNotDurable) {
  KvRig rig({70000}, 1);
  fill(rig, 0, 1);
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kCommit) return false;
    const auto frame = r.frame();
    wire::Committed committed;
    committed.ack = wire::AckKind::kCached;
    committed.attempt = std::get<wire::CommitView>(frame.body).body.attempt;
    rig.daemon->send(0, rig.daemon->encoder().committed(r.op, committed));
    return true;
  };
  const Event event = rig.finish(push_all(rig, rig.push_of(ids_of(0, 1))));
  EXPECT_EQ(event.status.code(), Code::kInvalid);
  EXPECT_EQ(event.codes[0], Code::kInvalid);
}

TEST_F(PushTest, CommittedOfForeignBlocksAndAttemptsIsIgnored) {
  KvRig rig({70000}, 1);
  fill(rig, 0, 1);
  const OpId op = *rig.core->push(rig.push_of(ids_of(0, 1)));
  ASSERT_TRUE(rig.run_until([&] { return !rig.of(op, Event::Kind::kReserved).empty(); }));
  const uint64_t op_on_wire = rig.daemon->last(Type::kReserve)->op;
  for (const uint32_t index : {0u, 1u, 2047u}) {
    wire::Committed committed;
    committed.index = index;
    committed.ack = wire::AckKind::kDurable;
    committed.attempt = Attempt{9, 9, 9};
    rig.daemon->send(0, rig.daemon->encoder().committed(op_on_wire, committed));
  }
  rig.run_for(10 * kMillisecond);
  EXPECT_FALSE(rig.core->done(op));
  EXPECT_TRUE(rig.core->push_layer(op, 0).ok());
  EXPECT_TRUE(rig.finish(op).status.ok());
  expect_stored(rig, 0);
}

// Lanes that take one message at a time: everything waits its turn and arrives.
TEST_F(PushTest, ALaneWithoutRoomIsWaitedFor) {
  for (const uint32_t messages : {1u, 2u, 7u}) {
    SCOPED_TRACE(messages);
    RigOptions options;
    options.client.bulk_lanes = 2;
    options.client.link.send_messages_max = messages;
    options.client.link.send_bytes_max = kPayloadBytesMax;
    KvRig rig(kLayers, 5, options);
    fill(rig, 0, 5);
    const Event event = rig.finish(push_all(rig, rig.push_of(ids_of(0, 5))));
    EXPECT_TRUE(event.status.ok()) << event.status.what();
    for (uint32_t b = 0; b < 5; ++b)
      expect_stored(rig, b);
  }
}

TEST_F(PushTest, ManyPushesShareThePiecesAndAllEnd) {
  RigOptions options;
  options.client.bulk_lanes = 2;
  KvRig rig({300000, 300000}, 40, options);
  fill(rig, 0, 40);
  std::vector<OpId> ops;
  for (uint32_t i = 0; i < 40; ++i) {
    PushRequest request = rig.push_of({id_of(i)});
    request.slots = {i};
    ops.push_back(push_all(rig, request));
  }
  for (const OpId op : ops)
    EXPECT_TRUE(rig.finish(op).status.ok());
  for (uint32_t i = 0; i < 40; ++i)
    expect_stored(rig, i);
}

// Whose deadline is first sends first: its blocks are on their way to the drives while the others
// still send.
TEST_F(PushTest, ThePushWithTheEarliestDeadlineGoesFirst) {
  RigOptions options;
  options.client.link.send_messages_max = 2;
  options.client.link.send_bytes_max = kPayloadBytesMax;
  KvRig rig({kPayloadBytesMax, kPayloadBytesMax, kPayloadBytesMax}, 4, options);
  fill(rig, 0, 4);
  std::vector<OpId> ops;
  for (uint32_t i = 0; i < 4; ++i) {
    PushRequest request = rig.push_of({id_of(i)});
    request.slots = {i};
    request.deadline_ns = (10 - i) * kSecond;  // the last is due first
    ops.push_back(*rig.core->push(request));
  }
  ASSERT_TRUE(rig.run_until([&] { return rig.daemon->reservations() == 4; }));
  rig.run_for(10 * kMillisecond);  // and they know it
  for (const OpId op : ops)
    EXPECT_TRUE(rig.core->push_layer(op, ClientCore::kEveryLayer).ok());
  for (const OpId op : ops)
    EXPECT_TRUE(rig.finish(op).status.ok());
  std::vector<uint64_t> committed, last;
  for (const auto& r : rig.daemon->log()) {
    if (r.type == Type::kCommit) committed.push_back(r.op);
    if (r.type == Type::kReserve) last.insert(last.begin(), r.op);
  }
  EXPECT_EQ(committed, last);
}

// Memory in crumbs: a payload ends where its pieces do, and the checksums still hold.
TEST_F(PushTest, ScatteredMemoryGoesInSmallerPayloads) {
  KvRig rig({120000}, 1);
  std::vector<std::byte> memory(240000);
  const auto content = ScriptedDaemon::content(BlockId{id_of(0), 0}, 0, 120000);
  Layout layout;
  LayerLayout layer;
  layer.region = *rig.core->register_memory(memory.data(), memory.size());
  layer.stride = memory.size();
  layer.segments = 1000;
  layer.segment_stride = 240;
  layout.layers.push_back(layer);
  for (uint32_t s = 0; s < 1000; ++s) {
    std::memcpy(memory.data() + s * 240, content.data() + s * 120, 120);
  }
  PushRequest request = rig.push_of(ids_of(0, 1));
  request.layout = &layout;
  EXPECT_TRUE(rig.finish(push_all(rig, request)).status.ok());
  EXPECT_EQ(rig.daemon->store().at(BlockId{id_of(0), 0}).extents[0], content);
  EXPECT_GT(rig.daemon->count(Type::kExtent), 10u);
}

TEST_F(PushTest, ALayerThatNeverComesEndsAtTheDeadlineAndIsGivenBack) {
  KvRig rig({70000, 80000}, 2);
  fill(rig, 0, 2);
  PushRequest request = rig.push_of(ids_of(0, 2));
  request.deadline_ns = 100 * kMillisecond;
  ASSERT_TRUE(rig.ready());
  const OpId op = *rig.core->push(request);
  EXPECT_TRUE(rig.core->push_layer(op, 0).ok());
  const Event event = rig.finish(op);
  EXPECT_EQ(event.status.code(), Code::kTimedOut);
  EXPECT_EQ(event.codes, std::vector<Code>(2, Code::kTimedOut));
  EXPECT_TRUE(rig.run_until([&] { return rig.daemon->reservations() == 0; }, kSecond));
  EXPECT_EQ(rig.daemon->count(Type::kCancel), 1u);
  EXPECT_TRUE(rig.daemon->store().empty());
}

TEST_F(PushTest, AnExistingBlockStaysASuccessWhenTheRestIsCancelled) {
  KvRig rig({70000}, 2);
  rig.put(0, 1);
  const OpId op = *rig.core->push(rig.push_of(ids_of(0, 2)));
  ASSERT_TRUE(rig.run_until([&] { return !rig.of(op, Event::Kind::kReserved).empty(); }));
  rig.core->cancel(op);
  const Event event = rig.finish(op);
  EXPECT_EQ(event.status.code(), Code::kCancelled);
  EXPECT_EQ(event.codes, (std::vector<Code>{Code::kOk, Code::kCancelled}));
}

// C2 for sends: after the terminal event the bytes may change, and what was acknowledged is what
// was there before.
TEST_F(PushTest, ACancelAtAnyStepLeavesNothingReservedAndNothingWrong) {
  uint32_t cancelled = 0;
  for (uint32_t steps = 0; steps < 300; ++steps) {
    SCOPED_TRACE(steps);
    RigOptions options;
    options.seed = steps + 1;
    options.client.bulk_lanes = 1 + steps % 3;
    options.client.link.send_messages_max = 3;
    KvRig rig({20000, 66000, 70000, 300000}, 3, options);
    fill(rig, 0, 3);
    ASSERT_TRUE(rig.ready());
    const OpId op = push_all(rig, rig.push_of(ids_of(0, 3)));
    for (uint32_t i = 0; i < steps; ++i)
      rig.step();
    rig.core->cancel(op);
    const Event event = rig.finish(op, 2 * kSecond);
    cancelled += event.status.code() == Code::kCancelled;
    rig.poison();
    rig.run_for(50 * kMillisecond);
    EXPECT_EQ(rig.daemon->reservations(), 0u);
    EXPECT_TRUE(rig.core->at_rest());
    for (uint32_t b = 0; b < 3; ++b) {
      const bool stored = rig.daemon->store().count(BlockId{id_of(b), 0}) > 0;
      EXPECT_TRUE(stored || event.codes[b] != Code::kOk);
      if (stored) expect_stored(rig, b);
    }
    if (event.status.ok()) break;
  }
  EXPECT_GT(cancelled, 20u);
}

TEST_F(PushTest, ALossAtAnyStepEndsUnavailableOrDone) {
  for (uint32_t steps = 0; steps < 300; ++steps) {
    SCOPED_TRACE(steps);
    RigOptions options;
    options.seed = steps + 1;
    options.client.bulk_lanes = 1 + steps % 3;
    KvRig rig({20000, 66000, 300000}, 3, options);
    fill(rig, 0, 3);
    ASSERT_TRUE(rig.ready());
    const OpId op = push_all(rig, rig.push_of(ids_of(0, 3)));
    for (uint32_t i = 0; i < steps; ++i)
      rig.step();
    const bool early = rig.terminal(op) != nullptr;
    rig.fabric.break_all();
    const Event event = rig.finish(op, 200 * kMillisecond);
    EXPECT_TRUE(event.status.ok() || event.status.code() == Code::kUnavailable);
    rig.poison();
    rig.run_for(50 * kMillisecond);
    for (uint32_t b = 0; b < 3; ++b) {
      const bool stored = rig.daemon->store().count(BlockId{id_of(b), 0}) > 0;
      EXPECT_TRUE(stored || event.codes[b] != Code::kOk);
      if (stored) expect_stored(rig, b);
    }
    if (early) break;
  }
}

// A daemon that takes nothing from the lane: the bytes are fenced by closing it (C3).
TEST_F(PushTest, BytesThatDoNotLeaveAreFencedByDroppingTheSession) {
  KvRig rig({300000}, 2);
  fill(rig, 0, 2);
  const OpId op = *rig.core->push(rig.push_of(ids_of(0, 2)));
  ASSERT_TRUE(rig.run_until([&] { return !rig.of(op, Event::Kind::kReserved).empty(); }));
  rig.fabric.partition("daemon", true);
  EXPECT_TRUE(rig.core->push_layer(op, 0).ok());
  rig.run_for(10 * kMillisecond);
  const Nanos from = rig.clock.now_ns();
  rig.core->cancel(op);
  EXPECT_EQ(rig.finish(op).status.code(), Code::kCancelled);
  EXPECT_GE(rig.clock.now_ns() - from, kSecond);
  EXPECT_LE(rig.clock.now_ns() - from, kSecond + 50 * kMillisecond);
  EXPECT_TRUE(rig.run_until([&] { return rig.core->counters().disconnects == 1; }, kSecond));
  rig.fabric.partition("daemon", false);
}

TEST_F(PushTest, CancelBeforeTheAnswerTakesTheReservationBack) {
  KvRig rig({70000}, 2);
  ASSERT_TRUE(rig.ready());
  const OpId op = *rig.core->push(rig.push_of(ids_of(0, 2)));
  ASSERT_TRUE(rig.run_until([&] { return rig.saw(Type::kReserve); }));
  rig.core->cancel(op);
  EXPECT_EQ(rig.finish(op, 10 * kMillisecond).status.code(), Code::kCancelled);
  EXPECT_TRUE(rig.of(op, Event::Kind::kReserved).empty());
  EXPECT_TRUE(rig.run_until([&] { return rig.daemon->reservations() == 0; }, kSecond));
  rig.run_for(10 * kMillisecond);
  EXPECT_EQ(rig.daemon->count(Type::kCancel), 1u);
}

TEST_F(PushTest, ADaemonThatIsDownEndsItAtOnce) {
  RigOptions options;
  options.daemon_up = false;
  KvRig rig({70000}, 1, options);
  EXPECT_EQ(rig.finish(push_all(rig, rig.push_of(ids_of(0, 1)))).status.code(), Code::kUnavailable);
  EXPECT_LT(rig.clock.now_ns(), 100 * kMillisecond);
}

TEST_F(PushTest, PushLayerOfAPullIsRefused) {
  KvRig rig({70000}, 1);
  rig.put(0, 1);
  const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 1)));
  EXPECT_EQ(rig.core->push_layer(op, 0).code(), Code::kInvalid);
  rig.finish(op);
}

}  // namespace
}  // namespace varve
