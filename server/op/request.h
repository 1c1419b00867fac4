// The requests that are answered in the turn in which they arrive: match, reserve, release.
//
// Each takes its part, answers it with part_back() and leaves nothing waiting.
#pragma once

#include "server/op/part.h"

namespace varve {

struct OpContext;

void match_ids(OpContext& context, MatchPart& part);
void reserve_blocks(OpContext& context, ReservePart& part);
void release_lease(OpContext& context, ReleasePart& part);
void renew_lease(OpContext& context, RenewPart& part);
void session_gone(OpContext& context, GonePart& part);

}  // namespace varve
