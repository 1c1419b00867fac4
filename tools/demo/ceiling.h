// Ceiling: the demo's third process: a raw socket that moves messages of the shape of a pull's.
#pragma once

#include <cstdint>

namespace varve::demo {

struct CeilingOptions {
  uint32_t blocks = 64;  // of one round
  uint32_t layers = 16;
  uint32_t layer_bytes = 32 * 1024;
  uint32_t lanes = 2;  // connections
};

// Until the end of standard input: every line is a round, answered by a JSON line with its bytes
// and nanoseconds; the first line written says what they are of. The exit status.
int serve_ceiling(const CeilingOptions& options);

}  // namespace varve::demo
