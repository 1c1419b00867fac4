// epoll and a few threads: where io_uring is refused. Slower, same behaviour.
//
// Sockets: each request is tried at submit(); what would block waits in its descriptor's queue,
// armed one-shot, so that a descriptor number that was closed and reused is never confused with the
// old one.
// Disk: worker threads make the blocking calls. This file is the listed exception for threads, a
// mutex and a condition variable; nothing else of the core is visible to the workers.
#include <fcntl.h>
#include <linux/falloc.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "common/reactor/backends.h"

namespace varve {

namespace {

using IoQueue = Queue<Io, &Io::next>;

constexpr uint32_t kEventsPerPoll = 64;
constexpr int kWouldBlock = -EAGAIN;

bool is_disk(IoKind kind) {
  return kind == IoKind::kRead || kind == IoKind::kWrite || kind == IoKind::kFlush ||
         kind == IoKind::kDiscard || kind == IoKind::kZero;
}

bool waits_for_input(IoKind kind) {
  return kind == IoKind::kAccept || kind == IoKind::kReceive || kind == IoKind::kPollIn;
}

// True when `io` was in `queue` and is no more.
bool take_out(IoQueue& queue, Io& io) {
  IoQueue kept;
  bool found = false;
  while (Io* candidate = queue.pop()) {
    if (candidate == &io) {
      found = true;
    } else {
      kept.push(candidate);
    }
  }
  queue.append(kept);
  return found;
}

// The blocking disk calls, made by worker threads.
int64_t disk_call(const Io& io) {
  const auto offset = static_cast<off_t>(io.offset);
  const auto count = static_cast<int>(io.iov_count);
  int64_t result = 0;
  switch (io.kind) {
    case IoKind::kRead:
      result = preadv(io.fd, io.iov, count, offset);
      break;
    case IoKind::kWrite:
      result = pwritev(io.fd, io.iov, count, offset);
      break;
    case IoKind::kFlush:
      result = fdatasync(io.fd);
      break;
    default: {
      VARVE_ASSERT(io.kind == IoKind::kDiscard || io.kind == IoKind::kZero);
      const int mode = io.kind == IoKind::kZero ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE;
      result = fallocate(io.fd, mode | FALLOC_FL_KEEP_SIZE, offset, static_cast<off_t>(io.bytes));
    }
  }
  return result < 0 ? -errno : result;
}

// A fixed number of threads over one queue. One descriptor never takes more than half of them, so a
// stuck drive leaves the others working. The queue is bounded by the Io records that exist.
class DiskWorkers {
 public:
  DiskWorkers(uint32_t threads, int event)
      : event_(event), share_(std::max(1u, threads / 2)), running_(threads, -1) {
    threads_.reserve(threads);
    for (uint32_t i = 0; i < threads; ++i)
      threads_.emplace_back([this, i] { work(i); });
  }
  ~DiskWorkers() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    more_.notify_all();
    for (std::thread& thread : threads_)
      thread.join();
  }
  void push(IoQueue& ios) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      queued_.append(ios);
    }
    more_.notify_all();
  }
  // True when the request had not reached a thread.
  bool take_back(Io& io) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return take_out(queued_, io);
  }
  void collect(IoQueue& out) {
    const std::lock_guard<std::mutex> lock(mutex_);
    out.append(done_);
  }

 private:
  void work(uint32_t self) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      Io* io = nullptr;
      more_.wait(lock, [&] { return stopping_ || (io = next()) != nullptr; });
      if (stopping_) return;
      running_[self] = io->fd;
      lock.unlock();
      const int64_t result = disk_call(*io);
      lock.lock();
      running_[self] = -1;
      io->result = result;
      const bool first = done_.empty();
      done_.push(io);
      if (first) {
        const uint64_t one = 1;
        const ssize_t written = write(event_, &one, sizeof(one));
        VARVE_ASSERT(written == sizeof(one), errno);
      }
      more_.notify_one();  // a request of the same descriptor may have waited for this thread
    }
  }
  // The first request whose descriptor has its share of threads not used up.
  Io* next() {
    Io* chosen = nullptr;
    IoQueue kept;
    while (Io* io = queued_.pop()) {
      if (chosen == nullptr && std::count(running_.begin(), running_.end(), io->fd) < share_) {
        chosen = io;
      } else {
        kept.push(io);
      }
    }
    queued_.append(kept);
    return chosen;
  }

  const int event_;
  const int64_t share_;
  std::mutex mutex_;
  std::condition_variable more_;
  bool stopping_ = false;
  IoQueue queued_;
  IoQueue done_;
  std::vector<int32_t> running_;  // descriptor that each thread works on, -1 none
  std::vector<std::thread> threads_;
};

