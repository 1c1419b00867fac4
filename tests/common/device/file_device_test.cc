// Goal: a file target stays out of the page cache, keeps its space and tells a lost drive.
// Method: mincore() over 64 MiB after writing and reading them; a file cut short under the device.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/device/device_world.h"

namespace varve {
namespace {

using test::AlignedBytes;
using test::Request;
using test::TemporaryPath;
using test::World;

class FileDeviceTest : public testing::TestWithParam<IoBackendPreference> {
 protected:
  void open(uint64_t bytes) {
    Result<IoBackendChoice> choice = make_io_backend(GetParam(), IoBackendOptions{});
    if (!choice) GTEST_SKIP() << "refused here: " << choice.error().what();
    world = std::make_unique<World>(std::move(choice->backend));
    FileDeviceOptions options;
    options.path = path.path();
    options.create_bytes = bytes;
    Result<std::unique_ptr<BlockDevice>> opened = open_file_device(world->reactor(), options);
    if (!opened && opened.error().code() == Code::kUnsupported) {
      GTEST_SKIP() << "no O_DIRECT in " << testing::TempDir();
    }
    ASSERT_TRUE(opened);
    device = *std::move(opened);
  }
  TemporaryPath path{"file"};
  std::unique_ptr<World> world;
  std::unique_ptr<BlockDevice> device;
};

INSTANTIATE_TEST_SUITE_P(Both, FileDeviceTest,
                         testing::Values(IoBackendPreference::kUring, IoBackendPreference::kEpoll),
                         [](const auto& suite) {
                           return suite.param == IoBackendPreference::kUring ? "io_uring" : "epoll";
                         });

uint64_t resident_pages(const std::string& path, uint64_t bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_GE(fd, 0);
  void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  EXPECT_NE(mapped, MAP_FAILED);
  std::vector<unsigned char> resident(bytes / kPageBytes);
  EXPECT_EQ(mincore(mapped, bytes, resident.data()), 0);
  munmap(mapped, bytes);
  close(fd);
  uint64_t count = 0;
  for (const unsigned char page : resident)
    count += page & 1;
  return count;
}

TEST_P(FileDeviceTest, LeavesNoPagesInThePageCache) {
  constexpr uint64_t kBytes = 64 * kMiB;
  open(kBytes);
  if (device == nullptr) return;
  AlignedBytes memory(kMiB);
  Result<int32_t> buffer = world->backend().register_buffer({memory.data(), memory.size()});
  ASSERT_TRUE(buffer);
  for (const DeviceKind kind : {DeviceKind::kWrite, DeviceKind::kRead}) {
    for (uint64_t offset = 0; offset < kBytes; offset += kMiB) {
      if (kind == DeviceKind::kWrite) {
        memory.fill(offset + 1);
      } else {
        memory.set('?');
      }
      Request request(kind, offset);
      request.with(memory.data(), kMiB);
      request.buffer_index = *buffer;
      ASSERT_TRUE(world->perform(*device, request).ok());
      if (kind == DeviceKind::kRead) {
        AlignedBytes expected(kMiB);
        expected.fill(offset + 1);
        ASSERT_EQ(std::memcmp(memory.data(), expected.data(), kMiB), 0);
      }
    }
    ASSERT_TRUE(world->flush(*device).ok());
  }
  EXPECT_LE(resident_pages(path.path(), kBytes), 16u);  // of 16384
}

TEST_P(FileDeviceTest, ADiscardKeepsThePreallocatedSpace) {
  open(4 * kMiB);
  if (device == nullptr) return;
  AlignedBytes memory(kMiB);
  memory.fill(1);
  ASSERT_TRUE(world->write(*device, 0, memory.data(), kMiB).ok());
  Request discard(DeviceKind::kDiscard, 0, kMiB);
  const Status status = world->perform(*device, discard);
  if (status.code() == Code::kUnsupported) GTEST_SKIP() << "no zeroing here";
  ASSERT_TRUE(status.ok());
  struct stat info {};
  ASSERT_EQ(stat(path.path().c_str(), &info), 0);
  EXPECT_GE(static_cast<uint64_t>(info.st_blocks) * 512, 4 * kMiB);
}

TEST_P(FileDeviceTest, AFileCutShortUnderTheDeviceIsALostDriveAndTheProcessGoesOn) {
  open(4 * kMiB);
  if (device == nullptr) return;
  AlignedBytes memory(kMiB);
  ASSERT_EQ(truncate(path.path().c_str(), 2 * kMiB + kPageBytes), 0);
  // Expect: the read that crosses the new end is continued, finds nothing there, and says so.
  EXPECT_EQ(world->read(*device, 2 * kMiB, memory.data(), kMiB).code(), Code::kUnavailable);
  EXPECT_TRUE(device->failed());
  EXPECT_EQ(device->counters().short_ios, 1u);
}

TEST_P(FileDeviceTest, AFileThatIsCutShortOrDeletedIsGoneThoughWritesGoOn) {
  open(4 * kMiB);
  if (device == nullptr) return;
  EXPECT_TRUE(device->gone().ok());
  ASSERT_EQ(truncate(path.path().c_str(), 0), 0);
  AlignedBytes page(kPageBytes);
  EXPECT_TRUE(world->write(*device, kMiB, page.data(), kPageBytes).ok());
  EXPECT_EQ(device->gone().code(), Code::kUnavailable);
  ASSERT_EQ(truncate(path.path().c_str(), 4 * kMiB), 0);
  EXPECT_TRUE(device->gone().ok());
  ASSERT_EQ(unlink(path.path().c_str()), 0);
  EXPECT_EQ(device->gone().code(), Code::kUnavailable);
  EXPECT_FALSE(device->failed());  // that is for its owner to say
}

TEST_P(FileDeviceTest, NowAndLaterSeeTheSameBytes) {
  open(kMiB);
  if (device == nullptr) return;
  AlignedBytes page(kPageBytes);
  page.set('n');
  EXPECT_TRUE(device->write_now(kPageBytes, {page.data(), kPageBytes}).ok());
  page.set('?');
  EXPECT_TRUE(world->read(*device, kPageBytes, page.data(), kPageBytes).ok());
  EXPECT_EQ(page.data()[0], std::byte{'n'});
  page.set('?');
  EXPECT_TRUE(device->read_now(kPageBytes, {page.data(), kPageBytes}).ok());
  EXPECT_EQ(page.data()[0], std::byte{'n'});
}

}  // namespace
}  // namespace varve
