// World: boot, kill, and the order of turns.
#include "tests/sim/world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace varve::sim {

namespace {
constexpr char kAddress[] = "node";
constexpr Nanos kIoNanosMax = 300 * kMillisecond;
}  // namespace

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
  entropy_.fill(node_uuid_);
}

Reactor& World::add_reactor() {
  client_reactors_.push_back(std::make_unique<Reactor>(clock_, nullptr, ReactorOptions{}));
  return *client_reactors_.back();
}

void World::boot() {
  VARVE_ASSERT(!alive());
  ++boots_;
  note(boots_);
  auto life = std::make_unique<Life>();
  life->faulted.assign(options_.targets, false);
  std::vector<flash::TargetInfo> targets;
  for (uint32_t t = 0; t < options_.targets; ++t) {
    flash::TargetOptions options;
    options.file.path = "platter-" + std::to_string(t);
    options.index = t;
    options.geometry.slices = options_.slices;
    options.geometry.segment_pages = 256;
    auto info = flash::prepare_platter(*platters_[t], options, node_uuid_, entropy_);
    if (!info) fail(std::string("prepare_platter: ") + info.error().what());
    targets.push_back(std::move(*info));
  }
  for (uint32_t s = 0; s < options_.shards; ++s) {
    const Status status = boot_shard(*life, s, targets);
    if (!status.ok()) fail(std::string("Shard::open: ") + status.what());
  }
  SessionOptions session;
  entropy_.fill(session.domain_salt.bytes);
  session.domain_salt = Digest();  // one salt for all lives of the domain
  session.domain_salt.bytes[0] = std::byte{7};
  session.boot_id = entropy_.next64();
  session.slices = options_.slices;
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
}

Status World::boot_shard(Life& life, uint32_t shard,
                         const std::vector<flash::TargetInfo>& targets) {
  ReactorOptions reactor_options;
  reactor_options.shard = shard;
  life.reactors.push_back(std::make_unique<Reactor>(clock_, nullptr, reactor_options));
  Reactor& reactor = *life.reactors.back();
  std::vector<std::unique_ptr<BlockDevice>> devices;
  for (uint32_t t = 0; t < options_.targets; ++t) {
    MemoryDeviceOptions memory;
    memory.name = "platter-" + std::to_string(t);
    memory.latency_min_ns = options_.device_latency_min_ns;
    memory.latency_max_ns = options_.device_latency_max_ns;
    memory.seed = random_.next();
    FaultPlan plan = options_.faults;
    plan.seed = random_.next();
    auto device =
        FaultDevice::wrap(reactor, make_memory_device(reactor, *platters_[t], memory), plan);
    life.devices.push_back(device.get());
    devices.push_back(std::move(device));
  }
  // Page-aligned memory out of a plain vector.
  life.arenas.emplace_back(options_.arena_bytes + kPageBytes);
  auto* base = life.arenas.back().data();
  const auto skew = reinterpret_cast<uintptr_t>(base) % kPageBytes;
  const ByteSpan arena(base + (skew == 0 ? 0 : kPageBytes - skew), options_.arena_bytes);
  ShardOptions options;
  options.shard = shard;
  options.shards = options_.shards;
  options.blocks_max = options_.blocks_max;
  const uint64_t bytes = options_.arena_bytes;
  options.tier.limit_bytes[static_cast<int>(Budget::kPush)] = bytes / 8 * 3;
  options.tier.limit_bytes[static_cast<int>(Budget::kPull)] = bytes / 8 * 2;
  options.tier.limit_bytes[static_cast<int>(Budget::kResident)] = bytes / 8 * 3;
  options.tier.blocks_max = 512;
  options.flash.shard = shard;
  options.flash.shards = options_.shards;
  options.flash.checkpoint_interval_ns = 2 * kSecond;
  options.flash.ack_before_flush_mutant = options_.ack_before_flush_mutant;
  // A target that is stuck has failed (L6) within the life in which it happened.
  if (options_.target_faults) options.flash.io_ns_max = kIoNanosMax;
  options.pull_window_bytes = 256 * kKiB;
  options.lease_ms_max = 2000;
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
  for (FaultDevice* device : life_->devices)
    device->crash();
  abandon(random_.chance(800) ? SimFabric::Death::kReset : SimFabric::Death::kSilent);
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
  for (FaultDevice* device : life_->devices)
    device->crash();  // after a drain nothing is volatile
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
    expect(sum <= options_.arena_bytes, "I7 the budgets exceed the arena");
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
  for (const auto& shard : life_->shards) {
    expect(shard->at_rest(), "I6 a shard holds an op, lease, grant or pin");
    expect(shard->tier().at_rest(), "I6 DRAM is pinned, dirty or reading");
  }
}

