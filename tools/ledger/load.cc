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
constexpr uint32_t kSlowPerMille = 250;
constexpr uint64_t kPauseUsMax = 800;  // of a slow push, after each layer
constexpr Nanos kReservedWait = 20 * kMillisecond;
constexpr uint32_t kFollowPerMille = 500;  // when there is something to follow
constexpr uint32_t kLineagePerMille = 40;  // of purges

}  // namespace

void LoadCounts::merge(const LoadCounts& o) {
  pushes += o.pushes, blocks_offered += o.blocks_offered, blocks_granted += o.blocks_granted;
  blocks_existing += o.blocks_existing;
  acks_durable += o.acks_durable, acks_cached += o.acks_cached;
  pulls += o.pulls, blocks_pulled += o.blocks_pulled;
  bytes_pulled += o.bytes_pulled, bytes_pushed += o.bytes_pushed;
  cancels += o.cancels, broken_hits += o.broken_hits, hung += o.hung;
  purges += o.purges, purges_done += o.purges_done, purged_lineages += o.purged_lineages;
  follows += o.follows, layers_followed += o.layers_followed;
  blocks_followed += o.blocks_followed, blocks_denied += o.blocks_denied;
  broken_follows += o.broken_follows;
  if (broken.empty()) broken = o.broken;
}

void Load::run(const std::atomic<bool>& stop) {
  while (!stop) {
    if (seat_.client().state() != SessionState::kReady) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    if (random_.chance(options_.purge_per_mille)) {
      purge();
    } else if (random_.chance(kPushPerMille)) {
      push_ranks(stop);
    } else if (random_.chance(kFollowPerMille)) {
      follow();
    } else {
      pull(choose_run());
    }
  }
}

