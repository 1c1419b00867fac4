// Goal: every fault does what it says and no more, and the volatile cache keeps the rules of a
// drive: what a completed flush covered survives every power cut, nothing else is promised.
// Method: MemoryDevice underneath and a manual clock; power cuts over many seeds against a model.
#include "common/device/fault_device.h"

#include <cerrno>
#include <map>
#include <set>

#include "tests/common/device/device_world.h"

namespace varve {
namespace {

using test::AlignedBytes;
using test::Request;
using test::World;

constexpr uint64_t kCapacity = kMiB;

struct Rig {
  World world;
  MemoryPlatter platter{kCapacity};
  std::unique_ptr<FaultDevice> device;
  explicit Rig(const FaultPlan& plan) { open(plan); }
  void open(const FaultPlan& plan) {
    MemoryDeviceOptions options;
    options.seed = plan.seed;
    device = FaultDevice::wrap(world.reactor(),
                               make_memory_device(world.reactor(), platter, options), plan);
  }
  char on_platter(uint64_t page, uint64_t at = 0) {
    return static_cast<char>(platter.bytes()[page * kPageBytes + at]);
  }
};

FaultPlan volatile_plan(uint64_t seed = 1) {
  FaultPlan plan;
  plan.volatile_cache = true;
  plan.seed = seed;
  return plan;
}

TEST(FaultDevice, AWriteStaysInTheCacheUntilAFlushAndReadsSeeItAtOnce) {
  Rig rig(volatile_plan());
  AlignedBytes page(kPageBytes);
  page.set('a');
  EXPECT_TRUE(rig.world.write(*rig.device, 0, page.data(), kPageBytes).ok());
  rig.world.quiesce();
  EXPECT_EQ(rig.on_platter(0), 0);
  page.set('?');
  EXPECT_TRUE(rig.world.read(*rig.device, 0, page.data(), kPageBytes).ok());
  EXPECT_EQ(page.data()[5], std::byte{'a'});
  EXPECT_TRUE(rig.world.flush(*rig.device).ok());
  EXPECT_EQ(rig.on_platter(0, 5), 'a');
}

TEST(FaultDevice, AFlushCoversExactlyWhatWasAcknowledgedBeforeIt) {
  Rig rig(volatile_plan());
  AlignedBytes before(kPageBytes);
  before.set('b');
  AlignedBytes after(kPageBytes);
  after.set('z');
  EXPECT_TRUE(rig.world.write(*rig.device, 0, before.data(), kPageBytes).ok());
  Request flush(DeviceKind::kFlush);
  rig.device->submit(flush);
  // The same page again, and another one, while the flush is under way.
  Request same(DeviceKind::kWrite, 0);
  same.with(after.data(), kPageBytes);
  Request other(DeviceKind::kWrite, kPageBytes);
  other.with(after.data(), kPageBytes);
  rig.device->submit(same);
  rig.device->submit(other);
  rig.world.finish(same);
  rig.world.finish(other);
  EXPECT_EQ(flush.completions, 0u);  // writes are acknowledged at once, the flush takes its time
  rig.world.finish(flush);
  EXPECT_TRUE(flush.status.ok());
  EXPECT_EQ(rig.on_platter(0), 'b');
  EXPECT_EQ(rig.on_platter(1), 0);
  AlignedBytes in(2 * kPageBytes);
  EXPECT_TRUE(rig.world.read(*rig.device, 0, in.data(), in.size()).ok());
  EXPECT_EQ(in.page(0)[0], std::byte{'z'});
  EXPECT_EQ(in.page(1)[0], std::byte{'z'});
  EXPECT_TRUE(rig.world.flush(*rig.device).ok());
  EXPECT_EQ(rig.on_platter(0), 'z');
  EXPECT_EQ(rig.on_platter(1), 'z');
}

// A page carries its number and a version in every sector, so that a mix can be told from either.
void stamp(std::byte* page, uint64_t number, uint64_t version) {
  for (uint64_t at = 0; at < kPageBytes; at += 512) {
    std::memcpy(page + at, &number, 8);
    std::memcpy(page + at + 8, &version, 8);
  }
}

uint64_t version_in(const std::byte* page, uint64_t sector) {
  uint64_t version = 0;
  std::memcpy(&version, page + sector * 512 + 8, 8);
  return version;
}

struct Outcome {
  FaultDevice::FaultCounters counters;
  uint64_t hash = 0;
  uint64_t newer_kept = 0;
};

// Random writes and flushes, a power cut at a random moment, then every sector is looked at.
Outcome crash_run(uint64_t seed, const FaultPlan& plan) {
  constexpr uint64_t kPages = 24;
  Rig rig(plan);
  Random random(seed);
  struct Write : Request {
    using Request::Request;
    std::unique_ptr<AlignedBytes> memory;
    uint64_t page = 0, version = 0;
  };
  std::deque<Write> writes;
  std::deque<Request> flushes;
  std::vector<std::map<uint64_t, uint64_t>> covered;  // per flush: page -> version acknowledged
  std::map<uint64_t, uint64_t> acknowledged;
  std::map<uint64_t, uint64_t> durable;
  std::set<uint64_t> busy;
  uint64_t version = 0;
  const uint64_t steps = random.between(5, 200);
  for (uint64_t step = 0; step < steps; ++step) {
    const uint64_t choice = random.below(10);
    if (choice < 5) {
      const uint64_t page = random.below(kPages);
      if (!busy.insert(page).second) continue;  // two writes at once have no order
      Write& write = writes.emplace_back(DeviceKind::kWrite, page * kPageBytes);
      write.memory = std::make_unique<AlignedBytes>(kPageBytes);
      write.page = page;
      write.version = ++version;
      stamp(write.memory->data(), page, version);
      write.with(write.memory->data(), kPageBytes);
      rig.device->submit(write);
    } else if (choice < 6) {
      covered.push_back(acknowledged);
      rig.device->submit(flushes.emplace_back(DeviceKind::kFlush));
    } else {
      rig.world.step();
    }
    for (Write& write : writes) {
      if (write.completions == 0 || busy.count(write.page) == 0) continue;
      if (acknowledged[write.page] < write.version) {
        acknowledged[write.page] = write.version;
        busy.erase(write.page);
      }
    }
    for (size_t i = 0; i < flushes.size(); ++i) {
      if (flushes[i].completions == 0) continue;
      for (const auto& [page, flushed] : covered[i]) {
        durable[page] = std::max(durable[page], flushed);
      }
    }
  }
  rig.device->crash();
  Outcome outcome;
  for (uint64_t page = 0; page < kPages; ++page) {
    const std::byte* bytes = rig.platter.bytes().data() + page * kPageBytes;
    uint64_t previous = ~uint64_t{0};
    for (uint64_t sector = 0; sector < 8; ++sector) {
      const uint64_t found = version_in(bytes, sector);
      EXPECT_GE(found, durable[page])
          << "page " << page << " lost a flushed version, seed " << seed;
      EXPECT_LE(found, version);
      EXPECT_LE(found, previous) << "newer sectors come first, seed " << seed;
      previous = found;
      if (found > durable[page]) ++outcome.newer_kept;
      outcome.hash = outcome.hash * 1099511628211ull + found;
    }
  }
  outcome.counters = rig.device->fault_counters();
  return outcome;
}

TEST(FaultDevice, PowerCutsKeepLoseAndTearButNeverTouchWhatAFlushCovered) {
  FaultDevice::FaultCounters total;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const Outcome outcome = crash_run(seed, volatile_plan(seed));
    total.pages_kept += outcome.counters.pages_kept;
    total.pages_lost += outcome.counters.pages_lost;
    total.pages_torn += outcome.counters.pages_torn;
  }
  EXPECT_GT(total.pages_kept, 100u);
  EXPECT_GT(total.pages_lost, 100u);
  EXPECT_GT(total.pages_torn, 20u);
}

TEST(FaultDevice, SpillingLeaksEarlyAndStillNeverHurtsWhatAFlushCovered) {
  uint64_t newer = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    FaultPlan plan = volatile_plan(seed);
    plan.spill_per_mille = 400;
    newer += crash_run(seed, plan).newer_kept;
  }
  EXPECT_GT(newer, 0u);
  // Without a power cut's coins: what a plain stop leaves behind is partly there, partly not.
  FaultPlan plan = volatile_plan();
  plan.spill_per_mille = 500;
  Rig rig(plan);
  AlignedBytes pages(32 * kPageBytes);
  pages.set('s');
  EXPECT_TRUE(rig.world.write(*rig.device, 0, pages.data(), pages.size()).ok());
  rig.world.clock().advance_by(kMillisecond);
  for (int i = 0; i < 200; ++i)
    rig.world.step();
  uint32_t whole = 0, torn = 0;
  for (uint64_t page = 0; page < 32; ++page) {
    const bool first = rig.on_platter(page) == 's';
    const bool last = rig.on_platter(page, kPageBytes - 1) == 's';
    EXPECT_TRUE(first || !last);  // a prefix
    whole += first && last ? 1 : 0;
    torn += first && !last ? 1 : 0;
  }
  EXPECT_GT(torn, 0u);
  EXPECT_GT(whole, 0u);
}

