// LostOut: what homes cannot give, or are late with, on its way to the client as LOST frames.
//
// One frame at a time is in the urgent lane: notes that come meanwhile wait here, and with them
// their extents at home, so that a client which reads slowly slows its own pulls and nothing grows.
// A note goes back to its home as soon as a frame has taken what it says, before its pull's part
// does.
#pragma once

#include "server/session/context.h"

namespace varve {

class LostOut {
 public:
  explicit LostOut(SessionScope& scope);
  void take(LostNote& note);
  // What of this pull waits here goes back unsaid.
  void drop(const PendingPull& pull);
  void run();  // once a turn: what came is one frame for each pull
  bool idle() const { return waiting_.empty() && !in_lane_; }
  bool waits(const PendingPull& pull) const;

 private:
  void send_frame();
  void post_back(LostNote& note);
  SessionScope& scope_;
  Queue<LostNote, &LostNote::next> waiting_;
  SendRequest frame_;
  bool in_lane_ = false;
};

}  // namespace varve
