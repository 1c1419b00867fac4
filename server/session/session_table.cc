// SessionTable: the listener, lanes before their HELLO, and the sessions that grow from them.
#include <algorithm>
#include <cinttypes>

#include "server/session/hello.h"
#include "server/session/live_session.h"
#include "server/session/operator.h"
#include "server/session/session.h"

namespace varve {

namespace {

class Table final : public SessionTable, public ListenerUser, public LaneUser {
 public:
  Table(Env& env, Reactor& reactor, std::vector<Shard*> shards, const SessionOptions& options)
      : env_(env),
        context_(reactor, options, std::move(shards)),
        lanes_(context_,
               options.lanes_unnamed_max + options.sessions_max * (1 + wire::kBulkLanesMax)),
        sessions_(options.sessions_max, context_),
        operator_(context_) {
    sessions_.domains_set(context_.domains);
  }

  // SessionTable
  Status listen(const std::string& address, const LinkOptions& link) override;
  std::string address() const override { return listener_ ? listener_->address() : ""; }
  void drain() override;
  void close_all(Status cause) override;
  bool at_rest() const override {
    return sessions_.used() == 0 && lanes_.used() == 0 && operator_.at_rest();
  }
  uint32_t session_count() const override { return sessions_.used(); }
  void register_metrics(MetricSet& metrics) override {
    context_.metrics.register_in(metrics);
    context_.domain_metrics.register_in(metrics);
    context_.metric_set = &metrics;
  }
  uint64_t list_holds(uint64_t cursor, uint32_t rows_max, std::vector<SessionHold>* rows) override {
    return operator_.list_holds(cursor, rows_max, rows);
  }
  uint64_t list_sessions(uint64_t cursor, uint32_t rows_max,
                         std::vector<SessionRow>* rows) override {
    return Operator::list_sessions(sessions_, cursor, rows_max, rows);
  }
  bool close_session(uint64_t id, Status cause) override;
  void domains_set(Domains domains) override;
  void purge(NodePurge& purge) override;
  void take_formats(std::vector<std::vector<std::byte>>* out) override {
    context_.format_notes.take(out);
  }
  void format_known(const Digest& fingerprint) override {
    context_.format_notes.known(fingerprint);
  }
  std::string format_problem(const Format& format) const override {
    return context_.formats->problem(format);
  }

  // ListenerUser
  void on_accepted(std::unique_ptr<Link> link) override;

  // LaneUser, of lanes without a name
  Status on_place(Lane& lane, ConstByteSpan head, uint32_t payload_bytes,
                  Placement& where) override;
  void on_frame(Lane& lane, ConstByteSpan head, uint32_t payload_bytes) override;
  void on_lane_closed(Lane&, Status) override {}

 private:
  void hello(Lane& lane, uint64_t op, const wire::HelloView& view);
  void hello_urgent(Lane& lane, uint64_t op, const wire::HelloView& view, uint32_t domain);
  void hello_bulk(Lane& lane, uint64_t op, const wire::HelloView& view, uint32_t domain);
  void refuse(Lane& lane, uint64_t op, Status cause, const std::string& text = {});
  void welcome(Lane& lane, uint64_t op, const wire::Hello& hello, const LiveSession& session);
  LiveSession* find(uint64_t id);
  uint64_t fresh_id();

