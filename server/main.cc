// varved: reads the settings, has the node built, then waits for signals and takes it down again.
//
// Only what belongs to the process stands here: its signals, its exit codes, what it prints.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "server/config/config.h"
#include "server/host/host.h"
#include "server/node/node.h"

namespace varve {

extern const char* const kBuildCommit;  // of cmake/commit.cmake

namespace {

constexpr Nanos kMetricsInterval = kSecond;
constexpr Nanos kMetricsWait = 10 * kSecond;         // for the first file
constexpr Nanos kListsWaitMin = kSecond;             // for the last lists, whatever is left
constexpr Nanos kPauseInterval = 20 * kMillisecond;  // of main between two questions of the drain

// While nothing is served a signal ends the process at once: targets being made are under another
// name until they are whole, and nothing was promised to anybody.
void end_during_start(int) {
  constexpr char kText[] = "varved: stopped by a signal during start-up; nothing was served\n";
  (void)!::write(STDERR_FILENO, kText, sizeof(kText) - 1);
  ::_exit(0);
}

// Signals that stop the daemon, and those that switch a fault where one is to be had. SIGHUP is one
// of the former unless whoever started us had it ignored (nohup).
class Signals {
 public:
  explicit Signals(const FaultSettings& faults) {
    sigemptyset(&set_);
    if (faults.sticks()) {
      for (const int signal : {SIGUSR1, SIGUSR2})
        sigaddset(&set_, signal);
    }
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
      struct sigaction before = {};
      ::sigaction(signal, nullptr, &before);
      if (signal == SIGHUP && before.sa_handler == SIG_IGN) continue;
      struct sigaction at_start = {};
      at_start.sa_handler = end_during_start;
      ::sigaction(signal, &at_start, nullptr);
      sigaddset(&set_, signal);
    }
  }
  static bool is_fault(int signal) { return signal == SIGUSR1 || signal == SIGUSR2; }
  // From here on they are waited for; the shards' threads never take one.
  void hold() const { ::pthread_sigmask(SIG_BLOCK, &set_, nullptr); }
  // Answers the signal that came within `limit_ns`, 0 when none did. They must be held.
  int wait(Nanos limit_ns) const {
    timespec limit = {static_cast<time_t>(limit_ns / kSecond),
                      static_cast<long>(limit_ns % kSecond)};
    const int signal = ::sigtimedwait(&set_, nullptr, &limit);
    return signal > 0 ? signal : 0;
  }

