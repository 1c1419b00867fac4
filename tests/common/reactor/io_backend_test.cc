// Goal: both backends do the same for every kind of Io, and the probe chooses by really trying.
// Method: one suite over io_uring and epoll with pipes of the system (socket pairs, loopback, a
// file); refusals are made with a seccomp filter in a child process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "common/reactor/backends.h"

namespace varve {
namespace {

struct Request : Io {
  uint32_t completions = 0;
  iovec vector{};
  Request(IoKind the_kind, int the_fd) {
    kind = the_kind;
    fd = the_fd;
    owner = this;
    on_done = [](Io& io) { ++static_cast<Request*>(io.owner)->completions; };
  }
  void buffer(void* data, size_t size) {
    vector = {data, size};
    iov = &vector;
    iov_count = 1;
  }
};

class IoBackendSuite : public testing::TestWithParam<IoBackendPreference> {
 protected:
  void SetUp() override { open(IoBackendOptions{}); }
  void open(const IoBackendOptions& options) {
    backend.reset();
    Result<IoBackendChoice> choice = make_io_backend(GetParam(), options);
    if (!choice) GTEST_SKIP() << "refused here: " << choice.error().what();
    backend = std::move(choice->backend);
  }
  // Turns until `request` is complete; sleeping is the backend's own.
  int64_t finish(Request& request) {
    while (request.completions == 0) {
      backend->submit();
      if (backend->reap(64) == 0 && request.completions == 0) backend->sleep(100 * kMillisecond);
    }
    EXPECT_EQ(request.completions, 1u);
    EXPECT_FALSE(request.in_flight);
    return request.result;
  }
  int64_t perform(Request& request) {
    backend->start(request);
    EXPECT_EQ(request.completions, 0u);  // R1
    return finish(request);
  }
  std::unique_ptr<IoBackend> backend;
};

INSTANTIATE_TEST_SUITE_P(Both, IoBackendSuite,
                         testing::Values(IoBackendPreference::kUring, IoBackendPreference::kEpoll),
                         [](const auto& suite) {
                           return suite.param == IoBackendPreference::kUring ? "io_uring" : "epoll";
                         });

struct Pair {
  std::array<int, 2> fd{-1, -1};
  Pair() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd.data()), 0);
  }
  ~Pair() {
    for (const int one : fd) {
      if (one >= 0) close(one);
    }
  }
};

TEST_P(IoBackendSuite, AReceiveThatWaitsIsServedByALaterSend) {
  Pair pair;
  std::array<char, 16> in{};
  Request receive(IoKind::kReceive, pair.fd[0]);
  receive.buffer(in.data(), in.size());
  backend->start(receive);
  backend->submit();
  EXPECT_EQ(backend->reap(64), 0u);
  EXPECT_EQ(backend->in_flight(), 1u);
  std::array<char, 5> out{'h', 'e', 'l', 'l', 'o'};
  Request send(IoKind::kSend, pair.fd[1]);
  send.buffer(out.data(), out.size());
  EXPECT_EQ(perform(send), 5);
  EXPECT_EQ(finish(receive), 5);
  EXPECT_EQ(std::string(in.data(), 5), "hello");
  EXPECT_EQ(backend->in_flight(), 0u);
}

TEST_P(IoBackendSuite, ScatterAndGatherMoveEveryByteInOrder) {
  Pair pair;
  std::array<char, 6> out{'a', 'b', 'c', 'd', 'e', 'f'};
  std::array<iovec, 3> gather{iovec{&out[0], 1}, iovec{&out[1], 2}, iovec{&out[3], 3}};
  Request send(IoKind::kSend, pair.fd[1]);
  send.iov = gather.data();
  send.iov_count = 3;
  EXPECT_EQ(perform(send), 6);
  std::array<char, 6> in{};
  std::array<iovec, 2> scatter{iovec{&in[0], 4}, iovec{&in[4], 2}};
  Request receive(IoKind::kReceive, pair.fd[0]);
  receive.iov = scatter.data();
  receive.iov_count = 2;
  EXPECT_EQ(perform(receive), 6);
  EXPECT_EQ(in, out);
}

TEST_P(IoBackendSuite, OrderlyEndIsZeroAndSendToTheDeadIsAnErrorWithoutASignal) {
  Pair pair;
  std::array<char, 4> bytes{};
  Request receive(IoKind::kReceive, pair.fd[0]);
  receive.buffer(bytes.data(), bytes.size());
  backend->start(receive);
  backend->submit();
  close(pair.fd[1]);
  pair.fd[1] = -1;
  EXPECT_EQ(finish(receive), 0);
  Request send(IoKind::kSend, pair.fd[0]);
  send.buffer(bytes.data(), bytes.size());
  EXPECT_EQ(perform(send), -EPIPE);
}

