// FOLLOW: what one client pushes reaches another as it comes, every end of the push is told apart,
// and no slab goes home while a frame of it is on a follower's lane.
#include "server/session/follow.h"

#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

constexpr uint64_t kBlockBytes = 300 * 1024 + 100 + (80 + 70 + 65) * 1024;
constexpr uint32_t kExtents = 4;

// One client that pushes and one that follows.
struct Pair {
  explicit Pair(World& owner, uint32_t blocks = 2, uint32_t hold_ms = 10000,
                uint64_t credit = 64 * kMiB)
      : world(owner),
        pusher(owner, 2),
        follower(owner, 2, credit),
        pusher_format(pusher.register_format(small_format())),
        follower_format(follower.register_format(small_format())),
        ids(ids_of(blocks)) {
    reserve_op = pusher.reserve(pusher_format, ids, hold_ms);
    const wire::ReservedView view = pusher.wait<wire::ReservedView>(reserve_op);
    for (uint32_t i = 0; i < view.answers.size(); ++i)
      attempts.push_back(view.answers[i].attempt);
    EXPECT_EQ(attempts.size(), blocks);
  }
  BlockId block(uint32_t i) const { return {ids[i], 0}; }
  void push_extent(uint32_t i, uint32_t extent, bool spoil = false) {
    const ExtentEntry row = pusher.entries(block(i), attempts[i])[extent];
    auto bytes = bytes_of_extent(block(i), extent, row.stored_bytes);
    if (spoil) bytes[7] ^= std::byte{1};
    for (uint32_t offset = 0; offset < bytes.size(); offset += kPayloadBytesMax) {
      wire::Extent body;
      body.reserve_op = reserve_op;
      body.index = i;
      body.extent = extent;
      body.offset = offset;
      body.extent_bytes = row.stored_bytes;
      body.stored_crc = row.stored_crc;
      body.attempt = attempts[i];
      const size_t piece = std::min<size_t>(kPayloadBytesMax, bytes.size() - offset);
      pusher.send_piece(body, std::span(bytes).subspan(offset, piece), i % 2);
    }
  }
  void push(uint32_t i) {
    for (uint32_t e = 0; e < kExtents; ++e)
      push_extent(i, e);
  }
  uint64_t ask_commit(uint32_t i) {
    return pusher.commit(reserve_op, i, block(i), attempts[i], static_cast<int32_t>(i % 2));
  }
  Code commit(uint32_t i) {
    return static_cast<Code>(pusher.wait<wire::CommittedView>(ask_commit(i)).body.code);
  }
  uint64_t follow(Nanos deadline_ns = 10 * kSecond) {
    return follower.follow(follower_format, ids, attempts, deadline_ns);
  }
  // What of `op` arrived whole: every byte, row and attempt as pushed, each extent once.
  std::set<std::pair<uint32_t, uint32_t>> arrived(uint64_t op) {
    std::map<std::pair<uint32_t, uint32_t>, std::vector<std::byte>> got;
    for (const auto& lane : {follower.bulk[0].get(), follower.bulk[1].get()}) {
      for (const Got& message : lane->got) {
        const wire::Frame frame = message.frame();
        if (frame.header.op != op) continue;
        const wire::Data& data = std::get<wire::DataView>(frame.body).body;
        auto& bytes = got[{data.block, data.extent}];
        EXPECT_EQ(bytes.size(), data.offset) << data.block << "." << data.extent;
        EXPECT_EQ(data.attempt, attempts[data.block]);
        bytes.insert(bytes.end(), message.payload.begin(), message.payload.end());
      }
    }
    std::set<std::pair<uint32_t, uint32_t>> whole;
    for (const auto& [key, bytes] : got) {
      const auto& [b, e] = key;
      const auto wanted =
          bytes_of_extent(block(b), e, static_cast<uint32_t>(pusher.table().bytes_at(e)));
      if (bytes.size() < wanted.size()) continue;
      EXPECT_EQ(bytes, wanted) << b << "." << e;
      whole.insert(key);
    }
    return whole;
  }
  std::vector<Code> codes(uint64_t op, Code whole = Code::kOk) {
    const auto view = follower.wait<wire::PulledView>(op);
    EXPECT_EQ(view.body.code, static_cast<uint8_t>(whole));
    std::vector<Code> out;
    for (uint32_t i = 0; i < view.codes.size(); ++i)
      out.push_back(static_cast<Code>(view.codes[i]));
    return out;
  }
  uint32_t pulls() const {
    uint32_t sum = 0;
    for (const auto& home : world.homes)
      sum += home->pulls;
    return sum;
  }
  World& world;
  TestClient pusher, follower;
  uint32_t pusher_format, follower_format;
  std::vector<BaseId> ids;
  std::vector<Attempt> attempts;
  uint64_t reserve_op = 0;
};

