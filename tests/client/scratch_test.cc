// Goal: the limit holds, and those in line get all they asked for, in order (S1, S2).
// Method: a scratch of a few columns; matches of a client without a daemon stand in as ops in line.
#include "client/scratch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>

#include "client/core.h"
#include "tests/client/client_rig.h"

namespace varve {
namespace {

// An op that only counts how often it was woken.
struct Waiter final : ClientOp {
  Waiter(Core& core, OpId op) : ClientOp(core, op, 0, kDay) {}
  ~Waiter() { retire(); }
  void run() override { ++woken; }
  const char* name() const override { return "waiter"; }
  void on_lost(Status) override {}
  void on_frame(const wire::Frame&) override {}
  static constexpr Nanos kDay = 24 * 3600 * kSecond;
  uint32_t woken = 0;
};

struct ScratchTest : testing::Test {
  ScratchTest() : core_(*dynamic_cast<Core*>(rig_.core.get())) {}
  void turn() { rig_.run_for(2 * kMillisecond); }
  ClientRig rig_;
  Core& core_;
  Scratch scratch_{5 * kColumnBytes + 1};
};

TEST_F(ScratchTest, LendsAllOfARequestOrNone) {
  Columns a, b;
  EXPECT_EQ(scratch_.capacity(), 5u);
  EXPECT_TRUE(scratch_.take(3, a));
  EXPECT_FALSE(scratch_.take(3, b));
  EXPECT_TRUE(b.empty());
  EXPECT_TRUE(scratch_.take(2, b));
  // Expect: columns do not overlap; every byte of each is ours.
  for (std::byte* column : a)
    std::memset(column, 1, kColumnBytes);
  for (std::byte* column : b)
    std::memset(column, 2, kColumnBytes);
  for (std::byte* column : a)
    EXPECT_TRUE(column[0] == std::byte{1} && column[kColumnBytes - 1] == std::byte{1});
  EXPECT_EQ(scratch_.used(), 5u);
  scratch_.give(a);
  EXPECT_TRUE(a.empty());
  scratch_.give(b);
  EXPECT_EQ(scratch_.used(), 0u);
}

// Of all its columns, those of which every page is resident.
uint32_t resident(Scratch& scratch) {
  Columns all;
  EXPECT_TRUE(scratch.take(scratch.capacity(), all));
  uint32_t count = 0;
  for (std::byte* column : all) {
    std::array<unsigned char, kColumnBytes / kPageBytes> pages{};
    EXPECT_EQ(mincore(column, kColumnBytes, pages.data()), 0);
    count += std::all_of(pages.begin(), pages.end(), [](auto page) { return (page & 1) != 0; });
  }
  scratch.give(all);
  return count;
}

TEST_F(ScratchTest, IsResidentOnceItIsPopulated) {
  Scratch scratch(64 * kColumnBytes);
  scratch.populate();
  EXPECT_EQ(resident(scratch), 64u);
}

// So that no pull waits for pages; a daemon that does not code costs nothing.
TEST(ScratchOfAClient, IsResidentOnceItsDaemonCodes) {
  for (const Scheme scheme : {Scheme{1, 0}, Scheme{2, 1}}) {
    RigOptions options;
    options.client.populate_scratch = true;
    options.daemon.k = scheme.k;
    options.daemon.m = scheme.m;
    ClientRig rig(options);
    ASSERT_TRUE(rig.run_until([&] { return rig.core->state() == SessionState::kReady; }));
    Core& core = *dynamic_cast<Core*>(rig.core.get());
    const uint32_t capacity = core.rebuild_scratch().capacity();
    EXPECT_EQ(resident(core.rebuild_scratch()) == capacity, scheme.m > 0);
  }
}

TEST_F(ScratchTest, TheFirstInLineIsServedBeforeASmallerOne) {
  Waiter first(core_, 1001), second(core_, 1002);
  Columns held, a, b;
  ASSERT_TRUE(scratch_.take(3, held));
  EXPECT_FALSE(scratch_.take(first, 4, a));
  EXPECT_FALSE(scratch_.take(second, 1, b));  // there is one, but it is not its turn
  scratch_.give(held);
  turn();
  EXPECT_EQ(first.woken, 1u);
  EXPECT_EQ(second.woken, 0u);
  EXPECT_FALSE(scratch_.take(second, 1, b));
  EXPECT_TRUE(scratch_.take(first, 4, a));
  turn();
  EXPECT_EQ(second.woken, 1u);
  EXPECT_TRUE(scratch_.take(second, 1, b));
  scratch_.give(a);
  scratch_.give(b);
  turn();
}

TEST_F(ScratchTest, WhoLeavesTheLineLetsTheNextOneGo) {
  Waiter first(core_, 1001), second(core_, 1002);
  Columns held, b;
  ASSERT_TRUE(scratch_.take(2, held));
  EXPECT_FALSE(scratch_.take(first, 4, b));
  EXPECT_FALSE(scratch_.take(second, 2, b));
  scratch_.leave(first);
  turn();
  EXPECT_EQ(second.woken, 1u);
  EXPECT_TRUE(scratch_.take(second, 2, b));
  scratch_.give(b);
  scratch_.give(held);
}

}  // namespace
}  // namespace varve
