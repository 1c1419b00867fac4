// What can be known without the machine, and that what it says has the form that is declared.
#include "tools/kvbench/machine.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>

namespace varve::kvbench {
namespace {

TEST(Machine, ACacheValueIsFoundByItsWholeKey) {
  const std::string cache =
      "# comment\nCMAKE_CXX_FLAGS_X:STRING=-O0\nCMAKE_CXX_FLAGS:STRING=-O3 -g\n"
      "VARVE_SANITIZE:STRING=\n";
  EXPECT_EQ(cache_value(cache, "CMAKE_CXX_FLAGS"), "-O3 -g");
  EXPECT_EQ(cache_value(cache, "VARVE_SANITIZE"), "(none)");
  EXPECT_EQ(cache_value(cache, "VARVE_MARCH"), "unknown");
  EXPECT_EQ(cache_value("", "VARVE_MARCH"), "unknown");
}

TEST(Machine, AWordIsQuotedOnlyWhereAShellWouldReadItOtherwise) {
  EXPECT_EQ(shell_quoted("--rounds=3"), "--rounds=3");
  EXPECT_EQ(shell_quoted("a b"), "'a b'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted("$(x)"), "'$(x)'");
  EXPECT_EQ(shell_quoted(""), "''");
}

TEST(Machine, ADigestIsOfRegularFilesAlone) {
  const std::string folder = testing::TempDir() + "/kvbench_machine_digest";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/folder");
  std::ofstream(folder + "/a") << "abc";
  ASSERT_EQ(::mkfifo((folder + "/pipe").c_str(), 0600), 0);  // nobody writes into it
  EXPECT_EQ(sha256_of_files(folder),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of_files(folder + "/a"), sha256_of_files(folder));
}

TEST(Machine, AMountIsFoundByItsDevice) {
  const std::string text =
      "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
      "30 27 253:0 / / rw,noatime shared:1 master:2 - ext4 /dev/vda rw\n"
      "bad line\n";
  const Mount mount = mount_of(text, "253:0");
  EXPECT_EQ(mount.type, "ext4");
  EXPECT_EQ(mount.device, "/dev/vda");
  EXPECT_EQ(mount.options, "rw,noatime");
  EXPECT_EQ(mount_of(text, "8:1").type, "unknown");
  EXPECT_EQ(mount_of("30 27 253:0 / / rw", "253:0").type, "unknown");
}

TEST(Machine, ADigestOfAFileIsThatOfItsBytes) {
  const std::string path = testing::TempDir() + "/kvbench_digest";
  std::ofstream(path) << "abc";
  EXPECT_EQ(sha256_of_files(path),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Machine, OneThatOthersUseIsNotQuiet) {
  EXPECT_TRUE(is_quiet(0.3, 2));
  EXPECT_FALSE(is_quiet(0.6, 2));
  EXPECT_TRUE(is_quiet(0.6, 16));
}

TEST(Machine, WhatItSaysIsNeverEmpty) {
  for (const std::string& text : {kernel(), cpu_model(), memory_text(), huge_pages(), io_backend(),
                                  hypervisor(), fingerprint(), governor(), mitigations(),
                                  mount_of_folder(".").type, drive_of_folder(".").model})
    EXPECT_FALSE(text.empty());
  EXPECT_EQ(fingerprint(), fingerprint());
  EXPECT_EQ(timestamp().size(), 20u);
  EXPECT_GE(cores(), 1u);
  EXPECT_GE(numa_nodes(), 1u);
}

TEST(Machine, SettingsOfTheKernelHaveTheNamesThatSysctlTakes) {
  std::set<std::string> names;
  for (const auto& [name, value] : sysctls()) {
    EXPECT_EQ(name.find('/'), std::string::npos) << name;
    EXPECT_FALSE(value.empty()) << name;
    names.insert(name);
  }
  EXPECT_EQ(names.count("net.ipv4.tcp_congestion_control"), 1u);
  EXPECT_EQ(names.count("vm.swappiness"), 1u);
}

}  // namespace
}  // namespace varve::kvbench