void Load::push_ranks(const std::atomic<bool>& stop) {
  const Run run = choose_push();
  if (run.count == 0) return;
  const uint32_t ranks = world_.kinds[run.kind].format.rank_count();
  const bool all_ranks = random_.chance(900);
  for (uint32_t r = 0; r < ranks && !stop; ++r) {
    Run of_rank = run;
    of_rank.rank = (run.rank + r) % ranks;
    push(of_rank);
    if (!all_ranks) break;
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

Result<Event> Load::ended(OpId op, Seat::Reserved* reserved) {
  Result<Event> event = seat_.ended(op, kHungAfter, reserved);
  if (!event) ++counts_.hung;
  return event;
}

void Load::broken(uint64_t* count, const BlockId& block, const char* what) {
  ++*count;
  if (!counts_.broken.empty()) return;
  counts_.broken =
      "block " + short_name(block.base) + " rank " + std::to_string(block.rank) + ": " + what;
}

void Load::push(const Run& run) {
  const Kind& kind = world_.kinds[run.kind];
  PushRequest request;
  request.format = seat_.format(run.kind);
  request.rank = run.rank;
  if (run.first % kChainBlocks != 0) request.parent = kind.ids[run.first - 1];
  request.layout = &seat_.layout(run.kind, run.rank);
  Push push;
  push.run = run;
  push.durable = !random_.chance(kCachedPerMille);
  push.slow = random_.chance(kSlowPerMille);
  request.ack = push.durable ? wire::AckKind::kDurable : wire::AckKind::kCached;
  request.deadline_ns = kOpDeadline;
  push.offers.resize(run.count);
  {
    const std::lock_guard<std::mutex> lock(world_.lock);
    push.since = world_.book.now();
    for (uint32_t i = 0; i < run.count; ++i) {
      request.ids.push_back(kind.ids[run.first + i]);
      request.slots.push_back(i);
      push.offers[i].salt = ++world_.last_salt;
      push.offers[i].kept = options_.audited && world_.book.must_keep(request.ids.back());
      world_.book.begin(block(run, i), push.offers[i].salt);
    }
  }
  ++counts_.pushes;
  counts_.blocks_offered += run.count;
  const Result<OpId> op = seat_.client().push(std::move(request));
  if (!op) return;
  push.op = *op;
  const bool finished = hand_over(push);
  const Result<Event> pushed = ended(push.op, &push.reserved);
  if (!pushed) return;
  counts_.bytes_pushed += pushed->bytes;
  settle_push(push, *pushed, finished);
}

// "Computes" layer after layer; sometimes gives up in between, sometimes after the last one.
// True: the last layer was handed over, so the daemon may commit.
bool Load::hand_over(Push& push) {
  const Run& run = push.run;
  const Kind& kind = world_.kinds[run.kind];
  const auto layers = static_cast<uint32_t>(kind.format.ranks[run.rank].size());
  const bool gives_up = random_.chance(kCancelPerMille);
  const auto gives_up_at = static_cast<uint32_t>(random_.between(0, layers));
  if (push.slow) {
    seat_.await_reserved(push.op, kReservedWait, &push.reserved);
    post(push);
  }
  for (uint32_t l = 0; l <= layers; ++l) {
    if (gives_up && gives_up_at == l) {
      ++counts_.cancels;
      seat_.client().cancel(push.op);
      return l == layers;
    }
    if (l == layers) break;
    if (push.slow && random_.chance(500))
      std::this_thread::sleep_for(std::chrono::microseconds(random_.below(kPauseUsMax)));
    for (uint32_t i = 0; i < run.count; ++i)
      fill_layer(block(run, i), l, push.offers[i].salt, seat_.layer(run.kind, run.rank, l, i));
    if (l + 1 == layers) {
      const std::lock_guard<std::mutex> lock(world_.lock);
      for (uint32_t i = 0; i < run.count; ++i)
        world_.book.finish(block(run, i), push.offers[i].salt);
    }
    // A refusal here means that the op has ended; its event says why.
    if (!seat_.client().push_layer(push.op, l).ok()) return l + 1 == layers;
  }
  return true;
}

// What was granted so far.
void Load::post(const Push& push) {
  Posted posted{.kind = push.run.kind,
                .rank = push.run.rank,
                .durable = push.durable,
                .since = push.since,
                .blocks = {}};
  for (const FollowTag& tag : push.reserved.granted) {
    for (uint32_t i = 0; i < push.run.count; ++i) {
      if (block(push.run, i).base == tag.id) posted.blocks.push_back({tag, push.offers[i].salt});
    }
  }
  if (posted.blocks.empty()) return;
  const std::lock_guard<std::mutex> lock(world_.lock);
  world_.board.post(std::move(posted));
}

void Load::settle_push(const Push& push, const Event& pushed, bool finished) {
  const std::vector<Code>& reserved = push.reserved.codes;
  const std::lock_guard<std::mutex> lock(world_.lock);
  for (uint32_t i = 0; i < push.run.count; ++i) {
    const BlockId id = block(push.run, i);
    world_.book.settle(id, push.offers[i].salt);
    if (!finished) continue;
    const bool granted = i < reserved.size() && reserved[i] == Code::kOk;
    const bool exists = i < reserved.size() && reserved[i] == Code::kCancelled;
    if (!granted) {
      world_.book.retract(id, push.offers[i].salt);
      if (exists) settle_existing(id, push.since);
      continue;
    }
    ++counts_.blocks_granted;
    if (push.offers[i].kept) world_.book.granted_again(id, world_.room, push.since);
    if (i >= pushed.codes.size() || pushed.codes[i] != Code::kOk) continue;
    if (!world_.book.acknowledge(id, push.offers[i].salt, push.durable, push.since))
      broken(&counts_.broken_follows, id, "acknowledged, and a follower was told that it failed");
    ++(push.durable ? counts_.acks_durable : counts_.acks_cached);
  }
}

// Answered with success because somebody's bytes are there: a promise like any other, and a durable
// one, as only what was flushed exists. When nobody ever finished it the audit calls it a phantom.
void Load::settle_existing(const BlockId& block, Tick since) {
  ++counts_.blocks_existing;
  if (!world_.book.may_exist(block)) return;
  world_.book.confirm(block, since);
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
  Tick since = 0;
  {
    const std::lock_guard<std::mutex> lock(world_.lock);
    since = world_.book.now();
  }
  const Result<OpId> op = seat_.client().match(std::move(request));
  if (!op) return;
  const Result<Event> matched = ended(*op);
  if (!matched || !matched->status.ok()) return;
  {
    const std::lock_guard<std::mutex> lock(world_.lock);
    for (uint32_t i = 0; i < matched->n_blocks; ++i)
      world_.book.judge_hit(block(run, i).base, since);
  }
  // Without a hit we ask nevertheless now and then: a pull may not find more than a match.
  const uint32_t count = matched->n_blocks > 0 ? matched->n_blocks : random_.chance(50) ? 1 : 0;
  if (count > 0) pull_blocks(run, count, matched->lease, since);
  seat_.client().release(matched->lease);
}

void Load::pull_blocks(const Run& run, uint32_t count, uint64_t lease, Tick since) {
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
  judge_pulled(run, *pulled, lease != 0 && pulled->status.ok() && !gives_up, since);
}

// `owed`: a lease promised it. Only a purge since its match ends that.
void Load::judge_pulled(const Run& run, const Event& pulled, bool owed, Tick since) {
  for (uint32_t i = 0; i < pulled.codes.size(); ++i) {
    const BlockId id = block(run, i);
    const Code code = pulled.codes[i];
    if (code == Code::kOk) {
      const auto writer = seat_.writer(world_.kinds[run.kind], run.kind, id, i);
      const std::lock_guard<std::mutex> lock(world_.lock);
      world_.book.judge_bytes(id, writer, since);
      ++counts_.blocks_pulled;
    } else if (owed && code != Code::kOverloaded) {
      const std::lock_guard<std::mutex> lock(world_.lock);
      if (world_.book.excused(id.base) || world_.book.purging(id.base, since)) continue;
      broken(&counts_.broken_hits, id, code_name(code));
    }
  }
}

// What another load pushes, layer by layer.
void Load::follow() {
  Posted posted;
  {
    const std::lock_guard<std::mutex> lock(world_.lock);
    if (world_.board.empty()) return;
    posted = world_.board.take();
  }
  FollowRequest request;
  request.format = seat_.format(posted.kind);
  request.rank = posted.rank;
  for (uint32_t i = 0; i < posted.blocks.size(); ++i) {
    request.blocks.push_back(posted.blocks[i].tag);
    request.slots.push_back(i);
    seat_.poison(world_.kinds[posted.kind], posted.kind, posted.rank, i);
  }
  request.layout = &seat_.layout(posted.kind, posted.rank);
  request.deadline_ns = kOpDeadline;
  const Result<OpId> op = seat_.client().follow(std::move(request));
  if (!op) return;
  ++counts_.follows;
  if (random_.chance(kCancelPerMille)) seat_.client().cancel(*op);
  for (;;) {
    const Result<Event> event = seat_.next(*op, kHungAfter);
    if (!event) {
      ++counts_.hung;
      return;
    }
    judge_layer(posted, *event);
    if (event->kind == Event::Kind::kLayer) continue;
    return judge_followed(posted, *event);
  }
}

// By attempt, not by id: another writer of the same block has other bytes.
void Load::judge_layer(const Posted& posted, const Event& event) {
  const auto layers =
      static_cast<uint32_t>(world_.kinds[posted.kind].format.ranks[posted.rank].size());
  const bool all = event.kind != Event::Kind::kLayer;
  for (uint32_t i = 0; i < event.codes.size(); ++i) {
    if (event.codes[i] != Code::kOk) continue;
    const BlockId id{posted.blocks[i].tag.id, posted.rank};
    for (uint32_t l = all ? 0 : event.layer; l < (all ? layers : event.layer + 1); ++l) {
      ++counts_.layers_followed;
      if (is_layer_of(id, l, posted.blocks[i].salt, seat_.layer(posted.kind, posted.rank, l, i)))
        continue;
      const std::lock_guard<std::mutex> lock(world_.lock);
      world_.book.followed_wrong(id);
    }
  }
}

// Committed, as its pusher asked, is as good as acknowledged, whether that hears of it or not.
void Load::judge_followed(const Posted& posted, const Event& event) {
  for (uint32_t i = 0; i < event.codes.size(); ++i) {
    const BlockId id{posted.blocks[i].tag.id, posted.rank};
    const Salt salt = posted.blocks[i].salt;
    const Code code = event.codes[i];
    const std::lock_guard<std::mutex> lock(world_.lock);
    if (code == Code::kOk) {
      ++counts_.blocks_followed;
      if (!world_.book.followed(id, salt, posted.durable, posted.since))
        broken(&counts_.broken_follows, id, "committed for one follower and failed for another");
    } else if (event.status.ok() && (code == Code::kCancelled || code == Code::kTimedOut)) {
      ++counts_.blocks_denied;
      if (!world_.book.deny(id, salt, posted.since))
        broken(&counts_.broken_follows, id, "acknowledged, and a follower is told that it failed");
    }
  }
}

// One block, a chain from its beginning, or all of one lineage.
void Load::purge() {
  Run run = choose_run();
  const std::vector<BaseId>& ids = world_.kinds[run.kind].ids;
  const bool lineage = random_.chance(kLineagePerMille);
  PurgeRequest request;
  request.deadline_ns = kOpDeadline;
  std::vector<BaseId> bases = ids;
  if (lineage) {
    request.kind = wire::PurgeKind::kLineage;
    request.format = seat_.format(run.kind);
  } else {
    if (random_.chance(500)) {
      run.first -= run.first % kChainBlocks;
    } else {
      run.count = 1;
    }
    bases.assign(ids.begin() + run.first, ids.begin() + run.first + run.count);
    request.ids = bases;
  }
  uint32_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(world_.lock);
    number = world_.book.purge_asked(bases, lineage);
  }
  const Result<OpId> op = seat_.client().purge(std::move(request));
  if (!op) return;
  ++counts_.purges;
  const Result<Event> purged = ended(*op);
  const bool done = purged.has_value() && purged->status.ok();
  const std::lock_guard<std::mutex> lock(world_.lock);
  world_.book.purge_answered(number, done);
  if (!done) return;
  ++counts_.purges_done;
  counts_.purged_lineages += lineage ? 1 : 0;
  ++world_.purges;
}

}  // namespace varve::ledger
