// ClientHoldsOp: a page begins where the last one ended; cursor 0 in an answer is the end.
#include "client/holds.h"

#include <algorithm>

namespace varve {

ClientHoldsOp::ClientHoldsOp(Core& core, OpId op, const HoldsRequest& request)
    : ClientOp(core, op, request.tag, request.deadline_ns) {}

void ClientHoldsOp::run() {
  switch (stage_) {
    case Stage::kAsk:
      if (!stop_.ok()) return finish(stop_);
      if (core_.session().state() == SessionState::kWaiting) {
        return finish(core_.session().last_error());
      }
      if (!ask()) return;  // woken by on_ready, the tick, or when the pause is over
      stage_ = Stage::kAnswer;
      return;
    case Stage::kAnswer:
      if (!stop_.ok()) return finish(stop_);
      if (!answered_) return;
      if (cursor_ == 0) return finish(Status());
      answered_ = false;
      stage_ = Stage::kAsk;
      return wake();
    case Stage::kDone:
      return;
  }
}

bool ClientHoldsOp::ask() {
  ClientSession& session = core_.session();
  if (!session.usable() || !retry_now()) return false;
  VARVE_ASSERT(stage_ == Stage::kAsk && !answered_);
  wire_op_ = core_.next_wire_op();
  if (!session.send_urgent(session.encoder().holds(wire_op_, {cursor_}))) {
    retry_later(Status::overloaded("the urgent lane is full"));
    return false;
  }
  core_.route(wire_op_, this);
  asked();
  return true;
}

void ClientHoldsOp::on_frame(const wire::Frame& frame) {
  const auto* page = std::get_if<wire::HeldView>(&frame.body);
  if (page == nullptr || stage_ != Stage::kAnswer || answered_) return;
  core_.unroute(wire_op_);
  if (const auto code = static_cast<Code>(page->body.code); is_for_now(code)) {
    stage_ = Stage::kAsk;
    return retry_later(Status(code, "the daemon did not list its holds until the deadline"));
  } else if (code != Code::kOk) {
    return cancel(Status(code, "the daemon did not list its holds"));
  }
  take(*page);
}

// Rows of rising numbers, none before the cursor, and a cursor behind them: so it comes to an end.
void ClientHoldsOp::take(const wire::HeldView& page) {
  VARVE_ASSERT(rows_.empty() || rows_.back().number < cursor_, cursor_);
  uint64_t next = cursor_;
  for (uint32_t i = 0; i < page.holds.size(); ++i) {
    const wire::Hold hold = page.holds[i];
    if (hold.hold < next) return cancel(Status::invalid("HELD: numbers that do not rise"));
    if (rows_.size() == kHoldRowsMax) {
      return cancel(Status::overloaded("holds: more than 65536; these are the first"));
    }
    next = hold.hold + 1;
    HoldRow row;
    row.session = hold.session;
    row.number = hold.hold;
    row.name.assign(hold.name, std::find(std::begin(hold.name), std::end(hold.name), '\0'));
    row.kind = hold.kind;
    row.age_ns = hold.age_ns;
    row.left_ns = hold.left_ns;
    row.bytes = hold.bytes;
    row.blocks = hold.count;
    rows_.push_back(std::move(row));
  }
  const uint64_t cursor = page.body.cursor;
  if (cursor != 0 && (page.holds.size() == 0 || cursor < next)) {
    return cancel(Status::invalid("HELD: a cursor that does not rise"));
  }
  cursor_ = cursor;
  answered_ = true;
  wake();
}

void ClientHoldsOp::on_lost(Status cause) {
  VARVE_ASSERT(stage_ != Stage::kDone);
  core_.unroute(wire_op_);
  cancel(cause);
}

void ClientHoldsOp::finish(Status status) {
  VARVE_ASSERT(stage_ != Stage::kDone && rows_.size() <= kHoldRowsMax, rows_.size());
  stage_ = Stage::kDone;
  core_.unroute(wire_op_);
  Event e = event(Event::Kind::kHolds);
  e.status = status;
  e.holds = std::move(rows_);
  core_.finish(*this, std::move(e));
}

}  // namespace varve
