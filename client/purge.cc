// ClientPurgeOp: what was refused for now is asked for again; what may have been done is not.
#include "client/purge.h"

namespace varve {

namespace {

// What the code alone does not say: how far it got, and what to do.
const char* refusal(Code code) {
  switch (code) {
    case Code::kNoSpace:
      return "no room for what a purge leaves on the targets; purge the lineage, or the domain";
    case Code::kUnavailable:
      return "no target works, or the daemon stops: what was purged may be back after a restart; "
             "purge it again";
    case Code::kTimedOut:
      return "it goes on at the daemon; purge it again to know when it is done";
    default:
      return "the daemon refused the purge";
  }
}

}  // namespace

ClientPurgeOp::ClientPurgeOp(Core& core, OpId op, PurgeRequest request)
    : ClientOp(core, op, request.tag, request.deadline_ns), request_(std::move(request)) {}

void ClientPurgeOp::run() {
  switch (stage_) {
    case Stage::kAsk:
      if (!stop_.ok()) return finish(stop_);
      if (core_.session().state() == SessionState::kWaiting) {
        return finish(core_.session().last_error());
      }
      if (!ask()) return;  // woken by on_ready, FORMAT_OK, the tick, or when the pause is over
      stage_ = Stage::kAnswer;
      return;
    case Stage::kAnswer:
      if (!stop_.ok()) return finish(stop_);
      if (answered_) finish(Status());
      return;
    case Stage::kDone:
      return;
  }
}

bool ClientPurgeOp::ask() {
  ClientSession& session = core_.session();
  wire::Purge body;
  body.kind = request_.kind;
  if (request_.kind == wire::PurgeKind::kLineage) {
    ClientFormat* format = core_.find_format(request_.format);
    VARVE_ASSERT(format != nullptr, request_.format);
    if (!format->refused.ok()) {
      cancel(format->refused);
      return false;
    }
    if (format->handle == 0) return false;
    body.format = format->handle;
  }
  if (!session.usable() || !retry_now()) return false;
  body.count = static_cast<uint32_t>(request_.ids.size());
  wire_op_ = core_.next_wire_op();
  if (!session.send_urgent(session.encoder().purge(wire_op_, body, request_.ids))) {
    retry_later(Status::overloaded("the urgent lane is full"));
    return false;
  }
  core_.route(wire_op_, this);
  asked();
  return true;
}

void ClientPurgeOp::on_frame(const wire::Frame& frame) {
  const auto* answer = std::get_if<wire::PurgedView>(&frame.body);
  if (answer == nullptr || stage_ != Stage::kAnswer || answered_) return;
  core_.unroute(wire_op_);
  const auto code = static_cast<Code>(answer->body.code);
  // Refused before anything was done; `unavailable` is not: some of it may be unreachable already.
  if (code == Code::kOverloaded || code == Code::kQuota) {
    stage_ = Stage::kAsk;
    return retry_later(Status(code, "the daemon did not take the purge until the deadline"));
  }
  result_ = PurgeResult{.generation = answer->body.generation,
                        .blocks = answer->body.blocks,
                        .bytes = answer->body.bytes,
                        .erased_ns = answer->body.erased_ns};
  answered_ = true;
  if (code != Code::kOk) return cancel(Status(code, refusal(code)));
  wake();
}

void ClientPurgeOp::on_lost(Status cause) {
  VARVE_ASSERT(stage_ != Stage::kDone);
  core_.unroute(wire_op_);
  cancel(cause);
}

void ClientPurgeOp::finish(Status status) {
  stage_ = Stage::kDone;
  core_.unroute(wire_op_);
  Event e = event(Event::Kind::kPurged);
  e.status = status;
  e.purged = result_;
  core_.finish(*this, std::move(e));
}

}  // namespace varve
