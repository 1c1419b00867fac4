// Goal: each harm leaves the files as it says, and nothing else is touched.
// Method: small files in a scratch folder.
#include "tools/ledger/harm.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tools/ledger/daemon.h"

namespace varve::ledger {
namespace {

constexpr uint64_t kBytes = 16 * kMiB;

struct HarmTest : ::testing::Test {
  HarmTest() : folder(::testing::TempDir() + "varve_harm_test_" + std::to_string(::getpid())) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    for (uint32_t t = 0; t < 2; ++t)
      std::ofstream(target_file(folder, t)) << std::string(kBytes, static_cast<char>('a' + t));
  }
  ~HarmTest() override { std::filesystem::remove_all(folder); }
  std::string bytes(uint32_t target) const { return read_text(target_file(folder, target)); }
  bool there(uint32_t target) const { return std::filesystem::exists(target_file(folder, target)); }
  Status harm(Harm harm, uint64_t seed = 1, bool by_daemon = false) {
    return do_harm(folder, {harm, 0, 1, by_daemon, seed}, kBytes);
  }
  uint64_t changed(char was) const {
    const std::string now = bytes(0);
    return now.size() - static_cast<uint64_t>(std::count(now.begin(), now.end(), was));
  }
  const std::string folder;
};

TEST_F(HarmTest, DestroyedIsGoneAndReplacedByABlankFile) {
  ASSERT_TRUE(harm(Harm::kDestroy).ok());
  EXPECT_FALSE(there(0));
  EXPECT_FALSE(harm(Harm::kDestroy).ok()) << "there is none to destroy";
  ASSERT_TRUE(harm(Harm::kReplace, 1, true).ok());
  EXPECT_FALSE(there(0)) << "the daemon makes it";
  ASSERT_TRUE(harm(Harm::kReplace).ok());
  EXPECT_EQ(bytes(0), std::string(kBytes, '\0'));
  EXPECT_EQ(bytes(1), std::string(kBytes, 'b'));
}

TEST_F(HarmTest, BlankBeginsWithZerosAndKeepsItsSize) {
  bool whole = false, part = false;
  for (uint64_t seed = 1; seed < 20 && !(whole && part); ++seed) {
    std::ofstream(target_file(folder, 0)) << std::string(kBytes, 'a');
    ASSERT_TRUE(harm(Harm::kBlank, seed).ok());
    const std::string now = bytes(0);
    ASSERT_EQ(now.size(), kBytes);
    EXPECT_EQ(now.substr(0, kMiB), std::string(kMiB, '\0'));
    (now.back() == 'a' ? part : whole) = true;
  }
  EXPECT_TRUE(whole);
  EXPECT_TRUE(part) << "old bytes behind a new beginning";
}

TEST_F(HarmTest, BrokenHasTwoBadSuperblocksAndNothingElse) {
  ASSERT_TRUE(harm(Harm::kBreak).ok());
  const std::string now = bytes(0);
  EXPECT_EQ(now.substr(0, 64), std::string(64, 'a')) << "magic and version stay";
  EXPECT_NE(now.substr(64, 512), std::string(512, 'a'));
  EXPECT_NE(now.substr(4096 + 64, 512), std::string(512, 'a'));
  EXPECT_EQ(now.substr(8192), std::string(kBytes - 8192, 'a'));
  ASSERT_TRUE(harm(Harm::kReplace).ok());
  EXPECT_EQ(bytes(0).substr(0, kMiB), std::string(kMiB, '\0'));
}

TEST_F(HarmTest, RotChangesSomeBytesWhereDataIs) {
  ASSERT_EQ(::truncate(target_file(folder, 0).c_str(), 4 * kBytes), 0);
  ASSERT_TRUE(harm(Harm::kRot, 5).ok());
  const std::string now = bytes(0);
  const std::string once = now.substr(0, kBytes);
  const auto same = static_cast<uint64_t>(std::count(once.begin(), once.end(), 'a'));
  EXPECT_LT(same, kBytes);
  EXPECT_GT(same, kBytes / 2);
  EXPECT_EQ(now.substr(kBytes), std::string(3 * kBytes, '\0')) << "a hole holds nothing to rot";
}

TEST_F(HarmTest, EqualSeedsRotEqualBytes) {
  ASSERT_TRUE(harm(Harm::kRot, 9).ok());
  const std::string once = bytes(0);
  std::ofstream(target_file(folder, 0)) << std::string(kBytes, 'a');
  ASSERT_TRUE(harm(Harm::kRot, 9).ok());
  EXPECT_EQ(bytes(0), once);
}

TEST_F(HarmTest, AwayComesBackAsItWas) {
  ASSERT_TRUE(harm(Harm::kAway).ok());
  EXPECT_FALSE(there(0));
  ASSERT_TRUE(harm(Harm::kReturn).ok());
  EXPECT_EQ(changed('a'), 0u);
}

TEST_F(HarmTest, SwappedTwiceIsAsBeforeAndMarksTellWhatWasWritten) {
  const auto before = marks_of(folder);
  ASSERT_EQ(before.size(), 2u);
  const Deed swap{Harm::kSwap, 0, 1};
  ASSERT_TRUE(swap_targets(folder, swap).ok());
  EXPECT_EQ(bytes(0), std::string(kBytes, 'b'));
  ASSERT_TRUE(swap_targets(folder, swap).ok());
  EXPECT_EQ(changed('a'), 0u);
  EXPECT_EQ(marks_of(folder), before) << "a name is not a write";
  ASSERT_TRUE(harm(Harm::kBreak).ok());
  EXPECT_NE(marks_of(folder), before);
}

}  // namespace
}  // namespace varve::ledger
