// Goal: a pull hands over exactly the stored bytes, layer by layer, or says why not; after its
// terminal event nothing touches the caller's memory (C1 to C4). Method: the rig with a store;
// wrong DATA by script; cancels and losses at every step with the memory poisoned.
#include "client/pull.h"

#include <gtest/gtest.h>

#include "tests/client/client_rig.h"

namespace varve {
namespace {

// A run of three small layers, a layer of its own, a layer of two payloads, and a layer of odd
// size.
const std::vector<uint32_t> kLayers = {20000, 4096, 44000, 100000, 400000, 65537};

struct PullTest : testing::Test {
  Event pull(KvRig& rig, PullRequest request) { return rig.finish(*rig.core->pull(request)); }
  // Layers came in order, each once, from `first` on.
  static void expect_layers(const KvRig& rig, OpId op, uint32_t first, uint32_t count) {
    const auto layers = rig.of(op, Event::Kind::kLayer);
    ASSERT_EQ(layers.size(), count);
    for (uint32_t i = 0; i < count; ++i)
      EXPECT_EQ(layers[i].layer, first + i);
  }
};

TEST_F(PullTest, HandsOverEveryLayerInOrder) {
  KvRig rig(kLayers, 8);
  rig.put(0, 8);
  const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 8)));
  // Expect: when a layer is announced its bytes are there (C1), those of all blocks.
  size_t seen = 0;
  ASSERT_TRUE(rig.run_until([&] {
    const auto layers = rig.of(op, Event::Kind::kLayer);
    for (; seen < layers.size(); ++seen) {
      for (uint32_t b = 0; b < 8; ++b) {
        EXPECT_TRUE(rig.layer_is_stored(id_of(b), b, layers[seen].layer)) << seen << " " << b;
      }
    }
    return rig.terminal(op) != nullptr;
  }));
  expect_layers(rig, op, 0, 6);
  const Event event = *rig.terminal(op);
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.codes, std::vector<Code>(8, Code::kOk));
  EXPECT_EQ(event.bytes, 8 * rig.table.block_bytes);
  EXPECT_GT(event.first_layer_ns, 0u);
  EXPECT_GE(event.done_ns, event.first_layer_ns);
  EXPECT_EQ(rig.core->counters().pulled_blocks, 8u);
  EXPECT_EQ(rig.core->counters().pulled_bytes, event.bytes);
  // Expect: the gaps between segments are as they were.
  const LayerLayout& l = rig.layout.layers[4];
  EXPECT_EQ(rig.memory[l.offset + l.segment_stride - 1], KvRig::kPoison);
}

TEST_F(PullTest, LayersStayInOrderOverFourLanesThatRace) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    RigOptions options;
    options.seed = seed;
    options.client.bulk_lanes = 4;
    options.daemon.piece_bytes = 30000;
    KvRig rig(kLayers, 5, options);
    rig.put(0, 5);
    const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 5)));
    EXPECT_TRUE(rig.finish(op).status.ok());
    expect_layers(rig, op, 0, 6);
    for (uint32_t b = 0; b < 5; ++b) {
      for (uint32_t l = 0; l < 6; ++l)
        EXPECT_TRUE(rig.layer_is_stored(id_of(b), b, l));
    }
  }
}

TEST_F(PullTest, AnyRangeOfLayersTouchesOnlyItsOwnMemory) {
  KvRig rig(kLayers, 2);
  rig.put(0, 2);
  for (uint32_t first = 0; first < 6; ++first) {
    for (uint32_t count = 1; first + count <= 6; ++count) {
      SCOPED_TRACE(testing::Message() << first << "+" << count);
      rig.poison();
      PullRequest request = rig.pull_of(ids_of(0, 2));
      request.layer_first = first;
      request.layer_count = count;
      const OpId op = *rig.core->pull(request);
      EXPECT_TRUE(rig.finish(op).status.ok());
      expect_layers(rig, op, first, count);
      for (uint32_t b = 0; b < 2; ++b) {
        for (uint32_t l = 0; l < 6; ++l) {
          if (l >= first && l < first + count) {
            EXPECT_TRUE(rig.layer_is_stored(id_of(b), b, l)) << l;
          } else {
            EXPECT_EQ(rig.read_layer(b, l), std::vector<std::byte>(kLayers[l], KvRig::kPoison));
          }
        }
      }
    }
  }
}

