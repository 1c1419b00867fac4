// The catalog: index, eviction order, DRAM and flash in step.
//
// During recovery two fragments of one block may be found (two attempts across map epochs, or one
// written again after its first was dropped): the larger attempt stays (I3). The index does not
// keep attempts, so a side table holds them until every slice is recovered.
#include "server/op/catalog.h"

#include <bit>

#include "server/op/op.h"
#include "server/op/pull.h"

namespace varve {

namespace {

// Attempts of different targets are compared by boot generation first: each start has one for all
// targets, larger than any of them had (flash::common_start), so a later start always wins.
bool is_later(const Attempt& a, const Attempt& b) {
  if (a.boot_generation != b.boot_generation) return a.boot_generation > b.boot_generation;
  return a.counter > b.counter;
}

constexpr uint32_t kDoomedReserve = 4096;

}  // namespace

Catalog::Catalog(OpContext& context) : context_(context) {
  attempts_.resize(context.index.fragments_max());
  recovered_bits_.resize((context.index.base_slots_max() + 63) / 64);
  doomed_.reserve(kDoomedReserve);
  losses_.reserve(size_t{kLoseSlotsPerTurn} * kRanksMax);
  grace_until_ns_ = context.reactor.now_ns() + Nanos{context.options.lease_ms_max} * kMillisecond;
}

uint32_t Catalog::room_of(const flash::Place& place) const {
  return place.target * context_.options.slices + place.slice;
}

Index::Insert Catalog::publish(TierBlock& block) {
  VARVE_ASSERT(block.slot == ~0u, block.slot);
  Located located;
  Index::Insert outcome =
      context_.index.insert(block.block, FragmentState::kMemory, flash::Place{}, &located);
  if (outcome == Index::Insert::kExists && is_gone(located)) {
    lost(block.block, located.place, flash::DropReason::kTargetLost);
    outcome = context_.index.insert(block.block, FragmentState::kMemory, flash::Place{}, &located);
  }
  if (outcome != Index::Insert::kDone) return outcome;
  if (!attempts_.empty()) attempts_[located.fragment_slot] = block.attempt;
  context_.tier.bind(block, located.fragment_slot);
  context_.metrics.published.add();
  return outcome;
}

bool Catalog::placed(const TierBlock& block, const flash::Place& place) {
  VARVE_ASSERT(block.slot != ~0u && !block.doomed);
  if (!context_.index.place_set(block.block, nullptr, place)) {
    context_.flash.release(place);
    return false;
  }
  const std::optional<Located> located = context_.index.find(block.block);
  VARVE_ASSERT(located.has_value());
  VARVE_ASSERT(located->fragment_slot == block.slot, located->fragment_slot, block.slot);
  context_.eviction.insert(located->base_slot, room_of(place));
  return true;
}

void Catalog::unpublish(TierBlock& block) {
  const std::optional<Located> located = context_.index.lose(block.block);
  VARVE_ASSERT(located.has_value());
  VARVE_ASSERT(located->state == FragmentState::kMemory);
  VARVE_ASSERT(located->fragment_slot == block.slot, located->fragment_slot, block.slot);
  context_.tier.forget(block);
  left(block.block.base, located->base_slot);
}

void Catalog::touch_backwards(std::span<const uint32_t> base_slots, std::span<const BaseId> ids) {
  VARVE_ASSERT(base_slots.size() == ids.size());
  for (size_t i = base_slots.size(); i > 0; --i) {
    // A slot may have been given to another id since.
    const std::optional<uint32_t> slot = context_.index.base_slot(ids[i - 1]);
    if (slot == base_slots[i - 1]) context_.eviction.touch(*slot);
  }
}

// The last rank of an id may just have gone: then its place in the eviction order goes too.
void Catalog::left(const BaseId& id, uint32_t base_slot) {
  if (context_.index.base_slot(id).has_value()) return;
  context_.eviction.remove(base_slot);
  if (!recovered_bits_.empty()) recovered_bits_[base_slot / 64] &= ~(1ull << base_slot % 64);
}

void Catalog::forget_in_memory(uint32_t fragment_slot) {
  if (TierBlock* block = context_.tier.peek(fragment_slot)) context_.tier.forget(*block);
}

bool Catalog::recovered(const flash::FragmentInfo& fragment) {
  OpMetrics& metrics = context_.metrics;
  VARVE_ASSERT(!attempts_.empty());  // recovery_done() was not called yet
  if (is_failed(fragment.place.target)) return false;
  Located located;
  switch (context_.index.insert(fragment.block, FragmentState::kFlash, fragment.place, &located)) {
    case Index::Insert::kFull:
      metrics.recovered_full.add();
      return false;
    case Index::Insert::kDone:
      context_.eviction.insert(located.base_slot, room_of(fragment.place));
      recovered_bits_[located.base_slot / 64] |= 1ull << located.base_slot % 64;
      break;
    case Index::Insert::kExists: {
      if (!is_later(fragment.attempt, attempts_[located.fragment_slot]) ||
          located.state != FragmentState::kFlash) {
        metrics.recovered_older.add();
        return false;
      }
      const flash::Place older = located.place;
      const bool replaced = context_.index.place_set(fragment.block, &older, fragment.place);
      VARVE_ASSERT(replaced);
      forget_in_memory(located.fragment_slot);
      context_.eviction.insert(located.base_slot, room_of(fragment.place));
      context_.flash.release(older);
      metrics.replaced_older.add();
      break;
    }
  }
  attempts_[located.fragment_slot] = fragment.attempt;
  metrics.recovered_blocks.add();
  metrics.recovered_bytes.add(fragment.block_bytes);
  return true;
}

void Catalog::recovery_done() {
  VARVE_ASSERT(!attempts_.empty());  // once
  attempts_ = std::vector<Attempt>();
}

void Catalog::lost(const BlockId& block, const flash::Place& place, flash::DropReason reason) {
  const std::optional<Located> located = context_.index.find(block);
  if (!is_live(block, place)) return;
  forget_in_memory(located->fragment_slot);
  context_.index.lose(block);
  left(block.base, located->base_slot);
  context_.flash.release(place);
  context_.metrics.lost[static_cast<uint32_t>(reason)].add();
}

flash::FlashUser::Verdict Catalog::reclaim(const BlockId& block, const flash::Place& place) {
  using Verdict = flash::FlashUser::Verdict;
  const std::optional<Located> located = context_.index.find(block);
  if (!is_live(block, place)) {
    context_.metrics.reclaim_dead.add();
    return Verdict::kDead;
  }
  if (context_.eviction.reinsert(located->base_slot) || !may_evict(located->base_slot)) {
    context_.metrics.reclaim_reinserted.add();
    return Verdict::kReinsert;
  }
  // Siblings live and die together (I4), but their pages may not be given back in here: the base is
  // evicted whole in the next turn, at the price of one copy.
  if (std::popcount(context_.index.ranks_of(block.base)) > 1) {
    doomed_.push_back(block.base);
    context_.reactor.make_ready(*this);
    context_.metrics.reclaim_reinserted.add();
    return Verdict::kReinsert;
  }
  forget_in_memory(located->fragment_slot);
  context_.index.remove(block);
  left(block.base, located->base_slot);
  context_.metrics.reclaim_dropped.add();
  return Verdict::kDropped;
}

bool Catalog::is_live(const BlockId& block, const flash::Place& place) const {
  const std::optional<Located> located = context_.index.find(block);
  return located && located->state == FragmentState::kFlash && located->place == place;
}

bool Catalog::moved(const BlockId& block, const flash::Place& from, const flash::Place& to) {
  return context_.index.place_set(block, &from, to);
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
    const TierBlock* block = context_.tier.peek(located.fragment_slot);
    if (located.state != FragmentState::kFlash) busy = true;
    if (block != nullptr && (block->pins > 0 || block->dirty)) busy = true;
  });
  if (busy) context_.metrics.evict_skipped_busy.add();
  return !busy;
}

