// Goal: the simulated drive is deterministic, out of order, and its platter outlives it.
// Method: the same seed twice, another seed once; a request cut off before its latency is over.
#include "tests/common/device/device_world.h"

namespace varve {
namespace {

using test::AlignedBytes;
using test::Request;
using test::World;

// The order in which 16 reads complete, as a string.
std::string order_of(uint64_t seed) {
  World world;
  MemoryPlatter platter(kMiB);
  MemoryDeviceOptions options;
  options.seed = seed;
  const auto device = make_memory_device(world.reactor(), platter, options);
  AlignedBytes memory(16 * kPageBytes);
  struct Labelled : Request {
    using Request::Request;
    std::string* order = nullptr;
    char label = 0;
  };
  std::string order;
  std::deque<Labelled> reads;
  for (uint32_t i = 0; i < 16; ++i) {
    Labelled& read = reads.emplace_back(DeviceKind::kRead, bytes_of(i));
    read.with(memory.page(i), kPageBytes);
    read.order = &order;
    read.label = static_cast<char>('a' + i);
    read.owner = &read;
    read.on_done = [](DeviceIo& io) {
      auto& self = *static_cast<Labelled*>(io.owner);
      self.order->push_back(self.label);
    };
    device->submit(read);
  }
  world.quiesce();
  return order;
}

TEST(MemoryDevice, CompletesOutOfOrderAndEqualForEqualSeeds) {
  const std::string order = order_of(1);
  EXPECT_EQ(order.size(), 16u);
  EXPECT_EQ(order, order_of(1));
  EXPECT_NE(order, order_of(2));
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
}

TEST(MemoryDevice, ThePlatterOutlivesTheDeviceAndAnUnfinishedWriteNeverLands) {
  MemoryPlatter platter(kMiB);
  AlignedBytes page(kPageBytes);
  page.set('a');
  {
    World world;
    const auto device = make_memory_device(world.reactor(), platter, MemoryDeviceOptions{});
    EXPECT_TRUE(world.write(*device, 0, page.data(), kPageBytes).ok());
    Request cut(DeviceKind::kWrite, kPageBytes);
    cut.with(page.data(), kPageBytes);
    device->submit(cut);  // the world ends here
  }
  World world;
  const auto device = make_memory_device(world.reactor(), platter, MemoryDeviceOptions{});
  EXPECT_TRUE(world.read(*device, 0, page.data(), kPageBytes).ok());
  EXPECT_EQ(page.data()[7], std::byte{'a'});
  EXPECT_TRUE(world.read(*device, kPageBytes, page.data(), kPageBytes).ok());
  EXPECT_EQ(page.data()[7], std::byte{0});
}

TEST(MemoryDevice, LatencyIsWithinItsBoundsEvenWhenTheyAreZero) {
  World world;
  MemoryPlatter platter(kMiB);
  MemoryDeviceOptions options;
  options.latency_min_ns = 0;
  options.latency_max_ns = 0;
  const auto device = make_memory_device(world.reactor(), platter, options);
  AlignedBytes page(kPageBytes);
  const Nanos begin = world.clock().now_ns();
  EXPECT_TRUE(world.read(*device, 0, page.data(), kPageBytes).ok());  // still in a later turn
  EXPECT_LE(world.clock().now_ns() - begin, 1u);
}

}  // namespace
}  // namespace varve
