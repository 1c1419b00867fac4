// Catalog: what is published on this shard, and the one place where that changes.
//
// A published fragment stands in the index, in the eviction order (once it is on flash), maybe in
// DRAM, and on flash. Everything that adds, moves or removes one goes through here, so that the
// four never disagree: publish and placed (push), recovered (start), moved and reclaim (flash),
// lost (faults), evict (room).
// Invariants:
//   G1 nothing leased, pinned, dirty or younger than the grace after a start is evicted (I4).
//   G2 flash is told of every page that dies, inside one of its own upcalls only where its door
//      says so (recovered, lost, room_wanted).
#pragma once

#include <vector>

#include "common/base/base.h"
#include "common/reactor/reactor.h"
#include "server/flash/flash.h"
#include "server/index/index.h"
#include "server/tier/tier.h"

namespace varve {

struct OpContext;

class Catalog final : public Task {
 public:
  explicit Catalog(OpContext& context);

  // --- push
  // Makes a committed block visible, in memory so far, and binds it to its slab (kDone only).
  Index::Insert publish(TierBlock& block);
  // Its fragment is on flash; called from the append's completion, because reclaim may move it from
  // then on. False when the block went meanwhile: the place is given back.
  bool placed(const TierBlock& block, const flash::Place& place);
  // Flash did not take it: the block is gone.
  void unpublish(TierBlock& block);
  // Makes the blocks of one push the most recent, from the last to the first: leaves are then older
  // than the prefix they need.
  void touch_backwards(std::span<const uint32_t> base_slots, std::span<const BaseId> ids);

  // --- flash
  bool recovered(const flash::FragmentInfo& fragment);
  void recovery_done();
  void lost(const BlockId& block, const flash::Place& place, flash::DropReason reason);
  // Everything there is a miss from now on (is_gone), and leaves the index in the next turns.
  void target_failed(uint32_t target);
  bool is_gone(const Located& located) const {
    return located.state == FragmentState::kFlash && is_failed(located.place.target);
  }
  bool is_failed(uint32_t target) const { return (failed_ >> target & 1) != 0; }
  // True while the index may still hold what is gone.
  bool losing() const { return losing_; }
  flash::FlashUser::Verdict reclaim(const BlockId& block, const flash::Place& place);
  bool is_live(const BlockId& block, const flash::Place& place) const;
  bool moved(const BlockId& block, const flash::Place& from, const flash::Place& to);

  // --- room
  uint32_t room_of(const flash::Place& place) const;
  // Evicts a base id with all its ranks; the pages freed, 0 when it must stay (counted why).
  uint32_t evict(uint32_t base_slot);
  bool in_grace(uint32_t base_slot) const;

  // What reclaim wanted dropped with its siblings is evicted here, in the next turn (G2), and what
  // lay on a failed target is lost, a bounded part of the index a turn.
  void run() override;
  const char* name() const override { return "catalog"; }

 private:
  static constexpr uint32_t kLoseSlotsPerTurn = 256;
  void lose_some();
  bool may_evict(uint32_t base_slot);
  void forget_in_memory(uint32_t fragment_slot);
  void left(const BaseId& id, uint32_t base_slot);

  OpContext& context_;
  std::vector<BaseId> doomed_;
  // Targets that failed since the start, and the walk that loses what lay there.
  static_assert(kTargetsMax <= 64);
  uint64_t failed_ = 0;
  bool losing_ = false;
  uint32_t lose_cursor_ = 0;
  std::vector<std::pair<BlockId, flash::Place>> losses_;  // of one turn
  // Of what recovery found, while it runs: the index has no room for attempts. By fragment slot.
  std::vector<Attempt> attempts_;
  // Base slots that were recovered at this start; consulted until the grace is over.
  std::vector<uint64_t> recovered_bits_;
  Nanos grace_until_ns_ = 0;
};

}  // namespace varve