TEST(FaultDevice, EqualSeedsCrashEqually) {
  EXPECT_EQ(crash_run(7, volatile_plan(7)).hash, crash_run(7, volatile_plan(7)).hash);
  EXPECT_EQ(crash_run(8, volatile_plan(8)).hash, crash_run(8, volatile_plan(8)).hash);
}

TEST(FaultDevice, WithoutACacheACompletedWriteSurvivesAPowerCut) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FaultPlan plan;
    plan.seed = seed;
    Rig rig(plan);
    AlignedBytes page(kPageBytes);
    page.set('w');
    EXPECT_TRUE(rig.world.write(*rig.device, 0, page.data(), kPageBytes).ok());
    rig.device->crash();
    EXPECT_EQ(rig.on_platter(0), 'w');
  }
}

TEST(FaultDevice, NothingCompletesAfterAPowerCut) {
  Rig rig(volatile_plan());
  AlignedBytes page(kPageBytes);
  Request read(DeviceKind::kRead, 0);
  read.with(page.data(), kPageBytes);
  Request write(DeviceKind::kWrite, 0);
  write.with(page.data(), kPageBytes);
  Request flush(DeviceKind::kFlush);
  for (Request* request : {&read, &write, &flush})
    rig.device->submit(*request);
  rig.device->crash();
  rig.world.quiesce();
  rig.device.reset();
  rig.world.quiesce();
  for (Request* request : {&read, &write, &flush})
    EXPECT_EQ(request->completions, 0u);
  rig.open(volatile_plan());
  EXPECT_TRUE(rig.world.read(*rig.device, 0, page.data(), kPageBytes).ok());
}