TEST_P(IoBackendSuite, AcceptAndConnectMeetOnLoopback) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  ASSERT_GE(listener, 0);
  sockaddr_storage address{};
  auto* in = reinterpret_cast<sockaddr_in*>(&address);
  in->sin_family = AF_INET;
  in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(sockaddr_in);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  Request accept_one(IoKind::kAccept, listener);
  backend->start(accept_one);
  backend->submit();
  EXPECT_EQ(backend->reap(8), 0u);
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  Request connect_one(IoKind::kConnect, client);
  connect_one.address = &address;
  connect_one.address_bytes = size;
  EXPECT_EQ(perform(connect_one), 0);
  const int64_t server = finish(accept_one);
  ASSERT_GE(server, 0);
  const int accepted = static_cast<int>(server);
  EXPECT_TRUE((fcntl(accepted, F_GETFL) & O_NONBLOCK) != 0);
  EXPECT_TRUE((fcntl(accepted, F_GETFD) & FD_CLOEXEC) != 0);
  close(accepted);
  close(client);
  close(listener);
  // Nobody listens any more: the connection is refused, as a result.
  const int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  Request refused(IoKind::kConnect, late);
  refused.address = &address;
  refused.address_bytes = size;
  EXPECT_EQ(perform(refused), -ECONNREFUSED);
  close(late);
}

TEST_P(IoBackendSuite, PollInCompletesWhenReadable) {
  Pair pair;
  Request readable(IoKind::kPollIn, pair.fd[0]);
  backend->start(readable);
  backend->submit();
  EXPECT_EQ(backend->reap(8), 0u);
  ASSERT_EQ(write(pair.fd[1], "x", 1), 1);
  EXPECT_GT(finish(readable) & POLLIN, 0);
}

TEST_P(IoBackendSuite, ACancelledReceiveCompletesOnceAndTheDescriptorStaysUsable) {
  Pair pair;
  std::array<char, 4> bytes{};
  Request receive(IoKind::kReceive, pair.fd[0]);
  receive.buffer(bytes.data(), bytes.size());
  backend->start(receive);
  backend->submit();
  EXPECT_EQ(backend->reap(8), 0u);
  backend->cancel(receive);
  EXPECT_EQ(receive.completions, 0u);  // R1
  EXPECT_EQ(finish(receive), -ECANCELED);
  Request again(IoKind::kReceive, pair.fd[0]);
  again.buffer(bytes.data(), bytes.size());
  backend->start(again);
  backend->submit();
  ASSERT_EQ(write(pair.fd[1], "abcd", 4), 4);
  EXPECT_EQ(finish(again), 4);
  backend->cancel(again);  // nothing in flight: no effect
  EXPECT_EQ(backend->reap(8), 0u);
}

TEST_P(IoBackendSuite, ADescriptorNumberMayBeReusedAfterClose) {
  std::array<char, 4> bytes{};
  for (int round = 0; round < 3; ++round) {
    Pair pair;  // the numbers come back each time
    Request receive(IoKind::kReceive, pair.fd[0]);
    receive.buffer(bytes.data(), bytes.size());
    backend->start(receive);
    backend->submit();
    EXPECT_EQ(backend->reap(8), 0u);
    ASSERT_EQ(write(pair.fd[1], "abcd", 4), 4);
    EXPECT_EQ(finish(receive), 4);
  }
}

TEST_P(IoBackendSuite, FileReadsWritesFlushesAndDiscards) {
  std::string path = testing::TempDir() + "varve_backend_XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  ASSERT_GE(fd, 0);
  backend->register_file(fd);
  std::vector<char> out(8192, 'w');
  Request write_one(IoKind::kWrite, fd);
  write_one.buffer(out.data(), out.size());
  EXPECT_EQ(perform(write_one), 8192);
  Request flush(IoKind::kFlush, fd);
  EXPECT_EQ(perform(flush), 0);
  Request discard(IoKind::kDiscard, fd);
  discard.offset = 0;
  discard.bytes = 4096;
  const int64_t discarded = perform(discard);
  std::vector<char> in(8192, 'r');
  std::array<iovec, 2> halves{iovec{in.data(), 4096}, iovec{in.data() + 4096, 4096}};
  Request read_one(IoKind::kRead, fd);
  read_one.iov = halves.data();
  read_one.iov_count = 2;
  EXPECT_EQ(perform(read_one), 8192);
  if (discarded == 0) {
    EXPECT_EQ(in[0], '\0');
  } else {
    EXPECT_EQ(discarded, -EOPNOTSUPP);  // a file system without holes
  }
  EXPECT_EQ(in[4096], 'w');
  Request past(IoKind::kRead, fd);
  past.buffer(in.data(), 4096);
  past.offset = 1 << 20;
  EXPECT_EQ(perform(past), 0);
  backend->unregister_file(fd);
  close(fd);
  Request closed(IoKind::kRead, fd);
  closed.buffer(in.data(), 4096);
  EXPECT_EQ(perform(closed), -EBADF);
  unlink(path.c_str());
}

