// varve.h: the C++ client of Varve.
//
// Two layers. ClientCore runs on a given Reactor, one thread, no locks: for embedding and the
// simulator. Client owns a thread with a reactor and a ClientCore; its calls may come from any
// thread, never block (but wait/quiesce, which say so), and completions are polled, with one
// eventfd for all of them.
// Units: bytes, nanoseconds (durations), tokens are u32. Errors: Status for the call, Code per
// block. No exceptions. Data operations never fail the process: a lost daemon is kUnavailable on
// the op, the session reconnects in the background, match answers zero blocks meanwhile (a miss
// with its reason). A match, pull or follow whose session is lost under way is asked once more.
// Invariants:
//   C1 a delivered layer has been verified, every byte (I1).
//   C2 after quiesce(op) returned, or after the op's terminal event, nothing touches the caller's
//      memory for it (I8).
//   C3 every op ends with exactly one terminal event within its deadline + fence_ns_max; a deadline
//      counts as at most a day.
//   C4 layers of a pull are completed in order.
//   C5 a block that is followed counts only once its follow said kOk: what came of it before is
//      verified, but nothing that was stored.
// Pace. The daemon names its limits when it greets (pulls and attempts of a session); ops beyond
// them wait in the client, not at the daemon: pulls in order of when their first layer is due, the
// others in order of submission. What the daemon refuses for now (overloaded, quota) or finds busy
// is asked again after 1 ms, doubling up to 100 ms, until the op's deadline. A deadline thus counts
// from the submit, the wait in line included.
// Leases. A lease lasts as long as its match said (lease_ns) or its last renew, and ends with its
// session. While a pull that names it is in the client it is renewed by itself, for as long as
// before, whenever half of that has passed; of 100 ms and longer, so that there is time for it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "common/base/base.h"
#include "common/env/env.h"
#include "common/fabric/address.h"
#include "common/model/model.h"
#include "common/wire/wire.h"

