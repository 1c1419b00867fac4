// index: what one shard holds, by domain and base id.
//
// Owns: a dense pool of base entries (48 B: id, domain, rank bitmap, first block, leases), a pool
// of blocks (one per base id and rank: k + m fragments of 16 B, by position: place, state) and an
// open-addressing table of 8-byte buckets {tag, slot} that finds a base entry. The pools hold still
// while the table shuffles: that is what makes slots stable. Called by server/op and server/shard.
// Thread rule: owner core only.
// Invariants:
//   X1 nothing is allocated after construction; memory per fragment with everything (policy links
//      included) <= 96 bytes at load 0.8 (architecture 10).
//   X2 find() is exact: full comparison of domain and base id. One id in two domains is two entries
//      that never meet.
//   X3 an entry with leases > 0 is never evicted (I4); remove() asserts it. Bytes lost to a fault
//      go by lose() and drop(): the rank is a miss at once, the entry stays (without ranks) until
//      its last lease is dropped.
//   X4 a match changes nothing here (I5); recency goes through the policy.
//   X5 a block is seen (match, find) from publication on: never while it is away.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "common/base/base.h"
#include "common/model/model.h"
#include "server/flash/flash.h"

namespace varve {

enum class BlockState : uint8_t {
  // Some of its fragments are known, fewer than k: nobody sees it. Recovery may find the others, or
  // they are on targets that are away, and come back with them at a later start.
  kAway = 1,
  kMemory = 2,  // committed, whole in DRAM; its fragments are being written
  kFlash = 3,   // read from its fragments
};

// Slots are stable until the entry is removed. `base_slot` for policy and leases, `block_slot` for
// the tier.
struct Located {
  uint32_t base_slot = ~0u;
  uint32_t block_slot = ~0u;
  BlockState state = BlockState::kFlash;
  uint16_t live = 0;  // bit p: the fragment of position p has a place
  bool has(uint32_t position) const { return (live >> position & 1) != 0; }
};

struct IndexOptions {
  uint32_t blocks_max = 0;  // and as many base ids at most; blocks_max * width: 1 .. 2^31
  Scheme scheme = {};       // of every block
  uint32_t slice_count = kSlicesDefault;
  uint64_t hash_seed = 0;  // secret of this process: forged ids cannot be aimed at one bucket
};

// X1 in one place: bytes per block of one rank at capacity, with what other rooms keep per slot.
struct IndexBytes {
  static constexpr uint32_t kBase = 48;
  static constexpr uint32_t kFragment = 16;  // k + m of them
  static constexpr uint32_t kBuckets = 10;   // 8 B at load 0.8
  static constexpr uint32_t kPolicy = 12;    // server/policy: kPolicyBytesPerSlot
  static constexpr uint32_t kTierMap =
      6;  // server/tier: kTierMapBytesPerBlock, all in DRAM at once
  static constexpr uint32_t kLineage = 2;   // server/op: whose purge ends it
  static constexpr uint32_t kSiblings = 1;  // server/op: kSiblingBytesPerSlot
  static constexpr uint32_t kSum =
      kBase + kFragment + kBuckets + kPolicy + kTierMap + kLineage + kSiblings;
};
static_assert(IndexBytes::kSum <= 96);  // of the dearest scheme, 1+0

class Index {
 public:
  explicit Index(const IndexOptions& options);
  ~Index();

  // Ranks of an id that are seen; 0 when unknown.
  uint32_t ranks_of(uint32_t domain, const BaseId& id) const;
  // Leading ids of this domain of which all `rank_count` ranks are there; fills nothing else.
  // Prefetches ahead in the batch: >= 1 M ids/s a core (architecture 10). An id that occurs twice
  // is answered like any other.
  uint32_t match(uint32_t domain, std::span<const BaseId> ids, uint32_t rank_count) const;
  // The same of each id, whatever is missing before it: base_slots[i], ~0 where it is not there.
  void match_each(uint32_t domain, std::span<const BaseId> ids, uint32_t rank_count,
                  std::span<uint32_t> base_slots) const;
  std::optional<Located> find(const BlockId& block) const;
  // Asks the memory for where this id stands or would stand; changes nothing.
  void prefetch(uint32_t domain, const BaseId& id) const;
  std::optional<uint32_t> base_slot(uint32_t domain, const BaseId& id) const;
  // Of this rank of what stands there.
  BlockId block_at(uint32_t base_slot, uint32_t rank) const;

