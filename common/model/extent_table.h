// The extent table: how the bytes of a block are cut for transfer, checksum, coding and storage.
// A pure function of the layer list and k (docs/FORMAT.md 4); client and daemon compute the same.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/base.h"
#include "common/model/format.h"

namespace varve {

inline constexpr uint32_t kExtentsMax = 504;  // per block
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

struct ExtentTable {
  std::vector<ExtentSpec> extents;          // delivery order
  std::vector<uint32_t> layer_last_extent;  // per layer: index of the extent that completes it
  uint64_t block_bytes = 0;
  // kInvalid when the layers need more than kExtentsMax extents. k >= 1: fewest extents to cut to.
  static Result<ExtentTable> of(std::span<const LayerSpec> layers, uint32_t k);
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
  uint16_t flags = 0;         // must be 0
  uint32_t stored_crc = 0;    // CRC32C of the stored bytes, seeded
  uint32_t reserved = 0;      // must be 0
  uint64_t decoded_xxh3 = 0;  // XXH3-64 of the decoded bytes, seeded
};
static_assert(sizeof(ExtentEntry) == 32);

// kCorrupt naming what does not fit: sizes against the spec, codec known, reserved zero.
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
