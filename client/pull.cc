// ClientPullOp: sizes come from our own extent table, never from the peer; the peer only fills
// them.
#include "client/pull.h"

#include <algorithm>

namespace varve {

ClientPullOp::ClientPullOp(Core& core, OpId op, PullRequest request, BoundLayout layout,
                           std::vector<Attempt> attempts)
    : ClientOp(core, op, request.tag, request.deadline_ns),
      request_(std::move(request)),
      layout_(std::move(layout)),
      attempts_(std::move(attempts)),
      blocks_(request_.ids.size()),
      blocks_alive_(static_cast<uint32_t>(request_.ids.size())),
      rebuild_(*this) {
  VARVE_ASSERT(attempts_.empty() || attempts_.size() == blocks_.size(), attempts_.size());
  VARVE_ASSERT(!blocks_.empty() && request_.slots.size() == blocks_.size(), blocks_.size());
  VARVE_ASSERT(request_.layer_count > 0);
  core_.count().bounced_ops += layout_.bounces() ? 1 : 0;
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
    if (next_layer_ == 0) block.attempt = is_follow() ? attempts_[b] : Attempt();
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
  pulled_ = told_ = false;
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
      if (stop_.ok()) rebuild_.run();
      announce_layers();
      if (stop_.ok() && !complete()) return;
      begin_fence();
      stage_ = Stage::kFence;
      [[fallthrough]];
    case Stage::kFence:
      if (receiving_ > 0 || !fenced_ || !rebuild_.fenced()) return;
      return finish(stop_.ok() ? pulled_status_ : stop_);
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
  if (!take_slot(Pace::Kind::kPull, due_ns())) return false;
  restart();
  wire_op_ = core_.next_wire_op();
  const ConstByteSpan head = encode_ask();
  if (head.empty()) return false;
  if (!session.send_urgent(head)) {
    give_slot();
    forget();
    retry_later(Status::overloaded("the urgent lane is full"));
    return false;
  }
  core_.route(wire_op_, this);
  asked();
  return true;
}

ConstByteSpan ClientPullOp::encode_ask() {
  VARVE_ASSERT(next_layer_ < request_.layer_count, next_layer_, request_.layer_count);
  wire::Encoder& encoder = core_.session().encoder();
  const auto count = static_cast<uint32_t>(request_.ids.size());
  const uint32_t format = core_.find_format(request_.format)->handle;
  const uint32_t layer_first = request_.layer_first + next_layer_;
  const uint32_t layer_count = request_.layer_count - next_layer_;
  if (is_follow()) {
    std::vector<wire::FollowBlock> blocks(count);
    for (uint32_t b = 0; b < count; ++b)
      blocks[b] = {request_.ids[b], attempts_[b]};
    const wire::Follow body{.format = format,
                            .rank = request_.rank,
                            .deadline_ns = left_ns(),
                            .slack_ns = request_.slack_ns,
                            .layer_ns = request_.layer_ns,
                            .layer_first = layer_first,
                            .layer_count = layer_count,
                            .count = count};
    return encoder.follow(wire_op_, body, blocks);
  }
  wire::Pull body{.format = format,
                  .rank = request_.rank,
                  .deadline_ns = left_ns(),
                  .slack_ns = request_.slack_ns,
                  .layer_ns = request_.layer_ns,
                  .layer_first = layer_first,
                  .layer_count = layer_count,
                  .count = count};
  if (!name_lease(body)) return {};
  return encoder.pull(wire_op_, body, request_.ids);
}

bool ClientPullOp::name_lease(wire::Pull& body) {
  // A lease goes with its session; what is asked once more is best effort.
  if (request_.lease == 0 || resent_) return true;
  const ClientLease* lease = core_.leases().find(request_.lease);
  if (lease == nullptr) {
    ++core_.count().lapsed_leases;
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
         data.offset == at.received && payload_bytes <= spec.bytes - at.received;
}

// One attempt of a block, the first that came or the one that is followed (I3).
Code ClientPullOp::check_attempt(uint32_t block, const Attempt& attempt) {
  Block& b = blocks_[block];
  if (b.attempt.is_none()) b.attempt = attempt;
  if (!attempt.is_none() && b.attempt == attempt) return Code::kOk;
  return is_follow() ? Code::kUnavailable : Code::kCorrupt;
}

void ClientPullOp::place(uint64_t op, const wire::Data& data, uint32_t payload_bytes,
                         ByteSpan bounce, Placement& where) {
  VARVE_ASSERT(payload_bytes > 0 && payload_bytes <= bounce.size(), payload_bytes);
  if (stage_ != Stage::kReceive || !stop_.ok()) return;  // the fence: discard
  if (op != wire_op_) {
    receiving_ += rebuild_.place(op, data, payload_bytes, where) ? 1 : 0;
    return;
  }
  if (data.block >= blocks_.size()) return cancel(Status::invalid("DATA of a block not asked for"));
  if (!in_range(data.extent)) return fail_block(data.block, Code::kInvalid);
  if (blocks_[data.block].code != Code::kOk) return;
  const bool raw = data.entry.codec == static_cast<uint8_t>(CodecId::kRaw);
  if (!raw) return fail_block(data.block, Code::kUnsupported);
  Progress& at = progress(data.block, data.extent);
  if (at.closed) return;  // it was rebuilt, or will be (I8)
  const Code other = check_attempt(data.block, data.attempt);
  if (other != Code::kOk) return fail_block(data.block, other);
  // Two receives into one extent at a time could change what was verified.
  if (at.receiving || !fits(data, payload_bytes)) return fail_block(data.block, Code::kCorrupt);
  const ExtentSpec& spec = table().extents[data.extent];
  const auto wanted = layout_.range_of(spec, request_.layer_first, request_.layer_count);
  uint32_t count = 0;
  const uint32_t slot = request_.slots[data.block];
  const uint32_t covered =
      layout_.pieces(slot, spec, data.offset, payload_bytes, where.pieces, &count);
  // Too scattered for one receive, outside of every region, or of layers that nobody asked for.
  at.bounced = covered < payload_bytes || data.offset < wanted.begin ||
               data.offset + payload_bytes > wanted.end || layout_.bounces(slot, spec);
  where.count = at.bounced ? 0 : count;
  if (at.bounced) where.add(bounce.data(), payload_bytes);
  at.receiving = true;
  ++receiving_;
}

void ClientPullOp::on_data(uint64_t op, const wire::Data& data, uint32_t payload_bytes,
                           const Placement& where) {
  VARVE_ASSERT(receiving_ > 0);
  --receiving_;
  if (op != wire_op_) return rebuild_.on_data(op, data, where);
  if (stage_ == Stage::kFence || !stop_.ok()) return wake();
  VARVE_ASSERT(stage_ == Stage::kReceive);  // a placement keeps it there
  const ExtentSpec& spec = table().extents[data.extent];
  Block& block = blocks_[data.block];
  if (block.code != Code::kOk) return wake();
  Progress& at = progress(data.block, data.extent);
  VARVE_ASSERT(at.receiving && at.received == data.offset, at.received, data.offset);
  at.receiving = false;
  if (at.closed) return wake();
  if (at.received == 0) {
    const BlockId id{request_.ids[data.block], request_.rank};
    at.crc = checksum_seed(id, data.extent, data.attempt).stored;
  }
  for (uint32_t i = 0; i < where.count; ++i) {
    const iovec& piece = where.pieces[i];
    at.crc = crc32c(at.crc, {static_cast<std::byte*>(piece.iov_base), piece.iov_len});
  }
  if (at.bounced) {
    const auto* bounced = static_cast<const std::byte*>(where.pieces[0].iov_base);
    copy_out(data.block, data.extent, data.offset, {bounced, payload_bytes});
    const bool outside = layout_.bounces(request_.slots[data.block], spec);
    core_.count().bounced_bytes += outside ? payload_bytes : 0;
  }
  at.received += payload_bytes;
  if (at.received < spec.bytes) return;
  if (at.crc != data.entry.stored_crc) {
    ++core_.count().corrupt_extents;
    return fail_block(data.block, Code::kCorrupt);
  }
  core_.hedge_budget().earn(spec.bytes);
  arrive(data.block, data.extent);
}

// To the caller's memory, only what was asked for.
void ClientPullOp::copy_out(uint32_t block, uint32_t extent, uint32_t offset, ConstByteSpan bytes) {
  const ExtentSpec& spec = table().extents[extent];
  VARVE_ASSERT(offset + bytes.size() <= spec.bytes, offset, bytes.size(), spec.bytes);
  const auto wanted = layout_.range_of(spec, request_.layer_first, request_.layer_count);
  const uint32_t begin = std::max(offset, wanted.begin);
  const uint32_t end = std::min(offset + static_cast<uint32_t>(bytes.size()), wanted.end);
  if (begin >= end) return;
  layout_.scatter(request_.slots[block], spec, begin, bytes.subspan(begin - offset, end - begin));
}

void ClientPullOp::arrive(uint32_t block, uint32_t extent) {
  VARVE_ASSERT(blocks_[block].missing > 0, block, extent);
  bytes_ += table().extents[extent].bytes;
  --blocks_[block].missing;
  settle(block, extent);
  if (!rebuild_.empty()) wake();  // it may be a source
}

StripeIn::Of ClientPullOp::stripe_of(uint32_t block, uint32_t stripe) const {
  VARVE_ASSERT(block < blocks_.size() && stripe < table().stripes.size(), block, stripe);
  StripeIn::Of of{BlockId{request_.ids[block], request_.rank}, blocks_[block].attempt, block,
                  request_.slots[block], stripe};
  const Stripe& members = table().stripes[stripe];
  for (uint32_t p = 0; p < members.count; ++p) {
    const uint32_t e = members.first + p;
    const ExtentSpec& spec = table().extents[e];
    const auto wanted = layout_.range_of(spec, request_.layer_first, request_.layer_count);
    if (!in_range(e) || wanted.begin > 0 || wanted.end < spec.bytes) continue;
    of.whole |= static_cast<Positions>(1u << p);
  }
  return of;
}

StripeIn::Sight ClientPullOp::sight(const StripeIn::Of& of) const {
  StripeIn::Sight sight;
  const Stripe& members = table().stripes[of.stripe];
  for (uint32_t p = 0; p < members.count; ++p) {
    const auto bit = static_cast<Positions>(1u << p);
    if ((of.whole & bit) == 0) continue;
    const Progress& at = progress(of.block, members.first + p);
    if (at.settled) {
      sight.here |= bit;
    } else if (!at.closed) {
      (at.late ? sight.late : sight.coming) |= bit;
    }
  }
  return sight;
}

bool ClientPullOp::misses(uint32_t block, uint32_t extent) const {
  return blocks_[block].code == Code::kOk && !progress(block, extent).settled;
}

bool ClientPullOp::receives(uint32_t block, uint32_t extent) const {
  return progress(block, extent).receiving;
}

void ClientPullOp::deliver(uint32_t block, uint32_t extent, std::span<std::byte* const> columns) {
  VARVE_ASSERT(misses(block, extent) && !receives(block, extent), block, extent);  // I8
  progress(block, extent).closed = true;
  came_from(Event::kTierRebuilt);
  const uint32_t bytes = table().extents[extent].bytes;
  VARVE_ASSERT(columns.size() == columns_of(bytes), columns.size(), bytes);
  for (uint32_t c = 0; c < columns.size(); ++c) {
    const uint32_t offset = c * kColumnBytes;
    copy_out(block, extent, offset, {columns[c], std::min(kColumnBytes, bytes - offset)});
  }
  arrive(block, extent);
}

void ClientPullOp::settle(uint32_t block, uint32_t extent) {
  const ExtentSpec& spec = table().extents[extent];
  VARVE_ASSERT(extents_missing_ > 0 && !progress(block, extent).settled, block, extent);
  progress(block, extent).settled = true;
  --extents_missing_;
  for (uint32_t l = spec.layer_first; l < spec.layer_first + spec.layer_count; ++l) {
    const uint32_t i = l - request_.layer_first;
    if (l < request_.layer_first + next_layer_ || i >= request_.layer_count) continue;
    VARVE_ASSERT(layer_missing_[i] > 0, i, next_layer_);
    if (--layer_missing_[i] == 0) wake();
  }
  if (extents_missing_ == 0) wake();
}

// One block's failure costs that block only (I9): what it still owed is written off.
void ClientPullOp::fail_block(uint32_t block, Code code) {
  VARVE_ASSERT(block < blocks_.size(), block);
  Block& b = blocks_[block];
  if (b.code != Code::kOk) return;
  VARVE_ASSERT(code != Code::kOk && blocks_alive_ > 0, blocks_alive_);
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
  if (frame.header.op != wire_op_) return rebuild_.on_frame(frame);
  const bool receives_still = stage_ == Stage::kReceive && stop_.ok();
  if (const auto* fenced = std::get_if<wire::FencedView>(&frame.body)) {
    const bool whole = fenced->body.extent == wire::kWhole;
    if (whole && stage_ == Stage::kFence) fenced_ = true;
    const bool known = fenced->body.block < blocks_.size() && in_range(fenced->body.extent);
    if (known && receives_still) rebuild_.on_fenced(fenced->body.block, fenced->body.extent);
    wake();
  } else if (const auto* lost = std::get_if<wire::LostView>(&frame.body)) {
    if (receives_still) take_lost(*lost);
  } else if (const auto* answer = std::get_if<wire::PulledView>(&frame.body)) {
    if (stage_ == Stage::kReceive && !pulled_) take_pulled(*answer);
  }
}

void ClientPullOp::take_lost(const wire::LostView& view) {
  for (uint32_t i = 0; i < view.lost.size(); ++i) {
    const wire::LostExtent row = view.lost[i];
    if (row.block >= blocks_.size()) {
      return cancel(Status::invalid("LOST of a block not asked for"));
    }
    const Code code = check_row(row);
    if (code != Code::kOk) {
      fail_block(row.block, code);
    } else if (misses(row.block, row.extent) && !progress(row.block, row.extent).closed) {
      Progress& at = progress(row.block, row.extent);
      at.late = true;
      at.closed = row.state == wire::LostState::kLost;
      // One extent of a follow is not FENCED before all of it ended: a hedge could not win.
      if (at.closed || !is_follow()) rebuild_.take(row);
    }
  }
  wake();
}

// What rebuilt bytes are checked against must itself fit the table and the attempt (I3).
Code ClientPullOp::check_row(const wire::LostExtent& row) {
  if (!in_range(row.extent)) return Code::kInvalid;
  const ExtentEntry& entry = row.entry;
  if (entry.codec != static_cast<uint8_t>(CodecId::kRaw)) return Code::kUnsupported;
  const Code other = check_attempt(row.block, row.attempt);
  if (other != Code::kOk) return other;
  const uint32_t bytes = table().extents[row.extent].bytes;
  const bool fits = entry.stored_bytes == bytes && entry.decoded_bytes == bytes &&
                    entry.stripe == table().stripe_at(row.extent);
  return fits ? Code::kOk : Code::kCorrupt;
}

// What is lost comes by a PULL of its own: as soon as it can, and of the same lease if that lasts.
bool ClientPullOp::send_wants(uint64_t wire_op, std::span<const uint32_t> blocks,
                              std::span<const wire::Want> wants) {
  VARVE_ASSERT(!blocks.empty() && !wants.empty(), blocks.size(), wants.size());
  ClientSession& session = core_.session();
  std::vector<BaseId> ids;
  for (const uint32_t block : blocks)
    ids.push_back(request_.ids[block]);
  wire::Pull body;
  body.format = core_.find_format(request_.format)->handle;
  body.rank = request_.rank;
  const ClientLease* lease = request_.lease == 0 || resent_ || !wants_leased_
                                 ? nullptr
                                 : core_.leases().find(request_.lease);
  if (lease != nullptr) {
    body.lease = lease->part_of(ids);
    body.boot_id = lease->boot_id;
  }
  body.deadline_ns = left_ns();
  body.count = static_cast<uint32_t>(ids.size());
  body.want_count = static_cast<uint32_t>(wants.size());
  if (!session.send_urgent(session.encoder().pull(wire_op, body, ids, wants))) return false;
  core_.route(wire_op, this);
  return true;
}

bool ClientPullOp::send_cancel(uint32_t block, uint32_t extent) {
  VARVE_ASSERT(block < blocks_.size() && in_range(extent) && !is_follow(), block, extent);
  ClientSession& session = core_.session();
  return session.send_urgent(session.encoder().cancel(wire_op_, {wire_op_, block, extent}));
}

void ClientPullOp::take_pulled(const wire::PulledView& answer) {
  VARVE_ASSERT(!pulled_ && stage_ == Stage::kReceive);
  pulled_ = true;
  const auto code = static_cast<Code>(answer.body.code);
  give_slot();
  if (is_for_now(code) && answer.codes.size() == 0 && extents_missing_ > 0 && receiving_ == 0 &&
      rebuild_.empty()) {
    return ask_again(Status(code, "the daemon refused the pull until the deadline"));
  }
  if (code != Code::kOk) pulled_status_ = Status(code, "the daemon ended the pull");
  const bool whole_refusal = code != Code::kOk && answer.codes.size() == 0;
  if (answer.codes.size() != blocks_.size() && !whole_refusal) {
    return cancel(Status::invalid("PULLED does not fit the pull"));
  }
  told_ = !whole_refusal;
  came_from(answer.body.tiers);
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
  rebuild_.lose_session();
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
  const bool all_here = extents_missing_ == 0 && !is_follow();  // only PULLED was on its way
  if (stop_.ok() && (all_here || complete())) {
    pulled_ = true;
    return wake();
  }
  // A follow that has all layers has nothing more to ask for, and will not learn how it ended.
  if (resent_ || !stop_.ok() || next_layer_ == request_.layer_count) {
    if (stop_.ok()) stop_ = cause;
    stage_ = Stage::kFence;
    fenced_ = true;
    return wake();
  }
  resent_ = true;  // once (I8)
  forget();
  stage_ = Stage::kAsk;
}

// A pull that is complete may have asked for more than it came to need.
void ClientPullOp::begin_fence() {
  VARVE_ASSERT(stage_ == Stage::kReceive && !fenced_);
  core_.count().cancels += stop_.ok() ? 0 : 1;
  ClientSession& session = core_.session();
  fenced_ = pulled_;  // then the daemon is done with it; only our own receives remain
  bool said = fenced_ || session.send_urgent(session.encoder().cancel(wire_op_, {wire_op_}));
  said = rebuild_.begin_fence() && said;
  if (!said) session.drop(Status::overloaded("no room for CANCEL"));
  core_.reactor().arm(timer_, core_.options().fence_ns_max);
}

void ClientPullOp::finish(Status status) {
  VARVE_ASSERT(receiving_ == 0 && stage_ != Stage::kDone, receiving_);  // C2
  stage_ = Stage::kDone;
  core_.unroute(wire_op_);
  rebuild_.end();
  core_.hold_regions(layout_, Core::Hold::kGive);  // from here on nothing touches it (C2)
  Event e = event(is_follow() ? Event::Kind::kFollowed : Event::Kind::kPulled);
  ClientCounters& count = core_.count();
  ++(is_follow() ? count.follows : count.pulls);
  for (const Block& block : blocks_) {
    Code code = block.code;
    // Of what is followed nothing counts before the daemon said how it ended (C5).
    if (code == Code::kOk && (block.missing > 0 || (is_follow() && !told_))) {
      code = status.ok() ? Code::kInternal : status.code();
      ++count.failed_blocks;
    }
    if (code == Code::kOk) ++(is_follow() ? count.followed_blocks : count.pulled_blocks);
    e.codes.push_back(code);
  }
  (is_follow() ? count.followed_bytes : count.pulled_bytes) += bytes_;
  e.status = status;
  e.bytes = bytes_;
  e.first_layer_ns = first_layer_ns_;
  e.tier_mask = tier_mask_;
  core_.finish(*this, std::move(e));
}

}  // namespace varve
