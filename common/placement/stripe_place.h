// StripePlace: on which targets the positions of a placement group are.
//
// Every target has, whether usable or not, its part in where the *homes* of the positions are; only
// then the unusable ones are replaced, one position at a time. So a target that fails costs only
// the positions it held, and they come back when it does (P4).
#pragma once

#include <array>
#include <cstdint>

#include "common/placement/cluster_map.h"

namespace varve {

inline constexpr uint32_t kPlacementGroups = 4096;
inline constexpr uint32_t kStripeWidthMax = 16;  // k + m
inline constexpr uint16_t kNoTarget = 0xFFFF;

struct StripePlace {
  // By position; data positions first. Indexes in the map's list, kNoTarget where there is none.
  std::array<uint16_t, kStripeWidthMax> home;    // all targets usable
  std::array<uint16_t, kStripeWidthMax> target;  // now
  uint32_t width = 0;                            // positions asked for
  uint32_t count = 0;                            // positions that have a target now
  // The highest level, at most the map's spread, at which no two targets share a domain now.
  DomainLevel domain_level_used = DomainLevel::kDrive;
  // The most positions that one domain of the map's spread holds now: what its loss would cost.
  uint32_t domain_positions_max = 0;

  bool thin() const { return count < width; }
};

// 1 <= width <= kStripeWidthMax; the map is valid. About width * targets hashes and some memory:
// keep the answers of an epoch, they are kPlacementGroups at most.
StripePlace place_stripe(const ClusterMap& map, uint32_t group, uint32_t width);

// For a new stripe on fewer targets than its width: data positions without a target take those of
// the last parity positions, so that there are k data holders while there are k targets. Says
// nothing about stripes written before: what they have where, their fragments say.
StripePlace thin_place(const StripePlace& place, uint32_t k);

}  // namespace varve
