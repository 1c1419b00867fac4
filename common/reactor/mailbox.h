// Mailbox: how shards talk. Many producers, one consumer, intrusive, lock free, FIFO per producer.
//
// A Message lives in its sender's object; the receiver owns it from post() until it posts it back.
// Besides this file one atomic stands on the data path: PullPart::cancelled (ADR-0001, "Cancel").
#pragma once

#include <atomic>
#include <cstdint>

#include "common/base/base.h"

namespace varve {

struct Message {
  using Deliver = void (*)(Message&);
  Deliver deliver = nullptr;  // runs on the receiving core, inside its turn
  void* owner = nullptr;
  std::atomic<Message*> next{nullptr};
};

class Mailbox {
 public:
  Mailbox() : head_(&stub_), tail_(&stub_) {}
  // Any thread. True when the consumer had said it would sleep and must be woken.
  bool post(Message& message);
  // Consumer only: delivers at most `limit`; returns how many.
  uint32_t drain(uint32_t limit);
  bool empty() const;  // consumer only
  // Consumer only, before sleeping: false when something arrived meanwhile (do not sleep).
  bool prepare_sleep();
  void end_sleep();

 private:
  Message* pop();
  std::atomic<Message*> head_;  // producers push here
  Message* tail_;               // consumer pops here
  Message stub_;
  std::atomic<bool> sleeping_{false};
};

}  // namespace varve
