// Base ids and checksum seeds: SHA-256 and seeds over exactly the bytes of docs/FORMAT.md
// section 3. Every variable part is preceded by its length, so no two inputs can be confused.
#include "common/model/id.h"

#include <string_view>

namespace varve {

namespace {

constexpr std::string_view kTokenTag = "varve.base.tok.1";
constexpr std::string_view kEngineTag = "varve.base.eng.1";
static_assert(kTokenTag.size() == 16 && kEngineTag.size() == 16);

constexpr size_t kEngineHashBytesMin = 16;
constexpr size_t kEngineHashBytesMax = 64;

// What a checksum is seeded with (FORMAT 3.3).
struct SeedInput {
  Digest base;
  uint32_t rank;
  uint32_t extent;
  Attempt attempt;
};
static_assert(sizeof(SeedInput) == 56 && offsetof(SeedInput, rank) == 32);
static_assert(offsetof(SeedInput, attempt) == 40);
static_assert(std::has_unique_object_representations_v<Attempt>);

void add_text(Sha256& sha, std::string_view text) {
  sha.update(std::as_bytes(std::span<const char>(text.data(), text.size())));
}

void add_counted(Sha256& sha, uint64_t count, ConstByteSpan bytes) {
  sha.update(bytes_view(count));
  sha.update(bytes);
}

}  // namespace

BaseId base_id_of_tokens(const Digest& fingerprint, const Digest& domain_salt, const BaseId& parent,
                         std::span<const uint32_t> tokens, ConstByteSpan extras) {
  Sha256 sha;
  add_text(sha, kTokenTag);
  sha.update(fingerprint.bytes).update(domain_salt.bytes).update(parent.bytes);
  add_counted(sha, tokens.size(), std::as_bytes(tokens));
  add_counted(sha, extras.size(), extras);
  return sha.finish();
}

Result<BaseId> base_id_of_engine_hash(const Digest& fingerprint, const Digest& domain_salt,
                                      ConstByteSpan engine_hash) {
  if (engine_hash.size() < kEngineHashBytesMin || engine_hash.size() > kEngineHashBytesMax) {
    return Status::invalid("engine hash: must be 16 to 64 bytes");
  }
  Sha256 sha;
  add_text(sha, kEngineTag);
  sha.update(fingerprint.bytes).update(domain_salt.bytes);
  add_counted(sha, engine_hash.size(), engine_hash);
  return sha.finish();
}

std::string short_name(const BaseId& id) {
  return to_hex(ConstByteSpan(id.bytes).first(4));
}

ChecksumSeed checksum_seed(const BlockId& block, uint32_t extent, const Attempt& attempt) {
  const SeedInput input{block.base, block.rank, extent, attempt};
  return {crc32c(0, bytes_view(input)), xxh3(0, bytes_view(input))};
}

}  // namespace varve
