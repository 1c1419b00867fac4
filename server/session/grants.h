// Grants: the slabs that homes lend to one session, from RESERVE to COMMIT or to their end.
//
// Payload of EXTENT frames is received straight into the lent slabs, its CRC32C continues over the
// pieces as they arrive, its XXH3 is taken over the slab when an extent is complete, its pad is
// zeroed, and the table of COMMIT is written into the header pages. A loan goes back to its home by
// CommitPart or AbortPart, never while a receive is in flight into it, nor a follower's frame out
// of it. Only this file knows whether one is.
#pragma once

#include <array>

#include "server/session/context.h"
#include "server/session/follow.h"
#include "server/session/lane.h"

namespace varve {

class Grants;

// 504 of them in every grant of the pool, so they are packed.
struct ExtentProgress {
  uint32_t received_bytes : 31 = 0;
  uint32_t busy : 1 = 0;      // a piece is being received
  uint32_t crc = 0;           // of what was received, seeded
  uint64_t decoded_xxh3 = 0;  // of the complete extent, seeded
};
static_assert(sizeof(ExtentProgress) == 16);
static_assert(kExtentBytesMax < (1u << 31));

struct Grant : ListHook {
  enum class State : uint8_t {
    kFree,        // in the pool, or reserved by a RESERVE in flight
    kReceiving,   // the slabs are ours
    kDraining,    // must go back, but a receive is in flight into it, or a send out of it
    kCommitting,  // CommitPart is at the home
    kAborting,    // AbortPart is at the home
  };
  State state = State::kFree;
  Grants* grants = nullptr;
  uint64_t hold = 0;   // its number among all holds
  uint64_t bytes = 0;  // of all its extents
  Nanos began_ns = 0, until_ns = 0;
  uint64_t reserve_op = 0;
  uint32_t index = 0;
  uint32_t shard = 0;
  BlockId block;
  const ExtentTable* table = nullptr;
  FormatCounts* counts = nullptr;
  GrantLoan loan;
  Status failure;             // why it cannot be committed
  uint32_t receives = 0;      // in flight into the slabs
  uint32_t complete = 0;      // extents
  bool commit_waits = false;  // COMMIT came before the last extent
  bool leaving = false;       // verified whole; only `sends` keep it from its home
  uint32_t sends = 0;         // frames of the slabs on followers' lanes
  List<FollowedBlock> followers;
  // Verified and ours: a follower may send it.
  bool has(uint32_t extent) const {
    return state == State::kReceiving && !leaving && failure.ok() && progress[extent].busy == 0 &&
           progress[extent].received_bytes == table->bytes_at(extent);
  }
  uint64_t answer_op = 0;  // of COMMIT or ABORT
  enum class Answer : uint8_t { kNone, kCommitted, kAborted } answer = Answer::kNone;
  Nanos commit_began_ns = 0;
  Timer timer;  // the reservation; then, while it drains, the bound of that
  CommitPart commit;
  AbortPart abort;
  std::array<ExtentProgress, kExtentsMax> progress;
};

class Grants {
 public:
  explicit Grants(SessionScope& scope) : scope_(scope) {}
  // Takes up to `wanted` grants from the pool and this session's limit; they count from now on.
  uint32_t reserve(uint32_t wanted, std::span<Grant*> out);
  void give_up(Grant& grant);  // reserved and not granted
  struct Begin {
    uint64_t reserve_op = 0;
    uint32_t index = 0;
    BlockId block;
    const ExtentTable* table = nullptr;
    FormatCounts* counts = nullptr;
    GrantLoan loan;
    Nanos hold_ns = 0;
  };
  void begin(Grant& grant, const Begin& begin);
  bool holds(uint64_t reserve_op) const;

  // EXTENT: fills `where` and `receive`, or leaves them empty (discarded). Not ok: malformed.
  Status place(const wire::Extent& body, uint32_t payload_bytes, ExtentReceive& receive,
               Placement& where);
  void received(ExtentReceive& receive);  // the payload is there
  void dropped(ExtentReceive& receive);   // its lane is closed

  void commit(uint64_t op, const wire::CommitView& view);
  void abort(uint64_t op, const wire::Abort& body);
  void cancel(uint64_t reserve_op);  // CANCEL of a RESERVE that has been answered
  void end_all();                    // session end
  void send_over(Grant& grant);      // a follower's frame has left its lane, or never will
  uint32_t count() const { return count_; }
  const SessionScope& scope() const { return scope_; }

 private:
  Grant* find(uint64_t reserve_op, uint32_t index);
  void discard(ExtentReceive& receive, Discarded why, uint32_t payload_bytes);
  void extent_complete(Grant& grant, ExtentReceive& receive);
  void try_commit(Grant& grant);
  void submit_commit(Grant& grant);
  void end(Grant& grant, Status why);
  void try_abort(Grant& grant);
  void submit_abort(Grant& grant);
  void submit(Grant& grant, Part& part, Part::Back on_back);
  static void on_reservation_over(Timer& timer);
  static void on_drain_over(Timer& timer);
  void answer(Grant& grant, Status status);
  void answer_unknown(uint64_t op, const wire::Commit& body, Code code);
  void finish(Grant& grant);
  static void on_committed(Part& part);
  static void on_aborted(Part& part);

  SessionScope& scope_;
  List<Grant> live_;
  uint32_t count_ = 0;  // reserved and live
};

}  // namespace varve
