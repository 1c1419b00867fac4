// Notes of homes, gathered to frames, one pull a frame.
#include "server/session/lost_out.h"

#include "server/session/lane.h"
#include "server/session/requests.h"

namespace varve {

LostOut::LostOut(SessionScope& scope) : scope_(scope) {
  frame_.owner = this;
  frame_.on_sent = [](SendRequest& request) {
    auto& self = *static_cast<LostOut*>(request.owner);
    VARVE_ASSERT(self.in_lane_);
    self.in_lane_ = false;
    self.scope_.something_ended();  // and what waits is next
  };
}

void LostOut::take(LostNote& note) {
  const auto& pull = *static_cast<const PendingPull*>(note.part->owner);
  SessionMetrics& metrics = scope_.context.metrics;
  VARVE_ASSERT(note.lost.block < pull.ids.count, note.lost.block, pull.ids.count);
  VARVE_ASSERT(note.lost.extent < kExtentsMax, note.lost.extent);
  if (pull.stopped() || scope_.over()) {
    metrics.lost_dropped.add();
    return post_back(note);
  }
  (note.lost.state == wire::LostState::kLate ? metrics.late_extents : metrics.lost_extents).add();
  waiting_.push(&note);
  scope_.context.reactor.make_ready(scope_.task);
}

void LostOut::drop(const PendingPull& pull) {
  Queue<LostNote, &LostNote::next> kept;
  while (LostNote* note = waiting_.pop()) {
    if (note->part->owner != &pull) {
      kept.push(note);
      continue;
    }
    scope_.context.metrics.lost_dropped.add();
    post_back(*note);
  }
  waiting_.append(kept);
}

bool LostOut::waits(const PendingPull& pull) const {
  for (const LostNote* note = waiting_.front(); note != nullptr; note = note->next) {
    if (note->part->owner == &pull) return true;
  }
  return false;
}

void LostOut::run() {
  if (in_lane_ || waiting_.empty() || scope_.over()) return;
  send_frame();
}

void LostOut::send_frame() {
  SessionContext& context = scope_.context;
  Lane* lane = scope_.urgent;
  if (lane == nullptr || lane->closing()) return;  // on_lane_closed knows why
  if (!lane->can_send(0)) {
    return scope_.fail(Status::overloaded("the urgent lane is full: the client reads nothing"));
  }
  const auto* pull = static_cast<const PendingPull*>(waiting_.front()->part->owner);
  std::vector<wire::LostExtent>& rows = context.lost_rows;
  VARVE_ASSERT(rows.capacity() >= wire::kLostMax);
  rows.clear();
  Queue<LostNote, &LostNote::next> kept;
  while (LostNote* note = waiting_.pop()) {
    if (note->part->owner != pull || rows.size() == wire::kLostMax) {
      kept.push(note);
      continue;
    }
    rows.push_back(note->lost);
    post_back(*note);
  }
  waiting_.append(kept);
  frame_.head = context.encoder().lost(pull->op, rows);
  frame_.payload_count = 0;
  in_lane_ = true;
  context.metrics.lost_frames.add();
  lane->send(frame_);
}

void LostOut::post_back(LostNote& note) {
  VARVE_ASSERT(note.back != nullptr);
  note.message.deliver = note.back;
  note.message.owner = &note;
  scope_.context.post_to_home(*note.part, note.message);
}

}  // namespace varve
