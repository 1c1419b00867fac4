// Goal: only what can be a target is opened, and a refusal leaves everything as it was.
// Method: real files in the test's folder; a child process stands for another daemon.
#include "common/device/file_open.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/common/device/device_world.h"

namespace varve {
namespace {

using test::AlignedBytes;
using test::TemporaryPath;

FileDeviceOptions options_for(const TemporaryPath& path, uint64_t create_bytes) {
  FileDeviceOptions options;
  options.path = path.path();
  options.create_bytes = create_bytes;
  return options;
}

bool exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

// Opens and skips the test where the folder's file system has no O_DIRECT.
#define OPEN_OR_SKIP(name, options)                          \
  Result<OpenedFile> name = open_target_file(options);       \
  if (!name && name.error().code() == Code::kUnsupported) {  \
    GTEST_SKIP() << "no O_DIRECT in " << testing::TempDir(); \
  }                                                          \
  ASSERT_TRUE(name) << name.error().what()

TEST(FileOpen, CreatesAPreallocatedZeroedFileAndFindsItAgain) {
  TemporaryPath path("create");
  OPEN_OR_SKIP(made, options_for(path, 8 * kMiB));
  EXPECT_TRUE(made->created);
  EXPECT_EQ(made->capacity_bytes, 8 * kMiB);
  EXPECT_TRUE((fcntl(made->fd, F_GETFL) & O_DIRECT) != 0);
  struct stat info {};
  ASSERT_EQ(fstat(made->fd, &info), 0);
  EXPECT_GE(static_cast<uint64_t>(info.st_blocks) * 512, 8 * kMiB);  // really allocated
  EXPECT_FALSE(exists(path.path() + ".creating"));
  close(made->fd);
  OPEN_OR_SKIP(found, options_for(path, 16 * kMiB));  // what exists keeps its size
  EXPECT_FALSE(found->created);
  EXPECT_EQ(found->capacity_bytes, 8 * kMiB);
  EXPECT_FALSE(found->is_block_device);
  close(found->fd);
}

TEST(FileOpen, AHalfMadeFileOfAnEarlierLifeIsMadeAnew) {
  TemporaryPath path("half");
  std::ofstream(path.path() + ".creating") << "a kill came in between";
  OPEN_OR_SKIP(made, options_for(path, kMiB));
  AlignedBytes page(kPageBytes);
  page.set('?');
  EXPECT_TRUE(read_pages(made->fd, 0, {page.data(), kPageBytes}).ok());
  EXPECT_EQ(page.data()[0], std::byte{0});
  EXPECT_FALSE(exists(path.path() + ".creating"));
  close(made->fd);
}

TEST(FileOpen, RefusesWhatIsMissingEmptyOrNoFile) {
  TemporaryPath path("refuse");
  Result<OpenedFile> missing = open_target_file(options_for(path, 0));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::kUnavailable);
  EXPECT_EQ(missing.error().errno_value(), ENOENT);
  std::ofstream(path.path()) << "";
  Result<OpenedFile> empty = open_target_file(options_for(path, 0));
  ASSERT_FALSE(empty);
  if (empty.error().code() == Code::kUnsupported) GTEST_SKIP() << "no O_DIRECT here";
  EXPECT_EQ(empty.error().code(), Code::kIo);
  FileDeviceOptions folder;
  folder.path = testing::TempDir();
  Result<OpenedFile> directory = open_target_file(folder);
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code(), Code::kInvalid);
  TemporaryPath odd("odd");
  Result<OpenedFile> unaligned = open_target_file(options_for(odd, kMiB + 1));
  ASSERT_FALSE(unaligned);
  EXPECT_EQ(unaligned.error().code(), Code::kInvalid);
  EXPECT_FALSE(exists(odd.path()));
}

