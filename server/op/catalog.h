// Catalog: what is published on this shard, and the one place where that changes.
//
// A published block stands in the index, in the eviction order (once it is on flash), maybe in
// DRAM, and as k + m fragments on flash. Everything that adds, moves or removes one goes through
// here, so that the four never disagree: publish, placed and settled (push), recovered (start),
// moved and reclaim (flash), lost (faults), evict (room). Invariants:
//   G1 nothing leased, pinned, dirty or younger than the grace after a start is evicted (I4).
//   G2 flash is told of every page that dies, inside one of its own upcalls only where its door
//      says so (recovered, lost, room_wanted).
//   G3 a block on flash of which fewer than k fragments can be read is no hit, DRAM or not. While
//      targets are away that may have the others it is away itself: it stays as it is, unseen, and
//      goes before all others when room is wanted; a start that finds enough of them has it whole
//      again (I10). Without such targets it is gone. One of which some are missing is thin, and
//      repair is told.
#pragma once

#include <optional>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "common/base/base.h"
#include "common/reactor/reactor.h"
#include "server/flash/flash.h"
#include "server/index/index.h"
#include "server/tier/tier.h"

namespace varve {

struct OpContext;

// For tables by block: clients choose ids as they like, and cannot aim them at one bucket.
struct BlockHash {
  uint64_t seed = 0;  // a secret of this process
  size_t operator()(const BlockId& block) const {
    static_assert(std::has_unique_object_representations_v<BlockId>);
    return xxh3(seed, bytes_view(block));
  }
};

class Catalog final : public Task {
 public:
  explicit Catalog(OpContext& context);

  // --- push
  // Makes a committed block visible, in memory so far, and binds it to its slab (kDone only).
  Index::Insert publish(TierBlock& block, uint32_t rank_count);
  // One of its fragments is on flash; called from the append's completion, because reclaim may move
  // it from then on. A block that went meanwhile: the place is given back.
  void placed(const TierBlock& block, uint32_t position, const flash::Place& place);
  // All that could be written is: read from flash from now on. False: fewer than `needed` fragments
  // are there, and the block is gone.
  bool settled(TierBlock& block, uint32_t needed);
  // Makes the blocks of one push the most recent, from the last to the first: leaves are then older
  // than the prefix they need.
  void touch_backwards(uint32_t domain, std::span<const uint32_t> base_slots,
                       std::span<const BaseId> ids);
  // Repair has written the fragment of a position that had none, or whose target is being drained:
  // what lies there is given back. False: the block went or has it; the new place is given back.
  bool repaired(const BlockId& block, const Attempt& attempt, uint32_t position,
                const flash::Place& place);

  // --- flash
  bool recovered(const flash::FragmentInfo& fragment);
  void recovery_done();
  void lost(const BlockId& block, const flash::Place& place, flash::DropReason reason);
  // What lies there is lost from now on (is_gone), and leaves the index in the next turns.
  void target_failed(uint32_t target);
  // Another drive has its place, empty, when nothing here lies on the old one any more
  // (replaceable): what waited for it to come back is given up, where it was needed.
  void target_replaced(uint32_t target);
  Status replaceable(uint32_t target) const;
  bool is_failed(uint32_t target) const { return (failed_ >> target & 1) != 0; }
  // Positions whose fragment may be read.
  uint16_t readable(const Located& located) const;
  // Of these, those on targets that are not suspect, while they are enough to read the block.
  uint16_t usable(const Located& located) const;
  // Whether its fragment of this position is on a target that is being drained.
  bool leaves(const Located& located, uint32_t position) const;
  // On flash, and fewer than k fragments may be read.
  bool is_gone(const Located& located) const;
  // Takes a block out that is gone or shall go, whatever is left of it.
  void drop(const BlockId& block, const Located& located);
  // Whether a rank of it is away.
  bool is_away(uint32_t base_slot) const;
  // True while the index may still hold what is gone.
  bool losing() const { return losing_ || undecided_; }
  flash::FlashUser::Verdict reclaim(const BlockId& block, const flash::Place& place);
  bool is_live(const BlockId& block, const flash::Place& place) const;
  bool moved(const BlockId& block, const flash::Place& from, const flash::Place& to);

  // --- purge
  // Takes a block out, whoever leases or reads it: nothing of it is sent any more (O7). The pages
  // that became unreachable.
  uint64_t purge(const BlockId& block, const Located& located);
  // While recovery runs: nothing of this id that the limit ends is kept, now or later.
  void killed(uint32_t domain, const BaseId& base, const Attempt& limit);
  // False while the slice of an id recovers: a KILL record of it may still be found.
  bool serves(const BaseId& base) const;

  // --- room
  // Evicts a base id with all its ranks; the pages freed, 0 when it must stay (counted why).
  uint32_t evict(uint32_t base_slot);
  // Of those, how many are on `target`.
  uint32_t pages_on(uint32_t base_slot, uint32_t target) const;
  bool in_grace(uint32_t base_slot) const;

  // What reclaim wanted dropped with the rest of it is evicted here, in the next turn (G2), and
  // what lay on a failed target is lost, a bounded part of the index a turn.
  void run() override;
  const char* name() const override { return "catalog"; }

 private:
  static constexpr uint32_t kLoseSlotsPerTurn = 256;
  struct Loss {
    BlockId block;
    Located located;
  };
  void lose_some();
  void lose_failed(const BlockId& block, const Located& located);
  std::optional<uint32_t> crowded(const Located& located) const;
  void spread(const BlockId& block);
  void look_after(const BlockId& block);
  void give_up(const BlockId& block, const Located& located);
  void count_lost(const Located& located);
  void say_away();
  bool gather(const flash::FragmentInfo& fragment, Located* located);
  bool outdates(const flash::FragmentInfo& copy, const Located& located) const;
  bool drop_remnants();
  uint32_t room_of(const BaseId& id, const Located& located) const;
  bool may_evict(uint32_t base_slot);
  void forget_in_memory(uint32_t block_slot);
  void left(const BlockId& block, uint32_t base_slot);
  bool is_known(uint32_t domain) const;
  bool is_known(const flash::FragmentInfo& fragment) const;
  void say_unknown() const;

  OpContext& context_;
  std::vector<BlockId> doomed_;  // whatever their rank, the whole base
  // Targets that failed since the start, and the walk that loses what lay there, and after recovery
  // what it did not find whole.
  static_assert(kTargetsMax <= 64);
  uint64_t failed_ = 0;
  bool losing_ = false;
  bool undecided_ = false;  // recovery may still find what makes a block of too few fragments whole
  uint32_t lose_cursor_ = 0;
  uint32_t said_away_ = 0;  // blocks
  // The walk that drops remnants for room, and how many slices were whole when it began, and when
  // the last one did that came to its end: without more of them there is nothing to find.
  uint32_t remnant_cursor_ = 0, remnant_slices_ = 0, remnant_slices_done_ = 0;
  std::vector<Loss> losses_;  // of one turn
  // Of what recovery found, while it runs: the index has no room for attempts. By block slot.
  std::vector<Attempt> attempts_;
  // What must not be, while it runs; rank 0.
  std::unordered_map<BlockId, Attempt, BlockHash> killed_;
  // Base slots that were recovered at this start; consulted until the grace is over.
  std::vector<uint64_t> recovered_bits_;
  Nanos grace_until_ns_ = 0;
};

}  // namespace varve
