// The numbers of what was purged are given again after the walk, so 65535 lineages that live are
// the limit: more than a node sees, and beyond that a purge drops more than it must, which a cache
// may.
#include "server/op/lineage.h"

namespace varve {

namespace {
constexpr size_t kNumbersMax = 65536;
}

Lineages::Lineages(uint32_t blocks_max, uint32_t domain, flash::Generations rows)
    : domain_(domain), rows_(std::move(rows)), numbers_(blocks_max), dead_(1) {
  VARVE_ASSERT(blocks_max > 0);
  VARVE_ASSERT(rows_.size() <= flash::kDomainsMax, rows_.size());
}

void Lineages::set(uint32_t block_slot, uint64_t lineage) {
  VARVE_ASSERT(block_slot < numbers_.size(), block_slot);
  const auto known = current_.find(lineage);
  uint16_t number = kOther;
  if (known != current_.end()) {
    number = known->second;
  } else if (!free_.empty() || dead_.size() < kNumbersMax) {
    if (free_.empty()) {
      number = static_cast<uint16_t>(dead_.size());
      dead_.push_back(false);
    } else {
      number = free_.back();
      free_.pop_back();
      VARVE_ASSERT(number != kOther && dead_[number], number);
      dead_[number] = false;
    }
    current_.emplace(lineage, number);
  }
  numbers_[block_slot] = number;
}

bool Lineages::is_dead(uint32_t block_slot) const {
  VARVE_ASSERT(block_slot < numbers_.size(), block_slot);
  return dead_[numbers_[block_slot]];
}

void Lineages::purge(uint64_t lineage, const flash::Generations& rows) {
  VARVE_ASSERT(rows.size() <= flash::kDomainsMax, rows.size());
  rows_ = rows;
  ++walks_;
  dead_[kOther] = true;
  if (lineage == 0) {
    dead_.assign(dead_.size(), true);
    current_.clear();
    return;
  }
  const auto known = current_.find(lineage);
  if (known == current_.end()) return;
  VARVE_ASSERT(!dead_[known->second], known->second);
  dead_[known->second] = true;
  current_.erase(known);
}

void Lineages::walked() {
  VARVE_ASSERT(walks_ > 0);
  if (--walks_ > 0) return;
  free_.clear();
  dead_[kOther] = false;
  for (size_t number = dead_.size(); --number > 0;) {
    if (dead_[number]) free_.push_back(static_cast<uint16_t>(number));
  }
  VARVE_ASSERT(free_.size() + current_.size() + 1 == dead_.size(), free_.size(), current_.size());
}

}  // namespace varve
