// CANCEL of one extent: FENCED with the same names when no frame of it is or will be on a lane; the
// pull goes on (I8).
#include "server/session/fence.h"

#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

struct Fencing {
  explicit Fencing(World& owner, uint32_t blocks = 2)
      : world(owner),
        client(owner),
        format(client.register_format(small_format())),
        ids(ids_of(blocks)) {
    for (const BaseId& id : ids) {
      std::vector<std::vector<std::byte>> extents;
      for (uint32_t e = 0; e < 4; ++e)
        extents.push_back(bytes_of_extent({id, 0}, e, client.table().bytes_at(e)));
      world.home_of(id).stored[{id, 0}] = extents;
    }
  }
  uint32_t data_of(uint64_t op, uint32_t block, uint32_t extent) const {
    uint32_t n = 0;
    for (const Got& got : client.bulk[0]->got) {
      const wire::Frame frame = got.frame();
      const wire::Data& data = std::get<wire::DataView>(frame.body).body;
      if (frame.header.op == op && data.block == block && data.extent == extent) ++n;
    }
    return n;
  }
  void expect_fenced(uint64_t cancel, uint64_t op, uint32_t block, uint32_t extent) {
    const auto view = client.wait<wire::FencedView>(cancel);
    EXPECT_EQ(view.body.target_op, op);
    EXPECT_EQ(view.body.block, block);
    EXPECT_EQ(view.body.extent, extent);
  }
  // The homes send what they held back.
  void finish(uint64_t op) {
    for (const auto& home : world.homes) {
      home->send_slowly = false;
      for (uint32_t i = 0; i < 4; ++i)  // also where the next ones are fenced
        home->release_sends();
    }
    EXPECT_EQ(client.wait<wire::PulledView>(op).body.code, 0);
  }
  World& world;
  TestClient client;
  uint32_t format;
  std::vector<BaseId> ids;
};

TEST(Fence, TheExtentIsNotSentAnyMoreAndTheOthersAre) {
  World world(2);
  Fencing a(world, 4);
  for (const auto& home : world.homes)
    home->send_slowly = true;
  const uint64_t op = a.client.pull(a.format, a.ids);
  world.run_for(10 * kMillisecond);
  const uint64_t cancel = a.client.cancel_extent(op, 1, 2);
  a.expect_fenced(cancel, op, 1, 2);
  a.finish(op);
  world.run_for(10 * kMillisecond);
  for (uint32_t b = 0; b < 4; ++b) {
    for (uint32_t e = 0; e < 4; ++e)
      EXPECT_EQ(a.data_of(op, b, e) == 0, b == 1 && e == 2) << b << "." << e;
  }
  EXPECT_EQ(world.home_of(a.ids[1]).fences, 1u);
  EXPECT_EQ(world.metric("varve_session_requests_total", "kind=\"cancel_extent\""), 1);
}

// Goal: FENCED never comes before the last frame of the extent has left its lane.
TEST(Fence, WhatIsOnALaneIsWaitedFor) {
  World world;
  Fencing a(world, 1);
  world.homes[0]->send_slowly = true;
  const uint64_t op = a.client.pull(a.format, a.ids);
  world.run_for(10 * kMillisecond);
  world.fabric.partition("server", true);  // the frame stays on its lane
  world.homes[0]->release_sends();
  world.run_for(10 * kMillisecond);
  EXPECT_EQ(world.homes[0]->sends_posted, 1u);
  world.fabric.partition("server", false);
  const uint64_t cancel = a.client.cancel_extent(op, 0, 0);
  EXPECT_NE(a.client.wait_got(cancel), nullptr);
  EXPECT_EQ(world.homes[0]->sends_returned, 1u);
  EXPECT_EQ(a.data_of(op, 0, 0), 1u);
  a.finish(op);
}

TEST(Fence, OfWhatNoPullSendsItIsAnsweredAtOnce) {
  World world;
  Fencing a(world);
  const uint64_t op = a.client.pull(a.format, a.ids);
  a.client.wait<wire::PulledView>(op);
  a.expect_fenced(a.client.cancel_extent(op, 0, 0), op, 0, 0);  // over
  a.expect_fenced(a.client.cancel_extent(4711, 0, 0), 4711, 0, 0);
  world.homes[0]->hold = true;
  world.homes[0]->hold_kind = Part::Kind::kPull;
  const uint64_t live = a.client.pull(a.format, a.ids);
  a.expect_fenced(a.client.cancel_extent(live, 2, 0), live, 2, 0);  // has two blocks
  EXPECT_EQ(world.homes[0]->fences, 0u);
  a.expect_fenced(a.client.cancel_extent(live, 1, 500), live, 1, 500);  // its home knows
  EXPECT_EQ(world.homes[0]->fences, 1u);
  world.homes[0]->release_held();
  EXPECT_EQ(a.client.wait<wire::PulledView>(live).body.code, 0);
}

