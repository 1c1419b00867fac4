// Core: validates requests, keeps the tables, routes frames to ops.
#include "client/core.h"

#include <algorithm>

#include "client/holds.h"
#include "client/match.h"
#include "client/pull.h"
#include "client/purge.h"
#include "client/push.h"
#include "client/renew.h"

namespace varve {

ClientOp::ClientOp(Core& core, OpId op, uint64_t tag, Nanos deadline_ns)
    : core_(core), id_(op), tag_(tag), started_ns_(core.reactor().now_ns()) {
  VARVE_ASSERT(op != 0);
  deadline_ns = std::min(deadline_ns, kDeadlineMax);
  deadline_ns_ = started_ns_ + deadline_ns;
  timer_.owner = this;
  timer_.on_fire = [](Timer& t) { static_cast<ClientOp*>(t.owner)->on_timer(); };
  core_.reactor().arm(timer_, deadline_ns);
  retry_timer_.owner = this;
  retry_timer_.on_fire = [](Timer& t) { static_cast<ClientOp*>(t.owner)->wake(); };
}

ClientOp::~ClientOp() {
  VARVE_ASSERT(!slot_);
  core_.reactor().cancel(timer_);
  core_.reactor().cancel(retry_timer_);
}

void ClientOp::retire() {
  core_.reactor().cancel(timer_);
  core_.reactor().cancel(retry_timer_);
  give_slot();
  core_.pace().leave(*this);
}

bool ClientOp::take_slot(Pace::Kind kind, Nanos due_ns) {
  VARVE_ASSERT(!slot_);
  if (!core_.pace().take(kind, *this, due_ns)) return false;
  slot_ = true;
  slot_kind_ = kind;
  return true;
}

uint32_t ClientOp::take_reserve_slot(uint32_t wanted) {
  VARVE_ASSERT(!slot_);
  const uint32_t window = core_.pace().take_reserve(*this, started_ns_, wanted);
  VARVE_ASSERT(window <= wanted, window, wanted);
  slot_ = window > 0;
  slot_kind_ = Pace::Kind::kReserve;
  return window;
}

void ClientOp::give_slot() {
  if (!slot_) return;
  slot_ = false;
  core_.pace().give(slot_kind_);
}

void ClientOp::retry_later(Status refused) {
  VARVE_ASSERT(retry_pause_ns_ >= kRetryMin && retry_pause_ns_ <= kRetryMax, retry_pause_ns_);
  refused_ = refused;
  ++core_.count().retries;
  retry_at_ns_ = now_ns() + retry_pause_ns_;
  core_.reactor().arm(retry_timer_, retry_pause_ns_);
  retry_pause_ns_ = std::min(2 * retry_pause_ns_, kRetryMax);
}

Nanos ClientOp::now_ns() const {
  return core_.reactor().now_ns();
}

Nanos ClientOp::left_ns() const {
  const Nanos now = core_.reactor().now_ns();
  return deadline_ns_ > now ? deadline_ns_ - now : 1;
}

void ClientOp::wake() {
  core_.reactor().make_ready(*this);
}

void ClientOp::on_timer() {
  ++core_.count().timeouts;
  cancel(refused_.ok() ? Status::timed_out("the deadline passed") : refused_);
}

Event ClientOp::event(Event::Kind kind) const {
  Event e;
  e.kind = kind;
  e.op = id_;
  e.tag = tag_;
  e.done_ns = core_.reactor().now_ns() - started_ns_;
  return e;
}

void PieceSend::put(const BoundLayout& layout, const Bounce::Bytes& of, Columns& room) {
  uint32_t& count = request.payload_count;
  bytes = of.length;
  if (room.empty()) {
    bytes = layout.pieces(of.slot, of.extent, of.offset, of.length, request.payload, &count);
  } else {
    count = Bounce::fill(layout, of, room, request.payload);
    bounce.swap(room);
  }
}

Core::Core(Env& env, Reactor& reactor, const ClientOptions& options, Names names)
    : reactor_(reactor),
      options_(options),
      session_(env, reactor, options_, *this, names),
      pieces_(kPieceSendsMax),
      parity_scratch_(options.parity_scratch_bytes),
      rebuild_scratch_(options.rebuild_scratch_bytes),
      bounce_(options.bounce_bytes),
      hedge_budget_(options.hedge_percent),
      breaker_(options.breaker_failures, options.breaker_probe_ns),
      gather_(std::make_unique_for_overwrite<std::byte[]>(size_t{kDataMax} * kColumnBytes)),
      reaper_(*this) {
  for (const auto& piece : pieces_.all()) {
    piece->request.owner = piece.get();
    piece->request.on_sent = [](SendRequest& r) {
      auto* p = static_cast<PieceSend*>(r.owner);
      ClientPushOp* op = p->op;
      Core& core = op->core();
      op->on_sent(*p);
      core.give_piece(p);
    };
  }
}

Core::~Core() {
  VARVE_ASSERT(session_.quiet());
  VARVE_ASSERT(ops_.empty(), ops_.size());
  VARVE_ASSERT(reaper_.dead.empty() && !reaper_.ready);
}

Result<RegionId> Core::register_memory(void* data, uint64_t bytes) {
  if (data == nullptr || bytes == 0) return Status::invalid("register_memory: an empty region");
  if (bytes > UINTPTR_MAX - reinterpret_cast<uintptr_t>(data)) {
    return Status::invalid("register_memory: it reaches beyond the last address");
  }
  const auto free = std::find(regions_.begin(), regions_.end(), nullptr);
  if (free == regions_.end() && regions_.size() >= kRegionsMax) {
    return Status::overloaded("register_memory: 4096 regions are registered");
  }
  auto region = std::make_unique<Region>();
  region->data = static_cast<std::byte*>(data);
  region->bytes = bytes;
  const auto index = static_cast<RegionId>(free - regions_.begin());
  if (free == regions_.end()) {
    regions_.push_back(std::move(region));
  } else {
    *free = std::move(region);
  }
  return index + 1;
}

Status Core::unregister_memory(RegionId region) {
  if (region == 0 || region > regions_.size() || !regions_[region - 1]) {
    return Status::invalid("unregister_memory: no such region");
  }
  if (regions_[region - 1]->users > 0) {
    return Status::overloaded("unregister_memory: an op uses the region; quiesce it first");
  }
  regions_[region - 1].reset();
  return Status();
}

void Core::hold_regions(const BoundLayout& layout, Hold hold) {
  for (const RegionId id : layout.regions()) {
    VARVE_ASSERT(id > 0 && id <= regions_.size() && regions_[id - 1] != nullptr, id);
    Region& region = *regions_[id - 1];
    VARVE_ASSERT(hold == Hold::kTake || region.users > 0);
    region.users += hold == Hold::kTake ? 1 : -1;
  }
}

Result<OpId> Core::admit() {
  if (closing_) return Status::cancelled("the client is closed");
  if (ops_.size() >= options_.ops_max) return Status::overloaded("ops_max ops are in flight");
  if (events_.size() >= kEventsMax) return Status::overloaded("65536 events were not taken");
  return ++last_op_;
}

template <class OpType>
OpId Core::adopt(std::unique_ptr<OpType> op) {
  const OpId id = op->id();
  op->wake();
  const bool fresh = ops_.emplace(id, std::move(op)).second;
  VARVE_ASSERT(fresh && id <= last_op_, id);  // never reused
  return id;
}

namespace {
// Zeros are what is left of ids that could not be made; two prompts must not share them.
Status check_none(const std::vector<BaseId>& ids) {
  const bool none =
      std::any_of(ids.begin(), ids.end(), [](const BaseId& id) { return id.is_zero(); });
  return none ? Status::invalid("an id is all zeros, which is none") : Status();
}

Status check_ids(const std::vector<BaseId>& ids, size_t slots) {
  if (ids.empty()) return Status::invalid("no ids");
  if (ids.size() > wire::kIdsMax) {
    return Status::invalid("more than 2048 ids in one op; split the prefix");
  }
  if (slots != ids.size()) return Status::invalid("slots: one per id is needed");
  return check_none(ids);
}
}  // namespace

Result<OpId> Core::match(MatchRequest request) {
  if (find_format(request.format) == nullptr) return Status::invalid("match: unknown format");
  if (request.ids.empty()) return Status::invalid("match: no ids");
  VARVE_RETURN_IF_ERROR(check_none(request.ids));
  if (request.of == MatchOf::kEach && request.lease_ms != 0) {
    return Status::invalid("match of each: there is no lease");
  }
  VARVE_TRY(const OpId id, admit());
  return adopt(std::make_unique<ClientMatchOp>(*this, id, std::move(request)));
}

Result<OpId> Core::pull(PullRequest request) {
  return begin_pull(std::move(request), {});
}

// A follow is a pull that names the attempts it is of.
Result<OpId> Core::follow(FollowRequest request) {
  PullRequest pull;
  std::vector<Attempt> attempts;
  for (const FollowTag& block : request.blocks) {
    if (block.attempt.is_none()) return Status::invalid("follow: a tag that no push gave");
    pull.ids.push_back(block.id);
    attempts.push_back(block.attempt);
  }
  pull.format = request.format;
  pull.rank = request.rank;
  pull.slots = std::move(request.slots);
  pull.layout = request.layout;
  pull.layer_first = request.layer_first;
  pull.layer_count = request.layer_count;
  pull.deadline_ns = request.deadline_ns;
  pull.slack_ns = request.slack_ns;
  pull.layer_ns = request.layer_ns;
  pull.tag = request.tag;
  return begin_pull(std::move(pull), std::move(attempts));
}

Result<OpId> Core::begin_pull(PullRequest request, std::vector<Attempt> attempts) {
  const ClientFormat* format = find_format(request.format);
  if (format == nullptr) return Status::invalid("pull: unknown format");
  if (request.rank >= format->format.rank_count()) return Status::invalid("pull: no such rank");
  VARVE_RETURN_IF_ERROR(check_ids(request.ids, request.slots.size()));
  if (request.layout == nullptr) return Status::invalid("pull: no layout");
  const auto& layers = format->format.ranks[request.rank];
  if (request.layer_first >= layers.size()) return Status::invalid("pull: no such layer");
  const auto rest = static_cast<uint32_t>(layers.size()) - request.layer_first;
  if (request.layer_count == 0) request.layer_count = rest;
  if (request.layer_count > rest) return Status::invalid("pull: more layers than the format has");
  VARVE_TRY(auto layout,
            BoundLayout::bind(*request.layout, layers, request.slots, regions_, bounce_.rule()));
  VARVE_TRY(const OpId id, admit());
  return adopt(std::make_unique<ClientPullOp>(*this, id, std::move(request), std::move(layout),
                                              std::move(attempts)));
}

Result<OpId> Core::push(PushRequest request) {
  const ClientFormat* format = find_format(request.format);
  if (format == nullptr) return Status::invalid("push: unknown format");
  if (request.rank >= format->format.rank_count()) return Status::invalid("push: no such rank");
  VARVE_RETURN_IF_ERROR(check_ids(request.ids, request.slots.size()));
  if (request.layout == nullptr) return Status::invalid("push: no layout");
  VARVE_TRY(auto layout, BoundLayout::bind(*request.layout, format->format.ranks[request.rank],
                                           request.slots, regions_, bounce_.rule()));
  VARVE_TRY(const OpId id, admit());
  auto push = std::make_unique<ClientPushOp>(*this, id, std::move(request), std::move(layout));
  pushes_.emplace(std::pair(push->deadline_ns(), id), push.get());
  return adopt(std::move(push));
}

Status Core::push_layer(OpId op, uint32_t layer) {
  const auto found = ops_.find(op);
  if (found == ops_.end()) return Status::invalid("push_layer: no such op (it may have ended)");
  auto* push = dynamic_cast<ClientPushOp*>(found->second.get());
  if (push == nullptr) return Status::invalid("push_layer: the op is no push");
  return push->layer_final(layer);
}

Result<OpId> Core::renew(RenewRequest request) {
  if (request.lease_ms == 0) return Status::invalid("renew: lease_ms is at least 1");
  VARVE_TRY(const OpId id, admit());
  return adopt(std::make_unique<ClientRenewOp>(*this, id, request, ClientRenewOp::For::kCaller));
}

Result<OpId> Core::holds(HoldsRequest request) {
  VARVE_TRY(const OpId id, admit());
  return adopt(std::make_unique<ClientHoldsOp>(*this, id, request));
}

Result<OpId> Core::purge(PurgeRequest request) {
  const bool blocks = request.kind == wire::PurgeKind::kBlocks;
  if (blocks && (request.ids.empty() || request.ids.size() > wire::kIdsMax)) {
    return Status::invalid("purge of blocks: 1 to 2048 ids");
  }
  if (!blocks && !request.ids.empty()) return Status::invalid("purge: ids are for blocks only");
  const bool lineage = request.kind == wire::PurgeKind::kLineage;
  if (lineage && find_format(request.format) == nullptr) {
    return Status::invalid("purge of a lineage: no such format");
  }
  VARVE_TRY(const OpId id, admit());
  return adopt(std::make_unique<ClientPurgeOp>(*this, id, std::move(request)));
}

// Not counted in ops_max: one a lease at most.
void Core::renew_used_leases() {
  std::vector<uint64_t> due;
  for (const auto& [id, op] : ops_) {
    const uint64_t lease = op->lease_in_use();
    if (lease != 0 && leases_.is_half_over(lease)) due.push_back(lease);
  }
  for (const uint64_t lease : due) {
    ClientLease* held = leases_.find(lease);
    VARVE_ASSERT(held != nullptr, lease);  // it is half over, not all
    if (held->renewal != 0) continue;
    const OpId id = ++last_op_;
    held->renewal = id;
    adopt(std::make_unique<ClientRenewOp>(
        *this, id, RenewRequest{lease, held->lease_ms, leases_.left_ns(lease), 0},
        ClientRenewOp::For::kUse));
  }
}

void Core::cancel(OpId op) {
  const auto found = ops_.find(op);
  if (found != ops_.end()) found->second->cancel(Status::cancelled("by the caller"));
}

void Core::give_piece(PieceSend* piece) {
  VARVE_ASSERT(piece->op != nullptr && pieces_.used() > 0);
  piece->op = nullptr;
  parity_scratch_.give(piece->parity);
  bounce_.give(piece->bounce);
  pieces_.give(piece);
  wake_pushes();
}

bool Core::next_event(Event& out) {
  if (events_.empty()) return false;
  out = std::move(events_.front());
  events_.pop_front();
  return true;
}

void Core::finish(ClientOp& op, Event event) {
  VARVE_ASSERT(event.op == op.id());
  VARVE_ASSERT(event.kind != Event::Kind::kLayer && event.kind != Event::Kind::kReserved);  // C3
  breaker_.on_end(event, reactor_.now_ns());
  emit(std::move(event));
  end(op);
}

void Core::end(ClientOp& op) {
  const auto found = ops_.find(op.id());
  VARVE_ASSERT(found != ops_.end());
  op.retire();
  pushes_.erase({op.deadline_ns(), op.id()});
  reaper_.dead.push_back(std::move(found->second));
  ops_.erase(found);
  reactor_.make_ready(reaper_);
}

// An op that was woken meanwhile stands in the ready queue: it goes a turn later.
void Core::Reaper::run() {
  std::erase_if(dead, [](const auto& op) { return !op->ready; });
  if (!dead.empty()) core.reactor().make_ready(*this);
  core.changed();
}

void Core::close() {
  if (closing_) return;
  closing_ = true;
  for (const auto& [id, op] : ops_)
    op->cancel(Status::cancelled("the client closes"));
  leases_.clear();
  session_.close();
  changed();
}

bool Core::at_rest() const {
  const bool fenced = !closing_ || session_.quiet();
  return ops_.empty() && reaper_.dead.empty() && pieces_.used() == 0 &&
         parity_scratch_.used() == 0 && rebuild_scratch_.used() == 0 && bounce_.used() == 0 &&
         leases_.empty() && fenced;
}

const ClientCounters& Core::counters() const {
  counters_.connects = session_.connects();
  counters_.disconnects = session_.disconnects();
  counters_.discarded_bytes = session_.discarded_bytes();
  counters_.identity_changes = session_.identity_changes();
  counters_.breaker_opens = breaker_.opens();
  counters_.breaker_answers = breaker_.answers();
  counters_.breaker_probes = breaker_.probes();
  return counters_;
}

void Core::on_ready() {
  VARVE_ASSERT(session_.state() == SessionState::kReady);
  scheme_ = Scheme{session_.hello().k, session_.hello().m};
  for (const auto& format : formats_)
    use_scheme(*format);
  if (options_.populate_scratch && scheme_.m > 0) populate_scratch();
  pace_.begin_session(session_.hello().pulls_max, session_.hello().attempts_max);
  breaker_.close();
  register_formats();
  wake_all();
  changed();
}

void Core::populate_scratch() {
  options_.populate_scratch = false;  // once
  parity_scratch_.populate();
  rebuild_scratch_.populate();
}

// Leases of a lost session are gone with it; formats get new handles.
void Core::on_lost(Status cause) {
  VARVE_ASSERT(!cause.ok() && session_.quiet());  // F2: from here on no lane touches any memory
  for (const auto& format : formats_) {
    format->handle = 0;
    format->refused = Status();
    format->register_op = 0;
    format->answered = false;
  }
  leases_.clear();
  for (const auto& [id, op] : ops_) {
    op->lose_slot();
    op->on_lost(cause);
  }
  pace_.begin_session(0, 0);
  changed();
}

void Core::on_urgent(const wire::Frame& frame) {
  if (const auto* ok = std::get_if<wire::FormatOkView>(&frame.body)) {
    return on_format_ok(frame.header.op, ok->body);
  }
  if (std::holds_alternative<wire::GoodbyeView>(frame.body)) {
    logf(LogLevel::kInfo, "client", "the daemon at %s is draining", options_.address.c_str());
    return;
  }
  const auto found = routes_.find(frame.header.op);
  if (found == routes_.end()) return on_stray(frame);
  VARVE_ASSERT(!done(found->second->id()), frame.header.op);  // an op that ends unroutes
  found->second->on_frame(frame);
}

// The answer to an op that has ended: what it grants has no owner here and goes back.
void Core::on_stray(const wire::Frame& frame) {
  const auto* matched = std::get_if<wire::MatchedView>(&frame.body);
  if (matched != nullptr && matched->body.lease != 0) leases_.release_on_wire(matched->body.lease);
}

void Core::place_data(const wire::DataView& data, uint64_t op, uint32_t payload_bytes,
                      ByteSpan bounce, Placement& where) {
  const auto found = routes_.find(op);
  auto* pull = found == routes_.end() ? nullptr : dynamic_cast<ClientPullOp*>(found->second);
  if (pull != nullptr) pull->place(op, data.body, payload_bytes, bounce, where);
}

void Core::on_data(const wire::DataView& data, uint64_t op, uint32_t payload_bytes,
                   const Placement& where) {
  const auto found = routes_.find(op);
  auto* pull = found == routes_.end() ? nullptr : dynamic_cast<ClientPullOp*>(found->second);
  // A placed payload keeps its op alive: finish() waits for it.
  VARVE_ASSERT(pull != nullptr, op);
  pull->on_data(op, data.body, payload_bytes, where);
}

void Core::on_tick() {
  register_formats();
  renew_used_leases();
  wake_all();
}

void Core::wake_pushes() {
  for (const auto& [turn, push] : pushes_)
    push->wake();
}

void Core::wake_all() {
  for (const auto& [id, op] : ops_)
    op->wake();
}

}  // namespace varve
