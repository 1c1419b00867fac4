// The queue of each log, first come, first written.
#include "server/flash/kill_pump.h"

#include <cinttypes>

namespace varve::flash {

namespace {

// What keeps blocks from being evicted ends by time.
constexpr Nanos kRetryNs = 50 * kMillisecond;
// Reclaim, which may evict, is asked less often.
constexpr Nanos kAskNs = 250 * kMillisecond;

}  // namespace

KillPump::KillPump(Reactor& reactor) : reactor_(reactor) {
  retry_.owner = this;
  retry_.on_fire = [](Timer& timer) { static_cast<KillPump*>(timer.owner)->retry(); };
}

KillPump::~KillPump() {
  reactor_.cancel(retry_);
}

void KillPump::add(Target& target, SegmentWriter& writer, ReclaimOp& reclaim) {
  VARVE_ASSERT(target.index() == lanes_.size(), target.index());
  lanes_.push_back({target, writer, reclaim, 0});
}

void KillPump::push(SliceLog& log, Kill& kill) {
  VARVE_ASSERT(kill.on_done != nullptr && kill.limit.target == 0);
  log.kills.push(&kill);
  ++lanes_[log.target()].waiting;
  changed(log);
}

bool KillPump::idle() const {
  for (const Lane& lane : lanes_) {
    if (lane.waiting > 0) return false;
  }
  return true;
}

void KillPump::retry() {
  for (const Lane& lane : lanes_) {
    for (const auto& log : lane.target.logs) {
      if (log != nullptr) log->kills_wait = false;
    }
  }
  wake();
}

void KillPump::run() {
  for (Lane& lane : lanes_) {
    for (size_t s = 0; s < lane.target.logs.size() && lane.waiting > 0; ++s) {
      if (lane.target.logs[s] != nullptr) pump(lane, *lane.target.logs[s]);
    }
  }
}

void KillPump::pump(Lane& lane, SliceLog& log) {
  while (!log.kills.empty()) {
    const bool over = lane.target.draining || !lane.target.ok();
    if (!over && (!log.ready || log.kills_wait)) return;
    const Kill& first = *log.kills.front();
    const bool full = !over && log.kills_full(first.domain, first.domains);
    OpenSegment* open = over || full ? nullptr : log.take_kill();
    if (!over && !full && open == nullptr) return wait_for_page(lane, log);
    Kill& kill = *log.kills.pop();
    VARVE_ASSERT(lane.waiting > 0);
    --lane.waiting;
    if (open != nullptr) {
      lane.writer.kill(log, *open, kill);
      continue;
    }
    if (full) say_full(lane, log, kill.domain);
    kill.status = full ? Status::no_space("the slice has as many KILL records as the domain may")
                       : Status::unavailable("a purge on a target that failed, or in a drain");
    kill.on_done(kill);
  }
}

// As a reservation that is refused: reclaim makes room.
void KillPump::wait_for_page(Lane& lane, SliceLog& log) {
  VARVE_ASSERT(!log.kills.empty() && log.ready);
  lane.target.metrics.kill_waits.add();
  log.kills_wait = true;
  if (!retry_.armed()) reactor_.arm(retry_, kRetryNs);
  if (reactor_.now_ns() < log.kills_ask_ns) return;
  log.kills_ask_ns = reactor_.now_ns() + kAskNs;
  if (!log.room_refused) log.room_refused_pages = 1;
  log.room_refused = true;
  lane.reclaim.wake();
}

void KillPump::say_full(const Lane& lane, const SliceLog& log, uint32_t domain) {
  lane.target.metrics.kills_refused.add();
  uint64_t swallowed = 0;
  if (!full_log_.admit(reactor_.now_ns(), &swallowed)) return;
  logf(LogLevel::kWarn, "flash",
       "target %u slice %u: %" PRIu64
       " pages, all that it may or domain %u may have of it, are KILL records of blocks that were "
       "purged one by one; further purges of its blocks are refused (no_space) until new data has "
       "turned the log over (never for "
       "records that a target which is away has not seen): purge the lineage or the domain, which "
       "needs none (%" PRIu64 " more times since the last line)",
       log.target(), log.slice(), log.kill_pages(), domain, swallowed);
}

}  // namespace varve::flash
