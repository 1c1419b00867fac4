// Goal: the worker threads of the epoll backend are shared fairly and their results are not lost.
// Method: a read into memory that faults without end (userfaultfd) is a drive that does not answer.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <string>

#include "common/reactor/backends.h"

namespace varve {
namespace {

struct Request : Io {
  bool done = false;
  iovec vector{};
  Request(IoKind the_kind, int the_fd, void* data, size_t size) {
    kind = the_kind;
    fd = the_fd;
    vector = {data, size};
    iov = &vector;
    iov_count = 1;
    owner = this;
    on_done = [](Io& io) { static_cast<Request*>(io.owner)->done = true; };
  }
};

class EpollBackendTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<IoBackend>> made = make_epoll_backend(IoBackendOptions{});
    ASSERT_TRUE(made);
    backend = *std::move(made);
  }
  void finish(Request& request) {
    while (!request.done) {
      backend->submit();
      if (backend->reap(64) == 0) backend->sleep(kNever);
    }
  }
  std::unique_ptr<IoBackend> backend;
};

// Memory whose first touch blocks the kernel until release(): a read into it is a drive that hangs.
class HangingPage {
 public:
  HangingPage() {
    fd_ = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC));
    uffdio_api api{};
    api.api = UFFD_API;
    page_ = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uffdio_register range{};
    range.range = {reinterpret_cast<uint64_t>(page_), kPageBytes};
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    ready_ =
        fd_ >= 0 && ioctl(fd_, UFFDIO_API, &api) == 0 && ioctl(fd_, UFFDIO_REGISTER, &range) == 0;
  }
  ~HangingPage() {
    if (fd_ >= 0) close(fd_);
    munmap(page_, kPageBytes);
  }
  bool ready() const { return ready_; }
  char* page() const { return static_cast<char*>(page_); }
  void release() {
    uffdio_zeropage zero{};
    zero.range = {reinterpret_cast<uint64_t>(page_), kPageBytes};
    EXPECT_EQ(ioctl(fd_, UFFDIO_ZEROPAGE, &zero), 0);
  }

 private:
  int fd_ = -1;
  void* page_ = nullptr;
  bool ready_ = false;
};

TEST_F(EpollBackendTest, AHangingDescriptorLeavesThreadsForTheOthers) {
  HangingPage hang;
  if (!hang.ready()) GTEST_SKIP() << "userfaultfd is refused here";
  std::string path = testing::TempDir() + "varve_epoll_XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  ASSERT_GE(fd, 0);
  std::string hanging_path = testing::TempDir() + "varve_epoll_XXXXXX";
  const int hanging = mkostemp(hanging_path.data(), O_CLOEXEC);
  ASSERT_GE(hanging, 0);
  char byte = 'x';
  ASSERT_EQ(write(hanging, &byte, 1), 1);
  // More requests than there are threads, all to the descriptor that does not answer.
  std::deque<Request> stuck;
  for (int i = 0; i < 8; ++i) {
    backend->start(stuck.emplace_back(IoKind::kRead, hanging, hang.page() + i, 1));
  }
  backend->submit();
  Request other(IoKind::kWrite, fd, &byte, 1);
  backend->start(other);
  finish(other);  // hangs when the stuck ones took every thread
  EXPECT_EQ(other.result, 1);
  // What no thread has taken can be cancelled; the rest ends when the drive answers.
  for (Request& request : stuck)
    backend->cancel(request);
  hang.release();
  uint32_t cancelled = 0;
  for (Request& request : stuck) {
    finish(request);
    cancelled += request.result == -ECANCELED ? 1 : 0;
  }
  EXPECT_GE(cancelled, 6u);  // at most two of the four threads were held
  EXPECT_EQ(backend->in_flight(), 0u);
  for (const int one : {hanging, fd})
    close(one);
  unlink(path.c_str());
  unlink(hanging_path.c_str());
}

TEST_F(EpollBackendTest, ManyRoundsOfSleepNeverMissAWorkersResult) {
  std::string path = testing::TempDir() + "varve_epoll_XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  ASSERT_GE(fd, 0);
  // A receive that waits all the time makes reap() poll, which swallows the workers' signals.
  std::array<int, 2> pair{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()), 0);
  char in = 0;
  Request receive(IoKind::kReceive, pair[0], &in, 1);
  backend->start(receive);
  char byte = 'x';
  for (int i = 0; i < 2000; ++i) {
    Request write_one(IoKind::kWrite, fd, &byte, 1);
    backend->start(write_one);
    finish(write_one);  // sleeps without end: a missed result hangs here
    ASSERT_EQ(write_one.result, 1);
  }
  backend->cancel(receive);
  finish(receive);
  for (const int one : {pair[0], pair[1], fd})
    close(one);
  unlink(path.c_str());
}

}  // namespace
}  // namespace varve
