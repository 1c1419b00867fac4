// Goal: each thing that can be wrong with a machine is one finding with its cause and its remedy; a
// machine that is right has none.
#include <gtest/gtest.h>

#include <cerrno>

#include "tools/kvctl/machine.h"

namespace varve::kvctl {
namespace {

MachineFacts right() {
  MachineFacts facts;
  facts.kernel = "6.1.0-18-amd64";
  facts.kernel_major = 6;
  facts.kernel_minor = 1;
  facts.descriptors_hard = 524288;
  facts.machine.cores = 8;
  facts.machine.memory_available_bytes = 32 * kGiB;
  facts.clock_source = "tsc";
  facts.huge_pages = "madvise";
  FolderFacts& folder = facts.folders.emplace_back();
  folder.path = folder.place = "/data";
  folder.filesystem = "ext4";
  folder.free_bytes = 100 * kGiB;
  folder.first_bytes = 4 * kGiB;
  folder.tried = true;
  for (const char* port : {"127.0.0.1:7440", "127.0.0.1:7441", "127.0.0.1:7442"})
    facts.ports.push_back({port, ""});
  return facts;
}

// Those that are not ok.
std::vector<Finding> wrong(const MachineFacts& facts, NodeHere node = NodeHere::kNo) {
  std::vector<Finding> out;
  for (const Finding& finding : check_machine(facts, ServerConfig(), node)) {
    EXPECT_FALSE(finding.cause.empty()) << finding.check;
    EXPECT_EQ(finding.remedy.empty(), finding.severity == Severity::kOk) << finding.check;
    if (finding.severity != Severity::kOk) out.push_back(finding);
  }
  return out;
}

// Exactly one, and which.
std::string only(const MachineFacts& facts, Severity severity) {
  const std::vector<Finding> findings = wrong(facts);
  EXPECT_EQ(findings.size(), 1u);
  if (findings.size() != 1) return "none, or several";
  EXPECT_EQ(findings[0].severity, severity) << findings[0].cause;
  return findings[0].check;
}

TEST(CheckMachine, FindsNothingWhereAllIsRight) {
  EXPECT_TRUE(wrong(right()).empty());
}

TEST(CheckMachine, NamesOneCauseOfSlowIo) {
  MachineFacts facts = right();
  facts.uring_refusal = "io_uring is forbidden here; allow it";
  EXPECT_EQ(only(facts, Severity::kWarning), "io_uring");
  EXPECT_EQ(wrong(facts)[0].cause, "io_uring is forbidden here");
  EXPECT_EQ(wrong(facts)[0].remedy, "allow it");
  facts.kernel = "5.10.0";
  facts.kernel_major = 5;
  facts.kernel_minor = 10;
  EXPECT_EQ(only(facts, Severity::kWarning), "kernel") << "of which the other follows";
}

TEST(CheckMachine, KnowsTheLimits) {
  MachineFacts facts = right();
  facts.memlock_bytes = 8 * kMiB;
  EXPECT_EQ(only(facts, Severity::kNote), "memlock");
  facts.may_lock = true;
  EXPECT_TRUE(wrong(facts).empty());
  facts.descriptors_hard = 1024;
  EXPECT_EQ(only(facts, Severity::kWarning), "descriptors");
  facts.descriptors_hard = 64;
  EXPECT_EQ(only(facts, Severity::kError), "descriptors");
  facts = right();
  facts.machine.memory_available_bytes = 100 * kMiB;
  EXPECT_EQ(only(facts, Severity::kError), "memory");
  EXPECT_TRUE(wrong(facts, NodeHere::kYes).empty()) << "it is the node that uses it";
  facts = right();
  facts.huge_pages = "never";
  EXPECT_EQ(only(facts, Severity::kNote), "huge pages");
}

TEST(CheckMachine, KnowsClocks) {
  MachineFacts facts = right();
  facts.clock_source = "hpet";
  EXPECT_EQ(only(facts, Severity::kWarning), "clock");
  facts.clock_source = "kvm-clock";
  EXPECT_TRUE(wrong(facts).empty());
  facts.clock_steady = false;
  EXPECT_EQ(only(facts, Severity::kError), "clock");
}

TEST(CheckMachine, KnowsFolders) {
  MachineFacts facts = right();
  facts.folders[0].direct_refusal = "Invalid argument";
  EXPECT_EQ(only(facts, Severity::kError), "O_DIRECT");
  facts = right();
  facts.folders[0].write_refusal = "Permission denied";
  EXPECT_EQ(only(facts, Severity::kError), "data folder");
  facts = right();
  facts.folders[0].place = "";
  facts.folders[0].look_errno = ENOENT;
  EXPECT_EQ(only(facts, Severity::kError), "data folder");
  facts.folders[0].look_errno = EIO;
  EXPECT_EQ(only(facts, Severity::kError), "data folder");
  facts.folders[0].look_errno = EACCES;
  EXPECT_EQ(only(facts, Severity::kNote), "data folder") << "it is the node's, and not ours";
  facts = right();
  facts.folders[0].filesystem = "tmpfs";
  EXPECT_EQ(only(facts, Severity::kWarning), "filesystem");
  facts = right();
  facts.folders[0].free_bytes = 3 * kGiB;
  EXPECT_EQ(only(facts, Severity::kWarning), "space");
  facts.folders[0].first_bytes = 0;
  EXPECT_TRUE(wrong(facts).empty()) << "its targets are there";
  facts.folders[0].free_bytes = kGiB;
  EXPECT_EQ(only(facts, Severity::kWarning), "space");
  facts = right();
  facts.folders[0].full_refusal = "No space left on device";
  EXPECT_EQ(only(facts, Severity::kWarning), "space") << "and nothing is said of O_DIRECT";
  facts = right();
  facts.folders.clear();
  EXPECT_TRUE(wrong(facts).empty()) << "none was looked at";
}

LocalTarget target_of(TargetFate fate, uint64_t bytes, const std::string& why = "") {
  return {.path = "/dev/nvme1n1", .fate = fate, .there = true, .bytes = bytes, .why = why};
}

// Goal: memory is judged for the drives that there are, and not for --target-bytes.
TEST(CheckMachine, JudgesMemoryForTheTargetsThatThereAre) {
  constexpr uint64_t kDriveBytes = 3840755982336;  // of 3.84 TB
  MachineFacts facts = right();
  for (uint32_t t = 0; t < 4; ++t)
    facts.targets.list.push_back(target_of(TargetFate::kFormatted, kDriveBytes));
  ASSERT_EQ(only(facts, Severity::kError), "memory");
  EXPECT_NE(wrong(facts)[0].cause.find("targets: 14651"), std::string::npos)
      << wrong(facts)[0].cause;
  facts.targets.list[0].bytes = 0;  // lost, or not known: as one of the others
  ASSERT_EQ(only(facts, Severity::kError), "memory");
  for (LocalTarget& target : facts.targets.list)
    target.bytes = kGiB;
  EXPECT_TRUE(wrong(facts).empty());
  facts.machine.memory_available_bytes = 512 * kGiB;
  for (LocalTarget& target : facts.targets.list)
    target.bytes = kDriveBytes;
  EXPECT_TRUE(wrong(facts).empty()) << "and it says how much it takes";
}

// Goal: a finding for each target, from varved's own words to one cause and one remedy.
TEST(CheckMachine, KnowsTargets) {
  MachineFacts facts = right();
  for (const TargetFate fate :
       {TargetFate::kUsed, TargetFate::kFormatted, TargetFate::kMade, TargetFate::kLeftOut}) {
    facts.targets.list = {target_of(fate, kGiB)};
    EXPECT_TRUE(wrong(facts).empty()) << static_cast<int>(fate);
  }
  facts.targets.list = {target_of(TargetFate::kRefused, kGiB, "mounted: busy; unmount it")};
  EXPECT_EQ(only(facts, Severity::kError), "target 0");
  EXPECT_EQ(wrong(facts)[0].cause, "/dev/nvme1n1: mounted: busy");
  EXPECT_EQ(wrong(facts)[0].remedy, "unmount it");
  EXPECT_TRUE(wrong(facts, NodeHere::kYes).empty()) << "a node says itself how its targets are";
  facts.targets.list = {target_of(TargetFate::kRefused, kGiB, "a newer version wrote it")};
  EXPECT_NE(wrong(facts)[0].remedy, "");
  facts.targets.list = {target_of(TargetFate::kLost, kGiB, "cannot be opened; check the drive")};
  EXPECT_EQ(only(facts, Severity::kError), "target 0");
  EXPECT_NE(wrong(facts)[0].cause.find("a start goes on without it"), std::string::npos);
  EXPECT_EQ(wrong(facts)[0].remedy, "check the drive");
  facts.targets.in_use = true;
  EXPECT_EQ(only(facts, Severity::kWarning), "targets");
  facts.targets.in_use = false;
  facts.targets.unseen = true;
  EXPECT_EQ(only(facts, Severity::kNote), "targets");
  facts.targets.problem = "/data/domain.salt is missing; restore it";
  EXPECT_EQ(only(facts, Severity::kError), "identity");
}

// Goal: a node that runs is not judged by what the operator's shell may do.
TEST(CheckMachine, LeavesToANodeWhatItsOwnLimitsAre) {
  MachineFacts facts = right();
  facts.memlock_bytes = 8 * kMiB;
  facts.descriptors_hard = 64;
  facts.uring_refusal = "io_uring is forbidden here; allow it";
  facts.folders[0].free_bytes = 3 * kGiB;
  facts.folders[0].first_bytes = 0;  // they are made
  facts.folders[0].tried = false;
  EXPECT_TRUE(wrong(facts, NodeHere::kYes).empty());
  for (const Finding& finding : check_machine(facts, ServerConfig(), NodeHere::kYes))
    EXPECT_NE(finding.check, "O_DIRECT") << "it was not tried";
  facts.folders[0].free_bytes = kGiB;
  EXPECT_EQ(wrong(facts, NodeHere::kYes).size(), 1u);
}

// Goal: it is the operator's own settings that are judged, and each folder of them.
TEST(CheckMachine, GoesByTheSettings) {
  const auto wrong_with = [](const MachineFacts& facts, const ServerConfig& config) {
    std::vector<std::string> checks;
    for (const Finding& finding : check_machine(facts, config, NodeHere::kNo)) {
      if (finding.severity != Severity::kOk) checks.push_back(finding.check);
    }
    return checks;
  };
  using Checks = std::vector<std::string>;
  MachineFacts facts = right();
  ServerConfig config;
  config.sessions = 4096;
  facts.descriptors_hard = 4096;
  EXPECT_EQ(wrong_with(facts, config), Checks{"descriptors"});
  config.sessions = 16;
  EXPECT_EQ(wrong_with(facts, config), Checks{});
  config.dram_bytes = 64 * kGiB;
  EXPECT_EQ(wrong_with(facts, config), Checks{"memory"});
  config.dram_bytes = kGiB;
  FolderFacts& targets = facts.folders.emplace_back(facts.folders[0]);
  targets.check = "targets";
  targets.path = "/mnt/drive";
  targets.place = "";
  targets.look_errno = ENOENT;
  EXPECT_EQ(wrong_with(facts, config), Checks{"targets"});
  facts.folders.pop_back();
  facts.folders[0].free_bytes = 10 * kGiB;
  config.free_floor_bytes = 8 * kGiB;
  EXPECT_EQ(wrong_with(facts, config), Checks{"space"});
}

TEST(CheckMachine, KnowsPortsAndTokens) {
  MachineFacts facts = right();
  facts.ports[1].refusal = "Address already in use";
  EXPECT_EQ(only(facts, Severity::kWarning), "port");
  EXPECT_TRUE(wrong(facts, NodeHere::kYes).empty()) << "it is the node that has it";
  facts = right();
  facts.tokens = {{"/t", "the token file may be read by others; chmod 600 it"}};
  EXPECT_EQ(only(facts, Severity::kError), "token file");
  facts.tokens[0].problem = "the token has less than 16 characters";
  EXPECT_EQ(only(facts, Severity::kError), "token file");
  EXPECT_EQ(wrong(facts)[0].remedy, kTokenRemedy) << "the node's log knows nothing of this file";
  facts.tokens[0].problem = "";
  EXPECT_TRUE(wrong(facts).empty());
}

}  // namespace
}  // namespace varve::kvctl
