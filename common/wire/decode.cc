// decode: one head from bytes to a view. Reads strictly forward through a Reader that remembers
// whether the bytes sufficed, so that no path can read past the head (W3); arrays stay where they
// are (W2).
#include "common/wire/check.h"
#include "common/wire/wire.h"

namespace varve::wire {

namespace {

class Reader {
 public:
  explicit Reader(ConstByteSpan bytes) : rest_(bytes) {}

  template <class T>
  Status take(T& out) {
    if (rest_.size() < sizeof(T)) return Status::invalid("frame: truncated");
    out = load<T>(rest_);
    rest_ = rest_.subspan(sizeof(T));
    return {};
  }
  Status take_bytes(uint32_t bytes, ConstByteSpan& out) {
    if (rest_.size() < bytes) return Status::invalid("frame: truncated");
    out = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return {};
  }
  Status take_text(uint32_t bytes, std::string_view& out) {
    ConstByteSpan span;
    VARVE_RETURN_IF_ERROR(take_bytes(bytes, span));
    out = std::string_view(reinterpret_cast<const char*>(span.data()), span.size());
    return {};
  }
  // `count` is checked against its limit by the caller, so the product fits 32 bits.
  template <class T>
  Status take_array(uint32_t count, ArrayView<T>& out) {
    ConstByteSpan span;
    VARVE_RETURN_IF_ERROR(take_bytes(count * static_cast<uint32_t>(sizeof(T)), span));
    out = ArrayView<T>(span.data(), count);
    return {};
  }
  // Zeros that fill an array of `count` bytes up to a multiple of 8.
  Status take_padding(uint32_t count) {
    ConstByteSpan span;
    VARVE_RETURN_IF_ERROR(take_bytes(static_cast<uint32_t>(round_up(count, 8)) - count, span));
    for (std::byte byte : span) {
      if (byte != std::byte{0}) return Status::invalid("frame: padding is not zero");
    }
    return {};
  }
  // The same, each element by its own rules.
  template <class T>
  Status take_checked(uint32_t count, ArrayView<T>& out) {
    VARVE_RETURN_IF_ERROR(take_array(count, out));
    for (uint32_t i = 0; i < out.size(); ++i)
      VARVE_RETURN_IF_ERROR(check(out[i]));
    return {};
  }
  bool empty() const { return rest_.empty(); }

