// The calls of an engine in their order; what is not a call of the store stands outside of the
// times.
#include "tools/kvbench/player.h"

#include <algorithm>

namespace varve::kvbench {

namespace {

constexpr Nanos kWaitBeyond = 5 * kSecond;  // an op ends within its deadline and a fence
constexpr uint32_t kLeaseMs = 30000;

Format format_of(const PlayerOptions& options) {
  Format format;
  format.model.bytes.fill(std::byte{0xBE});
  format.lineage = "kvbench-" + options.run_id;
  format.tokens_per_block = options.block_tokens;
  format.ranks.emplace_back(options.layers, LayerSpec{LayerKind::kFull, options.layer_bytes});
  return format;
}

// The tokens of a run: a function of its content id.
void append_tokens(uint32_t content, uint32_t count, std::vector<uint32_t>& out) {
  Random random((uint64_t{content} << 32) + 0xFFFFFFFFu);
  for (uint32_t t = 0; t < count; ++t)
    out.push_back(static_cast<uint32_t>(random.next()));
}

// The end of an op, or that it has none; then nothing touches the memory of its seat any more (C2).
Result<Event> end_of(Client& client, OpId op, Nanos deadline_ns) {
  auto event = client.wait(op, deadline_ns + kWaitBeyond);
  if (event) return event;
  client.cancel(op);
  VARVE_RETURN_IF_ERROR(client.quiesce(op, kWaitBeyond));
  return event.error();
}

Code code_of(const Result<Event>& ended) {
  return ended ? ended->status.code() : ended.error().code();
}

}  // namespace

void note_end(const Result<Event>& ended, Nanos before_ns, Nanos elapsed_ns, PlayedPull& out) {
  const bool told = ended && ended->done_ns > 0;
  out.took_ns = std::max<Nanos>(told ? ended->done_ns : elapsed_ns, 1);
  out.last_layer_ns = before_ns + out.took_ns;
  const bool came = ended && ended->first_layer_ns > 0;
  out.first_layer_ns = came ? before_ns + ended->first_layer_ns : 0;
  out.bytes = ended ? ended->bytes : 0;
  out.failed = code_of(ended) != Code::kOk;
}

uint32_t note_blocks(const std::vector<Code>& codes, uint32_t blocks, PlayedPull& out) {
  uint32_t have = 0;
  for (uint32_t i = 0; i < blocks; ++i) {
    if (i >= codes.size() || codes[i] != Code::kOk) {
      ++out.failed_blocks;
      continue;
    }
    if (have == i) ++have;
    ++out.blocks;
    out.slots.push_back(i);
  }
  return have;
}

void Outcomes::count(Code code) {
  ++ops;
  if (code == Code::kOk) {
    ++ok;
  } else if (code == Code::kOverloaded || code == Code::kQuota || code == Code::kNoSpace) {
    ++refused;
  } else if (code == Code::kTimedOut) {
    ++timed_out;
  } else {
    ++failed;
  }
}

void Outcomes::add(const Outcomes& other) {
  ops += other.ops;
  ok += other.ok;
  refused += other.refused;
  timed_out += other.timed_out;
  failed += other.failed;
}

Result<std::unique_ptr<Player>> Player::make(const PlayerOptions& options,
                                             const ServerUnderTest& server,
                                             const std::vector<Prompt>& prompts) {
  VARVE_ASSERT(options.blocks_max <= wire::kIdsMax, options.blocks_max);
  std::unique_ptr<Player> player(new Player(options));
  for (uint32_t w = 0; w < options.workers; ++w) {
    VARVE_TRY(auto set,
              WorkingSet::make({options.blocks_max, options.layers, options.layer_bytes}));
    player->seats_.push_back({std::move(set)});
  }
  VARVE_RETURN_IF_ERROR(player->open_engine(server, "kvbench-prefill", player->prefill_));
  VARVE_RETURN_IF_ERROR(player->open_engine(server, "kvbench-decode", player->decode_));
  player->prompts_ = prompts;
  player->played_.resize(prompts.size());
  player->workers_.resize(prompts.size());
  VARVE_RETURN_IF_ERROR(player->make_ids(prompts));
  return player;
}

Status Player::open_engine(const ServerUnderTest& server, const char* name, Engine& engine) {
  VARVE_TRY(engine.client, server.open_client(name, options_.lanes));
  VARVE_TRY(engine.format, engine.client->format(format_of(options_)));
  for (const Seat& seat : seats_) {
    const ByteSpan memory = seat.set->memory();
    VARVE_TRY(const RegionId region, engine.client->register_memory(memory.data(), memory.size()));
    engine.layouts.push_back(seat.set->layout(region, 1));
  }
  return {};
}

Status Player::make_ids(const std::vector<Prompt>& prompts) {
  std::vector<uint32_t> tokens;
  for (const Prompt& prompt : prompts) {
    VARVE_ASSERT(!prompt.content.empty() && prompt.content.size() <= options_.blocks_max);
    tokens.clear();
    for (const uint32_t content : prompt.content)
      append_tokens(content, options_.block_tokens, tokens);
    VARVE_TRY(auto ids, prefill_.client->base_ids(prefill_.format, BaseId(), tokens));
    ids_.push_back(std::move(ids));
  }
  return {};
}

void Player::serve(uint32_t worker, uint32_t index, Nanos origin_ns) {
  const uint32_t prompt = first_ + index;
  Played& played = played_[prompt];
  played = Played();
  workers_[prompt] = worker;
  played.blocks = static_cast<uint32_t>(ids_[prompt].size());
  if (part_ == PlayPart::kPush) return push_rest(worker, prompt, 0, played);
  if (part_ == PlayPart::kWhole) {
    const Turn prefill{prefill_, worker, prompt, origin_ns, played.prefill, played.hit_blocks};
    const uint32_t have = pull_prefix(prefill, played);
    if (have < played.blocks) push_rest(worker, prompt, have, played);
    origin_ns = clock_.now_ns();
  }
  const Turn decode{decode_, worker, prompt, origin_ns, played.decode, played.decode_hit_blocks};
  (void)pull_prefix(decode, played);
}

uint32_t Player::compare(uint32_t prompt) const {
  const WorkingSet& set = *seats_[workers_[prompt]].set;
  uint32_t wrong = 0;
  for (const uint32_t slot : played_[prompt].decode.slots)
    wrong += set.slot_is(slot, prompts_[prompt].content[slot]) ? 0 : 1;
  return wrong;
}

Result<Event> Player::match(const Turn& turn) {
  MatchRequest match;
  match.format = turn.engine.format;
  match.ids = ids_[turn.prompt];
  match.lease_ms = kLeaseMs;
  match.deadline_ns = options_.deadline_ns;
  VARVE_TRY(const OpId op, turn.engine.client->match(std::move(match)));
  return end_of(*turn.engine.client, op, options_.deadline_ns);
}

// Matches, pulls what hits; how many blocks are there, whole and right.
uint32_t Player::pull_prefix(const Turn& turn, Played& played) {
  Client& client = *turn.engine.client;
  const std::vector<BaseId>& ids = ids_[turn.prompt];
  const auto matched = match(turn);
  const Code code = code_of(matched);
  played.matches.count(code);
  if (code != Code::kOk) {
    turn.pull.failed = true;
    turn.pull.last_layer_ns = clock_.now_ns() - turn.origin_ns;
    return 0;
  }
  turn.hit_blocks = matched->n_blocks;
  if (matched->n_blocks == 0) {
    ++played.misses;
    return 0;
  }
  for (uint32_t i = 0; i < matched->n_blocks && i < matched->tiers.size(); ++i) {
    turn.pull.dram_blocks += matched->tiers[i] == wire::TierKind::kDram ? 1 : 0;
    turn.pull.flash_blocks += matched->tiers[i] == wire::TierKind::kFlash ? 1 : 0;
  }
  PullRequest request;
  request.format = turn.engine.format;
  request.ids.assign(ids.begin(), ids.begin() + matched->n_blocks);
  for (uint32_t i = 0; i < matched->n_blocks; ++i)
    request.slots.push_back(i);
  request.layout = &turn.engine.layouts[turn.worker];
  request.lease = matched->lease;
  request.deadline_ns = options_.deadline_ns;
  const uint32_t have = pull_blocks(turn, std::move(request), played);
  client.release(matched->lease);
  return have;
}

uint32_t Player::pull_blocks(const Turn& turn, PullRequest request, Played& played) {
  Client& client = *turn.engine.client;
  PlayedPull& pull = turn.pull;
  WorkingSet& set = *seats_[turn.worker].set;
  const auto blocks = static_cast<uint32_t>(request.ids.size());
  const Nanos poison_ns = clock_.now_ns();
  set.poison_slots(0, blocks);
  pull.began_ns = clock_.now_ns();
  // Poisoning is ours: the time that it took is no wait of the request.
  const Nanos own_ns = pull.began_ns - poison_ns;
  played.own_work_ns += own_ns;
  const auto op = client.pull(std::move(request));
  const Result<Event> pulled =
      op ? end_of(client, *op, options_.deadline_ns) : Result<Event>(op.error());
  note_end(pulled, pull.began_ns - own_ns - turn.origin_ns, clock_.now_ns() - pull.began_ns, pull);
  played.pulls.count(code_of(pulled));
  if (!pulled) {
    pull.failed_blocks = blocks;
    return 0;
  }
  const Nanos compare_ns = clock_.now_ns();
  const uint32_t have = note_blocks(pulled->codes, blocks, pull);
  if (part_ != PlayPart::kPullOnly) {
    for (const uint32_t slot : pull.slots)
      played.wrong_blocks += set.slot_is(slot, prompts_[turn.prompt].content[slot]) ? 0 : 1;
  }
  played.own_work_ns += clock_.now_ns() - compare_ns;
  return have;
}

void Player::push_rest(uint32_t worker, uint32_t prompt, uint32_t first, Played& played) {
  WorkingSet& set = *seats_[worker].set;
  const std::vector<BaseId>& ids = ids_[prompt];
  const Nanos make_ns = clock_.now_ns();
  PushRequest request;
  request.format = prefill_.format;
  if (first > 0) request.parent = ids[first - 1];
  for (uint32_t i = first; i < ids.size(); ++i) {
    set.fill_slot(i, prompts_[prompt].content[i]);
    request.ids.push_back(ids[i]);
    request.slots.push_back(i);
  }
  request.layout = &prefill_.layouts[worker];
  request.ack = options_.ack;
  request.deadline_ns = options_.deadline_ns;
  const Nanos began_ns = clock_.now_ns();
  played.own_work_ns += began_ns - make_ns;
  const auto op = prefill_.client->push(std::move(request));
  if (!op) return played.pushes.count(op.error().code());
  if (Status layers = prefill_.client->push_layer(*op, ClientCore::kEveryLayer); !layers.ok()) {
    prefill_.client->cancel(*op);
  }
  const auto pushed = end_of(*prefill_.client, *op, options_.deadline_ns);
  played.push_ns = clock_.now_ns() - began_ns;
  if (!pushed) return played.pushes.count(pushed.error().code());
  played.pushes.count(pushed->status.code());
  played.pushed_bytes = pushed->bytes;
  for (const Code code : pushed->codes)
    ++(code == Code::kOk ? played.pushed_blocks : played.unpushed_blocks);
}

}  // namespace varve::kvbench
