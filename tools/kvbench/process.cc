// fork, exec, one line of output, signals.
#include "tools/kvbench/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tools/kvbench/machine.h"

namespace varve::kvbench {

namespace {

constexpr Nanos kReadyWait = 60 * kSecond;
constexpr Nanos kStopWait = 20 * kSecond;
constexpr Nanos kVersionWait = 10 * kSecond;
constexpr uint32_t kLineBytesMax = 4096;
constexpr uint64_t kFileBytesMax = 64 * kMiB;  // what /proc, a build or a daemon tells is less
constexpr uint32_t kMetricsLooks = 2000;       // every 10 ms

void sleep_ms(uint32_t ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

int64_t written_ns(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return 0;
  return int64_t{info.st_mtim.tv_sec} * 1000000000 + info.st_mtim.tv_nsec;
}

std::string work_path(const std::string& asked) {
  return asked.empty() ? own_path().substr(0, own_path().rfind('/')) + "/../bench-data" : asked;
}

}  // namespace

uint64_t metric_sum(std::string_view prometheus_text, std::string_view name,
                    std::string_view label) {
  uint64_t sum = 0;
  while (!prometheus_text.empty()) {
    const size_t end = prometheus_text.find('\n');
    const std::string_view line = prometheus_text.substr(0, end);
    prometheus_text.remove_prefix(end == std::string_view::npos ? prometheus_text.size() : end + 1);
    if (line.substr(0, name.size()) != name) continue;
    const std::string_view rest = line.substr(name.size());
    if (rest.empty() || (rest[0] != ' ' && rest[0] != '{')) continue;
    if (!label.empty() && rest.find(label) == std::string_view::npos) continue;
    const size_t space = rest.rfind(' ');
    for (const char c : rest.substr(space + 1)) {
      if (c < '0' || c > '9') return 0;  // not a counter
    }
    sum += std::stoull("0" + std::string(rest.substr(space + 1)));
  }
  return sum;
}

Result<std::string> read_regular(const std::string& path, uint64_t bytes_max) {
  struct stat info = {};
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return Status::io("kvbench: the file cannot be opened", errno);
  const bool regular = ::fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  std::string text;
  char piece[64 * 1024];
  ssize_t got = regular ? 1 : 0;
  while (got > 0 && text.size() <= bytes_max) {  // what /proc has tells no length
    got = ::read(file, piece, sizeof(piece));
    if (got > 0) text.append(piece, static_cast<size_t>(got));
  }
  const int error = got < 0 ? errno : 0;
  (void)::close(file);
  if (!regular) return Status::invalid("kvbench: this is no regular file; is it the right one?");
  if (error != 0) return Status::io("kvbench: the file cannot be read", error);
  if (text.size() > bytes_max) {
    return Status::invalid(
        "kvbench: the file is larger than any of its kind; is it the right one?");
  }
  return text;
}

std::string read_file(const std::string& path) {
  const auto text = read_regular(path, kFileBytesMax);
  return text ? *text : "";
}

std::string commit_of_version(std::string_view text) {
  constexpr std::string_view kMark = ", commit ";
  const size_t at = text.find(kMark);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = text.substr(at + kMark.size());
  return std::string(rest.substr(0, rest.find_first_of(" ,\n")));
}

Result<std::string> commit_of_program(const std::string& program) {
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) return Status::io("kvbench: pipe", errno);
  std::string name = program, version = "--version";
  char* argv[] = {name.data(), version.data(), nullptr};
  const pid_t pid = ::fork();
  if (pid == 0) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)::dup2(pipe_ends[1], STDOUT_FILENO);
    (void)::execv(argv[0], argv);
    ::_exit(127);
  }
  (void)::close(pipe_ends[1]);
  std::string text;
  const SystemClock clock;
  const Nanos until_ns = clock.now_ns() + kVersionWait;
  while (pid > 0 && text.size() < kLineBytesMax && clock.now_ns() < until_ns) {
    pollfd wait = {pipe_ends[0], POLLIN, 0};
    if (::poll(&wait, 1, 100) <= 0) continue;
    char piece[256];
    const ssize_t got = ::read(pipe_ends[0], piece, sizeof(piece));
    if (got <= 0) break;
    text.append(piece, static_cast<size_t>(got));
    if (text.find('\n') != std::string::npos) break;
  }
  (void)::close(pipe_ends[0]);
  if (pid > 0) {
    (void)::kill(pid, SIGKILL);  // it has said what it had to say
    (void)::waitpid(pid, nullptr, 0);
  }
  std::string commit = commit_of_version(text);
  if (!commit.empty()) return commit;
  return Status::unsupported(
      "kvbench: varved does not say of which commit it is: build it anew, beside kvbench");
}

DaemonSeen seen_of_metrics(std::string_view prometheus_text) {
  DaemonSeen seen;
  for (const char* io : {"io_uring", "epoll"}) {
    const std::string label = std::string("kind=\"") + io + "\"";
    if (metric_sum(prometheus_text, "varve_io_backend", label) > 0) seen.io = io;
  }
  seen.registers = prometheus_text.find("\nvarve_io_registered_bytes{") != std::string_view::npos;
  seen.registered_bytes = metric_sum(prometheus_text, "varve_io_registered_bytes", "");
  seen.registered_files = metric_sum(prometheus_text, "varve_io_registered_files", "");
  return seen;
}

std::string own_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

std::string varved_path() {
  return own_path().substr(0, own_path().rfind('/')) + "/varved";
}

