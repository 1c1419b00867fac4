// Load: one op at a time, several threads; every answer goes into the book before the next op.
#include "tools/ledger/load.h"

#include <chrono>
#include <thread>

namespace varve::ledger {

namespace {

constexpr Nanos kOpDeadline = 10 * kSecond;
constexpr Nanos kHungAfter = 15 * kSecond;  // deadline + fence and a machine that is busy
constexpr uint32_t kLeaseMs = 10000;
constexpr uint32_t kPushPerMille = 600;
constexpr uint32_t kCancelPerMille = 80;
constexpr uint32_t kCachedPerMille = 350;
constexpr uint32_t kLeasePerMille = 700;
constexpr uint32_t kTriesMax = 8;  // to find a run that is not durable yet

}  // namespace

void LoadCounts::merge(const LoadCounts& o) {
  pushes += o.pushes, blocks_offered += o.blocks_offered, blocks_granted += o.blocks_granted;
  blocks_existing += o.blocks_existing;
  acks_durable += o.acks_durable, acks_cached += o.acks_cached;
  pulls += o.pulls, blocks_pulled += o.blocks_pulled;
  bytes_pulled += o.bytes_pulled, bytes_pushed += o.bytes_pushed;
  cancels += o.cancels, broken_hits += o.broken_hits, hung += o.hung;
  if (broken_hit.empty()) broken_hit = o.broken_hit;
}

void Load::run(const std::atomic<bool>& stop) {
  while (!stop) {
    if (seat_.client().state() != SessionState::kReady) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    if (!random_.chance(kPushPerMille)) {
      pull(choose_run());
      continue;
    }
    const Run run = choose_push();
    if (run.count == 0) continue;
    const uint32_t ranks = world_.kinds[run.kind].format.rank_count();
    const bool all_ranks = random_.chance(900);
    for (uint32_t r = 0; r < ranks && !stop; ++r) {
      Run of_rank = run;
      of_rank.rank = (run.rank + r) % ranks;
      push(of_rank);
      if (!all_ranks) break;
    }
  }
}

Load::Run Load::choose_run() {
  Run run;
  run.kind = static_cast<uint32_t>(random_.below(world_.kinds.size()));
  const Kind& kind = world_.kinds[run.kind];
  run.rank = static_cast<uint32_t>(random_.below(kind.format.rank_count()));
  run.first = static_cast<uint32_t>(random_.below(kind.id_count));
  const uint32_t left = kChainBlocks - run.first % kChainBlocks;
  run.count = static_cast<uint32_t>(random_.between(1, std::min(left, kSlots)));
  return run;
}

// Mostly what is not there yet. Unaudited, never what is durable: a grant would hide its loss.
Load::Run Load::choose_push() {
  for (uint32_t i = 0; i < kTriesMax; ++i) {
    Run run = choose_run();
    const std::lock_guard<std::mutex> lock(world_.lock);
    uint32_t fresh = 0;
    while (fresh < run.count && !world_.book.durable(block(run, fresh)))
      ++fresh;
    if (options_.audited && random_.chance(100)) return run;
    run.count = fresh;
    if (!options_.audited && world_.kinds[run.kind].format.rank_count() > 1) continue;
    if (run.count > 0) return run;
  }
  return Run();
}

Result<Event> Load::ended(OpId op, std::vector<Code>* reserved) {
  Result<Event> event = seat_.ended(op, kHungAfter, reserved);
  if (!event) ++counts_.hung;
  return event;
}

void Load::push(const Run& run) {
  const Kind& kind = world_.kinds[run.kind];
  PushRequest request;
  request.format = seat_.format(run.kind);
  request.rank = run.rank;
  if (run.first % kChainBlocks != 0) request.parent = kind.ids[run.first - 1];
  request.layout = &seat_.layout(run.kind, run.rank);
  const bool durable = !random_.chance(kCachedPerMille);
  request.ack = durable ? wire::AckKind::kDurable : wire::AckKind::kCached;
  request.deadline_ns = kOpDeadline;
  std::vector<Offer> offers(run.count);
  {
    const std::lock_guard<std::mutex> lock(world_.lock);
    for (uint32_t i = 0; i < run.count; ++i) {
      request.ids.push_back(kind.ids[run.first + i]);
      request.slots.push_back(i);
      offers[i].salt = ++world_.last_salt;
      offers[i].kept = options_.audited && world_.book.must_keep(request.ids.back());
      world_.book.begin(block(run, i), offers[i].salt);
    }
  }
  ++counts_.pushes;
  counts_.blocks_offered += run.count;
  const Result<OpId> op = seat_.client().push(std::move(request));
  if (!op) return;
  const bool finished = hand_over(run, *op, offers);
  std::vector<Code> reserved;
  const Result<Event> pushed = ended(*op, &reserved);
  if (!pushed) return;
  counts_.bytes_pushed += pushed->bytes;
  if (finished) settle_push(run, offers, reserved, *pushed, durable);
}

// "Computes" layer after layer; sometimes gives up in between, sometimes after the last one.
// True: the last layer was handed over, so the daemon may commit.
bool Load::hand_over(const Run& run, OpId op, const std::vector<Offer>& offers) {
  const Kind& kind = world_.kinds[run.kind];
  const auto layers = static_cast<uint32_t>(kind.format.ranks[run.rank].size());
  const bool gives_up = random_.chance(kCancelPerMille);
  const auto gives_up_at = static_cast<uint32_t>(random_.between(0, layers));
  for (uint32_t l = 0; l <= layers; ++l) {
    if (gives_up && gives_up_at == l) {
      ++counts_.cancels;
      seat_.client().cancel(op);
      return l == layers;
    }
    if (l == layers) break;
    for (uint32_t i = 0; i < run.count; ++i)
      fill_layer(block(run, i), l, offers[i].salt, seat_.layer(run.kind, run.rank, l, i));
    if (l + 1 == layers) {
      const std::lock_guard<std::mutex> lock(world_.lock);
      for (uint32_t i = 0; i < run.count; ++i)
        world_.book.finish(block(run, i), offers[i].salt);
    }
    // A refusal here means that the op has ended; its event says why.
    if (!seat_.client().push_layer(op, l).ok()) return l + 1 == layers;
  }
  return true;
}

void Load::settle_push(const Run& run, const std::vector<Offer>& offers,
                       const std::vector<Code>& reserved, const Event& pushed, bool durable) {
  const std::lock_guard<std::mutex> lock(world_.lock);
  for (uint32_t i = 0; i < run.count; ++i) {
    const bool granted = i < reserved.size() && reserved[i] == Code::kOk;
    const bool exists = i < reserved.size() && reserved[i] == Code::kCancelled;
    if (!granted) {
      world_.book.retract(block(run, i), offers[i].salt);
      if (exists) settle_existing(block(run, i));
      continue;
    }
    ++counts_.blocks_granted;
    if (offers[i].kept) world_.book.granted_again(block(run, i), world_.room);
    if (i >= pushed.codes.size() || pushed.codes[i] != Code::kOk) continue;
    world_.book.acknowledge(block(run, i), durable);
    ++(durable ? counts_.acks_durable : counts_.acks_cached);
  }
}

// Answered with success because somebody's bytes are there: a promise like any other, and a durable
// one, as only what was flushed exists. When nobody ever finished it the audit calls it a phantom.
void Load::settle_existing(const BlockId& block) {
  ++counts_.blocks_existing;
  if (!world_.book.may_exist(block)) return;
  world_.book.confirm(block);
  ++counts_.acks_durable;
}

void Load::pull(const Run& run) {
  const Kind& kind = world_.kinds[run.kind];
  MatchRequest request;
  request.format = seat_.format(run.kind);
  request.ids.assign(kind.ids.begin() + run.first, kind.ids.begin() + run.first + run.count);
  const bool leased = random_.chance(kLeasePerMille);
  request.lease_ms = leased ? kLeaseMs : 0;
  request.deadline_ns = kOpDeadline;
  const Result<OpId> op = seat_.client().match(std::move(request));
  if (!op) return;
  const Result<Event> matched = ended(*op);
  if (!matched || !matched->status.ok()) return;
  // Without a hit we ask nevertheless now and then: a pull may not find more than a match.
  const uint32_t count = matched->n_blocks > 0 ? matched->n_blocks : random_.chance(50) ? 1 : 0;
  if (count > 0) pull_blocks(run, count, matched->lease);
  seat_.client().release(matched->lease);
}

void Load::pull_blocks(const Run& run, uint32_t count, uint64_t lease) {
  const Kind& kind = world_.kinds[run.kind];
  PullRequest request;
  request.format = seat_.format(run.kind);
  request.rank = run.rank;
  for (uint32_t i = 0; i < count; ++i) {
    request.ids.push_back(kind.ids[run.first + i]);
    request.slots.push_back(i);
    seat_.poison(kind, run.kind, run.rank, i);
  }
  request.layout = &seat_.layout(run.kind, run.rank);
  request.lease = lease;
  request.deadline_ns = kOpDeadline;
  const Result<OpId> op = seat_.client().pull(std::move(request));
  if (!op) return;
  ++counts_.pulls;
  const bool gives_up = random_.chance(kCancelPerMille);
  if (gives_up) {
    std::this_thread::sleep_for(std::chrono::microseconds(random_.below(800)));
    ++counts_.cancels;
    seat_.client().cancel(*op);
  }
  const Result<Event> pulled = ended(*op);
  if (!pulled) return;
  counts_.bytes_pulled += pulled->bytes;
  for (uint32_t i = 0; i < count && i < pulled->codes.size(); ++i) {
    const Code code = pulled->codes[i];
    if (code == Code::kOk) {
      const auto writer = seat_.writer(kind, run.kind, block(run, i), i);
      const std::lock_guard<std::mutex> lock(world_.lock);
      world_.book.judge_bytes(block(run, i), writer);
      ++counts_.blocks_pulled;
    } else if (lease != 0 && pulled->status.ok() && code != Code::kOverloaded && !gives_up) {
      const std::lock_guard<std::mutex> lock(world_.lock);
      if (world_.book.excused(block(run, i).base)) continue;
      ++counts_.broken_hits;
      if (counts_.broken_hit.empty()) {
        counts_.broken_hit = "block " + short_name(block(run, i).base) + " rank " +
                             std::to_string(run.rank) + ": " + code_name(code);
      }
    }
  }
}

}  // namespace varve::ledger
