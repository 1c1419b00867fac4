// The walk over the index, the pace, and what is told of it. See the header.
#include "server/op/repair.h"

#include <algorithm>
#include <bit>
#include <cinttypes>

#include "server/op/op.h"
#include "server/op/placer.h"

namespace varve {

namespace {

// Without parity nothing is rebuilt, but moved where there is somewhere to move to.
uint32_t ops_of(const OpContext& context) {
  const OpOptions& options = context.options;
  const bool wanted = options.scheme.m > 0 || context.flash.target_count() > options.scheme.width();
  const bool on = wanted && options.repair_bytes_per_s > 0;
  return on ? options.repairs_max : 0;
}

// What all ops use at once, and what devices that failed may have kept: of each op one read or
// append a target.
uint32_t pages_max_of(const OpContext& context) {
  const uint32_t ops = ops_of(context);
  return ops * (context.options.scheme.width() + 1 + context.flash.target_count());
}

}  // namespace

RepairTable::RepairTable(OpContext& context)
    : context_(context),
      ops_(ops_of(context), context),
      pages_(pages_max_of(context)),
      own_bytes_(context.tier.limit_bytes(Budget::kRepair)) {
  for (const auto& pages : pages_.all())
    pages->table = this;
  found_.reserve(size_t{kSlotsPerTurn} * kRanksMax + ops_.capacity());
  timer_.owner = this;
  timer_.on_fire = [](Timer& timer) {
    auto& self = *static_cast<RepairTable*>(timer.owner);
    self.context_.reactor.make_ready(self);
  };
}

RepairTable::~RepairTable() {
  context_.reactor.cancel(timer_);
}

void RepairTable::wake(bool hopeful) {
  thin_again_ = thin_again_ || (pass_.begun && hopeful);
  if (!pass_.begun && !hopeful && paused_until_ns_ > context_.reactor.now_ns()) return;
  if (!pass_.begun) {
    // A fault makes many blocks thin, one after the other: not a pass for each.
    const Nanos now_ns = context_.reactor.now_ns();
    const Nanos until_ns = now_ns + (pause_ns_ > 0 ? kPauseMin : kWakeDelay);
    paused_until_ns_ = paused_until_ns_ > now_ns ? std::min(paused_until_ns_, until_ns) : until_ns;
    pause_ns_ = std::min(pause_ns_, kPauseMin);
  }
  context_.reactor.make_ready(*this);
}

void RepairTable::rate_set(uint64_t bytes_per_s) {
  context_.options.repair_bytes_per_s = bytes_per_s;
  wake();
}

void RepairTable::forget(const BlockId& block) {
  for (const auto& op : ops_.all()) {
    if (op->live() && op->block() == block) op->forget();
  }
}

void RepairTable::run() {
  watch();
  if (ops_.capacity() == 0 || context_.draining || context_.flash.recovering()) return;
  if (context_.options.repair_bytes_per_s == 0) return;  // paused, until rate_set()
  const Nanos now_ns = context_.reactor.now_ns();
  const Nanos until_ns =
      pass_.begun ? paced_until_ns_ : std::max(paced_until_ns_, paused_until_ns_);
  if (now_ns < until_ns) return context_.reactor.arm(timer_, until_ns - now_ns);
  if (ops_.available() == 0 || crowded_) return;  // ended() comes back here
  if (found_.empty() && !find_more()) return;
  if (!found_.empty()) {
    const Found found = found_.back();
    found_.pop_back();
    launch(found);
  }
  context_.reactor.make_ready(*this);
}

// One step of a walk. False: nothing to do before somebody calls.
bool RepairTable::find_more() {
  VARVE_ASSERT(found_.empty());
  if (!pass_.begun) {
    if (context_.index.thin_count() == 0 && moves_left() == 0) {
      say_end();
      return false;
    }
    begin_pass();
  }
  // A block has one op at a time, and the next walk may be for the same one.
  if (pass_.turns && ops_.used() > 0) return false;
  pass_.turns = false;
  if (pass_.walk == Walk::kOver) {
    end_pass();
    return true;
  }
  struct Step {
    RepairTable& self;
    static void visit(void* context, const BlockId& block, const Located& located) {
      RepairTable& self = static_cast<Step*>(context)->self;
      const Walk walk = self.pass_.walk;
      if (!self.is_due(located, walk)) return;
      VARVE_ASSERT(self.found_.size() < self.found_.capacity());
      const bool moves = walk == Walk::kDrain;
      self.found_.push_back({block, moves ? RepairKind::kMove : RepairKind::kComplete});
    }
  } step{*this};
  const Walk walk = pass_.walk;
  uint32_t& cursor = pass_.cursors[static_cast<uint32_t>(walk)];
  cursor = context_.index.scan(cursor, kSlotsPerTurn, Step::visit, &step);
  if (cursor == 0) {
    turn_to(after(walk));
  } else if (walk == Walk::kDrain && thin_again_) {  // it goes on from here afterwards
    thin_again_ = false;
    turn_to(Walk::kEndangered);
  }
  return true;
}

void RepairTable::turn_to(Walk walk) {
  pass_.walk = walk;
  pass_.turns = true;
}

void RepairTable::begin_pass() {
  pass_ = Pass{.begun = true};
  thin_again_ = false;
  if (context_.index.thin_count() == 0) pass_.walk = Walk::kDrain;
  if (run_blocks_ > 0) return;
  run_begun_ns_ = context_.reactor.now_ns();
  windows_[0] = windows_[1] = Window{.begun_ns = run_begun_ns_};
}

RepairTable::Walk RepairTable::after(Walk walk) const {
  const bool drains = context_.options.draining_targets != 0;
  if (walk == Walk::kDrain) return Walk::kOver;
  // With one parity fragment every thin block is an endangered one.
  if (walk == Walk::kEndangered && context_.options.scheme.m > 1) return Walk::kThin;
  return drains ? Walk::kDrain : Walk::kOver;
}

bool RepairTable::is_due(const Located& located, Walk walk) const {
  if (located.state != BlockState::kFlash) return false;
  if (walk == Walk::kDrain) return positions_leaving(context_, located) != 0;
  const Scheme scheme = context_.options.scheme;
  const bool thin = std::popcount(located.live) < static_cast<int>(scheme.width());
  const bool spare =
      std::popcount(context_.catalog->readable(located)) > static_cast<int>(scheme.k);
  return thin && spare == (walk == Walk::kThin);
}

bool RepairTable::is_busy(const BlockId& block) const {
  for (const auto& op : ops_.all()) {
    if (op->live() && op->block() == block) return true;
  }
  return false;
}

// Fragments on targets that are being drained and work.
uint32_t RepairTable::moves_left() const {
  uint32_t left = 0;
  for (uint32_t t = 0; t < context_.flash.target_count(); ++t) {
    const bool moves = is_draining(context_, t) && !context_.catalog->is_failed(t);
    left += moves ? context_.index.fragments_on(t) : 0;
  }
  return left;
}

// What can be seen without I/O is seen here.
void RepairTable::launch(const Found& found) {
  const std::optional<Located> located = context_.index.find(found.block);
  if (!located || context_.catalog->is_gone(*located) || is_busy(found.block)) return;
  const bool moves = found.kind == RepairKind::kMove;
  const bool due = moves ? is_due(*located, Walk::kDrain)
                         : is_due(*located, Walk::kEndangered) || is_due(*located, Walk::kThin);
  if (!due) return;
  const uint32_t free = context_.placer->usable() & ~targets_used(context_, *located);
  if (free == 0) return count(RepairOutcome::kUnplaced, 0);
  const uint32_t slice = slice_of(found.block.base, context_.options.slices);
  if ((pass_.full_slices >> slice & 1) != 0) return count(RepairOutcome::kNoSpace, 0);
  RepairOp* op = ops_.take();
  VARVE_ASSERT(op != nullptr);
  op->begin(found.block, located->base_slot, found.kind);
}

void RepairTable::ended(RepairOp& op, RepairOutcome outcome, uint64_t bytes) {
  ops_.give(&op);
  // Others have the memory: when one of them ends, it is this block's turn again (R3).
  crowded_ = outcome == RepairOutcome::kNoMemory && ops_.used() > 0;
  if (crowded_) {
    found_.push_back({op.block(), op.kind()});
  } else {
    count(outcome, bytes);
  }
  context_.reactor.make_ready(*this);
}

void RepairTable::count(RepairOutcome outcome, uint64_t bytes) {
  const auto index = static_cast<uint32_t>(outcome);
  context_.metrics.repair_blocks[index].add();
  context_.metrics.repair_bytes[index].add(bytes);
  if (outcome != RepairOutcome::kDone) {
    ++pass_.left[index];
    return;
  }
  say_begin();
  ++pass_.done;
  ++run_blocks_;
  run_bytes_ += bytes;
  ++windows_[1].blocks;
}

void RepairTable::end_pass() {
  VARVE_ASSERT(pass_.begun && pass_.walk == Walk::kOver);
  pass_.begun = false;
  if (pass_.done > 0) {
    pause_ns_ = 0;
    return;
  }
  const bool full = pass_.left[static_cast<uint32_t>(RepairOutcome::kNoSpace)] > 0;
  pause_ns_ = std::clamp(pause_ns_ * 2, kPauseMin, full ? kPauseFullMax : kPauseMax);
  if (thin_again_) pause_ns_ = kPauseMin;  // there is more hope than when this pass began
  paused_until_ns_ = context_.reactor.now_ns() + pause_ns_;
  say_end();
}

// Where there is no parity nothing is set aside for repair, which has nothing to do there but to
// empty a target: what it holds is the cache's loss meanwhile, as much as pushes may hold, so that
// whatever was pushed can be moved.
void RepairTable::borrow(uint32_t count) {
  const DramTier& tier = context_.tier;
  const uint64_t wanted = tier.used_bytes(Budget::kRepair) + bytes_of(count);
  const uint64_t limit = tier.limit_bytes(Budget::kRepair);
  if (context_.options.scheme.m > 0 || wanted <= limit) return;
  if (wanted > tier.limit_bytes(Budget::kPush)) return;
  // What readers keep of the cache, blocks just written too, comes back when their pulls end; until
  // then there is no room (R3).
  (void)context_.tier.shift_limit(Budget::kResident, Budget::kRepair, pages_of(wanted - limit));
}

void RepairTable::pay_back() {
  const uint64_t used = context_.tier.used_bytes(Budget::kRepair);
  const uint64_t limit = context_.tier.limit_bytes(Budget::kRepair);
  const uint64_t kept = std::max(used, own_bytes_);
  if (limit <= kept) return;
  const bool paid =
      context_.tier.shift_limit(Budget::kRepair, Budget::kResident, pages_of(limit - kept));
  VARVE_ASSERT(paid, limit, kept);  // nobody uses it
}

RepairPages* RepairTable::take_pages(uint32_t count) {
  borrow(count);
  const Slab slab = context_.tier.take_slab(count, Budget::kRepair);
  if (slab.empty()) return nullptr;
  RepairPages* pages = pages_.take();
  VARVE_ASSERT(pages != nullptr);  // pages_max_of()
  pages->slab = slab;
  return pages;
}

void RepairTable::give_pages(RepairPages& pages) {
  context_.tier.give_slab(pages.slab, Budget::kRepair);
  pages_.give(&pages);
  pay_back();
}

void RepairTable::pace(uint64_t bytes) {
  const uint64_t bytes_per_s = context_.options.repair_bytes_per_s;
  if (bytes_per_s == 0) return;  // paused meanwhile: what is under way ends, and nothing follows
  const Nanos now_ns = context_.reactor.now_ns();
  const Nanos cost_ns = bytes * kSecond / bytes_per_s;
  paced_until_ns_ = std::max(paced_until_ns_, now_ns) + cost_ns;
}

void RepairTable::no_space(uint32_t slice) {
  VARVE_ASSERT(slice < context_.options.slices, slice);
  pass_.full_slices |= 1ull << slice;
}

void RepairTable::watch() {
  const uint64_t left = uint64_t{context_.index.thin_count()} + moves_left();
  const Nanos now_ns = context_.reactor.now_ns();
  if (now_ns - windows_[1].begun_ns >= kRateWindow) {
    windows_[0] = windows_[1];
    windows_[1] = Window{.begun_ns = now_ns};
  }
  const uint64_t blocks = windows_[0].blocks + windows_[1].blocks;
  const Nanos took_ns = now_ns - windows_[0].begun_ns;
  const bool is_paused = context_.options.repair_bytes_per_s == 0;
  const uint64_t eta_s =
      blocks == 0 || is_paused ? 0 : (left * took_ns / blocks + kSecond - 1) / kSecond;
  context_.metrics.repair_eta_s.set(static_cast<int64_t>(eta_s));
  context_.metrics.repairs_live.set(live());
}

void RepairTable::say_begin() {
  if (said_begin_) return;
  said_begin_ = true;
  logf(LogLevel::kInfo, "repair",
       "shard %u rebuilds fragments: %u more blocks lack one, %u are to leave targets that are "
       "drained; at most %" PRIu64 " MB/s are written",
       context_.options.shard, context_.index.thin_count(), moves_left(),
       context_.options.repair_bytes_per_s / 1000000);
}

void RepairTable::say_corrupt(const BlockId& block, const char* why) {
  uint64_t swallowed = 0;
  if (!corrupt_log_.admit(context_.reactor.now_ns(), &swallowed)) return;
  logf(LogLevel::kError, "repair",
       "block %s rank %u cannot be rebuilt and stays as it is: %s (%" PRIu64
       " more since the last line)",
       short_name(block.base).c_str(), block.rank, why, swallowed);
}

// The end of a run, or of a pass that could do nothing: once for each number of blocks left, and
// once a minute: on a full drive it changes with every push, and passes follow each other closely.
void RepairTable::say_end() {
  const uint32_t thin = context_.index.thin_count(), moves = moves_left();
  if (thin + moves == 0) said_left_ = 0;
  if (!said_begin_ && thin + moves == said_left_) return;
  uint64_t swallowed = 0;
  if (run_blocks_ == 0 && !idle_log_.admit(context_.reactor.now_ns(), &swallowed)) return;
  said_left_ = thin + moves;
  const auto left = [this](RepairOutcome outcome) {
    return pass_.left[static_cast<uint32_t>(outcome)];
  };
  const Nanos took_ns = said_begin_ ? context_.reactor.now_ns() - run_begun_ns_ : 0;
  logf(thin + moves == 0 ? LogLevel::kInfo : LogLevel::kWarn, "repair",
       "shard %u has rebuilt fragments of %" PRIu64 " blocks, %" PRIu64 " MiB in %" PRIu64
       " s; %u still lack one, %u are still to leave their target (no target %" PRIu64
       ", no space %" PRIu64 ", no memory %" PRIu64 ", corrupt %" PRIu64 ", failed %" PRIu64 ")",
       context_.options.shard, run_blocks_, run_bytes_ / kMiB, took_ns / kSecond, thin, moves,
       left(RepairOutcome::kUnplaced), left(RepairOutcome::kNoSpace),
       left(RepairOutcome::kNoMemory), left(RepairOutcome::kCorrupt), left(RepairOutcome::kFailed));
  said_begin_ = false;
  run_blocks_ = run_bytes_ = 0;
}

}  // namespace varve
