// TimerQueue: a binary heap ordered by (due, arm order), with each timer knowing its place in it.
// Cancel and re-arm are O(log n) and never allocate below the earlier peak.
#include <algorithm>

#include "common/time/time.h"

namespace varve {

void TimerQueue::arm(Timer& timer, Nanos due_ns) {
  VARVE_ASSERT(timer.on_fire != nullptr);
  cancel(timer);
  timer.due_ns = std::max(due_ns, fired_ns_);
  timer.sequence = sequence_++;
  heap_.push_back(&timer);
  timer.heap_index = size() - 1;
  sift_up(timer.heap_index);
}

void TimerQueue::cancel(Timer& timer) {
  if (!timer.armed()) return;
  const uint32_t hole = timer.heap_index;
  VARVE_ASSERT(hole < size() && heap_[hole] == &timer, hole, size());  // armed here, not elsewhere
  Timer* last = heap_.back();
  heap_.pop_back();
  timer.heap_index = ~0u;
  if (last == &timer) return;
  place(hole, last);
  sift_up(hole);
  sift_down(last->heap_index);
}

uint32_t TimerQueue::fire_due(Nanos now_ns, uint32_t limit) {
  // What a fired timer arms waits for the next call: it carries a later sequence, and its due time
  // is clamped to now, so it sorts behind everything that is due already and cannot starve it.
  fired_ns_ = std::max(fired_ns_, now_ns);
  const uint64_t sequence_end = sequence_;
  uint32_t fired = 0;
  while (fired < limit && !heap_.empty()) {
    Timer* timer = heap_[0];
    if (timer->due_ns > now_ns || timer->sequence >= sequence_end) break;
    cancel(*timer);  // before the call: the owner may re-arm or die inside it (T3)
    ++fired;
    timer->on_fire(*timer);
  }
  return fired;
}

bool TimerQueue::before(const Timer& a, const Timer& b) const {
  return a.due_ns != b.due_ns ? a.due_ns < b.due_ns : a.sequence < b.sequence;  // T2
}

void TimerQueue::place(uint32_t i, Timer* timer) {
  heap_[i] = timer;
  timer->heap_index = i;
}

void TimerQueue::sift_up(uint32_t i) {
  Timer* timer = heap_[i];
  while (i > 0) {
    const uint32_t parent = (i - 1) / 2;
    if (!before(*timer, *heap_[parent])) break;
    place(i, heap_[parent]);
    i = parent;
  }
  place(i, timer);
}

void TimerQueue::sift_down(uint32_t i) {
  Timer* timer = heap_[i];
  for (;;) {
    uint32_t child = 2 * i + 1;
    if (child >= size()) break;
    if (child + 1 < size() && before(*heap_[child + 1], *heap_[child])) ++child;
    if (!before(*heap_[child], *timer)) break;
    place(i, heap_[child]);
    i = child;
  }
  place(i, timer);
}

}  // namespace varve
