// Breaker: a count of failures in a row, and when the next probe is due.
#include "client/breaker.h"

namespace varve {

bool Breaker::admit(Nanos now_ns) {
  if (!is_open()) return true;
  if (now_ns < next_probe_ns_) {
    ++answers_;
    return false;
  }
  next_probe_ns_ = now_ns + probe_ns_;
  ++probes_;
  return true;
}

void Breaker::on_end(const Event& event, Nanos now_ns) {
  // Follows wait for another client, purges and renewals say nothing of how bytes fare.
  const bool counts = event.kind == Event::Kind::kMatched || event.kind == Event::Kind::kPulled ||
                      event.kind == Event::Kind::kPushed;
  if (!counts || failures_max_ == 0) return;
  const Code code = event.status.code();
  if (code == Code::kCancelled) return;  // by the caller: nobody knows
  // So may a push that waited for its layers, for its turn, or for room in a full node.
  if (event.kind == Event::Kind::kPushed && code == Code::kTimedOut) return;
  if (code != Code::kTimedOut && code != Code::kUnavailable) return close();
  if (is_open()) return;
  if (++failures_ < failures_max_) return;
  ++opens_;
  next_probe_ns_ = now_ns + probe_ns_;
}

void Breaker::close() {
  failures_ = 0;
}

}  // namespace varve
