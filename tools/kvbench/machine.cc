// What /proc and /sys say, by small readers of text files.
#include "tools/kvbench/machine.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <sstream>

#include "common/reactor/io.h"
#include "tools/kvbench/process.h"

namespace varve::kvbench {

namespace {

constexpr size_t kReadBytes = 256 * kKiB;
constexpr double kQuietLoadPerCore = 0.25;
constexpr uint64_t kSectorBytes = 512;  // the unit of /sys/block/*/size, whatever the drive's is

std::string device_number_of(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return "unknown";
  return std::to_string(major(info.st_dev)) + ":" + std::to_string(minor(info.st_dev));
}

// The settings that shape sockets, page cache, memory and io_uring.
constexpr const char* kSysctls[] = {"fs/aio-max-nr",          "kernel/io_uring_disabled",
                                    "kernel/numa_balancing",  "kernel/sched_autogroup_enabled",
                                    "net/core/rmem_max",      "net/core/wmem_max",
                                    "net/core/default_qdisc", "net/core/busy_poll",
                                    "net/ipv4/tcp_rmem",      "net/ipv4/tcp_wmem",
                                    "net/ipv4/tcp_mem",       "net/ipv4/tcp_congestion_control",
                                    "vm/dirty_ratio",         "vm/dirty_background_ratio",
                                    "vm/nr_hugepages",        "vm/overcommit_memory",
                                    "vm/swappiness",          "vm/zone_reclaim_mode"};

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string first_line_after(const std::string& text, const std::string& key) {
  const size_t at = text.find(key);
  if (at == std::string::npos) return "unknown";
  const size_t colon = text.find(':', at);
  const size_t end = text.find('\n', at);
  if (colon == std::string::npos || colon > end) return "unknown";
  const size_t begin = text.find_first_not_of(" \t", colon + 1);
  return begin == std::string::npos || begin >= end ? "unknown" : text.substr(begin, end - begin);
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
    text.pop_back();
  return text.empty() ? "unknown" : text;
}

std::string cache_value(const std::string& cache, const std::string& key) {
  const std::string mark = "\n" + key + ":";
  const size_t at = cache.find(mark);
  if (at == std::string::npos) return "unknown";
  const size_t equal = cache.find('=', at);
  const size_t end = cache.find('\n', at + 1);
  if (equal == std::string::npos || equal > end) return "unknown";
  const std::string value = cache.substr(equal + 1, end - equal - 1);
  return value.empty() ? "(none)" : value;
}

std::string shell_quoted(const std::string& text) {
  const bool plain = !text.empty() && text.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-+=./:,@%") == std::string::npos;
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string build_cache() {
  return read_file(own_path().substr(0, own_path().rfind('/')) + "/../CMakeCache.txt");
}

std::string kernel() {
  utsname name = {};
  if (::uname(&name) != 0) return "unknown";
  return std::string(name.sysname) + " " + name.release + " " + name.machine;
}

std::string cpu_model() {
  return first_line_after(read_file("/proc/cpuinfo"), "model name");
}

uint32_t cores() {
  return static_cast<uint32_t>(::sysconf(_SC_NPROCESSORS_ONLN));
}

std::string cores_online() {
  return trimmed(read_file("/sys/devices/system/cpu/online"));
}

std::string cores_of_threads(pid_t pid) {
  std::set<std::string> all;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task/";
  for (const std::string& task : names_in(tasks)) {
    const std::string status = read_file(tasks + task + "/status");
    if (!status.empty()) all.insert(first_line_after(status, "Cpus_allowed_list"));
  }
  std::string text;
  for (const std::string& one : all)
    text += (text.empty() ? "" : " and ") + one;
  return text.empty() ? "unknown" : text;
}

std::string pinning_text(const std::string& online,
                         const std::vector<std::pair<std::string, std::string>>& threads) {
  std::string free, kept;
  for (const auto& [name, cores] : threads) {
    if (online == "unknown" || cores.empty() || cores == "unknown") return "";
    std::string& text = cores == online ? free : kept;
    text += (text.empty() ? "" : ", ") + name + (cores == online ? "" : " on " + cores);
  }
  const std::string of = " of the cores online (" + online + ")";
  if (kept.empty()) return "none: all threads of " + free + " may run on all" + of;
  return kept + of + (free.empty() ? "" : "; " + free + " on all");
}

std::string memory_text() {
  return first_line_after(read_file("/proc/meminfo"), "MemTotal");
}

std::string huge_pages() {
  return trimmed(read_file("/sys/kernel/mm/transparent_hugepage/enabled"));
}

double load_average() {
  double load[1] = {0};
  return ::getloadavg(load, 1) == 1 ? load[0] : 0;
}

bool is_quiet(double load_average, uint32_t cores) {
  return load_average <= kQuietLoadPerCore * cores;
}

std::string io_backend() {
  auto choice = make_io_backend(IoBackendPreference::kProbe, {});
  if (!choice) return "none";
  std::string text = choice->backend->name();
  if (!choice->reason.ok())
    text += std::string(" (io_uring refused: ") + choice->reason.what() + ")";
  return text;
}

std::string hypervisor() {
  const std::string flags = first_line_after(read_file("/proc/cpuinfo"), "flags");
  if ((" " + flags + " ").find(" hypervisor ") == std::string::npos) return "bare_metal";
  const std::string clock =
      read_file("/sys/devices/system/clocksource/clocksource0/available_clocksource");
  return clock.find("kvm-clock") != std::string::npos ? "kvm" : "other";
}

std::string governor() {
  std::set<std::string> all;
  const std::string cpus = "/sys/devices/system/cpu/";
  for (const std::string& name : names_in(cpus)) {
    const std::string one = trimmed(read_file(cpus + name + "/cpufreq/scaling_governor"));
    if (one != "unknown") all.insert(one);
  }
  if (all.empty()) return "none: the kernel does not set the frequency here (no cpufreq)";
  std::string text;
  for (const std::string& one : all)
    text += (text.empty() ? "" : ", ") + one;
  return text;
}

std::string mitigations() {
  std::string text;
  const std::string folder = "/sys/devices/system/cpu/vulnerabilities/";
  for (const std::string& name : names_in(folder))
    text += (text.empty() ? "" : "; ") + name + ": " + trimmed(read_file(folder + name));
  return text.empty() ? "unknown" : text;
}

uint32_t numa_nodes() {
  uint32_t count = 0;
  for (const std::string& name : names_in("/sys/devices/system/node")) {
    const bool is_node = name.starts_with("node") && name.size() > 4 &&
                         name.find_first_not_of("0123456789", 4) == std::string::npos;
    count += is_node ? 1 : 0;
  }
  return std::max(1u, count);  // a kernel without NUMA has no such folder
}

std::vector<std::pair<std::string, std::string>> sysctls() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const char* path : kSysctls) {
    std::string name = path, value = trimmed(read_file(std::string("/proc/sys/") + path));
    if (value == "unknown") continue;
    std::replace(name.begin(), name.end(), '/', '.');
    std::replace(value.begin(), value.end(), '\t', ' ');
    all.emplace_back(name, value);
  }
  return all;
}

std::string fingerprint() {
  const std::string all = read_file("/etc/machine-id") + cpu_model() + std::to_string(cores()) +
                          memory_text() + kernel();
  const Digest digest = Sha256().update(std::as_bytes(std::span(all.data(), all.size()))).finish();
  char text[20];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(digest.prefix64()));
  return text;
}

