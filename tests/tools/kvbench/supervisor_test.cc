// However a run ends, what it started ends too and its folder is gone; the exit code says how.
#include "tools/kvbench/supervisor.h"

#include <gtest/gtest.h>
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

  explicit Supervised(const std::function<int(int)>& body)  // with the end to write to
  {
    std::filesystem::create_directories(folder + "/target");
    EXPECT_EQ(::pipe(pipe_ends), 0);
    supervisor = ::fork();
    if (supervisor == 0) {
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
    int status = 0;
    EXPECT_EQ(::waitpid(supervisor, &status, 0), supervisor);
    EXPECT_TRUE(WIFEXITED(status));
    (void)::close(pipe_ends[1]);
    char byte = 0;
    EXPECT_EQ(::read(pipe_ends[0], &byte, 1), 0) << "a process of the run is left";
    EXPECT_FALSE(std::filesystem::exists(folder));
    return WEXITSTATUS(status);
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
  for (const int number : {SIGINT, SIGTERM}) {
    Supervised run(run_for_ever);
    run.wait_begun();
    ASSERT_EQ(::kill(run.supervisor, number), 0);
    EXPECT_EQ(run.exit_code(), 128 + number);
  }
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

}  // namespace
}  // namespace varve::kvbench
