// One probe of the index for an id, then its ranks and their fragments.
#include "server/op/look.h"

#include <algorithm>

#include "server/op/op.h"

namespace varve {

wire::TierKind tier_of(const OpContext& context, uint32_t base_slot) {
  bool in_dram = true;
  context.index.for_each_rank(base_slot, [&](uint32_t, const Located& located) {
    const TierBlock* block = context.tier.peek(located.block_slot);
    in_dram = in_dram && block != nullptr && block->header_present && block->whole();
  });
  return in_dram ? wire::TierKind::kDram : wire::TierKind::kFlash;
}

bool is_gone(const OpContext& context, uint32_t base_slot) {
  bool gone = false;
  context.index.for_each_rank(base_slot, [&](uint32_t, const Located& located) {
    gone = gone || context.catalog->is_gone(located);
  });
  return gone;
}

wire::TierKind look_tier(const OpContext& context, uint32_t domain, const BaseId& id,
                         uint32_t rank_count) {
  VARVE_ASSERT(rank_count > 0 && rank_count <= kRanksMax, rank_count);
  const uint32_t all = rank_count == kRanksMax ? ~0u : (1u << rank_count) - 1;
  if ((context.index.ranks_of(domain, id) & all) != all) return wire::TierKind::kNone;
  if (context.flash.recovering() && !context.catalog->serves(id)) return wire::TierKind::kNone;
  const std::optional<uint32_t> slot = context.index.base_slot(domain, id);
  VARVE_ASSERT(slot.has_value());
  if (context.catalog->losing() && is_gone(context, *slot)) return wire::TierKind::kNone;
  return tier_of(context, *slot);
}

BaseLook look_base(const OpContext& context, uint32_t domain, const BaseId& id) {
  BaseLook look;
  look.recovering = context.flash.recovering() && !context.catalog->serves(id);
  const std::optional<uint32_t> slot = context.index.base_slot(domain, id);
  if (!slot) return look;
  look.leases = context.index.leases(*slot);
  const uint32_t width = context.options.scheme.width();
  context.index.for_each_rank(*slot, [&](uint32_t rank, const Located& located) {
    BlockLook block;
    block.rank = rank;
    block.state = located.state;
    const uint16_t readable = context.catalog->readable(located);
    for (uint32_t p = 0; p < width; ++p) {
      if (!located.has(p)) {
        ++block.lacking;
        continue;
      }
      block.pieces.push_back({p, context.index.place_of(located, p), (readable >> p & 1) != 0});
    }
    const TierBlock* in_dram = context.tier.peek(located.block_slot);
    if (in_dram != nullptr && in_dram->header_present) {
      block.in_dram = in_dram->whole();
      block.attempt = in_dram->attempt;
      block.dram_bytes = bytes_of(in_dram->charged_pages);
    }
    look.blocks.push_back(std::move(block));
  });
  return look;
}

}  // namespace varve
