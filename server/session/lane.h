// Lane: one link and what it is for, and the pool that lanes come from and go back to.
//
// A lane begins unnamed (the table is its user), becomes urgent or bulk with HELLO (its session
// is), may be refused (a last REFUSED is on its way, everything that arrives is dropped) and ends
// with on_closed. Its link is destroyed by the pool in a later task, never inside the link's own
// upcall.
#pragma once

#include <memory>
#include <vector>

#include "common/fabric/fabric.h"
#include "common/wire/wire.h"
#include "server/session/context.h"

namespace varve {

class Lane;
class LanePool;

// Two kinds: the table (before HELLO) and a session (after it).
class LaneUser {
 public:
  virtual Status on_place(Lane& lane, ConstByteSpan head, uint32_t payload_bytes,
                          Placement& where) = 0;
  virtual void on_frame(Lane& lane, ConstByteSpan head, uint32_t payload_bytes) = 0;
  // The fence of F2: nothing of this lane is in flight any more.
  virtual void on_lane_closed(Lane& lane, Status cause) = 0;

 protected:
  ~LaneUser() = default;
};

// The EXTENT payload that a lane is receiving: between place() and on_message().
struct ExtentReceive {
  bool active = false;
  Grant* grant = nullptr;  // null: discarded
  uint32_t extent = 0;
  uint32_t offset = 0;
  uint32_t bytes = 0;
  uint32_t stored_crc = 0;
  Placement where;
};

class Lane final : public LinkUser {
 public:
  enum class State : uint8_t { kFree, kUnnamed, kUrgent, kBulk, kRefused, kClosing };

  explicit Lane(SessionContext& context);
  void open(std::unique_ptr<Link> link, LaneUser& user, LanePool& pool, Nanos handshake_ns);
  // HELLO was accepted: from now on `user` gets what arrives.
  void name(State kind, LaneUser& user);

  [[nodiscard]] bool send_head(ConstByteSpan head) { return link_->send_head(head); }
  bool can_send(uint32_t payload_bytes) const { return link_->can_send(payload_bytes); }
  void send(SendRequest& request) { link_->send(request); }
  // A last REFUSED with the cause, then close(); bounded by kRefusalNs.
  // `text` says more than the cause can; printable, at most 256 bytes.
  void refuse(uint64_t op, Status cause, std::string_view text = {});
  void close(Status cause);

  State state() const { return state_; }
  bool named() const { return state_ == State::kUrgent || state_ == State::kBulk; }
  bool closing() const { return link_->closing(); }
  bool peer_is_loopback() const { return link_->peer_is_loopback(); }
  std::string peer() const { return link_->peer(); }
  ExtentReceive& receive() { return receive_; }

  // LinkUser
  Status place(ConstByteSpan head, uint32_t payload_bytes, Placement& where) override;
  void on_message(ConstByteSpan head, uint32_t payload_bytes) override;
  void on_closed(Status cause) override;

  Lane* next_closed = nullptr;  // the pool's

 private:
  friend class LanePool;
  static constexpr Nanos kRefusalNs = kSecond;  // what a refused peer gets to read why
  // Of heads before HELLO was accepted: a HELLO is at most 576 bytes.
  static constexpr uint32_t kHelloHeadBytesMax = 1024;

  SessionContext& context_;
  State state_ = State::kFree;
  std::unique_ptr<Link> link_;
  LaneUser* user_ = nullptr;
  LanePool* pool_ = nullptr;
  Nanos handshake_ns_ = 0;
  Timer timer_;  // handshake, then refusal
  bool was_named_ = false;
  Status close_cause_;
  SendRequest refusal_;
  ExtentReceive receive_;
};

class LanePool final : public Task {
 public:
  LanePool(SessionContext& context, uint32_t lanes_max);
  Lane* take() { return pool_.take(); }
  void closed(Lane& lane);
  uint32_t used() const { return pool_.used(); }
  uint32_t unnamed() const { return unnamed_; }  // without an accepted HELLO
  void run() override;
  const char* name() const override { return "lane_pool"; }
  template <class Visit>
  void for_each_open(Visit visit) {
    for (const auto& lane : pool_.all()) {
      if (lane->state() != Lane::State::kFree) visit(*lane);
    }
  }

 private:
  SessionContext& context_;
  Pool<Lane> pool_;
  Queue<Lane, &Lane::next_closed> closed_;
  friend class Lane;
  uint32_t unnamed_ = 0;
};

}  // namespace varve
