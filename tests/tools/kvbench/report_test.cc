// A report without a valid declaration has no numbers.
#include "tools/kvbench/report.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace varve::kvbench {
namespace {

TEST(Report, TimesAreSummedUpAndNoneIsNull) {
  EXPECT_TRUE(times_json({}).is_null());
  const Json times = times_json({4, 1, 3, 2});
  EXPECT_EQ(times["p50"], 2);
  EXPECT_EQ(times["p99"], 4);
  EXPECT_EQ(times["mean"], 2.5);
  EXPECT_EQ(times["n"], 4);
}

TEST(Report, ASpreadHasItsRounds) {
  const Json spread = spread_json({3, 1, 2});
  EXPECT_EQ(spread["min"], 1);
  EXPECT_EQ(spread["median"], 2);
  EXPECT_EQ(spread["max"], 3);
  EXPECT_EQ(spread["rounds"], Json({3, 1, 2}));
}

TEST(Report, AnInvalidDeclarationPrintsNothingAndWritesNothing) {
  const std::string path = testing::TempDir() + "/kvbench_report.json";
  std::filesystem::remove(path);
  testing::internal::CaptureStdout();
  EXPECT_EQ(report(Declaration(), {"1000 GB/s"}, path), 1);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Report, AStandardOutputThatTakesNoMoreIsSaidAndFails) {
  EXPECT_EQ(flush_output("said when it fails"), 0);
  EXPECT_EXIT(
      {
        if (std::freopen("/dev/full", "w", stdout) == nullptr) std::_Exit(9);
        std::printf("1000 GB/s\n");
        std::_Exit(flush_output("the result is lost"));
      },
      testing::ExitedWithCode(1), "No space left.*the result is lost");
}

}  // namespace
}  // namespace varve::kvbench
