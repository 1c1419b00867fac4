// Goal: D1-D5 hold on every kind of device, and results are judged in one place.
// Method: one suite over io_uring, epoll, memory and the fault decorator without faults; then a
// scripted heir gives short, refused and failed attempts that no real drive gives on demand.
#include <cerrno>
#include <cstring>
#include <map>

#include "tests/common/device/device_world.h"

namespace varve {
namespace {

using test::AlignedBytes;
using test::Request;
using test::TemporaryPath;
using test::World;

constexpr uint64_t kCapacity = 4 * kMiB;

enum class Kind {
  kUring,
  kEpoll,
  kMemory,
  kFaultOverMemory,
  kVolatileOverMemory,
  kVolatileOverFile
};

class DeviceSuite : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    switch (GetParam()) {
      case Kind::kUring:
        return open_file(IoBackendPreference::kUring, nullptr);
      case Kind::kEpoll:
        return open_file(IoBackendPreference::kEpoll, nullptr);
      case Kind::kMemory:
        world = std::make_unique<World>();
        device = make_memory_device(world->reactor(), platter, MemoryDeviceOptions{});
        return;
      case Kind::kFaultOverMemory:
        return open_fault(FaultPlan{});
      case Kind::kVolatileOverMemory: {
        FaultPlan plan;
        plan.volatile_cache = true;
        plan.spill_per_mille = 300;
        return open_fault(plan);
      }
      case Kind::kVolatileOverFile: {
        FaultPlan plan;
        plan.volatile_cache = true;
        plan.spill_per_mille = 300;
        return open_file(IoBackendPreference::kProbe, &plan);
      }
    }
  }
  void TearDown() override {
    // Unflushed pages keep the spilling decorator busy for ever.
    if (device != nullptr && !device->failed()) (void)world->flush(*device);
    if (world != nullptr) world->quiesce();
    device.reset();
  }
  void open_file(IoBackendPreference preference, const FaultPlan* plan) {
    Result<IoBackendChoice> choice = make_io_backend(preference, IoBackendOptions{});
    if (!choice) GTEST_SKIP() << "refused here: " << choice.error().what();
    world = std::make_unique<World>(std::move(choice->backend));
    FileDeviceOptions options;
    options.path = path.path();
    options.create_bytes = kCapacity;
    Result<std::unique_ptr<BlockDevice>> opened = open_file_device(world->reactor(), options);
    if (!opened && opened.error().code() == Code::kUnsupported) {
      GTEST_SKIP() << "no O_DIRECT in " << testing::TempDir();
    }
    ASSERT_TRUE(opened);
    device = *std::move(opened);
    if (plan != nullptr) device = FaultDevice::wrap(world->reactor(), std::move(device), *plan);
  }
  void open_fault(const FaultPlan& plan) {
    world = std::make_unique<World>();
    device = FaultDevice::wrap(world->reactor(),
                               make_memory_device(world->reactor(), platter, MemoryDeviceOptions{}),
                               plan);
  }
  TemporaryPath path{"suite"};
  MemoryPlatter platter{kCapacity};
  std::unique_ptr<World> world;
  std::unique_ptr<BlockDevice> device;
};

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceSuite,
                         testing::Values(Kind::kUring, Kind::kEpoll, Kind::kMemory,
                                         Kind::kFaultOverMemory, Kind::kVolatileOverMemory,
                                         Kind::kVolatileOverFile),
                         [](const auto& suite) {
                           switch (suite.param) {
                             case Kind::kUring:
                               return "io_uring";
                             case Kind::kEpoll:
                               return "epoll";
                             case Kind::kMemory:
                               return "memory";
                             case Kind::kFaultOverMemory:
                               return "fault";
                             case Kind::kVolatileOverMemory:
                               return "volatile";
                             case Kind::kVolatileOverFile:
                               break;
                           }
                           return "volatile_file";
                         });

