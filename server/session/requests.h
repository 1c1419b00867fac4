// Requests: matches, reserves and pulls of one session in flight, split over homes and merged
// again.
//
// One pooled object per request holds its ids, its parts and its out arrays from the first post to
// the last part back; nothing of it is reused before. CANCEL marks it; its terminal answer comes
// when every part is back, then FENCED (I8).
#pragma once

#include <algorithm>
#include <array>
#include <memory>

#include "server/session/context.h"
#include "server/session/credit.h"
#include "server/session/data_out.h"
#include "server/session/fence.h"
#include "server/session/follow.h"
#include "server/session/formats.h"
#include "server/session/grants.h"
#include "server/session/leases.h"
#include "server/session/lost_out.h"

namespace varve {

class Requests;

inline constexpr uint8_t kNoCode = 0xff;  // of a position that its home has not answered

// Durations from the wire: keeps the sums below 2^64.
inline Nanos bounded(uint64_t duration_ns) {
  return std::min<Nanos>(duration_ns, 3600 * kSecond);
}

struct RequestBase : ListHook {
  enum class Kind : uint8_t { kMatch, kReserve, kPull };
  RequestBase(Kind request_kind, uint32_t shards) : kind(request_kind), begins(shards + 1) {}
  const Kind kind;
  Requests* requests = nullptr;
  uint64_t op = 0;
  uint32_t parts_out = 0;
  bool cancelled = false;  // by CANCEL or the end of the session
  bool fence_wanted = false;
  uint64_t fence_op = 0;  // op of the CANCEL frame
  Nanos began_ns = 0, cancelled_ns = 0;
  const SessionFormat* format = nullptr;
  std::vector<uint32_t> begins;  // shard s has positions [begins[s], begins[s + 1])
  RequestIds ids;
};

struct PendingMatch : RequestBase {
  explicit PendingMatch(uint32_t shards)
      : RequestBase(Kind::kMatch, shards), parts(new MatchPart[shards]) {}
  std::unique_ptr<MatchPart[]> parts;
  std::array<wire::TierKind, wire::kIdsMax> tiers;
  wire::MatchOf of = wire::MatchOf::kPrefix;
  uint32_t lease_ms = 0;
  bool wants_lease = false;
  SessionLease* lease = nullptr;
  wire::Matched answer;
};

struct PendingReserve : RequestBase {
  explicit PendingReserve(uint32_t shards)
      : RequestBase(Kind::kReserve, shards), parts(new ReservePart[shards]) {}
  std::unique_ptr<ReservePart[]> parts;
  std::array<GrantLoan, wire::kIdsMax> loans;
  std::array<Grant*, wire::kIdsMax> grants;  // reserved for what may be granted
  std::array<wire::ReserveAnswer, wire::kIdsMax> answers;
  uint32_t grant_count = 0;
  uint32_t rank = 0;
  Nanos hold_ns = 0;
};

struct PendingPull : RequestBase {
  explicit PendingPull(uint32_t shards)
      : RequestBase(Kind::kPull, shards), parts(new PullPart[shards]), want_begins(shards + 1) {}
  bool stopped() const { return cancelled || timed_out || lease_over; }
  struct BlockLane {  // where the pieces of a block's current extent go
    uint16_t extent = 0;
    uint8_t lane = 0;
  };
  std::unique_ptr<PullPart[]> parts;
  Follow* follow = nullptr;  // where it begins, for a FOLLOW
  uint64_t hold = 0;         // its number among all holds
  uint64_t bytes = 0;        // asked for
  Nanos until_ns = 0;
  // Single extents, where that is what was asked for; shard s has [want_begins[s], ..[s + 1]).
  uint32_t want_count = 0;
  std::vector<uint32_t> want_begins;
  std::array<wire::Want, wire::kWantsMax> wants;
  std::array<uint8_t, wire::kIdsMax> codes;
  std::array<BlockLane, wire::kIdsMax> lane_of_block;
  bool timed_out = false;
  bool lease_over = false;  // at one of its homes, when that looked
  uint8_t tiers = 0;        // of its parts, and of what a follow sent itself
  uint64_t sent_bytes = 0;
  uint64_t lane_bytes = 0;  // in links now: their memory is its homes'
  Timer deadline;           // then, once it is stopped, the bound of its drain
};

class Requests {
 public:
  Requests(SessionScope& scope, SessionFormats& formats, Grants& grants, Leases& leases,
           Credit& credit, DataOut& data_out);
  void match(uint64_t op, const wire::MatchView& view);
  void reserve(uint64_t op, const wire::ReserveView& view);
  void pull(uint64_t op, const wire::PullView& view);
  void cancel(uint64_t op, const wire::Cancel& body);
  void follow(uint64_t op, const wire::FollowView& view);
  void run();  // once a turn
  void wake() { scope_.something_ended(); }
  bool holds(uint64_t op) const { return find(op) != nullptr; }
  const SessionScope& scope() const { return scope_; }
  void end_all();
  uint32_t count() const { return static_cast<uint32_t>(live_.size()); }
  bool idle() const { return live_.empty() && fences_.count() == 0 && lost_out_.idle(); }

