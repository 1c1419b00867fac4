// Hex: how ids and digests are written in logs, vectors and on the command line.
// Lower case out, either case in.
#include "common/base/bytes.h"

namespace varve {

namespace {

// The value of one hex digit, or -1.
int nibble(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string to_hex(ConstByteSpan bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (std::byte b : bytes) {
    text.push_back(kDigits[static_cast<uint8_t>(b) >> 4]);
    text.push_back(kDigits[static_cast<uint8_t>(b) & 15]);
  }
  return text;
}

bool from_hex(std::string_view text, ByteSpan out) {
  if (text.size() != 2 * out.size()) return false;
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = nibble(text[2 * i]);
    const int low = nibble(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<std::byte>(high << 4 | low);
  }
  return true;
}

}  // namespace varve
