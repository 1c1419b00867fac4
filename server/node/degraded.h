// Whether a node is worse than it should be, and why: one flag per reason, said when it changes.
#pragma once

#include <cstdint>
#include <vector>

#include "common/metrics/metrics.h"
#include "common/time/time.h"

namespace varve {

enum class DegradedReason : uint8_t {
  kTarget,
  kIoFallback,
  kNoSpace,
  kRecovering,
  kStalled,
  kNoHits,
  kThin
};
inline constexpr uint32_t kDegradedReasons = 7;
const char* degraded_name(DegradedReason reason);
const char* degraded_remedy(DegradedReason reason);

// Counted over a whole node, once a second.
struct DegradedSeen {
  uint64_t targets_failed = 0;
  uint64_t shards_on_fallback = 0;
  uint64_t shards_recovering = 0;
  uint64_t shards_stalled = 0;
  uint64_t refused_no_space = 0;  // since the start, as the rest
  uint64_t committed = 0, asked = 0, hits = 0;
  uint64_t blocks_thin = 0;
};

// What main knows beside the numbers.
struct NodeFacts {
  std::vector<bool> target_lost;  // before the start, one per target
  uint32_t drained = 0;           // bit t: target t was emptied, nobody misses it
  uint32_t shards_counted = 0;    // whose numbers are in the sum, be they of an earlier second
  uint32_t shards_on_fallback = 0, shards_stalled = 0;
};
// What the numbers of a second say about the state of the node.
DegradedSeen degraded_seen(const MetricSnapshot& sum, const NodeFacts& facts);

class Degraded {
 public:
  // "No space" is a state for as long as refusals keep coming, and this much longer.
  static constexpr Nanos kQuietNanos = 10 * kSecond;
  // Written and asked for this often and never hit: writers and readers mean different ids.
  static constexpr uint64_t kNoHitsMin = 1000;
  void see(const DegradedSeen& seen, Nanos now_ns);
  bool is(DegradedReason reason) const { return on_[static_cast<uint8_t>(reason)]; }
  bool any() const;

 private:
  void set(DegradedReason reason, bool on, uint64_t count);
  bool on_[kDegradedReasons] = {};
  uint64_t refused_before_ = 0;
  Nanos refused_ns_ = 0;
};

}  // namespace varve
