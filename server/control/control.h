// control: the control plane of a node over gRPC (proto/varve/v1/control.proto, ADR-0006).
//
// Owns: the gRPC server, its health service, authority, limits, deadlines and the checks of every
// request; the words of errors at this border; what it counts. It knows no node: all that it asks
// stands in Ingress, in plain structs, which server/node implements. Called by main through
// server/node. Thread rule: Server belongs to main's thread; Ingress and Counts are called by any
// thread of gRPC; nothing here runs on a shard's core or waits for one but through Ingress.
// Invariants:
//   C1 nothing of a request reaches Ingress before token, size, fields, ids and texts were checked,
//      and unknown fields or values are refused (I12).
//   C2 every call ends: by its answer, its limit, or stop().
//   C3 what is refused or fails says cause and remedy, and never the token.
//   C4 health says SERVING exactly while it was told so, and never after stop() began.
//   C5 bounded: connections, what each may ask at once, and how long one is kept.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/base.h"
#include "common/metrics/metrics.h"
#include "common/model/model.h"
#include "common/time/time.h"

namespace varve::control {

// Why a call has no answer.
struct Refusal {
  enum class Kind : uint8_t {
    kByCode,    // as `code` says
    kNotFound,  // there is none of that name or number
    kState,     // not while things are as they are; the text says what to do first
  };
  Code code = Code::kInvalid;
  Kind kind = Kind::kByCode;
  std::string text;  // cause and remedy

  static Refusal not_found(std::string text) {
    return {Code::kInvalid, Kind::kNotFound, std::move(text)};
  }
  static Refusal state(std::string text) {
    return {Code::kUnavailable, Kind::kState, std::move(text)};
  }
  static Refusal of(Code code, std::string text) { return {code, Kind::kByCode, std::move(text)}; }
};

// A value, or why there is none.
template <class T>
class [[nodiscard]] Answer {
 public:
  Answer(T value) : value_(std::move(value)) {}              // NOLINT(google-explicit-constructor)
  Answer(Refusal refusal) : refusal_(std::move(refusal)) {}  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return value_.has_value(); }
  T& operator*() {
    VARVE_ASSERT(value_.has_value());
    return *value_;
  }
  T* operator->() { return &**this; }
  const Refusal& refusal() const {
    VARVE_ASSERT(!value_.has_value());
    return refusal_;
  }

 private:
  std::optional<T> value_;
  Refusal refusal_;
};

// ---- the node

enum class NodeState : uint8_t { kStarting = 1, kRecovering = 2, kServing = 3, kDraining = 4 };

struct NodeStatus {
  std::string version, data_dir, listen, control;
  std::byte node_uuid[16] = {};
  uint64_t boot_id = 0;
  uint32_t boot_generation = 0;
  Nanos uptime_ns = 0;
  NodeState state = NodeState::kStarting;
  std::string why_not_ready;  // empty = ready
  struct Degradation {
    std::string reason, remedy;
  };
  std::vector<Degradation> degraded;
  Scheme scheme;
  uint32_t slices = 0;
  uint64_t sessions = 0, sessions_max = 0;
  Nanos numbers_age_ns = 0;
  struct ShardState {
    std::string io, io_refusal;
    bool answers = true;
  };
  std::vector<ShardState> shards;
  uint64_t match_ids = 0, hits_dram = 0, hits_flash = 0, misses = 0, refused = 0;
  uint64_t errors = 0, timeouts = 0, cancelled = 0;  // of match_ids, as these before
  uint64_t pushed_bytes = 0, pulled_bytes = 0;
  uint64_t committed_blocks = 0, evicted_blocks = 0, lost_blocks = 0, purged_blocks = 0;
  uint64_t repair_blocks_left = 0, repair_done_blocks = 0, repair_rate_bytes_per_s = 0;
  Nanos repair_eta_ns = 0;
};

struct Policy {
  std::string name, value, setting, range, what;
};
struct PolicyChange {
  Policy policy;  // as it is now
  std::string before;
};

// ---- tiers and targets

struct Tier {
  std::string name;
  uint64_t capacity_bytes = 0, used_bytes = 0, reserved_bytes = 0;
  uint64_t blocks = 0, hits = 0, pulled_bytes = 0;
  std::string admission, eviction;  // policies, by name
};

enum class TargetState : uint8_t {
  kOk = 1,
  kSuspect = 2,
  kDraining = 3,
  kDrained = 4,
  kFailed = 5,
  kLost = 6
};

