// Goal: the bytes are written, all of them, to files that are gone afterwards; a folder that cannot
// be had is an error.
#include "tools/kvbench/drive_writes.h"

#include <gtest/gtest.h>

#include <filesystem>

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

TEST(DriveWrites, AFolderThatCannotBeMadeIsAnError) {
  auto memory = TouchedMemory::map(kMiB);
  ASSERT_TRUE(memory.has_value());
  EXPECT_FALSE(write_to_drive({"/proc/drive_writes_test"}, (*memory)->bytes()).has_value());
}

}  // namespace
}  // namespace varve::kvbench
