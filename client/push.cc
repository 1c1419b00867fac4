// ClientPushOp: reserve, send what is final in delivery order, commit each block behind its last
// extent.
#include "client/push.h"

#include <algorithm>

namespace varve {

ClientPushOp::ClientPushOp(Core& core, OpId op, PushRequest request, BoundLayout layout)
    : ClientOp(core, op, request.tag, request.deadline_ns),
      request_(std::move(request)),
      layout_(std::move(layout)),
      table_(&core.find_format(request_.format)->tables[request_.rank]),
      blocks_(request_.ids.size()),
      layer_final_(table_->layer_last_extent.size()),
      unsettled_(static_cast<uint32_t>(request_.ids.size())) {
  core_.hold_regions(layout_, true);
}

void ClientPushOp::run() {
  switch (stage_) {
    case Stage::kReserve:
      if (!stop_.ok()) return finish(stop_);
      if (!reserve()) return;  // woken by on_ready or by FORMAT_OK
      stage_ = Stage::kGranted;
      return;
    case Stage::kGranted:
      if (stop_.ok() && !reserved_) return;
      if (stop_.ok()) announce();
      stage_ = Stage::kSend;
      [[fallthrough]];
    case Stage::kSend:
      if (stop_.ok() && !send_extents()) return;
      stage_ = Stage::kCommitted;
      [[fallthrough]];
    case Stage::kCommitted:
      if (stop_.ok() && unsettled_ > 0) return;
      give_back();
      stage_ = Stage::kFence;
      core_.reactor().arm(timer_, core_.options().fence_ns_max);
      [[fallthrough]];
    case Stage::kFence:
      if (sending_ > 0) return;
      return finish(stop_);
    case Stage::kDone:
      return;
  }
}

bool ClientPushOp::reserve() {
  ClientFormat* format = core_.find_format(request_.format);
  if (!format->refused.ok()) {
    cancel(format->refused);
    return false;
  }
  ClientSession& session = core_.session();
  if (session.state() == SessionState::kWaiting) {
    cancel(session.last_error());
    return false;
  }
  if (!session.usable() || format->handle == 0) return false;
  wire::Reserve body;
  body.format = format->handle;
  body.rank = request_.rank;
  body.epoch = session.hello().epoch;
  const Nanos hold_ms_max = std::max<Nanos>(session.hello().reserve_ms_max, 1);
  body.hold_ms = static_cast<uint32_t>(std::min(left_ns() / kMillisecond + 1, hold_ms_max));
  body.count = static_cast<uint32_t>(request_.ids.size());
  body.parent = request_.parent;
  wire_op_ = core_.next_wire_op();
  if (!session.send_urgent(session.encoder().reserve(wire_op_, body, request_.ids))) {
    cancel(Status::overloaded("the urgent lane is full"));
    return false;
  }
  core_.route(wire_op_, this);
  return true;
}

void ClientPushOp::on_frame(const wire::Frame& frame) {
  if (const auto* reserved = std::get_if<wire::ReservedView>(&frame.body)) {
    if (stage_ == Stage::kGranted && !reserved_) take_answers(*reserved);
    return wake();
  }
  const auto* committed = std::get_if<wire::CommittedView>(&frame.body);
  if (committed == nullptr || committed->body.index >= blocks_.size()) return;
  Block& block = blocks_[committed->body.index];
  if (!block.granted || block.settled || committed->body.attempt != block.attempt) return;
  const auto code = static_cast<Code>(committed->body.code);
  const bool promised = block.committing && committed->body.ack >= request_.ack;
  if (code == Code::kOk && !promised) {
    return cancel(Status::invalid("COMMITTED that does not answer a COMMIT of ours"));
  }
  settle(committed->body.index, code);
}

void ClientPushOp::take_answers(const wire::ReservedView& answers) {
  reserved_ = true;
  const auto code = static_cast<Code>(answers.body.code);
  if (code != Code::kOk) return cancel(Status(code, "the daemon refused the reservation"));
  if (answers.answers.size() != blocks_.size()) {
    return cancel(Status::invalid("RESERVED does not fit the push"));
  }
  for (uint32_t i = 0; i < blocks_.size(); ++i) {
    const wire::ReserveAnswer answer = answers.answers[i];
    Block& block = blocks_[i];
    switch (answer.outcome) {
      case wire::ReserveOutcome::kGranted:
        block.granted = true;
        block.attempt = answer.attempt;
        block.entries.resize(table_->extents.size());
        break;
      case wire::ReserveOutcome::kExists:
        ++core_.count().existing_blocks;
        block.exists = true;
        settle(i, Code::kCancelled);
        break;
      case wire::ReserveOutcome::kBusy:
        ++core_.count().refused_blocks;
        settle(i, Code::kUnavailable);
        break;
      case wire::ReserveOutcome::kRefused:
        ++core_.count().refused_blocks;
        settle(i, answer.code != 0 && answer.code < kCodeCount ? static_cast<Code>(answer.code)
                                                               : Code::kInternal);
        break;
    }
  }
}

void ClientPushOp::announce() {
  Event e = event(Event::Kind::kReserved);
  for (const Block& block : blocks_)
    e.codes.push_back(block.code);
  core_.emit(std::move(e));
}

Status ClientPushOp::layer_final(uint32_t layer) {
  if (layer == ClientCore::kEveryLayer) {
    layer_final_.assign(layer_final_.size(), true);
  } else {
    if (layer >= layer_final_.size()) return Status::invalid("push_layer: no such layer");
    layer_final_[layer] = true;
  }
  wake();
  return Status();
}

bool ClientPushOp::extent_final(uint32_t extent) const {
  const ExtentSpec& spec = table_->extents[extent];
  for (uint32_t l = spec.layer_first; l < spec.layer_first + spec.layer_count; ++l) {
    if (!layer_final_[l]) return false;
  }
  return true;
}

// Extent-major over the blocks: every block's extent 0 before any block's extent 1.
bool ClientPushOp::send_extents() {
  while (extent_ < table_->extents.size()) {
    if (unsettled_ == 0) return true;  // nobody wants the rest
    if (!extent_final(extent_)) return false;
    while (block_ < blocks_.size()) {
      if (!send_extent(block_)) return false;
      ++block_;
    }
    block_ = 0;
    ++extent_;
  }
  return true;
}

bool ClientPushOp::send_extent(uint32_t index) {
  Block& block = blocks_[index];
  if (!block.granted || block.settled) {
    offset_ = 0;
    return true;
  }
  const ExtentSpec& spec = table_->extents[extent_];
  while (offset_ < spec.bytes) {
    if (!send_piece(index, spec)) return false;
  }
  if (extent_ + 1 == table_->extents.size() && !commit(index)) return false;
  offset_ = 0;
  bytes_ += spec.bytes;
  return true;
}

bool ClientPushOp::send_piece(uint32_t index, const ExtentSpec& spec) {
  const uint32_t lane = lane_of(index);
  ClientSession& session = core_.session();
  const uint32_t length = std::min(kPayloadBytesMax, spec.bytes - offset_);
  if (!session.can_send_bulk(lane, length)) return false;
  PieceSend* piece = core_.take_piece();
  if (piece == nullptr) return false;
  Block& block = blocks_[index];
  const BlockId id{request_.ids[index], request_.rank};
  ExtentEntry& entry = block.entries[extent_];
  if (offset_ == 0) {
    // Both checksums at once: the pieces below are then hot for the socket's copy.
    ExtentDigest digest(checksum_seed(id, extent_, block.attempt));
    iovec run[kPayloadPiecesMax];
    for (uint32_t done = 0; done < spec.bytes;) {
      uint32_t count = 0;
      done += layout_.pieces(request_.slots[index], spec, done, spec.bytes - done, run, &count);
      for (uint32_t i = 0; i < count; ++i) {
        digest.update({static_cast<std::byte*>(run[i].iov_base), run[i].iov_len});
      }
    }
    entry.stored_bytes = entry.decoded_bytes = spec.bytes;
    entry.codec = static_cast<uint8_t>(CodecId::kRaw);
    entry.stored_crc = digest.stored_crc();
    entry.decoded_xxh3 = digest.decoded_xxh3();
  }
  uint32_t count = 0;
  const uint32_t covered =
      layout_.pieces(request_.slots[index], spec, offset_, length, piece->request.payload, &count);
  piece->request.payload_count = count;
  piece->op = this;
  piece->bytes = covered;
  wire::Extent head;
  head.reserve_op = wire_op_;
  head.index = index;
  head.extent = extent_;
  head.offset = offset_;
  head.extent_bytes = spec.bytes;
  head.stored_crc = entry.stored_crc;
  head.attempt = block.attempt;
  piece->request.head = session.encoder().extent(wire_op_, head);
  ++sending_;
  session.send_bulk(lane, piece->request);
  offset_ += covered;
  return true;
}

bool ClientPushOp::commit(uint32_t index) {
  Block& block = blocks_[index];
  ClientSession& session = core_.session();
  wire::Commit body;
  body.reserve_op = wire_op_;
  body.epoch = session.hello().epoch;
  body.index = index;
  body.ack = request_.ack;
  body.attempt = block.attempt;
  body.count = static_cast<uint32_t>(block.entries.size());
  const auto head = session.encoder().commit(wire_op_, body, block.entries);
  if (!session.send_bulk_head(lane_of(index), head)) return false;
  block.committing = true;
  return true;
}

void ClientPushOp::on_sent(PieceSend& piece) {
  VARVE_ASSERT(sending_ > 0);
  --sending_;
  core_.count().pushed_bytes += piece.request.status.ok() ? piece.bytes : 0;
  wake();
}

void ClientPushOp::settle(uint32_t index, Code code) {
  Block& block = blocks_[index];
  VARVE_ASSERT(!block.settled);
  block.settled = true;
  block.code = code;
  --unsettled_;
  if (code == Code::kOk) ++core_.count().pushed_blocks;
  wake();
}

// What has no answer yet is given back: one CANCEL, also for what RESERVED may still grant. Where
// it does not reach the daemon the reservation ends by itself at hold_ms.
void ClientPushOp::give_back() {
  VARVE_ASSERT(unsettled_ == 0 || !stop_.ok());
  if (unsettled_ == 0) return;
  ClientSession& session = core_.session();
  if (wire_op_ != 0 && session.usable()) {
    const auto head = session.encoder().cancel(wire_op_, wire::Cancel{wire_op_});
    if (!session.send_urgent(head)) {
      logf(LogLevel::kDebug, "client", "no room for CANCEL; the reservation expires by itself");
    }
  }
  for (uint32_t i = 0; i < blocks_.size(); ++i) {
    if (!blocks_[i].settled) settle(i, stop_.code());
  }
}

void ClientPushOp::on_timer() {
  if (stage_ != Stage::kFence) return ClientOp::on_timer();
  core_.session().drop(Status::timed_out("a push's bytes did not leave within fence_ns_max"));
}

void ClientPushOp::on_lost(Status cause) {
  core_.unroute(wire_op_);
  const bool answered = reserved_ && unsettled_ == 0;  // every block, before the loss
  if (stop_.ok() && !answered) stop_ = cause;
  wake();
}

void ClientPushOp::finish(Status status) {
  VARVE_ASSERT(sending_ == 0);
  stage_ = Stage::kDone;
  core_.unroute(wire_op_);
  core_.hold_regions(layout_, false);  // from here on nothing touches it (C2)
  Event e = event(Event::Kind::kPushed);
  ++core_.count().pushes;
  for (Block& block : blocks_) {
    // Writing what is there already is a success (dedup), as the engines expect.
    if (!block.settled) block.code = status.ok() ? Code::kInternal : status.code();
    e.codes.push_back(block.exists ? Code::kOk : block.code);
  }
  e.status = status;
  e.bytes = bytes_;
  core_.finish(*this, std::move(e));
}

}  // namespace varve
