// World: how a start goes through the targets, as the node does it, and what is written down of
// them.
#include "tests/sim/world.h"

#include <algorithm>
#include <utility>

namespace varve::sim {

flash::DomainIds World::domain_ids() const {
  const Domains all = domains();
  flash::DomainIds ids{.ids = {}, .last = all.id_last()};
  for (const Domain& domain : all.all()) {
    ids.ids.push_back(domain.id);
    ids.starts.push_back(domain.boot_generation);
  }
  return ids;
}

flash::TargetOptions World::target_options(uint32_t target) const {
  flash::TargetOptions options;
  options.file.path = "platter-" + std::to_string(target);
  options.index = target;
  options.geometry.slices = options_.slices;
  options.geometry.segment_pages = 256;
  options.geometry.scheme = options_.scheme;
  options.domains = domain_ids();
  return options;
}

// As the node does it: all are looked at, the start is agreed on, then each is prepared; one that
// is away keeps its place.
std::vector<flash::TargetInfo> World::prepare_targets() {
  std::vector<flash::TargetLook> looks = look_at_all();
  const bool stale = !flash::stale_ones(looks).empty();
  expect(stale || !only_stale_, "I10 a start without any target that knows of all is not refused");
  if (stale) bring_back(&looks);
  only_stale_ = false;
  looks.push_back(list_);
  const auto common = flash::common_start(looks, options_.shards, domain_ids());
  if (!common) fail(std::string("common_start: ") + common.error().what());
  expect(common->boot_generation > list_.boot_generation, "a start counts as one before");
  list_.blank = false;
  list_.boot_generation = generation_ = common->boot_generation;
  list_.slices = options_.slices;  // tiny targets would be given fewer
  list_.generations = common->generations;
  for (uint32_t t = 0; t < options_.targets; ++t) {
    flash::Witness& witness = witnesses_[t];
    const bool misses = absent_[t] && (drained_ >> t & 1) == 0;
    if (misses) flash::begin_to_miss(witness, common->boot_generation);
    if (absent_[t]) continue;
    flash::TargetOptions options = target_options(t);
    options.boot_generation = common->boot_generation;
    options.generations = common->generations;
    auto info = flash::prepare_platter(*platters_[t], options, node_uuid_, entropy_);
    if (!info) fail(std::string("prepare_platter: ") + info.error().what());
    supers_[t] = info->super;
    if (info->formatted_now) witness = {.from = common->boot_generation};
    replaced_any_ = replaced_any_ || (info->formatted_now && common->boot_generation > 1);
  }
  std::vector<flash::TargetInfo> targets;
  for (uint32_t t = 0; t < options_.targets; ++t) {
    flash::TargetInfo info;
    info.path = target_options(t).file.path;
    info.super = supers_[t];
    targets.push_back(std::move(info));
  }
  return targets;
}

bool World::can_replace(uint32_t target) const {
  if (!alive() || !life_->faulted[target]) return false;
  for (const auto& shard : life_->shards) {
    if (!shard->replaceable(target).ok()) return false;
  }
  return true;
}

// As the node does it (server/node/replace.cc), but that no core is late and nothing ends between
// two steps.
void World::replace_now(uint32_t target) {
  VARVE_ASSERT(can_replace(target), target);
  note(0x2E91 + target);
  const std::unique_ptr<MemoryPlatter> old =
      std::exchange(platters_[target], std::make_unique<MemoryPlatter>(options_.target_bytes));
  if (random_.chance(300)) {  // a stranger's
    const ByteSpan bytes = platters_[target]->bytes();
    std::copy(old->bytes().begin() + bytes_of(flash::kHeadPages), old->bytes().end(),
              bytes.begin() + bytes_of(flash::kHeadPages));
  }
  flash::TargetOptions options = target_options(target);
  options.boot_generation = generation_;
  options.generations = life_->shards.front()->flash().generations();
  const auto info = flash::prepare_platter(*platters_[target], options, node_uuid_, entropy_);
  if (!info) fail(std::string("prepare_platter: ") + info.error().what());
  expect(info->formatted_now, "a blank drive is adopted");
  supers_[target] = info->super;
  witnesses_[target] = {.from = generation_ + 1, .missed = {{generation_, 0}}};
  list_.boot_generation = std::max(list_.boot_generation, generation_ + 1);
  replaced_any_ = true;
  for (uint32_t s = 0; s < options_.shards; ++s) {
    auto device = make_device(*life_->reactors[s], target);
    FaultDevice* const made = device.get();
    const Status status = life_->shards[s]->replace(*info, std::move(device));
    expect(status.ok(), std::string("a target is not replaced: ") + status.what());
    life_->devices[s * options_.targets + target] = made;
  }
  life_->faulted[target] = false;
  life_->replaced = true;
  life_->drained_late &= ~(1u << target);
  drain_targets(draining_ & ~(1u << target), drained_ & ~(1u << target));
}

std::vector<flash::TargetLook> World::look_at_all() const {
  std::vector<flash::TargetLook> looks;
  for (uint32_t t = 0; t < options_.targets; ++t) {
    if (absent_[t]) continue;
    auto look = flash::look_platter(*platters_[t], target_options(t), node_uuid_);
    if (!look) fail(std::string("look_platter: ") + look.error().what());
    look->witness = witnesses_[t];
    looks.push_back(*look);
  }
  return looks;
}

// The node refuses to start: the operator gives it all that there is. What no target saw that is
// left, nobody can know, and the operator says so.
void World::bring_back(std::vector<flash::TargetLook>* looks) {
  note(0x57A1E);
  ++refused_starts_;
  for (uint32_t t = 0; t < options_.targets; ++t)
    absent_[t] = absent_[t] && (drained_ >> t & 1) != 0;
  *looks = look_at_all();
  for (const flash::TargetLook& look : *looks)
    replaced_any_ = replaced_any_ || (look.blank && list_.boot_generation > 0);
  for (const flash::Stale& stale : flash::stale_ones(*looks)) {
    expect(replaced_any_, "I10 all targets are there, none was replaced, and one is called stale");
    for (flash::TargetLook& look : *looks) {
      if (look.index == stale.target) look.witness.missed.clear();
    }
    witnesses_[stale.target].missed.clear();
  }
}

void World::only_stale() {
  VARVE_ASSERT(!alive());
  const std::vector<bool> before = absent_;
  for (uint32_t t = 0; t < options_.targets; ++t)
    absent_[t] = absent_[t] || witnesses_[t].missed.empty() || witnesses_[t].missed.back().end != 0;
  for (const flash::TargetLook& look : look_at_all())
    only_stale_ = only_stale_ || !look.blank;
  if (!only_stale_) absent_ = before;
}

// What the node writes down each second (server/node/missed.cc); here the last one is never cut
// off.
void World::see_missed() {
  std::vector<flash::WitnessNow> all;
  const uint32_t works = works_all();
  for (uint32_t t = 0; t < options_.targets; ++t) {
    flash::WitnessNow now{.witness = witnesses_[t], .works = (works >> t & 1) != 0};
    for (const auto& shard : life_->shards)
      now.kept = std::max(now.kept, shard->flash().usage(t).kills_missed);
    now.drained = (drained_ >> t & 1) != 0;
    all.push_back(now);
  }
  flash::witness_now(all, generation_, recovering());
  for (uint32_t t = 0; t < options_.targets; ++t)
    witnesses_[t] = all[t].witness;
}

// Only it knows of a purge that another missed (server/node/drained.cc).
bool World::is_needed(uint32_t target) const {
  std::vector<flash::TargetLook> others;
  for (uint32_t t = 0; t < options_.targets; ++t) {
    if (t == target || (drained_ >> t & 1) != 0) continue;
    others.push_back({.index = t, .witness = witnesses_[t]});
  }
  return !flash::stale_ones(others).empty();
}

uint32_t World::present() const {
  VARVE_ASSERT(alive());
  uint32_t targets = 0;
  for (uint32_t t = 0; t < options_.targets; ++t)
    targets |= life_->devices[t] != nullptr ? 1u << t : 0;
  return targets;
}

uint32_t World::present_old() const {
  uint32_t targets = present();
  for (uint32_t t = 0; t < options_.targets; ++t)
    targets &= witnesses_[t].from == generation_ ? ~(1u << t) : ~0u;
  return targets;
}

uint32_t World::works_all() const {
  VARVE_ASSERT(alive());
  uint32_t targets = present();
  for (uint32_t t = 0; t < options_.targets; ++t) {
    for (const auto& shard : life_->shards) {
      if (!shard->flash().target_ok(t)) targets &= ~(1u << t);
    }
  }
  return targets;
}

// Two targets in each other's place are refused by name and left as they are; the operator then
// restores the order.
void World::expect_refusal() {
  const auto [one, other] = std::exchange(swapped_, {0, 0});
  for (const auto& [place, content] : {std::pair{one, other}, std::pair{other, one}}) {
    MemoryPlatter& platter = *platters_[content];
    const uint32_t before = crc32c(0, platter.bytes().first(bytes_of(flash::kHeadPages)));
    const flash::TargetOptions options = target_options(place);
    const auto look = flash::look_platter(platter, options, node_uuid_);
    const auto info = flash::prepare_platter(platter, options, node_uuid_, entropy_);
    expect(!look && !info, "I12 a target was taken in the place of another");
    expect(look.error().code() == Code::kInvalid, "I12 a swapped target is not refused by name");
    const uint32_t after = crc32c(0, platter.bytes().first(bytes_of(flash::kHeadPages)));
    expect(before == after, "I12 a refused target was written to");
  }
}

}  // namespace varve::sim
