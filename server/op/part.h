// Part: one request's share for one home shard, and the messages around it.
//
// The session (on the session shard) splits a client's request by home shard, posts one part to
// each by mailbox, and gets each part back exactly once. Between post and return a part belongs to
// the home; its output arrays are written only by the home, each at its own positions. Everything
// bounded: parts live in the session's pools; the home's ops live in the home's pools (empty =
// kOverloaded). In every struct here message.owner is the struct itself: whoever posts it sets
// that.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "common/fabric/fabric.h"
#include "common/model/model.h"
#include "common/reactor/reactor.h"
#include "common/wire/wire.h"
#include "server/tier/tier.h"

namespace varve {

class PushOp;
struct FormatCounts;  // the session's

// A format as a session registered it: immutable while any part refers to it.
struct SessionFormat {
  Format format;
  Digest fingerprint;
  uint64_t lineage = 0;             // xxh3 of the lineage text
  std::vector<ExtentTable> tables;  // per rank
  FormatCounts* counts = nullptr;   // the session's
};

// Ids of one request as they came, ids[position], and their positions grouped by home shard, rising
// inside each group: positions[begin, end) of a part are its own.
struct RequestIds {
  BaseId ids[wire::kIdsMax];
  uint16_t positions[wire::kIdsMax];
  uint32_t count = 0;
};

// Whether what a target holds is being moved to others, to take it out.
enum class Draining : uint8_t { kOff, kOn };

struct Part {
  using Back = void (*)(Part&);
  enum class Kind : uint8_t {
    kMatch,
    kRelease,
    kRenew,
    kReserve,
    kCommit,
    kAbort,
    kPull,
    kFence,
    kPurge,
    kGone
  };
  explicit Part(Kind k) : kind(k) {}

