// Actor: every answer is checked against the oracle; every op must end in time.
#include "tests/sim/actor.h"

#include <algorithm>

namespace varve::sim {

namespace {
constexpr uint32_t kSlots = 8;  // >= blocks_max
constexpr std::byte kPoison{0xA5};
constexpr Nanos kFence = 200 * kMillisecond;
constexpr Nanos kGrace = 50 * kMillisecond;  // turns take time

uint64_t memory_bytes(const Library& library) {
  uint64_t most = 0;
  for (const Format& f : library.formats) {
    for (uint32_t r = 0; r < f.rank_count(); ++r)
      most = std::max(most, f.block_bytes(r));
  }
  return most * kSlots;
}
}  // namespace

std::vector<Format> draw_formats(Random& random) {
  std::vector<Format> formats;
  for (uint32_t f = 0; f < 2; ++f) {
    Format format;
    format.model.bytes[0] = std::byte{static_cast<unsigned char>(f + 1)};
    format.lineage = "sim-" + std::to_string(f);
    format.tokens_per_block = 16;
    const auto ranks = static_cast<uint32_t>(random.between(1, 2));
    for (uint32_t r = 0; r < ranks; ++r) {
      std::vector<LayerSpec> layers;
      const auto count = random.between(1, 6);
      for (uint64_t l = 0; l < count; ++l) {
        LayerSpec layer;
        layer.kind = random.chance(200) ? LayerKind::kSliding : LayerKind::kFull;
        // Odd sizes, sizes at a page and at the run limit.
        constexpr uint32_t kSizes[] = {8, 1000, 4096, 4104, 20000, 65536, 70008, 131072};
        layer.bytes = kSizes[random.below(std::size(kSizes))];
        layers.push_back(layer);
      }
      format.ranks.push_back(std::move(layers));
    }
    formats.push_back(std::move(format));
  }
  return formats;
}

// Two documents share their first block, as prompts share a system prefix.
std::vector<uint32_t> document_tokens(const Library& library, uint32_t format, uint32_t document) {
  const uint32_t run = library.formats[format].tokens_per_block;
  std::vector<uint32_t> tokens;
  for (uint32_t b = 0; b < library.blocks_max; ++b) {
    for (uint32_t t = 0; t < run; ++t) {
      tokens.push_back(b == 0 ? document / 2 * 1000 + t : document * 100000 + b * 1000 + t);
    }
  }
  return tokens;
}

std::vector<BaseId> document_ids(const Library& library, uint32_t format, uint32_t document) {
  const Format& of = library.formats[format];
  const std::vector<uint32_t> tokens = document_tokens(library, format, document);
  std::vector<BaseId> ids;
  BaseId parent;
  for (size_t at = 0; at < tokens.size(); at += of.tokens_per_block) {
    parent = base_id_of_tokens(of.fingerprint(), salt_of(kDomainDefault), parent,
                               std::span(tokens).subspan(at, of.tokens_per_block));
    ids.push_back(parent);
  }
  return ids;
}

Actor::Actor(World& world, Library& library, uint32_t number)
    : world_(world),
      library_(library),
      domain_(library.domain_of(number)),
      random_(world.random().next()),
      reactor_(world.add_reactor()),
      memory_(memory_bytes(library)) {
  ClientOptions options;
  options.address = "node";
  options.name = "actor-" + std::to_string(number);
  options.token = token_of(domain_);
  options.bulk_lanes = static_cast<uint32_t>(random_.between(1, 3));
  options.pull_credit_bytes = 16 * kMiB;
  options.populate_scratch = false;
  options.parity_scratch_bytes = 1 * kMiB;  // both the least there is
  options.rebuild_scratch_bytes = 56 * kMiB;
  options.fence_ns_max = kFence;
  options.ping_interval_ns = 500 * kMillisecond;
  options.connect_ns_max = 300 * kMillisecond;
  options.reconnect_ns_max = 200 * kMillisecond;
  auto core = ClientCore::open(world.env(), reactor_, options);
  world_.expect(core.has_value(), "ClientCore::open");
  core_ = std::move(*core);
  region_ = *core_->register_memory(memory_.data(), memory_.size());
  for (const Format& format : library_.formats) {
    format_ids_.push_back(*core_->format(format));
    std::vector<Layout> ranks;
    for (const auto& layer_specs : format.ranks) {
      Layout layout;
      uint64_t offset = 0;
      for (const LayerSpec& spec : layer_specs) {
        LayerLayout layer;
        layer.region = region_;
        layer.offset = offset;
        layer.stride = spec.bytes;
        layout.layers.push_back(layer);
        offset += uint64_t{spec.bytes} * kSlots;
      }
      ranks.push_back(std::move(layout));
    }
    layouts_.push_back(std::move(ranks));
  }
}

ByteSpan Actor::layer_bytes(uint32_t slot, uint32_t layer) const {
  const LayerLayout& l = layouts_[format_][rank_].layers[layer];
  auto* base = const_cast<std::byte*>(memory_.data());
  return {base + l.offset + slot * l.stride, layers()[layer].bytes};
}

std::vector<ConstByteSpan> Actor::layers_of(uint32_t slot) const {
  std::vector<ConstByteSpan> all;
  for (uint32_t l = 0; l < layers().size(); ++l)
    all.push_back(layer_bytes(slot, l));
  return all;
}

// After a terminal event nothing may touch our memory (C2): a pattern is laid and looked at later.
void Actor::poison() {
  std::fill(memory_.begin(), memory_.end(), kPoison);
  poisoned_ = true;
}

void Actor::check_poison() {
  if (!poisoned_) return;
  const bool clean =
      std::all_of(memory_.begin(), memory_.end(), [](std::byte b) { return b == kPoison; });
  world_.expect(clean, "I8 memory was touched after the op's terminal event");
  poisoned_ = false;
}

void Actor::poke() {
  Event event;
  while (core_->next_event(event)) {
    world_.note(static_cast<uint64_t>(event.kind) * 31 +
                static_cast<uint64_t>(event.status.code()));
    world_.note(event.n_blocks * 131 + event.layer);
    for (const Code code : event.codes)
      world_.note(static_cast<uint64_t>(code));
    if (event.op == op_) on_event(event);
  }
  if (step_ == Step::kLinger) {
    if (world_.now_ns() >= wait_until_ns_) start_pull();
    return;
  }
  if (step_ != Step::kIdle) {
    world_.expect(world_.now_ns() < op_deadline_ns_ + kFence + kGrace,
                  "I8 an op outlived its deadline and fence: step " +
                      std::to_string(static_cast<int>(step_)));
    if (step_ == Step::kPush && next_layer_ < layers().size() &&
        world_.now_ns() >= wait_until_ns_) {
      push_layer();
    }
    if (!cancelled_ && random_.below(20000) == 0) {
      cancelled_ = true;
      ++stats_.cancels;
      core_->cancel(op_);
    }
    return;
  }
  if (working_ && !closing_ && world_.now_ns() >= wait_until_ns_) start();
}

void Actor::push_layer() {
  if (next_layer_ == cancel_layer_) {  // the layer before it was the last; soon it is given up
    const bool over = gives_up_;
    gives_up_ = true;
    wait_until_ns_ = over ? kNever : world_.now_ns() + random_.below(15 * kMillisecond);
    if (!over) return;
    cancelled_ = true;
    return core_->cancel(op_);
  }
  const uint32_t layer = next_layer_++;
  // The last layer makes a commit possible: from here on these bytes may be found.
  if (next_layer_ == layers().size()) {
    for (uint32_t i = push_first_; i < library_.blocks_max; ++i) {
      library_.oracle.may_commit(block_of(ids_[format_][document_][i], rank_), salt_);
    }
  }
  const Status pushed = core_->push_layer(op_, layer);
  static_cast<void>(pushed.ok());  // the op may have ended; its event says so
  const Nanos pause_ns = random_.chance(60) ? 30 * kMillisecond : 2 * kMillisecond;
  wait_until_ns_ = world_.now_ns() + random_.below(pause_ns);
}

void Actor::begin(Result<OpId> op, Step step, Nanos deadline_ns) {
  world_.expect(op.has_value(),
                "an op was refused: step " + std::to_string(static_cast<int>(step)));
  op_ = *op;
  step_ = step;
  began_ns_ = world_.now_ns();
  op_deadline_ns_ = began_ns_ + deadline_ns;
  next_layer_ = 0;
}

void Actor::start() {
  if (core_->state() != SessionState::kReady && ids_.empty()) return;
  if (ids_.empty()) {
    for (uint32_t f = 0; f < library_.formats.size(); ++f) {
      ids_.emplace_back();
      for (uint32_t d = 0; d < library_.documents; ++d) {
        ids_[f].push_back(document_ids(library_, f, d));
        const auto own = core_->base_ids(format_ids_[f], BaseId(), document_tokens(library_, f, d));
        world_.expect((*own == ids_[f].back()) == (domain_ == kDomainDefault),
                      "a client names its blocks by its domain's salt");
      }
    }
  }
  check_poison();
  format_ = static_cast<uint32_t>(random_.below(library_.formats.size()));
  document_ = static_cast<uint32_t>(random_.below(library_.documents));
  rank_ = 0;
  cancelled_ = false;
  if (start_other()) return;
  MatchRequest request;
  request.format = format_ids_[format_];
  request.ids = ids_[format_][document_];
  const bool brief = random_.chance(250);
  if (random_.chance(800)) {
    request.lease_ms =
        static_cast<uint32_t>(brief ? random_.between(40, 200) : random_.between(500, 2000));
  }
  request.deadline_ns = 500 * kMillisecond;
  lease_boot_ = world_.boots();
  before_ = this_moment(library_.formats[format_].rank_count());
  matched_ns_ = world_.now_ns();
  begin(core_->match(std::move(request)), Step::kMatch, 500 * kMillisecond);
  ++stats_.matches;
}

bool Actor::start_other() {
  const uint64_t what = random_.below(1000);
  if (what < library_.purge_per_mille) {
    start_purge();
  } else if (what < 150 && !library_.board.empty()) {
    start_follow();
  } else if (what >= 990) {
    ask_holds();
  } else if (what >= 970) {
    start_exists();
  } else {
    return false;
  }
  return true;
}

void Actor::on_event(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kMatched:
      return on_matched(event);
    case Event::Kind::kReserved:
      return on_granted(event);
    case Event::Kind::kLayer:
      return on_layer(event);
    case Event::Kind::kPulled:
      return on_pulled(event);
    case Event::Kind::kPushed:
      return on_pushed(event);
    case Event::Kind::kFollowed:
      return on_followed(event);
    case Event::Kind::kRenewed:
      return on_renewed(event);
    case Event::Kind::kHolds:
      return on_holds(event);
    case Event::Kind::kPurged:
      return on_purged(event);
  }
}

