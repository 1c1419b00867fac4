// Load: one thread that pushes, pulls, follows and purges like an engine until it is told to stop,
// and writes down what it was promised.
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
  uint64_t purges = 0, purges_done = 0, purged_lineages = 0;
  uint64_t follows = 0, layers_followed = 0, blocks_followed = 0;
  uint64_t blocks_denied = 0;   // a follower was told that their push failed
  uint64_t broken_hits = 0;     // leased, and not delivered though the daemon was there
  uint64_t hung = 0;            // an op without a terminal event within its bounds (I8)
  uint64_t broken_follows = 0;  // what a follower was told is not what the pusher was told
  std::string broken;           // the first one of both
  void merge(const LoadCounts& other);
};

struct LoadOptions {
  uint64_t seed = 1;
  bool audited = true;  // false: what is there is not known; only what is not durable is pushed
  uint32_t purge_per_mille = 20;
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
  void push_ranks(const std::atomic<bool>& stop);
  void push(const Run& run);
  struct Offer {  // what one block of a push is
    Salt salt = 0;
    bool kept = false;  // must be there already: a grant is a loss
  };
  struct Push {
    Run run;
    OpId op = 0;
    bool durable = false;
    bool slow = false;  // so that others can follow it
    Tick since = 0;
    std::vector<Offer> offers;
    Seat::Reserved reserved;
  };
  void settle_existing(const BlockId& block, Tick since);
  void settle_push(const Push& push, const Event& pushed, bool finished);
  bool hand_over(Push& push);
  void post(const Push& push);
  void pull(const Run& run);
  void pull_blocks(const Run& run, uint32_t count, uint64_t lease, Tick since);
  void judge_pulled(const Run& run, const Event& pulled, bool owed, Tick since);
  void follow();
  void judge_layer(const Posted& posted, const Event& event);
  void judge_followed(const Posted& posted, const Event& event);
  void purge();
  Result<Event> ended(OpId op, Seat::Reserved* reserved = nullptr);
  void broken(uint64_t* count, const BlockId& block, const char* what);
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
