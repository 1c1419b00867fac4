// Cuts transfers into device requests, orders them by class, watches how long the device keeps
// them. Nothing is sent inside submit(): the queue runs as a task, so all that one turn asked for
// competes.
#include "server/flash/io_queue.h"

#include <algorithm>

namespace varve::flash {

IoQueue::IoQueue(Reactor& reactor, BlockDevice& device, const IoQueueOptions& options)
    : reactor_(reactor), device_(device), options_(options) {
  VARVE_ASSERT(options.reads_max > 0);
  VARVE_ASSERT(options.writes_max > 0);
  VARVE_ASSERT(options.io_bytes_max >= kPageBytes && options.io_bytes_max % kPageBytes == 0);
  const uint32_t vectors = std::min(options.io_bytes_max / kPageBytes, kIoVectorsMax);
  const uint32_t count = options.reads_max + options.writes_max + 1;
  failure_ = device.failure();  // lost before it was opened: whoever opened it has said so
  for (uint32_t i = 0; i < count; ++i) {
    auto slot = std::make_unique<Slot>();
    slot->iov.resize(vectors);
    slot->queue = this;
    slot->io.owner = slot.get();
    slot->io.on_done = [](DeviceIo& io) {
      auto& done = *static_cast<Slot*>(io.owner);
      done.queue->completed(done);
    };
    slot->next_free = free_;
    free_ = slot.get();
    slots_.push_back(std::move(slot));
  }
  limbo_.resize(count);
  demand_.reserve(options.reads_max * 4);
  watchdog_.owner = this;
  watchdog_.on_fire = [](Timer& timer) { static_cast<IoQueue*>(timer.owner)->on_watchdog(); };
}

IoQueue::~IoQueue() {
  reactor_.cancel(watchdog_);
  // A simulated power cut leaves requests behind; their timers must not find this memory gone.
  for (const auto& slot : slots_)
    reactor_.cancel(slot->io.timer);
}

void IoQueue::on_failed_set(Failed on_failed, void* owner) {
  on_failed_ = on_failed;
  on_failed_owner_ = owner;
}

bool IoQueue::wanted_after(const Transfer* a, const Transfer* b) {
  if (a->wanted_ns != b->wanted_ns) return a->wanted_ns > b->wanted_ns;
  return a->sequence > b->sequence;
}

void IoQueue::submit(Transfer& transfer, IoClass io_class) {
  VARVE_ASSERT(reactor_.on_owner_core());
  VARVE_ASSERT(transfer.on_done != nullptr);
  VARVE_ASSERT(transfer.in_flight == 0);
  VARVE_ASSERT(transfer.offset_bytes % kPageBytes == 0, transfer.offset_bytes);
  VARVE_ASSERT(transfer.length_bytes % kPageBytes == 0, transfer.length_bytes);
  VARVE_ASSERT(transfer.offset_bytes + transfer.length_bytes <= device_.capacity_bytes());
  if (transfer.kind != DeviceKind::kFlush) VARVE_ASSERT(transfer.length_bytes > 0);
  if (transfer.kind == DeviceKind::kRead || transfer.kind == DeviceKind::kWrite) {
    uint64_t room = 0;
    for (const iovec& run : transfer.runs)
      room += run.iov_len;
    VARVE_ASSERT(room >= transfer.length_bytes, room, transfer.length_bytes);
  }
  transfer.status = Status();
  transfer.held = false;
  transfer.sequence = ++sequence_;
  transfer.sent_bytes = 0;
  transfer.run = 0;
  transfer.run_bytes = 0;
  if (io_class == IoClass::kDemand) {
    VARVE_ASSERT(transfer.kind == DeviceKind::kRead);
    demand_.push_back(&transfer);
    std::push_heap(demand_.begin(), demand_.end(), wanted_after);
  } else {
    queue(io_class).push(&transfer);
  }
  reactor_.make_ready(*this);
}

bool IoQueue::idle() const {
  if (!demand_.empty() || demand_front_ != nullptr) return false;
  for (const TransferQueue& queue : queues_) {
    if (!queue.empty()) return false;
  }
  if (stuck_) return true;  // what the device holds is limbo's
  for (const uint32_t count : in_flight_) {
    if (count > 0) return false;
  }
  return true;
}

bool IoQueue::keeps_longer(Nanos read_ns, Nanos write_ns) const {
  const Nanos now_ns = reactor_.now_ns();
  for (Slot* slot = started_.front(); slot != nullptr; slot = started_.next(slot)) {
    const Nanos kept_ns = now_ns - since_ns(*slot);
    if (kept_ns <= std::min(read_ns, write_ns)) return false;  // and so are all behind it
    switch (slot->io.kind) {
      case DeviceKind::kRead:  // for background reads nobody waits
        if (slot->io_class == IoClass::kDemand && kept_ns > read_ns) return true;
        break;
      case DeviceKind::kWrite:
      case DeviceKind::kFlush:
        if (kept_ns > write_ns) return true;
        break;
      case DeviceKind::kDiscard:  // may take its time
        break;
    }
  }
  return false;
}

bool IoQueue::silent(Nanos ns) const {
  const Nanos now_ns = reactor_.now_ns();
  if (now_ns - std::max(answered_ns_, reactor_.awake_ns()) <= ns) return false;
  for (Slot* slot = started_.front(); slot != nullptr; slot = started_.next(slot)) {
    if (now_ns - since_ns(*slot) <= ns) return false;
    if (slot->io_class == IoClass::kDemand) return true;
  }
  return false;
}

void IoQueue::run() {
  VARVE_ASSERT(reactor_.on_owner_core());
  if (!ok()) {
    if (stuck_) orphan_started();
    return fail_waiting();
  }
  pump_flush();
  pump_reads();
  pump_writes();
}

Transfer* IoQueue::front(IoClass io_class) {
  if (io_class != IoClass::kDemand) return queue(io_class).front();
  if (demand_front_ != nullptr) return demand_front_;
  return demand_.empty() ? nullptr : demand_.front();
}

// Demand first, but one background read is always at the device when one waits: nothing starves
// (L5).
void IoQueue::pump_reads() {
  while (reads_in_flight() < options_.reads_max) {
    const bool waits = front(IoClass::kDemand) != nullptr;
    const bool demand = waits && read_bytes_ < options_.read_bytes_max;
    const uint32_t share = waits ? 1 : std::max(1u, options_.reads_max / 2);
    const bool background =
        front(IoClass::kBackRead) != nullptr && in_flight(IoClass::kBackRead) < share;
    if (!demand && !background) return;
    send(background ? IoClass::kBackRead : IoClass::kDemand);
  }
}

void IoQueue::pump_writes() {
  const uint32_t limit =
      demand_active() ? std::max(1u, options_.writes_max / 4) : options_.writes_max;
  while (writes_in_flight() < limit) {
    const bool append = front(IoClass::kAppend) != nullptr;
    const bool background = front(IoClass::kBackWrite) != nullptr;
    if (!append && !background) return;
    // Both want a slot: in turns, so that reclaim makes room as fast as appends use it up.
    const bool append_now = append && (!background || append_next_);
    append_next_ = !append_now;
    send(append_now ? IoClass::kAppend : IoClass::kBackWrite);
  }
}

void IoQueue::pump_flush() {
  if (in_flight(IoClass::kFlush) == 0 && front(IoClass::kFlush) != nullptr) send(IoClass::kFlush);
}

// Sends the next device request of the front of a class.
void IoQueue::send(IoClass io_class) {
  Transfer* transfer = front(io_class);
  VARVE_ASSERT(transfer != nullptr && free_ != nullptr);
  if (io_class == IoClass::kDemand && demand_front_ == nullptr) {
    std::pop_heap(demand_.begin(), demand_.end(), wanted_after);
    demand_.pop_back();
    demand_front_ = transfer;
  }
  Slot& slot = *free_;
  free_ = slot.next_free;
  slot.next_free = nullptr;
  slot.transfer = transfer;
  slot.io_class = io_class;
  slot.limbo = 0;
  slot.started_ns = reactor_.now_ns();
  if (transfer->at_device_ns != nullptr) *transfer->at_device_ns = slot.started_ns;
  fill(slot, *transfer);
  ++transfer->in_flight;
  ++in_flight(io_class);
  if (io_class == IoClass::kDemand) read_bytes_ += slot.io.length_bytes;
  started_.push_back(&slot);
  if (transfer->sent_bytes == transfer->length_bytes) take_front(io_class);
  watch();
  device_.submit(slot.io);
}

// The next piece of a transfer: at most io_bytes_max, at most the slot's vectors.
void IoQueue::fill(Slot& slot, Transfer& transfer) {
  DeviceIo& io = slot.io;
  VARVE_ASSERT(!io.in_flight);
  io.kind = transfer.kind;
  io.offset_bytes = transfer.offset_bytes + transfer.sent_bytes;
  io.status = Status();
  io.iov = slot.iov.data();
  io.iov_count = 0;
  io.length_bytes = 0;
  io.buffer_index = -1;
  if (transfer.kind == DeviceKind::kFlush || transfer.kind == DeviceKind::kDiscard) {
    io.length_bytes = transfer.length_bytes;
    transfer.sent_bytes = transfer.length_bytes;
    return;
  }
  while (io.length_bytes < options_.io_bytes_max && io.iov_count < slot.iov.size() &&
         transfer.sent_bytes < transfer.length_bytes) {
    VARVE_ASSERT(transfer.run < transfer.runs.size());
    const iovec& run = transfer.runs[transfer.run];
    const uint64_t bytes = std::min<uint64_t>({run.iov_len - transfer.run_bytes,
                                               options_.io_bytes_max - io.length_bytes,
                                               transfer.length_bytes - transfer.sent_bytes});
    if (bytes > 0) {
      slot.iov[io.iov_count++] = {static_cast<std::byte*>(run.iov_base) + transfer.run_bytes,
                                  static_cast<size_t>(bytes)};
    }
    io.length_bytes += bytes;
    transfer.sent_bytes += bytes;
    transfer.run_bytes += bytes;
    if (transfer.run_bytes == run.iov_len) {
      ++transfer.run;
      transfer.run_bytes = 0;
    }
  }
  VARVE_ASSERT(io.length_bytes > 0);
  if (io.iov_count == 1) io.buffer_index = transfer.buffer_index;
}

void IoQueue::take_front(IoClass io_class) {
  if (io_class == IoClass::kDemand) {
    demand_front_ = nullptr;
  } else {
    queue(io_class).pop();
  }
}

void IoQueue::completed(Slot& slot) {
  VARVE_ASSERT(in_flight(slot.io_class) > 0);
  Transfer* transfer = slot.transfer;
  const IoClass io_class = slot.io_class;
  const Status status = slot.io.status;
  const uint32_t limbo = slot.limbo;
  --in_flight(io_class);
  if (io_class == IoClass::kDemand) read_bytes_ -= slot.io.length_bytes;
  if (slot.io.kind == DeviceKind::kRead) answered_ns_ = reactor_.now_ns();
  started_.remove(&slot);
  slot.transfer = nullptr;
  slot.next_free = free_;
  free_ = &slot;
  if (limbo > 0) {  // orphaned: the device gave the memory back after all
    LimboEntry& entry = limbo_[limbo - 1];
    VARVE_ASSERT(entry.in_flight > 0);
    if (--entry.in_flight > 0) return;
    const Limbo returned = entry.limbo;
    entry = LimboEntry();
    --limbo_count_;
    return returned.on_returned(returned.owner);
  }
  VARVE_ASSERT(transfer != nullptr && transfer->in_flight > 0);
  --transfer->in_flight;
  reactor_.make_ready(*this);
  if (!status.ok()) {
    if (transfer->status.ok()) transfer->status = status;
    if (transfer->sent_bytes < transfer->length_bytes) {  // the rest is not worth asking for
      VARVE_ASSERT(front(io_class) == transfer);
      transfer->sent_bytes = transfer->length_bytes;
      take_front(io_class);
    }
    if (device_.failed()) fail(device_.failure());
  }
  if (transfer->in_flight == 0 && transfer->sent_bytes == transfer->length_bytes) {
    finish(*transfer, transfer->status);
  }
}

void IoQueue::finish(Transfer& transfer, Status status) {
  VARVE_ASSERT(transfer.in_flight == 0 || transfer.held);
  transfer.status = status;
  transfer.on_done(transfer);
}

void IoQueue::fail(Status cause) {
  if (!ok()) return;
  failure_ = cause.ok() ? Status::unavailable("target failed") : cause;
  if (!device_.failed()) device_.fail(failure_);
  const bool full = failure_.code() == Code::kNoSpace;
  logf(LogLevel::kError, "flash",
       "target %s failed: %s (%s, errno %d); what lies on it cannot be read; %s and restart",
       device_.name().c_str(), failure_.what(), code_name(failure_.code()), failure_.errno_value(),
       full ? "its file had holes and its file system is full: free space there"
            : "replace or check the drive");
  if (on_failed_ != nullptr) on_failed_(on_failed_owner_, failure_);
  reactor_.make_ready(*this);
}

// Everything that is not at the device ends now; what is, ends when it comes back or at the
// watchdog.
void IoQueue::fail_waiting() {
  for (const IoClass io_class : {IoClass::kDemand, IoClass::kAppend, IoClass::kBackRead,
                                 IoClass::kBackWrite, IoClass::kFlush}) {
    size_t left = io_class == IoClass::kDemand ? demand_.size() + 1 : queue(io_class).size();
    for (; left > 0; --left) {  // what a completion adds waits for the next turn
      Transfer* transfer = front(io_class);
      if (transfer == nullptr) break;
      if (io_class == IoClass::kDemand && demand_front_ == nullptr) {
        std::pop_heap(demand_.begin(), demand_.end(), wanted_after);
        demand_.pop_back();
      } else {
        take_front(io_class);
      }
      transfer->sent_bytes = transfer->length_bytes;
      if (transfer->status.ok()) transfer->status = Status::unavailable("target failed");
      if (transfer->in_flight == 0) finish(*transfer, Status::unavailable("target failed"));
    }
  }
}

void IoQueue::orphan_started() {
  for (Slot* slot = started_.front(); slot != nullptr;) {
    Transfer* transfer = slot->transfer;
    if (transfer == nullptr || transfer->limbo.on_returned == nullptr) {
      slot = started_.next(slot);
      continue;
    }
    orphan(*transfer);
    transfer->held = true;
    transfer->in_flight = 0;
    finish(*transfer, Status::unavailable("target stuck"));
    slot = started_.front();  // a completion may have changed the list
  }
}

// The memory stays with the device; the entry tells its owner when it is back.
void IoQueue::orphan(Transfer& transfer) {
  uint32_t index = 0;
  while (limbo_[index].in_flight > 0)
    ++index;  // as many entries as slots: one is free
  VARVE_ASSERT(index < limbo_.size());
  LimboEntry& entry = limbo_[index];
  entry.limbo = transfer.limbo;
  ++limbo_count_;
  for (Slot* slot = started_.front(); slot != nullptr; slot = started_.next(slot)) {
    if (slot->transfer != &transfer) continue;
    slot->transfer = nullptr;
    slot->limbo = index + 1;
    ++entry.in_flight;
  }
  VARVE_ASSERT(entry.in_flight == transfer.in_flight, entry.in_flight, transfer.in_flight);
  if (transfer.sent_bytes < transfer.length_bytes) {
    for (const IoClass io_class : {IoClass::kDemand, IoClass::kAppend, IoClass::kBackRead,
                                   IoClass::kBackWrite, IoClass::kFlush}) {
      if (front(io_class) == &transfer) take_front(io_class);
    }
  }
}

// While this core stood still the device may have answered long ago: it is asked anew (R4).
Nanos IoQueue::since_ns(const Slot& slot) const {
  return std::max(slot.started_ns, reactor_.awake_ns());
}

void IoQueue::watch() {
  if (watchdog_.armed() || stuck_) return;
  reactor_.arm(watchdog_, options_.io_ns_max);
}

void IoQueue::on_watchdog() {
  Slot* oldest = started_.front();
  if (oldest == nullptr) return;  // armed again with the next request
  const Nanos due_ns = since_ns(*oldest) + options_.io_ns_max;
  if (reactor_.now_ns() < due_ns) return reactor_.arm(watchdog_, due_ns - reactor_.now_ns());
  stuck_ = true;
  fail(Status(Code::kTimedOut, "a request made no progress within io_ns_max"));
  reactor_.make_ready(*this);
}

}  // namespace varve::flash
