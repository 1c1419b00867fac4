// Judging the machine: pure, so that every sentence can be tested without the machine that has it.
#include <algorithm>
#include <cstring>

#include "tools/kvctl/machine.h"
#include "tools/kvctl/text.h"

namespace varve::kvctl {

namespace {

constexpr uint32_t kKernelMajor = 5, kKernelMinor = 19;  // whose io_uring varved uses
constexpr const char* kQuickClocks[] = {"tsc", "kvm-clock", "arch_sys_counter",
                                        "hyperv_clocksource_tsc_page"};

Finding ok(std::string check, std::string what) {
  return {Severity::kOk, std::move(check), std::move(what), ""};
}

// What a varved without options would take.
ServerConfig default_config(const Machine& machine) {
  ServerConfig config;
  settle(config, machine);
  return config;
}

Finding kernel_finding(const MachineFacts& facts) {
  const bool old = facts.kernel_major < kKernelMajor ||
                   (facts.kernel_major == kKernelMajor && facts.kernel_minor < kKernelMinor);
  if (!old) return ok("kernel", facts.kernel);
  return {Severity::kWarning, "kernel",
          "Linux " + facts.kernel +
              " is before 5.19, whose io_uring varved uses: I/O goes through "
              "threads, slower",
          "run a newer kernel"};
}

Finding uring_finding(const MachineFacts& facts) {
  if (facts.uring_refusal.empty()) return ok("io_uring", "allowed, and it works");
  return finding_of(Severity::kWarning, "io_uring", facts.uring_refusal);
}

Finding memlock_finding(const MachineFacts& facts, const ServerConfig& config) {
  if (facts.may_lock) return ok("memlock", "CAP_IPC_LOCK: no limit counts");
  if (facts.memlock_bytes == kNoLimitBytes) return ok("memlock", "unlimited");
  const std::string has = size_text(facts.memlock_bytes) + " may be locked";
  if (facts.memlock_bytes >= config.dram_bytes) return ok("memlock", has);
  return {Severity::kNote, "memlock",
          has + ", and a DRAM tier by default has " + size_text(config.dram_bytes) +
              ": io_uring cannot register it, which costs some CPU",
          "raise ulimit -l (LimitMEMLOCK=)"};
}

Finding descriptor_finding(const MachineFacts& facts, const ServerConfig& config) {
  const DescriptorNeed need = descriptor_need(config);
  const std::string has = facts.descriptors_hard == kNoLimitBytes
                              ? std::string("unlimited")
                              : count_text(facts.descriptors_hard) + " at most";
  if (facts.descriptors_hard >= need.full) return ok("descriptors", has);
  const bool fatal = facts.descriptors_hard < need.least;
  return {fatal ? Severity::kError : Severity::kWarning, "descriptors",
          has + "; varved by default uses up to " + count_text(need.full) +
              (fatal ? ", and does not start with less than " + count_text(need.least)
                     : ", and serves fewer clients with less"),
          "raise ulimit -n (LimitNOFILE=), or give fewer --sessions"};
}

Finding memory_finding(const MachineFacts& facts, const ServerConfig& config) {
  const uint64_t available = facts.machine.memory_available_bytes;
  std::string has = size_text(available) + " available";
  if (facts.machine.memory_limit_bytes > 0) {
    has += ", of the " + size_text(facts.machine.memory_limit_bytes) + " of this container";
  }
  const std::string problem =
      memory_problem(config, facts.machine, config.targets * config.target_bytes);
  return problem.empty() ? ok("memory", has) : finding_of(Severity::kError, "memory", problem);
}

Finding huge_page_finding(const MachineFacts& facts) {
  if (facts.huge_pages != "never") {
    return ok("huge pages", facts.huge_pages.empty() ? "not known here" : facts.huge_pages);
  }
  return {Severity::kNote, "huge pages",
          "transparent huge pages are off: the DRAM tier lies in small pages, which costs some CPU",
          "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"};
}

Finding clock_finding(const MachineFacts& facts) {
  if (!facts.clock_steady) {
    return {Severity::kError, "clock", "the monotonic clock of this machine went backwards",
            "choose another clocksource (kernel parameter clocksource=), or update the hypervisor"};
  }
  if (facts.clock_source.empty()) return ok("clock", "monotonic; its source is not known here");
  const bool quick = std::any_of(std::begin(kQuickClocks), std::end(kQuickClocks),
                                 [&](const char* name) { return facts.clock_source == name; });
  if (quick) return ok("clock", "monotonic, by " + facts.clock_source);
  return {
      Severity::kWarning, "clock",
      "the clock is " + facts.clock_source + ": each reading of it is a slow call of the kernel",
      "choose tsc (kernel parameter clocksource=tsc), and see dmesg for why it was given up"};
}

std::vector<Finding> folder_findings(const FolderFacts& folder) {
  const std::string check = "data folder";
  if (folder.path.empty()) return {};
  if (folder.place.empty()) {
    return {{Severity::kError, check,
             "neither " + printable(folder.path) + " nor the folder around it is there",
             "make the latter, or name another by --data"}};
  }
  if (!folder.write_refusal.empty()) {
    return {{Severity::kError, check,
             "no file can be made in " + printable(folder.place) + ": " + folder.write_refusal,
             "give it to the user that varved runs as, or name another by --data"}};
  }
  std::vector<Finding> out;
  out.push_back(ok(check, printable(folder.path) + (folder.place == folder.path
                                                        ? " may be written"
                                                        : " is not there yet and can be made")));
  if (!folder.direct_refusal.empty()) {
    out.push_back({Severity::kError, "O_DIRECT",
                   "files in " + printable(folder.place) + " (" + folder.filesystem +
                       ") cannot be read and written past the page cache in pages of 4096 bytes: " +
                       folder.direct_refusal,
                   "put targets on ext4, xfs or a block device (--target)"});
  } else {
    out.push_back(ok("O_DIRECT", "works in pages of 4096 bytes, on " + folder.filesystem));
  }
  if (folder.filesystem == "tmpfs") {
    out.push_back({Severity::kWarning, "filesystem",
                   printable(folder.place) + " lies in memory (tmpfs): nothing in it survives a "
                                             "restart of the machine",
                   "put --data on a drive"});
  }
  const ServerConfig config;
  const uint64_t first_start = config.targets * config.target_bytes + config.free_floor_bytes;
  const uint64_t wanted = folder.has_node ? config.free_floor_bytes : first_start;
  const std::string has = size_text(folder.free_bytes) + " free in " + printable(folder.place);
  if (folder.free_bytes >= wanted) {
    out.push_back(ok("space", has));
  } else if (folder.has_node) {
    out.push_back({Severity::kWarning, "space",
                   has + ", less than the floor of " + size_text(config.free_floor_bytes),
                   "free space: a full file system harms whoever shares it"});
  } else {
    out.push_back(
        {Severity::kWarning, "space",
         has + "; a first start without options makes targets of 4 GiB and leaves 2 GiB",
         "free space, or give smaller --target-bytes or --free-floor-bytes, or --target"});
  }
  return out;
}

std::vector<Finding> port_findings(const std::vector<PortFacts>& ports) {
  std::vector<Finding> out;
  for (const PortFacts& port : ports) {
    if (port.refusal.empty()) continue;
    out.push_back({Severity::kWarning, "port",
                   port.address + ", a default of varved, cannot be listened on: " + port.refusal,
                   "stop what has it, or give varved another --listen, --control or --http"});
  }
  if (out.empty()) out.push_back(ok("ports", "7440, 7441 and 7442 are free"));
  return out;
}

}  // namespace

std::vector<Finding> check_machine(const MachineFacts& facts, NodeHere node) {
  const ServerConfig config = default_config(facts.machine);
  std::vector<Finding> out = {kernel_finding(facts)};
  // An old kernel has no io_uring for us: that is one cause, and not two.
  if (out.front().severity == Severity::kOk) out.push_back(uring_finding(facts));
  out.push_back(memlock_finding(facts, config));
  out.push_back(descriptor_finding(facts, config));
  if (node == NodeHere::kNo) out.push_back(memory_finding(facts, config));
  out.push_back(huge_page_finding(facts));
  out.push_back(clock_finding(facts));
  for (Finding& finding : folder_findings(facts.folder))
    out.push_back(std::move(finding));
  if (node == NodeHere::kNo) {
    for (Finding& finding : port_findings(facts.ports))
      out.push_back(std::move(finding));
  }
  for (const TokenFacts& token : facts.tokens) {
    out.push_back(token.problem.empty()
                      ? ok("token file", printable(token.path))
                      : finding_of(Severity::kError, "token file", printable(token.problem)));
  }
  return out;
}

}  // namespace varve::kvctl
