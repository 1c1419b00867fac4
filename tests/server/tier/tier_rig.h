// TierRig: a small arena and a tier over it, with what its tests put in.
#pragma once

#include <cstdlib>
#include <vector>

#include "server/tier/tier.h"

namespace varve {

inline ExtentTable table_of(const std::vector<uint32_t>& extent_bytes) {
  ExtentTable table;
  for (const uint32_t bytes : extent_bytes) {
    table.extents.push_back({.layer_count = 1, .bytes = bytes});
    table.block_bytes += bytes;
  }
  return table;
}

inline BlockId block_of(uint64_t n) {
  BlockId block;
  std::memcpy(block.base.bytes.data(), &n, sizeof(n));
  return block;
}

// An arena full of 0xEE and a tier over it; limits in pages.
struct TierRig {
  struct Pages {
    uint32_t push = 0, pull = 0, resident = 0;
  };
  TierRig(uint32_t arena_pages, const Pages& limits, uint32_t blocks_max)
      : memory(std::aligned_alloc(kPageBytes, bytes_of(arena_pages))),
        arena(poisoned(memory, arena_pages)),
        tier(arena, options_of(limits, blocks_max)) {}
  ~TierRig() { std::free(memory); }
  TierRig(const TierRig&) = delete;
  TierRig& operator=(const TierRig&) = delete;

  static ByteSpan poisoned(void* memory, uint32_t pages) {
    std::memset(memory, 0xEE, bytes_of(pages));
    return {static_cast<std::byte*>(memory), bytes_of(pages)};
  }
  static TierOptions options_of(const Pages& limits, uint32_t blocks_max) {
    TierOptions options;
    options.limit_bytes[static_cast<uint32_t>(Budget::kPush)] = bytes_of(limits.push);
    options.limit_bytes[static_cast<uint32_t>(Budget::kPull)] = bytes_of(limits.pull);
    options.limit_bytes[static_cast<uint32_t>(Budget::kResident)] = bytes_of(limits.resident);
    options.blocks_max = blocks_max;
    return options;
  }
  uint64_t used_pages(Budget budget) const { return tier.used_bytes(budget) / kPageBytes; }
  // Through the life of a pulled block of one-page extents, up to the unpin.
  TierBlock* pull(uint32_t slot, uint32_t extents) {
    TierBlock* block = tier.open(block_of(slot), slot, extents, extents, Budget::kPull);
    if (block == nullptr) return nullptr;
    tier.pin(*block);
    block->header_present = true;
    for (uint32_t e = 0; e < extents; ++e) {
      if (!tier.take_extent(*block, e, kPageBytes)) break;
      tier.extent_read(*block, e, Status());
    }
    tier.unpin(*block);
    return block;
  }

  void* memory;
  Arena arena;
  DramTier tier;
};

}  // namespace varve
