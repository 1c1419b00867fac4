// encode: one head from a struct to bytes, forward through a Writer. What is encoded is our own, so
// a field out of range is a bug and asserted by the same rules that decode applies to a peer
// (check.h).
#include "common/wire/check.h"
#include "common/wire/wire.h"

namespace varve::wire {

namespace {

class Writer {
 public:
  Writer(ByteSpan buffer, FrameType type, uint64_t op) : buffer_(buffer) {
    FrameHeader header;
    header.type = type;
    header.op = op;
    put(header);
  }
  template <class T>
  void put(const T& value) {
    put_bytes(bytes_view(value));
  }
  void put_bytes(ConstByteSpan bytes) {
    VARVE_ASSERT(bytes.size() <= buffer_.size() - used_, bytes.size(), used_);
    if (!bytes.empty()) std::memcpy(buffer_.data() + used_, bytes.data(), bytes.size());
    used_ += bytes.size();
  }
  void put_padding(size_t count) {
    static constexpr std::byte kZeros[8] = {};
    put_bytes(ConstByteSpan(kZeros).first(round_up(count, 8) - count));
  }
  ConstByteSpan finish() {
    const uint32_t body_bytes = static_cast<uint32_t>(used_ - sizeof(FrameHeader));
    store(buffer_, offsetof(FrameHeader, body_bytes), body_bytes);
    return ConstByteSpan(buffer_).first(used_);
  }

