// ClientPullOp: sizes come from our own extent table, never from the peer; the peer only fills
// them.
#include "client/pull.h"

#include <algorithm>

namespace varve {

ClientPullOp::ClientPullOp(Core& core, OpId op, PullRequest request, BoundLayout layout)
    : ClientOp(core, op, request.tag, request.deadline_ns),
      request_(std::move(request)),
      layout_(std::move(layout)),
      blocks_(request_.ids.size()),
      blocks_alive_(static_cast<uint32_t>(request_.ids.size())) {
  core_.hold_regions(layout_, Core::Hold::kTake);
}

// What has arrived of layers that were not handed over counts no more: it will come again.
void ClientPullOp::forget() {
  VARVE_ASSERT(receiving_ == 0, receiving_);
  for (uint32_t e = extent_first_; e < extent_first_ + extent_count_; ++e) {
    const ExtentSpec& spec = table().extents[e];
    if (spec.layer_first + spec.layer_count <= request_.layer_first + next_layer_) continue;
    for (uint32_t b = 0; b < blocks_.size(); ++b) {
      if (blocks_[b].code == Code::kOk && progress(b, e).settled) bytes_ -= spec.bytes;
    }
  }
  for (Block& block : blocks_)
    block.missing = 1;
  progress_.clear();
  extent_count_ = 0;
}

// Nothing has arrived of the layers from next_layer_ on; those before were handed over and stay as
// they are.
void ClientPullOp::restart() {
  VARVE_ASSERT(receiving_ == 0 && extent_count_ == 0, receiving_, extent_count_);
  table_ = &core_.table(request_.format, request_.rank);
  VARVE_ASSERT(next_layer_ < request_.layer_count, next_layer_);
  const auto& extents = table().extents;
  const uint32_t layer_first = request_.layer_first + next_layer_;
  const uint32_t layer_end = request_.layer_first + request_.layer_count;
  uint32_t first = 0;
  while (extents[first].layer_first + extents[first].layer_count <= layer_first)
    ++first;
  uint32_t end = first;
  while (end < extents.size() && extents[end].layer_first < layer_end)
    ++end;
  extent_first_ = first;
  extent_count_ = end - extent_first_;
  VARVE_ASSERT(extent_count_ > 0);
  progress_.assign(blocks_.size() * extent_count_, Progress());
  for (uint32_t b = 0; b < blocks_.size(); ++b) {
    Block& block = blocks_[b];
    block.missing = extent_count_;
    // What was handed over is of one attempt; the rest must be of the same (I3).
    if (next_layer_ == 0) block.attempt = Attempt();
    if (block.code == Code::kOk) continue;
    for (uint32_t e = extent_first_; e < end; ++e)
      progress(b, e).settled = true;
  }
  extents_missing_ = blocks_alive_ * extent_count_;
  layer_missing_.assign(request_.layer_count, 0);
  for (uint32_t e = extent_first_; e < end; ++e) {
    const ExtentSpec& spec = extents[e];
    for (uint32_t l = spec.layer_first; l < spec.layer_first + spec.layer_count; ++l) {
      const uint32_t i = l - request_.layer_first;
      if (l >= layer_first && i < request_.layer_count) layer_missing_[i] += blocks_alive_;
    }
  }
  pulled_ = false;
  pulled_status_ = Status();
}

void ClientPullOp::run() {
  switch (stage_) {
    case Stage::kAsk:
      if (!stop_.ok()) return finish(stop_);
      // Known to be down: the engine recomputes sooner than a reconnect would help.
      if (core_.session().state() == SessionState::kWaiting && !resent_) {
        return finish(core_.session().last_error());
      }
      if (!ask()) return;  // woken by on_ready or by FORMAT_OK
      stage_ = Stage::kReceive;
      return;
    case Stage::kReceive:
      announce_layers();
      if (!stop_.ok()) {
        begin_fence();
        stage_ = Stage::kFence;
        return wake();
      }
      if (!complete()) return;
      return finish(pulled_status_);
    case Stage::kFence:
      if (receiving_ > 0 || !fenced_) return;
      return finish(stop_);
    case Stage::kDone:
      return;
  }
}

bool ClientPullOp::ask() {
  ClientFormat* format = core_.find_format(request_.format);
  if (!format->refused.ok()) {
    cancel(format->refused);
    return false;
  }
  ClientSession& session = core_.session();
  if (!session.usable() || format->handle == 0 || !retry_now()) return false;
  // The first layer that is due soonest goes first.
  if (!take_slot(Pace::Kind::kPull, started_ns_ + std::min(request_.slack_ns, kDeadlineMax))) {
    return false;
  }
  restart();
  wire::Pull body;
  body.format = format->handle;
  body.rank = request_.rank;
  if (!name_lease(body)) return false;
  body.deadline_ns = left_ns();
  body.slack_ns = request_.slack_ns;
  body.layer_ns = request_.layer_ns;
  body.layer_first = request_.layer_first + next_layer_;
  body.layer_count = request_.layer_count - next_layer_;
  body.count = static_cast<uint32_t>(request_.ids.size());
  wire_op_ = core_.next_wire_op();
  if (!session.send_urgent(session.encoder().pull(wire_op_, body, request_.ids))) {
    give_slot();
    forget();
    retry_later(Status::overloaded("the urgent lane is full"));
    return false;
  }
  core_.route(wire_op_, this);
  asked();
  return true;
}

bool ClientPullOp::name_lease(wire::Pull& body) {
  // A lease goes with its session; what is asked once more is best effort.
  if (request_.lease == 0 || resent_) return true;
  const ClientLease* lease = core_.find_lease(request_.lease);
  if (lease == nullptr) {
    cancel(Status::timed_out("the lease expired or is of an earlier boot"));
    return false;
  }
  body.lease = lease->part_of(request_.ids);
  body.boot_id = lease->boot_id;
  if (body.lease != 0) return true;
  cancel(Status::invalid("pull: its ids lie in several batches of the match; one pull for each"));
  return false;
}

bool ClientPullOp::fits(const wire::Data& data, uint32_t payload_bytes) {
  const ExtentSpec& spec = table().extents[data.extent];
  const Progress& at = progress(data.block, data.extent);
  const ExtentEntry& entry = data.entry;
  return entry.stored_bytes == spec.bytes && entry.decoded_bytes == spec.bytes &&
         data.offset == at.received && payload_bytes <= spec.bytes - at.received &&
         !data.attempt.is_none() && blocks_[data.block].attempt == data.attempt;
}

void ClientPullOp::place(const wire::Data& data, uint32_t payload_bytes, ByteSpan bounce,
                         Placement& where) {
  VARVE_ASSERT(payload_bytes > 0 && payload_bytes <= bounce.size(), payload_bytes);
  if (stage_ != Stage::kReceive || !stop_.ok()) return;  // the fence: discard
  if (data.block >= blocks_.size()) return cancel(Status::invalid("DATA of a block not asked for"));
  if (data.extent < extent_first_ || data.extent >= extent_first_ + extent_count_) {
    return fail_block(data.block, Code::kInvalid);
  }
  Block& block = blocks_[data.block];
  if (block.code != Code::kOk) return;
  const bool raw = data.entry.codec == static_cast<uint8_t>(CodecId::kRaw);
  if (!raw) return fail_block(data.block, Code::kUnsupported);
  Progress& at = progress(data.block, data.extent);
  if (block.attempt.is_none()) block.attempt = data.attempt;
  // Two receives into one extent at a time could change what was verified.
  if (at.receiving || !fits(data, payload_bytes)) return fail_block(data.block, Code::kCorrupt);
  const ExtentSpec& spec = table().extents[data.extent];
  const auto wanted = layout_.range_of(spec, request_.layer_first, request_.layer_count);
  uint32_t count = 0;
  const uint32_t slot = request_.slots[data.block];
  const uint32_t covered =
      layout_.pieces(slot, spec, data.offset, payload_bytes, where.pieces, &count);
  // Too scattered for one receive, or bytes of layers that were not asked for.
  at.bounced = covered < payload_bytes || data.offset < wanted.begin ||
               data.offset + payload_bytes > wanted.end;
  where.count = at.bounced ? 0 : count;
  if (at.bounced) where.add(bounce.data(), payload_bytes);
  at.receiving = true;
  ++receiving_;
}

void ClientPullOp::on_data(const wire::Data& data, uint32_t payload_bytes, const Placement& where) {
  VARVE_ASSERT(receiving_ > 0);
  --receiving_;
  if (stage_ == Stage::kFence || !stop_.ok()) return wake();
  const ExtentSpec& spec = table().extents[data.extent];
  Block& block = blocks_[data.block];
  if (block.code != Code::kOk) return wake();
  Progress& at = progress(data.block, data.extent);
  VARVE_ASSERT(at.receiving && at.received == data.offset, at.received, data.offset);
  at.receiving = false;
  if (at.received == 0) {
    const BlockId id{request_.ids[data.block], request_.rank};
    at.crc = checksum_seed(id, data.extent, data.attempt).stored;
  }
  for (uint32_t i = 0; i < where.count; ++i) {
    const iovec& piece = where.pieces[i];
    at.crc = crc32c(at.crc, {static_cast<std::byte*>(piece.iov_base), piece.iov_len});
  }
  if (at.bounced) {
    copy_out(data, payload_bytes, static_cast<const std::byte*>(where.pieces[0].iov_base));
  }
  at.received += payload_bytes;
  if (at.received < spec.bytes) return;
  if (at.crc != data.entry.stored_crc) {
    ++core_.count().corrupt_extents;
    return fail_block(data.block, Code::kCorrupt);
  }
  bytes_ += spec.bytes;
  --block.missing;
  settle(data.block, data.extent);
}

// From the bounce buffer to the caller's memory, only what was asked for.
void ClientPullOp::copy_out(const wire::Data& data, uint32_t payload_bytes, const std::byte* from) {
  const ExtentSpec& spec = table().extents[data.extent];
  const auto wanted = layout_.range_of(spec, request_.layer_first, request_.layer_count);
  uint32_t at = std::max(data.offset, wanted.begin);
  const uint32_t end = std::min(data.offset + payload_bytes, wanted.end);
  while (at < end) {
    iovec pieces[kPayloadPiecesMax];
    uint32_t count = 0;
    const uint32_t covered =
        layout_.pieces(request_.slots[data.block], spec, at, end - at, pieces, &count);
    for (uint32_t i = 0; i < count; ++i) {
      std::memcpy(pieces[i].iov_base, from + (at - data.offset), pieces[i].iov_len);
      at += static_cast<uint32_t>(pieces[i].iov_len);
    }
    VARVE_ASSERT(covered > 0);
  }
}

void ClientPullOp::settle(uint32_t block, uint32_t extent) {
  const ExtentSpec& spec = table().extents[extent];
  progress(block, extent).settled = true;
  --extents_missing_;
  for (uint32_t l = spec.layer_first; l < spec.layer_first + spec.layer_count; ++l) {
    const uint32_t i = l - request_.layer_first;
    if (l < request_.layer_first || i >= request_.layer_count) continue;
    if (--layer_missing_[i] == 0) wake();
  }
  if (extents_missing_ == 0) wake();
}

// One block's failure costs that block only (I9): what it still owed is written off.
void ClientPullOp::fail_block(uint32_t block, Code code) {
  Block& b = blocks_[block];
  if (b.code != Code::kOk) return;
  VARVE_ASSERT(code != Code::kOk);
  for (uint32_t e = extent_first_; e < extent_first_ + extent_count_; ++e) {
    if (!progress(block, e).settled) settle(block, e);
  }
  b.code = code;
  --blocks_alive_;
  ++core_.count().failed_blocks;
  wake();
}

void ClientPullOp::announce_layers() {
  while (next_layer_ < request_.layer_count && layer_missing_[next_layer_] == 0) {
    if (blocks_alive_ > 0) {
      Event e = event(Event::Kind::kLayer);
      if (first_layer_ns_ == 0) first_layer_ns_ = e.done_ns;
      e.layer = request_.layer_first + next_layer_;
      for (const Block& block : blocks_)
        e.codes.push_back(block.code);
      core_.emit(std::move(e));
    }
    ++next_layer_;
  }
}

bool ClientPullOp::complete() const {
  return pulled_ && receiving_ == 0 && (extents_missing_ == 0 || !pulled_status_.ok());
}

void ClientPullOp::on_timer() {
  if (stage_ != Stage::kFence) return ClientOp::on_timer();
  core_.session().drop(Status::timed_out("no FENCED within fence_ns_max"));
}

void ClientPullOp::on_frame(const wire::Frame& frame) {
  if (std::holds_alternative<wire::FencedView>(frame.body)) {
    if (stage_ == Stage::kFence) fenced_ = true;
    return wake();
  }
  const auto* answer = std::get_if<wire::PulledView>(&frame.body);
  if (answer != nullptr && stage_ == Stage::kReceive && !pulled_) take_pulled(*answer);
}

void ClientPullOp::take_pulled(const wire::PulledView& answer) {
  pulled_ = true;
  const auto code = static_cast<Code>(answer.body.code);
  give_slot();
  if (is_for_now(code) && answer.codes.size() == 0 && extents_missing_ > 0 && receiving_ == 0) {
    return ask_again(Status(code, "the daemon refused the pull until the deadline"));
  }
  if (code != Code::kOk) pulled_status_ = Status(code, "the daemon ended the pull");
  const bool whole_refusal = code != Code::kOk && answer.codes.size() == 0;
  if (answer.codes.size() != blocks_.size() && !whole_refusal) {
    return cancel(Status::invalid("PULLED does not fit the pull"));
  }
  for (uint32_t i = 0; i < answer.codes.size(); ++i) {
    const uint8_t c = answer.codes[i];
    if (c != 0) fail_block(i, c < kCodeCount ? static_cast<Code>(c) : Code::kInternal);
  }
  wake();
}

// Refused before anything was sent.
void ClientPullOp::ask_again(Status refused) {
  core_.unroute(wire_op_);
  forget();
  stage_ = Stage::kAsk;
  retry_later(refused);
}

void ClientPullOp::on_lost(Status cause) {
  VARVE_ASSERT(stage_ != Stage::kDone);
  receiving_ = 0;  // the lanes are fenced (F2)
  core_.unroute(wire_op_);
  if (stage_ == Stage::kAsk) {
    if (resent_ && stop_.ok()) stop_ = cause;  // the second session did not come
    return wake();
  }
  if (stage_ == Stage::kFence) {
    fenced_ = true;
    return wake();
  }
  announce_layers();
  if (stop_.ok() && (extents_missing_ == 0 || complete())) {  // only PULLED was still on its way
    pulled_ = true;
    return wake();
  }
  if (resent_ || !stop_.ok()) {
    if (stop_.ok()) stop_ = cause;
    stage_ = Stage::kFence;
    fenced_ = true;
    return wake();
  }
  resent_ = true;  // once (I8)
  forget();
  stage_ = Stage::kAsk;
}

void ClientPullOp::begin_fence() {
  ++core_.count().cancels;
  ClientSession& session = core_.session();
  const wire::Cancel body{wire_op_};
  if (pulled_) {
    fenced_ = true;  // the daemon is done with it; only our own receives remain
  } else if (!session.send_urgent(session.encoder().cancel(wire_op_, body))) {
    session.drop(Status::overloaded("no room for CANCEL"));
  }
  core_.reactor().arm(timer_, core_.options().fence_ns_max);
}

void ClientPullOp::finish(Status status) {
  VARVE_ASSERT(receiving_ == 0);
  stage_ = Stage::kDone;
  core_.unroute(wire_op_);
  core_.hold_regions(layout_, Core::Hold::kGive);  // from here on nothing touches it (C2)
  Event e = event(Event::Kind::kPulled);
  ClientCounters& count = core_.count();
  ++count.pulls;
  for (const Block& block : blocks_) {
    Code code = block.code;
    if (code == Code::kOk && block.missing > 0) {
      code = status.ok() ? Code::kInternal : status.code();
      ++count.failed_blocks;
    }
    if (code == Code::kOk) ++count.pulled_blocks;
    e.codes.push_back(code);
  }
  count.pulled_bytes += bytes_;
  e.status = status;
  e.bytes = bytes_;
  e.first_layer_ns = first_layer_ns_;
  core_.finish(*this, std::move(e));
}

}  // namespace varve
