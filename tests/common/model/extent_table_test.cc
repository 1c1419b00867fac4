// Goal: the extent table equals its golden vectors and keeps its properties for any layers; a
// committed table that does not fit is refused; the fused digest equals two separate passes.
// Method: vectors that check_vectors.py recomputes independently; random layer lists.
#include "common/model/extent_table.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "common/model/id.h"
#include "tests/common/model/vector_file.h"

namespace varve {
namespace {

std::string text_of(const ExtentTable& table) {
  std::string text;
  for (const ExtentSpec& e : table.extents) {
    if (!text.empty()) text += " ";
    text += std::to_string(e.layer_first) + "," + std::to_string(e.layer_count) + "," +
            std::to_string(e.layer_offset) + "," + std::to_string(e.bytes) + "," +
            layer_kind_name(e.kind);
  }
  return text;
}

std::string stripes_text_of(const ExtentTable& table) {
  std::string text;
  for (const Stripe& s : table.stripes) {
    if (!text.empty()) text += " ";
    text += std::to_string(s.first) + "," + std::to_string(s.count) + "," + std::to_string(s.bytes);
  }
  return text;
}

TEST(ExtentTable, EqualsTheGoldenVectors) {
  const auto records = vectors::read("tests/vectors/extent_table.txt");
  EXPECT_GE(records.size(), 70u);
  for (const vectors::Record& r : records) {
    const std::vector<LayerSpec> layers = vectors::layers(r.text("layers"));
    const auto table = ExtentTable::of(layers, Scheme{.k = static_cast<uint32_t>(r.number("k"))});
    EXPECT_EQ(table.has_value() ? text_of(*table) : "refused", r.text("extents")) << r.text("case");
    EXPECT_EQ(table.has_value() ? stripes_text_of(*table) : "refused", r.text("stripes"))
        << r.text("case");
  }
}

std::vector<LayerSpec> random_layers(Random& random) {
  std::vector<LayerSpec> layers(random.between(1, random.chance(200) ? 300 : 12));
  const uint64_t kinds = random.between(1, 5);
  const uint64_t sizes[] = {100, 5000, kExtentBytesMin - 1, kExtentBytesMin + 1, 200'000, 9 * kMiB};
  const uint64_t size_max = sizes[random.below(layers.size() > 12 ? 5 : 6)];
  for (LayerSpec& layer : layers) {
    layer.kind = static_cast<LayerKind>(random.between(1, kinds));
    layer.bytes = static_cast<uint32_t>(random.between(1, size_max));
  }
  return layers;
}

uint64_t bytes_of_layers(std::span<const LayerSpec> layers) {
  return std::accumulate(layers.begin(), layers.end(), uint64_t{0},
                         [](uint64_t sum, const LayerSpec& layer) { return sum + layer.bytes; });
}

// Every byte of every layer is in exactly one extent, in order, and no extent mixes kinds.
void check_cover(const ExtentTable& table, std::span<const LayerSpec> layers) {
  uint64_t offset = 0, layer = 0, layer_offset = 0;
  for (const ExtentSpec& e : table.extents) {
    ASSERT_EQ(e.block_offset, offset);
    ASSERT_EQ(e.layer_first, layer);
    ASSERT_EQ(e.layer_offset, layer_offset);
    ASSERT_EQ(e.layer_offset % kPageBytes, 0u) << "cuts begin at page boundaries";
    ASSERT_GE(e.bytes, 1u);
    ASSERT_LE(e.bytes, kExtentBytesMax);
    const auto covered = layers.subspan(e.layer_first, e.layer_count);
    for (const LayerSpec& spec : covered)
      ASSERT_EQ(spec.kind, e.kind);
    offset += e.bytes;
    if (e.layer_count > 1) {
      ASSERT_EQ(bytes_of_layers(covered), e.bytes) << "a run is whole layers";
      layer += e.layer_count;
    } else if (layer_offset += e.bytes; layer_offset == layers[layer].bytes) {
      ++layer;
      layer_offset = 0;
    } else {
      ASSERT_EQ(e.bytes % kPageBytes, 0u) << "only the last cut ends off a page";
    }
  }
  ASSERT_EQ(layer, layers.size());
  ASSERT_EQ(offset, bytes_of_layers(layers));
  ASSERT_EQ(table.block_bytes, offset);
}

// A layer's last extent is the only one that ends at or beyond the layer's end and begins before
// it.
void check_completion(const ExtentTable& table, std::span<const LayerSpec> layers) {
  ASSERT_EQ(table.layer_last_extent.size(), layers.size());
  uint64_t end = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    end += layers[i].bytes;
    uint32_t completing = 0;
    for (uint32_t e = 0; e < table.extents.size(); ++e) {
      const ExtentSpec& spec = table.extents[e];
      if (spec.block_offset >= end || spec.block_offset + spec.bytes < end) continue;
      ++completing;
      ASSERT_EQ(table.layer_last_extent[i], e) << "layer " << i;
    }
    ASSERT_EQ(completing, 1u) << "layer " << i;
  }
}

TEST(ExtentTable, CoversEveryByteOnceInOrderForAnyLayers) {
  Random random(11);
  int accepted = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::vector<LayerSpec> layers = random_layers(random);
    const auto k = static_cast<uint32_t>(random.between(1, 8));
    const auto table = ExtentTable::of(layers, Scheme{.k = k});
    if (!table.has_value()) continue;
    ++accepted;
    check_cover(*table, layers);
    check_completion(*table, layers);
    if (table->extents.size() < k) {
      for (const ExtentSpec& e : table->extents) {
        ASSERT_TRUE(e.layer_count == 1 && e.bytes <= kPageBytes) << "nothing left to cut";
      }
    }
  }
  EXPECT_GT(accepted, 1800);
}

TEST(ExtentTable, AskingForFewerExtentsThanThereAreChangesNothing) {
  Random random(12);
  for (int i = 0; i < 500; ++i) {
    const std::vector<LayerSpec> layers = random_layers(random);
    const auto one = ExtentTable::of(layers, Scheme{});
    if (!one.has_value()) continue;
    const auto k = static_cast<uint32_t>(one->extents.size());
    EXPECT_EQ(ExtentTable::of(layers, Scheme{.k = k})->extents, one->extents);
  }
}

TEST(ExtentTable, RefusesLayersBeyondTheLimits) {
  const auto code_of = [](const std::vector<LayerSpec>& layers) {
    return ExtentTable::of(layers, Scheme{}).error().code();
  };
  const uint32_t largest = kLayerBytesMax;
  EXPECT_EQ(code_of({}), Code::kInvalid);
  EXPECT_EQ(code_of({{LayerKind::kFull, 0}}), Code::kInvalid);
  EXPECT_EQ(code_of({{LayerKind::kFull, largest + 1}}), Code::kInvalid);
  EXPECT_EQ(code_of(std::vector<LayerSpec>(5, {LayerKind::kFull, largest})), Code::kInvalid);
  EXPECT_EQ(code_of(std::vector<LayerSpec>(kLayersMax + 1, {LayerKind::kFull, 1})), Code::kInvalid);
  EXPECT_EQ(code_of(std::vector<LayerSpec>(kExtentsMax + 1, {LayerKind::kFull, 65536})),
            Code::kInvalid);
}

std::vector<ExtentEntry> entries_of(const ExtentTable& table) {
  std::vector<ExtentEntry> entries(table.extents.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto extent = static_cast<uint32_t>(i);
    entries[i].stored_bytes = entries[i].decoded_bytes = table.bytes_at(extent);
    entries[i].stripe = static_cast<uint16_t>(table.stripe_at(extent));
  }
  return entries;
}

// Goal: the numbering of data and parity extents is one to one, every stripe is of one kind and
// size class, and too many extents with their parity are refused.
TEST(ExtentTable, NumbersDataFirstAndParityStripeByStripe) {
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    const std::vector<LayerSpec> layers = random_layers(random);
    constexpr Scheme kSchemes[] = {{1, 0}, {1, 1}, {2, 1}, {4, 2}, {5, 2}, {8, 3}};
    const Scheme scheme = kSchemes[random.below(std::size(kSchemes))];
    const Result<ExtentTable> made = ExtentTable::of(layers, scheme);
    if (!made.has_value()) continue;
    const ExtentTable& table = *made;
    ASSERT_LE(table.count(), kExtentsMax);
    uint32_t data = 0, parity = table.data_count();
    for (uint32_t s = 0; s < table.stripes.size(); ++s) {
      const Stripe& stripe = table.stripes[s];
      ASSERT_EQ(stripe.first, data);
      ASSERT_TRUE(stripe.count >= 1 && stripe.count <= scheme.k) << stripe.count;
      for (; data < stripe.first + stripe.count; ++data) {
        ASSERT_EQ(table.stripe_at(data), s);
        ASSERT_EQ(table.extents[data].kind, table.extents[stripe.first].kind);
        ASSERT_LE(table.bytes_at(data), stripe.bytes);
        ASSERT_GT(2 * pages_of(table.bytes_at(data)), pages_of(stripe.bytes));
      }
      for (uint32_t j = 0; j < scheme.m; ++j, ++parity) {
        ASSERT_EQ(table.parity_at(s, j), parity);
        ASSERT_EQ(table.stripe_at(parity), s);
        ASSERT_EQ(table.bytes_at(parity), stripe.bytes);
      }
    }
    ASSERT_EQ(data, table.data_count());
    ASSERT_EQ(parity, table.count());
  }
  const std::vector<LayerSpec> many(400, {LayerKind::kFull, kExtentBytesMin});
  EXPECT_TRUE(ExtentTable::of(many, Scheme{1, 0}).has_value());
  EXPECT_FALSE(ExtentTable::of(many, Scheme{1, 1}).has_value());
}

