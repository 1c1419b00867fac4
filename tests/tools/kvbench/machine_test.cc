// What can be known without the machine, and that what it says has the form that is declared.
#include "tools/kvbench/machine.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST(Machine, ADriveBehindANetworkIsKnownByItsTransport) {
  EXPECT_EQ(nvmeof_of("nvme0n1", "pcie"), "none");
  EXPECT_EQ(nvmeof_of("nvme1n1", "rdma"), "rdma");
  EXPECT_EQ(nvmeof_of("nvme1n1", "tcp"), "tcp");
  EXPECT_EQ(nvmeof_of("nvme1n1", "fc"), "fc");
  EXPECT_EQ(nvmeof_of("nvme1n1", "unknown"), "unknown") << "of several paths none is looked at";
  EXPECT_EQ(nvmeof_of("nvme1n1", "loop"), "unknown");
  EXPECT_EQ(nvmeof_of("vda", "unknown"), "none") << "this kernel speaks no NVMe to it";
}

TEST(Machine, ThreadsThatMayRunEverywhereAreNotPinned) {
  EXPECT_EQ(pinning_text("0-3", {{"kvbench", "0-3"}, {"varved", "0-3"}}),
            "none: all threads of kvbench, varved may run on all of the cores online (0-3)");
  EXPECT_EQ(pinning_text("0-3", {{"kvbench", "0"}, {"varved", "1 and 2-3"}}),
            "kvbench on 0, varved on 1 and 2-3 of the cores online (0-3)");
  EXPECT_EQ(pinning_text("0-3", {{"kvbench", "0-3"}, {"varved", "1"}}),
            "varved on 1 of the cores online (0-3); kvbench on all");
  EXPECT_EQ(pinning_text("unknown", {{"kvbench", "0-3"}}), "");
  EXPECT_EQ(pinning_text("0-3", {{"kvbench", "unknown"}}), "");
}

// A child on one core, of those that this process may use.
TEST(Machine, WhereThreadsMayRunIsReadOfTheKernel) {
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(all), &all), 0);
  uint32_t core = 0;
  while (!CPU_ISSET(core, &all))
    ++core;
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    (void)::sched_setaffinity(0, sizeof(one), &one);
    (void)!::write(pipe_ends[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(pipe_ends[0], &byte, 1), 1);
  EXPECT_EQ(cores_of_threads(child), std::to_string(core));
  (void)::kill(child, SIGKILL);
  (void)::waitpid(child, nullptr, 0);
  EXPECT_EQ(cores_of_threads(child), "unknown") << "it is gone";
  (void)::close(pipe_ends[0]);
  (void)::close(pipe_ends[1]);
}

TEST(Machine, OneThatOthersUseIsNotQuiet) {
  EXPECT_TRUE(is_quiet(0.3, 2));
  EXPECT_FALSE(is_quiet(0.6, 2));
  EXPECT_TRUE(is_quiet(0.6, 16));
}

TEST(Machine, WhatItSaysIsNeverEmpty) {
  for (const std::string& text :
       {kernel(), cpu_model(), memory_text(), huge_pages(), io_backend(), hypervisor(),
        fingerprint(), governor(), mitigations(), cores_online(), drive_of_folder(".").nvmeof,
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
