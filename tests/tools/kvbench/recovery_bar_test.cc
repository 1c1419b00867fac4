// A small synthetic set is recovered whole by a real shard.
#include "tools/kvbench/recovery_bar.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace varve::kvbench {
namespace {

TEST(RecoveryBar, EveryFragmentOfTheSetIsFoundInEveryRound) {
  const std::string folder = std::filesystem::read_symlink("/proc/self/exe").string() + ".recovery";
  std::filesystem::create_directories(folder);
  const Bar bar = recovery_bar({.folder = folder, .fragments = 20000, .rounds = 2});
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(bar.has_value()) << bar.refused;
  EXPECT_EQ(bar.rounds.size(), 2u);
  EXPECT_GT(bar.value(), 0);
}

TEST(RecoveryBar, AFolderThatIsNotThereIsARefusalAndNoNumber) {
  const Bar bar = recovery_bar({.folder = "no/such/folder", .fragments = 1000, .rounds = 1});
  EXPECT_FALSE(bar.has_value());
  EXPECT_FALSE(bar.refused.empty());
}

}  // namespace
}  // namespace varve::kvbench
