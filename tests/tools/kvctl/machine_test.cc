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

ServerConfig with_data(const std::string& folder) {
  ServerConfig config;
  config.data_dir = folder;
  return config;
}

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
  const MachineFacts facts = look_at_machine(folder, with_data(folder), NodeHere::kNo);
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
  const FolderFacts facts =
      look_at_machine(folder, with_data(folder + "/data"), NodeHere::kNo).folders.at(0);
  EXPECT_EQ(facts.place, folder + "/data");
  EXPECT_EQ(facts.write_refusal, "");
  EXPECT_TRUE(facts.tried);
  EXPECT_NE(facts.filesystem, "");
  EXPECT_GT(facts.free_bytes, 0u);
  EXPECT_EQ(facts.first_bytes, 4 * kGiB);
  EXPECT_TRUE(std::filesystem::is_empty(folder + "/data"));
  const FolderFacts running =
      look_at_machine(folder, with_data(folder + "/data"), NodeHere::kYes).folders.at(0);
  EXPECT_EQ(running.first_bytes, 0u);
}

TEST_F(Looking, LooksAtTheParentOfWhatIsNotThereYet) {
  EXPECT_EQ(look_at_machine(folder, with_data(folder + "/new/"), NodeHere::kNo).folders.at(0).place,
            folder);
  EXPECT_EQ(
      look_at_machine(folder, with_data(folder + "/new/deep"), NodeHere::kNo).folders.at(0).place,
      "");
  EXPECT_TRUE(look_at_machine(folder, with_data(""), NodeHere::kNo).folders.empty());
}

TEST_F(Looking, TakesNoFileForAFolder) {
  write("/file", "x");
  const FolderFacts file =
      look_at_machine(folder, with_data(folder + "/file"), NodeHere::kNo).folders.at(0);
  EXPECT_EQ(file.place, "");
  EXPECT_EQ(file.look_errno, ENOTDIR);
}

// Goal: a folder that is there and may not be looked at is not one that is still to be made.
TEST_F(Looking, TakesNoFolderForAbsentThatIsThere) {
  std::filesystem::create_symlink("round", folder + "/round");
  const FolderFacts round =
      look_at_machine(folder, with_data(folder + "/round"), NodeHere::kNo).folders.at(0);
  EXPECT_EQ(round.place, "");
  EXPECT_EQ(round.look_errno, ELOOP);
  std::filesystem::create_directories(folder + "/private/data");
  ASSERT_EQ(::chmod((folder + "/private").c_str(), 0), 0);
  const uid_t user = ::geteuid();
  ASSERT_EQ(::seteuid(user == 0 ? 65534 : user), 0);  // root may look everywhere
  const FolderFacts data =
      look_at_machine(folder, with_data(folder + "/private/data"), NodeHere::kNo).folders.at(0);
  ASSERT_EQ(::seteuid(user), 0);
  ASSERT_EQ(::chmod((folder + "/private").c_str(), 0700), 0);
  EXPECT_EQ(data.place, "");
  EXPECT_EQ(data.look_errno, EACCES);
}

// Goal: the folders of targets that are files, each once, with what a start makes there.
TEST_F(Looking, LooksWhereNamedTargetsLie) {
  ServerConfig config = with_data(folder);
  for (const char* name : {"a", "b", "c"})
    std::filesystem::create_directories(folder + "/" + name);
  write("/b/there.dat", "x");
  config.target_paths = {folder + "/a/0.dat", folder + "/a/1.dat", folder + "/b/there.dat",
                         folder + "/b/new.dat", folder + "/c"};
  const auto folders = look_at_machine(folder, config, NodeHere::kNo).folders;
  ASSERT_EQ(folders.size(), 3u);
  EXPECT_EQ(folders[0].first_bytes, 0u) << "they lie elsewhere";
  EXPECT_EQ(folders[1].path, folder + "/a");
  EXPECT_EQ(folders[1].check, "targets");
  EXPECT_EQ(folders[1].first_bytes, 2 * config.target_bytes);
  EXPECT_EQ(folders[2].first_bytes, config.target_bytes);
}

// Goal: the data folder is known however it is written, also where it is not there yet.
TEST_F(Looking, KnowsTheDataFolderByAnotherName) {
  ServerConfig config = with_data(folder + "/new/");
  config.target_paths = {folder + "/new/0.dat", folder + "/./new/1.dat"};
  const auto folders = look_at_machine(folder, config, NodeHere::kNo).folders;
  ASSERT_EQ(folders.size(), 1u);
  EXPECT_EQ(folders[0].first_bytes, 2 * config.target_bytes);
}

// Goal: what nobody makes is missed, and nothing is tried in its place.
TEST_F(Looking, MissesFoldersOfTargetsThatAreNotThere) {
  ServerConfig config = with_data(folder);
  config.target_paths = {folder + "/missing/0.dat", "/dev/no-such-drive"};
  const MachineFacts facts = look_at_machine(folder, config, NodeHere::kNo);
  ASSERT_EQ(facts.folders.size(), 2u);
  EXPECT_EQ(facts.folders[1].place, "");
  EXPECT_EQ(facts.folders[1].look_errno, ENOENT);
  ASSERT_EQ(facts.targets.list.size(), 2u);
  EXPECT_EQ(facts.targets.list[1].fate, TargetFate::kRefused);
}

// Goal: the addresses and tokens are those of the settings.
TEST_F(Looking, AsksForThePortsAndTokensOfTheSettings) {
  ServerConfig config = with_data(folder);
  config.listen = "[::1]:0";
  config.control = "127.0.0.1:0";
  config.http = "none";
  config.token_file = folder + "/no-token";
  const MachineFacts facts = look_at_machine(folder, config, NodeHere::kNo);
  ASSERT_EQ(facts.ports.size(), 2u);
  EXPECT_EQ(facts.ports[0].address, "[::1]:0");
  EXPECT_EQ(facts.ports[1].refusal, "");
  bool named = false;
  for (const TokenFacts& token : facts.tokens) {
    if (token.path != config.token_file) continue;
    named = true;
    EXPECT_NE(token.problem.find("--token-file"), std::string::npos) << token.problem;
  }
  EXPECT_TRUE(named);
  config.listen = "192.0.2.1:0";  // of nobody here
  EXPECT_NE(look_at_machine(folder, config, NodeHere::kNo).ports[0].refusal, "");
}

TEST_F(Looking, WritesNothingWhereANodeRuns) {
  ASSERT_EQ(::chmod(folder.c_str(), 0500), 0);
  const FolderFacts facts =
      look_at_machine(folder, with_data(folder), NodeHere::kYes).folders.at(0);
  ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
  EXPECT_FALSE(facts.tried);
  EXPECT_EQ(facts.write_refusal, "");
  EXPECT_GT(facts.free_bytes, 0u);
}

TEST_F(Looking, KnowsWhatIsNotToBeKnown) {
  const MachineFacts facts = look_at_machine(folder, with_data(folder), NodeHere::kNo);
  EXPECT_FALSE(facts.may_lock);
  EXPECT_EQ(facts.clock_source, "");
  EXPECT_EQ(facts.huge_pages, "");
}

}  // namespace
}  // namespace varve::kvctl
