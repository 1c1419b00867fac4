// Formats: every format that a live session registered, once for each domain, with its extent
// tables. What one domain has registered neither answers nor refuses another one.
//
// A session's handle is its position in the session's own list, from 1. An entry lives while a
// session refers to it; parts refer to it only while their session does. Limits: count and bytes in
// sum, of which each domain has its share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/op/part.h"

namespace varve {

struct FormatEntry {
  uint32_t domain = kDomainDefault;
  SessionFormat format;
  uint32_t users = 0;
  uint64_t bytes = 0;  // charged
};

// The largest block of one rank that this node can ever take. A format beyond it would be matched
// and refused block by block for ever, so it is refused by name when it is registered.
struct BlockLimits {
  uint32_t fragment_pages_max = ~0u;       // what a segment of its targets holds
  uint64_t push_bytes_max = ~uint64_t{0};  // what a shard's DRAM has for pushes
};
// Ok, or kUnsupported with a sentence in `text` that names rank, numbers and remedy.
Status check_block_sizes(const SessionFormat& format, const BlockLimits& limits, std::string* text);

class FormatTable {
 public:
  FormatTable(uint32_t formats_max, uint64_t bytes_max, Scheme scheme,
              const BlockLimits& limits = {});
  // How many share it from now on. What one has beyond its share stays until it is released.
  void domains_set(uint32_t count);
  // The entry of this canonical encoding, one user more; refusals name the limit or the field, and
  // refusal() says more where there is more to say.
  Result<FormatEntry*> acquire(uint32_t domain, ConstByteSpan canonical);
  void release(FormatEntry& entry);
  // Why no session could have it, in a sentence; empty: one could.
  std::string problem(const Format& format) const;
  uint32_t count() const { return static_cast<uint32_t>(entries_.size()); }
  uint64_t bytes() const { return bytes_; }
  const std::string& refusal() const { return refusal_; }  // of the last acquire(); may be empty

 private:
  FormatEntry* find(uint32_t domain, const Digest& fingerprint);
  Status has_room(uint32_t domain, uint64_t bytes) const;
  const uint32_t formats_max_;
  const uint64_t bytes_max_;
  const Scheme scheme_;
  const BlockLimits limits_;
  uint32_t domains_ = 1;
  std::string refusal_;
  uint64_t bytes_ = 0;
  std::vector<std::unique_ptr<FormatEntry>> entries_;
};

// The formats of one session, by handle.
class SessionFormats {
 public:
  explicit SessionFormats(FormatTable& table, uint32_t handles_max)
      : table_(table), handles_max_(handles_max) {}
  // The handle; an already registered format answers its old one.
  Result<uint32_t> add(uint32_t domain, ConstByteSpan canonical);
  const SessionFormat* find(uint32_t handle) const {
    return handle == 0 || handle > entries_.size() ? nullptr : &entries_[handle - 1]->format;
  }
  // The same of this session, for who counts what is done with it.
  FormatEntry& entry(uint32_t handle) {
    VARVE_ASSERT(handle > 0 && handle <= entries_.size(), handle);
    return *entries_[handle - 1];
  }
  uint32_t count() const { return static_cast<uint32_t>(entries_.size()); }
  const std::string& refusal() const { return table_.refusal(); }
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
uint64_t bytes_of_range(const ExtentTable& table, const ExtentRange& range);

}  // namespace varve
