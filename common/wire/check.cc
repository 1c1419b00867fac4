// check: the rules of every fixed part, one function per frame. Each refusal names its frame and
// field; nothing here knows the state of a session: whether a frame is welcome is decided above.
#include "common/wire/check.h"

namespace varve::wire {

namespace {

template <size_t n>
bool all_zero(const uint8_t (&bytes)[n]) {
  for (uint8_t byte : bytes) {
    if (byte != 0) return false;
  }
  return true;
}

bool is_code(uint8_t code) {
  return code < kCodeCount;
}
bool is_ack(AckKind ack) {
  return ack == AckKind::kCached || ack == AckKind::kDurable;
}
bool are_layers(uint32_t first, uint32_t count) {
  return count >= 1 && count <= kLayersMax && first <= kLayersMax - count;
}
// CANCEL and FENCED name a whole op, or one extent of one block.
bool is_part_of_op(uint32_t block, uint32_t extent) {
  if (block == kWhole || extent == kWhole) return block == extent;
  return block < kIdsMax && extent < kExtentsMax;
}

}  // namespace

Status check_code(uint8_t code) {
  if (!is_code(code)) return Status::invalid("unknown code");
  return {};
}

Status check(TierKind tier) {
  if (tier > TierKind::kObject) return Status::invalid("MATCHED: unknown tier");
  return {};
}

Status check(const Hello& body) {
  if (body.version_min > body.version_max) return Status::invalid("HELLO: version range");
  if (body.lane != LaneKind::kUrgent && body.lane != LaneKind::kBulk) {
    return Status::invalid("HELLO: unknown lane");
  }
  if (body.lane_index >= kBulkLanesMax) return Status::invalid("HELLO: lane_index over its limit");
  if (body.token_bytes > kTokenBytesMax) return Status::invalid("HELLO: token over its limit");
  if (body.name_bytes > kTextBytesMax) return Status::invalid("HELLO: name over its limit");
  if (!all_zero(body.reserved)) return Status::invalid("HELLO: reserved field");
  if (body.lane == LaneKind::kUrgent) {
    if (body.lane_index != 0) return Status::invalid("HELLO: lane_index of an urgent lane");
    if (body.session != 0 || body.session_secret != 0) {
      return Status::invalid("HELLO: session of an urgent lane");
    }
  } else if (body.pull_credit_bytes != 0) {
    return Status::invalid("HELLO: credit of a bulk lane");
  }
  return {};
}

Status check(const HelloOk& body) {
  if (body.version != kVersion) return Status::invalid("HELLO_OK: version");
  if (body.bulk_lanes_max == 0 || body.bulk_lanes_max > kBulkLanesMax) {
    return Status::invalid("HELLO_OK: bulk_lanes_max");
  }
  if (body.reserved0 != 0) return Status::invalid("HELLO_OK: reserved field");
  if (body.k == 0) return Status::invalid("HELLO_OK: k");
  return {};
}

Status check(const Refused& body) {
  if (!is_code(body.code) || body.code == 0) return Status::invalid("REFUSED: code");
  if (body.reserved != 0) return Status::invalid("REFUSED: reserved field");
  if (body.text_bytes > kTextBytesMax) return Status::invalid("REFUSED: text over its limit");
  if (body.version_min > body.version_max) return Status::invalid("REFUSED: version range");
  return {};
}

Status check(const FormatBody& body) {
  if (body.format_bytes == 0 || body.format_bytes > kFormatBytesMax) {
    return Status::invalid("FORMAT: format_bytes out of range");
  }
  if (body.reserved != 0) return Status::invalid("FORMAT: reserved field");
  return {};
}

Status check(const FormatOk& body) {
  if (!is_code(body.code)) return Status::invalid("FORMAT_OK: unknown code");
  if (!all_zero(body.reserved)) return Status::invalid("FORMAT_OK: reserved field");
  return {};
}

Status check(const Match& body) {
  if (body.count == 0 || body.count > kIdsMax) return Status::invalid("MATCH: count out of range");
  if (body.of > MatchOf::kEach) return Status::invalid("MATCH: unknown kind");
  if (body.of == MatchOf::kEach && body.lease_ms != 0) {
    return Status::invalid("MATCH: a lease on each");
  }
  if (!all_zero(body.reserved)) return Status::invalid("MATCH: reserved field");
  return {};
}

Status check(const Matched& body) {
  if (!is_code(body.code)) return Status::invalid("MATCHED: unknown code");
  if (body.recovering > 1) return Status::invalid("MATCHED: recovering");
  if (body.reserved0 != 0 || body.reserved1 != 0) return Status::invalid("MATCHED: reserved field");
  if (body.n_blocks > kIdsMax) return Status::invalid("MATCHED: n_blocks over its limit");
  return {};
}

Status check(const Release&) {
  return {};
}

Status check(const Released& body) {
  if (!is_code(body.code)) return Status::invalid("RELEASED: unknown code");
  if (!all_zero(body.reserved)) return Status::invalid("RELEASED: reserved field");
  return {};
}

Status check(const Reserve& body) {
  if (body.rank >= kRanksMax) return Status::invalid("RESERVE: rank over its limit");
  if (body.count == 0 || body.count > kIdsMax)
    return Status::invalid("RESERVE: count out of range");
  return {};
}

Status check(const ReserveAnswer& answer) {
  if (answer.outcome < ReserveOutcome::kExists || answer.outcome > ReserveOutcome::kRefused) {
    return Status::invalid("RESERVED: unknown outcome");
  }
  if (!is_code(answer.code)) return Status::invalid("RESERVED: unknown code of an answer");
  if (!all_zero(answer.reserved)) return Status::invalid("RESERVED: reserved field of an answer");
  if (answer.outcome == ReserveOutcome::kGranted && answer.attempt.is_none()) {
    return Status::invalid("RESERVED: granted without an attempt");
  }
  return {};
}

Status check(const Reserved& body) {
  if (!is_code(body.code)) return Status::invalid("RESERVED: unknown code");
  if (!all_zero(body.reserved)) return Status::invalid("RESERVED: reserved field");
  if (body.count > kIdsMax) return Status::invalid("RESERVED: count over its limit");
  if (body.code != 0 && body.count != 0) return Status::invalid("RESERVED: refused with answers");
  return {};
}

Status check(const Extent& body) {
  if (body.index >= kIdsMax) return Status::invalid("EXTENT: index over its limit");
  if (body.extent >= kExtentsMax) return Status::invalid("EXTENT: extent over its limit");
  if (body.extent_bytes > kExtentBytesMax) return Status::invalid("EXTENT: bytes over their limit");
  if (body.offset >= body.extent_bytes) return Status::invalid("EXTENT: offset over its extent");
  if (body.reserved != 0) return Status::invalid("EXTENT: reserved field");
  return {};
}

Status check(const Commit& body) {
  if (body.index >= kIdsMax) return Status::invalid("COMMIT: index over its limit");
  if (!is_ack(body.ack)) return Status::invalid("COMMIT: unknown ack");
  if (!all_zero(body.reserved) || body.reserved1 != 0) {
    return Status::invalid("COMMIT: reserved field");
  }
  if (body.count == 0 || body.count > kExtentsMax) {
    return Status::invalid("COMMIT: count out of range");
  }
  return {};
}

Status check(const ExtentEntry& entry) {
  if (entry.reserved != 0) {
    return Status::invalid("entry of an extent: reserved field");
  }
  if (entry.stored_bytes == 0 || entry.stored_bytes > kExtentBytesMax) {
    return Status::invalid("entry of an extent: stored bytes out of range");
  }
  return {};
}

Status check(const Committed& body) {
  if (!is_code(body.code)) return Status::invalid("COMMITTED: unknown code");
  if (!is_ack(body.ack)) return Status::invalid("COMMITTED: unknown ack");
  if (!all_zero(body.reserved)) return Status::invalid("COMMITTED: reserved field");
  if (body.index >= kIdsMax) return Status::invalid("COMMITTED: index over its limit");
  return {};
}

Status check(const Abort& body) {
  if (body.index >= kIdsMax) return Status::invalid("ABORT: index over its limit");
  if (body.reserved != 0) return Status::invalid("ABORT: reserved field");
  return {};
}

Status check(const Aborted& body) {
  if (!is_code(body.code)) return Status::invalid("ABORTED: unknown code");
  if (!all_zero(body.reserved)) return Status::invalid("ABORTED: reserved field");
  if (body.index >= kIdsMax) return Status::invalid("ABORTED: index over its limit");
  return {};
}

Status check(const Pull& body) {
  if (body.rank >= kRanksMax) return Status::invalid("PULL: rank over its limit");
  if (body.count == 0 || body.count > kIdsMax) return Status::invalid("PULL: count out of range");
  if (body.want_count > kWantsMax) return Status::invalid("PULL: want_count over its limit");
  if (body.want_count > 0) {
    if (body.layer_first != 0 || body.layer_count != 0) {
      return Status::invalid("PULL: layers and wants in one");
    }
    return {};
  }
  if (!are_layers(body.layer_first, body.layer_count)) {
    return Status::invalid("PULL: layers out of range");
  }
  return {};
}

Status check(const Data& body) {
  if (body.block >= kIdsMax) return Status::invalid("DATA: block over its limit");
  if (body.extent >= kExtentsMax) return Status::invalid("DATA: extent over its limit");
  if (body.reserved != 0) return Status::invalid("DATA: reserved field");
  VARVE_RETURN_IF_ERROR(check(body.entry));
  if (body.offset >= body.entry.stored_bytes) {
    return Status::invalid("DATA: offset over its extent");
  }
  return {};
}

Status check(const Pulled& body) {
  if (!is_code(body.code)) return Status::invalid("PULLED: unknown code");
  if ((body.tiers & ~kTierBits) != 0) return Status::invalid("PULLED: unknown tier");
  if (!all_zero(body.reserved)) return Status::invalid("PULLED: reserved field");
  if (body.count > kIdsMax) return Status::invalid("PULLED: count over its limit");
  return {};
}

Status check(const Cancel& body) {
  if (!is_part_of_op(body.block, body.extent)) return Status::invalid("CANCEL: block or extent");
  return {};
}
Status check(const Fenced& body) {
  if (!is_part_of_op(body.block, body.extent)) return Status::invalid("FENCED: block or extent");
  return {};
}
Status check(const Credit&) {
  return {};
}
Status check(const Ping&) {
  return {};
}
Status check(const Goodbye&) {
  return {};
}

Status check(const Want& want) {
  if (want.block >= kIdsMax) return Status::invalid("PULL: block of a want over its limit");
  if (want.extent >= kExtentsMax) return Status::invalid("PULL: extent of a want over its limit");
  return {};
}

Status check(const Lost& body) {
  if (body.count == 0 || body.count > kLostMax) return Status::invalid("LOST: count out of range");
  if (body.reserved != 0) return Status::invalid("LOST: reserved field");
  return {};
}

Status check(const LostExtent& lost) {
  if (lost.block >= kIdsMax) return Status::invalid("LOST: block over its limit");
  if (lost.extent >= kExtentsMax) return Status::invalid("LOST: extent over its limit");
  if (lost.state != LostState::kLost && lost.state != LostState::kLate) {
    return Status::invalid("LOST: unknown state");
  }
  if (!is_code(lost.code)) return Status::invalid("LOST: unknown code");
  if (!all_zero(lost.reserved)) return Status::invalid("LOST: reserved field of an extent");
  return check(lost.entry);
}

Status check(const Renew& body) {
  if (body.lease_ms == 0) return Status::invalid("RENEW: lease_ms");
  if (body.reserved != 0) return Status::invalid("RENEW: reserved field");
  return {};
}

Status check(const Renewed& body) {
  if (!is_code(body.code)) return Status::invalid("RENEWED: unknown code");
  if (!all_zero(body.reserved)) return Status::invalid("RENEWED: reserved field");
  return {};
}

Status check(const Follow& body) {
  if (body.rank >= kRanksMax) return Status::invalid("FOLLOW: rank over its limit");
  if (body.count == 0 || body.count > kIdsMax) return Status::invalid("FOLLOW: count out of range");
  if (!are_layers(body.layer_first, body.layer_count)) {
    return Status::invalid("FOLLOW: layers out of range");
  }
  if (body.reserved != 0) return Status::invalid("FOLLOW: reserved field");
  return {};
}

Status check(const FollowBlock& block) {
  if (block.attempt.is_none()) return Status::invalid("FOLLOW: block without an attempt");
  return {};
}

Status check(const Holds&) {
  return {};
}

Status check(const Held& body) {
  if (!is_code(body.code)) return Status::invalid("HELD: unknown code");
  if (!all_zero(body.reserved)) return Status::invalid("HELD: reserved field");
  if (body.count > kHoldsMax) return Status::invalid("HELD: count over its limit");
  return {};
}

Status check(const Hold& hold) {
  if (hold.kind < HoldKind::kLease || hold.kind > HoldKind::kFollow) {
    return Status::invalid("HELD: unknown kind");
  }
  if (!all_zero(hold.reserved)) return Status::invalid("HELD: reserved field of a hold");
  return {};
}

Status check(const Purge& body) {
  if (body.kind < PurgeKind::kBlocks || body.kind > PurgeKind::kDomain) {
    return Status::invalid("PURGE: unknown kind");
  }
  if (!all_zero(body.reserved) || body.reserved1 != 0) {
    return Status::invalid("PURGE: reserved field");
  }
  const bool has_ids = body.kind == PurgeKind::kBlocks;
  if (body.count > kIdsMax || has_ids != (body.count > 0)) {
    return Status::invalid("PURGE: count out of range");
  }
  if (body.kind != PurgeKind::kLineage && body.format != 0) {
    return Status::invalid("PURGE: a format with another kind than lineage");
  }
  return {};
}

Status check(const Purged& body) {
  if (!is_code(body.code)) return Status::invalid("PURGED: unknown code");
  if (!all_zero(body.reserved)) return Status::invalid("PURGED: reserved field");
  return {};
}

}  // namespace varve::wire
