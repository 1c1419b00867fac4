// Goal: what is only late is hedged within the budget, and one source at a time writes into the
// caller's memory (D3, I8). Method: an extent whose original, fence and sources come when the test
// says so, and races of them over seeds.
#include "client/hedge.h"

#include <gtest/gtest.h>

#include "tests/client/rebuild_rig.h"

namespace varve {
namespace {

TEST(HedgeBudgetTest, IsABurstAndThenAShare) {
  HedgeBudget budget(5);
  EXPECT_FALSE(budget.take(HedgeBudget::kBurstBytes + 1));
  EXPECT_TRUE(budget.take(HedgeBudget::kBurstBytes));
  EXPECT_FALSE(budget.take(1));
  budget.earn(20);
  EXPECT_FALSE(budget.take(2));
  EXPECT_TRUE(budget.take(1));
  for (int i = 0; i < 20; ++i)
    budget.earn(1);  // no fraction is lost
  EXPECT_TRUE(budget.take(1));
  budget.earn(1000 * kGiB);  // an hour of pulls is not saved up
  EXPECT_FALSE(budget.take(HedgeBudget::kBurstBytes + 1));
  HedgeBudget off(0);
  off.earn(kGiB);
  EXPECT_FALSE(off.take(1));
}

// Extent 1 of block 0 is late; its original, PULLED and FENCED come when the test says so.
struct LateTest : RebuildTest {
  static RigOptions slow() {
    RigOptions options = coded(4, 1);
    options.daemon.piece_bytes = 100000;
    return options;
  }
  explicit LateTest(const RigOptions& options = slow())
      : rig(std::vector<uint32_t>(4, 300000), 1, options) {
    rig.put(0, 1);
    rig.daemon->hook = [this](const auto& r) {
      if (r.type == Type::kCancel) return true;
      if (r.type != Type::kPull) return false;
      if (has_wants(r)) return hold_wants;
      for (const uint32_t e : {0u, 2u, 3u})
        rig.daemon->send_extent(1, r.op, block(0), 0, e);
      rig.daemon->send_lost(r.op, rig.daemon->lost_of(block(0), 0, 1, wire::LostState::kLate));
      return true;
    };
  }
  void start() {
    EXPECT_TRUE(rig.ready());
    op = *rig.core->pull(rig.pull_of(ids_of(0, 1)));
    EXPECT_TRUE(rig.run_until([&] { return main_op(rig) != 0; }));
  }
  bool cancelled() const { return rig.daemon->count(Type::kCancel) > 0; }
  void send_original(uint32_t from, uint32_t to) {
    wire::Data data = rig.daemon->data_of(block(0), 0, 1);
    const ConstByteSpan bytes = rig.daemon->store().at(block(0)).extents[1];
    data.offset = from;
    rig.daemon->send_data(1, main_op(rig), data, bytes.subspan(from, to - from));
  }
  void send_pulled() {
    const uint8_t codes[] = {0};
    rig.daemon->send(0, rig.daemon->encoder().pulled(main_op(rig), {}, codes));
  }
  void send_fenced() {
    const uint64_t main = main_op(rig);
    rig.daemon->send(0, rig.daemon->encoder().fenced(main, wire::Fenced{main, 0, 1}));
  }
  // After the first CANCEL: the answer to whatever the end of the pull cancels too.
  void answer_cancels() {
    rig.daemon->hook = nullptr;
    for (const auto& r : std::vector(rig.daemon->log())) {
      if (r.type != Type::kCancel) continue;
      const auto frame = r.frame();
      const auto body = std::get<wire::CancelView>(frame.body).body;
      if (body.extent != wire::kWhole) continue;
      rig.daemon->send(0, rig.daemon->encoder().fenced(r.op, wire::Fenced{body.target_op}));
    }
  }
  static constexpr uint32_t kBytes = 300000;
  KvRig rig;
  OpId op = 0;
  bool hold_wants = false;
};

TEST_F(LateTest, AHedgeIsDeliveredOnlyAfterItsFence) {
  start();
  ASSERT_TRUE(rig.run_until([&] { return cancelled(); }));
  const auto frame = rig.daemon->last(Type::kCancel)->frame();
  const auto& body = std::get<wire::CancelView>(frame.body).body;
  EXPECT_EQ(body.target_op, main_op(rig));
  EXPECT_EQ(body.block, 0u);
  EXPECT_EQ(body.extent, 1u);
  rig.run_for(50 * kMillisecond);
  EXPECT_EQ(rig.read_layer(0, 1), std::vector<std::byte>(kBytes, KvRig::kPoison));  // D3
  EXPECT_EQ(rig.of(op, Event::Kind::kLayer).size(), 1u);
  send_fenced();
  ASSERT_TRUE(rig.run_until([&] { return rig.of(op, Event::Kind::kLayer).size() == 4; }, kSecond));
  expect_whole(rig, 0, 0);
  EXPECT_FALSE(rig.core->done(op));
  send_pulled();
  EXPECT_EQ(rig.finish(op).codes[0], Code::kOk);
  EXPECT_EQ(counts(rig).hedges, 1u);
  EXPECT_EQ(counts(rig).hedges_won, 1u);
  EXPECT_EQ(counts(rig).hedges_refused, 0u);
  EXPECT_EQ(counts(rig).hedged_bytes, kBytes);
  EXPECT_EQ(rig.daemon->count(Type::kCancel), 1u);
}

TEST_F(LateTest, AnOriginalThatIsWholeBeforeTheFenceWins) {
  start();
  ASSERT_TRUE(rig.run_until([&] { return cancelled(); }));
  for (uint32_t at = 0; at < kBytes; at += 100000)
    send_original(at, at + 100000);
  ASSERT_TRUE(rig.run_until([&] { return rig.of(op, Event::Kind::kLayer).size() == 4; }, kSecond));
  expect_whole(rig, 0, 0);
  const auto before = rig.memory;
  send_fenced();
  send_pulled();
  EXPECT_EQ(rig.finish(op).codes[0], Code::kOk);
  EXPECT_EQ(rig.memory, before);
  EXPECT_EQ(counts(rig).hedges, 1u);
  EXPECT_EQ(counts(rig).hedges_won, 0u);
  EXPECT_EQ(counts(rig).rebuilt_extents, 0u);
  EXPECT_EQ(scratch_used(rig), 0u);
}

// The original wins while its hedge is still being read: the pull does not wait for that.
TEST_F(LateTest, AHedgeThatIsNotNeededIsFencedAtTheEnd) {
  hold_wants = true;
  start();
  ASSERT_TRUE(rig.run_until([&] { return wants(rig).size() == 1; }));
  EXPECT_GT(scratch_used(rig), 0u);
  for (uint32_t at = 0; at < kBytes; at += 100000)
    send_original(at, at + 100000);
  send_pulled();
  ASSERT_TRUE(rig.run_until([&] { return cancelled(); }, 100 * kMillisecond));
  const auto frame = rig.daemon->last(Type::kCancel)->frame();
  const auto& body = std::get<wire::CancelView>(frame.body).body;
  EXPECT_NE(body.target_op, main_op(rig));
  EXPECT_EQ(body.extent, wire::kWhole);
  rig.run_for(20 * kMillisecond);
  EXPECT_FALSE(rig.core->done(op));  // what it asked for may still come
  EXPECT_GT(scratch_used(rig), 0u);  // D4
  answer_cancels();
  EXPECT_EQ(rig.finish(op, 100 * kMillisecond).codes[0], Code::kOk);
  EXPECT_EQ(scratch_used(rig), 0u);
  EXPECT_EQ(counts(rig).cancels, 0u);  // of the caller
}

// A part of the original is there when the fence comes; the rest is already in the lane behind it.
TEST_F(LateTest, WhatComesOfTheOriginalAfterTheFenceIsDiscarded) {
  start();
  send_original(0, 100000);
  ASSERT_TRUE(rig.run_until([&] { return cancelled(); }));
  send_fenced();
  ASSERT_TRUE(rig.run_until([&] { return rig.of(op, Event::Kind::kLayer).size() == 4; }, kSecond));
  expect_whole(rig, 0, 0);
  const std::vector<std::byte> wrong(100000, std::byte{0xEE});
  wire::Data data = rig.daemon->data_of(block(0), 0, 1);
  data.offset = 100000;
  rig.daemon->send_data(1, main_op(rig), data, wrong);
  rig.run_for(20 * kMillisecond);
  expect_whole(rig, 0, 0);
  EXPECT_GE(counts(rig).discarded_bytes, 100000u);
  send_pulled();
  EXPECT_EQ(rig.finish(op).codes[0], Code::kOk);
  EXPECT_EQ(counts(rig).hedges_won, 1u);
}

// The same with the fence and the rest of the original racing, over seeds: one of both wins.
TEST(LateRaces, TheFenceAndTheOriginalMayComeInAnyOrder) {
  struct Fixture : LateTest {
    explicit Fixture(const RigOptions& options) : LateTest(options) {}
    void TestBody() override {}
  };
  uint32_t won = 0, lost = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    RigOptions options = LateTest::slow();
    options.seed = seed;
    Fixture f(options);
    f.start();
    f.send_original(0, 100000);
    ASSERT_TRUE(f.rig.run_until([&] { return f.cancelled(); }));
    f.send_original(100000, 200000);
    f.send_original(200000, 300000);
    f.send_fenced();
    f.send_pulled();
    EXPECT_EQ(f.rig.finish(f.op).codes[0], Code::kOk);
    RebuildTest::expect_whole(f.rig, 0, 0);
    f.rig.run_for(20 * kMillisecond);
    RebuildTest::expect_whole(f.rig, 0, 0);
    (RebuildTest::counts(f.rig).hedges_won > 0 ? won : lost) += 1;
  }
  EXPECT_GT(won, 5u);
  EXPECT_GT(lost, 5u);
}

TEST_F(LateTest, WhatIsLostAfterAllNeedsNoFence) {
  hold_wants = true;
  start();
  ASSERT_TRUE(rig.run_until([&] { return wants(rig).size() == 1; }));
  rig.daemon->send_lost(main_op(rig), rig.daemon->lost_of(block(0), 0, 1, wire::LostState::kLost));
  send_pulled();
  rig.run_for(5 * kMillisecond);
  for (const auto& r : std::vector(rig.daemon->log())) {
    if (has_wants(r)) rig.daemon->answer_pull(r);
  }
  EXPECT_EQ(rig.finish(op).codes[0], Code::kOk);
  expect_whole(rig, 0, 0);
  EXPECT_FALSE(cancelled());
  EXPECT_EQ(counts(rig).hedges_won, 0u);
  EXPECT_EQ(counts(rig).rebuilt_extents, 1u);
}

// A hedge whose source is lost: there is no other with m = 1, so the original is waited for.
TEST_F(LateTest, AHedgeWithoutSourcesIsGivenUpAndTheOriginalStillCounts) {
  rig.daemon->lost = {{block(0), rig.table.parity_at(0, 0)}};
  start();
  ASSERT_TRUE(rig.run_until([&] { return wants(rig).size() == 1; }));
  rig.run_for(20 * kMillisecond);
  EXPECT_FALSE(rig.core->done(op));
  EXPECT_EQ(scratch_used(rig), 0u);
  rig.daemon->send_extent(1, main_op(rig), block(0), 0, 1);
  send_pulled();
  EXPECT_EQ(rig.finish(op).codes[0], Code::kOk);
  expect_whole(rig, 0, 0);
}

// What a late row promises is not what its sources give: nothing of the hedge is delivered, and the
// block does not fail for it.
TEST_F(LateTest, AHedgeThatDoesNotVerifyIsGivenUpAndTheOriginalStillCounts) {
  rig.daemon->hook = [this](const auto& r) {
    if (r.type != Type::kPull || has_wants(r)) return r.type == Type::kCancel;
    for (const uint32_t e : {0u, 2u, 3u})
      rig.daemon->send_extent(1, r.op, block(0), 0, e);
    wire::LostExtent row = rig.daemon->lost_of(block(0), 0, 1, wire::LostState::kLate);
    ++row.entry.stored_crc;
    rig.daemon->send_lost(r.op, row);
    return true;
  };
  start();
  ASSERT_TRUE(rig.run_until([&] { return counts(rig).corrupt_extents == 1; }, kSecond));
  rig.run_for(20 * kMillisecond);
  EXPECT_FALSE(rig.core->done(op));
  EXPECT_FALSE(cancelled());
  EXPECT_EQ(scratch_used(rig), 0u);
  EXPECT_EQ(rig.read_layer(0, 1), std::vector<std::byte>(kBytes, KvRig::kPoison));
  rig.daemon->send_extent(1, main_op(rig), block(0), 0, 1);
  send_pulled();
  EXPECT_EQ(rig.finish(op).codes[0], Code::kOk);
  expect_whole(rig, 0, 0);
  EXPECT_EQ(counts(rig).hedges_won, 0u);
}

// One late and one lost of the same stripe with m = 1: the loss needs what is late, and gets it.
TEST_F(LateTest, ALossNeedsWhatIsLate) {
  start();
  ASSERT_TRUE(rig.run_until([&] { return wants(rig).size() == 1; }));
  // Extent 2 came already, so nothing is lost of it; a second pull loses it.
  rig.daemon->lost = {{block(0), 2}};
  rig.daemon->send_extent(1, main_op(rig), block(0), 0, 1);
  send_pulled();
  EXPECT_EQ(rig.finish(op).codes[0], Code::kOk);
  rig.poison();
  rig.daemon->hook = [this](const auto& r) {
    if (r.type != Type::kPull || has_wants(r)) return r.type == Type::kCancel;
    for (const uint32_t e : {0u, 3u})
      rig.daemon->send_extent(1, r.op, block(0), 0, e);
    rig.daemon->send_lost(r.op, rig.daemon->lost_of(block(0), 0, 1, wire::LostState::kLate));
    rig.daemon->send_lost(r.op, rig.daemon->lost_of(block(0), 0, 2, wire::LostState::kLost));
    return true;
  };
  const OpId second = *rig.core->pull(rig.pull_of(ids_of(0, 1)));
  rig.run_for(50 * kMillisecond);
  EXPECT_FALSE(rig.core->done(second));
  EXPECT_EQ(rig.of(second, Event::Kind::kLayer).size(), 1u);
  const uint64_t op_on_wire = [&] {
    uint64_t last = 0;
    for (const auto& r : rig.daemon->log()) {
      if (r.type == Type::kPull && !has_wants(r)) last = r.op;
    }
    return last;
  }();
  rig.daemon->send_extent(1, op_on_wire, block(0), 0, 1);
  const uint8_t codes[] = {0};
  rig.daemon->send(0, rig.daemon->encoder().pulled(op_on_wire, {}, codes));
  EXPECT_EQ(rig.finish(second).codes[0], Code::kOk);
  expect_whole(rig, 0, 0);
}

// The budget: a burst, then a share of what was pulled; 0 is off.
TEST_F(RebuildTest, HedgesKeepToTheirBudget) {
  for (const uint32_t percent : {0u, 5u}) {
    SCOPED_TRACE(percent);
    RigOptions options = coded(4, 1);
    options.client.hedge_percent = percent;
    KvRig rig(std::vector<uint32_t>(8, 1000000), 1, options);
    rig.put(0, 1);
    rig.daemon->hook = [&](const auto& r) {
      if (r.type != Type::kPull || has_wants(r)) return false;
      for (uint32_t e = 0; e < 8; ++e) {
        if (e == 5) {
          rig.daemon->send_lost(r.op, rig.daemon->lost_of(block(0), 0, e, wire::LostState::kLate));
        } else {
          rig.daemon->send_extent(1, r.op, block(0), 0, e);
        }
      }
      return true;
    };
    const uint32_t pulls = percent > 0 ? 24 : 4;
    for (uint32_t i = 0; i < pulls; ++i) {
      rig.poison();
      const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 1)));
      rig.run_for(50 * kMillisecond);
      // Whoever is not hedged waits for the original.
      uint64_t main = 0;
      for (const auto& r : rig.daemon->log()) {
        if (r.type == Type::kPull && !has_wants(r)) main = r.op;
      }
      rig.daemon->send_extent(1, main, block(0), 0, 5);
      const uint8_t codes[] = {0};
      rig.daemon->send(0, rig.daemon->encoder().pulled(main, {}, codes));
      ASSERT_EQ(rig.finish(op).codes[0], Code::kOk);
      expect_whole(rig, 0, 0);
    }
    const ClientCounters& count = counts(rig);
    EXPECT_LE(count.hedged_bytes,
              count.pulled_bytes * percent / 100 + (percent > 0 ? HedgeBudget::kBurstBytes : 0));
    if (percent > 0) {
      EXPECT_EQ(count.hedges + count.hedges_refused, pulls);
      EXPECT_GT(count.hedges, 10u);
      EXPECT_GT(count.hedges_refused, 5u);
      EXPECT_EQ(count.hedges_won, count.hedges);
    } else {
      EXPECT_EQ(count.hedges, 0u);
      EXPECT_EQ(rig.daemon->count(Type::kPull), pulls);
    }
    EXPECT_EQ(scratch_used(rig), 0u);
  }
}

}  // namespace
}  // namespace varve
