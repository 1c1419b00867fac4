// Plan: draws from a generator seeded by (seed, loop) or (seed, folder).
#include "tools/ledger/plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/random.h"

namespace varve::ledger {

namespace {

// The smallest target that a daemon accepts: up to sixteen slices of six segments of 4 MiB.
constexpr uint64_t kTargetBytesTight = 400 * kMiB;
// Its slices stay so empty that no order of sizes and of restarts makes one of them evict.
constexpr uint64_t kTargetBytesRoomy = 1 * kGiB;
constexpr uint32_t kTightEvery = 4;
constexpr uint32_t kTightScale = 3;
// Less than the blocks: audits read the drive. Of three shards each takes the largest one twice.
constexpr uint64_t kDramBytes = 96 * kMiB;

Random random_of(uint64_t seed, uint64_t what, uint64_t number) {
  Random random(seed * 0x9E3779B97F4A7C15ull + what * 1000003 + number);
  random.next();
  return random;
}

// Of the schemes the cheapest of each sort: none, a copy, one parity, two.
constexpr Scheme kDrawn[] = {{1, 0}, {1, 1}, {2, 1}, {4, 2}};

Scheme draw_scheme(Random& random, Room room) {
  // A mebibyte of parity and ten of data do not fill a folder as fast as copies do.
  return kDrawn[random.below(room == Room::kTight ? 2 : std::size(kDrawn))];
}

FolderPlan plan_folder(const LedgerPlan& run, uint32_t number) {
  Random random = random_of(run.seed, 1, number);
  FolderPlan folder;
  folder.number = number;
  const bool tight = number % kTightEvery == kTightEvery - 1 && run.mutant != Mutant::kRepair;
  folder.room = tight ? Room::kTight : Room::kRoomy;
  const Scheme drawn = draw_scheme(random, folder.room);
  folder.scheme = run.scheme.value_or(drawn);
  if (run.mutant == Mutant::kRepair && folder.scheme.m == 0) folder.scheme = {2, 1};
  if (tight) {
    folder.targets = folder.scheme.width();
    folder.target_bytes = kTargetBytesTight;
    folder.scale = kTightScale * folder.scheme.k;
  } else {
    const uint32_t least = std::max(2u, folder.scheme.width());
    folder.targets = static_cast<uint32_t>(random.between(least, least + 1));
    folder.target_bytes = kTargetBytesRoomy;
  }
  return folder;
}

// Every second life of a folder is hurt, each time in another way.
void plan_harm(const LedgerPlan& run, LoopPlan& plan) {
  constexpr uint32_t kKinds = 6;
  Harm order[kKinds] = {Harm::kDestroy, Harm::kBlank, Harm::kBreak,
                        Harm::kRot,     Harm::kAway,  Harm::kSwap};
  Random of_folder = random_of(run.seed, 3, plan.folder.number);
  for (uint32_t i = kKinds - 1; i > 0; --i)
    std::swap(order[i], order[of_folder.below(i + 1)]);
  Random random = random_of(run.seed, 4, plan.loop);
  const uint32_t in_folder = plan.loop % kLoopsPerFolder;
  plan.harm_seed = random.next();
  plan.absent_loops = static_cast<uint32_t>(random.below(3));
  plan.beyond = random.chance(plan.folder.scheme.m == 0 ? 500 : 150);
  plan.heals = random.chance(850);
  const bool hurts = run.mutant == Mutant::kNone || run.mutant == Mutant::kRepair;
  if (in_folder % 2 == 1 && hurts) plan.harm = order[in_folder / 2 % kKinds];
  if (run.mutant != Mutant::kRepair || in_folder == 0) return;
  plan.harm = Harm::kDestroy;
  plan.absent_loops = 0;
  plan.beyond = false;
  plan.heals = plan.audited = true;
}

// The rest of what issue 3 brought, of a random of its own: a seed is otherwise what it was.
void plan_rest(const LedgerPlan& run, LoopPlan& plan) {
  Random random = random_of(run.seed, 5, plan.loop);
  plan.at_purge = random.chance(350);
  const bool spare = plan.folder.targets > plan.folder.scheme.width();
  plan.drains = random.chance(400) && spare && run.mutant == Mutant::kNone;
  if (run.mutant != Mutant::kPurge) return;
  plan.ending = Ending::kKill;
  plan.at_purge = plan.audited = true;
  plan.spill_per_mille = 0;
}

}  // namespace

std::string target_file(const std::string& folder, uint32_t target) {
  return folder + "/target-" + std::to_string(target) + ".dat";
}

const char* harm_name(Harm harm) {
  static constexpr const char* kNames[kHarmCount] = {"none",     "destroyed", "blanked", "broken",
                                                     "rotten",   "away",      "swapped", "returned",
                                                     "replaced", "taken_out"};
  return kNames[static_cast<uint32_t>(harm)];
}

LoopPlan plan_loop(const LedgerPlan& run, uint32_t loop) {
  Random random = random_of(run.seed, 2, loop);
  LoopPlan plan;
  plan.loop = loop;
  plan.folder = plan_folder(run, loop / kLoopsPerFolder);
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
  plan_harm(run, plan);
  plan_rest(run, plan);
  return plan;
}

std::vector<std::string> daemon_arguments(const LoopPlan& plan, const LifeOptions& life) {
  std::vector<std::string> out = {"--data",         life.data_dir,
                                  "--listen",       "127.0.0.1:0",
                                  "--http",         "none",
                                  "--control",      "none",
                                  "--i-am-testing", "--fault-volatile-cache",
                                  "--scheme",       plan.folder.scheme.text()};
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
  if (life.scrub) add("--scrub-interval-s", 1);
  if (life.draining) {
    out.push_back("--drain-target");
    out.push_back(target_file(life.data_dir, *life.draining));
  }
  if (life.create_targets) out.push_back("--create-targets");
  if (life.mutant == Mutant::kFlush) out.push_back("--fault-ack-before-flush");
  if (life.mutant == Mutant::kPurge) out.push_back("--fault-purge-before-flush");
  if (life.mutant == Mutant::kRepair) add("--repair-mb-per-s", 0);
  return out;
}

}  // namespace varve::ledger
