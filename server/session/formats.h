// Formats: every format that a live session registered, once, with its extent tables.
//
// A session's handle is its position in the session's own list, from 1. An entry lives while a
// session refers to it; parts refer to it only while their session does. Limits: count and bytes in
// sum.
#pragma once

#include <memory>
#include <vector>

#include "server/op/part.h"

namespace varve {

struct FormatEntry {
  SessionFormat format;
  uint32_t users = 0;
  uint64_t bytes = 0;  // charged
};

class FormatTable {
 public:
  FormatTable(uint32_t formats_max, uint64_t bytes_max, uint32_t k);
  // The entry of this canonical encoding, one user more; refusals name the limit or the field.
  Result<FormatEntry*> acquire(ConstByteSpan canonical);
  void release(FormatEntry& entry);
  uint32_t count() const { return static_cast<uint32_t>(entries_.size()); }
  uint64_t bytes() const { return bytes_; }

 private:
  FormatEntry* find(const Digest& fingerprint);
  const uint32_t formats_max_;
  const uint64_t bytes_max_;
  const uint32_t k_;
  uint64_t bytes_ = 0;
  std::vector<std::unique_ptr<FormatEntry>> entries_;
};

// The formats of one session, by handle.
class SessionFormats {
 public:
  explicit SessionFormats(FormatTable& table, uint32_t handles_max)
      : table_(table), handles_max_(handles_max) {}
  // The handle; an already registered format answers its old one.
  Result<uint32_t> add(ConstByteSpan canonical);
  const SessionFormat* find(uint32_t handle) const {
    return handle == 0 || handle > entries_.size() ? nullptr : &entries_[handle - 1]->format;
  }
  void clear();

 private:
  FormatTable& table_;
  const uint32_t handles_max_;
  std::vector<FormatEntry*> entries_;
};

// The extents [first, end) that hold layers [layer_first, layer_first + layer_count); count 0 = to
// the last. kInvalid when the rank has no such layers.
struct ExtentRange {
  uint32_t first = 0, end = 0;
};
Result<ExtentRange> extents_of_layers(const ExtentTable& table, uint32_t layer_first,
                                      uint32_t layer_count);

}  // namespace varve
