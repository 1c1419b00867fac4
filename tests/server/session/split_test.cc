// The split over homes is a stable grouping, and shares are exact in sum.
#include "server/session/split.h"

#include <gtest/gtest.h>

#include <vector>

namespace varve {
namespace {

TEST(Split, GroupsAreStableAndCoverEveryPosition) {
  Random random(5);
  for (uint32_t round = 0; round < 200; ++round) {
    const auto shards = static_cast<uint32_t>(random.between(1, 16));
    const auto request = std::make_unique<RequestIds>();
    request->count = static_cast<uint32_t>(random.between(1, round % 10 == 0 ? wire::kIdsMax : 40));
    std::vector<uint8_t> homes;
    for (uint32_t i = 0; i < request->count; ++i) {
      homes.push_back(static_cast<uint8_t>(random.below(shards)));
    }
    std::vector<uint32_t> begins(shards + 1, 99);
    split_by_home(*request, homes, begins);
    EXPECT_EQ(begins[0], 0u);
    EXPECT_EQ(begins[shards], request->count);
    std::vector<bool> seen(request->count);
    for (uint32_t s = 0; s < shards; ++s) {
      for (uint32_t i = begins[s]; i < begins[s + 1]; ++i) {
        const uint32_t position = request->positions[i];
        EXPECT_EQ(homes[position], s);
        EXPECT_FALSE(seen[position]);
        seen[position] = true;
        const bool later = i == begins[s] || position > request->positions[i - 1];
        EXPECT_TRUE(later);
      }
    }
  }
}

TEST(Split, SharesAddUpToTheAllowance) {
  Random random(6);
  for (uint32_t round = 0; round < 500; ++round) {
    const auto total = static_cast<uint32_t>(random.between(1, 2048));
    const auto allowance = static_cast<uint32_t>(random.below(3000));
    uint32_t begin = 0, sum = 0;
    while (begin < total) {
      const auto end = static_cast<uint32_t>(random.between(begin + 1, total));
      const uint32_t share = share_of(allowance, begin, end, total);
      EXPECT_LE(share, end - begin);
      sum += share;
      begin = end;
    }
    EXPECT_EQ(sum, std::min(allowance, total));
  }
}

TEST(Split, WantsKeepTheirOrderInsideTheirHome) {
  Random random(9);
  for (uint32_t round = 0; round < 200; ++round) {
    const auto blocks = static_cast<uint32_t>(random.between(1, 40));
    const auto shards = static_cast<uint32_t>(random.between(1, 6));
    std::vector<uint8_t> homes(blocks);
    for (uint8_t& home : homes)
      home = static_cast<uint8_t>(random.below(shards));
    std::vector<wire::Want> wants(random.between(1, 300));
    for (uint32_t i = 0; i < wants.size(); ++i)
      wants[i] = {static_cast<uint32_t>(random.below(blocks)), i};
    const wire::ArrayView<wire::Want> view(reinterpret_cast<const std::byte*>(wants.data()),
                                           static_cast<uint32_t>(wants.size()));
    std::vector<wire::Want> out(wants.size());
    std::vector<uint32_t> begins(shards + 1);
    split_wants(view, homes, out, begins);
    EXPECT_EQ(begins[shards], wants.size());
    for (uint32_t s = 0; s < shards; ++s) {
      for (uint32_t i = begins[s]; i < begins[s + 1]; ++i) {
        EXPECT_EQ(homes[out[i].block], s);
        EXPECT_EQ(out[i], wants[out[i].extent]);
        EXPECT_TRUE(i == begins[s] || out[i].extent > out[i - 1].extent);
      }
    }
  }
}

TEST(Split, AWantThatComesTwiceIsFoundWhereverItStands) {
  std::vector<wire::Want> wants(wire::kWantsMax);
  for (uint32_t i = 0; i < wants.size(); ++i)
    wants[i] = {i % 2048, i / 2048};
  const auto twice = [&](size_t count) {
    return has_a_want_twice(wire::ArrayView<wire::Want>(
        reinterpret_cast<const std::byte*>(wants.data()), static_cast<uint32_t>(count)));
  };
  EXPECT_FALSE(twice(0));
  EXPECT_FALSE(twice(1));
  EXPECT_FALSE(twice(wants.size()));
  wants.back() = wants.front();
  EXPECT_TRUE(twice(wants.size()));
  EXPECT_FALSE(twice(wants.size() - 1));
  wants[1] = wants[0];
  EXPECT_TRUE(twice(2));
}

}  // namespace
}  // namespace varve
