// A second, slow coder that shares nothing with the product: GF(256) bit by bit, bytes one by one,
// over zero-padded copies. And a stripe made with it, whose buffers have guards behind them.
#pragma once

#include <algorithm>
#include <vector>

#include "common/erasure/erasure.h"

namespace varve::reference {

using Bytes = std::vector<std::byte>;
using Rows = std::vector<std::vector<uint8_t>>;  // of parity: [m][k]

inline uint8_t times(uint8_t a, uint8_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 0; bit < 8; ++bit) {
    if ((b >> bit & 1) != 0) product ^= uint32_t{a} << bit;
  }
  for (uint32_t bit = 15; bit >= 8; --bit) {
    if ((product >> bit & 1) != 0) product ^= 0x11Du << (bit - 8);
  }
  return static_cast<uint8_t>(product);
}

inline uint8_t inverse(uint8_t a) {
  for (uint32_t b = 1; b < 256; ++b) {
    if (times(a, static_cast<uint8_t>(b)) == 1) return static_cast<uint8_t>(b);
  }
  return 0;
}

// docs/FORMAT.md 4.4.
inline Rows parity_rows(Scheme scheme) {
  Rows rows(scheme.m, std::vector<uint8_t>(scheme.k, 1));
  if (scheme.m < 2) return rows;
  for (uint32_t i = 0; i < scheme.m; ++i) {
    for (uint32_t j = 0; j < scheme.k; ++j)
      rows[i][j] = inverse(static_cast<uint8_t>((scheme.k + i) ^ j));
  }
  return rows;
}

inline Bytes parity_of(const std::vector<uint8_t>& row, const std::vector<Bytes>& members) {
  size_t bytes = 0;
  for (const Bytes& member : members)
    bytes = std::max(bytes, member.size());
  Bytes out(bytes);
  for (size_t j = 0; j < members.size(); ++j) {
    for (size_t at = 0; at < members[j].size(); ++at)
      out[at] ^= static_cast<std::byte>(times(row[j], static_cast<uint8_t>(members[j][at])));
  }
  return out;
}

inline Bytes random_bytes(Random& random, size_t bytes) {
  Bytes out(bytes);
  for (std::byte& byte : out)
    byte = static_cast<std::byte>(random.next());
  return out;
}

// All k + m extents by position; those behind the last member are empty.
inline std::vector<Bytes> stripe(Scheme scheme, const std::vector<size_t>& sizes, Random& random) {
  std::vector<Bytes> extents;
  for (const size_t size : sizes)
    extents.push_back(random_bytes(random, size));
  const std::vector<Bytes> members = extents;
  extents.resize(scheme.k);
  for (const std::vector<uint8_t>& row : parity_rows(scheme))
    extents.push_back(parity_of(row, members));
  return extents;
}

// Bytes with a guard behind them: nothing may read it as data (it is not zero) or write to it.
class Guarded {
 public:
  explicit Guarded(size_t size) : bytes_(size + kGuardBytes, kGuard), size_(size) {}
  explicit Guarded(const Bytes& bytes) : Guarded(bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), bytes_.begin());
  }
  ByteSpan all() { return ByteSpan(bytes_).first(size_); }
  ByteSpan column(size_t offset, size_t bytes) {
    const size_t begin = std::min(offset, size_);
    return ByteSpan(bytes_).subspan(begin, std::min(bytes, size_ - begin));
  }
  Bytes value() const { return Bytes(bytes_.begin(), bytes_.end() - kGuardBytes); }
  bool guard_holds() const {
    return std::all_of(bytes_.end() - kGuardBytes, bytes_.end(),
                       [](std::byte byte) { return byte == kGuard; });
  }

 private:
  static constexpr ptrdiff_t kGuardBytes = 128;
  static constexpr std::byte kGuard{0xA5};
  Bytes bytes_;
  size_t size_;
};

// Runs `coder` over whole extents in columns; what it made, in the order of its outputs. Empty when
// a guard was written to.
inline std::vector<Bytes> run(const Coder& coder, const std::vector<Bytes>& extents,
                              const std::vector<size_t>& output_sizes, size_t column_bytes,
                              std::span<ExtentDigest> digests = {}) {
  std::vector<Guarded> sources, outputs;
  for (const uint8_t position : coder.sources())
    sources.emplace_back(extents[position]);
  size_t longest = 0;
  for (const size_t size : output_sizes) {
    outputs.emplace_back(size);
    longest = std::max(longest, size);
  }
  for (size_t offset = 0; offset < longest; offset += column_bytes) {
    std::vector<ConstByteSpan> from;
    std::vector<ByteSpan> to;
    for (Guarded& source : sources)
      from.push_back(source.column(offset, column_bytes));
    for (Guarded& output : outputs)
      to.push_back(output.column(offset, column_bytes));
    if (digests.empty()) {
      coder.run(from, to);
    } else {
      coder.run(from, to, digests);
    }
  }
  std::vector<Bytes> made;
  for (const Guarded& output : outputs) {
    if (!output.guard_holds()) return {};
    made.push_back(output.value());
  }
  return made;
}

}  // namespace varve::reference
