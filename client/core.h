// Core: the client's ops, formats, regions, leases and events on one reactor (ClientCore's
// implementation).
//
// Owns everything behind ClientCore. The ops (match.h, pull.h, push.h, renew.h, holds.h, purge.h)
// reach the session, the formats and the event queue through it. One thread; an op is freed only
// after its terminal event was made (C2, C3).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "client/bounce.h"
#include "client/breaker.h"
#include "client/hedge.h"
#include "client/layout.h"
#include "client/lease.h"
#include "client/pace.h"
#include "client/scratch.h"
#include "client/session.h"
#include "client/varve.h"

namespace varve {

inline constexpr uint32_t kPieceSendsMax = 64;  // EXTENT frames under way, all lanes
// One round of the widest scheme, so that any push gets on.
inline constexpr uint64_t kParityScratchBytesMin = 1 * kMiB;
inline constexpr uint64_t kParityScratchBytesMax = 4 * kGiB;
static_assert(kParityScratchBytesMin >= uint64_t{kParityMax} * kPayloadBytesMax);
// All that one stripe can need (stripe_in.h), so that any loss gets its turn.
inline constexpr uint64_t kRebuildScratchBytesMin =
    uint64_t{kDataMax + 2 * kParityMax} * kExtentBytesMax;
// A hedge has at least two columns of it, and a daemon keeps 1024 fences of extents for a session.
inline constexpr uint64_t kRebuildScratchBytesMax = uint64_t{2} * 1024 * kColumnBytes;
inline constexpr uint32_t kFormatsMax = 256;   // per client
inline constexpr uint32_t kRegionsMax = 4096;  // registered at a time
// Events that nobody took: beyond this nothing new is begun.
inline constexpr uint32_t kEventsMax = 65536;
inline constexpr Nanos kDeadlineMax = 24 * 3600 * kSecond;  // longer ones count as this
// Between two asks of one op that the daemon refused for now; doubles, starts again on progress.
inline constexpr Nanos kRetryMin = 1 * kMillisecond;
inline constexpr Nanos kRetryMax = 100 * kMillisecond;

// A refusal that a moment may end: the op asks again, within its deadline.
constexpr bool is_for_now(Code code) {
  return code == Code::kOverloaded || code == Code::kQuota;
}

struct ClientFormat {
  struct Tables {
    Scheme scheme;
    std::vector<ExtentTable> ranks;
  };
  Format format;
  Digest fingerprint;
  std::vector<std::unique_ptr<Tables>> tables;  // of each scheme that was met
  // Of this session:
  const Tables* current = nullptr;  // set while registered, and while an op may look at it
  uint32_t handle = 0;              // 0 = not registered (yet)
  Status refused;                   // why the daemon does not take it
  uint64_t register_op = 0;         // 0 = not asked yet
  bool answered = false;
  bool refusal_logged = false;  // once, however often the session comes back
};

class Core;

// What all ops share: identity, deadline, one terminal event. news() is noted, run() acts (rule
// 17).
class ClientOp : public Task {
 public:
  ClientOp(Core& core, OpId op, uint64_t tag, Nanos deadline_ns);
  virtual ~ClientOp();
  ClientOp(const ClientOp&) = delete;
  ClientOp& operator=(const ClientOp&) = delete;

  OpId id() const { return id_; }
  Core& core() { return core_; }
  void wake();
  void cancel(Status cause) {
    if (stop_.ok()) stop_ = cause;
    wake();
  }
  void retire();  // no deadline, no retry and no place in line any more
  // For Core::on_lost: what the session knew of this op is gone, its slot with it.
  void lose_slot() { slot_ = false; }
  Nanos left_ns() const;  // until the deadline; at least 1
  Nanos deadline_ns() const { return deadline_ns_; }
  virtual void on_lost(Status cause) = 0;  // the session is gone, its lanes fenced
  virtual void on_frame(const wire::Frame& frame) = 0;
  virtual void on_timer();  // the deadline, unless the op armed it for more
  virtual uint64_t lease_in_use() const { return 0; }  // to be renewed while the op needs it

