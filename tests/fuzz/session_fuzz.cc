// session_fuzz: any bytes as a script of what a client says on its lanes, into a SessionTable over
// the simulated fabric. Homes answer every part with a miss or a refusal, in a later turn.
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

// Owns nothing, knows nothing, refuses all.
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
  static void answer(Part& part) {
    const bool refuses = part.kind == Part::Kind::kReserve || part.kind == Part::Kind::kPull;
    part.status = refuses ? Status::overloaded("an empty home") : Status();
    part.message.deliver = [](Message& message) {
      auto& back = *static_cast<Part*>(message.owner);
      back.on_back(back);
    };
    part.session_reactor->post(part.message);
  }
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

// lane, type, op, length of the body; the header fits it. Type 0: the bytes are the whole head.
void Run::say() {
  FuzzLane& lane = *lanes_[u8() % 2];
  const uint8_t type = u8();
  wire::FrameHeader header;
  header.type = static_cast<wire::FrameType>(type % 28);
  header.op = u8();
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