bool World::recovering() const {
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

void World::fault(uint32_t target, TargetFault fault, std::vector<BlockId>* hit) {
  VARVE_ASSERT(alive());
  VARVE_ASSERT(target < options_.targets, target);
  note(0xFA0 + static_cast<uint64_t>(fault) * 8 + target);
  if (fault == TargetFault::kBadSector) return bad_sector(target, hit);
  life_->faulted[target] = true;
  for (uint32_t s = 0; s < options_.shards; ++s) {
    FaultDevice& device = *life_->devices[s * options_.targets + target];
    switch (fault) {
      case TargetFault::kStuck:
      case TargetFault::kStuckForAWhile:
        device.stuck_set(true);
        break;
      case TargetFault::kVanished:
        device.vanish();
        break;
      case TargetFault::kFull:
        device.full_set(true);
        break;
      case TargetFault::kBadSector:
        break;
    }
  }
}

void World::unstick(uint32_t target) {
  if (!alive()) return;
  for (uint32_t s = 0; s < options_.shards; ++s) {
    life_->devices[s * options_.targets + target]->stuck_set(false);
  }
}

// A page of the first block found there, for the shard that reads it.
void World::bad_sector(uint32_t target, std::vector<BlockId>* hit) {
  struct Wanted {
    const Index* index;
    uint32_t target;
    std::optional<std::pair<BlockId, flash::Place>> found;
  } wanted{nullptr, target, {}};
  for (uint32_t s = 0; s < options_.shards && !wanted.found; ++s) {
    const auto visit = [](void* context, const BlockId& block, const Located& located) {
      auto& w = *static_cast<Wanted*>(context);
      if (w.found || located.state != BlockState::kFlash) return;
      for (uint32_t p = 0; p < kWidthMax && !w.found; ++p) {
        if (!located.has(p)) continue;
        const flash::Place place = w.index->place_of(located, p);
        if (place.target == w.target) w.found = {block, place};
      }
    };
    wanted.index = &life_->shards[s]->index();
    uint32_t cursor = 0;
    do {
      cursor = life_->shards[s]->index().scan(cursor, 1024, visit, &wanted);
    } while (cursor != 0);
    if (!wanted.found) continue;
    const auto& [block, place] = *wanted.found;
    const std::optional<uint64_t> header = header_page(target, block);
    if (!header) return;
    const uint64_t page = *header + random_.below(place.pages);
    life_->devices[s * options_.targets + target]->sector_error_set(bytes_of(page), kPageBytes);
    hit->push_back(block);
  }
}

// Where its fragment begins on the platter, by its header; the newest or an older one of it.
std::optional<uint64_t> World::header_page(uint32_t target, const BlockId& block) const {
  const ConstByteSpan bytes = platters_[target]->bytes();
  for (uint64_t page = 0; page < bytes.size() / kPageBytes; ++page) {
    const auto header = load<flash::FragmentHeader>(bytes, bytes_of(page));
    if (header.base == block.base && header.rank == block.rank && header.extent_count > 0) {
      return page;
    }
  }
  return std::nullopt;
}

bool World::any_fault() const {
  return alive() &&
         std::find(life_->faulted.begin(), life_->faulted.end(), true) != life_->faulted.end();
}

std::optional<uint32_t> World::target_of(const BlockId& block) const {
  if (!alive()) return std::nullopt;
  const uint32_t home = Shard::home(block.base, options_.slices, options_.shards);
  const Index& index = life_->shards[home]->index();
  const auto located = index.find(block);
  if (!located || located->state != BlockState::kFlash || !located->has(0)) return std::nullopt;
  return index.place_of(*located, 0).target;
}

}  // namespace varve::sim
