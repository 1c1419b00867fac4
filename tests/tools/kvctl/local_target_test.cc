// Goal: what doctor says of a target is what varved would do with it, and looking changes nothing.
// Method: small files, made into targets by flash's own functions, then taken away, cut short,
// handed to another node; a drive is a device node that nobody can open, sized by a /sys of a test.
#include "tools/kvctl/local_target.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "server/flash/flash.h"
#include "server/host/host.h"

namespace varve::kvctl {
namespace {

constexpr uint64_t kBytes = 8 * kMiB;

class LookingAtTargets : public ::testing::Test {
 protected:
  LookingAtTargets()
      : folder(::testing::TempDir() + "kvctl_local_target_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder + "/data");
    config.data_dir = folder + "/data";
    config.target_bytes = kBytes;
    config.targets = 2;
  }
  void SetUp() override {
    make_file(folder + "/probe", kBytes);
    flash::TargetOptions options;
    options.file.path = folder + "/probe";
    const std::byte nobody[16] = {};
    const auto seen = flash::look_target(options, nobody);
    if (!seen && seen.error().code() == Code::kUnsupported) GTEST_SKIP() << seen.error().what();
  }
  ~LookingAtTargets() override { std::filesystem::remove_all(folder); }

  void make_file(const std::string& path, uint64_t bytes, char content = '\0') {
    std::ofstream(path) << content;
    std::filesystem::resize_file(path, bytes);
  }
  static std::string content_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // As the first start leaves it behind: an identity, formatted targets and their list.
  void start_once() {
    Identity identity;
    ASSERT_TRUE(load_identity(config.data_dir, entropy, &identity).ok());
    TargetList list{1, 2, config.scheme, {}};
    for (uint32_t t = 0; t < config.targets; ++t) {
      flash::TargetOptions options;
      options.file = {config.target_path(t), kBytes, 0};
      options.index = t;
      options.geometry = {2, 32, config.scheme};
      options.boot_generation = 1;
      const auto info = flash::prepare_target(options, identity.node_uuid, entropy);
      ASSERT_TRUE(info.has_value()) << info.error().what();
      TargetRecord record{t, {}, kBytes, config.target_path(t)};
      std::copy_n(info->super.target_uuid, sizeof(record.uuid), record.uuid);
      list.records.push_back(record);
    }
    save(list);
  }
  void save(const TargetList& list) { ASSERT_TRUE(save_records(config.data_dir, list).ok()); }
  TargetList saved() {
    TargetList list;
    EXPECT_TRUE(load_records(config.data_dir, &list).ok());
    return list;
  }
  LocalTarget look(uint32_t index) {
    const LocalTargets seen = look_at_targets(folder, config, Looking::kInside);
    EXPECT_EQ(seen.problem, "");
    EXPECT_LT(index, seen.list.size());
    return index < seen.list.size() ? seen.list[index] : LocalTarget();
  }
  void expect_refused(uint32_t index, const std::string& words) {
    const LocalTarget target = look(index);
    EXPECT_EQ(target.fate, TargetFate::kRefused) << target.why;
    EXPECT_NE(target.why.find(words), std::string::npos) << target.why;
    EXPECT_NE(target.why.find("; "), std::string::npos) << "a remedy: " << target.why;
  }

