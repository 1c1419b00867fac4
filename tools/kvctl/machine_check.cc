// Judging the machine: pure, so that every sentence can be tested without the machine that has it.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/kvctl/machine.h"
#include "tools/kvctl/text.h"

namespace varve::kvctl {

namespace {

constexpr uint32_t kKernelMajor = 5, kKernelMinor = 19;  // whose io_uring varved uses
constexpr const char* kTargetRemedy =
    "bring back what it was, or erase its first MiB to use it as a blank one";
constexpr const char* kQuickClocks[] = {"tsc", "kvm-clock", "arch_sys_counter",
                                        "hyperv_clocksource_tsc_page"};

Finding kernel_finding(const MachineFacts& facts) {
  const bool old = facts.kernel_major < kKernelMajor ||
                   (facts.kernel_major == kKernelMajor && facts.kernel_minor < kKernelMinor);
  if (!old) return ok_finding("kernel", facts.kernel);
  return {Severity::kWarning, "kernel",
          "Linux " + facts.kernel +
              " is before 5.19, whose io_uring varved uses: I/O goes through "
              "threads, slower",
          "run a newer kernel"};
}

Finding uring_finding(const MachineFacts& facts) {
  if (facts.uring_refusal.empty()) return ok_finding("io_uring", "allowed, and it works");
  return finding_of(Severity::kWarning, "io_uring", facts.uring_refusal,
                    "see what the kernel says (dmesg)");
}

Finding memlock_finding(const MachineFacts& facts, const ServerConfig& config) {
  if (facts.may_lock) return ok_finding("memlock", "CAP_IPC_LOCK: no limit counts");
  if (facts.memlock_bytes == kNoLimitBytes) return ok_finding("memlock", "unlimited");
  const std::string has = size_text(facts.memlock_bytes) + " may be locked";
  if (facts.memlock_bytes >= config.dram_bytes) return ok_finding("memlock", has);
  return {Severity::kNote, "memlock",
          has + ", and the DRAM tier has " + size_text(config.dram_bytes) +
              ": io_uring cannot register it, which costs some CPU",
          "raise ulimit -l (LimitMEMLOCK=)"};
}

Finding descriptor_finding(const MachineFacts& facts, const ServerConfig& config) {
  const DescriptorNeed need = descriptor_need(config);
  const std::string has = facts.descriptors_hard == kNoLimitBytes
                              ? std::string("unlimited")
                              : count_text(facts.descriptors_hard) + " at most";
  if (facts.descriptors_hard >= need.full) return ok_finding("descriptors", has);
  const bool fatal = facts.descriptors_hard < need.least;
  return {fatal ? Severity::kError : Severity::kWarning, "descriptors",
          has + "; varved uses up to " + count_text(need.full) +
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
  const uint64_t known_bytes = flash_bytes(facts.targets.list);
  const uint64_t bytes = known_bytes > 0 ? known_bytes : config.targets * config.target_bytes;
  has += "; varved takes " + size_text(memory_need(config, bytes)) + ", with targets of " +
         size_text(bytes);
  const std::string problem = memory_problem(config, facts.machine, bytes);
  return problem.empty() ? ok_finding("memory", has)
                         : finding_of(Severity::kError, "memory", problem, "lower --dram-bytes");
}

Finding huge_page_finding(const MachineFacts& facts) {
  if (facts.huge_pages != "never") {
    return ok_finding("huge pages", facts.huge_pages.empty() ? "not known here" : facts.huge_pages);
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
  if (facts.clock_source.empty())
    return ok_finding("clock", "monotonic; its source is not known here");
  const bool quick = std::any_of(std::begin(kQuickClocks), std::end(kQuickClocks),
                                 [&](const char* name) { return facts.clock_source == name; });
  if (quick) return ok_finding("clock", "monotonic, by " + facts.clock_source);
  return {
      Severity::kWarning, "clock",
      "the clock is " + facts.clock_source + ": each reading of it is a slow call of the kernel",
      "choose tsc (kernel parameter clocksource=tsc), and see dmesg for why it was given up"};
}

// Of a folder that could not be looked at.
Finding unseen_finding(const FolderFacts& folder) {
  const std::string &check = folder.check, name = printable(folder.path);
  if (folder.look_errno == ENOENT && folder.check == "targets") {
    return {Severity::kError, check,
            name + " is not there, and a start makes no folder for targets",
            "mount its drive or make it, or correct --target"};
  }
  if (folder.look_errno == ENOENT) {
    return {Severity::kError, check, "neither " + name + " nor the folder around it is there",
            "make the latter, or name another one"};
  }
  const std::string cause = name + " cannot be looked at: " + std::strerror(folder.look_errno);
  if (folder.look_errno == EACCES) {  // a node's own is for nobody else
    return {Severity::kNote, check, cause,
            "run doctor as the user that varved runs as, or as root"};
  }
  return {Severity::kError, check, cause, "check the path and its drive, or name another one"};
}

Finding direct_finding(const FolderFacts& folder) {
  if (folder.direct_refusal.empty()) {
    return ok_finding("O_DIRECT", "works in pages of 4096 bytes, on " + folder.filesystem);
  }
  return {Severity::kError, "O_DIRECT",
          "files in " + printable(folder.place) + " (" + folder.filesystem +
              ") cannot be read and written past the page cache in pages of 4096 bytes: " +
              folder.direct_refusal,
          "put targets on ext4, xfs or a block device (--target)"};
}

Finding space_finding(const FolderFacts& folder, uint64_t floor_bytes) {
  const std::string has = size_text(folder.free_bytes) + " free in " + printable(folder.place);
  if (!folder.full_refusal.empty()) {
    return {Severity::kWarning, "space",
            "nothing can be written in " + printable(folder.place) + ": " + folder.full_refusal +
                " (" + has + ")",
            "free space, or raise the quota of the user that varved runs as"};
  }
  if (folder.free_bytes >= folder.first_bytes + floor_bytes) return ok_finding("space", has);
  if (folder.first_bytes == 0) {
    return {Severity::kWarning, "space", has + ", less than the floor of " + size_text(floor_bytes),
            "free space: a full file system harms whoever shares it"};
  }
  return {Severity::kWarning, "space",
          has + "; a start makes targets of " + size_text(folder.first_bytes) +
              " there and leaves " + size_text(floor_bytes),
          "free space, or give smaller --target-bytes or --free-floor-bytes, or --target"};
}

std::vector<Finding> folder_findings(const FolderFacts& folder, uint64_t floor_bytes) {
  const std::string& check = folder.check;
  if (folder.place.empty()) return {unseen_finding(folder)};
  if (!folder.write_refusal.empty()) {
    return {
        {Severity::kError, check,
         "no file can be made and written in " + printable(folder.place) +
             " by this user: " + folder.write_refusal,
         "give it to the user that varved runs as, and run doctor as that user; or name another "
         "one"}};
  }
  std::vector<Finding> out;
  if (folder.tried) {
    const bool there = folder.place == folder.path;
    out.push_back(
        ok_finding(check, printable(folder.path) +
                              (there ? " may be written" : " is not there yet and can be made")));
    if (folder.full_refusal.empty()) out.push_back(direct_finding(folder));
  }
  if (folder.filesystem == "tmpfs") {
    out.push_back({Severity::kWarning, "filesystem",
                   printable(folder.place) + " lies in memory (tmpfs): nothing in it survives a "
                                             "restart of the machine",
                   "put it on a drive"});
  }
  out.push_back(space_finding(folder, floor_bytes));
  return out;
}

Finding target_finding(const LocalTarget& target) {
  const std::string check = "target " + std::to_string(target.index);
  const std::string name = printable(target.path);
  const std::string size = target.bytes == 0 ? "" : ", " + size_text(target.bytes);
  switch (target.fate) {
    case TargetFate::kUsed:
      return ok_finding(check, name + size + ", is this node's");
    case TargetFate::kFormatted:
      return ok_finding(check, name + size + ", is formatted by a start: nothing on it is in use");
    case TargetFate::kMade:
      return ok_finding(check, name + size + ", is made by a start");
    case TargetFate::kLeftOut:
      return ok_finding(check, name + " was drained: nobody misses it");
    case TargetFate::kLost:
      return finding_of(Severity::kError, check,
                        name +
                            " is lost, a start goes on without it, and what parity does not "
                            "cover of it is a miss: " +
                            printable(target.why),
                        kTargetRemedy);
    case TargetFate::kRefused:
      return finding_of(Severity::kError, check, name + ": " + printable(target.why),
                        kTargetRemedy);
    case TargetFate::kUnseen:
      break;
  }
  return {Severity::kNote, check, name + size + ", was not looked at",
          "run doctor as the user that varved runs as, or as root"};
}

// What all of them have in common stands for each of them, and what is right is one line.
std::vector<Finding> target_findings(const LocalTargets& targets) {
  if (!targets.problem.empty()) {
    return {finding_of(Severity::kError, "identity", printable(targets.problem),
                       "restore the data folder from a copy")};
  }
  if (targets.in_use) {
    return {{Severity::kWarning, "targets",
             "they cannot be judged: a varved runs in the data folder, or starts there",
             "ask that one (without --local), or stop it first"}};
  }
  if (targets.unseen) {
    return {{Severity::kNote, "targets",
             plural(targets.list.size(), "target") +
                 " cannot be judged: this user may not read what the data folder says of them",
             "run doctor as the user that varved runs as, or as root"}};
  }
  std::vector<Finding> out;
  for (const LocalTarget& target : targets.list)
    out.push_back(target_finding(target));
  return out;
}

std::vector<Finding> port_findings(const std::vector<PortFacts>& ports) {
  std::vector<Finding> out;
  for (const PortFacts& port : ports) {
    if (port.refusal.empty()) continue;
    out.push_back({Severity::kWarning, "port",
                   "varved cannot listen on " + port.address + ": " + port.refusal,
                   "stop what has it, or give varved another --listen, --control or --http"});
  }
  if (!out.empty()) return out;
  std::string text;
  for (const PortFacts& port : ports)
    text += (text.empty() ? "" : ", ") + port.address;
  out.push_back(ok_finding("ports", text + " may be listened on"));
  return out;
}

// What a node that is to start here would meet; one that runs says itself what it got.
std::vector<Finding> start_findings(const MachineFacts& facts, const ServerConfig& config) {
  std::vector<Finding> out = {memlock_finding(facts, config), descriptor_finding(facts, config),
                              memory_finding(facts, config)};
  for (Finding& finding : port_findings(facts.ports))
    out.push_back(std::move(finding));
  for (Finding& finding : target_findings(facts.targets))
    out.push_back(std::move(finding));
  return out;
}

}  // namespace

std::vector<Finding> check_machine(const MachineFacts& facts, ServerConfig config, NodeHere node) {
  settle(config, facts.machine);
  std::vector<Finding> out = {kernel_finding(facts)};
  // An old kernel has no io_uring for us: that is one cause, and not two.
  const bool new_kernel = out.front().severity == Severity::kOk;
  if (new_kernel && node == NodeHere::kNo) out.push_back(uring_finding(facts));
  if (node == NodeHere::kNo) {
    for (Finding& finding : start_findings(facts, config))
      out.push_back(std::move(finding));
  }
  out.push_back(huge_page_finding(facts));
  out.push_back(clock_finding(facts));
  for (const FolderFacts& folder : facts.folders) {
    for (Finding& finding : folder_findings(folder, config.free_floor_bytes))
      out.push_back(std::move(finding));
  }
  for (const TokenFacts& token : facts.tokens) {
    out.push_back(token.problem.empty() ? ok_finding("token file", printable(token.path))
                                        : finding_of(Severity::kError, "token file",
                                                     printable(token.problem), kTokenRemedy));
  }
  return out;
}

}  // namespace varve::kvctl
