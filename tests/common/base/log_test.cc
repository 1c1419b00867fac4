// Goal: one line per record, nothing below the level, bounded size, honest rate limit.
// Method: stderr captured by gtest.
#include "common/base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

namespace varve {
namespace {

TEST(Log, WritesRoomAndTextOnOneLine) {
  testing::internal::CaptureStderr();
  logf(LogLevel::kWarn, "flash", "target %s is full at %d %%", "a\nb\x1b", 93);
  const std::string out = testing::internal::GetCapturedStderr();
  EXPECT_NE(out.find(" W flash: target a?b? is full at 93 %\n"), std::string::npos) << out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
}

TEST(Log, IsSilentBelowItsLevel) {
  testing::internal::CaptureStderr();
  logf(LogLevel::kDebug, "flash", "unseen");
  log_level_set(LogLevel::kDebug);
  logf(LogLevel::kDebug, "flash", "seen");
  log_level_set(LogLevel::kError);
  log_line(LogLevel::kWarn, "flash", "unseen too");
  log_level_set(LogLevel::kInfo);
  const std::string out = testing::internal::GetCapturedStderr();
  EXPECT_EQ(out.find("unseen"), std::string::npos) << out;
  EXPECT_NE(out.find("flash: seen"), std::string::npos) << out;
}

TEST(Log, CutsALineAtItsLimitAndTakesBracesLiterally) {
  testing::internal::CaptureStderr();
  logf(LogLevel::kInfo, "base", "%s", std::string(5000, 'x').c_str());
  log_line(LogLevel::kInfo, "base", "{} {0:d} %s");
  const std::string out = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(out.begin(), out.end(), 'x'), 1024);
  EXPECT_NE(out.find("base: {} {0:d} %s\n"), std::string::npos) << out;
}

// A child of a process whose threads log finds no lock that one of them held. Short lines: where
// nothing is allocated, a sanitizer's own locks do not matter.
TEST(Log, AForkedChildMayLogWhileTheParentsThreadsDo) {
  const int before = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(before, 0);
  ASSERT_EQ(dup2(nowhere, STDERR_FILENO), STDERR_FILENO);
  std::atomic<bool> over{false};
  std::thread logs[2];
  for (std::thread& thread : logs)
    thread = std::thread([&] {
      while (!over.load())
        log_line(LogLevel::kInfo, "a", "parent");
    });
  uint32_t good = 0;
  for (uint32_t i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      log_line(LogLevel::kInfo, "a", "child");
      _exit(0);
    }
    int status = -1;
    good += waitpid(child, &status, 0) == child && status == 0 ? 1 : 0;
  }
  over = true;
  for (std::thread& thread : logs)
    thread.join();
  ASSERT_EQ(dup2(before, STDERR_FILENO), STDERR_FILENO);
  close(before);
  close(nowhere);
  EXPECT_EQ(good, 50u);
}

TEST(LogLimit, LetsOneThroughPerIntervalAndCountsTheRest) {
  LogLimit limit(100);
  uint64_t swallowed = 99;
  EXPECT_TRUE(limit.admit(0, &swallowed));
  EXPECT_EQ(swallowed, 0u);
  EXPECT_FALSE(limit.admit(1, &swallowed));
  EXPECT_FALSE(limit.admit(99, &swallowed));
  EXPECT_TRUE(limit.admit(100, &swallowed));
  EXPECT_EQ(swallowed, 2u);
  EXPECT_TRUE(limit.admit(500, &swallowed));
  EXPECT_EQ(swallowed, 0u);
}

}  // namespace
}  // namespace varve