struct Target {
  uint32_t index = 0;
  std::string path;
  std::byte uuid[16] = {};
  TargetState state = TargetState::kOk;
  std::string why;
  uint64_t capacity_bytes = 0, live_bytes = 0, reserved_bytes = 0, free_segments = 0;
  uint64_t fragments = 0, limbo = 0, read_bytes = 0, written_bytes = 0;
  uint32_t shards_ok = 0, shards = 0, shards_suspect = 0;
  bool missed_purges = false;
  bool drained_by_setting = false;
  bool scrub_running = false;
  uint64_t scrub_pass_bytes = 0, scrub_pass_done_bytes = 0, scrub_passes = 0, scrubbed_bytes = 0,
           scrub_rot = 0;
};

// Which target is meant: a number, and to be sure the uuid of it.
struct TargetName {
  uint32_t index = 0;
  bool has_uuid = false;
  std::byte uuid[16] = {};
};
enum class Force : uint8_t { kNo, kYes };

struct ScrubBegun {
  uint32_t begun = 0, running = 0;  // targets
};

// ---- domains

struct Domain {
  std::string name;
  uint32_t id = 0, generation = 0;
  bool has_token = false;
  uint64_t sessions = 0, quota_bytes = 0;
  uint64_t used_bytes = 0, dram_bytes = 0, blocks = 0;  // used: live on flash
};
struct DomainToken {
  Domain domain;
  std::string token;
};

// ---- formats

struct FormatRow {
  Digest fingerprint;
  Format format;
  bool kept = false;  // on disk
  uint64_t matched_ids = 0, hit_ids = 0, pushed_blocks = 0;
};
struct Registered {
  Digest fingerprint;
  bool known_before = false;
  bool kept = false;  // on disk
};

// ---- blocks

enum class BlockState : uint8_t { kAway = 1, kMemory = 2, kFlash = 3 };
enum class TierKind : uint8_t { kNone = 1, kDram = 2, kFlash = 3 };

struct Fragment {
  uint32_t position = 0, target = 0, slice = 0, segment = 0, page = 0, pages = 0, lead_pages = 0;
  bool readable = false;
};
struct Block {
  uint32_t rank = 0;
  BlockState state = BlockState::kFlash;
  bool in_dram = false;
  Attempt attempt;  // none: not known without a drive
  uint64_t dram_bytes = 0;
  uint32_t lacking = 0;
  std::vector<Fragment> fragments;
};
struct FindAsk {
  std::string domain;  // "default" and what else there is, here and below
  BaseId id;
};
struct Found {
  uint32_t shard = 0, slice = 0, leases = 0;
  bool recovering = false;
  std::vector<Block> blocks;
};
struct MatchAsk {
  std::string domain;
  std::vector<BaseId> ids;
  uint32_t rank_count = 1;
};
struct Matched {
  uint32_t length = 0;
  bool recovering = false;
  std::vector<TierKind> tiers;  // one for each id
};

enum class PurgeKind : uint8_t { kBlocks = 1, kLineage = 2, kDomain = 3 };
struct PurgeAsk {
  PurgeKind kind = PurgeKind::kBlocks;
  std::string domain;
  std::vector<BaseId> ids;  // kBlocks
  std::string lineage;      // kLineage: its text
};
struct Purged {
  uint32_t generation = 0;
  uint64_t blocks = 0, bytes = 0;
  Nanos erased_ns = 0;
  bool erased_unknown = false;
};

// ---- holds and sessions

enum class HoldKind : uint8_t { kLease = 1, kReservation = 2, kPull = 3, kFollow = 4 };
struct Hold {
  uint64_t hold = 0;
  HoldKind kind = HoldKind::kLease;
  uint64_t session = 0;
  std::string client;
  Nanos age_ns = 0, left_ns = 0;
  uint64_t bytes = 0;
  uint32_t blocks = 0;
  std::string domain = {};
};
struct Session {
  uint64_t number = 0;  // rises from session to session of a boot
  uint64_t session = 0;
  std::string client, domain, peer;
  Nanos age_ns = 0, quiet_ns = 0;
  uint32_t lanes = 0, formats = 0, requests = 0, leases = 0, reservations = 0;
  bool ending = false;
};

// Rows from `cursor` on, `rows_max` of them at most.
struct PageAsk {
  uint64_t cursor = 0;
  uint32_t rows_max = 0;
};
template <class Row>
struct Page {
  std::vector<Row> rows;
  uint64_t next_cursor = 0;  // 0 = that was all
};

