// Goal: the arena gives pages while it has any, never one page twice, in runs where it can.
// Method: random take and give with a pattern in every page of every live slab (two slabs that
// overlapped would spoil each other); worst-case fragmentation; sizes around the word borders of
// the bitmaps; pieces against a byte-by-byte walk.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "server/tier/tier.h"

namespace varve {
namespace {

// Page-aligned memory that is not touched, so large arenas cost nothing.
class Memory {
 public:
  explicit Memory(uint64_t pages)
      : bytes_(bytes_of(pages)),
        data_(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, bytes_))) {
    VARVE_ASSERT(data_ != nullptr);
  }
  ~Memory() { std::free(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ByteSpan span() const { return {data_, bytes_}; }

 private:
  uint64_t bytes_;
  std::byte* data_;
};

std::vector<uint32_t> pages_in(const Arena& arena, const Slab& slab) {
  std::vector<uint32_t> pages;
  for (uint32_t i = 0; i < slab.page_count; ++i) {
    const std::byte* at = arena.byte_at(slab, bytes_of(i));
    pages.push_back(static_cast<uint32_t>((at - arena.memory().data()) / kPageBytes));
  }
  return pages;
}

TEST(Arena, GivesEveryPageOnceAtEverySizeAroundTheWordBorders) {
  for (const uint32_t size : {1u, 2u, 63u, 64u, 65u, 127u, 128u, 4095u, 4096u, 4097u, 9000u}) {
    const Memory memory(size);
    Arena arena(memory.span());
    ASSERT_EQ(arena.page_count(), size);
    std::vector<bool> seen(size, false);
    std::vector<Slab> slabs;
    for (uint32_t i = 0; i < size; ++i) {
      slabs.push_back(arena.take(1));
      ASSERT_FALSE(slabs.back().empty());
      ASSERT_FALSE(seen[slabs.back().first_page]);
      seen[slabs.back().first_page] = true;
    }
    ASSERT_EQ(arena.free_pages(), 0u);
    ASSERT_TRUE(arena.take(1).empty());
    for (Slab& slab : slabs)
      arena.give(slab);
    ASSERT_EQ(arena.free_pages(), size);
    const Slab all = arena.take(size);
    ASSERT_EQ(all.page_count, size);
    ASSERT_EQ(arena.piece_count(all), 1u);
  }
}

TEST(Arena, GivesARunWhereOneIsFree) {
  const Memory memory(1000);
  Arena arena(memory.span());
  Slab before = arena.take(300), middle = arena.take(400), after = arena.take(300);
  for (const Slab& slab : {before, middle, after})
    EXPECT_EQ(arena.piece_count(slab), 1u);
  arena.give(middle);
  const Slab low = arena.take(150), high = arena.take(250);
  EXPECT_EQ(arena.piece_count(low), 1u);
  EXPECT_EQ(arena.piece_count(high), 1u);
  EXPECT_EQ(arena.free_pages(), 0u);
  arena.give(before);
  arena.give(after);
  Slab run = arena.take(299);
  EXPECT_EQ(arena.piece_count(run), 1u);
}

// D3 at its worst: every other page is taken, no two free ones are neighbours.
TEST(Arena, NeverSaysNoRoomWhileThereIsRoom) {
  constexpr uint32_t kPages = 20'000;
  const Memory memory(kPages);
  Arena arena(memory.span());
  std::vector<Slab> slabs;
  for (uint32_t i = 0; i < kPages; ++i)
    slabs.push_back(arena.take(1));
  for (Slab& slab : slabs) {
    if (slab.first_page % 2 == 0) arena.give(slab);
  }
  ASSERT_EQ(arena.free_pages(), kPages / 2);
  EXPECT_TRUE(arena.take(kPages / 2 + 1).empty());
  Slab all = arena.take(kPages / 2);
  ASSERT_EQ(all.page_count, kPages / 2);
  EXPECT_EQ(arena.piece_count(all), kPages / 2);
  EXPECT_EQ(arena.free_pages(), 0u);
  for (const uint32_t page : pages_in(arena, all))
    ASSERT_EQ(page % 2, 0u);
  arena.give(all);
  EXPECT_EQ(arena.free_pages(), kPages / 2);
}

// Every page of a live slab carries the slab's number; it must still be there when the slab goes.
TEST(Arena, NeverLetsTwoLiveSlabsShareAPage) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    Random random(seed);
    const auto size = static_cast<uint32_t>(random.between(1, 600));
    const Memory memory(size);
    Arena arena(memory.span());
    std::vector<std::pair<Slab, uint64_t>> live;
    uint32_t taken = 0;
    uint64_t number = 0;
    for (uint32_t step = 0; step < 5000; ++step) {
      if (random.chance(520)) {
        const auto count = static_cast<uint32_t>(random.between(1, random.chance(50) ? size : 40));
        const Slab slab = arena.take(count);
        ASSERT_EQ(slab.empty(), count > size - taken) << "seed " << seed;  // D3
        if (slab.empty()) continue;
        ASSERT_EQ(slab.page_count, count);
        ++number;
        for (const uint32_t page : pages_in(arena, slab)) {
          std::memcpy(arena.page(page), &number, sizeof(number));
        }
        live.emplace_back(slab, number);
        taken += count;
      } else if (!live.empty()) {
        std::swap(live[random.below(live.size())], live.back());
        auto [slab, mark] = live.back();
        for (const uint32_t page : pages_in(arena, slab)) {
          ASSERT_EQ(load<uint64_t>({arena.page(page), kPageBytes}), mark) << "seed " << seed;
        }
        taken -= slab.page_count;
        arena.give(slab);
        ASSERT_TRUE(slab.empty());
        live.pop_back();
      }
      ASSERT_EQ(arena.free_pages(), size - taken);
    }
  }
}

