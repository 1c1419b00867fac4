// Goal: main's call reaches a shard's core and is bounded. Method: a reactor on a thread, and one
// that nobody turns.
#include <gtest/gtest.h>

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
  EXPECT_FALSE(call.run(reactor, work, &count, kSecond));  // at once: the first is still out
  EXPECT_EQ(count, 0u);
  reactor.turn();
  EXPECT_EQ(count, 1u);
}

}  // namespace
}  // namespace varve
