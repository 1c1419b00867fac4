// A cursor, not an index: columns are asked for in order, so no piece is looked at twice.
#include "common/erasure/gather.h"

#include <algorithm>
#include <cstring>

namespace varve {

ConstByteSpan Gather::next(size_t bytes) {
  size_t done = 0;
  while (done < bytes && !pieces_.empty()) {
    const iovec& piece = pieces_.front();
    VARVE_ASSERT(offset_ <= piece.iov_len, offset_, piece.iov_len);
    const size_t n = std::min(bytes - done, piece.iov_len - offset_);
    const auto* from = static_cast<const std::byte*>(piece.iov_base) + offset_;
    offset_ += n;
    if (offset_ == piece.iov_len) {
      pieces_ = pieces_.subspan(1);
      offset_ = 0;
    }
    if (done == 0 && (n == bytes || pieces_.empty())) return {from, n};
    if (n == 0) continue;
    VARVE_ASSERT(done + n <= scratch_.size(), done, n, scratch_.size());
    std::memcpy(scratch_.data() + done, from, n);
    done += n;
  }
  return scratch_.first(done);
}

}  // namespace varve