TEST_F(PullTest, ALayerThatIsCutArrivesWhole) {
  KvRig rig({9000000, 100}, 1);
  ASSERT_GT(rig.table.extents.size(), 3u);
  rig.put(0, 1);
  const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 1)));
  EXPECT_TRUE(rig.finish(op).status.ok());
  expect_layers(rig, op, 0, 2);
  EXPECT_TRUE(rig.layer_is_stored(id_of(0), 0, 0));
}

// Segments so small that a payload needs more pieces than one receive has.
TEST_F(PullTest, MemoryTooScatteredForOneReceiveGoesThroughTheBounceBuffer) {
  RigOptions options;
  options.client.bulk_lanes = 2;
  KvRig rig({120000, 120000}, 2, options);
  rig.put(0, 2);
  std::vector<std::byte> memory(2 * 2 * 120000 * 2, KvRig::kPoison);
  Layout layout;
  for (uint32_t l = 0; l < 2; ++l) {
    LayerLayout layer;
    layer.region = *rig.core->register_memory(memory.data(), memory.size());
    layer.offset = l * 480000;
    layer.stride = 240000;
    layer.segments = 1000;  // of 120 bytes, every 240
    layer.segment_stride = 240;
    layout.layers.push_back(layer);
  }
  PullRequest request = rig.pull_of(ids_of(0, 2));
  request.layout = &layout;
  EXPECT_TRUE(pull(rig, request).status.ok());
  for (uint32_t b = 0; b < 2; ++b) {
    for (uint32_t l = 0; l < 2; ++l) {
      const auto expected = rig.stored_layer(id_of(b), l);
      for (uint32_t s = 0; s < 1000; ++s) {
        const std::byte* at = memory.data() + l * 480000 + b * 240000 + s * 240;
        ASSERT_EQ(std::memcmp(at, expected.data() + s * 120, 120), 0) << s;
        ASSERT_EQ(at[120], KvRig::kPoison);
      }
    }
  }
}

TEST_F(PullTest, AMissingBlockCostsOnlyItself) {
  KvRig rig(kLayers, 4);
  rig.put(0, 4);
  rig.daemon->store().erase(BlockId{id_of(2), 0});
  const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 4)));
  const Event event = rig.finish(op);
  EXPECT_TRUE(event.status.ok());
  const std::vector<Code> codes = {Code::kOk, Code::kOk, Code::kUnavailable, Code::kOk};
  EXPECT_EQ(event.codes, codes);
  expect_layers(rig, op, 0, 6);
  EXPECT_EQ(rig.of(op, Event::Kind::kLayer).back().codes, codes);
  for (const uint32_t b : {0u, 1u, 3u})
    EXPECT_TRUE(rig.layer_is_stored(id_of(b), b, 5));
  EXPECT_EQ(rig.core->counters().failed_blocks, 1u);
}

TEST_F(PullTest, NothingThereMeansNoLayerAtAll) {
  KvRig rig(kLayers, 3);
  const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 3)));
  const Event event = rig.finish(op);
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.codes, std::vector<Code>(3, Code::kUnavailable));
  EXPECT_TRUE(rig.of(op, Event::Kind::kLayer).empty());
  EXPECT_TRUE(rig.poisoned());
}

TEST_F(PullTest, ARefusedPullEndsWithItsCode) {
  KvRig rig(kLayers, 2);
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kPull) return false;
    wire::Pulled no;
    no.code = static_cast<uint8_t>(Code::kQuota);
    rig.daemon->send(0, rig.daemon->encoder().pulled(r.op, no, {}));
    return true;
  };
  const Event event = pull(rig, rig.pull_of(ids_of(0, 2)));
  EXPECT_EQ(event.status.code(), Code::kQuota);
  EXPECT_EQ(event.codes, std::vector<Code>(2, Code::kQuota));
}

