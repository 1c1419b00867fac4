// Group flush of one target: at most one flush at the device, and everything whose writes had
// completed when it was submitted is covered by it.
//
// Who needs a flush waits here: at once (durable appends, seals, erasures), or for whichever flush
// comes first, its own after kSoonNs (write-behind of cached blocks: no client waits, and a flush
// for each would stall the reads of a drive with a volatile cache). Writes that nobody waits for
// are flushed within kLazyNs. A failed flush fails the device (D5) and everything that waits.
#pragma once

#include "common/base/base.h"
#include "common/metrics/metrics.h"
#include "common/reactor/reactor.h"
#include "server/flash/io_queue.h"

namespace varve::flash {

inline constexpr Nanos kSoonNs = 20 * kMillisecond;
inline constexpr Nanos kLazyNs = 1 * kSecond;

struct FlushWaiter {
  using Done = void (*)(FlushWaiter&);
  Done on_done = nullptr;
  void* owner = nullptr;
  Status status;
  FlushWaiter* next = nullptr;
};

class Flusher final : public Task {
 public:
  Flusher(Reactor& reactor, IoQueue& io);
  ~Flusher();
  Flusher(const Flusher&) = delete;
  Flusher& operator=(const Flusher&) = delete;

  // The waiter's own writes have completed. It ends after a flush that is submitted from now on.
  void wait(FlushWaiter& waiter, FlushBy by = FlushBy::kNow);
  // A write completed that nobody waits for.
  void note_write();
  bool idle() const { return !in_flight_ && waiting_.empty() && soon_waiting_.empty(); }

  void run() override;
  const char* name() const override { return "flash.flusher"; }

  Counter flushes, flush_waiters;
  Histogram flush_seconds;  // nanoseconds

 private:
  using WaiterQueue = Queue<FlushWaiter, &FlushWaiter::next>;
  void on_flushed();
  Reactor& reactor_;
  IoQueue& io_;
  Transfer transfer_;
  bool in_flight_ = false;
  bool unflushed_ = false;
  bool timer_due_ = false;
  Nanos started_ns_ = 0;
  WaiterQueue waiting_;       // for the next flush, which is asked for
  WaiterQueue soon_waiting_;  // for the next flush, whoever asks for it
  WaiterQueue covered_;       // by the one in flight
  Timer soon_, lazy_;
};

}  // namespace varve::flash
