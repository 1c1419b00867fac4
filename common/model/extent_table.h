// The extent table: how the bytes of a block are cut for transfer, checksum, coding and storage.
// A pure function of the layer list and the scheme (docs/FORMAT.md 4); client and daemon compute
// the same. Extents are numbered data first, parity after: [0, data_count()) are `extents`,
// [data_count(), count()) are the parity extents stripe by stripe.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/base.h"
#include "common/model/format.h"
#include "common/model/scheme.h"

namespace varve {

inline constexpr uint32_t kExtentsMax = 504;  // per block, parity included
inline constexpr uint32_t kExtentBytesMax = 4 * 1024 * 1024;
inline constexpr uint32_t kExtentBytesMin = 64 * 1024;  // small layers run together up to here

struct ExtentSpec {
  uint32_t layer_first = 0;
  uint32_t layer_count = 0;   // > 1: a run of small layers; 1: a layer or a cut of it
  uint32_t layer_offset = 0;  // bytes into layer_first where a cut begins
  uint32_t bytes = 0;         // decoded
  LayerKind kind = LayerKind::kFull;
  uint64_t block_offset = 0;  // bytes before this extent in the block
  bool operator==(const ExtentSpec&) const = default;
};

struct Stripe {
  uint32_t first = 0, count = 0;  // its data extents, count <= k
  uint32_t bytes = 0;             // of each of its parity extents: the longest of them
  bool operator==(const Stripe&) const = default;
};

struct ExtentTable {
  Scheme scheme;
  std::vector<ExtentSpec> extents;          // the data extents, in delivery order
  std::vector<Stripe> stripes;              // cover the data extents in order
  std::vector<uint32_t> layer_last_extent;  // per layer: index of the extent that completes it
  uint64_t block_bytes = 0;

  uint32_t data_count() const { return static_cast<uint32_t>(extents.size()); }
  uint32_t count() const { return data_count() + static_cast<uint32_t>(stripes.size()) * scheme.m; }
  uint32_t bytes_at(uint32_t extent) const;               // data or parity
  uint32_t stripe_at(uint32_t extent) const;              // data or parity
  uint32_t parity_at(uint32_t stripe, uint32_t j) const;  // extent number of its parity j < m

  // kInvalid when there are more than kExtentsMax extents in all. k >= 1: fewest to cut to.
  static Result<ExtentTable> of(std::span<const LayerSpec> layers, Scheme scheme);
};

// One codec per extent; only raw exists today, unknown ids are refused by name.
enum class CodecId : uint8_t { kRaw = 0 };

// One row of the committed table: on the wire with COMMIT and in every fragment header. 32 bytes.
struct ExtentEntry {
  uint32_t page_offset = 0;   // first page inside the fragment; 0 in COMMIT (the holder fills it)
  uint32_t stored_bytes = 0;  // on wire and drive, without padding
  uint32_t decoded_bytes = 0;
  uint8_t codec = 0;
  uint8_t codec_version = 0;
  uint16_t stripe = 0;
  uint32_t stored_crc = 0;    // CRC32C of the stored bytes, seeded
  uint32_t reserved = 0;      // must be 0
  uint64_t decoded_xxh3 = 0;  // XXH3-64 of the decoded bytes, seeded
};
static_assert(sizeof(ExtentEntry) == 32);

// kCorrupt naming what does not fit: sizes and stripes against the table, codec known, reserved
// zero.
Status check_entries(std::span<const ExtentEntry> entries, const ExtentTable& table);

// Both checksums of one raw extent over pieces, one fused pass in cache-sized tiles.
class ExtentDigest {
 public:
  explicit ExtentDigest(const struct ChecksumSeed& seed);
  void update(ConstByteSpan piece);
  uint32_t stored_crc() const { return crc_; }
  uint64_t decoded_xxh3() const { return xxh_.digest(); }

 private:
  uint32_t crc_;
  Xxh3Stream xxh_;
};

}  // namespace varve
