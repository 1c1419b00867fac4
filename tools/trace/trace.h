// Trace: the requests that a replay plays, each an ordered list of content ids (one per block of
// tokens).
//
// Read from a published trace (one JSON object a line: timestamp, input_length, output_length,
// hash_ids; equal ids = equal prefix), or, where it is absent, made by a generator with the
// published parameters of that trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/base.h"

namespace varve::trace {

struct TraceRequest {
  uint64_t time_ms = 0;
  uint32_t input_tokens = 0;
  std::vector<uint64_t> ids;  // in prefix order
};

struct Trace {
  std::string source;  // shown to the user
  std::vector<TraceRequest> requests;

  uint64_t blocks() const;
  // Block accesses that an unlimited cache would hit, the first `warm` requests counted as seen
  // before.
  uint64_t hits_possible(uint32_t warm = 0) const;
};

inline constexpr uint32_t kTraceBlockTokens = 512;
inline constexpr uint32_t kTraceRequestsMax = 100000;
inline constexpr uint32_t kTraceBlocksMax = 1024;  // per request

// kInvalid names the line that is wrong.
Result<Trace> read_trace(const std::string& path, uint32_t requests);
Trace generate_trace(uint32_t requests, uint64_t seed);

}  // namespace varve::trace
