// Starts the KILL records of one shard's targets, in a turn of their own: none ends inside kill().
//
// A record goes to its slice's log when that has recovered and has a page for it. One without a
// page waits: the pump comes back by time alone, because what reclaim changes while it finds none
// would wake it again at once, and asks for evictions now and then only, a page being little.
// A slice that has as many records as it may (kills_full) takes no new one, nor is anything evicted
// for it.
#pragma once

#include <vector>

#include "server/flash/reclaim.h"

namespace varve::flash {

class KillPump final : public Task {
 public:
  explicit KillPump(Reactor& reactor);
  ~KillPump();
  KillPump(const KillPump&) = delete;
  KillPump& operator=(const KillPump&) = delete;

  void add(Target& target, SegmentWriter& writer, ReclaimOp& reclaim);  // in their order
  void push(SliceLog& log, Kill& kill);
  void wake() { reactor_.make_ready(*this); }  // a target failed, or a drain
  void changed(const SliceLog& log) {          // it recovered, or has other segments
    if (!log.kills.empty() && !log.kills_wait) wake();
  }
  bool idle() const;
  bool idle(uint32_t target) const { return lanes_[target].waiting == 0; }
  void run() override;
  const char* name() const override { return "flash.kill"; }

 private:
  struct Lane {
    Target& target;
    SegmentWriter& writer;
    ReclaimOp& reclaim;
    uint32_t waiting;  // records
  };
  void retry();
  void pump(Lane& lane, SliceLog& log);
  void wait_for_page(Lane& lane, SliceLog& log);
  void say_full(const Lane& lane, const SliceLog& log, uint32_t domain);

  Reactor& reactor_;
  std::vector<Lane> lanes_;
  Timer retry_;
  LogLimit full_log_{60 * kSecond};
};

}  // namespace varve::flash
