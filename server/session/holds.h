// holds: what the sessions of this node keep from being evicted, or reserved, as rows of HELD.
//
// A client sees those of its own domain only, the operator all. Leases, live attempts and pulls of
// all sessions, each with the number it got when it began. The numbers rise, so a cursor of one
// answer is good for the next whatever ended meanwhile.
#pragma once

#include <vector>

#include "server/session/context.h"

namespace varve {

inline constexpr uint32_t kHoldRowsMax = 256;  // of one HELD: 24 KiB
static_assert(kHoldRowsMax <= wire::kHoldsMax);

inline constexpr uint32_t kEveryDomain = 0;  // the id of none

// The rows of a domain with the lowest numbers from `cursor` on, in rising order; answers the
// cursor of those behind them, 0 when there are none. `rows` has capacity for kHoldRowsMax + 1.
uint64_t list_holds(const SessionContext& context, uint32_t domain, uint64_t cursor,
                    std::vector<SessionHold>& rows);

}  // namespace varve
