// fabric: lanes between two processes, and how bytes land in the right memory without a copy.
//
// Owns: Link (one lane), Listener, and their two kinds: TCP and simulated; ADR-0003 maps each call
// to RC queue pairs. Called by server/session and client. Thread rule: a Fabric and all it makes
// belong to one core; all calls and all upcalls happen there.
// A message is a *head* (at most kHeadBytesMax, opaque here, written by common/wire) and a
// *payload* (at most kPayloadBytesMax). The receiver sees the head first and says where the payload
// goes (place), so that payload is received straight into a slab or into the caller's registered
// memory. With verbs the same two upcalls are: place = the region the requester named, delivered =
// write-with-immediate.
// Invariants:
//   F1 messages of one link arrive in order, whole, or the link closes; heads are checked by
//   CRC32C. F2 after on_closed nothing touches memory given to send() or answered by place(): the
//   fence. F3 every send() completes exactly once, in a later turn; on close with kUnavailable. F4
//   the send queue is bounded in messages and bytes; the caller checks can_send() first
//      (asserted).
//   F5 a peer that drains less than a message and stall_bytes_min in stall_ns_max, or begins a
//      message and sends less than that of it in as long, or sends a head or length over its limit,
//      is closed with its cause.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/base.h"
#include "common/reactor/reactor.h"

namespace varve {

inline constexpr uint32_t kHeadBytesMax = 192 * 1024;
inline constexpr uint32_t kPayloadBytesMax = 256 * 1024;
// A 256 KiB payload in 4 KiB pages, any alignment.
inline constexpr uint32_t kPayloadPiecesMax = 64 + 1;

// Lives in its owner until on_sent. `head` is copied by send(); payload memory stays until on_sent.
struct SendRequest {
  using Sent = void (*)(SendRequest&);
  ConstByteSpan head;
  iovec payload[kPayloadPiecesMax];
  uint32_t payload_count = 0;
  Status status;
  Sent on_sent = nullptr;  // may be null for head-only messages that nobody waits for
  void* owner = nullptr;
  SendRequest* next = nullptr;  // the link's
  uint32_t payload_bytes() const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < payload_count; ++i)
      sum += payload[i].iov_len;
    return static_cast<uint32_t>(sum);
  }
};

// Where the payload of one incoming message goes: filled by LinkUser::place.
struct Placement {
  iovec pieces[kPayloadPiecesMax];
  uint32_t count = 0;
  void add(void* data, size_t bytes) {
    VARVE_ASSERT(count < kPayloadPiecesMax);
    pieces[count++] = iovec{data, bytes};
  }
};

// The user of a link. Upcalls run in the link's turn; they may call send() and close().
class LinkUser {
 public:
  // A head arrived with a payload of `payload_bytes` > 0 behind it (a message without payload goes
  // straight to on_message). Fill `where` with exactly that many bytes, or answer an error to close
  // the link with that cause. A payload that nobody wants any more is discarded by leaving `where`
  // empty. The memory is lent until on_message for this head, or on_closed.
  virtual Status place(ConstByteSpan head, uint32_t payload_bytes, Placement& where) = 0;
  // The message is complete; its payload is in place. `head` is valid during the call only.
  virtual void on_message(ConstByteSpan head, uint32_t payload_bytes) = 0;
  // Last upcall, exactly once (F2). The link may be destroyed inside it.
  virtual void on_closed(Status cause) = 0;

 protected:
  ~LinkUser() = default;
};

struct LinkOptions {
  uint32_t send_messages_max = 4096;
  uint64_t send_bytes_max = 64 * kMiB;      // of payload; at least kPayloadBytesMax
  Nanos stall_ns_max = 30 * kSecond;        // F5; also bounds connecting
  uint32_t stall_bytes_min = 64 * kKiB;     // a message, or so much of one, is progress
  uint32_t head_bytes_max = kHeadBytesMax;  // of incoming heads; see set_head_bytes_max
  std::string congestion = "cubic";         // TCP_CONGESTION; empty = the system's default
  uint32_t socket_buffer_bytes = 0;         // 0 = the system's autotuning
};

class Link {
 public:
  virtual ~Link() = default;  // only after on_closed, or before start()
  virtual void start(LinkUser& user) = 0;
  virtual bool can_send(uint32_t payload_bytes) const = 0;
  virtual void send(SendRequest& request) = 0;
  // Copies a small head-only message into the link's own queue; false when the queue is full.
  [[nodiscard]] virtual bool send_head(ConstByteSpan head) = 0;
  // Stops receiving and sending now; on_closed follows in a later turn, after the fence (F2).
  virtual void close(Status cause) = 0;
  virtual bool closing() const = 0;
  // Limits the heads that arrive from now on, at most to what the link was made with: sessions keep
  // it low until the handshake is done.
  virtual void set_head_bytes_max(uint32_t bytes) = 0;
  virtual std::string peer() const = 0;  // "127.0.0.1:4711"
  virtual bool peer_is_loopback() const = 0;
  struct Counters {  // bytes: heads and payloads, without framing
    uint64_t sent_messages = 0, sent_bytes = 0, received_messages = 0, received_bytes = 0;
    uint64_t discarded_bytes = 0;
  };
  virtual const Counters& counters() const = 0;
};

class ListenerUser {
 public:
  virtual void on_accepted(std::unique_ptr<Link> link) = 0;

 protected:
  ~ListenerUser() = default;
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual void start(ListenerUser& user) = 0;
  virtual void stop() = 0;                  // no new links after this returns
  virtual std::string address() const = 0;  // with the port that was bound
};

// Makes links; the seam between TCP, RDMA (later) and simulation. Outlives its links and listeners;
// an I/O backend it used is destroyed first, or turned until nothing is in flight.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual const char* name() const = 0;  // "tcp", "sim"
  virtual Result<std::unique_ptr<Listener>> listen(Reactor& reactor, const std::string& address,
                                                   const LinkOptions& options) = 0;
  // Answers a link at once; failure to connect arrives as on_closed after start().
  virtual Result<std::unique_ptr<Link>> connect(Reactor& reactor, const std::string& address,
                                                const LinkOptions& options) = 0;
};

std::unique_ptr<Fabric> make_tcp_fabric();

}  // namespace varve
