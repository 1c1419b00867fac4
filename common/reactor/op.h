// Op: a staged operation, the shape of every request in Varve (ADR-0001).
//
// One op, one file, one run() whose switch over stages reads top to bottom. Every path through a
// case ends in exactly one of wait(n), again(), a fallthrough or finish(...). A completion never
// runs inside the call that started it. What may be cut short keeps its own flag and looks at it
// between stages; nothing a device may still write is freed before its completion.
#pragma once

#include "common/reactor/reactor.h"

namespace varve {

class Op : public Task {
 public:
  explicit Op(Reactor& reactor) : reactor_(reactor) {}

  // One of the things waited for is done; the op runs when the count reaches zero. The first
  // failure is kept. Called from completions (device, link, mailbox), never from inside run().
  void completed(Status status) {
    VARVE_ASSERT(waiting_ > 0);
    VARVE_ASSERT(!in_run_);
    if (!status.ok() && first_failure_.ok()) first_failure_ = status;
    if (--waiting_ == 0) reactor_.make_ready(*this);
  }

 protected:
  ~Op() = default;
  // In run(): n completions were started. Zero means "already there": the op is made ready instead.
  void wait(uint32_t n) {
    waiting_ += n;
    if (waiting_ == 0) reactor_.make_ready(*this);
  }
  void again() { reactor_.make_ready(*this); }
  void reset() {
    waiting_ = 0;
    first_failure_ = Status();
  }
  // The first failure since the last call, and forgets it.
  Status take_failure() {
    Status s = first_failure_;
    first_failure_ = Status();
    return s;
  }
  uint32_t waiting() const { return waiting_; }
  Reactor& reactor() { return reactor_; }

  // run() bodies put `RunScope scope(*this)` first, so that R1 is asserted.
  class RunScope {
   public:
    explicit RunScope(Op& op) : op_(op) {
      VARVE_ASSERT(op.waiting_ == 0);
      VARVE_ASSERT(!op.in_run_);
      op_.in_run_ = true;
    }
    ~RunScope() { op_.in_run_ = false; }

   private:
    Op& op_;
  };

 private:
  Reactor& reactor_;
  uint32_t waiting_ = 0;
  bool in_run_ = false;
  Status first_failure_;
};

}  // namespace varve
