// Trace: the requests that a replay plays, each an ordered list of content ids (one per block of
// tokens).
//
// Read from one of two published formats, or, where they are absent, made by a generator with the
// published parameters of the first:
//   - JSON lines: timestamp (ms), input_length, output_length, hash_ids, one id per 512 tokens;
//     equal ids = equal prefix, in all of the file.
//   - agent sessions: one JSON object a file: block_size, requests[t (s), in, out, hash_ids], and
//     sub-agents with requests of their own. Ids are those of the session; what a session does not
//     share with others gets ids that no other has. Runs of small blocks are joined into one of 512
//     tokens; a part of one at the end is not stored, as an engine does not store it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/base.h"

namespace varve::trace {

inline constexpr uint32_t kTraceBlockTokens = 512;
inline constexpr uint32_t kTraceRequestsMax = 100000;
inline constexpr uint32_t kTraceBlocksMax = 1024;  // per request; of longer ones the rest is cut
inline constexpr uint32_t kTraceSessionsMax = 1000;
inline constexpr uint64_t kTraceLineBytesMax = 1 * kMiB;   // of JSON lines
inline constexpr uint64_t kTraceFileBytesMax = 64 * kMiB;  // of a session
inline constexpr uint32_t kNoSession = ~0u;

struct TraceRequest {
  uint64_t time_ms = 0;
  uint32_t input_tokens = 0;
  uint32_t output_tokens = 0;
  uint32_t session = kNoSession;  // its requests come one after the other
  std::vector<uint64_t> ids;      // in prefix order
};

struct Trace {
  std::string source;                  // shown to the user
  std::vector<TraceRequest> requests;  // in order of their times
  bool timed = true;                   // every request has a time
  uint64_t cut_blocks = 0;             // beyond kTraceBlocksMax of their request

  uint64_t blocks() const;
  // Block accesses that an unlimited cache would hit, the first `warm` requests counted as seen
  // before.
  uint64_t hits_possible(uint32_t warm = 0) const;
};

// JSON lines. kInvalid when a line is wrong, or too long. Where one has no timestamp that is a
// whole number, its time is 0 and the trace is not `timed`.
Result<Trace> read_trace(const std::string& path, uint32_t requests);
// Agent sessions: a file, or all session_*.json of a folder; they begin together, and their
// requests are merged by time.
Result<Trace> read_sessions(const std::string& path, uint32_t requests);
// The one that `path` is: a folder or *.json are sessions, everything else JSON lines.
Result<Trace> read_any(const std::string& path, uint32_t requests);
Trace generate_trace(uint32_t requests, uint64_t seed);

}  // namespace varve::trace
