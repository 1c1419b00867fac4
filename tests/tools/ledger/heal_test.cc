// Goal: damage counts as mended when the daemon's numbers say so, and not before.
// Method: texts of metrics by hand; the shell plays a daemon.
#include "tools/ledger/heal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tools/ledger/daemon.h"

namespace varve::ledger {
namespace {

std::string text(int thin, int live, int passes0 = 0, int passes1 = 0, int rot = 0) {
  const auto line = [](const std::string& name, int value) {
    return name + " " + std::to_string(value) + "\n";
  };
  return line("varve_index_thin_blocks", thin) + line("varve_repair_live", live) +
         line("varve_flash_scrub_passes_total{target=\"0\"}", passes0) +
         line("varve_flash_scrub_passes_total{target=\"1\"}", passes1) +
         line("varve_flash_scrub_rot_total{target=\"1\"}", rot);
}

TEST(HealWatch, NoThinBlockAndNoRepairIsWhole) {
  HealWatch watch(0, 1);
  EXPECT_FALSE(watch.see(""));
  EXPECT_FALSE(watch.see(text(7, 0)));
  EXPECT_EQ(watch.thin_blocks(), 7u);
  EXPECT_FALSE(watch.see(text(0, 1)));
  EXPECT_TRUE(watch.see(text(0, 0)));
}

TEST(HealWatch, ARottenTargetIsWholeAfterPassesThatFoundNothing) {
  HealWatch watch(0b10, 2);
  EXPECT_FALSE(watch.see(text(0, 0, 0, 4, 0)));
  EXPECT_FALSE(watch.see(text(0, 0, 9, 7, 0))) << "the passes of another target are not its";
  EXPECT_FALSE(watch.see(text(0, 0, 9, 8, 3))) << "found some: from here on anew";
  EXPECT_FALSE(watch.see(text(0, 0, 9, 11, 3)));
  EXPECT_FALSE(watch.see(text(1, 0, 9, 12, 3)));
  EXPECT_TRUE(watch.see(text(0, 0, 9, 12, 3)));
}

TEST(HealWatch, ThatThereIsNoRoomIsSaidOnceItStaysSo) {
  HealWatch watch(0, 1);
  const auto with = [](int no_space, int done) {
    return text(9, 0) + "varve_repair_blocks_total{outcome=\"no_space\"} " +
           std::to_string(no_space) + "\nvarve_repair_blocks_total{outcome=\"done\"} " +
           std::to_string(done) + "\n";
  };
  for (int i = 0; i < 9; ++i)
    watch.see(with(0, 0));
  EXPECT_FALSE(watch.no_room());
  for (int i = 0; i < 9; ++i)
    watch.see(with(5, i + 1));
  EXPECT_FALSE(watch.no_room()) << "some is still repaired";
  for (int i = 0; i < 9; ++i)
    watch.see(with(9, 9));
  EXPECT_TRUE(watch.no_room());
}

struct WaitWholeTest : ::testing::Test {
  std::string folder = ::testing::TempDir() + "varve_heal_test_" + std::to_string(::getpid());
  std::string metrics = folder + "/metrics.prom";
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }
  HealResult wait(const std::string& script, Nanos timeout_ns) {
    Daemon daemon({"/bin/sh", {"-c", script}, folder + "/log"});
    EXPECT_TRUE(daemon.start().ok());
    return wait_whole(metrics, daemon, HealWatch(0, 1), timeout_ns);
  }
  // A daemon that writes the same again and again.
  std::string writes(const std::string& text) {
    std::ofstream(folder + "/next") << text;
    const std::string copy = "cp " + folder + "/next " + metrics + ".new";
    return "while :; do " + copy + "; mv " + metrics + ".new " + metrics + "; sleep 0.01; done";
  }
};

TEST_F(WaitWholeTest, WhatWasWrittenBeforeIsNoAnswer) {
  std::ofstream(metrics) << text(0, 0);
  EXPECT_FALSE(wait("exec sleep 60", 50 * kMillisecond).whole);
}

TEST_F(WaitWholeTest, ANewTextIsRead) {
  std::ofstream(metrics) << text(0, 0);
  const HealResult thin = wait(writes(text(3, 0)), kSecond);
  EXPECT_FALSE(thin.whole);
  EXPECT_EQ(thin.thin_blocks, 3u);
  EXPECT_TRUE(wait(writes(text(0, 0)), 60 * kSecond).whole);
}

TEST_F(WaitWholeTest, ADaemonThatEndedIsNotWaitedFor) {
  EXPECT_FALSE(wait("exit 1", 3600 * kSecond).whole);
}

}  // namespace
}  // namespace varve::ledger
