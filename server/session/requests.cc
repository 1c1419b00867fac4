// What matches, reserves and pulls have in common: admission, split, cancel, end.
#include "server/session/requests.h"

#include "server/session/split.h"

namespace varve {

Requests::Requests(SessionScope& scope, SessionFormats& formats, Grants& grants, Leases& leases,
                   Credit& credit, DataOut& data_out)
    : scope_(scope),
      formats_(formats),
      grants_(grants),
      leases_(leases),
      credit_(credit),
      data_out_(data_out),
      fences_(scope),
      lost_out_(scope) {}

RequestBase* Requests::find(uint64_t op) const {
  for (RequestBase* request = live_.front(); request != nullptr; request = live_.next(request)) {
    if (request->op == op) return request;
  }
  return nullptr;
}

// The session is failed when the op is not new; a refusal is answered by the caller.
Status Requests::admit(uint64_t op) {
  if (holds(op) || grants_.holds(op)) {
    const Status cause = Status::invalid("the op of a request is still in use");
    scope_.fail_malformed(Malformed::kState, cause);
    return cause;
  }
  if (count() >= scope_.context.options.requests_max) {
    return Status::quota("requests_max requests are in flight");
  }
  return {};
}

void Requests::take_ids(RequestBase& request, const wire::ArrayView<BaseId>& ids) {
  VARVE_ASSERT(ids.size() <= wire::kIdsMax, ids.size());
  request.ids.count = ids.size();
  for (uint32_t i = 0; i < ids.size(); ++i)
    request.ids.ids[i] = ids[i];
}

// Its ids are there already.
void Requests::begin(RequestBase& request, uint64_t op, const SessionFormat* format) {
  VARVE_ASSERT(!request.linked());
  VARVE_ASSERT(request.ids.count > 0 && request.ids.count <= wire::kIdsMax, request.ids.count);
  VARVE_ASSERT(format != nullptr);
  request.requests = this;
  request.op = op;
  request.parts_out = 0;
  request.cancelled = false;
  request.fence_wanted = false;
  request.began_ns = scope_.context.reactor.now_ns();
  request.format = format;
  std::array<uint8_t, wire::kIdsMax> homes;
  for (uint32_t i = 0; i < request.ids.count; ++i)
    homes[i] = static_cast<uint8_t>(scope_.context.home_of(request.ids.ids[i]));
  split_by_home(request.ids, homes, request.begins);
  live_.push_back(&request);
  scope_.context.metrics.requests.add(1);
}

// After the terminal answer: FENCED if somebody waits for it, and back to the pool.
void Requests::finish(RequestBase& request) {
  VARVE_ASSERT(request.parts_out == 0);
  SessionContext& context = scope_.context;
  if (request.fence_wanted) {
    scope_.reply(context.encoder().fenced(request.fence_op, wire::Fenced{.target_op = request.op}));
    context.metrics.cancel_ns.record(context.reactor.now_ns() - request.cancelled_ns);
  }
  live_.remove(&request);
  context.metrics.requests.add(-1);
  fences_.op_ended(request.op);
  switch (request.kind) {
    case RequestBase::Kind::kMatch:
      context.matches->give(static_cast<PendingMatch*>(&request), scope_.domain);
      break;
    case RequestBase::Kind::kReserve:
      context.reserves->give(static_cast<PendingReserve*>(&request), scope_.domain);
      break;
    case RequestBase::Kind::kPull:
      --pulls_;
      context.pulls->give(static_cast<PendingPull*>(&request), scope_.domain);
      break;
  }
  scope_.something_ended();
}

void Requests::cancel(uint64_t op, const wire::Cancel& body) {
  SessionContext& context = scope_.context;
  if (body.block != wire::kWhole) return cancel_extent(op, body);
  const uint64_t target_op = body.target_op;
  context.metrics.cancels.add();
  RequestBase* request = find(target_op);
  if (request == nullptr) {
    // Ended, never there, or a RESERVE that was answered: its attempts end, nothing is in flight
    // for it.
    grants_.cancel(target_op);
    scope_.reply(context.encoder().fenced(op, wire::Fenced{.target_op = target_op}));
    return;
  }
  if (request->fence_wanted) return;  // one FENCED per op, and it is on its way
  request->fence_wanted = true;
  request->fence_op = op;
  request->cancelled = true;
  request->cancelled_ns = context.reactor.now_ns();
  if (request->kind == RequestBase::Kind::kPull) stop_pull(*static_cast<PendingPull*>(request));
}

void Requests::run() {
  lost_out_.run();
  RequestBase* next = nullptr;
  for (RequestBase* request = live_.front(); request != nullptr; request = next) {
    next = live_.next(request);
    if (request->kind != RequestBase::Kind::kPull) continue;
    auto& pull = *static_cast<PendingPull*>(request);
    if (pull.follow != nullptr) step(*pull.follow);
  }
}

// Of one extent of a pull; the pull goes on. What no pull here ever sends is fenced already.
void Requests::cancel_extent(uint64_t op, const wire::Cancel& body) {
  SessionContext& context = scope_.context;
  context.metrics.fences.add();
  RequestBase* request = find(body.target_op);
  const bool sends = request != nullptr && request->kind == RequestBase::Kind::kPull &&
                     body.block < request->ids.count;
  if (!sends) {
    scope_.reply(
        context.encoder().fenced(op, wire::Fenced{body.target_op, body.block, body.extent}));
    return;
  }
  auto& pull = *static_cast<PendingPull*>(request);
  if (pull.follow != nullptr) return fences_.fence_at_end(op, body);
  const uint32_t home = context.home_of(pull.ids.ids[body.block]);
  fences_.fence(op, body, pull.parts[home]);
}

void Requests::end_all() {
  for (RequestBase* request = live_.front(); request != nullptr; request = live_.next(request)) {
    request->cancelled = true;
    if (request->kind == RequestBase::Kind::kPull) stop_pull(*static_cast<PendingPull*>(request));
  }
}

}  // namespace varve