std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  char text[32];
  (void)::gmtime_r(&now, &parts);
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string sha256_of_files(const std::string& path) {
  std::error_code error;
  std::vector<std::string> paths = {path};
  if (std::filesystem::is_directory(path, error)) {
    paths.clear();
    for (const auto& entry : std::filesystem::directory_iterator(path, error))
      paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
  }
  Sha256 hash;
  for (const std::string& one : paths) {
    if (!std::filesystem::is_regular_file(one, error)) continue;  // a pipe has no end
    std::ifstream file(one, std::ios::binary);
    std::vector<char> piece(kReadBytes);
    while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0)
      hash.update(std::as_bytes(std::span(piece.data(), static_cast<size_t>(file.gcount()))));
  }
  std::string hex;
  for (const std::byte b : hash.finish().bytes) {
    char two[3];
    std::snprintf(two, sizeof(two), "%02x", static_cast<unsigned>(b));
    hex += two;
  }
  return hex;
}

// A line: id, parent, device, root, place, options, optional fields, "-", type, source, options.
Mount mount_of(const std::string& mountinfo, const std::string& device_number) {
  std::istringstream lines(mountinfo);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string id, parent, number, root, place, options, word;
    words >> id >> parent >> number >> root >> place >> options;
    if (number != device_number) continue;
    while (words >> word && word != "-") {
    }
    Mount mount;
    if (!(words >> mount.type >> mount.device)) return {};
    mount.options = options;
    return mount;
  }
  return {};
}

Mount mount_of_folder(const std::string& folder) {
  return mount_of(read_file("/proc/self/mountinfo"), device_number_of(folder));
}

std::string nvmeof_of(const std::string& name, const std::string& transport) {
  if (!name.starts_with("nvme")) return "none";
  if (transport == "pcie") return "none";
  const bool fabric = transport == "rdma" || transport == "tcp" || transport == "fc";
  return fabric ? transport : "unknown";
}

Drive drive_of_folder(const std::string& folder) {
  Drive drive;
  const std::string at = "/sys/dev/block/" + device_number_of(folder);
  const std::string size = trimmed(read_file(at + "/size"));
  if (size == "unknown") return drive;
  drive.capacity_bytes = std::strtoull(size.c_str(), nullptr, 10) * kSectorBytes;
  // A partition has no queue of its own: its drive stands above it.
  const bool has_queue = ::access((at + "/queue").c_str(), F_OK) == 0;
  const std::string whole = has_queue ? at : at + "/..";
  const std::string lba = read_file(whole + "/queue/logical_block_size");
  drive.lba_bytes = static_cast<uint32_t>(std::strtoul(lba.c_str(), nullptr, 10));
  drive.model = trimmed(read_file(whole + "/device/model"));
  std::error_code error;
  const std::string name = std::filesystem::canonical(whole, error).filename();
  // One that is made of others has no device of its own, and theirs are not looked at.
  if (!error && ::access((whole + "/device").c_str(), F_OK) == 0) {
    drive.nvmeof = nvmeof_of(name, trimmed(read_file(whole + "/device/transport")));
  }
  char driver[256] = {};
  const ssize_t length = ::readlink((whole + "/device/driver").c_str(), driver, sizeof(driver) - 1);
  const std::string by = length > 0 ? std::string(driver, static_cast<size_t>(length)) : "";
  drive.is_virtual = by.find("virtio") != std::string::npos || hypervisor() != "bare_metal";
  if (drive.model == "unknown" && drive.is_virtual) drive.model = "a virtual drive (virtio)";
  return drive;
}

}  // namespace varve::kvbench
