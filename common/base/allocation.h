// AllocationsThrow: while one lives, an allocation of this thread that fails throws
// std::bad_alloc, also in a daemon whose handler ends the process otherwise (server/host). For
// borders that catch it, and for what changes nothing: there one answer is lost, and no more.
#pragma once

#include <cstdint>

namespace varve {

class AllocationsThrow {
 public:
  AllocationsThrow() { ++depth_; }
  AllocationsThrow(const AllocationsThrow&) = delete;
  AllocationsThrow& operator=(const AllocationsThrow&) = delete;
  ~AllocationsThrow() { --depth_; }
  static bool now() { return depth_ > 0; }

 private:
  static inline thread_local uint32_t depth_ = 0;
};

}  // namespace varve
