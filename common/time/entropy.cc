// Entropy: unpredictable bytes from the kernel, or a repeatable stream for tests and simulation.
// Nonces and session ids are drawn here, so a simulated run is a function of its seed.
#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "common/time/time.h"

namespace varve {

uint64_t Entropy::next64() {
  std::array<std::byte, 8> bytes;
  fill(bytes);
  return load<uint64_t>(bytes);
}

void SystemEntropy::fill(ByteSpan out) {
  while (!out.empty()) {
    const ssize_t n = getrandom(out.data(), out.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    // Without entropy no nonce is safe, and there is no other source: Linux has had this call
    // since 3.17.
    VARVE_ASSERT(n > 0, n, errno);
    out = out.subspan(static_cast<size_t>(n));
  }
}

void SeededEntropy::fill(ByteSpan out) {
  while (!out.empty()) {
    const uint64_t word = random_.next();
    const size_t n = std::min(out.size(), sizeof(word));
    std::memcpy(out.data(), &word, n);
    out = out.subspan(n);
  }
}

}  // namespace varve
