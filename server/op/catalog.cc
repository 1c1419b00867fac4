// The catalog: index, eviction order, DRAM and flash in step.
//
// What is away has one place in the index, so a block that is written anew takes it at its commit:
// not at the grant, or a writer that dies would cost it, and no later, for the new write is in
// reach. A crash before that is on flash may leave neither.
#include "server/op/catalog.h"

#include <bit>

#include "server/op/lineage.h"
#include "server/op/op.h"
#include "server/op/placer.h"
#include "server/op/pull.h"
#include "server/op/repair.h"
#include "server/op/siblings.h"

namespace varve {

namespace {

constexpr uint32_t kDoomedReserve = 4096;

}  // namespace

Catalog::Catalog(OpContext& context)
    : context_(context), killed_(0, BlockHash{context.options.hash_seed}) {
  attempts_.resize(context.index.blocks_max());
  recovered_bits_.resize((context.index.base_slots_max() + 63) / 64);
  doomed_.reserve(kDoomedReserve);
  losses_.reserve(size_t{kLoseSlotsPerTurn} * kRanksMax);
  grace_until_ns_ = context.reactor.now_ns() + Nanos{context.options.lease_ms_max} * kMillisecond;
}

// The room whose wishes a block answers first: that of one of its fragments, the same share of
// blocks for each position, so that every target has its own to evict.
uint32_t Catalog::room_of(const BaseId& id, const Located& located) const {
  VARVE_ASSERT(located.live != 0, located.block_slot);
  const uint32_t width = context_.options.scheme.width();
  auto position = static_cast<uint32_t>(id.prefix64() % width);
  while (!located.has(position))
    position = (position + 1) % width;
  const flash::Place place = context_.index.place_of(located, position);
  return place.target * context_.options.slices + place.slice;
}

uint16_t Catalog::readable(const Located& located) const {
  if (failed_ == 0) return located.live;
  uint32_t positions = 0;
  for (uint32_t p = 0; p < context_.options.scheme.width(); ++p) {
    if (located.has(p) && !is_failed(context_.index.place_of(located, p).target)) {
      positions |= 1u << p;
    }
  }
  return static_cast<uint16_t>(positions);
}

uint16_t Catalog::usable(const Located& located) const {
  const uint16_t all = readable(located);
  const Scheme scheme = context_.options.scheme;
  if (scheme.m == 0) return all;
  uint32_t calm = all;
  for (uint32_t p = 0; p < scheme.width(); ++p) {
    if ((all >> p & 1) == 0) continue;
    if (context_.flash.target_suspect(context_.index.place_of(located, p).target)) {
      calm &= ~(1u << p);
    }
  }
  return std::popcount(calm) >= static_cast<int>(scheme.k) ? static_cast<uint16_t>(calm) : all;
}

bool Catalog::is_gone(const Located& located) const {
  return located.state != BlockState::kMemory &&
         std::popcount(readable(located)) < static_cast<int>(context_.options.scheme.k);
}

Index::Insert Catalog::publish(TierBlock& block, uint32_t rank_count) {
  VARVE_ASSERT(block.slot == ~0u, block.slot);
  Located located;
  Index::Insert outcome = context_.index.insert(block.block, BlockState::kMemory, &located);
  if (outcome == Index::Insert::kExists && is_gone(located)) {  // away, or lost a moment ago
    count_lost(located);
    drop(block.block, located);
    outcome = context_.index.insert(block.block, BlockState::kMemory, &located);
  }
  if (outcome != Index::Insert::kDone) return outcome;
  if (!attempts_.empty()) attempts_[located.block_slot] = block.attempt;
  context_.tier.bind(block, located.block_slot);
  context_.siblings->came(located.base_slot, rank_count);
  context_.metrics.published.add();
  return outcome;
}

void Catalog::placed(const TierBlock& block, uint32_t position, const flash::Place& place) {
  const std::optional<Located> located = context_.index.find_any(block.block);
  const bool there = located && located->block_slot == block.slot && !block.doomed;
  if (!there || located->has(position)) {
    context_.flash.release(place);
    return;
  }
  VARVE_ASSERT(located->state == BlockState::kMemory);
  context_.index.place_add(*located, position, place);
}

bool Catalog::settled(TierBlock& block, uint32_t needed) {
  const std::optional<Located> located = context_.index.find_any(block.block);
  VARVE_ASSERT(located.has_value() && located->state == BlockState::kMemory);
  VARVE_ASSERT(located->block_slot == block.slot, located->block_slot, block.slot);
  VARVE_ASSERT(needed >= context_.options.scheme.k, needed);
  if (std::popcount(readable(*located)) < static_cast<int>(needed)) {
    // Gone from index and DRAM: what no drive holds must not be promised (bytes lost to a fault).
    drop(block.block, *located);
    return false;
  }
  context_.index.settle(*located);
  context_.eviction.insert(located->base_slot, room_of(block.block.base, *located));
  look_after(block.block);
  return true;
}

bool Catalog::repaired(const BlockId& block, const Attempt& attempt, uint32_t position,
                       const flash::Place& place) {
  const std::optional<Located> located = context_.index.find(block);
  // A block that went and came again is of another attempt; in memory it is being written whole.
  const TierBlock* in_dram = located ? context_.tier.peek(located->block_slot) : nullptr;
  const bool other = in_dram != nullptr && in_dram->header_present && in_dram->attempt != attempt;
  const bool moves = located && leaves(*located, position) && !is_draining(context_, place.target);
  if (!located || located->state != BlockState::kFlash || other || is_failed(place.target) ||
      (located->has(position) && !moves)) {
    context_.flash.release(place);
    return false;
  }
  if (!moves) {
    context_.index.place_add(*located, position, place);
    spread(block);  // found with k fragments, two of them on one target, it could spare none before
    return true;
  }
  const flash::Place from = context_.index.place_of(*located, position);
  const bool moved = context_.index.place_move(block, from, place);
  VARVE_ASSERT(moved, position);
  context_.flash.release(from);
  return true;
}

bool Catalog::leaves(const Located& located, uint32_t position) const {
  return located.has(position) &&
         is_draining(context_, context_.index.place_of(located, position).target);
}

bool Catalog::is_away(uint32_t base_slot) const {
  bool away = false;
  context_.index.for_each_rank(base_slot, [&](uint32_t, const Located& located) {
    away = away || located.state == BlockState::kAway;
  });
  return away;
}

// A fragment less: is the block gone, away, or thin?
void Catalog::look_after(const BlockId& block) {
  const std::optional<Located> located = context_.index.find_any(block);
  if (!located || located->state == BlockState::kMemory) return;  // its push will see
  if (located->live == 0) {
    count_lost(*located);
    return drop(block, *located);
  }
  if (is_gone(*located)) {
    // While recovery goes on, more of it may be found; recovery_done() has the last word.
    if (!context_.flash.recovering()) return give_up(block, *located);
    undecided_ = undecided_ || located->state == BlockState::kFlash;
    return;
  }
  // Where each target that works has its fragment already, repair could do nothing.
  const auto width = static_cast<int>(context_.options.scheme.width());
  const int targets = std::min(width, std::popcount(context_.placer->usable()));
  const bool hopeful = std::popcount(readable(*located)) < targets;
  if (context_.index.thin_count() > 0) context_.repair->wake(hopeful);
}

// Fewer than k of its fragments can be read. Each target that is away may have one more: if that
// could be enough, what there is of it waits for them, else it is of no use to anybody.
void Catalog::give_up(const BlockId& block, const Located& located) {
  count_lost(located);
  const int known = std::popcount(readable(located));
  const int away = std::popcount(targets_away(context_));
  if (known == 0 || known + away < static_cast<int>(context_.options.scheme.k)) {
    return drop(block, located);
  }
  if (located.state == BlockState::kFlash) {
    context_.repair->forget(block);
    forget_in_memory(located.block_slot);
    context_.index.hide(located);
  }
  context_.eviction.insert_oldest(located.base_slot, room_of(block.base, located));
}

// A hit until now, and no longer: once for each block, for what is away or goes is no such again.
void Catalog::count_lost(const Located& located) {
  if (located.state == BlockState::kFlash) context_.metrics.lost_blocks.add();
}

void Catalog::drop(const BlockId& block, const Located& located) {
  context_.repair->forget(block);
  forget_in_memory(located.block_slot);
  for (uint32_t p = 0; p < context_.options.scheme.width(); ++p) {
    if (located.has(p)) context_.flash.release(context_.index.place_of(located, p));
  }
  context_.index.drop(block);
  left(block, located.base_slot);
}

uint64_t Catalog::purge(const BlockId& block, const Located& located) {
  uint64_t pages = 0;
  for (uint32_t p = 0; p < context_.options.scheme.width(); ++p) {
    if (located.has(p)) pages += context_.index.place_of(located, p).pages;
  }
  if (TierBlock* in_dram = context_.tier.peek(located.block_slot)) {
    in_dram->purged = true;
    if (pages == 0) pages = in_dram->charged_pages;
  }
  drop(block, located);
  return pages;
}

void Catalog::touch_backwards(uint32_t domain, std::span<const uint32_t> base_slots,
                              std::span<const BaseId> ids) {
  VARVE_ASSERT(base_slots.size() == ids.size());
  for (size_t i = base_slots.size(); i > 0; --i) {
    // A slot may have been given to another id since.
    const std::optional<uint32_t> slot = context_.index.base_slot(domain, ids[i - 1]);
    if (slot == base_slots[i - 1]) context_.eviction.touch(*slot);
  }
}

// The last rank of an id may just have gone: then its place in the eviction order goes too.
void Catalog::left(const BlockId& block, uint32_t base_slot) {
  if (context_.index.base_slot(block.domain, block.base).has_value()) return;
  context_.eviction.remove(base_slot);
  context_.siblings->left(base_slot);
  if (!recovered_bits_.empty()) recovered_bits_[base_slot / 64] &= ~(1ull << base_slot % 64);
}

void Catalog::forget_in_memory(uint32_t block_slot) {
  if (TierBlock* block = context_.tier.peek(block_slot)) context_.tier.forget(*block);
}

void Catalog::lost(const BlockId& block, const flash::Place& place, flash::DropReason reason) {
  const std::optional<Located> located = context_.index.find_any(block);
  if (!located) return;
  const std::optional<uint32_t> position = context_.index.position_of(*located, place);
  if (!position) return;
  context_.index.lose(*located, *position);
  context_.flash.release(place);
  context_.metrics.lost_fragments[static_cast<uint32_t>(reason)].add();
  look_after(block);
}

flash::FlashUser::Verdict Catalog::reclaim(const BlockId& block, const flash::Place& place) {
  using Verdict = flash::FlashUser::Verdict;
  if (!is_live(block, place)) {
    context_.metrics.reclaim_dead.add();
    return Verdict::kDead;
  }
  const std::optional<Located> located = context_.index.find_any(block);
  if (context_.eviction.reinsert(located->base_slot) || !may_evict(located->base_slot)) {
    context_.metrics.reclaim_reinserted.add();
    return Verdict::kReinsert;
  }
  // Siblings live and die together (I4), and so do fragments, but their pages may not be given back
  // in here: the base is evicted whole in the next turn, at the price of one copy.
  if (std::popcount(context_.index.ranks_of(block.domain, block.base)) > 1 ||
      context_.options.scheme.width() > 1) {
    doomed_.push_back(block);
    context_.reactor.make_ready(*this);
    context_.metrics.reclaim_reinserted.add();
    return Verdict::kReinsert;
  }
  forget_in_memory(located->block_slot);
  context_.index.remove(block);
  left(block, located->base_slot);
  context_.metrics.reclaim_dropped.add();
  return Verdict::kDropped;
}

bool Catalog::is_live(const BlockId& block, const flash::Place& place) const {
  const std::optional<Located> located = context_.index.find_any(block);
  return located && context_.index.position_of(*located, place).has_value();
}

bool Catalog::moved(const BlockId& block, const flash::Place& from, const flash::Place& to) {
  return context_.index.place_move(block, from, to);
}

bool Catalog::in_grace(uint32_t base_slot) const {
  if (context_.reactor.now_ns() >= grace_until_ns_) return false;
  return (recovered_bits_[base_slot / 64] >> base_slot % 64 & 1) != 0;
}

bool Catalog::may_evict(uint32_t base_slot) {
  if (context_.index.leases(base_slot) > 0) {
    context_.metrics.evict_skipped_leased.add();
    return false;
  }
  if (in_grace(base_slot)) {
    context_.metrics.evict_skipped_grace.add();
    return false;
  }
  bool busy = false;
  context_.index.for_each_rank(base_slot, [&](uint32_t, const Located& located) {
    const TierBlock* block = context_.tier.peek(located.block_slot);
    if (located.state == BlockState::kMemory) busy = true;
    if (located.state == BlockState::kAway && !attempts_.empty()) busy = true;  // being found
    if (block != nullptr && (block->pins > 0 || block->dirty)) busy = true;
  });
  if (busy) context_.metrics.evict_skipped_busy.add();
  return !busy;
}

uint32_t Catalog::evict(uint32_t base_slot) {
  if (!may_evict(base_slot)) return 0;
  const BlockId base = context_.index.block_at(base_slot, 0);
  uint32_t pages = 0;
  context_.index.for_each_rank(base_slot, [&](uint32_t rank, const Located& located) {
    forget_in_memory(located.block_slot);
    for (uint32_t p = 0; p < context_.options.scheme.width(); ++p) {
      if (!located.has(p)) continue;
      const flash::Place place = context_.index.place_of(located, p);
      pages += place.pages;
      context_.flash.release(place);
    }
    context_.index.remove({.base = base.base, .rank = rank, .domain = base.domain});
    context_.metrics.evicted_blocks.add();
    if (located.state == BlockState::kAway) context_.metrics.evicted_away.add();
  });
  context_.metrics.evicted_bytes.add(bytes_of(pages));
  left(base, base_slot);
  VARVE_ASSERT(pages > 0, base_slot);
  return pages;
}

uint32_t Catalog::pages_on(uint32_t base_slot, uint32_t target) const {
  VARVE_ASSERT(target < context_.flash.target_count(), target);
  uint32_t pages = 0;
  context_.index.for_each_rank(base_slot, [&](uint32_t, const Located& located) {
    for (uint32_t p = 0; p < context_.options.scheme.width(); ++p) {
      if (!located.has(p)) continue;
      const flash::Place place = context_.index.place_of(located, p);
      if (place.target == target) pages += place.pages;
    }
  });
  return pages;
}

void Catalog::target_failed(uint32_t target) {
  VARVE_ASSERT(target < context_.flash.target_count(), target);
  if (is_failed(target)) return;
  failed_ |= 1ull << target;
  losing_ = true;
  lose_cursor_ = 0;  // a walk in progress looked for others only
  // Pulls that waited for its reads are told now, not at their deadline.
  context_.pulls->wake_all();
  context_.reactor.make_ready(*this);
}

Status Catalog::replaceable(uint32_t target) const {
  if (!attempts_.empty()) return Status::unavailable("recovery of the start is not over");
  if (losing() || context_.index.fragments_on(target) > 0) {
    return Status::unavailable("the index is not through with what lay on it");
  }
  return Status();
}

void Catalog::target_replaced(uint32_t target) {
  VARVE_ASSERT(context_.index.fragments_on(target) == 0, target);
  failed_ &= ~(1ull << target);
  losing_ = true;
  lose_cursor_ = 0;
  context_.reactor.make_ready(*this);
}

// One step of the walk. What is published meanwhile lies on targets that work.
void Catalog::lose_some() {
  struct Step {
    Catalog& self;
    static void visit(void* context, const BlockId& block, const Located& located) {
      Catalog& self = static_cast<Step*>(context)->self;
      const bool odd = self.is_gone(located) || self.crowded(located).has_value();
      if ((odd && self.attempts_.empty()) || self.readable(located) != located.live) {
        self.losses_.push_back({block, located});
      }
    }
  } step{*this};
  VARVE_ASSERT(losses_.empty());
  lose_cursor_ = context_.index.scan(lose_cursor_, kLoseSlotsPerTurn, Step::visit, &step);
  for (const auto& [block, located] : losses_) {
    lose_failed(block, located);
    const std::optional<Located> left = context_.index.find_any(block);
    if (left && is_gone(*left) && attempts_.empty()) {
      const uint32_t before = context_.index.block_count();
      give_up(block, *left);
      if (context_.index.block_count() < before) context_.metrics.recovered_too_few.add();
    } else if (attempts_.empty()) {
      spread(block);
    }
  }
  losses_.clear();
  losing_ = lose_cursor_ != 0;
  if (losing_) return context_.reactor.make_ready(*this);
  if (attempts_.empty()) say_away();
}

// After recovery, and after each target that failed since.
void Catalog::say_away() {
  const uint32_t away = context_.index.away_count();
  const bool same = away == 0 || away == said_away_;
  said_away_ = away;
  if (same) return;
  logf(
      LogLevel::kWarn, "catalog",
      "shard %u: %u blocks cannot be read because %d targets are away; they come back with them at "
      "a later start, those excepted that make room until then",
      context_.options.shard, away, std::popcount(targets_away(context_)));
}

// A position whose fragment is on the target of another one's.
std::optional<uint32_t> Catalog::crowded(const Located& located) const {
  static_assert(kTargetsMax <= 32);
  uint32_t targets = 0;
  for (uint32_t p = 0; p < context_.options.scheme.width(); ++p) {
    if (!located.has(p)) continue;
    const uint32_t target = 1u << context_.index.place_of(located, p).target;
    if ((targets & target) != 0) return p;
    targets |= target;
  }
  return std::nullopt;
}

// Recovery may find a copy that was given up when its target came to hold another fragment of the
// block. Two on one target would be lost together: one goes, while enough are left, and repair
// finds another target for it.
void Catalog::spread(const BlockId& block) {
  for (uint32_t p = 0; p < context_.options.scheme.width(); ++p) {
    const std::optional<Located> located = context_.index.find_any(block);
    if (!located || located->state != BlockState::kFlash) return;
    const auto left = static_cast<uint32_t>(std::popcount(readable(*located)));
    const std::optional<uint32_t> position = crowded(*located);
    if (!position || left <= context_.options.scheme.k) return;
    const flash::Place place = context_.index.place_of(*located, *position);
    context_.index.lose(*located, *position);
    context_.flash.release(place);
    context_.metrics.recovered_crowded.add();
    look_after(block);
  }
}

void Catalog::lose_failed(const BlockId& block, const Located& located) {
  for (uint32_t p = 0; p < context_.options.scheme.width(); ++p) {
    const std::optional<Located> now = context_.index.find_any(block);
    if (!now) return;  // the last that it could lose
    if (!located.has(p) || !now->has(p)) continue;
    const flash::Place place = context_.index.place_of(*now, p);
    if (is_failed(place.target)) lost(block, place, flash::DropReason::kTargetLost);
  }
}

void Catalog::run() {
  if (losing_) lose_some();
  for (const BlockId& block : doomed_) {
    const std::optional<uint32_t> slot = context_.index.base_slot(block.domain, block.base);
    if (slot) evict(*slot);
  }
  doomed_.clear();
}

}  // namespace varve
