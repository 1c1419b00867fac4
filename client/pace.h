// Pace: how much of this client may be under way at the daemon, and whose turn it is.
//
// Owns the slots of one session: as many pulls and attempts as HELLO_OK named, and few enough
// matches and RESERVEs that one client does not drain the pools which all sessions share. Called
// by the ops: take() before they ask, give() once they were answered. One thread.
// Invariants:
//   A1 what is under way never exceeds the limits, so that an idle daemon refuses nothing.
//   A2 turns are given in order (due time, then op): an op that waits is overtaken by none that is
//      due later, and every slot that comes free wakes the first in line.
#pragma once

#include <array>
#include <compare>
#include <set>

#include "client/varve.h"

namespace varve {

class ClientOp;

// The daemon makes 256 matches and 256 reservations for all its sessions together; these shares
// leave some for others and still hide the way there and back.
inline constexpr uint32_t kMatchesUnderWayMax = 16;
inline constexpr uint32_t kReservesUnderWayMax = 8;

class Pace {
 public:
  enum class Kind : uint8_t { kMatch, kReserve, kPull };
  static constexpr uint32_t kKinds = 3;

  // Nothing is under way: the session is new, or gone with all that it held.
  void begin_session(uint32_t pulls_max, uint32_t attempts_max);

  // True: a slot is taken. False: the op stands in line and is woken when its turn comes.
  bool take(Kind kind, ClientOp& op, Nanos due_ns);
  void give(Kind kind);
  // For a RESERVE of up to `wanted` ids: how many of them may go now, with a slot and as many
  // attempts taken; 0 = stands in line.
  uint32_t take_reserve(ClientOp& op, Nanos due_ns, uint32_t wanted);
  void end_attempts(uint32_t count);
  // The op stands in no line any more.
  void leave(ClientOp& op);

  uint32_t under_way(Kind kind) const { return line(kind).under_way; }
  uint32_t waiting(Kind kind) const { return static_cast<uint32_t>(line(kind).waiting.size()); }
  uint32_t attempts() const { return attempts_; }

 private:
  struct Waiter {
    Nanos due_ns = 0;
    OpId id = 0;
    ClientOp* op = nullptr;
    auto operator<=>(const Waiter& other) const = default;
  };
  struct Line {
    uint32_t under_way = 0, limit = 0;
    std::set<Waiter> waiting;
  };
  Line& line(Kind kind) { return lines_[static_cast<uint32_t>(kind)]; }
  const Line& line(Kind kind) const { return lines_[static_cast<uint32_t>(kind)]; }
  void wake_first(Kind kind);
  bool is_first(Kind kind, ClientOp& op, Nanos due_ns);

  std::array<Line, kKinds> lines_;
  uint32_t attempts_ = 0, attempts_max_ = 0;
};

}  // namespace varve
