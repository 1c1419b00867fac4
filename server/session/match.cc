// MATCH: one part per home, merged to the leading ids that every rank has, its leases trimmed to
// them; or to the tiers of all ids, where each is asked for.
#include "server/session/requests.h"

namespace varve {

namespace {

bool is_hit(wire::TierKind tier) {
  return tier != wire::TierKind::kNone;
}

}  // namespace

void Requests::refuse_match(uint64_t op, uint32_t count, Code code) {
  scope_.context.metrics.requests_refused[static_cast<uint8_t>(code)].add();
  const auto outcome = static_cast<uint8_t>(outcome_of(code));
  scope_.context.metrics.match_failed[outcome].add(count);
  scope_.counts->match_ids[outcome].add(count);
  wire::Matched body;
  body.code = static_cast<uint8_t>(code);
  body.boot_id = scope_.context.options.boot_id;
  scope_.reply(scope_.context.encoder().matched(op, body, {}));
}

void Requests::match(uint64_t op, const wire::MatchView& view) {
  SessionContext& context = scope_.context;
  const auto count = static_cast<uint32_t>(view.ids.size());
  context.metrics.matches.add();
  context.metrics.match_ids.add(count);
  if (Status status = admit(op); !status.ok()) return refuse_match(op, count, status.code());
  const SessionFormat* format = formats_.find(view.body.format);
  if (format == nullptr) return refuse_match(op, count, Code::kInvalid);
  PendingMatch* request = context.matches->take(scope_.domain);
  if (request == nullptr) return refuse_match(op, count, Code::kOverloaded);
  take_ids(*request, view.ids);
  begin(*request, op, format);
  request->of = view.body.of;
  request->lease = nullptr;
  request->lease_ms = std::min(view.body.lease_ms, context.options.lease_ms_max);
  request->wants_lease = request->lease_ms > 0;
  if (request->wants_lease) {  // I7: room for the promise before anything is pinned
    Result<SessionLease*> reserved = leases_.reserve();
    if (reserved) {
      request->lease = *reserved;
    } else {
      request->lease_ms = 0;  // what is found is told all the same, without a lease
    }
  }
  request->answer = {};
  for (uint32_t i = 0; i < request->ids.count; ++i)
    request->tiers[i] = wire::TierKind::kNone;
  for (uint32_t s = 0; s < context.shards.size(); ++s) {
    if (request->begins[s] == request->begins[s + 1]) continue;
    MatchPart& part = request->parts[s];
    part.session_reactor = &context.reactor;
    part.shard = s;
    part.status = Status();
    part.on_back = on_match_part;
    part.owner = request;
    scope_.sign(part);
    part.request = &request->ids;
    part.begin = request->begins[s];
    part.end = request->begins[s + 1];
    part.rank_count = format->format.rank_count();
    part.of = request->of;
    part.lease_ms = request->lease_ms;
    part.tiers = request->tiers.data();
    part.lease = 0;
    part.recovering = false;
    part.read_ns_estimate = 0;
    ++request->parts_out;
    context.shards[s]->submit(part);
  }
}

void Requests::on_match_part(Part& part) {
  auto& request = *static_cast<PendingMatch*>(part.owner);
  VARVE_ASSERT(request.parts_out > 0);
  if (--request.parts_out == 0) request.requests->merge_match(request);
}

void Requests::merge_match(PendingMatch& request) {
  wire::Matched& answer = request.answer;
  const auto tiers = std::span(request.tiers).first(request.ids.count);
  auto n_blocks =
      static_cast<uint32_t>(std::find_if_not(tiers.begin(), tiers.end(), is_hit) - tiers.begin());
  if (request.of == wire::MatchOf::kEach) n_blocks = request.ids.count;
  Code code = request.cancelled ? Code::kCancelled : Code::kOk;
  for (uint32_t s = 0; s < scope_.context.shards.size(); ++s) {
    if (request.begins[s] == request.begins[s + 1]) continue;
    const MatchPart& part = request.parts[s];
    if (part.recovering) answer.recovering = 1;
    if (code == Code::kOk && !part.status.ok()) code = part.status.code();
    if (request.lease != nullptr) request.lease->by_shard[s] = part.lease;
    VARVE_ASSERT(request.lease != nullptr || part.lease == 0);
  }
  if (code != Code::kOk) n_blocks = 0;  // a miss with its reason
  answer.code = static_cast<uint8_t>(code);
  answer.n_blocks = n_blocks;
  const auto told = tiers.first(n_blocks);
  const auto hits = static_cast<uint32_t>(std::count_if(told.begin(), told.end(), is_hit));
  request.format->counts->ids.add(request.ids.count);
  request.format->counts->hits.add(hits);
  estimate(request, hits);
  count_match(request, hits);
  if (!trim_leases(request, is_leased(request, n_blocks) ? n_blocks : 0)) answer_match(request);
}

// Once per request, of what its client is told: homes know neither the others' misses nor whether
// the prefix reaches them.
void Requests::count_match(const PendingMatch& request, uint32_t hits) {
  SessionMetrics& metrics = scope_.context.metrics;
  const uint32_t rest = request.ids.count - hits;
  const auto outcome = static_cast<uint8_t>(outcome_of(static_cast<Code>(request.answer.code)));
  (request.answer.code == 0 ? metrics.match_misses : metrics.match_failed[outcome]).add(rest);
  scope_.counts->match_ids[outcome].add(rest);
  scope_.counts->match_ids[static_cast<uint8_t>(RequestOutcome::kHit)].add(hits);
  for (uint32_t i = 0; i < request.answer.n_blocks; ++i) {
    if (!is_hit(request.tiers[i])) continue;
    const bool dram = request.tiers[i] == wire::TierKind::kDram;
    (dram ? metrics.match_hits_dram : metrics.match_hits_flash).add();
    (dram ? scope_.counts->match_hits_dram : scope_.counts->match_hits_flash).add();
  }
}

// A lease covers every block it is answered with, or there is none: one home whose table is full
// must not make the pull of its blocks fail for a lease that never was.
bool Requests::is_leased(const PendingMatch& request, uint32_t n_blocks) {
  if (!request.wants_lease || n_blocks == 0) return false;
  bool leased = request.lease != nullptr;
  for (uint32_t s = 0; leased && s < scope_.context.shards.size(); ++s) {
    const uint32_t begin = request.begins[s];
    if (begin == request.begins[s + 1]) continue;
    const bool hit = request.ids.positions[begin] < n_blocks;
    leased = !hit || request.parts[s].lease != 0;
  }
  if (!leased) scope_.context.metrics.leases_refused.add();
  return leased;
}

// True when parts are out: what homes pinned beyond the merged prefix goes back before the answer.
bool Requests::trim_leases(PendingMatch& request, uint32_t n_blocks) {
  if (request.lease == nullptr) return false;
  request.parts_out = 0;
  for (uint32_t s = 0; s < scope_.context.shards.size(); ++s) {
    if (request.lease->by_shard[s] == 0) continue;
    const uint32_t begin = request.begins[s], end = request.begins[s + 1];
    VARVE_ASSERT(begin < end);
    // A home's lease ends before its own first miss, so it needs no trim when that is all there is.
    uint32_t leased_last = 0;
    for (uint32_t i = begin; i < end; ++i) {
      const uint32_t position = request.ids.positions[i];
      if (request.tiers[position] == wire::TierKind::kNone) break;
      leased_last = position;
    }
    if (n_blocks > 0 && leased_last < n_blocks) continue;
    const uint32_t keep_below = request.ids.positions[begin] < n_blocks ? n_blocks : 0;
    ++request.parts_out;
    leases_.post_release(*request.lease, s, keep_below, on_match_trimmed, &request);
  }
  return request.parts_out > 0;
}

void Requests::on_match_trimmed(Part& part) {
  auto& request = *static_cast<PendingMatch*>(part.owner);
  VARVE_ASSERT(request.parts_out > 0);
  if (--request.parts_out == 0) request.requests->answer_match(request);
}

// Honest and simple: the queue of the slowest home now, and the mean rate of recent pulls (rank 0).
void Requests::estimate(PendingMatch& request, uint32_t n_blocks) {
  if (n_blocks == 0) return;
  uint64_t queue_ns = 0;
  for (uint32_t s = 0; s < scope_.context.shards.size(); ++s) {
    if (request.begins[s] == request.begins[s + 1]) continue;
    queue_ns = std::max(queue_ns, request.parts[s].read_ns_estimate);
  }
  const uint64_t rate = scope_.context.pull_ns_per_mib;
  static_assert(kPullNsPerMibMax < UINT64_MAX / 2 / (256 * 1024) / wire::kIdsMax);
  const uint64_t first_kib = request.format->format.ranks[0][0].bytes / kKiB + 1;
  const uint64_t all_kib = request.format->tables[0].block_bytes / kKiB + 1;
  request.answer.first_layer_ns = queue_ns + first_kib * n_blocks * rate / kKiB;
  request.answer.last_layer_ns = queue_ns + all_kib * n_blocks * rate / kKiB;
}

void Requests::answer_match(PendingMatch& request) {
  SessionContext& context = scope_.context;
  wire::Matched& answer = request.answer;
  answer.boot_id = context.options.boot_id;
  if (SessionLease* lease = request.lease; lease != nullptr) {
    lease->parts_out = 0;
    bool pinned = false;
    for (const LeaseId home : lease->by_shard)
      pinned = pinned || home != 0;
    if (pinned && !scope_.over()) {
      uint64_t block_bytes = 0;
      for (const ExtentTable& table : request.format->tables)
        block_bytes += table.block_bytes;
      leases_.activate(*lease, {answer.n_blocks, answer.n_blocks * block_bytes,
                                request.lease_ms * kMillisecond});
      answer.lease = lease->id;
      answer.lease_ms = request.lease_ms;
    } else {
      leases_.give_up(*lease);  // of an ending session the GoneParts drop the rest
    }
    request.lease = nullptr;
  }
  context.metrics.match_ns.record(context.reactor.now_ns() - request.began_ns);
  scope_.reply(
      context.encoder().matched(request.op, answer, {request.tiers.data(), answer.n_blocks}));
  finish(request);
}

}  // namespace varve