namespace varve {

struct ClientOptions {
  // "host:port". A number is used as it is, a name kept: Client looks it up in the background,
  // again when a session is lost or does not come about, and tries each of its numbers in turn.
  // ClientCore takes names only from an owner who looks them up (Names): a lookup would stop its
  // reactor.
  std::string address = "127.0.0.1:7440";
  std::string token;            // bearer token; needed beyond loopback
  std::string name = "client";  // shown to operators
  uint32_t bulk_lanes = 1;      // 1 .. 4
  uint64_t pull_credit_bytes = 64 * kMiB;
  // Parity on its way out, when the daemon codes. Full: pushes wait until some of it has left.
  // At least 1 MiB; beyond 16 MiB no more of it can be under way.
  uint64_t parity_scratch_bytes = 16 * kMiB;
  // Sources and outcomes of rebuilding what a pull was told is lost. Full: the losses behind wait.
  // 56 MiB (the largest stripe of the widest scheme) to 128 MiB.
  uint64_t rebuild_scratch_bytes = 64 * kMiB;
  // Copies of what is pushed from buffers outside of every region. Full: pushes wait until some of
  // it has left. 1 MiB to 1 GiB; 0: such buffers are refused, of pulls too.
  uint64_t bounce_bytes = 16 * kMiB;
  // Both become resident as a whole when the first session with a daemon that codes begins; false:
  // page by page as they are used, in the time of the pulls and pushes that use them first.
  bool populate_scratch = true;
  // What is only late may be asked for otherwise, for this share of the pulled bytes at most (and 8
  // MiB to begin with); beyond it, it is waited for. 0 = always.
  uint32_t hedge_percent = 5;
  uint32_t ops_max = 256;
  // After so many in a row of matches and pulls that timed out, or these and pushes that were
  // unavailable, a match is answered with zero blocks at once, but for one in every
  // breaker_probe_ns, until one is answered or a session begins. 0 = never.
  uint32_t breaker_failures = 0;
  Nanos breaker_probe_ns = 1 * kSecond;
  Nanos connect_ns_max = 2 * kSecond;
  Nanos reconnect_ns_min = 50 * kMillisecond;  // doubles up to
  Nanos reconnect_ns_max = 2 * kSecond;
  Nanos lookup_ns_min = 10 * kSecond;     // between two lookups of a name
  Nanos fence_ns_max = 1 * kSecond;       // CANCEL without FENCED: the lanes are closed
  Nanos ping_interval_ns = 10 * kSecond;  // silence of two intervals: the session is lost
  LinkOptions link;
};

using OpId = uint64_t;      // 0 = none; never reused by one client
using RegionId = uint32_t;  // 0 = none
using FormatId = uint32_t;  // 0 = none; stays valid across reconnects

inline constexpr size_t kIdExtrasBytesMax = 4096;  // beside the tokens of one run, in its base id

// Where the bytes of a layer of a block lie in the caller's memory: paged KV.
// Slot s of layer l begins at region + offset + s * stride; its bytes are `segments` equal pieces,
// piece p at + p * segment_stride (segments = 1: contiguous). Their sum is the layer's bytes.
struct LayerLayout {
  RegionId region = 0;
  uint64_t offset = 0;
  uint64_t stride = 0;
  uint32_t segments = 1;
  uint64_t segment_stride = 0;
};
// Or where they lie as one list of addresses, block by block: layer l of slot s is
// buffers[s * layers + l], of exactly the layer's bytes. One that does not lie in one registered
// region as a whole bounces: lanes see a copy of its bytes, in memory of the client's, and the
// caller's is touched by the client's thread only. That costs a copy and changes no rule: bytes to
// push are copied when their turn comes, some time before the terminal event; pulled ones before
// their layer is told of; and none after the terminal event (C2).
struct LayerBuffer {
  void* data = nullptr;
  uint64_t bytes = 0;
};
struct Layout {
  std::vector<LayerLayout> layers;   // as many as the rank's layers; or empty, and
  std::vector<LayerBuffer> buffers;  // as many as the rank's layers for each slot
};

// kEach: of each id whether it is there, whatever is missing before it. Without a lease.
using wire::MatchOf;

struct MatchRequest {
  FormatId format = 0;
  std::vector<BaseId> ids;  // in prefix order; any length, sent in batches of wire::kIdsMax
  MatchOf of = MatchOf::kPrefix;
  uint32_t lease_ms = 0;  // 0 = no lease
  Nanos deadline_ns = 1 * kSecond;
  uint64_t tag = 0;
};
struct PullRequest {
  FormatId format = 0;
  uint32_t rank = 0;
  // 1 .. wire::kIdsMax; with a lease, of one batch of its match (each wire::kIdsMax ids from the
  // match's first): a pull over several is kInvalid, as no one lease of the daemon covers it.
  std::vector<BaseId> ids;
  std::vector<uint32_t> slots;  // per id: slot in `layout`
  // Outlives the op. Bytes handed over stay as they are until the terminal event: what is lost may
  // be rebuilt from them.
  const Layout* layout = nullptr;
  uint32_t layer_first = 0, layer_count = 0;  // 0 = all from layer_first
  uint64_t lease = 0;                         // from MatchResult; 0 = best effort
  Nanos deadline_ns = 10 * kSecond;
  Nanos slack_ns = 0;  // first layer wanted in; 0 = as soon as possible
  Nanos layer_ns = 0;  // time between layers
  uint64_t tag = 0;
};
// Ids are reserved in prefix order, in windows of what the daemon lets a session hold. A block that
// is refused for now stops what comes behind it, so that no blocks are stored that a match cannot
// reach; a busy one (another writer has it, or it is not durable yet) does not, and is asked for
// again until it exists or is granted. What is still refused at the deadline ends with the code of
// that refusal (kOverloaded, kQuota, kUnavailable for busy) and the op with kTimedOut. kNoSpace is
// final, and ends what is not granted yet behind its block likewise; kUnsupported and other codes
// are final for their block. A push whose session is lost is not sent again: it ends with the cause
// (kUnavailable as a rule), blocks that were acknowledged before stay kOk, of the others it is
// unknown whether they were stored. Pushing again is safe and cheap.
struct PushRequest {
  FormatId format = 0;
  uint32_t rank = 0;
  BaseId parent;            // of ids[0]; zero = first
  std::vector<BaseId> ids;  // in prefix order, 1 .. wire::kIdsMax
  std::vector<uint32_t> slots;
  const Layout* layout = nullptr;  // outlives the op; bytes stay unchanged until the terminal event
  wire::AckKind ack = wire::AckKind::kDurable;
  Nanos deadline_ns = 30 * kSecond;  // of several pushes the one due first sends first
  uint64_t tag = 0;
};

// One block of a push under way: what another process needs to follow it. 48 bytes as they lie in
// memory (little-endian), to be handed over by whatever way the two have; good for the daemon that
// granted it.
struct FollowTag {
  BaseId id;
  Attempt attempt;
  bool operator==(const FollowTag&) const = default;
};
static_assert(sizeof(FollowTag) == 48 && std::is_trivially_copyable_v<FollowTag>);
// A pull of what somebody still pushes: each layer comes as soon as it was pushed, in order. All
// rules of a pull hold, but that what is only late is waited for, never asked for otherwise. Its
// end says how the push of each block ended, and only kOk counts (C5).
struct FollowRequest {
  FormatId format = 0;
  uint32_t rank = 0;
  std::vector<FollowTag> blocks;              // 1 .. wire::kIdsMax; from Event::granted of the push
  std::vector<uint32_t> slots;                // per block: slot in `layout`
  const Layout* layout = nullptr;             // outlives the op; as of a pull
  uint32_t layer_first = 0, layer_count = 0;  // 0 = all from layer_first
  Nanos deadline_ns = 30 * kSecond;
  Nanos slack_ns = 0;  // as of a pull
  Nanos layer_ns = 0;
  uint64_t tag = 0;
};
// The lease lasts `lease_ms` from now, sooner or later than before; the daemon caps it.
struct RenewRequest {
  uint64_t lease = 0;     // from the event of a match
  uint32_t lease_ms = 0;  // at least 1
  Nanos deadline_ns = 1 * kSecond;
  uint64_t tag = 0;
};
struct HoldsRequest {
  Nanos deadline_ns = 5 * kSecond;
  uint64_t tag = 0;
};
// Ends blocks (every rank of each id), all that was committed of the lineage of a format, or the
// whole domain: from the answer on none of it is found, and none comes back after any restart.
// Leases do not protect from it. Unlike other ops it goes on at the daemon when this one ends
// early; asking again is safe.
struct PurgeRequest {
  wire::PurgeKind kind = wire::PurgeKind::kBlocks;
  FormatId format = 0;      // kLineage: whose
  std::vector<BaseId> ids;  // kBlocks: 1 .. wire::kIdsMax
  Nanos deadline_ns = 90 * kSecond;
  uint64_t tag = 0;
};
struct PurgeResult {
  uint32_t generation = 0;         // the new one of the lineage or the domain
  uint64_t blocks = 0, bytes = 0;  // unreachable from now on
  // Estimate: when the last of it is overwritten or discarded; 0 nothing was there, ~0 unknown.
  Nanos erased_ns = 0;
};
// What a session of the same domain, any client's, keeps from being evicted, or reserved.
struct HoldRow {
  uint64_t session = 0;
  uint64_t number = 0;  // rises over all holds of a boot
  std::string name;     // of the client, its first 48 bytes as it gave them: escape before showing
  wire::HoldKind kind = wire::HoldKind::kLease;
  Nanos age_ns = 0, left_ns = 0;  // left 0: it is ending
  uint64_t bytes = 0;
  uint32_t blocks = 0;
};

struct Event {
  enum class Kind : uint8_t {
    kMatched,  // terminal of match
    // push, after each answer that brought news, none when there was none: codes[] per block: kOk
    // wanted, kCancelled exists already, kOverloaded no final answer yet (it waits its turn or is
    // asked for again), else why not. Layers need not wait for it.
    kReserved,
    // pull, follow: layer `layer` of every block whose code is still kOk is in place, verified
    kLayer,
    kPulled,  // terminal: codes[] per block
    kPushed,  // terminal: codes[] per block (kOk: acknowledged as asked, or existed)
    // Terminal of follow: codes[] per block: kOk committed, and all of it is here; kCancelled its
    // push was aborted or its commit failed; kTimedOut its push did not end in its time;
    // kUnavailable no such attempt there (it ended before, or the block is another's); others as of
    // a pull. When the op itself ends early, the code of `status`: how the pushes ended is unknown.
    kFollowed,
    // Terminal of renew: lease_ns, what is left. kTimedOut: the lease is over, nothing of it is
    // held any more, or (lease_ns above 0) no answer came and the sooner of both ends counts.
    kRenewed,
    kHolds,  // terminal: holds[]
    // Terminal of purge: purged. kUnavailable, kTimedOut: some of it may be unreachable already.
    kPurged,
  };
  Kind kind = Kind::kMatched;
  OpId op = 0;
  uint64_t tag = 0;
  // Of the whole op; kOk with per-block failures is possible. A match of zero blocks with kOk is a
  // miss (a preliminary one while `recovering`); otherwise this says why: kUnsupported (the daemon
  // cannot hold the format), kUnavailable or what else cost the session, kOverloaded and kQuota
  // (asked again, and refused until the deadline), kTimedOut (no answer until then).
  Status status;
  uint32_t layer = 0;
  std::vector<Code> codes;
  std::vector<FollowTag> granted;  // kReserved: those granted since the last one of this op
  std::vector<HoldRow> holds;      // in order of their numbers
  PurgeResult purged;
  // match; lease_ns of renew too. Of MatchOf::kEach: how many are there; codes[] per id, kOk or
  // kUnavailable (not there), the code of `status` when that is not kOk; and tiers[] per id.
  uint32_t n_blocks = 0;
  uint64_t lease = 0;
  Nanos lease_ns = 0;
  std::vector<wire::TierKind> tiers;
  bool recovering = false;  // the daemon still reads its targets: more may be found later
  Nanos first_layer_ns_estimate = 0, last_layer_ns_estimate = 0;
  // times since submit, for planning and benchmarks
  Nanos first_layer_ns = 0, done_ns = 0;
  uint64_t bytes = 0;
  // kPulled, kFollowed: where the daemon had what it sent, wire::tier_bit of each tier, and
  // kTierRebuilt when some was rebuilt here from the rest of its stripe. None: nothing was sent, or
  // the daemon does not tell.
  static constexpr uint8_t kTierRebuilt = 1;
  uint8_t tier_mask = 0;
};
static_assert((Event::kTierRebuilt & wire::kTierBits) == 0);

enum class SessionState : uint8_t { kConnecting, kReady, kWaiting, kClosed };

struct ClientCounters {
  uint64_t matches = 0, match_ids = 0, hit_ids = 0;
  uint64_t pulls = 0, pulled_blocks = 0, pulled_bytes = 0, failed_blocks = 0, corrupt_extents = 0;
  uint64_t follows = 0, followed_blocks = 0, followed_bytes = 0;  // blocks: kOk; not among pulled_*
  uint64_t renewed_leases = 0, lapsed_leases = 0;  // by request or itself; found to be over
  uint64_t pushes = 0, pushed_blocks = 0, pushed_bytes = 0, existing_blocks = 0, refused_blocks = 0;
  uint64_t parity_bytes = 0;                        // sent besides pushed_bytes
  uint64_t parity_waits = 0;                        // pushes that found parity_scratch_bytes full
  uint64_t rebuilt_extents = 0, rebuilt_bytes = 0;  // lost or late ones, from the rest of a stripe
  uint64_t hedges = 0;                              // late extents that were asked for otherwise
  uint64_t hedges_won = 0;                          // of them: rebuilt before the original came
  uint64_t hedges_refused = 0;  // not asked for: beyond the budget, no scratch, no sources left
  uint64_t hedged_bytes = 0;    // asked for by hedges
  uint64_t retries = 0;         // pauses before an op asked again what was refused or busy
  uint64_t retried_blocks = 0;  // ids of pushes that were asked for again
  // Sessions whose node or salt was not that of the session before: cached base ids miss.
  uint64_t identity_changes = 0;
  uint64_t connects = 0, disconnects = 0, timeouts = 0, cancels = 0, discarded_bytes = 0;
  // The breaker: how often it opened, matches that it answered, probes that it let through.
  uint64_t breaker_opens = 0, breaker_answers = 0, breaker_probes = 0;
  // Buffers outside of every region: ops with some, bytes that were copied on their way, pushes
  // that found bounce_bytes full.
  uint64_t bounced_ops = 0, bounced_bytes = 0, bounce_waits = 0;
};

// Whether ClientOptions::address is for the fabric as it is, or a name whose numbers the core's
// owner finds (ClientCore::take_lookup).
enum class Names : uint8_t { kAsGiven, kLookedUp };

// One thread. Submits answer an OpId at once, or a Status when the request itself is wrong or a
// limit is hit.
class ClientCore {
 public:
  static Result<std::unique_ptr<ClientCore>> open(Env& env, Reactor& reactor,
                                                  const ClientOptions& options,
                                                  Names names = Names::kAsGiven);
  virtual ~ClientCore() = default;

