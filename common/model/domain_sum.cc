// Rows by domain, found by looking.
#include "common/model/domain_sum.h"

namespace varve {

size_t DomainSums::find(uint32_t domain) const {
  if (last_ < rows_.size() && rows_[last_].domain == domain) return last_;
  size_t i = 0;
  while (i < rows_.size() && rows_[i].domain != domain)
    ++i;
  return i;
}

void DomainSums::add(uint32_t domain, uint64_t count) {
  if (count == 0) return;
  last_ = find(domain);
  if (last_ == rows_.size()) rows_.push_back({.domain = domain});
  rows_[last_].sum += count;
  total_ += count;
}

void DomainSums::take(uint32_t domain, uint64_t count) {
  if (count == 0) return;
  last_ = find(domain);
  VARVE_ASSERT(last_ < rows_.size(), domain, count);
  Row& row = rows_[last_];
  VARVE_ASSERT(row.sum >= count, domain, row.sum, count);
  row.sum -= count;
  total_ -= count;
  if (row.sum > 0) return;
  row = rows_.back();
  rows_.pop_back();
}

uint64_t DomainSums::of(uint32_t domain) const {
  const size_t i = find(domain);
  return i == rows_.size() ? 0 : rows_[i].sum;
}

}  // namespace varve
