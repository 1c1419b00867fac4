// ClientSession: connect, welcome, listen, lose, wait, connect again.
#include "client/session.h"

#include <algorithm>
#include <cinttypes>

namespace varve {

namespace {
constexpr Nanos kTick = 20 * kMillisecond;        // grain of connect, ping and silence timers
constexpr Nanos kLossLogInterval = 60 * kSecond;  // the same loss again is said this often

// Which frames a daemon may send on which lane (docs/WIRE.md 3).
bool is_expected(wire::FrameType type, wire::LaneKind lane) {
  switch (type) {
    case wire::FrameType::kHelloOk:
    case wire::FrameType::kRefused:
      return true;
    case wire::FrameType::kData:
      return lane == wire::LaneKind::kBulk;
    case wire::FrameType::kFormatOk:
    case wire::FrameType::kMatched:
    case wire::FrameType::kReleased:
    case wire::FrameType::kRenewed:
    case wire::FrameType::kHeld:
    case wire::FrameType::kPurged:
    case wire::FrameType::kReserved:
    case wire::FrameType::kCommitted:
    case wire::FrameType::kAborted:
    case wire::FrameType::kPulled:
    case wire::FrameType::kLost:
    case wire::FrameType::kFenced:
    case wire::FrameType::kPing:
    case wire::FrameType::kPong:
    case wire::FrameType::kGoodbye:
      return lane == wire::LaneKind::kUrgent;
    default:
      return false;
  }
}
}  // namespace

ClientSession::ClientSession(Env& env, Reactor& reactor, const ClientOptions& options,
                             SessionUser& user, Names names)
    : env_(env),
      reactor_(reactor),
      options_(options),
      user_(user),
      endpoint_(options, names),
      encode_buffer_(kHeadBytesMax),
      encoder_(encode_buffer_),
      bulk_count_(options.bulk_lanes) {
  VARVE_ASSERT(bulk_count_ >= 1 && bulk_count_ <= wire::kBulkLanesMax, bulk_count_);
  for (uint32_t i = 0; i <= bulk_count_; ++i) {
    lanes_[i].session = this;
    lanes_[i].index = i;
    if (i > 0) lanes_[i].bounce.resize(kPayloadBytesMax);
  }
  timer_.owner = this;
  timer_.on_fire = [](Timer& t) { static_cast<ClientSession*>(t.owner)->on_timer(); };
  backoff_ns_ = options_.reconnect_ns_min;
}

ClientSession::~ClientSession() {
  reactor_.cancel(timer_);
}

void ClientSession::start() {
  connect();
}

void ClientSession::connect() {
  VARVE_ASSERT(open_lanes_ == 0 && !closed_, open_lanes_);
  state_ = SessionState::kConnecting;
  reported_ready_ = false;
  connect_started_ns_ = reactor_.now_ns();
  endpoint_.begin_round();
  // Before the numbers are tried: where the daemon was, another one may be that must not have our
  // token.
  lookup_awaited_ = endpoint_.begin_lookup(connect_started_ns_);
  lookup_wanted_ |= lookup_awaited_;
  reactor_.arm(timer_, kTick);
  user_.on_connecting();
  if (!lookup_awaited_) open_urgent();
}

// One number of the round; without one, the end of it.
void ClientSession::open_urgent() {
  VARVE_ASSERT(open_lanes_ == 0 && !closed_, open_lanes_);
  VARVE_ASSERT(state_ == SessionState::kConnecting);
  for (uint32_t i = 0; i <= bulk_count_; ++i)
    lanes_[i].link.reset();
  lookup_awaited_ = false;
  dropping_ = false;
  drop_cause_ = Status();
  refusal_.clear();
  connect_started_ns_ = reactor_.now_ns();
  heard_ns_ = connect_started_ns_;
  credit_owed_bytes_ = 0;
  if (!endpoint_.known()) {
    drop_cause_ = endpoint_.failure();
    return lanes_closed();
  }
  number_ = endpoint_.number();
  if (!open_lane(0)) lanes_closed();
}

void ClientSession::looked_up(Result<std::vector<std::string>> numbers) {
  if (closed_) return;
  const bool moved = endpoint_.on_looked_up(std::move(numbers), reactor_.now_ns());
  if (moved && was_ready_) {
    logf(LogLevel::kInfo, "client", "the daemon at %s has another address: %s",
         options_.address.c_str(), endpoint_.number().c_str());
  }
  if (state_ == SessionState::kConnecting && lookup_awaited_) return open_urgent();
  if (!moved || state_ != SessionState::kWaiting) return;
  backoff_ns_ = options_.reconnect_ns_min;
  connect();
}

bool ClientSession::open_lane(uint32_t index) {
  VARVE_ASSERT(index <= bulk_count_, index, bulk_count_);
  Lane& lane = lanes_[index];
  VARVE_ASSERT(!lane.open && state_ == SessionState::kConnecting, index);
  auto link = env_.fabric.connect(reactor_, number_, options_.link);
  if (!link) {
    if (drop_cause_.ok()) drop_cause_ = link.error();
    return false;
  }
  lane.link = std::move(*link);
  lane.open = true;
  lane.welcomed = false;
  lane.placed = false;
  ++open_lanes_;
  lane.link->start(lane);
  send_hello(lane);
  return true;
}

void ClientSession::send_hello(Lane& lane) {
  VARVE_ASSERT(lane.open && !lane.welcomed, lane.index);
  VARVE_ASSERT(lane.index == 0 || lanes_[0].welcomed, lane.index);  // it names the session
  wire::Hello hello;
  hello.lane = lane.index == 0 ? wire::LaneKind::kUrgent : wire::LaneKind::kBulk;
  if (lane.index > 0) {
    hello.lane_index = static_cast<uint8_t>(lane.index - 1);
    hello.session = hello_.session;
    hello.session_secret = hello_.session_secret;
  } else {
    hello.pull_credit_bytes = options_.pull_credit_bytes;
  }
  const auto token = std::as_bytes(std::span(options_.token.data(), options_.token.size()));
  if (!lane.link->send_head(encoder_.hello(0, hello, token, options_.name))) {
    drop(Status::internal("a fresh lane has no room for HELLO"));
  }
}

void ClientSession::drop(Status cause) {
  VARVE_ASSERT(!cause.ok());
  if (dropping_ || open_lanes_ == 0) return;
  dropping_ = true;
  drop_cause_ = cause;
  for (uint32_t i = 0; i <= bulk_count_; ++i) {
    if (lanes_[i].open && !lanes_[i].link->closing()) lanes_[i].link->close(cause);
  }
}

void ClientSession::close() {
  closed_ = true;
  if (open_lanes_ > 0) {
    drop(Status::cancelled("the client closed"));
  } else {
    state_ = SessionState::kClosed;
    reactor_.cancel(timer_);
  }
}

bool ClientSession::quiet() const {
  return open_lanes_ == 0;
}

bool ClientSession::send_urgent(ConstByteSpan head) {
  VARVE_ASSERT(!head.empty());
  if (!lanes_[0].open || dropping_ || lanes_[0].link->closing()) return false;
  return lanes_[0].link->send_head(head);
}

bool ClientSession::send_bulk_head(uint32_t lane, ConstByteSpan head) {
  VARVE_ASSERT(lane < bulk_count_ && !head.empty(), lane, bulk_count_);
  Lane& l = lanes_[1 + lane];
  if (!l.open || dropping_ || l.link->closing()) return false;
  return l.link->send_head(head);
}

bool ClientSession::can_send_bulk(uint32_t lane, uint32_t payload_bytes) const {
  VARVE_ASSERT(lane < bulk_count_ && payload_bytes > 0, lane, bulk_count_);
  const Lane& l = lanes_[1 + lane];
  return l.open && !dropping_ && !l.link->closing() && l.link->can_send(payload_bytes);
}

void ClientSession::send_bulk(uint32_t lane, SendRequest& request) {
  VARVE_ASSERT(can_send_bulk(lane, request.payload_bytes()));
  lanes_[1 + lane].link->send(request);
}

Status ClientSession::Lane::place(ConstByteSpan head, uint32_t payload_bytes, Placement& out) {
  placed = false;
  where.count = 0;
  auto frame = wire::decode(head);
  if (!frame) return frame.error();
  if (!welcomed) return Status::invalid("a frame before HELLO_OK");
  const auto* data = std::get_if<wire::DataView>(&frame->body);
  if (data == nullptr || index == 0) {
    return Status::invalid("a payload on a frame that has none");
  }
  VARVE_ASSERT(payload_bytes <= bounce.size(), payload_bytes);
  session->user_.place_data(*data, frame->header.op, payload_bytes, bounce, where);
  placed = where.count > 0;
  out = where;
  return Status();
}

void ClientSession::Lane::on_message(ConstByteSpan head, uint32_t payload_bytes) {
  session->on_lane_message(*this, head, payload_bytes);
}

void ClientSession::Lane::on_closed(Status cause) {
  session->on_lane_closed(*this, cause);
}

void ClientSession::on_lane_message(Lane& lane, ConstByteSpan head, uint32_t payload_bytes) {
  VARVE_ASSERT(lane.open && open_lanes_ > 0, lane.index);
  heard_ns_ = reactor_.now_ns();
  auto frame = wire::decode(head);
  if (!frame) return drop(frame.error());
  const wire::LaneKind kind = lane.index == 0 ? wire::LaneKind::kUrgent : wire::LaneKind::kBulk;
  if (!is_expected(frame->header.type, kind)) {
    return drop(Status::invalid("a frame that a daemon does not send on this lane"));
  }
  if (const auto* ok = std::get_if<wire::HelloOkView>(&frame->body)) {
    return on_hello_ok(lane, ok->body);
  }
  if (const auto* refused = std::get_if<wire::RefusedView>(&frame->body)) {
    const auto code = static_cast<Code>(refused->body.code);
    refusal_.assign(refused->text);
    return drop(
        Status(code == Code::kOk ? Code::kInvalid : code, "the daemon refused the session"));
  }
  if (!lane.welcomed) return drop(Status::invalid("a frame before HELLO_OK"));
  if (const auto* data = std::get_if<wire::DataView>(&frame->body)) {
    if (payload_bytes == 0) return drop(Status::invalid("DATA without a payload"));
    if (lane.placed) {
      user_.on_data(*data, frame->header.op, payload_bytes, lane.where);
    } else {
      discarded_bytes_ += payload_bytes;
    }
    lane.placed = false;
    return credit_used(payload_bytes);
  }
  if (const auto* ping = std::get_if<wire::PingView>(&frame->body)) {
    if (!send_urgent(encoder_.pong(0, ping->body))) drop(Status::overloaded("urgent lane full"));
    return;
  }
  if (std::holds_alternative<wire::PongView>(frame->body)) return;
  const auto* pulled = std::get_if<wire::PulledView>(&frame->body);
  if (pulled != nullptr && pulled->body.tiers != 0 && !has_feature(wire::kFeatureTiers)) {
    return drop(Status::invalid("PULLED says tiers, which HELLO_OK did not agree to"));
  }
  user_.on_urgent(*frame);
}

void ClientSession::on_hello_ok(Lane& lane, const wire::HelloOk& ok) {
  if (lane.welcomed) return drop(Status::invalid("a second HELLO_OK"));
  lane.welcomed = true;
  if (lane.index == 0) {
    if (!Scheme{ok.k, ok.m}.valid()) {
      refusal_ = "scheme " + Scheme{ok.k, ok.m}.text();
      return drop(Status::unsupported("the daemon's scheme is none that this client knows"));
    }
    check_identity(ok);
    hello_ = ok;
    const uint32_t lanes = std::min<uint32_t>(options_.bulk_lanes, ok.bulk_lanes_max);
    if (lanes == 0) return drop(Status::invalid("the daemon offers no bulk lane"));
    bulk_count_ = lanes;
    for (uint32_t i = 1; i <= bulk_count_; ++i) {
      if (!open_lane(i)) return drop(Status::unavailable("a bulk lane does not open"));
    }
    return;
  }
  if (ok.session != hello_.session) return drop(Status::invalid("a bulk lane of another session"));
  for (uint32_t i = 0; i <= bulk_count_; ++i) {
    if (!lanes_[i].welcomed) return;
  }
  VARVE_ASSERT(open_lanes_ == 1 + bulk_count_, open_lanes_, bulk_count_);
  VARVE_ASSERT(state_ == SessionState::kConnecting && !reported_ready_);
  state_ = SessionState::kReady;
  last_error_ = Status();
  last_error_text_.clear();
  if (!logged_text_.empty()) {
    logf(LogLevel::kInfo, "client", "the daemon at %s answers again", options_.address.c_str());
    logged_text_.clear();
  }
  was_ready_ = true;
  reported_ready_ = true;
  ++connects_;
  backoff_ns_ = options_.reconnect_ns_min;
  user_.on_ready();
}

void ClientSession::on_lane_closed(Lane& lane, Status cause) {
  VARVE_ASSERT(lane.open && open_lanes_ > 0, lane.index, open_lanes_);
  lane.open = false;
  lane.placed = false;
  --open_lanes_;
  if (cause.ok()) cause = Status::unavailable("the daemon closed the lane");
  if (drop_cause_.ok()) drop_cause_ = cause;  // the last lane leaves nothing to drop
  if (!dropping_) drop(cause);
  if (open_lanes_ == 0) lanes_closed();
}

// Base ids are chained on the salt: with another one nothing that was cached can be found again.
void ClientSession::check_identity(const wire::HelloOk& ok) {
  if (!was_ready_) return;
  const bool other_salt = ok.domain_salt != hello_.domain_salt;
  if (!other_salt && ok.node == hello_.node) return;
  ++identity_changes_;
  logf(other_salt ? LogLevel::kError : LogLevel::kWarn, "client",
       "the daemon at %s came back as another one (node %016" PRIx64 ", was %016" PRIx64 "): %s",
       options_.address.c_str(), ok.node.prefix64(), hello_.node.prefix64(),
       other_salt
           ? "its salt is another, base ids computed before this miss for ever; compute them "
             "anew"
           : "what was stored before may be missing");
}

// Once a loss; while the daemon stays away, once a minute or when the reason is another.
void ClientSession::log_loss(bool was_ready) {
  if (closed_) return;
  const Nanos now = reactor_.now_ns();
  const bool news = was_ready || last_error_text_ != logged_text_;
  if (!news && now - logged_ns_ < kLossLogInterval) {
    ++losses_unlogged_;
    return;
  }
  logf(LogLevel::kWarn, "client", "%s: %s; trying again (%" PRIu64 " tries since the last line)",
       was_ready ? "lost the daemon" : "no session", last_error_text_.c_str(), losses_unlogged_);
  logged_text_ = last_error_text_;
  logged_ns_ = now;
  losses_unlogged_ = 0;
}

// The last lane is fenced: try the next number, or tell the core, then wait and try again.
void ClientSession::lanes_closed() {
  VARVE_ASSERT(open_lanes_ == 0, open_lanes_);  // F2, of every lane
  if (!closed_ && !reported_ready_ && endpoint_.known() && endpoint_.next()) {
    reactor_.arm(timer_, 0);
    return;
  }
  last_error_ = drop_cause_.ok() ? Status::unavailable("the daemon does not answer") : drop_cause_;
  const bool by_name = endpoint_.known() && number_ != options_.address;
  last_error_text_ = options_.address + (by_name ? " at " + number_ : "") + ": " +
                     last_error_.what() + " (" + code_name(last_error_.code());
  if (last_error_.errno_value() != 0) {
    last_error_text_ += ", errno " + std::to_string(last_error_.errno_value());
  }
  last_error_text_ += ")";
  if (!refusal_.empty()) last_error_text_ += ": " + refusal_;
  if (by_name && !endpoint_.failure().ok()) {
    last_error_text_ += std::string("; ") + endpoint_.failure().what();
  }
  if (reported_ready_) ++disconnects_;
  log_loss(reported_ready_);
  reported_ready_ = false;
  state_ = closed_ ? SessionState::kClosed : SessionState::kWaiting;
  if (closed_) {
    reactor_.cancel(timer_);
  } else {
    reactor_.arm(timer_, backoff_ns_);
    backoff_ns_ = std::min(backoff_ns_ * 2, options_.reconnect_ns_max);
  }
  user_.on_lost(last_error_);
}

void ClientSession::credit_used(uint32_t bytes) {
  VARVE_ASSERT(bytes > 0 && bytes <= kPayloadBytesMax, bytes);
  credit_owed_bytes_ += bytes;
  if (credit_owed_bytes_ < options_.pull_credit_bytes / 8) return;
  if (send_urgent(encoder_.credit(0, wire::Credit{credit_owed_bytes_}))) credit_owed_bytes_ = 0;
}

void ClientSession::on_timer() {
  const Nanos now = reactor_.now_ns();
  if (state_ == SessionState::kWaiting) return connect();
  if (state_ == SessionState::kClosed) return;
  reactor_.arm(timer_, kTick);
  if (open_lanes_ == 0) {  // connecting: the answer is awaited, or the next number has its turn
    VARVE_ASSERT(state_ == SessionState::kConnecting);
    if (lookup_awaited_ && now - connect_started_ns_ <= options_.connect_ns_max) return;
    return open_urgent();
  }
  if (dropping_) return;
  if (state_ == SessionState::kConnecting) {
    if (now - connect_started_ns_ > options_.connect_ns_max) {
      drop(Status::timed_out("the daemon did not welcome us in connect_ns_max"));
    }
    return;
  }
  if (credit_owed_bytes_ > 0) {  // a trickle must come back too
    if (send_urgent(encoder_.credit(0, wire::Credit{credit_owed_bytes_}))) credit_owed_bytes_ = 0;
  }
  // What the daemon sent while this core stood still is heard in the turns to come (R4).
  const Nanos silence_ns = now - std::max(heard_ns_, reactor_.awake_ns());
  if (silence_ns > 2 * options_.ping_interval_ns) {
    return drop(Status::timed_out("the daemon is silent"));
  }
  const uint64_t interval = now / options_.ping_interval_ns;
  if (silence_ns > options_.ping_interval_ns && interval != ping_value_) {
    ping_value_ = interval;
    if (!send_urgent(encoder_.ping(0, wire::Ping{ping_value_}))) {
      return drop(Status::overloaded("urgent lane full"));
    }
  }
  user_.on_tick();
}

}  // namespace varve
