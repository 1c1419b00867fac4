// Goal: pieces() names exactly the bytes of the caller's memory that a byte range of an extent
// belongs to, and bind() lets nothing through that could leave its region. Method: drawn layouts
// against a naive map that walks byte by byte; then the errors by hand.
#include "client/layout.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

using Regions = std::vector<std::unique_ptr<Region>>;

struct Drawn {
  std::vector<LayerSpec> layers;
  Layout layout;
  std::vector<std::vector<std::byte>> memory;
  Regions regions;
  uint32_t slots = 0;
};

RegionId add_region(Drawn& drawn, uint64_t bytes) {
  drawn.memory.emplace_back(bytes);
  auto region = std::make_unique<Region>();
  region->data = drawn.memory.back().data();
  region->bytes = bytes;
  drawn.regions.push_back(std::move(region));
  return static_cast<RegionId>(drawn.regions.size());
}

// Layers from tiny (they run together) to above 4 MiB (they are cut), each with its own region or a
// shared one.
Drawn draw(uint64_t seed) {
  Random random(seed);
  Drawn drawn;
  drawn.slots = 1 + static_cast<uint32_t>(random.below(3));
  const auto layers = 1 + static_cast<uint32_t>(random.below(12));
  for (uint32_t l = 0; l < layers; ++l) {
    const auto segments = 1 + static_cast<uint32_t>(random.below(6));
    uint32_t segment_bytes = 1 + static_cast<uint32_t>(random.below(9000));
    if (random.chance(60)) segment_bytes = 1024 * 1024 + static_cast<uint32_t>(random.below(9999));
    const auto kind = random.chance(800) ? LayerKind::kFull : LayerKind::kSliding;
    drawn.layers.push_back({kind, segments * segment_bytes});
    LayerLayout layer;
    layer.segments = segments;
    layer.segment_stride = segment_bytes + (random.chance(500) ? 0 : random.below(200));
    layer.stride = segments * layer.segment_stride + random.below(64);
    layer.offset = random.below(100);
    layer.region = add_region(drawn, layer.offset + layer.stride * drawn.slots);
    drawn.layout.layers.push_back(layer);
  }
  return drawn;
}

// Where byte `at` of layer `l` of a slot lies, said the long way.
const std::byte* naive(const Drawn& drawn, uint32_t slot, uint32_t l, uint32_t at) {
  const LayerLayout& layer = drawn.layout.layers[l];
  const uint32_t segment_bytes = drawn.layers[l].bytes / layer.segments;
  return drawn.memory[layer.region - 1].data() + layer.offset + slot * layer.stride +
         at / segment_bytes * layer.segment_stride + at % segment_bytes;
}

const std::byte* naive_of_extent(const Drawn& drawn, uint32_t slot, const ExtentSpec& extent,
                                 uint32_t offset) {
  uint32_t layer = extent.layer_first;
  uint64_t at = uint64_t{extent.layer_offset} + offset;
  while (at >= drawn.layers[layer].bytes)
    at -= drawn.layers[layer++].bytes;
  return naive(drawn, slot, layer, static_cast<uint32_t>(at));
}

TEST(LayoutTest, PiecesNameTheSameBytesAsANaiveMap) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Drawn drawn = draw(seed);
    Random random(seed * 77);
    const auto table = *ExtentTable::of(drawn.layers, Scheme{});
    const std::vector<uint32_t> slots = {drawn.slots - 1, 0};
    auto bound = BoundLayout::bind(drawn.layout, drawn.layers, slots, drawn.regions);
    ASSERT_TRUE(bound.has_value()) << bound.error().what();
    for (const ExtentSpec& extent : table.extents) {
      const uint32_t slot = slots[random.below(2)];
      const auto offset = static_cast<uint32_t>(random.below(extent.bytes));
      const auto length = static_cast<uint32_t>(
          1 + random.below(std::min<uint64_t>(extent.bytes - offset, kPayloadBytesMax)));
      std::vector<iovec> pieces(1 + random.below(80));
      uint32_t count = 0;
      const uint32_t covered = bound->pieces(slot, extent, offset, length, pieces, &count);
      ASSERT_LE(covered, length);
      ASSERT_LE(count, pieces.size());
      // Expect: fewer bytes only when the pieces ran out.
      ASSERT_TRUE(covered == length || count == pieces.size());
      uint32_t at = offset;
      for (uint32_t i = 0; i < count; ++i) {
        ASSERT_GT(pieces[i].iov_len, 0u);
        const auto* base = static_cast<const std::byte*>(pieces[i].iov_base);
        for (size_t b = 0; b < pieces[i].iov_len; ++b, ++at) {
          ASSERT_EQ(base + b, naive_of_extent(drawn, slot, extent, at)) << at;
        }
      }
      ASSERT_EQ(at, offset + covered);
    }
  }
}