  // Registered with the daemon in the background.
  virtual Result<FormatId> format(const Format& format) = 0;
  virtual Result<RegionId> register_memory(void* data, uint64_t bytes) = 0;
  virtual Status unregister_memory(RegionId region) = 0;  // refused while an op uses it
  // Base ids need the domain's salt, known once connected (kUnavailable before). Chains on
  // `parent`. They are good for that salt only: when the daemon comes back with another one
  // (counters().identity_changes, and a warning in the log), ids of before miss for ever and are to
  // be computed anew. `extras`: what else the KV of each whole run depends on; none, or one a run.
  virtual Result<std::vector<BaseId>> base_ids(FormatId format, const BaseId& parent,
                                               std::span<const uint32_t> tokens,
                                               std::span<const ConstByteSpan> extras = {}) = 0;
  // Of a run that the engine has a stable content hash of, chained over the prefix: 16 to 64 bytes.
  virtual Result<BaseId> base_id_of_hash(FormatId format, ConstByteSpan hash) = 0;

  virtual Result<OpId> match(MatchRequest request) = 0;
  virtual Result<OpId> pull(PullRequest request) = 0;
  virtual Result<OpId> follow(FollowRequest request) = 0;
  virtual Result<OpId> push(PushRequest request) = 0;  // reserves; then layers:
  // The bytes of `layer` of all blocks are final: they leave now. Any order; kEvery = all layers.
  // kInvalid: no push, or no such layer; the op goes on. Of one that has ended it does nothing: its
  // event says why.
  static constexpr uint32_t kEveryLayer = ~0u;
  virtual Status push_layer(OpId op, uint32_t layer) = 0;
  // After the last layer the op commits by itself. Abort: terminal event kCancelled.
  virtual void cancel(OpId op) = 0;
  virtual Result<OpId> renew(RenewRequest request) = 0;
  virtual void release(uint64_t lease) = 0;
  virtual Nanos lease_left_ns(uint64_t lease) const = 0;  // 0: it is over, or none of ours
  // What all sessions of our domain hold: for tools. Not in one instant: what began or ended
  // meanwhile may be missing.
  virtual Result<OpId> holds(HoldsRequest request) = 0;
  virtual Result<OpId> purge(PurgeRequest request) = 0;

