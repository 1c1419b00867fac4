// DomainShares: a row for each domain, and for those that were dropped and are ending.
#include "server/session/domain_pool.h"

namespace varve {

DomainShares::DomainShares(uint32_t limit) : limit_(limit) {
  domains_set(Domains());
}

void DomainShares::domains_set(const Domains& domains) {
  domains_ = static_cast<uint32_t>(domains.all().size());
  for (Row& row : rows_)
    row.shares = domains.find(row.domain) != nullptr;
  std::erase_if(rows_, [](const Row& row) { return !row.shares && row.used == 0; });
  for (const Domain& domain : domains.all()) {
    if (find(domain.id) == nullptr) rows_.push_back({.domain = domain.id, .shares = true});
  }
}

bool DomainShares::has_room(uint32_t domain) const {
  DomainLimit limit(limit_, domains_);
  const Row* own = nullptr;
  for (const Row& row : rows_) {
    if (row.domain == domain) {
      own = &row;
    } else if (row.shares) {
      limit.other(row.used);
    } else {
      limit.ending(row.used);
    }
  }
  if (own == nullptr || !own->shares) return false;  // dropped: its sessions are ending
  return used_ < limit_ && limit.share(own->used + 1) != DomainLimit::Share::kNone;
}

void DomainShares::take(uint32_t domain) {
  Row* row = find(domain);
  VARVE_ASSERT(row != nullptr, domain);
  VARVE_ASSERT(used_ < limit_, used_, limit_);
  ++row->used;
  ++used_;
}

void DomainShares::give(uint32_t domain) {
  Row* row = find(domain);
  VARVE_ASSERT(row != nullptr && row->used > 0, domain);
  VARVE_ASSERT(used_ > 0);
  --row->used;
  --used_;
  if (row->used == 0 && !row->shares) {
    *row = rows_.back();
    rows_.pop_back();
  }
}

DomainShares::Row* DomainShares::find(uint32_t domain) {
  for (Row& row : rows_) {
    if (row.domain == domain) return &row;
  }
  return nullptr;
}

}  // namespace varve