TEST(LayoutTest, NeighboursAreJoinedIntoOnePiece) {
  Drawn drawn;
  drawn.slots = 2;
  drawn.layers = {{LayerKind::kFull, 4096}, {LayerKind::kFull, 4096}};
  const RegionId region = add_region(drawn, 4 * 4096);
  // Layer 0 of a slot is followed by its layer 1; both in segments without a gap.
  drawn.layout.layers = {{region, 0, 8192, 4, 1024}, {region, 4096, 8192, 2, 2048}};
  const auto table = *ExtentTable::of(drawn.layers, Scheme{});
  ASSERT_EQ(table.extents.size(), 1u);
  const std::vector<uint32_t> slots = {1};
  auto bound = BoundLayout::bind(drawn.layout, drawn.layers, slots, drawn.regions);
  ASSERT_TRUE(bound.has_value());
  iovec pieces[4];
  uint32_t count = 0;
  EXPECT_EQ(bound->pieces(1, table.extents[0], 0, 8192, pieces, &count), 8192u);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(pieces[0].iov_base, drawn.memory[0].data() + 8192);
  EXPECT_EQ(pieces[0].iov_len, 8192u);
}

// What is scattered is what a view shows, however the memory is cut; bytes beside it stay.
TEST(LayoutTest, AViewShowsWhatWasScattered) {
  constexpr uint32_t kBytes = 120000;
  for (const uint32_t segments : {1u, 3u, 1000u}) {  // 1000: more pieces than one call answers
    SCOPED_TRACE(segments);
    Drawn drawn;
    drawn.layers = {{LayerKind::kFull, kBytes}};
    const RegionId region = add_region(drawn, 4 * kBytes);
    drawn.layout.layers = {{region, 0, 2 * kBytes, segments, kBytes / segments + 16}};
    const auto table = *ExtentTable::of(drawn.layers, Scheme{});
    const std::vector<uint32_t> slots = {1};
    const auto bound = *BoundLayout::bind(drawn.layout, drawn.layers, slots, drawn.regions);
    const ExtentSpec& extent = table.extents[0];
    std::vector<std::byte> bytes(kBytes), scratch(kBytes);
    Random random(segments);
    for (std::byte& b : bytes)
      b = static_cast<std::byte>(random.next());
    const std::byte beside = drawn.memory[0][2 * kBytes + kBytes / segments];
    bound.scatter(1, extent, 0, ConstByteSpan(bytes).first(1000));
    bound.scatter(1, extent, 1000, ConstByteSpan(bytes).subspan(1000));
    for (const uint32_t offset : {0u, 1u, 777u, kBytes - 1}) {
      for (const uint32_t length : {1u, 100u, kBytes}) {
        const uint32_t n = std::min(length, kBytes - offset);
        const ConstByteSpan view = bound.view(1, extent, offset, n, scratch);
        ASSERT_EQ(view.size(), n);
        ASSERT_EQ(std::memcmp(view.data(), bytes.data() + offset, n), 0) << offset << " " << n;
        const bool in_place = view.data() != scratch.data();
        EXPECT_EQ(in_place, segments == 1 || (offset + n - 1) / (kBytes / segments) ==
                                                 offset / (kBytes / segments));
      }
    }
    EXPECT_TRUE(segments == 1 || drawn.memory[0][2 * kBytes + kBytes / segments] == beside);
  }
}

