// Machine: what /proc, /sys and the build's cache say of where a benchmark runs.
//
// "unknown" where the machine does not say.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/base.h"

namespace varve::kvbench {

// The rest of the line after "key:" in a text, without the spaces before it. Pure.
std::string first_line_after(const std::string& text, const std::string& key);
std::string trimmed(std::string text);  // without what is blank at its end; "unknown": nothing left
// The value of `key` in a CMake cache ("KEY:TYPE=value"), "unknown" when absent. Pure.
std::string cache_value(const std::string& cache, const std::string& key);
// `text` as one word of a POSIX shell. Pure.
std::string shell_quoted(const std::string& text);

std::string build_cache();  // CMakeCache.txt of the build that this program stands in
std::string kernel();
std::string cpu_model();
uint32_t cores();
std::string cores_online();  // "0-3"
// The cores on which the threads of a process may run ("0-3"), each list once where they differ.
std::string cores_of_threads(pid_t pid);
// What keeps whose threads to some of the cores that are online: names and lists of cores. Empty
// where one of them is unknown. Pure.
std::string pinning_text(const std::string& online,
                         const std::vector<std::pair<std::string, std::string>>& threads);
std::string memory_text();
std::string huge_pages();
double load_average();  // of the last minute
// More than half of a core is taken by others: numbers of such a machine say little.
bool is_quiet(double load_average, uint32_t cores);
std::string io_backend();
std::string hypervisor();  // "bare_metal", "kvm" or "other"
// How the frequency of the cores is chosen; of cores that differ all.
std::string governor();
std::string mitigations();  // of each flaw of the processor what the kernel does about it
uint32_t numa_nodes();
// Those that shape sockets, page cache, memory and io_uring, as far as this kernel has them.
std::vector<std::pair<std::string, std::string>> sysctls();
std::string fingerprint();  // of this machine: a digest, which tells nothing else of it
std::string timestamp();    // UTC, as of RFC 3339
// Of a file, or of all files of a folder in the order of their names.
std::string sha256_of_files(const std::string& path);

// The file system that a folder is on.
struct Mount {
  std::string type = "unknown", options = "unknown", device = "unknown";
};
// Of a text like /proc/self/mountinfo, by the number of the device ("253:0"). Pure.
Mount mount_of(const std::string& mountinfo, const std::string& device_number);
Mount mount_of_folder(const std::string& folder);

struct Drive {
  std::string model = "unknown";
  bool is_virtual = false;
  uint64_t capacity_bytes = 0;
  uint32_t lba_bytes = 0;
  // "none", "rdma", "tcp" or "fc", as this kernel speaks to the drive; "unknown" of what is none
  // (a file system in memory) or made of several.
  std::string nvmeof = "unknown";
};
// The same of the drive's name and of what /sys says of its transport. Pure.
std::string nvmeof_of(const std::string& name, const std::string& transport);
Drive drive_of_folder(const std::string& folder);

}  // namespace varve::kvbench