using Codes = std::vector<Code>;

TEST(Follow, AnExtentArrivesAsSoonAsItIsPushed) {
  World world(2);
  Pair pair(world);
  const uint64_t op = pair.follow();
  for (uint32_t e = 0; e < kExtents; ++e) {
    for (uint32_t b = 0; b < 2; ++b) {
      pair.push_extent(b, e);
      EXPECT_TRUE(world.run_until([&] { return pair.arrived(op).count({b, e}) == 1; }));
    }
  }
  EXPECT_EQ(pair.follower.answer(op), nullptr) << "nothing is committed";
  // Expect: the row is the one that COMMIT will carry.
  const Got& last = pair.follower.bulk[0]->got.back();
  const wire::Frame frame = last.frame();
  const wire::Data& data = std::get<wire::DataView>(frame.body).body;
  const ExtentEntry row =
      pair.pusher.entries(pair.block(data.block), pair.attempts[data.block])[data.extent];
  EXPECT_EQ(data.entry.stored_crc, row.stored_crc);
  EXPECT_EQ(data.entry.decoded_xxh3, row.decoded_xxh3);
  EXPECT_EQ(data.entry.stripe, row.stripe);
  EXPECT_EQ(pair.commit(0), Code::kOk);
  EXPECT_EQ(pair.commit(1), Code::kOk);
  EXPECT_EQ(pair.codes(op), (Codes{Code::kOk, Code::kOk}));
  EXPECT_EQ(pair.pulls(), 0u) << "all of it came from where it was received";
  EXPECT_EQ(world.metric("varve_follow_extents_total"), 8);
  EXPECT_EQ(world.metric("varve_follow_bytes_total"), static_cast<int64_t>(2 * kBlockBytes));
  EXPECT_EQ(world.metric("varve_follow_blocks_total", "code=\"ok\""), 2);
  EXPECT_EQ(world.requests_timed("follow"), 1u);
  EXPECT_EQ(world.requests_timed("pull"), 0u) << "it is as fast as its pusher";
}

TEST(Follow, OnlyTheLayersAskedFor) {
  World world;
  Pair pair(world, 1);
  wire::Follow body;
  body.format = pair.follower_format;
  body.deadline_ns = kSecond;
  body.layer_first = 1;
  body.layer_count = 2;
  body.count = 1;
  const wire::FollowBlock block{pair.ids[0], pair.attempts[0]};
  const uint64_t op = pair.follower.next_op++;
  pair.follower.urgent->send(pair.follower.encoder().follow(op, body, {&block, 1}));
  pair.push(0);
  EXPECT_EQ(pair.commit(0), Code::kOk);
  EXPECT_EQ(pair.codes(op), Codes{Code::kOk});
  world.run_for(10 * kMillisecond);
  using Set = std::set<std::pair<uint32_t, uint32_t>>;
  EXPECT_EQ(pair.arrived(op), (Set{{0, 1}, {0, 2}}));
}

TEST(Follow, OfTwoFollowersEachGetsAll) {
  World world;
  Pair pair(world, 1);
  TestClient third(world, 1);
  const uint32_t format = third.register_format(small_format());
  const uint64_t one = pair.follow();
  const uint64_t two = third.follow(format, pair.ids, pair.attempts);
  pair.push(0);
  EXPECT_EQ(pair.commit(0), Code::kOk);
  EXPECT_EQ(pair.codes(one), Codes{Code::kOk});
  EXPECT_EQ(third.wait<wire::PulledView>(two).codes[0], 0);
  world.run_for(10 * kMillisecond);
  EXPECT_EQ(pair.arrived(one).size(), kExtents);
  uint64_t bytes = 0;
  for (const Got& got : third.bulk[0]->got)
    bytes += got.payload.size();
  EXPECT_EQ(bytes, kBlockBytes);
}

TEST(Follow, AbortedExpiredAndUnknownAreToldApart) {
  World world;
  Pair pair(world, 3, 300);
  pair.attempts.push_back({9, 9, 9});
  pair.ids.push_back(id_of(77));
  const uint64_t op = pair.follow();
  pair.push_extent(0, 0);
  pair.push_extent(1, 0);
  pair.push(2);
  EXPECT_EQ(pair.commit(2), Code::kOk);
  pair.pusher.abort(pair.reserve_op, 0, pair.attempts[0]);
  world.run_for(400 * kMillisecond);  // the reservation of block 1 ends
  EXPECT_EQ(pair.codes(op),
            (Codes{Code::kCancelled, Code::kTimedOut, Code::kOk, Code::kUnavailable}));
  EXPECT_EQ(pair.arrived(op).count({0, 0}), 1u);
}

