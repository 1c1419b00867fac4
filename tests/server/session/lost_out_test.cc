// LOST: what homes cannot give is said once, in few frames, before PULLED, and never of a pull that
// was stopped.
#include "server/session/lost_out.h"

#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

struct Losing {
  Losing(World& world, uint32_t blocks, uint64_t credit = 64 * kMiB)
      : client(world, 1, credit),
        format(client.register_format(small_format())),
        ids(ids_of(blocks)) {
    for (const BaseId& id : ids) {
      std::vector<std::vector<std::byte>> extents;
      for (uint32_t e = 0; e < 4; ++e)
        extents.push_back(bytes_of_extent({id, 0}, e, client.table().bytes_at(e)));
      world.home_of(id).stored[{id, 0}] = extents;
    }
  }
  std::vector<wire::LostExtent> lost(uint64_t op) const {
    std::vector<wire::LostExtent> out;
    for (const Got& got : client.urgent->got) {
      const wire::Frame frame = got.frame();
      if (frame.header.type != wire::FrameType::kLost || frame.header.op != op) continue;
      const auto& view = std::get<wire::LostView>(frame.body);
      for (uint32_t i = 0; i < view.lost.size(); ++i)
        out.push_back(view.lost[i]);
    }
    return out;
  }
  TestClient client;
  uint32_t format;
  std::vector<BaseId> ids;
};

TEST(LostOut, WhatCannotBeHadIsSaidWithItsRowAndTheRestComes) {
  World world(2);
  Losing a(world, 6);
  for (const auto& home : world.homes) {
    home->lost_extents = {1};
    home->late_extents = {2};
  }
  const uint64_t op = a.client.pull(a.format, a.ids);
  const auto view = a.client.wait<wire::PulledView>(op);
  EXPECT_EQ(view.body.code, 0);
  const auto lost = a.lost(op);
  ASSERT_EQ(lost.size(), 12u);
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (const wire::LostExtent& row : lost) {
    EXPECT_TRUE(seen.insert({row.block, row.extent}).second);
    EXPECT_EQ(row.state, row.extent == 1 ? wire::LostState::kLost : wire::LostState::kLate);
    EXPECT_EQ(row.code, static_cast<uint8_t>(Code::kIo));
    EXPECT_EQ(row.entry.stored_bytes, 1000 + row.extent);
    EXPECT_FALSE(row.attempt.is_none());
    EXPECT_LT(row.block, 6u);
  }
  // Expect: LOST comes before PULLED, so that a client knows then what it has to rebuild.
  EXPECT_EQ(a.client.urgent->got.back().frame().header.type, wire::FrameType::kPulled);
  EXPECT_EQ(world.metric("varve_session_lost_extents_total", "state=\"lost\""), 6);
  EXPECT_EQ(world.metric("varve_session_lost_extents_total", "state=\"late\""), 6);
  EXPECT_LE(world.metric("varve_session_lost_frames_total"), 4);
}

// Goal: what comes while a frame is in its lane waits for the next one, and no frame is too large.
// Method: more notes than a turn of the reactor takes, over a network slower than the homes.
TEST(LostOut, WhatComesMeanwhileIsTheNextFrame) {
  World world;
  Losing a(world, 700);
  world.homes[0]->lost_extents = {0, 1, 2, 3};
  const uint64_t op = a.client.pull(a.format, a.ids);
  a.client.wait<wire::PulledView>(op);
  EXPECT_EQ(a.lost(op).size(), 2800u);
  EXPECT_GE(a.client.urgent->count(wire::FrameType::kLost), 3u);
  EXPECT_LE(a.client.urgent->count(wire::FrameType::kLost), 11u);
  EXPECT_EQ(world.homes[0]->notes_returned, 2800u);
}

TEST(LostOut, OfTwoPullsEachHasItsOwn) {
  World world;
  Losing a(world, 5);
  world.homes[0]->lost_extents = {3};
  const uint64_t one = a.client.pull(a.format, a.ids);
  const uint64_t two = a.client.pull(a.format, {a.ids[4]});
  a.client.wait<wire::PulledView>(one);
  a.client.wait<wire::PulledView>(two);
  EXPECT_EQ(a.lost(one).size(), 5u);
  ASSERT_EQ(a.lost(two).size(), 1u);
  EXPECT_EQ(a.lost(two)[0].block, 0u);
}

// Goal: what comes from a home after CANCEL goes back unsaid. Method: the home holds the pull.
TEST(LostOut, OfACancelledPullNothingIsSaid) {
  World world;
  Losing a(world, 3);
  world.homes[0]->lost_extents = {0};
  world.homes[0]->hold = true;
  world.homes[0]->hold_kind = Part::Kind::kPull;
  const uint64_t op = a.client.pull(a.format, a.ids);
  EXPECT_TRUE(world.run_until([&] { return world.homes[0]->held_count() == 1; }));
  a.client.cancel(op);
  world.run_for(kMillisecond);
  world.homes[0]->release_held();
  EXPECT_EQ(a.client.wait<wire::PulledView>(op).body.code, static_cast<uint8_t>(Code::kCancelled));
  EXPECT_EQ(a.lost(op).size(), 0u);
  EXPECT_EQ(world.homes[0]->notes_returned, 3u);
  EXPECT_EQ(world.metric("varve_session_lost_extents_total", "state=\"dropped\""), 3);
}

// Goal: a client that reads nothing keeps its own notes waiting, and they come back with its end.
TEST(LostOut, ADisconnectAtAnyMomentLeavesNothing) {
  for (uint32_t moment = 0; moment < 40; ++moment) {
    World world(2);
    {
      Losing a(world, 30);
      for (const auto& home : world.homes)
        home->lost_extents = home->late_extents = {0, 2};
      a.client.pull(a.format, a.ids);
      a.client.pull(a.format, a.ids);
      const Nanos end_ns = world.clock.now_ns() + kSecond;
      for (uint32_t s = 0; s < moment; ++s)
        world.step(end_ns);
      if (moment % 2 == 0) world.fabric.break_all();
      if (moment % 2 == 1) a.client.urgent->close();
      EXPECT_TRUE(world.settle()) << moment;
    }
    for (const auto& home : world.homes)
      EXPECT_EQ(home->notes_returned, home->notes_posted) << moment;
  }
}

}  // namespace
}  // namespace varve::test
