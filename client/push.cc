// ClientPushOp: reserve run by run, send what is final in delivery order, commit each block behind
// its last extent.
#include "client/push.h"

#include <algorithm>

namespace varve {

ClientPushOp::ClientPushOp(Core& core, OpId op, PushRequest request, BoundLayout layout)
    : ClientOp(core, op, request.tag, request.deadline_ns),
      request_(std::move(request)),
      layout_(std::move(layout)),
      blocks_(request_.ids.size()),
      parity_(core.parity_scratch(), core.gather()),
      layer_final_(core.find_format(request_.format)->format.ranks[request_.rank].size()),
      unsettled_(static_cast<uint32_t>(request_.ids.size())),
      open_(unsettled_) {
  VARVE_ASSERT(unsettled_ > 0 && request_.slots.size() == unsettled_, unsettled_);
  core_.count().bounced_ops += layout_.bounces() ? 1 : 0;
  core_.hold_regions(layout_, Core::Hold::kTake);
}

void ClientPushOp::run() {
  switch (stage_) {
    case Stage::kBegin:
      if (!stop_.ok()) return finish(stop_);
      if (!begin()) return;  // woken by on_ready or by FORMAT_OK
      stage_ = Stage::kMove;
      [[fallthrough]];
    case Stage::kMove:
      if (stop_.ok()) {
        announce();
        reserve();
        send();
        retire_windows();
      }
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

bool ClientPushOp::begin() {
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
  table_ = &core_.table(request_.format, request_.rank);
  return true;
}

// One RESERVE at a time: the answer decides where the next one begins.
void ClientPushOp::reserve() {
  if (asking_ || open_ == 0) return;
  uint32_t first = 0, count = 0;
  if (!next_run(&first, &count)) {
    if (in_line_) core_.pace().leave(*this);
    in_line_ = false;
    return;
  }
  VARVE_ASSERT(count > 0 && count <= open_, count, open_);
  const uint32_t window = take_reserve_slot(count);
  in_line_ = window == 0;
  if (window == 0) return;
  attempts_ += window;
  if (send_reserve(first, window)) return;
  give_slot();  // the urgent lane is full
  end_attempts(window);
  retry_later(Status());
}

// The first blocks that may be asked for, next to each other: the wire chains the ids of a RESERVE.
// Nothing behind a block that is refused for now (U1); a busy one is passed over until its pause
// ends.
bool ClientPushOp::next_run(uint32_t* first, uint32_t* count) {
  const auto end = static_cast<uint32_t>(blocks_.size());
  const auto due = [&](uint32_t i) { return blocks_[i].not_before_ns <= now_ns(); };
  while (open_first_ < end && !open(open_first_))
    ++open_first_;
  for (uint32_t i = open_first_; i < end; ++i) {
    if (!open(i)) continue;
    if (!due(i) && blocks_[i].answer == Answer::kForNow) return false;
    if (!due(i)) continue;
    *first = i;
    while (i < end && open(i) && due(i))
      ++i;
    *count = i - *first;
    return true;
  }
  return false;
}

bool ClientPushOp::send_reserve(uint32_t first, uint32_t count) {
  VARVE_ASSERT(!asking_ && count > 0);
  VARVE_ASSERT(first + count <= blocks_.size(), first, count);
  ClientSession& session = core_.session();
  const ClientFormat* format = core_.find_format(request_.format);
  if (!session.usable() || format->handle == 0) return false;
  wire::Reserve body;
  body.format = format->handle;
  body.rank = request_.rank;
  body.epoch = session.hello().epoch;
  const Nanos hold_ms_max = std::max<Nanos>(session.hello().reserve_ms_max, 1);
  body.hold_ms = static_cast<uint32_t>(std::min(left_ns() / kMillisecond + 1, hold_ms_max));
  body.count = count;
  body.parent = first == 0 ? request_.parent : request_.ids[first - 1];
  const uint64_t wire_op = core_.next_wire_op();
  const auto ids = std::span(request_.ids).subspan(first, count);
  if (!session.send_urgent(session.encoder().reserve(wire_op, body, ids))) return false;
  core_.route(wire_op, this);
  Window window;
  window.wire_op = wire_op;
  window.first = first;
  window.count = count;
  windows_.push_back(window);
  asking_ = true;
  for (uint32_t i = first; i < first + count; ++i) {
    if (blocks_[i].answer != Answer::kNone) ++core_.count().retried_blocks;
    blocks_[i].answer = Answer::kAsked;
  }
  open_ -= count;
  return true;
}

void ClientPushOp::on_frame(const wire::Frame& frame) {
  Window* window = find_window(frame.header.op);
  if (window == nullptr) return;
  if (const auto* reserved = std::get_if<wire::ReservedView>(&frame.body)) {
    if (!window->answered && stop_.ok()) on_reserved(*window, *reserved);
  } else if (const auto* committed = std::get_if<wire::CommittedView>(&frame.body)) {
    on_committed(*window, committed->body);
  }
  wake();
}

ClientPushOp::Window* ClientPushOp::find_window(uint64_t wire_op) {
  const auto found = std::find_if(windows_.begin(), windows_.end(),
                                  [wire_op](const Window& w) { return w.wire_op == wire_op; });
  return found == windows_.end() ? nullptr : &*found;
}

void ClientPushOp::on_reserved(Window& window, const wire::ReservedView& answers) {
  VARVE_ASSERT(asking_);
  asking_ = false;
  give_slot();
  const auto code = static_cast<Code>(answers.body.code);
  if (code != Code::kOk && !is_for_now(code)) {
    return cancel(Status(code, "the daemon refused the reservation"));
  }
  if (code == Code::kOk && answers.answers.size() != window.count) {
    return cancel(Status::invalid("RESERVED does not fit the push"));
  }
  window.answered = true;
  if (code == Code::kOk) {
    take_answers(window, answers);
  } else {
    for (uint32_t i = 0; i < window.count; ++i)
      reopen(window.first + i, Answer::kForNow, code);
  }
  end_attempts(window.count - window.unsettled);
}

void ClientPushOp::take_answers(Window& window, const wire::ReservedView& answers) {
  bool hole = false, full = false;
  const auto put_off = [&](uint32_t index, Answer answer, Code code) {
    return full ? refuse(index, Code::kNoSpace) : reopen(index, answer, code);
  };
  for (uint32_t i = 0; i < window.count; ++i) {
    const wire::ReserveAnswer answer = answers.answers[i];
    const uint32_t index = window.first + i;
    Block& block = blocks_[index];
    const auto code = answer.code < kCodeCount ? static_cast<Code>(answer.code) : Code::kInternal;
    if (answer.outcome == wire::ReserveOutcome::kGranted) {
      if (!hole) {
        take_grant(window, index, answer.attempt);
      } else {
        abort(window, i, answer.attempt);
        put_off(index, Answer::kNone, Code::kOk);
      }
    } else if (answer.outcome == wire::ReserveOutcome::kExists) {
      ++core_.count().existing_blocks;
      block.exists = news_ = true;
      retry_anew();
      block.answer = Answer::kFinal;
      settle(index, Code::kCancelled);
    } else if (answer.outcome == wire::ReserveOutcome::kBusy) {
      put_off(index, Answer::kBusy, Code::kUnavailable);
    } else if (is_for_now(code)) {
      hole = true;
      put_off(index, Answer::kForNow, code);
    } else {
      full = full || code == Code::kNoSpace;
      hole = hole || full;
      refuse(index, code == Code::kOk ? Code::kInternal : code);
    }
  }
  for (uint32_t i = window.first + window.count; full && i < blocks_.size(); ++i) {
    if (open(i)) refuse(i, Code::kNoSpace);
  }
}

// For good. One of kNoSpace takes along what is open behind it: no match would reach it.
void ClientPushOp::refuse(uint32_t index, Code code) {
  Block& block = blocks_[index];
  if (open(index)) --open_;
  ++core_.count().refused_blocks;
  news_ = true;
  block.answer = Answer::kFinal;
  settle(index, code);
}

void ClientPushOp::take_grant(Window& window, uint32_t index, const Attempt& attempt) {
  Block& block = blocks_[index];
  VARVE_ASSERT(block.answer == Answer::kAsked && !block.settled);
  block.answer = Answer::kGranted;
  block.attempt = attempt;
  block.granted_by = window.wire_op;
  block.code = Code::kOk;
  block.entries.resize(table_->count());
  ++window.unsettled;
  news_ = true;
  retry_anew();
}

void ClientPushOp::reopen(uint32_t index, Answer answer, Code code) {
  Block& block = blocks_[index];
  VARVE_ASSERT(block.answer == Answer::kAsked && !block.settled);
  VARVE_ASSERT(answer <= Answer::kBusy);
  block.answer = answer;
  block.code = code;
  if (answer != Answer::kNone) {
    if (retry_now()) retry_later(Status());  // one pause for all that were refused in it
    block.not_before_ns = retry_at_ns();
  }
  ++open_;
  open_first_ = std::min(open_first_, index);
}

// Where it finds no room the reservation ends by itself at hold_ms.
void ClientPushOp::abort(const Window& window, uint32_t index, const Attempt& attempt) {
  wire::Abort body;
  body.reserve_op = window.wire_op;
  body.index = index;
  body.attempt = attempt;
  ClientSession& session = core_.session();
  if (session.send_urgent(session.encoder().abort(core_.next_wire_op(), body))) return;
  logf(LogLevel::kDebug, "client", "no room for ABORT; the reservation expires by itself");
}

void ClientPushOp::on_committed(Window& window, const wire::Committed& body) {
  if (!window.answered || body.index >= window.count) return;
  const uint32_t index = window.first + body.index;
  VARVE_ASSERT(index < blocks_.size(), index);
  Block& block = blocks_[index];
  if (block.answer != Answer::kGranted || block.settled || body.attempt != block.attempt) return;
  const auto code = static_cast<Code>(body.code);
  const bool promised = block.committing && body.ack >= request_.ack;
  if (code == Code::kOk && !promised) {
    return cancel(Status::invalid("COMMITTED that does not answer a COMMIT of ours"));
  }
  VARVE_ASSERT(window.unsettled > 0, index);
  --window.unsettled;
  settle(index, code);
  end_attempts(1);
}

void ClientPushOp::announce() {
  if (!news_) return;
  news_ = false;
  Event e = event(Event::Kind::kReserved);
  for (uint32_t i = 0; i < blocks_.size(); ++i) {
    Block& block = blocks_[i];
    const bool granted = block.answer == Answer::kGranted;
    const bool final = block.answer == Answer::kFinal;
    e.codes.push_back(granted ? Code::kOk : final ? block.code : Code::kOverloaded);
    if (granted && !block.told) e.granted.push_back({request_.ids[i], block.attempt});
    block.told |= granted;
  }
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
  VARVE_ASSERT(extent < table_->extents.size(), extent);
  const ExtentSpec& spec = table_->extents[extent];
  for (uint32_t l = spec.layer_first; l < spec.layer_first + spec.layer_count; ++l) {
    if (!layer_final_[l]) return false;
  }
  return true;
}

void ClientPushOp::send() {
  // Pieces of one parity come in order: what is half sent goes on before an older window begins
  // another.
  if (parity_.under_way()) {
    Window* half = find_window(parity_window_);
    VARVE_ASSERT(half != nullptr, parity_window_);
    if (send_window(*half) == Sent::kNoRoom) return;
  }
  for (Window& window : windows_) {
    if (window.answered && send_window(window) == Sent::kNoRoom) return;
  }
}

// Extent-major over the blocks: every block's extent 0 before any block's extent 1.
ClientPushOp::Sent ClientPushOp::send_window(Window& window) {
  while (window.extent < table_->extents.size()) {
    if (window.unsettled == 0) return Sent::kAll;  // nobody wants the rest
    if (!extent_final(window.extent)) return Sent::kNotFinal;
    while (window.block < window.count) {
      if (send_extent(window, window.first + window.block) == Sent::kNoRoom) return Sent::kNoRoom;
      window.offset = 0;
      ++window.block;
    }
    window.block = 0;
    ++window.extent;
  }
  return Sent::kAll;
}

ClientPushOp::Sent ClientPushOp::send_extent(Window& window, uint32_t index) {
  const Block& block = blocks_[index];
  if (block.granted_by != window.wire_op || block.settled) return Sent::kAll;
  VARVE_ASSERT(block.answer == Answer::kGranted, index);
  const ExtentSpec& spec = table_->extents[window.extent];
  while (window.offset < spec.bytes) {
    if (send_piece(window, index, spec) == Sent::kNoRoom) return Sent::kNoRoom;
  }
  if (send_parity(window, index) == Sent::kNoRoom) return Sent::kNoRoom;
  const bool last = window.extent + 1 == table_->extents.size();
  if (last && !commit(window, index)) return Sent::kNoRoom;
  bytes_ += spec.bytes;
  return Sent::kAll;
}

ClientPushOp::Sent ClientPushOp::send_piece(Window& window, uint32_t index,
                                            const ExtentSpec& spec) {
  const uint32_t lane = lane_of(index);
  VARVE_ASSERT(window.offset < spec.bytes, window.offset, spec.bytes);
  ClientSession& session = core_.session();
  const uint32_t length = std::min(kPayloadBytesMax, spec.bytes - window.offset);
  if (!session.can_send_bulk(lane, length)) return Sent::kNoRoom;
  Columns bounce;
  if (!take_bounce(index, spec, length, bounce)) return Sent::kNoRoom;
  PieceSend* piece = core_.take_piece();
  if (piece == nullptr) {
    core_.bounce().give(bounce);
    return Sent::kNoRoom;
  }
  if (window.offset == 0) seal_entry(index, window.extent);
  piece->put(layout_, {request_.slots[index], spec, window.offset, length}, bounce);
  core_.count().bounced_bytes += piece->bounce.empty() ? 0 : piece->bytes;
  wire::Extent head;
  head.extent = window.extent;
  head.offset = window.offset;
  head.stored_crc = blocks_[index].entries[window.extent].stored_crc;
  queue(*piece, window, index, head);
  window.offset += piece->bytes;
  return Sent::kAll;
}

// True: there is, or nothing of the extent lies outside of every region.
bool ClientPushOp::take_bounce(uint32_t index, const ExtentSpec& spec, uint32_t length,
                               Columns& out) {
  if (!layout_.bounces(request_.slots[index], spec) || core_.bounce().take(length, out))
    return true;
  ++core_.count().bounce_waits;
  return false;
}

void ClientPushOp::queue(PieceSend& piece, const Window& window, uint32_t index,
                         wire::Extent head) {
  VARVE_ASSERT(index >= window.first && index - window.first < window.count, index, window.first);
  VARVE_ASSERT(!blocks_[index].committing, index);  // COMMIT is the last of its block on the lane
  ClientSession& session = core_.session();
  head.reserve_op = window.wire_op;
  head.index = index - window.first;
  head.extent_bytes = table_->bytes_at(head.extent);
  head.attempt = blocks_[index].attempt;
  piece.op = this;
  piece.request.head = session.encoder().extent(window.wire_op, head);
  ++sending_;
  session.send_bulk(lane_of(index), piece.request);
}

// The pieces of its parity extents take turns, as the columns of all are made at once; the checksum
// that counts is that of each one's last piece.
ClientPushOp::Sent ClientPushOp::send_parity(Window& window, uint32_t index) {
  const uint32_t stripe = table_->stripe_at(window.extent);
  const Stripe& of_stripe = table_->stripes[stripe];
  const bool ends_stripe = window.extent + 1 == of_stripe.first + of_stripe.count;
  if (table_->scheme.m == 0 || !ends_stripe) return Sent::kAll;
  Block& block = blocks_[index];
  const StripeOut::Of of{BlockId{request_.ids[index], request_.rank}, block.attempt,
                         request_.slots[index], stripe};
  if (!parity_.is(of)) {
    VARVE_ASSERT(!parity_.under_way(), parity_window_);
    parity_.drop();
    parity_.begin(*table_, layout_, of);
    parity_window_ = window.wire_op;
  }
  while (!parity_.finished()) {
    if (send_parity_piece(window, index) == Sent::kNoRoom) return Sent::kNoRoom;
  }
  for (uint32_t j = 0; j < table_->scheme.m; ++j)
    block.entries[table_->parity_at(stripe, j)] = parity_.entry(j);
  return Sent::kAll;
}

ClientPushOp::Sent ClientPushOp::send_parity_piece(Window& window, uint32_t index) {
  const uint32_t stripe = table_->stripe_at(window.extent);
  // Asked before anything is made, so that no scratch waits for a lane.
  const uint32_t bytes_max = std::min(kPayloadBytesMax, table_->stripes[stripe].bytes);
  if (!core_.session().can_send_bulk(lane_of(index), bytes_max)) return Sent::kNoRoom;
  const auto next = parity_.piece();
  if (!next) ++core_.count().parity_waits;
  PieceSend* piece = next ? core_.take_piece() : nullptr;
  if (piece == nullptr) return Sent::kNoRoom;
  piece->parity.swap(*next->columns);
  piece->bytes = next->bytes;
  piece->request.payload_count = static_cast<uint32_t>(piece->parity.size());
  for (uint32_t c = 0; c < piece->parity.size(); ++c) {
    const uint32_t bytes = std::min(kColumnBytes, next->bytes - c * kColumnBytes);
    piece->request.payload[c] = iovec{piece->parity[c], bytes};
  }
  wire::Extent head;
  head.extent = table_->parity_at(stripe, next->j);
  head.offset = next->offset;
  head.stored_crc = parity_.entry(next->j).stored_crc;
  queue(*piece, window, index, head);
  parity_.sent();
  return Sent::kAll;
}

// Both checksums at once: the pieces that follow are then hot for the socket's copy.
void ClientPushOp::seal_entry(uint32_t index, uint32_t extent) {
  Block& block = blocks_[index];
  const ExtentSpec& spec = table_->extents[extent];
  ExtentDigest digest(
      checksum_seed(BlockId{request_.ids[index], request_.rank}, extent, block.attempt));
  iovec run[kPayloadPiecesMax];
  for (uint32_t done = 0; done < spec.bytes;) {
    uint32_t count = 0;
    done += layout_.pieces(request_.slots[index], spec, done, spec.bytes - done, run, &count);
    VARVE_ASSERT(count > 0, done);
    for (uint32_t i = 0; i < count; ++i)
      digest.update({static_cast<std::byte*>(run[i].iov_base), run[i].iov_len});
  }
  ExtentEntry& entry = block.entries[extent];
  entry.stored_bytes = entry.decoded_bytes = spec.bytes;
  entry.stripe = static_cast<uint16_t>(table_->stripe_at(extent));
  entry.codec = static_cast<uint8_t>(CodecId::kRaw);
  entry.stored_crc = digest.stored_crc();
  entry.decoded_xxh3 = digest.decoded_xxh3();
}

bool ClientPushOp::commit(Window& window, uint32_t index) {
  Block& block = blocks_[index];
  VARVE_ASSERT(!block.committing && block.entries.size() == table_->count(), index);
  ClientSession& session = core_.session();
  wire::Commit body;
  body.reserve_op = window.wire_op;
  body.epoch = session.hello().epoch;
  body.index = index - window.first;
  body.ack = request_.ack;
  body.attempt = block.attempt;
  body.count = static_cast<uint32_t>(block.entries.size());
  const auto head = session.encoder().commit(window.wire_op, body, block.entries);
  if (!session.send_bulk_head(lane_of(index), head)) return false;
  block.committing = true;
  return true;
}

void ClientPushOp::on_sent(PieceSend& piece) {
  VARVE_ASSERT(sending_ > 0);
  --sending_;
  uint64_t& bytes = piece.parity.empty() ? core_.count().pushed_bytes : core_.count().parity_bytes;
  bytes += piece.request.status.ok() ? piece.bytes : 0;
  // The room it gave goes to the push whose turn it is (Core::wake_pushes).
}

void ClientPushOp::settle(uint32_t index, Code code) {
  Block& block = blocks_[index];
  VARVE_ASSERT(!block.settled);
  VARVE_ASSERT(unsettled_ > 0);
  block.settled = true;
  block.code = code;
  block.entries = {};
  --unsettled_;
  if (!block.attempt.is_none() && parity_.is_of(block.attempt)) drop_parity();
  if (code == Code::kOk) ++core_.count().pushed_blocks;
  wake();
}

// What did not leave; another push may wait for the scratch it held.
void ClientPushOp::drop_parity() {
  if (parity_.under_way()) core_.wake_pushes();
  parity_.drop();
}

// A lost session took its attempts along.
void ClientPushOp::end_attempts(uint32_t count) {
  count = std::min(count, attempts_);
  attempts_ -= count;
  core_.pace().end_attempts(count);
}

void ClientPushOp::retire_windows() {
  std::erase_if(windows_, [this](const Window& window) {
    if (!window.answered || window.unsettled > 0) return false;
    core_.unroute(window.wire_op);
    return true;
  });
}

// What has no answer yet is given back: one CANCEL a window, also for what RESERVED may still
// grant. Where it does not reach the daemon the reservation ends by itself at hold_ms.
void ClientPushOp::give_back() {
  VARVE_ASSERT(unsettled_ == 0 || !stop_.ok());
  ClientSession& session = core_.session();
  for (const Window& window : windows_) {
    core_.unroute(window.wire_op);
    if ((window.answered && window.unsettled == 0) || !session.usable()) continue;
    const wire::Cancel body{window.wire_op};
    if (!session.send_urgent(session.encoder().cancel(window.wire_op, body))) {
      logf(LogLevel::kDebug, "client", "no room for CANCEL; the reservation expires by itself");
    }
  }
  windows_.clear();
  drop_parity();
  end_attempts(attempts_);
  for (uint32_t i = 0; i < blocks_.size(); ++i) {
    Block& block = blocks_[i];
    if (block.settled) continue;
    // Asked until the deadline: why it was refused says more than that time is up.
    const bool refused = block.answer == Answer::kForNow || block.answer == Answer::kBusy;
    if (refused) ++core_.count().refused_blocks;
    settle(i, refused && stop_.code() == Code::kTimedOut ? block.code : stop_.code());
  }
}

void ClientPushOp::on_timer() {
  if (stage_ != Stage::kFence) return ClientOp::on_timer();
  core_.session().drop(Status::timed_out("a push's bytes did not leave within fence_ns_max"));
}

void ClientPushOp::on_lost(Status cause) {
  attempts_ = 0;
  drop_parity();
  for (const Window& window : windows_)
    core_.unroute(window.wire_op);
  windows_.clear();
  if (stop_.ok() && unsettled_ > 0) stop_ = cause;
  wake();
}

void ClientPushOp::finish(Status status) {
  VARVE_ASSERT(sending_ == 0);
  VARVE_ASSERT(attempts_ == 0 && windows_.empty());
  VARVE_ASSERT(stage_ != Stage::kDone && !parity_.under_way());
  stage_ = Stage::kDone;
  core_.hold_regions(layout_, Core::Hold::kGive);  // from here on nothing touches it (C2)
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
