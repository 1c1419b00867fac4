// Process: a daemon beside the benchmark: started, watched, stopped, its counters read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/base.h"
#include "common/time/time.h"

namespace varve::kvbench {

// The sum of all values of metric `name` whose labels contain `label` (empty: any). Pure.
uint64_t metric_sum(std::string_view prometheus_text, std::string_view name,
                    std::string_view label);

// Of a regular file of at most `bytes_max`; a device or a pipe has no end, and none is waited for.
Result<std::string> read_regular(const std::string& path, uint64_t bytes_max);
std::string read_file(const std::string& path);  // empty when it cannot be read, or is too large

// Which sources a program says in `text`, the output of its --version, that it is made of; empty:
// it does not say. Pure.
std::string commit_of_version(std::string_view text);
// The same, asked of the program itself.
Result<std::string> commit_of_program(const std::string& program);

// How a daemon does its I/O, as its first metrics say, and where its threads may run, as the kernel
// does.
struct DaemonSeen {
  std::string io;          // "io_uring" or "epoll"; empty: nothing was told
  bool registers = false;  // the two below were told
  uint64_t registered_bytes = 0, registered_files = 0;
  std::string cores;  // see cores_of_threads; "unknown" or empty: not to be seen
  bool operator==(const DaemonSeen&) const = default;
};
// All of it but the cores. Pure.
DaemonSeen seen_of_metrics(std::string_view prometheus_text);

std::string own_path();     // of this program
std::string varved_path();  // of the daemon that was built beside it
// `asked`, or bench-data beside the build: made, absolute.
Result<std::string> work_folder(const std::string& asked);
// The folder of one run in its work folder: all that it makes is in there, and goes with it.
std::string run_folder(const std::string& work, const std::string& run_id);
// The same of a work folder that may not be there yet.
std::string run_folder_asked(const std::string& asked, const std::string& run_id);

// CPU time of a process so far, all threads; 0 when it is gone or cannot be seen.
Nanos cpu_ns(pid_t pid);
Nanos own_cpu_ns();  // of this one, all threads, finer
// How long its threads that live were ready to run and had no core, so far; 0 when it cannot be
// seen.
Nanos core_wait_ns(pid_t pid);

class Daemon {
 public:
  // Starts `program` with `arguments` and waits until it says on which address it serves.
  static Result<std::unique_ptr<Daemon>> start(const std::string& program,
                                               const std::string& data_folder,
                                               std::vector<std::string> arguments);
  ~Daemon();  // asks it to stop, then makes it
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  const std::string& address() const { return address_; }
  const std::string& ready_line() const { return ready_line_; }
  const DaemonSeen& seen() const { return seen_; }  // once it was ready
  pid_t pid() const { return pid_; }
  // Its metrics file, after that was written again: older than a second is stale. Takes a second or
  // two. Empty: it is not written any more.
  std::string metrics() const;
  uint64_t metric(std::string_view name, std::string_view label) const;
  void signal(int number) const;
  // Drains and ends; the metrics it left.
  static std::string stop(std::unique_ptr<Daemon> daemon);

 private:
  Daemon() = default;
  Status wait_ready();
  pid_t pid_ = -1;
  int output_ = -1;
  std::string data_folder_, address_, ready_line_;
  DaemonSeen seen_;
};

}  // namespace varve::kvbench
