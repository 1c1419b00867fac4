// One flush for all that waits: submitted once a turn, never two at the device.
// A waiter that comes while a flush is in flight waits for the next one: its write may not be
// covered.
#include "server/flash/flusher.h"

namespace varve::flash {

Flusher::Flusher(Reactor& reactor, IoQueue& io) : reactor_(reactor), io_(io) {
  transfer_.kind = DeviceKind::kFlush;
  transfer_.owner = this;
  transfer_.on_done = [](Transfer& transfer) {
    static_cast<Flusher*>(transfer.owner)->on_flushed();
  };
  transfer_.limbo.on_returned = [](void*) {};  // no memory is lent to a flush
  lazy_.owner = this;
  lazy_.on_fire = [](Timer& timer) {
    auto& self = *static_cast<Flusher*>(timer.owner);
    self.lazy_due_ = true;
    self.reactor_.make_ready(self);
  };
}

Flusher::~Flusher() {
  reactor_.cancel(lazy_);
}

void Flusher::wait(FlushWaiter& waiter) {
  VARVE_ASSERT(waiter.on_done != nullptr);
  waiter.status = Status();
  waiting_.push(&waiter);
  unflushed_ = true;
  reactor_.make_ready(*this);
}

void Flusher::note_write() {
  unflushed_ = true;
  if (!lazy_.armed() && !in_flight_) reactor_.arm(lazy_, kLazyNs);
}

void Flusher::run() {
  VARVE_ASSERT(reactor_.on_owner_core());
  if (in_flight_) return;
  if (waiting_.empty() && !(lazy_due_ && unflushed_)) {
    lazy_due_ = false;
    return;
  }
  reactor_.cancel(lazy_);
  lazy_due_ = false;
  unflushed_ = false;
  VARVE_ASSERT(covered_.empty());
  covered_.append(waiting_);
  in_flight_ = true;
  started_ns_ = reactor_.now_ns();
  flushes.add();
  flush_waiters.add(covered_.size());
  io_.submit(transfer_, IoClass::kFlush);
}

void Flusher::on_flushed() {
  VARVE_ASSERT(in_flight_);
  const Status status = transfer_.status;
  in_flight_ = false;
  flush_seconds.record(reactor_.now_ns() - started_ns_);
  // A waiter's on_done may call wait(): that one belongs to the next flush.
  WaiterQueue done;
  done.append(covered_);
  while (FlushWaiter* waiter = done.pop()) {
    waiter->status = status;
    waiter->on_done(*waiter);
  }
  if (!waiting_.empty()) {
    reactor_.make_ready(*this);
  } else if (unflushed_ && io_.ok() && !lazy_.armed()) {
    reactor_.arm(lazy_, kLazyNs);
  }
}

}  // namespace varve::flash
