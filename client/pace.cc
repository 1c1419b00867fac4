// Pace: lines of ops, one a kind; the first in line is woken whenever something came free.
#include "client/pace.h"

#include <algorithm>

#include "client/core.h"

namespace varve {

namespace {
// A RESERVE waits for this share of the attempts rather than go with one id at a time.
constexpr uint32_t kWindowShare = 4;
}  // namespace

void Pace::begin_session(uint32_t pulls_max, uint32_t attempts_max) {
  // A daemon that names 0 refuses by itself; one at a time finds out.
  line(Kind::kMatch).limit = kMatchesUnderWayMax;
  line(Kind::kReserve).limit = kReservesUnderWayMax;
  line(Kind::kPull).limit = std::max(pulls_max, 1u);
  attempts_max_ = std::max(attempts_max, 1u);
  attempts_ = 0;
  for (Line& l : lines_)
    l.under_way = 0;
  for (uint32_t k = 0; k < kKinds; ++k)
    wake_first(static_cast<Kind>(k));
}

void Pace::wake_first(Kind kind) {
  if (!line(kind).waiting.empty()) line(kind).waiting.begin()->op->wake();
}

// Stands in line from here on; true when nobody stands before it.
bool Pace::is_first(Kind kind, ClientOp& op, Nanos due_ns) {
  Line& l = line(kind);
  const Waiter self{due_ns, op.id(), &op};
  if (!l.waiting.empty() && *l.waiting.begin() == self) return true;
  l.waiting.insert(self);
  return *l.waiting.begin() == self;
}

bool Pace::take(Kind kind, ClientOp& op, Nanos due_ns) {
  Line& l = line(kind);
  VARVE_ASSERT(l.under_way <= l.limit, l.under_way, l.limit);  // A1
  const bool first = is_first(kind, op, due_ns);
  if (l.under_way >= l.limit) return false;
  if (!first) {
    wake_first(kind);  // its turn, not ours (A2)
    return false;
  }
  VARVE_ASSERT(l.waiting.begin()->op == &op);  // A2
  l.waiting.erase(l.waiting.begin());
  ++l.under_way;
  if (l.under_way < l.limit) wake_first(kind);
  return true;
}

void Pace::give(Kind kind) {
  VARVE_ASSERT(line(kind).under_way > 0);
  --line(kind).under_way;
  wake_first(kind);
}

uint32_t Pace::take_reserve(ClientOp& op, Nanos due_ns, uint32_t wanted) {
  VARVE_ASSERT(wanted > 0);
  VARVE_ASSERT(attempts_ <= attempts_max_, attempts_, attempts_max_);  // A1
  const uint32_t left = attempts_max_ - attempts_;
  const uint32_t enough = std::min(wanted, std::max(attempts_max_ / kWindowShare, 1u));
  if (left < enough) {
    static_cast<void>(is_first(Kind::kReserve, op, due_ns));
    return 0;
  }
  if (!take(Kind::kReserve, op, due_ns)) return 0;
  const uint32_t window = std::min(wanted, left);
  VARVE_ASSERT(window > 0 && window <= left, window, left);
  attempts_ += window;
  return window;
}

void Pace::end_attempts(uint32_t count) {
  VARVE_ASSERT(attempts_ >= count, attempts_, count);
  attempts_ -= count;
  if (count > 0) wake_first(Kind::kReserve);
}

void Pace::leave(ClientOp& op) {
  for (uint32_t k = 0; k < kKinds; ++k) {
    auto& waiting = lines_[k].waiting;
    if (std::erase_if(waiting, [&op](const Waiter& w) { return w.op == &op; }) == 0) continue;
    wake_first(static_cast<Kind>(k));
  }
}

}  // namespace varve
