// Byte helpers: spans, sizes with units, alignment, little-endian loads and hex.
//
// Everything that leaves the process is little-endian and this code only builds on such machines.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "common/base/assert.h"

namespace varve {

static_assert(std::endian::native == std::endian::little, "on-disk structs are little-endian");

using ByteSpan = std::span<std::byte>;
using ConstByteSpan = std::span<const std::byte>;

inline constexpr uint32_t kPageBytes = 4096;  // unit of slabs, device I/O and fragment geometry
inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}
constexpr uint64_t round_down(uint64_t value, uint64_t unit) {
  return value / unit * unit;
}
constexpr uint32_t pages_of(uint64_t bytes) {
  return static_cast<uint32_t>((bytes + kPageBytes - 1) / kPageBytes);
}
constexpr uint64_t bytes_of(uint64_t pages) {
  return pages * kPageBytes;
}

template <class T>
requires std::is_trivially_copyable_v<T> ConstByteSpan bytes_view(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}

// Copies a trivially copyable struct out of bytes; the caller has checked the length.
template <class T>
requires std::is_trivially_copyable_v<T> T load(ConstByteSpan bytes, size_t offset = 0) {
  VARVE_ASSERT(offset + sizeof(T) <= bytes.size(), offset, bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <class T>
requires std::is_trivially_copyable_v<T>
void store(ByteSpan bytes, size_t offset, const T& value) {
  VARVE_ASSERT(offset + sizeof(T) <= bytes.size(), offset, bytes.size());
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

std::string to_hex(ConstByteSpan bytes);
// Parses exactly 2 * out.size() hex digits; false when the text is anything else.
[[nodiscard]] bool from_hex(std::string_view text, ByteSpan out);

}  // namespace varve
