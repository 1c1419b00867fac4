// World: boot, kill, and the order of turns.
#include "tests/sim/world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace varve::sim {

namespace {
constexpr char kAddress[] = "node";
constexpr Nanos kIoNanosMax = 300 * kMillisecond;
}  // namespace

Digest salt_of(uint32_t domain) {
  Digest salt;
  salt.bytes[0] = std::byte{7};
  salt.bytes[1] = static_cast<std::byte>(domain - kDomainDefault);
  return salt;
}

std::string token_of(uint32_t domain) {
  return domain == kDomainDefault ? "" : "of domain " + std::to_string(domain);
}

World::World(uint64_t seed, const NodeOptions& options)
    : seed_(seed),
      options_(options),
      random_(seed * 0x9E3779B97F4A7C15ull + 1),
      entropy_(seed ^ 0x5EED),
      fabric_(std::make_unique<SimFabric>(seed ^ 0xFAB)),
      env_{clock_, entropy_, *fabric_} {
  for (uint32_t t = 0; t < options.targets; ++t) {
    platters_.push_back(std::make_unique<MemoryPlatter>(options.target_bytes));
  }
  absent_.assign(options.targets, false);
  supers_.resize(options.targets);
  witnesses_.resize(options.targets);
  list_.blank = true;
  list_.capacity_bytes = ~uint64_t{0};
  entropy_.fill(node_uuid_);
}

Reactor& World::add_reactor() {
  client_reactors_.push_back(std::make_unique<Reactor>(clock_, nullptr, ReactorOptions{}));
  return *client_reactors_.back();
}

// The same in all lives of the node.
Domains World::domains() const {
  Domains all(salt_of(kDomainDefault), token_of(kDomainDefault));
  for (uint32_t id = kDomainDefault + 1; id < kDomainDefault + options_.domains; ++id) {
    const Status made = all.add("domain-" + std::to_string(id), {salt_of(id), token_of(id)}, 1);
    expect(made.ok() && all.id_last() == id, "a domain is not made");
  }
  return all;
}

void World::boot() {
  VARVE_ASSERT(!alive());
  ++boots_;
  booted_ns_ = now_ns();
  note(boots_);
  if (swapped_.first != swapped_.second) expect_refusal();
  auto life = std::make_unique<Life>();
  const std::vector<flash::TargetInfo> targets = prepare_targets();
  life->faulted = absent_;
  for (uint32_t s = 0; s < options_.shards; ++s) {
    const Status status = boot_shard(*life, s, targets);
    if (!status.ok()) fail(std::string("Shard::open: ") + status.what());
  }
  SessionOptions session;
  Digest fresh;
  entropy_.fill(fresh.bytes);  // not used: a seed stays the run that it was
  session.domains = domains();
  session.boot_id = entropy_.next64();
  session.slices = options_.slices;
  session.scheme = options_.scheme;
  // Small pools: limits are hit, and a life begins at once.
  session.sessions_max = 16;
  session.matches_sum_max = session.reserves_sum_max = 32;
  session.attempts_max = 4;  // below a document: pushes go window by window
  std::vector<Shard*> shards;
  for (const auto& shard : life->shards)
    shards.push_back(shard.get());
  auto table = SessionTable::open(env_, *life->reactors[0], shards, session);
  if (!table) fail(std::string("SessionTable::open: ") + table.error().what());
  life->sessions = std::move(*table);
  if (Status s = life->sessions->listen(kAddress, LinkOptions{}); !s.ok()) {
    fail(std::string("listen: ") + s.what());
  }
  life_ = std::move(life);
  absent_.assign(options_.targets, false);
}

std::unique_ptr<FaultDevice> World::make_device(Reactor& reactor, uint32_t target) {
  MemoryDeviceOptions memory;
  memory.name = "platter-" + std::to_string(target);
  memory.latency_min_ns = options_.device_latency_min_ns;
  memory.latency_max_ns = options_.device_latency_max_ns;
  memory.seed = random_.next();
  FaultPlan plan = options_.faults;
  plan.seed = random_.next();
  return FaultDevice::wrap(reactor, make_memory_device(reactor, *platters_[target], memory), plan);
}

