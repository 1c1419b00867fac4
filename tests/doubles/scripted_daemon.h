// ScriptedDaemon: the daemon's side of the wire for client tests, over any Fabric.
//
// By itself it answers like a daemon with a small store in memory: handshake, formats, match, push,
// pull, follow, cancel, leases without an end. A test's hook sees each frame first and may take it;
// the test then speaks for the daemon with the senders below. Everything that came is in log(), in
// order of arrival. One reactor, one thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/fabric/fabric.h"
#include "common/model/model.h"
#include "common/wire/wire.h"

namespace varve {

class ScriptedDaemon final : private ListenerUser {
 public:
  struct Options {
    std::string address = "daemon";
    LinkOptions link;
    uint32_t bulk_lanes_max = wire::kBulkLanesMax;
    uint64_t boot_id = 1;
    uint32_t k = 1, m = 0;
    uint64_t features = wire::kFeatures;
    uint8_t tiers = 0;  // what PULLED says
    uint32_t lease_ms_max = 60000;
    uint32_t grants_max = wire::kIdsMax;          // per RESERVE; the others are refused with kQuota
    uint32_t pulls_max = 64, attempts_max = 256;  // named in HELLO_OK and held to
    Digest domain_salt = {{std::byte{42}}}, node;
    BaseId refuse_block;  // RESERVE of this one is refused with refuse_block_code, when that is one
    Code refuse_block_code = Code::kOk;
    uint32_t piece_bytes = kPayloadBytesMax;
    Code refuse = Code::kOk;  // answer HELLO with REFUSED
    bool greet = true;        // answer HELLO at all
  };
  struct Received {
    wire::FrameType type;
    uint64_t op = 0;
    uint32_t lane = 0;  // 0 urgent, 1.. bulk
    uint64_t session = 0;
    std::vector<std::byte> head;
    uint32_t payload_bytes = 0;
    std::vector<std::byte> payload;  // EXTENT only
    wire::Frame frame() const { return *wire::decode(head); }
  };
  struct Stored {
    Attempt attempt;
    std::vector<std::vector<std::byte>> extents;  // of the whole table
    ExtentTable table;
  };

  ScriptedDaemon(Fabric& fabric, Reactor& reactor, const Options& options);
  ~ScriptedDaemon();  // after close_all() and a turn, or when no lane is left

  std::string address() const { return listener_->address(); }
  Options& options() { return options_; }     // read at each use
  std::function<bool(const Received&)> hook;  // true: the daemon itself does nothing

  // The store. Contents are a function of (id, rank, salt): content() of the same arguments.
  void put(const BlockId& id, const ExtentTable& table, uint64_t salt = 0);
  static std::vector<std::byte> content(const BlockId& id, uint32_t extent, uint32_t bytes,
                                        uint64_t salt = 0);
  static void add_parity(Stored& stored);  // to its data extents, whole stripes at a time
  std::map<BlockId, Stored>& store() { return store_; }
  // Extents that a pull is told of instead: gone, or late and not sent until send_extent().
  using Extents = std::set<std::pair<BlockId, uint32_t>>;
  Extents lost, late;
  std::set<uint64_t>& leases() { return leases_; }
  std::vector<wire::Hold> holds;  // what HOLDS lists, by rising number
  uint32_t holds_page = 100;
  void end_reservations(Code code);  // all of them; followers are told `code`
  size_t reservations() const { return reserved_.size(); }
  size_t reservations_most() const { return reserved_most_; }  // at a time, so far

  const std::vector<Received>& log() const { return log_; }
  size_t count(wire::FrameType type) const;
  const Received* last(wire::FrameType type) const;  // of the newest; null when none
  uint64_t credit_returned() const { return credit_bytes_; }

  // Speaking by script, on the newest session. `lane` 0 is the urgent one.
  wire::Encoder& encoder() { return encoder_; }
  bool has_lane(uint32_t lane) const;
  void send(uint32_t lane, ConstByteSpan head, ConstByteSpan payload = {});
  // The entry is right for the extent unless the test changes it.
  ExtentEntry entry_of(const BlockId& id, uint32_t extent) const;
  static ExtentEntry entry_of(const BlockId& id, const Stored& stored, uint32_t extent);
  wire::LostExtent lost_of(const BlockId& id, uint32_t block, uint32_t extent,
                           wire::LostState state) const;
  void send_lost(uint64_t op, const wire::LostExtent& row);
  // All DATA frames of one extent; those of one that a test asks about by hand.
  void send_extent(uint32_t lane, uint64_t op, const BlockId& id, uint32_t block, uint32_t extent);
  void send_extent(uint32_t lane, uint64_t op, const BlockId& id, const Stored& stored,
                   uint32_t block, uint32_t extent);
  // One DATA frame; the entry is right for `bytes` of `extent` unless the test changes `data`.
  wire::Data data_of(const BlockId& id, uint32_t block, uint32_t extent) const;
  void send_data(uint32_t lane, uint64_t op, const wire::Data& data, ConstByteSpan payload);
  void answer_pull(const Received& pull);  // what the daemon itself would do
  void close_lane(uint32_t lane);
  void close_all();
  void stop();  // no new links either
  uint32_t lanes_open() const;

 private:
  struct Lane;
  struct Out;
  struct Reserved {
    BlockId id;
    uint64_t session = 0;
    uint64_t op = 0;
    uint32_t index = 0;
    Stored stored;
    std::vector<uint32_t> received;
  };
  // One FOLLOW; `next` extent of each block, a code once it is over.
  struct Following {
    uint64_t op = 0;
    uint32_t rank = 0, extent_end = 0;
    std::vector<wire::FollowBlock> blocks;
    std::vector<uint32_t> next;
    std::vector<std::optional<Code>> codes;
  };
  void on_accepted(std::unique_ptr<Link> link) override;
  void on_frame(Lane& lane, Received received);
  void on_hello(Lane& lane, const Received& received);
  void on_format(const Received& received);
  void on_match(const Received& received);
  void on_reserve(const Received& received);
  void on_extent(const Received& received);
  void on_commit(const Received& received);
  void on_abort(const Received& received);
  void on_cancel(const Received& received);
  void on_renew(const Received& received);
  void on_holds(const Received& received);
  void on_follow(const Received& received);
  void feed_followers();
  bool feed(Following& following, uint32_t block);
  std::vector<wire::Want> wanted_by(const wire::PullView& pull) const;
  void push_out(Lane& lane, ConstByteSpan head, ConstByteSpan payload, bool then_close);
  void pump(Lane& lane);
  void close_session(uint64_t session);
  Lane* find_lane(uint32_t lane) const;
  const ExtentTable* table_of(uint32_t format, uint32_t rank) const;

  Options options_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::byte> buffer_;
  wire::Encoder encoder_;
  uint64_t session_ = 0;  // the newest
  std::vector<Received> log_;
  std::vector<Format> formats_;  // handle - 1
  std::vector<std::vector<ExtentTable>> tables_;
  std::map<BlockId, Stored> store_;
  std::map<std::pair<uint64_t, uint32_t>, Reserved> reserved_;  // (op, index)
  std::vector<Following> followings_;
  std::set<uint64_t> leases_;
  size_t reserved_most_ = 0;
  uint64_t last_lease_ = 0, last_attempt_ = 0, credit_bytes_ = 0;
};

}  // namespace varve