 private:
  ByteSpan buffer_;
  size_t used_ = 0;
};

template <class Body>
ConstByteSpan fixed(ByteSpan buffer, FrameType type, uint64_t op, const Body& body) {
  VARVE_ASSERT(check(body).ok());
  Writer out(buffer, type, op);
  out.put(body);
  return out.finish();
}

// The fixed part counts the elements of `array`; the caller has set the count.
template <class Body, class T>
ConstByteSpan with_array(ByteSpan buffer, FrameType type, uint64_t op, const Body& body,
                         std::span<const T> array) {
  VARVE_ASSERT(check(body).ok());
  Writer out(buffer, type, op);
  out.put(body);
  out.put_bytes(std::as_bytes(array));
  if constexpr (sizeof(T) == 1) out.put_padding(array.size());
  return out.finish();
}

}  // namespace

ConstByteSpan Encoder::hello(uint64_t op, Hello body, ConstByteSpan token, std::string_view name) {
  VARVE_ASSERT(token.size() <= kTokenBytesMax, token.size());
  VARVE_ASSERT(name.size() <= kTextBytesMax, name.size());
  body.token_bytes = static_cast<uint16_t>(token.size());
  body.name_bytes = static_cast<uint16_t>(name.size());
  VARVE_ASSERT(check(body).ok());
  Writer out(buffer_, FrameType::kHello, op);
  out.put(body);
  out.put_bytes(token);
  out.put_bytes(std::as_bytes(std::span(name)));
  return out.finish();
}

ConstByteSpan Encoder::hello_ok(uint64_t op, const HelloOk& body) {
  return fixed(buffer_, FrameType::kHelloOk, op, body);
}

ConstByteSpan Encoder::refused(uint64_t op, Code code, std::string_view text) {
  Refused body;
  body.code = static_cast<uint8_t>(code);
  text = text.substr(0, kTextBytesMax);
  body.text_bytes = static_cast<uint16_t>(text.size());
  VARVE_ASSERT(check(body).ok());
  Writer out(buffer_, FrameType::kRefused, op);
  out.put(body);
  out.put_bytes(std::as_bytes(std::span(text)));
  return out.finish();
}

ConstByteSpan Encoder::format(uint64_t op, ConstByteSpan canonical) {
  FormatBody body;
  body.format_bytes = static_cast<uint32_t>(canonical.size());
  VARVE_ASSERT(check(body).ok());
  Writer out(buffer_, FrameType::kFormat, op);
  out.put(body);
  out.put_bytes(canonical);
  return out.finish();
}

ConstByteSpan Encoder::format_ok(uint64_t op, const FormatOk& body) {
  return fixed(buffer_, FrameType::kFormatOk, op, body);
}

ConstByteSpan Encoder::match(uint64_t op, Match body, std::span<const BaseId> ids) {
  body.count = static_cast<uint32_t>(ids.size());
  return with_array(buffer_, FrameType::kMatch, op, body, ids);
}

ConstByteSpan Encoder::matched(uint64_t op, Matched body, std::span<const TierKind> tiers) {
  for (TierKind tier : tiers)
    VARVE_DASSERT(check(tier).ok());
  body.n_blocks = static_cast<uint32_t>(tiers.size());
  return with_array(buffer_, FrameType::kMatched, op, body, tiers);
}

ConstByteSpan Encoder::release(uint64_t op, const Release& body) {
  return fixed(buffer_, FrameType::kRelease, op, body);
}

ConstByteSpan Encoder::released(uint64_t op, const Released& body) {
  return fixed(buffer_, FrameType::kReleased, op, body);
}

ConstByteSpan Encoder::reserve(uint64_t op, Reserve body, std::span<const BaseId> ids) {
  body.count = static_cast<uint32_t>(ids.size());
  return with_array(buffer_, FrameType::kReserve, op, body, ids);
}

ConstByteSpan Encoder::reserved(uint64_t op, Reserved body,
                                std::span<const ReserveAnswer> answers) {
  for (const ReserveAnswer& answer : answers)
    VARVE_ASSERT(check(answer).ok());
  body.count = static_cast<uint32_t>(answers.size());
  return with_array(buffer_, FrameType::kReserved, op, body, answers);
}

ConstByteSpan Encoder::extent(uint64_t op, const Extent& body) {
  return fixed(buffer_, FrameType::kExtent, op, body);
}

ConstByteSpan Encoder::commit(uint64_t op, Commit body, std::span<const ExtentEntry> entries) {
  for (const ExtentEntry& entry : entries)
    VARVE_ASSERT(check(entry).ok());
  body.count = static_cast<uint32_t>(entries.size());
  return with_array(buffer_, FrameType::kCommit, op, body, entries);
}

ConstByteSpan Encoder::committed(uint64_t op, const Committed& body) {
  return fixed(buffer_, FrameType::kCommitted, op, body);
}

ConstByteSpan Encoder::abort(uint64_t op, const Abort& body) {
  return fixed(buffer_, FrameType::kAbort, op, body);
}

ConstByteSpan Encoder::aborted(uint64_t op, const Aborted& body) {
  return fixed(buffer_, FrameType::kAborted, op, body);
}

ConstByteSpan Encoder::pull(uint64_t op, Pull body, std::span<const BaseId> ids,
                            std::span<const Want> wants) {
  for (const Want& want : wants)
    VARVE_ASSERT(check(want).ok());
  body.count = static_cast<uint32_t>(ids.size());
  body.want_count = static_cast<uint32_t>(wants.size());
  VARVE_ASSERT(check(body).ok());
  Writer out(buffer_, FrameType::kPull, op);
  out.put(body);
  out.put_bytes(std::as_bytes(ids));
  out.put_bytes(std::as_bytes(wants));
  return out.finish();
}

ConstByteSpan Encoder::data(uint64_t op, const Data& body) {
  return fixed(buffer_, FrameType::kData, op, body);
}

ConstByteSpan Encoder::pulled(uint64_t op, Pulled body, std::span<const uint8_t> codes) {
  for (uint8_t code : codes)
    VARVE_DASSERT(check_code(code).ok());
  body.count = static_cast<uint32_t>(codes.size());
  return with_array(buffer_, FrameType::kPulled, op, body, codes);
}

ConstByteSpan Encoder::cancel(uint64_t op, const Cancel& body) {
  return fixed(buffer_, FrameType::kCancel, op, body);
}

ConstByteSpan Encoder::fenced(uint64_t op, const Fenced& body) {
  return fixed(buffer_, FrameType::kFenced, op, body);
}

ConstByteSpan Encoder::credit(uint64_t op, const Credit& body) {
  return fixed(buffer_, FrameType::kCredit, op, body);
}

ConstByteSpan Encoder::ping(uint64_t op, const Ping& body) {
  return fixed(buffer_, FrameType::kPing, op, body);
}

ConstByteSpan Encoder::pong(uint64_t op, const Ping& body) {
  return fixed(buffer_, FrameType::kPong, op, body);
}

ConstByteSpan Encoder::goodbye(uint64_t op, const Goodbye& body) {
  return fixed(buffer_, FrameType::kGoodbye, op, body);
}

ConstByteSpan Encoder::lost(uint64_t op, std::span<const LostExtent> lost) {
  for (const LostExtent& extent : lost)
    VARVE_ASSERT(check(extent).ok());
  const Lost body{.count = static_cast<uint32_t>(lost.size())};
  return with_array(buffer_, FrameType::kLost, op, body, lost);
}

ConstByteSpan Encoder::renew(uint64_t op, const Renew& body) {
  return fixed(buffer_, FrameType::kRenew, op, body);
}

ConstByteSpan Encoder::renewed(uint64_t op, const Renewed& body) {
  return fixed(buffer_, FrameType::kRenewed, op, body);
}

ConstByteSpan Encoder::follow(uint64_t op, Follow body, std::span<const FollowBlock> blocks) {
  for (const FollowBlock& block : blocks)
    VARVE_ASSERT(check(block).ok());
  body.count = static_cast<uint32_t>(blocks.size());
  return with_array(buffer_, FrameType::kFollow, op, body, blocks);
}

ConstByteSpan Encoder::holds(uint64_t op, const Holds& body) {
  return fixed(buffer_, FrameType::kHolds, op, body);
}

ConstByteSpan Encoder::held(uint64_t op, Held body, std::span<const Hold> holds) {
  for (const Hold& hold : holds)
    VARVE_ASSERT(check(hold).ok());
  body.count = static_cast<uint32_t>(holds.size());
  return with_array(buffer_, FrameType::kHeld, op, body, holds);
}

ConstByteSpan Encoder::purge(uint64_t op, Purge body, std::span<const BaseId> ids) {
  body.count = static_cast<uint32_t>(ids.size());
  return with_array(buffer_, FrameType::kPurge, op, body, ids);
}

ConstByteSpan Encoder::purged(uint64_t op, const Purged& body) {
  return fixed(buffer_, FrameType::kPurged, op, body);
}

}  // namespace varve::wire
