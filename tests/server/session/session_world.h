// A small world for session tests: one SessionTable, N homes that answer by script, clients that
// speak raw frames over the simulated fabric, one thread, virtual time.
//
// The homes are honest miniatures: real DRAM tiers lend real slabs, commits check what was
// received, pulls ask for credit and send from slabs. What a test wants to happen late is held back
// by a switch.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/env/env.h"
#include "server/session/live_session.h"
#include "server/session/session.h"
#include "tests/doubles/sim_fabric.h"

namespace varve::test {

class World;

// One home shard by script.
class FakeHome final : public Shard {
 public:
  FakeHome(World& world, uint32_t shard);
  ~FakeHome() override;

  // Shard
  void start() override {}
  void submit(Part& part) override;
  void drain() override {}
  bool drained() const override { return true; }
  bool recovering() const override { return recovering_; }
  MetricSnapshot metrics() const override { return {}; }
  Reactor& reactor() override { return reactor_; }
  Index& index() override;
  DramTier& tier() override { return tier_; }
  flash::Flash& flash() override;
  bool at_rest() const override;

  // Switches and records.
  bool leases_full = false;  // matches are answered without a lease
  bool hold = false;         // parts stay here until release_held()
  Part::Kind hold_kind = Part::Kind::kMatch;
  void release_held();
  size_t held_count() const { return held_.size(); }
  bool lease_gone = false;   // pulls and renewals of a lease are refused: it is over here
  Status fail_next;          // the next part comes back with this
  bool drop_failed = false;  // a commit that fails gives its slabs back, as a home does
  bool recovering_ = false;
  uint64_t read_ns_estimate = 0;
  std::map<BaseId, wire::TierKind> known;
  std::map<uint64_t, uint64_t> leases;                     // lease -> keep_below (~0 = all)
  std::set<std::pair<Part::Kind, uint32_t>> part_domains;  // of all that came
  uint32_t gone = 0, commits = 0, aborts = 0, releases = 0, pulls = 0;
  std::vector<uint64_t> pull_leases;
  std::vector<Nanos> credit_order;  // wanted_ns of windows in the order they got credit
  std::map<BlockId, std::vector<std::vector<std::byte>>> stored;  // committed extents
  std::map<BlockId, Attempt> attempts;                            // of them, where one committed
  uint64_t window_bytes = kMiB;
  uint32_t sends_posted = 0, sends_returned = 0, sends_cancelled = 0, sends_failed = 0;
  bool send_slowly = false;  // one DATA frame per release_sends()
  void release_sends();
  std::vector<wire::Want> wants_got;  // of the last pull that had some
  // Extents of any pull that it says kLost of and does not send, and says kLate of and sends.
  std::set<uint32_t> lost_extents, late_extents;
  uint32_t notes_posted = 0, notes_returned = 0;
  std::vector<uint32_t> renewed_ms;
  uint32_t raises = 0, walks = 0;
  flash::Generations rows;  // of the last walk
  std::set<BaseId> purged;
  uint32_t fences = 0;
  std::set<std::pair<uint32_t, uint32_t>> fenced;  // position, extent: not sent any more

 private:
  struct Push;
  struct Pull;
  void deliver(Part& part);
  void drop_push(PushOp* push);
  void back(Part& part, Status status);
  void match(MatchPart& part);
  void reserve(ReservePart& part);
  void commit(CommitPart& part);
  void pull(PullPart& part);
  void list_items(Pull& pull);
  void note(Pull& pull, uint32_t position, uint32_t extent, wire::LostState state);
  void fence(FencePart& part);
  void answer_fences(Pull* pull);
  void pump(Pull& pull);
  bool ask_window(Pull& pull);
  void send_window(Pull& pull);
  void finish_pull(Pull& pull);
  static void on_credit(Message& message);
  static void on_data(Message& message);
  static void on_note(Message& message);

  World& world_;
  const uint32_t shard_;
  Reactor reactor_;
  std::vector<std::byte> memory_;
  std::unique_ptr<Arena> arena_;
  DramTier tier_;
  uint64_t lease_last_ = 0, counter_ = 0;
  std::vector<Part*> held_;
  std::vector<std::unique_ptr<Push>> pushes_;
  std::vector<std::unique_ptr<Pull>> pulls_;
  std::vector<FencePart*> fences_waiting_;
};

struct Got {
  std::vector<std::byte> head;
  std::vector<std::byte> payload;
  wire::Frame frame() const { return *wire::decode(head); }
};

// One lane of a client.
class ClientLane final : public LinkUser {
 public:
  ClientLane(World& world, std::unique_ptr<Link> link);
  ~ClientLane();
  void send(ConstByteSpan head, ConstByteSpan payload = {});
  void close() { link_->close(Status::cancelled("the test closes it")); }
  bool closed() const { return closed_; }
  Status cause() const { return cause_; }
  Link& link() { return *link_; }
  std::vector<Got> got;
  const Got* find(wire::FrameType type) const;
  uint32_t count(wire::FrameType type) const;

  Status place(ConstByteSpan head, uint32_t payload_bytes, Placement& where) override;
  void on_message(ConstByteSpan head, uint32_t payload_bytes) override;
  void on_closed(Status cause) override;

