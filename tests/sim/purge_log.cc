// PurgeLog: who knows of a purge, from start to start.
#include "tests/sim/purge_log.h"

#include <algorithm>

namespace varve::sim {

uint32_t PurgeLog::targets_here() const {
  uint32_t targets = 0;
  for (uint32_t t = 0; t < world_.options().targets; ++t)
    targets |= world_.faulted(t) ? 0 : 1u << t;
  return targets;
}

uint32_t PurgeLog::begin(std::set<BlockId> ids, bool by_number,
                         const std::vector<Attempted>& granted) {
  const auto number = static_cast<uint32_t>(purges_.size());
  // Where the node has forgotten a number it may give it once more, to what was written since.
  if (!by_number || !stale_) {
    for (const Attempted& attempted : granted) {
      if (ids.contains(whole(attempted.first))) ended_[attempted].push_back(number);
    }
  }
  Purge purge;
  purge.ids = std::move(ids);
  purge.by_number = by_number;
  purge.begin_ns = world_.now_ns();
  purge.boot = world_.boots();
  purges_.push_back(std::move(purge));
  return number;
}

void PurgeLog::end(uint32_t number, bool done) {
  Purge& purge = purges_[number];
  VARVE_ASSERT(!purge.done, number);
  // An answer of another life than the one it was asked in says nothing.
  if (!done || purge.end_ns != kNever || purge.boot != world_.boots() || !world_.alive()) return;
  purge.done = true;
  purge.answered_ns = purge.end_ns = world_.now_ns();
  purge.holds = purge.boot;
  purge.knowing = world_.works_all();  // those that did not take it have failed by now
  ++done_count_;
}

void PurgeLog::died() {
  for (Purge& purge : purges_) {
    // Half a purge by number is on some superblocks: it goes on when one of them comes back.
    if (purge.end_ns == kNever && !purge.by_number) purge.end_ns = world_.now_ns();
  }
}

void PurgeLog::started() {
  const uint32_t here = targets_here();
  stale_ = false;
  for (Purge& purge : purges_) {
    if (purge.boot == world_.boots()) continue;  // begun while this life recovered
    const bool known = purge.settled || (purge.knowing & here) != 0;
    // Of drives that were blank at this start nothing can come back.
    const bool demanded = purge.done && !purge.settled && world_.present_old() != 0 &&
                          (purge.knowing & ~world_.drained_targets()) != 0;
    world_.expect(!exact_ || !demanded || (purge.knowing & world_.present()) != 0,
                  "I10 a start without any target that knows of a purge");
    if (purge.done && known) {
      purge.holds = world_.boots();
      if (purge.by_number) purge.knowing = here;  // records stay with those that took them
      purge.settled = purge.by_number;
      if (purge.end_ns == kNever) purge.end_ns = world_.now_ns();
    } else if (purge.done && purge.by_number && purge.knowing != 0) {
      purge.end_ns = kNever;  // it ends once more what is written until it is known again
      stale_ = true;
    } else if (!purge.done && purge.end_ns == kNever) {
      const bool all = here == (1u << world_.options().targets) - 1;
      if (all) purge.end_ns = world_.now_ns();
      stale_ = stale_ || !all;
    }
  }
}

void PurgeLog::target_new(uint32_t target) {
  for (Purge& purge : purges_) {
    purge.knowing &= ~(1u << target);
    if (purge.done && purge.knowing == 0 && !purge.settled && purge.end_ns == kNever) {
      purge.end_ns = world_.now_ns();  // nobody will ever know
    }
  }
}

bool PurgeLog::touches(const BlockId& block, Nanos since_ns) const {
  return std::any_of(purges_.begin(), purges_.end(), [&](const Purge& purge) {
    return purge.end_ns >= since_ns && purge.ids.contains(whole(block));
  });
}

bool PurgeLog::is_dead(const BlockId& block, const Attempt& attempt, Nanos before_ns) const {
  const auto found = ended_.find({block, attempt});
  if (found == ended_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](uint32_t number) {
    const Purge& purge = purges_[number];
    const bool knows = purge.holds == world_.boots() && (exact_ || purge.boot == purge.holds);
    return purge.done && knows && purge.answered_ns < before_ns;
  });
}

bool PurgeLog::was_dead(const BlockId& block) const {
  const auto from = ended_.lower_bound({block, Attempt()});
  return from != ended_.end() && from->first.first == block;
}

}  // namespace varve::sim
