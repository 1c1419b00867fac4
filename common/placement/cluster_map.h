// ClusterMap: the targets that exist, what each can carry, where it stands, and an epoch.
//
// A map is a value: made by whoever is the authority (a file for one node), never changed in place;
// a change is a new map with a larger epoch. Placement does not depend on the order of its targets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace varve {

inline constexpr uint32_t kMapTargetsMax = 4096;
inline constexpr uint32_t kTargetWeightMax = (1u << 24) - 1;  // 16 PiB where the unit is a GiB

// What can fail as one. A target is in one domain of each level, and domains nest.
enum class DomainLevel : uint8_t { kDrive = 0, kNode = 1, kRack = 2, kZone = 3 };
inline constexpr uint32_t kDomainLevels = 4;
const char* domain_level_name(DomainLevel level);

// Only a usable target is given positions. A draining one can still be read; a lost one cannot.
enum class TargetState : uint8_t { kUsable = 1, kDraining = 2, kLost = 3 };
const char* target_state_name(TargetState state);

struct TargetSpec {
  uint64_t key = 0;     // names the target for ever: the prefix of its uuid
  uint32_t weight = 1;  // its share of the data, in a unit that the map chooses; never 0
  uint32_t node = 0;  // numbers are of the whole cluster: a node is in one rack, a rack in one zone
  uint32_t rack = 0;
  uint32_t zone = 0;
  TargetState state = TargetState::kUsable;

  bool usable() const { return state == TargetState::kUsable; }
  bool operator==(const TargetSpec&) const = default;
};

struct ClusterMap {
  uint64_t epoch = 0;  // from 1
  std::vector<TargetSpec> targets;
  DomainLevel spread = DomainLevel::kDrive;  // no two positions of a stripe in one of these

  // Every problem of the map, each naming its target; empty when it is good. A map from a file or
  // a peer is used only after this (I12).
  std::vector<std::string> validate() const;
  bool operator==(const ClusterMap&) const = default;
};

// The domain of `level` that a target is in: a number unique within the level.
uint64_t domain_of(const TargetSpec& target, DomainLevel level);

}  // namespace varve
