// Puller: libvarve against a daemon, as an engine uses it: one push of the working set, then pulls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/varve.h"
#include "tools/kvbench/working_set.h"

namespace varve::kvbench {

struct PullerOptions {
  std::string address;
  uint32_t bulk_lanes = 1;
  uint64_t push_batch_bytes = 32 * kMiB;  // in flight at once
  Nanos ready_ns_max = 20 * kSecond;      // for the session to stand
};

class Puller {
 public:
  static Result<std::unique_ptr<Puller>> open(const PullerOptions& options, WorkingSet& set);

  // Every block, acknowledged as durable. Fails unless every one is.
  Status push();
  struct Pulled {
    Nanos took_ns = 0;         // from the call to its terminal event
    Nanos first_layer_ns = 0;  // layer 0 of all blocks
    uint64_t bytes = 0;
  };
  // All blocks in one pull. Fails unless every block came whole and verified.
  Result<Pulled> pull();

 private:
  Puller(const PullerOptions& options, WorkingSet& set) : options_(options), set_(set) {}
  Status push_blocks(uint32_t first, uint32_t count);
  PullerOptions options_;
  WorkingSet& set_;
  std::unique_ptr<Client> client_;
  FormatId format_ = 0;
  Layout layout_;
  std::vector<BaseId> ids_;
};

}  // namespace varve::kvbench
