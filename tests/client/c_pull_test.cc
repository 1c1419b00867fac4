// Goal: a C caller knows layer by layer and block by block what it has, by waiting, by looking, or
// by completions. Method: the scripted daemon; layers sent by script.
#include <gtest/gtest.h>

#include "tests/client/c_rig.h"

namespace varve {
namespace {

class CPullTest : public CRig {
 protected:
  // The daemon sends nothing of pulls by itself; the test sends layers.
  void hold_pulls() {
    daemon_.call([](ScriptedDaemon& d) {
      d.hook = [](const auto& r) { return r.type == Type::kPull || r.type == Type::kCancel; };
    });
  }
  void send_layer(uint32_t layer, uint32_t block) {
    daemon_.call([&](ScriptedDaemon& d) {
      const uint64_t op = d.last(Type::kPull)->op;
      d.send_extent(1, op, BlockId{varve::id_of(block), 0}, block, layer);
    });
  }
};

TEST_F(CPullTest, LayersAreWaitedForOneByOne) {
  open_ready();
  put(2);
  hold_pulls();
  const varve_op op = pull(pull_of(0, 2));
  wait_asked(Type::kPull, 1);
  uint32_t layers = 9;
  uint8_t bits = 0xFF;
  ASSERT_EQ(varve_layers_done(client_, op, &layers), VARVE_OK);
  EXPECT_EQ(layers, 0u);
  EXPECT_EQ(varve_wait_layer(client_, op, 0, 0, &bits, 1), VARVE_TIMED_OUT);
  EXPECT_EQ(bits, 0);
  for (uint32_t l = 0; l < kLayers; ++l) {
    send_layer(l, 0);
    EXPECT_EQ(varve_wait_layer(client_, op, l, kMillisecond, nullptr, 0), VARVE_TIMED_OUT);
    send_layer(l, 1);
    EXPECT_EQ(varve_wait_layer(client_, op, l, kLong, &bits, 1), VARVE_OK);
    EXPECT_EQ(bits, 3);
    ASSERT_EQ(varve_layers_done(client_, op, &layers), VARVE_OK);
    EXPECT_EQ(layers, l + 1);
  }
  EXPECT_EQ(varve_wait_layer(client_, op, 0, 0, &bits, 1), VARVE_OK);  // again, at once
  EXPECT_EQ(varve_wait_layer(client_, op, kLayers, 0, &bits, 1), VARVE_INVALID);
  daemon_.call([](ScriptedDaemon& d) {
    d.send(0, d.encoder().pulled(d.last(Type::kPull)->op, {}, std::vector<uint8_t>(2)));
  });
  Completion done;
  ASSERT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
  EXPECT_EQ(done.status, VARVE_OK);
  EXPECT_EQ(done.layers_done, kLayers);
  EXPECT_EQ(done.ok_count, 2u);
  EXPECT_EQ(varve_wait_layer(client_, op, 0, kLong, &bits, 1), VARVE_UNKNOWN);
  EXPECT_EQ(varve_layers_done(client_, op, &layers), VARVE_UNKNOWN);
}

TEST_F(CPullTest, ABlockThatIsNotThereIsAMissOfItsOwn) {
  open_ready();
  put(3);
  daemon_.call([](ScriptedDaemon& d) { d.store().erase(BlockId{varve::id_of(1), 0}); });
  const varve_op op = pull(pull_of(0, 3));
  uint8_t bits[2] = {0xFF, 0xFF};
  EXPECT_EQ(varve_wait_layer(client_, op, kLayers - 1, kLong, bits, 2), VARVE_PARTIAL);
  EXPECT_EQ(bits[0], 0b101);
  EXPECT_EQ(bits[1], 0);
  Completion done;
  ASSERT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
  EXPECT_EQ(done.kind, uint32_t{VARVE_DONE_PULL});
  EXPECT_EQ(done.status, VARVE_OK);
  EXPECT_EQ(done.count, 3u);
  EXPECT_EQ(done.ok_count, 2u);
  EXPECT_EQ(done.codes[0], VARVE_OK);
  EXPECT_EQ(done.codes[1], VARVE_MISS);
  EXPECT_EQ(done.bitmap[0], 0b101);
  EXPECT_EQ(done.bytes, uint64_t{2} * kLayers * kLayerBytes);
  EXPECT_GT(done.first_layer_ns, 0u);
  EXPECT_GE(done.done_ns, done.first_layer_ns);
  EXPECT_TRUE(slot_holds(0, 0));
  EXPECT_TRUE(slot_holds(2, 2));
}

TEST_F(CPullTest, ItsEndSaysWhereTheBlocksCameFrom) {
  open_ready();
  put(1);
  const auto mask = [&](uint8_t tiers, uint32_t struct_size) {
    daemon_.call([tiers](ScriptedDaemon& d) { d.options().tiers = tiers; });
    Completion done;
    done.tier_mask = 77;  // not read, so not written either
    done.struct_size = struct_size;
    EXPECT_EQ(varve_wait(client_, pull(pull_of(0, 1)), kLong, &done), VARVE_OK);
    EXPECT_EQ(done.status, VARVE_OK);
    return done.tier_mask;
  };
  const uint32_t size = sizeof(varve_completion);
  EXPECT_EQ(mask(0, size), 0u);
  EXPECT_EQ(mask(wire::tier_bit(wire::TierKind::kDram), size), uint32_t{VARVE_FROM_DRAM});
  EXPECT_EQ(mask(wire::kTierBits, size),
            uint32_t{VARVE_FROM_DRAM | VARVE_FROM_FLASH | VARVE_FROM_OBJECT});
  EXPECT_EQ(mask(wire::kTierBits, 200), 77u) << "a caller of before has no such field";
}

TEST_F(CPullTest, NoneOfThemIsNoLayer) {
  open_ready();
  const varve_op op = pull(pull_of(0, 2));
  uint8_t bits = 0xFF;
  EXPECT_EQ(varve_wait_layer(client_, op, 0, kLong, &bits, 1), VARVE_PARTIAL);
  EXPECT_EQ(bits, 0);
}

TEST_F(CPullTest, APartOfTheLayersIsCountedFromItsFirst) {
  open_ready();
  put(1);
  auto request = pull_of(0, 1);
  request.layer_first = 1;
  request.flags = VARVE_TELL_LAYERS;
  const varve_op op = pull(request);
  EXPECT_EQ(varve_wait_layer(client_, op, 0, kLong, nullptr, 0), VARVE_INVALID);
  EXPECT_EQ(varve_wait_layer(client_, op, 2, kLong, nullptr, 0), VARVE_OK);
  uint32_t layers = 0;
  EXPECT_EQ(varve_layers_done(client_, op, &layers), VARVE_OK);
  EXPECT_EQ(layers, 2u);
  EXPECT_EQ(at(0, 0)[0], std::byte{0xAB});
  // Expect: told layer by layer as well.
  EXPECT_EQ(varve_quiesce(client_, op, kLong), VARVE_OK);
  for (uint32_t l = 1; l < kLayers; ++l) {
    Completion done;
    size_t count = 0;
    ASSERT_EQ(varve_poll(client_, &done, 1, &count), VARVE_OK);
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(done.kind, uint32_t{VARVE_DONE_LAYER});
    EXPECT_EQ(done.layer, l);
    EXPECT_EQ(done.layers_done, l);
    EXPECT_EQ(done.bitmap[0], 1);
  }
}

TEST_F(CPullTest, AfterQuiesceTheMemoryIsTheCallers) {
  open_ready();
  put(kSlots);
  for (uint32_t round = 0; round < 20; ++round) {
    const varve_op op = pull(pull_of(0, kSlots));
    if (round % 3 != 0) varve_wait_layer(client_, op, round % 3 - 1, kLong, nullptr, 0);
    ASSERT_EQ(varve_quiesce(client_, op, kLong), VARVE_OK);
    std::fill(memory_.begin(), memory_.end(), std::byte{0x5A});
    Completion last;
    ASSERT_EQ(varve_wait(client_, op, 0, &last), VARVE_OK);
    Completion behind;  // whatever was under way has come by then
    ASSERT_EQ(varve_wait(client_, match(match_of(0, 1)), kLong, &behind), VARVE_OK);
    ASSERT_EQ(std::count(memory_.begin(), memory_.end(), std::byte{0x5A}),
              static_cast<std::ptrdiff_t>(memory_.size()));
  }
}

TEST_F(CPullTest, ACancelledOneSaysSo) {
  open_ready();
  put(1);
  silence(Type::kPull);
  const varve_op op = pull(pull_of(0, 1));
  static_cast<void>(varve_quiesce(client_, op, 0));  // ended or not: it is cancelled
  EXPECT_EQ(varve_wait_layer(client_, op, 0, kLong, nullptr, 0), VARVE_CANCELLED);
  Completion done;
  ASSERT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
  EXPECT_EQ(done.status, VARVE_CANCELLED);
  EXPECT_EQ(done.codes[0], VARVE_CANCELLED);
  EXPECT_EQ(varve_cancel(client_, op), VARVE_OK);
  EXPECT_EQ(varve_quiesce(client_, op, 0), VARVE_OK);
  EXPECT_EQ(varve_quiesce(client_, 4711, 0), VARVE_OK);
}

TEST_F(CPullTest, RequestsThatAreWrongAreRefused) {
  open_ready();
  auto request = pull_of(0, 9);
  request.flags = VARVE_PUSH_FINAL;
  EXPECT_EQ(varve_pull_submit(client_, &request, nullptr), VARVE_UNSUPPORTED);
  request.flags = 0;
  request.struct_size = 12;
  EXPECT_EQ(varve_pull_submit(client_, &request, nullptr), VARVE_INVALID);
  EXPECT_EQ(varve_pull_submit(client_, nullptr, nullptr), VARVE_INVALID);
  put(9);
  const varve_op op = pull(pull_of(0, 9));
  uint8_t bits = 0;
  EXPECT_EQ(varve_wait_layer(client_, op, 0, kLong, &bits, 1), VARVE_INVALID);  // nine blocks
  EXPECT_EQ(varve_wait_layer(client_, op, 0, kLong, &bits, 0), VARVE_INVALID);
  EXPECT_EQ(varve_wait_layer(client_, op, 0, kLong, nullptr, 2), VARVE_INVALID);
  EXPECT_EQ(varve_wait_layer(client_, 4711, 0, kLong, nullptr, 0), VARVE_UNKNOWN);
  EXPECT_EQ(varve_layers_done(client_, op, nullptr), VARVE_INVALID);
  uint32_t layers = 0;
  EXPECT_EQ(varve_layers_done(client_, 0, &layers), VARVE_UNKNOWN);
}

TEST_F(CPullTest, WhatIsStillPushedIsFollowed) {
  open_ready();
  for (size_t i = 0; i < memory_.size(); ++i)
    memory_[i] = static_cast<std::byte>(i * 3 / 7);
  const varve_op pushing = push(push_of(0, 2, VARVE_TELL_RESERVED));
  std::vector<varve_follow_tag> tags;
  while (tags.size() < 2) {
    Completion told;
    size_t count = 0;
    ASSERT_EQ(varve_poll(client_, &told, 1, &count), VARVE_OK);
    if (count == 0) continue;
    ASSERT_EQ(told.kind, uint32_t{VARVE_DONE_RESERVED});
    tags.insert(tags.end(), told.tags, told.tags + told.tag_count);
  }
  varve_follow_request follow;
  VARVE_INIT(&follow);
  follow.blocks = blocks(0, 2);
  slots_ = {10, 11};
  follow.tags = tags.data();
  varve_op op = 0;
  ASSERT_EQ(varve_follow_submit(client_, &follow, &op), VARVE_OK);
  for (uint32_t l = 0; l < kLayers; ++l) {
    ASSERT_EQ(varve_push_layer(client_, pushing, l), VARVE_OK);
    uint8_t bits = 0;
    ASSERT_EQ(varve_wait_layer(client_, op, l, kLong, &bits, 1), VARVE_OK);
    EXPECT_EQ(std::memcmp(at(10, l), at(0, l), kLayerBytes), 0);
  }
  Completion done;
  ASSERT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
  EXPECT_EQ(done.kind, uint32_t{VARVE_DONE_FOLLOW});
  EXPECT_EQ(done.ok_count, 2u);
  Completion pushed;
  ASSERT_EQ(varve_wait(client_, pushing, kLong, &pushed), VARVE_OK);
  EXPECT_EQ(pushed.ok_count, 2u);

  follow.blocks = blocks(5, 2);  // other ids than the tags'
  EXPECT_EQ(varve_follow_submit(client_, &follow, &op), VARVE_INVALID);
  follow.blocks.ids = nullptr;
  for (varve_follow_tag& tag : tags)
    tag.bytes[40] ^= 0x55;  // the counter of an attempt that is not there
  ASSERT_EQ(varve_follow_submit(client_, &follow, &op), VARVE_OK);
  Completion late;
  ASSERT_EQ(varve_wait(client_, op, kLong, &late), VARVE_OK);
  EXPECT_EQ(late.ok_count, 0u);
  EXPECT_EQ(late.codes[0], VARVE_MISS);
  follow.tags = nullptr;
  EXPECT_EQ(varve_follow_submit(client_, &follow, &op), VARVE_INVALID);
  follow.flags = VARVE_TELL_RESERVED;
  EXPECT_EQ(varve_follow_submit(client_, &follow, &op), VARVE_UNSUPPORTED);
}

}  // namespace
}  // namespace varve
