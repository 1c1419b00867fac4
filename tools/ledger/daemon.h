// Daemon: one life of the real varved, from fork to its last word.
//
// Starts the binary with the options given, reads its ready line, kills it, and knows afterwards
// whether it went before it was asked to. The child dies with the ledger, whatever kills that.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/base.h"
#include "common/time/time.h"

namespace varve::ledger {

struct DaemonOptions {
  std::string program;
  std::vector<std::string> arguments;
  std::string log_path;  // its stderr is appended here
};

class Daemon {
 public:
  explicit Daemon(DaemonOptions options) : options_(std::move(options)) {}
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  Status start();
  // Waits for "varved ready: listening on ADDRESS, ...". kUnavailable: it exited instead.
  Status wait_ready(Nanos timeout_ns);
  const std::string& address() const { return address_; }

  bool running();   // false: it exited although nobody asked it to
  void kill_now();  // SIGKILL, and waits for the end
  // SIGTERM; kTimedOut when it is still there after the time (then it is killed).
  Status stop(Nanos timeout_ns);
  // How it ended: "exit 3", "signal 6"; empty while it runs.
  std::string ending() const;

 private:
  bool reap(bool block);
  DaemonOptions options_;
  pid_t pid_ = 0;
  int wait_status_ = 0;
  bool ended_ = false;
  int out_fd_ = -1;
  std::string out_text_;
  std::string address_;
};

// The address in a ready line; empty when the text holds none that is complete.
std::string ready_address(const std::string& text);
// Sum over all labels of each metric in a Prometheus text.
std::map<std::string, double> metric_sums(const std::string& text);
// The values of one metric, by their labels as they stand there.
std::map<std::string, double> metric_labels(const std::string& text, const std::string& name);
// The first line of a log that says an assertion failed or a sanitizer spoke; empty = none.
std::string complaint_in(const std::string& log);
// Empty when it cannot be read.
std::string read_text(const std::string& path);

}  // namespace varve::ledger
