// The log: one line per decision, to stderr, through spdlog (named only in log.cc).
//
// An error says what failed (resource, peer, path, key prefix), at which stage, the errno or
// status, the limit involved and the remedy. Logged once, where it is decided. Repeated lines are
// rate-limited by the caller through LogLimit, which counts what it swallowed. Callable from any
// thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/status.h"

namespace varve {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError };

void log_level_set(LogLevel level);
void log_line(LogLevel level, std::string_view room, std::string_view text);
// printf-style; the text is built only when the level is on. At most 1024 bytes.
void logf(LogLevel level, std::string_view room, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

// Lets one line per `interval_ns` through and tells how many it swallowed before.
class LogLimit {
 public:
  explicit LogLimit(uint64_t interval_ns) : interval_ns_(interval_ns) {}
  // True when the caller may log now; *swallowed receives the count since the last line.
  bool admit(uint64_t now_ns, uint64_t* swallowed);

 private:
  uint64_t interval_ns_;
  uint64_t next_ns_ = 0;
  uint64_t swallowed_ = 0;
};

}  // namespace varve