 private:
  ConstByteSpan rest_;
};

// The frames that are a fixed part and nothing else.
template <class View>
Status read(Reader& in, View& view) {
  VARVE_RETURN_IF_ERROR(in.take(view.body));
  return check(view.body);
}

Status read(Reader& in, HelloView& view) {
  VARVE_RETURN_IF_ERROR(in.take(view.body));
  VARVE_RETURN_IF_ERROR(check(view.body));
  VARVE_RETURN_IF_ERROR(in.take_bytes(view.body.token_bytes, view.token));
  return in.take_text(view.body.name_bytes, view.name);
}

Status read(Reader& in, RefusedView& view) {
  VARVE_RETURN_IF_ERROR(in.take(view.body));
  VARVE_RETURN_IF_ERROR(check(view.body));
  return in.take_text(view.body.text_bytes, view.text);
}

Status read(Reader& in, FormatView& view) {
  FormatBody body;
  VARVE_RETURN_IF_ERROR(in.take(body));
  VARVE_RETURN_IF_ERROR(check(body));
  return in.take_bytes(body.format_bytes, view.canonical);
}

template <class View>
Status read_with_ids(Reader& in, View& view) {
  VARVE_RETURN_IF_ERROR(in.take(view.body));
  VARVE_RETURN_IF_ERROR(check(view.body));
  return in.take_array(view.body.count, view.ids);
}

Status read(Reader& in, MatchView& view) {
  return read_with_ids(in, view);
}
Status read(Reader& in, ReserveView& view) {
  return read_with_ids(in, view);
}
Status read(Reader& in, PullView& view) {
  VARVE_RETURN_IF_ERROR(read_with_ids(in, view));
  return in.take_checked(view.body.want_count, view.wants);
}
Status read(Reader& in, PurgeView& view) {
  return read_with_ids(in, view);
}

Status read(Reader& in, LostView& view) {
  VARVE_RETURN_IF_ERROR(in.take(view.body));
  VARVE_RETURN_IF_ERROR(check(view.body));
  return in.take_checked(view.body.count, view.lost);
}

Status read(Reader& in, FollowView& view) {
  VARVE_RETURN_IF_ERROR(in.take(view.body));
  VARVE_RETURN_IF_ERROR(check(view.body));
  return in.take_checked(view.body.count, view.blocks);
}

Status read(Reader& in, HeldView& view) {
  VARVE_RETURN_IF_ERROR(in.take(view.body));
  VARVE_RETURN_IF_ERROR(check(view.body));
  return in.take_checked(view.body.count, view.holds);
}

Status read(Reader& in, MatchedView& view) {
  VARVE_RETURN_IF_ERROR(in.take(view.body));
  VARVE_RETURN_IF_ERROR(check(view.body));
  VARVE_RETURN_IF_ERROR(in.take_checked(view.body.n_blocks, view.tiers));
  return in.take_padding(view.body.n_blocks);
}

Status read(Reader& in, ReservedView& view) {
  VARVE_RETURN_IF_ERROR(in.take(view.body));
  VARVE_RETURN_IF_ERROR(check(view.body));
  return in.take_checked(view.body.count, view.answers);
}

Status read(Reader& in, CommitView& view) {
  VARVE_RETURN_IF_ERROR(in.take(view.body));
  VARVE_RETURN_IF_ERROR(check(view.body));
  return in.take_checked(view.body.count, view.entries);
}

Status read(Reader& in, PulledView& view) {
  VARVE_RETURN_IF_ERROR(in.take(view.body));
  VARVE_RETURN_IF_ERROR(check(view.body));
  VARVE_RETURN_IF_ERROR(in.take_array(view.body.count, view.codes));
  for (uint32_t i = 0; i < view.codes.size(); ++i) {
    VARVE_RETURN_IF_ERROR(check_code(view.codes[i]));
  }
  return in.take_padding(view.body.count);
}

// Peers of different versions tell each other so by these, whose layout never changes.
bool is_for_ever(FrameType type) {
  return type == FrameType::kHello || type == FrameType::kHelloOk || type == FrameType::kRefused;
}

template <class View>
Result<Frame> decode_as(const FrameHeader& header, Reader& in) {
  Frame frame{header, View{}};
  VARVE_RETURN_IF_ERROR(read(in, std::get<View>(frame.body)));
  if (!in.empty()) return Status::invalid("frame: trailing bytes");
  return frame;
}

}  // namespace

Result<Frame> decode(ConstByteSpan head) {
  Reader in(head);
  FrameHeader header;
  VARVE_RETURN_IF_ERROR(in.take(header));
  if (header.version != kVersion && !is_for_ever(header.type))
    return Status::invalid("frame: unknown version");
  if (header.reserved != 0) return Status::invalid("frame: reserved field");
  if (header.body_bytes != head.size() - sizeof(FrameHeader)) {
    return Status::invalid("frame: body_bytes does not fit the head");
  }
  switch (header.type) {
    case FrameType::kHello:
      return decode_as<HelloView>(header, in);
    case FrameType::kHelloOk:
      return decode_as<HelloOkView>(header, in);
    case FrameType::kRefused:
      return decode_as<RefusedView>(header, in);
    case FrameType::kFormat:
      return decode_as<FormatView>(header, in);
    case FrameType::kFormatOk:
      return decode_as<FormatOkView>(header, in);
    case FrameType::kMatch:
      return decode_as<MatchView>(header, in);
    case FrameType::kMatched:
      return decode_as<MatchedView>(header, in);
    case FrameType::kRelease:
      return decode_as<ReleaseView>(header, in);
    case FrameType::kReleased:
      return decode_as<ReleasedView>(header, in);
    case FrameType::kReserve:
      return decode_as<ReserveView>(header, in);
    case FrameType::kReserved:
      return decode_as<ReservedView>(header, in);
    case FrameType::kExtent:
      return decode_as<ExtentView>(header, in);
    case FrameType::kCommit:
      return decode_as<CommitView>(header, in);
    case FrameType::kCommitted:
      return decode_as<CommittedView>(header, in);
    case FrameType::kAbort:
      return decode_as<AbortView>(header, in);
    case FrameType::kAborted:
      return decode_as<AbortedView>(header, in);
    case FrameType::kPull:
      return decode_as<PullView>(header, in);
    case FrameType::kData:
      return decode_as<DataView>(header, in);
    case FrameType::kPulled:
      return decode_as<PulledView>(header, in);
    case FrameType::kCancel:
      return decode_as<CancelView>(header, in);
    case FrameType::kFenced:
      return decode_as<FencedView>(header, in);
    case FrameType::kCredit:
      return decode_as<CreditView>(header, in);
    case FrameType::kPing:
      return decode_as<PingView>(header, in);
    case FrameType::kPong:
      return decode_as<PongView>(header, in);
    case FrameType::kGoodbye:
      return decode_as<GoodbyeView>(header, in);
    case FrameType::kLost:
      return decode_as<LostView>(header, in);
    case FrameType::kRenew:
      return decode_as<RenewView>(header, in);
    case FrameType::kRenewed:
      return decode_as<RenewedView>(header, in);
    case FrameType::kFollow:
      return decode_as<FollowView>(header, in);
    case FrameType::kHolds:
      return decode_as<HoldsView>(header, in);
    case FrameType::kHeld:
      return decode_as<HeldView>(header, in);
    case FrameType::kPurge:
      return decode_as<PurgeView>(header, in);
    case FrameType::kPurged:
      return decode_as<PurgedView>(header, in);
  }
  return Status::invalid("frame: unknown type");
}

}  // namespace varve::wire
