// Goal: the load pushes, pulls and writes down what it was promised, and ends when told.
// Method: the real daemon of this build; a load that stops after a second of work.
#include "tools/ledger/load.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/tools/ledger/real_daemon.h"

namespace varve::ledger {
namespace {

struct LoadTest : ::testing::Test {
  void SetUp() override {
    if (!RealDaemon::available()) GTEST_SKIP() << "varved is not built beside this test";
    ASSERT_TRUE(real.start().ok()) << real.log();
    world.kinds = make_kinds(0, 1);
    seat = std::make_unique<Seat>(world.kinds);
    ASSERT_TRUE(seat->connect(real.daemon().address(), world.kinds).ok());
    ASSERT_TRUE(make_ids(seat->client(), world.kinds).ok());
    for (const Kind& kind : world.kinds) {
      for (const BaseId& id : kind.ids)
        world.book.declare(id, kind.format.rank_count());
    }
  }
  // Runs until it has durable acknowledgements and pulled blocks, at most a minute.
  LoadCounts work() {
    std::atomic<bool> stop{false};
    Load load(world, *seat, LoadOptions{});
    std::thread thread([&] { load.run(stop); });
    const SystemClock clock;
    const Nanos until = clock.now_ns() + 60 * kSecond;
    for (bool enough = false; !enough && clock.now_ns() < until;) {
      std::this_thread::yield();
      const std::lock_guard<std::mutex> lock(world.lock);
      enough = world.book.blocks_acknowledged() > 60;
    }
    stop = true;
    thread.join();
    return load.counts();
  }
  RealDaemon real{"load_test"};
  World world;
  std::unique_ptr<Seat> seat;
};

TEST_F(LoadTest, WhatIsAcknowledgedIsInTheBookAndNothingIsWrong) {
  const LoadCounts counts = work();
  EXPECT_GT(counts.acks_durable, 0u);
  EXPECT_GT(counts.acks_cached, 0u);
  EXPECT_GE(counts.acks_durable + counts.acks_cached, world.book.blocks_acknowledged());
  EXPECT_EQ(counts.hung, 0u);
  EXPECT_EQ(counts.broken_hits, 0u) << counts.broken_hit;
  EXPECT_EQ(world.book.tally().violations(), 0u);
}

TEST_F(LoadTest, EndsWhenTheDaemonIsGone) {
  real.daemon().kill_now();
  std::atomic<bool> stop{false};
  Load load(world, *seat, LoadOptions{});
  std::thread thread([&] { load.run(stop); });
  stop = true;
  thread.join();
  EXPECT_EQ(load.counts().acks_durable, 0u);
  EXPECT_EQ(load.counts().hung, 0u);
}

}  // namespace
}  // namespace varve::ledger
