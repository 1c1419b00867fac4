// Goal: the blocking handle moves whole pages past the page cache and keeps to its bounds.
// Method: write through one handle, read through a second one.
#include "tests/common/device/device_world.h"

namespace varve {
namespace {

using test::AlignedBytes;
using test::TemporaryPath;

TEST(FileHandle, WritesFlushesAndIsReadByALaterHandle) {
  TemporaryPath path("handle");
  FileDeviceOptions options;
  options.path = path.path();
  options.create_bytes = kMiB;
  AlignedBytes page(kPageBytes);
  {
    Result<std::unique_ptr<FileHandle>> handle = FileHandle::open(options);
    if (!handle && handle.error().code() == Code::kUnsupported) {
      GTEST_SKIP() << "no O_DIRECT in " << testing::TempDir();
    }
    ASSERT_TRUE(handle);
    EXPECT_TRUE((*handle)->created());
    EXPECT_EQ((*handle)->capacity_bytes(), kMiB);
    page.set('h');
    EXPECT_TRUE((*handle)->write(kMiB - kPageBytes, {page.data(), kPageBytes}).ok());
    EXPECT_TRUE((*handle)->flush().ok());
  }
  options.create_bytes = 0;
  Result<std::unique_ptr<FileHandle>> handle = FileHandle::open(options);
  ASSERT_TRUE(handle);
  EXPECT_FALSE((*handle)->created());
  page.set('?');
  EXPECT_TRUE((*handle)->read(kMiB - kPageBytes, {page.data(), kPageBytes}).ok());
  EXPECT_EQ(page.data()[99], std::byte{'h'});
  EXPECT_DEATH((void)(*handle)->read(kMiB, {page.data(), kPageBytes}), "assertion failed");
  EXPECT_DEATH((void)(*handle)->write(512, {page.data(), kPageBytes}), "assertion failed");
}

}  // namespace
}  // namespace varve
