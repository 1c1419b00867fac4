// MemoryDevice: a simulated drive over a platter that outlives it.
// Every request takes a random time, so that completions come out of order, as from a real drive.
#include <algorithm>
#include <cstring>

#include "common/device/device.h"

namespace varve {

MemoryPlatter::MemoryPlatter(uint64_t capacity_bytes) : bytes_(capacity_bytes) {
  VARVE_ASSERT(capacity_bytes > 0 && capacity_bytes % kPageBytes == 0, capacity_bytes);
}

namespace {

class MemoryDevice final : public BlockDevice {
 public:
  MemoryDevice(Reactor& reactor, MemoryPlatter& platter, const MemoryDeviceOptions& options)
      : BlockDevice(reactor, options.name, platter.capacity_bytes()),
        platter_(platter),
        latency_min_ns_(std::max<Nanos>(options.latency_min_ns, 1)),  // D2: a later turn
        latency_max_ns_(std::max(options.latency_max_ns, latency_min_ns_)),
        random_(options.seed) {}

  Status read_now(uint64_t offset_bytes, ByteSpan pages) override {
    std::memcpy(pages.data(), place(offset_bytes, pages.size()), pages.size());
    return Status();
  }
  Status write_now(uint64_t offset_bytes, ConstByteSpan pages) override {
    std::memcpy(place(offset_bytes, pages.size()), pages.data(), pages.size());
    return Status();
  }

 protected:
  void start(DeviceIo& io) override {
    io.timer.owner = &io;
    io.timer.on_fire = [](Timer& timer) {
      auto& due = *static_cast<DeviceIo*>(timer.owner);
      static_cast<MemoryDevice*>(due.device)->carry_out(due);
    };
    reactor_.arm(io.timer, random_.between(latency_min_ns_, latency_max_ns_));
  }

 private:
  // Bytes move at the end of the latency: a power cut before it leaves the platter as it was.
  void carry_out(DeviceIo& io) {
    if (io.kind == DeviceKind::kFlush) return progress(io, 0);
    std::byte* at = place(io.io.offset, io.io.bytes);
    if (io.kind == DeviceKind::kDiscard) {
      std::memset(at, 0, io.io.bytes);
      return progress(io, 0);
    }
    for (uint32_t i = 0; i < io.io.iov_count; ++i) {
      const iovec& piece = io.io.iov[i];
      if (io.kind == DeviceKind::kRead) {
        std::memcpy(piece.iov_base, at, piece.iov_len);
      } else {
        std::memcpy(at, piece.iov_base, piece.iov_len);
      }
      at += piece.iov_len;
    }
    progress(io, static_cast<int64_t>(io.io.bytes));
  }

  std::byte* place(uint64_t offset_bytes, uint64_t bytes) {
    VARVE_ASSERT(offset_bytes <= platter_.capacity_bytes() &&
                     bytes <= platter_.capacity_bytes() - offset_bytes,
                 offset_bytes, bytes);
    return platter_.bytes().data() + offset_bytes;
  }

  MemoryPlatter& platter_;
  Nanos latency_min_ns_;
  Nanos latency_max_ns_;
  Random random_;
};

}  // namespace

std::unique_ptr<BlockDevice> make_memory_device(Reactor& reactor, MemoryPlatter& platter,
                                                const MemoryDeviceOptions& options) {
  return std::make_unique<MemoryDevice>(reactor, platter, options);
}

}  // namespace varve
