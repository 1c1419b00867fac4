// FOLLOW: from the slabs of live grants while they are ours, from the home once it has them.
#include "server/session/follow.h"

#include <algorithm>

#include "server/session/requests.h"

namespace varve {

namespace {

uint32_t pieces_of(uint32_t bytes) {
  return (bytes + kPayloadBytesMax - 1) / kPayloadBytesMax;
}
static_assert(kExtentBytesMax / kPayloadBytesMax <= Follow::kSendsMax);

// The row of the table as COMMIT will have to say it: both checksums were taken at receipt.
ExtentEntry entry_of(const Grant& grant, uint32_t extent) {
  ExtentEntry entry;
  entry.stored_bytes = grant.table->bytes_at(extent);
  entry.decoded_bytes = entry.stored_bytes;
  entry.stripe = static_cast<uint16_t>(grant.table->stripe_at(extent));
  entry.stored_crc = grant.progress[extent].crc;
  entry.decoded_xxh3 = grant.progress[extent].decoded_xxh3;
  return entry;
}

}  // namespace

void followers_see(Grant& grant) {
  for (FollowedBlock* block = grant.followers.front(); block != nullptr;
       block = grant.followers.next(block)) {
    block->follow->requests->wake();
  }
}

void followers_end(Grant& grant, Code code) {
  while (FollowedBlock* block = grant.followers.pop_front()) {
    VARVE_ASSERT(block->state == FollowedBlock::State::kLive);
    VARVE_ASSERT(block->grant == &grant);
    block->grant = nullptr;
    Requests& requests = *block->follow->requests;
    if (code == Code::kOk) {
      block->state = FollowedBlock::State::kCommitted;
    } else {
      requests.block_over(*block, code);
    }
    requests.wake();
  }
}

Status Requests::check_follow(const wire::FollowView& view, const SessionFormat* format,
                              ExtentRange* range) {
  const wire::Follow& body = view.body;
  if (format == nullptr) return Status::invalid("FOLLOW of an unknown format");
  if (body.rank >= format->format.rank_count())
    return Status::invalid("FOLLOW of a rank beyond the format");
  if (body.deadline_ns == 0) return Status::invalid("FOLLOW without a deadline");
  VARVE_TRY(*range,
            extents_of_layers(format->tables[body.rank], body.layer_first, body.layer_count));
  if (!data_out_.any_lane()) return Status::unavailable("FOLLOW before a bulk lane");
  if (pulls_ >= scope_.context.options.pulls_max)
    return Status::quota("pulls_max pulls are in flight");
  return {};
}

void Requests::follow(uint64_t op, const wire::FollowView& view) {
  SessionContext& context = scope_.context;
  context.metrics.follows.add();
  if (Status status = admit(op); !status.ok()) return refuse_pull(op, status.code());
  const wire::Follow& body = view.body;
  const SessionFormat* format = formats_.find(body.format);
  ExtentRange range;
  if (Status status = check_follow(view, format, &range); !status.ok()) {
    return refuse_pull(op, status.code());
  }
  Follow* follow = context.follows->take(scope_.domain);
  if (follow == nullptr) return refuse_pull(op, Code::kOverloaded);
  PendingPull* request = context.pulls->take(scope_.domain);
  if (request == nullptr) {
    context.follows->give(follow, scope_.domain);
    return refuse_pull(op, Code::kOverloaded);
  }
  request->ids.count = view.blocks.size();
  for (uint32_t i = 0; i < view.blocks.size(); ++i) {
    const wire::FollowBlock block = view.blocks[i];
    request->ids.ids[i] = block.base;
    follow->attempts[i] = block.attempt;
  }
  begin(*request, op, format);
  begin_pull(*request, body.deadline_ns);
  request->want_count = 0;
  request->bytes = bytes_of_range(format->tables[body.rank], range) * request->ids.count;
  request->follow = follow;
  begin_follow(*follow, *request, body, range);
  find_grants(*follow);
  wake();
}

void Requests::begin_follow(Follow& follow, PendingPull& pull, const wire::Follow& body,
                            const ExtentRange& range) {
  VARVE_ASSERT(follow.sends_out == 0);
  VARVE_ASSERT(!follow.asking);
  VARVE_ASSERT(!follow.stall.armed());
  follow.requests = this;
  follow.pull = &pull;
  follow.rank = body.rank;
  follow.extent_first = range.first;
  follow.extent_end = range.end;
  follow.first_wanted_ns = pull.began_ns + bounded(body.slack_ns);
  follow.layer_ns = bounded(body.layer_ns);
  follow.open = pull.ids.count;
  follow.window_count = 0;
  for (uint32_t i = 0; i < pull.ids.count; ++i) {
    FollowedBlock& block = follow.blocks[i];
    VARVE_ASSERT(!block.linked());
    block.follow = &follow;
    block.grant = nullptr;
    block.state = FollowedBlock::State::kCommitted;  // what no grant has is its home's, or nobody's
    block.code = Code::kOk;
    block.is_other = false;
    block.next = block.asked = static_cast<uint16_t>(range.first);
  }
  std::fill(follow.is_asked.begin(), follow.is_asked.end(), false);
  follow.here.session_reactor = &scope_.context.reactor;
  follow.here.shard = SessionContext::kHere;
  follow.here.owner = &pull;
  follow.stall.owner = &follow;
  follow.stall.on_fire = on_follow_stalled;
}

// Once per FOLLOW: a walk over all grants of the node, a binary search for each.
void Requests::find_grants(Follow& follow) {
  const PendingPull& pull = *follow.pull;
  std::array<uint16_t, wire::kIdsMax> order;
  const auto end = order.begin() + pull.ids.count;
  for (uint32_t i = 0; i < pull.ids.count; ++i)
    order[i] = static_cast<uint16_t>(i);
  std::sort(order.begin(), end,
            [&pull](uint16_t a, uint16_t b) { return pull.ids.ids[a] < pull.ids.ids[b]; });
  for (const auto& grant : scope_.context.grants->all()) {
    if (grant->state == Grant::State::kFree || grant->block.rank != follow.rank) continue;
    if (grant->block.domain != scope_.domain) continue;  // not even that it is there
    const BaseId& base = grant->block.base;
    auto at = std::lower_bound(order.begin(), end, base, [&pull](uint16_t i, const BaseId& id) {
      return pull.ids.ids[i] < id;
    });
    for (; at != end && pull.ids.ids[*at] == base; ++at) {
      FollowedBlock& block = follow.blocks[*at];
      if (grant->loan.attempt != follow.attempts[*at]) continue;
      if (grant->table != &pull.format->tables[follow.rank]) {
        block_over(block, Code::kUnavailable);  // the same id under another format
      } else if (grant->state == Grant::State::kReceiving ||
                 grant->state == Grant::State::kCommitting) {
        block.grant = grant.get();
        block.state = FollowedBlock::State::kLive;
        grant->followers.push_back(&block);
      } else {
        const bool late = grant->failure.code() == Code::kTimedOut;
        block_over(block, late ? Code::kTimedOut : Code::kCancelled);
      }
    }
  }
}

void Requests::step(Follow& follow) {
  PendingPull& pull = *follow.pull;
  if (!pull.stopped()) {
    if (!follow.asking && follow.sends_out == 0) ask_window(follow);
    for (uint32_t s = 0; s < scope_.context.shards.size(); ++s) {
      if (!follow.is_asked[s]) ask_home(follow, s);
    }
  }
  if (follow.asking || follow.sends_out > 0 || pull.parts_out > 0) return;
  if (pull.stopped() || follow.open == 0) end_follow(follow);
}

// Layer-major over all blocks, as a pull: the lowest extent that one of them has, of all that have
// it and are as far.
void Requests::ask_window(Follow& follow) {
  const auto ready = [](const FollowedBlock& block, uint32_t extent) {
    return block.state == FollowedBlock::State::kLive && block.next == extent &&
           block.grant->has(extent);
  };
  uint32_t lowest = follow.extent_end;
  for (uint32_t i = 0; i < follow.pull->ids.count; ++i) {
    const FollowedBlock& block = follow.blocks[i];
    if (block.next < lowest && ready(block, block.next)) lowest = block.next;
  }
  if (lowest == follow.extent_end) return;
  const ExtentTable& table = follow.pull->format->tables[follow.rank];
  const uint32_t bytes = table.bytes_at(lowest);
  const uint32_t fits = std::min<uint32_t>(Follow::kSendsMax / pieces_of(bytes),
                                           static_cast<uint32_t>(Follow::kWindowBytesMax / bytes));
  VARVE_ASSERT(fits > 0, bytes);
  follow.window_extent = lowest;
  follow.window_count = 0;
  for (uint32_t i = 0; i < follow.pull->ids.count && follow.window_count < fits; ++i) {
    if (!ready(follow.blocks[i], lowest)) continue;
    follow.window_blocks[follow.window_count++] = static_cast<uint16_t>(i);
  }
  const uint32_t layers =
      table.extents[lowest].layer_first - table.extents[follow.extent_first].layer_first;
  follow.ask.bytes = uint64_t{bytes} * follow.window_count;
  follow.ask.wanted_ns = follow.first_wanted_ns + layers * follow.layer_ns;
  follow.ask.part = &follow.here;
  follow.ask.owner = &follow;
  follow.ask.back = on_follow_credit;
  follow.asking = true;
  credit_.ask(follow.ask);
}

void Requests::on_follow_credit(Message& message) {
  auto& ask = *static_cast<CreditAsk*>(message.owner);
  auto& follow = *static_cast<Follow*>(ask.owner);
  Requests& self = *follow.requests;
  VARVE_ASSERT(follow.asking);
  follow.asking = false;
  if (ask.status.ok()) {
    self.send_window(follow);
  } else if (!follow.pull->stopped()) {  // kQuota: this client can never take it
    for (uint32_t i = 0; i < follow.window_count; ++i) {
      FollowedBlock& block = follow.blocks[follow.window_blocks[i]];
      if (block.state != FollowedBlock::State::kLive) continue;
      block.grant->followers.remove(&block);
      self.block_over(block, ask.status.code());
    }
  }
  self.wake();
}

void Requests::send_window(Follow& follow) {
  uint64_t unused_bytes = 0;
  const uint32_t bytes = follow.pull->format->tables[follow.rank].bytes_at(follow.window_extent);
  for (uint32_t i = 0; i < follow.window_count; ++i) {
    const uint32_t position = follow.window_blocks[i];
    const FollowedBlock& block = follow.blocks[position];
    // Its grant may have left while credit was waited for: then its home has the extent, or nobody.
    if (!follow.pull->stopped() && block.state == FollowedBlock::State::kLive &&
        block.grant->has(follow.window_extent)) {
      send_extent(follow, position);
    } else {
      unused_bytes += bytes;
    }
  }
  follow.window_count = 0;
  if (unused_bytes > 0) credit_.take_back(unused_bytes);
  if (follow.sends_out > 0) watch_sends(follow);
}

void Requests::send_extent(Follow& follow, uint32_t position) {
  FollowedBlock& block = follow.blocks[position];
  Grant& grant = *block.grant;
  const uint32_t extent = block.next;
  VARVE_ASSERT(extent == follow.window_extent, extent, follow.window_extent);
  const uint32_t extent_bytes = grant.table->bytes_at(extent);
  const ExtentEntry entry = entry_of(grant, extent);
  const Slab& slab = grant.loan.tier->extent(*grant.loan.block, extent);
  for (uint32_t offset = 0; offset < extent_bytes; offset += kPayloadBytesMax) {
    const auto free = std::find_if(follow.sends.begin(), follow.sends.end(),
                                   [](const FollowSend& send) { return send.grant == nullptr; });
    VARVE_ASSERT(free != follow.sends.end());  // a window is no more than they are
    free->grant = &grant;
    free->follow = &follow;
    ++grant.sends;
    ++follow.sends_out;
    DataSend& send = free->send;
    send.request.payload_count = grant.loan.tier->arena().pieces(
        slab, offset, std::min(extent_bytes - offset, kPayloadBytesMax), send.request.payload);
    send.data = wire::Data{.block = position,
                           .extent = extent,
                           .offset = offset,
                           .entry = entry,
                           .attempt = grant.loan.attempt};
    send.part = &follow.here;
    send.owner = &*free;
    send.back = on_follow_sent;
    data_out_.send(send);
  }
  ++block.next;
  follow.pull->tiers |= wire::tier_bit(wire::TierKind::kDram);
  scope_.context.metrics.follow_extents.add();
  scope_.context.metrics.follow_bytes.add(extent_bytes);
}

void Requests::on_follow_sent(Message& message) {
  auto& send = *static_cast<DataSend*>(message.owner);
  auto& own = *static_cast<FollowSend*>(send.owner);
  Follow& follow = *own.follow;
  Grant& grant = *own.grant;
  VARVE_ASSERT(follow.sends_out > 0);
  own.grant = nullptr;
  if (--follow.sends_out == 0) follow.requests->scope_.context.reactor.cancel(follow.stall);
  grant.grants->send_over(grant);  // its session may be another
  follow.requests->wake();
}

void Requests::watch_sends(Follow& follow) {
  const SessionOptions& options = scope_.context.options;
  const uint64_t seconds = data_out_.queued_bytes() / options.lane_rate_bytes_min;
  scope_.context.reactor.cancel(follow.stall);
  scope_.context.reactor.arm(follow.stall,
                             options.drain_stall_ms_max * kMillisecond + seconds * kSecond);
}

// A follower may be as slow as it likes, but nobody's commit or memory waits for it longer than for
// a stopped pull: only the fence of its lanes gives the slabs back.
void Requests::on_follow_stalled(Timer& timer) {
  auto& follow = *static_cast<Follow*>(timer.owner);
  Requests& self = *follow.requests;
  VARVE_ASSERT(follow.sends_out > 0);
  if (self.scope_.over()) return;
  const bool waited_for =
      std::any_of(follow.sends.begin(), follow.sends.end(), [](const FollowSend& send) {
        return send.grant != nullptr &&
               (send.grant->leaving || send.grant->state == Grant::State::kDraining);
      });
  const Nanos stall_ns = self.scope_.context.options.drain_stall_ms_max * kMillisecond;
  const bool owed = self.scope_.context.reactor.owed_ns(stall_ns) > 0;
  if (!waited_for || owed) return self.watch_sends(follow);
  self.scope_.fail_slow(Slow::kData, Status::timed_out("a push waits for DATA of its follower"));
}

// What was not sent before its commit, as wants of one part at a time.
void Requests::ask_home(Follow& follow, uint32_t shard) {
  SessionContext& context = scope_.context;
  PendingPull& pull = *follow.pull;
  const auto wants_max = wire::kWantsMax / static_cast<uint32_t>(context.shards.size());
  wire::Want* wants = pull.wants.data() + shard * wants_max;
  uint32_t count = 0;
  for (uint32_t i = pull.begins[shard]; i < pull.begins[shard + 1]; ++i) {
    const uint32_t position = pull.ids.positions[i];
    FollowedBlock& block = follow.blocks[position];
    if (block.state != FollowedBlock::State::kCommitted) continue;
    if (block.next == follow.extent_end) {
      block_over(block, Code::kOk);
      continue;
    }
    const uint32_t take = std::min(wants_max - count, follow.extent_end - block.next);
    if (take == 0) continue;  // the next part has it
    for (uint32_t e = block.next; e < block.next + take; ++e)
      wants[count++] = {position, e};
    block.asked = static_cast<uint16_t>(block.next + take);
    block.state = FollowedBlock::State::kAsked;
    pull.codes[position] = kNoCode;
  }
  if (count == 0) return;
  PullPart& part = fill_part(pull, shard, follow.rank);
  part.on_back = on_follow_part;
  part.lease = 0;
  part.lease_required = false;
  part.extent_first = part.extent_end = 0;
  part.wants = wants;
  part.want_count = count;
  part.first_wanted_ns = follow.first_wanted_ns;
  part.layer_ns = follow.layer_ns;
  follow.is_asked[shard] = true;
  ++pull.parts_out;
  context.shards[shard]->submit(part);
}

void Requests::on_follow_part(Part& part) {
  auto& pull_part = static_cast<PullPart&>(part);
  auto& pull = *static_cast<PendingPull*>(part.owner);
  Follow& follow = *pull.follow;
  Requests& self = *pull.requests;
  VARVE_ASSERT(follow.is_asked[part.shard]);
  VARVE_ASSERT(pull.parts_out > 0);
  self.credit_.take_back(pull_part.credit_unused_bytes);
  pull.tiers |= pull_part.tiers;
  follow.is_asked[part.shard] = false;
  --pull.parts_out;
  for (uint32_t i = pull_part.begin; i < pull_part.end; ++i) {
    const uint32_t position = pull.ids.positions[i];
    FollowedBlock& block = follow.blocks[position];
    if (block.state != FollowedBlock::State::kAsked) continue;
    Code code = part.status.ok() ? Code::kInternal : part.status.code();
    if (pull.codes[position] != kNoCode) code = static_cast<Code>(pull.codes[position]);
    if (block.is_other) code = Code::kUnavailable;
    if (code == Code::kOk) {
      block.next = block.asked;
      block.state = FollowedBlock::State::kCommitted;
    } else {
      self.block_over(block, code);
    }
  }
  if (pull.stopped()) self.leave_grants(follow);
  self.wake();
}

void Requests::block_over(FollowedBlock& block, Code code) {
  VARVE_ASSERT(block.state != FollowedBlock::State::kOver);
  VARVE_ASSERT(!block.linked());
  VARVE_ASSERT(block.follow->open > 0);
  block.grant = nullptr;
  block.state = FollowedBlock::State::kOver;
  block.code = code;
  --block.follow->open;
  scope_.context.metrics.follow_blocks[static_cast<uint8_t>(code)].add();
}

// The follow was stopped: nothing is begun for it any more. Frames on lanes keep their grants.
void Requests::leave_grants(Follow& follow) {
  const Code code = follow.pull->timed_out ? Code::kTimedOut : Code::kCancelled;
  for (uint32_t i = 0; i < follow.pull->ids.count; ++i) {
    FollowedBlock& block = follow.blocks[i];
    if (block.state == FollowedBlock::State::kLive) block.grant->followers.remove(&block);
    if (block.state == FollowedBlock::State::kLive ||
        block.state == FollowedBlock::State::kCommitted) {
      block_over(block, code);
    }
  }
  wake();
}

void Requests::end_follow(Follow& follow) {
  PendingPull& pull = *follow.pull;
  VARVE_ASSERT(follow.open == 0, follow.open);
  VARVE_ASSERT(!follow.stall.armed());
  for (uint32_t i = 0; i < pull.ids.count; ++i)
    pull.codes[i] = static_cast<uint8_t>(follow.blocks[i].code);
  answer_pull(pull);
  scope_.context.follows->give(&follow, scope_.domain);
}

}  // namespace varve
