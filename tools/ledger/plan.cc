// Plan: draws from a generator seeded by (seed, loop) or (seed, folder).
#include "tools/ledger/plan.h"

#include "common/base/random.h"

namespace varve::ledger {

namespace {

// The smallest target that a daemon accepts: up to sixteen slices of six segments of 4 MiB.
constexpr uint64_t kTargetBytesTight = 400 * kMiB;
// Its slices stay so empty that no order of sizes and of restarts makes one of them evict.
constexpr uint64_t kTargetBytesRoomy = 1 * kGiB;
constexpr uint32_t kTightEvery = 4;
constexpr uint32_t kTightScale = 3;
constexpr uint64_t kDramBytes = 64 * kMiB;  // less than the blocks: audits read the drive

Random random_of(uint64_t seed, uint64_t what, uint64_t number) {
  Random random(seed * 0x9E3779B97F4A7C15ull + what * 1000003 + number);
  random.next();
  return random;
}

FolderPlan plan_folder(uint64_t seed, uint32_t number) {
  Random random = random_of(seed, 1, number);
  FolderPlan folder;
  folder.number = number;
  if (number % kTightEvery == kTightEvery - 1) {
    folder.room = Room::kTight;
    folder.targets = 1;
    folder.target_bytes = kTargetBytesTight;
    folder.scale = kTightScale;
  } else {
    folder.targets = static_cast<uint32_t>(random.between(2, 3));
    folder.target_bytes = kTargetBytesRoomy;
  }
  return folder;
}

}  // namespace

LoopPlan plan_loop(uint64_t seed, uint32_t loop) {
  Random random = random_of(seed, 2, loop);
  LoopPlan plan;
  plan.loop = loop;
  plan.folder = plan_folder(seed, loop / kLoopsPerFolder);
  plan.first_of_folder = loop % kLoopsPerFolder == 0;
  plan.seed = random.next();
  plan.shards = static_cast<uint32_t>(random.between(1, 3));
  // None: only flushes reach the drive. All: nearly everything does, in any order and torn.
  const uint32_t spills[] = {0, 50, 300, 900};
  plan.spill_per_mille = spills[random.below(4)];
  plan.audited = plan.first_of_folder || !random.chance(200);
  plan.load_ms = static_cast<uint32_t>(random.between(5, 400));
  // Only what this life wrote may be evicted soon after a start: one long life fills the targets.
  if (plan.folder.room == Room::kTight && plan.first_of_folder) plan.load_ms = 1500;
  const uint64_t ending = random.below(10);
  plan.ending = ending == 0 ? Ending::kStop : ending <= 2 ? Ending::kKillTwice : Ending::kKill;
  plan.second_kill_us = static_cast<uint32_t>(random.below(120 * 1000));
  return plan;
}

std::vector<std::string> daemon_arguments(const LoopPlan& plan, const std::string& data_dir,
                                          bool mutant) {
  std::vector<std::string> out = {"--data",      data_dir,         "--listen",
                                  "127.0.0.1:0", "--i-am-testing", "--fault-volatile-cache"};
  const auto add = [&out](const char* name, uint64_t value) {
    out.push_back(name);
    out.push_back(std::to_string(value));
  };
  add("--targets", plan.folder.targets);
  add("--target-bytes", plan.folder.target_bytes);
  add("--dram-bytes", kDramBytes);
  add("--shards", plan.shards);
  add("--drain-ms", kDrainMs);
  add("--fault-spill-per-mille", plan.spill_per_mille);
  add("--fault-seed", plan.seed >> 1);
  if (mutant) out.push_back("--fault-ack-before-flush");
  return out;
}

}  // namespace varve::ledger
