// Goal: what is written aside holds nobody up, one piece at a time, and its age is known.
// Method: work that waits for the test, and a clock by hand.
#include "server/node/file_thread.h"

#include <gtest/gtest.h>

#include <future>

namespace varve {
namespace {

// A file system that stands still until it is let go.
struct Still {
  std::promise<void> go;
  std::future<void> gone = go.get_future();
  bool well = true;
  uint32_t written = 0;
  static bool write(void* context) {
    auto& still = *static_cast<Still*>(context);
    still.gone.wait();
    ++still.written;
    return still.well;
  }
};

TEST(FileThread, HoldsNobodyUp) {
  ManualClock clock;
  FileThread files(clock);
  EXPECT_TRUE(files.idle());
  EXPECT_TRUE(files.rest(0)) << "nothing was ever begun";
  Still still;
  files.begin(Still::write, &still);
  EXPECT_FALSE(files.idle());
  EXPECT_FALSE(files.rest(kMillisecond)) << "a bound is a bound";
  clock.advance_by(7 * kSecond);
  EXPECT_EQ(files.under_way_ns(), 7 * kSecond);
  EXPECT_EQ(files.age_ns(), 7 * kSecond);
  still.go.set_value();
  ASSERT_TRUE(files.rest(60 * kSecond));
  EXPECT_EQ(files.under_way_ns(), 0u);
  EXPECT_EQ(files.age_ns(), 0u);
  EXPECT_EQ(still.written, 1u);
}

TEST(FileThread, WhatFailedMakesNothingYoung) {
  ManualClock clock;
  FileThread files(clock);
  clock.advance_by(3 * kSecond);
  Still still;
  still.well = false;
  still.go.set_value();
  files.begin(Still::write, &still);
  ASSERT_TRUE(files.rest(60 * kSecond));
  EXPECT_EQ(files.age_ns(), 3 * kSecond);
  still.well = true;
  files.begin(Still::write, &still);
  ASSERT_TRUE(files.rest(60 * kSecond));
  EXPECT_EQ(files.age_ns(), 0u);
  EXPECT_EQ(still.written, 2u);
}

// Whoever goes waits for the work, which points into what is his.
TEST(FileThread, EndsBehindItsWork) {
  ManualClock clock;
  Still still;
  {
    FileThread files(clock);
    still.go.set_value();
    files.begin(Still::write, &still);
  }
  EXPECT_EQ(still.written, 1u);
}

}  // namespace
}  // namespace varve
