// Format: the immutable, rank-free description of the bytes of a block, and its fingerprint.
// docs/FORMAT.md section 2 has its encoding; every limit of it is declared here.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/base.h"

namespace varve {

inline constexpr uint32_t kRanksMax = 32;
inline constexpr uint32_t kLayersMax = 1024;           // per rank
inline constexpr uint64_t kLayerBytesMax = 64 * kMiB;  // per block
inline constexpr uint64_t kBlockBytesMax = 256 * kMiB;
inline constexpr uint32_t kTokensPerBlockMax = 65536;
inline constexpr uint32_t kFormatTextMax = 256;  // bytes of each string
inline constexpr uint32_t kFormatExtrasMax = 32;
inline constexpr uint32_t kFormatBytesMax =
    160 * 1024;  // canonical encoding, fits one urgent frame

enum class KvType : uint8_t {
  kBf16 = 1,
  kFp16 = 2,
  kFp8E4m3 = 3,
  kFp8E5m2 = 4,
  kFp32 = 5,
  kInt8 = 6,
  kOpaque = 7
};
enum class KvLayout : uint8_t { kNhd = 1, kHnd = 2, kPageFirst = 3, kOpaque = 4 };
enum class LayerKind : uint8_t { kFull = 1, kSliding = 2, kLatent = 3, kState = 4, kOpaque = 5 };

const char* kv_type_name(KvType type);
const char* kv_layout_name(KvLayout layout);
const char* layer_kind_name(LayerKind kind);

struct LayerSpec {
  LayerKind kind = LayerKind::kFull;
  uint32_t bytes = 0;  // of this layer in one block of one rank; 1 .. kLayerBytesMax
  bool operator==(const LayerSpec&) const = default;
};

// Two clients that differ in any field never see each other's blocks.
struct Format {
  Digest model;         // digest of the weights
  std::string lineage;  // of the weights: revision or fine-tuning line
  Digest adapter;       // zero = none
  KvType type = KvType::kBf16;
  KvLayout layout = KvLayout::kNhd;
  uint32_t tokens_per_block = 256;
  std::vector<std::vector<LayerSpec>> ranks;                // [rank][layer], delivery order
  std::vector<std::pair<std::string, std::string>> extras;  // sorted by key, keys unique

  uint32_t rank_count() const { return static_cast<uint32_t>(ranks.size()); }
  uint64_t block_bytes(uint32_t rank) const;
  bool operator==(const Format&) const = default;

  // All limits above; the message names the field and the limit.
  Status validate() const;
  // Canonical encoding (docs/FORMAT.md 2); the fingerprint is its SHA-256. Requires
  // validate().ok().
  std::vector<std::byte> encode() const;
  static Result<Format> decode(
      ConstByteSpan bytes);  // refuses unknown versions, fields, trailing bytes
  Digest fingerprint() const;
};

// A field in which two formats differ, and what each of them has there.
struct FieldDifference {
  std::string field;  // "tokens_per_block", "ranks[0].layers[3]"
  std::string a, b;
  bool operator==(const FieldDifference&) const = default;
};
// Empty when equal. Of each rank at most 8 layers one by one, then how many more.
std::vector<FieldDifference> format_differences(const Format& a, const Format& b);
// The same as lines, "field: A | B".
std::vector<std::string> format_diff(const Format& a, const Format& b);

}  // namespace varve
