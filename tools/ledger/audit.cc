// Audit: chain by chain; every answer of a pull is looked at, byte by byte.
#include "tools/ledger/audit.h"

#include <chrono>
#include <thread>

namespace varve::ledger {

namespace {

constexpr Nanos kOpDeadline = 10 * kSecond;
constexpr Nanos kOpTimeout = 15 * kSecond;
constexpr uint32_t kLeaseMs = 20000;
constexpr uint32_t kTriesMax = 5;  // of a pull that the daemon has no room for

Result<Event> match(Seat& seat, uint32_t kind, std::vector<BaseId> ids, uint32_t lease_ms) {
  MatchRequest request;
  request.format = seat.format(kind);
  request.ids = std::move(ids);
  request.lease_ms = lease_ms;
  request.deadline_ns = kOpDeadline;
  VARVE_TRY(const OpId op, seat.client().match(std::move(request)));
  VARVE_TRY(Event event, seat.ended(op, kOpTimeout));
  VARVE_RETURN_IF_ERROR(event.status);
  return event;
}

}  // namespace

void AuditCounts::merge(const AuditCounts& o) {
  blocks_asked += o.blocks_asked, blocks_found += o.blocks_found, bytes += o.bytes;
  broken_hits += o.broken_hits, broken_misses += o.broken_misses;
  if (first_broken.empty()) first_broken = o.first_broken;
}

Status wait_recovered(Seat& seat, const World& world, Nanos timeout_ns) {
  const SystemClock clock;
  const Nanos until = clock.now_ns() + timeout_ns;
  for (;;) {
    // So many ids that every shard is the home of some: each answers for itself only.
    VARVE_TRY(const Event event, match(seat, 0, world.kinds[0].ids, 0));
    if (!event.recovering) return Status();
    if (clock.now_ns() >= until) return Status::timed_out("varved does not finish its recovery");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Status Audit::run() {
  for (uint32_t k = 0; k < world_.kinds.size(); ++k) {
    for (uint32_t first = 0; first < world_.kinds[k].id_count; first += kChainBlocks)
      VARVE_RETURN_IF_ERROR(chain(k, first));
  }
  return Status();
}

Status Audit::chain(uint32_t kind, uint32_t first) {
  const uint32_t end = first + kChainBlocks;
  for (uint32_t at = first; at < end;) {
    VARVE_TRY(const uint32_t hits, leased(kind, at, end - at));
    at += hits;
    if (at < end) VARVE_RETURN_IF_ERROR(denied(kind, at++));
  }
  return Status();
}

// Matches, pulls what hits under the lease, and answers how many base ids that were.
Result<uint32_t> Audit::leased(uint32_t kind, uint32_t first, uint32_t count) {
  const Kind& k = world_.kinds[kind];
  VARVE_TRY(const Event matched,
            match(seat_, kind, {k.ids.begin() + first, k.ids.begin() + first + count}, kLeaseMs));
  std::vector<std::vector<uint32_t>> gone(matched.n_blocks);
  for (uint32_t r = 0; r < k.format.rank_count() && matched.n_blocks > 0; ++r) {
    VARVE_TRY(const auto codes, pull(kind, r, first, matched.n_blocks, matched.lease));
    for (uint32_t i = 0; i < matched.n_blocks; ++i) {
      if (codes[i] == Code::kOk) continue;
      gone[i].push_back(r);
      const std::lock_guard<std::mutex> lock(world_.lock);
      if (world_.book.excused(k.ids[first + i])) continue;
      ++counts_.broken_hits;
      broken(k.ids[first + i], code_name(codes[i]));
    }
  }
  seat_.client().release(matched.lease);
  const std::lock_guard<std::mutex> lock(world_.lock);
  for (uint32_t i = 0; i < matched.n_blocks; ++i)
    world_.book.missing(k.ids[first + i], gone[i], world_.room);
  return matched.n_blocks;
}

Status Audit::denied(uint32_t kind, uint32_t index) {
  const Kind& k = world_.kinds[kind];
  std::vector<uint32_t> gone;
  for (uint32_t r = 0; r < k.format.rank_count(); ++r) {
    VARVE_TRY(const auto codes, pull(kind, r, index, 1, 0));
    if (codes[0] != Code::kOk) gone.push_back(r);
  }
  if (gone.empty()) {
    ++counts_.broken_misses;
    broken(k.ids[index], "denied by match, delivered by pull");
  }
  const std::lock_guard<std::mutex> lock(world_.lock);
  world_.book.missing(k.ids[index], gone, world_.room);
  return Status();
}

Result<std::vector<Code>> Audit::pull(uint32_t kind, uint32_t rank, uint32_t first, uint32_t count,
                                      uint64_t lease) {
  const Kind& k = world_.kinds[kind];
  for (uint32_t attempt = 0;; ++attempt) {
    PullRequest request;
    request.format = seat_.format(kind);
    request.rank = rank;
    for (uint32_t i = 0; i < count; ++i) {
      request.ids.push_back(k.ids[first + i]);
      request.slots.push_back(i);
      seat_.poison(k, kind, rank, i);
    }
    request.layout = &seat_.layout(kind, rank);
    request.lease = lease;
    request.deadline_ns = kOpDeadline;
    VARVE_TRY(const OpId op, seat_.client().pull(std::move(request)));
    VARVE_TRY(const Event event, seat_.ended(op, kOpTimeout));
    bool overloaded = event.status.code() == Code::kOverloaded;
    for (const Code code : event.codes)
      overloaded |= code == Code::kOverloaded;
    if (overloaded && attempt < kTriesMax) continue;
    VARVE_RETURN_IF_ERROR(event.status);
    VARVE_ASSERT(event.codes.size() == count);
    counts_.blocks_asked += count;
    counts_.bytes += event.bytes;
    for (uint32_t i = 0; i < count; ++i) {
      if (event.codes[i] != Code::kOk) continue;
      ++counts_.blocks_found;
      const BlockId block{k.ids[first + i], rank};
      const auto writer = seat_.writer(k, kind, block, i);
      const std::lock_guard<std::mutex> lock(world_.lock);
      world_.book.found(block, writer);
    }
    return event.codes;
  }
}

void Audit::broken(const BaseId& base, const char* what) {
  if (counts_.first_broken.empty())
    counts_.first_broken = "block " + short_name(base) + ": " + what;
}

}  // namespace varve::ledger
