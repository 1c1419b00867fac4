// look: what is known of blocks, for whoever only wants to see it. Changes nothing, not even
// recency or a counter (I5), and asks no drive.
#pragma once

#include <span>
#include <vector>

#include "common/wire/wire.h"
#include "server/index/index.h"
#include "server/op/part.h"

namespace varve {

struct OpContext;

// One rank of a base id, as index and DRAM have it.
struct BlockLook {
  uint32_t rank = 0;
  BlockState state = BlockState::kFlash;
  bool in_dram = false;     // whole
  Attempt attempt;          // none: only its headers on flash say it
  uint64_t dram_bytes = 0;  // in whole pages
  uint32_t lacking = 0;     // positions of k + m without a place
  struct Piece {
    uint32_t position = 0;
    flash::Place place;
    bool readable = false;
  };
  std::vector<Piece> pieces;  // by position
};
struct BaseLook {
  bool recovering = false;  // its slice may still be found
  uint32_t leases = 0;
  std::vector<BlockLook> blocks;  // by rank
};
BaseLook look_base(const OpContext& context, uint32_t domain, const BaseId& id);

// Whether all ranks of an id would be a hit now, and from which tier; kNone: no hit.
wire::TierKind look_tier(const OpContext& context, uint32_t domain, const BaseId& id,
                         uint32_t rank_count);

// Slowest tier over the ranks: DRAM only when every rank's block is whole in DRAM.
wire::TierKind tier_of(const OpContext& context, uint32_t base_slot);
// A rank of it lies on a target that failed, and the catalog has not come to it yet.
bool is_gone(const OpContext& context, uint32_t base_slot);

}  // namespace varve
