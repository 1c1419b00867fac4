// Goal: main's call reaches a shard's core and is bounded. Method: a reactor on a thread, and one
// that nobody turns.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "server/node/node.h"

namespace varve {
namespace {

TEST(ShardCall, RunsOnTheCoreAndIsWaitedFor) {
  SystemClock clock;
  Result<IoBackendChoice> io = make_io_backend(IoBackendPreference::kEpoll, {});
  ASSERT_TRUE(io.has_value());
  Reactor reactor(clock, io->backend.get(), ReactorOptions{});
  Gate gate(2);
  std::thread core([&] {
    gate.arrive_and_wait();
    reactor.run();
  });
  gate.arrive_and_wait();
  ShardCall call;
  std::thread::id where;
  EXPECT_TRUE(call.run(
      reactor, [](void* id) { *static_cast<std::thread::id*>(id) = std::this_thread::get_id(); },
      &where, 30 * kSecond));
  EXPECT_EQ(where, core.get_id());
  reactor.stop();
  core.join();
}

TEST(ShardCall, GivesUpAtItsBoundAndStaysOut) {
  SystemClock clock;
  Reactor reactor(clock, nullptr, ReactorOptions{});
  ShardCall call;
  uint32_t count = 0;
  const auto work = [](void* n) { ++*static_cast<uint32_t*>(n); };
  EXPECT_FALSE(call.run(reactor, work, &count, kMillisecond));
  EXPECT_FALSE(call.run(reactor, work, &count, kMillisecond));  // the first is still out
  EXPECT_EQ(count, 0u);
  reactor.turn();
  EXPECT_EQ(count, 1u);
}

// A stop that comes after one slow second is still a graceful one.
TEST(ShardCall, WaitsForAnEarlierOneThatWasGivenUp) {
  SystemClock clock;
  Result<IoBackendChoice> io = make_io_backend(IoBackendPreference::kEpoll, {});
  ASSERT_TRUE(io.has_value());
  Reactor reactor(clock, io->backend.get(), ReactorOptions{});
  ShardCall call;
  uint32_t early = 0, late = 0;
  const auto work = [](void* n) { ++*static_cast<uint32_t*>(n); };
  EXPECT_FALSE(call.run(reactor, work, &early, kMillisecond));
  std::thread core([&reactor] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    reactor.run();
  });
  EXPECT_TRUE(call.run(reactor, work, &late, 30 * kSecond));
  EXPECT_EQ(early, 1u);
  EXPECT_EQ(late, 1u);
  reactor.stop();
  core.join();
}

}  // namespace
}  // namespace varve