TEST(CheckEntries, AcceptsTheFormatsOwnTableAndNamesWhatDoesNotFit) {
  const std::vector<LayerSpec> layers(3, {LayerKind::kFull, 100'000});
  const ExtentTable table = ExtentTable::of(layers, Scheme{}).value();
  EXPECT_TRUE(check_entries(entries_of(table), table).ok());
  const auto refusal = [&](auto change) {
    std::vector<ExtentEntry> entries = entries_of(table);
    change(entries);
    const Status status = check_entries(entries, table);
    EXPECT_EQ(status.code(), Code::kCorrupt);
    return std::string(status.what());
  };
  EXPECT_NE(refusal([](auto& e) { e.pop_back(); }).find("count"), std::string::npos);
  EXPECT_NE(refusal([](auto& e) { e[1].codec = 1; }).find("codec"), std::string::npos);
  EXPECT_NE(refusal([](auto& e) { e[2].codec_version = 1; }).find("codec"), std::string::npos);
  EXPECT_NE(refusal([](auto& e) { e[1].stripe = 0; }).find("stripe"), std::string::npos);
  EXPECT_NE(refusal([](auto& e) { e[0].reserved = 1; }).find("reserved"), std::string::npos);
  EXPECT_NE(refusal([](auto& e) { ++e[0].decoded_bytes; }).find("decoded"), std::string::npos);
  EXPECT_NE(refusal([](auto& e) { --e[0].stored_bytes; }).find("stored"), std::string::npos);
}

TEST(ExtentDigest, EqualsTwoSeparatePassesForAnyPieces) {
  Random random(13);
  std::vector<std::byte> bytes(100'000);
  for (std::byte& b : bytes)
    b = static_cast<std::byte>(random.next());
  for (int round = 0; round < 100; ++round) {
    const ChecksumSeed seed{static_cast<uint32_t>(random.next()), random.next()};
    const ConstByteSpan all = ConstByteSpan(bytes).first(random.below(bytes.size() + 1));
    ExtentDigest digest(seed);
    for (ConstByteSpan rest = all; !rest.empty();) {
      const size_t n = random.between(1, rest.size());
      digest.update(rest.first(n));
      rest = rest.subspan(n);
    }
    ASSERT_EQ(digest.stored_crc(), crc32c(seed.stored, all));
    ASSERT_EQ(digest.decoded_xxh3(), xxh3(seed.decoded, all));
  }
}

}  // namespace
}  // namespace varve
