// Goal: the parity of each stripe is stored with it, in order on its lane whatever else a push has
// to send, from scratch that pushes share. Method: the rig with a store that checks every byte and
// that pieces come in order; lanes and scratch too small, cancels and losses at every step.
#include <gtest/gtest.h>

#include "client/push.h"
#include "tests/client/push_rig.h"

namespace varve {
namespace {

// The daemon checks every entry and byte of the whole table; here the parity is compared too.
TEST_F(PushTest, EverySchemeStoresTheParityOfEveryStripe) {
  const std::vector<uint32_t> layers = {20000, 50000, 70000, 66000, 131072, 300000, 270000, 65537};
  for (const Scheme scheme : kSchemes) {
    SCOPED_TRACE(scheme.text());
    RigOptions options;
    options.client.bulk_lanes = 2;
    options.daemon.k = scheme.k;
    options.daemon.m = scheme.m;
    KvRig rig(layers, 3, options);
    fill(rig, 0, 3);
    const Event event = rig.finish(push_all(rig, rig.push_of(ids_of(0, 3))));
    EXPECT_TRUE(event.status.ok());
    EXPECT_EQ(event.codes, std::vector<Code>(3, Code::kOk));
    EXPECT_EQ(event.bytes, 3 * rig.table.block_bytes);
    uint64_t parity_bytes = 0;
    for (uint32_t b = 0; b < 3; ++b) {
      expect_stored(rig, b);
      auto whole = rig.daemon->store().at(BlockId{id_of(b), 0});
      const auto pushed = whole.extents;
      whole.extents.resize(rig.table.data_count());
      ScriptedDaemon::add_parity(whole);
      EXPECT_EQ(pushed, whole.extents);
      for (uint32_t e = rig.table.data_count(); e < rig.table.count(); ++e)
        parity_bytes += rig.table.bytes_at(e);
    }
    EXPECT_EQ(rig.core->counters().parity_bytes, parity_bytes);
    EXPECT_EQ(rig.core->counters().pushed_bytes, 3 * rig.table.block_bytes);
  }
}

// Parity leaves with its stripe, not at the end: the layers behind it need not be there.
TEST_F(PushTest, ParityLeavesWhenItsStripeIsWhole) {
  RigOptions options;
  options.daemon.k = 2;
  options.daemon.m = 1;
  KvRig rig({70000, 70000, 70000, 70000}, 1, options);
  fill(rig, 0, 1);
  const OpId op = *rig.core->push(rig.push_of(ids_of(0, 1)));
  EXPECT_TRUE(rig.core->push_layer(op, 0).ok());
  rig.run_for(10 * kMillisecond);
  EXPECT_EQ(parity_pieces(rig), 0u);
  EXPECT_TRUE(rig.core->push_layer(op, 1).ok());
  rig.run_for(10 * kMillisecond);
  EXPECT_EQ(parity_pieces(rig), 1u);
  EXPECT_TRUE(rig.core->push_layer(op, ClientCore::kEveryLayer).ok());
  EXPECT_TRUE(rig.finish(op).status.ok());
  EXPECT_EQ(parity_pieces(rig), 2u);
}

// Many pushes and scratch for one round: they wait for each other and all end.
TEST_F(PushTest, AFullParityScratchIsBackPressure) {
  RigOptions options;
  options.daemon.k = 4;
  options.daemon.m = 2;
  options.client.bulk_lanes = 4;
  options.client.parity_scratch_bytes = kMiB;  // two rounds
  KvRig rig({300000, 600000, 600000, 600000, 70000}, 16, options);
  fill(rig, 0, 16);
  std::vector<OpId> ops;
  for (uint32_t i = 0; i < 16; ++i) {
    PushRequest request = rig.push_of({id_of(i)});
    request.slots = {i};
    ops.push_back(push_all(rig, request));
  }
  for (const OpId op : ops)
    EXPECT_TRUE(rig.finish(op).status.ok());
  for (uint32_t i = 0; i < 16; ++i)
    expect_stored(rig, i);
  EXPECT_GT(rig.core->counters().parity_waits, 0u);
}

TEST_F(PushTest, ACancelWithParityUnderWayLeavesNothing) {
  uint32_t cancelled = 0;
  for (uint32_t steps = 0; steps < 300; ++steps) {
    SCOPED_TRACE(steps);
    RigOptions options;
    options.seed = steps + 1;
    options.client.bulk_lanes = 1 + steps % 2;
    options.client.link.send_messages_max = 3;
    options.daemon.k = 2;
    options.daemon.m = 1;
    KvRig rig({20000, 66000, 70000, 600000}, 2, options);
    fill(rig, 0, 2);
    ASSERT_TRUE(rig.ready());
    const OpId op = push_all(rig, rig.push_of(ids_of(0, 2)));
    for (uint32_t i = 0; i < steps; ++i)
      rig.step();
    if (steps % 3 == 2) {
      rig.fabric.break_all();
    } else {
      rig.core->cancel(op);
    }
    const Event event = rig.finish(op, 2 * kSecond);
    cancelled += !event.status.ok();
    rig.poison();
    rig.run_for(50 * kMillisecond);
    EXPECT_TRUE(rig.core->at_rest());  // the scratch too
    if (event.status.ok()) break;
  }
  EXPECT_GT(cancelled, 20u);
}

// A daemon that comes back with another scheme: what is pushed then is coded for that.
TEST_F(PushTest, ANewSchemeOfTheDaemonIsFollowed) {
  KvRig rig({70000, 70000, 70000}, 2);
  fill(rig, 0, 2);
  EXPECT_TRUE(rig.finish(push_all(rig, rig.push_of({id_of(0)}))).status.ok());
  rig.stop_daemon();
  rig.daemon_options.k = 2;
  rig.daemon_options.m = 1;
  rig.start_daemon();
  PushRequest request = rig.push_of({id_of(1)});
  request.slots = {1};
  ASSERT_TRUE(rig.run_until([&] { return rig.core->counters().connects == 2; }, 5 * kSecond));
  EXPECT_TRUE(rig.finish(push_all(rig, request)).status.ok());
  expect_stored(rig, 1);
  EXPECT_EQ(rig.daemon->store().at(BlockId{id_of(1), 0}).extents.size(), 5u);
}

// Two windows of one push: the newer one is in the middle of a parity when a layer becomes final
// that lets the older one, which was ahead, go on to its own.
TEST_F(PushTest, AHalfSentParityGoesOnBeforeAnOlderWindowBeginsAnother) {
  constexpr uint32_t kPieces = (600000 + kPayloadBytesMax - 1) / kPayloadBytesMax;  // of a parity
  uint32_t half = 0;
  for (uint32_t steps = 0; steps < 120; ++steps) {
    SCOPED_TRACE(steps);
    RigOptions options;
    options.daemon.k = 2;
    options.daemon.m = 1;
    options.daemon.grants_max = 1;  // of a RESERVE: a window each
    options.client.bulk_lanes = 1;
    options.client.link.send_messages_max = 1;
    KvRig rig({600000, 600000, 600000, 600000}, 2, options);
    fill(rig, 0, 2);
    const OpId op = *rig.core->push(rig.push_of(ids_of(0, 2)));
    EXPECT_TRUE(rig.core->push_layer(op, 0).ok());
    EXPECT_TRUE(rig.core->push_layer(op, 1).ok());
    ASSERT_TRUE(rig.run_until([&] { return rig.daemon->reservations() == 2; }));
    for (uint32_t i = 0; i < steps; ++i)
      rig.step();
    const uint32_t sent = parity_pieces(rig);
    half += sent > kPieces && sent < 2 * kPieces ? 1 : 0;
    EXPECT_TRUE(rig.core->push_layer(op, 2).ok());
    EXPECT_TRUE(rig.core->push_layer(op, 3).ok());
    const Event event = rig.finish(op);
    EXPECT_TRUE(event.status.ok()) << event.status.what();
    EXPECT_EQ(event.codes, std::vector<Code>(2, Code::kOk));
    expect_stored(rig, 0);
    expect_stored(rig, 1);
    EXPECT_EQ(rig.core->counters().disconnects, 0u);
    if (sent == 2 * kPieces) break;  // all of both windows' first stripes
  }
  EXPECT_GT(half, 1u) << "the case under test came up";
}

// What a cancelled push held of the scratch is another's at once, not at the next tick.
TEST_F(PushTest, ACancelledPushGivesItsScratchToWhoWaits) {
  RigOptions options;
  options.daemon.k = 8;
  options.daemon.m = 3;
  options.client.bulk_lanes = 2;
  options.client.parity_scratch_bytes = kMiB;  // not two rounds
  options.client.link.send_messages_max = 1;
  options.fabric.latency_ns_min = options.fabric.latency_ns_max = 30 * kMillisecond;
  KvRig rig({600000, 600000}, 2, options);
  fill(rig, 0, 2);
  rig.put(7, 1);  // so that the second push goes by the second lane
  ASSERT_TRUE(rig.ready());
  const OpId first = push_all(rig, rig.push_of({id_of(0)}));
  PushRequest request = rig.push_of({id_of(7), id_of(1)});
  const OpId second = push_all(rig, request);
  ASSERT_TRUE(rig.run_until([&] { return rig.core->counters().parity_waits > 0; }));
  const Scratch& scratch = dynamic_cast<Core&>(*rig.core).parity_scratch();
  const uint32_t piece = columns_of(rig.table.bytes_at(rig.table.parity_at(0, 0)));
  ASSERT_EQ(scratch.used(), 3 * piece) << "a round of the first";
  rig.core->cancel(first);
  rig.run_for(kMillisecond);
  EXPECT_GT(scratch.used(), 3 * piece) << "its pieces under way, and a round of the second";
  EXPECT_EQ(rig.finish(first).status.code(), Code::kCancelled);
  EXPECT_TRUE(rig.finish(second).status.ok());
  expect_stored(rig, 1);
  EXPECT_EQ(scratch.used(), 0u);
}

}  // namespace
}  // namespace varve
