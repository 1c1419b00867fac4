// index: what one shard holds, by base id.
//
// Owns: a fixed open-addressing table of base entries (48 B: id, rank bitmap, first fragment, leases, flags) and
// a dense pool of fragments (16 B: place, rank, state). Called by server/op and server/shard.
// Thread rule: owner core only.
// Invariants:
//   X1 nothing is allocated after construction; memory per fragment with everything (policy links included)
//      <= 96 bytes at load 0.8 (architecture 10).
//   X2 find() is exact: full 32-byte comparison.
//   X3 an entry with leases > 0 is never removed (I4); remove asserts it.
//   X4 a match changes nothing here (I5); recency goes through the policy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/base.h"
#include "common/model/model.h"
#include "server/flash/flash.h"

namespace varve {

enum class FragmentState : uint8_t {
  kMemory = 1,  // committed, in DRAM only so far (write-behind)
  kFlash = 2,   // placed
};

// Slots are stable until the entry is removed. `base_slot` for policy and leases, `fragment_slot` for the tier.
struct Located {
  uint32_t base_slot = ~0u;
  uint32_t fragment_slot = ~0u;
  FragmentState state = FragmentState::kFlash;
  flash::Place place;  // valid when kFlash
};

struct IndexOptions {
  uint32_t fragments_max = 0;
  uint32_t slice_count = kSlicesDefault;
};

class Index {
 public:
  explicit Index(const IndexOptions& options);
  ~Index();

  // Rank bitmap of an id; 0 when unknown. The hot path: >= 1 M ids/s a core (architecture 10).
  uint32_t ranks_of(const BaseId& id) const;
  // Leading ids of which all `rank_count` ranks are there; fills nothing else. Prefetches ahead in the batch.
  uint32_t match(std::span<const BaseId> ids, uint32_t rank_count) const;
  std::optional<Located> find(const BlockId& block) const;
  std::optional<uint32_t> base_slot(const BaseId& id) const;
  BaseId base_at(uint32_t base_slot) const;

  enum class Insert : uint8_t { kDone, kExists, kFull };
  // Publishes a fragment (I2). kExists: that rank is already there (nothing changed).
  Insert insert(const BlockId& block, FragmentState state, const flash::Place& place, Located* out);
  // Memory -> flash, or flash -> flash (moved). False when the block is gone or its place differs from `from`.
  bool place_set(const BlockId& block, const flash::Place* from, const flash::Place& to);
  // Removes one rank; the base entry goes with its last rank. Returns what was there.
  std::optional<Located> remove(const BlockId& block);
  // Visits every fragment of a base slot.
  template <class Visit>
  void for_each_rank(uint32_t base_slot, Visit visit) const {
    for (uint32_t f = first_fragment(base_slot); f != ~0u; f = next_fragment(f)) visit(rank_of(f), located(f));
  }

  void lease_add(uint32_t base_slot);
  void lease_drop(uint32_t base_slot);
  uint32_t leases(uint32_t base_slot) const;

  uint32_t base_count() const;
  uint32_t fragment_count() const;
  uint32_t fragments_max() const;
  uint32_t base_slots_max() const;
  uint64_t memory_bytes() const;  // all in
  // Visits all blocks in table order, from `cursor`, at most `limit` entries; returns the next cursor, 0 at the end.
  uint32_t scan(uint32_t cursor, uint32_t limit, void (*visit)(void*, const BlockId&, const Located&), void* context) const;

 private:
  uint32_t first_fragment(uint32_t base_slot) const;
  uint32_t next_fragment(uint32_t fragment) const;
  uint32_t rank_of(uint32_t fragment) const;
  Located located(uint32_t fragment) const;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace varve