 protected:
  Event event(Event::Kind kind) const;
  // A slot of the pace, for one ask at a time; held slots are given back by retire() at the latest.
  bool take_slot(Pace::Kind kind, Nanos due_ns);
  uint32_t take_reserve_slot(uint32_t wanted);  // with attempts; first come, first served
  void give_slot();
  // Wakes the op after the next, longer pause; retry_now() says whether a pause is over. A deadline
  // that comes before the op asks again ends it with `refused`, when that is an error.
  void retry_later(Status refused);
  void asked() { refused_ = Status(); }
  bool retry_now() const { return now_ns() >= retry_at_ns_; }
  Nanos retry_at_ns() const { return retry_at_ns_; }
  void retry_anew() { retry_pause_ns_ = kRetryMin; }
  Nanos now_ns() const;

  Core& core_;
  OpId id_;
  uint64_t tag_;
  Nanos started_ns_;
  Nanos deadline_ns_;  // absolute
  Status stop_;        // cancel or deadline
  Timer timer_;

 private:
  Timer retry_timer_;
  Status refused_;
  Nanos retry_at_ns_ = 0, retry_pause_ns_ = kRetryMin;
  bool slot_ = false;
  Pace::Kind slot_kind_ = Pace::Kind::kMatch;
};

class ClientMatchOp;
class ClientPullOp;
class ClientPushOp;

// One EXTENT frame under way; pooled in the core.
struct PieceSend {
  SendRequest request;
  ClientPushOp* op = nullptr;
  uint32_t bytes = 0;
  Columns parity;  // what it carries if not the caller's memory, or
  Columns bounce;  // a copy of it

  // All of them as a copy, where there is room for one, else as many as so many pieces cover.
  void put(const BoundLayout& layout, const Bounce::Bytes& of, Columns& room);
};

class Core final : public ClientCore, private SessionUser {
 public:
  Core(Env& env, Reactor& reactor, const ClientOptions& options, Names names);
  ~Core() override;
  void start() { session_.start(); }

  Result<FormatId> format(const Format& format) override;
  Result<RegionId> register_memory(void* data, uint64_t bytes) override;
  Status unregister_memory(RegionId region) override;
  Result<std::vector<BaseId>> base_ids(FormatId format, const BaseId& parent,
                                       std::span<const uint32_t> tokens,
                                       std::span<const ConstByteSpan> extras) override;
  Result<BaseId> base_id_of_hash(FormatId format, ConstByteSpan hash) override;
  Result<OpId> match(MatchRequest request) override;
  Result<OpId> pull(PullRequest request) override;
  Result<OpId> follow(FollowRequest request) override;
  Result<OpId> push(PushRequest request) override;
  Status push_layer(OpId op, uint32_t layer) override;
  void cancel(OpId op) override;
  Result<OpId> renew(RenewRequest request) override;
  void release(uint64_t lease) override { leases_.release(lease); }
  Nanos lease_left_ns(uint64_t lease) const override { return leases_.left_ns(lease); }
  Result<OpId> holds(HoldsRequest request) override;
  Result<OpId> purge(PurgeRequest request) override;
  bool next_event(Event& out) override;
  void notify(Task& task) override { listener_ = &task; }
  bool take_lookup() override { return session_.take_lookup(); }
  void looked_up(Result<std::vector<std::string>> numbers) override {
    session_.looked_up(std::move(numbers));
  }
  bool done(OpId op) const override { return ops_.find(op) == ops_.end(); }
  SessionState state() const override { return session_.state(); }
  Status last_error() const override { return session_.last_error(); }
  std::string last_error_text() const override { return session_.last_error_text(); }
  void close() override;
  bool at_rest() const override;
  const ClientCounters& counters() const override;

