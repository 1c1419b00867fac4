// Checksums and digests: CRC32C (ISA-L), XXH3-64 (xxhash), SHA-256 (OpenSSL).
//
// Sources: CRC32C is RFC 3720 appendix B.4 (Castagnoli); XXH3 is xxhash 0.8; SHA-256 is FIPS 180-4.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

#include "common/base/bytes.h"

namespace varve {

// Continues a CRC32C: crc32c(crc32c(seed, a), b) == crc32c(seed, ab). `seed` 0 for a plain CRC.
uint32_t crc32c(uint32_t seed, ConstByteSpan bytes);

// One-shot XXH3-64 with a seed.
uint64_t xxh3(uint64_t seed, ConstByteSpan bytes);

// Incremental XXH3-64; equal to the one-shot over the concatenation. Fixed size, no allocation.
class Xxh3Stream {
 public:
  explicit Xxh3Stream(uint64_t seed);
  void update(ConstByteSpan bytes);
  uint64_t digest() const;

 private:
  alignas(64) std::array<std::byte, 640> state_;
};

struct Digest {
  std::array<std::byte, 32> bytes{};
  auto operator<=>(const Digest&) const = default;
  bool is_zero() const;
  // The first 8 bytes; for tables and placement, never as an identity.
  uint64_t prefix64() const;
};
static_assert(sizeof(Digest) == 32);

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  Sha256& update(ConstByteSpan bytes);
  Digest finish();

 private:
  void* context_;
};

// Equal or not in a time that does not depend on where they differ, nor on which of them is longer.
bool equal_secret(ConstByteSpan a, ConstByteSpan b);

}  // namespace varve
