// split: the ids and wants of one request, grouped by home shard. Pure.
#pragma once

#include <span>

#include "server/op/part.h"

namespace varve {

// Fills request.positions so that those of shard s are positions[begins[s], begins[s + 1]), each
// group in prefix order (a counting sort). `homes[i]` is the home of request.ids[i].
void split_by_home(RequestIds& request, std::span<const uint8_t> homes, std::span<uint32_t> begins);

// The same for single extents: those of shard s are out[begins[s], begins[s + 1]), in the order
// they came. `homes[i]` is the home of block i; the caller has checked the blocks.
void split_wants(const wire::ArrayView<wire::Want>& wants, std::span<const uint8_t> homes,
                 std::span<wire::Want> out, std::span<uint32_t> begins);

// Whether one extent of one block is wanted twice.
bool has_a_want_twice(const wire::ArrayView<wire::Want>& wants);

// What part [begin, end) of `total` positions gets of `allowance`: exact in sum, all of its own
// when the allowance covers the total.
uint32_t share_of(uint32_t allowance, uint32_t begin, uint32_t end, uint32_t total);

}  // namespace varve