Status World::boot_shard(Life& life, uint32_t shard,
                         const std::vector<flash::TargetInfo>& targets) {
  ReactorOptions reactor_options;
  reactor_options.shard = shard;
  life.reactors.push_back(std::make_unique<Reactor>(clock_, nullptr, reactor_options));
  Reactor& reactor = *life.reactors.back();
  std::vector<std::unique_ptr<BlockDevice>> devices;
  for (uint32_t t = 0; t < options_.targets; ++t) {
    if (absent_[t]) {
      devices.push_back(make_failed_device(reactor, "platter-" + std::to_string(t),
                                           options_.target_bytes,
                                           Status::unavailable("it is away")));
      life.devices.push_back(nullptr);
      continue;
    }
    auto device = make_device(reactor, t);
    life.devices.push_back(device.get());
    devices.push_back(std::move(device));
  }
  // Page-aligned memory out of a plain vector.
  const uint64_t arena_bytes = options_.arena_bytes + options_.repair_bytes;
  life.arenas.emplace_back(arena_bytes + kPageBytes);
  auto* base = life.arenas.back().data();
  const auto skew = reinterpret_cast<uintptr_t>(base) % kPageBytes;
  const ByteSpan arena(base + (skew == 0 ? 0 : kPageBytes - skew), arena_bytes);
  ShardOptions options;
  options.shard = shard;
  options.shards = options_.shards;
  options.blocks_max = options_.blocks_max;
  options.scheme = options_.scheme;
  const uint64_t bytes = options_.arena_bytes;
  options.tier.limit_bytes[static_cast<int>(Budget::kPush)] = bytes / 8 * 3;
  options.tier.limit_bytes[static_cast<int>(Budget::kPull)] = bytes / 8 * 2;
  options.tier.limit_bytes[static_cast<int>(Budget::kResident)] = bytes / 8 * 3;
  options.tier.limit_bytes[static_cast<int>(Budget::kRepair)] = options_.repair_bytes;
  options.tier.blocks_max = 512;
  options.flash.shard = shard;
  options.flash.shards = options_.shards;
  options.flash.checkpoint_interval_ns = 2 * kSecond;
  options.flash.ack_before_flush_mutant = options_.ack_before_flush_mutant;
  // A target that is stuck has failed (L6) within the life in which it happened.
  if (options_.target_faults) options.flash.io_ns_max = kIoNanosMax;
  options.pull_window_bytes = 256 * kKiB;
  options.lease_ms_max = static_cast<uint32_t>(kLeaseMax / kMillisecond);
  options.sibling_ms_max = options_.sibling_ms_max;
  options.domains = domain_ids();
  options.draining_targets = draining_;
  options.drained_targets = drained_;
  options.pushes_max = 64;
  options.pulls_max = 32;
  VARVE_TRY(auto opened, Shard::open(env_, reactor, arena, targets, std::move(devices), options));
  opened->start();
  life.shards.push_back(std::move(opened));
  return Status();
}

// What a power cut leaves: platters, and whatever the volatile caches kept. The objects are
// abandoned.
void World::kill() {
  VARVE_ASSERT(alive());
  note(0xDEAD);
  see_missed();
  crash_devices();
  abandon(random_.chance(800) ? SimFabric::Death::kReset : SimFabric::Death::kSilent);
}

void World::crash_devices() {
  for (FaultDevice* device : life_->devices) {
    if (device != nullptr) device->crash();
  }
}

void World::abandon(SimFabric::Death death) {
  for (const auto& reactor : life_->reactors)
    fabric_->kill(*reactor, death);
  static_cast<void>(life_.release());
}

void World::drain() {
  VARVE_ASSERT(alive());
  life_->sessions->drain();
  for (const auto& shard : life_->shards)
    shard->drain();
}

void World::close_sessions() {
  VARVE_ASSERT(alive());
  life_->sessions->close_all(Status::unavailable("the daemon stops"));
}

bool World::drained() const {
  for (const auto& shard : life_->shards) {
    if (!shard->drained()) return false;
  }
  return true;
}

void World::stop_drained() {
  VARVE_ASSERT(alive() && drained());
  note(0x5709);
  see_missed();
  crash_devices();  // after a drain nothing is volatile
  abandon(SimFabric::Death::kReset);
}

bool World::step(Nanos until_ns) {
  Nanos earliest = kNever;
  std::vector<Reactor*> ready;
  const auto consider = [&](Reactor& reactor) {
    const Nanos at = std::max(reactor.next_work_ns(), now_ns());
    if (reactor.next_work_ns() == kNever || at > earliest) return;
    if (at < earliest) ready.clear();
    earliest = at;
    ready.push_back(&reactor);
  };
  for (const auto& reactor : client_reactors_)
    consider(*reactor);
  if (alive()) {
    for (const auto& reactor : life_->reactors)
      consider(*reactor);
  }
  if (earliest == kNever || earliest > until_ns) return false;
  clock_.advance_to(earliest);
  ready[random_.below(ready.size())]->turn();
  clock_.advance_by(random_.below(200));  // work takes time
  return true;
}

