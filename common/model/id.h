// Base ids, blocks and attempts: the names of things, and the checksum seeds made of them.
// docs/FORMAT.md section 3 has the exact bytes.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "common/base/base.h"

namespace varve {

// 32-byte content address of one run of tokens under one format, chained over the prefix.
using BaseId = Digest;

// Who may share, by number: from 1 in each node, and never given again. 1 is the one that is always
// there.
inline constexpr uint32_t kDomainDefault = 1;

struct BlockId {
  BaseId base;
  uint32_t rank = 0;
  // Known to the server only, a client has but one: no part of seeds or placement.
  uint32_t domain = kDomainDefault;
  auto operator<=>(const BlockId&) const = default;
};

// The tag of one write of one block (I3). A zero attempt is none.
struct Attempt {
  uint32_t boot_generation = 0;  // of the granting target, persisted before the first grant
  uint32_t target = 0;
  uint64_t counter = 0;
  auto operator<=>(const Attempt&) const = default;
  bool is_none() const { return counter == 0; }
};
static_assert(sizeof(Attempt) == 16);

// base_id = SHA-256(tag | fingerprint | domain salt | parent base id | token ids | extras).
// docs/FORMAT.md 3. The parent of the first run is all zeros. Tokens are little-endian u32.
BaseId base_id_of_tokens(const Digest& fingerprint, const Digest& domain_salt, const BaseId& parent,
                         std::span<const uint32_t> tokens, ConstByteSpan extras = {});
// Where the engine already has a stable content hash of at least 16 bytes (at most 64).
Result<BaseId> base_id_of_engine_hash(const Digest& fingerprint, const Digest& domain_salt,
                                      ConstByteSpan engine_hash);

// First 4 bytes in hex: for logs.
std::string short_name(const BaseId& id);

// Seeds of the two checksums of one extent of one attempt (I1, I3): both over the same 56 bytes
// {base id 32, rank u32, extent u32, boot_generation u32, target u32, counter u64}.
struct ChecksumSeed {
  uint32_t stored = 0;   // CRC32C continues from here
  uint64_t decoded = 0;  // XXH3-64 seed
};
ChecksumSeed checksum_seed(const BlockId& block, uint32_t extent, const Attempt& attempt);

}  // namespace varve
