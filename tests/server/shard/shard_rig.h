// ShardRig: one node of n shards over memory platters that survive its kills and restarts, each
// shard on its own reactor in one thread and in manual time, and a tiny session that speaks only
// parts and checks every byte.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/device/fault_device.h"
#include "server/shard/shard.h"

namespace varve {

class NoFabric final : public Fabric {
 public:
  const char* name() const override { return "none"; }
  Result<std::unique_ptr<Listener>> listen(Reactor&, const std::string&,
                                           const LinkOptions&) override {
    return Status::unsupported("test");
  }
  Result<std::unique_ptr<Link>> connect(Reactor&, const std::string&, const LinkOptions&) override {
    return Status::unsupported("test");
  }
};

struct ShardRigOptions {
  uint32_t shards = 1;
  uint32_t targets = 2;
  Scheme scheme;
  uint32_t layers = 3;
  uint64_t target_bytes = 64 * kMiB;
  uint32_t slices = 4;
  uint64_t arena_bytes = 8 * kMiB;
  uint32_t blocks_max = 2048;
  uint32_t lease_ms_max = 1000;
  bool keeps = true;  // blocks in DRAM that nobody is at work with
};

// The session sits on shard 0.
class ShardRig {
 public:
  explicit ShardRig(ShardRigOptions o) : options(o), env_{clock, entropy_, fabric_} {
    for (uint32_t t = 0; t < o.targets; ++t) {
      platters_.push_back(std::make_unique<MemoryPlatter>(o.target_bytes));
    }
    format.format.model.bytes[0] = std::byte{1};
    format.format.ranks.push_back(std::vector<LayerSpec>(o.layers, {LayerKind::kFull, 70000}));
    format.fingerprint = format.format.fingerprint();
    format.tables.push_back(*ExtentTable::of(format.format.ranks[0], o.scheme));
    boot();
  }

  void boot() {
    std::vector<flash::TargetInfo> targets;
    for (uint32_t t = 0; t < options.targets; ++t) {
      flash::TargetOptions target;
      target.file.path = "platter-" + std::to_string(t);
      target.index = t;
      target.geometry = {.slices = options.slices, .segment_pages = 256, .scheme = options.scheme};
      targets.push_back(*flash::prepare_platter(*platters_[t], target, uuid_, entropy_));
    }
    for (uint32_t s = 0; s < options.shards; ++s)
      open_shard(s, targets);
    for (const auto& shard : shards)
      shard->start();
    run_until([&] { return !recovering(); });
    run_for(2 * kSecond);  // the watch has seen the end of recovery
  }
  void open_shard(uint32_t s, const std::vector<flash::TargetInfo>& targets) {
    reactors.push_back(std::make_unique<Reactor>(clock, nullptr, ReactorOptions{.shard = s}));
    std::vector<std::unique_ptr<BlockDevice>> own;
    for (uint32_t t = 0; t < options.targets; ++t) {
      auto memory = make_memory_device(*reactors[s], *platters_[t], {.seed = ++seed_});
      auto device = FaultDevice::wrap(*reactors[s], std::move(memory),
                                      {.volatile_cache = true, .seed = ++seed_});
      devices.push_back(device.get());
      own.push_back(std::move(device));
    }
    arenas_.emplace_back(options.arena_bytes + kPageBytes);
    std::byte* base = arenas_.back().data();
    base += (kPageBytes - reinterpret_cast<uintptr_t>(base) % kPageBytes) % kPageBytes;
    auto shard = Shard::open(env_, *reactors[s], ByteSpan(base, options.arena_bytes), targets,
                             std::move(own), shard_options(s));
    ASSERT_TRUE(shard.has_value()) << shard.error().what();
    shards.push_back(std::move(*shard));
  }
  ShardOptions shard_options(uint32_t s) const {
    ShardOptions o;
    o.shard = s;
    o.shards = options.shards;
    o.blocks_max = options.blocks_max;
    o.scheme = options.scheme;
    for (const Budget b : {Budget::kPush, Budget::kPull, Budget::kRepair, Budget::kResident}) {
      o.tier.limit_bytes[static_cast<uint32_t>(b)] = options.arena_bytes / 4;
    }
    if (!options.keeps) o.tier.limit_bytes[static_cast<uint32_t>(Budget::kResident)] = 0;
    o.tier.blocks_max = 256;
    o.pushes_max = 64;
    o.pulls_max = 16;
    o.lease_ms_max = options.lease_ms_max;
    return o;
  }
  // A power cut: the objects are left as a killed process leaves them, never turned or destroyed.
  void kill() {
    for (FaultDevice* device : devices)
      device->crash();
    struct Grave {
      std::vector<std::unique_ptr<Shard>> shards;
      std::vector<std::unique_ptr<Reactor>> reactors;
      std::vector<std::vector<std::byte>> arenas;
    };
    static auto& graves = *new std::vector<Grave>;
    graves.push_back({std::move(shards), std::move(reactors), std::move(arenas_)});
    shards.clear();
    reactors.clear();
    devices.clear();
    arenas_.clear();
  }
  void stop() {
    for (const auto& shard : shards)
      shard->drain();
    EXPECT_TRUE(run_until([&] {
      for (const auto& shard : shards) {
        if (!shard->drained()) return false;
      }
      return true;
    }));
    shards.clear();
    reactors.clear();
    devices.clear();
    arenas_.clear();
  }

