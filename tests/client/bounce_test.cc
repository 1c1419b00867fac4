// Goal: blocks in memory that nobody registered are pushed and pulled exactly, in bounded memory,
// and that memory is nobody's but the caller's once an op has ended. Method: the rig with lists of
// buffers outside of its region, against its store; every cancel and loss, all schemes.
#include "client/bounce.h"

#include <gtest/gtest.h>

#include "client/core.h"
#include "tests/client/push_rig.h"

namespace varve {
namespace {

// Blocks as lists of buffers, each of memory of its own: those of the `outside` layers in no
// region.
class StrayRig : public KvRig {
 public:
  StrayRig(const std::vector<uint32_t>& layer_bytes, uint32_t slots, RigOptions options = {},
           uint32_t outside = ~0u)
      : KvRig(layer_bytes, slots, std::move(options)) {
    for (uint32_t s = 0; s < slots; ++s) {
      for (uint32_t l = 0; l < layer_bytes.size(); ++l) {
        stray_.emplace_back(layer_bytes[l], kPoison);
        list.buffers.push_back({stray_.back().data(), layer_bytes[l]});
        if ((outside >> l & 1) == 0) {
          EXPECT_TRUE(core->register_memory(stray_.back().data(), layer_bytes[l]).has_value());
        }
      }
    }
  }
  ~StrayRig() { shut_down(); }  // before the memory goes

  PushRequest push_list(uint32_t first, uint32_t count) {
    return with_list(push_of(ids_of(first, count)));
  }
  PullRequest pull_list(uint32_t first, uint32_t count) {
    return with_list(pull_of(ids_of(first, count)));
  }
  std::vector<std::byte>& at(uint32_t slot, uint32_t layer) {
    return stray_[size_t{slot} * layout.layers.size() + layer];
  }
  void fill_list(uint32_t first, uint32_t count) {
    for (uint32_t s = 0; s < count; ++s) {
      for (uint32_t l = 0; l < layout.layers.size(); ++l)
        std::ranges::copy(layer_content(id_of(first + s), l), at(s, l).begin());
    }
  }
  void poison_list() {
    for (auto& buffer : stray_)
      std::fill(buffer.begin(), buffer.end(), kPoison);
  }
  bool list_is_poisoned() const {
    return std::all_of(stray_.begin(), stray_.end(), [](const auto& buffer) {
      return std::all_of(buffer.begin(), buffer.end(), [](std::byte b) { return b == kPoison; });
    });
  }
  void expect_pulled(uint32_t first, uint32_t count) {
    for (uint32_t s = 0; s < count; ++s) {
      for (uint32_t l = 0; l < layout.layers.size(); ++l)
        EXPECT_EQ(at(s, l), stored_layer(id_of(first + s), l)) << s << " " << l;
    }
  }
  const ClientCounters& counted() { return core->counters(); }

  Layout list;

