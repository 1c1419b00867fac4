// holds: what the sessions of this node keep from being evicted, or reserved, as rows of HELD.
//
// Leases, live attempts and pulls of all sessions, each with the number it got when it began. The
// numbers rise, so a cursor of one answer is good for the next whatever ended meanwhile.
#pragma once

#include <vector>

#include "server/session/context.h"

namespace varve {

inline constexpr uint32_t kHoldRowsMax = 256;  // of one HELD: 24 KiB
static_assert(kHoldRowsMax <= wire::kHoldsMax);

// The rows with the lowest numbers from `cursor` on, in rising order; answers the cursor of those
// behind them, 0 when there are none. `rows` has capacity for kHoldRowsMax + 1.
uint64_t list_holds(const SessionContext& context, uint64_t cursor, std::vector<wire::Hold>& rows);

}  // namespace varve
