// Handle: the lock, the fork, the close, and what each event means to C callers.
#include "client/c_handle.h"

#include "client/wait.h"

namespace varve {

namespace {
constexpr Nanos kReadySliceNs = 20 * kMillisecond;  // a close is noticed this soon

bool is_terminal(const Event& event) {
  return event.kind != Event::Kind::kLayer && event.kind != Event::Kind::kReserved;
}
}  // namespace

Handle::Call::Call(varve_client* client) {
  if (client == nullptr) {
    refused = VARVE_INVALID;
    return;
  }
  auto* handle = static_cast<Handle*>(client);
  if (handle->is_forked()) {  // H1
    refused = VARVE_FORKED;
    return;
  }
  handle_ = handle;
  if ((handle_->inside_.fetch_add(1) & kClosing) != 0) refused = VARVE_CLOSED;
}

Handle::Call::~Call() {
  if (handle_ == nullptr) return;
  if (handle_->inside_.fetch_sub(1) == (kClosing | 1)) handle_->inside_.notify_all();
}

const char* Handle::Call::why() const {
  switch (refused) {
    case VARVE_INVALID:
      return "a null client";
    case VARVE_FORKED:
      return "the client belongs to the parent process: open one in this process";
    default:
      return "the client is closed";
  }
}

Handle::Handle(const ClientOptions& options) : options_(options) {}

Status Handle::open(const ClientOptions& options, std::unique_ptr<Handle>& out,
                    std::unique_ptr<Resolver> resolver) {
  std::unique_ptr<Handle> handle(new Handle(options));
  VARVE_TRY(handle->client_, Client::open(options, handle.get(), std::move(resolver)));
  out = std::move(handle);
  return Status();
}

Handle::~Handle() {
  VARVE_ASSERT(!is_forked());  // H1: varve_free leaves it alone
  static_cast<void>(close());
}

// Waiting calls return because their ops end, or because they look for kClosing.
Status Handle::close() {
  std::lock_guard closing(closing_mutex_);
  if (client_ == nullptr) return Status();
  inside_.fetch_or(kClosing);
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, op] : ops_)
      client_->cancel(id);
  }
  changed_.notify_all();
  for (uint32_t inside = inside_.load(); inside != kClosing; inside = inside_.load())
    inside_.wait(inside);
  client_.reset();  // the events of what is left come here until it returns
  VARVE_ASSERT(std::all_of(ops_.begin(), ops_.end(), [](const auto& o) { return o.second.ended; }));
  return Status();
}

Status Handle::wait_ready(Nanos timeout_ns) {
  const auto end = after(timeout_ns);
  for (;;) {
    const Status status = client_->wait_ready(std::min(timeout_ns, kReadySliceNs));
    if (status.ok() || after(0) >= end || is_closing()) return status;
  }
}

uint64_t Handle::tags_forgotten() const {
  std::lock_guard lock(mutex_);
  return tags_.forgotten();
}

void Handle::know_format(FormatId id, const Format& format) {
  FormatShape shape{format.fingerprint(), {}};
  for (const auto& layers : format.ranks)
    shape.layer_counts.push_back(static_cast<uint32_t>(layers.size()));
  std::lock_guard lock(mutex_);
  formats_[id] = std::move(shape);
}

Result<Handle::FormatShape> Handle::format_shape(FormatId id) const {
  std::lock_guard lock(mutex_);
  const auto found = formats_.find(id);
  if (found == formats_.end()) return Status::invalid("unknown format");
  return found->second;
}

Result<uint32_t> Handle::layers_of(FormatId id, uint32_t rank) const {
  VARVE_TRY(const FormatShape shape, format_shape(id));
  if (rank >= shape.layer_counts.size()) return Status::invalid("the format has no such rank");
  return uint32_t{shape.layer_counts[rank]};
}

Result<varve_layout> Handle::define(Layout layout, FormatId format, uint32_t rank) {
  VARVE_TRY(const uint32_t layers, layers_of(format, rank));
  if (layout.layers.size() != layers) {
    return Status::invalid("layout: its layer count differs from the format's rank");
  }
  std::lock_guard lock(mutex_);
  if (layouts_.size() >= kLayoutsMax) return Status::overloaded("4096 layouts are defined");
  layouts_.emplace(++last_layout_, Defined{std::move(layout), format, rank, 0});
  return varve_layout{last_layout_};
}

Status Handle::undefine(varve_layout layout) {
  std::lock_guard lock(mutex_);
  const auto found = layouts_.find(layout);
  if (found == layouts_.end()) return Status::invalid("no such layout");
  if (found->second.users > 0) {  // H3
    return Status::overloaded("an op uses the layout; quiesce it first");
  }
  layouts_.erase(found);
  return Status();
}

// Takes the op's layout, if it has one.
Result<Handle::Where> Handle::where_of(HandleOp& op) {
  if (op.layout == 0) return Where{op.format, op.rank, op.own.get()};
  const auto found = layouts_.find(op.layout);
  if (found == layouts_.end()) return Status::invalid("no such layout");
  ++found->second.users;
  const Defined& defined = found->second;
  if (op.layer_count == 0) {
    const auto all = static_cast<uint32_t>(defined.layout.layers.size());
    op.layer_count = all - std::min(all, op.layer_first);
  }
  return Where{defined.format, defined.rank, &defined.layout};
}

void Handle::leave_layout(HandleOp& op) {
  op.own.reset();
  if (op.layout == 0) return;
  const auto found = layouts_.find(op.layout);
  VARVE_ASSERT(found != layouts_.end() && found->second.users > 0, op.layout);  // H3
  --found->second.users;
  op.layout = 0;
}

