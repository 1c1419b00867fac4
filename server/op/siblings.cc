// Two walks apart: a run that is being written when the first comes by is not judged by it.
#include "server/op/siblings.h"

#include <bit>

#include "server/op/op.h"

namespace varve {

Siblings::Siblings(OpContext& context) : context_(context) {
  of_slot_.resize(context.index.base_slots_max());
  dropped_.reserve(kSlotsPerTurn);
  walk_.owner = this;
  walk_.on_fire = [](Timer& timer) {
    Siblings& self = *static_cast<Siblings*>(timer.owner);
    self.context_.reactor.make_ready(self);
  };
}

Siblings::~Siblings() {
  context_.reactor.cancel(walk_);
}

void Siblings::came(uint32_t base_slot, uint32_t rank_count) {
  VARVE_ASSERT(rank_count > 0 && rank_count <= kRanksMax, rank_count);
  const uint8_t marked = of_slot_[base_slot] & kMarked;
  of_slot_[base_slot] = static_cast<uint8_t>(marked | (rank_count - 1));
  if (rank_count == 1 || walk_.armed() || cursor_ != 0) return;
  context_.reactor.arm(walk_, context_.options.sibling_ns_max);
}

void Siblings::run() {
  struct Step {
    static void visit(void* context, const BlockId& block, const Located& located) {
      static_cast<Siblings*>(context)->look(block, located);
    }
  };
  VARVE_ASSERT(dropped_.empty());
  cursor_ = context_.index.scan(cursor_, kSlotsPerTurn, Step::visit, this);
  for (const uint32_t base_slot : dropped_) {
    if (context_.catalog->evict(base_slot) > 0) context_.metrics.siblings_dropped.add();
  }
  dropped_.clear();
  if (cursor_ != 0) return context_.reactor.make_ready(*this);
  context_.reactor.arm(walk_, context_.options.sibling_ns_max);
}

// Shown each rank that is there: the first of them stands for the base. One that is away is there,
// and so may be one that lies on targets which are away, all of it.
void Siblings::look(const BlockId& block, const Located& located) {
  uint8_t& of_slot = of_slot_[located.base_slot];
  const uint32_t rank_count = (of_slot & kRankMask) + 1u;
  if (rank_count == 1) return;
  const uint32_t all = rank_count == kRanksMax ? ~0u : (1u << rank_count) - 1;
  uint32_t ranks = context_.index.ranks_of(block.domain, block.base);
  if ((ranks & all) != all) {
    context_.index.for_each_rank(located.base_slot,
                                 [&](uint32_t rank, const Located&) { ranks |= 1u << rank; });
  }
  if (block.rank != static_cast<uint32_t>(std::countr_zero(ranks))) return;
  const auto away = static_cast<uint32_t>(std::popcount(targets_away(context_)));
  const bool unknown = away >= context_.options.scheme.k;
  const bool whole = (ranks & all) == all || unknown;
  if (!whole && (of_slot & kMarked) != 0) dropped_.push_back(located.base_slot);
  of_slot = static_cast<uint8_t>((of_slot & kRankMask) | (whole ? 0 : kMarked));
}

}  // namespace varve
