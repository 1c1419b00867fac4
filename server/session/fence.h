// Fences: CANCEL of one extent of a pull, on its way to the extent's home and back (I8).
//
// The home answers when no frame of the extent is on a lane and none will be; so does one whose
// pull is over by then. Bounded in each session and in sum: beyond that the session goes, which
// fences everything it has, so that no fence is ever lost.
#pragma once

#include "server/session/context.h"

namespace varve {

class Fences;

struct PendingFence : ListHook {
  FencePart part;
  Fences* fences = nullptr;
  uint64_t op = 0;      // of the CANCEL frame
  bool at_end = false;  // no part of it is out: it waits for the end of its op
  wire::Fenced answer;
  Nanos began_ns = 0;
};

class Fences {
 public:
  explicit Fences(SessionScope& scope) : scope_(scope) {}
  // FENCED follows when the home of `pull` has sent the part back; at most one is owed per extent.
  void fence(uint64_t op, const wire::Cancel& body, const PullPart& pull);
  // Of a follow, whose extents come from more than one place: when all of it has ended.
  void fence_at_end(uint64_t op, const wire::Cancel& body);
  void op_ended(uint64_t target_op);
  uint32_t count() const { return static_cast<uint32_t>(live_.size()); }

 private:
  bool owed(const wire::Cancel& body) const;
  PendingFence* take(uint64_t op, const wire::Cancel& body);
  void answer(PendingFence& fence);
  static void on_fenced(Part& part);
  SessionScope& scope_;
  List<PendingFence> live_;
};

}  // namespace varve
