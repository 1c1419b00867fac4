// check: what must hold in the fixed part of each frame (docs/WIRE.md 5). Decoding refuses a peer's
// frame by it, encoding asserts it on our own: so the two can not drift apart (W1).
#pragma once

#include "common/base/base.h"
#include "common/wire/frames.h"

namespace varve::wire {

Status check(const Hello& body);
Status check(const HelloOk& body);
Status check(const Refused& body);
Status check(const FormatBody& body);
Status check(const FormatOk& body);
Status check(const Match& body);
Status check(const Matched& body);
Status check(const Release& body);
Status check(const Released& body);
Status check(const Reserve& body);
Status check(const ReserveAnswer& answer);
Status check(const Reserved& body);
Status check(const Extent& body);
Status check(const Commit& body);
Status check(const Committed& body);
Status check(const Abort& body);
Status check(const Aborted& body);
Status check(const Pull& body);
Status check(const Data& body);
Status check(const Pulled& body);
Status check(const Cancel& body);
Status check(const Fenced& body);
Status check(const Credit& body);
Status check(const Ping& body);
Status check(const Goodbye& body);
Status check(const Want& want);
Status check(const Lost& body);
Status check(const LostExtent& lost);
Status check(const Renew& body);
Status check(const Renewed& body);
Status check(const Follow& body);
Status check(const FollowBlock& block);
Status check(const Holds& body);
Status check(const Held& body);
Status check(const Hold& hold);
Status check(const Purge& body);
Status check(const Purged& body);
Status check(TierKind tier);
Status check(const ExtentEntry& entry);
Status check_code(uint8_t code);

}  // namespace varve::wire
