// Daemon: fork, exec, one pipe for stdout; everything waits with a bound.
#include "tools/ledger/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace varve::ledger {

namespace {

constexpr size_t kOutBytesMax = 64 * 1024;  // of stdout that is kept

Nanos now_ns() {
  return SystemClock().now_ns();
}

// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void become(char* const* argv, int out_fd, int log_fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(out_fd, STDOUT_FILENO);
  ::dup2(log_fd, STDERR_FILENO);
  ::execv(argv[0], argv);
  ::_exit(127);
}

}  // namespace

Daemon::~Daemon() {
  kill_now();
  if (out_fd_ >= 0) ::close(out_fd_);
}

Status Daemon::start() {
  VARVE_ASSERT(pid_ == 0);
  std::vector<char*> argv;
  argv.push_back(options_.program.data());
  for (std::string& argument : options_.arguments)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  const int log_fd =
      ::open(options_.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log_fd < 0) return Status::io("ledger: the daemon's log", errno);
  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) != 0) {
    ::close(log_fd);
    return Status::io("ledger: pipe", errno);
  }
  const pid_t pid = ::fork();
  if (pid == 0) become(argv.data(), pipe_fds[1], log_fd);
  ::close(log_fd);
  ::close(pipe_fds[1]);
  out_fd_ = pipe_fds[0];
  if (pid < 0) return Status::io("ledger: fork", errno);
  pid_ = pid;
  return Status();
}

Status Daemon::wait_ready(Nanos timeout_ns) {
  const Nanos until = now_ns() + timeout_ns;
  while (address_.empty()) {
    const Nanos now = now_ns();
    if (now >= until) return Status::timed_out("varved is not ready in time");
    pollfd fd{out_fd_, POLLIN, 0};
    if (::poll(&fd, 1, static_cast<int>((until - now) / kMillisecond + 1)) <= 0) continue;
    char buffer[512];
    const ssize_t n = ::read(out_fd_, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      reap(true);
      return Status::unavailable("varved ended before it was ready");
    }
    if (out_text_.size() < kOutBytesMax) out_text_.append(buffer, static_cast<size_t>(n));
    address_ = ready_address(out_text_);
  }
  return Status();
}

bool Daemon::reap(bool block) {
  if (pid_ == 0 || ended_) return true;
  pid_t got = 0;
  do {
    got = ::waitpid(pid_, &wait_status_, block ? 0 : WNOHANG);
  } while (got < 0 && errno == EINTR);
  ended_ = got == pid_ || got < 0;
  return ended_;
}

bool Daemon::running() {
  return pid_ != 0 && !reap(false);
}

void Daemon::kill_now() {
  if (pid_ == 0 || ended_) return;
  ::kill(pid_, SIGKILL);
  reap(true);
}

Status Daemon::stop(Nanos timeout_ns) {
  if (!running()) return Status::unavailable("varved is not running");
  ::kill(pid_, SIGTERM);
  const Nanos until = now_ns() + timeout_ns;
  while (!reap(false)) {
    if (now_ns() >= until) {
      kill_now();
      return Status::timed_out("varved does not stop when asked");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return Status();
}

std::string Daemon::ending() const {
  if (!ended_) return "";
  if (WIFSIGNALED(wait_status_)) return "signal " + std::to_string(WTERMSIG(wait_status_));
  return "exit " + std::to_string(WEXITSTATUS(wait_status_));
}

std::string ready_address(const std::string& text) {
  const std::string before = "varved ready: listening on ";
  const size_t at = text.find(before);
  if (at == std::string::npos) return "";
  const size_t begin = at + before.size();
  const size_t end = text.find_first_of(",\n", begin);
  return end == std::string::npos ? "" : text.substr(begin, end - begin);
}

std::map<std::string, double> metric_sums(const std::string& text) {
  std::map<std::string, double> sums;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.empty() || line[0] == '#') continue;
    const size_t name_end = line.find_first_of("{ ");
    const size_t value = line.rfind(' ');
    if (name_end == std::string::npos || value == std::string::npos) continue;
    sums[line.substr(0, name_end)] += std::strtod(line.c_str() + value, nullptr);
  }
  return sums;
}

std::map<std::string, double> metric_labels(const std::string& text, const std::string& name) {
  std::map<std::string, double> values;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    const size_t end = line.rfind("} ");
    if (line.rfind(name + "{", 0) != 0 || end == std::string::npos) continue;
    const std::string labels = line.substr(name.size() + 1, end - name.size() - 1);
    values[labels] = std::strtod(line.c_str() + end + 2, nullptr);
  }
  return values;
}

std::string complaint_in(const std::string& log) {
  std::istringstream lines(log);
  std::string line;
  while (std::getline(lines, line)) {
    for (const char* mark :
         {"assertion failed", "Sanitizer", "runtime error", "terminate called"}) {
      if (line.find(mark) != std::string::npos) return line;
    }
  }
  return "";
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace varve::ledger
