// Goal: what a client is promised holds with a real daemon, its threads, its sockets and its files:
// a push is followed layer by layer and counts only once it is committed, leases last as long as
// they are renewed, and whoever asks sees what is held; drives that are away for a life cost
// nothing. Method: the varved of this build, 2+1 on three files; writer, reader and onlooker are
// clients of their own. Everything waited for is an event; times are bounds, not expectations.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/e2e/engine.h"
#include "tests/tools/ledger/real_daemon.h"

namespace varve {
namespace {

class RealClient : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ledger::RealDaemon::available()) GTEST_SKIP() << "varved is not built beside this test";
    real.shape = {"--scheme", "2+1", "--targets",    "3",     "--target-bytes", "512MiB",
                  "--shards", "2",   "--dram-bytes", "128MiB"};
    start();
  }
  void TearDown() override {
    if (writer == nullptr) return;
    disconnect();
    EXPECT_TRUE(real.daemon().stop(kPatience).ok());
    EXPECT_EQ(ledger::complaint_in(real.log()), "");
  }
  void start() {
    ASSERT_TRUE(real.start().ok()) << real.log();
    writer = std::make_unique<Engine>(real.daemon().address(), "writer");
    reader = std::make_unique<Engine>(real.daemon().address(), "reader");
    onlooker = std::make_unique<Engine>(real.daemon().address(), "onlooker");
  }
  void disconnect() {
    writer.reset();
    reader.reset();
    onlooker.reset();
  }
  // The tags of a push, from its first event.
  std::vector<FollowTag> granted(OpId op) {
    const Event reserved = writer->next(op);
    EXPECT_EQ(reserved.kind, Event::Kind::kReserved);
    EXPECT_EQ(reserved.granted.size(), kBlocks);
    return reserved.granted;
  }
  // When recovery has ended.
  uint32_t hits(const std::vector<BaseId>& of) {
    Event found;
    for (Nanos waited = 0; waited < kPatience; waited += kMillisecond) {
      found = onlooker->match(of);
      if (found.n_blocks == kBlocks || !found.recovering) break;
      pause(kMillisecond);
    }
    EXPECT_FALSE(found.recovering) << "all of the drives was read";
    return found.n_blocks;
  }
  bool says(const std::string& what) {
    for (Nanos waited = 0; waited < kPatience; waited += kMillisecond) {
      if (real.log().find(what) != std::string::npos) return true;
      pause(kMillisecond);
    }
    return false;
  }
  // The file of a target is somewhere else, or back.
  void plug(uint32_t target, bool in) {
    const std::string here = real.folder() + "/data/target-" + std::to_string(target) + ".dat";
    const std::string there = real.folder() + "/unplugged-" + std::to_string(target);
    std::filesystem::rename(in ? there : here, in ? here : there);
  }
  void push_layer(OpId op, const std::vector<BaseId>& ids, uint32_t l) {
    writer->fill(ids, l);
    EXPECT_TRUE(writer->client->push_layer(op, l).ok());
  }
  void expect_layer(OpId op, const std::vector<BaseId>& ids, uint32_t l) {
    const Event event = reader->next(op);
    EXPECT_EQ(event.kind, Event::Kind::kLayer);
    EXPECT_EQ(event.layer, l);
    EXPECT_TRUE(reader->holds_layer(ids, l)) << l;
  }
  ledger::RealDaemon real{"client_test"};
  std::unique_ptr<Engine> writer, reader, onlooker;
};

TEST_F(RealClient, APushIsFollowedLayerByLayerAndFoundOnlyOnceItIsCommitted) {
  const std::vector<BaseId> ids = writer->ids(1);
  const OpId push = writer->push(ids);
  const OpId follow = reader->follow(granted(push));
  for (uint32_t l = 0; l < kLayers; ++l) {
    EXPECT_EQ(onlooker->match(ids).n_blocks, 0u) << "before layer " << l;
    push_layer(push, ids, l);
    expect_layer(follow, ids, l);
  }
  EXPECT_EQ(writer->ended(push).codes, std::vector<Code>(kBlocks, Code::kOk));
  const Event followed = reader->ended(follow);
  EXPECT_EQ(followed.kind, Event::Kind::kFollowed);
  EXPECT_EQ(followed.codes, std::vector<Code>(kBlocks, Code::kOk));
  EXPECT_EQ(onlooker->match(ids).n_blocks, kBlocks);
  const Event pulled = onlooker->pull(ids, 0);
  EXPECT_EQ(pulled.codes, std::vector<Code>(kBlocks, Code::kOk));
  for (uint32_t l = 0; l < kLayers; ++l)
    EXPECT_TRUE(onlooker->holds_layer(ids, l)) << l;
}

