// placement: which slice and which target a base id belongs to. Pure; shared by client and daemon.
//
// Owns: slice_of (the home, by a hash independent of target_of's) and target_order (rendezvous).
// Weights, failure domains and coding groups join with erasure coding. Thread rule: free.
// Invariants: P1 adding one of n targets moves at most 1.1/n of the ids. P2 slice and target are
// independent.
#pragma once

#include <cstdint>

#include "common/base/base.h"
#include "common/model/model.h"

namespace varve {

inline constexpr uint32_t kTargetsMax = 32;
inline constexpr uint32_t kSlicesMax = 64;
inline constexpr uint32_t kSlicesDefault = 16;

uint32_t slice_of(const BaseId& id, uint32_t slices);
constexpr uint32_t shard_of_slice(uint32_t slice, uint32_t slices, uint32_t shards) {
  return slice * shards / slices;
}
// Fills order[0..targets) with target indexes, best first. `weights` seeds are the targets' uuids'
// prefixes.
void target_order(const BaseId& id, std::span<const uint64_t> target_keys,
                  std::span<uint8_t> order);

}  // namespace varve