TEST_P(DeviceSuite, ReadsBackWhatWasWrittenScatteredOverAnyMemory) {
  EXPECT_EQ(device->capacity_bytes(), kCapacity);
  AlignedBytes out(16 * kPageBytes);
  out.fill(7);
  Request write(DeviceKind::kWrite, 8 * kPageBytes);
  write.with(out.page(0), kPageBytes).with(out.page(1), 5 * kPageBytes);
  write.with(out.page(6), 10 * kPageBytes);
  EXPECT_TRUE(world->perform(*device, write).ok());
  EXPECT_TRUE(world->flush(*device).ok());
  AlignedBytes in(16 * kPageBytes);
  Request read(DeviceKind::kRead, 8 * kPageBytes);
  for (uint32_t i = 0; i < 16; ++i)
    read.with(in.page(i), kPageBytes);
  EXPECT_TRUE(world->perform(*device, read).ok());
  EXPECT_EQ(std::memcmp(in.data(), out.data(), out.size()), 0);
  EXPECT_EQ(device->counters().reads, 1u);
  EXPECT_EQ(device->counters().writes, 1u);
  EXPECT_EQ(device->counters().flushes, 1u);
  EXPECT_EQ(device->counters().written_bytes, out.size());
  EXPECT_EQ(device->in_flight(), 0u);
}

TEST_P(DeviceSuite, TheLastPageIsInsideAndUnwrittenPagesAreZero) {
  AlignedBytes page(kPageBytes);
  page.set('z');
  EXPECT_TRUE(world->read(*device, kPageBytes, page.data(), kPageBytes).ok());
  EXPECT_EQ(page.data()[0], std::byte{0});
  page.set('l');
  EXPECT_TRUE(world->write(*device, kCapacity - kPageBytes, page.data(), kPageBytes).ok());
  page.set('z');
  EXPECT_TRUE(world->read(*device, kCapacity - kPageBytes, page.data(), kPageBytes).ok());
  EXPECT_EQ(page.data()[kPageBytes - 1], std::byte{'l'});
}

TEST_P(DeviceSuite, OutsideUnalignedOrEmptyRequestsAbort) {
  AlignedBytes page(2 * kPageBytes);
  const auto submit = [&](uint64_t offset, std::byte* memory, uint64_t size) {
    Request request(DeviceKind::kRead, offset);
    request.with(memory, size);
    device->submit(request);
  };
  EXPECT_DEATH(submit(kCapacity, page.data(), kPageBytes), "assertion failed");
  EXPECT_DEATH(submit(512, page.data(), kPageBytes), "assertion failed");
  EXPECT_DEATH(submit(0, page.data() + 512, kPageBytes), "assertion failed");
  EXPECT_DEATH(submit(0, page.data(), 512), "assertion failed");
  EXPECT_DEATH(submit(kCapacity - kPageBytes, page.data(), 2 * kPageBytes), "assertion failed");
}

// Random reads, writes, flushes and discards over disjoint slots, many at once, against a model.
TEST_P(DeviceSuite, ManyRequestsAtOnceAgreeWithAModel) {
  constexpr uint32_t kSlots = 32;
  constexpr uint32_t kSlotPages = 8;
  constexpr uint32_t kRounds = 60;
  struct Slot {
    AlignedBytes memory{bytes_of(kSlotPages)};
    std::unique_ptr<Request> request;
    uint64_t content = 0;  // seed of what was written last, 0 never
  };
  std::deque<Slot> slots(kSlots);
  Random random(42);
  AlignedBytes expected(bytes_of(kSlotPages));
  for (uint32_t round = 0; round < kRounds; ++round) {
    std::unique_ptr<Request> flush;
    if (random.chance(500)) {
      flush = std::make_unique<Request>(DeviceKind::kFlush);
      device->submit(*flush);
    }
    for (uint32_t i = 0; i < kSlots; ++i) {
      Slot& slot = slots[i];
      const uint64_t offset = i * bytes_of(kSlotPages);
      const bool write = random.chance(500);
      if (write) {
        slot.content = random.next() | 1;
        slot.memory.fill(slot.content);
      } else {
        slot.memory.set('?');
      }
      slot.request =
          std::make_unique<Request>(write ? DeviceKind::kWrite : DeviceKind::kRead, offset);
      slot.request->with(slot.memory.page(0), 3 * kPageBytes);
      slot.request->with(slot.memory.page(3), 5 * kPageBytes);
      device->submit(*slot.request);
    }
    for (Slot& slot : slots) {
      world->finish(*slot.request);
      ASSERT_TRUE(slot.request->status.ok());
      if (slot.content == 0) {
        expected.set(0);
      } else {
        expected.fill(slot.content);
      }
      ASSERT_EQ(std::memcmp(slot.memory.data(), expected.data(), expected.size()), 0) << round;
    }
    if (flush != nullptr) {
      world->finish(*flush);
      ASSERT_TRUE(flush->status.ok());
    }
  }
  EXPECT_EQ(device->in_flight(), 0u);
}

