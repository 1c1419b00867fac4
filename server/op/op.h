// op: every request's life on its home shard, from the part that comes to the part that goes back.
//
// Owns: the ops (match, reserve, push, pull, release, evict), their pools, the leases, the shared
// device reads, and the Catalog, which keeps index, eviction order, DRAM and flash in step. Called
// by server/shard. Thread rule: owner core only; parts and sends come and go by mailbox.
//
//   part -> Operations::begin -> match | reserve | release       answered in the same turn
//                             -> PushOp  kReceive kCommit kAppend kWrite
//                             -> PullOp  kLease kCredit kRead kSend, one ExtentOp per extent
//
// Invariants:
//   O1 every part comes back exactly once; a pull's only when nothing of it is on a lane (I8).
//   O2 a grant holds flash space, DRAM pages, an index place and an op, or it is not given (I7).
//   O3 a block is visible from the accepted commit on, durable only after its flush (I2, I10).
//   O4 order of acquisition: credit, then pages, then device; only reads in progress hold pages.
//   O5 what a pull reads stays in the index until it ends (I4), whatever its lease does meanwhile.
//   O6 an op that cannot get a bounded thing is refused or waits in a bounded queue, and counted.
//   O7 what was purged is neither found nor sent from the answer on, and never comes back (I10).
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "common/metrics/metrics.h"
#include "common/reactor/reactor.h"
#include "server/flash/flash.h"
#include "server/index/index.h"
#include "server/op/catalog.h"
#include "server/op/metric.h"
#include "server/op/part.h"
#include "server/policy/policy.h"
#include "server/tier/tier.h"

namespace varve {

struct OpOptions {
  uint32_t shard = 0;
  uint32_t slices = kSlicesDefault;
  uint32_t pushes_max = 1024;  // live attempts
  uint32_t appends_max = 64;   // fragments at flash at once
  uint32_t pulls_max = 256;
  uint32_t extents_max = 1024;            // extents of pulls in progress
  uint32_t fetches_max = 256;             // device reads in progress
  uint32_t data_sends_max = 512;          // DATA frames on their way
  uint64_t pull_window_bytes = 4 * kMiB;  // credit asked at once
  uint32_t pull_windows_max = 5;          // of one pull in progress: reads overlap sends
  uint32_t leases_max = 1024;
  uint32_t lease_pins_max = 256 * 1024;  // base ids under all leases together
  uint32_t lease_ms_max = 60000;
  Nanos sibling_ns_max = 60 * kSecond;  // a run that lacks a rank for longer is dropped
  uint64_t epoch = 1;
  uint64_t hash_seed = 0;  // see BlockHash
  // What recovery finds of others has no reader. Those of the start, less those that a purge which
  // is walked has dropped since; one that comes later has nothing to be found.
  flash::DomainIds domains;
  Scheme scheme;
  int32_t buffer_index = -1;                        // registered buffer that covers the arena
  uint32_t repairs_max = 4;                         // blocks rebuilt at once
  uint64_t repair_bytes_per_s = 200 * 1000 * 1000;  // written, on average; 0 = no repair
  // Bit t: target t works and is to be taken out: it gets no new fragment, those it has are moved.
  uint32_t draining_targets = 0;
  uint32_t drained_targets =
      0;  // bit t: it was taken out, nobody misses it: no purge is owed to it
  // Bit t: the node has target t, but not at this start, nor a place for it: every purge misses it.
  uint32_t absent_targets = 0;
  Nanos cancel_poll_ns = 1 * kMillisecond;  // how often waiting pulls look at their cancel flag
  Nanos write_ns_max = 30 * kSecond;        // commit to flash: older ones are named by the watchdog
  Nanos hedge_ns = 10 * kMillisecond;       // a read at the device for longer: its reader is told
  Nanos overdue_ns = 2 * kSecond;           // past its deadline by this: named by the watchdog
};

class LeaseTable;
class PushTable;
class PullTable;
class FetchTable;
class SendTable;
class EvictOp;
class RepairTable;
class PurgeTable;
class Lineages;
class Placer;
class Siblings;

// What every op reaches. The first group is given by the shard, the second by Operations.
struct OpContext {
  Reactor& reactor;
  Index& index;
  DramTier& tier;
  flash::Flash& flash;
  EvictionPolicy& eviction;
  AdmissionPolicy& admission;
  OpOptions options;

