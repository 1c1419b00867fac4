// PushFormats: the formats of the pushes of one core, as copies of its own.
//
// What is committed is written behind, and whoever pushed it may be gone by then, with the session
// that the format was registered in. So no push refers to a session's; the first of a format copies
// it, and an unused copy is kept for the next while there is room. Thread rule: owner core.
#pragma once

#include <memory>
#include <vector>

#include "server/op/part.h"

namespace varve {

class PushFormats {
 public:
  static constexpr uint32_t kMax = 256;      // as many as sessions may have registered at once
  static constexpr uint32_t kUnusedMax = 8;  // copies that are kept, of up to a MiB
  PushFormats() { entries_.reserve(kMax); }
  bool has_room(const SessionFormat& format) const;
  // The copy, one user more; null: kMax are in use.
  const SessionFormat* take(const SessionFormat& format);
  void give(const SessionFormat* format);
  uint32_t used() const;
  uint32_t count() const { return static_cast<uint32_t>(entries_.size()); }

 private:
  struct Entry {
    SessionFormat format;
    uint32_t users = 0;
  };
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace varve