TEST_P(IoBackendSuite, FarMoreRequestsThanTheQueueHoldsAllComplete) {
  IoBackendOptions options;
  options.entries = 8;
  open(options);
  Pair pair;
  std::deque<Request> sends;
  std::array<char, 1> byte{'x'};
  constexpr uint32_t kRequests = 150;  // few enough for the socket's buffer
  for (uint32_t i = 0; i < kRequests; ++i) {
    sends.emplace_back(IoKind::kSend, pair.fd[1]).buffer(byte.data(), 1);
    backend->start(sends.back());
  }
  uint32_t done = 0;
  while (done < kRequests) {
    backend->submit();
    const uint32_t now = backend->reap(7);
    EXPECT_LE(now, 7u);
    done += now;
  }
  for (Request& send : sends)
    EXPECT_EQ(send.result, 1);
  EXPECT_EQ(backend->in_flight(), 0u);
}

TEST_P(IoBackendSuite, SleepEndsByWakeFromAnotherThread) {
  backend->submit();
  std::thread other([&] { backend->wake(); });
  backend->sleep(kNever);  // hangs when the wake-up is lost
  other.join();
  // The bell is armed again after it was heard.
  backend->reap(8);
  backend->submit();
  backend->wake();
  backend->sleep(kNever);
}

// ---- refusal, in a child process that may not call some system calls

// Denies `calls` with EPERM from here on, for this process.
bool deny(std::initializer_list<uint32_t> calls) {
  std::vector<sock_filter> filter;
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  for (const uint32_t call : calls) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Child's verdict: 0 falls back to epoll with a reason and works; otherwise which step failed.
int probe_under(std::initializer_list<uint32_t> calls) {
  if (!deny(calls)) return 10;
  if (make_io_backend(IoBackendPreference::kUring, IoBackendOptions{})) return 11;
  Result<IoBackendChoice> choice = make_io_backend(IoBackendPreference::kProbe, IoBackendOptions{});
  if (!choice) return 12;
  if (choice->reason.ok() || choice->reason.code() != Code::kUnsupported) return 13;
  if (choice->reason.errno_value() != EPERM) return 14;
  if (std::string(choice->backend->name()) != "epoll") return 15;
  std::array<int, 2> pair{};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) != 0) return 16;
  std::array<char, 1> byte{'x'};
  Request send(IoKind::kSend, pair[0]);
  send.buffer(byte.data(), 1);
  choice->backend->start(send);
  choice->backend->submit();
  choice->backend->reap(8);
  return send.completions == 1 && send.result == 1 ? 0 : 17;
}

int run_in_child(std::initializer_list<uint32_t> calls) {
  const pid_t child = fork();
  if (child == 0) _exit(probe_under(calls));
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

TEST(IoBackendProbe, FallsBackToEpollWhenSetUpIsForbidden) {
  EXPECT_EQ(run_in_child({SYS_io_uring_setup}), 0);
}

TEST(IoBackendProbe, FallsBackToEpollWhenOnlyUsingTheRingIsForbidden) {
  EXPECT_EQ(run_in_child({SYS_io_uring_enter}), 0);
}

TEST(IoBackendProbe, UsesIoUringWhereItIsAllowedAndGivesNoReason) {
  if (!make_io_backend(IoBackendPreference::kUring, IoBackendOptions{})) {
    GTEST_SKIP() << "this system refuses io_uring";
  }
  Result<IoBackendChoice> choice = make_io_backend(IoBackendPreference::kProbe, IoBackendOptions{});
  ASSERT_TRUE(choice);
  EXPECT_STREQ(choice->backend->name(), "io_uring");
  EXPECT_TRUE(choice->reason.ok());
}

TEST(IoBackendProbe, EpollByConfigurationSaysSo) {
  Result<IoBackendChoice> choice = make_io_backend(IoBackendPreference::kEpoll, IoBackendOptions{});
  ASSERT_TRUE(choice);
  EXPECT_STREQ(choice->backend->name(), "epoll");
  EXPECT_EQ(choice->reason.code(), Code::kUnsupported);
  EXPECT_EQ(choice->backend->registered().bytes, 0u);
  EXPECT_EQ(choice->backend->registered().files, 0u);
}

}  // namespace
}  // namespace varve