TEST(Follow, AnExtentThatIsCorruptIsNeverPassedOn) {
  World world;
  Pair pair(world, 1);
  const uint64_t op = pair.follow();
  pair.push_extent(0, 0, true);
  for (uint32_t e = 1; e < kExtents; ++e)
    pair.push_extent(0, e);
  EXPECT_EQ(pair.commit(0), Code::kCorrupt);
  EXPECT_EQ(pair.codes(op), Codes{Code::kCancelled});
  EXPECT_TRUE(pair.arrived(op).empty());
}

TEST(Follow, WhatIsCommittedAlreadyComesFromItsHome) {
  World world(2);
  Pair pair(world);
  for (uint32_t i = 0; i < 2; ++i) {
    pair.push(i);
    EXPECT_EQ(pair.commit(i), Code::kOk);
  }
  world.home_of(pair.ids[1]).attempts[pair.block(1)].counter += 100;  // another attempt won
  const uint64_t op = pair.follow();
  EXPECT_EQ(pair.codes(op), (Codes{Code::kOk, Code::kUnavailable}));
  EXPECT_EQ(world.metric("varve_follow_extents_total"), 0);
  EXPECT_GT(pair.pulls(), 0u);
}

// Goal: what a commit left unsent is asked of the home, and nothing twice. Method: the follower has
// no credit when the commit comes.
TEST(Follow, TheRestComesFromTheHomeAfterTheCommit) {
  World world;
  Pair pair(world, 2, 10000, 4 * kMiB);
  const auto others = ids_of(7, 500);
  for (const BaseId& id : others) {
    std::vector<std::vector<std::byte>> extents;
    for (uint32_t e = 0; e < kExtents; ++e)
      extents.push_back(bytes_of_extent({id, 0}, e, pair.follower.table().bytes_at(e)));
    world.homes[0]->stored[{id, 0}] = extents;
  }
  pair.follower.wait<wire::PulledView>(pair.follower.pull(pair.follower_format, others));
  const uint64_t op = pair.follow();
  pair.push(0);
  pair.push(1);
  world.run_for(20 * kMillisecond);
  const size_t before = pair.arrived(op).size();
  EXPECT_LT(before, 2 * kExtents);
  EXPECT_EQ(pair.commit(0), Code::kOk) << "a follower without credit holds nobody up";
  EXPECT_EQ(pair.commit(1), Code::kOk);
  EXPECT_EQ(pair.follower.answer(op), nullptr);
  pair.follower.credit(7 * kBlockBytes);
  for (const BaseId& id : pair.ids)
    world.homes[0]->known[id] = wire::TierKind::kFlash;
  EXPECT_EQ(pair.codes(op), (Codes{Code::kOk, Code::kOk}));
  // Expect: some out of its push's memory, the rest as its home says.
  EXPECT_EQ(pair.follower.wait<wire::PulledView>(op).body.tiers,
            wire::tier_bit(wire::TierKind::kDram) | wire::tier_bit(wire::TierKind::kFlash));
  world.run_for(10 * kMillisecond);
  EXPECT_EQ(pair.arrived(op).size(), 2 * kExtents);
  EXPECT_FALSE(world.homes[0]->wants_got.empty());
  // Expect: no credit is lost, so that a window of nearly all of it can be had.
  pair.follower.credit(2 * kBlockBytes);
  world.homes[0]->window_bytes = 4 * kMiB;
  const auto data_frames = [&] {
    return pair.follower.bulk[0]->got.size() + pair.follower.bulk[1]->got.size();
  };
  const size_t frames = data_frames();
  std::vector<BaseId> eight = others;
  eight.push_back(pair.ids[0]);
  const uint64_t again = pair.follower.pull(pair.follower_format, eight);
  EXPECT_TRUE(world.run_until([&] { return data_frames() >= frames + 39; }));
  pair.follower.credit(4 * kMiB - 64 * 1024);
  EXPECT_EQ(pair.codes(again), Codes(8, Code::kOk));
}