void World::run_for(Nanos duration_ns) {
  const Nanos until = now_ns() + duration_ns;
  while (step(until)) {
  }
  if (now_ns() < until) clock_.advance_to(until);
}

void World::fail(const std::string& what) const {
  std::fprintf(stderr, "FAIL seed %llu at %llu ns: %s\nrepeat: tools/dev sim --seed %llu --trace\n",
               static_cast<unsigned long long>(seed_), static_cast<unsigned long long>(now_ns()),
               what.c_str(), static_cast<unsigned long long>(seed_));
  std::fflush(stderr);
  std::_Exit(1);
}

void World::check_limits() const {
  if (!alive()) return;
  for (const auto& shard : life_->shards) {
    const DramTier& tier = shard->tier();
    uint64_t sum = 0;
    for (uint32_t b = 0; b < kBudgets; ++b) {
      const auto budget = static_cast<Budget>(b);
      expect(tier.used_bytes(budget) <= tier.limit_bytes(budget),
             std::string("I7 budget over its limit: ") + budget_name(budget));
      sum += tier.used_bytes(budget);
    }
    expect(sum <= options_.arena_bytes + options_.repair_bytes, "I7 the budgets exceed the arena");
    expect(shard->index().block_count() <= options_.blocks_max, "I7 index over its limit");
    for (uint32_t t = 0; t < options_.targets; ++t) {
      const auto usage = shard->flash().usage(t);
      expect(usage.live_pages + usage.reserved_pages <= usage.capacity_pages,
             "I7 flash holds and promises more than it has");
    }
  }
}

void World::check_at_rest() const {
  if (!alive()) return;
  expect(life_->sessions->at_rest(), "I6 a session, lane or request is left");
  check_use(Rest::kYes);
  for (const auto& shard : life_->shards) {
    expect(shard->at_rest(), "I6 a shard holds an op, lease, grant or pin");
    expect(shard->tier().at_rest(), "I6 DRAM is pinned, dirty or reading");
  }
}

bool World::recovering() const {
  if (!alive()) return true;
  for (const auto& shard : life_->shards) {
    if (shard->recovering()) return true;
  }
  return false;
}

int64_t World::metric(const std::string& name, const std::string& labels) const {
  int64_t sum = 0;
  if (!alive()) return 0;
  for (const auto& shard : life_->shards)
    sum += shard->metrics().number(name, labels);
  return sum;
}

int64_t World::metric_sum(const std::string& name) const {
  int64_t sum = 0;
  if (!alive()) return 0;
  for (const auto& shard : life_->shards) {
    for (const auto& value : shard->metrics().values) {
      if (value.name.name == name) sum += value.number;
    }
  }
  return sum;
}

uint64_t World::evicted() const {
  int64_t sum = 0;
  if (!alive()) return 0;
  for (const auto& shard : life_->shards) {
    const MetricSnapshot metrics = shard->metrics();
    sum += metrics.number("varve_evicted_blocks_total");
    sum += metrics.number("varve_reclaim_fragments_total", "verdict=\"dropped\"");
  }
  return static_cast<uint64_t>(sum);
}

void World::fault(uint32_t target, TargetFault fault) {
  VARVE_ASSERT(alive());
  VARVE_ASSERT(target < options_.targets, target);
  VARVE_ASSERT(fault != TargetFault::kBadSector);
  note(0xFA0 + static_cast<uint64_t>(fault) * 8 + target);
  life_->faulted[target] = true;
  for (uint32_t s = 0; s < options_.shards; ++s) {
    FaultDevice* device = life_->devices[s * options_.targets + target];
    if (device == nullptr) continue;
    switch (fault) {
      case TargetFault::kStuck:
      case TargetFault::kStuckForAWhile:
        device->stuck_set(true);
        break;
      case TargetFault::kVanished:
        device->vanish();
        break;
      case TargetFault::kFull:
        device->full_set(true);
        break;
      case TargetFault::kBadSector:
        break;
    }
  }
}

void World::unstick(uint32_t target) {
  if (!alive()) return;
  for (uint32_t s = 0; s < options_.shards; ++s) {
    FaultDevice* device = life_->devices[s * options_.targets + target];
    if (device != nullptr) device->stuck_set(false);
  }
}

