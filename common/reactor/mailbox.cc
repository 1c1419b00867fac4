// Mailbox: Vyukov's intrusive multi-producer single-consumer queue, and the handshake before sleep.
// Source: D. Vyukov, "Intrusive MPSC node-based queue" (1024cores.net).
//
// A producer swings head_ to its message, then links the former head to it. Between the two steps
// the chain is cut: the consumer sees "not empty" but can take nothing, and simply comes again.
#include "common/reactor/mailbox.h"

namespace varve {

bool Mailbox::post(Message& message) {
  VARVE_ASSERT(message.deliver != nullptr);
  message.next.store(nullptr, std::memory_order_relaxed);
  // Sequentially consistent, as the load of sleeping_ below and the two accesses in
  // prepare_sleep(): either the consumer sees this message, or this producer sees that the consumer
  // sleeps.
  Message* before = head_.exchange(&message, std::memory_order_seq_cst);
  before->next.store(&message, std::memory_order_release);
  if (!sleeping_.load(std::memory_order_seq_cst)) return false;
  return sleeping_.exchange(false, std::memory_order_seq_cst);  // one waker is enough
}

uint32_t Mailbox::drain(uint32_t limit) {
  uint32_t delivered = 0;
  while (delivered < limit) {
    Message* message = pop();
    if (message == nullptr) break;
    ++delivered;
    message->deliver(*message);  // the message is the receiver's now: it may post it back at once
  }
  return delivered;
}

bool Mailbox::empty() const {
  return tail_ == &stub_ && head_.load(std::memory_order_seq_cst) == &stub_;
}

bool Mailbox::prepare_sleep() {
  sleeping_.store(true, std::memory_order_seq_cst);
  return empty();
}

void Mailbox::end_sleep() {
  sleeping_.store(false, std::memory_order_relaxed);
}

Message* Mailbox::pop() {
  Message* tail = tail_;
  Message* next = tail->next.load(std::memory_order_acquire);
  if (tail == &stub_) {
    if (next == nullptr) return nullptr;
    tail_ = next;
    tail = next;
    next = next->next.load(std::memory_order_acquire);
  }
  if (next != nullptr) {
    tail_ = next;
    return tail;
  }
  // `tail` looks like the last one. Unless a producer is between its two steps, put the stub behind
  // it, so that it can be taken without leaving the queue without a node.
  if (tail != head_.load(std::memory_order_acquire)) return nullptr;
  stub_.next.store(nullptr, std::memory_order_relaxed);
  Message* before = head_.exchange(&stub_, std::memory_order_acq_rel);
  before->next.store(&stub_, std::memory_order_release);
  next = tail->next.load(std::memory_order_acquire);
  if (next == nullptr) return nullptr;  // a producer came in before the stub and is not done
  tail_ = next;
  return tail;
}

}  // namespace varve