 private:
  struct Out {
    SendRequest request;
    std::vector<std::byte> payload;
  };
  std::unique_ptr<Link> link_;
  bool closed_ = false;
  Status cause_;
  std::vector<std::byte> incoming_;
  std::vector<std::unique_ptr<Out>> out_;
};

class TestClient {
 public:
  TestClient(World& world, uint32_t bulk_lanes = 1, uint64_t credit_bytes = 64 * kMiB,
             const std::string& token = "", uint64_t features = wire::kFeatures);
  ~TestClient();
  static wire::Hello hello(uint64_t credit_bytes = 64 * kMiB);
  void connect_bulk(uint32_t index);
  uint32_t register_format(const Format& format);
  wire::Encoder encoder() { return wire::Encoder(buffer_); }

  uint64_t match(uint32_t format, const std::vector<BaseId>& ids, uint32_t lease_ms = 0);
  uint64_t match_each(uint32_t format, const std::vector<BaseId>& ids);
  uint64_t reserve(uint32_t format, const std::vector<BaseId>& ids, uint32_t hold_ms = 10000,
                   uint32_t rank = 0);
  uint64_t pull(uint32_t format, const std::vector<BaseId>& ids, uint64_t lease = 0,
                Nanos deadline_ns = 10 * kSecond, Nanos slack_ns = 0);
  // Just these extents.
  uint64_t pull_wants(uint32_t format, const std::vector<BaseId>& ids,
                      const std::vector<wire::Want>& wants);
  uint64_t follow(uint32_t format, const std::vector<BaseId>& ids,
                  const std::vector<Attempt>& attempts, Nanos deadline_ns = 10 * kSecond);
  uint64_t cancel(uint64_t target);
  uint64_t cancel_extent(uint64_t target, uint32_t block, uint32_t extent);
  void credit(uint64_t bytes);
  // A whole block: every extent in pieces, with right checksums. `spoil` flips a bit of extent 0.
  struct PushShape {
    uint32_t piece_bytes = kPayloadBytesMax;
    bool spoil = false;
    uint32_t lane = 0;
    uint32_t skip_extent = ~0u;
  };
  void send_extents(uint64_t reserve_op, uint32_t index, const BlockId& block,
                    const Attempt& attempt, const PushShape& shape);
  ExtentTable table(uint32_t rank = 0) const;  // of the server's scheme
  void send_piece(const wire::Extent& body, ConstByteSpan payload, uint32_t lane = 0);
  std::vector<ExtentEntry> entries(const BlockId& block, const Attempt& attempt) const;
  uint64_t commit(uint64_t reserve_op, uint32_t index, const BlockId& block, const Attempt& attempt,
                  int32_t lane = 0, wire::AckKind ack = wire::AckKind::kCached);
  uint64_t abort(uint64_t reserve_op, uint32_t index, const Attempt& attempt, int32_t lane = 0);

  // The answer to an op on the urgent lane (LOST is none); fails the test when it does not come
  // within a second.
  template <class View>
  View wait(uint64_t op) {
    const Got* got = wait_got(op);
    if (got == nullptr) {
      ADD_FAILURE() << "no answer to op " << op;
      return {};
    }
    const wire::Frame frame = got->frame();
    const View* view = std::get_if<View>(&frame.body);
    EXPECT_NE(view, nullptr) << "another answer: " << wire::frame_type_name(frame.header.type);
    return view == nullptr ? View{} : *view;
  }
  const Got* wait_got(uint64_t op);
  const Got* answer(uint64_t op) const;

  World& world;
  std::unique_ptr<ClientLane> urgent;
  std::unique_ptr<ClientLane> bulk[wire::kBulkLanesMax];
  wire::HelloOk welcome;
  uint64_t next_op = 1;
  Format format;

 private:
  ConstByteSpan token_bytes() const { return std::as_bytes(std::span(token_)); }
  const std::string token_;
  std::vector<std::byte> buffer_;
};

class World {
 public:
  explicit World(uint32_t shards = 1, SessionOptions options = {}, SimFabricOptions fabric = {},
                 const LinkOptions& server_link = {});
  ~World();

  // Turns everything until nothing moves and no timer is due before now + `duration_ns`.
  void run_for(Nanos duration_ns);
  template <class Condition>
  bool run_until(Condition condition, Nanos limit_ns = kSecond) {
    const Nanos end_ns = clock.now_ns() + limit_ns;
    while (!condition()) {
      if (!step(end_ns)) return condition();
    }
    return true;
  }
  bool step(Nanos end_ns);
  std::unique_ptr<Link> connect();
  // Every hold is zero: table, homes, arenas (N3, I6).
  bool at_rest() const;
  bool settle() {
    return run_until([this] { return at_rest(); }, 20 * kSecond);
  }
  int64_t metric(const std::string& name, const std::string& labels = "");
  uint64_t requests_timed(const std::string& kind);  // how many varve_session_request_seconds has
  FakeHome& home_of(const BaseId& id) {
    return *homes[Shard::home(id, kSlicesDefault, static_cast<uint32_t>(homes.size()))];
  }

  ManualClock clock;
  SeededEntropy entropy{7};
  SimFabric fabric;
  Env env{clock, entropy, fabric};
  Reactor reactor;
  Reactor client_reactor;
  std::vector<std::unique_ptr<FakeHome>> homes;
  std::unique_ptr<SessionTable> table;
  MetricSet metrics;
};

Format small_format();  // 1 rank, 4 layers, one extent of two frames
Format two_rank_format();
BaseId id_of(uint32_t number);
std::vector<BaseId> ids_of(uint32_t count, uint32_t first = 0);
// The bytes of one extent: a function of block and extent.
std::vector<std::byte> bytes_of_extent(const BlockId& block, uint32_t extent, uint32_t bytes);

}  // namespace varve::test
