// Rows of counters by name: a domain that is made anew under an old name goes on with its numbers.
#include "server/session/domain_metric.h"

namespace varve {

const char* outcome_name(RequestOutcome outcome) {
  static constexpr const char* kNames[kRequestOutcomes] = {"hit",   "miss",    "refused",
                                                           "error", "timeout", "cancelled"};
  return kNames[static_cast<uint8_t>(outcome)];
}

RequestOutcome outcome_of(Code code) {
  switch (code) {
    case Code::kOk:
      return RequestOutcome::kMiss;
    case Code::kInvalid:
    case Code::kUnauthorized:
    case Code::kQuota:
    case Code::kOverloaded:
    case Code::kNoSpace:
    case Code::kUnsupported:
      return RequestOutcome::kRefused;
    case Code::kTimedOut:
      return RequestOutcome::kTimeout;
    case Code::kCancelled:
      return RequestOutcome::kCancelled;
    case Code::kUnavailable:
    case Code::kCorrupt:
    case Code::kIo:
    case Code::kInternal:
      return RequestOutcome::kError;
  }
  return RequestOutcome::kError;
}

void DomainMetrics::introduce(const Domain& domain, MetricSet* set) {
  VARVE_ASSERT(domain.id != 0);
  row_of(domain.name, set).id = domain.id;
}

DomainCounts& DomainMetrics::row_of(const std::string& name, MetricSet* set) {
  const std::string wanted = rows_.size() < kRowsMax ? name : kOthers;
  for (const auto& row : rows_) {
    if (row->name == name || row->name == wanted) return *row;
  }
  VARVE_ASSERT(rows_.size() <= kRowsMax, rows_.size());
  rows_.push_back(std::make_unique<DomainCounts>());
  rows_.back()->name = wanted;
  if (set != nullptr) register_row(*rows_.back(), *set);
  return *rows_.back();
}

DomainCounts* DomainMetrics::find(uint32_t id) {
  for (const auto& row : rows_) {
    if (row->id == id) return row.get();
  }
  return rows_.size() > kRowsMax ? rows_.back().get() : nullptr;
}

void DomainMetrics::register_in(MetricSet& set) const {
  for (const auto& row : rows_)
    register_row(*row, set);
}

void DomainMetrics::register_row(const DomainCounts& row, MetricSet& set) {
  const std::string domain = "domain=\"" + row.name + "\"";
  for (uint32_t i = 0; i < kRequestOutcomes; ++i) {
    const std::string labels =
        domain + ",outcome=\"" + outcome_name(static_cast<RequestOutcome>(i)) + "\"";
    set.add({"varve_domain_match_ids_total", labels,
             "Ids that MATCH asked for, by domain and outcome, each once."},
            &row.match_ids[i]);
  }
  for (uint32_t i = 0; i < kRequestOutcomes; ++i) {
    const std::string labels =
        domain + ",outcome=\"" + outcome_name(static_cast<RequestOutcome>(i)) + "\"";
    set.add({"varve_domain_pull_blocks_total", labels,
             "Blocks that PULL asked for whole or by layers, by domain and outcome, each once."},
            &row.pull_blocks[i]);
  }
  set.add({"varve_domain_match_hits_total", domain + ",tier=\"dram\"",
           "Leading ids of MATCH that were hits, by domain and the tier that had them."},
          &row.match_hits_dram);
  set.add({"varve_domain_match_hits_total", domain + ",tier=\"flash\"", "The same, on flash."},
          &row.match_hits_flash);
  set.add({"varve_domain_sessions", domain, "Sessions open, by domain."}, &row.sessions);
  set.add({"varve_domain_pushed_blocks_total", domain, "Blocks committed, by domain."},
          &row.pushed_blocks);
  set.add({"varve_domain_received_bytes_total", domain, "Payload received into slabs, by domain."},
          &row.pushed_bytes);
  set.add({"varve_domain_sent_bytes_total", domain, "Payload handed to bulk lanes, by domain."},
          &row.pulled_bytes);
  set.add({"varve_domain_pull_bytes_total", domain + ",tier=\"dram\"",
           "Of these, by the tier that had it; what is followed is in DRAM."},
          &row.pulled_dram);
  set.add({"varve_domain_pull_bytes_total", domain + ",tier=\"flash\"", "The same, of flash."},
          &row.pulled_flash);
  set.add({"varve_domain_purged_blocks_total", domain,
           "Blocks that purges made unreachable, by domain."},
          &row.purged_blocks);
}

}  // namespace varve
