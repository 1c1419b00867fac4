// The I/O queue of one target: what goes to the device next, and how much of each kind at once.
//
// A Transfer is one contiguous range of the target and the memory it moves to or from; the queue
// cuts it into device requests of at most io_bytes_max. Four classes (L5, I11): demand reads by the
// time they are wanted, appends in order, and background reads and writes (reclaim, scrub,
// recovery, footers, checkpoints), which hold a bounded share and always progress. Reads and writes
// have slots of their own; while demand reads wait or run, writes get a quarter of theirs. A
// request that the device keeps longer than io_ns_max fails the target (L6): what waits ends with
// kUnavailable at once, what the device holds goes to limbo. Time in which this core itself stood
// still (reactor R4) is not the device's.
#pragma once

#include <memory>
#include <vector>

#include "common/base/base.h"
#include "common/device/device.h"
#include "common/reactor/reactor.h"
#include "server/flash/flash.h"

namespace varve::flash {

// Lives in its owner until on_done, and, where `limbo` is set and the target failed, `held` tells
// that the device still has the memory: then the queue has taken a copy of `limbo` and the Transfer
// is free.
struct Transfer {
  using Done = void (*)(Transfer&);
  DeviceKind kind = DeviceKind::kRead;
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;  // kRead, kWrite: the sum of runs; kDiscard: the range
  std::span<const iovec> runs;
  int32_t buffer_index = -1;
  Nanos wanted_ns = 0;  // kDemand only
  Done on_done = nullptr;
  void* owner = nullptr;
  Limbo limbo;
  Nanos* at_device_ns = nullptr;  // told when a piece is sent; of all, the last
  // out
  Status status;
  bool held = false;
  // the queue's
  Transfer* next = nullptr;
  uint64_t sequence = 0;
  uint64_t sent_bytes = 0;
  uint32_t run = 0;
  uint64_t run_bytes = 0;  // of runs[run], already sent
  uint32_t in_flight = 0;
};

enum class IoClass : uint8_t { kDemand, kAppend, kBackRead, kBackWrite, kFlush };

struct IoQueueOptions {
  uint32_t reads_max = 32;
  uint32_t writes_max = 8;
  uint32_t io_bytes_max = 256 * 1024;
  Nanos io_ns_max = 10 * kSecond;
  uint64_t read_bytes_max = 2 * kMiB;  // of demand reads; at least one is sent
};

class IoQueue final : public Task {
 public:
  using Failed = void (*)(void* owner, Status cause);

  IoQueue(Reactor& reactor, BlockDevice& device, const IoQueueOptions& options);
  ~IoQueue();
  IoQueue(const IoQueue&) = delete;
  IoQueue& operator=(const IoQueue&) = delete;

  // Called once, in the turn in which the target is found failed, before its transfers end.
  void on_failed_set(Failed on_failed, void* owner);
  void submit(Transfer& transfer, IoClass io_class);
  // As if the device had erred: the operator says that it is of no use (owner core, any time).
  void fail_now(Status cause) { fail(cause); }
  bool ok() const { return failure_.ok(); }
  Status failure() const { return failure_; }
  bool idle() const;
  // A demand read is at the device for longer than `read_ns`, or a write or flush than `write_ns`.
  bool keeps_longer(Nanos read_ns, Nanos write_ns) const;
  // A demand read is at the device for longer than `ns`, and no read has come back for as long: a
  // drive that is only busy goes on answering.
  bool silent(Nanos ns) const;
  uint32_t limbo_count() const { return limbo_count_; }

  void run() override;
  const char* name() const override { return "flash.io_queue"; }

 private:
  struct Slot : ListHook {  // one device request
    DeviceIo io;
    std::vector<iovec> iov;
    Transfer* transfer = nullptr;  // null: orphaned, see limbo
    IoClass io_class = IoClass::kDemand;
    IoQueue* queue = nullptr;
    Slot* next_free = nullptr;
    Nanos started_ns = 0;
    uint32_t limbo = 0;  // index + 1 into limbo_
  };
  struct LimboEntry {  // one orphaned transfer
    Limbo limbo;
    uint32_t in_flight = 0;
  };
  using TransferQueue = Queue<Transfer, &Transfer::next>;

  void pump_reads();
  void pump_writes();
  void pump_flush();
  Transfer* front(IoClass io_class);
  void send(IoClass io_class);
  void fill(Slot& slot, Transfer& transfer);
  void take_front(IoClass io_class);
  void completed(Slot& slot);
  void finish(Transfer& transfer, Status status);
  void fail(Status cause);
  void fail_waiting();
  void orphan_started();
  void orphan(Transfer& transfer);
  Nanos since_ns(const Slot& slot) const;  // the device has had it, and this core heard of it
  void watch();
  void on_watchdog();
  static bool wanted_after(const Transfer* a, const Transfer* b);

  uint32_t& in_flight(IoClass io_class) { return in_flight_[static_cast<size_t>(io_class)]; }
  TransferQueue& queue(IoClass io_class) { return queues_[static_cast<size_t>(io_class)]; }
  uint32_t reads_in_flight() { return in_flight(IoClass::kDemand) + in_flight(IoClass::kBackRead); }
  uint32_t writes_in_flight() {
    return in_flight(IoClass::kAppend) + in_flight(IoClass::kBackWrite);
  }
  bool demand_active() {
    return front(IoClass::kDemand) != nullptr || in_flight(IoClass::kDemand) > 0;
  }

  Reactor& reactor_;
  BlockDevice& device_;
  IoQueueOptions options_;
  Failed on_failed_ = nullptr;
  void* on_failed_owner_ = nullptr;
  Status failure_;
  bool stuck_ = false;
  std::vector<Transfer*> demand_;     // heap, least wanted_ns first; grows to its peak only
  Transfer* demand_front_ = nullptr;  // partly sent; stays in front until it is all sent
  TransferQueue queues_[5];           // kDemand's is unused
  uint32_t in_flight_[5] = {};
  uint64_t read_bytes_ = 0;  // of demand reads at the device
  Nanos answered_ns_ = 0;    // when the last read of any kind came back
  uint64_t sequence_ = 0;
  bool append_next_ = false;  // whose turn when both kinds of writes want the last slot
  std::vector<std::unique_ptr<Slot>> slots_;
  Slot* free_ = nullptr;
  List<Slot> started_;  // oldest first: the watchdog looks at the front
  std::vector<LimboEntry> limbo_;
  uint32_t limbo_count_ = 0;
  Timer watchdog_;
};

}  // namespace varve::flash
