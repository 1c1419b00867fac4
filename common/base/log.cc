// The log: the only place that names spdlog. One sink, stderr, made on the first line and never
// torn down, so that a destructor that runs late may still log.
//
// One lock of ours instead of the sink's: it is held across fork(), so that a child finds neither
// it nor what a line takes inside (the time zone) locked by a thread that it does not have.
#include "common/base/log.h"

#include <pthread.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string>

namespace varve {

namespace {

constexpr size_t kLineBytesMax = 1024;

std::mutex& one_line() {
  static auto* lock = new std::mutex;
  return *lock;
}

spdlog::logger& logger() {
  static spdlog::logger* instance = [] {
    const int error = pthread_atfork([] { one_line().lock(); }, [] { one_line().unlock(); },
                                     [] { one_line().unlock(); });
    VARVE_ASSERT(error == 0, error);
    auto* made = new spdlog::logger("varve", spdlog::sink_ptr(new spdlog::sinks::stderr_sink_st));
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %L %v");
    made->set_level(spdlog::level::info);
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void log_level_set(LogLevel level) {
  logger().set_level(spdlog_level(level));
}

void log_line(LogLevel level, std::string_view room, std::string_view text) {
  if (!logger().should_log(spdlog_level(level))) return;
  // Text may quote a peer or a file name: a line stays one line, whatever is in it.
  std::string line(text.substr(0, kLineBytesMax));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  spdlog::logger& out = logger();
  const std::lock_guard<std::mutex> lock(one_line());
  out.log(spdlog_level(level), "{}: {}", room, line);
}

void logf(LogLevel level, std::string_view room, const char* format, ...) {
  if (!logger().should_log(spdlog_level(level))) return;
  char text[kLineBytesMax + 1];
  va_list arguments;
  va_start(arguments, format);
  const int size = std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  VARVE_ASSERT(size >= 0);
  log_line(level, room, text);
}

bool LogLimit::admit(uint64_t now_ns, uint64_t* swallowed) {
  VARVE_ASSERT(swallowed != nullptr);
  if (now_ns < next_ns_) {
    ++swallowed_;
    return false;
  }
  next_ns_ = now_ns + interval_ns_;
  *swallowed = swallowed_;
  swallowed_ = 0;
  return true;
}

}  // namespace varve
