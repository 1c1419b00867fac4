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
  LoadCounts work(LoadOptions options = LoadOptions()) {
    std::atomic<bool> stop{false};
    Load load(world, *seat, options);
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
  EXPECT_EQ(counts.broken_hits + counts.broken_follows, 0u) << counts.broken;
  EXPECT_EQ(world.book.tally().violations(), 0u);
}

TEST_F(LoadTest, WhatIsPurgedIsNotFoundByWhoAsksLater) {
  LoadOptions options;
  options.purge_per_mille = 200;
  const LoadCounts counts = work(options);
  EXPECT_GT(counts.purges, 0u);
  EXPECT_EQ(counts.purges, counts.purges_done);
  EXPECT_EQ(world.purges, counts.purges_done);
  EXPECT_EQ(world.book.tally().violations(), 0u);
}

// Two loads: of what one pushes the other follows.
TEST_F(LoadTest, WhatAnotherPushesIsFollowedLayerByLayer) {
  Seat other(world.kinds);
  ASSERT_TRUE(other.connect(real.daemon().address(), world.kinds).ok());
  std::atomic<bool> stop{false};
  LoadOptions options;
  options.seed = 2;
  Load load(world, other, options);
  std::thread thread([&] { load.run(stop); });
  LoadCounts counts;
  for (uint32_t i = 0; i < 20 && counts.follows == 0; ++i)
    counts.merge(work());
  stop = true;
  thread.join();
  counts.merge(load.counts());
  EXPECT_GT(counts.follows, 0u);
  EXPECT_EQ(counts.hung, 0u);
  EXPECT_EQ(counts.broken_hits + counts.broken_follows, 0u) << counts.broken;
  EXPECT_EQ(world.book.tally().violations(), 0u);
}

// The client keeps to the daemon's limits and asks again for what is refused for now: many small
// pushes, one beyond attempts_max and beyond DRAM, and many pulls all end well.
TEST_F(LoadTest, ABurstOnAnIdleDaemonIsRefusedNothing) {
  constexpr uint32_t kBlockBytes = 128 * 1024, kSmall = 200, kLarge = 600, kSlotCount = 8;
  Format format;
  format.model.bytes[0] = std::byte{9};
  format.lineage = "burst";
  format.tokens_per_block = 1;
  format.ranks.push_back({{LayerKind::kFull, kBlockBytes}});
  Client& client = seat->client();
  std::vector<std::byte> memory(size_t{kBlockBytes} * kSlotCount, std::byte{5});
  const RegionId region = *client.register_memory(memory.data(), memory.size());
  Layout layout;
  layout.layers.push_back({region, 0, kBlockBytes, 1, 0});
  const FormatId format_id = *client.format(format);
  std::vector<uint32_t> tokens(kSmall + kLarge);
  for (uint32_t i = 0; i < tokens.size(); ++i)
    tokens[i] = i;
  const auto ids = *client.base_ids(format_id, BaseId(), tokens);
  const auto push = [&](uint32_t first, uint32_t count) {
    PushRequest request;
    request.format = format_id;
    request.layout = &layout;
    request.deadline_ns = 120 * kSecond;
    if (first > 0) request.parent = ids[first - 1];
    for (uint32_t i = first; i < first + count; ++i) {
      request.ids.push_back(ids[i]);
      request.slots.push_back(i % kSlotCount);
    }
    const OpId op = *client.push(std::move(request));
    EXPECT_TRUE(client.push_layer(op, ClientCore::kEveryLayer).ok());
    return op;
  };
  std::vector<OpId> ops;
  for (uint32_t i = 0; i < kSmall; ++i)
    ops.push_back(push(i, 1));
  ops.push_back(push(kSmall, kLarge));
  for (const OpId op : ops) {
    const auto event = client.wait(op, 150 * kSecond);
    ASSERT_TRUE(event.has_value());
    EXPECT_TRUE(event->status.ok()) << event->status.what();
    for (const Code code : event->codes)
      ASSERT_EQ(code, Code::kOk);
  }
  ops.clear();
  for (uint32_t i = 0; i < kSmall; ++i) {
    PullRequest request;
    request.format = format_id;
    request.layout = &layout;
    request.deadline_ns = 120 * kSecond;
    request.ids = {ids[i]};
    request.slots = {i % kSlotCount};
    ops.push_back(*client.pull(std::move(request)));
  }
  for (const OpId op : ops) {
    const auto event = client.wait(op, 150 * kSecond);
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->codes, std::vector<Code>(1, Code::kOk)) << event->status.what();
  }
  EXPECT_EQ(client.counters().refused_blocks, 0u);
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
