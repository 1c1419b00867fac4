// SendQueue: the messages of one link that have not left the process, as a byte stream.
//
// Prefixes and heads are copied into one ring of bytes; payloads stay where they are until they are
// sent. Pure: it knows no socket. Bounded in messages and payload bytes (F4).
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/base.h"
#include "common/fabric/fabric.h"

namespace varve {

using SendRequests = Queue<SendRequest, &SendRequest::next>;

class SendQueue {
 public:
  SendQueue(uint32_t messages_max, uint64_t payload_bytes_max);
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  // True when a message with the largest head and this payload fits.
  bool has_room(uint32_t payload_bytes) const;
  bool empty() const { return count_ == 0; }
  // `request` is null for a message that nobody waits for; it then has no payload.
  void push(ConstByteSpan head, SendRequest* request);
  // The next unsent bytes in order, at most `iov_max` pieces and about `bytes_max` bytes. They stay
  // valid and unchanged until sent() or take_all().
  uint32_t gather(iovec* iov, uint32_t iov_max, uint64_t bytes_max) const;
  // The first `bytes` unsent bytes have left. Requests that are complete go to `finished`.
  void sent(uint64_t bytes, SendRequests& finished, Link::Counters& counters);
  // The link closes: everything goes to `unfinished`, in order.
  void take_all(SendRequests& unfinished);

 private:
  struct Message {
    SendRequest* request = nullptr;
    uint32_t framed_bytes = 0;  // prefix and head, in the ring
    uint32_t payload_bytes = 0;
  };
  static constexpr uint32_t kRingBytes = 512 * 1024;  // two of the largest heads and some
  static constexpr uint32_t kFramedBytesMax = 16 + kHeadBytesMax;
  static_assert(kFramedBytesMax < kRingBytes);

  const Message& at(uint32_t i) const { return messages_[(first_ + i) % messages_.size()]; }
  void ring_put(ConstByteSpan bytes);
  uint32_t gather_ring(iovec* iov, uint32_t offset, uint32_t bytes) const;

  std::vector<Message> messages_;  // a ring: [first_, first_ + count_)
  uint32_t first_ = 0;
  uint32_t count_ = 0;
  uint64_t first_sent_bytes_ = 0;  // of the first message
  uint64_t payload_bytes_ = 0;     // of all messages
  uint64_t payload_bytes_max_;
  std::unique_ptr<std::byte[]> ring_;
  uint32_t ring_first_ = 0;  // where the first message's prefix begins
  uint32_t ring_used_ = 0;
};

}  // namespace varve