 private:
  sigset_t set_;
};

[[noreturn]] void end_now(int exit_code) {
  std::fflush(nullptr);
  ::_exit(exit_code);
}

void pause_in_drain(void* context) {
  const int again = static_cast<const Signals*>(context)->wait(kPauseInterval);
  if (again == 0 || Signals::is_fault(again)) return;
  logf(LogLevel::kWarn, "main", "second signal: exit at once; committed blocks survive");
  end_now(128 + again);
}

void say_faults(const ServerConfig& config) {
  if (!config.faults.any()) return;
  logf(LogLevel::kError, "main",
       "TESTING: THIS DAEMON BREAKS ITS PROMISES ON PURPOSE. volatile cache %s, spill %u per "
       "mille, seed %llu, ack before flush %s, purge before flush %s, sticks at SIGUSR1: %s",
       config.faults.volatile_cache ? "ON" : "off", config.faults.spill_per_mille,
       static_cast<unsigned long long>(config.faults.seed),
       config.faults.ack_before_flush ? "ON" : "off",
       config.faults.purge_before_flush ? "ON" : "off",
       config.faults.sticks() ? ("TARGET " + std::to_string(config.faults.stuck_target)).c_str()
                              : "none");
}

// That it serves or stops, to a service manager that may wait for it.
void tell(const std::string& words) {
  const int32_t error = tell_manager(words);
  if (error == 0) return;
  logf(LogLevel::kWarn, "main", "the service manager (NOTIFY_SOCKET) could not be told \"%s\"%s",
       words.substr(0, words.find('\n')).c_str(), errno_suffix(error).c_str());
}

void say_ready(const Node& node) {
  const ServerConfig& c = node.config;
  const std::string text = "listening on " + node.sessions->address() + ", " +
                           std::to_string(c.targets) + " targets, " + std::to_string(c.shards) +
                           " shards, " + bytes_text(c.dram_bytes) + " DRAM, io " +
                           node.threads[kSessionShard]->io->name() + ", control " +
                           (node.control == nullptr ? "none" : node.control->address()) +
                           ", http " + (node.monitor == nullptr ? "none" : node.monitor->address());
  std::printf("varved ready: %s\n", text.c_str());
  std::fflush(stdout);
  tell("READY=1\nSTATUS=" + text);
}

Failure bring_up(Node& node, const Signals& signals) {
  Failure failure = prepare(node);
  if (failure.ok()) failure = build(node);
  // The next step serves, so from here on a signal is a stop of a node that promised something.
  signals.hold();
  if (failure.ok()) failure = start(node);
  // A metrics file that cannot be written at all is a setting to correct, not a line every second.
  // One that only lasts is for the log: the node serves already, and its clients with it.
  std::string unended;
  if (failure.ok()) failure = see_node_whole(node, kMetricsWait, &unended);
  if (!unended.empty()) {
    logf(LogLevel::kWarn, "main", "%s: not written yet; look at the disk under it",
         unended.c_str());
  }
  if (failure.ok()) failure = open_monitor(node);
  if (failure.ok()) failure = open_control(node);
  return failure;
}

// Until a signal that stops the daemon, which is answered, or 0 when the control plane asks for it.
int wait_for_stop(Node& node, const Signals& signals) {
  while (true) {
    const int signal = signals.wait(kMetricsInterval);
    if (signal == 0) {
      see_node(node);
      if (node.shards_stalled == 0) (void)tell_manager("WATCHDOG=1");
      if (stop_wanted(node)) return 0;
    } else if (Signals::is_fault(signal)) {
      stick(node, signal == SIGUSR1 ? Sticking::kOn : Sticking::kOff);
    } else {
      return signal;
    }
  }
}

int serve(const ServerConfig& config, const Signals& signals) {
  Node node(config);
  say_faults(config);
  const Failure failure = bring_up(node, signals);
  if (!failure.ok()) {
    std::fprintf(stderr, "varved: %s\n", failure.text.c_str());
    if (!node.go) return failure.exit_code;
    end_now(failure.exit_code);  // the shards run already: what they committed is recovery's
  }
  say_start(node);
  say_ready(node);
  const int signal = wait_for_stop(node, signals);
  const std::string why =
      signal == 0 ? "asked by the control plane" : "signal " + std::to_string(signal);
  logf(LogLevel::kInfo, "main", "%s: draining, at most %u ms", why.c_str(), config.drain_ms);
  tell("STOPPING=1\nSTATUS=draining, at most " + std::to_string(config.drain_ms) + " ms");
  const Nanos until_ns = node.clock.now_ns() + config.drain_ms * kMillisecond;
  if (!drain(node, until_ns, pause_in_drain, const_cast<Signals*>(&signals))) {
    logf(LogLevel::kWarn, "main",
         "not drained within %u ms: the rest is left to recovery; raise --drain-ms",
         config.drain_ms);
    end_now(kExitNotDrained);
  }
  // Half of what is left, as the listeners need the rest. But what failed during the drain stands
  // in no list yet, and a start that does not know of it may bring back what is purged.
  const Nanos now_ns = node.clock.now_ns();
  const Nanos half_ns = now_ns < until_ns ? (until_ns - now_ns) / 2 : 0;
  std::string unended;
  const Failure unwritten = see_node_whole(node, std::max(half_ns, kListsWaitMin), &unended);
  uint64_t swallowed = 0;
  if (!unwritten.ok() && node.metrics_log.admit(now_ns, &swallowed)) {
    logf(LogLevel::kWarn, "main", "%s; the numbers in it are old", unwritten.text.c_str());
  }
  if (!unended.empty()) {
    logf(LogLevel::kError, "main",
         "%s: not written before the end; the next start may not know what a target missed in the "
         "last seconds, so start with all of them",
         unended.c_str());
  }
  if (const std::string left = stop(node, until_ns); !left.empty()) {
    logf(LogLevel::kInfo, "main", "drained; %s within %u ms, and nothing else is left",
         left.c_str(), config.drain_ms);
    end_now(0);
  }
  logf(LogLevel::kInfo, "main", "drained and stopped");
  return 0;
}

LogLevel log_level(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warn") return LogLevel::kWarn;
  if (name == "error") return LogLevel::kError;
  return LogLevel::kInfo;
}

// Settings of the command line, its file and this machine; answers all that is wrong with them.
std::vector<std::string> complete(CommandLine& line, const Machine& machine) {
  std::vector<std::string> problems = std::move(line.problems);
  if (!line.config.config_file.empty()) {
    std::string text;
    const Failure failure = load_config(line.config.config_file, &text);
    if (failure.ok()) read_config(text, line.config, problems);
    if (!failure.ok()) problems.push_back(failure.text);
  }
  settle(line.config, machine);
  for (std::string& problem : line.config.problems())
    problems.push_back(std::move(problem));
  return problems;
}

// To standard output, whole: half of a printed config would be taken for one.
int print(const std::string& text, int exit_code) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return exit_code;
  std::fprintf(stderr, "varved: standard output takes no more%s; nothing printed may be used\n",
               errno_suffix(errno).c_str());
  return kExitEnvironment;
}

int varved_main(int argc, const char* const* argv) {
  CommandLine line =
      parse_command_line(argc, argv, std::string(version_text()) + ", commit " + kBuildCommit);
  if (line.exit_code >= 0) return print(line.text, line.exit_code);
  const Machine machine = read_machine("");
  const std::vector<std::string> problems = complete(line, machine);
  for (const std::string& problem : problems)
    std::fprintf(stderr, "varved: %s\n", problem.c_str());
  if (!problems.empty()) return kExitUsage;
  if (line.config.print_config) {
    std::vector<uint64_t> existing_bytes;
    for (uint32_t t = 0; t < line.config.targets; ++t)
      existing_bytes.push_back(file_bytes(line.config.target_path(t)));
    return print(line.config.print(existing_bytes), 0);
  }
  if (const std::string problem =
          memory_problem(line.config, machine, line.config.targets * line.config.target_bytes);
      !problem.empty()) {
    std::fprintf(stderr, "varved: %s\n", problem.c_str());
    return kExitEnvironment;
  }
  log_level_set(log_level(line.config.log_level));
  name_out_of_memory();
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a file over the limit is EFBIG, an error with a sentence
  const Signals signals(line.config.faults);
  return serve(line.config, signals);
}

}  // namespace
}  // namespace varve

int main(int argc, char** argv) {
  return varve::varved_main(argc, argv);
}
