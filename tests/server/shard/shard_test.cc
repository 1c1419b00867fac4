// Goal: a shard put together over real flash keeps its promises across restarts and power cuts:
// what was acknowledged durable is found, byte for byte; what was abandoned is not; nothing is left
// over. Method: memory platters under devices with a volatile write cache, manual time, a tiny
// session that speaks only parts; kill by crash() of the devices, reopen over the same platters.
#include "server/shard/shard.h"

#include <gtest/gtest.h>

#include <map>

#include "common/device/fault_device.h"

namespace varve {
namespace {

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

struct NodeOptions {
  uint32_t shards = 1;
  uint32_t targets = 2;
  uint64_t target_bytes = 64 * kMiB;
  uint32_t slices = 4;
  uint64_t arena_bytes = 8 * kMiB;
  uint32_t blocks_max = 2048;
  uint32_t lease_ms_max = 1000;
};

// One node of n shards, each on its own reactor in one thread; the session sits on shard 0.
class Node {
 public:
  explicit Node(NodeOptions o) : options(o), env_{clock, entropy_, fabric_} {
    for (uint32_t t = 0; t < o.targets; ++t) {
      platters_.push_back(std::make_unique<MemoryPlatter>(o.target_bytes));
    }
    format.format.model.bytes[0] = std::byte{1};
    format.format.ranks.push_back(std::vector<LayerSpec>(3, {LayerKind::kFull, 70000}));
    format.fingerprint = format.format.fingerprint();
    format.tables.push_back(*ExtentTable::of(format.format.ranks[0], Scheme{}));
    boot();
  }

