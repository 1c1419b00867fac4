// PULL: one part per home; their windows ask this session for credit, their frames leave by its
// lanes.
#include <algorithm>

#include "server/session/requests.h"
#include "server/session/split.h"

namespace varve {

void Requests::refuse_pull(uint64_t op, Code code) {
  scope_.context.metrics.requests_refused[static_cast<uint8_t>(code)].add();
  wire::Pulled body;
  body.code = static_cast<uint8_t>(code);
  scope_.reply(scope_.context.encoder().pulled(op, body, {}));
}

void Requests::refuse_pull(uint64_t op, const wire::PullView& view, Code code) {
  if (view.wants.size() == 0) {
    scope_.counts->pull_blocks[static_cast<uint8_t>(outcome_of(code))].add(view.ids.size());
  }
  refuse_pull(op, code);
}

Status Requests::check_pull(const wire::PullView& view, const SessionFormat* format,
                            ExtentRange* range) {
  const wire::Pull& body = view.body;
  if (format == nullptr) return Status::invalid("PULL of an unknown format");
  if (body.rank >= format->format.rank_count())
    return Status::invalid("PULL of a rank beyond the format");
  if (body.deadline_ns == 0) return Status::invalid("PULL without a deadline");
  const ExtentTable& table = format->tables[body.rank];
  for (uint32_t i = 0; i < view.wants.size(); ++i) {
    const wire::Want want = view.wants[i];
    if (want.block >= body.count) return Status::invalid("PULL: a want of no block of it");
    if (want.extent >= table.count()) return Status::invalid("PULL: a want beyond the extents");
  }
  // A fence of it would leave the second copy to be sent.
  if (has_a_want_twice(view.wants)) return Status::invalid("PULL names one want twice");
  if (view.wants.size() == 0) {
    VARVE_TRY(*range, extents_of_layers(table, body.layer_first, body.layer_count));
  }
  if (!data_out_.any_lane()) return Status::unavailable("PULL before a bulk lane");
  if (pulls_ >= scope_.context.options.pulls_max)
    return Status::quota("pulls_max pulls are in flight");
  return {};
}

void Requests::pull(uint64_t op, const wire::PullView& view) {
  SessionContext& context = scope_.context;
  context.metrics.pulls.add();
  context.metrics.wants.add(view.wants.size());
  if (Status status = admit(op); !status.ok()) return refuse_pull(op, view, status.code());
  const wire::Pull& body = view.body;
  const SessionFormat* format = formats_.find(body.format);
  ExtentRange range;
  if (Status status = check_pull(view, format, &range); !status.ok()) {
    return refuse_pull(op, view, status.code());
  }
  const SessionLease* lease = nullptr;
  if (body.lease != 0) {  // I4: expired, or of an earlier boot: refused before memory is touched
    lease = body.boot_id == context.options.boot_id ? leases_.find(body.lease) : nullptr;
    if (lease == nullptr) return refuse_pull(op, view, Code::kTimedOut);
  }
  PendingPull* request = context.pulls->take(scope_.domain);
  if (request == nullptr) return refuse_pull(op, view, Code::kOverloaded);
  take_ids(*request, view.ids);
  begin(*request, op, format);
  begin_pull(*request, body.deadline_ns);
  request->want_count = view.wants.size();
  if (request->want_count > 0) {
    take_wants(*request, view);
  } else {
    request->bytes = bytes_of_range(format->tables[body.rank], range) * request->ids.count;
  }
  submit_pull_parts(*request, body, lease, range);
}

void Requests::begin_pull(PendingPull& request, Nanos deadline_ns) {
  SessionContext& context = scope_.context;
  ++pulls_;
  request.timed_out = request.lease_over = false;
  request.tiers = 0;
  request.sent_bytes = 0;
  request.follow = nullptr;
  request.hold = ++context.hold_last;
  for (uint32_t i = 0; i < request.ids.count; ++i)
    request.codes[i] = kNoCode;
  deadline_ns = std::min<Nanos>(deadline_ns, context.options.pull_ms_max * kMillisecond);
  request.until_ns = request.began_ns + deadline_ns;
  request.deadline.owner = &request;
  request.deadline.on_fire = [](Timer& timer) {
    auto& late = *static_cast<PendingPull*>(timer.owner);
    if (late.stopped()) return;
    late.timed_out = true;
    late.requests->scope_.context.metrics.pulls_timed_out.add();
    late.requests->stop_pull(late);
  };
  context.reactor.arm(request.deadline, deadline_ns);
}

void Requests::take_wants(PendingPull& request, const wire::PullView& view) {
  std::array<uint8_t, wire::kIdsMax> homes;
  for (uint32_t i = 0; i < request.ids.count; ++i)
    homes[i] = static_cast<uint8_t>(scope_.context.home_of(request.ids.ids[i]));
  split_wants(view.wants, {homes.data(), request.ids.count}, request.wants, request.want_begins);
  const ExtentTable& table = request.format->tables[view.body.rank];
  request.bytes = 0;
  for (uint32_t i = 0; i < request.want_count; ++i)
    request.bytes += table.bytes_at(request.wants[i].extent);
}

// All but what is asked for, and when that is wanted.
PullPart& Requests::fill_part(PendingPull& request, uint32_t shard, uint32_t rank) {
  PullPart& part = request.parts[shard];
  part.session_reactor = &scope_.context.reactor;
  part.shard = shard;
  part.status = Status();
  part.on_back = on_pull_part;
  part.owner = &request;
  scope_.sign(part);
  part.deadline_ns = request.until_ns;
  part.number = ++scope_.context.pull_part_last;
  part.request = &request.ids;
  part.begin = request.begins[shard];
  part.end = request.begins[shard + 1];
  part.format = request.format;
  part.rank = rank;
  part.lease_over = false;
  part.tiers = 0;
  part.codes = request.codes.data();
  part.cancelled.store(false, std::memory_order_relaxed);
  part.deliver_data = on_data;
  part.deliver_credit = on_credit_ask;
  part.deliver_lost = on_lost;
  part.credit_unused_bytes = 0;
  return part;
}

void Requests::submit_pull_parts(PendingPull& request, const wire::Pull& body,
                                 const SessionLease* lease, const ExtentRange& range) {
  SessionContext& context = scope_.context;
  for (uint32_t s = 0; s < context.shards.size(); ++s) {
    if (request.begins[s] == request.begins[s + 1]) continue;
    PullPart& part = request.parts[s];
    const uint32_t want_begin = request.want_count == 0 ? 0 : request.want_begins[s];
    const uint32_t want_end = request.want_count == 0 ? 0 : request.want_begins[s + 1];
    if (request.want_count > 0 && want_begin == want_end) {  // nothing of these blocks is asked for
      part.shard = s;
      part.number = 0;  // a fence of them is back at once
      for (uint32_t i = request.begins[s]; i < request.begins[s + 1]; ++i)
        request.codes[request.ids.positions[i]] = static_cast<uint8_t>(Code::kOk);
      continue;
    }
    fill_part(request, s, body.rank);
    // A lease that pinned nothing at this home promises nothing of it: best effort there.
    part.lease = lease == nullptr ? 0 : lease->by_shard[s];
    part.lease_required = part.lease != 0;
    part.extent_first = range.first;
    part.extent_end = range.end;
    part.wants = request.want_count == 0 ? nullptr : request.wants.data() + want_begin;
    part.want_count = want_end - want_begin;
    // Who asks for single extents waits for them with a layer that should be there already.
    part.first_wanted_ns = request.want_count > 0 ? 0 : request.began_ns + bounded(body.slack_ns);
    part.layer_ns = bounded(body.layer_ns);
    ++request.parts_out;
    context.shards[s]->submit(part);
  }
  VARVE_ASSERT(request.parts_out > 0);
}

void Requests::on_data(Message& message) {
  auto& send = *static_cast<DataSend*>(message.owner);
  auto& request = *static_cast<PendingPull*>(send.part->owner);
  if (Follow* follow = request.follow; follow != nullptr) {
    VARVE_ASSERT(send.data.block < request.ids.count, send.data.block);
    if (send.data.attempt != follow->attempts[send.data.block]) {
      follow->blocks[send.data.block].is_other = true;
    }
  }
  request.requests->data_out_.send(send);
}

void Requests::on_credit_ask(Message& message) {
  auto& ask = *static_cast<CreditAsk*>(message.owner);
  auto& request = *static_cast<PendingPull*>(ask.part->owner);
  Requests& self = *request.requests;
  if (request.stopped()) {
    self.credit_.refuse(ask, Status::cancelled("the pull was stopped"));
  } else {
    self.credit_.ask(ask);
  }
}

void Requests::on_lost(Message& message) {
  auto& note = *static_cast<LostNote*>(message.owner);
  auto& request = *static_cast<PendingPull*>(note.part->owner);
  request.requests->lost_out_.take(note);
}

// Nothing more is started for it; what is in flight comes back, then it ends.
void Requests::stop_pull(PendingPull& pull) {
  VARVE_ASSERT(pull.stopped());
  for (uint32_t s = 0; s < scope_.context.shards.size(); ++s) {
    if (pull.begins[s] == pull.begins[s + 1]) continue;
    pull.parts[s].cancelled.store(true, std::memory_order_relaxed);
  }
  credit_.drop(&pull, Status::cancelled("the pull was stopped"));
  data_out_.drop(pull);
  lost_out_.drop(pull);
  if (pull.follow != nullptr) leave_grants(*pull.follow);
  const SessionOptions& options = scope_.context.options;
  const uint64_t seconds = data_out_.queued_bytes() / options.lane_rate_bytes_min;
  pull.deadline.on_fire = on_drain_over;
  scope_.context.reactor.cancel(pull.deadline);
  scope_.context.reactor.arm(pull.deadline,
                             options.drain_stall_ms_max * kMillisecond + seconds * kSecond);
}

// The client drains so little that pages of its homes would stay pinned as long as it likes: only
// the fence of the lanes ends that (N3). A home that is slow by itself is waited for.
void Requests::on_drain_over(Timer& timer) {
  auto& pull = *static_cast<PendingPull*>(timer.owner);
  VARVE_ASSERT(pull.stopped());
  SessionScope& scope = pull.requests->scope_;
  if (scope.over()) return;
  const Nanos stall_ns = scope.context.options.drain_stall_ms_max * kMillisecond;
  const Nanos owed_ns = scope.context.reactor.owed_ns(stall_ns);
  if (pull.lane_bytes > 0 && owed_ns == 0) {
    return scope.fail_slow(Slow::kData,
                           Status::timed_out("DATA of a stopped pull is still under way"));
  }
  scope.context.reactor.arm(timer, owed_ns > 0 ? owed_ns : stall_ns);
}

void Requests::on_pull_part(Part& part) {
  auto& request = *static_cast<PendingPull*>(part.owner);
  auto& pull_part = static_cast<PullPart&>(part);
  Requests& self = *request.requests;
  VARVE_ASSERT(request.parts_out > 0);
  if (pull_part.lease_over && !request.stopped()) {
    VARVE_ASSERT(part.status.code() == Code::kTimedOut);
    request.lease_over = true;  // one answer for the whole pull, whichever home said it (I4)
    self.stop_pull(request);
  }
  self.credit_.take_back(pull_part.credit_unused_bytes);
  request.tiers |= pull_part.tiers;
  for (uint32_t i = pull_part.begin; i < pull_part.end; ++i) {
    uint8_t& code = request.codes[request.ids.positions[i]];
    if (code != kNoCode) continue;
    code = static_cast<uint8_t>(part.status.ok() ? Code::kInternal : part.status.code());
  }
  if (--request.parts_out == 0) self.answer_pull(request);
}

void Requests::answer_pull(PendingPull& request) {
  SessionContext& context = scope_.context;
  context.reactor.cancel(request.deadline);
  VARVE_ASSERT(!lost_out_.waits(request));  // its homes have all their notes back
  wire::Pulled body;
  if (request.cancelled) {
    body.code = static_cast<uint8_t>(Code::kCancelled);
  } else if (request.timed_out || request.lease_over) {
    body.code = static_cast<uint8_t>(Code::kTimedOut);
  }
  for (uint32_t i = 0; i < request.ids.count && request.timed_out; ++i) {
    if (request.codes[i] == static_cast<uint8_t>(Code::kCancelled)) {
      request.codes[i] = static_cast<uint8_t>(Code::kTimedOut);  // one cause: the deadline did it
    }
  }
  body.count = request.lease_over ? 0 : request.ids.count;
  if ((scope_.features & wire::kFeatureTiers) != 0) body.tiers = request.tiers;
  if (request.follow == nullptr) {
    learn(request);
  } else {  // as fast as its pusher: it teaches nothing
    context.metrics.follow_ns.record(context.reactor.now_ns() - request.began_ns);
  }
  count_pull(request);
  scope_.reply(context.encoder().pulled(request.op, body, {request.codes.data(), body.count}));
  finish(request);
}

// Once per block, of what its client is told. Single extents are parts of a pull that was counted,
// and follows have counters of their own.
void Requests::count_pull(const PendingPull& request) {
  if (request.follow != nullptr || request.want_count > 0) return;
  for (uint32_t i = 0; i < request.ids.count; ++i) {
    RequestOutcome outcome = outcome_of(static_cast<Code>(request.codes[i]));
    if (request.codes[i] == static_cast<uint8_t>(Code::kOk)) outcome = RequestOutcome::kHit;
    if (request.codes[i] == static_cast<uint8_t>(Code::kUnavailable))
      outcome = RequestOutcome::kMiss;
    if (request.lease_over) outcome = RequestOutcome::kTimeout;  // none of it counts
    scope_.counts->pull_blocks[static_cast<uint8_t>(outcome)].add();
  }
}

// An eighth of each finished pull's rate goes into the mean.
void Requests::learn(const PendingPull& request) {
  SessionContext& context = scope_.context;
  const Nanos took_ns = context.reactor.now_ns() - request.began_ns;
  context.metrics.pull_ns.record(took_ns);
  if (request.stopped() || request.sent_bytes < kMiB) return;
  const uint64_t rate = bounded(took_ns) / (request.sent_bytes / kMiB);
  context.pull_ns_per_mib = (context.pull_ns_per_mib * 7 + std::min(rate, kPullNsPerMibMax)) / 8;
}

}  // namespace varve
