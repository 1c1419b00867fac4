// Goal: P1 (of target_order) and P2, even shares of slices, groups, rotations and positions, and
// golden values so that no release moves data by accident.
// Method: 20,000 seeded ids, counts against bounds of several standard deviations; vectors that
// check_vectors.py recomputes independently.
#include "common/placement/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <sstream>
#include <vector>

#include "tests/common/model/vector_file.h"

namespace varve {
namespace {

constexpr uint32_t kIds = 20'000;

std::vector<BaseId> ids() {
  Random random(21);
  std::vector<BaseId> out(kIds);
  for (BaseId& id : out) {
    for (size_t i = 0; i < 4; ++i)
      store(id.bytes, 8 * i, random.next());
  }
  return out;
}

std::vector<uint64_t> keys(size_t count) {
  Random random(22);
  std::vector<uint64_t> out(count);
  for (uint64_t& key : out)
    key = random.next();
  return out;
}

uint8_t best(const BaseId& id, std::span<const uint64_t> targets) {
  std::array<uint8_t, kTargetsMax> order;
  target_order(id, targets, std::span(order).first(targets.size()));
  return order[0];
}

TEST(SliceOf, SpreadsEvenlyOverAnyNumberOfSlices) {
  const std::vector<BaseId> all = ids();
  for (uint32_t slices = 1; slices <= kSlicesMax; slices *= 2) {
    std::vector<uint32_t> count(slices);
    for (const BaseId& id : all)
      ++count.at(slice_of(id, slices));
    for (uint32_t n : count) {
      EXPECT_GT(n, kIds / slices * 7 / 10);
      EXPECT_LE(n, kIds / slices * 13 / 10);
    }
  }
}

TEST(ShardOfSlice, GivesEveryShardAConnectedShareForAnyShardCount) {
  for (uint32_t shards = 1; shards <= 16; ++shards) {
    uint32_t last = 0;
    std::vector<uint32_t> count(shards);
    for (uint32_t slice = 0; slice < 16; ++slice) {
      const uint32_t shard = shard_of_slice(slice, 16, shards);
      ASSERT_GE(shard, last);
      last = shard;
      ++count.at(shard);
    }
    EXPECT_LE(*std::max_element(count.begin(), count.end()),
              *std::min_element(count.begin(), count.end()) + 1);
  }
}

TEST(TargetOrder, IsAPermutationAndEvenInItsFirstPlace) {
  const std::vector<uint64_t> targets = keys(7);
  std::vector<uint32_t> first(7);
  for (const BaseId& id : ids()) {
    std::array<uint8_t, 7> order;
    target_order(id, targets, order);
    ++first[order[0]];
    std::sort(order.begin(), order.end());
    for (uint8_t i = 0; i < 7; ++i)
      ASSERT_EQ(order[i], i);
  }
  for (uint32_t n : first)
    EXPECT_NEAR(n, kIds / 7.0, kIds / 70.0);
}

TEST(TargetOrder, AddingATargetMovesAtMostItsShareAndOnlyToIt) {  // P1
  const std::vector<BaseId> all = ids();
  for (size_t n = 2; n <= kTargetsMax; ++n) {
    const std::vector<uint64_t> after = keys(n);
    const std::span<const uint64_t> before = std::span(after).first(n - 1);
    uint32_t moved = 0;
    for (const BaseId& id : all) {
      const uint8_t now = best(id, after);
      if (now == best(id, before)) continue;
      ++moved;
      ASSERT_EQ(now, n - 1);
    }
    // 1.1/n, and two standard deviations of the sample where that is more than the tenth.
    EXPECT_LE(moved, kIds * 11 / 10 / n + 60) << n;
    EXPECT_GT(moved, kIds / n / 2) << n;
  }
}

TEST(TargetOrder, DoesNotDependOnTheOrderInWhichTargetsAreListed) {
  std::vector<uint64_t> listed = keys(9);
  std::vector<uint64_t> reversed(listed.rbegin(), listed.rend());
  for (const BaseId& id : ids()) {
    std::array<uint8_t, 9> a, b;
    target_order(id, listed, a);
    target_order(id, reversed, b);
    for (size_t i = 0; i < 9; ++i)
      ASSERT_EQ(listed[a[i]], reversed[b[i]]);
  }
}

TEST(TargetOrder, IsIndependentOfTheSlice) {  // P2
  const std::vector<uint64_t> targets = keys(4);
  std::array<std::array<uint32_t, 4>, 16> count{};
  for (const BaseId& id : ids())
    ++count[slice_of(id, 16)][best(id, targets)];
  // 312 ids a cell; five standard deviations are 88.
  for (const auto& row : count) {
    for (uint32_t n : row)
      EXPECT_NEAR(n, kIds / 64.0, 90);
  }
}

TEST(Placement, GoldenValuesStay) {
  BaseId zero, one;
  one.bytes.fill(std::byte{1});
  const std::array<uint64_t, 4> targets = {1, 2, 3, 4};
  std::array<uint8_t, 4> order;
  EXPECT_EQ(slice_of(zero, 16), 6u);
  EXPECT_EQ(slice_of(one, 16), 15u);
  EXPECT_EQ(slice_of(one, 64), 47u);
  target_order(zero, targets, order);
  EXPECT_EQ(order, (std::array<uint8_t, 4>{3, 2, 1, 0}));
  target_order(one, targets, order);
  EXPECT_EQ(order, (std::array<uint8_t, 4>{0, 2, 3, 1}));
}

TEST(TargetOrder, TakesNoTargetsAndEqualKeys) {
  target_order({}, {}, {});
  const std::array<uint64_t, 3> same = {5, 5, 5};
  std::array<uint8_t, 3> order;
  target_order({}, same, order);
  EXPECT_EQ(order, (std::array<uint8_t, 3>{0, 1, 2}));
}

TEST(GroupOf, UsesEveryGroupEvenly) {
  std::vector<uint32_t> count(kPlacementGroups);
  for (const BaseId& id : ids())
    ++count.at(group_of(id));
  double chi_square = 0;
  const double expected = static_cast<double>(kIds) / kPlacementGroups;
  for (uint32_t n : count)
    chi_square += (n - expected) * (n - expected) / expected;
  // 4095 degrees of freedom, a standard deviation of 90.5: four of them.
  EXPECT_NEAR(chi_square, kPlacementGroups - 1, 362);
}

TEST(RotationOf, IsEvenForEveryK) {
  const std::vector<BaseId> all = ids();
  for (uint32_t k = 1; k <= kStripeWidthMax; ++k) {
    std::vector<uint32_t> count(k);
    for (const BaseId& id : all)
      ++count.at(rotation_of(id, k));
    const double share = static_cast<double>(kIds) / k;
    for (uint32_t n : count)
      EXPECT_NEAR(n, share, 4.5 * std::sqrt(share)) << k;
  }
}

TEST(PositionOf, ConsecutiveExtentsOfAStripeGroupAreOnDistinctPositions) {
  Random random(23);
  for (const BaseId& id : ids()) {
    const auto k = static_cast<uint32_t>(random.between(1, kStripeWidthMax));
    const auto first = static_cast<uint32_t>(random.below(504));
    const auto rank = static_cast<uint32_t>(random.below(kRanksMax));
    std::set<uint32_t> seen;
    for (uint32_t i = 0; i < k; ++i)
      ASSERT_TRUE(seen.insert(position_of(first + i, rank, id, k)).second);
    ASSERT_LT(*seen.rbegin(), k);
    // Expect: so are one extent's ranks, which are pulled at the same time.
    ASSERT_EQ(position_of(first + 1, rank, id, k), position_of(first, rank + 1, id, k));
  }
}

TEST(PositionOf, UsesEveryPositionEvenlyWhateverTheLengthOfTheTable) {
  const std::vector<BaseId> all = ids();
  for (uint32_t k : {2u, 3u, 4u, 5u, 8u}) {
    for (uint32_t extents : {1u, 3u, 61u}) {  // the last stripe group is short
      std::vector<uint32_t> count(k);
      for (const BaseId& id : all) {
        for (uint32_t e = 0; e < extents; ++e)
          ++count[position_of(e, 2, id, k)];
      }
      // A block's own unevenness is at most one extent; over ids it is a draw of the rotation.
      const double share = static_cast<double>(kIds) * extents / k;
      for (uint32_t n : count)
        EXPECT_NEAR(n, share, 5 * std::sqrt(static_cast<double>(kIds))) << k << " " << extents;
    }
  }
}

// 16 x 16 cells of 78 ids: 225 degrees of freedom, a standard deviation of 21.
template <class A, class B>
void expect_independent(A a, B b) {
  std::array<std::array<double, 16>, 16> count{};
  for (const BaseId& id : ids())
    count.at(a(id)).at(b(id)) += 1;
  double chi_square = 0;
  for (const auto& row : count) {
    for (double n : row)
      chi_square += (n - kIds / 256.0) * (n - kIds / 256.0) / (kIds / 256.0);
  }
  EXPECT_NEAR(chi_square, 255, 5 * std::sqrt(2 * 255.0));
}

TEST(Placement, GroupSliceRotationAndOrderAreIndependent) {  // P2
  const std::vector<uint64_t> targets = keys(16);
  const auto slice = [](const BaseId& id) { return slice_of(id, 16); };
  const auto group_low = [](const BaseId& id) { return group_of(id) % 16; };
  const auto group_high = [](const BaseId& id) { return group_of(id) / 256; };
  const auto rotation = [](const BaseId& id) { return rotation_of(id, 16); };
  const auto order = [&](const BaseId& id) { return best(id, targets); };
  expect_independent(slice, group_low);
  expect_independent(slice, group_high);
  expect_independent(slice, rotation);
  expect_independent(group_low, rotation);
  expect_independent(group_high, rotation);
  expect_independent(order, rotation);
  expect_independent(order, group_low);
  expect_independent(group_low, group_high);
}

TEST(Placement, IdsWithOneWordInCommonDifferInTheOthers) {  // P2: which word each one reads
  BaseId zero;
  for (size_t word = 0; word < 4; ++word) {
    bool slice = false, group = false, rotation = false;
    for (uint64_t value = 1; value < 64; ++value) {
      BaseId id;
      store(id.bytes, 8 * word, value);
      slice |= slice_of(id, 64) != slice_of(zero, 64);
      group |= group_of(id) != group_of(zero);
      rotation |= rotation_of(id, 8) != rotation_of(zero, 8);
    }
    EXPECT_EQ(slice, word == 0);
    EXPECT_EQ(group, word == 2);
    EXPECT_EQ(rotation, word == 3);
  }
}

TEST(Placement, EqualsTheGoldenVectors) {
  uint32_t checked = 0;
  for (const vectors::Record& r : vectors::read("tests/vectors/placement_1.txt")) {
    if (!r.has("base_id")) continue;
    ++checked;
    const BaseId id = r.digest("base_id");
    std::ostringstream slices, rotations, positions;
    slices << slice_of(id, 1) << ' ' << slice_of(id, 16) << ' ' << slice_of(id, 64);
    for (uint32_t k = 1; k <= 16; ++k)
      rotations << (k > 1 ? " " : "") << rotation_of(id, k);
    for (uint32_t extent = 0; extent < 6; ++extent)
      positions << (extent > 0 ? " " : "") << position_of(extent, 3, id, 5);
    EXPECT_EQ(slices.str(), r.text("slices_1_16_64"));
    EXPECT_EQ(group_of(id), r.number("group"));
    EXPECT_EQ(rotations.str(), r.text("rotation_k_1_to_16"));
    EXPECT_EQ(positions.str(), r.text("positions_extents_0_to_5_rank_3_k_5"));
  }
  EXPECT_GE(checked, 8u);
}

}  // namespace
}  // namespace varve