TEST_F(PullTest, PulledThatDoesNotFitIsRefused) {
  for (const Code code : {Code::kOk, Code::kOverloaded}) {
    KvRig rig(kLayers, 2);
    rig.daemon->hook = [&](const auto& r) {
      if (r.type != Type::kPull) return false;
      wire::Pulled pulled;
      pulled.code = static_cast<uint8_t>(code);
      const std::vector<uint8_t> codes(2000, 8);
      rig.daemon->send(0, rig.daemon->encoder().pulled(r.op, pulled, codes));
      return true;
    };
    EXPECT_EQ(pull(rig, rig.pull_of(ids_of(0, 2))).status.code(), Code::kInvalid);
  }
}

TEST_F(PullTest, PulledMayOvertakeItsData) {
  KvRig rig({70000}, 2);
  rig.put(0, 2);
  uint64_t op_on_wire = 0;
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kPull) return false;
    op_on_wire = r.op;
    const uint8_t codes[] = {0, 0};
    rig.daemon->send(0, rig.daemon->encoder().pulled(r.op, {}, codes));
    return true;
  };
  const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 2)));
  ASSERT_TRUE(rig.run_until([&] { return op_on_wire != 0; }));
  rig.run_for(10 * kMillisecond);
  EXPECT_FALSE(rig.core->done(op));
  for (uint32_t b = 0; b < 2; ++b) {
    const auto& bytes = rig.daemon->store().at(BlockId{id_of(b), 0}).extents[0];
    rig.daemon->send_data(1, op_on_wire, rig.daemon->data_of(BlockId{id_of(b), 0}, b, 0), bytes);
  }
  EXPECT_TRUE(rig.finish(op).status.ok());
  expect_layers(rig, op, 0, 1);
}

// What a daemon (or a drive behind it) can get wrong in one frame of DATA: each costs its block and
// nothing else.
TEST_F(PullTest, WrongDataFailsItsBlockAndNeverALayerOfOthers) {
  struct Case {
    const char* what;
    Code code;
    std::function<void(wire::Data&, std::vector<std::byte>&)> change;
  };
  const Case cases[] = {
      {"a flipped bit", Code::kCorrupt, [](auto&, auto& p) { p[777] ^= std::byte{1}; }},
      {"another checksum", Code::kCorrupt, [](auto& d, auto&) { ++d.entry.stored_crc; }},
      {"another extent's size", Code::kCorrupt, [](auto& d, auto&) { ++d.entry.stored_bytes; }},
      {"another decoded size", Code::kCorrupt, [](auto& d, auto&) { --d.entry.decoded_bytes; }},
      {"an offset that skips", Code::kCorrupt, [](auto& d, auto&) { d.offset = 8; }},
      {"more bytes than the extent", Code::kCorrupt, [](auto&, auto& p) { p.resize(80000); }},
      {"no attempt", Code::kCorrupt, [](auto& d, auto&) { d.attempt = Attempt(); }},
      {"another attempt", Code::kCorrupt, [](auto& d, auto&) { ++d.attempt.counter; }},
      {"a codec we do not know", Code::kUnsupported, [](auto& d, auto&) { d.entry.codec = 9; }},
      {"an extent not asked for", Code::kInvalid, [](auto& d, auto&) { d.extent = 99; }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    KvRig rig({70000, 70000}, 2);
    rig.put(0, 2);
    rig.daemon->hook = [&](const auto& r) {
      if (r.type != Type::kPull) return false;
      for (uint32_t e = 0; e < 2; ++e) {
        for (uint32_t b = 0; b < 2; ++b) {
          const BlockId id{id_of(b), 0};
          wire::Data data = rig.daemon->data_of(id, b, e);
          auto bytes = rig.daemon->store().at(id).extents[e];
          if (b == 1 && e == 1) c.change(data, bytes);
          rig.daemon->send_data(1, r.op, data, bytes);
        }
      }
      const uint8_t codes[] = {0, 0};
      rig.daemon->send(0, rig.daemon->encoder().pulled(r.op, {}, codes));
      return true;
    };
    const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 2)));
    const Event event = rig.finish(op);
    EXPECT_TRUE(event.status.ok());
    EXPECT_EQ(event.codes, (std::vector<Code>{Code::kOk, c.code}));
    expect_layers(rig, op, 0, 2);
    EXPECT_EQ(rig.of(op, Event::Kind::kLayer)[0].codes, std::vector<Code>(2, Code::kOk));
    EXPECT_EQ(rig.of(op, Event::Kind::kLayer)[1].codes, event.codes);
    EXPECT_TRUE(rig.layer_is_stored(id_of(0), 0, 0) && rig.layer_is_stored(id_of(0), 0, 1));
    EXPECT_TRUE(rig.layer_is_stored(id_of(1), 1, 0));
    EXPECT_EQ(rig.core->counters().disconnects, 0u);
  }
}