void Actor::on_matched(const Event& event) {
  if (step_ == Step::kExists) return on_exists(event);
  step_ = Step::kIdle;
  wait_until_ns_ = world_.now_ns() + random_.below(5 * kMillisecond);
  if (!event.status.ok()) return;
  world_.expect(event.n_blocks <= library_.blocks_max, "more blocks than asked");
  n_blocks_ = event.n_blocks;
  check_hits(event.recovering);
  lease_ = event.lease;
  stats_.hit_blocks += n_blocks_;
  if (n_blocks_ > 0 && random_.chance(30)) return start_foreign();
  if (n_blocks_ > 0 && lease_ != 0 && random_.chance(200)) return start_renew();
  if (n_blocks_ > 0) return start_pull();
  let_go();
  start_push();
}

// A client that is wrong about the format of what it pulls is told so, and hurts nobody.
void Actor::start_foreign() {
  const auto other = static_cast<uint32_t>((format_ + 1) % library_.formats.size());
  PullRequest request;
  request.format = format_ids_[other];
  request.rank = static_cast<uint32_t>(random_.below(library_.formats[other].rank_count()));
  request.ids.assign(ids_[format_][document_].begin(),
                     ids_[format_][document_].begin() + n_blocks_);
  for (uint32_t i = 0; i < n_blocks_; ++i)
    request.slots.push_back(i);
  request.layout = &layouts_[other][request.rank];
  request.lease = lease_;
  request.deadline_ns = 200 * kMillisecond;
  check_poison();
  poison();
  begin(core_->pull(std::move(request)), Step::kForeign, 200 * kMillisecond);
}