Result<std::string> work_folder(const std::string& asked) {
  std::error_code error;
  const std::string folder = work_path(asked);
  std::filesystem::create_directories(folder, error);
  if (error) return Status::io("bench: the work folder cannot be made", error.value());
  const std::string whole = std::filesystem::canonical(folder, error).string();
  if (error) return Status::io("bench: the work folder is not there", error.value());
  return whole;
}

std::string run_folder(const std::string& work, const std::string& run_id) {
  return work + "/kvbench-" + run_id;
}

std::string run_folder_asked(const std::string& asked, const std::string& run_id) {
  return run_folder(work_path(asked), run_id);
}

Nanos cpu_ns(pid_t pid) {
  clockid_t clock = 0;
  timespec now{};
  if (pid <= 0 || ::clock_getcpuclockid(pid, &clock) != 0) return 0;
  if (::clock_gettime(clock, &now) != 0) return 0;
  return static_cast<Nanos>(now.tv_sec) * kSecond + static_cast<Nanos>(now.tv_nsec);
}

Nanos own_cpu_ns() {
  timespec now{};
  (void)::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<Nanos>(now.tv_sec) * kSecond + static_cast<Nanos>(now.tv_nsec);
}

Nanos core_wait_ns(pid_t pid) {
  Nanos sum = 0;
  std::error_code error;
  const std::filesystem::directory_iterator tasks("/proc/" + std::to_string(pid) + "/task", error);
  for (const auto& task : tasks) {
    const std::string text = read_file(task.path().string() + "/schedstat");
    const size_t second = text.find(' ');  // time on a core, time without one, how often
    if (second != std::string::npos) sum += std::strtoull(text.c_str() + second, nullptr, 10);
  }
  return sum;
}

Result<std::unique_ptr<Daemon>> Daemon::start(const std::string& program,
                                              const std::string& data_folder,
                                              std::vector<std::string> arguments) {
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) return Status::io("bench: pipe", errno);
  arguments.insert(arguments.begin(), {program, "--data", data_folder, "--listen", "127.0.0.1:0",
                                       "--http", "none", "--control", "none"});
  std::vector<char*> argv;
  for (std::string& argument : arguments)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return Status::io("bench: fork", errno);
  if (pid == 0) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)::dup2(pipe_ends[1], STDOUT_FILENO);
    (void)::execv(program.c_str(), argv.data());
    ::_exit(127);
  }
  (void)::close(pipe_ends[1]);
  std::unique_ptr<Daemon> daemon(new Daemon);
  daemon->pid_ = pid;
  daemon->output_ = pipe_ends[0];
  daemon->data_folder_ = data_folder;
  VARVE_RETURN_IF_ERROR(daemon->wait_ready());
  // Its first metrics were written before it said that it is ready, and threads run as they will.
  daemon->seen_ = seen_of_metrics(read_file(data_folder + "/metrics.prom"));
  daemon->seen_.cores = cores_of_threads(pid);
  return daemon;
}

// Reads until the line that names the address; the log may come before it.
Status Daemon::wait_ready() {
  const SystemClock clock;
  const Nanos until_ns = clock.now_ns() + kReadyWait;
  std::string line;
  constexpr std::string_view kMark = "listening on ";
  while (clock.now_ns() < until_ns) {
    pollfd wait = {output_, POLLIN, 0};
    if (::poll(&wait, 1, 100) <= 0) continue;
    char c = 0;
    if (::read(output_, &c, 1) != 1) return Status::unavailable("bench: varved did not start");
    if (c != '\n') {
      if (line.size() < kLineBytesMax) line += c;
      continue;
    }
    const size_t at = line.find(kMark);
    if (line.find("varved ready") != std::string::npos && at != std::string::npos) {
      ready_line_ = line;
      const size_t begin = at + kMark.size();
      address_ = line.substr(begin, line.find_first_of(", ", begin) - begin);
      return {};
    }
    line.clear();
  }
  return Status::timed_out("bench: varved did not get ready");
}

Daemon::~Daemon() {
  if (pid_ > 0) {
    (void)::kill(pid_, SIGTERM);
    const SystemClock clock;
    const Nanos until_ns = clock.now_ns() + kStopWait;
    int end = 0;
    while (::waitpid(pid_, &end, WNOHANG) == 0) {
      if (clock.now_ns() >= until_ns) (void)::kill(pid_, SIGKILL);
      sleep_ms(10);
    }
    if (WIFSIGNALED(end)) {
      std::fprintf(stderr, "kvbench: varved ended by signal %d\n", WTERMSIG(end));
    }
  }
  if (output_ >= 0) (void)::close(output_);
}

void Daemon::signal(int number) const {
  (void)::kill(pid_, number);
}

std::string Daemon::stop(std::unique_ptr<Daemon> daemon) {
  const std::string path = daemon->data_folder_ + "/metrics.prom";
  daemon.reset();
  return read_file(path);
}

uint64_t Daemon::metric(std::string_view name, std::string_view label) const {
  return metric_sum(metrics(), name, label);
}

std::string Daemon::metrics() const {
  const std::string path = data_folder_ + "/metrics.prom";
  const int64_t before_ns = written_ns(path);
  // Twice: the writing that is under way may hold numbers of before.
  int64_t seen_ns = before_ns;
  uint32_t changes = 0;
  for (uint32_t i = 0; i < kMetricsLooks && changes < 2; ++i) {
    sleep_ms(10);
    const int64_t now_ns = written_ns(path);
    if (now_ns != seen_ns) ++changes;
    seen_ns = now_ns;
  }
  return changes < 2 ? "" : read_file(path);
}

}  // namespace varve::kvbench
