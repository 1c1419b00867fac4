// wire_fuzz: any bytes as a head. decode refuses them or accepts them; what it accepts encodes to
// the same bytes and can be read to its last element. A crash, an assert or a difference is a
// finding.
#include <cstdlib>

#include "common/fabric/fabric.h"
#include "tests/fuzz/wire_reencode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static std::byte buffer[varve::kHeadBytesMax];
  if (size > varve::kHeadBytesMax) return 0;
  const varve::ConstByteSpan head(reinterpret_cast<const std::byte*>(data), size);
  const auto frame = varve::wire::decode(head);
  if (!frame.has_value()) {
    if (frame.error().code() != varve::Code::kInvalid) std::abort();
    if (frame.error().what()[0] == '\0') std::abort();  // every refusal names its reason
    return 0;
  }
  const varve::ConstByteSpan again = varve::wire::reencode(*frame, buffer);
  if (again.size() != head.size()) std::abort();
  if (std::memcmp(again.data(), head.data(), head.size()) != 0) std::abort();
  return 0;
}
