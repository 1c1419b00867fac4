// Leases: what the daemon promised this client to keep, under the numbers that callers know.
//
// One lease of ours stands for one of the daemon's per batch of its match. Owned by Core, used by
// the ops. One thread. Invariants:
//   L1 a lease ends here no later than at the daemon: time is counted from the question, and while
//      a RENEW is unanswered the sooner of both ends counts (I4).
//   L2 one RENEW of a lease at a time: the op in `renewal` asks, others wait for it.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "client/varve.h"

namespace varve {

class Core;

struct ServerLease {
  uint64_t lease = 0;
  std::vector<uint64_t> ids;  // prefixes of what it covers, to find the part again
};
struct ClientLease {  // what one match was promised, over all its batches
  std::vector<ServerLease> parts;
  uint64_t boot_id = 0;
  uint32_t lease_ms = 0;  // as long as it was given for, the last time
  Nanos expires_ns = 0;
  OpId renewal = 0;  // the op that asks for more; 0 = none
  // The one server's lease that covers all of `ids` that any covers; the first one when none does
  // (a pull of other ids), 0 when they lie in several.
  uint64_t part_of(std::span<const BaseId> ids) const;
};

class ClientLeases {
 public:
  explicit ClientLeases(Core& core) : core_(core) {}

  uint64_t add(ClientLease lease);
  // The lease if it is of this session and not over; else null.
  ClientLease* find(uint64_t lease);
  // The same also when it is over, as long as a renewal may bring it back.
  ClientLease* find_any(uint64_t lease);
  Nanos left_ns(uint64_t lease) const;
  bool empty() const;  // none that is not over
  // It should be renewed now if somebody needs it for longer.
  bool is_half_over(uint64_t lease);
  void release(uint64_t lease);
  void release_on_wire(uint64_t server_lease);
  void clear() { leases_.clear(); }  // they went with their session

 private:
  bool is_over(const ClientLease& lease) const;

  Core& core_;
  std::map<uint64_t, ClientLease> leases_;
  uint64_t last_ = 0;
};

}  // namespace varve
