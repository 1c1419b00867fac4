// What recovery finds, taken into the catalog.
//
// Fragments are told of one by one, in no order: a block is away, unseen, until k positions of one
// attempt are there. Where there are two attempts (two map epochs, or one written again after its
// first was dropped, or while it was away) the larger one counts (I3). The index does not keep
// attempts, so a side table holds them until every slice is recovered.
#include <algorithm>
#include <bit>
#include <cinttypes>

#include "server/op/catalog.h"
#include "server/op/lineage.h"
#include "server/op/op.h"
#include "server/op/repair.h"
#include "server/op/siblings.h"

namespace varve {

namespace {

// Attempts of different targets are compared by boot generation first: each start has one for all
// targets, larger than any of them had (flash::common_start), so a later start always wins.
bool is_later(const Attempt& a, const Attempt& b) {
  if (a.boot_generation != b.boot_generation) return a.boot_generation > b.boot_generation;
  return a.counter > b.counter;
}

}  // namespace

void Catalog::killed(uint32_t domain, const BaseId& base, const Attempt& limit) {
  if (attempts_.empty() || !is_known(domain)) return;
  Attempt& largest = killed_[{.base = base, .domain = domain}];
  if (!flash::is_killed(limit, largest)) largest = limit;
  const std::optional<uint32_t> slot = context_.index.base_slot(domain, base);
  if (!slot) return;
  context_.index.for_each_rank(*slot, [&](uint32_t rank, const Located& located) {
    if (located.state == BlockState::kMemory) return;  // of this start; its purge sees to it
    if (!flash::is_killed(attempts_[located.block_slot], limit)) return;
    context_.metrics.recovered_purged.add();
    drop({.base = base, .rank = rank, .domain = domain}, located);
  });
}

bool Catalog::serves(const BaseId& base) const {
  return attempts_.empty() || context_.flash.slice_ready(slice_of(base, context_.options.slices));
}

// Of a domain that was dropped, or that the node's list has lost, nobody could read anything. Where
// its id was forgotten and given again, what is older than the new domain is not that one's.
bool Catalog::is_known(const flash::FragmentInfo& fragment) const {
  return is_known(fragment.block.domain) &&
         fragment.attempt.boot_generation >=
             context_.options.domains.start_of(fragment.block.domain);
}

bool Catalog::is_known(uint32_t domain) const {
  return context_.options.domains.has(domain);
}

bool Catalog::recovered(const flash::FragmentInfo& fragment) {
  OpMetrics& metrics = context_.metrics;
  // After recovery_done() only what has the place of a target that failed is read: it is blank.
  if (attempts_.empty()) return false;
  VARVE_ASSERT(fragment.position < context_.options.scheme.width(), fragment.position);
  uint32_t& last = context_.options.domains.last;  // also of a target that fails meanwhile
  last = std::max(last, fragment.block.domain);
  if (is_failed(fragment.place.target)) return false;
  if (!is_known(fragment)) {
    metrics.recovered_unknown.add();
    metrics.recovered_unknown_bytes.add(bytes_of(fragment.place.pages));
    return false;
  }
  const auto limit = killed_.find({.base = fragment.block.base, .domain = fragment.block.domain});
  const bool killed = limit != killed_.end() && flash::is_killed(fragment.attempt, limit->second);
  if (killed || context_.lineages->is_old(fragment.mark)) {
    metrics.recovered_purged.add();
    return false;
  }
  Located located;
  if (!gather(fragment, &located)) return false;
  context_.index.place_add(located, fragment.position, fragment.place);
  located.live = static_cast<uint16_t>(located.live | 1u << fragment.position);
  if (located.state == BlockState::kFlash ||
      std::popcount(located.live) < static_cast<int>(context_.options.scheme.k)) {
    return true;
  }
  context_.index.settle(located);
  context_.eviction.insert(located.base_slot, room_of(fragment.block.base, located));
  recovered_bits_[located.base_slot / 64] |= 1ull << located.base_slot % 64;
  metrics.recovered_blocks.add();
  metrics.recovered_bytes.add(fragment.block_bytes);
  return true;
}

// The block that a recovered fragment belongs to, without a place at its position; false: the
// fragment is not wanted.
bool Catalog::gather(const flash::FragmentInfo& fragment, Located* located) {
  OpMetrics& metrics = context_.metrics;
  Index::Insert outcome = context_.index.insert(fragment.block, BlockState::kAway, located);
  if (outcome == Index::Insert::kExists && located->state != BlockState::kMemory &&
      is_later(fragment.attempt, attempts_[located->block_slot])) {
    metrics.replaced_older.add();
    drop(fragment.block, *located);
    outcome = context_.index.insert(fragment.block, BlockState::kAway, located);
  }
  if (outcome == Index::Insert::kFull && drop_remnants()) {
    outcome = context_.index.insert(fragment.block, BlockState::kAway, located);
  }
  if (outcome == Index::Insert::kFull) {
    metrics.recovered_full.add();
    return false;
  }
  if (outcome == Index::Insert::kDone) {
    attempts_[located->block_slot] = fragment.attempt;
    context_.lineages->set(located->block_slot, fragment.block.domain, fragment.mark.lineage);
    context_.siblings->came(located->base_slot, fragment.rank_count);
    return true;
  }
  if (located->state != BlockState::kMemory && located->has(fragment.position) &&
      fragment.attempt == attempts_[located->block_slot] && outdates(fragment, *located)) {
    metrics.recovered_older.add();
    context_.flash.release(context_.index.place_of(*located, fragment.position));
    context_.index.lose(*located, fragment.position);
    located->live = static_cast<uint16_t>(located->live & ~(1u << fragment.position));
    return true;
  }
  // Where nothing says which of two copies is the newer one, the first is kept.
  if (located->state == BlockState::kMemory || located->has(fragment.position) ||
      fragment.attempt != attempts_[located->block_slot]) {
    metrics.recovered_older.add();
    return false;
  }
  return true;
}

// Of two copies of a fragment: repair moved it from a target that is being drained, or wrote it
// anew where the first had rotted, which only a read of that one would tell. A target is told of in
// the order in which it was written.
bool Catalog::outdates(const flash::FragmentInfo& copy, const Located& located) const {
  const flash::Place known = context_.index.place_of(located, copy.position);
  if (known.target == copy.place.target) return known != copy.place;
  return leaves(located, copy.position) && !is_draining(context_, copy.place.target);
}

// What has too few fragments when its slice was found whole gets no more: what reclaim left of
// blocks that were evicted. Such remnants, up to one a fragment, must not keep a durable block out
// of a full index. Looks on from where it was until it finds some, so that this costs a few walks
// for each slice in all. False: there is none.
bool Catalog::drop_remnants() {
  struct Step {
    Catalog& self;
    static void visit(void* context, const BlockId& block, const Located& located) {
      Catalog& self = static_cast<Step*>(context)->self;
      if (located.state != BlockState::kAway || !self.serves(block.base)) return;
      self.losses_.push_back({block, located});
    }
  } step{*this};
  VARVE_ASSERT(losses_.empty() && !attempts_.empty());
  uint32_t whole = 0;
  for (uint32_t s = 0; s < context_.options.slices; ++s)
    whole += context_.flash.slice_ready(s) ? 1 : 0;
  if (whole == remnant_slices_done_) return false;
  do {
    if (remnant_cursor_ == 0) remnant_slices_ = whole;
    remnant_cursor_ = context_.index.scan(remnant_cursor_, kLoseSlotsPerTurn, Step::visit, &step);
    if (remnant_cursor_ == 0) remnant_slices_done_ = remnant_slices_;
  } while (losses_.empty() && remnant_slices_done_ != whole);
  const bool found = !losses_.empty();
  for (const auto& [block, located] : losses_) {
    context_.metrics.recovered_too_few.add();
    drop(block, located);
  }
  losses_.clear();
  return found;
}

void Catalog::recovery_done() {
  VARVE_ASSERT(!attempts_.empty());  // once
  attempts_ = std::vector<Attempt>();
  undecided_ = false;
  killed_ = decltype(killed_)(0, killed_.hash_function());
  say_unknown();
  if (context_.options.scheme.width() > 1) {  // of one fragment there is no half
    losing_ = true;
    lose_cursor_ = 0;
    context_.reactor.make_ready(*this);
  }
  const bool drains = context_.options.draining_targets != 0;
  if (context_.index.thin_count() > 0 || drains) context_.repair->wake();
}

void Catalog::say_unknown() const {
  const uint64_t count = context_.metrics.recovered_unknown.value();
  if (count == 0) return;
  logf(LogLevel::kWarn, "catalog",
       "shard %u: dropped %" PRIu64 " fragments, %" PRIu64
       " bytes, of domains that this node does not have; they are written over in time: if such a "
       "domain should be there, stop the node now and give it the list of domains that had it",
       context_.options.shard, count, context_.metrics.recovered_unknown_bytes.value());
}

}  // namespace varve