  virtual bool next_event(Event& out) = 0;  // false: none
  // `task` is made ready whenever there is an event, a new state, a lookup to be made, or rest.
  virtual void notify(Task& task) = 0;
  // Names::kLookedUp: true when the address is to be looked up, once for each lookup; ask when
  // notified. Answer by looked_up(), or never; until the first answer there is no session.
  virtual bool take_lookup() = 0;
  virtual void looked_up(Result<std::vector<std::string>> numbers) = 0;
  virtual bool done(OpId op) const = 0;  // terminal event made (or op unknown): C2 holds
  virtual SessionState state() const = 0;
  virtual Status last_error() const = 0;  // why not ready
  // The same for people: with the address, errno and what the daemon said when it refused.
  virtual std::string last_error_text() const = 0;
  virtual void close() = 0;          // cancels everything; state() becomes kClosed when quiet
  virtual bool at_rest() const = 0;  // no op, no lease, no receive in flight; closed: no lane
  virtual const ClientCounters& counters() const = 0;
};

// Sees every event on the client's thread before poll() and wait() can. Must not block, nor call
// what waits for that thread.
class EventWatch {
 public:
  virtual ~EventWatch() = default;
  enum class Queue : uint8_t { kYes, kNo };  // for poll() and wait(), or only seen here
  virtual Queue on_event(const Event& event) = 0;
};

class Client {
 public:
  // Starts the thread; looks a name in the address up and connects in the background; never fails
  // because the daemon is down or its name has no address yet, only for options that can never
  // work. `watch` outlives the client. `resolver`: for names; null = the system's.
  static Result<std::unique_ptr<Client>> open(const ClientOptions& options,
                                              EventWatch* watch = nullptr,
                                              std::unique_ptr<Resolver> resolver = nullptr);
  // Cancels, quiesces, joins; bounded by fence_ns_max + 1 s. A lookup that stands still is not
  // waited for: its thread ends by itself when its resolver does.
  virtual ~Client() = default;

