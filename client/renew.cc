// ClientRenewOp: while it asks the lease counts as ending at the sooner of both times (L1).
#include "client/renew.h"

#include <algorithm>

namespace varve {

ClientRenewOp::ClientRenewOp(Core& core, OpId op, const RenewRequest& request, For who)
    : ClientOp(core, op, request.tag, request.deadline_ns), request_(request), for_(who) {
  VARVE_ASSERT(request.lease_ms > 0);
}

void ClientRenewOp::run() {
  switch (stage_) {
    case Stage::kAsk:
      if (!stop_.ok()) return finish(stop_);
      if (!ask()) return;  // woken by the tick, or when the pause is over
      stage_ = Stage::kAnswer;
      return;
    case Stage::kAnswer:
      if (!stop_.ok()) return finish(stop_);
      if (owed_ > 0) return;
      if (is_for_now(code_)) {
        stage_ = Stage::kAsk;
        wire_ops_.clear();
        return retry_later(Status(code_, "the daemon refused the renewal until the deadline"));
      }
      return finish(code_ == Code::kOk ? Status()
                                       : Status(code_, "the daemon did not renew the lease"));
    case Stage::kDone:
      return;
  }
}

bool ClientRenewOp::ask() {
  ClientLease* lease = core_.leases().find_any(request_.lease);
  const bool begun = lease != nullptr && !wire_ops_.empty();
  if (lease == nullptr || (!begun && core_.leases().left_ns(request_.lease) == 0)) {
    cancel(Status::timed_out("the lease is over or of an earlier session"));
    return false;
  }
  if ((lease->renewal != 0 && lease->renewal != id_) || !retry_now()) return false;  // L2
  ClientSession& session = core_.session();
  VARVE_ASSERT(!lease->parts.empty() && wire_ops_.size() < lease->parts.size());
  lease->renewal = id_;
  if (!begun) {
    asked_ns_ = now_ns();
    granted_ms_ = std::min(request_.lease_ms, session.hello().lease_ms_max);
    code_ = Code::kOk;
    lease->expires_ns = std::min(lease->expires_ns, asked_ns_ + granted_ms_ * kMillisecond);
  }
  while (wire_ops_.size() < lease->parts.size()) {
    const uint64_t wire_op = core_.next_wire_op();
    const wire::Renew body{lease->parts[wire_ops_.size()].lease, request_.lease_ms};
    if (!session.send_urgent(session.encoder().renew(wire_op, body))) {
      retry_later(Status::overloaded("the urgent lane is full"));
      return false;
    }
    core_.route(wire_op, this);
    wire_ops_.push_back(wire_op);
    ++owed_;
  }
  asked();
  return true;
}

void ClientRenewOp::on_frame(const wire::Frame& frame) {
  const auto* answer = std::get_if<wire::RenewedView>(&frame.body);
  if (answer == nullptr) return;
  VARVE_ASSERT(owed_ > 0 && stage_ != Stage::kDone);
  core_.unroute(frame.header.op);
  --owed_;
  const auto code = static_cast<Code>(answer->body.code);
  if (code == Code::kOk) {
    granted_ms_ = std::min(granted_ms_, answer->body.lease_ms);
  } else {
    take(code);
  }
  if (owed_ == 0) wake();
}

// One that is over ends the whole lease; what may be asked again comes last.
void ClientRenewOp::take(Code code) {
  if (code == Code::kTimedOut || code_ == Code::kOk || is_for_now(code_)) code_ = code;
}

void ClientRenewOp::on_lost(Status cause) {
  VARVE_ASSERT(stage_ != Stage::kDone);
  for (const uint64_t wire_op : wire_ops_)
    core_.unroute(wire_op);
  cancel(cause);  // the lease went with its session
}

void ClientRenewOp::finish(Status status) {
  VARVE_ASSERT(stage_ != Stage::kDone && (!status.ok() || owed_ == 0), owed_);
  stage_ = Stage::kDone;
  for (const uint64_t wire_op : wire_ops_)
    core_.unroute(wire_op);
  ClientLeases& leases = core_.leases();
  ClientLease* lease = leases.find_any(request_.lease);
  const bool ours = lease != nullptr && lease->renewal == id_;
  if (ours) lease->renewal = 0;
  if (status.ok() && !ours) status = Status::timed_out("the lease was released meanwhile");
  if (status.ok()) {
    lease->lease_ms = granted_ms_;
    lease->expires_ns = asked_ns_ + granted_ms_ * kMillisecond;
    ++core_.count().renewed_leases;
  } else if (ours && code_ == Code::kTimedOut) {
    leases.release(request_.lease);  // its other parts are of no use
    ++core_.count().lapsed_leases;
  }
  if (for_ == For::kUse) return core_.end(*this);
  Event e = event(Event::Kind::kRenewed);
  e.status = status;
  e.lease = request_.lease;
  e.lease_ns = leases.left_ns(request_.lease);
  core_.finish(*this, std::move(e));
}

}  // namespace varve
