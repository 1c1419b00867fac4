// device: one drive as a flat array of bytes, read and written in whole pages, past the page cache.
//
// Owns: BlockDevice and its two kinds: FileDevice (file or block device, O_DIRECT always) and
// MemoryDevice, plus FaultDevice, a decorator that adds faults and a volatile write cache.
// Called by server/flash. Thread rule: a BlockDevice belongs to one core and completes on its
// reactor. It outlives its requests, or its reactor is not turned any more (a simulated power cut).
// Geometry, alignment, bounds, short I/O and bounded retries live in BlockDevice, in one place.
// Invariants:
//   D1 offsets, lengths and memory are multiples of kPageBytes, inside [0, capacity): asserted.
//   D2 a request completes exactly once, in a later turn, after every byte moved or with the cause.
//   D3 short I/O is continued; EAGAIN/EINTR are retried kRetriesMax times; a read of 0 bytes inside
//      the capacity is a lost drive (kUnavailable), as after a hot unplug.
//   D4 a persistent error makes this device failed() and never the process: later requests complete
//      with kUnavailable. Media errors (ENODATA, EILSEQ, EIO on read) fail one request, counted;
//      kMediaPlacesMax places of the drive with such errors and no good read in between, or any
//      write or flush error, fail the device: one bad spot, however often it is asked for, does
//      not. A discard that the drive does not take is kUnsupported and no failure.
//   D5 after a failed flush the device is failed: what was unflushed is unknown (fsync is not
//   retried).
//   D6 a file that was deleted or cut short under the device is told by gone(), also where writes
//   would lengthen it again: what lay there will not be found at the next start.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/base.h"
#include "common/reactor/reactor.h"
#include "common/time/time.h"

namespace varve {

enum class DeviceKind : uint8_t { kRead, kWrite, kFlush, kDiscard };

class BlockDevice;

// Lives in its owner; memory and iovecs stay put until on_done.
struct DeviceIo {
  using Done = void (*)(DeviceIo&);
  DeviceKind kind = DeviceKind::kRead;
  bool in_flight = false;
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;  // sum of iov lengths for read and write
  iovec* iov = nullptr;       // modified by the device while in flight (short I/O), then restored
  uint32_t iov_count = 0;     // <= kIoVectorsMax
  int32_t buffer_index = -1;  // registered buffer covering a single iov, else -1
  Status status;
  Nanos started_ns = 0;
  Done on_done = nullptr;
  void* owner = nullptr;
  DeviceIo* next = nullptr;  // queue of whoever holds it
  // the device's own
  BlockDevice* device = nullptr;
  uint32_t retries = 0;
  uint64_t moved_bytes = 0;    // whole pages that earlier attempts moved
  uint64_t skipped_bytes = 0;  // how far the first iovec of the attempt was moved on
  Io io;                       // the attempt: kind, iov, iov_count, offset, bytes, buffer_index
  Timer timer;
};

class BlockDevice {
 public:
  static constexpr uint32_t kRetriesMax = 16;
  static constexpr uint32_t kMediaPlacesMax = 8;
  // A drive has at least twice as many places as it may lose; a place of a large one is 64 MiB.
  static constexpr uint64_t kMediaPlaceBytes = 64 * kMiB;

  virtual ~BlockDevice() = default;
  void submit(DeviceIo& io);  // D1, D2

  const std::string& name() const { return name_; }
  uint64_t capacity_bytes() const { return capacity_bytes_; }
  bool failed() const { return !failure_.ok(); }
  Status failure() const { return failure_; }
  // The owner declares the device lost (no progress within a deadline).
  void fail(Status cause);
  // Whether the drive is not the one any more that was opened, and why (D6); kOk where nothing can
  // be said. One quick look, which fails nothing by itself.
  virtual Status gone() const { return {}; }

  // Past the cache, at once, blocking: the medium as a power cut leaves it. For FaultDevice, and
  // for a look at a drive before it is used; kUnsupported where a device has no such way.
  virtual Status read_now(uint64_t offset_bytes, ByteSpan pages);
  virtual Status write_now(uint64_t offset_bytes, ConstByteSpan pages);

  struct Counters {
    uint64_t reads = 0, writes = 0, flushes = 0, discards = 0;
    uint64_t read_bytes = 0, written_bytes = 0;
    uint64_t short_ios = 0, retries = 0, media_errors = 0, errors = 0;
  };
  const Counters& counters() const { return counters_; }
  uint32_t in_flight() const { return in_flight_; }

