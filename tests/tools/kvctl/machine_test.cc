// Goal: the facts are those of the machine, and looking at a folder leaves nothing in it.
#include "tools/kvctl/machine.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace varve::kvctl {
namespace {

class Looking : public ::testing::Test {
 protected:
  Looking() : folder(::testing::TempDir() + "kvctl_machine_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder);
  }
  ~Looking() override { std::filesystem::remove_all(folder); }
  void write(const std::string& path, const std::string& content) {
    const std::filesystem::path file = folder + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  const std::string folder;
};

TEST_F(Looking, FindsWhatTheSystemSays) {
  write("/proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\n");
  write("/proc/meminfo", "MemAvailable:    1048576 kB\n");
  write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
  write("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  const MachineFacts facts = look_at_machine(folder, folder, NodeHere::kNo);
  EXPECT_TRUE(facts.may_lock);
  EXPECT_EQ(facts.machine.memory_available_bytes, kGiB);
  EXPECT_EQ(facts.clock_source, "hpet");
  EXPECT_EQ(facts.huge_pages, "never");
  EXPECT_TRUE(facts.clock_steady);
  EXPECT_GE(facts.kernel_major, 4u);
  EXPECT_GT(facts.descriptors_hard, 0u);
  EXPECT_EQ(facts.ports.size(), 3u);
}

TEST_F(Looking, LeavesNothingInTheFolder) {
  std::filesystem::create_directories(folder + "/data");
  const FolderFacts facts = look_at_machine(folder, folder + "/data", NodeHere::kNo).folder;
  EXPECT_EQ(facts.place, folder + "/data");
  EXPECT_EQ(facts.write_refusal, "");
  EXPECT_TRUE(facts.tried);
  EXPECT_NE(facts.filesystem, "");
  EXPECT_GT(facts.free_bytes, 0u);
  EXPECT_FALSE(facts.has_node);
  EXPECT_TRUE(std::filesystem::is_empty(folder + "/data"));
  write("/data/targets.list", "x");
  EXPECT_TRUE(look_at_machine(folder, folder + "/data", NodeHere::kNo).folder.has_node);
}

TEST_F(Looking, LooksAtTheParentOfWhatIsNotThereYet) {
  EXPECT_EQ(look_at_machine(folder, folder + "/new/", NodeHere::kNo).folder.place, folder);
  EXPECT_EQ(look_at_machine(folder, folder + "/new/deep", NodeHere::kNo).folder.place, "");
  EXPECT_EQ(look_at_machine(folder, "", NodeHere::kNo).folder.path, "");
}

// Goal: a folder that is there and may not be looked at is not one that is still to be made.
TEST_F(Looking, TakesNoFolderForAbsentThatIsThere) {
  std::filesystem::create_symlink("round", folder + "/round");
  const FolderFacts round = look_at_machine(folder, folder + "/round", NodeHere::kNo).folder;
  EXPECT_EQ(round.place, "");
  EXPECT_EQ(round.look_errno, ELOOP);
  std::filesystem::create_directories(folder + "/private/data");
  ASSERT_EQ(::chmod((folder + "/private").c_str(), 0), 0);
  const uid_t user = ::geteuid();
  ASSERT_EQ(::seteuid(user == 0 ? 65534 : user), 0);  // root may look everywhere
  const FolderFacts data = look_at_machine(folder, folder + "/private/data", NodeHere::kNo).folder;
  ASSERT_EQ(::seteuid(user), 0);
  ASSERT_EQ(::chmod((folder + "/private").c_str(), 0700), 0);
  EXPECT_EQ(data.place, "");
  EXPECT_EQ(data.look_errno, EACCES);
}

TEST_F(Looking, WritesNothingWhereANodeRuns) {
  ASSERT_EQ(::chmod(folder.c_str(), 0500), 0);
  const FolderFacts facts = look_at_machine(folder, folder, NodeHere::kYes).folder;
  ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
  EXPECT_FALSE(facts.tried);
  EXPECT_EQ(facts.write_refusal, "");
  EXPECT_GT(facts.free_bytes, 0u);
}

TEST_F(Looking, KnowsWhatIsNotToBeKnown) {
  const MachineFacts facts = look_at_machine(folder, folder, NodeHere::kNo);
  EXPECT_FALSE(facts.may_lock);
  EXPECT_EQ(facts.clock_source, "");
  EXPECT_EQ(facts.huge_pages, "");
}

}  // namespace
}  // namespace varve::kvctl
