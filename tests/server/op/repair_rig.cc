// See the header. A block's bytes follow from its number and attempt.
#include "tests/server/op/repair_rig.h"

#include <cstring>
#include <set>

#include "common/erasure/erasure.h"
#include "server/op/placer.h"
#include "server/op/repair.h"
#include "server/policy/policy.h"

namespace varve {

namespace {

constexpr uint32_t kArenaPages = 6144;

ByteSpan aligned(std::vector<std::byte>& memory, uint32_t pages) {
  memory.assign(bytes_of(pages + 1), std::byte{0xEE});
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  return ByteSpan(memory).subspan(round_up(address, kPageBytes) - address, bytes_of(pages));
}

std::vector<LayerSpec> layers_of(const std::vector<uint32_t>& bytes) {
  std::vector<LayerSpec> layers;
  for (const uint32_t b : bytes)
    layers.push_back({LayerKind::kFull, b});
  return layers;
}

}  // namespace

RepairRig::RepairRig(const RepairRigOptions& o)
    : options(o), table(*ExtentTable::of(layers_of(o.layer_bytes), o.scheme)) {
  for (uint32_t t = 0; t < o.targets; ++t)
    platters.push_back(std::make_unique<MemoryPlatter>(o.target_bytes));
  boot();
}

RepairRig::~RepairRig() = default;

void RepairRig::boot() {
  infos.clear();
  devices.clear();
  reactor = std::make_unique<Reactor>(clock, nullptr, ReactorOptions{});
  reactor->turn();
  std::vector<std::unique_ptr<BlockDevice>> own;
  for (uint32_t t = 0; t < options.targets; ++t) {
    flash::TargetOptions target;
    target.file.path = "platter-" + std::to_string(t);
    target.index = t;
    target.geometry = {
        .slices = options.slices, .segment_pages = options.segment_pages, .scheme = options.scheme};
    infos.push_back(*flash::prepare_platter(*platters[t], target, uuid_, entropy_));
    const uint64_t memory_seed = ++seed_, fault_seed = ++seed_;
    auto device = FaultDevice::wrap(
        *reactor, make_memory_device(*reactor, *platters[t], {.seed = memory_seed}),
        {.volatile_cache = true, .seed = fault_seed});
    devices.push_back(device.get());
    own.push_back(std::move(device));
  }
  TierOptions t;
  t.limit_bytes[static_cast<uint32_t>(Budget::kPush)] = bytes_of(1024);
  t.limit_bytes[static_cast<uint32_t>(Budget::kPull)] = bytes_of(1024);
  t.limit_bytes[static_cast<uint32_t>(Budget::kResident)] = bytes_of(1024);
  t.limit_bytes[static_cast<uint32_t>(Budget::kRepair)] = bytes_of(options.repair_pages);
  t.blocks_max = 64;
  arena = std::make_unique<Arena>(aligned(memory_, kArenaPages));
  tier = std::make_unique<DramTier>(*arena, t);
  index = std::make_unique<Index>(
      IndexOptions{.blocks_max = 1024, .scheme = options.scheme, .slice_count = options.slices});
  eviction_ = make_leaf_first_lru(index->base_slots_max(), options.targets * options.slices);
  admission_ = make_admit_all();
  flash = *flash::Flash::open(*reactor, clock, entropy_, infos, std::move(own), *this, {});
  OpOptions op;
  op.slices = options.slices;
  op.scheme = options.scheme;
  op.pushes_max = 8;
  op.appends_max = 4;
  op.pulls_max = 8;
  op.extents_max = 8;
  op.fetches_max = 8;
  op.data_sends_max = 8;
  op.leases_max = 8;
  op.lease_pins_max = 8192;
  op.lease_ms_max = 10;
  op.repair_bytes_per_s = options.bytes_per_s;
  op.repairs_max = options.repairs_max;
  op.draining_targets = options.draining_targets;
  context = std::make_unique<OpContext>(OpContext{.reactor = *reactor,
                                                  .index = *index,
                                                  .tier = *tier,
                                                  .flash = *flash,
                                                  .eviction = *eviction_,
                                                  .admission = *admission_,
                                                  .options = op,
                                                  .metrics = {},
                                                  .gathered = {}});
  operations = std::make_unique<Operations>(*context);
  flash->recover();
  if (on_recovery) on_recovery();
  ASSERT_TRUE(run_until([&] { return !flash->recovering(); }));
  operations->catalog().recovery_done();
  run_until([&] { return !operations->catalog().losing(); });
}

void RepairRig::power_cut() {
  for (FaultDevice* device : devices)
    device->crash();
  // Nothing of it runs again, so its pages are given back; what would assert rest on its way out is
  // kept.
  memory_ = {};
  struct Grave {
    std::unique_ptr<Arena> arena;
    std::unique_ptr<Reactor> reactor;
    std::unique_ptr<DramTier> tier;
    std::unique_ptr<Index> index;
    std::unique_ptr<EvictionPolicy> eviction;
    std::unique_ptr<AdmissionPolicy> admission;
    std::unique_ptr<flash::Flash> flash;
    std::unique_ptr<OpContext> context;
    std::unique_ptr<Operations> operations;
  };
  static auto& graves = *new std::vector<Grave>;
  graves.push_back({std::move(arena), std::move(reactor), std::move(tier), std::move(index),
                    std::move(eviction_), std::move(admission_), std::move(flash),
                    std::move(context), std::move(operations)});
}

void RepairRig::stop() {
  operations->drain();
  EXPECT_TRUE(run_until([&] { return operations->pushes_done(); }));
  flash->drain();
  EXPECT_TRUE(run_until([&] { return flash->idle(); }));
  operations.reset();
  context.reset();
  flash.reset();
}

BlockId RepairRig::block(uint32_t n) const {
  Sha256 sha;
  sha.update(bytes_view(n));
  return BlockId{sha.finish(), 0};
}

RepairRig::Written& RepairRig::make(uint32_t n, uint32_t lies, uint32_t digest_lies) {
  if (written_.size() <= n) written_.resize(n + 1);
  written_[n] = std::make_unique<Written>();
  Written& w = *written_[n];
  w.attempt = Attempt{
      .boot_generation = infos[0].super.boot_generation, .target = 0, .counter = ++attempts_};
  w.extents.resize(table.count());
  for (uint32_t e = 0; e < table.count(); ++e) {
    w.extents[e].resize(table.bytes_at(e));
    if (e >= table.data_count()) continue;
    Random random((uint64_t{n} << 32 | e) + (attempts_ << 48));
    for (std::byte& b : w.extents[e])
      b = static_cast<std::byte>(random.next());
  }
  const Coder coder(options.scheme);
  for (uint32_t s = 0; s < table.stripes.size(); ++s) {
    const Stripe& stripe = table.stripes[s];
    for (size_t at = 0; at < stripe.bytes; at += kColumnBytes) {
      const auto column = [&](std::vector<std::byte>& bytes) {
        const size_t begin = std::min(at, bytes.size());
        return ByteSpan(bytes).subspan(begin, std::min<size_t>(kColumnBytes, bytes.size() - begin));
      };
      std::vector<ConstByteSpan> from(options.scheme.k);
      std::vector<ByteSpan> to;
      for (uint32_t i = 0; i < stripe.count; ++i)
        from[i] = column(w.extents[stripe.first + i]);
      for (uint32_t j = 0; j < options.scheme.m; ++j)
        to.push_back(column(w.extents[table.parity_at(s, j)]));
      coder.run(from, to);
    }
  }
  for (uint32_t e = 0; e < table.count(); ++e) {
    const uint32_t bit = e < 32 ? 1u << e : 0;  // of the first extents only
    if ((lies & bit) != 0) w.extents[e][0] ^= std::byte{1};
    ExtentDigest digest(checksum_seed(block(n), e, w.attempt));
    digest.update(w.extents[e]);
    const auto bytes = static_cast<uint32_t>(w.extents[e].size());
    w.rows.push_back({.stored_bytes = bytes,
                      .decoded_bytes = bytes,
                      .stripe = static_cast<uint16_t>(table.stripe_at(e)),
                      .stored_crc = digest.stored_crc(),
                      .decoded_xxh3 = digest.decoded_xxh3() ^ ((digest_lies & bit) != 0)});
  }
  return w;
}

flash::Place RepairRig::append(const Written& w, const BlockId& id, uint32_t position,
                               uint32_t target) {
  const uint32_t pages = flash::fragment_pages_of(table, id, position);
  const uint32_t header_pages = flash::header_pages_of(table.count());
  std::vector<std::byte> memory;
  const ByteSpan bytes = aligned(memory, pages);
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  flash::FragmentHeader header;
  header.extent_count = table.count();
  header.data_extent_count = table.data_count();
  header.base = id.base;
  header.fingerprint.bytes[3] = std::byte{9};
  header.rank_count = 1;
  header.attempt = w.attempt;
  header.epoch = 1;
  header.domain = 1;
  header.k = static_cast<uint8_t>(options.scheme.k);
  header.m = static_cast<uint8_t>(options.scheme.m);
  header.matrix = static_cast<uint16_t>(matrix_of(options.scheme));
  header.position = static_cast<uint8_t>(position);
  header.role = position < options.scheme.k ? 0 : 1;
  header.block_bytes_low = static_cast<uint32_t>(table.block_bytes);
  header.lineage = 42;
  store(bytes, 0, header);
  for (uint32_t e = 0; e < table.count(); ++e)
    store(bytes, 256 + 32 * e, w.rows[e]);
  uint64_t at = bytes_of(header_pages);
  for (uint32_t e = 0; e < table.count(); ++e) {
    if (flash::position_at(table, id, e) != position) continue;
    std::memcpy(bytes.data() + at, w.extents[e].data(), w.extents[e].size());
    at += bytes_of(pages_of(w.extents[e].size()));
  }
  iovec runs[2] = {{bytes.data(), bytes_of(header_pages)},
                   {bytes.data() + bytes_of(header_pages), bytes_of(pages - header_pages)}};
  flash::Append append;
  append.target = target;
  append.slice = slice_of(id.base, options.slices);
  append.pages = pages;
  append.header = reinterpret_cast<flash::FragmentHeader*>(bytes.data());
  append.header_pages = std::span<const iovec>(runs, 1);
  append.runs = std::span<iovec>(runs, pages > header_pages ? 2 : 1);
  bool done = false;
  append.owner = &done;
  append.on_done = [](flash::Append& a) { *static_cast<bool*>(a.owner) = true; };
  flash->append(append);
  EXPECT_TRUE(run_until([&] { return done; }));
  EXPECT_TRUE(append.status.ok()) << append.status.what();
  return append.place;
}

void RepairRig::put(uint32_t n, uint32_t missing, uint32_t lies, uint32_t digest_lies) {
  const BlockId id = block(n);
  const Written& w = make(n, lies, digest_lies);
  struct Wish {
    RepairRig& rig;
    const BlockId& id;
  } wish{*this, id};
  const Placer::Spots spots = context->placer->place(
      id.base, all() & ~missing, 0,
      [](void* owner, uint32_t position, uint32_t target) {
        RepairRig& rig = static_cast<Wish*>(owner)->rig;
        const BlockId& block = static_cast<Wish*>(owner)->id;
        return rig.flash->reserve(target, slice_of(block.base, rig.options.slices),
                                  flash::fragment_pages_of(rig.table, block, position));
      },
      &wish);
  ASSERT_EQ(spots.count, static_cast<uint32_t>(std::popcount(all() & ~missing)));
  std::vector<flash::Place> places(options.scheme.width());
  for (uint32_t p = 0; p < options.scheme.width(); ++p) {
    if ((missing >> p & 1) == 0) places[p] = append(w, id, p, spots.target[p]);
  }
  Located located;
  ASSERT_EQ(index->insert(id, BlockState::kAway, &located), Index::Insert::kDone);
  for (uint32_t p = 0; p < options.scheme.width(); ++p) {
    if ((missing >> p & 1) == 0) index->place_add(located, p, places[p]);
  }
  index->settle(*index->find_any(id));
  const flash::Place& first = places[static_cast<uint32_t>(std::countr_one(missing))];
  eviction_->insert(located.base_slot, first.target * options.slices + first.slice);
}

Located RepairRig::locate(uint32_t n) const {
  const std::optional<Located> located = index->find(block(n));
  EXPECT_TRUE(located.has_value()) << n;
  return located.value_or(Located{});
}

flash::FragmentHeader RepairRig::read_lead(const Located& located, const BlockId& id,
                                           uint32_t position, std::vector<ExtentEntry>* rows) {
  const flash::Place place = index->place_of(located, position);
  std::vector<std::byte> memory;
  const ByteSpan bytes = aligned(memory, place.lead_pages);
  iovec run = {bytes.data(), bytes.size()};
  flash::Read read;
  read.kind = flash::Read::Kind::kLead;
  read.block = id;
  read.place = place;
  read.runs = {&run, 1};
  bool done = false;
  read.owner = &done;
  read.on_done = [](flash::Read& r) { *static_cast<bool*>(r.owner) = true; };
  flash->read(read);
  EXPECT_TRUE(run_until([&] { return done; }));
  EXPECT_TRUE(read.status.ok()) << read.status.what();
  const auto header = load<flash::FragmentHeader>(bytes);
  rows->resize(header.extent_count);
  std::memcpy(rows->data(), bytes.data() + 256, rows->size() * sizeof(ExtentEntry));
  return header;
}

Status RepairRig::read_extent(const Located& located, const BlockId& id, uint32_t extent,
                              const flash::FragmentHeader& header, const ExtentEntry& row,
                              std::vector<std::byte>* out) {
  std::vector<std::byte> memory;
  const ByteSpan bytes = aligned(memory, pages_of(row.stored_bytes));
  iovec run = {bytes.data(), bytes.size()};
  flash::Read read;
  read.kind = flash::Read::Kind::kExtent;
  read.block = id;
  read.place = index->place_of(located, header.position);
  read.attempt = header.attempt;
  read.extent = extent;
  read.entry = row;
  read.runs = {&run, 1};
  bool done = false;
  read.owner = &done;
  read.on_done = [](flash::Read& r) { *static_cast<bool*>(r.owner) = true; };
  flash->read(read);
  EXPECT_TRUE(run_until([&] { return done; }));
  for (size_t i = row.stored_bytes; i < bytes.size(); ++i)
    EXPECT_EQ(bytes[i], std::byte{0}) << "padding of extent " << extent;
  out->assign(bytes.begin(), bytes.begin() + row.stored_bytes);
  return read.status;
}

void RepairRig::expect_whole(uint32_t n) {
  const BlockId id = block(n);
  const Located located = locate(n);
  ASSERT_EQ(located.live, all()) << "block " << n;
  const Written& w = *written_[n];
  std::set<uint32_t> targets;
  uint32_t extents = 0;
  for (uint32_t p = 0; p < options.scheme.width(); ++p) {
    targets.insert(index->place_of(located, p).target);
    std::vector<ExtentEntry> rows;
    const flash::FragmentHeader header = read_lead(located, id, p, &rows);
    EXPECT_EQ(header.position, p);
    EXPECT_EQ(header.role, p < options.scheme.k ? 0 : 1);
    EXPECT_EQ(header.attempt, w.attempt);
    EXPECT_EQ(header.lineage, 42u);
    ASSERT_EQ(rows.size(), table.count());
    for (uint32_t e = 0; e < table.count(); ++e) {
      if (flash::position_at(table, id, e) != p) continue;
      std::vector<std::byte> bytes;
      const Status status = read_extent(located, id, e, header, rows[e], &bytes);
      EXPECT_TRUE(status.ok()) << "extent " << e << ": " << status.what();
      EXPECT_TRUE(bytes == w.extents[e]) << "block " << n << " extent " << e;
      ++extents;
    }
  }
  EXPECT_EQ(targets.size(), options.scheme.width()) << "two fragments on one target";
  EXPECT_EQ(extents, table.count());
}

void RepairRig::expect_at_rest() {
  EXPECT_TRUE(run_until([&] { return operations->at_rest(); }));
  EXPECT_EQ(tier->used_bytes(Budget::kRepair), 0u);
  for (uint32_t t = 0; t < options.targets; ++t)
    EXPECT_EQ(flash->usage(t).reserved_pages, 0u) << "target " << t;
}

void RepairRig::unplug(uint32_t target) {
  devices[target]->vanish();
  std::vector<std::byte> memory;
  iovec run = {aligned(memory, 1).data(), kPageBytes};
  flash::Read read;
  read.kind = flash::Read::Kind::kLead;
  uint32_t n = 0;
  uint32_t position = 0;
  while (index->place_of(locate(n), position).target != target) {
    position = (position + 1) % options.scheme.width();
    n += position == 0 ? 1 : 0;
  }
  read.block = block(n);
  read.place = index->place_of(locate(n), position);
  read.place.lead_pages = 1;
  read.runs = {&run, 1};
  bool done = false;
  read.owner = &done;
  read.on_done = [](flash::Read& r) { *static_cast<bool*>(r.owner) = true; };
  flash->read(read);
  EXPECT_TRUE(run_until([&] { return done && operations->catalog().is_failed(target); }));
  EXPECT_FALSE(flash->target_ok(target));
}

void RepairRig::rot(uint32_t n, uint32_t extent) {
  const BlockId id = block(n);
  const Located located = locate(n);
  const uint32_t position = flash::position_at(table, id, extent);
  std::vector<ExtentEntry> rows;
  read_lead(located, id, position, &rows);
  const flash::Place place = index->place_of(located, position);
  // Where it lies on the platter is flash's to know: looked for by its bytes.
  const std::vector<std::byte>& bytes = written_[n]->extents[extent];
  ByteSpan all_bytes = platters[place.target]->bytes();
  for (size_t at = 0; at + bytes.size() <= all_bytes.size(); at += kPageBytes) {
    if (std::memcmp(all_bytes.data() + at, bytes.data(), bytes.size()) != 0) continue;
    all_bytes[at + bytes.size() / 2] ^= std::byte{4};
    return;
  }
  FAIL() << "extent " << extent << " is not on the platter";
}

bool RepairRig::on_recovered(const flash::FragmentInfo& f) {
  return operations->catalog().recovered(f);
}
void RepairRig::on_target_failed(uint32_t target) {
  operations->catalog().target_failed(target);
}
void RepairRig::on_lost(const BlockId& b, const flash::Place& p, flash::DropReason r) {
  operations->catalog().lost(b, p, r);
}
flash::FlashUser::Verdict RepairRig::on_reclaim(const BlockId& b, const flash::Place& p) {
  return operations->catalog().reclaim(b, p);
}
bool RepairRig::on_live(const BlockId& b, const flash::Place& p) {
  return operations->catalog().is_live(b, p);
}
bool RepairRig::on_moved(const BlockId& b, const flash::Place& f, const flash::Place& t) {
  return operations->catalog().moved(b, f, t);
}
void RepairRig::on_room_wanted(uint32_t target, uint32_t slice, uint32_t pages) {
  operations->room_wanted(target, slice, pages);
}

}  // namespace varve
