// What is seen, what is missed, and why that may be.
#include "tests/sim/truth.h"

#include <bit>
#include <cstdio>
#include <utility>

namespace varve::sim {

namespace {

constexpr Nanos kSpreadMax = 3 * kSecond;  // from the end of recovery

std::string named(const BlockId& block) {
  return short_name(block.base) + " rank " + std::to_string(block.rank) +
         (block.domain == kDomainDefault ? "" : " of domain " + std::to_string(block.domain));
}

bool is_of(const flash::FragmentHeader& header, const BlockId& block) {
  return BlockId{header.base, header.rank, header.domain} == block;
}

}  // namespace

uint32_t Truth::reachable() const {
  uint32_t targets = 0;
  for (uint32_t t = 0; t < world_.options().targets; ++t)
    targets |= world_.faulted(t) ? 0 : 1u << t;
  return targets;
}

uint32_t Truth::positions(const Known& known, uint32_t targets) const {
  uint32_t count = 0;
  for (const uint32_t copies : known.copies)
    count += (copies & targets) != 0 ? 1 : 0;
  return count;
}

bool Truth::is_safe(const BlockId& block) const {
  const auto found = known_.find(block);
  return exact_ && world_.alive() && found != known_.end() && found->second.settled &&
         !found->second.clouded && enough(positions(found->second, reachable()));
}

void Truth::look() {
  if (!world_.alive() || world_.recovering()) return;
  if (boot_ != world_.boots()) {
    boot_ = world_.boots();
    spread_until_ns_ = world_.now_ns() + kSpreadMax;
    evicted_ = 0;
  }
  if (!recovered_) purges_.started();
  for (auto& [block, known] : known_)
    known.seen = 0;
  for (const Sighting& sighting : world_.sightings())
    see(sighting, known_[sighting.block]);
  const uint64_t before = std::exchange(evicted_, world_.evicted());
  const bool evicted = evicted_ != before;
  for (auto it = known_.begin(); it != known_.end();) {
    check_seen(it->first, it->second);
    check_purged(it->first, it->second);
    it = missed(it->first, it->second, evicted) ? known_.erase(it) : std::next(it);
  }
  recovered_ = true;
}

void Truth::see(const Sighting& sighting, Known& known) {
  const uint32_t p = sighting.position;
  if (known.places[p] != sighting.place) known.checked &= ~(1u << p);
  if ((known.checked >> p & 1) == 0) {
    // Not there: it is a copy whose flush is still under way, and the one before it counts on.
    const auto header = world_.header_at(sighting.place);
    if (header && is_of(*header, sighting.block)) {
      world_.expect(header->position == p, "a fragment is taken for that of another position");
      if (header->attempt != known.attempt) {
        world_.expect((known.checked & known.seen) == 0,
                      "I3 fragments of two attempts are one block: " + named(sighting.block));
        const uint32_t seen = known.seen;
        if (!known.attempt.is_none()) known = Known();  // written anew
        known.seen = seen;
        known.attempt = header->attempt;
      }
      known.checked |= 1u << p;
    }
  }
  known.seen |= 1u << p;
  known.clouded = known.clouded || purges_.clouds(sighting.block);
  known.places[p] = sighting.place;
  known.settled |= sighting.settled;
  known.away = sighting.away;
  if (sighting.settled && std::exchange(known.was_away, false)) ++returned_;
  // What was repaired on the target where it rotted may give way to the rotten one at a start: of
  // two copies the first that is found counts (FORMAT 8).
  const uint32_t target = 1u << sighting.place.target;
  if (damaged_.contains(spot_of(sighting))) {
    known.copies[p] &= ~target;
  } else {
    known.copies[p] |= target;
  }
}

// Placement: no two fragments of a block on one target. And k of them, or nobody may see it.
void Truth::check_seen(const BlockId& block, const Known& known) const {
  uint32_t targets = 0;
  // A start may find a copy that was given up, or rot, and has a moment to do without it.
  const bool found = boot_ > 1 && world_.now_ns() < spread_until_ns_;
  for (uint32_t p = 0; p < kWidthMax; ++p) {
    if ((known.seen >> p & 1) == 0 || known.away || world_.faulted(known.places[p].target))
      continue;
    const uint32_t target = 1u << known.places[p].target;
    world_.expect((targets & target) == 0 || found,
                  "two fragments of " + named(block) + " on one target");
    targets |= target;
  }
  const bool few = known.settled && known.seen != 0 && !known.away &&
                   !enough(static_cast<uint32_t>(std::popcount(known.seen)));
  world_.expect(!few || found || world_.any_fault(),
                "I2 too few fragments make a block: " + named(block));
}

// I10: what was purged is not there, whoever looks.
void Truth::check_purged(const BlockId& block, const Known& known) const {
  if (known.attempt.is_none() || !purges_.is_dead(block, known.attempt, world_.now_ns())) return;
  for (uint32_t p = 0; p < kWidthMax; ++p) {
    if (((known.seen & known.checked) >> p & 1) == 0) continue;
    const auto header = world_.header_at(known.places[p]);  // a place may be another's by now
    const bool is_it = header && is_of(*header, block) && header->attempt == known.attempt;
    if (is_it) tell(block, known);
    world_.expect(!is_it, "I10 what was purged is in the index: " + named(block));
  }
}

// For people who look for the cause.
void Truth::tell(const BlockId& block, const Known& known) const {
  std::fprintf(stderr, "%s, attempt %u.%llu, by position:\n", named(block).c_str(),
               known.attempt.boot_generation,
               static_cast<unsigned long long>(known.attempt.counter));
  for (uint32_t p = 0; p < world_.options().scheme.width(); ++p) {
    const flash::Place& at = known.places[p];
    const bool whole = world_.verifies({block, p, at, true});
    std::fprintf(
        stderr,
        "  %u: sound copies on targets %x (in reach %x), %s; last seen on target %u slice %u "
        "segment %u page %u, whose platter %s it\n",
        p, known.copies[p], reachable(), (known.seen >> p & 1) != 0 ? "seen" : "not seen",
        at.target, at.slice, at.segment, at.page, whole ? "has" : "does not have");
  }
}

// What is there is known, what is not may come back or not.
bool Truth::missed_clouded(Known& known) {
  for (uint32_t p = 0; p < kWidthMax; ++p)
    known.copies[p] = (known.seen >> p & 1) != 0 ? known.copies[p] : 0;
  return known.seen == 0;
}

// Of what is not in the index any more there must be a cause. True: nothing is known of it.
bool Truth::missed(const BlockId& block, Known& known, bool evicted) {
  if (known.clouded) {
    excused_.insert(block);
    return missed_clouded(known);
  }
  const uint32_t here = reachable();
  if (known.seen == 0 && (evicted || known.rivalled)) return true;
  const bool owed = known.settled && enough(positions(known, here));
  const bool returns = exact_ && known.settled && !owed && enough(positions(known, ~0u));
  if (!owed && !returns && known.settled) excused_.insert(block);
  known.was_away = known.was_away || (returns && (known.seen == 0 || known.away));
  if (known.seen == 0) return missed_all(block, known, owed, returns);
  uint32_t shared = 0;  // targets of those that are there
  for (uint32_t p = 0; p < kWidthMax; ++p) {
    if ((known.seen >> p & 1) != 0) shared |= 1u << known.places[p].target;
  }
  for (uint32_t p = 0; p < kWidthMax; ++p) {
    const bool seen = (known.seen >> p & 1) != 0;
    if ((known.copies[p] & here) == 0) continue;
    if (!seen && (known.copies[p] & here & ~shared) == 0) {
      known.copies[p] &= ~here;  // two were on one target
      continue;
    }
    if (exact_ && !seen) tell(block, known);
    world_.expect(!exact_ || seen,
                  "I10 the fragment of position " + std::to_string(p) + " of " + named(block) +
                      (recovered_ ? " has left the index" : " was not found again"));
    // Of two in reach one counts.
    known.copies[p] &= ~here | 1u << known.places[p].target;
  }
  return false;
}

// The same of a block of which nothing is in the index. What is in reach of one that `returns` is
// there.
bool Truth::missed_all(const BlockId& block, Known& known, bool owed, bool returns) {
  const uint32_t here = reachable();
  const uint32_t in_reach = positions(known, here);
  const bool wrong = exact_ && (owed || (returns && in_reach > 0));
  if (wrong) tell(block, known);
  world_.expect(!wrong, "I10 " + named(block) +
                            (recovered_ ? " has left the index" : " was not found again") +
                            " with " + std::to_string(in_reach) + " fragments in reach of " +
                            std::to_string(positions(known, ~0u)));
  if (returns) return false;
  // What was in reach was given back with it; the rest is there when its target is back.
  for (uint32_t& copies : known.copies)
    copies &= ~here;
  return positions(known, ~0u) == 0 || !known.settled;
}

void Truth::granted(const BlockId& block) {
  const auto found = known_.find(block);
  if (found == known_.end() || enough(positions(found->second, reachable()))) return;
  found->second.rivalled = true;
  excused_.insert(block);
}

void Truth::acked(const BlockId& block, Nanos began_ns) {
  if (!world_.alive() || world_.recovering()) return;
  look();
  excused_.erase(block);
  const bool lost = !world_.is_published(block);
  const bool purged = purges_.touches(block, began_ns);
  // Its answer was on its way through a life that ended, and what befell it since has its excuse.
  const bool earlier = began_ns < world_.booted_ns();
  const bool cause = !exact_ || evicted_ > 0 || world_.any_fault() || purged || earlier;
  world_.expect(!lost || cause, "I10 " + named(block) + " was acknowledged and is not there");
  if (lost || purged) excused_.insert(block);
}

void Truth::died() {
  purges_.died();
  recovered_ = false;
  for (auto& [block, known] : known_)
    known.rivalled = false;  // it was not committed, or the last look has forgotten this one
}

uint32_t Truth::purge_begins(std::set<BlockId> ids, bool by_number,
                             const std::vector<Attempted>& granted) {
  look();
  for (auto& [block, known] : known_)
    known.clouded = known.clouded || ids.contains(whole(block));
  for (const auto& [block, attempt] : granted) {
    if (ids.contains(whole(block))) excused_.insert(block);
  }
  return purges_.begin(std::move(ids), by_number, granted);
}

void Truth::purge_ends(uint32_t purge, bool done) {
  look();  // what was written meanwhile may be ended too
  purges_.end(purge, done);
}

void Truth::target_new(uint32_t target) {
  for (auto& [block, known] : known_) {
    for (uint32_t p = 0; p < kWidthMax; ++p) {
      if (known.places[p].target == target) known.checked &= ~(1u << p);
    }
    for (uint32_t& copies : known.copies)
      copies &= ~(1u << target);
    if (!enough(positions(known, ~0u))) excused_.insert(block);
  }
}

void Truth::target_replaced(uint32_t target) {
  look();
  target_new(target);
  purges_.target_new(target);
}

void Truth::target_emptied(uint32_t target) {
  look();
  for (auto& [block, known] : known_) {
    for (uint32_t p = 0; p < kWidthMax; ++p) {
      const bool only = known.copies[p] == 1u << target && known.seen != 0;
      if (only && exact_) tell(block, known);
      world_.expect(!only || !exact_,
                    "I10 a target is said to be empty and has the one fragment of position " +
                        std::to_string(p) + " of " + named(block));
      known.copies[p] &= ~(1u << target);
    }
  }
}

void Truth::damaged(const Sighting& fragment) {
  damaged_.insert(spot_of(fragment));
  Known& known = known_[fragment.block];
  known.copies[fragment.position] &= ~(1u << fragment.place.target);
  if (!enough(positions(known, ~0u))) excused_.insert(fragment.block);
}

std::vector<Sighting> Truth::on_target(uint32_t target) const {
  std::vector<Sighting> found;
  for (const auto& [block, known] : known_) {
    for (uint32_t p = 0; p < kWidthMax; ++p) {
      const bool there = (known.seen >> p & 1) != 0 && known.places[p].target == target;
      if (there) found.push_back({block, p, known.places[p], known.settled});
    }
  }
  return found;
}

}  // namespace varve::sim
