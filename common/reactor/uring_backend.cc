// io_uring: one ring a core, registered files and buffers, one submission per turn.
//
// The ring is made disabled and enabled by the first thread that uses it: SINGLE_ISSUER binds a
// ring to the thread that enables it, and the ring is built by main before the shard's thread
// exists. user_data is the Io itself; the odd numbers below 8 are this file's own requests.
#include <fcntl.h>
#include <liburing.h>
#include <linux/falloc.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "common/reactor/backends.h"

namespace varve {

namespace {

constexpr uint64_t kTagWake = 1;
constexpr uint64_t kTagIgnored = 3;
constexpr uint32_t kReapBatch = 64;
constexpr uint32_t kBufferPiecesMax = 1024;              // 1 TiB of registered memory
constexpr uint64_t kBufferPieceBytes = kGiB;             // the kernel's limit for one buffer
constexpr uint64_t kSingleBytesMax = uint64_t{1} << 30;  // sqe->len is 32 bits wide
constexpr uint32_t kTeardownWaitsMax = 200;  // of 10 ms: what a ring waits for its I/O at the end

// Newest first. SUBMIT_ALL and the TASKRUN flags came with 5.18-6.1; older kernels go to epoll.
constexpr uint32_t kSetupCommon = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP |
                                  IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN |
                                  IORING_SETUP_TASKRUN_FLAG;
constexpr std::array<uint32_t, 2> kSetupRungs = {
    kSetupCommon | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
        IORING_SETUP_R_DISABLED,
    kSetupCommon,
};
constexpr uint32_t kFeaturesNeeded =
    IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_EXT_ARG | IORING_FEAT_FAST_POLL;

int ring_init(io_uring* ring, uint32_t entries, uint32_t flags) {
  io_uring_params parameters{};
  parameters.flags = flags;
  parameters.cq_entries = entries * 4;
  const int result = io_uring_queue_init_params(entries, ring, &parameters);
  if (result < 0) return result;
  if ((parameters.features & kFeaturesNeeded) == kFeaturesNeeded) return 0;
  io_uring_queue_exit(ring);
  return -ENOSYS;
}

// io_uring_enable_rings(): declared by liburing 2.3, but not exported by its shared library.
int ring_enable(const io_uring& ring) {
  const long result =
      syscall(SYS_io_uring_register, ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
  return result < 0 ? -errno : 0;
}

// Waits for `count` completions of the probe, each with the result it must have.
int probe_await(io_uring* ring, uint32_t count) {
  __kernel_timespec timeout{};
  timeout.tv_sec = 2;  // a sandbox that swallows submissions must not hang the start
  for (uint32_t i = 0; i < count; ++i) {
    io_uring_cqe* cqe = nullptr;
    const int result = io_uring_submit_and_wait_timeout(ring, &cqe, 1, &timeout, nullptr);
    if (result < 0) return result;
    if (cqe == nullptr) return -ETIME;
    const int64_t expected = static_cast<int64_t>(io_uring_cqe_get_data64(cqe));
    const int64_t given = cqe->res;
    io_uring_cqe_seen(ring, cqe);
    if (given != expected) return given < 0 ? static_cast<int>(given) : -EPROTO;
  }
  return 0;
}

// A nop and a read that must wait for data, really carried out: some sandboxes allow io_uring_setup
// and refuse the rest.
int probe(uint32_t flags) {
  io_uring ring{};
  int result = ring_init(&ring, 8, flags);
  if (result < 0) return result;
  const int event = eventfd(0, EFD_CLOEXEC);
  if (event < 0) result = -errno;
  if (result == 0 && (flags & IORING_SETUP_R_DISABLED) != 0) result = ring_enable(ring);
  if (result == 0) {
    uint64_t one = 1;
    uint64_t read_back = 0;
    io_uring_sqe* sqe = io_uring_get_sqe(&ring);
    VARVE_ASSERT(sqe != nullptr);
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data64(sqe, 0);
    sqe = io_uring_get_sqe(&ring);
    VARVE_ASSERT(sqe != nullptr);
    io_uring_prep_read(sqe, event, &read_back, sizeof(read_back), 0);
    io_uring_sqe_set_data64(sqe, sizeof(read_back));
    result = probe_await(&ring, 1);
    if (result == 0 && write(event, &one, sizeof(one)) != sizeof(one)) result = -errno;
    if (result == 0) result = probe_await(&ring, 1);
    if (result == 0 && read_back != one) result = -EPROTO;
  }
  if (event >= 0) close(event);
  io_uring_queue_exit(&ring);
  return result;
}

// What refused the ring and what to allow; the probe's small ring may pass where the real one
// fails.
Status refusal(int32_t error) {
  switch (error) {
    case EPERM:
    case EACCES:
      return Status(Code::kUnsupported,
                    "io_uring is forbidden here; allow io_uring_setup, io_uring_enter and "
                    "io_uring_register in seccomp and set kernel.io_uring_disabled to 0",
                    error);
    case ENOSYS:
    case EINVAL:
      return Status(Code::kUnsupported,
                    "io_uring of this kernel is missing or before 5.19, or seccomp hides it; "
                    "run a newer kernel or allow io_uring_setup, _enter and _register",
                    error);
    case ENOMEM:
      return Status(Code::kUnsupported,
                    "io_uring found no memory to lock; raise ulimit -l (LimitMEMLOCK)", error);
    case EMFILE:
    case ENFILE:
      return Status(Code::kUnsupported,
                    "io_uring found no descriptor; raise ulimit -n (LimitNOFILE)", error);
    default:
      return Status(Code::kUnsupported,
                    "io_uring failed its probe; look at seccomp and kernel.io_uring_disabled",
                    error);
  }
}

// A failed submission that the next turn may try again.
bool is_transient(int result) {
  return result == -EAGAIN || result == -EBUSY || result == -EINTR || result == -ENOMEM ||
         result == -ETIME;
}

class UringBackend final : public IoBackend {
 public:
  static Result<std::unique_ptr<IoBackend>> open(const IoBackendOptions& options, uint32_t flags);
  ~UringBackend() override;
  const char* name() const override { return "io_uring"; }
  Result<int32_t> register_buffer(ByteSpan memory) override;
  void register_file(int32_t fd) override;
  void unregister_file(int32_t fd) override;
  IoRegistered registered() const override;
  void start(Io& io) override;
  void cancel(Io& io) override;
  void submit() override;
  uint32_t reap(uint32_t limit) override;
  void sleep(Nanos timeout_ns) override;
  void wake() override;
  uint32_t in_flight() const override { return in_flight_; }

 private:
  // Memory given to register_buffer(): consecutive kernel buffers of kBufferPieceBytes each.
  struct Region {
    std::byte* begin = nullptr;
    uint64_t bytes = 0;
    uint32_t piece_first = 0;
  };

  UringBackend() { ring_.ring_fd = -1; }
  void enable();
  void arm_wake();
  void fill();           // what waits for a place in the submission queue
  bool prepare(Io& io);  // false: no place
  void prepare_disk(io_uring_sqe* sqe, Io& io);
  void prepare_socket(io_uring_sqe* sqe, Io& io);
  int32_t fixed_buffer(const Io& io) const;  // kernel's buffer index or -1
  bool is_registered(int32_t fd) const;
  void deliver(Io& io, int64_t result);

  io_uring ring_{};
  uint32_t flags_ = 0;
  int event_ = -1;
  bool enabled_ = false;
  bool wake_armed_ = false;
  uint64_t wake_value_ = 0;
  uint32_t in_flight_ = 0;
  Queue<Io, &Io::next> waiting_;    // started, but the submission queue was full
  Queue<Io, &Io::next> cancelled_;  // cancelled while waiting: delivered by reap()
  std::vector<Io*> cancels_;        // cancellations that found no place; almost always empty
  std::vector<Region> regions_;
  uint32_t pieces_ = 0;
  bool buffers_table_ = false;
  bool buffers_refused_ = false;
  std::vector<bool> files_;  // by descriptor: the sparse table's slot of the same number
};

Result<std::unique_ptr<IoBackend>> UringBackend::open(const IoBackendOptions& options,
                                                      uint32_t flags) {
  std::unique_ptr<UringBackend> backend(new UringBackend);
  backend->event_ = eventfd(0, EFD_CLOEXEC);  // blocking, so that a read of it waits in the ring
  if (backend->event_ < 0) return refusal(errno);
  const int result = ring_init(&backend->ring_, options.entries, flags);
  if (result < 0) {
    backend->ring_.ring_fd = -1;
    return refusal(-result);
  }
  backend->flags_ = flags;
  backend->enabled_ = (flags & IORING_SETUP_R_DISABLED) == 0;
  const uint32_t files = options.registered_files_max;
  if (files > 0 && io_uring_register_files_sparse(&backend->ring_, files) == 0) {
    backend->files_.assign(files, false);
  }
  return std::unique_ptr<IoBackend>(std::move(backend));
}

UringBackend::~UringBackend() {
  if (ring_.ring_fd >= 0) {
    // A bounded wait for what the kernel may still write; nobody is told any more.
    if (enabled_ && in_flight_ > 0) {
      io_uring_sync_cancel_reg all{};
      all.fd = -1;
      all.flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL;
      all.timeout.tv_sec = -1;
      all.timeout.tv_nsec = -1;
      (void)io_uring_register_sync_cancel(&ring_, &all);
      in_flight_ -= static_cast<uint32_t>(waiting_.size() + cancelled_.size());
      for (uint32_t waits = 0; in_flight_ > 0 && waits < kTeardownWaitsMax;) {
        __kernel_timespec pause{0, 10'000'000};
        io_uring_cqe* cqe = nullptr;
        const int result = io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &pause, nullptr);
        if (result < 0 && !is_transient(result))
          break;  // another thread's ring: the kernel ends it
        if (cqe == nullptr) {
          ++waits;
          continue;
        }
        const uint64_t tag = io_uring_cqe_get_data64(cqe);
        if (tag != kTagWake && tag != kTagIgnored) --in_flight_;
        io_uring_cqe_seen(&ring_, cqe);
      }
    }
    io_uring_queue_exit(&ring_);
  }
  if (event_ >= 0) close(event_);
}

Result<int32_t> UringBackend::register_buffer(ByteSpan memory) {
  VARVE_ASSERT(!memory.empty() && in_flight_ == 0);
  if (buffers_refused_) return -1;
  const auto pieces =
      static_cast<uint32_t>((memory.size() + kBufferPieceBytes - 1) / kBufferPieceBytes);
  int result = 0;
  if (!buffers_table_) {
    result = io_uring_register_buffers_sparse(&ring_, kBufferPiecesMax);
    buffers_table_ = result == 0;
  }
  if (pieces_ + pieces > kBufferPiecesMax) result = -ENOSPC;
  for (uint32_t i = 0; result == 0 && i < pieces; ++i) {
    const uint64_t offset = i * kBufferPieceBytes;
    iovec piece{memory.data() + offset, std::min(kBufferPieceBytes, memory.size() - offset)};
    const __u64 tag = 0;
    const int updated = io_uring_register_buffers_update_tag(&ring_, pieces_ + i, &piece, &tag, 1);
    if (updated < 0) result = updated;
  }
  if (result < 0) {
    buffers_refused_ = true;  // slots that did succeed stay pinned and unused
    logf(LogLevel::kWarn, "reactor",
         "io_uring refused to register %zu MiB of memory (%s); disk I/O goes on without registered "
         "buffers; raise RLIMIT_MEMLOCK (ulimit -l, LimitMEMLOCK=)",
         memory.size() / kMiB, std::strerror(-result));
    return -1;
  }
  regions_.push_back(Region{memory.data(), memory.size(), pieces_});
  pieces_ += pieces;
  return static_cast<int32_t>(regions_.size() - 1);
}

void UringBackend::register_file(int32_t fd) {
  VARVE_ASSERT(fd >= 0);
  if (static_cast<size_t>(fd) >= files_.size()) return;
  int value = fd;
  files_[fd] = io_uring_register_files_update(&ring_, static_cast<unsigned>(fd), &value, 1) == 1;
}

void UringBackend::unregister_file(int32_t fd) {
  if (!is_registered(fd)) return;
  int value = -1;
  // May be refused when the ring belongs to a thread that is gone; then the slot is only not used.
  (void)io_uring_register_files_update(&ring_, static_cast<unsigned>(fd), &value, 1);
  files_[fd] = false;
}

IoRegistered UringBackend::registered() const {
  IoRegistered registered;
  for (const Region& region : regions_)
    registered.bytes += region.bytes;
  registered.files = static_cast<uint32_t>(std::count(files_.begin(), files_.end(), true));
  return registered;
}

bool UringBackend::is_registered(int32_t fd) const {
  return fd >= 0 && static_cast<size_t>(fd) < files_.size() && files_[fd];
}

int32_t UringBackend::fixed_buffer(const Io& io) const {
  if (io.buffer_index < 0 || io.iov_count != 1) return -1;
  VARVE_ASSERT(static_cast<size_t>(io.buffer_index) < regions_.size(), io.buffer_index);
  const Region& region = regions_[io.buffer_index];
  auto* begin = static_cast<std::byte*>(io.iov->iov_base);
  VARVE_ASSERT(begin >= region.begin && begin + io.iov->iov_len <= region.begin + region.bytes);
  const auto offset = static_cast<uint64_t>(begin - region.begin);
  const uint64_t piece = offset / kBufferPieceBytes;
  if ((offset + io.iov->iov_len - 1) / kBufferPieceBytes != piece) return -1;  // crosses a border
  return static_cast<int32_t>(region.piece_first + piece);
}

void UringBackend::start(Io& io) {
  VARVE_ASSERT(!io.in_flight && io.on_done != nullptr);
  VARVE_ASSERT(io.iov_count <= kIoVectorsMax, io.iov_count);
  enable();
  io.in_flight = true;
  ++in_flight_;
  if (!waiting_.empty() || !prepare(io)) {
    submit();  // the submission queue is full: empty it and go on
    if (!waiting_.empty() || !prepare(io)) waiting_.push(&io);
  }
}

void UringBackend::cancel(Io& io) {
  if (!io.in_flight) return;
  // Not submitted yet: it never will be. The queue is rebuilt in order.
  bool submitted = true;
  Queue<Io, &Io::next> kept;
  while (Io* waiting = waiting_.pop()) {
    if (waiting == &io) {
      cancelled_.push(waiting);
      submitted = false;
    } else {
      kept.push(waiting);
    }
  }
  waiting_.append(kept);
  if (!submitted) return;
  if (std::find(cancels_.begin(), cancels_.end(), &io) == cancels_.end()) cancels_.push_back(&io);
  fill();
}

void UringBackend::submit() {
  enable();
  for (;;) {
    fill();
    if (io_uring_sq_ready(&ring_) == 0) return;
    const int result = io_uring_submit_and_get_events(&ring_);
    VARVE_ASSERT(result >= 0 || is_transient(result), -result);
    if (result <= 0 || (waiting_.empty() && cancels_.empty() && wake_armed_)) return;
  }
}

void UringBackend::fill() {
  if (!wake_armed_ && enabled_) arm_wake();
  while (!cancels_.empty()) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) return;
    io_uring_prep_cancel(sqe, cancels_.back(), 0);
    io_uring_sqe_set_data64(sqe, kTagIgnored);
    cancels_.pop_back();
  }
  while (Io* io = waiting_.front()) {
    if (!prepare(*io)) return;
    // prepare() left `next` alone, so the queue is whole.
    Io* popped = waiting_.pop();
    VARVE_ASSERT(popped == io);
  }
}