TEST(FileOpen, AnEmptyFileIsMadeWhereOneMayBeCreated) {
  TemporaryPath path("empty"), link("link");
  std::ofstream(path.path()) << "";
  std::filesystem::create_symlink(path.path(), link.path());
  Result<OpenedFile> linked = open_target_file(options_for(link, kMiB));
  ASSERT_FALSE(linked);
  if (linked.error().code() == Code::kUnsupported) GTEST_SKIP() << "no O_DIRECT here";
  EXPECT_EQ(linked.error().code(), Code::kIo);  // what is made would not lie where the link leads
  std::filesystem::remove(path.path());
  Result<OpenedFile> dangling = open_target_file(options_for(link, kMiB));
  ASSERT_FALSE(dangling);
  EXPECT_EQ(dangling.error().errno_value(), ENOENT);
  EXPECT_TRUE(std::filesystem::is_symlink(link.path()));
  std::ofstream(path.path()) << "";
  OPEN_OR_SKIP(made, options_for(path, kMiB));
  EXPECT_TRUE(made->created);
  EXPECT_EQ(made->capacity_bytes, kMiB);
  close(made->fd);
  // Expect: one that holds a page is a target, and nothing is made over it.
  OPEN_OR_SKIP(again, options_for(path, 2 * kMiB));
  EXPECT_FALSE(again->created);
  EXPECT_EQ(again->capacity_bytes, kMiB);
  close(again->fd);
}

// A mistyped or unplugged drive must not become a file in memory that takes its place.
TEST(FileOpen, NothingIsEverCreatedBelowDev) {
  for (const char* path : {"/dev/varve-no-such-drive", "/dev/../dev/varve-no-such-drive"}) {
    FileDeviceOptions options;
    options.path = path;
    options.create_bytes = kMiB;
    Result<OpenedFile> refused = open_target_file(options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kUnavailable);
    EXPECT_NE(std::string(refused.error().what()).find("/dev"), std::string::npos);
    EXPECT_FALSE(exists(path));
    EXPECT_FALSE(exists(std::string(path) + ".creating"));
  }
}

// A setting to correct is no lost drive: kIo would start the node without a sound target.
TEST(FileOpen, WhatMayNotBeOpenedIsNoLostDrive) {
  TemporaryPath path("loop");
  ASSERT_EQ(symlink(path.path().c_str(), path.path().c_str()), 0);
  Result<OpenedFile> loop = open_target_file(options_for(path, 0));
  ASSERT_FALSE(loop);
  EXPECT_EQ(loop.error().code(), Code::kInvalid);
  EXPECT_EQ(loop.error().errno_value(), ELOOP);
  FileDeviceOptions below;
  below.path = "/proc/self/status/target.dat";
  Result<OpenedFile> no_folder = open_target_file(below);
  ASSERT_FALSE(no_folder);
  EXPECT_EQ(no_folder.error().code(), Code::kInvalid);
  below.path = "/proc/version";  // nobody may write it, root included
  Result<OpenedFile> read_only = open_target_file(below);
  ASSERT_FALSE(read_only);
  EXPECT_NE(read_only.error().code(), Code::kIo);
  if (geteuid() == 0) return;  // root may open everything else
  TemporaryPath shut("shut");
  std::ofstream(shut.path()) << std::string(kPageBytes, 'k');
  ASSERT_EQ(chmod(shut.path().c_str(), 0), 0);
  Result<OpenedFile> refused = open_target_file(options_for(shut, 0));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalid);
  EXPECT_EQ(refused.error().errno_value(), EACCES);
}

// Descriptors are the process's: what is missing is ulimit -n, not the drive.
TEST(FileOpen, ALackOfDescriptorsHasItsOwnRemedy) {
  TemporaryPath path("descriptors");
  OPEN_OR_SKIP(made, options_for(path, kMiB));
  close(made->fd);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  Result<OpenedFile> refused = open_target_file(options_for(path, 0));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kOverloaded);
  EXPECT_EQ(refused.error().errno_value(), EMFILE);
  EXPECT_NE(std::string(refused.error().what()).find("ulimit -n"), std::string::npos);
}

TEST(FileOpen, TheFreeSpaceFloorIsKeptAndNothingIsLeftBehind) {
  TemporaryPath path("floor");
  FileDeviceOptions options = options_for(path, kMiB);
  options.free_floor_bytes = uint64_t{1} << 60;
  Result<OpenedFile> refused = open_target_file(options);
  ASSERT_FALSE(refused);
  if (refused.error().code() == Code::kUnsupported) GTEST_SKIP() << "no O_DIRECT here";
  EXPECT_EQ(refused.error().code(), Code::kNoSpace);
  EXPECT_FALSE(exists(path.path()));
  EXPECT_FALSE(exists(path.path() + ".creating"));
}

