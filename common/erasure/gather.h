// Gather: walks the bytes of one extent in columns, wherever they lie (paged KV memory: a list of
// pieces). A column that lies in one piece is handed out in place; only one that crosses pieces is
// copied, into scratch that the caller lends: at most one column a source, kColumnBytes * k in all.
#pragma once

#include <sys/uio.h>

#include <cstdint>

#include "common/base/base.h"

namespace varve {

class Gather {
 public:
  Gather() = default;  // a member that the stripe does not have: every column is empty
  // Both are borrowed. `scratch` holds as many bytes as the longest column that crosses pieces.
  Gather(std::span<const iovec> pieces, ByteSpan scratch) : pieces_(pieces), scratch_(scratch) {}

  // The next `bytes` bytes, fewer at the end. Valid until the next call.
  ConstByteSpan next(size_t bytes);

 private:
  std::span<const iovec> pieces_;  // those not yet walked past
  size_t offset_ = 0;              // into the first of them
  ByteSpan scratch_;
};

}  // namespace varve
