// Goal: memory of C callers is what they say: by strides, in segments, or as lists of buffers; what
// lies elsewhere bounces. Method: pushes and pulls through each, against the daemon's store.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/client/c_rig.h"

namespace varve {
namespace {

class CMemoryTest : public CRig {
 protected:
  // Buffers of blocks `first` .. in reverse order of slots, three a block.
  void make_buffers(uint32_t count) {
    buffers_.clear();
    for (uint32_t b = 0; b < count; ++b) {
      for (uint32_t l = 0; l < kLayers; ++l)
        buffers_.push_back({at(kSlots - 1 - b, l), kLayerBytes});
    }
  }
  varve_blocks buffer_blocks(uint32_t first, uint32_t count) {
    make_buffers(count);
    varve_blocks of = blocks(first, count);
    of.layout = 0;
    of.slots = nullptr;
    of.buffers = buffers_.data();
    of.format = format_;
    return of;
  }
  varve_status end_of(varve_op op) {
    Completion done;
    EXPECT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
    return done.status;
  }
  std::vector<varve_buffer> buffers_;
};

TEST_F(CMemoryTest, BuffersArePushedAndPulledWhereTheyAre) {
  open_ready();
  for (size_t i = 0; i < memory_.size(); ++i)
    memory_[i] = static_cast<std::byte>(i * 7 / 5);
  auto request = push_of(0, 3);
  request.blocks = buffer_blocks(0, 3);
  EXPECT_EQ(end_of(push(request)), VARVE_OK);
  for (uint32_t b = 0; b < 3; ++b)
    EXPECT_TRUE(slot_holds(kSlots - 1 - b, b));
  std::fill(memory_.begin(), memory_.end(), std::byte{0});
  varve_pull_request back = pull_of(0, 3);
  back.blocks = buffer_blocks(0, 3);
  const varve_op op = pull(back);
  // Expect: the caller's list is free already, and layers are waited for as with a layout.
  buffers_.assign(buffers_.size(), {nullptr, 0});
  uint8_t bits = 0;
  EXPECT_EQ(varve_wait_layer(client_, op, kLayers - 1, kLong, &bits, 1), VARVE_OK);
  EXPECT_EQ(bits, 7);
  EXPECT_EQ(end_of(op), VARVE_OK);
  for (uint32_t b = 0; b < 3; ++b)
    EXPECT_TRUE(slot_holds(kSlots - 1 - b, b));
  EXPECT_EQ(std::count(memory_.begin(), memory_.begin() + kLayerBytes, std::byte{0}), kLayerBytes);
}

TEST_F(CMemoryTest, ABufferOutsideOfEveryRegionBounces) {
  ASSERT_NE(varve_capabilities() & VARVE_CAN_BOUNCE, 0u);
  open_ready();
  for (size_t i = 0; i < memory_.size(); ++i)
    memory_[i] = static_cast<std::byte>(i * 7 / 5);
  std::vector<std::byte> stray(at(kSlots - 1, 1), at(kSlots - 1, 1) + kLayerBytes);
  auto request = push_of(0, 2);
  request.blocks = buffer_blocks(0, 2);
  buffers_[1].data = stray.data();  // layer 1 of the first block
  EXPECT_EQ(end_of(push(request)), VARVE_OK);
  EXPECT_TRUE(slot_holds(kSlots - 1, 0));
  EXPECT_EQ(stats().bounced_ops, 1u);
  EXPECT_EQ(stats().bounced_bytes, kLayerBytes);
  // Expect: back into memory of nobody's, which another thread may free as soon as it is told.
  std::fill(stray.begin(), stray.end(), std::byte{0});
  std::fill(memory_.begin(), memory_.end(), std::byte{0});
  auto back = pull_of(0, 2);
  back.blocks = buffer_blocks(0, 2);
  buffers_[1].data = stray.data();
  const varve_op op = pull(back);
  EXPECT_EQ(varve_wait_layer(client_, op, 1, kLong, nullptr, 0), VARVE_OK);
  std::memcpy(at(kSlots - 1, 1), stray.data(), kLayerBytes);
  EXPECT_EQ(end_of(op), VARVE_OK);
  EXPECT_TRUE(slot_holds(kSlots - 1, 0));
  EXPECT_TRUE(slot_holds(kSlots - 2, 1));
  EXPECT_EQ(stats().bounced_ops, 2u);
  EXPECT_EQ(stats().bounced_bytes, 2 * kLayerBytes);
}

TEST_F(CMemoryTest, WhoWantsNoCopiesIsToldWhereARegionIsMissing) {
  ASSERT_EQ(varve_options_set(&options_, "bounce_bytes", "none"), VARVE_OK);
  open_ready();
  std::vector<std::byte> stray(kLayerBytes);
  auto request = pull_of(0, 2);
  request.blocks = buffer_blocks(0, 2);
  buffers_[4].data = stray.data();
  const varve_op op = pull(request);
  Completion done;
  ASSERT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
  EXPECT_EQ(done.status, VARVE_INVALID);
  EXPECT_NE(std::string(done.reason).find("bounce_bytes"), std::string::npos) << done.reason;
}

TEST_F(CMemoryTest, ABufferThatIsNoneEndsTheOp) {
  open_ready();
  auto request = pull_of(0, 2);
  request.blocks = buffer_blocks(0, 2);
  buffers_[4].bytes -= 1;
  EXPECT_EQ(end_of(pull(request)), VARVE_INVALID);
  request.blocks = buffer_blocks(0, 2);
  buffers_[4].data = nullptr;
  EXPECT_EQ(end_of(pull(request)), VARVE_INVALID);
  EXPECT_EQ(stats().bounced_ops, 0u);
}

// I8: quiesced means that memory outside of regions may be unmapped as well.
TEST_F(CMemoryTest, NothingTouchesStrayMemoryBehindAQuiesce) {
  open_ready();
  put(8);
  for (uint32_t round = 0; round < 50; ++round) {
    auto stray = std::make_unique<std::byte[]>(size_t{kLayerBytes} * kLayers * 8);
    auto request = pull_of(0, 8);
    request.blocks = buffer_blocks(0, 8);
    for (size_t i = 0; i < buffers_.size(); ++i)
      buffers_[i].data = stray.get() + i * kLayerBytes;
    const varve_op op = pull(request);
    for (uint32_t done = 0; done * 16 < round % 48;)
      ASSERT_EQ(varve_layers_done(client_, op, &done), VARVE_OK);
    ASSERT_EQ(varve_quiesce(client_, op, kLong), VARVE_OK);
    stray.reset();  // a sanitizer sees who touches it now
    Completion done;
    EXPECT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
  }
  EXPECT_EQ(stats().bounced_ops, 50u);
}

TEST_F(CMemoryTest, BlocksSayWhereTheyAreInOneWay) {
  open_ready();
  auto request = pull_of(0, 2);
  const varve_blocks by_layout = request.blocks;
  const auto refused = [&](const varve_blocks& of) {
    request.blocks = of;
    return varve_pull_submit(client_, &request, nullptr) == VARVE_INVALID;
  };
  varve_blocks of = buffer_blocks(0, 2);
  of.layout = layout_;
  EXPECT_TRUE(refused(of));
  of = by_layout;
  of.slots = nullptr;
  EXPECT_TRUE(refused(of));
  of = by_layout;
  of.layout = 0;
  EXPECT_TRUE(refused(of));
  of = by_layout;
  of.layout = 99;
  EXPECT_TRUE(refused(of));
  of = by_layout;
  of.ids = nullptr;
  EXPECT_TRUE(refused(of));
  of = by_layout;
  of.count = 0;
  EXPECT_TRUE(refused(of));
  of.count = 2049;
  EXPECT_TRUE(refused(of));
  of = buffer_blocks(0, 2);
  of.format = 99;
  EXPECT_TRUE(refused(of));
  of = buffer_blocks(0, 2);
  of.rank = 1;
  EXPECT_TRUE(refused(of));
}

TEST_F(CMemoryTest, SegmentsAreScatteredAndGathered) {
  open_ready();
  // As {K, V} x slots x page: half a layer each, a whole K array apart.
  for (uint32_t l = 0; l < kLayers; ++l) {
    places_[l] = {region_, 2, uint64_t{l} * kSlots * kLayerBytes, kLayerBytes / 2,
                  uint64_t{kSlots} * kLayerBytes / 2};
  }
  ASSERT_EQ(varve_layout_define(client_, layout_desc(), &layout_), VARVE_OK);
  put(1);
  auto request = pull_of(0, 1);
  slots_[0] = 5;
  EXPECT_EQ(end_of(pull(request)), VARVE_OK);
  daemon_.call([&](ScriptedDaemon& d) {
    const auto& stored = d.store().at(BlockId{varve::id_of(0), 0});
    for (uint32_t l = 0; l < kLayers; ++l) {
      const std::byte* k = memory_.data() + size_t{l} * kSlots * kLayerBytes + 5 * kLayerBytes / 2;
      const std::byte* v = k + size_t{kSlots} * kLayerBytes / 2;
      EXPECT_EQ(std::memcmp(k, stored.extents[l].data(), kLayerBytes / 2), 0);
      EXPECT_EQ(std::memcmp(v, stored.extents[l].data() + kLayerBytes / 2, kLayerBytes / 2), 0);
    }
  });
}

TEST_F(CMemoryTest, ASlotOutsideOfItsRegionEndsTheOp) {
  open_ready();
  auto request = pull_of(0, 1);
  slots_[0] = kSlots;
  EXPECT_EQ(end_of(pull(request)), VARVE_INVALID);
}

TEST_F(CMemoryTest, KindsOfMemoryThatAreNotThereAreNamed) {
  open_ready();
  varve_region_desc desc;
  VARVE_INIT(&desc);
  desc.data = memory_.data();
  desc.bytes = 4096;
  varve_region region = 0;
  desc.kind = VARVE_MEMORY_CUDA;
  EXPECT_EQ(varve_region_register(client_, &desc, &region), VARVE_UNSUPPORTED);
  EXPECT_NE(std::string(varve_last_error()).find("VARVE_CAN_CUDA_REGIONS"), std::string::npos);
  desc.kind = VARVE_MEMORY_SHARED;
  EXPECT_EQ(varve_region_register(client_, &desc, &region), VARVE_UNSUPPORTED);
  desc.kind = 9;
  EXPECT_EQ(varve_region_register(client_, &desc, &region), VARVE_INVALID);
  desc.kind = VARVE_MEMORY_HOST;
  desc.data = nullptr;
  EXPECT_EQ(varve_region_register(client_, &desc, &region), VARVE_INVALID);
  EXPECT_EQ(varve_region_register(client_, &desc, nullptr), VARVE_INVALID);
  EXPECT_EQ(region, 0u);
}

TEST_F(CMemoryTest, ARegionStaysWhileAnOpUsesIt) {
  open_ready();
  silence(Type::kPull);
  const varve_op op = pull(pull_of(0, 1));
  wait_asked(Type::kPull, 1);
  EXPECT_EQ(varve_region_unregister(client_, region_), VARVE_OVERLOADED);
  EXPECT_EQ(varve_quiesce(client_, op, kLong), VARVE_OK);
  EXPECT_EQ(varve_region_unregister(client_, region_), VARVE_OK);
  EXPECT_EQ(varve_region_unregister(client_, region_), VARVE_INVALID);
}

TEST_F(CMemoryTest, ALayoutHasTheLayersOfItsRank) {
  open_ready();
  varve_layout layout = 0;
  varve_layout_desc desc = *layout_desc();
  const auto refused = [&](auto change) {
    varve_layout_desc other = desc;
    change(other);
    return varve_layout_define(client_, &other, &layout) == VARVE_INVALID;
  };
  EXPECT_TRUE(refused([](auto& d) { d.layer_count = 2; }));
  EXPECT_TRUE(refused([](auto& d) { d.layer_count = 2000; }));
  EXPECT_TRUE(refused([](auto& d) { d.layers = nullptr; }));
  EXPECT_TRUE(refused([](auto& d) { d.rank = 1; }));
  EXPECT_TRUE(refused([](auto& d) { d.format = 0; }));
  EXPECT_TRUE(refused([](auto& d) { d.struct_size = 0; }));
  EXPECT_EQ(varve_layout_define(client_, &desc, nullptr), VARVE_INVALID);
  EXPECT_EQ(layout, 0u);
}

}  // namespace
}  // namespace varve
