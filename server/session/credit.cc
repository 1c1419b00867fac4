// The queue of windows that wait for the client's credit, least slack first.
#include "server/session/credit.h"

namespace varve {

void Credit::open(uint64_t total_bytes) {
  VARVE_ASSERT(first_ == nullptr);
  total_bytes_ = total_bytes;
  available_bytes_ = total_bytes;
  granted_bytes_ = 0;
  with_client_bytes_ = 0;
}

void Credit::ask(CreditAsk& ask) {
  if (ask.bytes > total_bytes_) {
    return answer(ask, Status::quota("a window larger than the session's whole credit"));
  }
  CreditAsk** at = &first_;
  while (*at != nullptr && (*at)->wanted_ns <= ask.wanted_ns)
    at = &(*at)->next;
  ask.next = *at;
  *at = &ask;
  ask.asked_ns = scope_.context.reactor.now_ns();
  serve();
}

void Credit::sent(uint64_t bytes) {
  VARVE_ASSERT(bytes <= granted_bytes_, bytes,
               granted_bytes_);  // I7: a home sends what it asked for
  granted_bytes_ -= bytes;
  with_client_bytes_ += bytes;
}

Status Credit::give(uint64_t bytes) {
  if (bytes > with_client_bytes_) return Status::invalid("CREDIT returns more than was sent");
  with_client_bytes_ -= bytes;
  available_bytes_ += bytes;
  serve();
  return {};
}

void Credit::take_back(uint64_t bytes) {
  VARVE_ASSERT(bytes <= granted_bytes_, bytes, granted_bytes_);
  granted_bytes_ -= bytes;
  available_bytes_ += bytes;
  serve();
}

void Credit::drop(const void* owner, Status cause) {
  CreditAsk** at = &first_;
  while (*at != nullptr) {
    CreditAsk* ask = *at;
    if (ask->part->owner != owner) {
      at = &ask->next;
      continue;
    }
    *at = ask->next;
    answer(*ask, cause);
  }
  serve();  // what was behind it may fit now
}

void Credit::serve() {
  while (first_ != nullptr && first_->bytes <= available_bytes_) {
    CreditAsk* ask = first_;
    first_ = ask->next;
    available_bytes_ -= ask->bytes;
    granted_bytes_ += ask->bytes;
    VARVE_ASSERT(available_bytes_ + granted_bytes_ + with_client_bytes_ == total_bytes_);
    scope_.context.metrics.credit_wait_ns.record(scope_.context.reactor.now_ns() - ask->asked_ns);
    answer(*ask, Status());
  }
}

void Credit::answer(CreditAsk& ask, Status status) {
  VARVE_ASSERT(ask.back != nullptr);
  ask.next = nullptr;
  ask.status = status;
  ask.message.deliver = ask.back;
  ask.message.owner = &ask;
  scope_.context.post_to_home(*ask.part, ask.message);
}

}  // namespace varve
