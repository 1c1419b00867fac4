// Checksums and digests over the libraries that have the fast kernels: ISA-L, xxhash, OpenSSL.
// Their types are named only here.
#include "common/base/hash.h"

#include <isa-l/crc.h>
#include <openssl/evp.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
#if defined(__x86_64__)
// Replaces the XXH3 calls below by those that pick AVX2 or AVX-512 at run time: 1.5 to 2 times
// faster.
#include <xxh_x86dispatch.h>
#endif

#include <algorithm>
#include <new>

namespace varve {

uint32_t crc32c(uint32_t seed, ConstByteSpan bytes) {
  // ISA-L's crc32_iscsi neither inverts its register on entry nor on exit (RFC 3720 wants both),
  // and takes an int length.
  constexpr size_t kBytesPerCall = size_t{1} << 30;
  uint32_t state = ~seed;
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), kBytesPerCall);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    state = crc32_iscsi(data, static_cast<int>(n), state);
    bytes = bytes.subspan(n);
  }
  return ~state;
}

uint64_t xxh3(uint64_t seed, ConstByteSpan bytes) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

static_assert(sizeof(XXH3_state_t) == 576 && sizeof(XXH3_state_t) <= 640);
static_assert(alignof(XXH3_state_t) <= alignof(Xxh3Stream));
static_assert(std::is_trivially_copyable_v<XXH3_state_t>, "Xxh3Stream is copied bytewise");

Xxh3Stream::Xxh3Stream(uint64_t seed) {
  auto* state = new (state_.data()) XXH3_state_t;
  // The reset compares with the seed that was there before; give it a defined one.
  XXH3_INITSTATE(state);
  const XXH_errorcode error = XXH3_64bits_reset_withSeed(state, seed);
  VARVE_ASSERT(error == XXH_OK, error);
}

void Xxh3Stream::update(ConstByteSpan bytes) {
  if (bytes.empty()) return;
  auto* state = std::launder(reinterpret_cast<XXH3_state_t*>(state_.data()));
  const XXH_errorcode error = XXH3_64bits_update(state, bytes.data(), bytes.size());
  VARVE_ASSERT(error == XXH_OK, error);
}

uint64_t Xxh3Stream::digest() const {
  return XXH3_64bits_digest(std::launder(reinterpret_cast<const XXH3_state_t*>(state_.data())));
}

bool Digest::is_zero() const {
  return *this == Digest{};
}

uint64_t Digest::prefix64() const {
  return load<uint64_t>(bytes);
}

namespace {

// Fetched once: an implicit fetch inside every init costs about a microsecond in OpenSSL 3.
const EVP_MD* sha256_method() {
  static const EVP_MD* method = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  VARVE_ASSERT(method != nullptr);
  return method;
}

EVP_MD_CTX* evp(void* context) {
  return static_cast<EVP_MD_CTX*>(context);
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  VARVE_ASSERT(context_ != nullptr);
  const int done = EVP_DigestInit_ex(evp(context_), sha256_method(), nullptr);
  VARVE_ASSERT(done == 1, done);
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(evp(context_));
}

Sha256& Sha256::update(ConstByteSpan bytes) {
  const int done = EVP_DigestUpdate(evp(context_), bytes.data(), bytes.size());
  VARVE_ASSERT(done == 1, done);
  return *this;
}

Digest Sha256::finish() {
  Digest digest;
  unsigned int size = 0;
  const int done = EVP_DigestFinal_ex(evp(context_),
                                      reinterpret_cast<unsigned char*>(digest.bytes.data()), &size);
  VARVE_ASSERT(done == 1 && size == sizeof(Digest), done, size);
  // Ready for the next message.
  const int again = EVP_DigestInit_ex(evp(context_), sha256_method(), nullptr);
  VARVE_ASSERT(again == 1, again);
  return digest;
}

bool equal_secret(ConstByteSpan a, ConstByteSpan b) {
  // Digests have one length whatever the secrets have, and the fold below has no early end.
  Sha256 hash_a, hash_b;
  const Digest digest_a = hash_a.update(a).finish();
  const Digest digest_b = hash_b.update(b).finish();
  unsigned difference = 0;
  for (size_t i = 0; i < digest_a.bytes.size(); ++i) {
    difference |= static_cast<unsigned>(digest_a.bytes[i] ^ digest_b.bytes[i]);
  }
  return difference == 0;
}

}  // namespace varve