void World::bad_sector(const Sighting& fragment) {
  VARVE_ASSERT(alive());
  const uint64_t page = pick_page(fragment);
  note(page);
  const uint32_t home = Shard::home(fragment.block.base, options_.slices, options_.shards);
  FaultDevice* device = life_->devices[home * options_.targets + fragment.place.target];
  VARVE_ASSERT(device != nullptr, fragment.place.target);  // nothing lies on one that is away
  device->sector_error_set(bytes_of(page), kPageBytes);
}

void World::rot(const Sighting& fragment) {
  VARVE_ASSERT(!alive());
  const uint64_t page = pick_page(fragment);
  note(page);
  const ByteSpan bytes = platters_[fragment.place.target]->bytes();
  bytes[bytes_of(page) + random_.below(kPageBytes)] ^= std::byte{1} << random_.below(8);
}

void World::start_fault(uint32_t target, StartFault fault) {
  VARVE_ASSERT(!alive());
  VARVE_ASSERT(target < options_.targets, target);
  note(0xFB0 + static_cast<uint64_t>(fault) * 8 + target);
  const ByteSpan bytes = platters_[target]->bytes();
  switch (fault) {
    case StartFault::kAbsent:
      absent_[target] = true;
      break;
    case StartFault::kBlanked:
      platters_[target] = std::make_unique<MemoryPlatter>(options_.target_bytes);
      break;
    case StartFault::kWiped:
      std::fill_n(bytes.begin(), bytes_of(flash::kHeadPages), std::byte{0});
      break;
    case StartFault::kRotted:
    case StartFault::kSwapped:
      VARVE_ASSERT(false);
  }
}

bool World::is_empty(uint32_t target) const {
  if (recovering() || faulted(target) || is_needed(target)) return false;
  for (const auto& shard : life_->shards) {
    if (!shard->flash().target_ok(target) || shard->index().fragments_on(target) > 0) return false;
  }
  if ((life_->drained_late >> target & 1) == 0) return true;
  // Pushes of before it began may still come (server/node/drained.cc).
  const std::string label = "target=\"" + std::to_string(target) + "\"";
  const auto records = static_cast<uint64_t>(metric("varve_flash_kills_live", label));
  return metric("varve_target_reserved_bytes", label) == 0 &&
         metric("varve_target_live_bytes", label) == static_cast<int64_t>(bytes_of(records));
}

bool World::can_drain() const {
  return alive() && life_->shards.front()->can_drain();
}

void World::drain_now(uint32_t target) {
  VARVE_ASSERT(can_drain() && target < options_.targets, target);
  note(0xD2A1 + target);
  draining_ |= 1u << target;
  life_->drained_late |= 1u << target;
  for (const auto& shard : life_->shards)
    shard->draining_set(target, Draining::kOn);
}

void World::undrain_now(uint32_t target) {
  VARVE_ASSERT(alive() && (draining_ >> target & 1) != 0, target);
  note(0xD2B1 + target);
  draining_ &= ~(1u << target);
  life_->drained_late &= ~(1u << target);
  for (const auto& shard : life_->shards)
    shard->draining_set(target, Draining::kOff);
}

void World::give_up(uint32_t target) {
  VARVE_ASSERT(alive() && target < options_.targets, target);
  note(0xD2C1 + target);
  life_->faulted[target] = true;
  for (const auto& shard : life_->shards)
    shard->flash().fail_target(target, Status::unavailable("the world says so"));
}

void World::scrub_now(uint32_t target) {
  VARVE_ASSERT(alive() && target < options_.targets, target);
  for (const auto& shard : life_->shards)
    note(shard->flash().scrub_start(target) ? 1 : 0);
}

// Its answer is not compared with anything: what it must not do is change one.
void World::look(const BlockId& block) const {
  VARVE_ASSERT(alive());
  const BaseId& id = block.base;
  const uint32_t home = Shard::home(id, options_.slices, options_.shards);
  const Shard& shard = *life_->shards[home];
  wire::TierKind tier = wire::TierKind::kNone;
  shard.look_tiers(block.domain, {&id, 1}, 1, {&tier, 1});
  const BaseLook look = shard.look(block.domain, id);
  bool seen = false;
  for (const BlockLook& one : look.blocks)
    seen = seen || (one.rank == 0 && one.state != BlockState::kAway);
  expect(tier == wire::TierKind::kNone || seen, "a look finds a tier and no block");
}

bool World::any_fault() const {
  if (!alive()) return false;
  return life_->replaced ||
         std::find(life_->faulted.begin(), life_->faulted.end(), true) != life_->faulted.end();
}