TEST_P(DeviceSuite, DiscardedPagesReadAsZeroWhereTheDriveKnowsIt) {
  AlignedBytes pages(4 * kPageBytes);
  pages.fill(3);
  EXPECT_TRUE(world->write(*device, 0, pages.data(), pages.size()).ok());
  EXPECT_TRUE(world->flush(*device).ok());
  Request discard(DeviceKind::kDiscard, kPageBytes, 2 * kPageBytes);
  const Status status = world->perform(*device, discard);
  EXPECT_FALSE(device->failed());
  if (status.code() == Code::kUnsupported) GTEST_SKIP() << "no discard here";
  ASSERT_TRUE(status.ok());
  AlignedBytes in(4 * kPageBytes);
  EXPECT_TRUE(world->read(*device, 0, in.data(), in.size()).ok());
  EXPECT_EQ(std::memcmp(in.page(0), pages.page(0), kPageBytes), 0);
  EXPECT_EQ(in.page(1)[0], std::byte{0});
  EXPECT_EQ(in.page(2)[kPageBytes - 1], std::byte{0});
  EXPECT_EQ(std::memcmp(in.page(3), pages.page(3), kPageBytes), 0);
}

TEST_P(DeviceSuite, AFailedDeviceAnswersUnavailableInALaterTurn) {
  AlignedBytes page(kPageBytes);
  device->fail(Status::timed_out("no progress"));
  EXPECT_TRUE(device->failed());
  EXPECT_EQ(world->read(*device, 0, page.data(), kPageBytes).code(), Code::kUnavailable);
  EXPECT_EQ(world->flush(*device).code(), Code::kUnavailable);
  device->fail(Status::io("later", EIO));
  EXPECT_EQ(device->failure().code(), Code::kTimedOut);  // the first cause stays
  EXPECT_EQ(device->counters().reads, 0u);
}

// ---- a heir whose results are written down

class ScriptedDevice : public BlockDevice {
 public:
  explicit ScriptedDevice(Reactor& reactor) : BlockDevice(reactor, "scripted", kCapacity) {}
  std::deque<int64_t> results;  // empty: everything moves
  std::vector<std::pair<uint64_t, uint64_t>> attempts;
  AlignedBytes medium{kCapacity};

 protected:
  void start(DeviceIo& io) override {
    attempts.emplace_back(io.io.offset, io.io.bytes);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < io.io.iov_count; ++i)
      sum += io.io.iov[i].iov_len;
    if (io.io.iov_count > 0) {
      EXPECT_EQ(sum, io.io.bytes);
    }
    io.timer.owner = &io;
    io.timer.on_fire = [](Timer& timer) {
      auto& due = *static_cast<DeviceIo*>(timer.owner);
      static_cast<ScriptedDevice*>(due.device)->carry_out(due);
    };
    reactor_.arm(io.timer, 1);
  }

 private:
  void carry_out(DeviceIo& io) {
    int64_t result = static_cast<int64_t>(io.io.bytes);
    if (!results.empty()) {
      result = results.front();
      results.pop_front();
    }
    int64_t left = result;
    std::byte* at = medium.data() + io.io.offset;
    for (uint32_t i = 0; i < io.io.iov_count && left > 0; ++i) {
      const auto bytes = std::min<uint64_t>(io.io.iov[i].iov_len, static_cast<uint64_t>(left));
      if (io.kind == DeviceKind::kRead) {
        std::memcpy(io.io.iov[i].iov_base, at, bytes);
      } else {
        std::memcpy(at, io.io.iov[i].iov_base, bytes);
      }
      at += bytes;
      left -= static_cast<int64_t>(bytes);
    }
    progress(io, result);
  }
};