void Actor::on_foreign(const Event& event) {
  step_ = Step::kIdle;
  for (const Code code : event.codes)
    world_.expect(code != Code::kOk, "I1 a block was delivered in another format");
  check_poison();
  if (cancelled_) {
    lease_ = 0;
    return;
  }
  start_pull();
}

// Of the first `rank_count` ranks, or of the current one.
Actor::Moment Actor::this_moment(uint32_t rank_count) const {
  Moment moment;
  library_.truth->look();
  for (const BaseId& id : ids_[format_][document_]) {
    bool safe = true, stored = true;
    for (uint32_t r = 0; r < std::max(1u, rank_count); ++r) {
      const BlockId block = block_of(id, rank_count == 0 ? rank_ : r);
      safe = safe && library_.truth->is_safe(block);
      stored = stored && library_.truth->is_known(block);
    }
    moment.safe.push_back(safe);
    moment.stored.push_back(stored);
  }
  moment.evicted = library_.truth->evicted();
  moment.at_ns = world_.now_ns();
  moment.boot = world_.boots();
  moment.recovering = world_.recovering();
  return moment;
}

// I9, I10: what was safe before the match and is safe after it is a hit, were it not for evictions.
void Actor::check_hits(bool recovering) const {
  const Moment after = this_moment(library_.formats[format_].rank_count());
  const PurgeLog& purges = library_.truth->purges();
  const std::vector<BaseId>& ids = ids_[format_][document_];
  for (uint32_t i = 0; i < n_blocks_; ++i) {
    for (uint32_t r = 0; r < library_.formats[format_].rank_count(); ++r) {
      const bool written = library_.oracle.may_be_found(block_of(ids[i], r), purges, before_.at_ns);
      world_.expect(written, "I10 a hit of what nobody wrote, or what was purged");
    }
  }
  if (recovering || before_.recovering || after.boot != before_.boot ||
      after.evicted != before_.evicted)
    return;
  uint32_t owed = 0;
  while (owed < library_.blocks_max && before_.safe[owed] && after.safe[owed] &&
         !purges.touches(block_of(ids[owed], 0), before_.at_ns)) {
    ++owed;
  }
  world_.expect(n_blocks_ >= owed, "I9 a block within the fault budget is a miss: " +
                                       std::to_string(n_blocks_) + " of " + std::to_string(owed));
}

