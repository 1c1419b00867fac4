// The walk over the index, the pace, and what is told of it. See the header.
#include "server/op/repair.h"

#include <algorithm>
#include <bit>
#include <cinttypes>

#include "server/op/op.h"
#include "server/op/placer.h"

namespace varve {

namespace {

uint32_t ops_of(const OpOptions& options) {
  const bool on = options.scheme.m > 0 && options.repair_bytes_per_s > 0;
  return on ? options.repairs_max : 0;
}

// What all ops use at once, and what devices that failed may have kept: of each op one read or
// append a target.
uint32_t pages_max_of(const OpContext& context) {
  const uint32_t ops = ops_of(context.options);
  return ops * (context.options.scheme.width() + context.flash.target_count());
}

}  // namespace

RepairTable::RepairTable(OpContext& context)
    : context_(context), ops_(ops_of(context.options), context), pages_(pages_max_of(context)) {
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

void RepairTable::forget(const BlockId& block) {
  for (const auto& op : ops_.all()) {
    if (op->live() && op->block() == block) op->forget();
  }
}

void RepairTable::run() {
  watch();
  if (ops_.capacity() == 0 || context_.draining || context_.flash.recovering()) return;
  const Nanos now_ns = context_.reactor.now_ns();
  const Nanos until_ns =
      pass_.begun ? paced_until_ns_ : std::max(paced_until_ns_, paused_until_ns_);
  if (now_ns < until_ns) return context_.reactor.arm(timer_, until_ns - now_ns);
  if (ops_.available() == 0 || crowded_) return;  // ended() comes back here
  if (found_.empty() && !find_more()) return;
  if (!found_.empty()) {
    const BlockId block = found_.back();
    found_.pop_back();
    launch(block);
  }
  context_.reactor.make_ready(*this);
}

// One step of the walk. False: nothing to do before somebody calls.
bool RepairTable::find_more() {
  VARVE_ASSERT(found_.empty());
  if (!pass_.begun) {
    if (context_.index.thin_count() == 0) {
      say_end();
      return false;
    }
    pass_ = Pass{.begun = true};
    if (run_blocks_ == 0) {
      run_begun_ns_ = context_.reactor.now_ns();
      windows_[0] = windows_[1] = Window{.begun_ns = run_begun_ns_};
    }
  }
  if (pass_.scanned) {
    if (ops_.used() > 0) return false;
    end_pass();
    return true;
  }
  struct Step {
    RepairTable& self;
    static void visit(void* context, const BlockId& block, const Located& located) {
      RepairTable& self = static_cast<Step*>(context)->self;
      const auto width = static_cast<int>(self.context_.options.scheme.width());
      if (located.state != BlockState::kFlash || std::popcount(located.live) == width) return;
      VARVE_ASSERT(self.found_.size() < self.found_.capacity());
      self.found_.push_back(block);
    }
  } step{*this};
  pass_.cursor = context_.index.scan(pass_.cursor, kSlotsPerTurn, Step::visit, &step);
  pass_.scanned = pass_.cursor == 0;
  return true;
}

// What can be seen without I/O is seen here.
void RepairTable::launch(const BlockId& block) {
  const std::optional<Located> located = context_.index.find(block);
  const auto width = static_cast<int>(context_.options.scheme.width());
  if (!located || located->state != BlockState::kFlash || std::popcount(located->live) == width ||
      context_.catalog->is_gone(*located)) {
    return;
  }
  const uint32_t free = context_.placer->usable() & ~targets_used(context_, *located);
  if (free == 0) return count(RepairOutcome::kUnplaced, 0);
  const uint32_t slice = slice_of(block.base, context_.options.slices);
  if ((pass_.full_slices >> slice & 1) != 0) return count(RepairOutcome::kNoSpace, 0);
  RepairOp* op = ops_.take();
  VARVE_ASSERT(op != nullptr);
  op->begin(block, located->base_slot);
}

void RepairTable::ended(RepairOp& op, RepairOutcome outcome, uint64_t bytes) {
  ops_.give(&op);
  // Others have the memory: when one of them ends, it is this block's turn again (R3).
  crowded_ = outcome == RepairOutcome::kNoMemory && ops_.used() > 0;
  if (crowded_) {
    found_.push_back(op.block());
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
  VARVE_ASSERT(pass_.begun && pass_.scanned);
  pass_.begun = false;
  if (pass_.done > 0) {
    pause_ns_ = 0;
    return;
  }
  pause_ns_ = std::clamp(pause_ns_ * 2, kPauseMin, kPauseMax);
  paused_until_ns_ = context_.reactor.now_ns() + pause_ns_;
  say_end();
}

RepairPages* RepairTable::take_pages(uint32_t count) {
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
}

void RepairTable::pace(uint64_t bytes) {
  const Nanos now_ns = context_.reactor.now_ns();
  const Nanos cost_ns = bytes * kSecond / context_.options.repair_bytes_per_s;
  paced_until_ns_ = std::max(paced_until_ns_, now_ns) + cost_ns;
}

void RepairTable::no_space(uint32_t slice) {
  VARVE_ASSERT(slice < context_.options.slices, slice);
  pass_.full_slices |= 1ull << slice;
}

void RepairTable::watch() {
  const uint64_t thin = context_.index.thin_count();
  const Nanos now_ns = context_.reactor.now_ns();
  if (now_ns - windows_[1].begun_ns >= kRateWindow) {
    windows_[0] = windows_[1];
    windows_[1] = Window{.begun_ns = now_ns};
  }
  const uint64_t blocks = windows_[0].blocks + windows_[1].blocks;
  const Nanos took_ns = now_ns - windows_[0].begun_ns;
  const uint64_t eta_s = blocks == 0 ? 0 : (thin * took_ns / blocks + kSecond - 1) / kSecond;
  context_.metrics.repair_thin_blocks.set(static_cast<int64_t>(thin));
  context_.metrics.repair_eta_s.set(static_cast<int64_t>(eta_s));
  context_.metrics.repairs_live.set(live());
}

void RepairTable::say_begin() {
  if (said_begin_) return;
  said_begin_ = true;
  logf(LogLevel::kInfo, "repair",
       "shard %u rebuilds fragments: %u more blocks lack one; at most %" PRIu64 " MB/s are written",
       context_.options.shard, context_.index.thin_count(),
       context_.options.repair_bytes_per_s / 1000000);
}

// The end of a run, or of a pass that could do nothing: once for each number of blocks left.
void RepairTable::say_end() {
  const uint32_t thin = context_.index.thin_count();
  const bool same = thin == 0 || thin == said_left_;
  said_left_ = thin;
  if (!said_begin_ && same) return;
  const auto left = [this](RepairOutcome outcome) {
    return pass_.left[static_cast<uint32_t>(outcome)];
  };
  const Nanos took_ns = said_begin_ ? context_.reactor.now_ns() - run_begun_ns_ : 0;
  logf(thin == 0 ? LogLevel::kInfo : LogLevel::kWarn, "repair",
       "shard %u has rebuilt fragments of %" PRIu64 " blocks, %" PRIu64 " MiB in %" PRIu64
       " s; %u still lack one (no target %" PRIu64 ", no space %" PRIu64 ", no memory %" PRIu64
       ", corrupt %" PRIu64 ", failed %" PRIu64 ")",
       context_.options.shard, run_blocks_, run_bytes_ / kMiB, took_ns / kSecond, thin,
       left(RepairOutcome::kUnplaced), left(RepairOutcome::kNoSpace),
       left(RepairOutcome::kNoMemory), left(RepairOutcome::kCorrupt), left(RepairOutcome::kFailed));
  said_begin_ = false;
  run_blocks_ = run_bytes_ = 0;
}

}  // namespace varve
