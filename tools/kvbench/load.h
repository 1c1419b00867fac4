// Load: requests that are served at their intended times or one after the other, and their times.
//
// Open loop: a request is due at its time of the trace, whatever became of those before it. It may
// begin late, when every worker is still busy, but its latency counts from when it was due: what a
// stalled server kept from beginning is in the numbers (no coordinated omission). Closed loop: each
// worker begins the next request when it is done, and latency counts from there; what a stall kept
// from beginning is not in these numbers, which is why they are never called the other's name.
#pragma once

#include <cstdint>
#include <vector>

#include "common/time/time.h"

namespace varve::kvbench {

inline constexpr uint32_t kWorkersMax = 64;
inline constexpr uint32_t kNoLoadSession = ~0u;

enum class Loop : uint8_t { kClosed, kOpen };

// The seam to time: real, or moved by a test.
class Pacer {
 public:
  virtual ~Pacer() = default;
  virtual Nanos now_ns() = 0;
  virtual void wait_until(Nanos t) = 0;
};
class SystemPacer final : public Pacer {
 public:
  Nanos now_ns() override { return clock_.now_ns(); }
  void wait_until(Nanos t) override;

 private:
  SystemClock clock_;
};

struct LoadRequest {
  Nanos due_ns = 0;                   // since the load began; open loop
  uint32_t session = kNoLoadSession;  // closed loop: one at a time of each session
};

class LoadServer {
 public:
  virtual ~LoadServer() = default;
  // Plays request `index` to its end. `origin_ns` is what its latencies count from.
  virtual void serve(uint32_t worker, uint32_t index, Nanos origin_ns) = 0;
};

struct LoadTime {
  Nanos origin_ns = 0, began_ns = 0, ended_ns = 0;  // origin: due (open loop) or begun
  Nanos latency_ns() const { return ended_ns - origin_ns; }
  Nanos service_ns() const { return ended_ns - began_ns; }
  Nanos late_ns() const { return began_ns - origin_ns; }
};

enum class Take : uint8_t {
  kNext,  // a worker takes the first request that may begin
  kOwn,   // worker w takes requests w, w + workers, ...
};

struct LoadOptions {
  Loop loop = Loop::kClosed;
  uint32_t workers = 1;  // 1: on the calling thread
  Take take = Take::kNext;
};
// Serves all requests, in their order as far as workers and sessions allow; by request.
std::vector<LoadTime> run_load(const LoadOptions& options, const std::vector<LoadRequest>& requests,
                               Pacer& pacer, LoadServer& server);

}  // namespace varve::kvbench
