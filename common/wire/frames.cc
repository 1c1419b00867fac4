// frames: the names of the frame types, for logs, metrics and refusals; and what the structs
// promise of their own layout, checked when this compiles.
#include "common/wire/frames.h"

#include <type_traits>

namespace varve::wire {

// No padding anywhere: every byte of a frame is a field, so nothing of ours leaks and nothing
// hides.
template <class... T>
constexpr bool kNoPadding = (std::has_unique_object_representations_v<T> && ...);
static_assert(
    kNoPadding<FrameHeader, Hello, HelloOk, Refused, FormatBody, FormatOk, Match, Matched>);
static_assert(kNoPadding<Release, Released, Reserve, ReserveAnswer, Reserved, Extent, Commit>);
static_assert(kNoPadding<Committed, Abort, Aborted, Pull, Data, Pulled, Cancel, Fenced, Credit>);
static_assert(
    kNoPadding<Ping, Goodbye, Want, LostExtent, Lost, Renew, Renewed, FollowBlock, Follow>);
static_assert(kNoPadding<Holds, Held, Hold, Purge, Purged>);

// The offsets drawn in docs/WIRE.md 4, so that the picture and the structs can not part.
static_assert(offsetof(FrameHeader, body_bytes) == 4 && offsetof(FrameHeader, op) == 8);
static_assert(offsetof(Hello, token_bytes) == 6 && offsetof(Hello, features) == 16);
static_assert(offsetof(Hello, pull_credit_bytes) == 40);
static_assert(offsetof(HelloOk, slices) == 4 && offsetof(HelloOk, session) == 16);
static_assert(offsetof(HelloOk, boot_id) == 32 && offsetof(HelloOk, k) == 52);
static_assert(offsetof(HelloOk, node) == 80 && offsetof(HelloOk, domain_salt) == 112);
static_assert(offsetof(Matched, lease) == 8 && offsetof(Matched, first_layer_ns) == 32);
static_assert(offsetof(Reserve, hold_ms) == 16 && offsetof(Reserve, parent) == 24);
static_assert(offsetof(ReserveAnswer, attempt) == 8);
static_assert(offsetof(Extent, extent_bytes) == 20 && offsetof(Extent, attempt) == 32);
static_assert(offsetof(Commit, ack) == 20 && offsetof(Commit, attempt) == 24);
static_assert(offsetof(Commit, count) == 40);
static_assert(offsetof(Committed, attempt) == 8 && offsetof(Aborted, attempt) == 8);
static_assert(offsetof(Abort, attempt) == 16);
static_assert(offsetof(Pull, layer_first) == 48 && offsetof(Pull, count) == 56);
static_assert(offsetof(Data, entry) == 16 && offsetof(Data, attempt) == 48);
static_assert(offsetof(LostExtent, entry) == 16 && offsetof(LostExtent, attempt) == 48);
static_assert(offsetof(Follow, layer_first) == 32 && offsetof(Follow, count) == 40);
static_assert(offsetof(Hold, bytes) == 32 && offsetof(Hold, kind) == 44);
static_assert(offsetof(Hold, name) == 48 && offsetof(Purged, blocks) == 8);

const char* frame_type_name(FrameType type) {
  switch (type) {
    case FrameType::kHello:
      return "HELLO";
    case FrameType::kHelloOk:
      return "HELLO_OK";
    case FrameType::kRefused:
      return "REFUSED";
    case FrameType::kFormat:
      return "FORMAT";
    case FrameType::kFormatOk:
      return "FORMAT_OK";
    case FrameType::kMatch:
      return "MATCH";
    case FrameType::kMatched:
      return "MATCHED";
    case FrameType::kRelease:
      return "RELEASE";
    case FrameType::kReleased:
      return "RELEASED";
    case FrameType::kReserve:
      return "RESERVE";
    case FrameType::kReserved:
      return "RESERVED";
    case FrameType::kExtent:
      return "EXTENT";
    case FrameType::kCommit:
      return "COMMIT";
    case FrameType::kCommitted:
      return "COMMITTED";
    case FrameType::kAbort:
      return "ABORT";
    case FrameType::kAborted:
      return "ABORTED";
    case FrameType::kPull:
      return "PULL";
    case FrameType::kData:
      return "DATA";
    case FrameType::kPulled:
      return "PULLED";
    case FrameType::kCancel:
      return "CANCEL";
    case FrameType::kFenced:
      return "FENCED";
    case FrameType::kCredit:
      return "CREDIT";
    case FrameType::kPing:
      return "PING";
    case FrameType::kPong:
      return "PONG";
    case FrameType::kGoodbye:
      return "GOODBYE";
    case FrameType::kLost:
      return "LOST";
    case FrameType::kRenew:
      return "RENEW";
    case FrameType::kRenewed:
      return "RENEWED";
    case FrameType::kFollow:
      return "FOLLOW";
    case FrameType::kHolds:
      return "HOLDS";
    case FrameType::kHeld:
      return "HELD";
    case FrameType::kPurge:
      return "PURGE";
    case FrameType::kPurged:
      return "PURGED";
  }
  return "?";
}

}  // namespace varve::wire
