// DATA frames: one extent stays on one lane, lanes share the work, a full lane makes frames wait.
#include "server/session/data_out.h"

#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

void store_blocks(World& world, const std::vector<BaseId>& ids, const Format& format) {
  const ExtentTable table = *ExtentTable::of(format.ranks[0], Scheme{});
  for (const BaseId& id : ids) {
    std::vector<std::vector<std::byte>> extents;
    for (uint32_t e = 0; e < table.extents.size(); ++e) {
      extents.push_back(bytes_of_extent({id, 0}, e, table.extents[e].bytes));
    }
    world.home_of(id).stored[{id, 0}] = extents;
  }
}

Format wide_format() {  // extents of eight frames
  Format format = small_format();
  format.ranks[0].assign(3, LayerSpec{LayerKind::kFull, 2 * 1024 * 1024});
  return format;
}

TEST(DataOut, PiecesOfOneExtentStayTogetherAndLanesShareTheWork) {
  World world;
  TestClient client(world, 4);
  const uint32_t format = client.register_format(wide_format());
  const auto ids = ids_of(4);
  store_blocks(world, ids, wide_format());
  world.homes[0]->window_bytes = 4 * kMiB;
  const uint64_t op = client.pull(format, ids);
  client.wait<wire::PulledView>(op);
  world.run_for(200 * kMillisecond);
  uint32_t used = 0;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> lane_of;
  for (uint32_t lane = 0; lane < 4; ++lane) {
    uint64_t bytes = 0;
    for (const Got& got : client.bulk[lane]->got) {
      const wire::Frame frame = got.frame();
      const wire::Data& data = std::get<wire::DataView>(frame.body).body;
      const auto [at, fresh] = lane_of.insert({{data.block, data.extent}, lane});
      EXPECT_EQ(at->second, lane);
      if (fresh) {
        EXPECT_EQ(data.offset, 0u);
      }
      bytes += got.payload.size();
    }
    used += bytes > 0 ? 1 : 0;
  }
  EXPECT_EQ(lane_of.size(), 12u);
  EXPECT_EQ(used, 4u);
}

TEST(DataOut, AFullLaneMakesFramesWaitAndLosesNone) {
  World world(1, {}, {}, LinkOptions{.send_messages_max = 3, .send_bytes_max = kMiB});
  TestClient client(world, 1);
  const uint32_t format = client.register_format(wide_format());
  const auto ids = ids_of(3);
  store_blocks(world, ids, wide_format());
  const uint64_t op = client.pull(format, ids);
  EXPECT_EQ(client.wait<wire::PulledView>(op).body.code, 0);
  world.run_for(200 * kMillisecond);
  uint64_t bytes = 0;
  for (const Got& got : client.bulk[0]->got)
    bytes += got.payload.size();
  EXPECT_EQ(bytes, 18 * kMiB);
  EXPECT_EQ(world.homes[0]->sends_returned, 72u);
}

// Goal: what a client lacks for its first layers does not stand behind its last ones.
// Method: a pull of 18 MiB stands before a lane; extents are then asked for one by one.
TEST(DataOut, ExtentsAskedForOneByOneGoBeforeWhatWaits) {
  World world;
  TestClient client(world, 1);
  const uint32_t format = client.register_format(wide_format());
  const auto ids = ids_of(3);
  store_blocks(world, ids, wide_format());
  world.homes[0]->window_bytes = 18 * kMiB;
  const uint64_t op = client.pull(format, ids);
  EXPECT_TRUE(world.run_until([&] { return world.homes[0]->sends_posted == 72; }));
  const uint64_t wanted = client.pull_wants(format, ids, {{1, 0}, {2, 0}});
  EXPECT_EQ(client.wait<wire::PulledView>(wanted).body.code, 0);
  uint64_t before = 0;
  for (const Got& got : client.bulk[0]->got)
    before += got.frame().header.op == op ? got.payload.size() : 0;
  EXPECT_LT(before, 9 * kMiB);
  EXPECT_EQ(client.wait<wire::PulledView>(op).body.code, 0);
  EXPECT_EQ(world.homes[0]->sends_returned, world.homes[0]->sends_posted);
}

TEST(DataOut, WhatWaitsGoesBackWhenThePullIsCancelledOrTheLaneGoes) {
  for (const bool cancel : {true, false}) {
    World world(1, {}, {}, LinkOptions{.send_messages_max = 3, .send_bytes_max = kMiB});
    TestClient client(world, 1);
    const uint32_t format = client.register_format(wide_format());
    const auto ids = ids_of(3);
    store_blocks(world, ids, wide_format());
    world.homes[0]->window_bytes = 16 * kMiB;
    const uint64_t op = client.pull(format, ids);
    EXPECT_TRUE(world.run_until([&] { return world.metric("varve_pull_sent_bytes_total") > 0; }));
    if (cancel) {
      client.cancel(op);
      EXPECT_EQ(client.wait<wire::PulledView>(op).body.code,
                static_cast<uint8_t>(Code::kCancelled));
      EXPECT_GT(world.homes[0]->sends_cancelled, 0u);
      EXPECT_TRUE(world.homes[0]->at_rest());
    } else {
      client.bulk[0]->close();
      EXPECT_TRUE(world.settle());
      EXPECT_GT(world.homes[0]->sends_failed, 0u);
    }
    // Expect: the home had every frame back.
    EXPECT_EQ(world.homes[0]->sends_returned, world.homes[0]->sends_posted);
  }
}

}  // namespace
}  // namespace varve::test