  OpMetrics metrics;
  Catalog* catalog = nullptr;
  LeaseTable* leases = nullptr;
  PushTable* pushes = nullptr;
  PullTable* pulls = nullptr;
  FetchTable* fetches = nullptr;
  SendTable* sends = nullptr;
  EvictOp* evict = nullptr;
  RepairTable* repair = nullptr;
  PurgeTable* purges = nullptr;
  Lineages* lineages = nullptr;
  Placer* placer = nullptr;
  Siblings* siblings = nullptr;
  bool draining = false;
  uint64_t attempts = 0;         // granted since the start: the counter of the last attempt
  std::vector<BaseId> gathered;  // match: the ids of one part side by side
};

// Whether what this target holds is to be moved to others.
inline bool is_draining(const OpContext& context, uint32_t target) {
  static_assert(kTargetsMax <= 32);
  return (context.options.draining_targets >> target & 1) != 0;
}

// Bit t: what target t holds is out of reach in this life and may be back in a later one. One that
// was taken out comes back blank, if ever.
uint32_t targets_away(const OpContext& context);

// Whether another target works that must be left its share.
bool has_peer(const OpContext& context, uint32_t target);
// Of what all targets share one may hold this much where it has a peer: as many as the scheme does
// without may answer nothing, and the others still have a share.
inline uint64_t target_share(const OpContext& context, uint64_t whole) {
  return whole / std::max(2u, context.options.scheme.m + 1);
}

// Posts a part back to its session (O1). The part is gone after this call.
void part_back(Part& part, Status status);

class Operations {
 public:
  // `context` outlives this; its second group is filled here.
  explicit Operations(OpContext& context);
  ~Operations();
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  void begin(Part& part);
  Catalog& catalog() { return *catalog_; }
  // flash wants about `pages` of one slice of one target: evicts now and in the next turns.
  void room_wanted(uint32_t target, uint32_t slice, uint32_t pages);
  // From now on this target gets no new fragment and is emptied (kOn), or is one like the others.
  void draining_set(uint32_t target, Draining draining);
  // Nothing here lies on this target, waits for it or is on its way to it: kOk, or why not yet.
  Status replaceable(uint32_t target) const;
  // Another drive, empty, has the place of this one, and works (flash::Flash::replace).
  void target_replaced(uint32_t target);
  // Repair was given ops when this shard was opened: it can move, and rebuild where there is
  // parity.
  bool repairs() const;
  // 0: it pauses.
  void repair_rate_set(uint64_t bytes_per_s);
  void drain();              // no new grants from here on
  bool pushes_done() const;  // no live attempt, no write-behind, no block being rebuilt
  bool at_rest() const;      // I6
  uint32_t watch();          // logs ops past their deadline; how many
  void register_metrics(MetricSet& metrics);

 private:
  OpContext& context_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<LeaseTable> leases_;
  std::unique_ptr<PushTable> pushes_;
  std::unique_ptr<FetchTable> fetches_;
  std::unique_ptr<SendTable> sends_;
  std::unique_ptr<PullTable> pulls_;
  std::unique_ptr<EvictOp> evict_;
  std::unique_ptr<RepairTable> repair_;
  std::unique_ptr<Placer> placer_;
  std::unique_ptr<Lineages> lineages_;
  std::unique_ptr<PurgeTable> purges_;
  std::unique_ptr<Siblings> siblings_;
};

}  // namespace varve