// Goal: a part names at most so many extents; the others are in the next one.
TEST(Follow, MoreThanAPartTakesIsSeveralParts) {
  World world(8);
  constexpr uint32_t kBlocks = 120, kLayers = 5;  // 600 extents, 512 in a part: cut in a block
  constexpr uint32_t kLayerBytes = 64 * 1024;
  Format format = small_format();
  format.ranks[0].assign(kLayers, LayerSpec{LayerKind::kFull, kLayerBytes});
  TestClient client(world, 1);
  const uint32_t handle = client.register_format(format);
  std::vector<BaseId> ids;
  for (uint32_t number = 0; ids.size() < kBlocks; ++number) {
    const BaseId id = id_of(number);
    if (Shard::home(id, kSlicesDefault, 8) != 0) continue;
    for (uint32_t e = 0; e < kLayers; ++e)
      world.homes[0]->stored[{id, 0}].push_back(bytes_of_extent({id, 0}, e, kLayerBytes));
    ids.push_back(id);
  }
  const std::vector<Attempt> attempts(kBlocks, Attempt{1, 0, 1});
  const auto view = client.wait<wire::PulledView>(client.follow(handle, ids, attempts));
  EXPECT_EQ(view.body.code, 0);
  for (uint32_t i = 0; i < view.codes.size(); ++i)
    EXPECT_EQ(view.codes[i], 0) << i;
  EXPECT_EQ(world.homes[0]->pulls, 2u);
  EXPECT_TRUE(world.run_until([&] { return client.bulk[0]->got.size() == kBlocks * kLayers; }));
}

// Goal: no slab goes home under a frame on a lane. Method: homes poison what comes back, a fabric
// that reads the payload late, and the commit right behind the last extent.
TEST(Follow, ACommitWaitsForFramesOnTheFollowersLane) {
  SimFabricOptions fabric;
  fabric.latency_ns_max = 5 * kMillisecond;
  World world(1, {}, fabric);
  Pair pair(world, 4);
  const uint64_t op = pair.follow();
  for (uint32_t i = 0; i < 4; ++i) {
    pair.push(i);
    pair.ask_commit(i);
  }
  EXPECT_EQ(pair.codes(op), (Codes{Code::kOk, Code::kOk, Code::kOk, Code::kOk}));
  world.run_for(50 * kMillisecond);
  EXPECT_EQ(pair.arrived(op).size(), 4 * kExtents);
  EXPECT_GE(world.metric("varve_follow_waits_total"), 1);
  EXPECT_GT(world.metric("varve_follow_extents_total"), 0);
}

// Goal: a follower that takes nothing keeps no memory of others for ever.
TEST(Follow, AFollowerThatAPushWaitsForTooLongIsDropped) {
  World world;
  Pair pair(world, 1, 300);
  pair.follow();
  pair.push_extent(0, 0);
  EXPECT_TRUE(world.run_until([&] { return world.metric("varve_follow_extents_total") == 1; }));
  world.fabric.partition("server", true);  // its frames stay on the lane
  world.run_for(4 * kSecond);              // the reservation has ended
  EXPECT_EQ(world.metric("varve_sessions"), 2);
  EXPECT_EQ(world.homes[0]->aborts, 0u);
  EXPECT_GE(world.metric("varve_follow_waits_total"), 1);
  world.run_for(4 * kSecond);
  EXPECT_EQ(world.metric("varve_session_slow_total", "reason=\"data\""), 1);
  EXPECT_EQ(world.homes[0]->aborts, 1u);
  EXPECT_TRUE(world.homes[0]->at_rest());
  world.fabric.partition("server", false);
}

TEST(Follow, AFollowerMayBeSlowWhileNobodyWaits) {
  World world;
  Pair pair(world, 1, 60000);
  const uint64_t op = pair.follow(60 * kSecond);
  pair.push_extent(0, 0);
  EXPECT_TRUE(world.run_until([&] { return world.metric("varve_follow_extents_total") == 1; }));
  world.fabric.partition("server", true);
  world.run_for(12 * kSecond);
  world.fabric.partition("server", false);
  for (uint32_t e = 1; e < kExtents; ++e)
    pair.push_extent(0, e);
  EXPECT_EQ(pair.commit(0), Code::kOk);
  EXPECT_EQ(pair.codes(op), Codes{Code::kOk});
}

TEST(Follow, TheDeadlineEndsItAndThePushGoesOn) {
  World world;
  Pair pair(world, 2);
  const uint64_t op = pair.follow(200 * kMillisecond);
  pair.push(0);
  EXPECT_EQ(pair.commit(0), Code::kOk);
  world.run_for(300 * kMillisecond);
  EXPECT_EQ(pair.codes(op, Code::kTimedOut), (Codes{Code::kOk, Code::kTimedOut}));
  pair.push(1);
  EXPECT_EQ(pair.commit(1), Code::kOk);
  EXPECT_EQ(world.metric("varve_session_requests"), 0);
}

