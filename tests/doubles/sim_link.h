// SimLink and SimListener: the two ends that SimFabric connects. One SimLink per end; what it sends
// waits in its own outbox until the peer's timer takes it from there.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "tests/doubles/sim_fabric.h"

namespace varve {

class SimLink final : public Link {
 public:
  SimLink(SimFabric& fabric, Reactor& reactor, const std::string& address,
          const LinkOptions& options);
  ~SimLink() override;

  void start(LinkUser& user) override;
  bool can_send(uint32_t payload_bytes) const override;
  void send(SendRequest& request) override;
  [[nodiscard]] bool send_head(ConstByteSpan head) override;
  void close(Status cause) override;
  bool closing() const override { return state_ >= State::kClosing; }
  void set_head_bytes_max(uint32_t bytes) override;
  std::string peer() const override { return "sim:" + std::to_string(id_); }
  bool peer_is_loopback() const override { return fabric_.options_.peers_are_loopback; }
  const Counters& counters() const override { return counters_; }

 private:
  friend class SimFabric;
  friend class SimListener;
  enum class State : uint8_t { kFresh, kConnecting, kOpen, kClosing, kClosed, kDead };
  struct Flight {
    std::vector<std::byte> head;
    SendRequest* request = nullptr;
    uint32_t payload_bytes = 0;
    uint32_t payload_crc = 0;  // at send(); the payload is lent and must not change
    Nanos due_ns = 0;
  };
  struct Ack {
    SendRequest* request = nullptr;
    Nanos due_ns = 0;
  };
  struct Piece {
    uint32_t offset = 0;
    uint32_t bytes = 0;
  };

  void queue(ConstByteSpan head, SendRequest* request);
  bool is_silent() const;
  void join(SimLink& other);  // the connection is made
  void expect();              // arms receive_ for the peer's next message
  void on_receive();
  void begin_message();
  void copy_piece();
  void finish_message();
  void acked(Flight flight, Nanos now_ns);  // on the sender, by its peer
  void on_ack();
  void lose_peer(Status cause, Nanos now_ns);  // the other end is gone; reported after the latency
  void on_lost();
  void sever();  // both ends forget each other
  void finish();
  void check_stall();
  void watch();
  void die();

  SimFabric& fabric_;
  Reactor& reactor_;
  const std::string address_;  // of the listener this connection is about
  const LinkOptions options_;
  const uint64_t id_;
  State state_ = State::kFresh;
  bool connects_ = false;
  bool silenced_ = false;
  LinkUser* user_ = nullptr;
  SimLink* peer_ = nullptr;
  Status cause_;
  uint32_t head_bytes_max_;
  // Sending.
  std::deque<Flight> outbox_;
  uint64_t outbox_payload_bytes_ = 0;
  Nanos last_due_ns_ = 0;
  std::deque<Ack> acks_;
  // Receiving: the peer's outbox front, while `pieces_` is not empty.
  std::deque<Flight> last_words_;  // of a peer that closed
  std::vector<std::byte> head_;
  Placement placement_;
  std::vector<Piece> pieces_;
  Status lost_;  // why the peer is gone, once it is
  Timer receive_, ack_, lost_timer_, end_, stall_;
  Nanos send_progress_ns_ = 0;
  Nanos receive_progress_ns_ = 0;
  Counters counters_;
};

class SimListener final : public Listener {
 public:
  SimListener(SimFabric& fabric, Reactor& reactor, std::string address, const LinkOptions& options);
  ~SimListener() override;
  void start(ListenerUser& user) override;
  void stop() override;
  std::string address() const override { return address_; }

 private:
  friend class SimFabric;
  friend class SimLink;
  struct Knock {
    SimLink* link = nullptr;
    Nanos due_ns = 0;
  };
  void knock(SimLink& link, Nanos due_ns);
  void forget(SimLink& link);
  void on_accept();
  void die();

  SimFabric& fabric_;
  Reactor& reactor_;
  const std::string address_;
  const LinkOptions options_;
  ListenerUser* user_ = nullptr;
  bool stopped_ = false;
  std::deque<Knock> knocks_;
  Timer accept_;
};

}  // namespace varve