 private:
  template <class Request>
  Request with_list(Request request) {
    request.layout = &list;
    return request;
  }
  std::vector<std::vector<std::byte>> stray_;
};

const std::vector<uint32_t> kLayers = {20000, 50000, 70000, 600000, 66000, 270001};
constexpr uint64_t kBlockBytes = 20000 + 50000 + 70000 + 600000 + 66000 + 270001;

TEST(BounceTest, RoomIsLentInColumnsAndComesBack) {
  Bounce bounce(kBounceBytesMin);
  EXPECT_EQ(bounce.rule(), BoundLayout::Outside::kBounce);
  std::vector<Columns> rooms(5);
  for (uint32_t i = 0; i < 4; ++i)
    ASSERT_TRUE(bounce.take(kPayloadBytesMax, rooms[i]));
  EXPECT_FALSE(bounce.take(1, rooms[4]));
  EXPECT_TRUE(rooms[4].empty());
  for (Columns& room : rooms)
    bounce.give(room);
  EXPECT_EQ(bounce.used(), 0u);
  EXPECT_EQ(Bounce(0).rule(), BoundLayout::Outside::kRefuse);
  EXPECT_EQ(Bounce(0).used(), 0u);
}

TEST(BounceTest, BlocksOutsideOfEveryRegionArePushedAndPulledExactly) {
  for (const Scheme scheme : {Scheme{1, 0}, Scheme{2, 1}, Scheme{4, 2}}) {
    SCOPED_TRACE(scheme.text());
    RigOptions options;
    options.client.bulk_lanes = 2;
    options.daemon.k = scheme.k;
    options.daemon.m = scheme.m;
    StrayRig rig(kLayers, 3, options);
    rig.fill_list(0, 3);
    const Event pushed = rig.finish(PushTest::push_all(rig, rig.push_list(0, 3)));
    EXPECT_EQ(pushed.codes, std::vector<Code>(3, Code::kOk));
    for (uint32_t b = 0; b < 3; ++b)
      PushTest::expect_stored(rig, b);
    EXPECT_EQ(rig.counted().bounced_ops, 1u);
    EXPECT_EQ(rig.counted().bounced_bytes, 3 * kBlockBytes);
    rig.poison_list();
    const Event pulled = rig.finish(*rig.core->pull(rig.pull_list(0, 3)));
    EXPECT_EQ(pulled.codes, std::vector<Code>(3, Code::kOk));
    rig.expect_pulled(0, 3);
    EXPECT_EQ(rig.counted().bounced_ops, 2u);
    EXPECT_EQ(rig.counted().bounced_bytes, 6 * kBlockBytes);
  }
}

// Expect: only extents with something outside are copied; what lies in a region goes as ever.
TEST(BounceTest, OnlyWhatLiesOutsideIsCopied) {
  StrayRig rig({70000, 70000, 70000}, 2, {}, 0b010);
  rig.fill_list(0, 2);
  EXPECT_TRUE(rig.finish(PushTest::push_all(rig, rig.push_list(0, 2))).status.ok());
  EXPECT_EQ(rig.counted().bounced_bytes, 2 * 70000u);
  rig.poison_list();
  EXPECT_TRUE(rig.finish(*rig.core->pull(rig.pull_list(0, 2))).status.ok());
  rig.expect_pulled(0, 2);
  EXPECT_EQ(rig.counted().bounced_bytes, 4 * 70000u);
}

// A range of layers: whatever else shares their extents is left alone.
TEST(BounceTest, ARangeOfLayersTouchesNoOther) {
  StrayRig rig(kLayers, 1);
  rig.put(0, 1);
  PullRequest request = rig.pull_list(0, 1);
  request.layer_first = 1;
  request.layer_count = 2;
  const OpId op = *rig.core->pull(request);
  EXPECT_TRUE(rig.finish(op).status.ok());
  EXPECT_EQ(rig.of(op, Event::Kind::kLayer).size(), 2u);
  for (uint32_t l = 0; l < kLayers.size(); ++l) {
    const bool wanted = l == 1 || l == 2;
    const auto expected =
        wanted ? rig.stored_layer(id_of(0), l) : std::vector<std::byte>(kLayers[l], KvRig::kPoison);
    EXPECT_EQ(rig.at(0, l), expected) << l;
  }
}

// Many pushes and the least room there may be: they wait for each other and all end.
TEST(BounceTest, FullBounceMemoryIsBackPressure) {
  RigOptions options;
  options.daemon.k = 2;
  options.daemon.m = 1;
  options.client.bulk_lanes = 4;
  options.client.bounce_bytes = kBounceBytesMin;
  StrayRig rig({300000, 600000, 600000}, 12, options);
  rig.fill_list(0, 12);
  std::vector<OpId> ops;
  for (uint32_t i = 0; i < 12; i += 4) {  // a lane for each block of one
    PushRequest request = rig.push_list(i, 4);
    request.slots = {i, i + 1, i + 2, i + 3};
    ops.push_back(PushTest::push_all(rig, request));
  }
  for (const OpId op : ops)
    EXPECT_TRUE(rig.finish(op).status.ok());
  for (uint32_t i = 0; i < 12; ++i)
    PushTest::expect_stored(rig, i);
  EXPECT_GT(rig.counted().bounce_waits, 0u);
  EXPECT_TRUE(rig.run_until([&] { return rig.core->at_rest(); }));  // all of it is back
}

// I8, C2: from the terminal event on the memory is the caller's, wherever the op was cut.
TEST(BounceTest, NothingTouchesTheMemoryBehindTheEnd) {
  uint32_t cut = 0;
  for (uint32_t steps = 0; steps < 200; ++steps) {
    SCOPED_TRACE(steps);
    RigOptions options;
    options.seed = steps + 1;
    options.client.bulk_lanes = 1 + steps % 2;
    options.client.link.send_messages_max = 3;
    options.daemon.k = 2;
    options.daemon.m = 1;
    StrayRig rig(kLayers, 2, options);
    rig.put(10, 2);
    rig.fill_list(0, 2);
    ASSERT_TRUE(rig.ready());
    const bool is_push = steps % 2 == 0;
    const OpId op = is_push ? PushTest::push_all(rig, rig.push_list(0, 2))
                            : *rig.core->pull(rig.pull_list(10, 2));
    for (uint32_t i = 0; i < steps / 2; ++i)
      rig.step();
    if (steps % 8 >= 6) {
      rig.fabric.break_all();
    } else {
      rig.core->cancel(op);
    }
    const Event event = rig.finish(op, 5 * kSecond);
    cut += event.status.ok() ? 0 : 1;
    rig.poison_list();
    rig.run_for(50 * kMillisecond);
    EXPECT_TRUE(rig.list_is_poisoned());
    EXPECT_TRUE(rig.core->at_rest());
  }
  EXPECT_GT(cut, 20u);
}

// What is lost is rebuilt from and into memory outside of every region.
TEST(BounceTest, WhatIsLostIsRebuiltThere) {
  RigOptions options;
  options.daemon.k = 4;
  options.daemon.m = 2;
  StrayRig rig(kLayers, 2, options);
  rig.put(0, 2);
  rig.daemon->options().tiers = wire::tier_bit(wire::TierKind::kFlash);
  rig.daemon->lost = {{BlockId{id_of(1), 0}, 1}, {BlockId{id_of(1), 0}, 3}};
  const Event event = rig.finish(*rig.core->pull(rig.pull_list(0, 2)));
  EXPECT_EQ(event.codes, std::vector<Code>(2, Code::kOk));
  EXPECT_EQ(rig.counted().rebuilt_extents, 2u);
  EXPECT_EQ(event.tier_mask, wire::tier_bit(wire::TierKind::kFlash) | Event::kTierRebuilt);
  rig.expect_pulled(0, 2);
}

TEST(BounceTest, WithoutBounceMemoryTheOpIsRefusedByName) {
  RigOptions options;
  options.client.bounce_bytes = 0;
  StrayRig rig({70000}, 1, options);
  const auto pull = rig.core->pull(rig.pull_list(0, 1));
  EXPECT_EQ(pull.error().code(), Code::kInvalid);
  EXPECT_NE(std::string(pull.error().what()).find("bounce_bytes"), std::string::npos);
  EXPECT_EQ(rig.core->push(rig.push_list(0, 1)).error().code(), Code::kInvalid);
}

}  // namespace
}  // namespace varve
