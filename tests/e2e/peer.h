// Peer: a client of the data plane that says whatever a test wants, frame by frame, and knows what
// it should not: numbers of sessions, leases and attempts that are somebody else's.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "common/fabric/fabric.h"
#include "common/wire/wire.h"

namespace varve {

// One connection, blocking, with a bound for every wait.
class PeerLane {
 public:
  explicit PeerLane(const std::string& address) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const size_t colon = address.rfind(':');
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoul(address.substr(colon + 1))));
    EXPECT_EQ(::inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr), 1);
    const timeval patience = {20, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  }
  ~PeerLane() { ::close(fd_); }
  PeerLane(const PeerLane&) = delete;
  PeerLane& operator=(const PeerLane&) = delete;

  void send(ConstByteSpan head) {
    const uint32_t prefix[4] = {0x31565256, static_cast<uint32_t>(head.size()), 0, crc32c(0, head)};
    put(std::as_bytes(std::span(prefix)));
    put(head);
  }
  // Why the last receive() was empty.
  const std::string& end() const { return end_; }
  // The head of the next message; empty when the connection is over.
  std::vector<std::byte> receive() {
    uint32_t prefix[4] = {};
    if (!get(std::as_writable_bytes(std::span(prefix)))) return {};
    std::vector<std::byte> head(prefix[1]), payload(prefix[2]);
    if (!get(head) || !get(payload)) return {};
    return head;
  }

 private:
  void put(ConstByteSpan bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;  // it is closed: receive() says so
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
  }
  bool get(ByteSpan bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::recv(fd_, bytes.data(), bytes.size(), 0);
      // With a timeout set a wait ends so also where the process was only stopped for a while.
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        end_ = n == 0 ? "the peer closed" : std::strerror(errno);
        return false;
      }
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return true;
  }
  int fd_;
  std::string end_ = "nothing was asked";
};

struct PeerReply {
  std::vector<std::byte> head;  // the views below point into it
  template <class View>
  View as() const {
    const Result<wire::Frame> frame = wire::decode(head);
    if (!frame || !std::holds_alternative<View>(frame->body)) {
      ADD_FAILURE() << "another answer, or none";
      return {};
    }
    return std::get<View>(frame->body);
  }
};

class Peer {
 public:
  // kOk: it came in; `welcome` has what it was told.
  Peer(const std::string& address, const std::string& token)
      : address_(address), token_(token), buffer_(kHeadBytesMax), urgent_(address) {
    wire::Hello body;
    body.pull_credit_bytes = 64 * kMiB;
    refusal = greet(urgent_, body, &welcome);
  }
  // A bulk lane of whatever session; stays open with the peer.
  Code join(uint64_t session, uint64_t secret, uint8_t index = 0) {
    wire::Hello body;
    body.lane = wire::LaneKind::kBulk;
    body.lane_index = index;
    body.session = session;
    body.session_secret = secret;
    bulk_.push_back(std::make_unique<PeerLane>(address_));
    wire::HelloOk unused;
    return greet(*bulk_.back(), body, &unused);
  }
  wire::Encoder encoder() { return wire::Encoder(buffer_); }
  uint64_t next_op() { return ++op_; }
  // The answer to a frame of the urgent lane with this op.
  PeerReply ask(uint64_t op, ConstByteSpan head) {
    urgent_.send(head);
    while (true) {
      std::vector<std::byte> reply = urgent_.receive();
      if (reply.empty()) return {};
      const Result<wire::Frame> frame = wire::decode(reply);
      if (frame && frame->header.op == op) return {std::move(reply)};
    }
  }
  // Whether the server ends the session.
  bool closes() {
    while (!urgent_.receive().empty()) {
    }
    return true;
  }
  bool alive() {
    const uint64_t op = next_op();
    return !ask(op, encoder().ping(op, wire::Ping{7})).head.empty();
  }

  Code refusal = Code::kOk;
  wire::HelloOk welcome;

 private:
  Code greet(PeerLane& lane, const wire::Hello& body, wire::HelloOk* answer) {
    lane.send(encoder().hello(next_op(), body, std::as_bytes(std::span(token_)), "peer"));
    const std::vector<std::byte> reply = lane.receive();
    const Result<wire::Frame> frame = wire::decode(reply);
    if (!frame) {
      ADD_FAILURE() << "HELLO was not answered: "
                    << (reply.empty() ? lane.end() : std::string(frame.error().what()));
      return Code::kInternal;
    }
    if (const auto* refused = std::get_if<wire::RefusedView>(&frame->body)) {
      return static_cast<Code>(refused->body.code);
    }
    const auto* ok = std::get_if<wire::HelloOkView>(&frame->body);
    if (ok == nullptr) return Code::kInternal;
    *answer = ok->body;
    return Code::kOk;
  }
  const std::string address_, token_;
  std::vector<std::byte> buffer_;
  uint64_t op_ = 0;
  PeerLane urgent_;
  std::vector<std::unique_ptr<PeerLane>> bulk_;
};

}  // namespace varve
