// Dispatch of one session's frames (one switch), and its end in the order of the fences.
#include "server/session/live_session.h"

#include <algorithm>
#include <cinttypes>

#include "server/session/holds.h"

namespace varve {

namespace {

// Which lanes of a client may carry a frame of this type (docs/WIRE.md 3).
enum class Allowed : uint8_t { kNowhere, kUrgent, kBulk, kBoth };

Allowed allowed_on(wire::FrameType type) {
  switch (type) {
    case wire::FrameType::kFormat:
    case wire::FrameType::kMatch:
    case wire::FrameType::kRelease:
    case wire::FrameType::kRenew:
    case wire::FrameType::kHolds:
    case wire::FrameType::kPurge:
    case wire::FrameType::kReserve:
    case wire::FrameType::kPull:
    case wire::FrameType::kFollow:
    case wire::FrameType::kCancel:
    case wire::FrameType::kCredit:
    case wire::FrameType::kPing:
    case wire::FrameType::kPong:
      return Allowed::kUrgent;
    case wire::FrameType::kExtent:
      return Allowed::kBulk;
    // Behind the extents of their block, so that they cannot overtake them.
    case wire::FrameType::kCommit:
    case wire::FrameType::kAbort:
      return Allowed::kBoth;
    default:
      return Allowed::kNowhere;
  }
}

bool fits(Allowed allowed, Lane::State lane) {
  if (allowed == Allowed::kBoth) return true;
  return allowed == (lane == Lane::State::kUrgent ? Allowed::kUrgent : Allowed::kBulk);
}

}  // namespace

LiveSession::LiveSession(SessionContext& context)
    : scope_(context, *this),
      credit_(scope_),
      data_out_(scope_, credit_),
      formats_(*context.formats, context.options.formats_max),
      grants_(scope_),
      leases_(scope_),
      requests_(scope_, formats_, grants_, leases_, credit_, data_out_),
      purges_(scope_, formats_),
      gone_(new GonePart[context.shards.size()]) {
  idle_.owner = this;
  idle_.on_fire = [](Timer& timer) { static_cast<LiveSession*>(timer.owner)->look_idle(); };
}

void LiveSession::open(const Open& open, Lane& urgent, DomainPool<LiveSession>& pool) {
  VARVE_ASSERT(!in_use_);
  VARVE_ASSERT(at_rest());
  in_use_ = true;
  leaving_ = false;
  scope_.id = open.id;
  scope_.domain = open.domain;
  scope_.features = open.features;
  scope_.urgent = &urgent;
  scope_.ending = false;
  scope_.failure = Status();
  secret_ = open.secret;
  scope_.client = open.client;
  pool_ = &pool;
  urgent_ = &urgent;
  lanes_open_ = 1;
  credit_.open(open.credit_bytes);
  urgent.name(Lane::State::kUrgent, *this);
  number_ = ++scope_.context.session_last;
  heard_ns_ = opened_ns_ = scope_.context.reactor.now_ns();
  scope_.context.reactor.arm(idle_, scope_.context.options.idle_ms_max * kMillisecond / 2);
  scope_.context.metrics.sessions.add(1);
  scope_.counts = scope_.context.domain_metrics.find(open.domain);
  VARVE_ASSERT(scope_.counts != nullptr, open.domain);
  scope_.counts->sessions.add(1);
  scope_.context.metrics.opened.add();
  uint64_t swallowed = 0;
  if (scope_.context.opened_log.admit(heard_ns_, &swallowed)) {
    logf(LogLevel::kInfo, "session",
         "session %016" PRIx64 " of \"%s\" at %s opened (%" PRIu64 " more not logged)", scope_.id,
         scope_.client.c_str(), urgent.peer().c_str(), swallowed);
  }
}

void LiveSession::attach(uint32_t lane_index, Lane& lane) {
  VARVE_ASSERT(!has_bulk(lane_index));
  VARVE_ASSERT(!scope_.over());
  bulk_[lane_index] = &lane;
  ++lanes_open_;
  lane.name(Lane::State::kBulk, *this);
  data_out_.attach(lane_index, lane);
}

void LiveSession::goodbye() {
  scope_.reply(scope_.context.encoder().goodbye(0, wire::Goodbye{scope_.context.options.drain_ms}));
}

Status LiveSession::on_place(Lane& lane, ConstByteSpan head, uint32_t payload_bytes,
                             Placement& where) {
  heard_ns_ = scope_.context.reactor.now_ns();
  ExtentReceive& receive = lane.receive();
  // Until place() says otherwise it is received into nothing, also when the session ends because of
  // it: an error here would close this lane at once, and the urgent one must still say why.
  receive.active = true;
  receive.grant = nullptr;
  if (scope_.over()) return {};
  Result<wire::Frame> frame = wire::decode(head);
  if (!frame) {
    scope_.fail_malformed(Malformed::kFrame, frame.error());
    return {};
  }
  const auto* extent = std::get_if<wire::ExtentView>(&frame->body);
  if (extent == nullptr || lane.state() != Lane::State::kBulk) {
    scope_.fail_malformed(Malformed::kPayload,
                          Status::invalid("a payload behind a frame or on a lane that has none"));
    return {};
  }
  const Status placed = grants_.place(extent->body, payload_bytes, receive, where);
  if (!placed.ok()) scope_.fail_malformed(Malformed::kExtent, placed);
  return {};
}

void LiveSession::on_frame(Lane& lane, ConstByteSpan head, uint32_t payload_bytes) {
  heard_ns_ = scope_.context.reactor.now_ns();
  if (payload_bytes > 0) return grants_.received(lane.receive());  // place() knew it
  if (scope_.over()) return;
  Result<wire::Frame> frame = wire::decode(head);
  if (!frame) return scope_.fail_malformed(Malformed::kFrame, frame.error());
  const wire::FrameType type = frame->header.type;
  if (type == wire::FrameType::kHello) {
    return scope_.fail_malformed(Malformed::kState, Status::invalid("a second HELLO on a lane"));
  }
  if (!fits(allowed_on(type), lane.state())) {
    return scope_.fail_malformed(Malformed::kLane,
                                 Status::invalid("a frame on the wrong lane or side"));
  }
  dispatch(*frame);
}

void LiveSession::dispatch(const wire::Frame& frame) {
  const uint64_t op = frame.header.op;
  switch (frame.header.type) {
    case wire::FrameType::kFormat:
      return register_format(op, std::get<wire::FormatView>(frame.body).canonical);
    case wire::FrameType::kMatch:
      return requests_.match(op, std::get<wire::MatchView>(frame.body));
    case wire::FrameType::kRelease:
      return leases_.release(op, std::get<wire::ReleaseView>(frame.body).body.lease);
    case wire::FrameType::kRenew: {
      const wire::Renew& body = std::get<wire::RenewView>(frame.body).body;
      return leases_.renew(op, body.lease, body.lease_ms);
    }
    case wire::FrameType::kHolds:
      return list_holds(op, std::get<wire::HoldsView>(frame.body).body.cursor);
    case wire::FrameType::kPurge:
      return purges_.purge(op, std::get<wire::PurgeView>(frame.body));
    case wire::FrameType::kReserve:
      return requests_.reserve(op, std::get<wire::ReserveView>(frame.body));
    case wire::FrameType::kCommit:
      return grants_.commit(op, std::get<wire::CommitView>(frame.body));
    case wire::FrameType::kAbort:
      return grants_.abort(op, std::get<wire::AbortView>(frame.body).body);
    case wire::FrameType::kPull:
      return requests_.pull(op, std::get<wire::PullView>(frame.body));
    case wire::FrameType::kFollow:
      return requests_.follow(op, std::get<wire::FollowView>(frame.body));
    case wire::FrameType::kCancel:
      return requests_.cancel(op, std::get<wire::CancelView>(frame.body).body);
    case wire::FrameType::kCredit: {
      const Status given = credit_.give(std::get<wire::CreditView>(frame.body).body.bytes);
      if (!given.ok()) scope_.fail_malformed(Malformed::kCredit, given);
      return;
    }
    case wire::FrameType::kPing:
      return scope_.reply(
          scope_.context.encoder().pong(op, std::get<wire::PingView>(frame.body).body));
    case wire::FrameType::kPong:
      return;  // heard_ns_ was its point
    case wire::FrameType::kExtent:
      return scope_.fail_malformed(Malformed::kPayload,
                                   Status::invalid("EXTENT without a payload"));
    default:
      VARVE_ASSERT(false, static_cast<uint8_t>(frame.header.type));  // allowed_on said no
  }
}

void LiveSession::register_format(uint64_t op, ConstByteSpan canonical) {
  wire::FormatOk body;
  if (Result<uint32_t> handle = formats_.add(scope_.domain, canonical); handle) {
    body.format = *handle;
    body.fingerprint = formats_.find(*handle)->fingerprint;
    introduce(formats_.entry(*handle).format);
  } else {
    body.code = static_cast<uint8_t>(handle.error().code());
    scope_.context.metrics.requests_refused[body.code].add();
    const std::string& more = formats_.refusal();
    uint64_t swallowed = 0;
    if (scope_.context.refused_format_log.admit(scope_.context.reactor.now_ns(), &swallowed)) {
      logf(LogLevel::kWarn, "session",
           "session %016" PRIx64 " of \"%s\": format refused: %s (%" PRIu64 " more not logged)",
           scope_.id, scope_.client.c_str(), more.empty() ? handle.error().what() : more.c_str(),
           swallowed);
    }
  }
  scope_.context.metrics.formats.set(scope_.context.formats->count());
  scope_.reply(scope_.context.encoder().format_ok(op, body));
}

// Once for every fingerprint that comes: two engines that share nothing mostly differ here.
void LiveSession::introduce(SessionFormat& format) {
  if (format.counts != nullptr) return;
  SessionContext& context = scope_.context;
  format.counts = &context.counts_of(format.fingerprint);
  context.format_notes.note(format);
  uint64_t swallowed = 0;
  if (!context.format_log.admit(context.reactor.now_ns(), &swallowed)) return;
  const Format& what = format.format;
  logf(LogLevel::kInfo, "session",
       "session %016" PRIx64 " of \"%s\": new format %016" PRIx64 ": model %016" PRIx64
       ", %s, %s, %u tokens a block of %" PRIu64 " bytes in rank 0 of %u (%" PRIu64
       " more not logged)",
       scope_.id, scope_.client.c_str(), __builtin_bswap64(format.fingerprint.prefix64()),
       __builtin_bswap64(what.model.prefix64()), kv_type_name(what.type),
       kv_layout_name(what.layout), what.tokens_per_block, what.block_bytes(0), what.rank_count(),
       swallowed);
}

// Every session may ask, of its own domain: that it may, its token said when it came (N2).
void LiveSession::list_holds(uint64_t op, uint64_t cursor) {
  SessionContext& context = scope_.context;
  context.metrics.holds.add();
  wire::Held body;
  body.cursor = varve::list_holds(context, scope_.domain, cursor, context.hold_rows);
  context.held.clear();
  for (const SessionHold& row : context.hold_rows)
    context.held.push_back(row.hold);
  scope_.reply(context.encoder().held(op, body, context.held));
}

SessionRow LiveSession::row() const {
  VARVE_ASSERT(in_use_);
  const Nanos now_ns = scope_.context.reactor.now_ns();
  SessionRow row;
  row.number = number_;
  row.id = scope_.id;
  row.domain = scope_.domain;
  row.client = scope_.client;
  if (urgent_ != nullptr) row.peer = urgent_->peer();
  row.age_ns = now_ns - opened_ns_;
  row.quiet_ns = now_ns - heard_ns_;
  row.lanes = lanes_open_;
  row.formats = formats_.count();
  row.requests = requests_.count() + purges_.count();
  row.leases = leases_.count();
  row.grants = grants_.count();
  row.ending = scope_.over();
  return row;
}

void LiveSession::look_idle() {
  SessionContext& context = scope_.context;
  const Nanos idle_ns = context.options.idle_ms_max * kMillisecond;
  // What the client sent while this core stood still is heard in the turns to come (R4).
  const Nanos heard_ns = std::max(heard_ns_, context.reactor.awake_ns());
  const Nanos silent_ns = context.reactor.now_ns() - heard_ns;
  if (silent_ns >= idle_ns)
    return scope_.fail(Status::timed_out("nothing was heard for idle_ms_max"));
  if (silent_ns >= idle_ns / 2) {
    scope_.reply(context.encoder().ping(0, wire::Ping{++pings_}));
    context.reactor.arm(idle_, idle_ns - silent_ns);
  } else {
    context.reactor.arm(idle_, idle_ns / 2 - silent_ns);
  }
}

void LiveSession::on_lane_closed(Lane& lane, Status cause) {
  grants_.dropped(lane.receive());  // F2: nothing writes into the slabs any more
  VARVE_ASSERT(lanes_open_ > 0);
  --lanes_open_;
  const Status why = cause.ok() ? Status::unavailable("the client closed a lane") : cause;
  if (&lane == urgent_) {
    urgent_ = nullptr;
    scope_.urgent = nullptr;
  }
  for (uint32_t i = 0; i < wire::kBulkLanesMax; ++i) {
    if (bulk_[i] != &lane) continue;
    data_out_.detach(i, Status::unavailable("the lane was closed"));
    bulk_[i] = nullptr;
  }
  if (!scope_.ending) scope_.fail(why);
  scope_.something_ended();
}

void LiveSession::run() {
  if (!in_use_) return;
  if (!scope_.ending && !scope_.failure.ok()) end(scope_.failure);
  requests_.run();
  if (scope_.ending && !leaving_ && at_rest()) leave();
}

// Lanes first: their fences end the receives that grants wait for (N3).
void LiveSession::end(Status cause) {
  VARVE_ASSERT(!scope_.ending);
  SessionContext& context = scope_.context;
  uint64_t swallowed = 0;
  if (context.ended_log.admit(context.reactor.now_ns(), &swallowed)) {
    logf(LogLevel::kInfo, "session",
         "session %016" PRIx64
         " of \"%s\" ends: %s (%s); %u requests, %u attempts, %u leases held (%" PRIu64
         " more not logged)",
         scope_.id, scope_.client.c_str(), cause.what(), code_name(cause.code()), requests_.count(),
         grants_.count(), leases_.count(), swallowed);
  }
  context.metrics.closed[static_cast<uint8_t>(cause.code())].add();
  context.reactor.cancel(idle_);
  scope_.ending = true;
  scope_.urgent = nullptr;
  if (urgent_ != nullptr) {
    if (cause.code() == Code::kUnavailable) {
      urgent_->close(cause);  // a lane is gone: nobody is there to be told
    } else {
      urgent_->refuse(0, cause);
    }
  }
  for (uint32_t i = 0; i < wire::kBulkLanesMax; ++i) {
    if (bulk_[i] == nullptr) continue;
    data_out_.detach(i, cause);
    bulk_[i]->close(cause);
  }
  requests_.end_all();
  grants_.end_all();
  leases_.end_all();
  scope_.something_ended();
}

bool LiveSession::at_rest() const {
  return lanes_open_ == 0 && requests_.idle() && purges_.count() == 0 && grants_.count() == 0 &&
         leases_.count() == 0 && data_out_.idle();
}

// Every home drops what it still holds in this session's name.
void LiveSession::leave() {
  leaving_ = true;
  const auto shards = static_cast<uint32_t>(scope_.context.shards.size());
  gone_out_ = shards;
  for (uint32_t s = 0; s < shards; ++s) {
    GonePart& part = gone_[s];
    part.session_reactor = &scope_.context.reactor;
    part.shard = s;
    part.status = Status();
    part.on_back = on_gone;
    part.owner = this;
    scope_.sign(part);
    scope_.context.shards[s]->submit(part);
  }
}

void LiveSession::on_gone(Part& part) {
  auto& self = *static_cast<LiveSession*>(part.owner);
  VARVE_ASSERT(self.leaving_);
  VARVE_ASSERT(self.gone_out_ > 0);
  if (--self.gone_out_ > 0) return;
  VARVE_ASSERT(self.at_rest());  // I6
  self.formats_.clear();
  self.scope_.context.metrics.formats.set(self.scope_.context.formats->count());
  self.scope_.context.metrics.sessions.add(-1);
  self.scope_.counts->sessions.add(-1);
  self.in_use_ = false;
  self.secret_ = 0;
  self.pool_->give(&self, self.scope_.domain);
}

}  // namespace varve