TEST(FaultDevice, BadSectorsFailReadsUntilThePageIsWritten) {
  for (const bool cache : {false, true}) {
    FaultPlan plan;
    plan.volatile_cache = cache;
    Rig rig(plan);
    AlignedBytes pages(4 * kPageBytes);
    rig.device->sector_error_set(2 * kPageBytes + 512, 512);
    EXPECT_TRUE(rig.world.read(*rig.device, 0, pages.data(), 2 * kPageBytes).ok());
    const Status status = rig.world.read(*rig.device, 0, pages.data(), 4 * kPageBytes);
    EXPECT_EQ(status.code(), Code::kIo);
    EXPECT_EQ(status.errno_value(), EIO);
    EXPECT_FALSE(rig.device->failed());
    EXPECT_EQ(rig.device->fault_counters().errors_given, 1u);
    EXPECT_TRUE(rig.world.write(*rig.device, 2 * kPageBytes, pages.data(), kPageBytes).ok());
    EXPECT_TRUE(rig.world.read(*rig.device, 0, pages.data(), 4 * kPageBytes).ok());
  }
}

TEST(FaultDevice, BitRotFlipsOneBitAndStays) {
  for (const bool cache : {false, true}) {
    FaultPlan plan;
    plan.volatile_cache = cache;
    plan.bit_rot_per_mille = 1000;
    Rig rig(plan);
    AlignedBytes out(4 * kPageBytes);
    out.fill(11);
    EXPECT_TRUE(rig.world.write(*rig.device, 0, out.data(), out.size()).ok());
    AlignedBytes in(4 * kPageBytes);
    EXPECT_TRUE(rig.world.read(*rig.device, 0, in.data(), in.size()).ok());
    uint32_t bits = 0;
    for (uint64_t i = 0; i < out.size(); ++i) {
      bits +=
          static_cast<uint32_t>(std::popcount(static_cast<uint8_t>(out.data()[i] ^ in.data()[i])));
    }
    EXPECT_EQ(bits, 1u);
    EXPECT_EQ(rig.device->fault_counters().bits_flipped, 1u);
    EXPECT_TRUE(rig.world.flush(*rig.device).ok());
    EXPECT_EQ(std::memcmp(rig.platter.bytes().data(), in.data(), in.size()), 0);
  }
}

