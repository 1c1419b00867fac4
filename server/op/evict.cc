// Eviction for room: candidates come from the policy in order; the catalog says which may go.
//
// Candidates that must stay (leased, in grace, being read or written) remain at the front of the
// order, so a sweep without success looks twice as far in the next turn, up to a bound.
#include "server/op/evict.h"

#include <algorithm>

#include "server/op/op.h"

namespace varve {

EvictOp::EvictOp(OpContext& context) : context_(context) {
  rooms_.resize(context.flash.target_count() * context.options.slices);
}

void EvictOp::room_wanted(uint32_t target, uint32_t slice, uint32_t pages) {
  VARVE_ASSERT(target < context_.flash.target_count(), target);
  VARVE_ASSERT(slice < context_.options.slices, slice);
  const uint32_t number = target * context_.options.slices + slice;
  Room& room = rooms_[number];
  if (room.pages == 0 && pages > 0) {
    ++wanting_;
    room.limit = kCandidatesPerTurn;
    room.away = 0;
    room.any = false;
  }
  room.pages = std::max(room.pages, pages);
  if (room.pages > 0) sweep_wish(number);
  if (wanting_ > 0) context_.reactor.make_ready(*this);
}

bool EvictOp::gave_up(uint32_t target, uint32_t slice) const {
  const Nanos vain_ns = rooms_[target * context_.options.slices + slice].vain_ns;
  return vain_ns != 0 && context_.reactor.now_ns() - vain_ns < kVainNs;
}

// Evicts one block: of this slice if possible, so that nothing but its own room is disturbed.
EvictOp::Place EvictOp::index_wanted(uint32_t slice) {
  VARVE_ASSERT(slice < context_.options.slices, slice);
  const uint32_t targets = context_.flash.target_count();
  const uint32_t own = std::max(1u, kCandidatesPerTurn / 2 / targets);
  uint32_t left = kCandidatesPerTurn;
  // What is away goes first, and stands at the front.
  for (uint32_t t = 0; t < targets && context_.index.away_count() > 0; ++t) {
    const uint32_t victim = context_.eviction.victim(t * context_.options.slices + slice, kNoSlot);
    const bool away = victim != kNoSlot && context_.catalog->is_away(victim);
    if (away && context_.catalog->evict(victim) > 0) return index_made();
  }
  for (uint32_t t = 0; t < targets && left > 0; ++t) {
    const uint32_t room = t * context_.options.slices + slice;
    const Sweep done = sweep(room, kAnyTarget, 1, std::min(own, left));
    if (done.freed > 0) return index_made();
    left -= done.looked;
  }
  for (size_t i = 0; i < rooms_.size() && left > 0; ++i) {
    index_next_ = (index_next_ + 1) % static_cast<uint32_t>(rooms_.size());
    const Sweep done = sweep(index_next_, kAnyTarget, 1, left);
    if (done.freed > 0) return index_made();
    left -= std::min(left, done.looked + 1);  // an empty room is looked at too
    ++index_vain_;
  }
  context_.metrics.evict_unsatisfied.add();
  index_vain_ = std::min(index_vain_, static_cast<uint32_t>(rooms_.size()));
  return index_vain_ == rooms_.size() ? Place::kNone : Place::kNotYet;
}

EvictOp::Place EvictOp::index_made() {
  index_vain_ = 0;
  return Place::kMade;
}

void EvictOp::run() {
  for (uint32_t i = 0; i < rooms_.size() && wanting_ > 0; ++i) {
    const uint32_t room = next_;
    next_ = (next_ + 1) % static_cast<uint32_t>(rooms_.size());
    if (rooms_[room].pages == 0) continue;
    sweep_wish(room);
    break;  // one room a turn
  }
  if (wanting_ > 0) context_.reactor.make_ready(*this);
}

void EvictOp::sweep_wish(uint32_t number) {
  Room& room = rooms_[number];
  VARVE_ASSERT(wanting_ > 0 && room.pages > 0, wanting_, room.pages);
  VARVE_ASSERT(room.limit > 0 && room.limit <= 2 * kCandidatesMax, room.limit);
  const uint32_t slices = context_.options.slices;
  const uint32_t all = context_.flash.target_count();
  // Where blocks have one fragment it is in the room of its target, unless it was moved.
  const bool elsewhere =
      context_.options.scheme.width() > 1 || context_.options.draining_targets != 0;
  const uint32_t targets = elsewhere ? all : 1;
  VARVE_ASSERT(room.away < targets, room.away);
  const uint32_t target = number / slices;
  const uint32_t other = (target + room.away) % all * slices + number % slices;
  room.any = room.any || context_.eviction.victim(other, kNoSlot) != kNoSlot;
  const uint32_t freed = sweep(other, target, room.pages, room.limit).freed;
  room.pages -= std::min(room.pages, freed);
  if (freed > 0) {
    room.limit = kCandidatesPerTurn;
    room.vain_ns = 0;
  } else if (++room.away == targets) {  // none of the rooms gave any
    if (room.limit >= kCandidatesMax || !room.any) {
      context_.metrics.evict_unsatisfied.add();
      room.pages = 0;
      room.vain_ns = context_.reactor.now_ns();
    }
    room.limit *= 2;
    room.away = 0;
    room.any = false;
  }
  if (room.pages == 0) --wanting_;
}

EvictOp::Sweep EvictOp::sweep(uint32_t room, uint32_t target, uint32_t pages, uint32_t limit) {
  Sweep done;
  uint32_t previous = kNoSlot;
  while (done.looked < limit && done.freed < pages) {
    const uint32_t victim = context_.eviction.victim(room, previous);
    if (victim == kNoSlot) break;
    ++done.looked;
    const uint32_t there = target == kAnyTarget ? 0 : context_.catalog->pages_on(victim, target);
    const bool wanted = target == kAnyTarget || there > 0;
    const uint32_t all = wanted ? context_.catalog->evict(victim) : 0;
    if (all == 0) {  // it stays, and the order goes on behind it
      previous = victim;
      continue;
    }
    done.freed += target == kAnyTarget ? all : there;
  }
  context_.metrics.evict_candidates.add(done.looked);
  return done;
}

}  // namespace varve
