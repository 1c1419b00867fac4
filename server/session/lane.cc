// Lane: states of one link from accept to fence.
#include "server/session/lane.h"

#include <algorithm>
#include <utility>

namespace varve {

Lane::Lane(SessionContext& context) : context_(context) {
  timer_.owner = this;
  timer_.on_fire = [](Timer& timer) {
    auto& lane = *static_cast<Lane*>(timer.owner);
    const Nanos owed_ns = lane.context_.reactor.owed_ns(lane.handshake_ns_);
    if (lane.state_ == State::kUnnamed && owed_ns > 0) {  // its HELLO may wait to be read
      return lane.context_.reactor.arm(timer, owed_ns);
    }
    lane.close(lane.state_ == State::kRefused ? lane.close_cause_
                                              : Status::timed_out("no HELLO in time"));
  };
  refusal_.owner = this;
  refusal_.on_sent = [](SendRequest& request) {
    auto& lane = *static_cast<Lane*>(request.owner);
    if (lane.state_ == State::kRefused) lane.close(lane.close_cause_);
  };
}

void Lane::open(std::unique_ptr<Link> link, LaneUser& user, LanePool& pool, Nanos handshake_ns) {
  VARVE_ASSERT(state_ == State::kFree);
  VARVE_ASSERT(link != nullptr);
  state_ = State::kUnnamed;
  link_ = std::move(link);
  user_ = &user;
  pool_ = &pool;
  receive_.active = false;
  was_named_ = false;
  ++pool.unnamed_;
  context_.metrics.lanes.add(1);
  handshake_ns_ = handshake_ns;
  context_.reactor.arm(timer_, handshake_ns);
  link_->set_head_bytes_max(std::min(kHelloHeadBytesMax, context_.link_head_bytes_max));
  link_->start(*this);
}

void Lane::name(State kind, LaneUser& user) {
  VARVE_ASSERT(state_ == State::kUnnamed);
  VARVE_ASSERT(kind == State::kUrgent || kind == State::kBulk);
  context_.reactor.cancel(timer_);
  state_ = kind;
  link_->set_head_bytes_max(context_.link_head_bytes_max);
  user_ = &user;
  was_named_ = true;
  --pool_->unnamed_;
}

void Lane::refuse(uint64_t op, Status cause, std::string_view text) {
  VARVE_ASSERT(!cause.ok());
  VARVE_ASSERT(text.size() <= wire::kTextBytesMax, text.size());
  if (state_ == State::kRefused || state_ == State::kClosing) return;
  if (link_->closing() || !link_->can_send(0)) return close(cause);
  state_ = State::kRefused;
  close_cause_ = cause;
  refusal_.head = context_.encoder().refused(op, cause.code(), text.empty() ? cause.what() : text);
  refusal_.payload_count = 0;
  context_.reactor.arm(timer_, kRefusalNs);
  link_->send(refusal_);
}

void Lane::close(Status cause) {
  VARVE_ASSERT(state_ != State::kFree);
  if (state_ == State::kClosing) return;
  state_ = State::kClosing;
  context_.reactor.cancel(timer_);
  link_->close(cause);
}

Status Lane::place(ConstByteSpan head, uint32_t payload_bytes, Placement& where) {
  if (state_ == State::kRefused || state_ == State::kClosing) return {};  // dropped
  return user_->on_place(*this, head, payload_bytes, where);
}

void Lane::on_message(ConstByteSpan head, uint32_t payload_bytes) {
  // What was being received when the lane was refused is over for its grant, too.
  if (state_ == State::kRefused || state_ == State::kClosing) return;
  user_->on_frame(*this, head, payload_bytes);
}

void Lane::on_closed(Status cause) {
  context_.reactor.cancel(timer_);
  state_ = State::kClosing;
  context_.metrics.lanes.add(-1);
  user_->on_lane_closed(*this, cause);
  VARVE_ASSERT(!receive_.active || receive_.grant == nullptr);
  pool_->closed(*this);
}

LanePool::LanePool(SessionContext& context, uint32_t lanes_max)
    : context_(context), pool_(lanes_max, context) {}

void LanePool::closed(Lane& lane) {
  closed_.push(&lane);
  context_.reactor.make_ready(*this);
}

void LanePool::run() {
  while (Lane* lane = closed_.pop()) {
    lane->link_.reset();
    if (!lane->was_named_) --unnamed_;
    lane->user_ = nullptr;
    lane->state_ = Lane::State::kFree;
    pool_.give(lane);
  }
}

}  // namespace varve
