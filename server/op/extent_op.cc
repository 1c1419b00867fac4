// One extent from DRAM or flash to a lane; and the frames that carry it.
//
// Frames of one extent are posted in offset order with nothing of the same block between them: the
// one at the head of the queue is posted whole before the next begins.
#include "server/op/extent_op.h"

#include <algorithm>
#include <bit>

#include "server/op/op.h"
#include "server/op/pull.h"

namespace varve {

ExtentOp::ExtentOp(OpContext& context) : Op(context.reactor), context_(context) {
  waiter_.owner = this;
  waiter_.on_ready = [](ExtentWaiter& waiter, Status status) {
    static_cast<ExtentOp*>(waiter.owner)->completed(status);
  };
  note_.owner = this;
  note_.back = [](Message& message) {
    LostNote& note = *static_cast<LostNote*>(message.owner);
    static_cast<ExtentOp*>(note.owner)->note_back();
  };
}

void ExtentOp::begin(const Begin& begin) {
  VARVE_ASSERT(begin.block != nullptr);
  VARVE_ASSERT(begin.extent < begin.block->extent_count, begin.extent);
  reset();
  at_ = begin;
  entry_ = ExtentEntry{};
  TierBlock& block = *at_.block;
  context_.tier.pin(block);
  ++block.users[at_.extent];
  from_dram_ = block.header_present && block.state[at_.extent] == ExtentState::kPresent;
  read_here_ = begin.fetch != nullptr || begin.lead_started;
  if (read_here_) context_.pulls->reading_add(at_.bytes);
  frames_left_ = 0;
  posted_bytes_ = 0;
  VARVE_ASSERT(!note_out_ && fences_.empty());
  late_told_ = lost_told_ = ended_ = false;
  end_ = Status();
  stage_ = Stage::kLead;
  reactor().make_ready(*this);
}

void ExtentOp::detach() {
  VARVE_ASSERT(!with_session());
  VARVE_ASSERT(at_.pull != nullptr);
  at_.pull = nullptr;
  at_.part = nullptr;
  while (FencePart* part = fences_.pop())
    part_back(*part, Status());
}

void ExtentOp::run() {
  RunScope scope(*this);
  TierBlock& block = *at_.block;
  if (Status s = take_failure(); !s.ok()) return failed(s);
  switch (stage_) {
    case Stage::kLead:  // the header first: it says how the extent is stored
      if (!block.header_present) {
        const bool coming = block.state[block.lead_extent] == ExtentState::kReading;
        if (!coming || block.doomed) return failed(Status::unavailable("header"));
        wait_for(block.lead_extent);
        return wait(1);
      }
      if (Status s = check_entry(); !s.ok()) return failed(s);
      stage_ = Stage::kRead;
      [[fallthrough]];
    case Stage::kRead:
      if (at_.lost) return failed(Status::unavailable("its fragment is lost"));
      if (block.state[at_.extent] == ExtentState::kReading) {
        if (at_.fetch != nullptr && !fetch_now()) return failed(Status::unavailable("gone"));
        wait_for(at_.extent);
        return wait(1);
      }
      if (block.state[at_.extent] != ExtentState::kPresent) {
        return failed(Status::unavailable("read by another pull failed"));
      }
      stage_ = Stage::kSend;
      [[fallthrough]];
    case Stage::kSend:  // raw codec: what is stored is what is sent, nothing to restore
      if (unwanted()) return finish(Status::cancelled("pull"));
      if (at_.ahead) return finish(Status());
      stage_ = Stage::kDone;
      send_started_ns_ = reactor().now_ns();
      frames_left_ = (at_.bytes + kPayloadBytesMax - 1) / kPayloadBytesMax;
      context_.sends->queue(*this);
      return wait(frames_left_);
    case Stage::kDone:
      context_.metrics.pull_stage_send.record(reactor().now_ns() - send_started_ns_);
      return finish(Status());
    case Stage::kLost:  // the note is back
      return finish(Status());
  }
}

// Whether the block can be read without the fragment of this extent.
bool ExtentOp::others_are_enough() const {
  const TierBlock& block = *at_.block;
  const Scheme scheme = context_.options.scheme;
  if (scheme.m == 0 || block.doomed || !block.header_present || at_.part == nullptr) return false;
  const std::optional<Located> located = context_.index.find(block.block);
  if (!located || located->state != BlockState::kFlash) return false;
  const uint32_t others = context_.catalog->readable(*located) & ~(1u << at_.fragment);
  return std::popcount(others) >= static_cast<int>(scheme.k);
}

void ExtentOp::failed(Status status) {
  if (at_.fetch != nullptr) {  // pages taken, read never started
    context_.fetches->give(*at_.fetch);
    at_.fetch = nullptr;
    context_.tier.extent_read(*at_.block, at_.extent, status);
  }
  const bool told = stage_ == Stage::kRead && !at_.ahead && !unwanted();
  if (!told) return finish(status);
  const ExtentState state = at_.block->state[at_.extent];
  if (state == ExtentState::kPresent) {  // it came meanwhile
    at_.lost = false;
    return again();
  }
  const bool enough = others_are_enough();
  const bool reading = state == ExtentState::kReading && !at_.block->doomed;
  if (reading && !(enough && at_.pull->may_leave_out({at_.item, at_.extent}))) {
    at_.lost = false;
    late();
    wait_for(at_.extent);
    return wait(1);
  }
  if (!enough) return finish(status);
  stage_ = Stage::kLost;
  if (!at_.lost) at_.pull->lost(*this);
  lost_code_ = status.code();
  context_.metrics.pull_extents_lost.add();
  wait(1);
  if (!note_out_) post_note(wire::LostState::kLost, lost_code_);
}

void ExtentOp::late() {
  if (stage_ != Stage::kRead || at_.ahead || late_told_ || note_out_ || unwanted()) return;
  if (!others_are_enough()) return;
  late_told_ = true;
  context_.metrics.pull_extents_late.add();
  post_note(wire::LostState::kLate, Code::kTimedOut);
}

void ExtentOp::post_note(wire::LostState state, Code code) {
  VARVE_ASSERT(!note_out_ && at_.part != nullptr);
  note_out_ = true;
  lost_told_ = state == wire::LostState::kLost;
  note_.lost = wire::LostExtent{.block = at_.position,
                                .extent = at_.extent,
                                .state = state,
                                .code = static_cast<uint8_t>(code),
                                .entry = entry_,
                                .attempt = at_.block->attempt};
  note_.part = at_.part;
  note_.message.owner = &note_;
  note_.message.deliver = at_.part->deliver_lost;
  at_.part->session_reactor->post(note_.message);
}

void ExtentOp::note_back() {
  VARVE_ASSERT(note_out_);
  note_out_ = false;
  note_.part = nullptr;
  if (ended_) return finish(end_);
  if (at_.pull != nullptr && stage_ != Stage::kDone) {
    if (at_.pull->cut_short()) {
      reactor().make_ready(*at_.pull);  // it may detach this op now
    } else if (!fences_.empty()) {
      at_.pull->fenced(*this);
    }
  }
  if (stage_ != Stage::kLost) return;
  if (lost_told_ || at_.part == nullptr) return completed(Status());
  post_note(wire::LostState::kLost, lost_code_);  // what was late is lost now
}

SendTable& ExtentOp::sends() {
  return *context_.sends;
}

bool ExtentOp::unwanted() const {
  return at_.pull == nullptr || at_.block->purged || at_.pull->cut_short();
}

void ExtentOp::wait_for(uint32_t extent) {
  waiter_.extent = extent;
  at_.block->waiters.push(&waiter_);
}

// The header was verified by flash; that it fits the format of this pull is checked here (I12).
Status ExtentOp::check_entry() {
  entry_ = entry_of(context_.tier, *at_.block, at_.extent);
  if (entry_.stored_bytes != at_.bytes || entry_.decoded_bytes != at_.bytes ||
      entry_.codec != static_cast<uint8_t>(CodecId::kRaw)) {
    return Status::corrupt("extent table does not fit the format");
  }
  return Status();
}

// Starts the read whose pages this op has taken. False: the block left flash meanwhile.
bool ExtentOp::fetch_now() {
  const TierBlock& block = *at_.block;
  if (block.doomed) return false;  // what is at its place now is of another attempt
  const std::optional<Located> located = context_.index.find(block.block);
  if (!located || located->state != BlockState::kFlash) return false;
  if ((context_.catalog->readable(*located) >> at_.fragment & 1) == 0) return false;
  const flash::Place place = context_.index.place_of(*located, at_.fragment);
  if (place.target != at_.fetch->target) return false;  // its share was taken elsewhere
  Fetch& fetch = *at_.fetch;
  at_.fetch = nullptr;
  context_.fetches->start_extent(fetch, *at_.block, place, at_.extent, entry_, at_.wanted_ns);
  return true;
}

void ExtentOp::post(DataSend& send) {
  VARVE_ASSERT(frames_left_ > 0);
  const uint32_t offset = posted_bytes_;
  VARVE_ASSERT(offset < at_.bytes, offset, at_.bytes);
  VARVE_ASSERT(at_.block->state[at_.extent] == ExtentState::kPresent, at_.extent);
  const uint32_t bytes = std::min(at_.bytes - offset, kPayloadBytesMax);
  const Slab& slab = context_.tier.extent(*at_.block, at_.extent);
  send.request.payload_count =
      context_.tier.arena().pieces(slab, offset, bytes, send.request.payload);
  send.data = wire::Data{.block = at_.position,
                         .extent = at_.extent,
                         .offset = offset,
                         .entry = entry_,
                         .attempt = at_.block->attempt};
  send.from_dram = from_dram_;
  send.part = at_.part;
  send.owner = this;
  send.status = Status();
  send.message.owner = &send;
  send.message.deliver = at_.part->deliver_data;
  posted_bytes_ += bytes;
  --frames_left_;
  at_.part->session_reactor->post(send.message);
}

// The pull was cut while frames still waited: they count as done, nothing of them was posted.
void ExtentOp::drop_frames() {
  for (; frames_left_ > 0; --frames_left_)
    completed(Status::cancelled("pull"));
}

void ExtentOp::finish(Status status) {
  VARVE_ASSERT(frames_left_ == 0, frames_left_);
  if (note_out_) {  // the session still reads it
    ended_ = true;
    end_ = status;
    return;
  }
  TierBlock& block = *at_.block;
  VARVE_ASSERT(block.users[at_.extent] > 0);
  --block.users[at_.extent];
  const bool clean = !block.dirty && !block.doomed && block.lent == 0;
  if (clean && block.users[at_.extent] == 0 && block.state[at_.extent] == ExtentState::kPresent &&
      context_.pulls->is_tight()) {
    context_.tier.drop_extent(block, at_.extent);
    context_.metrics.pull_extents_streamed.add();
  }
  OpMetrics& metrics = context_.metrics;
  if (status.ok() && stage_ != Stage::kLost && !at_.ahead) {
    (from_dram_ ? metrics.pull_bytes_dram : metrics.pull_bytes_flash).add(at_.bytes);
    if (!from_dram_ && !read_here_) metrics.pull_bytes_shared.add(at_.bytes);
    if (at_.part != nullptr) {
      const auto tier = from_dram_ ? wire::TierKind::kDram : wire::TierKind::kFlash;
      at_.part->tiers |= wire::tier_bit(tier);
    }
  }
  const Begin was = at_;
  // Left out for being slow, and needed now that another has failed: it is to be read after all.
  const bool needed = at_.lost && stage_ == Stage::kRead && !unwanted() &&
                      at_.pull->is_readable({at_.item, at_.extent});
  const bool not_read = needed || (stage_ == Stage::kLead && !block.header_present);
  at_ = Begin{};
  if (read_here_) context_.pulls->reading_drop(was.bytes);
  context_.tier.unpin(block);
  if (was.pull != nullptr && was.ahead) {
    was.pull->ahead_done(*this, was.item);
  } else if (was.pull != nullptr) {
    was.pull->extent_done(*this, {was.item, was.extent}, was.bytes, posted_bytes_, status,
                          not_read);
  }
  while (FencePart* part = fences_.pop())
    part_back(*part, Status());
  context_.pulls->give_extent(*this);
}

SendTable::SendTable(OpContext& context, uint32_t sends_max) : context_(context), pool_(sends_max) {
  for (const auto& send : pool_.all()) {
    send->back = [](Message& message) {
      DataSend& back = *static_cast<DataSend*>(message.owner);
      ExtentOp& op = *static_cast<ExtentOp*>(back.owner);
      op.sends().returned(back);
    };
  }
}

void SendTable::queue(ExtentOp& op) {
  VARVE_ASSERT(op.frames_left() > 0);
  ExtentOp* after = waiting_.back();
  // Never before one whose frames are partly posted.
  while (after != nullptr && after->wanted_ns() > op.wanted_ns() &&
         !(after == waiting_.front() && front_partly_posted_)) {
    after = waiting_.previous(after);
  }
  waiting_.insert_after(after, &op);
  context_.reactor.make_ready(*this);
}

void SendTable::drop_unwanted() {
  for (ExtentOp* op = waiting_.front(); op != nullptr;) {
    ExtentOp* following = waiting_.next(op);
    if (op->unwanted()) {
      if (op == waiting_.front()) front_partly_posted_ = false;
      waiting_.remove(op);
      op->drop_frames();
    }
    op = following;
  }
  if (!waiting_.empty()) context_.reactor.make_ready(*this);
}

void SendTable::run() {
  while (ExtentOp* op = waiting_.front()) {
    if (op->unwanted()) {
      waiting_.remove(op);
      front_partly_posted_ = false;
      op->drop_frames();
      continue;
    }
    while (op->frames_left() > 0) {
      DataSend* send = pool_.take();
      if (send == nullptr) {
        front_partly_posted_ = true;  // (or not yet begun: keeping its place does no harm)
        return;
      }
      op->post(*send);
    }
    waiting_.remove(op);
    front_partly_posted_ = false;
  }
}

void SendTable::returned(DataSend& send) {
  VARVE_ASSERT(send.owner != nullptr);
  ExtentOp& op = *static_cast<ExtentOp*>(send.owner);
  const Status status = send.status;
  send.owner = nullptr;
  send.part = nullptr;
  pool_.give(&send);
  op.completed(status);
  if (!waiting_.empty()) context_.reactor.make_ready(*this);
}

}  // namespace varve