  // A blank drive in the place of a target that failed, when its shard is through with it.
  Status replace(uint32_t target) {
    VARVE_ASSERT(shards.size() == 1);
    VARVE_RETURN_IF_ERROR(shards[0]->replaceable(target));
    const auto old =
        std::exchange(platters_[target], std::make_unique<MemoryPlatter>(options.target_bytes));
    flash::TargetOptions formatted;
    formatted.file.path = "platter-" + std::to_string(target);
    formatted.index = target;
    formatted.geometry = {.slices = options.slices, .segment_pages = 256, .scheme = options.scheme};
    formatted.boot_generation = shards[0]->flash().boot_generation(target);
    VARVE_TRY(const flash::TargetInfo info,
              flash::prepare_platter(*platters_[target], formatted, uuid_, entropy_));
    auto memory = make_memory_device(*reactors[0], *platters_[target], {.seed = ++seed_});
    auto device = FaultDevice::wrap(*reactors[0], std::move(memory),
                                    {.volatile_cache = true, .seed = ++seed_});
    devices[target] = device.get();
    return shards[0]->replace(info, std::move(device));
  }

  template <class Done>
  bool run_until(Done done, Nanos for_ns = 30 * kSecond) {
    const Nanos end_ns = clock.now_ns() + for_ns;
    while (!done()) {
      bool worked = false;
      Nanos due_ns = kNever;
      for (const auto& reactor : reactors)
        worked = reactor->turn() || worked;
      if (worked) continue;
      for (const auto& reactor : reactors)
        due_ns = std::min(due_ns, reactor->next_work_ns());
      if (due_ns > end_ns) {
        clock.advance_to(std::max(end_ns, clock.now_ns()));
        return done();
      }
      clock.advance_to(std::max(due_ns, clock.now_ns()));
    }
    return true;
  }
  void run_for(Nanos ns) {
    run_until([] { return false; }, ns);
  }
  bool recovering() const {
    for (const auto& shard : shards) {
      if (shard->recovering()) return true;
    }
    return false;
  }
  Shard& home(uint32_t n) { return *shards[Shard::home(id(n), options.slices, options.shards)]; }

  BaseId id(uint32_t n) const {
    Sha256 sha;
    sha.update(bytes_view(n));
    return sha.finish();
  }
  // Extent `e` of the whole table; the schemes of these tests have one parity extent, the sum.
  std::vector<std::byte> extent(uint32_t n, uint32_t e) const {
    const ExtentTable& table = format.tables[0];
    std::vector<std::byte> bytes(table.bytes_at(e));
    if (e >= table.data_count()) {
      VARVE_ASSERT(table.scheme.m == 1);
      const Stripe& stripe = table.stripes[table.stripe_at(e)];
      for (uint32_t i = stripe.first; i < stripe.first + stripe.count; ++i)
        add(extent(n, i), &bytes);
      return bytes;
    }
    Random random(uint64_t{n} << 32 | e);
    for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      const uint64_t word = random.next();
      std::memcpy(bytes.data() + i, &word, 8);
    }
    return bytes;
  }

  static void add(const std::vector<std::byte>& more, std::vector<std::byte>* sum) {
    for (size_t i = 0; i < more.size(); ++i)
      (*sum)[i] ^= more[i];
  }

