// Bounce: column by column, as parity leaves.
#include "client/bounce.h"

#include <algorithm>

namespace varve {

static_assert(kBounceBytesMin >= kPayloadBytesMax);

bool Bounce::take(uint32_t length, Columns& out) {
  VARVE_ASSERT(scratch_.has_value());  // else no layout bounces
  VARVE_ASSERT(length > 0 && length <= kPayloadBytesMax, length);
  return scratch_->take(columns_of(length), out);
}

uint32_t Bounce::fill(const BoundLayout& layout, const Bytes& bytes, const Columns& room,
                      std::span<iovec> pieces) {
  VARVE_ASSERT(room.size() == columns_of(bytes.length), room.size(), bytes.length);
  VARVE_ASSERT(room.size() <= pieces.size(), room.size());
  for (uint32_t c = 0; c < room.size(); ++c) {
    const uint32_t done = c * kColumnBytes;
    const uint32_t length = std::min(kColumnBytes, bytes.length - done);
    layout.gather(bytes.slot, bytes.extent, bytes.offset + done, {room[c], length});
    pieces[c] = iovec{room[c], length};
  }
  return static_cast<uint32_t>(room.size());
}

}  // namespace varve
