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
  for (Timer* timer : {&soon_, &lazy_}) {
    timer->owner = this;
    timer->on_fire = [](Timer& fired) {
      auto& self = *static_cast<Flusher*>(fired.owner);
      self.timer_due_ = true;
      self.reactor_.make_ready(self);
    };
  }
}

Flusher::~Flusher() {
  reactor_.cancel(soon_);
  reactor_.cancel(lazy_);
}

void Flusher::wait(FlushWaiter& waiter, FlushBy by) {
  VARVE_ASSERT(waiter.on_done != nullptr);
  waiter.status = Status();
  unflushed_ = true;
  if (by == FlushBy::kNow) {
    waiting_.push(&waiter);
    return reactor_.make_ready(*this);
  }
  soon_waiting_.push(&waiter);
  if (!soon_.armed() && !in_flight_) reactor_.arm(soon_, kSoonNs);
}

void Flusher::note_write() {
  unflushed_ = true;
  if (!lazy_.armed() && !in_flight_) reactor_.arm(lazy_, kLazyNs);
}

void Flusher::run() {
  VARVE_ASSERT(reactor_.on_owner_core());
  if (in_flight_) return;
  if (waiting_.empty() && !(timer_due_ && unflushed_)) {
    timer_due_ = false;
    return;
  }
  reactor_.cancel(soon_);
  reactor_.cancel(lazy_);
  timer_due_ = false;
  unflushed_ = false;
  VARVE_ASSERT(covered_.empty());
  covered_.append(waiting_);
  covered_.append(soon_waiting_);
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
  if (!waiting_.empty()) return reactor_.make_ready(*this);
  if (!soon_waiting_.empty()) {
    // A failed target ends them as soon as any other: its flush fails at once.
    if (!soon_.armed()) reactor_.arm(soon_, kSoonNs);
  } else if (unflushed_ && io_.ok() && !lazy_.armed()) {
    reactor_.arm(lazy_, kLazyNs);
  }
}

}  // namespace varve::flash
