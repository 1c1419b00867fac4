// MessageReader: a byte stream into messages, with payloads received straight into their place.
//
// It says where the next bytes of the stream go (next_iov) and is told how many came (received).
// Behind the rest of a payload stands a read-ahead buffer, so that one receive brings that rest and
// the next head. Pure: it knows no socket; whatever the peer sends is a Status, never an assert.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>

#include "common/base/base.h"
#include "common/fabric/fabric.h"
#include "common/fabric/message_prefix.h"

namespace varve {

class MessageReader {
 public:
  explicit MessageReader(uint32_t head_bytes_max);
  MessageReader(const MessageReader&) = delete;
  MessageReader& operator=(const MessageReader&) = delete;

  void set_head_bytes_max(uint32_t bytes);
  static constexpr uint32_t kIovMax = kPayloadPiecesMax + 1;
  // Fills iov[0 .. kIovMax); the pieces stay valid until received().
  uint32_t next_iov(iovec* iov);
  // `bytes` came into those pieces, first to last. Makes the upcalls for what is complete; an error
  // is the cause to close with.
  Status received(uint64_t bytes, LinkUser& user, Link::Counters& counters);
  // The link closes: no more upcalls, also in the middle of received().
  void stop() { stopped_ = true; }
  // A message has begun and is not complete: the peer owes us bytes.
  bool in_message() const { return state_ != State::kPrefix || ahead_bytes() > 0; }

 private:
  enum class State : uint8_t { kPrefix, kHead, kPayload, kDiscard };
  static constexpr uint32_t kAheadBytes = 64 * 1024;
  // Payload that lands in the read-ahead buffer is copied once more; with big payloads in a row it
  // is kept to a page.
  static constexpr uint32_t kAheadBytesSmall = 4 * 1024;
  static constexpr uint32_t kPayloadBytesBig = 32 * 1024;
  // Heads up to this size are read through the read-ahead buffer, larger ones past it.
  static constexpr uint32_t kHeadBytesSmall = 16 * 1024;
  static_assert(sizeof(MessagePrefix) + kHeadBytesSmall + kAheadBytesSmall <= kAheadBytes);

  uint32_t ahead_bytes() const { return ahead_end_ - ahead_begin_; }
  ConstByteSpan ahead() const { return {ahead_.get() + ahead_begin_, ahead_bytes()}; }
  // One step over what is there; true when it got anywhere.
  Result<bool> step(LinkUser& user, Link::Counters& counters);
  Result<bool> step_prefix(LinkUser& user, Link::Counters& counters);
  Result<bool> step_head(LinkUser& user, Link::Counters& counters);
  Result<bool> step_payload(LinkUser& user, Link::Counters& counters);
  Result<bool> step_discard(LinkUser& user, Link::Counters& counters);
  Status head_complete(ConstByteSpan head, LinkUser& user, Link::Counters& counters);
  void message_complete(ConstByteSpan head, LinkUser& user, Link::Counters& counters);
  void advance_placement(uint64_t bytes);

  State state_ = State::kPrefix;
  bool stopped_ = false;
  uint32_t head_bytes_max_;
  const uint32_t head_bytes_limit_;  // what head_ holds
  MessagePrefix prefix_;             // of the message begun last
  std::unique_ptr<std::byte[]> ahead_;
  uint32_t ahead_begin_ = 0, ahead_end_ = 0;
  std::unique_ptr<std::byte[]> head_;
  uint32_t head_have_bytes_ = 0;
  Placement placement_;
  uint32_t piece_ = 0;        // first piece with room
  uint64_t piece_bytes_ = 0;  // already in it
  uint32_t payload_left_bytes_ = 0;
};

}  // namespace varve