TEST_F(PullTest, DataOfABlockNotAskedForEndsThePull) {
  KvRig rig({70000}, 2);
  rig.put(0, 2);
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kPull) return false;
    rig.daemon->send_data(1, r.op, rig.daemon->data_of(BlockId{id_of(0), 0}, 2, 0),
                          rig.daemon->store().at(BlockId{id_of(0), 0}).extents[0]);
    return true;
  };
  EXPECT_EQ(pull(rig, rig.pull_of(ids_of(0, 2))).status.code(), Code::kInvalid);
  EXPECT_TRUE(rig.poisoned());
}

// The same extent on two lanes at once: the second must not write into what the first has verified.
TEST_F(PullTest, ASecondCopyOfAnExtentNeverReachesTheMemory) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    RigOptions options;
    options.seed = seed;
    options.client.bulk_lanes = 2;
    KvRig rig({70000, 70000}, 1, options);
    rig.put(0, 1);
    rig.daemon->hook = [&](const auto& r) {
      if (r.type != Type::kPull) return false;
      const BlockId id{id_of(0), 0};
      const auto good = rig.daemon->store().at(id).extents[0];
      const std::vector<std::byte> bad(good.size(), std::byte{0xEE});
      rig.daemon->send_data(1, r.op, rig.daemon->data_of(id, 0, 0), good);
      rig.daemon->send_data(2, r.op, rig.daemon->data_of(id, 0, 0), bad);
      return true;
    };
    const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 1)));
    rig.run_for(20 * kMillisecond);
    const auto layers = rig.of(op, Event::Kind::kLayer);
    if (!layers.empty() && layers[0].codes[0] == Code::kOk) {
      EXPECT_TRUE(rig.layer_is_stored(id_of(0), 0, 0));
    }
    rig.core->cancel(op);
    rig.finish(op);
    EXPECT_NE(rig.terminal(op)->codes[0], Code::kOk);
  }
}

// A second DATA stream for an op that has ended is discarded, and its credit comes back.
TEST_F(PullTest, LateDataIsDiscardedAndItsCreditReturned) {
  KvRig rig({70000}, 1);
  rig.put(0, 1);
  EXPECT_TRUE(pull(rig, rig.pull_of(ids_of(0, 1))).status.ok());
  const uint64_t op_on_wire = rig.daemon->last(Type::kPull)->op;
  rig.poison();
  const BlockId id{id_of(0), 0};
  rig.daemon->send_data(1, op_on_wire, rig.daemon->data_of(id, 0, 0),
                        rig.daemon->store().at(id).extents[0]);
  rig.run_for(100 * kMillisecond);
  EXPECT_TRUE(rig.poisoned());
  EXPECT_EQ(rig.core->counters().discarded_bytes, 70000u);
  EXPECT_EQ(rig.daemon->credit_returned(), 140000u);
}