void UringBackend::arm_wake() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  if (sqe == nullptr) return;  // fill() tries again
  io_uring_prep_read(sqe, event_, &wake_value_, sizeof(wake_value_), 0);
  io_uring_sqe_set_data64(sqe, kTagWake);
  wake_armed_ = true;
}

void UringBackend::enable() {
  if (enabled_) return;
  const int result = ring_enable(ring_);
  VARVE_ASSERT(result == 0, -result);
  enabled_ = true;
}

bool UringBackend::prepare(Io& io) {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  if (sqe == nullptr) return false;
  switch (io.kind) {
    case IoKind::kRead:
    case IoKind::kWrite:
    case IoKind::kFlush:
    case IoKind::kDiscard:
    case IoKind::kZero:
      prepare_disk(sqe, io);
      break;
    case IoKind::kAccept:
    case IoKind::kConnect:
    case IoKind::kReceive:
    case IoKind::kSend:
    case IoKind::kPollIn:
      prepare_socket(sqe, io);
      break;
  }
  io_uring_sqe_set_data(sqe, &io);
  return true;
}

void UringBackend::prepare_disk(io_uring_sqe* sqe, Io& io) {
  const bool single = io.iov_count == 1 && io.iov->iov_len <= kSingleBytesMax;
  const auto bytes = single ? static_cast<uint32_t>(io.iov->iov_len) : 0;
  const int32_t buffer = single ? fixed_buffer(io) : -1;
  if (io.kind == IoKind::kRead) {
    if (buffer >= 0) {
      io_uring_prep_read_fixed(sqe, io.fd, io.iov->iov_base, bytes, io.offset, buffer);
    } else if (single) {
      io_uring_prep_read(sqe, io.fd, io.iov->iov_base, bytes, io.offset);
    } else {
      io_uring_prep_readv(sqe, io.fd, io.iov, io.iov_count, io.offset);
    }
  } else if (io.kind == IoKind::kWrite) {
    if (buffer >= 0) {
      io_uring_prep_write_fixed(sqe, io.fd, io.iov->iov_base, bytes, io.offset, buffer);
    } else if (single) {
      io_uring_prep_write(sqe, io.fd, io.iov->iov_base, bytes, io.offset);
    } else {
      io_uring_prep_writev(sqe, io.fd, io.iov, io.iov_count, io.offset);
    }
  } else if (io.kind == IoKind::kFlush) {
    io_uring_prep_fsync(sqe, io.fd, IORING_FSYNC_DATASYNC);
  } else {
    VARVE_ASSERT(io.kind == IoKind::kDiscard || io.kind == IoKind::kZero);
    const int mode = io.kind == IoKind::kZero ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE;
    io_uring_prep_fallocate(sqe, io.fd, mode | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(io.offset),
                            static_cast<off_t>(io.bytes));
  }
  if (is_registered(io.fd)) sqe->flags |= IOSQE_FIXED_FILE;  // slot number == descriptor number
}

