// Goal: the rules of the tier hold together, whatever comes in whatever order (D2, D3, D5).
// Method: a random walk of pushes and pulls, coded and not, with patterned bytes against a model
// that knows what every block may cost.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/server/tier/tier_rig.h"

namespace varve {
namespace {

using Rig = TierRig;

constexpr Budget kAllBudgets[] = {Budget::kPush, Budget::kPull, Budget::kFollow, Budget::kRepair,
                                  Budget::kResident};

// Random pushes and pulls. Every present extent carries its block's number in every page; the model
// knows each block that must still be there because it is pinned or dirty.
class TierWalk {
 public:
  explicit TierWalk(uint64_t seed) : random_(seed) {}

  void step() {
    switch (random_.below(6)) {
      case 0:
        return push();
      case 1:
        return pull();
      case 2:
      case 3:
        return advance();
      case 4:
        return take_outside();
      default:
        return evict();
    }
  }

  void check() {
    uint64_t used = 0;
    for (const Budget budget : kAllBudgets) {
      ASSERT_LE(rig_.tier.used_bytes(budget), rig_.tier.limit_bytes(budget));  // D2
      used += rig_.tier.used_bytes(budget) / kPageBytes;
    }
    ASSERT_EQ(bytes_of(rig_.tier.resident_pages().total()),
              rig_.tier.used_bytes(Budget::kResident));
    uint32_t outside = 0;
    for (const Slab& slab : outside_)
      outside += slab.page_count;
    ASSERT_EQ(used + outside + rig_.arena.free_pages(), kPages);
    for (const Held& held : held_) {  // D5
      if (!held.gone) {
        ASSERT_EQ(rig_.tier.peek(held.slot), held.bound ? held.block : nullptr);
      }
      verify(*held.block, held.number);
    }
    ASSERT_EQ(rig_.tier.at_rest(), held_.empty());
  }

  void finish() {
    while (!held_.empty())
      advance();
    for (Slab& slab : outside_)
      rig_.arena.give(slab);
    outside_.clear();
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      if (TierBlock* block = rig_.tier.find(slot)) rig_.tier.forget(*block);
    }
    ASSERT_TRUE(rig_.tier.at_rest());
    ASSERT_EQ(rig_.arena.free_pages(), kPages);
  }

  uint32_t refused = 0, hits = 0;

 private:
  static constexpr uint32_t kPages = 200;
  static constexpr uint32_t kSlots = 24;
  static constexpr uint32_t kBlocks = 12;
  struct Held {
    TierBlock* block;
    uint32_t slot;
    uint64_t number;
    bool push, bound, gone;
  };

  // The table of a slot's block: fixed, so that pushes and pulls agree. Every other one is coded.
  static ExtentTable table_at(uint32_t slot) {
    Random random(slot);
    std::vector<uint32_t> sizes(random.between(1, 12));
    for (uint32_t& bytes : sizes)
      bytes = static_cast<uint32_t>(random.between(1, 3 * kPageBytes));
    ExtentTable table = table_of(sizes);
    if (slot % 2 == 0) return table;
    table.scheme = {2, 1};
    for (uint32_t e = 0; e < sizes.size(); e += 2) {
      const auto count = std::min<uint32_t>(2, static_cast<uint32_t>(sizes.size()) - e);
      const uint32_t bytes = *std::max_element(&sizes[e], &sizes[e] + count);
      table.stripes.push_back({.first = e, .count = count, .bytes = bytes});
    }
    return table;
  }
  static uint32_t overhead(size_t extents) { return extents > TierBlock::kFewExtents ? 2 : 1; }

  template <class Visit>
  void each_page(TierBlock& block, uint32_t extent, Visit visit) {
    const Slab slab = rig_.tier.extent(block, extent);
    for (uint32_t p = 0; p < slab.page_count; ++p) {
      visit(rig_.arena.byte_at(slab, bytes_of(p)));
    }
  }
  void fill(TierBlock& block, uint32_t extent, uint64_t number) {
    each_page(block, extent, [&](std::byte* at) { std::memcpy(at, &number, sizeof(number)); });
  }
  void verify(TierBlock& block, uint64_t number) {
    uint32_t data = 0;
    for (uint32_t e = 0; e < block.extent_count; ++e) {
      if (block.state[e] != ExtentState::kPresent) continue;
      data += e < block.data_count ? 1 : 0;
      each_page(block, e, [&](std::byte* at) {
        ASSERT_EQ(load<uint64_t>({at, kPageBytes}), number);
      });
    }
    ASSERT_EQ(data, block.data_present_count);
  }
  uint32_t pool_left() const {  // TierBlocks that are free or evictable
    return kBlocks - static_cast<uint32_t>(held_.size());
  }
  void check_refusal(uint32_t pages, Budget budget) {
    ++refused;
    const uint64_t left = rig_.tier.limit_bytes(budget) - rig_.tier.used_bytes(budget);
    const uint64_t takeable = bytes_of(rig_.arena.free_pages()) + rig_.tier.evictable_bytes();
    ASSERT_TRUE(bytes_of(pages) > left || bytes_of(pages) > takeable || pool_left() == 0);  // D3
  }
  bool is_held(uint32_t slot) const {
    return std::any_of(held_.begin(), held_.end(), [&](const Held& h) { return h.slot == slot; });
  }