  const std::string folder;
  ServerConfig config;
  SeededEntropy entropy{7};
};

TEST_F(LookingAtTargets, MakesNothingAndWritesNothing) {
  config.target_paths = {folder + "/a.dat", folder + "/b.dat"};
  make_file(folder + "/a.dat", kBytes);
  const std::string before = content_of(folder + "/a.dat");
  EXPECT_EQ(look(0).fate, TargetFate::kFormatted);
  EXPECT_EQ(look(0).bytes, kBytes);
  EXPECT_EQ(look(1).fate, TargetFate::kMade);
  EXPECT_EQ(content_of(folder + "/a.dat"), before);
  EXPECT_FALSE(exists(folder + "/b.dat"));
  EXPECT_TRUE(std::filesystem::is_empty(config.data_dir));
  start_once();
  const std::string formatted = content_of(folder + "/a.dat");
  EXPECT_EQ(look(0).fate, TargetFate::kUsed);
  EXPECT_EQ(content_of(folder + "/a.dat"), formatted);
}

// Goal: --target-bytes says nothing of what is there.
TEST_F(LookingAtTargets, KnowsHowLargeTheyAre) {
  config.target_paths = {folder + "/a.dat", folder + "/b.dat"};
  make_file(folder + "/a.dat", 100 * kGiB);  // sparse
  EXPECT_EQ(look(0).bytes, 100 * kGiB);
  const auto list = look_at_targets(folder, config, Looking::kInside).list;
  EXPECT_EQ(flash_bytes(list), 100 * kGiB + kBytes);
  EXPECT_EQ(look_at_targets(folder, config, Looking::kAtSizes).list[0].bytes, 100 * kGiB);
  EXPECT_EQ(look_at_targets(folder, config, Looking::kAtSizes).list[0].fate, TargetFate::kUnseen);
}

TEST_F(LookingAtTargets, KnowsHowLargeADriveIsThatItMayNotOpen) {
  const std::string drive = folder + "/drive";
  const dev_t number = ::makedev(259, 1000);
  if (::mknod(drive.c_str(), S_IFBLK | 0600, number) != 0) {
    GTEST_SKIP() << "no device node can be made here: " << errno_suffix(errno);
  }
  std::filesystem::create_directories(folder + "/sys/dev/block/259:1000");
  std::ofstream(folder + "/sys/dev/block/259:1000/size") << "7501476528\n";
  config.target_paths = {drive, folder + "/b.dat"};
  EXPECT_EQ(look(0).bytes, 7501476528u * 512);
  EXPECT_EQ(look(0).fate, TargetFate::kRefused) << "no drive of this number is there";
  EXPECT_NE(look(0).why, "");
}

TEST_F(LookingAtTargets, RefusesWhatVarvedRefuses) {
  config.target_paths = {folder + "/a.dat", folder + "/b.dat"};
  make_file(folder + "/a.dat", kBytes, 'x');
  expect_refused(0, "foreign data; erase its first MiB");
  std::filesystem::remove(folder + "/a.dat");
  std::filesystem::create_directory(folder + "/a.dat");
  expect_refused(0, "neither a file nor a block device");
  config.target_paths[0] = "/dev/no-such-drive";
  expect_refused(0, "no file is made below /dev");
  config.target_paths[0] = folder + "/link";
  std::filesystem::create_symlink(folder + "/gone", folder + "/link");
  expect_refused(0, "link that leads nowhere");
}

TEST_F(LookingAtTargets, RefusesWhatIsOfAnotherNodeOrPlaceOrScheme) {
  start_once();
  const std::string mine = folder + "/data", other = folder + "/other";
  std::filesystem::rename(mine + "/target-0.dat", mine + "/x");
  std::filesystem::rename(mine + "/target-1.dat", mine + "/target-0.dat");
  std::filesystem::rename(mine + "/x", mine + "/target-1.dat");
  expect_refused(0, "another index in this node; restore the order");
  config.scheme = {1, 1};
  expect_refused(0, "another index");
  std::filesystem::rename(mine + "/target-0.dat", mine + "/x");
  std::filesystem::rename(mine + "/target-1.dat", mine + "/target-0.dat");
  expect_refused(0, "another scheme; start with --scheme 1+0");
  std::filesystem::create_directories(other);
  config.data_dir = other;
  config.target_paths = {mine + "/target-0.dat", mine + "/x"};
  expect_refused(0, "another node; use the data folder");
}

// Goal: of a node that had targets, what is missing is told from what is mistyped, and from what
// only --create-targets would make.
TEST_F(LookingAtTargets, KnowsALossFromAMistake) {
  config.target_paths = {folder + "/a.dat", folder + "/b.dat"};
  start_once();
  std::filesystem::remove(folder + "/b.dat");
  EXPECT_EQ(look(1).fate, TargetFate::kLost);
  EXPECT_EQ(look(1).bytes, 0u);
  make_file(folder + "/b.dat", 0);
  EXPECT_EQ(look(1).fate, TargetFate::kLost) << "it is empty";
  config.create_targets = true;
  EXPECT_EQ(look(1).fate, TargetFate::kMade);
  config.create_targets = false;
  config.target_paths[1] = folder + "/mistyped.dat";
  expect_refused(1, "this node had it at " + folder + "/b.dat; correct --target");
  config.targets = 3;
  config.target_paths = {folder + "/a.dat", folder + "/b.dat", folder + "/c.dat"};
  expect_refused(2, "this node never had it");
  config.create_targets = true;
  EXPECT_EQ(look(2).fate, TargetFate::kMade);
}

TEST_F(LookingAtTargets, KnowsWhatWasDrained) {
  start_once();
  TargetList list = saved();
  list.records[1].drained = true;
  save(list);
  EXPECT_EQ(look(1).fate, TargetFate::kFormatted) << "it is used anew";
  list.records[1].draining = true;
  save(list);
  EXPECT_EQ(look(1).fate, TargetFate::kLeftOut);
  std::filesystem::remove(config.target_path(1));
  EXPECT_EQ(look(1).fate, TargetFate::kLeftOut) << "nobody misses it";
}

TEST_F(LookingAtTargets, KnowsOneThatWasReplaced) {
  start_once();
  TargetList list = saved();
  list.boot_generation = 9;
  list.records[0].uuid[0] ^= std::byte{1};
  save(list);
  expect_refused(0, "this node has another one in its place");
}

TEST_F(LookingAtTargets, SaysWhatIsWrongWithTheDataFolder) {
  start_once();
  std::filesystem::remove(config.data_dir + "/domain.salt");
  EXPECT_NE(
      look_at_targets(folder, config, Looking::kInside).problem.find("domain.salt is missing"),
      std::string::npos);
  config.data_dir += "/target-0.dat";
  EXPECT_TRUE(look_at_targets(folder, config, Looking::kInside).list.empty()) << "no folder";
}

// Goal: no target is opened that a varved has, or is about to take: its start must not fail for it.
TEST_F(LookingAtTargets, LeavesATargetAloneWhoseFolderIsInUse) {
  start_once();
  ASSERT_TRUE(lock_folder(config.data_dir).ok());
  const LocalTargets seen = look_at_targets(folder, config, Looking::kInside);
  EXPECT_TRUE(seen.in_use);
  ASSERT_EQ(seen.list.size(), 2u);
  EXPECT_EQ(seen.list[0].fate, TargetFate::kUnseen);
  EXPECT_EQ(seen.list[0].bytes, kBytes);
  EXPECT_FALSE(look_at_targets(folder, config, Looking::kAtSizes).in_use);
}

// Goal: one that another process has open is in use, as for varved.
TEST_F(LookingAtTargets, KnowsThatAnotherProcessHasIt) {
  start_once();
  int ready[2] = {}, over[2] = {};
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(over), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    struct flock whole = {};
    whole.l_type = F_WRLCK;
    const int fd = ::open(config.target_path(0).c_str(), O_RDWR);
    byte = fd >= 0 && ::fcntl(fd, F_SETLK, &whole) == 0 ? 1 : 0;
    ::close(over[1]);
    (void)!::write(ready[1], &byte, 1);
    (void)!::read(over[0], &byte, 1);  // until the test is over
    ::_exit(0);
  }
  char locked = 0;
  ASSERT_EQ(::read(ready[0], &locked, 1), 1);
  ASSERT_EQ(locked, 1);
  expect_refused(0, "another process uses it");
  for (const int fd : {ready[0], ready[1], over[0], over[1]})
    ::close(fd);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(look(0).fate, TargetFate::kUsed);
}

}  // namespace
}  // namespace varve::kvctl
