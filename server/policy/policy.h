// policy: who is admitted and who goes, as pure interfaces over index slots.
//
// Owns: EvictionPolicy, AdmissionPolicy and the first of each: leaf-first LRU, admit-all. Called by
// server/shard. Thread rule: owner core. Time and randomness come as arguments.
// Leaf-first: a prefix's blocks live on many shards, so no policy sees the chain; instead every
// touch of a prefix is fed from its leaf to its root, so that at equal recency the leaf is the
// older one and goes first. The same after a push: the caller touches what it published, leaf to
// root. Invariants:
//   Y1 victim() never proposes a slot that was removed.
//   Y2 no allocation after construction.
//   Y3 leaf first: while every touch is fed from leaf to root, no slot is proposed before a slot of
//      the same room that needs it, but for those that came in as the oldest.
#pragma once

#include <cstdint>
#include <memory>

#include "common/base/base.h"

namespace varve {

inline constexpr uint32_t kNoSlot = ~0u;
inline constexpr uint32_t kPolicyRoomsMax = 4094;
inline constexpr uint32_t kPolicyBytesPerSlot = 12;  // counted by the index (its IndexBytes)

// Keeps an order per room (a slice of a target); slots are dense base-entry indexes of the index.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  virtual const char* name() const = 0;
  // Enters as the most recent of `room`; a slot that is already in moves there.
  virtual void insert(uint32_t slot, uint32_t room) = 0;
  // The same as its oldest: what gives no hits now goes before what does.
  virtual void insert_oldest(uint32_t slot, uint32_t room) = 0;
  // Touch and remove of a slot that is not in do nothing: a block that is in DRAM only has no room.
  virtual void touch(uint32_t slot) = 0;
  virtual void remove(uint32_t slot) = 0;
  // Next candidate of `room` after `previous` (kNoSlot: the first), which must still be in `room`;
  // kNoSlot when there is none. The caller skips what is leased or pinned and goes on.
  virtual uint32_t victim(uint32_t room, uint32_t previous) const = 0;
  // Reclaim asks: copy it (true) or let it go with its segment? False for what is not in.
  virtual bool reinsert(uint32_t slot) const = 0;
};
// Slots 0 .. slots_max - 1, rooms 0 .. rooms - 1 (at most kPolicyRoomsMax).
std::unique_ptr<EvictionPolicy> make_leaf_first_lru(uint32_t slots_max, uint32_t rooms);

struct AdmissionQuestion {
  uint64_t bytes = 0;
  uint32_t depth_known = 0;  // 1 when the parent is known to the caller
};
enum class Admit : uint8_t { kYes, kNo };
class AdmissionPolicy {
 public:
  virtual ~AdmissionPolicy() = default;
  virtual const char* name() const = 0;
  virtual Admit admit(const AdmissionQuestion& question) = 0;
};
std::unique_ptr<AdmissionPolicy> make_admit_all();

}  // namespace varve
