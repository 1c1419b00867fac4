// placement: a mix of the id's first word gives the slice, of its second (with each target's key)
// the order of targets, of its third the group, of its fourth the rotation. An id is a SHA-256, so
// different words make the four independent (P2).
#include "common/placement/placement.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "common/placement/cost.h"

namespace varve {

namespace {

// Whole numbers of digits of pi: keep zero words from mixing to zero.
constexpr uint64_t kSliceSalt = 0x243F6A8885A308D3ull;
constexpr uint64_t kTargetSalt = 0x13198A2E03707344ull;
constexpr uint64_t kGroupSalt = 0x3F84D5B5B5470917ull;
constexpr uint64_t kRotationSalt = 0x9216D5D98979FB1Bull;

static_assert(std::has_single_bit(kPlacementGroups));

}  // namespace

uint32_t slice_of(const BaseId& id, uint32_t slices) {
  VARVE_ASSERT(slices >= 1 && slices <= kSlicesMax && std::has_single_bit(slices), slices);
  return static_cast<uint32_t>(mix(id.prefix64() ^ kSliceSalt) % slices);
}

void target_order(const BaseId& id, std::span<const uint64_t> target_keys,
                  std::span<uint8_t> order) {
  VARVE_ASSERT(target_keys.size() <= kTargetsMax, target_keys.size());
  VARVE_ASSERT(order.size() == target_keys.size(), order.size(), target_keys.size());
  const uint64_t word = mix(load<uint64_t>(id.bytes, 8) ^ kTargetSalt);
  std::array<uint64_t, kTargetsMax> score;
  for (size_t i = 0; i < target_keys.size(); ++i)
    score[i] = mix(word ^ mix(target_keys[i]));
  std::iota(order.begin(), order.end(), uint8_t{0});
  // Equal scores mean equal keys; the index then decides, so the order is total.
  std::sort(order.begin(), order.end(), [&](uint8_t a, uint8_t b) {
    return score[a] != score[b] ? score[a] > score[b] : a < b;
  });
}

uint32_t group_of(const BaseId& id) {
  const uint64_t word = mix(load<uint64_t>(id.bytes, 16) ^ kGroupSalt);
  return static_cast<uint32_t>(word % kPlacementGroups);
}

uint32_t rotation_of(const BaseId& id, uint32_t k) {
  VARVE_ASSERT(k >= 1 && k <= kStripeWidthMax, k);
  return static_cast<uint32_t>(mix(load<uint64_t>(id.bytes, 24) ^ kRotationSalt) % k);
}

uint32_t position_of(uint32_t extent, uint32_t rank, const BaseId& id, uint32_t k) {
  VARVE_ASSERT(k >= 1 && k <= kStripeWidthMax, k);
  return static_cast<uint32_t>((uint64_t{extent} + rank + rotation_of(id, k)) % k);
}

}  // namespace varve
