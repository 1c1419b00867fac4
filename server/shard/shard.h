// shard: what one core of a node owns, put together.
//
// Owns: Index, Arena + DramTier, Flash, policies, leases, op pools and metrics of one shard;
// implements flash::FlashUser. Called by server/session (through mailboxes) and by main. Thread
// rule: owner core, except submit(), which posts.
// Invariants:
//   S1 every Part comes back exactly once (I8), whatever happens to targets and sessions.
//   S2 nothing is visible before commit was accepted (I2); nothing is durable before its flush.
//   S3 holds (leases, grants, pins) are counted per owner session and zero when it is gone (I6).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/device/device.h"
#include "common/env/env.h"
#include "common/metrics/metrics.h"
#include "server/flash/flash.h"
#include "server/index/index.h"
#include "server/op/look.h"
#include "server/op/part.h"
#include "server/tier/tier.h"

namespace varve {

struct ShardOptions {
  uint32_t shard = 0, shards = 1;
  uint32_t blocks_max = 1 << 20;  // in the index
  Scheme scheme;                  // of every target, as they are formatted
  TierOptions tier;
  flash::FlashOptions flash;
  uint32_t pushes_max = 1024;  // live attempts
  uint32_t pulls_max = 256;
  uint32_t leases_max = 1024;
  uint32_t data_sends_max = 512;          // DATA frames on their way
  uint64_t pull_window_bytes = 4 * kMiB;  // of one PullOp, credit asked at once
  uint32_t pull_windows_max = 5;          // of one PullOp in progress, so that reads overlap sends
  uint32_t lease_ms_max = 60000;
  uint32_t sibling_ms_max = 60000;                  // a run that lacks a rank for longer is dropped
  uint64_t repair_bytes_per_s = 200 * 1000 * 1000;  // written on average; 0 = no repair
  uint64_t epoch = 1;                               // of the map: reserve and commit carry it
  flash::DomainIds domains;                         // see OpOptions
  uint32_t draining_targets = 0, drained_targets = 0, absent_targets = 0;  // bits, see OpOptions
};

// What the operator may change while the node runs; of this shard.
struct ShardPolicy {
  uint64_t repair_bytes_per_s = 0;  // 0 = paused, and nothing else where it was 0 at the start
  uint32_t sibling_ms_max = 60000;
  Nanos scrub_interval_ns = 0;  // 0 = never
};

// What a domain has here, in whole pages: resident in DRAM, and live on flash.
struct DomainUse {
  uint32_t domain = kDomainDefault;
  uint64_t dram_bytes = 0, flash_bytes = 0;
  uint64_t blocks = 0;  // in the index, those that are away included
};

// By name: who comes into a tier, and who goes first where room is wanted.
struct TierPolicy {
  const char* admission = "";
  const char* eviction = "";
};

class Shard {
 public:
  // `arena_memory` outlives the shard; it is registered with the reactor's io when there is one.
  static Result<std::unique_ptr<Shard>> open(Env& env, Reactor& reactor, ByteSpan arena_memory,
                                             std::vector<flash::TargetInfo> targets,
                                             std::vector<std::unique_ptr<BlockDevice>> devices,
                                             const ShardOptions& options);
  virtual ~Shard() = default;

  virtual void start() = 0;  // recovery begins; serving at once
  // Any thread: the part goes to this shard's mailbox; on_back later runs on part.session_reactor.
  virtual void submit(Part& part) = 0;
  virtual void drain() = 0;  // no new grants; write-behind finished; sealed; checkpointed
  virtual bool drained() const = 0;
  virtual bool recovering() const = 0;
  virtual MetricSnapshot metrics() const = 0;
  // Of every domain that has anything, by rising id (owner core).
  virtual std::vector<DomainUse> domain_use() const { return {}; }
  virtual Reactor& reactor() = 0;
  // Of the operator (owner core). What a look finds stands in server/op/look.h; tiers[i] is of
  // ids[i], whichever home that has: of another one kNone.
  virtual BaseLook look(uint32_t /*domain*/, const BaseId& /*id*/) const { return {}; }
  virtual void look_tiers(uint32_t /*domain*/, std::span<const BaseId> /*ids*/,
                          uint32_t /*rank_count*/, std::span<wire::TierKind> /*tiers*/) const {}
  virtual ShardPolicy policy() const { return {}; }
  virtual void policy_set(const ShardPolicy& /*policy*/) {}
  // Whether repair can move what a target holds: it has a rate, and there are targets to move to.
  virtual bool can_drain() const { return false; }
  // Fixed at the start; any thread. On flash nobody is asked: what is committed is written.
  virtual TierPolicy dram_policy() const { return {}; }
  virtual TierPolicy flash_policy() const { return {}; }
  virtual void draining_set(uint32_t /*target*/, Draining /*draining*/) {}
  // Whether another drive may have the place of a target that has failed: kOk, or why not (yet).
  virtual Status replaceable(uint32_t /*target*/) const {
    return Status::unsupported("this shard replaces nothing");
  }
  // Gives it to this one, when replaceable() (flash::Flash::replace): blank, formatted in this
  // start. Repair fills it.
  virtual Status replace(flash::TargetInfo /*info*/, std::unique_ptr<BlockDevice> /*device*/) {
    return Status::unsupported("this shard replaces nothing");
  }

  // For tests and the simulator's checkers.
  virtual Index& index() = 0;
  virtual DramTier& tier() = 0;
  virtual flash::Flash& flash() = 0;
  virtual bool at_rest() const = 0;  // I6: no op, lease, grant, pin

  // Which shard is the home of an id.
  static uint32_t home(const BaseId& id, uint32_t slices, uint32_t shards) {
    return shard_of_slice(slice_of(id, slices), slices, shards);
  }
};

}  // namespace varve
