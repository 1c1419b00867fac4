// FetchTable: device reads in progress, one for as many readers as wait for the bytes.
//
// A Fetch belongs to the TierBlock it fills, not to the pull that asked first: it pins the block,
// and when it is done the tier wakes whoever waits for the extent. So a pull may be cancelled while
// its read goes on, and a second pull of the same block starts no second read.
#pragma once

#include <vector>

#include "common/base/base.h"
#include "common/reactor/reactor.h"
#include "server/flash/flash.h"
#include "server/op/metric.h"
#include "server/tier/tier.h"

namespace varve {

struct OpContext;
class FetchTable;

struct Fetch {
  flash::Read read;
  std::vector<iovec> runs;  // capacity for one extent in single pages and its header
  FetchTable* table = nullptr;
  TierBlock* block = nullptr;
  Nanos started_ns = 0;
  uint32_t target = 0, pages = 0;  // counted there while taken
  bool given_up = false;           // a lead that nobody waits for any more
};

class FetchTable {
 public:
  FetchTable(OpContext& context, uint32_t fetches_max);

  uint32_t available() const { return pool_.available(); }
  uint32_t live() const { return pool_.used(); }
  // Targets that answer nothing must leave the others what they need: where it has a peer, one may
  // hold its target_share() of the reads and of the pull budget's pages. `pages`: of one more read.
  bool has_share(uint32_t target, uint32_t pages) const;
  Fetch* take(uint32_t target, uint32_t pages);  // null: all are busy
  void give(Fetch& fetch);                       // taken and not started

  // Header and the block's lead_extent, whose pages are taken. `fingerprint`: of the format the
  // reader believes in.
  void start_lead(Fetch& fetch, TierBlock& block, const flash::Place& place,
                  const Digest& fingerprint, Nanos wanted_ns);
  // One extent whose pages are taken, of a block whose header is present.
  void start_extent(Fetch& fetch, TierBlock& block, const flash::Place& place, uint32_t extent,
                    const ExtentEntry& entry, Nanos wanted_ns);
  // Now and then: tells the readers of what the device keeps long, and lets those of a header on a
  // suspect target look for another.
  void watch();
  // Expected time of one more read, from the reads before it.
  Nanos read_ns_estimate() const { return mean_ns_; }

 private:
  void start(Fetch& fetch, TierBlock& block, const flash::Place& place, Nanos wanted_ns);
  bool is_needed(const Fetch& fetch) const;
  void give_up(Fetch& fetch);
  void done(Fetch& fetch);
  void returned(Fetch& fetch);
  void end(Fetch& fetch);
  void share_drop(const Fetch& fetch);

  struct Target {
    uint32_t reads = 0, pages = 0;
    bool was_full = false;  // a pull found no share here
  };
  OpContext& context_;
  Pool<Fetch> pool_;
  mutable std::vector<Target> targets_;
  Nanos mean_ns_ = 0;
};

// Row `extent` of the table in a block's header pages, copied out.
ExtentEntry entry_of(const DramTier& tier, const TierBlock& block, uint32_t extent);

}  // namespace varve
