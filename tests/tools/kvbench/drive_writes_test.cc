// Goal: the bytes are written, all of them, to files that are gone afterwards; a folder that cannot
// be had is an error.
#include "tools/kvbench/drive_writes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tools/kvbench/process.h"

namespace varve::kvbench {
namespace {

TEST(DriveWrites, WritesOnceAndLeavesNothing) {
  auto memory = TouchedMemory::map(5 * kMiB);
  ASSERT_TRUE(memory.has_value());
  // In the build's folder: file systems in memory may refuse O_DIRECT.
  const std::string folder = std::filesystem::read_symlink("/proc/self/exe").string() + ".writes";
  const auto took_ns = write_to_drive({folder, 3, 2}, (*memory)->bytes());
  ASSERT_TRUE(took_ns.has_value()) << took_ns.error().what();
  EXPECT_GT(*took_ns, 0u);
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(DriveWrites, WhatIsToBeKeptStaysWithItsBytes) {
  auto memory = TouchedMemory::map(kMiB);
  ASSERT_TRUE(memory.has_value());
  const std::string folder = std::filesystem::read_symlink("/proc/self/exe").string() + ".kept";
  DriveWritesOptions options{folder, 1, 2, DriveWritesOptions::After::kKeep};
  ASSERT_TRUE(write_to_drive(options, (*memory)->bytes()).has_value());
  EXPECT_GE(std::filesystem::file_size(folder + "/0.dat"), kMiB);
  std::filesystem::remove_all(folder);
}

TEST(DriveWrites, RunsLieWholeInOneFileAndWhatIsNoWholeRunIsRefused) {
  auto memory = TouchedMemory::map(3 * kMiB);
  ASSERT_TRUE(memory.has_value());
  for (uint64_t at = 0; at < 3 * kMiB; at += kMiB)  // run r: all bytes r + 1
    std::fill_n((*memory)->bytes().data() + at, kMiB, static_cast<std::byte>(at / kMiB + 1));
  DriveWritesOptions options;
  options.folder = std::filesystem::read_symlink("/proc/self/exe").string() + ".runs";
  options.files = 2;
  options.after = DriveWritesOptions::After::kKeep;
  options.run_bytes = kMiB;
  options.requests_in_flight_all = 1;
  ASSERT_TRUE(write_to_drive(options, (*memory)->bytes()).has_value());
  const std::string first = read_file(options.folder + "/0.dat");
  const std::string second = read_file(options.folder + "/1.dat");
  ASSERT_GE(first.size(), 2 * kMiB);
  EXPECT_EQ(first.find_first_not_of('\1'), kMiB);
  EXPECT_EQ(first.substr(kMiB, kMiB), std::string(kMiB, '\3'));
  EXPECT_EQ(second.substr(0, kMiB), std::string(kMiB, '\2'));
  std::filesystem::remove_all(options.folder);
  EXPECT_FALSE(write_to_drive(options, (*memory)->bytes().first(kMiB / 2)).has_value());
  options.run_bytes = 320 * kKiB;
  EXPECT_FALSE(write_to_drive(options, (*memory)->bytes().first(640 * kKiB)).has_value());
}

TEST(DriveWrites, AFolderThatCannotBeMadeIsAnError) {
  auto memory = TouchedMemory::map(kMiB);
  ASSERT_TRUE(memory.has_value());
  EXPECT_FALSE(write_to_drive({"/proc/drive_writes_test"}, (*memory)->bytes()).has_value());
}

}  // namespace
}  // namespace varve::kvbench
