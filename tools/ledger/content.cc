// Content: splitmix words over a seed of (block, layer, salt), the salt under a mask in front.
#include "tools/ledger/content.h"

#include <algorithm>

namespace varve::ledger {

namespace {

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

uint64_t mask_of(const BlockId& block, uint32_t layer) {
  return mix(block.base.prefix64() + (uint64_t{block.rank} << 48) + (uint64_t{layer} << 32));
}

uint64_t word(uint64_t seed, uint64_t i) {
  return mix(seed + (i + 1) * 0x9E3779B97F4A7C15ull);
}

}  // namespace

void fill_layer(const BlockId& block, uint32_t layer, Salt salt, ByteSpan out) {
  VARVE_ASSERT(out.size() >= kLayerBytesMin, out.size());
  VARVE_ASSERT(salt != 0);
  const uint64_t seed = mask_of(block, layer) ^ mix(salt);
  store(out, 0, mask_of(block, layer) ^ salt);
  for (size_t at = 8; at < out.size(); at += 8) {
    const uint64_t w = word(seed, at / 8);
    std::memcpy(out.data() + at, &w, std::min<size_t>(8, out.size() - at));
  }
}

bool is_layer_of(const BlockId& block, uint32_t layer, Salt salt, ConstByteSpan bytes) {
  const uint64_t seed = mask_of(block, layer) ^ mix(salt);
  if (load<uint64_t>(bytes) != (mask_of(block, layer) ^ salt)) return false;
  uint64_t difference = 0;
  const size_t whole = bytes.size() / 8;
  for (size_t i = 1; i < whole; ++i)
    difference |= load<uint64_t>(bytes, i * 8) ^ word(seed, i);
  const uint64_t last = word(seed, whole);
  const size_t rest = bytes.size() - whole * 8;
  return difference == 0 && std::memcmp(bytes.data() + whole * 8, &last, rest) == 0;
}

std::optional<Salt> writer_of(const BlockId& block, const std::vector<ConstByteSpan>& layers) {
  VARVE_ASSERT(!layers.empty());
  const Salt salt = load<uint64_t>(layers[0]) ^ mask_of(block, 0);
  if (salt == 0) return std::nullopt;
  for (uint32_t l = 0; l < layers.size(); ++l) {
    if (!is_layer_of(block, l, salt, layers[l])) return std::nullopt;
  }
  return salt;
}

}  // namespace varve::ledger
