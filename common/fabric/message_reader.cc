// The stream parser of a link. States follow the picture of a message: prefix, head, payload; small
// heads are read in place from the read-ahead buffer, large ones and those with a payload are kept
// in a buffer of their own until the message is complete.
#include "common/fabric/message_reader.h"

#include <algorithm>

namespace varve {

MessageReader::MessageReader(uint32_t head_bytes_max)
    : head_bytes_max_(head_bytes_max),
      head_bytes_limit_(head_bytes_max),
      ahead_(std::make_unique_for_overwrite<std::byte[]>(kAheadBytes)),
      head_(std::make_unique_for_overwrite<std::byte[]>(head_bytes_max)) {
  VARVE_ASSERT(head_bytes_max > 0 && head_bytes_max <= kHeadBytesMax, head_bytes_max);
}

void MessageReader::set_head_bytes_max(uint32_t bytes) {
  VARVE_ASSERT(bytes > 0 && bytes <= head_bytes_limit_, bytes, head_bytes_limit_);
  head_bytes_max_ = bytes;
}

uint32_t MessageReader::next_iov(iovec* iov) {
  // What is left of the read-ahead is the beginning of a prefix or a small head.
  if (ahead_begin_ > 0) {
    std::memmove(ahead_.get(), ahead_.get() + ahead_begin_, ahead_bytes());
    ahead_end_ = ahead_bytes();
    ahead_begin_ = 0;
  }
  uint32_t count = 0;
  if (state_ == State::kHead) {
    iov[count++] = iovec{head_.get() + head_have_bytes_, prefix_.head_bytes - head_have_bytes_};
  } else if (state_ == State::kPayload) {
    VARVE_ASSERT(ahead_bytes() == 0);
    for (uint32_t i = piece_; i < placement_.count; ++i) {
      const uint64_t skip = i == piece_ ? piece_bytes_ : 0;
      const iovec& piece = placement_.pieces[i];
      if (piece.iov_len == skip) continue;
      iov[count++] = iovec{static_cast<std::byte*>(piece.iov_base) + skip, piece.iov_len - skip};
    }
  }
  const bool small = state_ != State::kDiscard && prefix_.payload_bytes >= kPayloadBytesBig;
  const uint32_t room = std::min(kAheadBytes - ahead_end_, small ? kAheadBytesSmall : kAheadBytes);
  VARVE_ASSERT(room > 0);
  iov[count++] = iovec{ahead_.get() + ahead_end_, room};
  VARVE_ASSERT(count <= kIovMax, count);
  return count;
}

Status MessageReader::received(uint64_t bytes, LinkUser& user, Link::Counters& counters) {
  if (state_ == State::kHead) {
    const uint64_t direct = std::min<uint64_t>(bytes, prefix_.head_bytes - head_have_bytes_);
    head_have_bytes_ += static_cast<uint32_t>(direct);
    bytes -= direct;
  } else if (state_ == State::kPayload) {
    const uint64_t direct = std::min<uint64_t>(bytes, payload_left_bytes_);
    advance_placement(direct);
    bytes -= direct;
  }
  VARVE_ASSERT(bytes <= kAheadBytes - ahead_end_, bytes, ahead_end_);
  ahead_end_ += static_cast<uint32_t>(bytes);
  while (!stopped_) {
    VARVE_TRY(const bool progress, step(user, counters));
    if (!progress) break;
  }
  return {};
}

Result<bool> MessageReader::step(LinkUser& user, Link::Counters& counters) {
  switch (state_) {
    case State::kPrefix:
      return step_prefix(user, counters);
    case State::kHead:
      return step_head(user, counters);
    case State::kPayload:
      return step_payload(user, counters);
    case State::kDiscard:
      return step_discard(user, counters);
  }
  return Status::internal("message reader: state");
}

Result<bool> MessageReader::step_prefix(LinkUser& user, Link::Counters& counters) {
  if (ahead_bytes() < sizeof(MessagePrefix)) return false;
  const MessagePrefix prefix = load<MessagePrefix>(ahead());
  VARVE_RETURN_IF_ERROR(check_prefix(prefix, head_bytes_max_));
  if (prefix.head_bytes > kHeadBytesSmall) {
    prefix_ = prefix;
    ahead_begin_ += sizeof(MessagePrefix);
    head_have_bytes_ = 0;
    state_ = State::kHead;
    return true;
  }
  if (ahead_bytes() < sizeof(MessagePrefix) + prefix.head_bytes) return false;
  prefix_ = prefix;
  const ConstByteSpan head = ahead().subspan(sizeof(MessagePrefix), prefix.head_bytes);
  ahead_begin_ += static_cast<uint32_t>(sizeof(MessagePrefix)) + prefix.head_bytes;
  VARVE_RETURN_IF_ERROR(head_complete(head, user, counters));
  return true;
}

Result<bool> MessageReader::step_head(LinkUser& user, Link::Counters& counters) {
  const uint32_t bytes = std::min(ahead_bytes(), prefix_.head_bytes - head_have_bytes_);
  std::memcpy(head_.get() + head_have_bytes_, ahead().data(), bytes);
  ahead_begin_ += bytes;
  head_have_bytes_ += bytes;
  if (head_have_bytes_ < prefix_.head_bytes) return false;
  VARVE_RETURN_IF_ERROR(head_complete({head_.get(), prefix_.head_bytes}, user, counters));
  return true;
}

Result<bool> MessageReader::step_payload(LinkUser& user, Link::Counters& counters) {
  // Payload that came with the read-ahead is copied to its place: once, and little of it.
  while (ahead_bytes() > 0 && payload_left_bytes_ > 0) {
    const iovec& piece = placement_.pieces[piece_];
    const uint64_t bytes = std::min<uint64_t>(ahead_bytes(), piece.iov_len - piece_bytes_);
    std::memcpy(static_cast<std::byte*>(piece.iov_base) + piece_bytes_, ahead().data(), bytes);
    ahead_begin_ += static_cast<uint32_t>(bytes);
    advance_placement(bytes);
  }
  if (payload_left_bytes_ > 0) return false;
  message_complete({head_.get(), prefix_.head_bytes}, user, counters);
  return true;
}

Result<bool> MessageReader::step_discard(LinkUser& user, Link::Counters& counters) {
  const uint32_t bytes = std::min(ahead_bytes(), payload_left_bytes_);
  ahead_begin_ += bytes;
  payload_left_bytes_ -= bytes;
  counters.discarded_bytes += bytes;
  if (payload_left_bytes_ > 0) return false;
  message_complete({head_.get(), prefix_.head_bytes}, user, counters);
  return true;
}

Status MessageReader::head_complete(ConstByteSpan head, LinkUser& user, Link::Counters& counters) {
  if (crc32c(0, head) != prefix_.head_crc) return Status::corrupt("checksum of a head");  // F1
  if (prefix_.payload_bytes == 0) {
    message_complete(head, user, counters);
    return {};
  }
  // The head is needed again when the payload is complete.
  if (head.data() != head_.get()) std::memcpy(head_.get(), head.data(), head.size());
  head = {head_.get(), prefix_.head_bytes};
  placement_.count = 0;
  VARVE_RETURN_IF_ERROR(user.place(head, prefix_.payload_bytes, placement_));
  payload_left_bytes_ = prefix_.payload_bytes;
  piece_ = 0;
  piece_bytes_ = 0;
  state_ = placement_.count == 0 ? State::kDiscard : State::kPayload;
  if (state_ == State::kPayload) {
    uint64_t placed_bytes = 0;
    for (uint32_t i = 0; i < placement_.count; ++i)
      placed_bytes += placement_.pieces[i].iov_len;
    VARVE_ASSERT(placed_bytes == prefix_.payload_bytes, placed_bytes, prefix_.payload_bytes);
    advance_placement(0);
  }
  return {};
}

void MessageReader::message_complete(ConstByteSpan head, LinkUser& user, Link::Counters& counters) {
  state_ = State::kPrefix;
  counters.received_messages += 1;
  counters.received_bytes += uint64_t{prefix_.head_bytes} + prefix_.payload_bytes;
  user.on_message(head, prefix_.payload_bytes);
}

// Moves the cursor; afterwards it stands in a piece with room, unless the payload is complete.
void MessageReader::advance_placement(uint64_t bytes) {
  VARVE_ASSERT(bytes <= payload_left_bytes_, bytes, payload_left_bytes_);
  payload_left_bytes_ -= static_cast<uint32_t>(bytes);
  piece_bytes_ += bytes;
  while (piece_ < placement_.count && piece_bytes_ >= placement_.pieces[piece_].iov_len) {
    piece_bytes_ -= placement_.pieces[piece_].iov_len;
    ++piece_;
  }
}

}  // namespace varve