bool Actor::may_fail(uint32_t i) const {
  const BlockId block = block_of(ids_[format_][document_][i], rank_);
  if (library_.truth->purges().touches(block, matched_ns_)) return true;
  const Truth& truth = *library_.truth;
  const bool safe = truth.is_safe(block);
  // Not on flash any more when the pull began: one of this life's faults, or what befell it while
  // the node was down and was found by somebody's read since the match.
  if (!before_.stored[i]) return world_.any_fault() || (truth.is_excused(block) && !safe);
  return !before_.safe[i] || !safe;
}

void Actor::start_pull() {
  before_ = this_moment(0);
  sent_before_ = sent();
  PullRequest request;
  request.format = format_ids_[format_];
  request.rank = rank_;
  request.ids.assign(ids_[format_][document_].begin(),
                     ids_[format_][document_].begin() + n_blocks_);
  for (uint32_t i = 0; i < n_blocks_; ++i)
    request.slots.push_back(i);
  request.layout = &layouts_[format_][rank_];
  request.lease = lease_;
  const Nanos deadline_ns = random_.chance(50) ? 300 * kMicrosecond : 800 * kMillisecond;
  request.deadline_ns = deadline_ns;
  check_poison();
  begin(core_->pull(std::move(request)), Step::kPull, deadline_ns);
}