TEST_F(RealClient, AFollowOfAPushThatIsAbortedEndsCancelledAndNothingIsFound) {
  const std::vector<BaseId> ids = writer->ids(2);
  const OpId push = writer->push(ids);
  const OpId follow = reader->follow(granted(push));
  push_layer(push, ids, 0);
  expect_layer(follow, ids, 0);
  writer->client->cancel(push);
  EXPECT_EQ(writer->ended(push).status.code(), Code::kCancelled);
  const Event followed = reader->ended(follow);
  EXPECT_EQ(followed.kind, Event::Kind::kFollowed);
  EXPECT_EQ(followed.codes, std::vector<Code>(kBlocks, Code::kCancelled));
  EXPECT_EQ(onlooker->match(ids).n_blocks, 0u);
  // Expect: nobody holds a place of them; they can be written by another.
  reader->store_blocks(ids);
  EXPECT_EQ(onlooker->match(ids).n_blocks, kBlocks);
}

TEST_F(RealClient, ALeaseLastsAsLongAsItIsRenewed) {
  const std::vector<BaseId> ids = writer->ids(3);
  writer->store_blocks(ids);
  const Event matched = reader->match(ids, 400);
  ASSERT_EQ(matched.n_blocks, kBlocks);
  ASSERT_NE(matched.lease, 0u);
  const Event renewed = reader->ended(*reader->client->renew({matched.lease, 60000}));
  EXPECT_EQ(renewed.kind, Event::Kind::kRenewed);
  ASSERT_TRUE(renewed.status.ok()) << renewed.status.what();
  EXPECT_GT(renewed.lease_ns, 50 * kSecond);
  EXPECT_LE(renewed.lease_ns, 60 * kSecond);
  pause(500 * kMillisecond);  // longer than the match said
  EXPECT_GT(reader->client->lease_left_ns(matched.lease), 40 * kSecond);
  EXPECT_EQ(reader->pull(ids, matched.lease).codes, std::vector<Code>(kBlocks, Code::kOk));
  reader->client->release(matched.lease);
  EXPECT_EQ(reader->client->lease_left_ns(matched.lease), 0u);

  const Event shorter = reader->match(ids, 50);
  pause(200 * kMillisecond);
  const Event late = reader->ended(*reader->client->renew({shorter.lease, 60000}));
  EXPECT_EQ(late.status.code(), Code::kTimedOut);
  EXPECT_EQ(reader->client->lease_left_ns(shorter.lease), 0u);
}

// Blocks are where a pull says that they were, of one life and of the next; and they come as well
// into memory that nobody registered.
TEST_F(RealClient, APullSaysWhereItsBlocksWereWhereverTheyGo) {
  const uint8_t dram = wire::tier_bit(wire::TierKind::kDram);
  const uint8_t flash = wire::tier_bit(wire::TierKind::kFlash);
  const std::vector<BaseId> ids = writer->ids(11);
  writer->store_blocks(ids);
  EXPECT_EQ(reader->pull(ids, 0).tier_mask, dram) << "what was pushed just now";
  disconnect();
  ASSERT_TRUE(real.daemon().stop(kPatience).ok());
  start();
  ASSERT_EQ(hits(ids), kBlocks);
  std::vector<std::byte> elsewhere;
  const Event first = reader->pull_elsewhere(ids, elsewhere);
  EXPECT_EQ(first.codes, std::vector<Code>(kBlocks, Code::kOk));
  EXPECT_EQ(first.tier_mask, flash);
  EXPECT_EQ(reader->client->counters().bounced_bytes, elsewhere.size());
  for (uint32_t i = 0; i < kBlocks * kLayers; ++i) {
    const auto bytes = Engine::content(ids[i / kLayers], i % kLayers);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(),
                           elsewhere.begin() + static_cast<ptrdiff_t>(size_t{i} * kLayerBytes)));
  }
  EXPECT_EQ(reader->pull(ids, 0).tier_mask, dram) << "and were read only once";
}

