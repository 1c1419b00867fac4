// The raw reader finds what was written and nothing else.
#include "tools/kvbench/drive_ceiling.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace varve::kvbench {
namespace {

// A file of `mib` MiB of which [from, to) MiB are written. In the build's folder: file systems in
// memory may refuse O_DIRECT.
class DriveCeilingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::read_symlink("/proc/self/exe").string() + ".drive";
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    ASSERT_GE(fd_, 0);
  }
  void TearDown() override {
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  void write(uint32_t mib, uint32_t from, uint32_t to) {
    ASSERT_EQ(::ftruncate(fd_, static_cast<off_t>(mib * kMiB)), 0);
    std::vector<std::byte> bytes((to - from) * kMiB, std::byte{0x5A});
    ASSERT_EQ(::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(from * kMiB)),
              static_cast<ssize_t>(bytes.size()));
    ASSERT_EQ(::fsync(fd_), 0);
  }
  DriveCeilingOptions options(uint64_t bytes) const {
    DriveCeilingOptions options;
    options.paths = {path_};
    options.bytes = bytes;
    options.requests_in_flight = 8;
    return options;
  }
  std::string path_;
  int fd_ = -1;
};

TEST_F(DriveCeilingTest, OnlyWrittenRunsAreRead) {
  write(16, 3, 9);
  auto ceiling = DriveCeiling::open(options(6 * kMiB));
  ASSERT_TRUE(ceiling.has_value()) << ceiling.error().what();
  EXPECT_EQ((*ceiling)->written_bytes(), 6 * kMiB);
  auto memory = TouchedMemory::map(6 * kMiB);
  ASSERT_TRUE(memory.has_value());
  auto took_ns = (*ceiling)->round((*memory)->bytes());
  ASSERT_TRUE(took_ns.has_value()) << took_ns.error().what();
  EXPECT_GT(*took_ns, 0u);
  for (const std::byte b : (*memory)->bytes())
    ASSERT_EQ(b, std::byte{0x5A});
  EXPECT_TRUE((*ceiling)->round_in_cache(20 * kMiB).has_value());
}

TEST_F(DriveCeilingTest, AFileThatHoldsTooLittleIsRefused) {
  write(16, 0, 2);
  EXPECT_FALSE(DriveCeiling::open(options(8 * kMiB)).has_value());
}

TEST_F(DriveCeilingTest, AMissingFileIsRefused) {
  DriveCeilingOptions missing = options(kMiB);
  missing.paths = {path_ + ".missing"};
  EXPECT_FALSE(DriveCeiling::open(missing).has_value());
}

}  // namespace
}  // namespace varve::kvbench
