// context: what all sessions of a node share: pools, shards, counters and the one head buffer.
//
// Built once by SessionTable and handed to every part of a session. Thread rule: session shard
// only.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "common/metrics/metrics.h"
#include "common/wire/wire.h"
#include "server/op/part.h"
#include "server/session/domain_metric.h"
#include "server/session/domain_pool.h"
#include "server/session/session.h"
#include "server/shard/shard.h"

namespace varve {

struct PendingMatch;
struct PendingReserve;
struct PendingPull;
struct Grant;
struct SessionLease;
struct PendingFence;
struct PendingPurge;
struct Follow;
class FormatTable;

// What sessions came with, for whoever keeps formats: each once, and no more than are kept.
class FormatNotes {
 public:
  static constexpr uint32_t kKnownMax = 1024;
  static constexpr uint32_t kFreshMax = 64;  // not taken yet; the next look comes within a second
  void note(const SessionFormat& format);
  void known(const Digest& fingerprint);
  void take(std::vector<std::vector<std::byte>>* out);

 private:
  struct Hash {
    size_t operator()(const Digest& digest) const { return digest.prefix64(); }
  };
  std::unordered_set<Digest, Hash> known_;
  std::vector<std::vector<std::byte>> fresh_;
};

// Why a frame closed its session: the label of a counter.
enum class Malformed : uint8_t { kFrame, kLane, kState, kExtent, kCredit, kPayload };
inline constexpr uint32_t kMalformedKinds = 6;
const char* malformed_name(Malformed kind);

// Why an EXTENT payload was received into nothing.
enum class Discarded : uint8_t { kUnknown, kForeign, kFailed };
inline constexpr uint32_t kDiscardedKinds = 3;
const char* discarded_name(Discarded kind);

// What a client moved too slowly, so that it was dropped (N5): the label of a counter.
enum class Slow : uint8_t { kExtent, kData };
inline constexpr uint32_t kSlowKinds = 2;
const char* slow_name(Slow kind);

// What was asked of one format and found: why a match is zero is mostly that nobody pushed under
// this fingerprint.
struct FormatCounts {
  std::string label;
  Counter ids, hits, pushed_blocks;
};

struct SessionMetrics {
  Gauge sessions, lanes, formats, grants, leases, requests;
  Counter opened, closed[kCodeCount];
  Counter links_refused, hellos_refused[kCodeCount];
  Counter malformed[kMalformedKinds];
  Counter slow[kSlowKinds];
  Counter discarded_frames[kDiscardedKinds], discarded_bytes;
  Counter matches, releases, renews, reserves, commits, aborts, pulls, cancels, fences, holds,
      purges, purged_blocks, follows;
  Counter wants;
  Counter follow_blocks[kCodeCount], follow_extents, follow_bytes, follow_waits;
  Counter lost_extents, late_extents, lost_dropped, lost_frames;
  Counter requests_refused[kCodeCount];
  // Of ids asked for: hits + misses (the first and all behind it) + failed, by RequestOutcome.
  Counter match_ids, match_hits_dram, match_hits_flash, match_misses;
  Counter match_failed[kRequestOutcomes];  // of a hit and a miss none
  Counter leases_refused, leases_renewed;
  Counter reservations_expired, leases_expired, pulls_timed_out, corrupt_extents;
  Counter pushed_bytes, pulled_bytes;
  Histogram match_ns, reserve_ns, commit_ns, pull_ns, credit_wait_ns, cancel_ns, fence_ns, purge_ns;
  Histogram follow_ns, renew_ns;
  void register_in(MetricSet& metrics);

 private:
  void register_sessions(MetricSet& metrics);
  void register_requests(MetricSet& metrics);
  void register_pulls(MetricSet& metrics);
  void register_matches(MetricSet& metrics);
  void register_times(MetricSet& metrics);
};

// What a client that drains slowly may teach: a slower rate says no more, and sums stay bounded.
inline constexpr uint64_t kPullNsPerMibMax = 10 * kSecond;

struct SessionContext {
  SessionContext(Reactor& session_reactor, const SessionOptions& session_options,
                 std::vector<Shard*> home_shards);
  ~SessionContext();
  SessionContext(const SessionContext&) = delete;
  SessionContext& operator=(const SessionContext&) = delete;

