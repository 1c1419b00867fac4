// RESERVE: one part per home, each with its share of what the session may still hold.
#include "server/session/requests.h"
#include "server/session/split.h"

namespace varve {

void Requests::refuse_reserve(uint64_t op, Code code) {
  scope_.context.metrics.requests_refused[static_cast<uint8_t>(code)].add();
  wire::Reserved body;
  body.code = static_cast<uint8_t>(code);
  scope_.reply(scope_.context.encoder().reserved(op, body, {}));
}

void Requests::reserve(uint64_t op, const wire::ReserveView& view) {
  SessionContext& context = scope_.context;
  context.metrics.reserves.add();
  if (Status status = admit(op); !status.ok()) return refuse_reserve(op, status.code());
  const wire::Reserve& body = view.body;
  const SessionFormat* format = formats_.find(body.format);
  if (format == nullptr || body.rank >= format->format.rank_count() || body.hold_ms == 0) {
    return refuse_reserve(op, Code::kInvalid);
  }
  PendingReserve* request = context.reserves->take(scope_.domain);
  if (request == nullptr) return refuse_reserve(op, Code::kOverloaded);
  take_ids(*request, view.ids);
  begin(*request, op, format);
  const uint32_t count = request->ids.count;
  request->rank = body.rank;
  request->hold_ns = std::min(body.hold_ms, context.options.reserve_ms_max) * kMillisecond;
  request->grant_count = grants_.reserve(count, request->grants);
  for (uint32_t i = 0; i < count; ++i)
    request->loans[i] = {};
  for (uint32_t s = 0; s < context.shards.size(); ++s) {
    if (request->begins[s] == request->begins[s + 1]) continue;
    ReservePart& part = request->parts[s];
    part.session_reactor = &context.reactor;
    part.shard = s;
    part.status = Status();
    part.on_back = on_reserve_part;
    part.owner = request;
    scope_.sign(part);
    part.deadline_ns = request->began_ns + request->hold_ns;
    part.request = &request->ids;
    part.begin = request->begins[s];
    part.end = request->begins[s + 1];
    part.format = format;
    part.rank = body.rank;
    part.epoch = body.epoch;
    part.grants_max = share_of(request->grant_count, part.begin, part.end, count);
    part.parent = body.parent;
    part.domains = static_cast<uint32_t>(context.domains.all().size());
    part.loans = request->loans.data();
    ++request->parts_out;
    context.shards[s]->submit(part);
  }
}

void Requests::on_reserve_part(Part& part) {
  auto& request = *static_cast<PendingReserve*>(part.owner);
  VARVE_ASSERT(request.parts_out > 0);
  if (--request.parts_out == 0) request.requests->merge_reserve(request);
}

void Requests::merge_reserve(PendingReserve& request) {
  SessionContext& context = scope_.context;
  Code code = request.cancelled ? Code::kCancelled : Code::kOk;
  for (uint32_t s = 0; s < context.shards.size(); ++s) {
    if (request.begins[s] == request.begins[s + 1]) continue;
    const Status status = request.parts[s].status;
    if (status.ok()) continue;
    // A part that failed as a whole granted nothing: its positions are refused with its cause.
    for (uint32_t i = request.begins[s]; i < request.begins[s + 1]; ++i) {
      GrantLoan& loan = request.loans[request.ids.positions[i]];
      if (loan.outcome == wire::ReserveOutcome::kRefused && loan.code == Code::kOk) {
        loan.code = status.code();
      }
    }
  }
  const Nanos passed_ns = context.reactor.now_ns() - request.began_ns;
  const Nanos left_ns = request.hold_ns > passed_ns ? request.hold_ns - passed_ns : 1;
  uint32_t used = 0;
  for (uint32_t i = 0; i < request.ids.count; ++i) {
    const GrantLoan& loan = request.loans[i];
    wire::ReserveAnswer& answer = request.answers[i];
    answer = {};
    answer.outcome = loan.outcome;
    answer.code = static_cast<uint8_t>(loan.code);
    if (loan.outcome != wire::ReserveOutcome::kGranted) continue;
    VARVE_ASSERT(used < request.grant_count, used, request.grant_count);
    answer.attempt = loan.attempt;
    grants_.begin(*request.grants[used++], {request.op,
                                            i,
                                            {request.ids.ids[i], request.rank, scope_.domain},
                                            &request.format->tables[request.rank],
                                            request.format->counts,
                                            loan,
                                            left_ns});
  }
  while (used < request.grant_count)
    grants_.give_up(*request.grants[used++]);
  // Nobody waits for these any more: they go back as any other attempt does.
  if (scope_.ending) grants_.end_all();
  if (code == Code::kCancelled) grants_.cancel(request.op);
  wire::Reserved body;
  body.code = static_cast<uint8_t>(code);
  body.count = code == Code::kOk ? request.ids.count : 0;
  context.metrics.reserve_ns.record(passed_ns);
  scope_.reply(context.encoder().reserved(request.op, body, {request.answers.data(), body.count}));
  finish(request);
}

}  // namespace varve
