// session: one client's lanes on this node, from bytes to parts and back.
//
// Owns: the listener's links until they said HELLO, sessions (urgent lane + up to 4 bulk lanes),
// registered formats, requests in flight and their merging, grants lent to it, pull credit,
// deadlines of reservations, session leases, the list of all holds. Called by main (SessionTable).
// Thread rule: the session shard only. Invariants:
//   N1 no frame from a peer reaches an assert; a bad frame closes its session with a typed cause
//   (I12). N2 nothing is answered before authentication; without a token only loopback peers are
//   served. N3 when a lane goes, the whole session goes: its pulls are cancelled, its grants
//   aborted once no
//      receive is in flight into their slabs, its leases released; zero is left (I6).
//   N4 limits per session and in sum: sessions, lanes, formats, requests, grants, pulls, leases,
//   fences, follows, credit. N5 a slow or silent client is dropped: handshake_ms_max, idle
//   ping/pong, stall of a lane (F5), drain_stall_ms_max.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/env/env.h"
#include "common/metrics/metrics.h"
#include "server/op/part.h"
#include "server/shard/shard.h"
#include "server/tenant/tenant.h"

namespace varve {

struct SessionOptions {
  // At the start; a default one without a token: loopback peers only.
  Domains domains;
  Digest node;
  uint64_t boot_id = 0;
  uint64_t epoch = 1;
  uint32_t slices = kSlicesDefault;
  uint32_t sessions_max = 256;             // --sessions; what one costs: docs/OPERATIONS.md
  uint32_t lanes_unnamed_max = 64;         // accepted, HELLO not yet seen
  uint32_t formats_max = 256;              // in sum
  uint64_t formats_bytes_max = 64 * kMiB;  // in sum, with their extent tables
  uint32_t requests_max = 256;             // per session in flight
  uint32_t attempts_max = 256;             // per session, live
  uint32_t pulls_max = 64;                 // per session
  uint32_t leases_max = 256;               // per session
  uint32_t fences_max = 1024;              // per session: CANCELs of extents without their FENCED
  // In sum over all sessions: the pools made at start (70 KiB a match, 110 KiB a pull, 130 KiB a
  // reserve).
  // Each takes what one session may have in flight, so that a client alone is never overloaded.
  uint32_t matches_sum_max = 256;
  uint32_t reserves_sum_max = 256;
  uint32_t pulls_sum_max = 256;
  uint32_t grants_sum_max = 4096;
  uint32_t leases_sum_max = 4096;
  uint32_t fences_sum_max = 8192;
  uint32_t follows_sum_max = 32;  // 190 KiB each; in one session they count as pulls
  // Under way on a node at once, one of them kept for the operator's; others wait. The clients of
  // a domain have a share of this many, waiting or not (72 KiB each, made at start).
  uint32_t purges_sum_max = 4;
  uint32_t purge_ms_max = 60000;
  uint32_t handshake_ms_max = 5000;
  uint32_t idle_ms_max = 60000;  // no frame at all: ping at half of it, close at the end
  uint32_t reserve_ms_max = 60000;
  uint32_t lease_ms_max = 60000;
  uint32_t pull_ms_max = 600000;  // longer deadlines count as this
  uint32_t drain_ms = 10000;      // said in GOODBYE
  // N5: what is still under way for an attempt that ended, or a pull that was stopped, has this
  // long, and a pull a second more for every lane_rate_bytes_min on the lanes. Then the session
  // goes, because only the fences of its lanes give the memory back.
  uint32_t drain_stall_ms_max = 5000;
  uint64_t lane_rate_bytes_min = 4 * kMiB;
  uint64_t credit_bytes_max = 256 * kMiB;
  uint64_t credit_bytes_min = 4 * kMiB;  // a HELLO with less is refused: one window must fit
  Scheme scheme;                         // of the node's targets; every extent table is of it
  // The least of all shards: a format with a larger block is refused when it is registered.
  uint32_t fragment_pages_max = ~0u;
  uint64_t push_bytes_max = ~uint64_t{0};
};

// A client as the operator sees it.
struct SessionRow {
  uint64_t number = 0;  // rises from session to session of a boot
  uint64_t id = 0;
  uint32_t domain = kDomainDefault;
  std::string client, peer;  // printable; its address
  Nanos age_ns = 0, quiet_ns = 0;
  uint32_t lanes = 0, formats = 0, requests = 0, leases = 0, grants = 0;
  bool ending = false;
};

// Of any session.
struct SessionHold {
  wire::Hold hold;
  uint32_t domain = kDomainDefault;
};

// A purge that no session asks for. Lives with its owner until on_done, which comes once, maybe
// inside purge(); with kTimedOut it goes on behind it.
struct NodePurge {
  wire::PurgeKind what = wire::PurgeKind::kBlocks;
  uint32_t domain = kDomainDefault;
  uint64_t lineage = 0;     // kLineage: xxh3 of its text
  std::vector<BaseId> ids;  // kBlocks: 1 .. kIdsMax
  wire::Purged answer;      // out
  void (*on_done)(NodePurge&) = nullptr;
  void* owner = nullptr;
};

class SessionTable {
 public:
  // Destroyed at rest by main; at any moment by the simulator, whose kill leaves nothing running.
  static Result<std::unique_ptr<SessionTable>> open(Env& env, Reactor& reactor,
                                                    std::vector<Shard*> shards,
                                                    const SessionOptions& options);
  virtual ~SessionTable() = default;
  virtual Status listen(const std::string& address, const LinkOptions& link) = 0;
  virtual std::string address() const = 0;
  virtual void drain() = 0;  // GOODBYE to all, no new sessions
  virtual void close_all(Status cause) = 0;
  virtual bool at_rest() const = 0;  // no session, no lane, no request
  virtual uint32_t session_count() const = 0;
  virtual void register_metrics(MetricSet& metrics) = 0;

  // --- of the operator
  // At most `rows_max` rows, from `cursor` on, in rising order; answers where the next page begins,
  // 0 when there is none.
  virtual uint64_t list_holds(uint64_t cursor, uint32_t rows_max,
                              std::vector<SessionHold>* rows) = 0;
  virtual uint64_t list_sessions(uint64_t cursor, uint32_t rows_max,
                                 std::vector<SessionRow>* rows) = 0;
  virtual bool close_session(uint64_t id, Status cause) = 0;  // false: there is none
  // From now on HELLO knows these. Sessions of others end; those of a domain whose token changed
  // stay.
  virtual void domains_set(Domains domains) = 0;
  virtual void purge(NodePurge& purge) = 0;
  // Formats, as they are encoded, that sessions came with and nobody has taken yet; each is given
  // out once in a boot, unless it was said to be known.
  virtual void take_formats(std::vector<std::vector<std::byte>>* out) = 0;
  virtual void format_known(const Digest& fingerprint) = 0;
  // Why a session that comes with it would be refused, with the remedy; empty: it would not.
  virtual std::string format_problem(const Format& format) const = 0;
};

}  // namespace varve
