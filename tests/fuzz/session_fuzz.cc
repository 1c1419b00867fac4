// session_fuzz: any bytes as a script of what a client says on its lanes, into a SessionTable over
// the simulated fabric. Frames are raw, or well formed of a few small values. The home finds every
// id that ends in an odd byte, grants no write, and of a pull says LOST before it fails it; each
// answer comes in a later turn.
// Findings: a crash, an assert, a session, lane or part that is left when the client is gone (N1,
// N3).
#include <cstdlib>
#include <memory>
#include <vector>

#include "server/session/session.h"
#include "tests/doubles/sim_fabric.h"

namespace varve {
namespace {

constexpr uint32_t kFramesMax = 64;

void require(bool ok) {
  if (!ok) std::abort();
}

// Owns nothing: what it promises costs it nothing.
class EmptyHome final : public Shard {
 public:
  explicit EmptyHome(const Clock& clock) : reactor_(clock, nullptr, ReactorOptions{1}) {}
  void start() override {}
  void submit(Part& part) override {
    part.home = this;
    part.message.owner = &part;
    part.message.deliver = [](Message& message) { answer(*static_cast<Part*>(message.owner)); };
    reactor_.post(part.message);
  }
  void drain() override {}
  bool drained() const override { return true; }
  bool recovering() const override { return false; }
  MetricSnapshot metrics() const override { return {}; }
  Reactor& reactor() override { return reactor_; }
  Index& index() override { std::abort(); }
  DramTier& tier() override { std::abort(); }
  flash::Flash& flash() override { std::abort(); }
  bool at_rest() const override { return true; }

 private:
  // Of one pull: it waits for its note, as those of any home do.
  struct Loss {
    LostNote note;
    PullPart* part = nullptr;
  };
  static void back(Part& part) {
    part.message.owner = &part;
    part.message.deliver = [](Message& message) {
      auto& over = *static_cast<Part*>(message.owner);
      over.on_back(over);
    };
    part.session_reactor->post(part.message);
  }
  static void answer(Part& part) {
    if (part.kind == Part::Kind::kMatch) match(static_cast<MatchPart&>(part));
    if (part.kind == Part::Kind::kReserve) part.status = Status::overloaded("an empty home");
    if (part.kind == Part::Kind::kPull) {
      return static_cast<EmptyHome*>(part.home)->pull(static_cast<PullPart&>(part));
    }
    back(part);
  }
  static void match(MatchPart& part) {
    part.lease = 0;
    for (uint32_t i = part.begin; i < part.end; ++i) {
      const uint16_t position = part.request->positions[i];
      const bool odd = (part.request->ids[position].bytes.back() & std::byte{1}) != std::byte{0};
      part.tiers[position] = odd ? wire::TierKind::kDram : wire::TierKind::kNone;
      if (odd && i == part.begin && part.lease_ms > 0) part.lease = 9;
    }
  }
  void pull(PullPart& part) {
    losses_.push_back(std::make_unique<Loss>());
    Loss& loss = *losses_.back();
    loss.part = &part;
    loss.note.part = &part;
    loss.note.owner = &loss;
    loss.note.lost.block = part.request->positions[part.begin];
    loss.note.lost.extent = part.extent_first;
    if (part.want_count > 0) {
      loss.note.lost.block = part.wants[0].block;
      loss.note.lost.extent = part.wants[0].extent;
    }
    loss.note.lost.code = static_cast<uint8_t>(Code::kIo);
    loss.note.lost.entry.stored_bytes = loss.note.lost.entry.decoded_bytes = 500;
    loss.note.back = [](Message& message) {
      auto& over = *static_cast<Loss*>(static_cast<LostNote*>(message.owner)->owner);
      over.part->status = Status::overloaded("an empty home");
      back(*over.part);
    };
    loss.note.message.owner = &loss.note;
    loss.note.message.deliver = part.deliver_lost;
    part.session_reactor->post(loss.note.message);
  }
  std::vector<std::unique_ptr<Loss>> losses_;
  Reactor reactor_;
};

class FuzzLane final : public LinkUser {
 public:
  explicit FuzzLane(std::unique_ptr<Link> link) : link_(std::move(link)) { link_->start(*this); }
  void send(ConstByteSpan head, ConstByteSpan payload) {
    if (closed || link_->closing() || !link_->can_send(static_cast<uint32_t>(payload.size())))
      return;
    sends_.push_back(std::make_unique<SendRequest>());
    SendRequest& request = *sends_.back();
    request.head = head;
    if (!payload.empty()) {
      request.payload[0] = {const_cast<std::byte*>(payload.data()), payload.size()};
      request.payload_count = 1;
    }
    link_->send(request);
  }
  void close() {
    if (!closed && !link_->closing()) link_->close(Status::cancelled("the script is over"));
  }
  Status place(ConstByteSpan, uint32_t, Placement&) override { return {}; }
  void on_message(ConstByteSpan head, uint32_t) override {
    const Result<wire::Frame> frame = wire::decode(head);
    require(frame.has_value());  // what the server says is well formed (W1)
    if (const auto* ok = std::get_if<wire::HelloOkView>(&frame->body)) welcome = ok->body;
  }
  void on_closed(Status) override { closed = true; }
  bool closed = false;
  wire::HelloOk welcome;

