// Credit: what one session's client allows to be on its way, and who among its pulls gets it next.
//
// Windows ask, the one wanted first is served first, and nobody overtakes it (a smaller window
// behind a larger one would starve it). available + granted + with the client = total, always (I7).
#pragma once

#include "server/session/context.h"

namespace varve {

class Credit {
 public:
  explicit Credit(SessionScope& scope) : scope_(scope) {}
  void open(uint64_t total_bytes);
  // Queued, and answered now or later by posting it back to its home.
  void ask(CreditAsk& ask);
  // Answered at once: its pull was stopped while it was on its way.
  void refuse(CreditAsk& ask, Status cause) { answer(ask, cause); }
  // Granted bytes leave for the client.
  void sent(uint64_t bytes);
  // From the client (CREDIT). kInvalid when it gives back more than it was sent.
  Status give(uint64_t bytes);
  // Granted and not used: nothing of it was sent.
  void take_back(uint64_t bytes);
  // Every ask of `owner`'s parts goes back with `cause`.
  void drop(const void* owner, Status cause);
  uint64_t available_bytes() const { return available_bytes_; }
  bool waiting() const { return first_ != nullptr; }

 private:
  void serve();
  void answer(CreditAsk& ask, Status status);
  SessionScope& scope_;
  uint64_t total_bytes_ = 0;
  uint64_t available_bytes_ = 0;
  uint64_t granted_bytes_ = 0;      // windows that have credit, minus what they sent
  uint64_t with_client_bytes_ = 0;  // sent, not given back yet
  CreditAsk* first_ = nullptr;      // sorted by wanted_ns; equal ones in the order they came
};

}  // namespace varve
