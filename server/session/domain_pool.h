// DomainPool: a pool that several domains share, so that none can keep another from what is its
// own.
//
// What each may have of it says DomainLimit (server/tenant); here is who has how many. Thread rule:
// session shard only.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/pool.h"
#include "server/tenant/tenant.h"

namespace varve {

// Who has how many of one limit.
class DomainShares {
 public:
  explicit DomainShares(uint32_t limit);
  // Those that share it from now on. What others still have goes as it ends.
  void domains_set(const Domains& domains);
  bool has_room(uint32_t domain) const;
  void take(uint32_t domain);
  void give(uint32_t domain);
  uint64_t part() const { return DomainLimit(limit_, domains_).part(); }

 private:
  struct Row {
    uint32_t domain = kDomainDefault;
    uint32_t used = 0;
    bool shares = false;  // or it was dropped, and something of it is still ending
  };
  Row* find(uint32_t domain);
  const uint32_t limit_;
  uint32_t domains_ = 1;
  uint32_t used_ = 0;
  std::vector<Row> rows_;
};

template <class T>
class DomainPool {
 public:
  template <class... Args>
  explicit DomainPool(uint32_t capacity, Args&&... args)
      : pool_(capacity, args...), shares_(capacity) {}
  void domains_set(const Domains& domains) { shares_.domains_set(domains); }
  // Null: none is left, or what is left is set aside for others.
  T* take(uint32_t domain) {
    if (!shares_.has_room(domain)) return nullptr;
    T* object = pool_.take();
    VARVE_ASSERT(object != nullptr, domain);  // they count the same
    shares_.take(domain);
    return object;
  }
  void give(T* object, uint32_t domain) {
    pool_.give(object);
    shares_.give(domain);
  }
  uint32_t available() const { return pool_.available(); }
  uint32_t used() const { return pool_.used(); }
  const std::vector<std::unique_ptr<T>>& all() const { return pool_.all(); }

 private:
  Pool<T> pool_;
  DomainShares shares_;
};

}  // namespace varve
