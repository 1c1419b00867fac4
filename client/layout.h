// Layout: from (slot, extent, byte range) to pieces of the caller's memory. Pure.
//
// A BoundLayout is a caller's Layout resolved against registered regions and a rank's layers; after
// bind() every piece it answers lies inside its region, or in a buffer that bounces.
#pragma once

#include <sys/uio.h>

#include <span>
#include <vector>

#include "client/varve.h"

namespace varve {

struct Region {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint32_t users = 0;  // live ops
};

class BoundLayout {
 public:
  using Regions = std::vector<std::unique_ptr<Region>>;
  enum class Outside : uint8_t { kRefuse, kBounce };  // a buffer that lies in no region as a whole
  // kInvalid naming the layer and what does not fit.
  static Result<BoundLayout> bind(const Layout& layout, std::span<const LayerSpec> layers,
                                  std::span<const uint32_t> slots, const Regions& regions,
                                  Outside outside = Outside::kRefuse);

  // Pieces of bytes [offset, offset + length) of `extent` of the block in `slot`, neighbours
  // joined. Stops when `pieces` is full; *count receives how many; returns the bytes they cover.
  uint32_t pieces(uint32_t slot, const ExtentSpec& extent, uint32_t offset, uint32_t length,
                  std::span<iovec> pieces, uint32_t* count) const;

  // The same bytes to read: where they are if they lie in one piece, else copied into `scratch`,
  // which holds `length` bytes.
  ConstByteSpan view(uint32_t slot, const ExtentSpec& extent, uint32_t offset, uint32_t length,
                     ByteSpan scratch) const;
  // The same bytes copied to `out`, which says how many.
  void gather(uint32_t slot, const ExtentSpec& extent, uint32_t offset, ByteSpan out) const;
  // Copies `bytes` to where those from `offset` of `extent` belong.
  void scatter(uint32_t slot, const ExtentSpec& extent, uint32_t offset, ConstByteSpan bytes) const;

  // Where the bytes of the given layers lie inside `extent`: it may hold others beside them.
  struct Range {
    uint32_t begin = 0, end = 0;
  };
  Range range_of(const ExtentSpec& extent, uint32_t layer_first, uint32_t layer_count) const;

  const std::vector<RegionId>& regions() const { return regions_; }  // each once
  // Something of it, or of this extent, lies outside of every region.
  bool bounces() const { return !outside_.empty(); }
  bool bounces(uint32_t slot, const ExtentSpec& extent) const;

 private:
  // Of a list of addresses instead of layers.
  static Result<BoundLayout> bind_buffers(std::span<const LayerBuffer> buffers,
                                          std::span<const LayerSpec> layers,
                                          std::span<const uint32_t> slots, const Regions& regions,
                                          Outside outside);
  std::byte* start(uint32_t slot, uint32_t layer) const {
    if (!buffers_.empty()) return buffers_[size_t{slot} * layers_.size() + layer];
    return layers_[layer].base + slot * layers_[layer].stride;
  }
  void use_region(RegionId region);

  struct Layer {
    std::byte* base = nullptr;
    uint64_t stride = 0;
    uint64_t segment_stride = 0;
    uint32_t segment_bytes = 0;
    uint32_t bytes = 0;
  };
  std::vector<Layer> layers_;
  std::vector<std::byte*> buffers_;  // per slot and layer, when there are no strides
  std::vector<bool> outside_;        // of each of these; empty: none is
  std::vector<RegionId> regions_;
};

}  // namespace varve
