// The send queue of a link: a ring of messages over a ring of prefixes and heads. Gathering is done
// anew for each system call, so that what was queued meanwhile leaves in the same call.
#include "common/fabric/send_queue.h"

#include <algorithm>

#include "common/fabric/message_prefix.h"

namespace varve {

SendQueue::SendQueue(uint32_t messages_max, uint64_t payload_bytes_max)
    : messages_(messages_max),
      payload_bytes_max_(payload_bytes_max),
      ring_(std::make_unique_for_overwrite<std::byte[]>(kRingBytes)) {
  VARVE_ASSERT(messages_max > 0);
  VARVE_ASSERT(payload_bytes_max >= kPayloadBytesMax, payload_bytes_max);
}

bool SendQueue::has_room(uint32_t payload_bytes) const {
  return count_ < messages_.size() && ring_used_ + kFramedBytesMax <= kRingBytes &&
         payload_bytes_ + payload_bytes <= payload_bytes_max_;
}

void SendQueue::push(ConstByteSpan head, SendRequest* request) {
  const uint32_t payload_bytes = request == nullptr ? 0 : request->payload_bytes();
  VARVE_ASSERT(!head.empty() && head.size() <= kHeadBytesMax, head.size());
  VARVE_ASSERT(payload_bytes <= kPayloadBytesMax, payload_bytes);
  VARVE_ASSERT(has_room(payload_bytes), count_, ring_used_, payload_bytes_);  // F4
  if (count_ == 0) ring_first_ = 0;  // an idle link touches only the ring's first pages
  MessagePrefix prefix;
  prefix.head_bytes = static_cast<uint32_t>(head.size());
  prefix.payload_bytes = payload_bytes;
  prefix.head_crc = crc32c(0, head);
  ring_put(bytes_view(prefix));
  ring_put(head);
  Message& message = messages_[(first_ + count_) % messages_.size()];
  message.request = request;
  message.framed_bytes = static_cast<uint32_t>(sizeof(prefix) + head.size());
  message.payload_bytes = payload_bytes;
  ++count_;
  payload_bytes_ += payload_bytes;
}

void SendQueue::ring_put(ConstByteSpan bytes) {
  VARVE_ASSERT(ring_used_ + bytes.size() <= kRingBytes);
  const uint32_t end = (ring_first_ + ring_used_) % kRingBytes;
  const size_t before_wrap = std::min<size_t>(bytes.size(), kRingBytes - end);
  std::memcpy(ring_.get() + end, bytes.data(), before_wrap);
  std::memcpy(ring_.get(), bytes.data() + before_wrap, bytes.size() - before_wrap);
  ring_used_ += static_cast<uint32_t>(bytes.size());
}

// One or two pieces for ring bytes [offset, offset + bytes), counted from ring_first_.
uint32_t SendQueue::gather_ring(iovec* iov, uint32_t offset, uint32_t bytes) const {
  const uint32_t begin = (ring_first_ + offset) % kRingBytes;
  const uint32_t before_wrap = std::min(bytes, kRingBytes - begin);
  iov[0] = iovec{ring_.get() + begin, before_wrap};
  if (before_wrap == bytes) return 1;
  iov[1] = iovec{ring_.get(), bytes - before_wrap};
  return 2;
}

uint32_t SendQueue::gather(iovec* iov, uint32_t iov_max, uint64_t bytes_max) const {
  VARVE_ASSERT(iov_max >= 2 + kPayloadPiecesMax, iov_max);
  uint32_t pieces = 0;
  uint64_t bytes = 0;
  uint32_t ring_offset = 0;
  uint64_t skip = first_sent_bytes_;
  for (uint32_t i = 0; i < count_ && bytes < bytes_max; ++i) {
    const Message& message = at(i);
    const uint32_t payload_pieces = message.request == nullptr ? 0 : message.request->payload_count;
    if (pieces + 2 + payload_pieces > iov_max) break;
    if (skip < message.framed_bytes) {
      const uint32_t left = message.framed_bytes - static_cast<uint32_t>(skip);
      pieces += gather_ring(iov + pieces, ring_offset + static_cast<uint32_t>(skip), left);
      bytes += left;
      skip = 0;
    } else {
      skip -= message.framed_bytes;
    }
    for (uint32_t p = 0; p < payload_pieces; ++p) {
      const iovec& piece = message.request->payload[p];
      if (skip >= piece.iov_len) {
        skip -= piece.iov_len;
        continue;
      }
      iov[pieces++] = iovec{static_cast<std::byte*>(piece.iov_base) + skip, piece.iov_len - skip};
      bytes += piece.iov_len - skip;
      skip = 0;
    }
    VARVE_ASSERT(skip == 0, skip);
    ring_offset += message.framed_bytes;
  }
  return pieces;
}

void SendQueue::sent(uint64_t bytes, SendRequests& finished, Link::Counters& counters) {
  first_sent_bytes_ += bytes;
  while (count_ > 0) {
    const Message message = at(0);
    const uint64_t total = uint64_t{message.framed_bytes} + message.payload_bytes;
    if (first_sent_bytes_ < total) return;
    first_sent_bytes_ -= total;
    first_ = (first_ + 1) % static_cast<uint32_t>(messages_.size());
    --count_;
    payload_bytes_ -= message.payload_bytes;
    ring_first_ = (ring_first_ + message.framed_bytes) % kRingBytes;
    ring_used_ -= message.framed_bytes;
    counters.sent_messages += 1;
    counters.sent_bytes += total - sizeof(MessagePrefix);
    if (message.request != nullptr) finished.push(message.request);
  }
  VARVE_ASSERT(first_sent_bytes_ == 0, first_sent_bytes_);  // more sent than was gathered
  VARVE_ASSERT(ring_used_ == 0 && payload_bytes_ == 0);
}

void SendQueue::take_all(SendRequests& unfinished) {
  for (uint32_t i = 0; i < count_; ++i) {
    if (at(i).request != nullptr) unfinished.push(at(i).request);
  }
  first_ = count_ = 0;
  first_sent_bytes_ = payload_bytes_ = 0;
  ring_first_ = ring_used_ = 0;
}

}  // namespace varve
