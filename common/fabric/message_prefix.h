// The 16 bytes in front of every message on a byte stream (docs/WIRE.md 2), and the check that
// comes before anything is stored for a message.
//
//   0        4            8               12         16
//   | magic  | head_bytes | payload_bytes | head_crc | head | payload |
#pragma once

#include <cstdint>

#include "common/base/base.h"
#include "common/fabric/fabric.h"

namespace varve {

inline constexpr uint32_t kMessageMagic = 0x31565256;  // "VRV1"

struct MessagePrefix {
  uint32_t magic = kMessageMagic;
  uint32_t head_bytes = 0;
  uint32_t payload_bytes = 0;
  uint32_t head_crc = 0;  // CRC32C of the head
};
static_assert(sizeof(MessagePrefix) == 16);

inline Status check_prefix(const MessagePrefix& prefix, uint32_t head_bytes_max) {
  if (prefix.magic != kMessageMagic) return Status::invalid("not a Varve peer");
  if (prefix.head_bytes == 0) return Status::invalid("message without a head");
  if (prefix.head_bytes > head_bytes_max) return Status::invalid("head over its limit");
  if (prefix.payload_bytes > kPayloadBytesMax) return Status::invalid("payload over its limit");
  return {};
}

}  // namespace varve