std::vector<Sighting> World::sightings() const {
  VARVE_ASSERT(alive());
  struct Scan {
    const Index* index;
    std::vector<Sighting> found;
  } scan{nullptr, {}};
  const auto visit = [](void* context, const BlockId& block, const Located& located) {
    auto& s = *static_cast<Scan*>(context);
    for (uint32_t p = 0; p < kWidthMax; ++p) {
      if (!located.has(p)) continue;
      s.found.push_back({block, p, s.index->place_of(located, p),
                         located.state == BlockState::kFlash, located.state == BlockState::kAway});
    }
  };
  for (const auto& shard : life_->shards) {
    scan.index = &shard->index();
    uint32_t cursor = 0;
    do {
      cursor = shard->index().scan(cursor, 1024, visit, &scan);
    } while (cursor != 0);
  }
  return std::move(scan.found);
}

bool World::is_published(const BlockId& block) const {
  if (!alive()) return false;
  const uint32_t home = Shard::home(block.base, options_.slices, options_.shards);
  return life_->shards[home]->index().find(block).has_value();
}

bool World::is_on_flash(const BlockId& block) const {
  if (!alive()) return false;
  const uint32_t home = Shard::home(block.base, options_.slices, options_.shards);
  const std::optional<Located> located = life_->shards[home]->index().find(block);
  return located && located->state == BlockState::kFlash;
}

uint32_t World::thin_count() const {
  uint32_t sum = 0;
  for (const auto& shard : life_->shards)
    sum += shard->index().thin_count();
  return sum;
}

void World::scrub() {
  for (const auto& shard : life_->shards)
    shard->flash().scrub_now();
}

uint64_t World::page_of(const flash::Place& place) const {
  const flash::Superblock& super = supers_[place.target];  // docs/FORMAT.md 6
  const uint64_t slice_pages =
      2ull * super.checkpoint_pages + uint64_t{super.segments_per_slice} * super.segment_pages;
  return flash::kHeadPages + place.slice * slice_pages + 2ull * super.checkpoint_pages +
         uint64_t{place.segment} * super.segment_pages + place.page;
}

std::optional<flash::FragmentHeader> World::header_at(const flash::Place& place) const {
  const ConstByteSpan bytes = platters_[place.target]->bytes();
  const uint64_t page = page_of(place);
  const auto segment = load<flash::SegmentHeader>(bytes, bytes_of(page - place.page));
  auto header = load<flash::FragmentHeader>(bytes, bytes_of(page));
  const bool ours = segment.magic == flash::kSegmentMagic &&
                    header.magic == flash::kFragmentMagic &&
                    header.segment_sequence == segment.sequence &&
                    header.segment_page == place.page && header.pages == place.pages;
  if (!ours || header.extent_count > kExtentsMax) return std::nullopt;
  const uint32_t crc = std::exchange(header.crc, 0);
  const uint64_t table_bytes = uint64_t{header.extent_count} * sizeof(ExtentEntry);
  uint32_t is = crc32c(crc32c(0, bytes_view(segment.nonce)), bytes_view(header));
  is = crc32c(is, bytes.subspan(bytes_of(page) + sizeof(header), table_bytes));
  if (is != crc) return std::nullopt;
  header.crc = crc;
  return header;
}

bool World::verifies(const Sighting& fragment) const {
  const std::optional<flash::FragmentHeader> header = header_at(fragment.place);
  if (!header || BlockId{header->base, header->rank, header->domain} != fragment.block ||
      header->position != fragment.position) {
    return false;
  }
  const ConstByteSpan bytes = ConstByteSpan(platters_[fragment.place.target]->bytes())
                                  .subspan(bytes_of(page_of(fragment.place)));
  const Scheme scheme = options_.scheme;
  for (uint32_t e = 0; e < header->extent_count; ++e) {  // docs/FORMAT.md 4.3, 7.2
    const uint32_t data = header->data_extent_count;
    const uint32_t position = e < data ? position_of(e, header->rank, header->base, scheme.k)
                                       : scheme.k + (e - data) % scheme.m;
    if (position != fragment.position) continue;
    const auto entry = load<ExtentEntry>(bytes, sizeof(*header) + e * sizeof(ExtentEntry));
    if (entry.page_offset >= fragment.place.pages ||
        entry.stored_bytes > bytes_of(fragment.place.pages - entry.page_offset)) {
      return false;
    }
    const uint32_t seed = checksum_seed(fragment.block, e, header->attempt).stored;
    if (crc32c(seed, bytes.subspan(bytes_of(entry.page_offset), entry.stored_bytes)) !=
        entry.stored_crc) {
      return false;
    }
  }
  return true;
}

}  // namespace varve::sim
