// Goal: a life of the daemon is started, watched and ended, and its texts are read right.
// Method: the shell plays the daemon; the texts are given.
#include "tools/ledger/daemon.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace varve::ledger {
namespace {

class DaemonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    log_ = ::testing::TempDir() + "varve_ledger_daemon_test.log";
    std::filesystem::remove(log_);
  }
  void TearDown() override { std::filesystem::remove(log_); }
  Daemon shell(const std::string& script) {
    return Daemon(DaemonOptions{"/bin/sh", {"-c", script}, log_});
  }
  std::string log_;
};

TEST_F(DaemonTest, ReadsTheAddressAndKills) {
  Daemon daemon = shell("echo 'varved ready: listening on 127.0.0.1:99, 4 targets'; exec sleep 60");
  ASSERT_TRUE(daemon.start().ok());
  ASSERT_TRUE(daemon.wait_ready(20 * kSecond).ok());
  EXPECT_EQ(daemon.address(), "127.0.0.1:99");
  EXPECT_TRUE(daemon.ending().empty());
  daemon.kill_now();
  EXPECT_FALSE(daemon.running());
  EXPECT_EQ(daemon.ending(), "signal 9");
}

TEST_F(DaemonTest, SaysHowItEndedBeforeItWasReady) {
  Daemon daemon = shell("echo 'no such target' >&2; exit 4");
  ASSERT_TRUE(daemon.start().ok());
  EXPECT_EQ(daemon.wait_ready(20 * kSecond).code(), Code::kUnavailable);
  EXPECT_EQ(daemon.ending(), "exit 4");
  EXPECT_EQ(read_text(log_), "no such target\n");
}

TEST_F(DaemonTest, GivesUpWaitingForASilentOne) {
  Daemon daemon = shell("exec sleep 60");
  ASSERT_TRUE(daemon.start().ok());
  EXPECT_EQ(daemon.wait_ready(20 * kMillisecond).code(), Code::kTimedOut);
}

TEST_F(DaemonTest, StopsOneThatObeysAndKillsOneThatDoesNot) {
  const char* obeys =
      "trap 'exit 0' TERM; echo 'varved ready: listening on a:1,'; while :; do sleep 0.01; done";
  Daemon good = shell(obeys);
  ASSERT_TRUE(good.start().ok());
  ASSERT_TRUE(good.wait_ready(20 * kSecond).ok());
  EXPECT_TRUE(good.stop(20 * kSecond).ok());
  EXPECT_EQ(good.ending(), "exit 0");
  Daemon deaf = shell("trap '' TERM; echo 'varved ready: listening on a:1,'; exec sleep 60");
  ASSERT_TRUE(deaf.start().ok());
  ASSERT_TRUE(deaf.wait_ready(20 * kSecond).ok());
  EXPECT_EQ(deaf.stop(50 * kMillisecond).code(), Code::kTimedOut);
  EXPECT_EQ(deaf.ending(), "signal 9");
}

TEST(DaemonTexts, AReadyLineCountsWhenItsAddressIsWhole) {
  EXPECT_EQ(ready_address("x\nvarved ready: listening on [::1]:5, more"), "[::1]:5");
  EXPECT_EQ(ready_address("varved ready: listening on 127.0.0.1:5"), "");
  EXPECT_EQ(ready_address(""), "");
}

TEST(DaemonTexts, MetricsAreSummedOverTheirLabels) {
  auto sums = metric_sums("# HELP a b\na_total{x=\"1 2\"} 3\na_total{x=\"2\"} 4\nb 1.5\n\njunk\n");
  EXPECT_EQ(sums["a_total"], 7);
  EXPECT_EQ(sums["b"], 1.5);
  EXPECT_EQ(sums["c"], 0);
}

TEST(DaemonTexts, AMetricIsReadByItsLabels) {
  const auto values =
      metric_labels("a{x=\"1\",y=\"2\"} 3\na{x=\"2\"} 4.5\nab{x=\"1\"} 9\na 7\n", "a");
  EXPECT_EQ(values, (std::map<std::string, double>{{"x=\"1\",y=\"2\"", 3}, {"x=\"2\"", 4.5}}));
}

TEST(DaemonTexts, AFailedAssertionIsAComplaintAndALogLineIsNot) {
  EXPECT_EQ(complaint_in("I main: ready\nW flash: torn\n"), "");
  EXPECT_EQ(complaint_in("I main: ready\nvarve: assertion failed: a == b\n  at x\n"),
            "varve: assertion failed: a == b");
}

}  // namespace
}  // namespace varve::ledger
