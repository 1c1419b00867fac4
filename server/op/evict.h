// EvictOp: makes room on flash (and in the index) by evicting what the policy proposes.
//
// A block stands in the room of one of its fragments. Wishes of a room are met from it first, then
// from the rooms of the other targets, whose blocks have fragments there too.
// What is away (catalog.h) stands at the front of its room and goes first.
// Wishes are remembered per room (a slice of a target) and met one room and a bounded number of
// candidates at a time, the rest in later turns, so that a full drive never stops a core.
#pragma once

#include <vector>

#include "common/base/base.h"
#include "common/reactor/reactor.h"
#include "server/policy/policy.h"

namespace varve {

struct OpContext;

class EvictOp final : public Task {
 public:
  static constexpr uint32_t kCandidatesPerTurn = 64;
  static constexpr uint32_t kCandidatesMax = 4096;  // then a wish is given up, and counted

  explicit EvictOp(OpContext& context);
  // About `pages` of this room; some are evicted before this returns.
  void room_wanted(uint32_t target, uint32_t slice, uint32_t pages);
  // A wish of this room was given up just now, and nothing was freed for it since.
  bool gave_up(uint32_t target, uint32_t slice) const;
  // A place in the index, for a block of this slice. Looks at kCandidatesPerTurn at most, in other
  // rooms the next time where it found none.
  enum class Place : uint8_t { kMade, kNotYet, kNone };  // kNone: no room had any, one by one
  Place index_wanted(uint32_t slice);
  void run() override;
  const char* name() const override { return "evict"; }
  bool at_rest() const { return wanting_ == 0; }

 private:
  struct Room {
    uint32_t pages = 0;  // still wanted
    uint32_t limit = 0;  // candidates to look at in the next sweep
    uint32_t away = 0;   // which is of the room of the target so many further
    bool any = false;    // one of the rooms of this round has a candidate
    Nanos vain_ns = 0;   // when a wish was given up; 0: something was freed since
  };
  static constexpr uint32_t kAnyTarget = ~0u;
  // Leases end: what was in vain longer ago is tried anew. Clients ask again sooner than that.
  static constexpr Nanos kVainNs = 1 * kSecond;
  struct Sweep {
    uint32_t freed = 0;   // pages
    uint32_t looked = 0;  // candidates
  };
  // Looks at `limit` candidates of a room at most, in eviction order, and evicts those that have a
  // fragment on `target` (kAnyTarget: all), until `pages` are freed there.
  Sweep sweep(uint32_t room, uint32_t target, uint32_t pages, uint32_t limit);
  void sweep_wish(uint32_t room);
  Place index_made();

  OpContext& context_;
  std::vector<Room> rooms_;
  uint32_t wanting_ = 0;     // rooms with a wish
  uint32_t next_ = 0;        // the room to look at next
  uint32_t index_next_ = 0;  // and for a place in the index
  uint32_t index_vain_ = 0;  // rooms that gave none since the last that did
};

}  // namespace varve
