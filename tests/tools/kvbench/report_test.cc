// A report without a valid declaration has no numbers.
#include "tools/kvbench/report.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

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

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Report, ADocumentIsWholeOrWhatWasThereBefore) {
  const std::string folder = testing::TempDir() + "/kvbench_report_document";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/result.json", link = folder + "/link.json";
  EXPECT_TRUE(write_document("first", path));
  EXPECT_TRUE(write_document("second", path));
  EXPECT_EQ(text_of(path), "second");
  // Expect: a link stays one.
  std::filesystem::create_symlink(path, link);
  EXPECT_TRUE(write_document("third", link));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(text_of(path), "third");
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
  // Expect: what cannot be made takes nothing away.
  std::filesystem::create_directories(path + ".new");
  EXPECT_FALSE(write_document("fourth", path));
  EXPECT_EQ(text_of(path), "third");
  EXPECT_FALSE(write_document("fifth", folder + "/no/such/folder.json"));
  EXPECT_FALSE(write_document(std::string(kMiB, 'x'), "/dev/full"));
  EXPECT_TRUE(std::filesystem::exists("/dev/full"));
  std::filesystem::remove_all(folder);
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
