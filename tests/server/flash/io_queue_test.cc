// The I/O queue of one target over a scripted drive: order, shares, splitting, failure and limbo.
#include "server/flash/io_queue.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "server/flash/catalog.h"
#include "tests/server/flash/scripted_device.h"

namespace varve::flash {
namespace {

struct World {
  explicit World(const IoQueueOptions& options = {4, 4, 64 * 1024, kSecond})
      : reactor(clock, nullptr, ReactorOptions{}),
        device(reactor, 64 * kMiB),
        queue(reactor, device, options) {}
  void turn(int n = 3) {
    for (int i = 0; i < n; ++i)
      reactor.turn();
  }
  ManualClock clock;
  Reactor reactor;
  ScriptedDevice device;
  IoQueue queue;
};

struct One {
  One(DeviceKind kind, uint64_t page, uint32_t pages, Nanos wanted_ns = 0) : memory(pages) {
    run = {memory.page(0), bytes_of(pages)};
    transfer.kind = kind;
    transfer.offset_bytes = bytes_of(page);
    transfer.length_bytes = bytes_of(pages);
    transfer.runs = {&run, 1};
    transfer.wanted_ns = wanted_ns;
    transfer.owner = this;
    transfer.on_done = [](Transfer& t) { ++static_cast<One*>(t.owner)->done; };
  }
  PageMemory memory;
  iovec run;
  Transfer transfer;
  int done = 0;
};

TEST(IoQueue, SendsTheReadThatIsWantedFirst) {
  World world({1, 1, 64 * 1024, kSecond});
  One late(DeviceKind::kRead, 10, 1, 300), soon(DeviceKind::kRead, 20, 1, 100),
      then(DeviceKind::kRead, 30, 1, 200);
  world.queue.submit(late.transfer, IoClass::kDemand);
  world.queue.submit(soon.transfer, IoClass::kDemand);
  world.queue.submit(then.transfer, IoClass::kDemand);
  for (int i = 0; i < 3; ++i) {
    world.turn();
    world.device.answer_all();
  }
  ASSERT_EQ(world.device.asked.size(), 3u);
  EXPECT_EQ(world.device.asked[0].offset_bytes, bytes_of(20));
  EXPECT_EQ(world.device.asked[1].offset_bytes, bytes_of(30));
  EXPECT_EQ(world.device.asked[2].offset_bytes, bytes_of(10));
  EXPECT_EQ(late.done + soon.done + then.done, 3);
}

// A drive that was lost before the start (make_failed_device): no first request has to find it out.
TEST(IoQueue, ADeviceThatIsFailedFromTheStartIsSoAtOnce) {
  ManualClock clock;
  Reactor reactor(clock, nullptr, ReactorOptions{});
  const auto device =
      make_failed_device(reactor, "gone", 64 * kMiB, Status(Code::kUnavailable, "absent", ENOENT));
  IoQueue queue(reactor, *device, {4, 4, 64 * 1024, kSecond});
  EXPECT_FALSE(queue.ok());
  One one(DeviceKind::kRead, 0, 1);
  queue.submit(one.transfer, IoClass::kDemand);
  for (int i = 0; i < 3; ++i)
    reactor.turn();
  EXPECT_EQ(one.done, 1);
  EXPECT_EQ(one.transfer.status.code(), Code::kUnavailable);
  EXPECT_TRUE(queue.idle());
}

TEST(IoQueue, NothingIsSentOrEndedInsideSubmit) {
  World world;
  One one(DeviceKind::kRead, 0, 1);
  world.queue.submit(one.transfer, IoClass::kDemand);
  EXPECT_TRUE(world.device.asked.empty());
  world.turn();
  EXPECT_EQ(world.device.asked.size(), 1u);
  EXPECT_EQ(one.done, 0);
}

TEST(IoQueue, CutsATransferIntoRequestsOfTheLargestSize) {
  World world;
  One one(DeviceKind::kRead, 100, 40);  // 160 KiB by 64 KiB
  world.queue.submit(one.transfer, IoClass::kDemand);
  world.turn();
  ASSERT_EQ(world.device.asked.size(), 3u);
  EXPECT_EQ(world.device.asked[0].length_bytes, 64 * kKiB);
  EXPECT_EQ(world.device.asked[2].offset_bytes, bytes_of(132));
  EXPECT_EQ(world.device.asked[2].length_bytes, 32 * kKiB);
  world.device.answer(1);
  world.device.answer(1);
  EXPECT_EQ(one.done, 0);  // out of order, and not before the last
  world.device.answer(0);
  EXPECT_EQ(one.done, 1);
  EXPECT_TRUE(one.transfer.status.ok());
}

// What the device holds is passed by nobody: beyond some bytes the next is chosen when one is back.
TEST(IoQueue, HandsTheDeviceNoMoreThanSoManyBytesOfReads) {
  World world({8, 4, 64 * 1024, kSecond, 128 * 1024});
  One first(DeviceKind::kRead, 0, 16, 100), second(DeviceKind::kRead, 100, 16, 200),
      third(DeviceKind::kRead, 200, 16, 300), soon(DeviceKind::kRead, 300, 1, 50),
      back(DeviceKind::kRead, 400, 64);
  for (One* one : {&first, &second, &third})
    world.queue.submit(one->transfer, IoClass::kDemand);
  world.queue.submit(back.transfer, IoClass::kBackRead);
  world.turn();
  // Expect: two reads of 64 KiB, and the one background read that demand leaves room for.
  ASSERT_EQ(world.device.asked.size(), 3u);
  world.queue.submit(soon.transfer, IoClass::kDemand);
  world.turn();
  EXPECT_EQ(world.device.asked.size(), 3u);
  world.device.answer(1);  // a demand read: the background read was sent first
  world.turn();
  ASSERT_GE(world.device.asked.size(), 4u);
  EXPECT_EQ(world.device.asked[3].offset_bytes, bytes_of(300));
  for (int i = 0; i < 10; ++i) {
    world.device.answer_all();
    world.turn();
  }
  EXPECT_EQ(first.done + second.done + third.done + soon.done + back.done, 5);
}

// A hedge is begun by what the device keeps, not by what waits for it: the clock of a read starts
// when its last piece is sent.
TEST(IoQueue, TheTimeAtTheDeviceBeginsWhenTheLastPieceIsSent) {
  World world({1, 1, 64 * 1024, kSecond});
  One first(DeviceKind::kRead, 0, 1, 100), second(DeviceKind::kRead, 100, 32, 200);
  Nanos at_device_ns = 0;
  second.transfer.at_device_ns = &at_device_ns;
  world.queue.submit(first.transfer, IoClass::kDemand);
  world.queue.submit(second.transfer, IoClass::kDemand);
  world.turn();
  world.clock.advance_by(kMillisecond);
  world.turn();
  EXPECT_EQ(at_device_ns, 0u);  // it waits
  for (int piece = 0; piece < 2; ++piece) {
    world.device.answer(0);
    world.turn();
    EXPECT_EQ(at_device_ns, world.reactor.now_ns());
    world.clock.advance_by(kMillisecond);
    world.turn();
  }
  world.device.answer_all();
  EXPECT_EQ(first.done + second.done, 2);
}

// A single request above the limit is sent all the same.
TEST(IoQueue, SendsAReadThatIsLargerThanTheLimit) {
  World world({8, 4, 64 * 1024, kSecond, 1});
  One first(DeviceKind::kRead, 0, 16), second(DeviceKind::kRead, 100, 16);
  world.queue.submit(first.transfer, IoClass::kDemand);
  world.queue.submit(second.transfer, IoClass::kDemand);
  world.turn();
  EXPECT_EQ(world.device.asked.size(), 1u);
  world.device.answer(0);
  world.turn();
  EXPECT_EQ(world.device.asked.size(), 2u);
  world.device.answer_all();
  EXPECT_EQ(first.done + second.done, 2);
}

TEST(IoQueue, ReadsGoBeforeWritesAndWritesStillProgress) {
  World world({4, 4, 64 * 1024, kSecond});
  std::vector<std::unique_ptr<One>> writes, reads;
  for (uint32_t i = 0; i < 8; ++i) {
    writes.push_back(std::make_unique<One>(DeviceKind::kWrite, 1000 + i, 1));
    world.queue.submit(writes.back()->transfer, IoClass::kAppend);
  }
  for (uint32_t i = 0; i < 8; ++i) {
    reads.push_back(std::make_unique<One>(DeviceKind::kRead, i, 1, i));
    world.queue.submit(reads.back()->transfer, IoClass::kDemand);
  }
  world.turn();
  uint32_t reads_sent = 0, writes_sent = 0;
  for (const auto& asked : world.device.asked) {
    (asked.kind == DeviceKind::kRead ? reads_sent : writes_sent) += 1;
  }
  EXPECT_EQ(reads_sent, 4u);   // all of their slots
  EXPECT_EQ(writes_sent, 1u);  // a quarter while reads are there
  world.device.answer_all();
  for (int i = 0; i < 10; ++i) {
    world.turn();
    world.device.answer_all();
  }
  for (const auto& write : writes)
    EXPECT_EQ(write->done, 1);
}

TEST(IoQueue, BackgroundProgressesUnderAnyDemand) {
  World world({2, 2, 64 * 1024, kSecond});
  One back(DeviceKind::kRead, 5000, 16);
  world.queue.submit(back.transfer, IoClass::kBackRead);
  std::vector<std::unique_ptr<One>> reads;
  for (uint32_t i = 0; i < 40; ++i) {  // demand that never ends
    reads.push_back(std::make_unique<One>(DeviceKind::kRead, i, 1, i));
    world.queue.submit(reads.back()->transfer, IoClass::kDemand);
    world.turn();
    if (!world.device.waiting.empty()) world.device.answer(0);
    if (back.done == 1) break;
  }
  EXPECT_EQ(back.done, 1);
  world.device.answer_all();
}

TEST(IoQueue, AppendsAndReclaimWritesTakeTurns) {
  World world({1, 1, 64 * 1024, kSecond});
  std::vector<std::unique_ptr<One>> all;
  for (uint32_t i = 0; i < 4; ++i) {
    all.push_back(std::make_unique<One>(DeviceKind::kWrite, i, 1));
    world.queue.submit(all.back()->transfer, IoClass::kAppend);
    all.push_back(std::make_unique<One>(DeviceKind::kWrite, 100 + i, 1));
    world.queue.submit(all.back()->transfer, IoClass::kBackWrite);
  }
  for (int i = 0; i < 8; ++i) {
    world.turn();
    world.device.answer_all();
  }
  ASSERT_EQ(world.device.asked.size(), 8u);
  for (size_t i = 1; i < 8; ++i) {
    EXPECT_NE(world.device.asked[i].offset_bytes >= bytes_of(100),
              world.device.asked[i - 1].offset_bytes >= bytes_of(100));
  }
}

TEST(IoQueue, AFailedWriteFailsTheTargetAndAllThatWaits) {
  World world({4, 1, 64 * 1024, kSecond});
  One first(DeviceKind::kWrite, 0, 1), second(DeviceKind::kWrite, 1, 1),
      read(DeviceKind::kRead, 2, 1);
  world.queue.submit(first.transfer, IoClass::kAppend);
  world.queue.submit(second.transfer, IoClass::kAppend);
  world.turn();
  world.device.answer(0, -EIO);
  world.turn();
  EXPECT_FALSE(world.queue.ok());
  EXPECT_EQ(first.done, 1);
  EXPECT_EQ(second.done, 1);
  EXPECT_EQ(second.transfer.status.code(), Code::kUnavailable);
  world.queue.submit(read.transfer, IoClass::kDemand);
  EXPECT_EQ(read.done, 0);
  world.turn();
  EXPECT_EQ(read.done, 1);
  EXPECT_EQ(read.transfer.status.code(), Code::kUnavailable);
  EXPECT_TRUE(world.queue.idle());
}

TEST(IoQueue, AMediaErrorCostsOneTransferOnly) {
  World world;
  One bad(DeviceKind::kRead, 0, 40), good(DeviceKind::kRead, 100, 1, 5);
  world.queue.submit(bad.transfer, IoClass::kDemand);
  world.queue.submit(good.transfer, IoClass::kDemand);
  world.turn();
  world.device.answer(0, -EIO);
  for (int i = 0; i < 5; ++i) {
    world.turn();
    world.device.answer_all();
  }
  EXPECT_TRUE(world.queue.ok());
  EXPECT_EQ(bad.done, 1);
  EXPECT_EQ(bad.transfer.status.code(), Code::kIo);
  EXPECT_EQ(good.done, 1);
  EXPECT_TRUE(good.transfer.status.ok());
}

// L6 and limbo: the op ends, its memory stays with the drive until that gives it back.
TEST(IoQueue, AStuckRequestFailsTheTargetAndGoesToLimbo) {
  World world({4, 4, 64 * 1024, kSecond});
  One stuck(DeviceKind::kRead, 0, 40), waits(DeviceKind::kRead, 100, 1);
  int returned = 0;
  stuck.transfer.limbo = {[](void* owner) { ++*static_cast<int*>(owner); }, &returned};
  world.queue.submit(stuck.transfer, IoClass::kDemand);
  world.queue.submit(waits.transfer, IoClass::kDemand);  // without limbo: it waits for the device
  world.turn();
  ASSERT_EQ(world.device.waiting.size(), 4u);
  world.clock.advance_by(kSecond - 1);
  world.turn();
  EXPECT_TRUE(world.queue.ok());
  world.clock.advance_by(1);
  world.turn();
  EXPECT_FALSE(world.queue.ok());
  EXPECT_EQ(stuck.done, 1);
  EXPECT_TRUE(stuck.transfer.held);
  EXPECT_EQ(stuck.transfer.status.code(), Code::kUnavailable);
  EXPECT_EQ(waits.done, 0);
  EXPECT_EQ(world.queue.limbo_count(), 1u);
  world.device.answer(0);
  world.device.answer(0);
  EXPECT_EQ(returned, 0);
  world.device.answer_all();
  EXPECT_EQ(returned, 1);
  EXPECT_EQ(stuck.done, 1);
  EXPECT_EQ(waits.done, 1);
  EXPECT_EQ(world.queue.limbo_count(), 0u);
}

// What stood still was this core: the device answered long ago, and is heard a turn later.
TEST(IoQueue, TimeInWhichTheCoreStoodStillIsNotTheDevices) {
  World world({4, 4, 64 * 1024, 10 * kSecond});
  One read(DeviceKind::kRead, 0, 1), append(DeviceKind::kWrite, 100, 1);
  world.queue.submit(read.transfer, IoClass::kDemand);
  world.queue.submit(append.transfer, IoClass::kAppend);
  world.turn();
  Timer soon;  // as every shard has one
  soon.on_fire = [](Timer&) {};
  world.reactor.arm(soon, kSecond);
  world.clock.advance_by(12 * kSecond);
  world.turn();
  EXPECT_TRUE(world.queue.ok());
  EXPECT_FALSE(world.queue.keeps_longer(100 * kMillisecond, kSecond));
  EXPECT_FALSE(world.queue.silent(25 * kMillisecond));
  world.device.answer(0);
  world.turn();
  EXPECT_EQ(read.done, 1);
  // The other one is stuck in truth: it gets io_ns_max from here, and no more.
  world.clock.advance_by(10 * kSecond - 1);
  world.turn();
  EXPECT_TRUE(world.queue.ok());
  EXPECT_TRUE(world.queue.keeps_longer(100 * kMillisecond, kSecond));
  world.clock.advance_by(1);
  world.turn();
  EXPECT_FALSE(world.queue.ok());
  world.device.answer_all();
  world.turn();
}

// A read that somebody waits for counts soon, a write or a flush later, other things not at all.
TEST(IoQueue, SaysWhetherTheDeviceKeepsSomethingTooLong) {
  const struct {
    DeviceKind kind;
    IoClass io_class;
    Nanos after_ns;
  } cases[] = {{DeviceKind::kRead, IoClass::kDemand, 100},
               {DeviceKind::kRead, IoClass::kBackRead, kNever},
               {DeviceKind::kWrite, IoClass::kAppend, 1000},
               {DeviceKind::kWrite, IoClass::kBackWrite, 1000},
               {DeviceKind::kFlush, IoClass::kFlush, 1000},
               {DeviceKind::kDiscard, IoClass::kBackWrite, kNever}};
  for (const auto& [kind, io_class, after_ns] : cases) {
    SCOPED_TRACE(static_cast<int>(kind));
    World world;
    One back(DeviceKind::kRead, 8, 1), one(kind, 0, 1);
    if (kind == DeviceKind::kFlush) one.transfer.length_bytes = 0;
    world.queue.submit(back.transfer, IoClass::kBackRead);
    world.turn();
    world.clock.advance_by(5000);  // of all at the device the oldest is none that counts
    world.queue.submit(one.transfer, io_class);
    world.turn();
    ASSERT_EQ(world.device.waiting.size(), 2u);
    const Nanos last_ns = after_ns == kNever ? 100000 : after_ns;
    world.clock.advance_by(last_ns);
    world.turn();
    EXPECT_FALSE(world.queue.keeps_longer(100, 1000));
    world.clock.advance_by(1);
    world.turn();
    EXPECT_EQ(world.queue.keeps_longer(100, 1000), after_ns != kNever);
    world.device.answer_all();
    world.turn();
    EXPECT_FALSE(world.queue.keeps_longer(100, 1000));
  }
}

// A busy drive keeps one read long and answers others; a silent one answers none.
TEST(IoQueue, SaysWhetherADeviceWithDemandReadsIsSilent) {
  World world;
  One back(DeviceKind::kRead, 16, 1), kept(DeviceKind::kRead, 0, 1, 1);
  One other(DeviceKind::kRead, 8, 1, 1), written(DeviceKind::kWrite, 24, 1);
  world.clock.advance_by(1000);
  world.queue.submit(back.transfer, IoClass::kBackRead);
  world.turn();
  world.clock.advance_by(1000);
  world.turn();
  EXPECT_FALSE(world.queue.silent(100)) << "nobody waits for a background read";
  world.queue.submit(kept.transfer, IoClass::kDemand);
  world.queue.submit(other.transfer, IoClass::kDemand);
  world.queue.submit(written.transfer, IoClass::kAppend);
  world.turn();
  ASSERT_EQ(world.device.waiting.size(), 4u);
  world.clock.advance_by(100);
  world.turn();
  EXPECT_FALSE(world.queue.silent(100));
  world.device.answer(3);  // a write says nothing of reads
  world.clock.advance_by(1);
  world.turn();
  EXPECT_TRUE(world.queue.silent(100));
  world.device.answer(2);
  world.turn();
  EXPECT_FALSE(world.queue.silent(100)) << "a read came back";
  world.clock.advance_by(101);
  world.turn();
  EXPECT_TRUE(world.queue.silent(100));
  world.device.answer_all();
  world.turn();
  EXPECT_FALSE(world.queue.silent(100));
}

TEST(IoQueue, AnIdleQueueArmsNoTimer) {
  World world;
  One one(DeviceKind::kRead, 0, 1);
  world.queue.submit(one.transfer, IoClass::kDemand);
  world.turn();
  world.device.answer_all();
  world.clock.advance_by(2 * kSecond);
  world.turn();
  EXPECT_EQ(world.reactor.next_work_ns(), kNever);
  EXPECT_TRUE(world.queue.ok());
}

}  // namespace
}  // namespace varve::flash