uint32_t Catalog::evict(uint32_t base_slot) {
  if (!may_evict(base_slot)) return 0;
  const BaseId id = context_.index.base_at(base_slot);
  uint32_t pages = 0;
  context_.index.for_each_rank(base_slot, [&](uint32_t rank, const Located& located) {
    forget_in_memory(located.fragment_slot);
    pages += located.place.pages;
    context_.flash.release(located.place);
    context_.index.remove(BlockId{.base = id, .rank = rank});
    context_.metrics.evicted_blocks.add();
  });
  context_.metrics.evicted_bytes.add(bytes_of(pages));
  left(id, base_slot);
  VARVE_ASSERT(pages > 0, base_slot);
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

// One step of the walk. What is published meanwhile lies on targets that work.
void Catalog::lose_some() {
  struct Step {
    Catalog& self;
    static void visit(void* context, const BlockId& block, const Located& located) {
      Catalog& self = static_cast<Step*>(context)->self;
      if (self.is_gone(located)) self.losses_.push_back({block, located.place});
    }
  } step{*this};
  VARVE_ASSERT(losses_.empty());
  lose_cursor_ = context_.index.scan(lose_cursor_, kLoseSlotsPerTurn, Step::visit, &step);
  for (const auto& [block, place] : losses_)
    lost(block, place, flash::DropReason::kTargetLost);
  losses_.clear();
  losing_ = lose_cursor_ != 0;
  if (losing_) context_.reactor.make_ready(*this);
}

void Catalog::run() {
  if (losing_) lose_some();
  for (const BaseId& id : doomed_) {
    if (const std::optional<uint32_t> slot = context_.index.base_slot(id)) evict(*slot);
  }
  doomed_.clear();
}

}  // namespace varve
