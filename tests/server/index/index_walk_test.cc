// Goal: the rules of the index hold together, whatever comes in whatever order.
// Method: a random walk of insertions, placements, moves, losses, leases and removals on a small
// table that is often full, for blocks of one, three and six fragments, against a std::map.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "tests/server/index/index_rig.h"

namespace varve {
namespace {

// Slots are recorded at insertion and must never change while the entry lives.
class IndexWalk {
 public:
  IndexWalk(uint64_t seed, Scheme scheme)
      : random_(seed), scheme_(scheme), index_({.blocks_max = kBlocks, .scheme = scheme}) {}

  void step() {
    const BlockId block{id_of(random_.below(kIds)), static_cast<uint32_t>(random_.below(kRanks))};
    switch (random_.below(13)) {
      case 0:
      case 1:
      case 2:
        return insert(block);
      case 3:
        return remove(block);
      case 4:
        return move(block);
      case 5:
        return lease(block.base);
      case 6:
        return drop_lease();
      case 7:
        return drop(block);
      case 8:
        return lose(block);
      case 9:
        return hide(block);
      default:
        return add_or_settle(block);
    }
  }

  void check() const {
    std::map<BaseId, uint32_t> seen;
    std::set<BaseId> bases;
    uint32_t thin = 0, away = 0;
    uint64_t pages = 0;
    for (const auto& [block, held] : blocks_) {
      bases.insert(block.base);
      if (held.state != BlockState::kAway) seen[block.base] |= 1u << block.rank;
      if (held.state == BlockState::kFlash && held.places.size() < scheme_.width()) ++thin;
      away += held.state == BlockState::kAway ? 1 : 0;
      for (const auto& [position, place] : held.places)
        pages += place.pages;
      check_one(block, held);
    }
    for (uint64_t n = 0; n < kIds; ++n)
      ASSERT_EQ(index_.ranks_of(kDomainDefault, id_of(n)), seen[id_of(n)]);
    for (const auto& [slot, base] : leases_) {
      ASSERT_EQ(index_.block_at(slot, 0).base, base);
      ASSERT_EQ(index_.leases(slot), leases_.count(slot));
      bases.insert(base);
    }
    ASSERT_EQ(index_.block_count(), blocks_.size());
    ASSERT_EQ(index_.base_count(), bases.size());
    ASSERT_EQ(index_.thin_count(), thin);
    ASSERT_EQ(index_.away_count(), away);
    ASSERT_EQ(index_.blocks_by_domain().of(kDomainDefault), blocks_.size());
    ASSERT_EQ(index_.pages_by_domain().of(kDomainDefault), pages);
    ASSERT_EQ(index_.pages_by_domain().total(), pages);
    check_scan();
  }

  bool was_full() const { return full_ > 0; }
  bool was_thin() const { return thin_ > 0; }

 private:
  static constexpr uint64_t kIds = 40;
  static constexpr uint32_t kRanks = 4;
  static constexpr uint32_t kBlocks = 60;
  struct Held {
    uint32_t base_slot = 0, block_slot = 0;
    BlockState state = BlockState::kMemory;
    std::map<uint32_t, flash::Place> places;  // by position
  };

  void check_one(const BlockId& block, const Held& held) const {
    const auto found = index_.find_any(block);
    ASSERT_TRUE(found.has_value());
    ASSERT_EQ(found->base_slot, held.base_slot);
    ASSERT_EQ(found->block_slot, held.block_slot);
    ASSERT_EQ(found->state, held.state);
    ASSERT_EQ(index_.find(block).has_value(), held.state != BlockState::kAway);  // X5
    for (uint32_t p = 0; p < scheme_.width(); ++p) {
      const auto at = held.places.find(p);
      ASSERT_EQ(found->has(p), at != held.places.end()) << p;
      if (!found->has(p)) continue;
      ASSERT_EQ(index_.place_of(*found, p), at->second) << p;
      ASSERT_EQ(index_.position_of(*found, at->second), p);
    }
  }
  void check_scan() const {
    std::set<BlockId> scanned;
    const auto visit = [](void* context, const BlockId& block, const Located&) {
      ASSERT_TRUE(static_cast<std::set<BlockId>*>(context)->insert(block).second);
    };
    uint32_t cursor = 0;
    do {
      cursor = index_.scan(cursor, 7, visit, &scanned);
    } while (cursor != 0);
    ASSERT_EQ(scanned.size(), blocks_.size());
    for (const auto& entry : blocks_)
      ASSERT_EQ(scanned.count(entry.first), 1u);
  }

  Located located(const Held& held) const {
    return {.base_slot = held.base_slot, .block_slot = held.block_slot, .state = held.state};
  }
  bool is_leased(const BaseId& base) const {
    for (const auto& [slot, leased] : leases_) {
      if (leased == base) return true;
    }
    return false;
  }

