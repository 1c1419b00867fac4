// SocketCeiling: a raw socket moving the same bytes as a pull, by a process that does nothing else.
//
// The sender is a process of its own, as the daemon is one; connections, payload sizes, heads, the
// order of the extents, congestion control and the scattered memory it is received into are those
// of the pull it stands beside. Nothing is verified and nothing is asked for but the start.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/time/time.h"
#include "tools/kvbench/working_set.h"

namespace varve::kvbench {

struct SocketCeilingOptions {
  WorkingSetShape shape;
  uint32_t connections = 1;
  std::string congestion = "cubic";
};

// Poisons the first `blocks` slots, moves, and compares them with the blocks of their numbers: what
// did not come, or came wrong, is an error. The time is that of `move` alone.
Result<Nanos> move_compared(WorkingSet& set, uint32_t blocks,
                            const std::function<Result<Nanos>()>& move);

class SocketCeiling {
 public:
  // Forks the sender: call it before this process has threads.
  static Result<std::unique_ptr<SocketCeiling>> start(const SocketCeilingOptions& options);
  ~SocketCeiling();
  SocketCeiling(const SocketCeiling&) = delete;
  SocketCeiling& operator=(const SocketCeiling&) = delete;

  // Receives the first `blocks` blocks once, in layer order, into the slots of their numbers; how
  // long it took. `set` has the layers of the shape and at least so many slots.
  Result<Nanos> round(const WorkingSet& set, uint32_t blocks);
  Result<Nanos> round(const WorkingSet& set) { return round(set, options_.shape.blocks); }
  Result<Nanos> compared_round(WorkingSet& set, uint32_t blocks) {
    return move_compared(set, blocks, [&] { return round(set, blocks); });
  }
  pid_t pid() const { return pid_; }

 private:
  SocketCeiling() = default;
  Status accept(int listener);
  SocketCeilingOptions options_;
  std::vector<int> sockets_;
  pid_t pid_ = -1;
};

}  // namespace varve::kvbench