TEST(FaultDevice, TransientErrorsAndSlownessComeByChance) {
  FaultPlan plan;
  plan.read_error_per_mille = 100;
  plan.slow_per_mille = 100;
  plan.slow_ns = kSecond;
  Rig rig(plan);
  AlignedBytes page(kPageBytes);
  uint32_t errors = 0, slow = 0;
  for (uint32_t i = 0; i < 300; ++i) {
    const Nanos begin = rig.world.clock().now_ns();
    if (!rig.world.read(*rig.device, 0, page.data(), kPageBytes).ok()) ++errors;
    if (rig.world.clock().now_ns() - begin >= kSecond) ++slow;
    ASSERT_FALSE(rig.device->failed());
  }
  EXPECT_GT(errors, 5u);
  EXPECT_LT(errors, 100u);
  EXPECT_GT(slow, 5u);
  EXPECT_LT(slow, 100u);
  EXPECT_EQ(rig.device->fault_counters().errors_given, errors);
}

TEST(FaultDevice, AStuckDeviceAnswersNothingUntilItIsFreed) {
  for (const bool cache : {false, true}) {
    FaultPlan plan;
    plan.volatile_cache = cache;
    Rig rig(plan);
    AlignedBytes page(kPageBytes);
    Request before(DeviceKind::kRead, 0);
    before.with(page.data(), kPageBytes);
    rig.device->submit(before);
    rig.device->stuck_set(true);
    Request write(DeviceKind::kWrite, 0);
    write.with(page.data(), kPageBytes);
    Request flush(DeviceKind::kFlush);
    rig.device->submit(write);
    rig.device->submit(flush);
    rig.world.quiesce();
    EXPECT_EQ(before.completions + write.completions + flush.completions, 0u);
    EXPECT_EQ(rig.device->in_flight(), 3u);
    rig.device->stuck_set(false);
    EXPECT_EQ(before.completions, 0u);
    for (Request* request : {&before, &write, &flush}) {
      rig.world.finish(*request);
      EXPECT_TRUE(request->status.ok());
    }
    EXPECT_EQ(rig.device->in_flight(), 0u);
  }
}

TEST(FaultDevice, AVanishedDriveFailsItsRequestsAndTheDevice) {
  for (const DeviceKind kind : {DeviceKind::kRead, DeviceKind::kWrite, DeviceKind::kFlush}) {
    Rig rig(volatile_plan());
    AlignedBytes page(kPageBytes);
    rig.device->vanish();
    Request request(kind, 0);
    if (kind != DeviceKind::kFlush) request.with(page.data(), kPageBytes);
    const Status status = rig.world.perform(*rig.device, request);
    EXPECT_EQ(status.code(), kind == DeviceKind::kRead ? Code::kUnavailable : Code::kIo);
    EXPECT_TRUE(rig.device->failed());
  }
}

TEST(FaultDevice, AFullDriveRefusesWritesWithNoSpace) {
  Rig rig(volatile_plan());
  AlignedBytes page(kPageBytes);
  rig.device->full_set(true);
  EXPECT_TRUE(rig.world.read(*rig.device, 0, page.data(), kPageBytes).ok());
  EXPECT_EQ(rig.world.write(*rig.device, 0, page.data(), kPageBytes).code(), Code::kNoSpace);
}

TEST(FaultDevice, AnErrorUnderTheCacheFailsEveryWaitingFlush) {
  World world;
  MemoryPlatter platter(kCapacity);
  // Two decorators: the lower one plays the broken drive, the upper one the cache.
  auto lower = FaultDevice::wrap(
      world.reactor(), make_memory_device(world.reactor(), platter, MemoryDeviceOptions{}),
      FaultPlan{});
  FaultDevice& broken = *lower;
  const auto device = FaultDevice::wrap(world.reactor(), std::move(lower), volatile_plan());
  AlignedBytes page(kPageBytes);
  page.set('e');
  EXPECT_TRUE(world.write(*device, 0, page.data(), kPageBytes).ok());
  broken.full_set(true);
  Request first(DeviceKind::kFlush);
  Request second(DeviceKind::kFlush);
  device->submit(first);
  device->submit(second);
  world.finish(first);
  world.finish(second);
  EXPECT_FALSE(first.status.ok());
  EXPECT_FALSE(second.status.ok());
  EXPECT_TRUE(device->failed());  // D5
  EXPECT_EQ(device->in_flight(), 0u);
}

}  // namespace
}  // namespace varve
