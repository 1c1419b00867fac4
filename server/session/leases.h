// Leases: what one session was promised, across homes.
//
// A session lease bundles one lease of each home that pinned something for its MATCH. It ends by
// RELEASE, by its time (the homes' own leases end by the same time) or with the session (GonePart
// at each home).
#pragma once

#include <memory>

#include "server/session/context.h"

namespace varve {

class Leases;

struct SessionLease : ListHook {
  explicit SessionLease(uint32_t shards) : by_shard(shards), releases(new ReleasePart[shards]) {}
  uint64_t id = 0;                // 0: reserved by a match, nothing pinned yet
  std::vector<LeaseId> by_shard;  // 0 = nothing there
  Leases* leases = nullptr;
  Timer timer;
  uint32_t parts_out = 0;
  uint64_t release_op = 0;
  std::unique_ptr<ReleasePart[]> releases;
};

class Leases {
 public:
  explicit Leases(SessionScope& scope) : scope_(scope) {}
  // Room for one lease, before anything is asked; kQuota or kOverloaded.
  Result<SessionLease*> reserve();
  void give_up(SessionLease& lease);  // nothing was pinned
  void activate(SessionLease& lease, Nanos lease_ns);
  // Posts the ReleasePart of one home; `done` runs when parts_out is zero.
  void post_release(SessionLease& lease, uint32_t shard, uint32_t keep_below, Part::Back on_back,
                    void* owner);
  SessionLease* find(uint64_t id);
  void release(uint64_t op, uint64_t id);  // RELEASE
  void end_all();                          // session end: the GoneParts do the rest
  uint32_t count() const { return count_; }

 private:
  static void on_released(Part& part);
  void drop(SessionLease& lease);
  SessionScope& scope_;
  List<SessionLease> active_;
  uint32_t count_ = 0;  // reserved, active and being released
};

}  // namespace varve
