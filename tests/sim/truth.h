// Truth: where the fragments of every block lie, from what was seen of them and from the faults
// that were injected since, and so which blocks a fault may have cost.
//
// The index is looked at again and again, but what it showed once counts on: a fragment that was on
// flash stays true until a fault hit it or its block was evicted, in this life and in later ones.
// So a block of which k positions are in reach must be a hit, must be delivered and must be found
// after every start, whatever the index says by now; while fewer are, but k are somewhere, what is
// in reach must stay; and of every fragment that leaves the index there must be a cause.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/sim/purge_log.h"
#include "tests/sim/world.h"

namespace varve::sim {

class Truth {
 public:
  // `exact`: no fault strikes but those that are told here.
  Truth(World& world, bool exact) : world_(world), exact_(exact), purges_(world, exact) {}

  // Looks at all indexes and checks what must hold at any time. Often, and before every fault.
  void look();
  // A durable acknowledgement has come for it, of a push that began then: it must be there.
  void acked(const BlockId& block, Nanos began_ns);
  // Somebody may write it: a commit takes the place of what is away.
  void granted(const BlockId& block);
  void died();  // the node: the next look after the next recovery compares
  // What is purged may go from now on, and is gone for good once that is done.
  uint32_t purge_begins(std::set<BlockId> ids, bool by_number,
                        const std::vector<Attempted>& granted);
  void purge_ends(uint32_t purge, bool done);
  const PurgeLog& purges() const { return purges_; }
  // Faults, before they are injected.
  void target_new(uint32_t target);                        // what was there is gone
  void target_replaced(uint32_t target);                   // the same, while the node runs
  void target_emptied(uint32_t target);                    // it was drained: nothing lies there
  void damaged(const Sighting& fragment);                  // in a bad sector, or rotted
  std::vector<Sighting> on_target(uint32_t target) const;  // as of the last look

  // On flash, and k positions are in reach: nothing may cost it but an eviction.
  bool is_safe(const BlockId& block) const;
  // On flash when it was last looked at.
  bool is_known(const BlockId& block) const { return known_.contains(block); }
  // It was purged, written anew, or lost for good, in some life, since it was last acknowledged.
  bool is_excused(const BlockId& block) const { return excused_.contains(block); }
  uint64_t evicted() const { return evicted_; }    // in this life, up to the last look
  uint64_t returned() const { return returned_; }  // blocks that were out of reach and are hits

 private:
  struct Known {
    Attempt attempt;                      // none: no header of it was seen on its platter yet
    uint32_t copies[kWidthMax] = {};      // bit t: target t has a sound fragment of this position
    flash::Place places[kWidthMax] = {};  // as last seen
    uint32_t checked = 0;                 // bit p: the header there was seen, of this attempt
    uint32_t seen = 0;                    // bit p: in the index at the last look
    bool settled = false;
    bool clouded = false;  // a purge may have ended this write: nothing is owed
    bool away = false;     // nobody saw it at the last look
    bool was_away = false;
    bool rivalled = false;  // it was out of reach in this life, and granted to somebody
  };
  using Spot = std::tuple<BlockId, uint32_t, uint32_t, uint32_t, uint32_t>;
  static Spot spot_of(const Sighting& s) {
    return {s.block, s.place.target, s.place.slice, s.place.segment, s.place.page};
  }
  void see(const Sighting& sighting, Known& known);
  void check_seen(const BlockId& block, const Known& known) const;
  void check_purged(const BlockId& block, const Known& known) const;
  void tell(const BlockId& block, const Known& known) const;
  bool missed(const BlockId& block, Known& known, bool evicted);
  bool missed_all(const BlockId& block, Known& known, bool owed, bool returns);
  bool missed_clouded(Known& known);
  uint32_t reachable() const;  // targets
  uint32_t positions(const Known& known, uint32_t targets) const;
  bool enough(uint32_t position_count) const { return position_count >= world_.options().scheme.k; }

  World& world_;
  bool exact_;
  PurgeLog purges_;
  bool recovered_ = false;
  uint32_t boot_ = 0;
  Nanos spread_until_ns_ = 0;
  uint64_t evicted_ = 0;  // at the last look
  uint64_t returned_ = 0;
  std::map<BlockId, Known> known_;
  std::set<BlockId> excused_;
  std::set<Spot> damaged_;
};

}  // namespace varve::sim