TEST(Arena, CoversAnyRangeWithPiecesThatAreJoinedWherePagesAreNeighbours) {
  Random random(3);
  const Memory memory(64);
  Arena arena(memory.span());
  std::vector<Slab> holes;
  for (uint32_t i = 0; i < 64; ++i)
    holes.push_back(arena.take(1));
  for (Slab& hole : holes) {
    if (!random.chance(400)) arena.give(hole);
  }
  const Slab slab = arena.take(arena.free_pages());
  const uint64_t bytes = bytes_of(slab.page_count);
  std::vector<iovec> out(64);
  ASSERT_EQ(arena.pieces(slab, 0, bytes, out), arena.piece_count(slab));
  for (uint32_t trial = 0; trial < 300; ++trial) {
    const uint64_t offset = random.below(bytes);
    const uint64_t length = random.below(bytes - offset + 1);
    const uint32_t count = arena.pieces(slab, offset, length, out);
    uint64_t at = offset;
    for (uint32_t i = 0; i < count; ++i) {
      const auto* from = static_cast<const std::byte*>(out[i].iov_base);
      if (i > 0) {
        const auto* end = static_cast<const std::byte*>(out[i - 1].iov_base) + out[i - 1].iov_len;
        ASSERT_NE(from, end) << "not joined";
      }
      ASSERT_GT(out[i].iov_len, 0u);
      for (uint64_t b = 0; b < out[i].iov_len; b += 512) {
        ASSERT_EQ(from + b, arena.byte_at(slab, at + b));
      }
      at += out[i].iov_len;
    }
    ASSERT_EQ(at, offset + length);
  }
}

TEST(Arena, FindsThePagesThatAreLeftInALargeFullArena) {
  constexpr uint32_t kPages = 300'000;
  const Memory memory(kPages);
  Arena arena(memory.span());
  Slab low = arena.take(1000), last = arena.take(kPages - 1000);
  arena.give(low);
  EXPECT_EQ(arena.piece_count(arena.take(999)), 1u);
  Slab single = arena.take(1);
  EXPECT_EQ(single.first_page, 999u);
  EXPECT_TRUE(arena.take(1).empty());
  arena.give(last);
  EXPECT_EQ(arena.free_pages(), kPages - 1000);
}

TEST(ArenaDeathTest, RefusesAPageThatIsGivenTwice) {
  const Memory memory(8);
  Arena arena(memory.span());
  Slab slab = arena.take(2);
  Slab copy = slab;
  arena.give(slab);
  EXPECT_DEATH(arena.give(copy), "bit_of");
  EXPECT_DEATH(arena.give(slab), "empty");
}

TEST(ArenaDeathTest, RefusesARangeBeyondTheSlab) {
  const Memory memory(8);
  Arena arena(memory.span());
  const Slab slab = arena.take(2);
  std::vector<iovec> out(2);
  EXPECT_DEATH((void)arena.pieces(slab, kPageBytes, kPageBytes + 1, out), "length");
  EXPECT_DEATH((void)arena.byte_at(slab, bytes_of(2)), "offset");
}

}  // namespace
}  // namespace varve