TEST_F(RealClient, WhatIsHeldIsSeenByAnyoneAndNoLongerThanItIs) {
  const std::vector<BaseId> ids = writer->ids(4), other = writer->ids(5);
  writer->store_blocks(ids);
  const Event matched = reader->match(ids, 60000);
  const OpId push = writer->push(other);
  granted(push);
  const std::vector<HoldRow> rows = onlooker->held();
  uint32_t leased = 0, reserved = 0;
  uint64_t last = 0;
  for (const HoldRow& row : rows) {
    const bool lease = row.kind == wire::HoldKind::kLease;
    EXPECT_TRUE(lease || row.kind == wire::HoldKind::kReservation);
    EXPECT_EQ(row.name, lease ? "reader" : "writer");
    (lease ? leased : reserved) += row.blocks;
    EXPECT_GT(row.left_ns, 10 * kSecond);
    EXPECT_GT(row.number, last) << "rising";
    last = row.number;
  }
  EXPECT_EQ(leased, kBlocks);
  EXPECT_EQ(reserved, kBlocks);
  reader->client->release(matched.lease);
  writer->client->cancel(push);
  writer->ended(push);
  for (Nanos waited = 0; waited < kPatience && !onlooker->held().empty(); waited += kMillisecond)
    pause(kMillisecond);
  EXPECT_TRUE(onlooker->held().empty());
}

// Purged blocks are no hit from the answer on, in no later life either; the others stay.
TEST_F(RealClient, WhatWasPurgedIsNotFoundAfterARestart) {
  const std::vector<BaseId> gone = writer->ids(6), stays = writer->ids(7);
  writer->store_blocks(gone);
  writer->store_blocks(stays);
  ASSERT_EQ(onlooker->match(gone).n_blocks, kBlocks);
  PurgeRequest request;
  request.ids = gone;
  const Event purged = writer->ended(*writer->client->purge(std::move(request)));
  EXPECT_EQ(purged.kind, Event::Kind::kPurged);
  EXPECT_TRUE(purged.status.ok()) << purged.status.what();
  EXPECT_EQ(onlooker->match(gone).n_blocks, 0u);
  disconnect();
  real.daemon().kill_now();  // nothing is written on the way out
  start();
  EXPECT_EQ(hits(stays), kBlocks);
  EXPECT_EQ(onlooker->match(gone).n_blocks, 0u);
}

// Two of four drives are not there at two starts, while others write and one life is killed; then
// they come back one by one. Expect: what has one fragment left is no hit, and everything, byte by
// byte, is from the first of them on: that one was kept, and went into the checkpoint.
TEST_F(RealClient, BlocksWhoseDrivesWereAwayAreBackWithThem) {
  disconnect();
  ASSERT_TRUE(real.daemon().stop(kPatience).ok());
  real.shape[3] = "4";
  start();
  std::vector<std::vector<BaseId>> all;
  for (uint32_t n = 20; n < 30; ++n) {
    all.push_back(writer->ids(n));
    writer->store_blocks(all.back());
  }
  disconnect();
  ASSERT_TRUE(real.daemon().stop(kPatience).ok());
  plug(0, false);
  plug(1, false);
  for (const bool killed : {false, true}) {
    start();
    uint32_t found = 0;
    for (const auto& ids : all)
      found += hits(ids);
    EXPECT_LT(found, all.size() * kBlocks);
    EXPECT_TRUE(says("they come back with them"));
    writer->store_blocks(writer->ids(killed ? 31 : 30));
    disconnect();
    if (killed) {
      real.daemon().kill_now();
    } else {
      ASSERT_TRUE(real.daemon().stop(kPatience).ok());
    }
  }
  for (const uint32_t target : {0u, 1u}) {
    plug(target, true);
    start();
    for (const auto& ids : all) {
      EXPECT_EQ(hits(ids), kBlocks);
      EXPECT_EQ(reader->pull(ids, 0).codes, std::vector<Code>(kBlocks, Code::kOk));
      for (uint32_t l = 0; l < kLayers; ++l)
        EXPECT_TRUE(reader->holds_layer(ids, l)) << l;
    }
    if (target == 1) break;
    disconnect();
    ASSERT_TRUE(real.daemon().stop(kPatience).ok());
  }
}

}  // namespace
}  // namespace varve
