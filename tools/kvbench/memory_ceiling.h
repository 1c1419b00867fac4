// MemoryCeiling: memcpy of the same bytes into the same scattered memory, by one thread: what no
// transfer into a caller's paged memory can be faster than.
#pragma once

#include <memory>

#include "common/time/time.h"
#include "tools/kvbench/working_set.h"

namespace varve::kvbench {

class MemoryCeiling {
 public:
  // Makes the bytes of a working set of this shape, contiguous, as its source.
  static Result<std::unique_ptr<MemoryCeiling>> make(const WorkingSetShape& shape);
  // Copies the whole set once, in layer order; how long it took. `set` has the shape.
  Nanos round(const WorkingSet& set) const;
  ConstByteSpan source() const { return source_->bytes(); }

 private:
  explicit MemoryCeiling(const WorkingSetShape& shape) : shape_(shape) {}
  WorkingSetShape shape_;
  std::unique_ptr<TouchedMemory> source_;  // block by block, layer by layer
};

}  // namespace varve::kvbench
