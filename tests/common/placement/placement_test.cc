// Goal: P1 and P2, even shares, and golden values so that no release moves data by accident.
// Method: 20,000 seeded ids; counts against bounds of several standard deviations.
#include "common/placement/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

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

}  // namespace
}  // namespace varve
