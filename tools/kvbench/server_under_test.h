// ServerUnderTest: a daemon that kvbench starts in a fresh folder, or one that runs already.
#pragma once

#include <memory>
#include <string>

#include "client/varve.h"
#include "tools/kvbench/conditions.h"
#include "tools/kvbench/process.h"

namespace CLI {
class App;
}

namespace varve::kvbench {

struct ServerOptions {
  std::string address;     // empty: start one
  std::string token_path;  // of a file that holds the token of clients
  uint32_t dram_mib = 2048, target_mib = 4096;
  uint32_t targets = 0;  // 0: as many as a block has fragments, two at least
  std::string scheme = "1+0";
  Mode mode = Mode::kStoragePlusMemory;  // of a server that is started
  std::string folder;                    // work folder; default: beside the build
};
void add_server_options(CLI::App& command, ServerOptions& options);

class ServerUnderTest {
 public:
  static Result<std::unique_ptr<ServerUnderTest>> start(const ServerOptions& options,
                                                        const std::string& run_id);
  ~ServerUnderTest();  // stops what it started and removes its folder
  ServerUnderTest(const ServerUnderTest&) = delete;
  ServerUnderTest& operator=(const ServerUnderTest&) = delete;

  bool is_own() const { return !folder_.empty(); }
  const std::string& address() const { return address_; }
  pid_t pid() const { return daemon_ ? daemon_->pid() : 0; }  // 0: not ours
  // Only of one that is our own: drained, and nothing of it in DRAM after.
  Status restart(Mode mode);
  Result<std::unique_ptr<Client>> open_client(const char* name, uint32_t lanes) const;
  // Of a server that is our own; takes a second or two.
  uint64_t metric(std::string_view name, std::string_view label) const {
    return daemon_ ? daemon_->metric(name, label) : 0;
  }
  std::string metrics() const { return daemon_ ? daemon_->metrics() : ""; }
  // Of the targets of our own; empty otherwise.
  std::vector<std::string> target_paths() const;
  void describe(Conditions& out) const;

 private:
  explicit ServerUnderTest(const ServerOptions& options) : options_(options) {}
  Status launch();
  ServerOptions options_;
  Scheme scheme_;
  std::string address_, token_, folder_, commit_;
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace varve::kvbench
