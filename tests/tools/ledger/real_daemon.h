// RealDaemon: the varved of this build with a scratch folder, for tests that need the whole thing.
//
// It stands beside the test program; a build of single targets may lack it, and then the test is
// skipped with that reason.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tools/ledger/daemon.h"

namespace varve::ledger {

class RealDaemon {
 public:
  static std::string program() {
    return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "varved").string();
  }
  static bool available() { return ::access(program().c_str(), X_OK) == 0; }

  explicit RealDaemon(const std::string& name)
      : folder_(::testing::TempDir() + "varve_" + name + "_" + std::to_string(::getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~RealDaemon() {
    daemon_.reset();
    std::filesystem::remove_all(folder_);
  }
  // Again after a stop: the next life of the same data.
  Status start() {
    DaemonOptions options;
    options.program = program();
    options.arguments = {"--data", folder_ + "/data", "--listen", "127.0.0.1:0", "--http",
                         "none",   "--control",       control};
    options.arguments.insert(options.arguments.end(), shape.begin(), shape.end());
    options.log_path = folder_ + "/log";
    daemon_ = std::make_unique<Daemon>(options);
    VARVE_RETURN_IF_ERROR(daemon_->start());
    return daemon_->wait_ready(60 * kSecond);
  }
  Daemon& daemon() { return *daemon_; }
  std::string log() const { return read_text(folder_ + "/log"); }
  const std::string& folder() const { return folder_; }
  std::string control = "none";  // --control
  std::vector<std::string> shape = {"--targets", "2", "--target-bytes", "512MiB",
                                    "--shards",  "2", "--dram-bytes",   "64MiB"};

 private:
  std::string folder_;
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace varve::ledger