  void push() {
    const auto slot = static_cast<uint32_t>(random_.below(kSlots));
    if (is_held(slot)) return;
    if (TierBlock* old = rig_.tier.find(slot)) rig_.tier.forget(*old);
    const ExtentTable table = table_at(slot);
    uint32_t pages = overhead(table.count()) + table.scheme.width() - 1;
    for (uint32_t e = 0; e < table.count(); ++e)
      pages += pages_of(table.bytes_at(e));
    TierBlock* block = rig_.tier.grant(block_of(slot), {1, 0, 1}, table, Budget::kPush);
    if (block == nullptr) return check_refusal(pages, Budget::kPush);
    rig_.tier.pin(*block);
    held_.push_back({block, slot, slot, true, false, false});
  }

  void pull() {
    const auto slot = static_cast<uint32_t>(random_.below(kSlots));
    if (is_held(slot)) return;
    const ExtentTable table = table_at(slot);
    const uint32_t extents = table.count();
    TierBlock* block = rig_.tier.find(slot);
    if (block == nullptr) {
      block = rig_.tier.open(block_of(slot), slot, extents, table.data_count(), Budget::kPull);
      if (block == nullptr) return check_refusal(overhead(extents), Budget::kPull);
      block->header_present = true;
    } else {
      ++hits;
      verify(*block, slot);
    }
    rig_.tier.pin(*block);
    held_.push_back({block, slot, slot, false, true, false});
  }

  // One held block does its next thing.
  void advance() {
    if (held_.empty()) return;
    const auto i = static_cast<size_t>(random_.below(held_.size()));
    Held& held = held_[i];
    TierBlock& block = *held.block;
    const bool leave = random_.chance(150);
    const auto e = static_cast<uint32_t>(random_.below(block.extent_count));
    if (held.push && !leave) {
      if (block.state[e] == ExtentState::kReading) {
        fill(block, e, held.number);
        rig_.tier.extent_read(block, e, Status());
      } else if (block.present_count == block.extent_count) {
        if (!held.bound && !held.gone) {
          rig_.tier.bind(block, held.slot);
          held.bound = true;
        }
        block.dirty = false;
        rig_.tier.settle_written(block);
        release(i);
      }
      return;
    }
    if (!held.push && !leave && block.state[e] == ExtentState::kAbsent) {
      const uint32_t bytes = table_at(held.slot).bytes_at(e);
      if (!rig_.tier.take_extent(block, e, bytes)) {
        check_refusal(pages_of(bytes), Budget::kPull);
        return release(i);  // a window that finds no room is given back
      }
      fill(block, e, held.number);
      rig_.tier.extent_read(block, e, random_.chance(100) ? Status::io("read", 5) : Status());
      return;
    }
    if (!held.push && !leave && block.state[e] == ExtentState::kPresent) {
      rig_.tier.drop_extent(block, e);
      return;
    }
    if (leave && held.push && !held.gone) rig_.tier.forget(block);  // abort
    if (leave) release(i);
  }
  void release(size_t i) {
    TierBlock& block = *held_[i].block;
    verify(block, held_[i].number);
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(i));
    rig_.tier.unpin(block);
  }
  // Others take and give pages of the same arena, within what the budgets leave over.
  void take_outside() {
    if (!outside_.empty() && random_.chance(500)) {
      rig_.arena.give(outside_.back());
      outside_.pop_back();
      return;
    }
    const Slab slab = rig_.arena.take(static_cast<uint32_t>(random_.between(1, 30)));
    if (!slab.empty()) outside_.push_back(slab);
  }
  // The index evicts a slot, in use or not.
  void evict() {
    const auto slot = static_cast<uint32_t>(random_.below(kSlots));
    TierBlock* block = rig_.tier.find(slot);
    if (block == nullptr) return;
    for (Held& held : held_) {
      if (held.block == block) held.gone = true;
    }
    rig_.tier.forget(*block);
  }

  Random random_;
  Rig rig_{kPages, {.push = 80, .pull = 60, .resident = 60}, kBlocks};
  std::vector<Held> held_;
  std::vector<Slab> outside_;
};

TEST(DramTier, HoldsItsBudgetsAndItsPinnedBlocksUnderRandomOperations) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    TierWalk walk(seed);
    for (uint32_t step = 0; step < 3000; ++step) {
      walk.step();
      walk.check();
      if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " step " << step;
    }
    EXPECT_GT(walk.refused, 0u) << seed;
    EXPECT_GT(walk.hits, 0u) << seed;
    walk.finish();
  }
}

}  // namespace
}  // namespace varve