struct ScriptedTest : testing::Test {
  World world;
  ScriptedDevice device{world.reactor()};
  AlignedBytes memory{16 * kPageBytes};
};

TEST_F(ScriptedTest, ShortIoIsContinuedOnAPageAndTheIovecsComeBackAsTheyWere) {
  device.medium.fill(9);
  // Expect: 1.5 pages count as one; then 6 pages end inside the second iovec; then the rest.
  device.results = {kPageBytes + 2048, 6 * kPageBytes};
  Request read(DeviceKind::kRead, 2 * kPageBytes);
  read.with(memory.page(4), 4 * kPageBytes).with(memory.page(8), 4 * kPageBytes);
  read.with(memory.page(0), 4 * kPageBytes);
  const std::vector<iovec> before = read.flat;
  EXPECT_TRUE(world.perform(device, read).ok());
  ASSERT_EQ(device.attempts.size(), 3u);
  EXPECT_EQ(device.attempts[1], std::make_pair(3ul * kPageBytes, 11ul * kPageBytes));
  EXPECT_EQ(device.attempts[2], std::make_pair(9ul * kPageBytes, 5ul * kPageBytes));
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(read.flat[i].iov_base, before[i].iov_base);
    EXPECT_EQ(read.flat[i].iov_len, before[i].iov_len);
  }
  EXPECT_EQ(std::memcmp(memory.page(4), device.medium.page(2), 8 * kPageBytes), 0);
  EXPECT_EQ(std::memcmp(memory.page(0), device.medium.page(10), 4 * kPageBytes), 0);
  EXPECT_EQ(device.counters().short_ios, 2u);
  EXPECT_EQ(device.counters().read_bytes, 12 * kPageBytes);
}

TEST_F(ScriptedTest, AShortWriteIsContinuedToTheLastByte) {
  memory.fill(5);
  device.results = {3 * kPageBytes + 512, kPageBytes};
  EXPECT_TRUE(world.write(device, 0, memory.data(), memory.size()).ok());
  EXPECT_EQ(std::memcmp(memory.data(), device.medium.data(), memory.size()), 0);
}

TEST_F(ScriptedTest, EagainAndEintrAreRetriedWithABound) {
  device.results = {-EAGAIN, -EINTR, -EAGAIN};
  EXPECT_TRUE(world.read(device, 0, memory.data(), kPageBytes).ok());
  EXPECT_EQ(device.counters().retries, 3u);
  // Expect: one attempt and kRetriesMax more, then the cause, and the device has failed.
  device.attempts.clear();
  device.results.assign(100, -EAGAIN);
  const Status status = world.read(device, 0, memory.data(), kPageBytes);
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_EQ(status.errno_value(), EAGAIN);
  EXPECT_EQ(device.attempts.size(), 1u + BlockDevice::kRetriesMax);
  EXPECT_TRUE(device.failed());
}

TEST_F(ScriptedTest, AFlushInterruptedIsRetriedToo) {
  device.results = {-EINTR, 0};
  EXPECT_TRUE(world.flush(device).ok());
  EXPECT_FALSE(device.failed());
}

TEST_F(ScriptedTest, AReadOfNothingIsALostDrive) {
  device.results = {0};
  EXPECT_EQ(world.read(device, 0, memory.data(), kPageBytes).code(), Code::kUnavailable);
  EXPECT_TRUE(device.failed());
  EXPECT_EQ(device.failure().code(), Code::kUnavailable);
}

TEST_F(ScriptedTest, AWriteThatMovesNothingForeverFailsTheDevice) {
  device.results.assign(100, 0);
  EXPECT_EQ(world.write(device, 0, memory.data(), kPageBytes).code(), Code::kIo);
  EXPECT_TRUE(device.failed());
}

