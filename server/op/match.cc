// Match: which of these ids does this home have with all ranks, up to its first miss or of each; in
// one turn.
//
// A match changes nothing but recency and, if asked, a lease (I5). Recency is fed from the last id
// to the first, so that leaves are older than the prefix they need.
#include <algorithm>

#include "server/op/fetch.h"
#include "server/op/lease.h"
#include "server/op/look.h"
#include "server/op/op.h"
#include "server/op/request.h"

namespace varve {

namespace {

// The ids of this part, side by side: as they came when they are all of the request, else gathered.
std::span<const BaseId> ids_of(const MatchPart& part, BaseId* gathered) {
  const RequestIds& request = *part.request;
  const uint32_t count = part.end - part.begin;
  if (count == request.count) return std::span<const BaseId>(request.ids, count);
  for (uint32_t i = 0; i < count; ++i) {
    gathered[i] = request.ids[request.positions[part.begin + i]];
  }
  return std::span<const BaseId>(gathered, count);
}

// Answers how many were looked at: of each all of them, with kNoSlot as the base_slots[i] of what
// is not here; of the prefix those before the first that is not.
uint32_t look_up(const OpContext& context, const MatchPart& part, std::span<const BaseId> ids,
                 std::span<uint32_t> base_slots) {
  if (part.of == wire::MatchOf::kEach) {
    context.index.match_each(part.domain, ids, part.rank_count, base_slots);
    return static_cast<uint32_t>(ids.size());
  }
  const uint32_t found = context.index.match(part.domain, ids, part.rank_count);
  for (uint32_t i = 0; i < found; ++i) {
    const std::optional<uint32_t> slot = context.index.base_slot(part.domain, ids[i]);
    VARVE_ASSERT(slot.has_value());
    base_slots[i] = *slot;
  }
  return found;
}

}  // namespace

void match_ids(OpContext& context, MatchPart& part) {
  VARVE_ASSERT(part.begin <= part.end && part.end <= part.request->count, part.begin, part.end);
  const bool each = part.of == wire::MatchOf::kEach;
  VARVE_ASSERT(!each || part.lease_ms == 0, part.lease_ms);
  const uint32_t count = part.end - part.begin;
  part.recovering = context.flash.recovering();
  const std::span<const uint16_t> positions(part.request->positions + part.begin, count);
  const std::span<const BaseId> ids = ids_of(part, context.gathered.data());
  uint32_t base_slots[wire::kIdsMax];
  uint32_t seen = look_up(context, part, ids, std::span(base_slots, count));
  bool any_flash = false;
  for (uint32_t i = 0; i < seen; ++i) {
    uint32_t& slot = base_slots[i];
    const bool hidden = part.recovering && !context.catalog->serves(ids[i]);
    if (slot != kNoSlot && (hidden || (context.catalog->losing() && is_gone(context, slot)))) {
      slot = kNoSlot;
    }
    if (slot == kNoSlot && !each) {
      seen = i;
      break;
    }
    const wire::TierKind tier = slot == kNoSlot ? wire::TierKind::kNone : tier_of(context, slot);
    part.tiers[positions[i]] = tier;
    any_flash = any_flash || tier == wire::TierKind::kFlash;
  }
  VARVE_ASSERT(seen <= count, seen, count);
  for (uint32_t i = seen; i < count; ++i)
    part.tiers[positions[i]] = wire::TierKind::kNone;
  for (uint32_t i = seen; i > 0; --i) {
    if (base_slots[i - 1] != kNoSlot) context.eviction.touch(base_slots[i - 1]);
  }
  part.lease = context.leases->grant(part.session, std::span<const uint32_t>(base_slots, seen),
                                     positions.first(seen), part.lease_ms);
  part.read_ns_estimate = any_flash ? context.fetches->read_ns_estimate() : 0;
  context.metrics.match_parts.add();  // hits and misses are counted where the homes' are merged
  part_back(part, Status());
}

}  // namespace varve
