// Breaker: whether it is worth asking a daemon that has not answered of late. Pure; time comes in.
//
// Owned by Core, one thread. It opens after `failures` ops in a row, matches and pulls that timed
// out and these and pushes that were unavailable: matches are then misses at once, which an
// engine's scheduler can live with, while waiting for a deadline each time it cannot. Open it lets
// one match through every probe_ns; any answer of the daemon closes it, and so does a new session.
#pragma once

#include "client/varve.h"

namespace varve {

class Breaker {
 public:
  Breaker(uint32_t failures, Nanos probe_ns) : failures_max_(failures), probe_ns_(probe_ns) {}

  bool admit(Nanos now_ns);  // may this match ask?
  void on_end(const Event& event, Nanos now_ns);
  void close();
  bool is_open() const { return failures_max_ > 0 && failures_ >= failures_max_; }
  static Status refusal() {
    return Status::unavailable("the breaker is open: the daemon did not answer of late");
  }
  uint64_t opens() const { return opens_; }
  uint64_t answers() const { return answers_; }  // matches that were not let through
  uint64_t probes() const { return probes_; }

 private:
  uint32_t failures_max_;  // 0: it never opens
  Nanos probe_ns_;
  uint32_t failures_ = 0;  // in a row, at most failures_max_
  Nanos next_probe_ns_ = 0;
  uint64_t opens_ = 0, answers_ = 0, probes_ = 0;
};

}  // namespace varve