TEST_F(ScriptedTest, MediaErrorsFailOneRequestUntilTooManyPlacesHaveThem) {
  for (const int error : {EIO, ENODATA, EILSEQ}) {
    device.results = {-error};
    const Status status = world.read(device, 0, memory.data(), kPageBytes);
    EXPECT_EQ(status.code(), Code::kIo);
    EXPECT_EQ(status.errno_value(), error);
    EXPECT_FALSE(device.failed());
  }
  EXPECT_TRUE(world.read(device, 0, memory.data(), kPageBytes).ok());  // the row is broken
  const uint64_t place_bytes = device.capacity_bytes() / (2 * BlockDevice::kMediaPlacesMax);
  for (uint32_t i = 0; i < BlockDevice::kMediaPlacesMax; ++i) {
    EXPECT_FALSE(device.failed()) << i;
    device.results = {-EIO};
    EXPECT_EQ(world.read(device, i * place_bytes, memory.data(), kPageBytes).code(), Code::kIo);
  }
  EXPECT_TRUE(device.failed());
  EXPECT_EQ(device.counters().media_errors, 3u + BlockDevice::kMediaPlacesMax);
}

TEST_F(ScriptedTest, OneBadPlaceNeverFailsTheDeviceHoweverOftenItIsRead) {
  for (uint32_t i = 0; i < 10 * BlockDevice::kMediaPlacesMax; ++i) {
    device.results = {-EIO};
    EXPECT_EQ(world.read(device, kPageBytes, memory.data(), kPageBytes).code(), Code::kIo);
  }
  EXPECT_FALSE(device.failed());
}

TEST_F(ScriptedTest, AnyWriteOrFlushErrorFailsTheDevice) {
  const std::map<int, Code> writes = {
      {EIO, Code::kIo}, {ENOSPC, Code::kNoSpace}, {ENODEV, Code::kUnavailable}};
  for (const auto& [error, code] : writes) {
    ScriptedDevice fresh(world.reactor());
    fresh.results = {-error};
    EXPECT_EQ(world.write(fresh, 0, memory.data(), kPageBytes).code(), code);
    EXPECT_TRUE(fresh.failed());
  }
  device.results = {-EIO};
  EXPECT_EQ(world.flush(device).code(), Code::kIo);
  EXPECT_TRUE(device.failed());                               // D5
  EXPECT_EQ(world.flush(device).code(), Code::kUnavailable);  // and is not asked again
}

TEST_F(ScriptedTest, ADiscardThatTheDriveDoesNotKnowIsNoFailure) {
  device.results = {-EOPNOTSUPP};
  Request discard(DeviceKind::kDiscard, 0, kPageBytes);
  EXPECT_EQ(world.perform(device, discard).code(), Code::kUnsupported);
  EXPECT_FALSE(device.failed());
  device.results = {-EREMOTEIO};  // knows it and refuses this one: advice, nothing more
  Request again(DeviceKind::kDiscard, 0, kPageBytes);
  EXPECT_EQ(world.perform(device, again).code(), Code::kUnsupported);
  EXPECT_FALSE(device.failed());
  device.results = {-ENODEV};
  Request gone(DeviceKind::kDiscard, 0, kPageBytes);
  EXPECT_EQ(world.perform(device, gone).code(), Code::kUnavailable);
  EXPECT_TRUE(device.failed());
}

TEST_F(ScriptedTest, WhatIsInFlightWhenTheDeviceFailsStillReportsItsOwnResult) {
  Request good(DeviceKind::kRead, 0);
  good.with(memory.page(0), kPageBytes);
  Request waiting(DeviceKind::kRead, 0);
  waiting.with(memory.page(1), kPageBytes);
  device.results = {static_cast<int64_t>(kPageBytes), -EAGAIN};
  device.submit(good);
  device.submit(waiting);
  device.fail(Status::timed_out("declared"));
  world.finish(good);
  world.finish(waiting);
  EXPECT_TRUE(good.status.ok());
  EXPECT_EQ(waiting.status.code(), Code::kUnavailable);  // no retry on a failed device
  EXPECT_EQ(device.in_flight(), 0u);
}

}  // namespace
}  // namespace varve
