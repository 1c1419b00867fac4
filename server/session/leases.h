// Leases: what one session was promised, across homes.
//
// A session lease bundles one lease of each home that pinned something for its MATCH. RENEW makes
// all of them last longer or ends them all. It ends by RELEASE, by its time (the homes' own leases
// end by the same time) or with the session (GonePart at each home).
#pragma once

#include <memory>

#include "server/session/context.h"

namespace varve {

class Leases;

struct SessionLease : ListHook {
  explicit SessionLease(uint32_t shards)
      : by_shard(shards), releases(new ReleasePart[shards]), renewals(new RenewPart[shards]) {}
  uint64_t id = 0;                // 0: reserved by a match, nothing pinned yet
  std::vector<LeaseId> by_shard;  // 0 = nothing there
  Leases* leases = nullptr;
  uint64_t hold = 0;   // its number among all holds
  uint64_t bytes = 0;  // of the blocks under it, all ranks
  uint32_t count = 0;  // of base ids
  Nanos began_ns = 0, until_ns = 0;
  Timer timer;
  uint32_t parts_out = 0;
  bool renewing = false;        // the parts out are renewals; the timer does not run
  bool release_wanted = false;  // RELEASED is owed
  uint64_t release_op = 0, renew_op = 0;
  uint32_t renew_ms = 0;
  Nanos renew_began_ns = 0;
  std::unique_ptr<ReleasePart[]> releases;
  std::unique_ptr<RenewPart[]> renewals;
};

class Leases {
 public:
  explicit Leases(SessionScope& scope) : scope_(scope) {}
  // Room for one lease, before anything is asked; kQuota or kOverloaded.
  Result<SessionLease*> reserve();
  void give_up(SessionLease& lease);  // nothing was pinned
  struct Cover {
    uint32_t count = 0;  // of base ids
    uint64_t bytes = 0;
    Nanos lease_ns = 0;
  };
  void activate(SessionLease& lease, const Cover& cover);
  // Posts the ReleasePart of one home; `done` runs when parts_out is zero.
  void post_release(SessionLease& lease, uint32_t shard, uint32_t keep_below, Part::Back on_back,
                    void* owner);
  SessionLease* find(uint64_t id);
  void release(uint64_t op, uint64_t id);                   // RELEASE
  void renew(uint64_t op, uint64_t id, uint32_t lease_ms);  // RENEW
  void end_all();  // session end: the GoneParts do the rest
  const SessionScope& scope() const { return scope_; }
  uint32_t count() const { return count_; }

 private:
  void arm(SessionLease& lease, Nanos lease_ns);
  void release_all(SessionLease& lease);
  static void on_released(Part& part);
  static void on_renewed(Part& part);
  void merge_renewed(SessionLease& lease);
  void answer_renew(uint64_t op, Code code, uint32_t lease_ms);
  void drop(SessionLease& lease);
  SessionScope& scope_;
  List<SessionLease> active_;
  uint32_t count_ = 0;  // reserved, active and being released
};

}  // namespace varve