void UringBackend::prepare_socket(io_uring_sqe* sqe, Io& io) {
  if (io.kind == IoKind::kAccept) {
    io_uring_prep_accept(sqe, io.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    return;
  }
  if (io.kind == IoKind::kConnect) {
    VARVE_ASSERT(io.address != nullptr);
    io_uring_prep_connect(sqe, io.fd, reinterpret_cast<sockaddr*>(io.address), io.address_bytes);
    return;
  }
  if (io.kind == IoKind::kPollIn) {
    io_uring_prep_poll_add(sqe, io.fd, POLLIN);
    return;
  }
  VARVE_ASSERT(io.iov_count > 0);
  const bool single = io.iov_count == 1 && io.iov->iov_len <= kSingleBytesMax;
  if (!single) {
    io.message = {};
    io.message.msg_iov = io.iov;
    io.message.msg_iovlen = io.iov_count;
  }
  if (io.kind == IoKind::kReceive) {
    if (single) {
      io_uring_prep_recv(sqe, io.fd, io.iov->iov_base, io.iov->iov_len, 0);
    } else {
      io_uring_prep_recvmsg(sqe, io.fd, &io.message, 0);
    }
  } else {
    VARVE_ASSERT(io.kind == IoKind::kSend);
    if (single) {
      io_uring_prep_send(sqe, io.fd, io.iov->iov_base, io.iov->iov_len, MSG_NOSIGNAL);
    } else {
      io_uring_prep_sendmsg(sqe, io.fd, &io.message, MSG_NOSIGNAL);
    }
  }
}

uint32_t UringBackend::reap(uint32_t limit) {
  enable();
  uint32_t delivered = 0;
  for (size_t n = cancelled_.size(); n > 0 && delivered < limit; --n, ++delivered) {
    deliver(*cancelled_.pop(), -ECANCELED);
  }
  if (io_uring_cq_ready(&ring_) == 0) {
    // Nothing is visible yet; enter the kernel only when it says that it holds something back.
    const unsigned flags = IO_URING_READ_ONCE(*ring_.sq.kflags);
    if ((flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0) {
      (void)io_uring_get_events(&ring_);
    }
  }
  // What arrives while callbacks run belongs to the next turn (R1).
  uint32_t left = io_uring_cq_ready(&ring_);
  while (left > 0 && delivered < limit) {
    std::array<io_uring_cqe*, kReapBatch> cqes;
    std::array<std::pair<uint64_t, int32_t>, kReapBatch> results;
    const uint32_t want = std::min({left, limit - delivered, kReapBatch});
    const uint32_t count = io_uring_peek_batch_cqe(&ring_, cqes.data(), want);
    VARVE_ASSERT(count == want, count, want);
    for (uint32_t i = 0; i < count; ++i) {
      results[i] = {io_uring_cqe_get_data64(cqes[i]), cqes[i]->res};
    }
    io_uring_cq_advance(&ring_, count);  // before the callbacks: they may start and submit
    left -= count;
    for (uint32_t i = 0; i < count; ++i) {
      const auto [tag, result] = results[i];
      if (tag == kTagIgnored) continue;
      if (tag == kTagWake) {
        wake_armed_ = false;
        continue;
      }
      ++delivered;
      deliver(*reinterpret_cast<Io*>(tag), result);
    }
  }
  return delivered;
}

void UringBackend::deliver(Io& io, int64_t result) {
  VARVE_ASSERT(io.in_flight && in_flight_ > 0);
  if (!cancels_.empty()) std::erase(cancels_, &io);
  io.in_flight = false;
  io.result = result;
  --in_flight_;
  io.on_done(io);
}

void UringBackend::sleep(Nanos timeout_ns) {
  enable();
  fill();
  if (timeout_ns == 0 || !cancelled_.empty() || io_uring_cq_ready(&ring_) > 0) return submit();
  int result = 0;
  if (timeout_ns == kNever) {
    result = io_uring_submit_and_wait(&ring_, 1);
  } else {
    __kernel_timespec timeout{};
    timeout.tv_sec = static_cast<int64_t>(timeout_ns / kSecond);
    timeout.tv_nsec = static_cast<int64_t>(timeout_ns % kSecond);
    io_uring_cqe* cqe = nullptr;
    result = io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &timeout, nullptr);
  }
  VARVE_ASSERT(result >= 0 || is_transient(result), -result);
}

void UringBackend::wake() {
  const uint64_t one = 1;
  ssize_t written = 0;
  do {
    written = write(event_, &one, sizeof(one));
  } while (written < 0 && errno == EINTR);
  VARVE_ASSERT(written == sizeof(one), errno);
}

}  // namespace

Result<std::unique_ptr<IoBackend>> make_uring_backend(const IoBackendOptions& options) {
  int refused = 0;
  for (const uint32_t flags : kSetupRungs) {
    const int result = probe(flags);
    if (result == 0) return UringBackend::open(options, flags);
    if (refused == 0 || result != -EINVAL) refused = result;
  }
  return refusal(-refused);
}

}  // namespace varve