TEST_F(PullTest, TheDeadlineGoesThroughTheFence) {
  KvRig rig(kLayers, 2);
  rig.put(0, 2);
  rig.daemon->hook = [&](const auto& r) { return r.type == Type::kPull; };
  PullRequest request = rig.pull_of(ids_of(0, 2));
  request.deadline_ns = 50 * kMillisecond;
  request.slack_ns = 7;
  request.layer_ns = 9;
  ASSERT_TRUE(rig.ready());
  const Nanos from = rig.clock.now_ns();
  const Event event = pull(rig, request);
  EXPECT_EQ(event.status.code(), Code::kTimedOut);
  EXPECT_EQ(event.codes, std::vector<Code>(2, Code::kTimedOut));
  EXPECT_GE(rig.clock.now_ns() - from, 50 * kMillisecond);
  EXPECT_LE(rig.clock.now_ns() - from, 52 * kMillisecond);
  EXPECT_EQ(rig.daemon->count(Type::kCancel), 1u);
  EXPECT_EQ(rig.core->counters().disconnects, 0u);
  const auto frame = rig.daemon->last(Type::kPull)->frame();
  const auto& body = std::get<wire::PullView>(frame.body).body;
  EXPECT_LE(body.deadline_ns, 50 * kMillisecond);
  EXPECT_GT(body.deadline_ns, 40 * kMillisecond);
  EXPECT_EQ(body.slack_ns, 7u);
  EXPECT_EQ(body.layer_ns, 9u);
}

// A daemon that does not answer CANCEL costs the session; the pull ends, the others are asked again
// (I8).
TEST_F(PullTest, WithoutFencedTheLanesAreClosedAndOtherPullsAskedAgain) {
  KvRig rig(kLayers, 4);
  rig.put(0, 4);
  bool mute = true;
  rig.daemon->hook = [&](const auto& r) {
    return mute && (r.type == Type::kPull || r.type == Type::kCancel);
  };
  PullRequest first = rig.pull_of(ids_of(0, 2));
  first.deadline_ns = 50 * kMillisecond;
  PullRequest second = rig.pull_of(ids_of(2, 2));
  second.slots = {2, 3};
  ASSERT_TRUE(rig.ready());
  const OpId stuck = *rig.core->pull(first);
  const OpId other = *rig.core->pull(second);
  const Nanos from = rig.clock.now_ns();
  EXPECT_EQ(rig.finish(stuck).status.code(), Code::kTimedOut);
  mute = false;
  EXPECT_GE(rig.clock.now_ns() - from, 1050 * kMillisecond);
  EXPECT_LE(rig.clock.now_ns() - from, 1060 * kMillisecond);  // C3
  EXPECT_FALSE(rig.core->done(other));
  EXPECT_TRUE(rig.finish(other).status.ok());
  for (uint32_t l = 0; l < 6; ++l)
    EXPECT_TRUE(rig.layer_is_stored(id_of(2), 2, l));
  EXPECT_EQ(rig.daemon->count(Type::kPull), 3u);
}

TEST_F(PullTest, FencedThatNobodyAskedForChangesNothing) {
  KvRig rig({70000}, 1);
  rig.put(0, 1);
  uint64_t op_on_wire = 0;
  rig.daemon->hook = [&](const auto& r) {
    if (r.type == Type::kPull) {
      op_on_wire = r.op;
      rig.daemon->send(0, rig.daemon->encoder().fenced(r.op, {r.op}));
      return true;
    }
    return r.type == Type::kCancel;
  };
  const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 1)));
  ASSERT_TRUE(rig.run_until([&] { return op_on_wire != 0; }));
  rig.run_for(10 * kMillisecond);
  EXPECT_FALSE(rig.core->done(op));
  rig.core->cancel(op);
  rig.run_for(10 * kMillisecond);
  EXPECT_FALSE(rig.core->done(op));  // its own FENCED has not come
  rig.daemon->send(0, rig.daemon->encoder().fenced(op_on_wire, {op_on_wire}));
  EXPECT_EQ(rig.finish(op, 100 * kMillisecond).status.code(), Code::kCancelled);
}

// The fence begins with the cancel, not with its answer.
TEST_F(PullTest, NothingNewIsPlacedAfterACancel) {
  KvRig rig({70000}, 1);
  rig.put(0, 1);
  uint64_t op_on_wire = 0;
  rig.daemon->hook = [&](const auto& r) {
    if (r.type == Type::kPull) op_on_wire = r.op;
    return r.type == Type::kPull || r.type == Type::kCancel;
  };
  const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 1)));
  ASSERT_TRUE(rig.run_until([&] { return op_on_wire != 0; }));
  rig.core->cancel(op);
  const BlockId id{id_of(0), 0};
  rig.daemon->send_data(1, op_on_wire, rig.daemon->data_of(id, 0, 0),
                        rig.daemon->store().at(id).extents[0]);
  rig.run_for(20 * kMillisecond);
  EXPECT_FALSE(rig.core->done(op));
  EXPECT_TRUE(rig.poisoned());
  EXPECT_EQ(rig.core->counters().discarded_bytes, 70000u);
}

