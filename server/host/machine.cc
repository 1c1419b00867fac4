// Memory and cores as this process may use them: the machine's, and less where a cgroup says less.
//
// A container often sees the whole machine in /proc/meminfo and is killed without a word at its own
// limit, so every cgroup from ours up to the root is asked, version 1 and 2.
#include <sched.h>

#include <algorithm>
#include <cstdlib>

#include "server/host/host.h"

namespace varve {

namespace {

constexpr uint32_t kLevelsMax = 32;
constexpr uint64_t kNoLimit = ~uint64_t{0};

// A file with one number; "max" and everything unreadable is no limit.
uint64_t read_number(const std::string& path, uint64_t otherwise) {
  std::string text;
  if (!read_file(path, &text) || text.empty() || text[0] < '0' || text[0] > '9') return otherwise;
  return std::strtoull(text.c_str(), nullptr, 10);
}

// "name 123" or "name: 123 kB" in a file of such lines; 0 without it.
uint64_t read_field(const std::string& path, const std::string& name) {
  std::string text;
  if (!read_file(path, &text)) return 0;
  const std::string lines = "\n" + text;
  const size_t at = lines.find("\n" + name);
  return at == std::string::npos ? 0
                                 : std::strtoull(lines.c_str() + at + 1 + name.size(), nullptr, 10);
}

// Where this process stands below a controller's mount: "" for version 2.
std::string cgroup_path(const std::string& root, const std::string& controller) {
  std::string text;
  if (!read_file(root + "/proc/self/cgroup", &text)) return "/";
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool ours = controller.empty() ? names == ",,"
                                         : names.find("," + controller + ",") != std::string::npos;
    if (ours) return line.substr(second + 1);
  }
  return "/";
}

// Calls `look` with the folder of every level, ours first.
template <class Look>
void each_level(const std::string& mount, std::string path, const Look& look) {
  for (uint32_t level = 0; level < kLevelsMax; ++level) {
    while (!path.empty() && path.back() == '/')
      path.pop_back();
    look(mount + path);
    if (path.empty()) return;
    path = path.substr(0, path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

struct MemoryFiles {
  const char* limit;
  const char* usage;
  const char* inactive;  // in memory.stat: page cache that the kernel gives back first
};

void bound_memory(Machine& machine, const std::string& folder, const MemoryFiles& files) {
  const uint64_t limit = read_number(folder + "/" + files.limit, kNoLimit);
  if (limit >= kNoLimit / 4) return;  // version 1 writes a huge number for none
  const uint64_t usage = read_number(folder + "/" + files.usage, 0);
  const uint64_t cache = std::min(usage, read_field(folder + "/memory.stat", files.inactive));
  const uint64_t taken = std::min(limit, usage - cache);
  if (machine.memory_limit_bytes == 0 || limit < machine.memory_limit_bytes) {
    machine.memory_limit_bytes = limit;
  }
  const uint64_t left = limit - taken;
  machine.memory_available_bytes =
      machine.memory_available_bytes == 0
          ? std::max<uint64_t>(left, 1)
          : std::min(machine.memory_available_bytes, std::max<uint64_t>(left, 1));
}

void bound_cores(Machine& machine, uint64_t quota, uint64_t period) {
  if (quota == 0 || quota >= kNoLimit / 4 || period == 0) return;
  const uint64_t cores = std::max<uint64_t>(1, (quota + period - 1) / period);
  machine.cores = static_cast<uint32_t>(std::min<uint64_t>(machine.cores, cores));
}

void bound_cores_v2(Machine& machine, const std::string& folder) {
  std::string text;
  if (!read_file(folder + "/cpu.max", &text) || text.empty() || text[0] == 'm') return;
  char* rest = nullptr;
  const uint64_t quota = std::strtoull(text.c_str(), &rest, 10);
  bound_cores(machine, quota, std::strtoull(rest, nullptr, 10));
}

void bound_cores_v1(Machine& machine, const std::string& folder) {
  const uint64_t quota = read_number(folder + "/cpu.cfs_quota_us", 0);  // "-1": none
  bound_cores(machine, quota, read_number(folder + "/cpu.cfs_period_us", 0));
}

}  // namespace

Machine read_machine(const std::string& root) {
  Machine machine;
  cpu_set_t cpus;
  if (::sched_getaffinity(0, sizeof(cpus), &cpus) == 0) {
    machine.cores = static_cast<uint32_t>(std::max(1, CPU_COUNT(&cpus)));
  }
  machine.memory_available_bytes = read_field(root + "/proc/meminfo", "MemAvailable:") * kKiB;
  const std::string mount = root + "/sys/fs/cgroup";
  each_level(mount, cgroup_path(root, ""), [&machine](const std::string& folder) {
    bound_memory(machine, folder, {"memory.max", "memory.current", "inactive_file "});
    bound_cores_v2(machine, folder);
  });
  each_level(mount + "/memory", cgroup_path(root, "memory"), [&machine](const std::string& folder) {
    bound_memory(machine, folder,
                 {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "});
  });
  for (const char* name : {"/cpu", "/cpu,cpuacct"}) {
    each_level(mount + name, cgroup_path(root, "cpu"),
               [&machine](const std::string& folder) { bound_cores_v1(machine, folder); });
  }
  VARVE_ASSERT(machine.cores > 0);
  return machine;
}

}  // namespace varve