  void insert(const BlockId& block) {
    const BlockState state = random_.chance(500) ? BlockState::kAway : BlockState::kMemory;
    Located where;
    const auto answer = index_.insert(block, state, &where);
    if (blocks_.count(block) != 0) {
      ASSERT_EQ(answer, Index::Insert::kExists);
      ASSERT_EQ(where.block_slot, blocks_[block].block_slot);
      ASSERT_EQ(where.state, blocks_[block].state);
      return;
    }
    if (answer == Index::Insert::kFull) {
      ++full_;
      ASSERT_TRUE(index_.block_count() == kBlocks || index_.base_count() == kBlocks);
      return;
    }
    ASSERT_EQ(answer, Index::Insert::kDone);
    ASSERT_EQ(where.live, 0);
    blocks_[block] = {where.base_slot, where.block_slot, state, {}};
  }
  // The next fragments of a block are on flash; with enough of them it may be read from there.
  void add_or_settle(const BlockId& block) {
    const auto at = blocks_.find(block);
    if (at == blocks_.end()) return;
    Held& held = at->second;
    for (uint32_t p = 0; p < scheme_.width(); ++p) {
      if (held.places.count(p) != 0 || random_.chance(300)) continue;
      held.places[p] = place_of(random_.next());
      index_.place_add(located(held), p, held.places[p]);
    }
    if (held.state == BlockState::kFlash || held.places.size() < scheme_.k) return;
    index_.settle(located(held));
    held.state = BlockState::kFlash;
    if (held.places.size() < scheme_.width()) ++thin_;
  }
  void lose(const BlockId& block) {
    const auto at = blocks_.find(block);
    if (at == blocks_.end() || at->second.places.empty()) return;
    auto place = at->second.places.begin();
    std::advance(place, random_.below(at->second.places.size()));
    index_.lose(located(at->second), place->first);
    at->second.places.erase(place);
  }
  void hide(const BlockId& block) {
    const auto at = blocks_.find(block);
    if (at == blocks_.end() || at->second.state != BlockState::kFlash) return;
    index_.hide(located(at->second));
    at->second.state = BlockState::kAway;
  }
  void move(const BlockId& block) {
    const auto at = blocks_.find(block);
    const flash::Place to = place_of(random_.next());
    ASSERT_FALSE(index_.place_move(block, place_of(random_.next()), to));  // not there
    if (at == blocks_.end() || at->second.places.empty()) return;
    auto place = at->second.places.begin();
    std::advance(place, random_.below(at->second.places.size()));
    ASSERT_TRUE(index_.place_move(block, place->second, to));
    place->second = to;
  }
  void remove(const BlockId& block) {
    if (!is_leased(block.base)) take_out(block, index_.remove(block));
  }
  void drop(const BlockId& block) { take_out(block, index_.drop(block)); }
  void take_out(const BlockId& block, const std::optional<Located>& was) {
    ASSERT_EQ(was.has_value(), blocks_.count(block) != 0);
    if (was) {
      ASSERT_EQ(was->block_slot, blocks_[block].block_slot);
      for (uint32_t p = 0; p < scheme_.width(); ++p)
        ASSERT_EQ(was->has(p), blocks_[block].places.count(p) != 0);
    }
    blocks_.erase(block);
  }
  void lease(const BaseId& base) {
    const auto slot = index_.base_slot(kDomainDefault, base);
    if (!slot || leases_.size() >= 10) return;
    index_.lease_add(*slot);
    leases_.emplace(*slot, base);
  }
  void drop_lease() {
    if (leases_.empty()) return;
    auto at = leases_.begin();
    std::advance(at, random_.below(leases_.size()));
    index_.lease_drop(at->first);
    leases_.erase(at);
  }

  Random random_;
  Scheme scheme_;
  Index index_;
  std::map<BlockId, Held> blocks_;
  std::multimap<uint32_t, BaseId> leases_;
  uint32_t full_ = 0, thin_ = 0;
};

TEST(Index, AgreesWithAMapUnderRandomOperations) {
  for (const Scheme scheme : {Scheme{1, 0}, Scheme{2, 1}, Scheme{4, 2}}) {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      IndexWalk walk(seed, scheme);
      for (uint32_t step = 0; step < 4000; ++step) {
        walk.step();
        if (step % 10 == 0) walk.check();
        if (::testing::Test::HasFatalFailure()) {
          FAIL() << scheme.text() << " seed " << seed << " step " << step;
        }
      }
      EXPECT_TRUE(walk.was_full()) << scheme.text() << " " << seed;
      EXPECT_EQ(walk.was_thin(), scheme.m > 0) << scheme.text() << " " << seed;
    }
  }
}

}  // namespace
}  // namespace varve
