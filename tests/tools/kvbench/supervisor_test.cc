// However a run ends, what it started ends too and its folder is gone; the exit code says how.
#include "tools/kvbench/supervisor.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

namespace varve::kvbench {
namespace {

// A folder with a file in it, and a pipe that every process of the run holds: its end is the last
// of them.
struct Supervised {
  std::string folder = testing::TempDir() + "/kvbench_supervisor";
  int pipe_ends[2] = {-1, -1};
  pid_t supervisor = -1;

  explicit Supervised(const std::function<int(int)>& body,  // with the end to write to
                      const std::function<void(int)>& before = {}) {
    std::filesystem::create_directories(folder + "/target");
    EXPECT_EQ(::pipe(pipe_ends), 0);
    supervisor = ::fork();
    if (supervisor == 0) {
      if (before) before(pipe_ends[1]);
      const auto code = supervise(folder);
      ::_exit(code ? *code : body(pipe_ends[1]));
    }
  }
  ~Supervised() {
    (void)::close(pipe_ends[0]);
    std::filesystem::remove_all(folder);
  }
  void wait_begun() {  // the body has written a byte
    char byte = 0;
    EXPECT_EQ(::read(pipe_ends[0], &byte, 1), 1);
  }
  int exit_code() {
    const int status = wait_all_ended();
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status);
  }
  int wait_all_ended() {
    int status = 0;
    EXPECT_EQ(::waitpid(supervisor, &status, 0), supervisor);
    (void)::close(pipe_ends[1]);
    char byte = 0;
    EXPECT_EQ(::read(pipe_ends[0], &byte, 1), 0) << "a process of the run is left";
    EXPECT_FALSE(std::filesystem::exists(folder));
    return status;
  }
};

[[noreturn]] void pause_for_ever() {
  while (true)
    ::pause();
}

// Starts a process that ends by itself never, and says that it has.
int run_for_ever(int output) {
  if (::fork() == 0) {
    if (::write(output, "x", 1) == 1) pause_for_ever();
    ::_exit(1);
  }
  pause_for_ever();
}

TEST(Supervisor, ASignalFromOutsideEndsAllOfTheRun) {
  for (const int number :
       {SIGINT, SIGTERM, SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF,
        SIGIO, SIGPWR, SIGABRT, SIGSEGV, SIGRTMIN, SIGRTMAX}) {
    Supervised run(run_for_ever);
    run.wait_begun();
    ASSERT_EQ(::kill(run.supervisor, number), 0);
    EXPECT_EQ(run.exit_code(), 128 + number);
  }
}

// One that ends no process ends no run, nor does one that was ignored from the start.
TEST(Supervisor, ASignalThatEndsNothingIsNone) {
  Supervised run(run_for_ever, [](int) { (void)::signal(SIGQUIT, SIG_IGN); });
  run.wait_begun();
  for (const int number : {SIGWINCH, SIGCONT, SIGURG, SIGQUIT})
    ASSERT_EQ(::kill(run.supervisor, number), 0);
  ASSERT_EQ(::kill(run.supervisor, SIGTERM), 0);
  EXPECT_EQ(run.exit_code(), 128 + SIGTERM);
}

TEST(Supervisor, TheCodeOfTheRunIsItsOwn) {
  for (const int code : {0, 1, 2}) {
    Supervised run([code](int) { return code; });
    EXPECT_EQ(run.exit_code(), code);
  }
}

TEST(Supervisor, ARunThatAbortsLeavesNothingEither) {
  Supervised run([](int) {
    if (::fork() == 0) pause_for_ever();
    return ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(run.exit_code(), 128 + SIGKILL);
}

TEST(Supervisor, AProcessThatWasKilledLeavesNothingEither) {
  Supervised run(run_for_ever);
  run.wait_begun();
  ASSERT_EQ(::kill(run.supervisor, SIGKILL), 0);
  EXPECT_TRUE(WIFSIGNALED(run.wait_all_ended()));
}

// A child that says its pid and then holds a pipe which nobody else writes to, as long as it lives.
struct OlderChild {
  int pipe_ends[2] = {-1, -1};

  OlderChild() { EXPECT_EQ(::pipe(pipe_ends), 0); }
  ~OlderChild() { (void)::close(pipe_ends[0]); }
  void start(int output_of_run) {
    if (::fork() == 0) {
      (void)::close(output_of_run);
      const pid_t own = ::getpid();
      if (::write(pipe_ends[1], &own, sizeof(own)) == sizeof(own)) pause_for_ever();
      ::_exit(1);
    }
    (void)::close(pipe_ends[1]);
  }
  pid_t pid() {
    (void)::close(pipe_ends[1]);  // the test's own
    pid_t child = -1;
    EXPECT_EQ(::read(pipe_ends[0], &child, sizeof(child)), ssize_t{sizeof(child)});
    return child;
  }
  bool lives() const {
    pollfd end = {pipe_ends[0], POLLIN, 0};
    return ::poll(&end, 1, 0) == 0;
  }
};

// As of a shell that has jobs and calls exec.
TEST(Supervisor, AChildFromBeforeTheRunLivesOn) {
  for (const bool by_signal : {false, true}) {
    OlderChild older;
    Supervised run([by_signal](int output) { return by_signal ? run_for_ever(output) : 0; },
                   [&older](int output) { older.start(output); });
    const pid_t child = older.pid();
    ASSERT_GT(child, 0);
    if (by_signal) {
      run.wait_begun();
      ASSERT_EQ(::kill(run.supervisor, SIGTERM), 0);
    }
    EXPECT_EQ(run.exit_code(), by_signal ? 128 + SIGTERM : 0);
    EXPECT_TRUE(older.lives());
    (void)::kill(child, SIGKILL);
  }
}

}  // namespace
}  // namespace varve::kvbench
