// A reactor with a device on it, real or simulated, and a way to wait for its requests.
// Shared by the tests of this room; the same cases run on every kind of device.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>

#include "common/device/device.h"
#include "common/device/fault_device.h"
#include "common/reactor/reactor.h"

namespace varve::test {

// Page-aligned memory, zeroed.
class AlignedBytes {
 public:
  explicit AlignedBytes(uint64_t size)
      : size_(size), bytes_(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, size))) {
    std::memset(bytes_, 0, size);
  }
  ~AlignedBytes() { std::free(bytes_); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  std::byte* data() { return bytes_; }
  std::byte* page(uint64_t i) { return bytes_ + i * kPageBytes; }
  uint64_t size() const { return size_; }
  void fill(uint64_t seed) {
    Random random(seed);
    for (uint64_t i = 0; i < size_; i += 8) {
      const uint64_t word = random.next();
      std::memcpy(bytes_ + i, &word, 8);
    }
  }
  void set(char c) { std::memset(bytes_, c, size_); }

 private:
  uint64_t size_;
  std::byte* bytes_;
};

// One request over one piece of memory, counting its completions.
struct Request : DeviceIo {
  uint32_t completions = 0;
  std::deque<iovec> vectors;
  std::vector<iovec> flat;
  explicit Request(DeviceKind the_kind, uint64_t offset = 0, uint64_t length = 0) {
    kind = the_kind;
    offset_bytes = offset;
    length_bytes = length;
    owner = this;
    on_done = [](DeviceIo& done) { ++static_cast<Request*>(done.owner)->completions; };
  }
  Request& with(std::byte* memory, uint64_t size) {
    flat.push_back({memory, static_cast<size_t>(size)});
    iov = flat.data();
    iov_count = static_cast<uint32_t>(flat.size());
    length_bytes += size;
    return *this;
  }
};

// Real time and a real backend, or a manual clock and none.
class World {
 public:
  World() : reactor_(std::make_unique<Reactor>(manual_, nullptr, ReactorOptions{})) {}
  explicit World(std::unique_ptr<IoBackend> backend)
      : backend_(std::move(backend)),
        reactor_(std::make_unique<Reactor>(system_, backend_.get(), ReactorOptions{})) {}

  Reactor& reactor() { return *reactor_; }
  IoBackend& backend() { return *backend_; }
  ManualClock& clock() { return manual_; }

  // One turn; waits for the next event (in real or simulated time) when it did nothing. False when
  // nothing is left that could happen.
  bool step() {
    if (reactor_->turn()) return true;
    if (backend_ != nullptr) {
      if (reactor_->idle()) return false;
      const Nanos due = reactor_->next_work_ns();
      const Nanos now = system_.now_ns();
      backend_->sleep(due == kNever ? 100 * kMillisecond : due - std::min(due, now));
      return true;
    }
    const Nanos due = reactor_->next_work_ns();
    if (due == kNever) return false;
    if (due > manual_.now_ns()) manual_.advance_to(due);
    return true;
  }
  void finish(Request& request) {
    while (request.completions == 0 && step()) {
    }
    ASSERT_EQ(request.completions, 1u);
    ASSERT_FALSE(request.in_flight);
  }
  Status perform(BlockDevice& device, Request& request) {
    device.submit(request);
    EXPECT_EQ(request.completions, 0u);  // D2: never inside submit
    finish(request);
    return request.status;
  }
  Status write(BlockDevice& device, uint64_t offset, std::byte* memory, uint64_t size) {
    Request request(DeviceKind::kWrite, offset);
    return perform(device, request.with(memory, size));
  }
  Status read(BlockDevice& device, uint64_t offset, std::byte* memory, uint64_t size) {
    Request request(DeviceKind::kRead, offset);
    return perform(device, request.with(memory, size));
  }
  Status flush(BlockDevice& device) {
    Request request(DeviceKind::kFlush);
    return perform(device, request);
  }
  void quiesce() {
    while (step()) {
    }
  }

 private:
  ManualClock manual_;
  SystemClock system_;
  std::unique_ptr<IoBackend> backend_;
  std::unique_ptr<Reactor> reactor_;
};

// A path in the test's folder that is removed at the end.
class TemporaryPath {
 public:
  explicit TemporaryPath(const std::string& name)
      : path_(testing::TempDir() + "varve_" + name + "_" + std::to_string(getpid())) {
    remove();
  }
  ~TemporaryPath() { remove(); }
  const std::string& path() const { return path_; }

 private:
  void remove() {
    unlink(path_.c_str());
    unlink((path_ + ".creating").c_str());
  }
  std::string path_;
};

}  // namespace varve::test
