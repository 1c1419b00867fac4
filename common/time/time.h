// time: the clock seam and the timers of one core.
//
// Owns: Clock (virtual: system and manual), Entropy (virtual: system and seeded), TimerQueue.
// Called by the reactor and by main. Thread rule: a TimerQueue and a ManualClock belong to one
// core; SystemClock may be read from any. Invariants:
//   T1 now_ns() is monotonic and is no time of day: durations only ever cross the wire.
//   T2 timers due at the same instant fire in the order they were armed.
//   T3 a timer fires at most once per arm; cancel() before fire means it never fires.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/base.h"

namespace varve {

using Nanos = uint64_t;
inline constexpr Nanos kMicrosecond = 1000;
inline constexpr Nanos kMillisecond = 1000 * kMicrosecond;
inline constexpr Nanos kSecond = 1000 * kMillisecond;
inline constexpr Nanos kNever = ~Nanos{0};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanos now_ns() const = 0;  // T1
};

class SystemClock final : public Clock {  // CLOCK_MONOTONIC
 public:
  Nanos now_ns() const override;
};

class ManualClock final : public Clock {  // time moves only by advance_to
 public:
  Nanos now_ns() const override { return now_ns_; }
  void advance_to(Nanos t) {
    VARVE_ASSERT(t >= now_ns_);
    now_ns_ = t;
  }
  void advance_by(Nanos d) { now_ns_ += d; }

 private:
  Nanos now_ns_ = 1;
};

// Where unpredictable bytes come from: nonces, uuids, session ids.
class Entropy {
 public:
  virtual ~Entropy() = default;
  virtual void fill(ByteSpan out) = 0;
  uint64_t next64();
};

class SystemEntropy final : public Entropy {  // getrandom(2)
 public:
  void fill(ByteSpan out) override;
};

class SeededEntropy final : public Entropy {
 public:
  explicit SeededEntropy(uint64_t seed) : random_(seed) {}
  void fill(ByteSpan out) override;

 private:
  Random random_;
};

// A timer lives in its owner. on_fire runs inside the reactor's turn, never inside arm().
struct Timer {
  using Fire = void (*)(Timer&);
  Fire on_fire = nullptr;
  void* owner = nullptr;
  Nanos due_ns = 0;
  uint64_t sequence = 0;
  uint32_t heap_index = ~0u;
  bool armed() const { return heap_index != ~0u; }
};

// Binary heap by (due, arm order). Grows only when armed timers exceed every earlier peak.
class TimerQueue {
 public:
  // Re-arms when already armed. A due time before the last firing counts as that of the last
  // firing.
  void arm(Timer& timer, Nanos due_ns);
  void cancel(Timer& timer);  // no-op when not armed
  Nanos next_due_ns() const { return heap_.empty() ? kNever : heap_[0]->due_ns; }
  // Fires what is due and was armed before this call, at most `limit`; returns how many.
  uint32_t fire_due(Nanos now_ns, uint32_t limit);
  uint32_t size() const { return static_cast<uint32_t>(heap_.size()); }

 private:
  bool before(const Timer& a, const Timer& b) const;
  void sift_up(uint32_t i);
  void sift_down(uint32_t i);
  void place(uint32_t i, Timer* timer);
  std::vector<Timer*> heap_;
  uint64_t sequence_ = 0;
  Nanos fired_ns_ = 0;
};

}  // namespace varve