 private:
  RequestBase* find(uint64_t op) const;
  Status admit(uint64_t op);
  void take_ids(RequestBase& request, const wire::ArrayView<BaseId>& ids);
  void begin(RequestBase& request, uint64_t op, const SessionFormat* format);
  void finish(RequestBase& request);
  void stop_pull(PendingPull& pull);
  void cancel_extent(uint64_t op, const wire::Cancel& body);

  void refuse_match(uint64_t op, uint32_t count, Code code);
  static void on_match_part(Part& part);
  void merge_match(PendingMatch& request);
  void count_match(const PendingMatch& request, uint32_t hits);
  bool is_leased(const PendingMatch& request, uint32_t n_blocks);
  bool trim_leases(PendingMatch& request, uint32_t n_blocks);
  void estimate(PendingMatch& request, uint32_t n_blocks);
  static void on_match_trimmed(Part& part);
  void answer_match(PendingMatch& request);

  void refuse_reserve(uint64_t op, Code code);
  static void on_reserve_part(Part& part);
  void merge_reserve(PendingReserve& request);

  void refuse_pull(uint64_t op, Code code);
  void refuse_pull(uint64_t op, const wire::PullView& view, Code code);
  Status check_pull(const wire::PullView& view, const SessionFormat* format, ExtentRange* range);
  void begin_pull(PendingPull& request, Nanos deadline_ns);
  PullPart& fill_part(PendingPull& request, uint32_t shard, uint32_t rank);
  void take_wants(PendingPull& request, const wire::PullView& view);
  void submit_pull_parts(PendingPull& request, const wire::Pull& body, const SessionLease* lease,
                         const ExtentRange& range);
  static void on_pull_part(Part& part);
  static void on_data(Message& message);
  static void on_credit_ask(Message& message);
  static void on_lost(Message& message);
  static void on_drain_over(Timer& timer);
  void answer_pull(PendingPull& request);
  void count_pull(const PendingPull& request);

  // follow.cc
  friend void followers_see(Grant& grant);
  friend void followers_end(Grant& grant, Code code);
  Status check_follow(const wire::FollowView& view, const SessionFormat* format,
                      ExtentRange* range);
  void begin_follow(Follow& follow, PendingPull& pull, const wire::Follow& body,
                    const ExtentRange& range);
  void find_grants(Follow& follow);
  void step(Follow& follow);
  void ask_window(Follow& follow);
  static void on_follow_credit(Message& message);
  void send_window(Follow& follow);
  void send_extent(Follow& follow, uint32_t position);
  void watch_sends(Follow& follow);
  static void on_follow_sent(Message& message);
  static void on_follow_stalled(Timer& timer);
  void ask_home(Follow& follow, uint32_t shard);
  static void on_follow_part(Part& part);
  void block_over(FollowedBlock& block, Code code);
  void leave_grants(Follow& follow);
  void end_follow(Follow& follow);
  void learn(const PendingPull& request);

  SessionScope& scope_;
  SessionFormats& formats_;
  Grants& grants_;
  Leases& leases_;
  Credit& credit_;
  DataOut& data_out_;
  Fences fences_;
  LostOut lost_out_;
  List<RequestBase> live_;
  uint32_t pulls_ = 0;
};

}  // namespace varve