  // The same whatever the state: for recovery and for whoever takes blocks out.
  std::optional<Located> find_any(const BlockId& block) const;
  // Where the fragment of a position lies that has a place (asserted).
  flash::Place place_of(const Located& located, uint32_t position) const;
  // The position whose fragment lies there.
  std::optional<uint32_t> position_of(const Located& located, const flash::Place& place) const;

  enum class Insert : uint8_t { kDone, kExists, kFull };
  // A block without places, as it is found or published (I2). kExists: that rank is already
  // there, in whatever state (nothing changed). `out` may be null; it is filled unless kFull.
  Insert insert(const BlockId& block, BlockState state, Located* out);
  // The fragment of a position that had no place (asserted) lies there now.
  void place_add(const Located& located, uint32_t position, const flash::Place& to);
  // A fragment moved. False when the block is gone or none of it lies at `from`.
  bool place_move(const BlockId& block, const flash::Place& from, const flash::Place& to);
  // Away or memory -> flash: at least k positions have a place.
  void settle(const Located& located);
  // Flash -> away: too few of them can be read. Leased or not, its rank is a miss at once (X3).
  void hide(const Located& located);
  // The fragment of one position is gone; the block stays, however few are left.
  void lose(const Located& located, uint32_t position);
  // Evicts one rank; the base entry goes with its last rank. Returns what was there. Asserts that
  // the base is not leased (X3).
  std::optional<Located> remove(const BlockId& block);
  // The same for bytes lost to a fault (rot, a lost target), leased or not.
  std::optional<Located> drop(const BlockId& block);
  // Visits every block of a base slot, rising rank, in whatever state; `visit` may remove the one
  // it is shown.
  template <class Visit>
  void for_each_rank(uint32_t base_slot, Visit visit) const {
    for (uint32_t b = first_block(base_slot); b != ~0u;) {
      const uint32_t next = next_block(b);
      visit(rank_of(b), located(base_slot, b));
      b = next;
    }
  }

  void lease_add(uint32_t base_slot);
  void lease_drop(uint32_t base_slot);
  uint32_t leases(uint32_t base_slot) const;

  uint32_t base_count() const;  // with those that only a lease keeps
  uint32_t block_count() const;
  uint32_t blocks_max() const;
  uint32_t base_slots_max() const;
  // Blocks on flash of which a fragment has no place: what repair has to do.
  uint32_t thin_count() const;
  uint32_t away_count() const;  // blocks
  // Fragments that have a place on a target, of blocks in whatever state.
  uint32_t fragments_on(uint32_t target) const;
  // Of each domain: blocks in whatever state, and the pages of their fragments that have a place.
  const DomainSums& blocks_by_domain() const;
  const DomainSums& pages_by_domain() const;
  uint64_t memory_bytes() const;  // all in, see IndexBytes
  // Visits all blocks in slot order from `cursor` (0 = start), looking at `limit` base slots at
  // most; returns the next cursor, 0 at the end. A block that stays through all the calls is
  // visited exactly once, whatever its state. `visit` must not change the index.
  using ScanVisit = void (*)(void* context, const BlockId& block, const Located& located);
  uint32_t scan(uint32_t cursor, uint32_t limit, ScanVisit visit, void* context) const;

 private:
  uint32_t first_block(uint32_t base_slot) const;
  uint32_t next_block(uint32_t block_slot) const;
  uint32_t rank_of(uint32_t block_slot) const;
  Located located(uint32_t base_slot, uint32_t block_slot) const;
  std::optional<Located> take_out(uint32_t base_slot, uint32_t rank);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace varve