class EpollBackend final : public IoBackend {
 public:
  static Result<std::unique_ptr<IoBackend>> open(const IoBackendOptions& options);
  ~EpollBackend() override;
  const char* name() const override { return "epoll"; }
  Result<int32_t> register_buffer(ByteSpan) override { return -1; }
  void start(Io& io) override;
  void cancel(Io& io) override;
  void submit() override;
  uint32_t reap(uint32_t limit) override;
  void sleep(Nanos timeout_ns) override;
  void wake() override;
  uint32_t in_flight() const override { return in_flight_; }

 private:
  struct Waiters {
    IoQueue input;   // accept, receive, poll
    IoQueue output;  // connect, send
  };

  EpollBackend() = default;
  void first_try(Io& io);
  void arm(int32_t fd);
  void serve(IoQueue& queue);  // tries the head until it would block
  void poll_events(Nanos timeout_ns);
  int wait_events(epoll_event* events, Nanos timeout_ns);
  void done(Io& io, int64_t result);

  int epoll_ = -1;
  int event_ = -1;
  bool precise_wait_ = true;  // epoll_pwait2 is there and allowed
  uint32_t in_flight_ = 0;
  uint32_t disk_in_flight_ = 0;
  uint32_t socket_waiting_ = 0;
  IoQueue sockets_started_;
  IoQueue disk_started_;
  IoQueue done_;
  std::vector<Waiters> waiters_;  // by descriptor; grows to the highest one seen
  std::unique_ptr<DiskWorkers> workers_;
};

