// Group flush over a scripted drive: one at a time, late waiters wait for the next, lazy writes are
// flushed in the end, a failed flush fails all that wait.
#include "server/flash/flusher.h"

#include <gtest/gtest.h>

#include "tests/server/flash/scripted_device.h"

namespace varve::flash {
namespace {

struct World {
  World()
      : reactor(clock, nullptr, ReactorOptions{}),
        device(reactor, 16 * kMiB),
        io(reactor, device, {4, 4, 64 * 1024, 100 * kSecond}),
        flusher(reactor, io) {}
  void turn() {
    for (int i = 0; i < 4; ++i)
      reactor.turn();
  }
  ManualClock clock;
  Reactor reactor;
  ScriptedDevice device;
  IoQueue io;
  Flusher flusher;
};

struct Waiter {
  Waiter() {
    waiter.owner = this;
    waiter.on_done = [](FlushWaiter& w) { ++static_cast<Waiter*>(w.owner)->done; };
  }
  FlushWaiter waiter;
  int done = 0;
};

TEST(Flusher, OneFlushCoversAllThatWaitInOneTurn) {
  World world;
  Waiter waiters[5];
  for (Waiter& w : waiters)
    world.flusher.wait(w.waiter);
  world.turn();
  EXPECT_EQ(world.device.asked.size(), 1u);
  world.device.answer_all();
  for (const Waiter& w : waiters)
    EXPECT_EQ(w.done, 1);
  EXPECT_EQ(world.flusher.flushes.value(), 1u);
  EXPECT_TRUE(world.flusher.idle());
}

TEST(Flusher, WhoComesDuringAFlushWaitsForTheNextOne) {
  World world;
  Waiter first, second;
  world.flusher.wait(first.waiter);
  world.turn();
  world.flusher.wait(second.waiter);
  world.turn();
  EXPECT_EQ(world.device.waiting.size(), 1u);  // never two at the device
  world.device.answer_all();
  EXPECT_EQ(first.done, 1);
  EXPECT_EQ(second.done, 0);
  world.turn();
  world.device.answer_all();
  EXPECT_EQ(second.done, 1);
  EXPECT_EQ(world.flusher.flushes.value(), 2u);
}

TEST(Flusher, WritesThatNobodyWaitsForAreFlushedWithinASecond) {
  World world;
  world.flusher.note_write();
  world.turn();
  EXPECT_TRUE(world.device.asked.empty());
  world.clock.advance_by(kLazyNs);
  world.turn();
  EXPECT_EQ(world.device.asked.size(), 1u);
  world.device.answer_all();
  world.clock.advance_by(10 * kLazyNs);
  world.turn();
  EXPECT_EQ(world.device.asked.size(), 1u);  // and not again
  EXPECT_TRUE(world.flusher.idle());
}

TEST(Flusher, WhoCanWaitIsCoveredByAnothersFlushOrByItsOwnSoonAfter) {
  World world;
  Waiter soon, now;
  world.flusher.wait(soon.waiter, FlushBy::kSoon);
  world.turn();
  EXPECT_TRUE(world.device.asked.empty());
  world.flusher.wait(now.waiter);
  world.turn();
  world.device.answer_all();
  EXPECT_EQ(world.flusher.flushes.value(), 1u);
  EXPECT_TRUE(soon.done == 1 && now.done == 1);
  // Expect: one that comes during a flush is not covered by it, and has its own soon after.
  Waiter late;
  world.flusher.wait(now.waiter);
  world.turn();
  world.flusher.wait(late.waiter, FlushBy::kSoon);
  world.device.answer_all();
  EXPECT_EQ(late.done, 0);
  EXPECT_FALSE(world.flusher.idle());
  world.clock.advance_by(kSoonNs);
  world.turn();
  world.device.answer_all();
  EXPECT_EQ(late.done, 1);
  EXPECT_TRUE(world.flusher.idle());
}

TEST(Flusher, AWriteNotedDuringAFlushIsFlushedAgain) {
  World world;
  Waiter first;
  world.flusher.wait(first.waiter);
  world.turn();
  world.flusher.note_write();
  world.device.answer_all();
  world.clock.advance_by(kLazyNs);
  world.turn();
  EXPECT_EQ(world.device.asked.size(), 2u);
  world.device.answer_all();
  EXPECT_TRUE(world.flusher.idle());
}

TEST(Flusher, AFailedFlushFailsTheTargetAndAllThatWait) {
  World world;
  Waiter first, second;
  world.flusher.wait(first.waiter);
  world.turn();
  world.flusher.wait(second.waiter);
  world.device.answer(0, -EIO);
  world.turn();
  EXPECT_FALSE(world.io.ok());
  EXPECT_FALSE(first.waiter.status.ok());
  EXPECT_EQ(second.done, 1);
  EXPECT_FALSE(second.waiter.status.ok());
}

}  // namespace
}  // namespace varve::flash
