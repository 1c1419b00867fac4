// client_fuzz: any bytes as a script of what a daemon says and a caller does, into a ClientCore
// over the simulated fabric. Findings: a crash, an assert, an op without exactly one terminal
// event, a layer handed over with other bytes than the stored ones (C1), a touch of an op's memory
// after its terminal event (C2), a client that does not come to rest after close().
#include <cstdlib>

#include "client/varve.h"
#include "tests/doubles/scripted_daemon.h"
#include "tests/doubles/sim_fabric.h"

namespace varve {
namespace {

constexpr uint32_t kOpsMax = 5;
constexpr uint32_t kBlocks = 2;
constexpr std::byte kPoison{0xAB};
const std::vector<uint32_t> kLayerBytes = {500, 65100, 66000};  // a run and a layer of its own

void require(bool ok) {
  if (!ok) std::abort();
}

BaseId id_of(uint32_t n) {
  BaseId id;
  id.bytes[0] = static_cast<std::byte>(n);
  id.bytes[8] = std::byte{1};
  return id;
}

bool is_poisoned(const std::byte* at, size_t count) {
  return at[0] == kPoison && std::memcmp(at, at + 1, count - 1) == 0;
}

Format make_format() {
  Format format;
  format.model.bytes[0] = std::byte{7};
  format.lineage = "fuzz";
  format.tokens_per_block = 16;
  format.ranks.emplace_back();
  for (const uint32_t bytes : kLayerBytes)
    format.ranks[0].push_back({LayerKind::kFull, bytes});
  return format;
}

class Script {
 public:
  Script(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  uint8_t u8() { return empty() ? uint8_t{0} : data_[at_++]; }
  uint32_t u32() {
    const uint32_t low = u8();
    return low | uint32_t{u8()} << 8 | uint32_t{u8()} << 16 | uint32_t{u8()} << 24;
  }
  uint32_t below(uint32_t limit) { return u8() % limit; }
  // Mostly `value`, sometimes anything.
  uint32_t near(uint32_t value) { return u8() < 200 ? value : u32(); }
  ConstByteSpan bytes(size_t count) {
    count = std::min(count, size_ - std::min(at_, size_));
    const auto out = std::as_bytes(std::span(data_ + at_, count));
    at_ += count;
    return out;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

class Run {
 public:
  Run(const uint8_t* data, size_t size) : script_(data, size) {}
  void go();

 private:
  struct OpState {
    OpId op = 0;
    bool ended = false;
  };
  void step();
  void run_for(Nanos duration);
  void take(const Event& event);
  void act();
  void call_client();
  void say_frame();
  void say_data(uint64_t op);
  void say_lost(uint64_t op);
  void say_raw();
  void submit(uint32_t kind);
  void finish();
  std::byte* area(size_t op) { return memory_.data() + op * area_bytes_; }

  Script script_;
  ManualClock clock_;
  SimFabric fabric_{1};
  SeededEntropy entropy_{1};
  Env env_{clock_, entropy_, fabric_};
  Reactor client_reactor_{clock_, nullptr, ReactorOptions{}};
  Reactor daemon_reactor_{clock_, nullptr, ReactorOptions{}};
  std::unique_ptr<ScriptedDaemon> daemon_;
  std::unique_ptr<ClientCore> core_;
  Format format_ = make_format();
  ExtentTable table_;
  FormatId format_id_ = 0;
  size_t area_bytes_ = 0;
  std::vector<std::byte> memory_;
  Layout layouts_[kOpsMax];
  std::vector<OpState> ops_;
  std::vector<uint64_t> leases_;
  bool follows_ = false;      // instead of pulls
  bool lists_holds_ = false;  // instead of matches
  bool asks_each_ = false;    // by matches
};

void Run::go() {
  const uint8_t mode = script_.u8();
  follows_ = (mode & 16) != 0;
  lists_holds_ = (mode & 32) != 0;
  asks_each_ = (mode & 64) != 0;
  const Scheme scheme = (mode & 8) != 0 ? Scheme{2, 1} : Scheme{};  // one stripe, or none
  table_ = *ExtentTable::of(format_.ranks[0], scheme);
  area_bytes_ = table_.block_bytes * kBlocks;
  memory_.assign(area_bytes_ * kOpsMax, kPoison);

  ScriptedDaemon::Options daemon_options;
  daemon_options.k = scheme.k;
  daemon_options.m = scheme.m;
  daemon_options.attempts_max = 3;  // so that pushes go in windows and pulls stand in line
  daemon_options.pulls_max = 2;
  daemon_options.greet = mode != 255;
  daemon_ = std::make_unique<ScriptedDaemon>(fabric_, daemon_reactor_, daemon_options);
  static std::map<BlockId, ScriptedDaemon::Stored> stores[2];  // the same for every script
  auto& store = stores[scheme.m];
  if (store.empty()) {
    for (uint32_t n = 0; n < kBlocks; ++n)
      daemon_->put(BlockId{id_of(n), 0}, table_);
    store = daemon_->store();
  }
  daemon_->store() = store;
  // The daemon greets and registers by itself (mostly); everything else is the script's.
  daemon_->hook = [mode](const auto& received) {
    if (received.type == wire::FrameType::kHello) return false;
    return received.type != wire::FrameType::kFormat || mode > 250;
  };
  ClientOptions options;
  options.address = daemon_options.address;
  options.bulk_lanes = 1 + mode % 2;
  options.ops_max = kOpsMax;
  options.hedge_percent = 100;
  options.populate_scratch = false;
  if (mode & 4) options.link.send_messages_max = 2;
  core_ = *ClientCore::open(env_, client_reactor_, options);
  const RegionId region = *core_->register_memory(memory_.data(), memory_.size());
  format_id_ = *core_->format(format_);
  for (size_t i = 0; i < kOpsMax; ++i) {
    uint64_t at = i * area_bytes_;
    for (const uint32_t bytes : kLayerBytes) {
      LayerLayout layer;
      layer.region = region;
      layer.offset = at;
      layer.stride = bytes;
      at += uint64_t{bytes} * kBlocks;
      layouts_[i].layers.push_back(layer);
    }
  }
  while (!script_.empty())
    act();
  finish();
}

void Run::step() {
  bool did = client_reactor_.turn();
  did |= daemon_reactor_.turn();
  Event event;
  while (core_->next_event(event))
    take(event);
  if (did) return;
  const Nanos next = std::min(client_reactor_.next_work_ns(), daemon_reactor_.next_work_ns());
  const Nanos now = clock_.now_ns();
  clock_.advance_to(next == kNever ? now + kMillisecond : std::max(next, now));
}

void Run::run_for(Nanos duration) {
  const Nanos end = clock_.now_ns() + duration;
  while (clock_.now_ns() < end)
    step();
}

void Run::take(const Event& event) {
  for (size_t i = 0; i < ops_.size(); ++i) {
    OpState& state = ops_[i];
    if (state.op != event.op) continue;
    require(!state.ended);  // the terminal event is the last
    if (event.kind == Event::Kind::kLayer) {
      require(event.layer < kLayerBytes.size());
      uint64_t skipped = 0;
      for (uint32_t l = 0; l < event.layer; ++l)
        skipped += kLayerBytes[l];
      for (uint32_t b = 0; b < event.codes.size(); ++b) {
        if (event.codes[b] != Code::kOk) continue;
        std::vector<std::byte> block;
        const auto& stored = daemon_->store().at(BlockId{id_of(b), 0});
        for (const auto& extent : stored.extents) {
          block.insert(block.end(), extent.begin(), extent.end());
        }
        const uint32_t bytes = kLayerBytes[event.layer];
        const std::byte* at = area(i) + skipped * kBlocks + size_t{b} * bytes;
        require(std::memcmp(at, block.data() + skipped, bytes) == 0);
      }
      return;
    }
    if (event.kind == Event::Kind::kReserved) return;
    state.ended = true;
    if (event.kind == Event::Kind::kMatched && event.lease != 0) leases_.push_back(event.lease);
    std::memset(area(i), static_cast<int>(kPoison), area_bytes_);  // ours again
    return;
  }
  require(false);  // an event of an op that nobody began
}

void Run::act() {
  switch (script_.below(8)) {
    case 0:
      return call_client();
    case 1:
      return submit(script_.below(3));
    case 2:
      for (uint32_t i = script_.u8(); i > 0; --i)
        step();
      return;
    case 3:
      return run_for(script_.u8() * kMillisecond);
    case 4:
      return say_raw();
    default:
      return say_frame();
  }
}

void Run::submit(uint32_t kind) {
  if (ops_.size() >= kOpsMax) return;
  const size_t index = ops_.size();
  OpState state;
  std::vector<BaseId> ids;
  std::vector<uint32_t> slots;
  const uint32_t count = 1 + script_.below(kBlocks);
  for (uint32_t n = 0; n < count; ++n) {
    ids.push_back(id_of(n));
    slots.push_back(n);
  }
  const Nanos deadline = (1 + script_.u8()) * 10 * kMillisecond;
  Result<OpId> made = Status::internal("");
  if (kind == 0 && lists_holds_) {
    made = core_->holds({deadline, 0});
  } else if (kind == 1 && follows_) {
    FollowRequest request;
    request.format = format_id_;
    for (const BaseId& id : ids)
      request.blocks.push_back({id, daemon_->store().at(BlockId{id, 0}).attempt});
    request.slots = slots;
    request.layout = &layouts_[index];
    request.layer_first = script_.below(3);
    request.layer_count = script_.below(2);
    request.deadline_ns = deadline;
    made = core_->follow(request);
  } else if (kind == 0) {
    MatchRequest request;
    request.format = format_id_;
    request.ids = ids;
    request.lease_ms = script_.u8();
    if (asks_each_) {
      request.of = MatchOf::kEach;
      request.lease_ms = 0;
    }
    request.deadline_ns = deadline;
    made = core_->match(request);
  } else if (kind == 1) {
    PullRequest request;
    request.format = format_id_;
    request.ids = ids;
    request.slots = slots;
    request.layout = &layouts_[index];
    request.layer_first = script_.below(3);
    request.layer_count = script_.below(2);
    request.lease = leases_.empty() ? 0 : leases_[script_.below(2) % leases_.size()];
    request.deadline_ns = deadline;
    made = core_->pull(request);
  } else {
    PushRequest request;
    request.format = format_id_;
    request.ids = ids;
    request.slots = slots;
    request.layout = &layouts_[index];
    request.deadline_ns = deadline;
    made = core_->push(request);
  }
  require(made.has_value());
  state.op = *made;
  ops_.push_back(state);
}

void Run::call_client() {
  const uint32_t what = script_.below(5);
  if (what == 3) return daemon_->close_lane(script_.below(3));
  if (what == 4 && !leases_.empty()) {
    const uint8_t which = script_.u8();
    const uint64_t lease = leases_[which % leases_.size()];
    if (which < 128) return core_->release(lease);
    if (ops_.size() >= kOpsMax) return;
    const Result<OpId> made = core_->renew({lease, 1 + script_.u32() % 100000, kSecond, 0});
    require(made.has_value());
    ops_.push_back({*made, false});
    return;
  }
  if (ops_.empty()) return;
  const OpId op = ops_[script_.u8() % ops_.size()].op;
  if (what == 0) return core_->cancel(op);
  const uint32_t layer = script_.below(5);
  static_cast<void>(core_->push_layer(op, layer == 4 ? ClientCore::kEveryLayer : layer));
}

// A well-formed frame with mostly plausible content, for an op that is likely live.
void Run::say_frame() {
  const auto& log = daemon_->log();
  uint64_t op = script_.u8();
  if (!log.empty() && op < 200) op = log[log.size() - 1 - op % std::min<size_t>(log.size(), 8)].op;
  wire::Encoder& e = daemon_->encoder();
  const uint8_t code = script_.u8() < 160 ? 0 : static_cast<uint8_t>(script_.below(kCodeCount));
  const uint32_t count = script_.u8() < 200 ? 1 + script_.below(kBlocks) : script_.u32() % 2049;
  switch (script_.below(13)) {
    case 0: {
      wire::Matched body;
      body.code = code;
      body.lease = script_.u8();
      body.lease_ms = script_.u32();
      body.boot_id = script_.u8() < 200 ? 1 : 2;
      std::vector<wire::TierKind> tiers(count, wire::TierKind::kFlash);
      if (asks_each_ && count > 0) tiers[0] = wire::TierKind::kNone;
      return daemon_->send(0, e.matched(op, body, tiers));
    }
    case 1: {
      wire::Pulled body;
      body.code = code;
      std::vector<uint8_t> codes(count);
      for (uint32_t i = 0; i < std::min(count, 4u); ++i) {
        codes[i] =
            script_.u8() < 200 ? uint8_t{0} : static_cast<uint8_t>(script_.below(kCodeCount));
      }
      return daemon_->send(0, e.pulled(op, body, codes));
    }
    case 2: {
      wire::Reserved body;
      body.code = code;
      std::vector<wire::ReserveAnswer> answers(code == 0 ? count : 0);
      for (auto& answer : answers) {
        answer.outcome = static_cast<wire::ReserveOutcome>(1 + script_.below(4));
        if (script_.u8() < 128) answer.outcome = wire::ReserveOutcome::kGranted;
        answer.attempt = Attempt{1, 0, 1};
      }
      return daemon_->send(0, e.reserved(op, body, answers));
    }
    case 3: {
      wire::Committed body;
      body.code = code;
      body.ack = static_cast<wire::AckKind>(1 + script_.below(2));
      body.index = script_.below(4);
      body.attempt = Attempt{1, 0, script_.u8() < 200 ? 1u : 2u};
      return daemon_->send(0, e.committed(op, body));
    }
    case 4:
      return daemon_->send(0, e.fenced(op, {op}));
    case 7:
      return daemon_->send(0, e.fenced(op, {op, script_.below(kBlocks), script_.below(3)}));
    case 8:
      return say_lost(op);
    case 11: {
      wire::Renewed body;
      body.code = code;
      body.lease_ms = script_.u32();
      return daemon_->send(0, e.renewed(op, body));
    }
    case 12: {
      wire::Held body;
      body.code = code;
      body.cursor = script_.u8();
      std::vector<wire::Hold> rows(std::min(count, wire::kHoldsMax), wire::Hold{});
      const uint64_t first = script_.u8();
      for (uint64_t i = 0; i < rows.size(); ++i)
        rows[i].hold = script_.u8() < 200 ? first + i : script_.u8();
      return daemon_->send(0, e.held(op, body, rows));
    }
    case 5: {
      wire::FormatOk body;
      body.code = code;
      body.format = script_.below(3);
      if (script_.u8() < 200) body.fingerprint = format_.fingerprint();
      return daemon_->send(0, e.format_ok(op, body));
    }
    case 6:
      return daemon_->send(script_.below(2), e.ping(op, {script_.u32()}));
    default:
      return say_data(op);
  }
}

// An extent that is lost or late; mostly its row is right.
void Run::say_lost(uint64_t op) {
  const uint32_t block = script_.near(script_.below(kBlocks)) % wire::kIdsMax;
  const uint32_t extent = script_.near(script_.below(table_.count())) % kExtentsMax;
  const bool known = block < kBlocks && extent < table_.count();
  const auto state = static_cast<wire::LostState>(1 + script_.below(2));
  auto row =
      daemon_->lost_of(BlockId{id_of(known ? block : 0), 0}, block, known ? extent : 0, state);
  row.extent = extent;
  switch (script_.below(10)) {
    case 0:
      row.attempt.counter = script_.u8();
      break;
    case 1:
      row.entry.stored_bytes = 1 + script_.u32() % kExtentBytesMax;
      break;
    case 2:
      row.entry.stored_crc ^= 1;
      break;
    case 3:
      row.entry.decoded_xxh3 ^= 1;
      break;
    case 4:
      row.entry.stripe = script_.u8();
      break;
    default:
      break;
  }
  daemon_->send_lost(op, row);
}

void Run::say_data(uint64_t op) {
  const uint32_t block = script_.near(script_.below(kBlocks)) % wire::kIdsMax;
  const uint32_t extent = script_.near(script_.below(table_.count())) % kExtentsMax;
  const bool known = block < kBlocks && extent < table_.count();
  const BlockId id{id_of(known ? block : 0), 0};
  wire::Data data = daemon_->data_of(id, block, known ? extent : 0);
  data.extent = extent;
  std::vector<std::byte> payload = daemon_->store().at(id).extents[known ? extent : 0];
  switch (script_.below(8)) {
    case 0:
      data.attempt.counter = script_.u8();
      break;
    case 1:
      data.entry.stored_bytes = 1 + script_.u32() % kExtentBytesMax;
      break;
    case 2:
      data.entry.codec = script_.u8();
      break;
    case 3:
      payload[script_.u32() % payload.size()] ^= std::byte{1};
      break;
    case 4:
      payload.resize(1 + script_.u32() % kPayloadBytesMax);
      break;
    case 5: {  // a piece
      const uint32_t at = script_.u8() < 128 ? 0 : script_.u32() % data.entry.stored_bytes;
      data.offset = at;
      payload.erase(payload.begin(), payload.begin() + at);
      payload.resize(1 + script_.u32() % payload.size());
      break;
    }
    default:
      break;
  }
  data.offset = std::min(data.offset, data.entry.stored_bytes - 1);
  daemon_->send_data(1 + script_.below(2), op, data, payload);
}

// The script's own bytes as a head: mostly garbage, some of it with a sound header.
void Run::say_raw() {
  const uint32_t lane = script_.below(3);
  const uint32_t payload_bytes = script_.below(2) * script_.u8();
  const uint32_t size = 1 + script_.u8();
  std::vector<std::byte> head(script_.u8() < 128 ? sizeof(wire::FrameHeader) : 0);
  if (!head.empty()) {
    wire::FrameHeader header;
    header.type = static_cast<wire::FrameType>(script_.u8());
    header.body_bytes = size;
    header.op = script_.u8();
    store(std::span(head), 0, header);
  }
  const auto body = script_.bytes(size);
  head.insert(head.end(), body.begin(), body.end());
  if (head.empty()) return;
  daemon_->send(lane, head, std::vector<std::byte>(payload_bytes));
}

void Run::finish() {
  if (script_.u8() % 2 == 0) run_for(100 * kMillisecond);
  core_->close();
  const Nanos limit = clock_.now_ns() + 3 * kSecond;  // fence_ns_max and some
  while (!core_->at_rest()) {
    require(clock_.now_ns() < limit);
    step();
  }
  require(core_->state() == SessionState::kClosed);
  step();
  for (size_t i = 0; i < ops_.size(); ++i) {
    require(ops_[i].ended && core_->done(ops_[i].op));
    require(is_poisoned(area(i), area_bytes_));
  }
  core_.reset();
  daemon_->stop();
  while (daemon_->lanes_open() > 0) {
    daemon_reactor_.turn();
    clock_.advance_by(kMillisecond);
  }
  daemon_.reset();
}

}  // namespace
}  // namespace varve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  varve::Run(data, size).go();
  return 0;
}