  template <class SomePart>
  Status ask(Shard& shard, SomePart& part) {
    bool back = false;
    part.session_reactor = reactors[0].get();
    part.session = 1;
    part.owner = &back;
    part.on_back = [](Part& p) { *static_cast<bool*>(p.owner) = true; };
    shard.submit(part);
    EXPECT_TRUE(run_until([&] { return back; }));
    return part.status;
  }
  GrantLoan reserve(uint32_t n) {
    auto request = one(n);
    GrantLoan loan;
    ReservePart part;
    part.request = request.get();
    part.end = 1;
    part.format = &format;
    part.epoch = 1;
    part.grants_max = 8;
    part.loans = &loan;
    EXPECT_TRUE(ask(home(n), part).ok());
    return loan;
  }
  void fill(const GrantLoan& loan, uint32_t n) {
    Arena& arena = home(n).tier().arena();
    for (uint32_t e = 0; e < loan.block->extent_count; ++e) {
      const std::vector<std::byte> bytes = extent(n, e);
      const Slab& slab = home(n).tier().extent(*loan.block, e);
      for (size_t i = 0; i < bytes.size(); i += kPageBytes) {
        std::memcpy(arena.byte_at(slab, i), bytes.data() + i,
                    std::min<size_t>(kPageBytes, bytes.size() - i));
      }
      ExtentDigest digest(checksum_seed({id(n), 0}, e, loan.attempt));
      digest.update(bytes);
      const ExtentEntry entry{.stored_bytes = static_cast<uint32_t>(bytes.size()),
                              .decoded_bytes = static_cast<uint32_t>(bytes.size()),
                              .stripe = static_cast<uint16_t>(format.tables[0].stripe_at(e)),
                              .stored_crc = digest.stored_crc(),
                              .decoded_xxh3 = digest.decoded_xxh3()};
      std::memcpy(arena.byte_at(loan.block->header, 256 + 32 * e), &entry, sizeof(entry));
    }
  }
  // As a client does: while another writer is busy with the block, it asks again.
  Status push(uint32_t n, wire::AckKind ack) {
    GrantLoan loan = reserve(n);
    for (int i = 0; i < 1000 && loan.outcome == wire::ReserveOutcome::kBusy; ++i) {
      run_for(1 * kMillisecond);
      loan = reserve(n);
    }
    if (loan.outcome == wire::ReserveOutcome::kExists) return Status();
    if (loan.outcome != wire::ReserveOutcome::kGranted) return Status(loan.code, "refused");
    fill(loan, n);
    CommitPart part;
    part.push = loan.push;
    part.attempt = loan.attempt;
    part.epoch = 1;
    part.ack = ack;
    return ask(home(n), part);
  }
  Status abort(const GrantLoan& loan, uint32_t n) {
    AbortPart part;
    part.push = loan.push;
    part.attempt = loan.attempt;
    return ask(home(n), part);
  }
  bool has(uint32_t n, uint32_t lease_ms = 0, LeaseId* lease = nullptr) {
    auto request = one(n);
    wire::TierKind tier = wire::TierKind::kNone;
    MatchPart part;
    part.request = request.get();
    part.end = 1;
    part.lease_ms = lease_ms;
    part.tiers = &tier;
    EXPECT_TRUE(ask(home(n), part).ok());
    if (lease != nullptr) *lease = part.lease;
    return tier != wire::TierKind::kNone;
  }
  void gone() {
    for (const auto& shard : shards) {
      GonePart part;
      EXPECT_TRUE(ask(*shard, part).ok());
    }
  }
  struct Pulled {
    Code code = Code::kInternal;
    std::map<uint32_t, std::vector<std::byte>> extents;  // as they came
    std::map<uint32_t, wire::LostExtent> lost;           // by extent
  };
  // All data extents of one block, or just those wanted.
  Pulled pull_some(uint32_t n, const std::vector<wire::Want>& wants = {}) {
    auto request = one(n);
    uint8_t code = 0xFF;
    PullPart part;
    part.request = request.get();
    part.end = 1;
    part.format = &format;
    part.extent_end = format.tables[0].data_count();
    if (!wants.empty()) {
      part.wants = wants.data();
      part.want_count = static_cast<uint32_t>(wants.size());
    }
    part.codes = &code;
    part.shard = Shard::home(id(n), options.slices, options.shards);
    part.deadline_ns = clock.now_ns() + 20 * kSecond;
    part.deliver_credit = [](Message& message) { back(*static_cast<CreditAsk*>(message.owner)); };
    part.deliver_data = [](Message& message) {
      auto& send = *static_cast<DataSend*>(message.owner);
      std::vector<std::byte>& got = pulled_->extents[send.data.extent];
      for (uint32_t p = 0; p < send.request.payload_count; ++p) {
        const auto* data = static_cast<const std::byte*>(send.request.payload[p].iov_base);
        got.insert(got.end(), data, data + send.request.payload[p].iov_len);
      }
      back(send);
    };
    part.deliver_lost = [](Message& message) {
      auto& note = *static_cast<LostNote*>(message.owner);
      pulled_->lost[note.lost.extent] = note.lost;
      back(note);
    };
    Pulled pulled;
    pulled_ = &pulled;
    rig_ = this;
    EXPECT_TRUE(ask(home(n), part).ok());
    pulled.code = static_cast<Code>(code);
    for (const auto& [e, bytes] : pulled.extents)
      EXPECT_TRUE(bytes == extent(n, e)) << "block " << n << " extent " << e;
    return pulled;
  }
  // The code of a pull of one block; kOk only when every byte was there and right.
  Code pull(uint32_t n) {
    const Pulled pulled = pull_some(n);
    if (pulled.code == Code::kOk) {
      EXPECT_EQ(pulled.extents.size(), format.tables[0].data_count()) << "block " << n;
      EXPECT_TRUE(pulled.lost.empty()) << "block " << n;
    }
    return pulled.code;
  }
  // A pull that is started and left to itself.
  struct Parked {
    std::unique_ptr<RequestIds> request;
    PullPart part;
    uint8_t code = 0xFF;
    bool back = false;
  };
  std::unique_ptr<Parked> park(uint32_t n) {
    rig_ = this;
    auto parked = std::make_unique<Parked>();
    parked->request = one(n);
    PullPart& part = parked->part;
    part.session_reactor = reactors[0].get();
    part.session = 100 + n;  // one each: what a session may have in progress is bounded
    part.owner = parked.get();
    part.on_back = [](Part& p) { static_cast<Parked*>(p.owner)->back = true; };
    part.request = parked->request.get();
    part.end = 1;
    part.format = &format;
    part.extent_end = format.tables[0].data_count();
    part.codes = &parked->code;
    part.shard = Shard::home(id(n), options.slices, options.shards);
    part.deliver_credit = [](Message& message) { back(*static_cast<CreditAsk*>(message.owner)); };
    part.deliver_data = [](Message& message) { back(*static_cast<DataSend*>(message.owner)); };
    part.deliver_lost = [](Message& message) { back(*static_cast<LostNote*>(message.owner)); };
    home(n).submit(part);
    return parked;
  }
  // Where the fragment of the first position lies: all of the block under 1+0.
  flash::Place place_of(uint32_t n) {
    const Index& index = home(n).index();
    return index.place_of(*index.find({id(n), 0}), 0);
  }
  uint32_t target_of(uint32_t n) { return place_of(n).target; }
  void expect_at_rest() {
    run_for(2 * kSecond);
    for (const auto& shard : shards)
      EXPECT_TRUE(shard->at_rest());
  }
  int64_t metric(const std::string& name, const std::string& labels = "") const {
    int64_t sum = 0;
    for (const auto& shard : shards)
      sum += shard->metrics().number(name, labels);
    return sum;
  }

  ShardRigOptions options;
  ManualClock clock;
  SessionFormat format;
  std::vector<std::unique_ptr<Reactor>> reactors;
  std::vector<FaultDevice*> devices;
  std::vector<std::unique_ptr<Shard>> shards;

 private:
  std::unique_ptr<RequestIds> one(uint32_t n) const {
    auto request = std::make_unique<RequestIds>();
    request->count = 1;
    request->ids[0] = id(n);
    request->positions[0] = 0;
    return request;
  }
  template <class Service>
  static void back(Service& service) {
    if constexpr (requires { service.status; }) service.status = Status();
    service.message.owner = &service;
    service.message.deliver = service.back;
    rig_->shards[service.part->shard]->reactor().post(service.message);
  }
  static inline Pulled* pulled_ = nullptr;
  static inline ShardRig* rig_ = nullptr;

  SeededEntropy entropy_{99};
  NoFabric fabric_;
  Env env_;
  std::byte uuid_[16] = {std::byte{3}};
  uint64_t seed_ = 0;
  std::vector<std::unique_ptr<MemoryPlatter>> platters_;
  std::vector<std::vector<std::byte>> arenas_;
};

}  // namespace varve
