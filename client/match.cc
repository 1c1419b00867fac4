// ClientMatchOp: a daemon known to be down is a miss with its reason, at once; one lost under way
// is asked once more.
#include "client/match.h"

#include <algorithm>

namespace varve {

ClientMatchOp::ClientMatchOp(Core& core, OpId op, MatchRequest request)
    : ClientOp(core, op, request.tag, request.deadline_ns), request_(std::move(request)) {
  VARVE_ASSERT(!request_.ids.empty());
}

void ClientMatchOp::run() {
  switch (stage_) {
    case Stage::kAsk:
      if (!stop_.ok()) return finish(stop_);
      if (!admitted_ && !core_.breaker().admit(core_.reactor().now_ns())) {
        return finish(Breaker::refusal());
      }
      admitted_ = true;
      // Known to be down: a miss now beats a wait inside the engine's scheduler.
      if (core_.session().state() == SessionState::kWaiting && !resent_) {
        return finish(core_.session().last_error());
      }
      if (!ask()) return;  // woken by on_ready or by FORMAT_OK
      stage_ = Stage::kAnswer;
      return;
    case Stage::kAnswer:
      if (!stop_.ok()) return finish(stop_);
      if (!answered_) return;
      answered_ = false;
      if (more_ && asked_ < request_.ids.size()) {
        stage_ = Stage::kAsk;
        return wake();
      }
      return finish(Status());
    case Stage::kDone:
      return;
  }
}

bool ClientMatchOp::ask() {
  ClientFormat* format = core_.find_format(request_.format);
  if (!format->refused.ok()) {
    cancel(format->refused);
    return false;
  }
  if (!core_.session().usable() || format->handle == 0 || !retry_now()) return false;
  if (each() && !core_.session().has_feature(wire::kFeatureEach)) {
    cancel(Status::unsupported("the daemon is too old to be asked of each id: a newer varved"));
    return false;
  }
  if (!take_slot(Pace::Kind::kMatch, started_ns_)) return false;
  VARVE_ASSERT(asked_ < request_.ids.size(), asked_);
  batch_ = std::min<uint32_t>(static_cast<uint32_t>(request_.ids.size()) - asked_, wire::kIdsMax);
  wire::Match body;
  body.format = format->handle;
  body.count = batch_;
  body.lease_ms = request_.lease_ms;
  body.of = request_.of;
  wire_op_ = core_.next_wire_op();
  asked_ns_ = core_.reactor().now_ns();
  const auto ids = std::span(request_.ids).subspan(asked_, batch_);
  if (!core_.session().send_urgent(core_.session().encoder().match(wire_op_, body, ids))) {
    give_slot();
    retry_later(Status::overloaded("the urgent lane is full"));
    return false;
  }
  core_.route(wire_op_, this);
  asked();
  return true;
}

void ClientMatchOp::on_frame(const wire::Frame& frame) {
  const auto* answer = std::get_if<wire::MatchedView>(&frame.body);
  if (answer == nullptr || stage_ != Stage::kAnswer || answered_) return;
  core_.unroute(wire_op_);
  give_slot();
  if (const auto code = static_cast<Code>(answer->body.code); is_for_now(code)) {
    stage_ = Stage::kAsk;
    return retry_later(Status(code, "the daemon refused the match until the deadline"));
  }
  take(*answer);
  answered_ = true;
  wake();
}

void ClientMatchOp::take(const wire::MatchedView& answer) {
  const wire::Matched& body = answer.body;
  VARVE_ASSERT(batch_ > 0 && asked_ + batch_ <= request_.ids.size(), asked_, batch_);
  if (body.code != static_cast<uint8_t>(Code::kOk)) {
    return cancel(Status(static_cast<Code>(body.code), "the daemon refused the match"));
  }
  if (body.n_blocks > batch_)
    return cancel(Status::invalid("MATCHED names more blocks than asked"));
  if (each() && body.n_blocks != batch_)
    return cancel(Status::invalid("MATCHED of each does not name every id"));
  if (body.lease != 0) take_lease(body);
  take_tiers(answer);
  result_.recovering |= body.recovering != 0;
  if (asked_ == 0) result_.first_layer_ns_estimate = body.first_layer_ns;
  result_.last_layer_ns_estimate += body.last_layer_ns;
  more_ = body.n_blocks == batch_;
  asked_ += batch_;
}

void ClientMatchOp::take_lease(const wire::Matched& body) {
  if (lease_.parts.empty()) {
    lease_.boot_id = body.boot_id;
    lease_.expires_ns = kNever;
    lease_.lease_ms = ~0u;
  }
  ServerLease part{body.lease, {}};
  for (uint32_t i = 0; i < body.n_blocks; ++i) {
    part.ids.push_back(request_.ids[asked_ + i].prefix64());
  }
  lease_.parts.push_back(std::move(part));
  lease_.lease_ms = std::min(lease_.lease_ms, body.lease_ms);
  // Counted from the question: never later than the daemon counts.
  lease_.expires_ns = std::min(lease_.expires_ns, asked_ns_ + body.lease_ms * kMillisecond);
}

void ClientMatchOp::take_tiers(const wire::MatchedView& answer) {
  for (uint32_t i = 0; i < answer.tiers.size(); ++i) {
    const bool hit = !each() || answer.tiers[i] != wire::TierKind::kNone;
    result_.tiers.push_back(answer.tiers[i]);
    result_.n_blocks += hit ? 1 : 0;
    if (each()) result_.codes.push_back(hit ? Code::kOk : Code::kUnavailable);
  }
}

void ClientMatchOp::on_lost(Status cause) {
  VARVE_ASSERT(stage_ != Stage::kDone);
  core_.unroute(wire_op_);
  lease_ = ClientLease();  // it went with the session
  if (stage_ == Stage::kAsk || !stop_.ok()) {
    if (resent_ && stop_.ok()) stop_ = cause;  // the second session did not come
    return wake();
  }
  if (answered_) return wake();
  if (resent_) return cancel(cause);
  resent_ = true;
  stage_ = Stage::kAsk;
  // What an earlier session counted is void: ask from the start.
  asked_ = 0;
  more_ = true;
  result_ = Event();
}

void ClientMatchOp::finish(Status status) {
  VARVE_ASSERT(stage_ != Stage::kDone);
  VARVE_ASSERT(result_.n_blocks <= request_.ids.size(), result_.n_blocks);
  stage_ = Stage::kDone;
  core_.unroute(wire_op_);
  Event done = event(Event::Kind::kMatched);
  result_.kind = done.kind;
  result_.op = done.op;
  result_.tag = done.tag;
  result_.done_ns = done.done_ns;
  ClientCounters& count = core_.count();
  ++count.matches;
  count.match_ids += request_.ids.size();
  if (!status.ok()) {
    for (const ServerLease& part : lease_.parts)
      core_.leases().release_on_wire(part.lease);
    result_.n_blocks = 0;
    result_.tiers.clear();
    if (each()) result_.codes.assign(request_.ids.size(), status.code());
  } else if (!lease_.parts.empty()) {
    result_.lease = core_.leases().add(std::move(lease_));
    result_.lease_ns = core_.leases().left_ns(result_.lease);
  }
  count.hit_ids += result_.n_blocks;
  result_.status = status;
  core_.finish(*this, std::move(result_));
}

}  // namespace varve