  virtual Status wait_ready(Nanos timeout_ns) = 0;  // blocks
  virtual Result<FormatId> format(const Format& format) = 0;
  virtual Result<RegionId> register_memory(void* data, uint64_t bytes) = 0;
  virtual Status unregister_memory(RegionId region) = 0;
  virtual Result<std::vector<BaseId>> base_ids(FormatId format, const BaseId& parent,
                                               std::span<const uint32_t> tokens,
                                               std::span<const ConstByteSpan> extras = {}) = 0;
  virtual Result<BaseId> base_id_of_hash(FormatId format, ConstByteSpan hash) = 0;
  virtual Result<OpId> match(MatchRequest request) = 0;
  virtual Result<OpId> pull(PullRequest request) = 0;
  virtual Result<OpId> follow(FollowRequest request) = 0;
  virtual Result<OpId> push(PushRequest request) = 0;
  virtual Status push_layer(OpId op, uint32_t layer) = 0;
  virtual void cancel(OpId op) = 0;
  virtual Status quiesce(OpId op, Nanos timeout_ns) = 0;  // blocks; C2
  virtual Result<OpId> renew(RenewRequest request) = 0;
  virtual void release(uint64_t lease) = 0;
  virtual Nanos lease_left_ns(uint64_t lease) const = 0;
  virtual Result<OpId> holds(HoldsRequest request) = 0;
  virtual Result<OpId> purge(PurgeRequest request) = 0;

  virtual int event_fd() const = 0;  // readable when poll() has something
  virtual bool poll(Event& out) = 0;
  // Blocks until the terminal event of `op` and takes it, with what is left of the op's earlier
  // events; the events of other ops stay queued.
  virtual Result<Event> wait(OpId op, Nanos timeout_ns) = 0;
  virtual SessionState state() const = 0;
  virtual std::string last_error_text() const = 0;  // why not ready, for people
  virtual ClientCounters counters() const = 0;
};

}  // namespace varve
