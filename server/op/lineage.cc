// The numbers of what was purged are given again after the walk, so some 32000 lineages that live
// are the limit: more than a node sees, and beyond that a purge drops more than it must, which a
// cache may. Each domain has a thousand of its own beside that, which no other can use up.
#include "server/op/lineage.h"

namespace varve {

namespace {
constexpr size_t kNumbersMax = 65536;
// Kept for what has no number of its own: one of each domain, and those that purges ended and whose
// walk goes on.
constexpr size_t kNumbersKept = 1024;
static_assert(kNumbersKept > 4 * flash::kDomainsMax);
// Half of the others is the domains', each has the same; the rest is for whoever comes first.
constexpr uint32_t kNumbersOwn = (kNumbersMax - kNumbersKept) / 2 / flash::kDomainsMax;
constexpr uint32_t kNumbersShared = (kNumbersMax - kNumbersKept) / 2;
}  // namespace

Lineages::Lineages(uint32_t blocks_max, flash::Generations rows)
    : rows_(std::move(rows)), numbers_(blocks_max) {
  VARVE_ASSERT(blocks_max > 0);
  VARVE_ASSERT(rows_.size() <= flash::kGenerationsMax, rows_.size());
}

bool Lineages::number_left(Key key) const {
  if (key.second == kOther) return true;
  if (taken_sum_ >= kNumbersMax - kNumbersKept) return false;
  const auto taken = taken_.find(key.first);
  return taken == taken_.end() || taken->second < kNumbersOwn || shared_ < kNumbersShared;
}

void Lineages::count(Key key) {
  if (key.second == kOther) return;
  ++taken_sum_;
  if (++taken_[key.first] > kNumbersOwn) ++shared_;
}

uint16_t Lineages::take_number(Key key) {
  count(key);
  if (free_.empty()) {
    VARVE_ASSERT(dead_.size() < kNumbersMax, dead_.size());
    dead_.push_back(false);
    return static_cast<uint16_t>(dead_.size() - 1);
  }
  const uint16_t number = free_.back();
  free_.pop_back();
  VARVE_ASSERT(dead_[number], number);
  dead_[number] = false;
  return number;
}

void Lineages::set(uint32_t block_slot, uint32_t domain, uint64_t lineage) {
  VARVE_ASSERT(block_slot < numbers_.size(), block_slot);
  auto known = current_.find({domain, lineage});
  if (known == current_.end() && !number_left({domain, lineage})) {
    lineage = kOther;
    known = current_.find({domain, lineage});
  }
  if (known == current_.end()) {
    const Key key = {domain, lineage};
    known = current_.emplace(key, take_number(key)).first;
  }
  numbers_[block_slot] = known->second;
}

bool Lineages::is_dead(uint32_t block_slot) const {
  VARVE_ASSERT(block_slot < numbers_.size(), block_slot);
  const uint16_t number = numbers_[block_slot];
  return number < dead_.size() && dead_[number];  // none yet: nothing was set
}

void Lineages::purge(uint32_t domain, uint64_t lineage, const flash::Generations& rows) {
  VARVE_ASSERT(rows.size() <= flash::kGenerationsMax, rows.size());
  rows_ = rows;
  ++walks_;
  if (lineage != 0) {
    end({domain, lineage});
    return end({domain, kOther});
  }
  for (auto known = current_.lower_bound({domain, 0});
       known != current_.end() && known->first.first == domain;
       known = current_.lower_bound({domain, 0}))
    end(known->first);
}

void Lineages::end(Key key) {
  const auto known = current_.find(key);
  if (known == current_.end()) return;
  VARVE_ASSERT(!dead_[known->second], known->second);
  dead_[known->second] = true;
  current_.erase(known);
}

void Lineages::walked() {
  VARVE_ASSERT(walks_ > 0);
  if (--walks_ > 0) return;
  free_.clear();
  for (size_t number = dead_.size(); number > 0; --number) {
    if (dead_[number - 1]) free_.push_back(static_cast<uint16_t>(number - 1));
  }
  VARVE_ASSERT(free_.size() + current_.size() == dead_.size(), free_.size(), current_.size());
  taken_.clear();
  taken_sum_ = shared_ = 0;
  for (const auto& [key, number] : current_)
    count(key);
}

}  // namespace varve
