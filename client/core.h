// Core: the client's ops, formats, regions, leases and events on one reactor (ClientCore's
// implementation).
//
// Owns everything behind ClientCore. The ops (match.h, pull.h, push.h) reach the session, the
// formats and the event queue through it. One thread; an op is freed only after its terminal event
// was made (C2, C3).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "client/layout.h"
#include "client/session.h"
#include "client/varve.h"

namespace varve {

inline constexpr uint32_t kPieceSendsMax = 64;  // EXTENT frames under way, all lanes
inline constexpr uint32_t kFormatsMax = 256;    // per client
inline constexpr uint32_t kRegionsMax = 4096;   // registered at a time
// Events that nobody took: beyond this nothing new is begun.
inline constexpr uint32_t kEventsMax = 65536;
inline constexpr Nanos kDeadlineMax = 24 * 3600 * kSecond;  // longer ones count as this

struct ClientFormat {
  Format format;
  Digest fingerprint;
  std::vector<ExtentTable> tables;  // per rank, at k of the session (1 until coding joins)
  // Of this session:
  uint32_t handle = 0;       // 0 = not registered (yet)
  Status refused;            // why the daemon does not take it
  uint64_t register_op = 0;  // 0 = not asked yet
  bool answered = false;
};

struct ServerLease {
  uint64_t lease = 0;
  std::vector<uint64_t> ids;  // prefixes of what it covers, to find the part again
};
struct ClientLease {  // what one match was promised, over all its batches
  std::vector<ServerLease> parts;
  uint64_t boot_id = 0;
  Nanos expires_ns = 0;
  // The server's lease that covers `id`; the first one when none does (a pull of other ids).
  uint64_t part_of(const BaseId& id) const;
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
  void retire();                           // no deadline any more
  Nanos left_ns() const;                   // until the deadline; at least 1
  virtual void on_lost(Status cause) = 0;  // the session is gone, its lanes fenced
  virtual void on_frame(const wire::Frame& frame) = 0;
  virtual void on_timer();  // the deadline, unless the op armed it for more

 protected:
  Event event(Event::Kind kind) const;
  Core& core_;
  OpId id_;
  uint64_t tag_;
  Nanos started_ns_;
  Nanos deadline_ns_;  // absolute
  Status stop_;        // cancel or deadline
  Timer timer_;
};

class ClientMatchOp;
class ClientPullOp;
class ClientPushOp;

// One EXTENT frame under way; pooled in the core.
struct PieceSend {
  SendRequest request;
  ClientPushOp* op = nullptr;
  uint32_t bytes = 0;
};

class Core final : public ClientCore, private SessionUser {
 public:
  Core(Env& env, Reactor& reactor, const ClientOptions& options);
  ~Core() override;
  void start() { session_.start(); }

  Result<FormatId> format(const Format& format) override;
  Result<RegionId> register_memory(void* data, uint64_t bytes) override;
  Status unregister_memory(RegionId region) override;
  Result<std::vector<BaseId>> base_ids(FormatId format, const BaseId& parent,
                                       std::span<const uint32_t> tokens) override;
  Result<OpId> match(MatchRequest request) override;
  Result<OpId> pull(PullRequest request) override;
  Result<OpId> push(PushRequest request) override;
  Status push_layer(OpId op, uint32_t layer) override;
  void cancel(OpId op) override;
  void release(uint64_t lease) override;
  bool next_event(Event& out) override;
  void notify(Task& task) override { listener_ = &task; }
  bool done(OpId op) const override { return ops_.find(op) == ops_.end(); }
  SessionState state() const override { return session_.state(); }
  Status last_error() const override { return session_.last_error(); }
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
  void hold_regions(const BoundLayout& layout, bool hold);
  uint64_t add_lease(ClientLease lease);
  // The lease if it is still of this boot and not expired; else null.
  const ClientLease* find_lease(uint64_t lease);
  bool holds_lease() const;
  void release_on_wire(uint64_t server_lease);
  PieceSend* take_piece() { return pieces_.take(); }
  void give_piece(PieceSend* piece);
  void emit(Event event) {
    events_.push_back(std::move(event));
    changed();
  }
  void changed() {
    if (listener_ != nullptr) reactor_.make_ready(*listener_);
  }
  // The terminal event: the op leaves the table and is freed at the end of this turn.
  void finish(ClientOp& op, Event event);
  uint64_t next_wire_op() { return ++last_wire_op_; }
  void route(uint64_t wire_op, ClientOp* op) { routes_[wire_op] = op; }
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
  void register_formats();
  void on_format_ok(uint64_t op, const wire::FormatOk& ok);
  void on_stray(const wire::Frame& frame);
  void wake_all();
  void wake_pushes();
  Result<OpId> admit();
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
  std::map<uint64_t, ClientOp*> routes_;  // wire op -> op
  std::map<uint64_t, ClientLease> leases_;
  std::deque<Event> events_;
  Pool<PieceSend> pieces_;
  Reaper reaper_;
  OpId last_op_ = 0;
  uint64_t last_wire_op_ = 0;
  uint64_t last_lease_ = 0;
  bool closing_ = false;
  Task* listener_ = nullptr;
  mutable ClientCounters counters_;
};

}  // namespace varve
