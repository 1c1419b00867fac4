// A lane's states: unnamed, named, refused with a last word, closed; its link goes in a later task.
#include "server/session/lane.h"

#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

struct Recorder final : LaneUser, ListenerUser {
  Status on_place(Lane&, ConstByteSpan, uint32_t payload_bytes, Placement& where) override {
    bytes.assign(payload_bytes, std::byte{0});
    where.add(bytes.data(), bytes.size());
    return {};
  }
  void on_frame(Lane&, ConstByteSpan, uint32_t) override { ++frames; }
  void on_lane_closed(Lane&, Status status) override {
    ++closes;
    cause = status;
  }
  void on_accepted(std::unique_ptr<Link> link) override { accepted = std::move(link); }
  std::unique_ptr<Link> accepted;
  std::vector<std::byte> bytes;
  uint32_t frames = 0, closes = 0;
  Status cause;
};

// A listener of its own beside the world's table.
struct Bench {
  Bench() : context(world.reactor, SessionOptions{}, {world.homes[0].get()}), pool(context, 2) {
    listener = std::move(*world.fabric.listen(world.reactor, "lanes", {}));
    listener->start(user);
    client = std::make_unique<ClientLane>(
        world, std::move(*world.fabric.connect(world.client_reactor, "lanes", {})));
    EXPECT_TRUE(world.run_until([this] { return user.accepted != nullptr; }));
    lane = pool.take();
    lane->open(std::move(user.accepted), user, pool, kSecond);
  }
  ~Bench() {
    if (!client->closed()) client->close();
    EXPECT_TRUE(
        world.run_until([this] { return client->closed() && pool.used() == 0; }, 5 * kSecond));
    listener->stop();
  }
  World world;
  SessionContext context;
  LanePool pool;
  Recorder user;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<ClientLane> client;
  Lane* lane = nullptr;
};

TEST(Lane, UnnamedItIsClosedWhenItsTimeIsOver) {
  Bench bench;
  EXPECT_EQ(bench.pool.unnamed(), 1u);
  bench.world.run_for(2 * kSecond);
  EXPECT_EQ(bench.user.closes, 1u);
  EXPECT_EQ(bench.user.cause.code(), Code::kTimedOut);
  EXPECT_EQ(bench.pool.used(), 0u);
  EXPECT_EQ(bench.pool.unnamed(), 0u);
}

TEST(Lane, NamedItLivesOnAndGoesToItsNewUser) {
  Bench bench;
  Recorder session;
  bench.lane->name(Lane::State::kBulk, session);
  EXPECT_EQ(bench.pool.unnamed(), 0u);
  bench.world.run_for(10 * kSecond);
  bench.client->send(std::vector<std::byte>(20));
  EXPECT_TRUE(bench.world.run_until([&] { return session.frames == 1; }));
  EXPECT_EQ(bench.user.frames, 0u);
  bench.lane->close(Status::cancelled("done"));
  bench.lane->close(Status::cancelled("twice"));
  EXPECT_TRUE(bench.world.run_until([&] { return session.closes == 1; }));
  EXPECT_EQ(session.cause.code(), Code::kCancelled);
}

// Goal: a stranger makes the server hold little (docs/WIRE.md 2).
TEST(Lane, BeforeItHasANameItsHeadsAreSmall) {
  Bench bench;
  bench.client->send(std::vector<std::byte>(1024));
  EXPECT_TRUE(bench.world.run_until([&] { return bench.user.frames == 1; }));
  bench.client->send(std::vector<std::byte>(1025));
  EXPECT_TRUE(bench.world.run_until([&] { return bench.user.closes == 1; }));
  EXPECT_EQ(bench.user.cause.code(), Code::kInvalid);
  EXPECT_EQ(bench.user.frames, 1u);
}

TEST(Lane, WithANameItsHeadsMayBeAsLargeAsTheLinkTakes) {
  Bench bench;
  Recorder session;
  bench.lane->name(Lane::State::kUrgent, session);
  bench.client->send(std::vector<std::byte>(kHeadBytesMax));
  EXPECT_TRUE(bench.world.run_until([&] { return session.frames == 1; }));
  EXPECT_EQ(session.closes, 0u);
  bench.lane->close(Status::cancelled("done"));
  EXPECT_TRUE(bench.world.run_until([&] { return session.closes == 1; }));
}

TEST(Lane, RefusedItSaysWhyAndDropsWhatArrives) {
  Bench bench;
  bench.lane->refuse(9, Status::quota("too many"));
  bench.client->send(std::vector<std::byte>(20), std::vector<std::byte>(100));
  EXPECT_TRUE(bench.world.run_until([&] { return bench.client->closed(); }, 5 * kSecond));
  EXPECT_EQ(bench.user.frames, 0u);
  const Got* got = bench.client->find(wire::FrameType::kRefused);
  ASSERT_NE(got, nullptr);
  const wire::Frame frame = got->frame();
  EXPECT_EQ(frame.header.op, 9u);
  EXPECT_EQ(std::get<wire::RefusedView>(frame.body).text, "too many");
}

TEST(Lane, ARefusalThatNobodyReadsIsBounded) {
  Bench bench;
  bench.world.fabric.partition("lanes", true);
  bench.lane->refuse(9, Status::quota("too many"));
  bench.world.run_for(3 * kSecond);
  EXPECT_EQ(bench.pool.used(), 0u);
  bench.world.fabric.partition("lanes", false);
}

}  // namespace
}  // namespace varve::test
