// The raw clients of the session tests, and the world that turns everything.
#include "tests/server/session/session_world.h"

#include <algorithm>
#include <cstring>

namespace varve::test {

namespace {

LayerSpec layer(uint32_t bytes) {
  return {LayerKind::kFull, bytes};
}

}  // namespace

Format small_format() {
  Format format;
  format.model.bytes[0] = std::byte{1};
  format.lineage = "test";
  format.ranks = {{layer(300 * 1024 + 100), layer(80 * 1024), layer(70 * 1024), layer(65 * 1024)}};
  return format;
}

Format two_rank_format() {
  Format format = small_format();
  format.ranks.push_back(format.ranks[0]);
  return format;
}

BaseId id_of(uint32_t number) {
  return Sha256().update(bytes_view(number)).finish();
}

std::vector<BaseId> ids_of(uint32_t count, uint32_t first) {
  std::vector<BaseId> ids;
  for (uint32_t i = 0; i < count; ++i)
    ids.push_back(id_of(first + i));
  return ids;
}

std::vector<std::byte> bytes_of_extent(const BlockId& block, uint32_t extent, uint32_t bytes) {
  std::vector<std::byte> out(bytes);
  Random random(block.base.prefix64() + block.rank * 7919 + extent);
  for (size_t i = 0; i < out.size(); i += 8) {
    const uint64_t word = random.next();
    std::memcpy(out.data() + i, &word, std::min<size_t>(8, out.size() - i));
  }
  return out;
}

// ---- ClientLane

ClientLane::ClientLane(World&, std::unique_ptr<Link> link) : link_(std::move(link)) {
  link_->start(*this);
}

ClientLane::~ClientLane() = default;

void ClientLane::send(ConstByteSpan head, ConstByteSpan payload) {
  auto out = std::make_unique<Out>();
  out->payload.assign(payload.begin(), payload.end());
  out->request.head = head;
  if (!payload.empty()) {
    out->request.payload[0] = {out->payload.data(), out->payload.size()};
    out->request.payload_count = 1;
  }
  link_->send(out->request);
  out_.push_back(std::move(out));
}

Status ClientLane::place(ConstByteSpan, uint32_t payload_bytes, Placement& where) {
  incoming_.assign(payload_bytes, std::byte{0});
  where.add(incoming_.data(), incoming_.size());
  return {};
}

void ClientLane::on_message(ConstByteSpan head, uint32_t payload_bytes) {
  Got message;
  message.head.assign(head.begin(), head.end());
  if (payload_bytes > 0) message.payload = incoming_;
  got.push_back(std::move(message));
}

void ClientLane::on_closed(Status cause) {
  closed_ = true;
  cause_ = cause;
}

const Got* ClientLane::find(wire::FrameType type) const {
  for (const Got& message : got) {
    if (message.frame().header.type == type) return &message;
  }
  return nullptr;
}

uint32_t ClientLane::count(wire::FrameType type) const {
  uint32_t n = 0;
  for (const Got& message : got)
    n += message.frame().header.type == type ? 1 : 0;
  return n;
}

// ---- TestClient

wire::Hello TestClient::hello(uint64_t credit_bytes) {
  wire::Hello body;
  body.pull_credit_bytes = credit_bytes;
  return body;
}

TestClient::TestClient(World& owner, uint32_t bulk_lanes, uint64_t credit_bytes,
                       const std::string& token, uint64_t features)
    : world(owner), format(small_format()), token_(token), buffer_(kHeadBytesMax) {
  urgent = std::make_unique<ClientLane>(world, world.connect());
  wire::Hello greeting = hello(credit_bytes);
  greeting.features = features;
  urgent->send(encoder().hello(next_op, greeting, token_bytes(), "test"));
  const wire::HelloOkView view = wait<wire::HelloOkView>(next_op++);
  welcome = view.body;
  for (uint32_t i = 0; i < bulk_lanes; ++i)
    connect_bulk(i);
}

TestClient::~TestClient() {
  for (ClientLane* lane :
       {urgent.get(), bulk[0].get(), bulk[1].get(), bulk[2].get(), bulk[3].get()}) {
    if (lane != nullptr && !lane->closed()) lane->close();
  }
  EXPECT_TRUE(world.run_until([this] {
    bool closed = urgent == nullptr || urgent->closed();
    for (const auto& lane : bulk)
      closed = closed && (lane == nullptr || lane->closed());
    return closed;
  }));
}

void TestClient::connect_bulk(uint32_t index) {
  bulk[index] = std::make_unique<ClientLane>(world, world.connect());
  wire::Hello body;
  body.lane = wire::LaneKind::kBulk;
  body.lane_index = static_cast<uint8_t>(index);
  body.session = welcome.session;
  body.session_secret = welcome.session_secret;
  bulk[index]->send(encoder().hello(next_op++, body, token_bytes(), "test"));
  ClientLane& lane = *bulk[index];
  EXPECT_TRUE(world.run_until([&lane] { return !lane.got.empty() || lane.closed(); }));
  EXPECT_NE(lane.find(wire::FrameType::kHelloOk), nullptr);
  lane.got.clear();
}

const Got* TestClient::answer(uint64_t op) const {
  for (const Got& message : urgent->got) {
    const auto header = load<wire::FrameHeader>(message.head);
    if (header.op == op && header.type != wire::FrameType::kLost) return &message;
  }
  return nullptr;
}

const Got* TestClient::wait_got(uint64_t op) {
  world.run_until([this, op] { return answer(op) != nullptr || urgent->closed(); });
  return answer(op);
}

uint32_t TestClient::register_format(const Format& wanted) {
  format = wanted;
  const uint64_t op = next_op++;
  urgent->send(encoder().format(op, wanted.encode()));
  const wire::FormatOkView view = wait<wire::FormatOkView>(op);
  EXPECT_EQ(view.body.code, 0);
  EXPECT_EQ(view.body.fingerprint, wanted.fingerprint());
  return view.body.format;
}

uint64_t TestClient::match(uint32_t handle, const std::vector<BaseId>& ids, uint32_t lease_ms) {
  wire::Match body;
  body.format = handle;
  body.lease_ms = lease_ms;
  body.count = static_cast<uint32_t>(ids.size());
  urgent->send(encoder().match(next_op, body, ids));
  return next_op++;
}

uint64_t TestClient::match_each(uint32_t handle, const std::vector<BaseId>& ids) {
  wire::Match body;
  body.format = handle;
  body.of = wire::MatchOf::kEach;
  urgent->send(encoder().match(next_op, body, ids));
  return next_op++;
}

uint64_t TestClient::reserve(uint32_t handle, const std::vector<BaseId>& ids, uint32_t hold_ms,
                             uint32_t rank) {
  wire::Reserve body;
  body.format = handle;
  body.rank = rank;
  body.epoch = welcome.epoch;
  body.hold_ms = hold_ms;
  body.count = static_cast<uint32_t>(ids.size());
  urgent->send(encoder().reserve(next_op, body, ids));
  return next_op++;
}

uint64_t TestClient::pull(uint32_t handle, const std::vector<BaseId>& ids, uint64_t lease,
                          Nanos deadline_ns, Nanos slack_ns) {
  wire::Pull body;
  body.format = handle;
  body.lease = lease;
  body.boot_id = lease == 0 ? 0 : welcome.boot_id;
  body.deadline_ns = deadline_ns;
  body.slack_ns = slack_ns;
  body.layer_count = static_cast<uint32_t>(format.ranks[0].size());
  body.count = static_cast<uint32_t>(ids.size());
  urgent->send(encoder().pull(next_op, body, ids));
  return next_op++;
}

uint64_t TestClient::pull_wants(uint32_t handle, const std::vector<BaseId>& ids,
                                const std::vector<wire::Want>& wants) {
  wire::Pull body;
  body.format = handle;
  body.deadline_ns = 10 * kSecond;
  body.count = static_cast<uint32_t>(ids.size());
  urgent->send(encoder().pull(next_op, body, ids, wants));
  return next_op++;
}

uint64_t TestClient::follow(uint32_t handle, const std::vector<BaseId>& ids,
                            const std::vector<Attempt>& attempts, Nanos deadline_ns) {
  wire::Follow body;
  body.format = handle;
  body.deadline_ns = deadline_ns;
  body.layer_count = static_cast<uint32_t>(format.ranks[0].size());
  body.count = static_cast<uint32_t>(ids.size());
  std::vector<wire::FollowBlock> blocks;
  for (size_t i = 0; i < ids.size(); ++i)
    blocks.push_back({ids[i], attempts[i]});
  urgent->send(encoder().follow(next_op, body, blocks));
  return next_op++;
}

uint64_t TestClient::cancel(uint64_t target) {
  return cancel_extent(target, wire::kWhole, wire::kWhole);
}

uint64_t TestClient::cancel_extent(uint64_t target, uint32_t block, uint32_t extent) {
  urgent->send(encoder().cancel(next_op, wire::Cancel{target, block, extent}));
  return next_op++;
}

void TestClient::credit(uint64_t bytes) {
  urgent->send(encoder().credit(next_op++, wire::Credit{bytes}));
}

ExtentTable TestClient::table(uint32_t rank) const {
  return *ExtentTable::of(format.ranks[rank], Scheme{.k = welcome.k, .m = welcome.m});
}

std::vector<ExtentEntry> TestClient::entries(const BlockId& block, const Attempt& attempt) const {
  const ExtentTable whole = table(block.rank);
  std::vector<ExtentEntry> out;
  for (uint32_t e = 0; e < whole.count(); ++e) {
    const auto bytes = bytes_of_extent(block, e, whole.bytes_at(e));
    const ChecksumSeed seed = checksum_seed(block, e, attempt);
    ExtentEntry entry;
    entry.stored_bytes = whole.bytes_at(e);
    entry.decoded_bytes = entry.stored_bytes;
    entry.stripe = static_cast<uint16_t>(whole.stripe_at(e));
    entry.stored_crc = crc32c(seed.stored, bytes);
    entry.decoded_xxh3 = xxh3(seed.decoded, bytes);
    out.push_back(entry);
  }
  return out;
}

void TestClient::send_piece(const wire::Extent& body, ConstByteSpan payload, uint32_t lane) {
  bulk[lane]->send(encoder().extent(next_op++, body), payload);
}

void TestClient::send_extents(uint64_t reserve_op, uint32_t index, const BlockId& block,
                              const Attempt& attempt, const PushShape& shape) {
  const std::vector<ExtentEntry> rows = entries(block, attempt);
  for (uint32_t e = 0; e < rows.size(); ++e) {
    if (e == shape.skip_extent) continue;
    auto bytes = bytes_of_extent(block, e, rows[e].stored_bytes);
    if (shape.spoil && e == 0) bytes[5] ^= std::byte{1};
    for (uint32_t offset = 0; offset < bytes.size(); offset += shape.piece_bytes) {
      const size_t piece = std::min<size_t>(shape.piece_bytes, bytes.size() - offset);
      wire::Extent body;
      body.reserve_op = reserve_op;
      body.index = index;
      body.extent = e;
      body.offset = offset;
      body.extent_bytes = rows[e].stored_bytes;
      body.stored_crc = rows[e].stored_crc;
      body.attempt = attempt;
      send_piece(body, std::span(bytes).subspan(offset, piece), shape.lane);
    }
  }
}

uint64_t TestClient::commit(uint64_t reserve_op, uint32_t index, const BlockId& block,
                            const Attempt& attempt, int32_t lane, wire::AckKind ack) {
  wire::Commit body;
  body.reserve_op = reserve_op;
  body.epoch = welcome.epoch;
  body.index = index;
  body.ack = ack;
  body.attempt = attempt;
  const std::vector<ExtentEntry> rows = entries(block, attempt);
  body.count = static_cast<uint32_t>(rows.size());
  ClientLane& on = lane < 0 ? *urgent : *bulk[lane];
  on.send(encoder().commit(next_op, body, rows));
  return next_op++;
}

uint64_t TestClient::abort(uint64_t reserve_op, uint32_t index, const Attempt& attempt,
                           int32_t lane) {
  wire::Abort body;
  body.reserve_op = reserve_op;
  body.index = index;
  body.attempt = attempt;
  ClientLane& on = lane < 0 ? *urgent : *bulk[lane];
  on.send(encoder().abort(next_op, body));
  return next_op++;
}

// ---- World

World::World(uint32_t shards, SessionOptions options, SimFabricOptions fabric_options,
             const LinkOptions& server_link)
    : fabric(3, fabric_options), reactor(clock, nullptr, {}), client_reactor(clock, nullptr, {}) {
  if (options.boot_id == 0) options.boot_id = 77;
  std::vector<Shard*> pointers;
  for (uint32_t s = 0; s < shards; ++s) {
    homes.push_back(std::make_unique<FakeHome>(*this, s));
    pointers.push_back(homes.back().get());
  }
  table = std::move(*SessionTable::open(env, reactor, pointers, options));
  table->register_metrics(metrics);
  EXPECT_TRUE(table->listen("server", server_link).ok());
}

// What a test left open ends here, and nothing may be left of it.
World::~World() {
  for (const auto& home : homes) {
    home->send_slowly = false;
    home->release_held();
  }
  table->close_all(Status::unavailable("the test is over"));
  EXPECT_TRUE(settle());
  table.reset();
}

std::unique_ptr<Link> World::connect() {
  return std::move(*fabric.connect(client_reactor, "server", {}));
}

bool World::step(Nanos end_ns) {
  bool moved = false;
  for (Reactor* turning : {&reactor, &client_reactor})
    moved = turning->turn() || moved;
  for (const auto& home : homes)
    moved = home->reactor().turn() || moved;
  if (moved) return true;
  Nanos next_ns = std::min(reactor.next_work_ns(), client_reactor.next_work_ns());
  for (const auto& home : homes)
    next_ns = std::min(next_ns, home->reactor().next_work_ns());
  if (next_ns > end_ns) {
    clock.advance_to(end_ns);
    return false;
  }
  clock.advance_to(std::max(next_ns, clock.now_ns()));
  return true;
}

void World::run_for(Nanos duration_ns) {
  const Nanos end_ns = clock.now_ns() + duration_ns;
  while (step(end_ns)) {
  }
}

bool World::at_rest() const {
  if (!table->at_rest()) return false;
  return std::all_of(homes.begin(), homes.end(), [](const auto& home) { return home->at_rest(); });
}

int64_t World::metric(const std::string& name, const std::string& labels) {
  return metrics.snapshot().number(name, labels);
}

uint64_t World::requests_timed(const std::string& kind) {
  for (const MetricSnapshot::Value& value : metrics.snapshot().values) {
    const bool is_time = value.name.name == "varve_session_request_seconds";
    if (is_time && value.name.labels == "kind=\"" + kind + "\"") return value.histogram.count();
  }
  ADD_FAILURE() << "requests of kind " << kind << " have no time";
  return 0;
}

}  // namespace varve::test
