// Two forks, sigwait, and a list of children that the kernel keeps.
#include "tools/kvbench/supervisor.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

namespace varve::kvbench {

namespace {

constexpr uint32_t kEndLooks = 2000;  // every 10 ms

// What stops a process, lets it go on or is ignored: none of these ends it.
constexpr int kEndsNothing[] = {SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH};

// Every signal that would end this process and can be waited for, and SIGCHLD. One that was ignored
// from the start (nohup, a job in the background) stays so: sigwait would take it all the same.
sigset_t watched_signals() {
  sigset_t watched;
  (void)::sigfillset(&watched);
  for (const int number : kEndsNothing)
    (void)::sigdelset(&watched, number);
  for (int number = 1; number <= SIGRTMAX; ++number) {
    struct sigaction now = {};
    const bool ignored = ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
    if (ignored && number != SIGCHLD) (void)::sigdelset(&watched, number);
  }
  return watched;
}

// Ours, and those of a child that has ended: they become ours (subreaper).
void kill_children() {
  const std::string pid = std::to_string(::getpid());
  std::ifstream children("/proc/self/task/" + pid + "/children");
  pid_t child = 0;
  while (children >> child)
    (void)::kill(child, SIGKILL);
}

// Returns when no child is left; what hangs in the kernel for 20 s is named and left to it.
void end_children() {
  for (uint32_t look = 0; look < kEndLooks; ++look) {
    kill_children();
    pid_t ended = 0;
    while ((ended = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (ended < 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::fprintf(stderr, "kvbench: a process of the run does not end\n");
}

// Until the child has ended (0) or a signal came (its number).
int wait_for_end(pid_t child, const sigset_t& watched, int& status) {
  while (true) {
    int number = 0;
    if (::sigwait(&watched, &number) != 0) continue;
    if (number != SIGCHLD) return number;
    if (::waitpid(child, &status, WNOHANG) == child) return 0;
  }
}

// Says to the supervisor that the process which was started is gone; from elsewhere it ends the run
// too.
constexpr int kStarterDied = SIGUSR1;

// The process that was started: it may have children that are not of the run, as a shell that calls
// exec leaves them, so it neither kills nor waits for any but the supervisor.
int wait_for_supervisor(pid_t supervisor, const sigset_t& watched, const std::string& folder) {
  while (true) {
    int status = 0;
    const int number = wait_for_end(supervisor, watched, status);
    if (number != 0) {
      (void)::kill(supervisor, number);
    } else if (WIFEXITED(status)) {
      return WEXITSTATUS(status);
    } else {
      std::fprintf(stderr,
                   "kvbench: no result: its supervisor was ended by signal %d, %s is left\n",
                   WTERMSIG(status), folder.c_str());
      return 128 + WTERMSIG(status);
    }
  }
}

// Forks the run; the code for the process that was started. In the run: nothing.
std::optional<int> end_with_run(const std::string& folder, const sigset_t& watched,
                                const sigset_t& before) {
  (void)::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t supervisor = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    std::perror("kvbench: no result: fork");
    return 1;
  }
  if (child == 0) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != supervisor) ::_exit(1);
    (void)::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return std::nullopt;
  }
  int status = 0;
  int number = wait_for_end(child, watched, status);
  if (number == 0 && WIFSIGNALED(status)) number = WTERMSIG(status);
  end_children();
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (error) {
    std::fprintf(stderr, "kvbench: %s is left: %s\n", folder.c_str(), error.message().c_str());
  }
  if (number == 0) return WEXITSTATUS(status);
  std::fprintf(stderr,
               "kvbench: no result: ended by signal %d; a --json FILE that was written by then is "
               "whole\n",
               number);
  return 128 + number;
}

}  // namespace

std::optional<int> supervise(const std::string& folder) {
  (void)::signal(SIGCHLD, SIG_DFL);
  sigset_t watched = watched_signals();
  sigset_t before;
  (void)::pthread_sigmask(SIG_BLOCK, &watched, &before);
  const pid_t starter = ::getpid();
  const pid_t supervisor = ::fork();
  if (supervisor < 0) {
    std::perror("kvbench: no result: fork");
    return 1;
  }
  if (supervisor > 0) return wait_for_supervisor(supervisor, watched, folder);
  (void)::sigaddset(&watched, kStarterDied);
  (void)::pthread_sigmask(SIG_BLOCK, &watched, nullptr);
  (void)::prctl(PR_SET_PDEATHSIG, kStarterDied);
  if (::getppid() != starter) ::_exit(1);
  const auto code = end_with_run(folder, watched, before);
  if (code) ::_exit(*code);
  return std::nullopt;
}

}  // namespace varve::kvbench