// C2: cancel after every number of steps; once the terminal event is there the memory is ours
// again.
TEST_F(PullTest, AfterTheTerminalEventOfACancelNothingTouchesTheMemory) {
  uint32_t cancelled = 0;
  for (uint32_t steps = 0; steps < 400; ++steps) {
    SCOPED_TRACE(steps);
    RigOptions options;
    options.seed = steps + 1;
    options.client.bulk_lanes = 1 + steps % 3;
    options.daemon.piece_bytes = 9000;
    KvRig rig({20000, 30000, 66000}, 4, options);
    rig.put(0, 4);
    ASSERT_TRUE(rig.ready());
    const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 4)));
    for (uint32_t i = 0; i < steps; ++i)
      rig.step();
    rig.core->cancel(op);
    const Event event = rig.finish(op, 2 * kSecond);
    cancelled += event.status.code() == Code::kCancelled;
    const auto layers = rig.of(op, Event::Kind::kLayer).size();
    rig.poison();
    rig.run_for(50 * kMillisecond);
    EXPECT_TRUE(rig.poisoned());
    EXPECT_EQ(rig.of(op, Event::Kind::kLayer).size(), layers);
    EXPECT_TRUE(rig.core->at_rest());
    if (event.status.ok()) break;
  }
  EXPECT_GT(cancelled, 50u);
}

// The same for losses; a pull that survives its loss is right in every byte.
TEST_F(PullTest, ALossAtAnyStepEndsInTheRightBytesOrAReason) {
  uint32_t resent = 0;
  uint32_t failed = 0;
  for (uint32_t steps = 0; steps < 400; ++steps) {
    SCOPED_TRACE(steps);
    RigOptions options;
    options.seed = steps + 1;
    options.client.bulk_lanes = 1 + steps % 2;
    options.daemon.piece_bytes = 9000;
    KvRig rig({20000, 30000, 66000, 70000}, 3, options);
    rig.put(0, 3);
    rig.daemon->store().erase(BlockId{id_of(1), 0});
    ASSERT_TRUE(rig.ready());
    const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 3)));
    for (uint32_t i = 0; i < steps; ++i)
      rig.step();
    const bool early = rig.terminal(op) != nullptr;
    rig.fabric.break_all();
    const Event event = rig.finish(op, 2 * kSecond);
    if (event.status.ok()) {
      resent += rig.daemon->count(Type::kPull) == 2;
      expect_layers(rig, op, 0, 4);
      for (const uint32_t b : {0u, 2u}) {
        EXPECT_EQ(event.codes[b], Code::kOk);
        for (uint32_t l = 0; l < 4; ++l)
          EXPECT_TRUE(rig.layer_is_stored(id_of(b), b, l));
      }
      EXPECT_EQ(event.codes[1], Code::kUnavailable);
      EXPECT_EQ(event.bytes, 2 * rig.table.block_bytes);
    } else {
      EXPECT_EQ(event.status.code(), Code::kUnavailable);
      ++failed;
    }
    rig.poison();
    rig.run_for(50 * kMillisecond);
    EXPECT_TRUE(rig.poisoned());
    if (early) break;
  }
  EXPECT_GT(resent, 50u);
  EXPECT_LT(failed, 10u);  // only when it was not asked yet
}