  // For the ops.
  Reactor& reactor() { return reactor_; }
  ClientSession& session() { return session_; }
  const ClientOptions& options() const { return options_; }
  ClientCounters& count() { return counters_; }
  ClientFormat* find_format(FormatId id);
  std::vector<std::unique_ptr<Region>>& regions() { return regions_; }
  enum class Hold : uint8_t { kTake, kGive };
  void hold_regions(const BoundLayout& layout, Hold hold);
  Pace& pace() { return pace_; }
  Breaker& breaker() { return breaker_; }
  ClientLeases& leases() { return leases_; }
  const ExtentTable& table(FormatId format, uint32_t rank);  // of the session's scheme
  PieceSend* take_piece() { return pieces_.take(); }
  void give_piece(PieceSend* piece);
  // Room for what leaves: pieces, scratch, lanes. The push with the earliest deadline goes first,
  // so that what it sent is on its way to the drives while the next one sends.
  void wake_pushes();
  Scratch& parity_scratch() { return parity_scratch_; }
  Scratch& rebuild_scratch() { return rebuild_scratch_; }
  Bounce& bounce() { return bounce_; }
  HedgeBudget& hedge_budget() { return hedge_budget_; }
  // A column for each data position, for the use of one call.
  ByteSpan gather() { return {gather_.get(), size_t{kDataMax} * kColumnBytes}; }
  void emit(Event event) {
    events_.push_back(std::move(event));
    changed();
  }
  void changed() {
    if (listener_ != nullptr) reactor_.make_ready(*listener_);
  }
  // The terminal event: the op leaves the table and is freed at the end of this turn.
  void finish(ClientOp& op, Event event);
  void end(ClientOp& op);  // the same of one that is no caller's
  uint64_t next_wire_op() { return ++last_wire_op_; }
  void route(uint64_t wire_op, ClientOp* op) {
    VARVE_ASSERT(op != nullptr && wire_op != 0 && wire_op <= last_wire_op_, wire_op);
    routes_[wire_op] = op;
  }
  void unroute(uint64_t wire_op) { routes_.erase(wire_op); }

 private:
  void on_connecting() override { changed(); }
  void on_ready() override;
  void on_lost(Status cause) override;
  void on_urgent(const wire::Frame& frame) override;
  void place_data(const wire::DataView& data, uint64_t op, uint32_t payload_bytes, ByteSpan bounce,
                  Placement& where) override;
  void on_data(const wire::DataView& data, uint64_t op, uint32_t payload_bytes,
               const Placement& where) override;
  void on_tick() override;
  void use_scheme(ClientFormat& format);
  void populate_scratch();
  void register_formats();
  void on_format_ok(uint64_t op, const wire::FormatOk& ok);
  void log_refusal(ClientFormat& format);
  void on_stray(const wire::Frame& frame);
  void wake_all();
  void renew_used_leases();
  Result<OpId> admit();
  Result<OpId> begin_pull(PullRequest request, std::vector<Attempt> attempts);
  template <class OpType>
  OpId adopt(std::unique_ptr<OpType> op);

  // Frees finished ops outside of their own run().
  struct Reaper final : Task {
    explicit Reaper(Core& c) : core(c) {}
    Core& core;
    std::vector<std::unique_ptr<ClientOp>> dead;
    void run() override;
    const char* name() const override { return "client.reap"; }
  };

  Reactor& reactor_;
  ClientOptions options_;
  ClientSession session_;
  std::vector<std::unique_ptr<ClientFormat>> formats_;
  std::vector<std::unique_ptr<Region>> regions_;
  std::map<OpId, std::unique_ptr<ClientOp>> ops_;
  std::map<std::pair<Nanos, OpId>, ClientPushOp*> pushes_;  // of ops_, by deadline
  std::map<uint64_t, ClientOp*> routes_;                    // wire op -> op
  ClientLeases leases_{*this};
  std::deque<Event> events_;
  Pool<PieceSend> pieces_;
  Scheme scheme_;  // of the newest session
  Scratch parity_scratch_, rebuild_scratch_;
  Bounce bounce_;
  HedgeBudget hedge_budget_;
  Breaker breaker_;
  std::unique_ptr<std::byte[]> gather_;
  Pace pace_;
  Reaper reaper_;
  OpId last_op_ = 0;
  uint64_t last_wire_op_ = 0;
  bool closing_ = false;
  Task* listener_ = nullptr;
  mutable ClientCounters counters_;
};

}  // namespace varve
