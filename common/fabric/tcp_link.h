// TcpLink: one lane over one TCP connection, on the reactor's I/O backend.
//
// One send and one receive are in flight at most. A send gathers what the turn queued; a receive
// brings the rest of a payload into its place and the next head behind it. close() shuts the socket
// down and waits for both: that is the fence (F2).
#pragma once

#include <array>
#include <memory>
#include <string>

#include "common/fabric/fabric.h"
#include "common/fabric/message_reader.h"
#include "common/fabric/send_queue.h"
#include "common/fabric/tcp_socket.h"

namespace varve {

class TcpLink final : public Link, private Task {
 public:
  // A socket that is connected already, or one that connects to `peer` in start().
  enum class Begin : uint8_t { kConnected, kConnect };
  TcpLink(Reactor& reactor, Socket socket, const SocketAddress& peer, Begin begin,
          const LinkOptions& options);
  ~TcpLink() override;

  void start(LinkUser& user) override;
  bool can_send(uint32_t payload_bytes) const override;
  void send(SendRequest& request) override;
  [[nodiscard]] bool send_head(ConstByteSpan head) override;
  void close(Status cause) override;
  bool closing() const override { return state_ == State::kClosing || state_ == State::kClosed; }
  void set_head_bytes_max(uint32_t bytes) override { reader_.set_head_bytes_max(bytes); }
  std::string peer() const override { return peer_.text(); }
  bool peer_is_loopback() const override { return peer_.is_loopback(); }
  const Counters& counters() const override { return counters_; }

 private:
  enum class State : uint8_t { kFresh, kConnecting, kOpen, kClosing, kClosed };
  static constexpr uint32_t kSendPiecesMax = 512;
  static constexpr uint64_t kSendBytesMax = kMiB;  // of one system call

  void run() override;  // gathers and sends what the turn queued; ends the link when it is quiet
  const char* name() const override { return "tcp_link"; }
  void open();
  void queue(ConstByteSpan head, SendRequest* request);
  void start_connect();
  void start_send();
  void start_receive();
  void connected(int64_t result);
  void sent(int64_t result);
  void received(int64_t result);
  bool quiet() const { return !connect_.in_flight && !send_.in_flight && !receive_.in_flight; }
  void finish();
  void check_stall();
  void watch();  // arms the stall timer when something is owed

  Reactor& reactor_;
  Socket socket_;
  SocketAddress peer_;
  const Begin begin_;
  const Nanos stall_ns_max_;
  const uint32_t stall_bytes_min_;
  State state_ = State::kFresh;
  LinkUser* user_ = nullptr;
  Status cause_;
  uint64_t close_turn_ = 0;
  SendQueue queue_;
  MessageReader reader_;
  Io connect_, send_, receive_;
  std::array<iovec, kSendPiecesMax> send_iov_;
  std::array<iovec, MessageReader::kIovMax> receive_iov_;
  Timer stall_;
  // Since when, and how much of it already: a byte now and then is no progress (F5).
  struct Progress {
    Nanos since_ns = 0;
    uint64_t bytes = 0;
    uint64_t messages = 0;  // the link's counter when it began
  };
  void note(Progress& progress, uint64_t bytes, uint64_t messages);
  Progress send_progress_, receive_progress_;
  Counters counters_;
};

}  // namespace varve