  Kind kind;
  Message message;  // carries it to the home and back
  Reactor* session_reactor = nullptr;
  uint32_t shard = 0;                // home
  void* home = nullptr;              // set by Shard::submit
  Status status;                     // set by the home
  Back on_back = nullptr;            // runs on the session shard
  void* owner = nullptr;             // the session's request
  uint64_t session = 0;              // who holds what the home keeps for it
  uint32_t domain = kDomainDefault;  // of all that it names
  Nanos deadline_ns = kNever;        // absolute, monotonic clock of this process
};

// What shall never be found again (I10): the ids of this home, or of a lineage or all of the domain
// everything committed before. Back when that is on the drives.
struct PurgePart : Part {
  PurgePart() : Part(Kind::kPurge) {}
  wire::PurgeKind what = wire::PurgeKind::kBlocks;
  const RequestIds* request = nullptr;  // kBlocks
  uint32_t begin = 0, end = 0;
  uint64_t lineage = 0;      // 0: the domain
  flash::DomainIds domains;  // of the node: each has its share of the rows, one dropped none
  // Not kBlocks: first one part to one home, always the same, which writes the new generation;
  // then one to every home, with its rows. One such purge at a time on a node.
  bool raise = false;
  flash::Generations rows;         // out of the first, into the others
  uint32_t generation = 0;         // out of the first
  uint64_t blocks = 0, bytes = 0;  // out: what became unreachable
  Nanos erased_ns = 0;             // out, see wire::Purged
};

// A home's lease for one session; the id is valid for this boot only and never reused.
using LeaseId = uint64_t;

struct MatchPart : Part {
  MatchPart() : Part(Kind::kMatch) {}
  const RequestIds* request = nullptr;
  uint32_t begin = 0, end = 0;
  uint32_t rank_count = 1;
  wire::MatchOf of = wire::MatchOf::kPrefix;
  uint32_t lease_ms = 0;            // of each: 0
  wire::TierKind* tiers = nullptr;  // out, by position: kNone = not complete here
  LeaseId lease = 0;                // out: pins what was found up to the first local miss; 0 = none
  bool recovering = false;          // out
  uint64_t read_ns_estimate = 0;    // out: queue wait of this shard's targets
};

// Drops a lease, or what of it lies at request positions >= keep_below (after the merge of a
// match).
struct ReleasePart : Part {
  ReleasePart() : Part(Kind::kRelease) {}
  LeaseId lease = 0;
  uint32_t keep_below = 0;  // 0 = release all
};

// Makes a lease last `lease_ms` from now. status: kTimedOut when it is over or not this session's.
struct RenewPart : Part {
  RenewPart() : Part(Kind::kRenew) {}
  LeaseId lease = 0;
  uint32_t lease_ms = 0;  // at most lease_ms_max; the session has seen to it
};

// The session is over: everything that this home still holds in its name (leases) goes (I6). Posted
// after all its other parts came back.
struct GonePart : Part {
  GonePart() : Part(Kind::kGone) {}
};

// What a grant lends to the session until CommitPart or AbortPart: the slabs of `block`.
struct GrantLoan {
  wire::ReserveOutcome outcome = wire::ReserveOutcome::kRefused;
  Code code = Code::kOk;
  Attempt attempt;
  PushOp* push = nullptr;
  TierBlock* block = nullptr;  // bytes and Slab values may be read; nothing else of it
  const DramTier* tier = nullptr;
};

struct ReservePart : Part {
  ReservePart() : Part(Kind::kReserve) {}
  const RequestIds* request = nullptr;
  uint32_t begin = 0, end = 0;
  const SessionFormat* format = nullptr;
  uint32_t rank = 0;
  uint64_t epoch = 0;
  uint32_t grants_max = 0;  // this part's share of what the session may still hold: kQuota beyond
  BaseId parent;            // of position 0
  uint32_t domains = 1;     // that the node has: each has its part of what pushes may take
  GrantLoan* loans = nullptr;  // out, by position
};

// The session has received and verified every extent of the whole table, parity included, written
// the entries into the header pages (entry i at byte 256 + 32 i; page_offset zero) and has no
// receive in flight into the slabs.
struct CommitPart : Part {
  CommitPart() : Part(Kind::kCommit) {}
  PushOp* push = nullptr;
  Attempt attempt;
  uint64_t epoch = 0;
  wire::AckKind ack = wire::AckKind::kCached;
};

struct AbortPart : Part {
  AbortPart() : Part(Kind::kAbort) {}
  PushOp* push = nullptr;
  Attempt attempt;
};

// One DATA frame on its way out: home -> session shard -> link -> back. From the home's pool. The
// pieces of one extent are posted in offset order with no other extent of that block between them.
// kCancelled on the way back: it was not sent, and the session took its credit back by itself.
struct DataSend {
  Message message;
  Message::Deliver back = nullptr;  // the home's: where the session posts it back to
  SendRequest request;              // payload points into pinned slabs; head filled by the session
  wire::Data data;
  struct PullPart* part = nullptr;
  bool from_dram = true;      // or a drive was read for it
  Status status;              // of the link, on the way back
  void* owner = nullptr;      // the PullOp
  DataSend* next = nullptr;   // the session's queue
  void* out = nullptr;        // the session's: the lane it left by
  void* out_owner = nullptr;  // the session's
};

// An extent that the pull asked for and its holder cannot give (kLost: it will not be sent) or has
// kept waiting (kLate: sent when it comes). Lives in the home's ExtentOp; back once the session has
// taken what it says, which is at once. Nothing of it waits for credit.
struct LostNote {
  Message message;
  Message::Deliver back = nullptr;  // the home's
  wire::LostExtent lost;
  struct PullPart* part = nullptr;
  void* owner = nullptr;     // the ExtentOp
  LostNote* next = nullptr;  // the session's queue
};

// Permission to send `bytes`: asked from the session before slabs are taken; least slack first.
struct CreditAsk {
  Message message;
  Message::Deliver back = nullptr;  // the home's
  uint64_t bytes = 0;
  Nanos wanted_ns = 0;
  struct PullPart* part = nullptr;
  Status status;              // kCancelled / kUnavailable when the session goes; kQuota: never fits
  void* owner = nullptr;      // the PullOp
  CreditAsk* next = nullptr;  // the session's queue
  Nanos asked_ns = 0;         // the session's
};

struct PullPart : Part {
  PullPart() : Part(Kind::kPull) {}
  uint64_t number = 0;  // of this use of the part, never the same twice: a FencePart names it
  const RequestIds* request = nullptr;
  uint32_t begin = 0, end = 0;
  const SessionFormat* format = nullptr;
  uint32_t rank = 0;
  LeaseId lease = 0;  // this home's; 0 = best effort
  bool lease_required =
      false;  // the client named a lease: without a valid one kTimedOut, nothing is read
  bool lease_over = false;                    // out: that is why nothing was read
  uint32_t extent_first = 0, extent_end = 0;  // data extents; not used where there are wants
  // Just these extents, data or parity, in this order; `block` is the position in the request and
  // belongs to this home. Null: the range of extents of every block.
  const wire::Want* wants = nullptr;
  uint32_t want_count = 0;
  Nanos first_wanted_ns = 0;  // absolute
  Nanos layer_ns = 0;
  uint8_t* codes = nullptr;  // out, by position: Code
  uint8_t tiers = 0;         // out: wire::tier_bit of where extents that were sent had been
  // Set by the session, never cleared in flight, and nothing is ordered by it (ADR-0001, "Cancel").
  std::atomic<bool> cancelled{false};
  // Session-side services for the home, called by posting the structs above to session_reactor:
  void (*deliver_data)(Message&) = nullptr;    // DataSend
  void (*deliver_credit)(Message&) = nullptr;  // CreditAsk
  void (*deliver_lost)(Message&) = nullptr;    // LostNote
  uint64_t credit_unused_bytes = 0;            // out: granted by asks and never posted as DataSend
};

// One extent of a pull shall not be sent any more, the others go on. Back when no frame of it is on
// a lane and none will be (I8); at once when the pull is over or has sent it.
struct FencePart : Part {
  FencePart() : Part(Kind::kFence) {}
  const PullPart* pull = nullptr;  // not looked into: it may be over, and another by now
  uint64_t number = 0;             // of that pull
  uint32_t position = 0;           // of the block in the request
  uint32_t extent = 0;
  FencePart* next = nullptr;  // the home's: waits for the lane
};

}  // namespace varve
