// What stands in the pools of the index.
//
//   buckets   [ tag 32 | slot 32 ] ...
//   bases     [ id 32 B | ranks 4 | first block 4 | domain 4 | leases 4 ] ...   slots are stable
//   fragments [ next 4 | segment 2 | page 2 | pages 2 | lead 2 | target | slice | rank | state ]
//   ...
//             `width` side by side are a block, by position; its next, rank and state stand in the
//             first
#pragma once

#include "server/index/index.h"

namespace varve {

inline constexpr uint32_t kNone = ~0u;
inline constexpr uint8_t kNowhere = 0xFF;  // target of a fragment without a place
inline constexpr uint32_t kLeasesLimit = (1u << 31) - 1;

struct Bucket {
  uint32_t tag = 0;
  uint32_t slot = kNone;  // kNone: empty
};
static_assert(sizeof(Bucket) * 5 / 4 == IndexBytes::kBuckets);

// In one piece from `ranks` on, so that a match that looks at those has the domain with them.
struct BaseEntry {
  BaseId id;
  uint32_t ranks = 0;      // bit r: rank r is here and seen
  uint32_t first = kNone;  // block of the lowest rank; next free slot while unused
  uint32_t domain = 0;
  uint32_t leases : 31 = 0;
  uint32_t live : 1 = 0;  // in the table

  bool is(uint32_t of, const BaseId& base) const { return id == base && domain == of; }
};
static_assert(sizeof(BaseEntry) == IndexBytes::kBase);

struct Fragment {
  uint32_t next = kNone;  // block, by rising rank, kNone at the end; next free one while unused
  uint16_t segment = 0;
  uint16_t page = 0;
  uint16_t pages = 0;
  uint16_t lead_pages = 0;
  uint8_t target = kNowhere;
  uint8_t slice = 0;
  uint8_t rank = 0;
  BlockState state = BlockState::kMemory;
};
static_assert(sizeof(Fragment) == IndexBytes::kFragment);
static_assert(kRanksMax <= 32 && kTargetsMax < kNowhere && kSlicesMax <= 256);

inline void place_write(const flash::Place& place, Fragment* fragment) {
  VARVE_ASSERT(place.page <= UINT16_MAX, place.page);
  VARVE_ASSERT(place.pages <= UINT16_MAX, place.pages);
  VARVE_ASSERT(place.lead_pages <= place.pages, place.lead_pages, place.pages);
  fragment->target = place.target;
  fragment->slice = place.slice;
  fragment->segment = place.segment;
  fragment->page = static_cast<uint16_t>(place.page);
  fragment->pages = static_cast<uint16_t>(place.pages);
  fragment->lead_pages = static_cast<uint16_t>(place.lead_pages);
}

inline bool has_place(const Fragment& fragment) {
  return fragment.target != kNowhere;
}

inline flash::Place place_load(const Fragment& fragment) {
  return {.target = fragment.target,
          .slice = fragment.slice,
          .segment = fragment.segment,
          .page = fragment.page,
          .pages = fragment.pages,
          .lead_pages = fragment.lead_pages};
}

}  // namespace varve
