// Goal: bytes name their writer, and nothing but a writer's whole block verifies.
// Method: fill blocks, change one thing at a time, ask who wrote them.
#include "tools/ledger/content.h"

#include <gtest/gtest.h>

namespace varve::ledger {
namespace {

BlockId block_of(uint8_t first, uint32_t rank = 0) {
  BlockId block;
  block.base.bytes.fill(std::byte{first});
  block.rank = rank;
  return block;
}

struct Bytes {
  std::vector<std::vector<std::byte>> layers;
  Bytes(const BlockId& block, Salt salt, std::initializer_list<uint32_t> sizes) {
    for (const uint32_t size : sizes) {
      layers.emplace_back(size);
      fill_layer(block, static_cast<uint32_t>(layers.size()) - 1, salt, layers.back());
    }
  }
  std::vector<ConstByteSpan> spans() const { return {layers.begin(), layers.end()}; }
};

TEST(Content, NamesItsWriter) {
  const Bytes bytes(block_of(1), 77, {8, 1000, 1001, 65536});
  EXPECT_EQ(writer_of(block_of(1), bytes.spans()), std::optional<Salt>(77));
}

TEST(Content, ALayerAloneIsThatOfItsWriterOrNot) {
  Bytes bytes(block_of(1), 77, {64, 64});
  EXPECT_TRUE(is_layer_of(block_of(1), 1, 77, bytes.layers[1]));
  EXPECT_FALSE(is_layer_of(block_of(1), 0, 77, bytes.layers[1]));
  EXPECT_FALSE(is_layer_of(block_of(1), 1, 78, bytes.layers[1]));
  EXPECT_FALSE(is_layer_of(block_of(2), 1, 77, bytes.layers[1]));
  bytes.layers[1][63] ^= std::byte{1};
  EXPECT_FALSE(is_layer_of(block_of(1), 1, 77, bytes.layers[1]));
}

TEST(Content, SeesEveryChangedByte) {
  Bytes bytes(block_of(1), 77, {9, 31});
  for (auto& layer : bytes.layers) {
    for (std::byte& b : layer) {
      b ^= std::byte{1};
      EXPECT_EQ(writer_of(block_of(1), bytes.spans()), std::nullopt);
      b ^= std::byte{1};
    }
  }
  EXPECT_TRUE(writer_of(block_of(1), bytes.spans()).has_value());
}

TEST(Content, AMixOfTwoWritersIsNobodys) {
  Bytes mix(block_of(1), 1, {64, 64});
  mix.layers[1] = Bytes(block_of(1), 2, {64, 64}).layers[1];
  EXPECT_EQ(writer_of(block_of(1), mix.spans()), std::nullopt);
}

TEST(Content, AForeignBlockOrRankOrSwappedLayerIsNobodys) {
  Bytes bytes(block_of(1, 0), 5, {64, 64});
  EXPECT_EQ(writer_of(block_of(2, 0), bytes.spans()), std::nullopt);
  EXPECT_EQ(writer_of(block_of(1, 1), bytes.spans()), std::nullopt);
  std::swap(bytes.layers[0], bytes.layers[1]);
  EXPECT_EQ(writer_of(block_of(1, 0), bytes.spans()), std::nullopt);
}

TEST(Content, PoisonAndZerosAreNobodys) {
  for (const std::byte fill : {std::byte{0}, std::byte{0xEE}}) {
    const std::vector<std::byte> layer(4096, fill);
    EXPECT_EQ(writer_of(block_of(1), {layer}), std::nullopt);
  }
}

}  // namespace
}  // namespace varve::ledger