TEST(Follow, CancelAnswersPulledAndThenFenced) {
  World world;
  Pair pair(world, 2);
  const uint64_t op = pair.follow();
  pair.push_extent(0, 0);
  world.run_for(10 * kMillisecond);
  const uint64_t one = pair.follower.cancel_extent(op, 0, 1);  // of a follow: when all is over
  world.run_for(10 * kMillisecond);
  EXPECT_EQ(pair.follower.answer(one), nullptr);
  const uint64_t all = pair.follower.cancel(op);
  EXPECT_EQ(pair.codes(op, Code::kCancelled), (Codes{Code::kCancelled, Code::kCancelled}));
  EXPECT_EQ(pair.follower.wait<wire::FencedView>(all).body.target_op, op);
  EXPECT_EQ(pair.follower.wait<wire::FencedView>(one).body.extent, 1u);
  const size_t before = pair.follower.bulk[0]->got.size() + pair.follower.bulk[1]->got.size();
  for (uint32_t e = 1; e < kExtents; ++e)
    pair.push_extent(0, e);
  EXPECT_EQ(pair.commit(0), Code::kOk);
  EXPECT_EQ(pair.follower.bulk[0]->got.size() + pair.follower.bulk[1]->got.size(), before);
}

TEST(Follow, ItIsAHoldOfItsOwnKind) {
  World world;
  Pair pair(world, 2);
  pair.follow();
  world.run_for(10 * kMillisecond);
  const uint64_t op = pair.pusher.next_op++;
  pair.pusher.urgent->send(pair.pusher.encoder().holds(op, wire::Holds{0}));
  const auto view = pair.pusher.wait<wire::HeldView>(op);
  ASSERT_EQ(view.holds.size(), 3u);
  EXPECT_EQ(view.holds[2].kind, wire::HoldKind::kFollow);
  EXPECT_EQ(view.holds[2].session, pair.follower.welcome.session);
  EXPECT_EQ(view.holds[2].count, 2u);
  EXPECT_EQ(view.holds[2].bytes, 2 * kBlockBytes);
}

TEST(Follow, LimitsAndNonsenseAreTypedRefusals) {
  SessionOptions options;
  options.follows_sum_max = 1;
  World world(1, options);
  Pair pair(world, 1);
  EXPECT_TRUE(
      pair.codes(pair.follower.follow(99, pair.ids, pair.attempts), Code::kInvalid).empty());
  EXPECT_TRUE(pair.codes(pair.follow(0), Code::kInvalid).empty());
  const uint64_t op = pair.follow();
  EXPECT_TRUE(pair.codes(pair.follow(), Code::kOverloaded).empty());
  pair.push(0);
  EXPECT_EQ(pair.commit(0), Code::kOk);
  EXPECT_EQ(pair.codes(op), Codes{Code::kOk});
  EXPECT_EQ(pair.codes(pair.follow()), Codes{Code::kOk});
}

// Either side goes at every moment of a push that is followed: everything comes back.
TEST(Follow, ADisconnectAtAnyMomentLeavesNothing) {
  for (uint32_t moment = 0; moment < 80; ++moment) {
    World world(2);
    {
      Pair pair(world, 3, 10000, moment % 2 == 0 ? 64 * kMiB : 4 * kMiB);
      pair.follow();
      pair.follow(100 * kMillisecond);
      for (uint32_t i = 0; i < 3; ++i) {
        pair.push(i);
        pair.ask_commit(i);
      }
      const Nanos end_ns = world.clock.now_ns() + kSecond;
      for (uint32_t s = 0; s < moment * 3; ++s)
        world.step(end_ns);
      if (moment % 4 == 0) world.fabric.break_all();
      if (moment % 4 == 1) pair.follower.bulk[0]->close();
      if (moment % 4 == 2) pair.pusher.urgent->close();
      if (moment % 4 == 3) pair.pusher.bulk[1]->close();
      world.run_for(200 * kMillisecond);
    }
    EXPECT_TRUE(world.settle()) << moment;
    EXPECT_EQ(world.metric("varve_session_requests"), 0) << moment;
    EXPECT_EQ(world.metric("varve_session_grants"), 0) << moment;
  }
}

}  // namespace
}  // namespace varve::test
