// wire_reencode: encodes again what decode accepted. Shared by the fuzz target and the unit tests:
// equal bytes are the proof that decode accepts nothing that encode can not produce (W1).
#pragma once

#include <type_traits>
#include <vector>

#include "common/wire/wire.h"

namespace varve::wire {

template <class T>
std::vector<T> to_vector(const ArrayView<T>& view) {
  std::vector<T> out;
  out.reserve(view.size());
  for (uint32_t i = 0; i < view.size(); ++i)
    out.push_back(view[i]);
  return out;
}

class Reencoder {
 public:
  Reencoder(Encoder& encoder, uint64_t op) : encoder_(encoder), op_(op) {}
  ConstByteSpan operator()(const HelloView& v) const {
    return encoder_.hello(op_, v.body, v.token, v.name);
  }
  ConstByteSpan operator()(const HelloOkView& v) const { return encoder_.hello_ok(op_, v.body); }
  // A refusal names the versions of the build that made it: theirs, where ours would write ours.
  ConstByteSpan operator()(const RefusedView& v) const {
    const ConstByteSpan head = encoder_.refused(op_, static_cast<Code>(v.body.code), v.text);
    const ByteSpan bytes(const_cast<std::byte*>(head.data()), head.size());
    store(bytes, sizeof(FrameHeader) + offsetof(Refused, version_min), v.body.version_min);
    store(bytes, sizeof(FrameHeader) + offsetof(Refused, version_max), v.body.version_max);
    return head;
  }
  ConstByteSpan operator()(const FormatView& v) const { return encoder_.format(op_, v.canonical); }
  ConstByteSpan operator()(const FormatOkView& v) const { return encoder_.format_ok(op_, v.body); }
  ConstByteSpan operator()(const MatchView& v) const {
    return encoder_.match(op_, v.body, to_vector(v.ids));
  }
  ConstByteSpan operator()(const MatchedView& v) const {
    return encoder_.matched(op_, v.body, to_vector(v.tiers));
  }
  ConstByteSpan operator()(const ReleaseView& v) const { return encoder_.release(op_, v.body); }
  ConstByteSpan operator()(const ReleasedView& v) const { return encoder_.released(op_, v.body); }
  ConstByteSpan operator()(const ReserveView& v) const {
    return encoder_.reserve(op_, v.body, to_vector(v.ids));
  }
  ConstByteSpan operator()(const ReservedView& v) const {
    return encoder_.reserved(op_, v.body, to_vector(v.answers));
  }
  ConstByteSpan operator()(const ExtentView& v) const { return encoder_.extent(op_, v.body); }
  ConstByteSpan operator()(const CommitView& v) const {
    return encoder_.commit(op_, v.body, to_vector(v.entries));
  }
  ConstByteSpan operator()(const CommittedView& v) const { return encoder_.committed(op_, v.body); }
  ConstByteSpan operator()(const AbortView& v) const { return encoder_.abort(op_, v.body); }
  ConstByteSpan operator()(const AbortedView& v) const { return encoder_.aborted(op_, v.body); }
  ConstByteSpan operator()(const PullView& v) const {
    return encoder_.pull(op_, v.body, to_vector(v.ids), to_vector(v.wants));
  }
  ConstByteSpan operator()(const DataView& v) const { return encoder_.data(op_, v.body); }
  ConstByteSpan operator()(const PulledView& v) const {
    return encoder_.pulled(op_, v.body, to_vector(v.codes));
  }
  ConstByteSpan operator()(const CancelView& v) const { return encoder_.cancel(op_, v.body); }
  ConstByteSpan operator()(const FencedView& v) const { return encoder_.fenced(op_, v.body); }
  ConstByteSpan operator()(const CreditView& v) const { return encoder_.credit(op_, v.body); }
  ConstByteSpan operator()(const PingView& v) const { return encoder_.ping(op_, v.body); }
  ConstByteSpan operator()(const PongView& v) const { return encoder_.pong(op_, v.body); }
  ConstByteSpan operator()(const GoodbyeView& v) const { return encoder_.goodbye(op_, v.body); }
  ConstByteSpan operator()(const LostView& v) const {
    return encoder_.lost(op_, to_vector(v.lost));
  }
  ConstByteSpan operator()(const RenewView& v) const { return encoder_.renew(op_, v.body); }
  ConstByteSpan operator()(const RenewedView& v) const { return encoder_.renewed(op_, v.body); }
  ConstByteSpan operator()(const FollowView& v) const {
    return encoder_.follow(op_, v.body, to_vector(v.blocks));
  }
  ConstByteSpan operator()(const HoldsView& v) const { return encoder_.holds(op_, v.body); }
  ConstByteSpan operator()(const HeldView& v) const {
    return encoder_.held(op_, v.body, to_vector(v.holds));
  }
  ConstByteSpan operator()(const PurgeView& v) const {
    return encoder_.purge(op_, v.body, to_vector(v.ids));
  }
  ConstByteSpan operator()(const PurgedView& v) const { return encoder_.purged(op_, v.body); }

 private:
  Encoder& encoder_;
  uint64_t op_;
};

// The bytes live in `buffer`, which holds at least kHeadBytesMax.
inline ConstByteSpan reencode(const Frame& frame, ByteSpan buffer) {
  Encoder encoder(buffer);
  const ConstByteSpan head = std::visit(Reencoder(encoder, frame.header.op), frame.body);
  // The frames of every version may carry another one than ours in their header.
  store(buffer, 0, frame.header.version);
  return head;
}

}  // namespace varve::wire
