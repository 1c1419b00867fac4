// Scratch: memory of the client's own for bytes that are not, or not yet, the caller's: parity on
// its way out; sources and outcomes of a rebuild.
//
// A fixed number of columns of kColumnBytes; an extent lies in as many as it takes, so nothing
// fragments and coding walks it in place. Owned by Core, used by its ops; one thread.
// Invariants:
//   S1 what is lent never exceeds the limit; whoever finds it full comes again when it is woken.
//   S2 those in line are served in order, each with all it asked for, so nobody holds a part of
//      what it needs and waits for the rest.
#pragma once

#include <deque>
#include <vector>

#include "common/base/base.h"
#include "common/erasure/erasure.h"

namespace varve {

class ClientOp;
using Columns = std::vector<std::byte*>;  // bytes [i * kColumnBytes, ...) of something are in [i]

// How many columns hold `bytes`.
constexpr uint32_t columns_of(uint32_t bytes) {
  return (bytes + kColumnBytes - 1) / kColumnBytes;
}

class Scratch {
 public:
  explicit Scratch(uint64_t bytes_max);  // address space, until it is lent and written
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  // Makes all of it resident at once: the first rebuild would pay for each page while a pull waits.
  void populate();

  // Appends `count` columns to `out`, or none of them.
  [[nodiscard]] bool take(uint32_t count, Columns& out);
  // The same for ops that stand in line until there are as many; the first is woken for it.
  [[nodiscard]] bool take(ClientOp& op, uint32_t count, Columns& out);
  void leave(ClientOp& op);     // stands in no line any more
  void give(Columns& columns);  // leaves it empty

  uint32_t capacity() const { return capacity_; }
  uint32_t used() const { return used_; }

 private:
  std::byte* memory_ = nullptr;
  uint32_t capacity_ = 0, used_ = 0;
  Columns free_;
  std::deque<ClientOp*> line_;
};

}  // namespace varve