// Two writers' bytes of one block must not be mixed: the rest of a pull insists on the attempt it
// began with (I3).
TEST_F(PullTest, TheRestAfterALossIsOfTheSameAttempt) {
  KvRig rig({70000, 70000}, 1);
  rig.put(0, 1);
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kPull || rig.daemon->count(Type::kPull) > 1) return false;
    const BlockId id{id_of(0), 0};
    rig.daemon->send_data(1, r.op, rig.daemon->data_of(id, 0, 0),
                          rig.daemon->store().at(id).extents[0]);
    return true;
  };
  const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 1)));
  ASSERT_TRUE(rig.run_until([&] { return rig.of(op, Event::Kind::kLayer).size() == 1; }));
  const auto layer0 = rig.read_layer(0, 0);
  rig.daemon->put(BlockId{id_of(0), 0}, rig.table, 1234);  // somebody else's bytes
  rig.daemon->close_lane(0);
  const Event event = rig.finish(op);
  EXPECT_EQ(event.codes[0], Code::kCorrupt);
  EXPECT_EQ(rig.read_layer(0, 0), layer0);
  const auto frame = rig.daemon->last(Type::kPull)->frame();
  EXPECT_EQ(std::get<wire::PullView>(frame.body).body.layer_first, 1u);
}

TEST_F(PullTest, ALeaseIsNotNamedAgainAfterALoss) {
  KvRig rig({70000}, 1);
  rig.put(0, 1);
  MatchRequest match;
  match.format = rig.format_id;
  match.ids = ids_of(0, 1);
  match.lease_ms = 60000;
  PullRequest request = rig.pull_of(ids_of(0, 1));
  request.lease = rig.finish(*rig.core->match(match)).lease;
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kPull || rig.daemon->count(Type::kPull) > 1) return false;
    rig.daemon->close_lane(1);
    return true;
  };
  EXPECT_TRUE(pull(rig, request).status.ok());
  const auto frame = rig.daemon->last(Type::kPull)->frame();
  EXPECT_EQ(std::get<wire::PullView>(frame.body).body.lease, 0u);
}

TEST_F(PullTest, ASecondLossEndsItUnavailable) {
  KvRig rig(kLayers, 1);
  rig.put(0, 1);
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kPull) return false;
    rig.daemon->close_lane(1);
    return true;
  };
  EXPECT_EQ(pull(rig, rig.pull_of(ids_of(0, 1))).status.code(), Code::kUnavailable);
  EXPECT_EQ(rig.daemon->count(Type::kPull), 2u);
}

TEST_F(PullTest, ALostPullEndsWhenTheDaemonDoesNotComeBack) {
  KvRig rig(kLayers, 1);
  rig.put(0, 1);
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kPull) return false;
    rig.daemon->stop();
    return true;
  };
  const Nanos from = rig.clock.now_ns();
  EXPECT_EQ(pull(rig, rig.pull_of(ids_of(0, 1))).status.code(), Code::kUnavailable);
  EXPECT_LT(rig.clock.now_ns() - from, 200 * kMillisecond);  // not the deadline
}

TEST_F(PullTest, ADaemonThatNeverComesEndsItWithTheReason) {
  RigOptions options;
  options.daemon_up = false;
  KvRig rig(kLayers, 1, options);
  EXPECT_EQ(pull(rig, rig.pull_of(ids_of(0, 1))).status.code(), Code::kUnavailable);
  EXPECT_LT(rig.clock.now_ns(), 100 * kMillisecond);
}

TEST_F(PullTest, TheSameBlockTwiceArrivesTwice) {
  KvRig rig(kLayers, 2);
  rig.put(0, 1);
  EXPECT_TRUE(pull(rig, rig.pull_of({id_of(0), id_of(0)})).status.ok());
  EXPECT_TRUE(rig.layer_is_stored(id_of(0), 0, 4) && rig.layer_is_stored(id_of(0), 1, 4));
}

TEST_F(PullTest, ManyPullsAtOnceAllEnd) {
  RigOptions options;
  options.client.bulk_lanes = 3;
  KvRig rig({5000, 70000}, 60, options);
  rig.put(0, 60);
  std::vector<OpId> ops;
  for (uint32_t i = 0; i < 60; ++i) {
    PullRequest request = rig.pull_of({id_of(i)});
    request.slots = {i};
    ops.push_back(*rig.core->pull(request));
  }
  for (const OpId op : ops)
    EXPECT_TRUE(rig.finish(op).status.ok());
  for (uint32_t i = 0; i < 60; ++i)
    EXPECT_TRUE(rig.layer_is_stored(id_of(i), i, 1));
}

}  // namespace
}  // namespace varve