void Actor::on_layer(const Event& event) {
  world_.expect(event.layer == next_layer_, "layers out of order");
  ++next_layer_;
  if (step_ == Step::kFollow) check_followed_layer(event);
}

void Actor::on_pulled(const Event& event) {
  if (step_ == Step::kForeign) return on_foreign(event);
  const bool audit = step_ == Step::kAudit;
  step_ = Step::kIdle;
  check_pulled(event.codes, audit);
  if (audit) {
    audit_code_ = event.codes.empty() ? event.status.code() : event.codes[0];
    return poison();
  }
  check_tiers(event);
  check_leased(event);
  poison();
  next_rank();
}

// I4: leased, in time, the same boot, no fault injected: every block must have come.
void Actor::check_leased(const Event& event) const {
  if (lease_ == 0 || cancelled_ || lease_boot_ != world_.boots() || !world_.alive()) return;
  const Nanos now_ns = world_.now_ns();
  const bool lasts = core_->lease_left_ns(lease_) > 0;  // as the client knows, renewals included
  const bool early = now_ns + 100 * kMillisecond < op_deadline_ns_;
  const bool refused = event.status.code() == Code::kTimedOut && early;
  world_.expect(!lasts || !refused,
                std::string("I4 a lease ended before its time: ") + event.status.what());
  if (!lasts || !event.status.ok() || world_.options().faults.bit_rot_per_mille ||
      world_.options().faults.read_error_per_mille) {
    return;
  }
  for (uint32_t i = 0; i < event.codes.size(); ++i) {
    const Code code = event.codes[i];
    world_.expect(code == Code::kOk || may_fail(i),
                  std::string("I4 a leased block was not readable: ") + code_name(code) +
                      ", rank " + std::to_string(rank_) + ", blocks " + std::to_string(n_blocks_) +
                      ", ns to the deadline " +
                      std::to_string(static_cast<int64_t>(op_deadline_ns_ - now_ns)));
  }
}

void Actor::check_pulled(const std::vector<Code>& codes, bool audit) {
  for (uint32_t i = 0; i < codes.size(); ++i) {
    if (codes[i] != Code::kOk) {
      ++stats_.missed_blocks;
      continue;
    }
    const BlockId block = audit ? audit_block_ : block_of(ids_[format_][document_][i], rank_);
    const uint64_t writer = library_.oracle.writer_of(block, layers_of(i));
    world_.expect(writer != 0, "I1 wrong or phantom bytes were delivered as good");
    const Attempt attempt = library_.oracle.attempt_of(block, writer);
    world_.expect(!library_.truth->purges().is_dead(block, attempt, began_ns_),
                  "I10 what was purged was delivered");
    world_.note(writer);
    ++stats_.pulled_blocks;
  }
}

void Actor::next_rank() {
  if (cancelled_) {
    lease_ = 0;
    return;
  }
  if (++rank_ < library_.formats[format_].rank_count()) return start_pull();
  let_go();
  rank_ = 0;
  if (n_blocks_ < library_.blocks_max) start_push();
}

// Some are forgotten, and pin what they are of until they expire.
void Actor::let_go() {
  if (lease_ != 0 && random_.chance(700)) core_->release(lease_);
  lease_ = 0;
}

void Actor::start_push() {
  check_poison();
  salt_ = ++library_.last_salt;
  ack_ = random_.chance(600) ? wire::AckKind::kDurable : wire::AckKind::kCached;
  push_first_ = n_blocks_;
  PushRequest request;
  request.format = format_ids_[format_];
  request.rank = rank_;
  if (push_first_ > 0) request.parent = ids_[format_][document_][push_first_ - 1];
  for (uint32_t i = push_first_; i < library_.blocks_max; ++i) {
    const BlockId block = block_of(ids_[format_][document_][i], rank_);
    request.ids.push_back(block.base);
    request.slots.push_back(i);
    for (uint32_t l = 0; l < layers().size(); ++l)
      fill_layer(block, l, salt_, layer_bytes(i, l));
  }
  request.layout = &layouts_[format_][rank_];
  request.ack = ack_;
  request.deadline_ns = 1 * kSecond;
  granted_.clear();
  gives_up_ = false;
  cancel_layer_ = random_.chance(100) ? static_cast<uint32_t>(random_.below(layers().size())) : ~0u;
  begin(core_->push(std::move(request)), Step::kPush, 1 * kSecond);
  wait_until_ns_ = world_.now_ns();
}

