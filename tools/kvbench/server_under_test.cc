// Started with what the declaration says of it, and nothing else.
#include "tools/kvbench/server_under_test.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "tools/kvbench/machine.h"

namespace varve::kvbench {

namespace {

constexpr uint32_t kTargetsMin = 2;
constexpr uint64_t kTokenFileBytesMax = 64 * kKiB;
constexpr Nanos kReadyWait = 10 * kSecond;
constexpr Nanos kRecoveryWait = 60 * kSecond;
// What compares and makes the bytes may keep the cores busy for longer than the usual 20 s.
constexpr Nanos kPingInterval = 60 * kSecond;

}  // namespace

void add_server_options(CLI::App& command, ServerOptions& options) {
  CLI::Option* address =
      command.add_option("--address", options.address, "HOST:PORT of a server; none: start one");
  command.add_option("--token-file", options.token_path, "its token of clients, with --address")
      ->check(CLI::ExistingFile)
      ->needs(address);  // one that is started has no domains
  command.add_option("--dram-mib", options.dram_mib, "of a server that is started")
      ->check(CLI::Range(64u, 1048576u));
  command.add_option("--targets", options.targets, "of a server that is started")
      ->check(CLI::Range(1u, 16u));
  std::vector<std::string> schemes;
  for (const Scheme& scheme : kSchemes)
    schemes.push_back(scheme.text());
  command.add_option("--scheme", options.scheme, "K+M of a server that is started")
      ->check(CLI::IsMember(schemes));
  command.add_option("--target-mib", options.target_mib, "of each of them")
      ->check(CLI::Range(512u, 1048576u));
  command.add_option("--dir", options.folder, "work folder; default: beside the build");
}

Result<std::unique_ptr<ServerUnderTest>> ServerUnderTest::start(const ServerOptions& options,
                                                                const std::string& run_id) {
  std::unique_ptr<ServerUnderTest> server(new ServerUnderTest(options));
  if (!options.token_path.empty()) {
    VARVE_TRY(const std::string text, read_regular(options.token_path, kTokenFileBytesMax));
    if (text.find_first_not_of(" \n") == std::string::npos) {
      return Status::invalid("kvbench: --token-file holds no token");
    }
    server->token_ = trimmed(text);
  }
  if (!options.address.empty()) {
    server->address_ = options.address;
    return server;
  }
  VARVE_TRY(server->scheme_, Scheme::parse(options.scheme));
  VARVE_TRY(server->commit_, commit_of_program(varved_path()));
  const uint32_t width = server->scheme_.width();
  if (options.targets == 0) server->options_.targets = std::max(kTargetsMin, width);
  if (server->options_.targets < width) {
    return Status::invalid("kvbench: --scheme K+M needs K+M --targets at least");
  }
  VARVE_TRY(const std::string work, work_folder(options.folder));
  server->folder_ = run_folder(work, run_id);
  std::error_code error;
  if (!std::filesystem::create_directories(server->folder_, error)) {
    return Status::io("kvbench: the server's folder cannot be made", error.value());
  }
  VARVE_RETURN_IF_ERROR(server->launch());
  return server;
}

Status ServerUnderTest::launch() {
  const auto mib = [](uint32_t count) { return std::to_string(count * uint64_t{kMiB}); };
  std::vector<std::string> arguments = {"--shards",           "1",
                                        "--targets",          std::to_string(options_.targets),
                                        "--target-bytes",     mib(options_.target_mib),
                                        "--dram-bytes",       mib(options_.dram_mib),
                                        "--scheme",           scheme_.text(),
                                        "--log-level",        "error",
                                        "--scrub-interval-s", "0"};
  if (options_.mode == Mode::kStorageOnly) arguments.push_back("--storage-only");
  VARVE_TRY(daemon_, Daemon::start(varved_path(), folder_, std::move(arguments)));
  address_ = daemon_->address();
  return {};
}

ServerUnderTest::~ServerUnderTest() {
  daemon_.reset();
  std::error_code ignored;
  if (is_own()) std::filesystem::remove_all(folder_, ignored);
}

Status ServerUnderTest::restart(Mode mode) {
  VARVE_ASSERT(is_own());
  daemon_.reset();
  options_.mode = mode;
  VARVE_RETURN_IF_ERROR(launch());
  const SystemClock clock;
  const Nanos until_ns = clock.now_ns() + kRecoveryWait;
  while (true) {
    const std::string metrics = daemon_->metrics();
    if (!metrics.empty() && metric_sum(metrics, "varve_recovering", "") == 0) return {};
    if (clock.now_ns() > until_ns) return Status::timed_out("kvbench: recovery does not end");
  }
}

Result<std::unique_ptr<Client>> ServerUnderTest::open_client(const char* name,
                                                             uint32_t lanes) const {
  ClientOptions options;
  options.address = address_;
  options.token = token_;
  options.name = name;
  options.bulk_lanes = lanes;
  options.ping_interval_ns = kPingInterval;
  VARVE_TRY(auto client, Client::open(options));
  if (Status ready = client->wait_ready(kReadyWait); !ready.ok()) {
    logf(LogLevel::kError, "kvbench", "no session: %s", client->last_error_text().c_str());
    return ready;
  }
  return client;
}

std::vector<std::string> ServerUnderTest::target_paths() const {
  std::vector<std::string> paths;
  for (uint32_t t = 0; is_own() && t < options_.targets; ++t)
    paths.push_back(folder_ + "/target-" + std::to_string(t) + ".dat");
  return paths;
}

void ServerUnderTest::describe(Conditions& out) const {
  out.server = is_own() ? Server::kOwn : Server::kOthers;
  out.mode = options_.mode;
  out.server_commit = commit_;
  if (daemon_) out.seen = daemon_->seen();
  out.address = address_;
  out.folder = folder_;
  out.dram_bytes = options_.dram_mib * uint64_t{kMiB};
  out.target_bytes = options_.target_mib * uint64_t{kMiB};
  out.targets = options_.targets;
  out.scheme = scheme_;
}

}  // namespace varve::kvbench
