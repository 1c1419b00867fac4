// See the header. Nothing here is random but what follows from the rig's seed.
#include "tests/server/flash/flash_rig.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "server/flash/segment.h"

namespace varve::flash {

BlockId test_block(uint64_t seed) {
  BlockId block;
  Random random(seed * 7919 + 17);
  for (size_t i = 0; i < 4; ++i)
    store(block.base.bytes, i * 8, random.next());
  return block;
}

TestFragment::TestFragment(uint64_t seed, uint32_t extents, uint32_t extent_bytes,
                           const Attempt& of_attempt)
    : block(test_block(seed)), attempt(of_attempt) {
  fingerprint.bytes.fill(std::byte{0x5a});
  header_pages = header_pages_of(extents);
  table.resize(extents);
  Random sizes(seed ^ 0xABCDEF);
  for (ExtentEntry& entry : table) {
    entry.stored_bytes = extent_bytes - static_cast<uint32_t>(sizes.below(extent_bytes / 4 + 1));
    entry.decoded_bytes = entry.stored_bytes;
  }
  pages = header_pages;
  for (const ExtentEntry& entry : table)
    pages += pages_of(entry.stored_bytes);
  memory = std::make_unique<PageMemory>(pages);
  uint32_t page = header_pages;
  Random bytes(seed * 31 + attempt.counter);
  for (uint32_t i = 0; i < extents; ++i) {
    ExtentEntry& entry = table[i];
    entry.page_offset = page;
    std::byte* at = memory->page(page);
    for (uint32_t b = 0; b + 8 <= entry.stored_bytes; b += 8) {
      const uint64_t word = bytes.next();
      std::memcpy(at + b, &word, 8);
    }
    ExtentDigest digest(checksum_seed(block, i, attempt));
    digest.update({at, entry.stored_bytes});
    entry.stored_crc = digest.stored_crc();
    entry.decoded_xxh3 = digest.decoded_xxh3();
    page += pages_of(entry.stored_bytes);
  }
  FragmentHeader header;
  header.extent_count = header.data_extent_count = extents;
  header.base = block.base;
  header.rank = block.rank;
  header.rank_count = 1;
  header.fingerprint = fingerprint;
  header.attempt = attempt;
  header.epoch = 1;
  for (const ExtentEntry& entry : table)
    header.block_bytes_low += entry.stored_bytes;
  store(memory->span(0, 1), 0, header);
  for (uint32_t i = 0; i < header_pages; ++i)
    header_runs.push_back({memory->page(i), kPageBytes});
  for (uint32_t i = 0; i < extents; ++i) {
    ExtentEntry blank = table[i];
    blank.page_offset = 0;  // flash fills it
    table_entry_set(header_runs, i, blank);
  }
  // In two pieces, as a slab may be.
  const uint32_t half = (pages + 1) / 2;
  runs.push_back({memory->page(0), bytes_of(half)});
  runs.push_back({memory->page(half), bytes_of(pages - half)});
}

ConstByteSpan TestFragment::extent(uint32_t i) const {
  return {memory->page(table[i].page_offset), table[i].stored_bytes};
}

void FakeUser::on_killed(uint32_t domain, const BaseId& base, const Attempt& limit) {
  Attempt& known_limit = killed[{.base = base, .domain = domain}];
  if (!is_killed(limit, known_limit)) known_limit = limit;
  for (auto at = known.begin(); at != known.end();) {
    const auto found = at++;
    if (found->first.base != base || found->first.domain != domain ||
        !is_killed(found->second.attempt, known_limit))
      continue;
    const Place place = found->second.place;
    known.erase(found);
    flash->release(place);
  }
}

bool FakeUser::on_recovered(const FragmentInfo& fragment) {
  told.push_back(fragment);
  const auto limit = killed.find({.base = fragment.block.base, .domain = fragment.block.domain});
  if (limit != killed.end() && is_killed(fragment.attempt, limit->second)) return false;
  auto found = known.find(fragment.block);
  if (found == known.end()) {
    know(fragment.block, fragment.place, fragment.attempt);
    return true;
  }
  if (found->second.attempt >= fragment.attempt) return false;
  flash->release(found->second.place);
  know(fragment.block, fragment.place, fragment.attempt);
  return true;
}

void FakeUser::know(const BlockId& block, const Place& place, const Attempt& attempt) {
  known[block] = {place, attempt, ++age};
  evicted.erase(block);
}

void FakeUser::on_lost(const BlockId& block, const Place& place, DropReason reason) {
  lost.insert(block);
  reasons.insert(reason);
  auto found = known.find(block);
  if (found == known.end() || found->second.place != place) return;
  known.erase(found);
  flash->release(place);
}

FlashUser::Verdict FakeUser::on_reclaim(const BlockId& block, const Place& place) {
  auto found = known.find(block);
  if (found == known.end() || found->second.place != place) return Verdict::kDead;
  if (!drop_in_reclaim || pinned.contains(block)) return Verdict::kReinsert;
  known.erase(found);
  evicted.insert(block);
  return Verdict::kDropped;
}

bool FakeUser::on_live(const BlockId& block, const Place& place) {
  auto found = known.find(block);
  return found != known.end() && found->second.place == place;
}

bool FakeUser::on_moved(const BlockId& block, const Place& from, const Place& to) {
  auto found = known.find(block);
  if (found == known.end() || found->second.place != from) return false;
  found->second.place = to;
  ++moves;
  return true;
}

void FakeUser::on_room_wanted(uint32_t target, uint32_t slice, uint32_t pages) {
  ++room_asks;
  room_pages += pages;
  if (!may_evict) return;
  uint32_t freed = 0;
  while (freed < pages) {
    const BlockId* oldest = nullptr;
    uint64_t least = ~0ull;
    for (const auto& [block, entry] : known) {
      if (entry.place.target != target || entry.place.slice != slice) continue;
      if (pinned.contains(block) || entry.age >= least) continue;
      oldest = &block;
      least = entry.age;
    }
    if (oldest == nullptr) return;
    const BlockId victim = *oldest;
    freed += known[victim].place.pages;
    evict(victim);
  }
}

void FakeUser::evict(BlockId block) {
  auto found = known.find(block);
  VARVE_ASSERT(found != known.end());
  const Place place = found->second.place;
  known.erase(found);
  evicted.insert(block);
  flash->release(place);
}

const FakeUser::Known* FakeUser::find(const BlockId& block) const {
  auto found = known.find(block);
  return found == known.end() ? nullptr : &found->second;
}

Rig::Rig(const RigOptions& with) : options(with), entropy_(with.seed) {
  entropy_.fill({node_uuid_, 16});
  const uint64_t slice_pages = uint64_t{options.segments} * options.segment_pages + 16;
  const uint64_t pages = kHeadPages + options.slices * slice_pages;
  for (uint32_t i = 0; i < options.targets; ++i) {
    platters_.push_back(std::make_unique<MemoryPlatter>(bytes_of(pages)));
  }
}

Rig::~Rig() {
  if (running()) power_cut();
}

void Rig::start(uint32_t shards) {
  VARVE_ASSERT(!running());
  if (shards != 0) options.shards = shards;
  ++starts_;
  counter_ = 0;
  infos_.clear();
  std::vector<TargetOptions> targets(options.targets);
  std::vector<TargetLook> looks;
  for (uint32_t i = 0; i < options.targets; ++i) {
    targets[i].file.path = "platter-" + std::to_string(i);
    targets[i].index = i;
    const bool last = i + 1 == options.targets && options.last_segment_pages != 0;
    targets[i].geometry = {options.slices,
                           last ? options.last_segment_pages : options.segment_pages};
    if ((absent >> i & 1) != 0) continue;
    const Result<TargetLook> look = look_platter(*platters_[i], targets[i], node_uuid_);
    VARVE_ASSERT(look.has_value());
    looks.push_back(*look);
  }
  const Result<CommonStart> common = common_start(looks, options.shards);
  VARVE_ASSERT(common.has_value());
  for (uint32_t i = 0; i < options.targets; ++i) {
    TargetOptions& target = targets[i];
    if ((absent >> i & 1) != 0) {  // as the node does: a place in the order, and a failed device
      VARVE_ASSERT(!infos_.empty());
      infos_.push_back(infos_.front());
      infos_.back().super.target_index = i;
      std::memset(infos_.back().super.target_uuid, static_cast<int>(i), 16);
      continue;
    }
    target.boot_generation = common->boot_generation;
    target.generations = common->generations;
    Result<TargetInfo> info = prepare_platter(*platters_[i], target, node_uuid_, entropy_);
    VARVE_ASSERT(info.has_value());
    infos_.push_back(*info);
  }
  for (uint32_t s = 0; s < options.shards; ++s) {
    auto shard = std::make_unique<Shard>();
    shard->reactor = std::make_unique<Reactor>(clock, nullptr, ReactorOptions{});
    std::vector<std::unique_ptr<BlockDevice>> devices;
    for (uint32_t i = 0; i < options.targets; ++i) {
      MemoryDeviceOptions memory;
      memory.name = "platter-" + std::to_string(i);
      memory.seed = options.seed * 1000 + starts_ * 100 + s * 10 + i;
      FaultPlan plan = options.plan;
      plan.seed = memory.seed + 5;
      const bool there = (absent >> i & 1) == 0;
      auto device = FaultDevice::wrap(
          *shard->reactor,
          there ? make_memory_device(*shard->reactor, *platters_[i], memory)
                : make_failed_device(*shard->reactor, memory.name, platters_[i]->capacity_bytes(),
                                     Status::unavailable("absent")),
          plan);
      shard->devices.push_back(device.get());
      devices.push_back(std::move(device));
    }
    FlashOptions flash = options.flash;
    flash.shard = s;
    flash.shards = options.shards;
    auto opened = Flash::open(*shard->reactor, clock, entropy_, infos_, std::move(devices),
                              shard->user, flash);
    VARVE_ASSERT(opened.has_value());
    shard->flash = std::move(*opened);
    shard->user.flash = shard->flash.get();
    shard->flash->register_metrics(shard->metrics);
    shard->flash->recover();
    shards_.push_back(std::move(shard));
  }
}

void Rig::power_cut() {
  for (const auto& shard : shards_) {
    for (FaultDevice* device : shard->devices)
      device->crash();
  }
  end();
}

void Rig::stop() {
  for (const auto& shard : shards_)
    shard->flash->drain();
  const bool idle = run_until([this] {
    return std::all_of(shards_.begin(), shards_.end(),
                       [](const auto& shard) { return shard->flash->idle(); });
  });
  VARVE_ASSERT(idle);
  end();
}

void Rig::end() {
  for (const auto& shard : shards_)
    shard->flash.reset();
  shards_.clear();
}

Status Rig::replace(uint32_t target, Blank blank, uint32_t shard) {
  Shard& of = *shards_[shard];
  VARVE_RETURN_IF_ERROR(of.flash->replaceable(target));
  const auto old = std::exchange(
      platters_[target], std::make_unique<MemoryPlatter>(platters_[target]->capacity_bytes()));
  if (blank == Blank::kFirstMib) {
    const size_t head = bytes_of(kHeadPages);
    std::copy(old->bytes().begin() + head, old->bytes().end(),
              platters_[target]->bytes().begin() + head);
  }
  TargetOptions formatted;
  formatted.file.path = "platter-" + std::to_string(target);
  formatted.index = target;
  formatted.geometry = {options.slices, options.segment_pages};
  formatted.boot_generation = super(target).boot_generation;
  formatted.generations = formatted_with ? *formatted_with : of.flash->generations();
  VARVE_TRY(infos_[target], prepare_platter(*platters_[target], formatted, node_uuid_, entropy_));
  MemoryDeviceOptions memory;
  memory.name = formatted.file.path;
  memory.seed = options.seed * 1000 + 999;
  auto device = FaultDevice::wrap(
      *of.reactor, make_memory_device(*of.reactor, *platters_[target], memory), options.plan);
  of.devices[target] = device.get();
  return of.flash->replace(infos_[target], std::move(device));
}

bool Rig::step() {
  bool any = false;
  for (const auto& shard : shards_)
    any = shard->reactor->turn() || any;
  if (any) return true;
  Nanos next = kNever;
  for (const auto& shard : shards_)
    next = std::min(next, shard->reactor->next_work_ns());
  if (next == kNever) return false;
  if (next > clock.now_ns()) clock.advance_to(next);
  return true;
}

void Rig::settle(Nanos duration_ns) {
  const Nanos end = clock.now_ns() + duration_ns;
  while (true) {
    bool any = false;
    for (const auto& shard : shards_)
      any = shard->reactor->turn() || any;
    if (any) continue;
    Nanos next = kNever;
    for (const auto& shard : shards_)
      next = std::min(next, shard->reactor->next_work_ns());
    if (next > end) break;
    if (next > clock.now_ns()) clock.advance_to(next);
  }
  clock.advance_to(end);
}

uint32_t Rig::slice_of_block(const BlockId& block) const {
  return slice_of(block.base, options.slices);
}

uint32_t Rig::shard_of_block(const BlockId& block) const {
  return shard_of_slice(slice_of_block(block), options.slices, options.shards);
}

bool Rig::recovering() const {
  return std::any_of(shards_.begin(), shards_.end(),
                     [](const auto& shard) { return shard->flash->recovering(); });
}

uint64_t Rig::device_requests() const {
  uint64_t sum = 0;
  for (const auto& shard : shards_) {
    for (const FaultDevice* device : shard->devices) {
      const BlockDevice::Counters& c = device->counters();
      sum += c.reads + c.writes + c.flushes + c.discards;
    }
  }
  return sum;
}

int64_t Rig::metric(const std::string& name, uint32_t target, const std::string& more) {
  int64_t sum = 0;
  for (const auto& shard : shards_) {
    sum += shard->metrics.snapshot().number("varve_flash_" + name,
                                            "target=\"" + std::to_string(target) + "\"" + more);
  }
  return sum;
}

TestFragment* Rig::append(uint64_t seed, uint32_t extents, uint32_t extent_bytes, FlushBy flush,
                          uint32_t target) {
  auto made = std::make_unique<TestFragment>(seed, extents, extent_bytes, next_attempt(target));
  TestFragment& f = *made;
  f.block.domain = mark.domain;
  const uint32_t slice = slice_of_block(f.block);
  Shard& shard = *shards_[shard_of_block(f.block)];
  auto& header = *reinterpret_cast<FragmentHeader*>(f.memory->page(0));
  header.domain = mark.domain;
  header.domain_generation = mark.domain_generation;
  header.lineage = mark.lineage;
  header.lineage_generation = mark.lineage_generation;
  if (!shard.flash->reserve(target, slice, f.pages)) return nullptr;
  f.append.target = target;
  f.append.slice = slice;
  f.append.pages = f.pages;
  f.append.header = &header;
  f.append.header_pages = f.header_runs;
  f.append.runs = f.runs;
  f.append.flush = flush;
  f.append.limbo = append_limbo;
  struct Context {
    TestFragment* fragment;
    FakeUser* user;
  };
  static std::vector<std::unique_ptr<Context>> contexts;  // they outlive every append
  contexts.push_back(std::make_unique<Context>(Context{&f, &shard.user}));
  f.append.owner = contexts.back().get();
  f.append.on_done = [](Append& append) {
    auto& context = *static_cast<Context*>(append.owner);
    context.fragment->done = true;
    context.fragment->status = append.status;
    if (!append.status.ok()) return;
    const FakeUser::Known* known = context.user->find(context.fragment->block);
    if (known != nullptr) {
      const Place place = known->place;
      context.user->flash->release(place);
    }
    context.user->know(context.fragment->block, append.place, context.fragment->attempt);
  };
  shard.flash->append(f.append);
  appended.push_back(std::move(made));
  return &f;
}

uint32_t Rig::fill(uint64_t first_seed) {
  uint32_t count = 0;
  uint32_t refused = 0;
  for (uint64_t seed = first_seed; refused < 40; ++seed) {
    TestFragment* f = append(seed, 3, 14000);
    if (f == nullptr) {
      ++refused;
      settle(kSecond);
      continue;
    }
    ++count;
    run_until([&] { return f->done; });
  }
  return count;
}

Status Rig::kill(const BlockId& block, uint32_t target, uint32_t away, uint32_t domains) {
  Shard& shard = *shards_[shard_of_block(block)];
  const Attempt limit{super(target).boot_generation, 0, counter_};
  shard.user.on_killed(block.domain, block.base, limit);
  struct Waiting {
    Kill kill;
    bool done = false;
  } waiting;
  waiting.kill.target = target;
  waiting.kill.slice = slice_of_block(block);
  waiting.kill.base = block.base;
  waiting.kill.domain = block.domain;
  waiting.kill.domains = domains;
  waiting.kill.limit = limit;
  waiting.kill.away = away;
  waiting.kill.owner = &waiting;
  waiting.kill.on_done = [](Kill& kill) { static_cast<Waiting*>(kill.owner)->done = true; };
  shard.flash->kill(waiting.kill);
  VARVE_ASSERT(!waiting.done);
  VARVE_ASSERT(run_until([&] { return waiting.done; }));
  return waiting.kill.status;
}

void Rig::cut_footer(uint32_t target, uint32_t segment) {
  const auto geometry = geometry_of(super(target));
  const uint64_t last = geometry->segment_page(0, segment) + geometry->segment_pages - 1;
  const ByteSpan page = platter(target).bytes().subspan(bytes_of(last), kPageBytes);
  auto trailer = load<FooterTrailer>(page);
  VARVE_ASSERT(trailer.entry_count > 1, trailer.entry_count);
  const uint32_t pages = footer_pages_of(trailer.entry_count);
  --trailer.entry_count;
  VARVE_ASSERT(footer_pages_of(trailer.entry_count) == pages, pages);
  store(page, 0, trailer);
  seal_page(page, nonce_seed(trailer.nonce), 0, trailer.sequence);
}

TestFragment* Rig::fragment(const BlockId& block) {
  for (auto at = appended.rbegin(); at != appended.rend(); ++at) {
    if ((*at)->block == block) return at->get();
  }
  return nullptr;
}

namespace {

struct OneRead {
  Read read;
  bool done = false;
};

}  // namespace

Status Rig::read_back(const BlockId& block, const TestFragment& expected) {
  const uint32_t shard = shard_of_block(block);
  const FakeUser::Known* known = user(shard).find(block);
  if (known == nullptr) return Status::unavailable("not known");
  const auto run = [&](OneRead& one) {
    one.read.owner = &one;
    one.read.on_done = [](Read& read) { static_cast<OneRead*>(read.owner)->done = true; };
    flash(shard).read(one.read);
    const bool ended = run_until([&one] { return one.done; });
    VARVE_ASSERT(ended);
    return one.read.status;
  };
  PageMemory lead(known->place.lead_pages);
  const iovec lead_run = {lead.page(0), bytes_of(lead.pages())};
  OneRead first;
  first.read.kind = Read::Kind::kLead;
  first.read.block = block;
  first.read.place = known->place;
  first.read.fingerprint = expected.fingerprint;
  first.read.header_pages = expected.header_pages;
  first.read.runs = {const_cast<iovec*>(&lead_run), 1};
  VARVE_RETURN_IF_ERROR(run(first));
  const auto header = load<FragmentHeader>(lead.span(0, 1));
  if (header.attempt != expected.attempt) return Status::corrupt("another attempt");
  if (std::memcmp(lead.page(header.header_pages), expected.extent(0).data(),
                  expected.extent(0).size()) != 0) {
    return Status::corrupt("first extent differs");
  }
  for (uint32_t i = 1; i < header.extent_count; ++i) {
    known = user(shard).find(block);
    if (known == nullptr) return Status::unavailable("not known any more");
    OneRead next;
    next.read.block = block;
    next.read.place = known->place;
    next.read.attempt = header.attempt;
    next.read.extent = i;
    next.read.entry = table_entry({&lead_run, 1}, i);
    PageMemory memory(pages_of(next.read.entry.stored_bytes));
    iovec piece = {memory.page(0), bytes_of(memory.pages())};
    next.read.runs = {&piece, 1};
    VARVE_RETURN_IF_ERROR(run(next));
    if (std::memcmp(memory.page(0), expected.extent(i).data(), expected.extent(i).size()) != 0) {
      return Status::corrupt("extent differs");
    }
  }
  return Status::ok_status();
}

}  // namespace varve::flash