TEST(FileOpen, AnExistingFileIsOnlyReadByOpening) {
  TemporaryPath path("untouched");
  {
    std::ofstream file(path.path());
    file << std::string(2 * kPageBytes + 100, 'k');  // and the ragged end is not used
  }
  struct stat before {};
  ASSERT_EQ(stat(path.path().c_str(), &before), 0);
  OPEN_OR_SKIP(opened, options_for(path, 0));
  EXPECT_EQ(opened->capacity_bytes, 2 * kPageBytes);
  close(opened->fd);
  struct stat after {};
  ASSERT_EQ(stat(path.path().c_str(), &after), 0);
  EXPECT_EQ(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
  EXPECT_EQ(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
  EXPECT_EQ(before.st_size, after.st_size);
}

TEST(FileOpen, AnotherProcessIsKeptOutAndThisOneIsNot) {
  TemporaryPath path("lock");
  OPEN_OR_SKIP(first, options_for(path, kMiB));
  const auto code_in_child = [&] {
    const pid_t child = fork();
    if (child == 0) {
      const Result<OpenedFile> opened = open_target_file(options_for(path, 0));
      _exit(opened ? 0 : static_cast<int>(opened.error().code()));
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
  };
  EXPECT_EQ(code_in_child(), static_cast<int>(Code::kUnavailable));
  OPEN_OR_SKIP(second, options_for(path, 0));  // a second shard of this process
  close(first->fd);
  close(second->fd);
  EXPECT_EQ(code_in_child(), 0);
}

TEST(FileOpen, PagesAreReadAndWrittenWholeAndTheEndIsALostDrive) {
  TemporaryPath path("pages");
  OPEN_OR_SKIP(opened, options_for(path, kMiB));
  AlignedBytes out(8 * kPageBytes);
  out.fill(1);
  EXPECT_TRUE(write_pages(opened->fd, kPageBytes, {out.data(), out.size()}).ok());
  AlignedBytes in(8 * kPageBytes);
  EXPECT_TRUE(read_pages(opened->fd, kPageBytes, {in.data(), in.size()}).ok());
  EXPECT_EQ(std::memcmp(in.data(), out.data(), in.size()), 0);
  EXPECT_EQ(read_pages(opened->fd, kMiB - kPageBytes, {in.data(), in.size()}).code(),
            Code::kUnavailable);
  close(opened->fd);
}

// A file that was made by truncate(), or copied with its holes: writes into it need room that may
// be gone.
TEST(FileOpen, HolesAreFilledWithinTheFloorAndWhatIsThereStays) {
  TemporaryPath path("holes");
  { std::ofstream(path.path()) << std::string(kPageBytes, 'x'); }
  std::filesystem::resize_file(path.path(), 8 * kMiB);
  OPEN_OR_SKIP(opened, options_for(path, 0));
  struct stat info {};
  ASSERT_EQ(fstat(opened->fd, &info), 0);
  if (static_cast<uint64_t>(info.st_blocks) * 512 >= 8 * kMiB) GTEST_SKIP() << "no holes here";
  EXPECT_EQ(fill_holes(opened->fd, ~uint64_t{0} >> 1).code(), Code::kNoSpace);
  ASSERT_EQ(fstat(opened->fd, &info), 0);
  EXPECT_LT(static_cast<uint64_t>(info.st_blocks) * 512, 8 * kMiB) << "left as it was";
  const Status filled = fill_holes(opened->fd, 0);
  if (filled.code() == Code::kUnsupported) GTEST_SKIP() << "no fallocate here";
  ASSERT_TRUE(filled.ok()) << filled.what();
  ASSERT_EQ(fstat(opened->fd, &info), 0);
  EXPECT_GE(static_cast<uint64_t>(info.st_blocks) * 512, 8 * kMiB);
  EXPECT_EQ(info.st_size, off_t{8 * kMiB});
  AlignedBytes page(kPageBytes);
  EXPECT_TRUE(read_pages(opened->fd, 0, {page.data(), page.size()}).ok());
  EXPECT_EQ(page.data()[kPageBytes - 1], std::byte{'x'});
  close(opened->fd);
}

}  // namespace
}  // namespace varve