inline constexpr uint32_t kIdsMax = 2048;       // base ids in one request
inline constexpr uint32_t kHoldsPageMax = 256;  // rows in one page
inline constexpr uint32_t kSessionsPageMax = 256;
inline constexpr uint32_t kFormatsPageMax = 256;
inline constexpr uint32_t kDomainsPageMax = 64;
inline constexpr uint32_t kNameBytesMax = 64;  // of domains and policies
inline constexpr uint32_t kPathBytesMax = 4096;

// What the node does for its control plane. Any thread; a call that waits ends within `limit_ns`,
// then with kTimedOut, and once close() was called with kUnavailable, at once. Never throws.
class Ingress {
 public:
  virtual ~Ingress() = default;

  virtual NodeStatus status() = 0;
  virtual Answer<Nanos> drain() = 0;  // the bound of the stop that begins
  virtual std::vector<Policy> policies() = 0;
  virtual Answer<PolicyChange> policy_set(const std::string& name, const std::string& value,
                                          Nanos limit_ns) = 0;

  virtual std::vector<Tier> tiers() = 0;
  virtual std::vector<Target> targets() = 0;
  virtual Answer<Target> target_drain(const TargetName& target, Nanos limit_ns) = 0;
  virtual Answer<Target> target_undrain(const TargetName& target, Nanos limit_ns) = 0;
  virtual Answer<Target> target_fail(const TargetName& target, Force force, Nanos limit_ns) = 0;
  // `path`: empty, or that of the target.
  virtual Answer<Target> target_replace(const TargetName& target, const std::string& path,
                                        Nanos limit_ns) = 0;
  virtual Answer<ScrubBegun> scrub(const std::vector<uint32_t>& targets, Nanos limit_ns) = 0;

  virtual Answer<Page<Domain>> domains(const PageAsk& page, Nanos limit_ns) = 0;
  virtual Answer<DomainToken> domain_create(const std::string& name, uint64_t quota_bytes,
                                            Nanos limit_ns) = 0;
  virtual Answer<DomainToken> domain_rotate(const std::string& name, Nanos limit_ns) = 0;
  virtual Answer<Purged> domain_drop(const std::string& name, Nanos limit_ns) = 0;

  // The format is valid, its encoding is the canonical one.
  virtual Answer<Registered> format_register(const Format& format, Nanos limit_ns) = 0;
  virtual Page<FormatRow> formats(const PageAsk& page) = 0;
  virtual Answer<FormatRow> format(ConstByteSpan fingerprint_begin) = 0;

  virtual Answer<Found> find(const FindAsk& ask, Nanos limit_ns) = 0;
  virtual Answer<Matched> match(const MatchAsk& ask, Nanos limit_ns) = 0;
  virtual Answer<Purged> purge(const PurgeAsk& ask, Nanos limit_ns) = 0;

  virtual Answer<Page<Hold>> holds(const PageAsk& page, Nanos limit_ns) = 0;
  virtual Answer<Page<Session>> sessions(const PageAsk& page, Nanos limit_ns) = 0;
  virtual Answer<bool> session_close(uint64_t session, Nanos limit_ns) = 0;

  virtual void close() = 0;  // every wait ends now, and no new one begins
};

// ---- the server

struct Options {
  std::string address;            // HOST:PORT; port 0: any
  std::string token;              // empty = loopback peers only, and loopback addresses only
  uint32_t calls_max = 16;        // in progress at once; more are refused
  uint32_t connections_max = 32;  // open at once; more are closed
  uint32_t hello_ms_max = 5000;   // until a connection speaks HTTP/2
  uint32_t message_bytes_max = 1024 * 1024;
  Nanos call_ns_max = 30 * kSecond;
  Nanos purge_ns_max = 90 * kSecond;
};

enum class Readiness : uint8_t { kNotReady, kReady };

class Server {
 public:
  // Refused with a sentence that names --control and the remedy. `ingress` and `clock` outlive it.
  static Answer<std::unique_ptr<Server>> open(const Options& options, Ingress& ingress,
                                              const Clock& clock);
  virtual ~Server() = default;                          // after stop(), or nothing was ever asked
  virtual std::string address() const = 0;              // as it listens, with its port
  virtual void readiness_set(Readiness readiness) = 0;  // C4
  // No new calls; those in progress have half of `bound_ns` to end by themselves, then their waits
  // are ended, and what is left of it to answer. Returns when the last one has gone.
  virtual void stop(Nanos bound_ns) = 0;
  virtual MetricSnapshot metrics() const = 0;  // any thread
};

}  // namespace varve::control
