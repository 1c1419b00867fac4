// Which purges are known to which targets, so that none is undone by a target that was away.
#include <algorithm>

#include "server/flash/flash.h"

namespace varve::flash {

namespace {

bool is_open(const Witness& witness) {
  return !witness.missed.empty() && witness.missed.back().end == 0;
}

// Of what this one missed a start that none of `others` knows; 0: there is none. What all of them
// know shrinks only where one of them begins to miss, so no other starts need to be asked for.
template <class Others>
uint32_t unknown_start(const Witness& witness, const Others& others) {
  const auto is_known = [&others](uint32_t start) {
    return std::any_of(others.begin(), others.end(),
                       [start](const Witness* other) { return knows(*other, start); });
  };
  for (const Starts& missed : witness.missed) {
    if (!is_known(missed.first)) return missed.first;
    for (const Witness* other : others) {
      for (const Starts& theirs : other->missed) {
        if (missed.has(theirs.first) && !is_known(theirs.first)) return theirs.first;
      }
    }
  }
  return 0;
}

}  // namespace

bool knows(const Witness& witness, uint32_t start) {
  return witness.from <= start &&
         std::none_of(witness.missed.begin(), witness.missed.end(),
                      [start](const Starts& missed) { return missed.has(start); });
}

void begin_to_miss(Witness& witness, uint32_t start) {
  if (is_open(witness)) return;
  std::vector<Starts>& missed = witness.missed;
  if (!missed.empty() && missed.back().end >= start) {
    missed.back().end = 0;
    return;
  }
  missed.push_back({start, 0});
  if (missed.size() <= kMissedMax) return;
  missed[1].first = missed[0].first;
  missed.erase(missed.begin());
}

void forget_since(Witness& witness, uint32_t start) {
  std::erase_if(witness.missed, [start](const Starts& missed) { return missed.first >= start; });
  begin_to_miss(witness, start);
}

std::vector<Stale> stale_ones(std::span<const TargetLook> looks) {
  std::vector<const Witness*> all;
  for (const TargetLook& look : looks) {
    if (!look.blank) all.push_back(&look.witness);
  }
  std::vector<Stale> stale;
  for (const TargetLook& look : looks) {
    const uint32_t start = look.blank ? 0 : unknown_start(look.witness, all);
    if (start != 0) stale.push_back({look.index, start});
  }
  return stale;
}

void witness_now(std::span<WitnessNow> targets, uint32_t boot_generation, bool recovering) {
  VARVE_ASSERT(boot_generation > 0 && targets.size() <= kTargetsMax, targets.size());
  const std::vector<WitnessNow> before(targets.begin(), targets.end());
  std::vector<const Witness*> working;
  for (const WitnessNow& one : before) {
    if (one.works && !one.drained) working.push_back(&one.witness);
  }
  if (working.empty()) return;
  for (WitnessNow& one : targets) {
    if (one.drained) continue;
    if (!one.works) {
      begin_to_miss(one.witness, boot_generation);
      continue;
    }
    // It has had the place of another since somewhen in this start: of what was purged before
    // nothing is on it, and it is told of all that is purged since, for every shard.
    if (one.witness.from > boot_generation) {
      one.witness.missed.clear();
      continue;
    }
    // It was there when this start began, or it would not work now.
    if (is_open(one.witness)) one.witness.missed.back().end = boot_generation;
    const bool is_owed = one.kept > 0 && one.kept + 1 >= one.witness.from;
    if (recovering || is_owed) continue;
    if (unknown_start(one.witness, working) == 0) one.witness.missed.clear();
  }
}

}  // namespace varve::flash
