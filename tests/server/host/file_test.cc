// Goal: a small file is read whole, replaced whole, and a refusal names its errno.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "tests/server/host/host_folder.h"

namespace varve {
namespace {

TEST(HostFile, WhatIsReplacedIsReadBackAndNothingIsLeftBeside) {
  test::HostFolder folder;
  const std::string path = folder.path() + "/file";
  for (const Durability durability : {Durability::kNone, Durability::kPowerCut}) {
    EXPECT_EQ(replace_file(path, "first", durability), 0);
    EXPECT_EQ(replace_file(path, "2", durability), 0);
    std::string content;
    EXPECT_TRUE(read_file(path, &content));
    EXPECT_EQ(content, "2");
    EXPECT_FALSE(exists(path + ".new"));
  }
}

TEST(HostFile, ARefusalNamesItsErrno) {
  test::HostFolder folder;
  std::string content;
  EXPECT_FALSE(read_file(folder.path() + "/absent", &content));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(replace_file(folder.path() + "/absent/file", "x", Durability::kNone), ENOENT);
  folder.make("taken");
  EXPECT_EQ(replace_file(folder.path() + "/taken", "x", Durability::kNone), EISDIR);
  EXPECT_FALSE(exists(folder.path() + "/taken.new"));
  folder.put("five", "12345");
  EXPECT_EQ(file_bytes(folder.path() + "/five"), 5u);
  EXPECT_EQ(file_bytes(folder.path() + "/absent"), 0u);
  EXPECT_EQ(errno_suffix(ENOENT), ": No such file or directory");
  EXPECT_EQ(errno_suffix(0), "");
}

TEST(HostFile, APlaceIsKnownByItsFolderAndName) {
  test::HostFolder folder;
  const std::string path = folder.path() + "/t.dat";
  EXPECT_TRUE(same_place(path, folder.path() + "/./t.dat"));
  EXPECT_TRUE(same_place(path, folder.path() + "//t.dat"));
  EXPECT_FALSE(same_place(path, folder.path() + "/u.dat"));
  EXPECT_FALSE(same_place(path, folder.path() + "/gone/t.dat"));
  EXPECT_TRUE(same_place(folder.path() + "/gone/t.dat", folder.path() + "/gone/t.dat"));
}

}  // namespace
}  // namespace varve
