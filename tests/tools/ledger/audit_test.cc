// Goal: the audit finds what is there, misses what is not, and says which is which.
// Method: the real daemon of this build; blocks pushed by hand, some only in the book.
#include "tools/ledger/audit.h"

#include <gtest/gtest.h>

#include "tests/tools/ledger/real_daemon.h"

namespace varve::ledger {
namespace {

struct AuditTest : ::testing::Test {
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
    ASSERT_TRUE(wait_recovered(*seat, world, 30 * kSecond).ok());
  }
  // Pushes ids[first, first + count) of a kind and rank; the book is told of all of it.
  void push(uint32_t kind, uint32_t rank, uint32_t first, uint32_t count) {
    const Kind& k = world.kinds[kind];
    PushRequest request;
    request.format = seat->format(kind);
    request.rank = rank;
    request.layout = &seat->layout(kind, rank);
    for (uint32_t i = 0; i < count; ++i) {
      const BlockId block{k.ids[first + i], rank};
      request.ids.push_back(block.base);
      request.slots.push_back(i);
      promise(block);
      seat->fill(k, kind, block, i, world.last_salt);
    }
    const auto op = seat->client().push(request);
    ASSERT_TRUE(op.has_value());
    ASSERT_TRUE(seat->client().push_layer(*op, ClientCore::kEveryLayer).ok());
    const auto pushed = seat->ended(*op, 30 * kSecond);
    ASSERT_TRUE(pushed.has_value());
    for (const Code code : pushed->codes)
      ASSERT_EQ(code, Code::kOk);
  }
  void promise(const BlockId& block) {
    world.book.begin(block, ++world.last_salt);
    world.book.finish(block, world.last_salt);
    world.book.acknowledge(block, world.last_salt, true, kNow);
    world.book.settle(block, world.last_salt);
  }
  RealDaemon real{"audit_test"};
  World world;
  std::unique_ptr<Seat> seat;
};

TEST_F(AuditTest, EverythingPushedIsIntactAndNothingElseIsFound) {
  push(0, 0, 0, 8);
  push(1, 0, 2, 3);
  push(2, 0, 8, 2);
  push(2, 1, 8, 2);
  push(3, 0, 5, 1);
  Audit audit(world, *seat);
  ASSERT_TRUE(audit.run().ok());
  EXPECT_EQ(world.book.tally().of(Class::kIntact), 16u);
  EXPECT_EQ(audit.counts().blocks_found, 16u);
  EXPECT_EQ(world.book.tally().violations(), 0u);
  EXPECT_EQ(audit.counts().broken_hits + audit.counts().broken_misses, 0u);
}

TEST_F(AuditTest, APromiseWithoutABlockIsLost) {
  promise({world.kinds[1].ids[4], 0});
  Audit audit(world, *seat);
  ASSERT_TRUE(audit.run().ok());
  EXPECT_EQ(world.book.tally().of(Class::kLost), 1u);
}

TEST_F(AuditTest, ABlockOfAnotherWriterIsAPhantom) {
  push(0, 0, 0, 1);
  Book fresh;
  fresh.declare(world.kinds[0].ids[0], 1);
  world.book = fresh;
  Audit audit(world, *seat);
  ASSERT_TRUE(audit.run().ok());
  EXPECT_EQ(world.book.tally().of(Class::kPhantom), 1u);
}

TEST_F(AuditTest, WhatWasPurgedIsGoneAndWhatWasNotIsFoundOut) {
  push(1, 0, 0, 2);
  const std::vector<BaseId> one = {world.kinds[1].ids[0]}, other = {world.kinds[1].ids[1]};
  PurgeRequest request;
  request.ids = one;
  const auto op = seat->client().purge(request);
  ASSERT_TRUE(op.has_value());
  const auto purged = seat->ended(*op, 60 * kSecond);
  ASSERT_TRUE(purged.has_value() && purged->status.ok());
  world.book.purge_answered(world.book.purge_asked(one, false), true);
  Audit audit(world, *seat);
  ASSERT_TRUE(audit.run().ok());
  EXPECT_EQ(world.book.tally().of(Class::kIntact), 1u);
  EXPECT_EQ(world.book.tally().violations(), 0u);
  // In the book only: the daemon was not asked.
  world.book.purge_answered(world.book.purge_asked(other, false), true);
  Audit again(world, *seat);
  ASSERT_TRUE(again.run().ok());
  EXPECT_EQ(world.book.tally().of(Class::kUnpurged), 1u);
}

TEST_F(AuditTest, ADeadDaemonIsAnErrorNotALoss) {
  push(0, 0, 0, 1);
  real.daemon().kill_now();
  Audit audit(world, *seat);
  EXPECT_FALSE(audit.run().ok());
  EXPECT_EQ(world.book.tally().violations(), 0u);
}

}  // namespace
}  // namespace varve::ledger
