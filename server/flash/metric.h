// The counters of one target of one shard, in the words of this room.
//
// Plain numbers on their own core; registered once, by TargetMetrics::register_in.
#pragma once

#include <string>

#include "common/metrics/metrics.h"

namespace varve::flash {

struct TargetMetrics {
  Counter appends, append_bytes, seals;
  Counter reads, read_bytes, reads_corrupt, reads_stale, reads_failed;
  Counter reads_retried, reads_media;
  Histogram append_seconds, read_seconds;    // nanoseconds
  Counter recovered[3], recovered_bytes[3];  // by source: checkpoint, footer, tail
  Counter refused, dropped_generation, dropped_torn, dropped_rot, unreadable_segments;
  Counter refused_bytes, dropped_generation_bytes, dropped_torn_bytes, dropped_rot_bytes;
  Counter reclaimed_segments, reinserted, reinserted_bytes, reclaim_dropped, reclaim_rot;
  Counter reclaim_unaccounted;
  Counter kills, kills_recovered, kills_copied, kills_dropped, kill_waits, kills_refused, raises;
  Counter room_wanted, checkpoints, checkpoint_entries;
  Counter scrubbed, scrubbed_bytes, scrub_rot, scrub_passes;
  Gauge ok, kills_live;

  // `labels`: which target.
  void register_in(MetricSet& set, const std::string& labels) const;
};

}  // namespace varve::flash
