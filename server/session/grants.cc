// One session's attempts: receive, verify, commit, abort, expire.
#include "server/session/grants.h"

#include <algorithm>
#include <cstring>

#include "server/flash/layout.h"

namespace varve {

namespace {

constexpr uint32_t kTableOffset =
    sizeof(flash::FragmentHeader);  // entry i at + 32 i, never astride a page
static_assert(kTableOffset % sizeof(ExtentEntry) == 0);
static_assert(kPageBytes % sizeof(ExtentEntry) == 0);

std::byte* entry_at(const GrantLoan& loan, uint32_t extent) {
  return loan.tier->arena().byte_at(loan.block->header,
                                    kTableOffset + extent * sizeof(ExtentEntry));
}

// The table and the rest of the header pages; the first 256 bytes are the home's.
void write_table(const GrantLoan& loan, const wire::ArrayView<ExtentEntry>& entries) {
  for (uint32_t e = 0; e < entries.size(); ++e) {
    const ExtentEntry entry = entries[e];
    std::memcpy(entry_at(loan, e), &entry, sizeof(entry));
  }
  const uint64_t end = bytes_of(loan.block->header.page_count);
  uint64_t at = kTableOffset + uint64_t{entries.size()} * sizeof(ExtentEntry);
  while (at < end) {
    const uint64_t piece = std::min<uint64_t>(end - at, kPageBytes - at % kPageBytes);
    std::memset(loan.tier->arena().byte_at(loan.block->header, at), 0, piece);
    at += piece;
  }
}

void zero_pad(const GrantLoan& loan, uint32_t extent, uint32_t extent_bytes) {
  const Slab& slab = loan.tier->extent(*loan.block, extent);
  const uint64_t pad = bytes_of(slab.page_count) - extent_bytes;
  VARVE_ASSERT(pad < kPageBytes, pad);  // D4
  if (pad > 0) std::memset(loan.tier->arena().byte_at(slab, extent_bytes), 0, pad);
}

// Over the whole extent at once: a running state would be 576 bytes for each of the 504 extents
// that may be in progress, and the last pieces are still in the cache. For raw, decoded is stored.
uint64_t decoded_xxh3(const Grant& grant, uint32_t extent, uint32_t extent_bytes) {
  VARVE_ASSERT(extent_bytes > 0 && extent_bytes <= kExtentBytesMax, extent_bytes);
  const Arena& arena = grant.loan.tier->arena();
  const Slab& slab = grant.loan.tier->extent(*grant.loan.block, extent);
  Xxh3Stream stream(checksum_seed(grant.block, extent, grant.loan.attempt).decoded);
  iovec pieces[kPayloadPiecesMax];
  for (uint32_t at = 0; at < extent_bytes;) {
    const uint32_t bytes = std::min(extent_bytes - at, kPayloadBytesMax);
    const uint32_t count = arena.pieces(slab, at, bytes, pieces);
    for (uint32_t i = 0; i < count; ++i) {
      stream.update({static_cast<const std::byte*>(pieces[i].iov_base), pieces[i].iov_len});
    }
    at += bytes;
  }
  return stream.digest();
}

}  // namespace

uint32_t Grants::reserve(uint32_t wanted, std::span<Grant*> out) {
  VARVE_ASSERT(out.size() >= wanted);
  const uint32_t limit = scope_.context.options.attempts_max;
  uint32_t taken = 0;
  while (taken < wanted && count_ < limit) {
    Grant* grant = scope_.context.grants->take(scope_.domain);
    if (grant == nullptr) break;
    VARVE_ASSERT(grant->state == Grant::State::kFree);
    out[taken++] = grant;
    ++count_;
  }
  scope_.context.metrics.grants.add(taken);
  return taken;
}

void Grants::give_up(Grant& grant) {
  VARVE_ASSERT(grant.state == Grant::State::kFree);
  VARVE_ASSERT(count_ > 0);
  --count_;
  scope_.context.metrics.grants.add(-1);
  scope_.context.grants->give(&grant, scope_.domain);
  scope_.something_ended();
}

void Grants::begin(Grant& grant, const Begin& begin) {
  VARVE_ASSERT(grant.state == Grant::State::kFree);
  VARVE_ASSERT(begin.loan.outcome == wire::ReserveOutcome::kGranted);
  VARVE_ASSERT(begin.loan.push != nullptr && begin.loan.block != nullptr);
  grant.state = Grant::State::kReceiving;
  grant.grants = this;
  grant.reserve_op = begin.reserve_op;
  grant.index = begin.index;
  grant.shard = scope_.context.home_of(begin.block.base);
  grant.block = begin.block;
  grant.table = begin.table;
  grant.counts = begin.counts;
  VARVE_ASSERT(begin.table != nullptr && begin.counts != nullptr);
  grant.loan = begin.loan;
  grant.failure = Status();
  grant.receives = 0;
  grant.complete = 0;
  grant.commit_waits = grant.leaving = false;
  VARVE_ASSERT(grant.sends == 0 && grant.followers.empty());
  grant.answer = Grant::Answer::kNone;
  grant.bytes = 0;
  for (uint32_t e = 0; e < begin.table->count(); ++e) {
    grant.progress[e] = {};
    grant.bytes += begin.table->bytes_at(e);
  }
  grant.hold = ++scope_.context.hold_last;
  grant.began_ns = scope_.context.reactor.now_ns();
  grant.until_ns = grant.began_ns + begin.hold_ns;
  grant.timer.owner = &grant;
  grant.timer.on_fire = on_reservation_over;
  scope_.context.reactor.arm(grant.timer, begin.hold_ns);
  live_.push_back(&grant);
}

void Grants::on_reservation_over(Timer& timer) {
  auto& grant = *static_cast<Grant*>(timer.owner);
  VARVE_ASSERT(grant.state == Grant::State::kReceiving);
  grant.grants->scope_.context.metrics.reservations_expired.add();
  grant.grants->end(grant, Status::timed_out("the reservation ended"));
}

// The payload into its slabs comes too slowly to wait for: only the fence of the lane ends that
// receive, and the lane is the session's (N3).
void Grants::on_drain_over(Timer& timer) {
  auto& grant = *static_cast<Grant*>(timer.owner);
  VARVE_ASSERT(grant.state == Grant::State::kDraining);
  VARVE_ASSERT(grant.receives > 0);
  SessionScope& scope = grant.grants->scope_;
  Reactor& reactor = scope.context.reactor;
  const Nanos stall_ns = scope.context.options.drain_stall_ms_max * kMillisecond;
  if (const Nanos owed_ns = reactor.owed_ns(stall_ns); owed_ns > 0) {
    return reactor.arm(timer, owed_ns);
  }
  scope.fail_slow(Slow::kExtent,
                  Status::timed_out("an EXTENT of an attempt that ended is still under way"));
}

Grant* Grants::find(uint64_t reserve_op, uint32_t index) {
  // At most attempts_max (256) nodes for a frame of up to 256 KiB: below a percent of its checksum.
  for (Grant* grant = live_.front(); grant != nullptr; grant = live_.next(grant)) {
    if (grant->index == index && grant->reserve_op == reserve_op) return grant;
  }
  return nullptr;
}

bool Grants::holds(uint64_t reserve_op) const {
  for (Grant* grant = live_.front(); grant != nullptr; grant = live_.next(grant)) {
    if (grant->reserve_op == reserve_op) return true;
  }
  return false;
}

void Grants::discard(ExtentReceive& receive, Discarded why, uint32_t payload_bytes) {
  receive.grant = nullptr;
  scope_.context.metrics.discarded_frames[static_cast<uint8_t>(why)].add();
  scope_.context.metrics.discarded_bytes.add(payload_bytes);
}

Status Grants::place(const wire::Extent& body, uint32_t payload_bytes, ExtentReceive& receive,
                     Placement& where) {
  VARVE_ASSERT(receive.active);
  VARVE_ASSERT(receive.grant == nullptr);
  Grant* grant = find(body.reserve_op, body.index);
  if (grant == nullptr || grant->state != Grant::State::kReceiving) {
    discard(receive, Discarded::kUnknown, payload_bytes);  // aborted, expired or never granted
    return {};
  }
  if (grant->loan.attempt != body.attempt) {
    discard(receive, Discarded::kForeign, payload_bytes);  // I3: never mixed
    return {};
  }
  if (!grant->failure.ok()) {
    discard(receive, Discarded::kFailed, payload_bytes);
    return {};
  }
  if (body.extent >= grant->table->count()) {
    return Status::invalid("EXTENT beyond the extents of the block");
  }
  if (body.extent_bytes != grant->table->bytes_at(body.extent)) {
    return Status::invalid("EXTENT with another size than the format says");
  }
  ExtentProgress& progress = grant->progress[body.extent];
  if (progress.busy || body.offset != progress.received_bytes) {
    return Status::invalid("EXTENT piece out of order or sent twice");
  }
  if (payload_bytes > body.extent_bytes - body.offset) {
    return Status::invalid("EXTENT piece beyond the end of the extent");
  }
  if (body.offset == 0) {
    progress.crc = checksum_seed(grant->block, body.extent, grant->loan.attempt).stored;
  }
  progress.busy = 1;
  ++grant->receives;
  receive.grant = grant;
  receive.extent = body.extent;
  receive.offset = body.offset;
  receive.bytes = payload_bytes;
  receive.stored_crc = body.stored_crc;
  const Slab& slab = grant->loan.tier->extent(*grant->loan.block, body.extent);
  where.count = grant->loan.tier->arena().pieces(slab, body.offset, payload_bytes,
                                                 {where.pieces, kPayloadPiecesMax});
  receive.where.count = where.count;
  std::copy_n(where.pieces, where.count, receive.where.pieces);
  return {};
}

void Grants::received(ExtentReceive& receive) {
  VARVE_ASSERT(receive.active);
  receive.active = false;
  Grant* grant = receive.grant;
  if (grant == nullptr) return;
  receive.grant = nullptr;
  ExtentProgress& progress = grant->progress[receive.extent];
  VARVE_ASSERT(progress.busy == 1);
  VARVE_ASSERT(progress.received_bytes == receive.offset);
  VARVE_ASSERT(grant->receives > 0);
  progress.busy = 0;
  --grant->receives;
  scope_.context.metrics.pushed_bytes.add(receive.bytes);
  scope_.counts->pushed_bytes.add(receive.bytes);
  if (grant->state == Grant::State::kDraining) return try_abort(*grant);
  VARVE_ASSERT(grant->state == Grant::State::kReceiving);
  // The pieces were just written by the socket: they are in the cache now and not later.
  for (uint32_t i = 0; i < receive.where.count; ++i) {
    const iovec& piece = receive.where.pieces[i];
    progress.crc =
        crc32c(progress.crc, {static_cast<const std::byte*>(piece.iov_base), piece.iov_len});
  }
  progress.received_bytes += receive.bytes;
  if (progress.received_bytes == grant->table->bytes_at(receive.extent)) {
    extent_complete(*grant, receive);
  }
}

void Grants::extent_complete(Grant& grant, ExtentReceive& receive) {
  ExtentProgress& progress = grant.progress[receive.extent];
  VARVE_ASSERT(grant.complete < grant.table->count(), grant.complete);
  if (progress.crc != receive.stored_crc) {  // I1: checked by the holder at receipt
    scope_.context.metrics.corrupt_extents.add();
    grant.failure = Status::corrupt("an extent's checksum does not hold");
  } else {
    progress.decoded_xxh3 = decoded_xxh3(grant, receive.extent, progress.received_bytes);
    zero_pad(grant.loan, receive.extent, progress.received_bytes);
    ++grant.complete;
    followers_see(grant);
  }
  if (grant.commit_waits) try_commit(grant);
}

void Grants::dropped(ExtentReceive& receive) {
  if (!receive.active) return;
  receive.active = false;
  Grant* grant = receive.grant;
  receive.grant = nullptr;
  if (grant == nullptr) return;
  VARVE_ASSERT(grant->receives > 0);
  grant->progress[receive.extent].busy = 0;
  --grant->receives;
  if (grant->state == Grant::State::kDraining) {
    try_abort(*grant);
  } else {
    end(*grant, Status::unavailable("the lane of an extent was closed"));
  }
}

void Grants::answer_unknown(uint64_t op, const wire::Commit& body, Code code) {
  wire::Committed committed;
  committed.code = static_cast<uint8_t>(code);
  committed.ack = body.ack;
  committed.index = body.index;
  committed.attempt = body.attempt;
  scope_.reply(scope_.context.encoder().committed(op, committed));
}

void Grants::commit(uint64_t op, const wire::CommitView& view) {
  scope_.context.metrics.commits.add();
  const wire::Commit& body = view.body;
  Grant* grant = find(body.reserve_op, body.index);
  if (grant == nullptr) return answer_unknown(op, body, Code::kTimedOut);
  if (grant->loan.attempt != body.attempt) return answer_unknown(op, body, Code::kInvalid);
  if (grant->state != Grant::State::kReceiving) {
    const bool committing = grant->state == Grant::State::kCommitting;
    // One answer for an attempt that has ended, whether its slabs are home already or not.
    return answer_unknown(op, body, committing ? Code::kInvalid : Code::kTimedOut);
  }
  if (grant->commit_waits) return answer_unknown(op, body, Code::kInvalid);
  grant->answer_op = op;
  grant->answer = Grant::Answer::kCommitted;
  grant->commit_began_ns = scope_.context.reactor.now_ns();
  grant->commit.epoch = body.epoch;
  grant->commit.ack = body.ack;
  if (!grant->failure.ok()) return end(*grant, grant->failure);
  if (view.entries.size() != grant->table->count()) {
    return end(*grant,
               Status::invalid("COMMIT with another number of extents than the format says"));
  }
  std::array<ExtentEntry, kExtentsMax> entries;
  for (uint32_t e = 0; e < view.entries.size(); ++e)
    entries[e] = view.entries[e];
  const Status checked = check_entries({entries.data(), view.entries.size()}, *grant->table);
  if (!checked.ok()) return end(*grant, checked);
  write_table(grant->loan, view.entries);
  grant->commit_waits = true;
  try_commit(*grant);
}

// COMMIT may overtake extents of other lanes: it waits for them, at most until the reservation
// ends.
void Grants::try_commit(Grant& grant) {
  VARVE_ASSERT(grant.commit_waits);
  if (!grant.failure.ok()) return end(grant, grant.failure);
  const uint32_t extents = grant.table->count();
  if (grant.complete < extents) return;
  VARVE_ASSERT(grant.receives == 0);  // every byte was placed once
  for (uint32_t e = 0; e < extents; ++e) {
    ExtentEntry entry;
    std::memcpy(&entry, entry_at(grant.loan, e), sizeof(entry));
    if (entry.page_offset != 0) return end(grant, Status::invalid("COMMIT with a page_offset"));
    const ExtentProgress& progress = grant.progress[e];
    // I1: whatever later judges these bytes (tail scan, reclaim, scrub) is judged here first.
    if (entry.stored_crc != progress.crc || entry.stored_bytes != progress.received_bytes ||
        entry.decoded_xxh3 != progress.decoded_xxh3) {
      scope_.context.metrics.corrupt_extents.add();
      return end(grant, Status::corrupt("the committed table is not what was received"));
    }
  }
  grant.leaving = true;
  if (grant.sends == 0) return submit_commit(grant);
  // Only followers are waited for, whose lanes have a bound of their own: their slowness is not the
  // writer's.
  scope_.context.reactor.cancel(grant.timer);
  scope_.context.metrics.follow_waits.add();
}

void Grants::submit_commit(Grant& grant) {
  VARVE_ASSERT(grant.leaving);
  grant.state = Grant::State::kCommitting;
  scope_.context.reactor.cancel(grant.timer);
  grant.commit.push = grant.loan.push;
  grant.commit.attempt = grant.loan.attempt;
  submit(grant, grant.commit, on_committed);
}

void Grants::submit(Grant& grant, Part& part, Part::Back on_back) {
  VARVE_ASSERT(grant.receives == 0);  // the loan goes home: nothing writes into its slabs
  VARVE_ASSERT(grant.sends == 0);     // nor reads them
  VARVE_ASSERT(!grant.timer.armed());
  part.session_reactor = &scope_.context.reactor;
  part.shard = grant.shard;
  part.status = Status();
  part.on_back = on_back;
  part.owner = &grant;
  scope_.sign(part);
  scope_.context.shards[grant.shard]->submit(part);
}

void Grants::on_committed(Part& part) {
  auto& grant = *static_cast<Grant*>(part.owner);
  VARVE_ASSERT(grant.state == Grant::State::kCommitting);
  Grants& grants = *grant.grants;
  SessionContext& context = grants.scope_.context;
  context.metrics.commit_ns.record(context.reactor.now_ns() - grant.commit_began_ns);
  if (part.status.ok()) {
    grant.counts->pushed_blocks.add();
    grants.scope_.counts->pushed_blocks.add();
  }
  followers_end(grant, part.status.ok() ? Code::kOk : Code::kCancelled);
  grants.answer(grant, part.status);
  grants.finish(grant);
}

void Grants::abort(uint64_t op, const wire::Abort& body) {
  scope_.context.metrics.aborts.add();
  Grant* grant = find(body.reserve_op, body.index);
  const bool ours = grant != nullptr && grant->loan.attempt == body.attempt;
  if (ours && grant->state == Grant::State::kReceiving && !grant->commit_waits) {
    grant->answer_op = op;
    grant->answer = Grant::Answer::kAborted;
    return end(*grant, Status::cancelled("aborted by its writer"));
  }
  // Gone already is what ABORT wants; an attempt that is being committed is past it.
  wire::Aborted aborted;
  const bool late = ours && (grant->state == Grant::State::kCommitting || grant->commit_waits);
  aborted.code = static_cast<uint8_t>(late ? Code::kInvalid : Code::kOk);
  aborted.index = body.index;
  aborted.attempt = body.attempt;
  scope_.reply(scope_.context.encoder().aborted(op, aborted));
}

void Grants::cancel(uint64_t reserve_op) {
  Grant* next = nullptr;
  for (Grant* grant = live_.front(); grant != nullptr; grant = next) {
    next = live_.next(grant);
    if (grant->reserve_op == reserve_op) end(*grant, Status::cancelled("cancelled by its writer"));
  }
}

void Grants::end_all() {
  Grant* next = nullptr;
  for (Grant* grant = live_.front(); grant != nullptr; grant = next) {
    next = live_.next(grant);
    end(*grant, Status::unavailable("the session ended"));
  }
}

void Grants::end(Grant& grant, Status why) {
  VARVE_ASSERT(!why.ok());
  if (grant.state != Grant::State::kReceiving) return;  // already on its way home
  grant.failure = why;
  scope_.context.reactor.cancel(grant.timer);
  grant.state = Grant::State::kDraining;
  followers_end(grant, why.code() == Code::kTimedOut ? Code::kTimedOut : Code::kCancelled);
  if (grant.sends > 0) scope_.context.metrics.follow_waits.add();
  if (grant.receives == 0) return try_abort(grant);
  if (scope_.over()) return;  // its lanes are being closed: their fence is bounded already
  grant.timer.on_fire = on_drain_over;
  scope_.context.reactor.arm(grant.timer, scope_.context.options.drain_stall_ms_max * kMillisecond);
}

// The bound of `receives` is the timer's, that of `sends` their follower's.
void Grants::try_abort(Grant& grant) {
  VARVE_ASSERT(grant.state == Grant::State::kDraining);
  if (grant.receives > 0) return;
  scope_.context.reactor.cancel(grant.timer);
  if (grant.sends == 0) submit_abort(grant);
}

void Grants::send_over(Grant& grant) {
  VARVE_ASSERT(grant.sends > 0);
  if (--grant.sends > 0) return;
  if (grant.state == Grant::State::kDraining) return try_abort(grant);
  VARVE_ASSERT(grant.state == Grant::State::kReceiving);
  if (grant.leaving) submit_commit(grant);
}

void Grants::submit_abort(Grant& grant) {
  VARVE_ASSERT(grant.state == Grant::State::kDraining);
  VARVE_ASSERT(grant.receives == 0);
  grant.state = Grant::State::kAborting;
  scope_.context.reactor.cancel(grant.timer);
  grant.abort.push = grant.loan.push;
  grant.abort.attempt = grant.loan.attempt;
  submit(grant, grant.abort, on_aborted);
}

void Grants::on_aborted(Part& part) {
  auto& grant = *static_cast<Grant*>(part.owner);
  VARVE_ASSERT(grant.state == Grant::State::kAborting);
  Grants& grants = *grant.grants;
  const bool wanted = grant.answer == Grant::Answer::kAborted;
  grants.answer(grant, wanted ? Status() : grant.failure);
  grants.finish(grant);
}

void Grants::answer(Grant& grant, Status status) {
  if (grant.answer == Grant::Answer::kCommitted) {
    wire::Committed committed;
    committed.code = static_cast<uint8_t>(status.code());
    committed.ack = grant.commit.ack;
    committed.index = grant.index;
    committed.attempt = grant.loan.attempt;
    scope_.reply(scope_.context.encoder().committed(grant.answer_op, committed));
  } else if (grant.answer == Grant::Answer::kAborted) {
    wire::Aborted aborted;
    aborted.code = static_cast<uint8_t>(status.code());
    aborted.index = grant.index;
    aborted.attempt = grant.loan.attempt;
    scope_.reply(scope_.context.encoder().aborted(grant.answer_op, aborted));
  }
}

void Grants::finish(Grant& grant) {
  VARVE_ASSERT(count_ > 0);
  VARVE_ASSERT(grant.followers.empty());
  live_.remove(&grant);
  grant.state = Grant::State::kFree;
  grant.loan = {};
  --count_;
  scope_.context.metrics.grants.add(-1);
  scope_.context.grants->give(&grant, scope_.domain);
  scope_.something_ended();
}

}  // namespace varve
