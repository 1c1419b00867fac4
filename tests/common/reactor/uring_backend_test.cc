// Goal: what only io_uring has: registered buffers and files, and a ring that changes thread once.
// Method: an O_DIRECT file and aligned memory; registered slots are checked by reusing a
// descriptor.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

#include "common/reactor/backends.h"

namespace varve {
namespace {

constexpr size_t kMemoryBytes = 64 * kPageBytes;

// The cause of a refusal is somewhere else each time, so the text must name what to change.
TEST(UringBackendRefusal, NamesWhatToAllow) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  Result<std::unique_ptr<IoBackend>> made = make_uring_backend(IoBackendOptions{});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Code::kUnsupported);
  const std::string text = made.error().what();
  EXPECT_TRUE(text.find("raise ulimit") != std::string::npos ||
              text.find("io_uring_setup") != std::string::npos)
      << text;
}

class UringBackendTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<IoBackend>> made = make_uring_backend(IoBackendOptions{});
    if (!made) GTEST_SKIP() << "refused here: " << made.error().what();
    backend = *std::move(made);
    path = testing::TempDir() + "varve_uring_XXXXXX";
    fd = mkostemp(path.data(), O_CLOEXEC);
    ASSERT_GE(fd, 0);
    memory = static_cast<std::byte*>(
        mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
  }
  void TearDown() override {
    backend.reset();
    if (fd >= 0) close(fd);
    unlink(path.c_str());
    if (memory != nullptr) munmap(memory, kMemoryBytes);
  }
  int64_t perform(IoKind kind, std::byte* data, size_t bytes, uint64_t offset, int32_t buffer) {
    iovec vector{data, bytes};
    bool done = false;
    Io io;
    io.kind = kind;
    io.fd = fd;
    io.iov = &vector;
    io.iov_count = 1;
    io.offset = offset;
    io.buffer_index = buffer;
    io.owner = &done;
    io.on_done = [](Io& self) { *static_cast<bool*>(self.owner) = true; };
    backend->start(io);
    while (!done) {
      backend->submit();
      if (backend->reap(8) == 0) backend->sleep(10 * kMillisecond);
    }
    return io.result;
  }
  std::unique_ptr<IoBackend> backend;
  std::string path;
  int fd = -1;
  std::byte* memory = nullptr;
};

TEST_F(UringBackendTest, RegisteredBuffersCarryReadsAndWritesAtAnyOffsetWithin) {
  Result<int32_t> index = backend->register_buffer({memory, kMemoryBytes});
  ASSERT_TRUE(index);
  ASSERT_GE(*index, 0);
  backend->register_file(fd);
  std::memset(memory + 3 * kPageBytes, 0x5a, 2 * kPageBytes);
  EXPECT_EQ(perform(IoKind::kWrite, memory + 3 * kPageBytes, 2 * kPageBytes, kPageBytes, *index),
            2 * kPageBytes);
  EXPECT_EQ(perform(IoKind::kRead, memory + 9 * kPageBytes, 2 * kPageBytes, kPageBytes, *index),
            2 * kPageBytes);
  EXPECT_EQ(std::memcmp(memory + 3 * kPageBytes, memory + 9 * kPageBytes, 2 * kPageBytes), 0);
}

TEST_F(UringBackendTest, WhatIsRegisteredIsTold) {
  EXPECT_EQ(backend->registered().bytes, 0u);
  EXPECT_EQ(backend->registered().files, 0u);
  Result<int32_t> index = backend->register_buffer({memory, kMemoryBytes});
  ASSERT_TRUE(index);
  ASSERT_GE(*index, 0);
  backend->register_file(fd);
  EXPECT_EQ(backend->registered().bytes, kMemoryBytes);
  EXPECT_EQ(backend->registered().files, 1u);
  backend->unregister_file(fd);
  EXPECT_EQ(backend->registered().files, 0u);
}

TEST_F(UringBackendTest, ABufferIndexThatWasNotGivenOutAborts) {
  EXPECT_DEATH(perform(IoKind::kRead, memory, kPageBytes, 0, 5), "regions_");
}

TEST_F(UringBackendTest, AnUnregisteredAndReusedDescriptorReachesTheNewFile) {
  backend->register_file(fd);
  std::memset(memory, 'o', kPageBytes);
  ASSERT_EQ(perform(IoKind::kWrite, memory, kPageBytes, 0, -1), kPageBytes);
  backend->unregister_file(fd);
  close(fd);
  std::string other = testing::TempDir() + "varve_uring_XXXXXX";
  const int reused = mkostemp(other.data(), O_CLOEXEC);
  ASSERT_EQ(reused, fd) << "the kernel gives the lowest free number";
  EXPECT_EQ(perform(IoKind::kRead, memory, kPageBytes, 0, -1), 0);  // the new file is empty
  backend->register_file(fd);
  EXPECT_EQ(perform(IoKind::kRead, memory, kPageBytes, 0, -1), 0);
  unlink(other.c_str());
}

TEST_F(UringBackendTest, ARingBuiltAndRegisteredHereWorksOnAnotherThread) {
  Result<int32_t> index = backend->register_buffer({memory, kMemoryBytes});
  ASSERT_TRUE(index);
  backend->register_file(fd);
  int64_t written = 0;
  std::thread shard([&] { written = perform(IoKind::kWrite, memory, kPageBytes, 0, *index); });
  shard.join();
  EXPECT_EQ(written, kPageBytes);
}

TEST_F(UringBackendTest, ARefusedRegistrationIsNoErrorAndIoGoesOn) {
  if (geteuid() == 0) {
    // Root is not bound by the limit; ask for more than the table holds instead.
    Result<int32_t> index = backend->register_buffer({memory, size_t{2048} * kGiB});
    ASSERT_TRUE(index);
    EXPECT_EQ(*index, -1);
  } else {
    rlimit none{0, 0};
    ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &none), 0);
    Result<int32_t> index = backend->register_buffer({memory, kMemoryBytes});
    ASSERT_TRUE(index);
    EXPECT_EQ(*index, -1);
  }
  EXPECT_EQ(backend->registered().bytes, 0u) << "a part that succeeded is not used";
  EXPECT_EQ(perform(IoKind::kWrite, memory, kPageBytes, 0, -1), kPageBytes);
}

}  // namespace
}  // namespace varve