 private:
  std::unique_ptr<Link> link_;
  std::vector<std::unique_ptr<SendRequest>> sends_;
};

class Run {
 public:
  Run(const uint8_t* data, size_t size) : rest_(std::as_bytes(std::span(data, size))) {}
  void go();

 private:
  uint8_t u8() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<uint8_t>(rest_[0]);
    rest_ = rest_.subspan(1);
    return value;
  }
  ConstByteSpan take(size_t bytes) {
    const ConstByteSpan out = rest_.first(std::min(bytes, rest_.size()));
    rest_ = rest_.subspan(out.size());
    return out;
  }
  std::unique_ptr<FuzzLane> knock(wire::Hello hello);
  BaseId id();
  ConstByteSpan well_formed(uint8_t what, uint64_t op);
  void say();
  void turn(uint32_t count);
  bool over() const { return table_->at_rest() && lanes_[0]->closed && lanes_[1]->closed; }

  ConstByteSpan rest_;
  ManualClock clock_;
  SimFabric fabric_{1};
  SeededEntropy entropy_{1};
  Env env_{clock_, entropy_, fabric_};
  Reactor server_{clock_, nullptr, ReactorOptions{}};
  Reactor client_{clock_, nullptr, ReactorOptions{}};
  EmptyHome home_{clock_};
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kHeadBytesMax);
  std::vector<std::byte> payload_ = std::vector<std::byte>(64 * kKiB);
  std::unique_ptr<SessionTable> table_;
  std::unique_ptr<FuzzLane> lanes_[2];  // urgent, bulk
};

void Run::turn(uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    for (Reactor* reactor : {&server_, &client_, &home_.reactor()})
      reactor->turn();
    clock_.advance_by(100 * kMicrosecond);
  }
}

std::unique_ptr<FuzzLane> Run::knock(wire::Hello hello) {
  auto lane = std::make_unique<FuzzLane>(std::move(*fabric_.connect(client_, "server", {})));
  lane->send(wire::Encoder(buffer_).hello(1, hello, {}, "fuzz"), {});
  turn(20);
  return lane;
}

BaseId Run::id() {
  BaseId id;
  id.bytes.fill(std::byte{u8()});
  return id;
}