TEST(LayoutTest, TheRangeOfSomeLayersOfARunIsTheirBytes) {
  Drawn drawn;
  drawn.slots = 1;
  for (uint32_t l = 0; l < 4; ++l) {
    drawn.layers.push_back({LayerKind::kFull, 100 * (l + 1)});
    LayerLayout layer;
    layer.region = add_region(drawn, 1000);
    drawn.layout.layers.push_back(layer);
  }
  const auto table = *ExtentTable::of(drawn.layers, Scheme{});
  ASSERT_EQ(table.extents.size(), 1u);
  const std::vector<uint32_t> slots = {0};
  auto bound = BoundLayout::bind(drawn.layout, drawn.layers, slots, drawn.regions);
  ASSERT_TRUE(bound.has_value());
  const auto middle = bound->range_of(table.extents[0], 1, 2);
  EXPECT_EQ(middle.begin, 100u);
  EXPECT_EQ(middle.end, 600u);
  const auto whole = bound->range_of(table.extents[0], 0, 4);
  EXPECT_EQ(whole.begin, 0u);
  EXPECT_EQ(whole.end, 1000u);
  const auto beyond = bound->range_of(table.extents[0], 3, 9);
  EXPECT_EQ(beyond.begin, 600u);
  EXPECT_EQ(beyond.end, 1000u);
}

TEST(LayoutTest, ARegionIsNamedOnce) {
  Drawn drawn;
  drawn.layers = {{LayerKind::kFull, 10}, {LayerKind::kFull, 10}, {LayerKind::kFull, 10}};
  const RegionId a = add_region(drawn, 100);
  const RegionId b = add_region(drawn, 100);
  drawn.layout.layers = {{a, 0, 10, 1, 0}, {b, 0, 10, 1, 0}, {a, 50, 10, 1, 0}};
  const std::vector<uint32_t> slots = {0};
  auto bound = BoundLayout::bind(drawn.layout, drawn.layers, slots, drawn.regions);
  ASSERT_TRUE(bound.has_value());
  EXPECT_EQ(bound->regions(), (std::vector<RegionId>{a, b}));
}

class LayoutErrorTest : public testing::Test {
 protected:
  LayoutErrorTest() {
    drawn_.layers = {{LayerKind::kFull, 1000}};
    layer_.region = add_region(drawn_, 10000);
    layer_.stride = 1000;
  }
  Status bind(std::vector<uint32_t> slots) {
    drawn_.layout.layers = {layer_};
    auto bound = BoundLayout::bind(drawn_.layout, drawn_.layers, slots, drawn_.regions);
    return bound.has_value() ? Status() : bound.error();
  }
  Drawn drawn_;
  LayerLayout layer_;
};

TEST_F(LayoutErrorTest, TheLastSlotThatFitsIsTaken) {
  EXPECT_TRUE(bind({0, 9}).ok());
  EXPECT_EQ(bind({0, 10}).code(), Code::kInvalid);
  layer_.offset = 1;
  EXPECT_EQ(bind({9}).code(), Code::kInvalid);
}

TEST_F(LayoutErrorTest, UnknownAndGoneRegionsAreRefused) {
  layer_.region = 0;
  EXPECT_EQ(bind({0}).code(), Code::kInvalid);
  layer_.region = 2;
  EXPECT_EQ(bind({0}).code(), Code::kInvalid);
  layer_.region = 1;
  drawn_.regions[0].reset();
  EXPECT_EQ(bind({0}).code(), Code::kInvalid);
}

TEST_F(LayoutErrorTest, SegmentsMustDivideTheLayerAndNotOverlap) {
  layer_.segments = 0;
  EXPECT_EQ(bind({0}).code(), Code::kInvalid);
  layer_.segments = 3;
  layer_.segment_stride = 400;
  EXPECT_EQ(bind({0}).code(), Code::kInvalid);
  layer_.segments = 4;
  layer_.segment_stride = 249;
  EXPECT_EQ(bind({0}).code(), Code::kInvalid);
  layer_.segment_stride = 250;
  EXPECT_TRUE(bind({0}).ok());
  layer_.segment_stride = 5000;
  EXPECT_EQ(bind({0}).code(), Code::kInvalid);
}

