// link_harness: two reactors in one thread with a fabric between them, for tests that must hold
// over every fabric and every I/O backend. Time is a ManualClock: it moves when a test moves it
// (and, in simulation, to the next timer), so no test waits for a wall clock.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/fabric/fabric.h"
#include "tests/doubles/sim_fabric.h"

namespace varve {

enum class FabricKind { kTcpUring, kTcpEpoll, kSim };
const char* fabric_kind_name(FabricKind kind);

class LinkWorld {
 public:
  explicit LinkWorld(FabricKind kind, uint64_t seed = 1);
  ~LinkWorld();
  bool has_backend() const { return has_backend_; }  // false: io_uring is refused on this machine
  Fabric& fabric() { return *fabric_; }
  SimFabric& sim() { return *static_cast<SimFabric*>(fabric_.get()); }
  Reactor& server() { return *server_; }
  Reactor& client() { return *client_; }
  std::string any_address() const { return "127.0.0.1:0"; }
  // An address where nobody listens.
  std::string dead_address();

  enum class Turn { kBoth, kClientOnly };
  void turn(Turn turn = Turn::kBoth);
  // Turns until the predicate holds; false when it never did.
  template <class Predicate>
  [[nodiscard]] bool until(Predicate done, Turn which = Turn::kBoth) {
    for (uint32_t i = 0; i < kTurnsMax; ++i) {
      if (done()) return true;
      turn(which);
    }
    return done();
  }
  // Turns long enough for everything under way to happen.
  void settle(Turn which = Turn::kBoth);
  // Moves time on, firing what is due on the way.
  void pass(Nanos duration_ns, Turn which = Turn::kBoth);

 private:
  static constexpr uint32_t kTurnsMax = 2'000'000;
  bool turn_in_place(Turn which);  // time stands still
  ManualClock clock_;
  const FabricKind kind_;
  bool has_backend_ = true;
  // Fabric before backends before reactors: destroyed in the opposite order.
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<IoBackend> server_io_, client_io_;
  std::unique_ptr<Reactor> server_, client_;
};

// A user of a link that remembers everything and checks the order of upcalls.
class RecordingUser final : public LinkUser, public ListenerUser {
 public:
  struct Message {
    std::string head;
    std::vector<std::byte> payload;
  };
  // Where payloads go by default: memory of its own, cut in pieces of `piece_bytes`.
  uint32_t piece_bytes = kPayloadBytesMax;
  uint32_t discard_every = 0;  // every n-th payload is not wanted
  Status place_status;         // an error to answer to the next place()
  std::function<void(ConstByteSpan, uint32_t)> at_place;
  std::function<void(ConstByteSpan)> at_message;
  bool keep = true;  // false: count only

  Link* link() { return link_.get(); }
  void take(std::unique_ptr<Link> link) {
    link_ = std::move(link);
    link_->start(*this);
  }
  std::unique_ptr<Link> release() { return std::move(link_); }
  const std::vector<Message>& messages() const { return messages_; }
  uint64_t count() const { return count_; }
  bool is_closed() const { return closed_; }
  Status cause() const { return cause_; }
  std::function<void()> at_closed;
  ByteSpan memory() { return memory_; }  // of the last placement
  bool in_place() const { return placed_; }

  Status place(ConstByteSpan head, uint32_t payload_bytes, Placement& where) override;
  void on_message(ConstByteSpan head, uint32_t payload_bytes) override;
  void on_closed(Status cause) override;
  void on_accepted(std::unique_ptr<Link> link) override { take(std::move(link)); }

 private:
  std::unique_ptr<Link> link_;
  std::vector<Message> messages_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kPayloadBytesMax);
  uint64_t count_ = 0;
  uint64_t payloads_ = 0;
  bool placed_ = false;
  bool discarded_ = false;
  bool closed_ = false;
  Status cause_;
};

// A server side and a client side that are connected.
class LinkPair {
 public:
  LinkPair(LinkWorld& world, const LinkOptions& server_options = {},
           const LinkOptions& client_options = {});
  ~LinkPair();
  [[nodiscard]] bool connect();
  // Closes what is open and waits for it.
  void close();
  RecordingUser server, client;
  Listener& listener() { return *listener_; }

 private:
  LinkWorld& world_;
  LinkOptions client_options_;
  std::unique_ptr<Listener> listener_;
};

// A message with its own memory, random but for its number.
class TestMessage {
 public:
  TestMessage(Random& random, uint32_t head_bytes, uint32_t payload_bytes, uint32_t pieces);
  TestMessage(const TestMessage&) = delete;
  SendRequest request;
  uint32_t completions = 0;
  std::string head;
  std::vector<std::byte> payload;
};

ConstByteSpan text_bytes(std::string_view text);

}  // namespace varve
