// WorkingSet: what the pull bars move: blocks of layers in the caller's paged memory, with known
// bytes.
//
// Layer l of slot s lies in pages of kPageOfLayerBytes that are not neighbours, as a paged KV cache
// has them, so that every receive is a scattered one. Memory is mapped and touched once.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "client/varve.h"

namespace varve::kvbench {

inline constexpr uint32_t kPageOfLayerBytes = 64 * kKiB;
inline constexpr uint32_t kPieceBytes = 256 * kKiB;  // payload of one message, as in DATA frames

struct WorkingSetShape {
  uint32_t blocks = 256;
  uint32_t layers = 4;
  uint32_t layer_bytes = 1 * kMiB;  // = extent; a multiple of kPageOfLayerBytes
  uint64_t bytes() const { return uint64_t{blocks} * layers * layer_bytes; }
  uint64_t block_bytes() const { return uint64_t{layers} * layer_bytes; }
  uint32_t extents() const { return blocks * layers; }
};

// Memory that is mapped, zero and touched; refused where the machine has not so much available.
class TouchedMemory {
 public:
  static Result<std::unique_ptr<TouchedMemory>> map(uint64_t bytes);
  ~TouchedMemory();
  TouchedMemory(const TouchedMemory&) = delete;
  TouchedMemory& operator=(const TouchedMemory&) = delete;
  ByteSpan bytes() const { return bytes_; }

 private:
  explicit TouchedMemory(ByteSpan bytes) : bytes_(bytes) {}
  ByteSpan bytes_;
};

class WorkingSet {
 public:
  static Result<std::unique_ptr<WorkingSet>> make(const WorkingSetShape& shape);

  const WorkingSetShape& shape() const { return shape_; }
  ByteSpan memory() const { return memory_->bytes(); }
  // What the store is told: each layer as `cut` layers, one after the other; 1 = as it is. A
  // divisor of the pages of a layer.
  Layout layout(RegionId region, uint32_t cut) const;
  Format format(uint32_t cut) const;
  // Pieces of bytes [offset, offset + length) of one layer of one slot; returns how many.
  uint32_t pieces(uint32_t slot, uint32_t layer, uint32_t offset, uint32_t length,
                  iovec* out) const;

  void fill();    // every byte as content() says
  void poison();  // one word of every 4 KiB page changed: what is not written again is wrong
  // Extents whose bytes are not those of fill().
  uint32_t wrong_extents() const { return wrong_extents_of(0, shape_.blocks); }
  uint32_t wrong_extents_of(uint32_t first, uint32_t count) const;  // of some blocks

  // The same of single slots, which may hold any block's bytes.
  void fill_slot(uint32_t slot, uint32_t block);
  void poison_slots(uint32_t first, uint32_t count);
  bool slot_is(uint32_t slot, uint32_t block) const;
  uint64_t digest_of_slots(uint32_t first, uint32_t count) const;  // of whatever bytes they hold

  // The content of an extent, contiguous; `out` has layer_bytes.
  static void content(uint32_t block, uint32_t layer, ByteSpan out);

 private:
  explicit WorkingSet(const WorkingSetShape& shape) : shape_(shape) {}
  uint32_t pages_of_cut(uint32_t cut) const;
  std::byte* page(uint32_t slot, uint32_t layer, uint32_t page_index) const;
  uint32_t crc_of(uint32_t slot, uint32_t layer) const;
  uint32_t pages_per_layer() const { return shape_.layer_bytes / kPageOfLayerBytes; }
  WorkingSetShape shape_;
  std::unique_ptr<TouchedMemory> memory_;
  std::vector<uint32_t> crcs_;  // of fill(), per block and layer
};

}  // namespace varve::kvbench
