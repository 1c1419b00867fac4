// Reading another process: its counters, its time, its end.
#include "tools/kvbench/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace varve::kvbench {
namespace {

constexpr const char* kText =
    "# HELP varve_pull_bytes_total Bytes sent.\n"
    "varve_pull_bytes_total{tier=\"dram\"} 100\n"
    "varve_pull_bytes_total{tier=\"flash\"} 20\n"
    "varve_pull_bytes_total_other 5000\n"
    "varve_sessions 3\n";

TEST(Process, ACounterIsTheSumOverItsLabels) {
  EXPECT_EQ(metric_sum(kText, "varve_pull_bytes_total", ""), 120u);
  EXPECT_EQ(metric_sum(kText, "varve_pull_bytes_total", "tier=\"dram\""), 100u);
  EXPECT_EQ(metric_sum(kText, "varve_sessions", ""), 3u);
}

TEST(Process, ACounterThatIsNotThereIsZero) {
  EXPECT_EQ(metric_sum(kText, "varve_pull_bytes", ""), 0u);
  EXPECT_EQ(metric_sum("", "varve_sessions", ""), 0u);
}

TEST(Process, AFileIsReadToItsBoundAndADeviceOrAPipeNotAtAll) {
  const std::string path = testing::TempDir() + "/kvbench_process_file";
  const std::string pipe = testing::TempDir() + "/kvbench_process_pipe";
  std::ofstream(path) << std::string(1000, 'x');
  ::unlink(pipe.c_str());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(*read_regular(path, 1000), std::string(1000, 'x'));
  EXPECT_EQ(read_regular(path, 999).error().code(), Code::kInvalid);
  for (const std::string& other : {std::string("/dev/zero"), pipe, testing::TempDir()}) {
    EXPECT_EQ(read_regular(other, 1000).error().code(), Code::kInvalid) << other;
    EXPECT_EQ(read_file(other), "") << other;
  }
  EXPECT_EQ(read_regular("/no/such/file", 1000).error().code(), Code::kIo);
  EXPECT_NE(read_file("/proc/self/mountinfo"), "") << "of which nobody tells the length";
}

TEST(Process, AProgramSaysOfWhichCommitItIs) {
  EXPECT_EQ(commit_of_version("varved 0.1 (wire 1, format 1), commit 12ab-dirty\n"), "12ab-dirty");
  EXPECT_EQ(commit_of_version("varved 0.1 (wire 1, format 1)\n"), "");
  const std::string path = testing::TempDir() + "/kvbench_process_version";
  std::ofstream(path) << "#!/bin/sh\necho \"says $1, commit 77\"\nexec sleep 100\n";
  ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  const auto commit = commit_of_program(path);
  ASSERT_TRUE(commit.has_value()) << commit.error().what();
  EXPECT_EQ(*commit, "77");
  EXPECT_FALSE(commit_of_program("/no/such/program").has_value());
  EXPECT_FALSE(commit_of_program("/bin/true").has_value());
}

TEST(Process, AThreadThatIsReadyAndHasNoCoreIsSeen) {
  EXPECT_EQ(core_wait_ns(0), 0u) << "there is no process 0 here";
  const Nanos before_ns = core_wait_ns(getpid());
  EXPECT_GE(core_wait_ns(getpid()), before_ns);
}

TEST(Process, WorkShowsInTheTimeOfAProcess) {
  const Nanos before_ns = cpu_ns(getpid());
  volatile uint64_t sum = 0;
  while (cpu_ns(getpid()) < before_ns + 20 * kMillisecond)
    sum = sum + 1;
  EXPECT_GT(sum, 0u);
  EXPECT_EQ(cpu_ns(0), 0u) << "there is no process 0 here";
}

TEST(Process, TheTimeOfAProcessIsFinerThanTheKernelsTicks) {
  constexpr Nanos kTick = 10 * kMillisecond;
  Nanos remainders = 0;
  for (uint32_t i = 0; i < 8; ++i)
    remainders += cpu_ns(getpid()) % kTick;
  EXPECT_GT(remainders, 0u) << "a bar of 1.1 cannot be judged by whole ticks";
}

TEST(Process, TheTimeOfAllThreadsHereGrowsWithWork) {
  const Nanos before_ns = own_cpu_ns();
  volatile uint64_t sum = 0;
  for (uint32_t i = 0; i < 1000000; ++i)
    sum = sum + i;
  EXPECT_GT(own_cpu_ns(), before_ns);
}

TEST(Process, WhatADaemonRegisteredIsInItsMetrics) {
  const std::string text =
      "# HELP varve_io_backend x\n# TYPE varve_io_backend gauge\n"
      "varve_io_backend{kind=\"io_uring\"} 2\n"
      "varve_io_registered_bytes{shard=\"0\"} 4096\nvarve_io_registered_bytes{shard=\"1\"} 0\n"
      "varve_io_registered_files{shard=\"0\"} 2\nvarve_io_registered_files{shard=\"1\"} 3\n";
  const DaemonSeen seen = seen_of_metrics(text);
  EXPECT_EQ(seen, (DaemonSeen{"io_uring", true, 4096, 5, ""}));
  // Expect: of an older one that does not tell it nothing is claimed.
  const DaemonSeen older = seen_of_metrics("varve_io_backend{kind=\"epoll\"} 1\n");
  EXPECT_EQ(older, (DaemonSeen{"epoll", false, 0, 0, ""}));
  EXPECT_EQ(seen_of_metrics(""), DaemonSeen());
}

TEST(Process, AProgramThatSaysItsAddressIsReady) {
  const std::string script = ::testing::TempDir() + "/kvbench_daemon.sh";
  FILE* file = fopen(script.c_str(), "w");
  ASSERT_NE(file, nullptr);
  fputs(
      "#!/bin/sh\necho starting\n"
      "echo varved ready: listening on 127.0.0.1:4711, 4 targets\nexec sleep 60\n",
      file);
  fclose(file);
  auto daemon = Daemon::start("/bin/sh", "nowhere", {});
  EXPECT_FALSE(daemon.has_value()) << "a shell knows no --data";
  ASSERT_EQ(chmod(script.c_str(), 0700), 0);
  daemon = Daemon::start(script, "nowhere", {});
  ASSERT_TRUE(daemon.has_value());
  EXPECT_EQ((*daemon)->address(), "127.0.0.1:4711");
  EXPECT_EQ((*daemon)->seen().io, "") << "it has no metrics";
  EXPECT_NE((*daemon)->seen().cores, "");
  const pid_t pid = (*daemon)->pid();
  daemon->reset();
  EXPECT_EQ(kill(pid, 0), -1) << "it was stopped and waited for";
}

}  // namespace
}  // namespace varve::kvbench
