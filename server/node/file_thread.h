// FileThread: writes files for main, one piece of work at a time. A file system that stands still
// costs what is written there, and never main, which looks at the cores, takes the signals and
// tells the service manager that it lives.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "common/time/time.h"

namespace varve {

// All but the work itself on main's thread, but for the control plane's age_ns().
class FileThread {
 public:
  using Work = bool (*)(void* context);  // whether all of it was written
  explicit FileThread(const Clock& clock) : clock_(clock), well_ns_(clock.now_ns()) {}
  FileThread(const FileThread&) = delete;
  FileThread& operator=(const FileThread&) = delete;
  ~FileThread();  // waits, without a bound, for what is under way: see rest()

  bool idle() const;
  // What `context` points to is the work's until this is idle again, which it must be now.
  void begin(Work work, void* context);
  // Waits until it is idle; false: it was not within the bound.
  [[nodiscard]] bool rest(Nanos limit_ns);
  Nanos under_way_ns() const;  // how long the work has taken so far; 0: idle
  Nanos age_ns() const;        // since work last ended well, or since the start

 private:
  void run();
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;   // from the first work on
  Work work_ = nullptr;  // null: idle
  void* context_ = nullptr;
  bool ends_ = false;
  Nanos begun_ns_ = 0, well_ns_;
};

}  // namespace varve
