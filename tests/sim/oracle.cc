// Oracle: content by salt, writers by block.
#include "tests/sim/oracle.h"

namespace varve::sim {

namespace {

uint64_t word(uint64_t seed, uint64_t i) {
  uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 31)) * 0xBF58476D1CE4E5B9ull;
  return z ^ (z >> 29);
}

uint64_t layer_seed(const BlockId& block, uint32_t layer, uint64_t salt) {
  return block.base.prefix64() ^ (uint64_t{block.rank} << 48) ^ (uint64_t{layer} << 32) ^
         salt * 0xD6E8FEB86659FD93ull;
}

}  // namespace

void fill_layer(const BlockId& block, uint32_t layer, uint64_t salt, ByteSpan out) {
  const uint64_t seed = layer_seed(block, layer, salt);
  for (size_t at = 0; at < out.size(); at += 8) {
    const uint64_t w = word(seed, at / 8);
    std::memcpy(out.data() + at, &w, std::min<size_t>(8, out.size() - at));
  }
}

bool layer_equals(const BlockId& block, uint32_t layer, uint64_t salt, ConstByteSpan bytes) {
  const uint64_t seed = layer_seed(block, layer, salt);
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const uint64_t w = word(seed, at / 8);
    if (std::memcmp(bytes.data() + at, &w, std::min<size_t>(8, bytes.size() - at)) != 0) {
      return false;
    }
  }
  return true;
}

std::vector<Attempted> Oracle::granted() const {
  std::vector<Attempted> all;
  for (const auto& [attempted, push] : pushes_)
    all.push_back(attempted);
  return all;
}

Attempt Oracle::attempt_of(const BlockId& block, uint64_t salt) const {
  for (auto it = pushes_.lower_bound({block, Attempt()});
       it != pushes_.end() && it->first.first == block; ++it) {
    if (it->second.salt == salt) return it->first.second;
  }
  return {};
}

bool Oracle::may_be_found(const BlockId& block, const PurgeLog& purges, Nanos since_ns) const {
  for (auto it = pushes_.lower_bound({block, Attempt()});
       it != pushes_.end() && it->first.first == block; ++it) {
    if (may_commit(block, it->second) && !purges.is_dead(block, it->first.second, since_ns)) {
      return true;
    }
  }
  return false;
}

uint64_t Oracle::writer_of(const BlockId& block, const std::vector<ConstByteSpan>& layers) const {
  const auto found = writers_.find(block);
  if (found == writers_.end()) return 0;
  for (const uint64_t salt : found->second.salts) {
    bool equal = true;
    for (uint32_t l = 0; l < layers.size() && equal; ++l) {
      equal = layer_equals(block, l, salt, layers[l]);
    }
    if (equal) return salt;
  }
  return 0;
}

}  // namespace varve::sim
