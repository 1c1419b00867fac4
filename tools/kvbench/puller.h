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
  uint64_t push_batch_bytes = 32 * kMiB;  // one push
  uint32_t pushes = 1;                    // under way at once
  uint32_t cut = 1;                       // see WorkingSet::format
  Nanos ready_ns_max = 20 * kSecond;      // for the session to stand
};

class Puller {
 public:
  static Result<std::unique_ptr<Puller>> open(const PullerOptions& options, WorkingSet& set);

  // Every block, acknowledged as durable. Fails unless every one is.
  Status push();
  struct Pulled {
    Nanos began_ns = 0;        // since its pass began
    Nanos took_ns = 0;         // from the call to its terminal event
    Nanos first_layer_ns = 0;  // layer 0 of all blocks, all that it was cut into
    uint64_t bytes = 0;
  };
  // All blocks in one pull. Fails unless every block came whole and verified.
  Result<Pulled> pull();

  struct PassOptions {
    uint32_t pull_blocks = 4;  // neighbours, of one pull
    uint32_t pulls = 1;        // under way at once
    uint64_t seed = 1;         // of their order
  };
  // Every block once, in many pulls; they are answered in the order in which they began.
  Result<std::vector<Pulled>> pass(const PassOptions& options);
  ClientCounters counters() const { return client_->counters(); }
  // Of a caller who takes the events himself: a pull of some blocks, and whether it brought all.
  Result<OpId> start_pull(uint32_t first, uint32_t count) {
    return client_->pull(pull_request({first, count}));
  }
  Status check_whole(const Event& end, uint32_t first, uint32_t count) const;
  Client& client() { return *client_; }

 private:
  struct Range {
    uint32_t first = 0, count = 0;  // blocks
  };
  Puller(const PullerOptions& options, WorkingSet& set) : options_(options), set_(set) {}
  std::vector<Range> ranges(uint32_t blocks_each) const;
  PullRequest pull_request(Range range) const;
  Result<OpId> start_push(Range range);
  Status check(const Event& end, Range range) const;
  // Keeps `at_once` ops under way until all `count` ended: start(i) -> Result<OpId>,
  // on_event(i, event) -> Status for each event of op i.
  template <class Start, class OnEvent>
  Status run_ops(uint32_t count, uint32_t at_once, Start start, OnEvent on_event);
  void wait_for_event() const;
  PullerOptions options_;
  WorkingSet& set_;
  std::unique_ptr<Client> client_;
  FormatId format_ = 0;
  Layout layout_;
  std::vector<BaseId> ids_;
};

}  // namespace varve::kvbench
