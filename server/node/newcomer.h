// A drive that comes into the place of a target that failed, while the node runs: what may, what is
// written down of it, and its format (ADR-0008). Blocking; its caller has begun a change.
#pragma once

#include "server/node/target.h"

namespace varve {

struct Newcomer {
  const ServerConfig& config;
  const Identity& identity;
  uint32_t index;
  const NodeTarget& old;        // its slices, and the start in which it failed
  uint32_t fragment_pages = 0;  // those of the others may be as large as this
  flash::TargetOptions options() const;
};

// Whether what lies under the path may be taken in. `resumes`: it is the one that was formatted
// before, and that some core has not taken yet (NodeTarget::coming). Writes nothing; where the file
// is one of the data folder and is not there, it is made.
Failure look_newcomer(const Newcomer& newcomer, uint64_t* capacity_bytes, bool* resumes);

// N5. Stands in the list from now on, and the old one does not: before the format, so that no start
// takes the old one in again, whatever ends before the format.
Failure keep_newcomer(const Newcomer& newcomer, const std::byte (&uuid)[16],
                      uint64_t capacity_bytes, flash::Witness* witness);

// Blank ones only. `generations`: as the shard that raises them knows them.
Failure format_newcomer(const Newcomer& newcomer, const std::byte (&uuid)[16],
                        const flash::Generations& generations, Entropy& entropy,
                        flash::TargetInfo* info);

}  // namespace varve