TEST(Fence, OneIsOwedPerExtent) {
  World world;
  Fencing a(world);
  world.homes[0]->send_slowly = true;
  const uint64_t op = a.client.pull(a.format, a.ids);
  world.run_for(10 * kMillisecond);
  world.homes[0]->hold = true;
  world.homes[0]->hold_kind = Part::Kind::kFence;
  const uint64_t first = a.client.cancel_extent(op, 0, 1);
  const uint64_t again = a.client.cancel_extent(op, 0, 1);
  const uint64_t other = a.client.cancel_extent(op, 0, 2);
  world.run_for(10 * kMillisecond);
  EXPECT_EQ(world.homes[0]->held_count(), 2u);
  EXPECT_EQ(a.client.answer(first), nullptr);
  world.homes[0]->release_held();
  a.expect_fenced(first, op, 0, 1);
  a.expect_fenced(other, op, 0, 2);
  EXPECT_EQ(a.client.answer(again), nullptr);
  a.finish(op);
}

// Expect: the pull ends, by CANCEL of all of it, while the part is out; both are FENCED.
TEST(Fence, APullThatEndsMeanwhileChangesNothing) {
  World world;
  Fencing a(world);
  world.homes[0]->send_slowly = true;
  const uint64_t op = a.client.pull(a.format, a.ids);
  world.run_for(10 * kMillisecond);
  world.homes[0]->hold = true;
  world.homes[0]->hold_kind = Part::Kind::kFence;
  const uint64_t one = a.client.cancel_extent(op, 0, 1);
  const uint64_t all = a.client.cancel(op);
  world.homes[0]->send_slowly = false;
  world.homes[0]->release_sends();
  a.expect_fenced(all, op, wire::kWhole, wire::kWhole);
  EXPECT_EQ(a.client.wait<wire::PulledView>(op).body.code, static_cast<uint8_t>(Code::kCancelled));
  // Expect: its place is taken by another, which the part does not mean.
  const uint64_t next = a.client.pull(a.format, a.ids);
  EXPECT_EQ(a.client.wait<wire::PulledView>(next).body.code, 0);
  world.homes[0]->release_held();
  a.expect_fenced(one, op, 0, 1);
}

TEST(Fence, MoreThanTheLimitUnansweredEndTheSession) {
  SessionOptions options;
  options.fences_max = 3;
  World world(1, options);
  Fencing a(world);
  world.homes[0]->send_slowly = true;
  const uint64_t op = a.client.pull(a.format, a.ids);
  world.run_for(10 * kMillisecond);
  world.homes[0]->hold = true;
  world.homes[0]->hold_kind = Part::Kind::kFence;
  for (uint32_t e = 0; e < 3; ++e)
    a.client.cancel_extent(op, 0, e);
  world.run_for(10 * kMillisecond);
  EXPECT_FALSE(a.client.urgent->closed());
  a.client.cancel_extent(op, 1, 0);
  EXPECT_TRUE(world.run_until([&] { return a.client.urgent->closed(); }, 5 * kSecond));
  EXPECT_EQ(world.metric("varve_session_closed_total", "code=\"quota\""), 1);
  EXPECT_FALSE(world.table->at_rest()) << "the parts are waited for";
  world.homes[0]->send_slowly = false;
  world.homes[0]->release_sends();
  world.homes[0]->release_held();
  EXPECT_TRUE(world.settle());
}

TEST(Fence, ADisconnectAtAnyMomentLeavesNothing) {
  for (uint32_t moment = 0; moment < 40; ++moment) {
    World world(2);
    Fencing a(world, 8);
    const uint64_t op = a.client.pull(a.format, a.ids);
    for (uint32_t e = 0; e < 16; ++e)
      a.client.cancel_extent(op, e / 2, e % 4);
    const Nanos end_ns = world.clock.now_ns() + kSecond;
    for (uint32_t s = 0; s < moment; ++s)
      world.step(end_ns);
    world.fabric.break_all();
    EXPECT_TRUE(world.settle()) << moment;
  }
}

}  // namespace
}  // namespace varve::test