void Actor::on_granted(const Event& event) {
  for (const FollowTag& tag : event.granted) {
    const BlockId block = block_of(tag.id, rank_);
    library_.oracle.granted(block, tag.attempt, salt_, ack_ == wire::AckKind::kDurable);
    library_.truth->granted(block);
    library_.board.post({tag, format_, rank_, domain_});
    granted_.push_back(tag);
  }
}

void Actor::on_pushed(const Event& event) {
  step_ = Step::kIdle;
  wait_until_ns_ = world_.now_ns() + random_.below(3 * kMillisecond);
  for (uint32_t i = 0; i < event.codes.size(); ++i) {
    const BlockId block = block_of(ids_[format_][document_][push_first_ + i], rank_);
    check_push_end(block, event.codes[i], event.status);
    if (event.codes[i] == Code::kOk) {
      ++stats_.pushed_blocks;
      // "Existed" is as good an acknowledgement as a write of one's own.
      library_.oracle.acked(block, ack_ == wire::AckKind::kDurable);
      if (ack_ == wire::AckKind::kDurable) library_.truth->acked(block, began_ns_);
    } else {
      ++stats_.failed_pushes;
    }
  }
  poison();
  if (++rank_ < library_.formats[format_].rank_count() && !cancelled_) {
    wait_until_ns_ = 0;
    return start_push();
  }
  rank_ = 0;
}

void Actor::check_push_end(const BlockId& block, Code code, const Status& status) {
  const auto granted = std::find_if(granted_.begin(), granted_.end(),
                                    [&](const FollowTag& tag) { return tag.id == block.base; });
  if (granted == granted_.end()) {
    const PurgeLog& purges = library_.truth->purges();
    const bool written = library_.oracle.may_be_found(block, purges, began_ns_);
    world_.expect(code != Code::kOk || written, "I10 what nobody wrote, or was purged, exists");
    return;
  }
  Push& push = library_.oracle.push(block, granted->attempt);
  // `unavailable` says that a target failed under it: what was written may be found all the same.
  const bool told = status.ok() && !cancelled_ && code != Code::kUnavailable;
  push.end = code == Code::kOk ? Push::End::kKept : told ? Push::End::kNot : Push::End::kUnknown;
  world_.expect(code != Code::kOk || !push.denied,
                "I2 a follower was told that a push failed which was acknowledged");
}

void Actor::audit(uint32_t format, const BlockId& block) {
  VARVE_ASSERT(idle());
  check_poison();
  format_ = format;
  rank_ = block.rank;
  audit_block_ = block;
  PullRequest request;
  request.format = format_ids_[format];
  request.rank = block.rank;
  request.ids = {block.base};
  request.slots = {0};
  request.layout = &layouts_[format][block.rank];
  request.deadline_ns = 2 * kSecond;
  begin(core_->pull(std::move(request)), Step::kAudit, 2 * kSecond);
  cancelled_ = true;  // no cancels in an audit
}

uint32_t Actor::format_of(const BlockId& block) const {
  for (uint32_t f = 0; f < ids_.size(); ++f) {
    for (const auto& chain : ids_[f]) {
      if (std::find(chain.begin(), chain.end(), block.base) != chain.end()) return f;
    }
  }
  world_.fail("a block of no document");
}

ActorStats Actor::stats() const {
  ActorStats stats = stats_;
  stats.rebuilt_extents = core_->counters().rebuilt_extents;
  stats.hedged_extents = core_->counters().hedges;
  stats.disconnects = core_->counters().disconnects;
  stats.corrupt_extents = core_->counters().corrupt_extents;
  return stats;
}

void Actor::close() {
  closing_ = true;
  core_->close();
}

bool Actor::closed() const {
  return core_->state() == SessionState::kClosed && core_->at_rest();
}

}  // namespace varve::sim
