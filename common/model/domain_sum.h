// DomainSums: how much each domain has of something.
//
// A row for each that has any: a few at a time, so they are looked through in order, beginning with
// the last one that was asked for. Thread rule: owner core.
#pragma once

#include <cstdint>
#include <vector>

#include "common/model/id.h"

namespace varve {

class DomainSums {
 public:
  // Room for that many rows is there from the start; more only while there are more domains, of
  // which most were dropped and are ending.
  static constexpr uint32_t kRows = 64;
  struct Row {
    uint32_t domain = kDomainDefault;
    uint64_t sum = 0;
  };
  DomainSums() { rows_.reserve(kRows); }
  void add(uint32_t domain, uint64_t count);
  void take(uint32_t domain, uint64_t count);  // what was added (asserted)
  uint64_t of(uint32_t domain) const;
  uint64_t total() const { return total_; }
  const std::vector<Row>& rows() const { return rows_; }  // in no order

 private:
  size_t find(uint32_t domain) const;  // rows_.size(): it has none
  std::vector<Row> rows_;
  uint64_t total_ = 0;
  size_t last_ = 0;
};

}  // namespace varve
