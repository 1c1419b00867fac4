// placement: a mix of the id's first word gives the slice, a mix of its second word with each
// target's key gives the order of targets. Different words, so the two are independent (P2).
#include "common/placement/placement.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace varve {

namespace {

// The finalizer of splitmix64: every input bit reaches every output bit.
constexpr uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// Whole numbers of digits of pi: keep zero words from mixing to zero.
constexpr uint64_t kSliceSalt = 0x243F6A8885A308D3ull;
constexpr uint64_t kTargetSalt = 0x13198A2E03707344ull;

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

}  // namespace varve
