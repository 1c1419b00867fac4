// wire: heads of the data plane, from structs to bytes and back, and nothing else.
//
// Owns: docs/WIRE.md in code. Called by server/session and client/session. Thread rule: pure, free.
// Invariants:
//   W1 decode accepts exactly what encode (of this version) produces: unknown version, type,
//   nonzero reserved field, enum out
//      of range, count over its limit, missing or trailing bytes are kInvalid with a text that
//      names it (I12).
//   W2 a decoded view points into the caller's bytes and copies nothing.
//   W3 parse never reads past the head and never asserts on its content.
#pragma once

#include <variant>

#include "common/base/base.h"
#include "common/model/model.h"
#include "common/wire/frames.h"

namespace varve::wire {

// Arrays in a head may be unaligned: element i is loaded by copy.
template <class T>
class ArrayView {
 public:
  ArrayView() = default;
  ArrayView(const std::byte* data, uint32_t count) : data_(data), count_(count) {}
  uint32_t size() const { return count_; }
  T operator[](uint32_t i) const {
    VARVE_ASSERT(i < count_, i, count_);
    T value;
    std::memcpy(&value, data_ + size_t{i} * sizeof(T), sizeof(T));
    return value;
  }

 private:
  const std::byte* data_ = nullptr;
  uint32_t count_ = 0;
};

struct HelloView {
  Hello body;
  ConstByteSpan token;
  std::string_view name;
};
struct HelloOkView {
  HelloOk body;
};
struct RefusedView {
  Refused body;
  std::string_view text;
};
struct FormatView {
  ConstByteSpan canonical;
};
struct FormatOkView {
  FormatOk body;
};
struct MatchView {
  Match body;
  ArrayView<BaseId> ids;
};
struct MatchedView {
  Matched body;
  ArrayView<TierKind> tiers;
};
struct ReleaseView {
  Release body;
};
struct ReleasedView {
  Released body;
};
struct ReserveView {
  Reserve body;
  ArrayView<BaseId> ids;
};
struct ReservedView {
  Reserved body;
  ArrayView<ReserveAnswer> answers;
};
struct ExtentView {
  Extent body;
};
struct CommitView {
  Commit body;
  ArrayView<ExtentEntry> entries;
};
struct CommittedView {
  Committed body;
};
struct AbortView {
  Abort body;
};
struct AbortedView {
  Aborted body;
};
struct PullView {
  Pull body;
  ArrayView<BaseId> ids;
  ArrayView<Want> wants;
};
struct DataView {
  Data body;
};
struct PulledView {
  Pulled body;
  ArrayView<uint8_t> codes;
};
struct CancelView {
  Cancel body;
};
struct FencedView {
  Fenced body;
};
struct CreditView {
  Credit body;
};
struct PingView {
  Ping body;
};
struct PongView {
  Ping body;
};
struct GoodbyeView {
  Goodbye body;
};
struct LostView {
  Lost body;
  ArrayView<LostExtent> lost;
};
struct RenewView {
  Renew body;
};
struct RenewedView {
  Renewed body;
};
struct FollowView {
  Follow body;
  ArrayView<FollowBlock> blocks;
};
struct HoldsView {
  Holds body;
};
struct HeldView {
  Held body;
  ArrayView<Hold> holds;
};
struct PurgeView {
  Purge body;
  ArrayView<BaseId> ids;
};
struct PurgedView {
  Purged body;
};

using Body =
    std::variant<HelloView, HelloOkView, RefusedView, FormatView, FormatOkView, MatchView,
                 MatchedView, ReleaseView, ReleasedView, ReserveView, ReservedView, ExtentView,
                 CommitView, CommittedView, AbortView, AbortedView, PullView, DataView, PulledView,
                 CancelView, FencedView, CreditView, PingView, PongView, GoodbyeView, LostView,
                 RenewView, RenewedView, FollowView, HoldsView, HeldView, PurgeView, PurgedView>;

struct Frame {
  FrameHeader header;
  Body body;
};
Result<Frame> decode(ConstByteSpan head);  // W1..W3

// Builds one head into a caller's buffer (a session owns one of kHeadBytesMax and reuses it).
class Encoder {
 public:
  explicit Encoder(ByteSpan buffer) : buffer_(buffer) {}
  ConstByteSpan hello(uint64_t op, Hello body, ConstByteSpan token, std::string_view name);
  ConstByteSpan hello_ok(uint64_t op, const HelloOk& body);
  ConstByteSpan refused(uint64_t op, Code code, std::string_view text);
  ConstByteSpan format(uint64_t op, ConstByteSpan canonical);
  ConstByteSpan format_ok(uint64_t op, const FormatOk& body);
  ConstByteSpan match(uint64_t op, Match body, std::span<const BaseId> ids);
  ConstByteSpan matched(uint64_t op, Matched body, std::span<const TierKind> tiers);
  ConstByteSpan release(uint64_t op, const Release& body);
  ConstByteSpan released(uint64_t op, const Released& body);
  ConstByteSpan reserve(uint64_t op, Reserve body, std::span<const BaseId> ids);
  ConstByteSpan reserved(uint64_t op, Reserved body, std::span<const ReserveAnswer> answers);
  ConstByteSpan extent(uint64_t op, const Extent& body);
  ConstByteSpan commit(uint64_t op, Commit body, std::span<const ExtentEntry> entries);
  ConstByteSpan committed(uint64_t op, const Committed& body);
  ConstByteSpan abort(uint64_t op, const Abort& body);
  ConstByteSpan aborted(uint64_t op, const Aborted& body);
  ConstByteSpan pull(uint64_t op, Pull body, std::span<const BaseId> ids,
                     std::span<const Want> wants = {});
  ConstByteSpan data(uint64_t op, const Data& body);
  ConstByteSpan pulled(uint64_t op, Pulled body, std::span<const uint8_t> codes);
  ConstByteSpan cancel(uint64_t op, const Cancel& body);
  ConstByteSpan fenced(uint64_t op, const Fenced& body);
  ConstByteSpan credit(uint64_t op, const Credit& body);
  ConstByteSpan ping(uint64_t op, const Ping& body);
  ConstByteSpan pong(uint64_t op, const Ping& body);
  ConstByteSpan goodbye(uint64_t op, const Goodbye& body);
  ConstByteSpan lost(uint64_t op, std::span<const LostExtent> lost);
  ConstByteSpan renew(uint64_t op, const Renew& body);
  ConstByteSpan renewed(uint64_t op, const Renewed& body);
  ConstByteSpan follow(uint64_t op, Follow body, std::span<const FollowBlock> blocks);
  ConstByteSpan holds(uint64_t op, const Holds& body);
  ConstByteSpan held(uint64_t op, Held body, std::span<const Hold> holds);
  ConstByteSpan purge(uint64_t op, Purge body, std::span<const BaseId> ids);
  ConstByteSpan purged(uint64_t op, const Purged& body);

 private:
  ByteSpan buffer_;
};

}  // namespace varve::wire