  Env& env_;
  SessionContext context_;
  LanePool lanes_;
  DomainPool<LiveSession> sessions_;
  Operator operator_;
  std::unique_ptr<Listener> listener_;
  bool draining_ = false;
  LogLimit refusals_log_{kSecond};
};

Status Table::listen(const std::string& address, const LinkOptions& link) {
  VARVE_ASSERT(listener_ == nullptr);
  context_.link_head_bytes_max = std::min(kHeadBytesMax, link.head_bytes_max);
  VARVE_TRY(listener_, env_.fabric.listen(context_.reactor, address, link));
  listener_->start(*this);
  return {};
}

void Table::on_accepted(std::unique_ptr<Link> link) {
  const SessionOptions& options = context_.options;
  const bool tokenless = !context_.domains.by_default().has_token;
  const bool stranger = tokenless && !link->peer_is_loopback();  // N2: not a byte
  Lane* lane = nullptr;
  if (!stranger && !draining_ && lanes_.unnamed() < options.lanes_unnamed_max) lane = lanes_.take();
  if (lane == nullptr) {
    context_.metrics.links_refused.add();
    uint64_t swallowed = 0;
    if (refusals_log_.admit(context_.reactor.now_ns(), &swallowed)) {
      logf(LogLevel::kWarn, "session", "connection of %s dropped: %s (%" PRIu64 " more not logged)",
           link->peer().c_str(),
           stranger    ? "no token is set, so loopback peers only (set --token-file)"
           : draining_ ? "draining"
                       : "too many connections that have said nothing yet",
           swallowed);
    }
    return;
  }
  lane->open(std::move(link), *this, lanes_, options.handshake_ms_max * kMillisecond);
}

Status Table::on_place(Lane&, ConstByteSpan, uint32_t, Placement&) {
  context_.metrics.malformed[static_cast<uint8_t>(Malformed::kPayload)].add();
  return Status::invalid("a payload before HELLO");
}

void Table::on_frame(Lane& lane, ConstByteSpan head, uint32_t payload_bytes) {
  VARVE_ASSERT(payload_bytes == 0, payload_bytes);  // on_place refused it
  Result<wire::Frame> frame = wire::decode(head);
  // N2: whoever does not speak HELLO gets no answer.
  if (!frame) {
    context_.metrics.malformed[static_cast<uint8_t>(Malformed::kFrame)].add();
    return lane.close(frame.error());
  }
  const auto* view = std::get_if<wire::HelloView>(&frame->body);
  if (view == nullptr) {
    context_.metrics.malformed[static_cast<uint8_t>(Malformed::kState)].add();
    return lane.close(Status::invalid("the first frame of a lane is HELLO"));
  }
  hello(lane, frame->header.op, *view);
}

void Table::hello(Lane& lane, uint64_t op, const wire::HelloView& view) {
  const PeerPlace place = lane.peer_is_loopback() ? PeerPlace::kLoopback : PeerPlace::kElsewhere;
  const Result<uint32_t> domain =
      check_hello(view, context_.domains, context_.options.credit_bytes_min, place);
  if (!domain) {
    const bool version = domain.error().code() == Code::kUnsupported;
    return refuse(lane, op, domain.error(),
                  version ? version_text(view.body.version_min, view.body.version_max) : "");
  }
  if (draining_) return refuse(lane, op, Status::unavailable("this server is draining"));
  if (view.body.lane == wire::LaneKind::kUrgent) {
    hello_urgent(lane, op, view, *domain);
  } else {
    hello_bulk(lane, op, view, *domain);
  }
}

void Table::refuse(Lane& lane, uint64_t op, Status cause, const std::string& text) {
  context_.metrics.hellos_refused[static_cast<uint8_t>(cause.code())].add();
  uint64_t swallowed = 0;
  if (refusals_log_.admit(context_.reactor.now_ns(), &swallowed)) {
    logf(LogLevel::kWarn, "session", "HELLO of %s refused: %s (%s); %" PRIu64 " more not logged",
         lane.peer().c_str(), text.empty() ? cause.what() : text.c_str(), code_name(cause.code()),
         swallowed);
  }
  lane.refuse(op, cause, text);
}

void Table::hello_urgent(Lane& lane, uint64_t op, const wire::HelloView& view, uint32_t domain) {
  LiveSession* session = sessions_.take(domain);
  if (session == nullptr) {
    return refuse(lane, op,
                  sessions_.available() == 0
                      ? Status::overloaded("all sessions are taken (varved --sessions)")
                      : Status::overloaded("the sessions that are left are set aside for other "
                                           "domains (varved --sessions)"));
  }
  LiveSession::Open open;
  open.id = fresh_id();
  do {
    open.secret = env_.entropy.next64();
  } while (open.secret == 0);
  open.domain = domain;
  open.credit_bytes = std::min(view.body.pull_credit_bytes, context_.options.credit_bytes_max);
  open.features = view.body.features & wire::kFeatures;
  open.client = printable_name(view.name);
  session->open(open, lane, sessions_);
  welcome(lane, op, view.body, *session);
}

void Table::hello_bulk(Lane& lane, uint64_t op, const wire::HelloView& view, uint32_t domain) {
  LiveSession* session = find(view.body.session);
  // An unknown session, one of another domain and a wrong secret get one answer.
  const uint64_t secret = session == nullptr ? 0 : session->secret();
  const bool equal = equal_secret(bytes_view(secret), bytes_view(view.body.session_secret));
  if (session == nullptr || !equal || session->domain() != domain) {
    return refuse(lane, op, Status::unauthorized("no such session, or a wrong session secret"));
  }
  if (session->over()) return refuse(lane, op, Status::unavailable("the session is ending"));
  if (session->has_bulk(view.body.lane_index)) {
    return refuse(lane, op, Status::invalid("this bulk lane of the session is open already"));
  }
  session->attach(view.body.lane_index, lane);
  welcome(lane, op, view.body, *session);
}

void Table::welcome(Lane& lane, uint64_t op, const wire::Hello& hello, const LiveSession& session) {
  const SessionOptions& options = context_.options;
  wire::HelloOk body;
  body.slices = options.slices;
  body.features = hello.features & wire::kFeatures;
  body.session = session.id();
  body.session_secret = session.secret();
  body.boot_id = options.boot_id;
  body.epoch = options.epoch;
  body.domain = session.domain();
  body.k = options.scheme.k;
  body.m = options.scheme.m;
  body.lease_ms_max = options.lease_ms_max;
  body.reserve_ms_max = options.reserve_ms_max;
  body.pulls_max = options.pulls_max;
  body.attempts_max = options.attempts_max;
  body.formats_max = options.formats_max;
  body.node = options.node;
  const Domain* domain = context_.domains.find(session.domain());
  VARVE_ASSERT(domain != nullptr, session.domain());  // else it would be over
  body.domain_salt = domain->salt;
  if (!lane.send_head(context_.encoder().hello_ok(op, body))) {
    lane.close(Status::overloaded("no room for HELLO_OK"));
  }
}

LiveSession* Table::find(uint64_t id) {
  for (const auto& session : sessions_.all()) {
    if (session->in_use() && session->id() == id) return session.get();
  }
  return nullptr;
}

// The low 8 bits name the session shard, so that lanes can be spread over shards later.
uint64_t Table::fresh_id() {
  while (true) {
    const uint64_t id = (env_.entropy.next64() << 8) | (context_.reactor.shard() & 0xff);
    if ((id >> 8) != 0 && find(id) == nullptr) return id;
  }
}

bool Table::close_session(uint64_t id, Status cause) {
  LiveSession* session = find(id);
  if (session == nullptr) return false;
  session->fail(cause);
  return true;
}

void Table::domains_set(Domains domains) {
  context_.domains_set(std::move(domains));
  sessions_.domains_set(context_.domains);
  for (const auto& session : sessions_.all()) {
    if (!session->in_use() || context_.domains.find(session->domain()) != nullptr) continue;
    session->fail(Status::unauthorized("the domain of this session was dropped"));
  }
}

// Not in a drain: it would begin behind the look at whether all is at rest.
void Table::purge(NodePurge& purge) {
  VARVE_ASSERT(purge.on_done != nullptr);
  if (!draining_) return operator_.purge(purge);
  purge.answer = {.code = static_cast<uint8_t>(Code::kUnavailable)};
  purge.on_done(purge);
}

void Table::drain() {
  if (listener_) listener_->stop();
  draining_ = true;
  for (const auto& session : sessions_.all()) {
    if (session->in_use()) session->goodbye();
  }
}

void Table::close_all(Status cause) {
  for (const auto& session : sessions_.all()) {
    if (session->in_use()) session->fail(cause);
  }
  lanes_.for_each_open([&cause](Lane& lane) {
    if (lane.state() == Lane::State::kUnnamed) lane.close(cause);
  });
}

}  // namespace

Result<std::unique_ptr<SessionTable>> SessionTable::open(Env& env, Reactor& reactor,
                                                         std::vector<Shard*> shards,
                                                         const SessionOptions& options) {
  if (shards.empty() || shards.size() > options.slices || shards.size() > 256) {
    return Status::invalid("1 to slices shards");
  }
  if (options.sessions_max == 0 || options.lanes_unnamed_max == 0) {
    return Status::invalid("sessions_max and lanes_unnamed_max are at least 1");
  }
  if (options.credit_bytes_min > options.credit_bytes_max) {
    return Status::invalid("credit_bytes_min is over credit_bytes_max");
  }
  if (!options.scheme.valid()) return Status::invalid("no such scheme");
  std::unique_ptr<SessionTable> table =
      std::make_unique<Table>(env, reactor, std::move(shards), options);
  return table;
}

}  // namespace varve