  void boot() {
    std::vector<flash::TargetInfo> targets;
    for (uint32_t t = 0; t < options.targets; ++t) {
      flash::TargetOptions target;
      target.file.path = "platter-" + std::to_string(t);
      target.index = t;
      target.geometry = {.slices = options.slices, .segment_pages = 256};
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
    for (const Budget b : {Budget::kPush, Budget::kPull, Budget::kResident}) {
      o.tier.limit_bytes[static_cast<uint32_t>(b)] = options.arena_bytes / 4;
    }
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
  std::vector<std::byte> extent(uint32_t n, uint32_t e) const {
    std::vector<std::byte> bytes(format.tables[0].extents[e].bytes);
    Random random(uint64_t{n} << 32 | e);
    for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      const uint64_t word = random.next();
      std::memcpy(bytes.data() + i, &word, 8);
    }
    return bytes;
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
                              .stripe = static_cast<uint16_t>(e),
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
  // The code of a pull of one block; kOk only when every byte was right.
  Code pull(uint32_t n) {
    auto request = one(n);
    uint8_t code = 0xFF;
    PullPart part;
    part.request = request.get();
    part.end = 1;
    part.format = &format;
    part.extent_end = static_cast<uint32_t>(format.tables[0].extents.size());
    part.codes = &code;
    part.shard = Shard::home(id(n), options.slices, options.shards);
    part.deadline_ns = clock.now_ns() + 20 * kSecond;
    part.deliver_credit = [](Message& message) {
      auto& ask = *static_cast<CreditAsk*>(message.owner);
      back(ask);
    };
    part.deliver_data = [](Message& message) {
      auto& send = *static_cast<DataSend*>(message.owner);
      std::vector<std::byte>& got = (*got_)[send.data.extent];
      for (uint32_t p = 0; p < send.request.payload_count; ++p) {
        const auto* data = static_cast<const std::byte*>(send.request.payload[p].iov_base);
        got.insert(got.end(), data, data + send.request.payload[p].iov_len);
      }
      back(send);
    };
    std::map<uint32_t, std::vector<std::byte>> got;
    got_ = &got;
    node_ = this;
    EXPECT_TRUE(ask(home(n), part).ok());
    if (code == 0) {
      for (uint32_t e = 0; e < part.extent_end; ++e) {
        EXPECT_TRUE(got[e] == extent(n, e)) << "block " << n << " extent " << e;
      }
    }
    return static_cast<Code>(code);
  }
  // A pull that is started and left to itself.
  struct Parked {
    std::unique_ptr<RequestIds> request;
    PullPart part;
    uint8_t code = 0xFF;
    bool back = false;
  };
  std::unique_ptr<Parked> park(uint32_t n) {
    node_ = this;
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
    part.extent_end = static_cast<uint32_t>(format.tables[0].extents.size());
    part.codes = &parked->code;
    part.shard = Shard::home(id(n), options.slices, options.shards);
    part.deliver_credit = [](Message& message) { back(*static_cast<CreditAsk*>(message.owner)); };
    part.deliver_data = [](Message& message) { back(*static_cast<DataSend*>(message.owner)); };
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

  NodeOptions options;
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
    service.status = Status();
    service.message.owner = &service;
    service.message.deliver = service.back;
    node_->shards[service.part->shard]->reactor().post(service.message);
  }
  static inline std::map<uint32_t, std::vector<std::byte>>* got_ = nullptr;
  static inline Node* node_ = nullptr;

  SeededEntropy entropy_{99};
  NoFabric fabric_;
  Env env_;
  std::byte uuid_[16] = {std::byte{3}};
  uint64_t seed_ = 0;
  std::vector<std::unique_ptr<MemoryPlatter>> platters_;
  std::vector<std::vector<std::byte>> arenas_;
};

TEST(Shard, StoresAndDeliversABlock) {
  Node node({});
  EXPECT_FALSE(node.has(1));
  EXPECT_TRUE(node.push(1, wire::AckKind::kDurable).ok());
  EXPECT_TRUE(node.has(1));
  EXPECT_EQ(node.pull(1), Code::kOk);
  EXPECT_EQ(node.pull(2), Code::kUnavailable);
  node.expect_at_rest();
}

TEST(Shard, FindsEveryDurableBlockAfterAPowerCut) {
  NodeOptions options;
  options.arena_bytes = 16 * kMiB;  // for nine blocks that are not yet flushed
  Node node(options);
  for (uint32_t n = 0; n < 60; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok()) << n;
  for (uint32_t n = 100; n < 108; ++n)
    EXPECT_TRUE(node.push(n, wire::AckKind::kCached).ok());
  const GrantLoan abandoned = node.reserve(200);
  node.fill(abandoned, 200);
  node.kill();
  node.boot();
  for (uint32_t n = 0; n < 60; ++n) {
    ASSERT_TRUE(node.has(n)) << n;
    EXPECT_EQ(node.pull(n), Code::kOk) << n;
  }
  for (uint32_t n = 100; n < 110; ++n) {
    if (node.has(n)) {
      EXPECT_EQ(node.pull(n), Code::kOk) << "cached: lost or right, never wrong";
    }
  }
  EXPECT_FALSE(node.has(200));
  EXPECT_GE(node.metric("varve_recovered_blocks_total"), 60);
  node.expect_at_rest();
}

TEST(Shard, FindsEverythingAfterAGracefulStop) {
  Node node({});
  for (uint32_t n = 0; n < 30; ++n) {
    EXPECT_TRUE(node.push(n, wire::AckKind::kCached).ok()) << n;
    if (n % 5 == 4) node.run_for(100 * kMillisecond);  // DRAM for eight blocks at most
  }
  node.stop();
  node.boot();
  for (uint32_t n = 0; n < 30; ++n)
    EXPECT_EQ(node.pull(n), Code::kOk) << n;
  node.expect_at_rest();
}

TEST(Shard, ServesWhatAnotherNumberOfShardsWrote) {
  Node node({});
  for (uint32_t n = 0; n < 30; ++n)
    EXPECT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
  for (const uint32_t shards : {4u, 3u, 1u}) {
    node.stop();
    node.options.shards = shards;
    node.boot();
    for (uint32_t n = 0; n < 30; ++n)
      EXPECT_TRUE(node.has(n)) << n << " of " << shards;
    for (uint32_t n = 0; n < 30; n += 7) {
      EXPECT_EQ(node.pull(n), Code::kOk) << n;
    }
  }
  node.expect_at_rest();
}

TEST(Shard, GoesOnByEvictionWhenItsTargetsAreFull) {
  NodeOptions options;
  options.targets = 1;
  options.target_bytes = 16 * kMiB;
  options.slices = 1;
  Node node(options);
  uint32_t refused = 0;
  for (uint32_t n = 0; n < 400; ++n) {  // 220 KiB each: several times the target
    Status status = node.push(n, wire::AckKind::kDurable);
    for (int again = 0; again < 20 && status.code() == Code::kNoSpace; ++again) {
      ++refused;
      node.run_for(50 * kMillisecond);
      status = node.push(n, wire::AckKind::kDurable);
    }
    ASSERT_TRUE(status.ok()) << n << " " << code_name(status.code());
  }
  EXPECT_GT(node.metric("varve_evicted_blocks_total") +
                node.metric("varve_reclaim_fragments_total", "verdict=\"dropped\""),
            200);
  uint32_t found = 0;
  for (uint32_t n = 0; n < 400; ++n) {
    if (!node.has(n)) continue;
    ++found;
    EXPECT_EQ(node.pull(n), Code::kOk) << n;
  }
  EXPECT_GT(found, 20u);
  EXPECT_TRUE(node.has(399));
  node.expect_at_rest();
}

TEST(Shard, KeepsALeasedBlockThroughAFloodOfPushes) {
  NodeOptions options;
  options.targets = 1;
  options.target_bytes = 16 * kMiB;
  options.slices = 1;
  options.lease_ms_max = 60000;
  Node node(options);
  ASSERT_TRUE(node.push(7, wire::AckKind::kDurable).ok());
  ASSERT_TRUE(node.push(8, wire::AckKind::kDurable).ok());
  LeaseId lease = 0;
  ASSERT_TRUE(node.has(7, 60000, &lease));
  for (uint32_t n = 100; n < 300; ++n) {
    if (!node.push(n, wire::AckKind::kCached).ok()) node.run_for(50 * kMillisecond);
  }
  EXPECT_FALSE(node.has(8)) << "evicted long ago";
  EXPECT_TRUE(node.has(7));
  EXPECT_EQ(node.pull(7), Code::kOk);
  node.gone();
  node.expect_at_rest();
}

TEST(Shard, KeepsRecoveredBlocksForTheLongestLease) {
  NodeOptions options;
  options.targets = 1;
  options.target_bytes = 16 * kMiB;
  options.slices = 1;
  options.lease_ms_max = 60000;
  Node node(options);
  for (uint32_t n = 0; n < 20; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
  node.kill();
  node.boot();
  for (uint32_t n = 100; n < 250; ++n) {
    if (!node.push(n, wire::AckKind::kCached).ok()) node.run_for(10 * kMillisecond);
  }
  for (uint32_t n = 0; n < 20; ++n)
    EXPECT_TRUE(node.has(n)) << n;
  node.expect_at_rest();
}

TEST(Shard, EndsADrainOnlyWhenEveryCommitIsOnFlash) {
  Node node({});
  const GrantLoan loan = node.reserve(1);
  node.fill(loan, 1);
  node.shards[0]->drain();
  node.run_for(100 * kMillisecond);
  EXPECT_FALSE(node.shards[0]->drained()) << "an attempt is live";
  EXPECT_EQ(node.reserve(2).code, Code::kUnavailable);
  CommitPart part;
  part.push = loan.push;
  part.attempt = loan.attempt;
  part.epoch = 1;
  EXPECT_TRUE(node.ask(*node.shards[0], part).ok());
  node.stop();
  node.boot();
  EXPECT_EQ(node.pull(1), Code::kOk);
}

TEST(Shard, GoesOnWithOneTargetOfTwo) {
  Node node({});
  for (uint32_t n = 0; n < 20; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
  node.devices[0]->vanish();
  uint32_t stored = 0;
  for (uint32_t n = 100; n < 140; ++n) {
    if (node.push(n, wire::AckKind::kDurable).ok()) ++stored;
  }
  EXPECT_GE(stored, 30u) << "the first pushes may meet the target as it fails";
  for (uint32_t n = 0; n < 20; ++n) {
    const Code code = node.pull(n);
    EXPECT_TRUE(code == Code::kOk || code == Code::kUnavailable || code == Code::kIo)
        << code_name(code);
  }
  EXPECT_EQ(node.metric("varve_target_ok_shards", "target=\"0\""), 0);
  EXPECT_EQ(node.metric("varve_target_ok_shards", "target=\"1\""), 1);
  node.expect_at_rest();
}

// Goal: what a client says of its format must never stop the daemon: refused, and all is well.
TEST(Shard, RefusesAPullOfAnotherFormatWithSmallerExtents) {
  Node node({});
  EXPECT_TRUE(node.push(1, wire::AckKind::kDurable).ok());
  node.stop();
  node.boot();
  for (const uint32_t bytes : {4096u, 69000u, 300000u}) {
    SessionFormat other;
    other.format.model.bytes[0] = std::byte{2};
    other.format.ranks.push_back(std::vector<LayerSpec>(3, {LayerKind::kFull, bytes}));
    other.fingerprint = other.format.fingerprint();
    other.tables.push_back(*ExtentTable::of(other.format.ranks[0], Scheme{}));
    std::swap(other, node.format);
    EXPECT_EQ(node.pull(1), Code::kInvalid) << bytes;
    std::swap(other, node.format);
  }
  EXPECT_EQ(node.pull(1), Code::kOk);
  node.expect_at_rest();
}

// Goal: what lies on a failed target is a miss, and may be written again elsewhere.
TEST(Shard, BlocksOfAFailedTargetAreMissesAndMayBeWrittenAgain) {
  Node node({});
  for (uint32_t n = 0; n < 20; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
  node.stop();
  node.boot();
  node.devices[0]->vanish();
  for (uint32_t n = 0; n < 20; ++n)
    (void)node.pull(n);
  node.run_for(5 * kSecond);
  ASSERT_EQ(node.metric("varve_target_ok_shards", "target=\"0\""), 0);
  uint32_t missed = 0;
  for (uint32_t n = 0; n < 20; ++n) {
    if (node.pull(n) == Code::kOk) continue;
    ++missed;
    EXPECT_FALSE(node.has(n)) << "match says hit, pull cannot";
    EXPECT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
    EXPECT_EQ(node.target_of(n), 1u);
    EXPECT_EQ(node.pull(n), Code::kOk);
  }
  EXPECT_GT(missed, 0u);
  EXPECT_GE(node.metric("varve_lost_blocks_total", "reason=\"target_lost\""), missed);
  node.expect_at_rest();
}

// Goal: who asked for durable and was told "exists" finds the block after a power cut.
TEST(Shard, ExistsIsAsDurableAsWasAsked) {
  Node node({});
  for (uint32_t n = 0; n < 6; ++n) {
    ASSERT_TRUE(node.push(n, wire::AckKind::kCached).ok());
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
  }
  node.kill();
  node.boot();
  for (uint32_t n = 0; n < 6; ++n)
    EXPECT_TRUE(node.has(n)) << n;
}

// Goal: a target that takes no request stops nobody's pushes and pulls of the other one.
// Goal: whoever waits for the reads of a stuck target hears of its end when it fails, also those
// that stand in no queue because its share of reads is full.
TEST(Shard, PullsThatWaitForAStuckTargetEndWhenItFails) {
  NodeOptions options;
  options.arena_bytes = 16 * kMiB;
  Node node(options);
  std::vector<uint32_t> stuck;
  for (uint32_t n = 0; n < 40; ++n) {
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
    if (node.target_of(n) == 0) stuck.push_back(n);
  }
  node.stop();
  node.boot();
  node.devices[0]->stuck_set(true);
  std::vector<std::unique_ptr<Node::Parked>> parked;
  for (uint32_t i = 0; i < 12; ++i)
    parked.push_back(node.park(stuck[i % stuck.size()]));
  node.run_for(12 * kSecond);  // io_ns_max is 10 s
  EXPECT_EQ(node.metric("varve_target_ok_shards", "target=\"0\""), 0);
  for (const auto& pull : parked) {
    EXPECT_TRUE(pull->back);
    EXPECT_EQ(static_cast<Code>(pull->code), Code::kUnavailable);
  }
}

TEST(Shard, OneStuckTargetLeavesTheOtherItsPushesAndPulls) {
  NodeOptions options;
  options.arena_bytes = 16 * kMiB;
  Node node(options);
  std::vector<uint32_t> stuck, others;
  for (uint32_t n = 0; n < 40; ++n) {
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
    (node.target_of(n) == 0 ? stuck : others).push_back(n);
  }
  node.stop();
  node.boot();
  node.devices[0]->stuck_set(true);
  const Nanos began_ns = node.clock.now_ns();
  std::vector<std::unique_ptr<Node::Parked>> parked;
  for (uint32_t i = 0; i < 12; ++i)  // fewer than all pulls, more pages than half of the budget
    parked.push_back(node.park(stuck[i % stuck.size()]));
  for (uint32_t n = 100; n < 200; ++n) {
    EXPECT_TRUE(node.push(n, wire::AckKind::kCached).ok()) << n;
    node.run_for(10 * kMillisecond);  // time for its write, where it can be written
  }
  for (const uint32_t n : others)
    EXPECT_EQ(node.pull(n), Code::kOk) << n;
  EXPECT_LT(node.clock.now_ns() - began_ns, 8 * kSecond) << "before the target counts as failed";
  EXPECT_EQ(node.metric("varve_target_ok_shards", "target=\"0\""), 1);
  node.devices[0]->stuck_set(false);
  EXPECT_TRUE(node.run_until([&] {
    for (const auto& pull : parked) {
      if (!pull->back) return false;
    }
    return true;
  }));
  for (const auto& pull : parked)
    EXPECT_EQ(pull->code, 0);
  node.expect_at_rest();
}

TEST(Shard, ReportsItsIndexAndItsTargets) {
  Node node({});
  EXPECT_TRUE(node.push(1, wire::AckKind::kDurable).ok());
  EXPECT_EQ(node.metric("varve_index_blocks"), 1);
  EXPECT_EQ(node.metric("varve_index_thin_blocks"), 0);
  EXPECT_GT(node.metric("varve_target_capacity_bytes", "target=\"0\""), int64_t{32} << 20);
  EXPECT_EQ(node.metric("varve_push_committed_total", "ack=\"durable\""), 1);
  EXPECT_EQ(node.metric("varve_recovering"), 0);
}

TEST(Shard, RefusesSettingsThatCannotWorkByName) {
  ManualClock clock;
  SeededEntropy entropy(1);
  NoFabric fabric;
  Env env{clock, entropy, fabric};
  Reactor reactor(clock, nullptr, {});
  std::vector<std::byte> memory(2 * kPageBytes);
  std::byte* base = memory.data();
  base += (kPageBytes - reinterpret_cast<uintptr_t>(base) % kPageBytes) % kPageBytes;
  const ByteSpan arena(base, kPageBytes);
  MemoryPlatter platter(32 * kMiB);
  const std::byte uuid[16] = {};
  flash::TargetOptions target;
  target.geometry = {.slices = 4, .segment_pages = 256};
  flash::TargetInfo info = *flash::prepare_platter(platter, target, uuid, entropy);
  const auto refused = [&](const ShardOptions& options, bool with_target) {
    std::vector<flash::TargetInfo> targets;
    std::vector<std::unique_ptr<BlockDevice>> devices;
    if (with_target) {
      targets.push_back(info);
      devices.push_back(make_memory_device(reactor, platter, {}));
    }
    auto shard = Shard::open(env, reactor, arena, targets, std::move(devices), options);
    return shard.has_value() ? Code::kOk : shard.error().code();
  };
  ShardOptions good;
  good.tier.blocks_max = 4;
  EXPECT_EQ(refused(good, true), Code::kOk);
  EXPECT_EQ(refused(good, false), Code::kInvalid);
  ShardOptions options = good;
  options.shards = 5;
  EXPECT_EQ(refused(options, true), Code::kInvalid) << "more shards than slices";
  options = good;
  options.tier.limit_bytes[0] = 2 * kPageBytes;
  EXPECT_EQ(refused(options, true), Code::kInvalid) << "budgets beyond the arena";
  options = good;
  options.scheme = {2, 1};
  EXPECT_EQ(refused(options, true), Code::kInvalid) << "a target of another scheme";
  info.super.k = 2;
  info.super.m = 1;
  EXPECT_EQ(refused(options, true), Code::kInvalid) << "one target for blocks of two";
}

// Goal: one bad sector costs one block, not its drive.
TEST(Shard, OneBadSectorDoesNotFailItsTarget) {
  NodeOptions options;
  options.targets = 1;
  Node node(options);
  for (uint32_t n = 0; n < 20; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
  node.stop();
  node.boot();
  const flash::Place place = node.place_of(1);
  std::vector<std::byte> raw(2 * kPageBytes);
  std::byte* page = raw.data();
  page += (kPageBytes - reinterpret_cast<uintptr_t>(page) % kPageBytes) % kPageBytes;
  ASSERT_TRUE(node.devices[0]->read_now(0, {page, kPageBytes}).ok());
  const auto super = load<flash::Superblock>(ConstByteSpan(page, kPageBytes));
  const uint64_t slice_pages =  // FORMAT 3: two checkpoint areas, then the segments
      2ull * super.checkpoint_pages + uint64_t{super.segments_per_slice} * super.segment_pages;
  const uint64_t at =
      bytes_of(flash::kHeadPages + place.slice * slice_pages + 2ull * super.checkpoint_pages +
               uint64_t{place.segment} * super.segment_pages + place.page);
  node.devices[0]->sector_error_set(at, kPageBytes);
  uint32_t hits = 0;
  for (uint32_t i = 0; i < 10; ++i) {
    hits += node.has(1) ? 1 : 0;
    EXPECT_NE(node.pull(1), Code::kOk);
  }
  EXPECT_LE(hits, 2u) << "a block that cannot be read stays a hit";
  EXPECT_EQ(node.reserve(1).outcome, wire::ReserveOutcome::kGranted) << "and is never written anew";
  EXPECT_EQ(node.metric("varve_target_ok_shards", "target=\"0\""), 1);
  EXPECT_EQ(node.pull(2), Code::kOk);
}

}  // namespace
}  // namespace varve
