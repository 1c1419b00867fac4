// A drive that does nothing by itself: tests see what was asked of it, in order, and answer by
// hand.
#pragma once

#include <vector>

#include "common/device/device.h"

namespace varve::flash {

class ScriptedDevice final : public BlockDevice {
 public:
  ScriptedDevice(Reactor& reactor, uint64_t capacity_bytes)
      : BlockDevice(reactor, "scripted", capacity_bytes) {}

  struct Asked {
    DeviceKind kind;
    uint64_t offset_bytes;
    uint64_t length_bytes;
  };
  // Answers the i-th waiting request: everything moved, or -errno.
  void answer(size_t i, int64_t error = 0) {
    VARVE_ASSERT(i < waiting.size());
    DeviceIo& io = *waiting[i];
    waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(i));
    const auto bytes = static_cast<int64_t>(io.kind == DeviceKind::kFlush ? 0 : io.length_bytes);
    progress(io, error < 0 ? error : bytes);
  }
  void answer_all() {
    while (!waiting.empty())
      answer(0);
  }

  std::vector<Asked> asked;        // every request so far
  std::vector<DeviceIo*> waiting;  // not answered

 protected:
  void start(DeviceIo& io) override {
    asked.push_back({io.kind, io.offset_bytes, io.length_bytes});
    waiting.push_back(&io);
  }
};

}  // namespace varve::flash
