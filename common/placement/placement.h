// placement: which slice, group, targets and position a base id belongs to. Pure functions of an id
// and a map, computed alike by client and daemon. docs/FORMAT.md section 10 has every bit.
//
// Owns: slice_of (the home), group_of, rotation_of and position_of; ClusterMap (targets, weights,
// failure domains, epoch); place_stripe (weighted rendezvous of a group); target_order (rendezvous
// of one id, while the scheme is 1+0). Called by server/op, server/cluster and client. Thread rule:
// values, free.
// Invariants:
//   P1 adding or removing one of n equal targets moves about 1/n of the (group, position) pairs: on
//      average at most 1.1/n while there are two domains a position, more below (FORMAT 10.5).
//   P2 slice, group, rotation and target order read four different words of the id.
//   P3 no two positions are on one target, and none share a domain while there are enough domains.
//   P4 a position whose home is usable is at its home, whatever happens to any other target.
//   P5 whole-number arithmetic only: equal on every compiler and machine.
#pragma once

#include <cstdint>

#include "common/base/base.h"
#include "common/model/model.h"
#include "common/placement/cluster_map.h"   // IWYU pragma: export
#include "common/placement/stripe_place.h"  // IWYU pragma: export

namespace varve {

inline constexpr uint32_t kTargetsMax = 32;  // of one node
inline constexpr uint32_t kSlicesMax = 64;
inline constexpr uint32_t kSlicesDefault = 16;

uint32_t slice_of(const BaseId& id, uint32_t slices);
constexpr uint32_t shard_of_slice(uint32_t slice, uint32_t slices, uint32_t shards) {
  return slice * shards / slices;
}
// Fills order[0..targets) with target indexes, best first. `target_keys` are the prefixes of the
// targets' uuids.
void target_order(const BaseId& id, std::span<const uint64_t> target_keys,
                  std::span<uint8_t> order);

// The placement group, below kPlacementGroups: all blocks of a group are placed alike.
uint32_t group_of(const BaseId& id);
// h(id) mod k: where extent 0 of rank 0 goes. 1 <= k <= kStripeWidthMax.
uint32_t rotation_of(const BaseId& id, uint32_t k);
// The data position, below k, of an extent: (extent + rank + h(id)) mod k. Parity extent j of any
// stripe group is at position k + j. `extent` is the index in the extent table.
uint32_t position_of(uint32_t extent, uint32_t rank, const BaseId& id, uint32_t k);

}  // namespace varve
