// Goal: the smallest limit of any cgroup above us counts (H3). Method: made-up /proc and /sys.
#include <gtest/gtest.h>

#include "tests/server/host/host_folder.h"

namespace varve {
namespace {

constexpr const char* kMeminfo =
    "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n";

TEST(HostMachine, WithoutCgroupsTheMachineCounts) {
  test::HostFolder root;
  root.put("proc/meminfo", kMeminfo);
  const Machine machine = read_machine(root.path());
  EXPECT_EQ(machine.memory_available_bytes, 8 * kGiB);
  EXPECT_EQ(machine.memory_limit_bytes, 0u);
  EXPECT_GE(machine.cores, 1u);
}

TEST(HostMachine, AContainersLimitCountsLessWhatItHoldsAlready) {
  test::HostFolder root;
  root.put("proc/meminfo", kMeminfo);
  root.put("proc/self/cgroup", "0::/\n");
  root.put("sys/fs/cgroup/memory.max", "314572800\n");
  root.put("sys/fs/cgroup/memory.current", "104857600\n");
  root.put("sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 52428800\nactive_file 3\n");
  root.put("sys/fs/cgroup/cpu.max", "50000 100000\n");
  const Machine machine = read_machine(root.path());
  EXPECT_EQ(machine.memory_limit_bytes, 300 * kMiB);
  EXPECT_EQ(machine.memory_available_bytes, 250 * kMiB);  // the page cache comes back
  EXPECT_EQ(machine.cores, 1u);                           // half a core rounds up
}

TEST(HostMachine, ALimitFurtherUpCountsToo) {
  test::HostFolder root;
  root.put("proc/meminfo", kMeminfo);
  root.put("proc/self/cgroup", "0::/pod/container\n");
  root.put("sys/fs/cgroup/pod/container/memory.max", "max\n");
  root.put("sys/fs/cgroup/pod/memory.max", "1073741824\n");
  root.put("sys/fs/cgroup/pod/memory.current", "0\n");
  root.put("sys/fs/cgroup/pod/container/cpu.max", "max 100000\n");
  root.put("sys/fs/cgroup/pod/cpu.max", "100000 100000\n");
  const Machine machine = read_machine(root.path());
  EXPECT_EQ(machine.memory_available_bytes, kGiB);
  EXPECT_EQ(machine.cores, 1u);
}

TEST(HostMachine, VersionOneIsReadAsWell) {
  test::HostFolder root;
  root.put("proc/meminfo", kMeminfo);
  root.put("proc/self/cgroup", "4:memory:/docker/x\n2:cpu,cpuacct:/docker/x\n0::/\n");
  root.put("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "209715200\n");
  root.put("sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes", "10485760\n");
  root.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.put("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "100000\n");
  root.put("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  root.put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  const Machine machine = read_machine(root.path());
  EXPECT_EQ(machine.memory_limit_bytes, 200 * kMiB);
  EXPECT_EQ(machine.memory_available_bytes, 190 * kMiB);
  EXPECT_EQ(machine.cores, 1u);
}

TEST(HostMachine, AFullContainerHasNothingAvailableAndThatIsKnown) {
  test::HostFolder root;
  root.put("proc/meminfo", kMeminfo);
  root.put("proc/self/cgroup", "0::/\n");
  root.put("sys/fs/cgroup/memory.max", "1048576\n");
  root.put("sys/fs/cgroup/memory.current", "2097152\n");
  EXPECT_EQ(read_machine(root.path()).memory_available_bytes, 1u);
}

}  // namespace
}  // namespace varve
