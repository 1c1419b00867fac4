// The flags and their lines: each reason is said when it comes and when it goes, never in between.
#include "server/node/degraded.h"

#include "common/base/base.h"

namespace varve {

const char* degraded_remedy(DegradedReason reason) {
  switch (reason) {
    case DegradedReason::kTarget:
      return "targets have failed: what no parity covers is a miss until they are back; bring them "
             "back and restart, or replace what is dead";
    case DegradedReason::kIoFallback:
      return "shards run without io_uring: slower; allow it and restart";
    case DegradedReason::kNoSpace:
      return "pushes are refused for want of space since the start, and nothing may be evicted: it "
             "is leased, or was there before the start, less than a minute ago (then wait); add "
             "targets or DRAM";
    case DegradedReason::kRecovering:
      return "shards still rebuild their index: what is not found yet is a miss; it ends by itself";
    case DegradedReason::kNoHits:
      return "ids asked for and none hit: so it is while new content is loaded; else compare the "
             "formats of writers and readers";
    case DegradedReason::kStalled:
      return "shards did not answer within a second; look at the load of the machine";
    case DegradedReason::kThin:
      return "blocks lack a fragment: the next drive may cost some of them; repair adds what there "
             "are targets for, else bring targets back or give more";
  }
  return "?";
}

const char* degraded_name(DegradedReason reason) {
  switch (reason) {
    case DegradedReason::kTarget:
      return "target";
    case DegradedReason::kIoFallback:
      return "io_fallback";
    case DegradedReason::kNoSpace:
      return "no_space";
    case DegradedReason::kRecovering:
      return "recovering";
    case DegradedReason::kStalled:
      return "stalled";
    case DegradedReason::kNoHits:
      return "no_hits";
    case DegradedReason::kThin:
      return "thin";
  }
  return "unknown";
}

DegradedSeen degraded_seen(const MetricSnapshot& sum, const NodeFacts& facts) {
  VARVE_ASSERT(!facts.target_lost.empty());
  DegradedSeen out;
  for (uint32_t t = 0; t < facts.target_lost.size(); ++t) {
    if ((facts.drained >> t & 1) != 0) continue;
    const std::string label = "target=\"" + std::to_string(t) + "\"";
    const int64_t ok = sum.number("varve_target_ok_shards", label);
    if (facts.target_lost[t] || ok < facts.shards_counted) ++out.targets_failed;
  }
  out.shards_on_fallback = facts.shards_on_fallback;
  out.shards_stalled = facts.shards_stalled;
  const auto counted = [&sum](const char* name, const char* labels) {
    return static_cast<uint64_t>(sum.number(name, labels));
  };
  out.shards_recovering = counted("varve_recovering", "");
  out.refused_no_space = counted("varve_reserve_refused_total", "reason=\"no_space\"");
  out.committed = counted("varve_push_committed_total", "ack=\"cached\"") +
                  counted("varve_push_committed_total", "ack=\"durable\"");
  out.asked = counted("varve_match_ids_total", "");
  out.hits = counted("varve_match_hits_total", "tier=\"dram\"") +
             counted("varve_match_hits_total", "tier=\"flash\"");
  out.blocks_thin = counted("varve_index_thin_blocks", "");
  return out;
}

void Degraded::see(const DegradedSeen& seen, Nanos now_ns) {
  VARVE_ASSERT(now_ns > 0);
  if (seen.refused_no_space > refused_before_) {
    refused_before_ = seen.refused_no_space;
    refused_ns_ = now_ns;
  }
  const bool refusing = refused_ns_ != 0 && now_ns - refused_ns_ < kQuietNanos;
  set(DegradedReason::kTarget, seen.targets_failed > 0, seen.targets_failed);
  set(DegradedReason::kIoFallback, seen.shards_on_fallback > 0, seen.shards_on_fallback);
  set(DegradedReason::kNoSpace, refusing, seen.refused_no_space);
  set(DegradedReason::kRecovering, seen.shards_recovering > 0, seen.shards_recovering);
  set(DegradedReason::kStalled, seen.shards_stalled > 0, seen.shards_stalled);
  set(DegradedReason::kThin, seen.blocks_thin > 0, seen.blocks_thin);
  const bool no_hits = seen.committed >= kNoHitsMin && seen.asked >= kNoHitsMin && seen.hits == 0;
  set(DegradedReason::kNoHits, no_hits, seen.asked);
}

bool Degraded::any() const {
  for (const bool on : on_) {
    if (on) return true;
  }
  return false;
}

void Degraded::set(DegradedReason reason, bool on, uint64_t count) {
  bool& now = on_[static_cast<uint8_t>(reason)];
  if (now == on) return;
  now = on;
  if (!on) return logf(LogLevel::kInfo, "main", "no longer degraded: %s", degraded_name(reason));
  // What ends by itself, or may be a use like any other, is no warning.
  const bool passing = reason == DegradedReason::kRecovering || reason == DegradedReason::kNoHits;
  logf(passing ? LogLevel::kInfo : LogLevel::kWarn, "main", "degraded (%s): %llu %s",
       degraded_name(reason), static_cast<unsigned long long>(count), degraded_remedy(reason));
}

}  // namespace varve
