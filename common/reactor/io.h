// Io: one system-level I/O in flight, and the backend that carries it.
//
// An Io lives in its owner and is never freed or reused while `in_flight`. Its result arrives in a
// later turn of the reactor, never inside start().
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstdint>
#include <memory>

#include "common/time/time.h"

namespace varve {

enum class IoKind : uint8_t {
  kRead,     // fd, offset, iov[]; result bytes
  kWrite,    // fd, offset, iov[]; result bytes
  kFlush,    // fdatasync of fd
  kDiscard,  // fallocate(PUNCH_HOLE|KEEP_SIZE) of [offset, offset + bytes)
  kZero,     // fallocate(ZERO_RANGE|KEEP_SIZE): as kDiscard, but the space stays allocated
  kAccept,   // fd; result is the new descriptor (non-blocking, close-on-exec)
  kConnect,  // fd, address
  kReceive,  // fd, iov[]; result bytes, 0 = orderly end
  kSend,     // fd, iov[]; result bytes, may be short
  kPollIn,   // readable once
};

inline constexpr uint32_t kIoVectorsMax = 1024;  // IOV_MAX

struct Io {
  using Done = void (*)(Io&);
  IoKind kind = IoKind::kRead;
  bool in_flight = false;
  int32_t fd = -1;
  int32_t buffer_index = -1;  // registered buffer that covers iov[0] when iov_count == 1, else -1
  uint32_t iov_count = 0;
  iovec* iov = nullptr;  // stays valid and unchanged until done
  uint64_t offset = 0;
  uint64_t bytes = 0;  // kDiscard, kZero
  sockaddr_storage* address = nullptr;
  socklen_t address_bytes = 0;
  int64_t result = 0;  // bytes or descriptor, else -errno
  Done on_done = nullptr;
  void* owner = nullptr;
  Io* next = nullptr;   // backend's
  msghdr message = {};  // backend's
};

// What a backend registered with the kernel; nothing where it has no such thing, or was refused.
struct IoRegistered {
  uint64_t bytes = 0;  // of memory: disk I/O of it needs not pin its pages each time
  uint32_t files = 0;
};

// io_uring (production), epoll + thread pool (where io_uring is refused). Owner core only, but
// wake(). The first thread that starts, submits, reaps or sleeps is the owner; registering may come
// before, from the thread that builds everything. A descriptor is closed only when no Io of it is
// in flight: cancel first.
class IoBackend {
 public:
  virtual ~IoBackend() = default;
  virtual const char* name() const = 0;  // "io_uring", "epoll"
  // Registers memory for fixed I/O; returns the buffer index, or -1 when this backend has none.
  // At start only, before any I/O.
  virtual Result<int32_t> register_buffer(ByteSpan memory) = 0;
  // Makes reads and writes of this descriptor cheaper where the backend can; a hint, never an
  // error. A registered descriptor must be unregistered before it is closed: its number may come
  // back.
  virtual void register_file(int32_t /*fd*/) {}
  virtual void unregister_file(int32_t /*fd*/) {}
  virtual void start(Io& io) = 0;   // queued; leaves the process at submit()
  virtual void cancel(Io& io) = 0;  // best effort; the Io still completes, once
  virtual void submit() = 0;        // one submission per turn
  // Delivers completions (calls on_done), at most `limit`; returns how many.
  virtual uint32_t reap(uint32_t limit) = 0;
  // Sleeps until a completion, wake() or the timeout; kNever sleeps without end.
  virtual void sleep(Nanos timeout_ns) = 0;
  virtual void wake() = 0;  // any thread
  virtual uint32_t in_flight() const = 0;
  virtual IoRegistered registered() const { return {}; }
};

struct IoBackendOptions {
  uint32_t entries = 1024;      // submission queue; completions 4x
  uint32_t worker_threads = 4;  // epoll backend's disk threads
  uint32_t registered_files_max = 1024;
};

// Probes io_uring; on refusal answers the epoll backend and fills `reason` with why (empty =
// io_uring).
struct IoBackendChoice {
  std::unique_ptr<IoBackend> backend;
  Status reason;
};
enum class IoBackendPreference : uint8_t { kProbe, kUring, kEpoll };
Result<IoBackendChoice> make_io_backend(IoBackendPreference preference,
                                        const IoBackendOptions& options);

}  // namespace varve