// What raw bytes seldom become: frames whose arrays fit.
ConstByteSpan Run::well_formed(uint8_t what, uint64_t op) {
  wire::Encoder encoder(buffer_);
  const uint32_t count = 1 + u8() % 4;
  std::vector<BaseId> ids(count);
  for (BaseId& one : ids)
    one = id();
  std::vector<wire::Want> wants;
  std::vector<wire::FollowBlock> blocks;
  for (uint32_t i = 0; i < count; ++i) {
    wants.push_back({u8() % 5u, u8() % 4u});
    blocks.push_back({ids[i], Attempt{u8() % 4u, 0, 1u + u8()}});
  }
  switch (what % 8) {
    case 0:
      if (what >= 128) {
        return encoder.match(
            op, {.format = 1, .count = count, .lease_ms = 0, .of = wire::MatchOf::kEach}, ids);
      }
      return encoder.match(op, {.format = 1, .count = count, .lease_ms = u8() * 10u}, ids);
    case 1:
      return encoder.renew(op, {.lease = 1 + u8() % 4u, .lease_ms = 1 + u8() * 10u});
    case 2:
      return encoder.release(op, {1 + u8() % 4u});
    case 3:
      return encoder.holds(op, {u8() % 8u});
    case 4:
      return encoder.follow(op,
                            {.format = 1,
                             .rank = u8() % 2u,
                             .deadline_ns = 1 + u8() * kMillisecond,
                             .layer_count = 1 + u8() % 3u,
                             .count = count},
                            blocks);
    case 5: {
      const auto kind = static_cast<wire::PurgeKind>(1 + u8() % 3);
      const bool of_blocks = kind == wire::PurgeKind::kBlocks;
      const wire::Purge body{.kind = kind,
                             .format = kind == wire::PurgeKind::kLineage ? 1u + u8() % 2u : 0u,
                             .count = of_blocks ? count : 0};
      return encoder.purge(op, body, std::span(ids).first(body.count));
    }
    case 6: {
      const bool leased = u8() % 2 != 0;
      return encoder.pull(op,
                          {.format = 1,
                           .lease = leased ? 1 + u8() % 4u : 0,
                           .boot_id = leased ? 7u : 0u,
                           .deadline_ns = 1 + u8() * kMillisecond,
                           .count = count,
                           .want_count = count},
                          ids, wants);
    }
    default: {
      const uint64_t target = u8() % 8;
      if (u8() % 4 == 0) return encoder.cancel(op, {target});
      return encoder.cancel(op, {target, u8() % 5u, u8() % 4u});
    }
  }
}

// lane, type, op, length of the body; the header fits it. Type 0: the bytes are the whole head; 100
// to 199: a well-formed one.
void Run::say() {
  FuzzLane& lane = *lanes_[u8() % 2];
  const uint8_t type = u8();
  wire::FrameHeader header;
  header.type = static_cast<wire::FrameType>(type % 34);
  header.op = u8();
  if (type >= 100 && type < 200) {
    lane.send(well_formed(type, header.op), {});
    return turn(u8() % 8);
  }
  const ConstByteSpan body = take(uint32_t{u8()} * 2);
  header.body_bytes = static_cast<uint32_t>(body.size());
  std::vector<std::byte> head(type == 0 ? 0 : sizeof(header));
  if (type != 0) store(head, 0, header);
  head.insert(head.end(), body.begin(), body.end());
  if (head.empty()) return;
  const bool loaded = header.type == wire::FrameType::kExtent || type > 200;
  lane.send(head, loaded ? ConstByteSpan(payload_).first(1 + u8() * 200u) : ConstByteSpan());
  turn(u8() % 8);
}

void Run::go() {
  SessionOptions options;
  options.boot_id = 7;
  options.sessions_max = 2;
  options.lanes_unnamed_max = 4;
  options.formats_max = 4;
  options.matches_sum_max = options.reserves_sum_max = options.pulls_sum_max = 4;
  options.grants_sum_max = options.leases_sum_max = 4;
  table_ = std::move(*SessionTable::open(env_, server_, {&home_}, options));
  require(table_->listen("server", {}).ok());
  wire::Hello hello;
  hello.pull_credit_bytes = 8 * kMiB;
  lanes_[0] = knock(hello);
  require(lanes_[0]->welcome.session != 0);
  wire::Hello bulk;
  bulk.lane = wire::LaneKind::kBulk;
  bulk.session = lanes_[0]->welcome.session;
  bulk.session_secret = lanes_[0]->welcome.session_secret;
  lanes_[1] = knock(bulk);
  // A format with the handle 1, so that what follows may name it.
  Format format;
  format.model.bytes[0] = std::byte{7};
  format.lineage = "fuzz";
  format.tokens_per_block = 16;
  format.ranks.push_back({{LayerKind::kFull, 500}, {LayerKind::kFull, 66000}});
  const std::vector<std::byte> canonical = format.encode();
  lanes_[0]->send(wire::Encoder(buffer_).format(2, canonical), {});
  turn(10);
  for (uint32_t i = 0; i < kFramesMax && !rest_.empty(); ++i)
    say();
  for (const auto& lane : lanes_)
    lane->close();
  for (uint32_t i = 0; i < 2000 && !over(); ++i)
    turn(10);
  require(over());
  table_.reset();
}

}  // namespace
}  // namespace varve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  varve::log_level_set(varve::LogLevel::kError);  // a session is a line otherwise
  varve::Run(data, size).go();
  return 0;
}
