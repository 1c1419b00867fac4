// PurgeLog: what was purged in a run, which attempts that ended, and whether the node still knows
// (I10, docs/adr/ADR-0004-purge.md).
//
// A purge ends the attempts that were granted before it began, from its answer on and for ever:
// in its own life, and in every later one that a target took part in which knows: of single blocks
// one that worked when it was answered, and so has the records; of a lineage or the domain also one
// that was at a start together with one that knew. A start without any must have been refused
// (STALE); where none is left, because all were replaced, nothing is demanded. A purge whose answer
// was not seen may have ended anything that it names until the node died, and nothing is demanded
// either way. Used by Truth (fragments) and by the actors (hits and bytes).
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/model/model.h"
#include "tests/sim/world.h"

namespace varve::sim {

using Attempted = std::pair<BlockId, Attempt>;  // one write of one block

// A base id in its domain: what is purged.
inline BlockId whole(const BlockId& block) {
  return {block.base, 0, block.domain};
}

class PurgeLog {
 public:
  // `exact`: no rot strikes but what is told; else a KILL record may be lost with its page.
  PurgeLog(const World& world, bool exact) : world_(world), exact_(exact) {}

  // `by_number`: of a lineage or the domain, which superblocks keep and not records.
  uint32_t begin(std::set<BlockId> ids, bool by_number, const std::vector<Attempted>& granted);
  // Its answer: done, or nobody knows what it still does.
  void end(uint32_t purge, bool done);
  void died();                       // the node: whatever was under way stands as it stood
  void started();                    // the node has recovered what it could
  void target_new(uint32_t target);  // what it knew is gone

  // A purge of it was under way at some time from then on: it may have gone.
  bool touches(const BlockId& block, Nanos since_ns) const;
  // What is written of it now may be ended by a purge that has begun.
  bool clouds(const BlockId& block) const { return touches(block, world_.now_ns()); }
  // A purge that had ended this write was answered before `before_ns`, and the node knows.
  bool is_dead(const BlockId& block, const Attempt& attempt, Nanos before_ns) const;
  bool was_dead(const BlockId& block) const;  // some write of it, by any purge
  uint64_t done_count() const { return done_count_; }

 private:
  struct Purge {
    std::set<BlockId> ids;  // whole
    bool by_number = false;
    bool done = false;
    Nanos begin_ns = 0;
    Nanos end_ns = kNever;  // of what it may do: kNever while it may go on
    Nanos answered_ns = kNever;
    uint32_t boot = 0;   // of its life
    uint32_t holds = 0;  // the last life in which the node knows
    uint32_t knowing =
        0;  // bit t: target t took it, or (by_number) was at a start with one that had
    bool settled = false;  // by_number: the node's own list has it
  };
  uint32_t targets_here() const;

  const World& world_;
  bool exact_;
  bool stale_ = false;  // in this life, of some purge by number: the next one may count from below
  std::vector<Purge> purges_;
  std::map<Attempted, std::vector<uint32_t>> ended_;  // by which purges, done or not
  uint64_t done_count_ = 0;
};

}  // namespace varve::sim