  uint32_t home_of(const BaseId& id) const {
    return Shard::home(id, options.slices, static_cast<uint32_t>(shards.size()));
  }
  // A head is copied by the link before the next one is encoded.
  wire::Encoder encoder() { return wire::Encoder(head_buffer); }
  // The counters of a fingerprint, in the metrics from its first time on. At most formats_max, then
  // all others share one: a peer chooses fingerprints as it likes (M2: never a name twice).
  FormatCounts& counts_of(const Digest& fingerprint);
  void domains_set(Domains now);
  void post_to_home(const PullPart& part, Message& message) {
    (part.shard == kHere ? reactor : shards[part.shard]->reactor()).post(message);
  }
  static constexpr uint32_t kHere = ~0u;  // the shard of a part that stands for this core

  Reactor& reactor;
  const SessionOptions options;
  const std::vector<Shard*> shards;
  std::vector<std::byte> head_buffer;
  // Of heads behind HELLO; what the listener's links were made with.
  uint32_t link_head_bytes_max = kHeadBytesMax;
  // A peer can cause each of these lines as often as it likes.
  LogLimit opened_log{kSecond}, ended_log{kSecond}, format_log{kSecond},
      refused_format_log{kSecond};
  SessionMetrics metrics;
  Domains domains;
  DomainMetrics domain_metrics;
  MetricSet* metric_set = nullptr;  // where `metrics` are registered
  std::vector<std::unique_ptr<FormatCounts>> format_counts;
  std::unique_ptr<FormatTable> formats;
  FormatNotes format_notes;
  uint64_t session_last = 0;  // their numbers
  std::unique_ptr<DomainPool<PendingMatch>> matches;
  std::unique_ptr<DomainPool<PendingReserve>> reserves;
  std::unique_ptr<DomainPool<PendingPull>> pulls;
  std::unique_ptr<DomainPool<Grant>> grants;
  std::unique_ptr<DomainPool<SessionLease>> leases;
  std::unique_ptr<DomainPool<PendingFence>> fences;
  std::unique_ptr<Pool<PendingPurge>> purges;
  std::vector<PendingPurge*> purges_waiting;  // of those, in their order
  bool raising = false;                       // a purge of a lineage or a domain is under way
  std::unique_ptr<DomainPool<Follow>> follows;
  std::vector<wire::LostExtent> lost_rows;  // of one LOST
  std::vector<SessionHold> hold_rows;       // of one HELD, or of a page of the operator's
  std::vector<wire::Hold> held;             // the same, as HELD has them
  // Never reused within a boot.
  uint64_t lease_last = 0;
  uint64_t hold_last = 0;
  uint64_t pull_part_last = 0;
  // Mean of recent pulls, for the estimates of MATCHED: 1 GiB/s until something was measured.
  uint64_t pull_ns_per_mib = kSecond / 1024;  // at most kPullNsPerMibMax
};

// What the parts of one session share.
struct SessionScope {
  SessionScope(SessionContext& session_context, Task& session_task)
      : context(session_context), task(session_task) {}
  // Answers on the urgent lane; nothing once the session ends. A full queue fails the session (N5).
  void reply(ConstByteSpan head);
  // Notes that the session must end; the first cause counts.
  void fail(Status cause);
  void fail_malformed(Malformed kind, Status cause);
  void fail_slow(Slow kind, Status cause);
  // Something that the session held is gone: it looks again whether it is at rest.
  void something_ended() { context.reactor.make_ready(task); }
  // Whose the part is: what it holds at a home, and what it may see there.
  void sign(Part& part) const {
    part.session = id;
    part.domain = domain;
  }
  bool over() const { return ending || !failure.ok(); }

  SessionContext& context;
  Task& task;
  uint64_t id = 0;
  uint32_t domain = kDomainDefault;
  uint64_t features = 0;           // that both ends know
  DomainCounts* counts = nullptr;  // of it, for a session
  class Lane* urgent = nullptr;
  std::string client;  // its name, printable
  bool ending = false;
  Status failure;
};

}  // namespace varve
