// memcpy, piece by piece, in the order in which a pull delivers.
#include "tools/kvbench/memory_ceiling.h"

#include <cstring>

namespace varve::kvbench {

Result<std::unique_ptr<MemoryCeiling>> MemoryCeiling::make(const WorkingSetShape& shape) {
  std::unique_ptr<MemoryCeiling> ceiling(new MemoryCeiling(shape));
  VARVE_TRY(ceiling->source_, TouchedMemory::map(shape.bytes()));
  const ByteSpan bytes = ceiling->source_->bytes();
  for (uint32_t e = 0; e < shape.extents(); ++e) {
    WorkingSet::content(e / shape.layers, e % shape.layers,
                        bytes.subspan(uint64_t{e} * shape.layer_bytes, shape.layer_bytes));
  }
  return ceiling;
}

Nanos MemoryCeiling::round(const WorkingSet& set) const {
  VARVE_ASSERT(set.shape().bytes() == shape_.bytes());
  const SystemClock clock;
  const Nanos begin_ns = clock.now_ns();
  std::vector<iovec> pieces(shape_.layer_bytes / kPageOfLayerBytes);
  for (uint32_t l = 0; l < shape_.layers; ++l) {
    for (uint32_t b = 0; b < shape_.blocks; ++b) {
      const uint64_t extent = uint64_t{b} * shape_.layers + l;
      const std::byte* from = source().data() + extent * shape_.layer_bytes;
      const uint32_t count = set.pieces(b, l, 0, shape_.layer_bytes, pieces.data());
      for (uint32_t i = 0; i < count; ++i) {
        std::memcpy(pieces[i].iov_base, from, pieces[i].iov_len);
        from += pieces[i].iov_len;
      }
    }
  }
  return clock.now_ns() - begin_ns;
}

}  // namespace varve::kvbench