void Handle::show_layers(OpId id, uint32_t layers) {
  const bool put = layers_.put(id, PeekWords{layers});
  VARVE_ASSERT(put, layers_.count());  // submit() looked for room
}

Result<OpId> Handle::match(MatchRequest request, uint32_t flags) {
  const uint64_t tag = request.tag;
  const bool each = request.of == MatchOf::kEach;
  HandleOp op;
  op.kind = each ? VARVE_DONE_EXISTS : VARVE_DONE_MATCH;
  op.flags = flags;
  op.count = static_cast<uint32_t>(request.ids.size());
  op.tag = tag;
  std::lock_guard lock(mutex_);
  if (tag != 0 && !each) {
    if (const OpId running = tags_.running(tag); running != 0) return OpId{running};
    if (!tags_.make_room(tag)) return Status::overloaded("4096 tags wait for an answer");
  }
  VARVE_TRY(const OpId id, client_->match(std::move(request)));
  if (tag != 0 && !each) tags_.ask(tag, id);
  ops_.emplace(id, std::move(op));
  return OpId{id};
}

void Handle::forget(uint64_t tag) {
  std::lock_guard lock(mutex_);
  if (const OpId asking = tags_.forget(tag); asking != 0) client_->cancel(asking);
}

varve_status Handle::peek(uint64_t tag, varve_match_answer& answer) const {
  return tags_.peek(tag, clock_.now_ns(), answer);
}

EventWatch::Queue Handle::on_event(const Event& event) {
  bool told = false;
  {
    std::lock_guard lock(mutex_);
    const auto found = ops_.find(event.op);
    VARVE_ASSERT(found != ops_.end(), event.op);  // submit() knew it first
    HandleOp& op = found->second;
    VARVE_ASSERT(!op.ended, event.op);  // C3
    if (event.kind == Event::Kind::kLayer) {
      VARVE_ASSERT(event.layer >= op.layer_first, event.layer, op.layer_first);
      op.layers_done = event.layer - op.layer_first + 1;
      op.codes = event.codes;
      show_layers(event.op, op.layers_done);
      told = (op.flags & VARVE_TELL_LAYERS) != 0;
    } else if (event.kind == Event::Kind::kReserved) {
      told = (op.flags & VARVE_TELL_RESERVED) != 0;
    } else {
      op.ended = true;
      op.status = event.status;
      op.codes = event.codes;
      leave_layout(op);
      if (op.kind == VARVE_DONE_MATCH && op.tag != 0) {
        tags_.answer(op.tag, event, clock_.now_ns());
      }
      told = (op.flags & kTellNothing) == 0;
      if (!told) ops_.erase(found);
    }
  }
  changed_.notify_all();
  return told ? Queue::kYes : Queue::kNo;
}

HandleOp Handle::take(const Event& event) {
  std::lock_guard lock(mutex_);
  const auto found = ops_.find(event.op);
  if (found == ops_.end()) return HandleOp();  // its last completion was taken meanwhile
  if (is_terminal(event)) {
    HandleOp op = std::move(found->second);
    ops_.erase(found);
    layers_.erase(event.op);
    return op;
  }
  HandleOp op;
  op.kind = found->second.kind;
  op.layer_first = found->second.layer_first;
  op.layers_done = found->second.layers_done;
  return op;
}

bool Handle::knows(OpId op) const {
  std::lock_guard lock(mutex_);
  return ops_.find(op) != ops_.end();
}

varve_status Handle::layers_done(OpId op, uint32_t& layers) const {
  PeekWords words;
  if (op == 0) return VARVE_UNKNOWN;
  for (;;) {  // it is asked in a loop anyway; a busy table is one that is about to answer
    const auto found = layers_.find(op, words);
    if (found == PeekTable::Found::kNo) return VARVE_UNKNOWN;
    if (found == PeekTable::Found::kBusy) continue;
    layers = static_cast<uint32_t>(words[0]);
    return VARVE_OK;
  }
}

varve_status Handle::wait_layer(OpId id, uint32_t layer, Nanos timeout_ns,
                                std::vector<Code>& codes) {
  std::unique_lock lock(mutex_);
  varve_status status = VARVE_TIMED_OUT;
  const auto settled = [&] {
    const auto found = ops_.find(id);
    if (found == ops_.end() || !found->second.has_layers()) {
      status = VARVE_UNKNOWN;
      return true;
    }
    const HandleOp& op = found->second;
    if (layer < op.layer_first || layer - op.layer_first >= op.layer_count) {
      status = VARVE_INVALID;
      return true;
    }
    const bool here = layer - op.layer_first < op.layers_done;
    if (!here && !op.ended) return false;
    codes = op.codes;
    const bool all = std::all_of(codes.begin(), codes.end(), [](Code c) { return c == Code::kOk; });
    status = all ? VARVE_OK : VARVE_PARTIAL;
    // It ended before: a block that is whole has this layer too, the others have not.
    if (!here)
      status = op.status.ok() ? VARVE_PARTIAL : static_cast<varve_status>(op.status.code());
    return true;
  };
  const bool done = changed_.wait_until(lock, after(timeout_ns), [&] {
    if (settled()) return true;
    if (!is_closing()) return false;
    status = VARVE_CLOSED;
    return true;
  });
  return done ? status : varve_status{VARVE_TIMED_OUT};
}

}  // namespace varve
