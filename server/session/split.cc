// The counting sort of a request over its home shards.
#include "server/session/split.h"

#include <algorithm>
#include <array>

namespace varve {

void split_by_home(RequestIds& request, std::span<const uint8_t> homes,
                   std::span<uint32_t> begins) {
  VARVE_ASSERT(request.count <= wire::kIdsMax, request.count);
  VARVE_ASSERT(homes.size() >= request.count);
  VARVE_ASSERT(begins.size() >= 2);
  const auto shards = static_cast<uint32_t>(begins.size()) - 1;
  for (uint32_t& begin : begins)
    begin = 0;
  for (uint32_t i = 0; i < request.count; ++i) {
    VARVE_ASSERT(homes[i] < shards, homes[i], shards);
    ++begins[homes[i] + 1u];
  }
  for (uint32_t s = 1; s <= shards; ++s)
    begins[s] += begins[s - 1];
  // begins[s] walks to the end of group s, which is the begin of group s + 1: shifted back after.
  for (uint32_t i = 0; i < request.count; ++i) {
    request.positions[begins[homes[i]]++] = static_cast<uint16_t>(i);
  }
  for (uint32_t s = shards; s > 0; --s)
    begins[s] = begins[s - 1];
  begins[0] = 0;
  VARVE_ASSERT(begins[shards] == request.count);
}

void split_wants(const wire::ArrayView<wire::Want>& wants, std::span<const uint8_t> homes,
                 std::span<wire::Want> out, std::span<uint32_t> begins) {
  VARVE_ASSERT(wants.size() <= out.size(), wants.size(), out.size());
  VARVE_ASSERT(begins.size() >= 2);
  const auto shards = static_cast<uint32_t>(begins.size()) - 1;
  for (uint32_t& begin : begins)
    begin = 0;
  for (uint32_t i = 0; i < wants.size(); ++i) {
    const uint32_t block = wants[i].block;
    VARVE_ASSERT(block < homes.size(), block);
    ++begins[homes[block] + 1u];
  }
  for (uint32_t s = 1; s <= shards; ++s)
    begins[s] += begins[s - 1];
  for (uint32_t i = 0; i < wants.size(); ++i) {
    const wire::Want want = wants[i];
    out[begins[homes[want.block]]++] = want;
  }
  for (uint32_t s = shards; s > 0; --s)  // as above
    begins[s] = begins[s - 1];
  begins[0] = 0;
  VARVE_ASSERT(begins[shards] == wants.size());
}

bool has_a_want_twice(const wire::ArrayView<wire::Want>& wants) {
  VARVE_ASSERT(wants.size() <= wire::kWantsMax, wants.size());
  std::array<uint64_t, wire::kWantsMax> keys;
  for (uint32_t i = 0; i < wants.size(); ++i) {
    const wire::Want want = wants[i];
    keys[i] = uint64_t{want.block} << 32 | want.extent;
  }
  const auto end = keys.begin() + wants.size();
  std::sort(keys.begin(), end);
  return std::adjacent_find(keys.begin(), end) != end;
}

uint32_t share_of(uint32_t allowance, uint32_t begin, uint32_t end, uint32_t total) {
  VARVE_ASSERT(begin <= end);
  VARVE_ASSERT(end <= total);
  if (allowance >= total) return end - begin;
  const uint64_t before = uint64_t{allowance} * begin / total;
  const uint64_t after = uint64_t{allowance} * end / total;
  return static_cast<uint32_t>(after - before);
}

}  // namespace varve
