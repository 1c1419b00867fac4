// Bounce: copies of what pushes send from buffers outside of every region, on their way out.
//
// A lane may still read what it was given when nobody waits for it any more; of memory that nobody
// registered it is therefore given a copy. Pulled bytes need nothing of this: they arrive in the
// buffer that each lane has anyway. Owned by Core, used by its pushes, which come again when what
// was lent is back (Core::wake_pushes); one thread.
#pragma once

#include <optional>

#include "client/layout.h"
#include "client/scratch.h"

namespace varve {

// The largest payload has room many times, so that each lane can have several.
inline constexpr uint64_t kBounceBytesMin = 1 * kMiB;
inline constexpr uint64_t kBounceBytesMax = 1 * kGiB;

class Bounce {
 public:
  explicit Bounce(uint64_t bytes_max) {  // 0: there is none
    if (bytes_max > 0) scratch_.emplace(bytes_max);
  }
  BoundLayout::Outside rule() const {
    return scratch_ ? BoundLayout::Outside::kBounce : BoundLayout::Outside::kRefuse;
  }

  struct Bytes {  // [offset, offset + length) of an extent of the block in `slot`
    uint32_t slot = 0;
    const ExtentSpec& extent;
    uint32_t offset = 0, length = 0;
  };
  // Room for that many bytes; false: it is full.
  [[nodiscard]] bool take(uint32_t length, Columns& out);
  // The caller's bytes into room that was taken for them, and the pieces of a payload of them.
  static uint32_t fill(const BoundLayout& layout, const Bytes& bytes, const Columns& room,
                       std::span<iovec> pieces);
  void give(Columns& columns) {
    if (!columns.empty()) scratch_->give(columns);
  }
  uint32_t used() const { return scratch_ ? scratch_->used() : 0; }

 private:
  std::optional<Scratch> scratch_;
};

}  // namespace varve
