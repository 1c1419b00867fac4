// What each domain asked for and how that ended: one row of counters for each name.
//
// Each id of a MATCH and each block of a PULL has exactly one outcome. What an engine did not ask
// at all (bypassed) no server can know: the client counts that (`ClientCounters::breaker_answers`).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/metrics/metrics.h"
#include "server/tenant/tenant.h"

namespace varve {

enum class RequestOutcome : uint8_t {
  kHit,
  kMiss,
  kRefused,    // a limit, or a request that cannot be
  kError,      // something failed
  kTimeout,    // a deadline or a lease passed
  kCancelled,  // by whoever asked
};
inline constexpr uint32_t kRequestOutcomes = 6;
const char* outcome_name(RequestOutcome outcome);
// How what was asked for and not given ended.
RequestOutcome outcome_of(Code code);

struct DomainCounts {
  std::string name;
  uint32_t id = 0;  // the latest domain of that name
  Gauge sessions;
  Counter match_ids[kRequestOutcomes], pull_blocks[kRequestOutcomes];
  Counter match_hits_dram, match_hits_flash;  // together match_ids of kHit
  Counter pushed_blocks, pushed_bytes, pulled_bytes, purged_blocks;
  Counter pulled_dram, pulled_flash;  // together pulled_bytes
};

class DomainMetrics {
 public:
  // Names in a boot; what comes later shares one row.
  static constexpr uint32_t kRowsMax = 2 * kNodeDomainsMax;
  static constexpr const char* kOthers = "(others)";     // no name of a domain
  void introduce(const Domain& domain, MetricSet* set);  // `set` may be null: not registered yet
  DomainCounts* find(uint32_t id);                       // null: it was not introduced
  void register_in(MetricSet& set) const;

 private:
  DomainCounts& row_of(const std::string& name, MetricSet* set);
  static void register_row(const DomainCounts& row, MetricSet& set);
  std::vector<std::unique_ptr<DomainCounts>> rows_;
};

}  // namespace varve