TEST_F(LayoutErrorTest, SumsThatDoNotFit64BitsAreRefused) {
  layer_.stride = ~uint64_t{0};
  EXPECT_EQ(bind({2}).code(), Code::kInvalid);
  layer_.stride = ~uint64_t{0} / 2;
  layer_.offset = ~uint64_t{0} / 2 + 10;
  EXPECT_EQ(bind({1}).code(), Code::kInvalid);
  layer_.offset = 0;
  layer_.segments = 2;
  layer_.segment_stride = ~uint64_t{0};
  EXPECT_EQ(bind({0}).code(), Code::kInvalid);
  layer_.segments = 4;
  EXPECT_EQ(bind({1}).code(), Code::kInvalid);
  layer_.segments = 1;
  layer_.offset = ~uint64_t{0} - 10;
  EXPECT_EQ(bind({0}).code(), Code::kInvalid);
}

TEST_F(LayoutErrorTest, AnotherNumberOfLayersIsRefused) {
  drawn_.layers.push_back({LayerKind::kFull, 10});
  EXPECT_EQ(bind({0}).code(), Code::kInvalid);
}

// Two regions, three blocks of two layers, nothing in any order.
class BuffersTest : public testing::Test {
 protected:
  BuffersTest() : layers_{{LayerKind::kFull, 100}, {LayerKind::kFull, 60}} {
    for (const uint64_t bytes : {uint64_t{1000}, uint64_t{200}})
      add_region(drawn_, bytes);
    auto* a = drawn_.memory[0].data();
    auto* b = drawn_.memory[1].data();
    layout_.buffers = {{a + 900, 100}, {b + 140, 60}, {a, 100},
                       {a + 500, 60},  {b, 100},      {a + 100, 60}};
  }
  Result<BoundLayout> bind(const std::vector<uint32_t>& slots = {0, 1, 2}) {
    return BoundLayout::bind(layout_, layers_, slots, drawn_.regions);
  }
  Result<BoundLayout> bind_or_bounce() {
    const uint32_t slots[] = {0, 1, 2};
    return BoundLayout::bind(layout_, layers_, slots, drawn_.regions,
                             BoundLayout::Outside::kBounce);
  }
  // Which of the three blocks' extents bounce, as bits.
  uint32_t bouncing() {
    const auto bound = bind_or_bounce();
    EXPECT_TRUE(bound.has_value());
    const ExtentTable table = *ExtentTable::of(layers_, Scheme{});
    uint32_t bits = 0;
    for (uint32_t slot = 0; slot < 3; ++slot)
      bits |= (bound->bounces(slot, table.extents[0]) ? 1u : 0u) << slot;
    EXPECT_EQ(bound->bounces(), bits != 0);
    return bits;
  }
  std::vector<LayerSpec> layers_;
  Drawn drawn_;
  Layout layout_;
};

TEST_F(BuffersTest, EachBlocksLayersAreWhereTheListSays) {
  const auto bound = bind();
  ASSERT_TRUE(bound.has_value()) << bound.error().what();
  EXPECT_EQ(bound->regions().size(), 2u);
  const ExtentTable table = *ExtentTable::of(layers_, Scheme{});
  ASSERT_EQ(table.data_count(), 1u);  // both run together
  for (uint32_t slot = 0; slot < 3; ++slot) {
    iovec pieces[4];
    uint32_t count = 0;
    EXPECT_EQ(bound->pieces(slot, table.extents[0], 0, 160, pieces, &count), 160u);
    // Expect: where one layer ends and the next begins behind it, one piece.
    const bool joined = slot == 1 && layout_.buffers[3].data ==
                                         static_cast<std::byte*>(layout_.buffers[2].data) + 100;
    ASSERT_EQ(count, joined ? 1u : 2u);
    for (uint32_t l = 0; l < 2; ++l) {
      EXPECT_EQ(pieces[l].iov_base, layout_.buffers[slot * 2 + l].data);
      EXPECT_EQ(pieces[l].iov_len, layers_[l].bytes);
    }
  }
}

