// ScriptedDaemon: lanes with an outbox each, and the smallest store that makes a client happy.
#include "tests/doubles/scripted_daemon.h"

#include <algorithm>

#include "common/erasure/erasure.h"

namespace varve {

// One message on its way out; payload and head are ours until on_sent.
struct ScriptedDaemon::Out {
  std::vector<std::byte> head, payload;
  SendRequest request;
  Lane* lane = nullptr;
  bool then_close = false;
};

struct ScriptedDaemon::Lane final : LinkUser {
  ScriptedDaemon* daemon = nullptr;
  std::unique_ptr<Link> link;
  bool open = true;
  bool greeted = false;
  uint32_t index = 0;
  uint64_t session = 0;
  std::vector<std::byte> incoming;
  std::deque<std::unique_ptr<Out>> waiting, sending;

  Status place(ConstByteSpan, uint32_t payload_bytes, Placement& where) override {
    incoming.resize(payload_bytes);
    where.add(incoming.data(), payload_bytes);
    return Status();
  }
  void on_message(ConstByteSpan head, uint32_t payload_bytes) override {
    auto frame = wire::decode(head);
    if (!frame) return link->close(frame.error());
    Received received;
    received.type = frame->header.type;
    received.op = frame->header.op;
    received.lane = index;
    received.session = session;
    received.head.assign(head.begin(), head.end());
    received.payload_bytes = payload_bytes;
    if (payload_bytes > 0) received.payload = incoming;
    daemon->on_frame(*this, std::move(received));
  }
  void on_closed(Status) override {
    open = false;
    waiting.clear();
    sending.clear();
    daemon->close_session(session);
  }
};

ScriptedDaemon::ScriptedDaemon(Fabric& fabric, Reactor& reactor, const Options& options)
    : options_(options), buffer_(kHeadBytesMax), encoder_(buffer_) {
  auto listener = fabric.listen(reactor, options.address, options.link);
  VARVE_ASSERT(listener.has_value());
  listener_ = std::move(*listener);
  listener_->start(*this);
}

ScriptedDaemon::~ScriptedDaemon() {
  VARVE_ASSERT(lanes_open() == 0);
}

void ScriptedDaemon::on_accepted(std::unique_ptr<Link> link) {
  auto lane = std::make_unique<Lane>();
  lane->daemon = this;
  lane->link = std::move(link);
  lanes_.push_back(std::move(lane));
  lanes_.back()->link->start(*lanes_.back());
}

std::vector<std::byte> ScriptedDaemon::content(const BlockId& id, uint32_t extent, uint32_t bytes,
                                               uint64_t salt) {
  Random random(id.base.prefix64() ^ (uint64_t{id.rank} << 32) ^ (uint64_t{extent} << 40) ^ salt);
  std::vector<std::byte> out(round_up(bytes, 8));
  for (size_t at = 0; at < out.size(); at += 8)
    varve::store(out, at, random.next());
  out.resize(bytes);
  return out;
}

void ScriptedDaemon::add_parity(Stored& stored) {
  const Scheme scheme = stored.table.scheme;
  const Coder coder(scheme);
  for (const Stripe& stripe : stored.table.stripes) {
    std::vector<std::vector<std::byte>> parity(scheme.m, std::vector<std::byte>(stripe.bytes));
    for (uint32_t at = 0; at < stripe.bytes; at += kColumnBytes) {
      std::vector<ConstByteSpan> sources(scheme.k);
      std::vector<ByteSpan> outputs;
      for (uint32_t p = 0; p < stripe.count; ++p) {
        const ConstByteSpan member = stored.extents[stripe.first + p];
        if (member.size() > at) {
          sources[p] = member.subspan(at, std::min<size_t>(kColumnBytes, member.size() - at));
        }
      }
      for (auto& bytes : parity)
        outputs.push_back(ByteSpan(bytes).subspan(at, std::min(kColumnBytes, stripe.bytes - at)));
      if (scheme.m > 0) coder.run(sources, outputs);
    }
    for (auto& bytes : parity)
      stored.extents.push_back(std::move(bytes));
  }
}

void ScriptedDaemon::put(const BlockId& id, const ExtentTable& table, uint64_t salt) {
  Stored stored;
  stored.attempt = Attempt{1, 0, ++last_attempt_};
  stored.table = table;
  for (uint32_t e = 0; e < table.extents.size(); ++e) {
    stored.extents.push_back(content(id, e, table.extents[e].bytes, salt));
  }
  add_parity(stored);
  store_[id] = std::move(stored);
}

size_t ScriptedDaemon::count(wire::FrameType type) const {
  return static_cast<size_t>(std::count_if(log_.begin(), log_.end(),
                                           [type](const Received& r) { return r.type == type; }));
}

const ScriptedDaemon::Received* ScriptedDaemon::last(wire::FrameType type) const {
  const auto found = std::find_if(log_.rbegin(), log_.rend(),
                                  [type](const Received& r) { return r.type == type; });
  return found == log_.rend() ? nullptr : &*found;
}

ScriptedDaemon::Lane* ScriptedDaemon::find_lane(uint32_t lane) const {
  for (const auto& l : lanes_) {
    if (l->open && l->greeted && l->session == session_ && l->index == lane) return l.get();
  }
  return nullptr;
}

bool ScriptedDaemon::has_lane(uint32_t lane) const {
  return find_lane(lane) != nullptr;
}

uint32_t ScriptedDaemon::lanes_open() const {
  return static_cast<uint32_t>(
      std::count_if(lanes_.begin(), lanes_.end(), [](const auto& l) { return l->open; }));
}

void ScriptedDaemon::send(uint32_t lane, ConstByteSpan head, ConstByteSpan payload) {
  Lane* l = find_lane(lane);
  if (l == nullptr) return;  // the client left meanwhile
  push_out(*l, head, payload, false);
}

void ScriptedDaemon::push_out(Lane& lane, ConstByteSpan head, ConstByteSpan payload,
                              bool then_close) {
  auto out = std::make_unique<Out>();
  out->head.assign(head.begin(), head.end());
  out->payload.assign(payload.begin(), payload.end());
  out->lane = &lane;
  out->then_close = then_close;
  out->request.head = out->head;
  if (!payload.empty()) {
    out->request.payload[0] = iovec{out->payload.data(), out->payload.size()};
    out->request.payload_count = 1;
  }
  out->request.owner = out.get();
  out->request.on_sent = [](SendRequest& r) {
    auto& sent = *static_cast<Out*>(r.owner);
    Lane& l = *sent.lane;
    const bool close = sent.then_close;
    std::erase_if(l.sending, [&r](const auto& o) { return &o->request == &r; });
    if (close && !l.link->closing()) l.link->close(Status::cancelled("refused"));
    l.daemon->pump(l);
  };
  lane.waiting.push_back(std::move(out));
  pump(lane);
}

void ScriptedDaemon::pump(Lane& lane) {
  while (!lane.waiting.empty() && lane.open && !lane.link->closing()) {
    Out& out = *lane.waiting.front();
    if (!lane.link->can_send(out.request.payload_bytes())) return;
    lane.sending.push_back(std::move(lane.waiting.front()));
    lane.waiting.pop_front();
    lane.link->send(out.request);
  }
}

ExtentEntry ScriptedDaemon::entry_of(const BlockId& id, uint32_t extent) const {
  return entry_of(id, store_.at(id), extent);
}

ExtentEntry ScriptedDaemon::entry_of(const BlockId& id, const Stored& stored, uint32_t extent) {
  const auto& bytes = stored.extents.at(extent);
  ExtentEntry entry;
  entry.stored_bytes = entry.decoded_bytes = static_cast<uint32_t>(bytes.size());
  entry.stripe = static_cast<uint16_t>(stored.table.stripe_at(extent));
  ExtentDigest digest(checksum_seed(id, extent, stored.attempt));
  digest.update(bytes);
  entry.stored_crc = digest.stored_crc();
  entry.decoded_xxh3 = digest.decoded_xxh3();
  return entry;
}

wire::Data ScriptedDaemon::data_of(const BlockId& id, uint32_t block, uint32_t extent) const {
  wire::Data data;
  data.block = block;
  data.extent = extent;
  data.attempt = store_.at(id).attempt;
  data.entry = entry_of(id, extent);
  return data;
}

wire::LostExtent ScriptedDaemon::lost_of(const BlockId& id, uint32_t block, uint32_t extent,
                                         wire::LostState state) const {
  wire::LostExtent row;
  row.block = block;
  row.extent = extent;
  row.state = state;
  row.code = static_cast<uint8_t>(state == wire::LostState::kLost ? Code::kIo : Code::kOk);
  row.attempt = store_.at(id).attempt;
  row.entry = entry_of(id, extent);
  return row;
}

void ScriptedDaemon::send_lost(uint64_t op, const wire::LostExtent& row) {
  send(0, encoder_.lost(op, {&row, 1}));
}

void ScriptedDaemon::send_extent(uint32_t lane, uint64_t op, const BlockId& id, uint32_t block,
                                 uint32_t extent) {
  send_extent(lane, op, id, store_.at(id), block, extent);
}

void ScriptedDaemon::send_extent(uint32_t lane, uint64_t op, const BlockId& id,
                                 const Stored& stored, uint32_t block, uint32_t extent) {
  wire::Data data;
  data.block = block;
  data.extent = extent;
  data.attempt = stored.attempt;
  data.entry = entry_of(id, stored, extent);
  const ConstByteSpan bytes = stored.extents[extent];
  for (size_t at = 0; at < bytes.size(); at += options_.piece_bytes) {
    data.offset = static_cast<uint32_t>(at);
    send_data(lane, op, data,
              bytes.subspan(at, std::min<size_t>(options_.piece_bytes, bytes.size() - at)));
  }
}

void ScriptedDaemon::send_data(uint32_t lane, uint64_t op, const wire::Data& data,
                               ConstByteSpan payload) {
  send(lane, encoder_.data(op, data), payload);
}

void ScriptedDaemon::close_session(uint64_t session) {
  std::erase_if(reserved_, [session](const auto& r) { return r.second.session == session; });
  followings_.clear();
  for (const auto& l : lanes_) {
    if (l->open && l->session == session && !l->link->closing()) {
      l->link->close(Status::unavailable("the session is over"));
    }
  }
}

void ScriptedDaemon::close_lane(uint32_t lane) {
  Lane* l = find_lane(lane);
  if (l != nullptr && !l->link->closing()) l->link->close(Status::unavailable("by script"));
}

void ScriptedDaemon::close_all() {
  for (const auto& l : lanes_) {
    if (l->open && !l->link->closing()) l->link->close(Status::unavailable("the daemon ends"));
  }
}

void ScriptedDaemon::stop() {
  listener_->stop();
  close_all();
}

void ScriptedDaemon::on_frame(Lane& lane, Received received) {
  if (received.type == wire::FrameType::kHello) {
    const auto frame = received.frame();
    const auto& hello = std::get<wire::HelloView>(frame.body).body;
    lane.index = hello.lane == wire::LaneKind::kUrgent ? 0 : 1 + hello.lane_index;
    if (lane.index == 0) ++session_;
    lane.session = received.session = session_;
    received.lane = lane.index;
    lane.greeted = true;
  }
  if (received.type == wire::FrameType::kCredit) {
    credit_bytes_ += std::get<wire::CreditView>(received.frame().body).body.bytes;
  }
  log_.push_back(std::move(received));
  const Received copy = log_.back();  // a hook may make the log grow
  if (hook && hook(copy)) return;
  switch (copy.type) {
    case wire::FrameType::kHello:
      return on_hello(lane, copy);
    case wire::FrameType::kFormat:
      return on_format(copy);
    case wire::FrameType::kMatch:
      return on_match(copy);
    case wire::FrameType::kReserve:
      return on_reserve(copy);
    case wire::FrameType::kExtent:
      return on_extent(copy);
    case wire::FrameType::kCommit:
      return on_commit(copy);
    case wire::FrameType::kAbort:
      return on_abort(copy);
    case wire::FrameType::kPull:
      return answer_pull(copy);
    case wire::FrameType::kCancel:
      return on_cancel(copy);
    case wire::FrameType::kRenew:
      return on_renew(copy);
    case wire::FrameType::kHolds:
      return on_holds(copy);
    case wire::FrameType::kFollow:
      return on_follow(copy);
    case wire::FrameType::kRelease:
      leases_.erase(std::get<wire::ReleaseView>(copy.frame().body).body.lease);
      return send(0, encoder_.released(copy.op, {}));
    case wire::FrameType::kPing:
      return send(0, encoder_.pong(copy.op, std::get<wire::PingView>(copy.frame().body).body));
    default:
      return;
  }
}

void ScriptedDaemon::on_hello(Lane& lane, const Received& received) {
  if (!options_.greet) return;
  if (options_.refuse != Code::kOk) {
    return push_out(lane, encoder_.refused(received.op, options_.refuse, "by script"), {}, true);
  }
  wire::HelloOk ok;
  ok.bulk_lanes_max = static_cast<uint8_t>(options_.bulk_lanes_max);
  ok.slices = 16;
  ok.features = options_.features;
  ok.session = session_;
  ok.session_secret = session_ * 7919;
  ok.boot_id = options_.boot_id;
  ok.epoch = 1;
  ok.k = options_.k;
  ok.m = options_.m;
  ok.lease_ms_max = options_.lease_ms_max;
  ok.reserve_ms_max = 30000;
  ok.pulls_max = options_.pulls_max;
  ok.attempts_max = options_.attempts_max;
  ok.formats_max = 256;
  ok.domain_salt = options_.domain_salt;
  ok.node = options_.node;
  push_out(lane, encoder_.hello_ok(received.op, ok), {}, false);
}

void ScriptedDaemon::on_format(const Received& received) {
  const auto frame = received.frame();
  auto format = Format::decode(std::get<wire::FormatView>(frame.body).canonical);
  VARVE_ASSERT(format.has_value());
  wire::FormatOk ok;
  ok.fingerprint = format->fingerprint();
  auto at = std::find(formats_.begin(), formats_.end(), *format);
  ok.format = static_cast<uint32_t>(at - formats_.begin()) + 1;
  if (at == formats_.end()) {
    std::vector<ExtentTable> tables;
    for (const auto& rank : format->ranks)
      tables.push_back(*ExtentTable::of(rank, Scheme{options_.k, options_.m}));
    tables_.push_back(std::move(tables));
    formats_.push_back(*std::move(format));
  }
  send(0, encoder_.format_ok(received.op, ok));
}

const ExtentTable* ScriptedDaemon::table_of(uint32_t format, uint32_t rank) const {
  if (format == 0 || format > tables_.size() || rank >= tables_[format - 1].size()) return nullptr;
  return &tables_[format - 1][rank];
}

void ScriptedDaemon::on_match(const Received& received) {
  const auto frame = received.frame();
  const auto& view = std::get<wire::MatchView>(frame.body);
  const auto ranks = static_cast<uint32_t>(tables_.at(view.body.format - 1).size());
  std::vector<wire::TierKind> tiers;
  for (uint32_t i = 0; i < view.ids.size(); ++i) {
    bool all = true;
    for (uint32_t r = 0; r < ranks; ++r)
      all &= store_.count(BlockId{view.ids[i], r}) > 0;
    if (!all && view.body.of == wire::MatchOf::kPrefix) break;
    tiers.push_back(all ? wire::TierKind::kDram : wire::TierKind::kNone);
  }
  wire::Matched matched;
  matched.n_blocks = static_cast<uint32_t>(tiers.size());
  matched.boot_id = options_.boot_id;
  if (view.body.lease_ms > 0 && !tiers.empty()) {
    matched.lease = ++last_lease_;
    matched.lease_ms = std::min(view.body.lease_ms, options_.lease_ms_max);
    leases_.insert(matched.lease);
  }
  send(0, encoder_.matched(received.op, matched, tiers));
}

void ScriptedDaemon::on_reserve(const Received& received) {
  const auto frame = received.frame();
  const auto& view = std::get<wire::ReserveView>(frame.body);
  const ExtentTable* table = table_of(view.body.format, view.body.rank);
  VARVE_ASSERT(table != nullptr);
  std::vector<wire::ReserveAnswer> answers(view.ids.size());
  uint32_t granted = 0;
  for (uint32_t i = 0; i < view.ids.size(); ++i) {
    const BlockId id{view.ids[i], view.body.rank};
    const bool busy = std::any_of(reserved_.begin(), reserved_.end(),
                                  [&id](const auto& r) { return r.second.id == id; });
    if (store_.count(id) > 0) {
      answers[i].outcome = wire::ReserveOutcome::kExists;
    } else if (busy) {
      answers[i].outcome = wire::ReserveOutcome::kBusy;
    } else if (id.base == options_.refuse_block && options_.refuse_block_code != Code::kOk) {
      answers[i].outcome = wire::ReserveOutcome::kRefused;
      answers[i].code = static_cast<uint8_t>(options_.refuse_block_code);
    } else if (granted >= options_.grants_max || reserved_.size() >= options_.attempts_max) {
      answers[i].outcome = wire::ReserveOutcome::kRefused;
      answers[i].code = static_cast<uint8_t>(Code::kQuota);
    } else {
      ++granted;
      answers[i].outcome = wire::ReserveOutcome::kGranted;
      answers[i].attempt = Attempt{1, 0, ++last_attempt_};
      Reserved r{id, received.session, received.op, i, {}, std::vector<uint32_t>(table->count())};
      r.stored.attempt = answers[i].attempt;
      r.stored.table = *table;
      for (uint32_t e = 0; e < table->count(); ++e)
        r.stored.extents.emplace_back(table->bytes_at(e));
      reserved_.emplace(std::pair(received.op, i), std::move(r));
    }
  }
  reserved_most_ = std::max(reserved_most_, reserved_.size());
  send(0, encoder_.reserved(received.op, {}, answers));
}

void ScriptedDaemon::on_extent(const Received& received) {
  const auto frame = received.frame();
  const wire::Extent& body = std::get<wire::ExtentView>(frame.body).body;
  const auto found = reserved_.find({body.reserve_op, body.index});
  if (found == reserved_.end()) return;
  Reserved& r = found->second;
  VARVE_ASSERT(body.attempt == r.stored.attempt);
  VARVE_ASSERT(body.extent < r.received.size(), body.extent);
  VARVE_ASSERT(body.offset == r.received[body.extent], body.offset);  // in order, on one lane
  auto& bytes = r.stored.extents[body.extent];
  VARVE_ASSERT(body.offset + received.payload.size() <= bytes.size());
  std::memcpy(bytes.data() + body.offset, received.payload.data(), received.payload.size());
  r.received[body.extent] += received.payload_bytes;
  feed_followers();
}

void ScriptedDaemon::on_commit(const Received& received) {
  const auto frame = received.frame();
  const auto& view = std::get<wire::CommitView>(frame.body);
  wire::Committed committed;
  committed.ack = view.body.ack;
  committed.index = view.body.index;
  committed.attempt = view.body.attempt;
  const auto found = reserved_.find({view.body.reserve_op, view.body.index});
  if (found == reserved_.end()) {
    committed.code = static_cast<uint8_t>(Code::kTimedOut);
    return send(0, encoder_.committed(received.op, committed));
  }
  Reserved& r = found->second;
  std::vector<ExtentEntry> entries;
  for (uint32_t e = 0; e < view.entries.size(); ++e)
    entries.push_back(view.entries[e]);
  bool sound = check_entries(entries, r.stored.table).ok();
  for (uint32_t e = 0; sound && e < entries.size(); ++e) {
    ExtentDigest digest(checksum_seed(r.id, e, r.stored.attempt));
    digest.update(r.stored.extents[e]);
    sound = r.received[e] == r.stored.extents[e].size() &&
            entries[e].stored_crc == digest.stored_crc() &&
            entries[e].decoded_xxh3 == digest.decoded_xxh3();
  }
  if (!sound) committed.code = static_cast<uint8_t>(Code::kCorrupt);
  if (sound) store_[r.id] = std::move(r.stored);
  reserved_.erase(found);
  send(0, encoder_.committed(received.op, committed));
  feed_followers();
}

void ScriptedDaemon::on_abort(const Received& received) {
  const auto body = std::get<wire::AbortView>(received.frame().body).body;
  reserved_.erase({body.reserve_op, body.index});
  wire::Aborted aborted;
  aborted.index = body.index;
  aborted.attempt = body.attempt;
  send(0, encoder_.aborted(received.op, aborted));
  feed_followers();
}

// Layer-major, or the wants in their order.
std::vector<wire::Want> ScriptedDaemon::wanted_by(const wire::PullView& pull) const {
  std::vector<wire::Want> wants;
  for (uint32_t i = 0; i < pull.wants.size(); ++i)
    wants.push_back(pull.wants[i]);
  if (!wants.empty()) return wants;
  const ExtentTable* table = table_of(pull.body.format, pull.body.rank);
  VARVE_ASSERT(table != nullptr);
  const uint32_t layer_end = pull.body.layer_first + pull.body.layer_count;
  for (uint32_t e = 0; e < table->data_count(); ++e) {
    const ExtentSpec& spec = table->extents[e];
    if (spec.layer_first + spec.layer_count <= pull.body.layer_first) continue;
    if (spec.layer_first >= layer_end) break;
    for (uint32_t b = 0; b < pull.ids.size(); ++b)
      wants.push_back({b, e});
  }
  return wants;
}

// The pieces of one extent on one lane; PULLED may overtake all of it.
void ScriptedDaemon::answer_pull(const Received& received) {
  const auto frame = received.frame();
  const auto& view = std::get<wire::PullView>(frame.body);
  uint32_t lanes = 0;
  while (has_lane(lanes + 1))
    ++lanes;
  std::vector<uint8_t> codes(view.ids.size());
  std::vector<wire::LostExtent> rows;
  uint32_t turn = 0;
  for (const wire::Want& want : wanted_by(view)) {
    const BlockId id{view.ids[want.block], view.body.rank};
    if (store_.count(id) == 0) {
      codes[want.block] = static_cast<uint8_t>(Code::kUnavailable);
    } else if (lost.count({id, want.extent}) > 0) {
      rows.push_back(lost_of(id, want.block, want.extent, wire::LostState::kLost));
    } else if (late.count({id, want.extent}) > 0) {
      rows.push_back(lost_of(id, want.block, want.extent, wire::LostState::kLate));
    } else {
      send_extent(1 + turn++ % std::max(lanes, 1u), received.op, id, want.block, want.extent);
    }
  }
  for (size_t at = 0; at < rows.size(); at += wire::kLostMax) {
    const auto some = std::span(rows).subspan(at);
    send(0, encoder_.lost(received.op, some.first(std::min<size_t>(some.size(), wire::kLostMax))));
  }
  wire::Pulled pulled;
  pulled.tiers = options_.tiers;
  send(0, encoder_.pulled(received.op, pulled, codes));
}

void ScriptedDaemon::on_cancel(const Received& received) {
  const auto body = std::get<wire::CancelView>(received.frame().body).body;
  const bool whole = body.extent == wire::kWhole;
  for (const auto& lane : lanes_) {
    std::erase_if(lane->waiting, [&](const auto& out) {
      const auto frame = wire::decode(out->head);
      const auto* data = frame ? std::get_if<wire::DataView>(&frame->body) : nullptr;
      if (data == nullptr || frame->header.op != body.target_op) return false;
      return whole || (data->body.block == body.block && data->body.extent == body.extent);
    });
  }
  if (whole) {
    std::erase_if(reserved_, [&](const auto& r) { return r.second.op == body.target_op; });
    std::erase_if(followings_, [&](const auto& f) { return f.op == body.target_op; });
  }
  send(0, encoder_.fenced(received.op, wire::Fenced{body.target_op, body.block, body.extent}));
  feed_followers();
}

void ScriptedDaemon::on_renew(const Received& received) {
  const auto body = std::get<wire::RenewView>(received.frame().body).body;
  wire::Renewed renewed;
  renewed.lease_ms = std::min(body.lease_ms, options_.lease_ms_max);
  if (leases_.count(body.lease) == 0) renewed.code = static_cast<uint8_t>(Code::kTimedOut);
  send(0, encoder_.renewed(received.op, renewed));
}

void ScriptedDaemon::on_holds(const Received& received) {
  const uint64_t cursor = std::get<wire::HoldsView>(received.frame().body).body.cursor;
  wire::Held held;
  std::vector<wire::Hold> rows;
  for (const wire::Hold& hold : holds) {
    if (hold.hold < cursor) continue;
    if (rows.size() == holds_page) {
      held.cursor = rows.back().hold + 1;
      break;
    }
    rows.push_back(hold);
  }
  send(0, encoder_.held(received.op, held, rows));
}

}  // namespace varve
