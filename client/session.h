// ClientSession: the lanes to one daemon, from connect to loss and back.
//
// Owns: the urgent lane and the bulk lanes, the handshake, pings, reconnect with backoff to each
// number of the daemon's name in turn, pull credit. Called by Core, which gets its frames. One
// thread. The session never decides about ops: it says ready, lost and what arrived.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/endpoint.h"
#include "client/varve.h"

namespace varve {

class ClientSession;

// What the core does with the session's news.
class SessionUser {
 public:
  virtual void on_connecting() = 0;  // the state is kConnecting
  virtual void on_ready() = 0;
  // The session is gone: after this no lane touches any memory (F2). It reconnects by itself.
  virtual void on_lost(Status cause) = 0;
  virtual void on_urgent(const wire::Frame& frame) = 0;
  // DATA: where its payload goes; empty = discard. `bounce` may be used when the pieces do not fit.
  virtual void place_data(const wire::DataView& data, uint64_t op, uint32_t payload_bytes,
                          ByteSpan bounce, Placement& where) = 0;
  virtual void on_data(const wire::DataView& data, uint64_t op, uint32_t payload_bytes,
                       const Placement& where) = 0;
  // Now and then while ready: what found no room in a lane may try again.
  virtual void on_tick() = 0;

 protected:
  ~SessionUser() = default;
};

class ClientSession {
 public:
  ClientSession(Env& env, Reactor& reactor, const ClientOptions& options, SessionUser& user,
                Names names = Names::kAsGiven);
  ~ClientSession();
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  void start();
  // Drops the lanes with `cause`; reconnects unless closed. on_lost comes when the last lane is
  // fenced.
  void drop(Status cause);
  void close();        // drop for good
  bool quiet() const;  // no lane is left

  bool take_lookup() { return std::exchange(lookup_wanted_, false); }
  void looked_up(Result<std::vector<std::string>> numbers);

  SessionState state() const { return state_; }
  // Ready, and not about to be lost: what is sent now has a chance.
  bool usable() const {
    return state_ == SessionState::kReady && !dropping_ && !lanes_[0].link->closing();
  }
  Status last_error() const { return last_error_; }
  const std::string& last_error_text() const { return last_error_text_; }
  const wire::HelloOk& hello() const { return hello_; }
  bool has_feature(uint64_t feature) const { return (hello_.features & feature) != 0; }
  bool was_ready() const { return was_ready_; }
  uint32_t lanes() const { return bulk_count_; }

  wire::Encoder& encoder() { return encoder_; }
  [[nodiscard]] bool send_urgent(ConstByteSpan head);
  [[nodiscard]] bool send_bulk_head(uint32_t lane, ConstByteSpan head);
  bool can_send_bulk(uint32_t lane, uint32_t payload_bytes) const;
  void send_bulk(uint32_t lane, SendRequest& request);

  uint64_t connects() const { return connects_; }
  uint64_t disconnects() const { return disconnects_; }
  uint64_t identity_changes() const { return identity_changes_; }
  uint64_t discarded_bytes() const { return discarded_bytes_; }

 private:
  struct Lane final : LinkUser {
    ClientSession* session = nullptr;
    uint32_t index = 0;  // 0 urgent, 1.. bulk
    std::unique_ptr<Link> link;
    bool open = false;      // started and not closed
    bool welcomed = false;  // HELLO_OK came
    bool placed = false;    // the payload under way goes to a caller's memory or bounce
    Placement where;
    std::vector<std::byte> bounce;  // bulk only
    Status place(ConstByteSpan head, uint32_t payload_bytes, Placement& out) override;
    void on_message(ConstByteSpan head, uint32_t payload_bytes) override;
    void on_closed(Status cause) override;
  };
  void connect();
  void open_urgent();
  bool open_lane(uint32_t index);
  void on_lane_message(Lane& lane, ConstByteSpan head, uint32_t payload_bytes);
  void on_hello_ok(Lane& lane, const wire::HelloOk& ok);
  void on_lane_closed(Lane& lane, Status cause);
  void lanes_closed();
  void credit_used(uint32_t bytes);
  void on_timer();
  void send_hello(Lane& lane);
  void check_identity(const wire::HelloOk& ok);
  void log_loss(bool was_ready);

  Env& env_;
  Reactor& reactor_;
  const ClientOptions& options_;
  SessionUser& user_;
  SessionState state_ = SessionState::kWaiting;
  Endpoint endpoint_;
  std::string number_;           // that this try goes to
  bool lookup_wanted_ = false;   // and nobody took it yet
  bool lookup_awaited_ = false;  // connecting, when the answer is here
  Status last_error_;
  wire::HelloOk hello_;
  std::vector<std::byte> encode_buffer_;
  wire::Encoder encoder_;
  Lane lanes_[1 + wire::kBulkLanesMax];
  uint32_t bulk_count_ = 1;
  uint32_t open_lanes_ = 0;
  bool dropping_ = false, closed_ = false, was_ready_ = false, reported_ready_ = false;
  Status drop_cause_;
  std::string refusal_;          // what REFUSED said on this try
  std::string last_error_text_;  // last_error_ in words
  std::string logged_text_;      // the last loss that was logged, and when
  Nanos logged_ns_ = 0;
  uint64_t losses_unlogged_ = 0;
  Nanos backoff_ns_ = 0;
  Nanos heard_ns_ = 0;
  Nanos connect_started_ns_ = 0;
  uint64_t credit_owed_bytes_ = 0;
  uint64_t ping_value_ = 0;
  Timer timer_;
  uint64_t connects_ = 0, disconnects_ = 0, discarded_bytes_ = 0, identity_changes_ = 0;
};

}  // namespace varve