TEST_F(BuffersTest, WhatLeavesEveryRegionOrHasOtherBytesIsRefused) {
  const auto refused = [&](size_t i, std::ptrdiff_t by, uint64_t bytes) {
    const LayerBuffer kept = layout_.buffers[i];
    layout_.buffers[i] = {static_cast<std::byte*>(kept.data) + by, bytes};
    const auto bound = bind();
    layout_.buffers[i] = kept;
    return !bound.has_value() && bound.error().code() == Code::kInvalid;
  };
  EXPECT_TRUE(refused(0, 1, 100));  // one byte beyond the end
  EXPECT_TRUE(refused(2, -1, 100));
  EXPECT_TRUE(refused(2, 0, 99));
  EXPECT_TRUE(refused(3, 0, 100));
  EXPECT_TRUE(refused(0, 4096, 100));
  EXPECT_FALSE(refused(0, 0, 100));
  drawn_.regions[1].reset();  // unregistered
  EXPECT_EQ(bind().error().code(), Code::kInvalid);
}

TEST_F(BuffersTest, WhatLiesInNoRegionAsAWholeBounces) {
  EXPECT_EQ(bouncing(), 0u);
  std::vector<std::byte> elsewhere(100);
  layout_.buffers[4].data = elsewhere.data();
  EXPECT_EQ(bouncing(), 4u);
  // Expect: one byte beyond a region's end, or before its begin, is outside too.
  auto* a = drawn_.memory[0].data();
  layout_.buffers[0].data = a + 901;
  EXPECT_EQ(bouncing(), 5u);
  layout_.buffers[3].data = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(a) - 1);
  EXPECT_EQ(bouncing(), 7u);
  EXPECT_EQ(bind_or_bounce()->regions().size(), 2u);  // of what lies in some
  EXPECT_EQ(bind().error().code(), Code::kInvalid);
}

TEST_F(BuffersTest, ARegionInsideOfAnotherHidesNothing) {
  auto inner = std::make_unique<Region>();
  inner->data = drawn_.memory[0].data() + 850;
  inner->bytes = 60;  // begins before buffer 0, and ends in it
  drawn_.regions.push_back(std::move(inner));
  EXPECT_EQ(bouncing(), 0u);
  EXPECT_TRUE(bind().has_value());
}

TEST_F(BuffersTest, AnAddressThatIsNoneIsRefusedEvenSo) {
  for (const uintptr_t address : {uintptr_t{0}, UINTPTR_MAX - 99}) {
    layout_.buffers[4].data = reinterpret_cast<void*>(address);
    EXPECT_EQ(bind_or_bounce().error().code(), Code::kInvalid) << address;
  }
}

TEST_F(BuffersTest, WhatIsGatheredIsWhatIsThere) {
  const auto bound = bind();
  const ExtentTable table = *ExtentTable::of(layers_, Scheme{});
  std::vector<std::byte> block(160);
  for (size_t i = 0; i < block.size(); ++i)
    block[i] = static_cast<std::byte>(i);
  bound->scatter(0, table.extents[0], 0, block);
  std::vector<std::byte> out(90);
  bound->gather(0, table.extents[0], 50, out);
  EXPECT_TRUE(std::equal(out.begin(), out.end(), block.begin() + 50));
}

TEST_F(BuffersTest, ThereIsOneForEachLayerOfEachSlot) {
  EXPECT_EQ(bind({0, 1, 3}).error().code(), Code::kInvalid);
  EXPECT_TRUE(bind({2, 0}).has_value());
  layout_.buffers.pop_back();
  EXPECT_EQ(bind({0, 1}).error().code(), Code::kInvalid);
  layout_.buffers.pop_back();
  EXPECT_TRUE(bind({0, 1}).has_value());
  layout_.layers.resize(2);
  EXPECT_EQ(bind({0, 1}).error().code(), Code::kInvalid);  // both
}

}  // namespace
}  // namespace varve