 protected:
  BlockDevice(Reactor& reactor, std::string name, uint64_t capacity_bytes);
  // Moves what remains: the attempt described by io.io, `bytes` in all. Answers later through
  // progress(). May move fewer bytes.
  virtual void start(DeviceIo& io) = 0;
  // Called by the implementation in a later turn: bytes moved by this attempt, or -errno.
  void progress(DeviceIo& io, int64_t result);
  Reactor& reactor_;

 private:
  void check_geometry(const DeviceIo& io) const;
  void attempt(DeviceIo& io);
  void moved(DeviceIo& io, uint64_t bytes);
  void retry(DeviceIo& io, int32_t error);
  void give_up(DeviceIo& io, int32_t error);
  void note_media_error(const DeviceIo& io, int32_t error);
  void later(DeviceIo& io, Nanos delay_ns);
  void finish(DeviceIo& io, Status status);
  std::string name_;
  uint64_t capacity_bytes_;
  Status failure_;
  uint64_t media_places_[kMediaPlacesMax] = {};  // distinct, with an error since the last good read
  uint32_t media_place_count_ = 0;
  uint32_t in_flight_ = 0;
  bool starting_ = false;  // R1 is asserted by it
  Counters counters_;
};

struct FileDeviceOptions {
  std::string path;
  uint64_t create_bytes = 0;  // create and preallocate this many when absent or empty; 0 = never
  uint64_t free_floor_bytes = 0;  // a creation leaves at least this many on the file system
};

// Refuses by a Status whose text names the cause and the remedy; the caller knows the path and says
// it once. kIo, and kUnavailable with ENOENT or ENODEV, mean a lost drive. O_DIRECT is
// probed by a real aligned read of the first page, and in a new file by a write of it, because file
// systems accept the flag and refuse the I/O; what exists is not written to. A file that another
// *process* has open as a target is refused (kUnavailable); within one process the shards may open
// it as often as they like. On a file a discard zeroes and keeps the space, so that a preallocated
// target stays allocated.
Result<std::unique_ptr<BlockDevice>> open_file_device(Reactor& reactor,
                                                      const FileDeviceOptions& options);

// A drive that was lost before it could be opened: failed() from the start with `cause`, so that
// its place among the targets is kept and every request of it ends with kUnavailable (D4).
std::unique_ptr<BlockDevice> make_failed_device(Reactor& reactor, const std::string& name,
                                                uint64_t capacity_bytes, Status cause);

// Plain synchronous page I/O, O_DIRECT, for start-up work before the shards run (superblocks).
class FileHandle {
 public:
  static Result<std::unique_ptr<FileHandle>> open(const FileDeviceOptions& options);
  ~FileHandle();
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  uint64_t capacity_bytes() const { return capacity_bytes_; }
  bool created() const { return created_; }
  bool is_block_device() const { return is_block_device_; }
  Status read(uint64_t offset_bytes, ByteSpan pages);
  Status write(uint64_t offset_bytes, ConstByteSpan pages);
  Status flush();
  // Allocates what of a file is a hole. kNoSpace: not within the floor; kUnsupported: its file
  // system cannot.
  Status fill_holes(uint64_t free_floor_bytes);

 private:
  FileHandle() = default;
  int fd_ = -1;
  uint64_t capacity_bytes_ = 0;
  bool created_ = false;
  bool is_block_device_ = false;
};

// Bytes of a simulated drive that outlive daemons (a "platter"): MemoryDevice reads and writes it.
class MemoryPlatter {
 public:
  explicit MemoryPlatter(uint64_t capacity_bytes);
  uint64_t capacity_bytes() const { return bytes_.size(); }
  ByteSpan bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

struct MemoryDeviceOptions {
  std::string name = "memory";
  Nanos latency_min_ns = 20 * kMicrosecond;
  Nanos latency_max_ns = 200 * kMicrosecond;
  uint64_t seed = 1;
};

// Completes through the reactor's timers: deterministic under a ManualClock.
std::unique_ptr<BlockDevice> make_memory_device(Reactor& reactor, MemoryPlatter& platter,
                                                const MemoryDeviceOptions& options);

}  // namespace varve
