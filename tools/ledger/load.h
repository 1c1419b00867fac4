// Load: one thread that pushes and pulls like an engine until it is told to stop, and writes down
// what it was promised.
//
// What it does next is a function of its seed; only the daemon's answers and the kill are not.
#pragma once

#include <atomic>

#include "common/base/random.h"
#include "tools/ledger/world.h"

namespace varve::ledger {

struct LoadCounts {
  uint64_t pushes = 0, blocks_offered = 0, blocks_granted = 0, blocks_existing = 0;
  uint64_t acks_durable = 0, acks_cached = 0;
  uint64_t pulls = 0, blocks_pulled = 0, bytes_pulled = 0, bytes_pushed = 0;
  uint64_t cancels = 0;
  uint64_t broken_hits = 0;  // leased, and not delivered though the daemon was there
  uint64_t hung = 0;         // an op without a terminal event within its bounds (I8)
  std::string broken_hit;    // the first one
  void merge(const LoadCounts& other);
};

struct LoadOptions {
  uint64_t seed = 1;
  bool audited = true;  // false: what is there is not known; only what is not durable is pushed
};

class Load {
 public:
  Load(World& world, Seat& seat, const LoadOptions& options)
      : world_(world), seat_(seat), options_(options), random_(options.seed) {}
  // Until `stop`; the daemon may die under it at any time.
  void run(const std::atomic<bool>& stop);
  const LoadCounts& counts() const { return counts_; }

 private:
  struct Run {  // consecutive ids of one chain
    uint32_t kind = 0;
    uint32_t rank = 0;
    uint32_t first = 0, count = 0;
  };
  Run choose_run();
  Run choose_push();
  void push(const Run& run);
  struct Offer {  // what one block of a push is
    Salt salt = 0;
    bool kept = false;  // must be there already: a grant is a loss
  };
  void settle_existing(const BlockId& block);
  void settle_push(const Run& run, const std::vector<Offer>& offers,
                   const std::vector<Code>& reserved, const Event& pushed, bool durable);
  bool hand_over(const Run& run, OpId op, const std::vector<Offer>& offers);
  void pull(const Run& run);
  void pull_blocks(const Run& run, uint32_t count, uint64_t lease);
  Result<Event> ended(OpId op, std::vector<Code>* reserved = nullptr);
  BlockId block(const Run& run, uint32_t i) const {
    return {world_.kinds[run.kind].ids[run.first + i], run.rank};
  }

  World& world_;
  Seat& seat_;
  const LoadOptions options_;
  Random random_;
  LoadCounts counts_;
};

}  // namespace varve::ledger
