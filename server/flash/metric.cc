// Every counter of a target under its name.
#include "server/flash/metric.h"

#include "server/flash/flash.h"

namespace varve::flash {

const char* drop_reason_name(DropReason reason) {
  switch (reason) {
    case DropReason::kTorn:
      return "torn";
    case DropReason::kOlderAttempt:
      return "older_attempt";
    case DropReason::kKilled:
      return "killed";
    case DropReason::kOldGeneration:
      return "old_generation";
    case DropReason::kForeign:
      return "foreign";
    case DropReason::kRot:
      return "rot";
    case DropReason::kTargetLost:
      return "target_lost";
    case DropReason::kIndexFull:
      return "index_full";
    case DropReason::kReclaimed:
      return "reclaimed";
    case DropReason::kMedia:
      return "media";
  }
  return "unknown";
}

void TargetMetrics::register_in(MetricSet& set, const std::string& labels) const {
  const auto counter = [&](const char* name, const Counter& source, const char* help) {
    set.add({std::string("varve_flash_") + name, labels, help}, &source);
  };
  set.add({"varve_flash_target_ok", labels, "1: in use, 0: failed for a shard"}, &ok,
          GaugeMerge::kMin);
  counter("appends_total", appends, "fragments appended");
  counter("append_bytes_total", append_bytes, "bytes of fragments appended");
  counter("seals_total", seals, "segments sealed");
  counter("reads_total", reads, "verified reads");
  counter("read_bytes_total", read_bytes, "bytes of verified reads");
  counter("reads_corrupt_total", reads_corrupt, "reads that did not verify: rot");
  counter("reads_stale_total", reads_stale, "reads of a place that was given up");
  counter("reads_retried_total", reads_retried, "reads asked again after a media error");
  counter("reads_media_total", reads_media, "reads of places that the drive cannot read");
  counter("reads_failed_total", reads_failed, "reads that the device refused");
  set.add({"varve_flash_append_seconds", labels, "append to acknowledgement"}, &append_seconds);
  set.add({"varve_flash_read_seconds", labels, "read to verified"}, &read_seconds);
  const char* sources[] = {"checkpoint", "footer", "tail"};
  for (size_t i = 0; i < 3; ++i) {
    const std::string of = labels + ",source=\"" + sources[i] + "\"";
    set.add({"varve_flash_recovered_total", of, "fragments recovered"}, &recovered[i]);
    set.add({"varve_flash_recovered_bytes_total", of, "bytes recovered"}, &recovered_bytes[i]);
  }
  const auto dropped = [&](const char* reason, const Counter& count, const Counter& bytes) {
    const std::string of = labels + ",reason=\"" + reason + "\"";
    set.add({"varve_flash_dropped_total", of, "fragments found at recovery and not kept"}, &count);
    set.add({"varve_flash_dropped_bytes_total", of,
             "their bytes, as far as anything that verifies says how many"},
            &bytes);
  };
  dropped("refused", refused, refused_bytes);
  dropped(drop_reason_name(DropReason::kOldGeneration), dropped_generation,
          dropped_generation_bytes);
  dropped(drop_reason_name(DropReason::kTorn), dropped_torn, dropped_torn_bytes);
  dropped(drop_reason_name(DropReason::kRot), dropped_rot, dropped_rot_bytes);
  counter("unreadable_segments_total", unreadable_segments,
          "segments whose header cannot be read and that have no footer");
  counter("reclaimed_segments_total", reclaimed_segments, "segments erased");
  counter("reinserted_total", reinserted, "fragments copied by reclaim");
  counter("reinserted_bytes_total", reinserted_bytes, "bytes copied by reclaim");
  counter("reclaim_dropped_total", reclaim_dropped, "fragments not worth copying");
  counter("reclaim_unaccounted_total", reclaim_unaccounted,
          "segments kept because their footer does not list all that lives there");
  counter("reclaim_rot_total", reclaim_rot, "rot found by reclaim");
  counter("kills_total", kills, "KILL records appended");
  counter("kills_recovered_total", kills_recovered, "KILL records found at recovery");
  counter("kills_copied_total", kills_copied, "KILL records that reclaim had to keep");
  counter("kills_dropped_total", kills_dropped, "KILL records whose work is done");
  counter("kill_waits_total", kill_waits, "times that a KILL record waited for reclaim");
  counter("kills_refused_total", kills_refused, "KILL records beyond what their slice may have");
  set.add({"varve_flash_kills_live", labels, "KILL records kept, a page each"}, &kills_live);
  counter("raises_total", raises, "superblocks written with new generations");
  counter("room_wanted_total", room_wanted, "evictions asked for");
  counter("checkpoints_total", checkpoints, "checkpoints written");
  counter("checkpoint_entries_total", checkpoint_entries, "fragments in them");
  counter("scrubbed_total", scrubbed, "fragments scrubbed");
  counter("scrubbed_bytes_total", scrubbed_bytes, "bytes scrubbed");
  counter("scrub_rot_total", scrub_rot, "rot found by scrub");
  counter("scrub_passes_total", scrub_passes, "passes of scrub that came to their end");
}

}  // namespace varve::flash
