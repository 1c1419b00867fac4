// PurgeLog: a purge of blocks ends with its answer or its life, one of a lineage maybe later.
#include "tools/ledger/purge_log.h"

#include <algorithm>

namespace varve::ledger {

uint32_t PurgeLog::ask(std::vector<BaseId> bases, bool lineage) {
  ++now_;
  const auto number = static_cast<uint32_t>(purges_.size());
  for (const BaseId& base : bases)
    of_base_[base].push_back(number);
  purges_.push_back({.bases = std::move(bases), .lineage = lineage});
  return number;
}

void PurgeLog::answer(uint32_t number, bool done) {
  ++now_;
  if (done) purges_.at(number).answered = purges_.at(number).end = now_;
}

void PurgeLog::at_start(bool all_here) {
  ++now_;
  for (Purge& purge : purges_) {
    if (purge.end == kNever && (!purge.lineage || all_here)) purge.end = now_;
  }
}

bool PurgeLog::touches(const BaseId& base, Tick since) const {
  const auto found = of_base_.find(base);
  if (found == of_base_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(),
                     [&](uint32_t number) { return purges_[number].end > since; });
}

}  // namespace varve::ledger