// One attempt without waiting: bytes, a descriptor, kWouldBlock or another -errno.
int64_t attempt(Io& io) {
  int64_t result = 0;
  switch (io.kind) {
    case IoKind::kAccept:
      result = accept4(io.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      break;
    case IoKind::kReceive:
      result = recvmsg(io.fd, &io.message, MSG_DONTWAIT);
      break;
    case IoKind::kSend:
      result = sendmsg(io.fd, &io.message, MSG_DONTWAIT | MSG_NOSIGNAL);
      break;
    case IoKind::kPollIn: {
      pollfd poller{io.fd, POLLIN, 0};
      result = poll(&poller, 1, 0);
      if (result == 0) return kWouldBlock;
      if (result > 0) return poller.revents;
      break;
    }
    default: {
      // A connect that was begun: the socket is writable now, and says how it ended.
      VARVE_ASSERT(io.kind == IoKind::kConnect);
      pollfd poller{io.fd, POLLOUT, 0};
      result = poll(&poller, 1, 0);
      if (result == 0) return kWouldBlock;
      int error = 0;
      socklen_t size = sizeof(error);
      result = getsockopt(io.fd, SOL_SOCKET, SO_ERROR, &error, &size);
      if (result == 0 && error != 0) return -error;
    }
  }
  if (result >= 0) return result;
  // An interrupted attempt did nothing: waiting for readiness tries it again.
  return errno == EINTR || errno == EWOULDBLOCK ? kWouldBlock : -errno;
}

int64_t begin_connect(Io& io) {
  VARVE_ASSERT(io.address != nullptr);
  const auto* address = reinterpret_cast<const sockaddr*>(io.address);
  if (connect(io.fd, address, io.address_bytes) == 0) return 0;
  // EINTR: the connection goes on in the background, as with EINPROGRESS.
  return errno == EINPROGRESS || errno == EINTR ? kWouldBlock : -errno;
}

Result<std::unique_ptr<IoBackend>> EpollBackend::open(const IoBackendOptions& options) {
  std::unique_ptr<EpollBackend> backend(new EpollBackend);
  backend->epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (backend->epoll_ < 0) return Status::io("epoll_create1", errno);
  backend->event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (backend->event_ < 0) return Status::io("eventfd for epoll", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = backend->event_;
  if (epoll_ctl(backend->epoll_, EPOLL_CTL_ADD, backend->event_, &event) != 0) {
    return Status::io("epoll_ctl of the wake-up event", errno);
  }
  backend->workers_ = std::make_unique<DiskWorkers>(options.worker_threads, backend->event_);
  return std::unique_ptr<IoBackend>(std::move(backend));
}

EpollBackend::~EpollBackend() {
  workers_.reset();  // joins: no thread writes into anybody's memory after this
  if (event_ >= 0) close(event_);
  if (epoll_ >= 0) close(epoll_);
}

void EpollBackend::start(Io& io) {
  VARVE_ASSERT(!io.in_flight && io.on_done != nullptr);
  VARVE_ASSERT(io.iov_count <= kIoVectorsMax, io.iov_count);
  io.in_flight = true;
  ++in_flight_;
  if (is_disk(io.kind)) {
    disk_started_.push(&io);
  } else {
    sockets_started_.push(&io);
  }
}

void EpollBackend::cancel(Io& io) {
  if (!io.in_flight) return;
  if (is_disk(io.kind)) {
    if (take_out(disk_started_, io)) return done(io, -ECANCELED);
    if (!workers_->take_back(io)) return;  // a thread has it, or it is done
    VARVE_ASSERT(disk_in_flight_ > 0);
    --disk_in_flight_;
    return done(io, -ECANCELED);
  }
  if (take_out(sockets_started_, io)) return done(io, -ECANCELED);
  if (io.fd < 0 || static_cast<size_t>(io.fd) >= waiters_.size()) return;
  Waiters& waiters = waiters_[io.fd];
  if (!take_out(waits_for_input(io.kind) ? waiters.input : waiters.output, io)) return;
  --socket_waiting_;
  done(io, -ECANCELED);
}

void EpollBackend::submit() {
  while (Io* io = sockets_started_.pop())
    first_try(*io);
  if (disk_started_.empty()) return;
  disk_in_flight_ += static_cast<uint32_t>(disk_started_.size());
  workers_->push(disk_started_);
}

void EpollBackend::first_try(Io& io) {
  if (io.fd < 0) return done(io, -EBADF);
  if (static_cast<size_t>(io.fd) >= waiters_.size()) waiters_.resize(io.fd + 1);
  Waiters& waiters = waiters_[io.fd];
  IoQueue& queue = waits_for_input(io.kind) ? waiters.input : waiters.output;
  if (io.kind == IoKind::kAccept || io.kind == IoKind::kConnect) {
    const int flags = fcntl(io.fd, F_GETFL);  // these two have no MSG_DONTWAIT of their own
    if (flags < 0 || fcntl(io.fd, F_SETFL, flags | O_NONBLOCK) < 0) return done(io, -errno);
  } else {
    io.message = {};
    io.message.msg_iov = io.iov;
    io.message.msg_iovlen = io.iov_count;
  }
  if (queue.empty()) {  // never overtakes what already waits
    const int64_t result = io.kind == IoKind::kConnect ? begin_connect(io) : attempt(io);
    if (result != kWouldBlock) return done(io, result);
  }
  queue.push(&io);
  ++socket_waiting_;
  arm(io.fd);
}

void EpollBackend::arm(int32_t fd) {
  Waiters& waiters = waiters_[fd];
  epoll_event event{};
  event.data.fd = fd;
  event.events = EPOLLONESHOT;
  if (!waiters.input.empty()) event.events |= EPOLLIN | EPOLLRDHUP;
  if (!waiters.output.empty()) event.events |= EPOLLOUT;
  if (epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event) == 0) return;
  if (errno == ENOENT && epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0) return;
  const int error = errno;
  for (IoQueue* queue : {&waiters.input, &waiters.output}) {
    while (Io* io = queue->pop()) {
      --socket_waiting_;
      done(*io, -error);
    }
  }
}

void EpollBackend::serve(IoQueue& queue) {
  while (Io* io = queue.front()) {
    const int64_t result = attempt(*io);
    if (result == kWouldBlock) return;
    queue.pop();
    --socket_waiting_;
    done(*io, result);
  }
}

void EpollBackend::poll_events(Nanos timeout_ns) {
  std::array<epoll_event, kEventsPerPoll> events;
  const int count = wait_events(events.data(), timeout_ns);
  for (int i = 0; i < count; ++i) {
    const int32_t fd = events[i].data.fd;
    if (fd == event_) {
      uint64_t value = 0;
      (void)!read(event_, &value, sizeof(value));  // only empties it
      continue;
    }
    Waiters& waiters = waiters_[fd];
    serve(waiters.input);
    serve(waiters.output);
    if (!waiters.input.empty() || !waiters.output.empty()) arm(fd);
  }
}

int EpollBackend::wait_events(epoll_event* events, Nanos timeout_ns) {
  if (precise_wait_) {
    timespec timeout{static_cast<time_t>(timeout_ns / kSecond),
                     static_cast<long>(timeout_ns % kSecond)};
    const int count = epoll_pwait2(epoll_, events, kEventsPerPoll,
                                   timeout_ns == kNever ? nullptr : &timeout, nullptr);
    if (count >= 0 || errno == EINTR) return count;
    precise_wait_ = false;  // an old kernel or a sandbox: milliseconds, rounded up, must do
  }
  constexpr Nanos kTimeoutMax = 3600 * kSecond;
  const Nanos timeout_ms = (std::min(timeout_ns, kTimeoutMax) + kMillisecond - 1) / kMillisecond;
  const int count = epoll_wait(epoll_, events, kEventsPerPoll,
                               timeout_ns == kNever ? -1 : static_cast<int>(timeout_ms));
  VARVE_ASSERT(count >= 0 || errno == EINTR, errno);
  return count;
}

uint32_t EpollBackend::reap(uint32_t limit) {
  // Events before collecting: polling may swallow the workers' signal, so what they signalled must
  // be collected behind it, or sleep() would wait for a signal that is gone.
  if (socket_waiting_ > 0) poll_events(0);
  if (disk_in_flight_ > 0) {
    IoQueue collected;
    workers_->collect(collected);
    while (Io* io = collected.pop()) {
      VARVE_ASSERT(disk_in_flight_ > 0);
      --disk_in_flight_;
      done(*io, io->result);
    }
  }
  uint32_t delivered = 0;
  // What callbacks add to done_ (cancellations) belongs to the next turn (R1).
  for (size_t n = done_.size(); n > 0 && delivered < limit; --n, ++delivered) {
    Io* io = done_.pop();
    VARVE_ASSERT(io->in_flight && in_flight_ > 0);
    io->in_flight = false;
    --in_flight_;
    io->on_done(*io);
  }
  return delivered;
}

void EpollBackend::done(Io& io, int64_t result) {
  io.result = result;
  done_.push(&io);
}

void EpollBackend::sleep(Nanos timeout_ns) {
  submit();
  poll_events(done_.empty() ? timeout_ns : 0);
}

void EpollBackend::wake() {
  const uint64_t one = 1;
  ssize_t written = 0;
  do {
    written = write(event_, &one, sizeof(one));
  } while (written < 0 && errno == EINTR);
  VARVE_ASSERT(written == sizeof(one) || errno == EAGAIN, errno);  // full means: will wake anyway
}

}  // namespace

Result<std::unique_ptr<IoBackend>> make_epoll_backend(const IoBackendOptions& options) {
  return EpollBackend::open(options);
}

}  // namespace varve
