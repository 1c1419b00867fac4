// wire_samples: one frame of each kind with every field different from its default, for golden
// vectors, truncation tests and as seeds of the fuzz corpus.
#pragma once

#include <string>
#include <vector>

#include "common/fabric/fabric.h"
#include "common/wire/wire.h"

namespace varve::wire {

struct Sample {
  std::string name;
  std::vector<std::byte> head;
};

inline Digest sample_digest(uint8_t first) {
  Digest digest;
  for (size_t i = 0; i < digest.bytes.size(); ++i) {
    digest.bytes[i] = static_cast<std::byte>(first + i);
  }
  return digest;
}

inline ExtentEntry sample_entry(uint32_t i) {
  ExtentEntry entry;
  entry.page_offset = 1 + 16 * i;
  entry.stored_bytes = 65536 + i;
  entry.decoded_bytes = 65536 + i;
  entry.stripe = static_cast<uint16_t>(0x0203 + i);
  entry.stored_crc = 0xC0FFEE00 + i;
  entry.decoded_xxh3 = 0x0123456789ABCDEFull + i;
  return entry;
}

inline const Attempt kSampleAttempt{7, 3, 0x1122334455667788ull};

class SampleBuilder {
 public:
  SampleBuilder() : buffer_(kHeadBytesMax), encoder_(buffer_) {}
  std::vector<Sample> build() {
    handshake();
    lookup();
    push();
    pull();
    small();
    loss();
    operation();
    return std::move(samples_);
  }

 private:
  void add(ConstByteSpan head) {
    const auto frame = decode(head);
    VARVE_ASSERT(frame.has_value());
    samples_.push_back({frame_type_name(frame->header.type), {head.begin(), head.end()}});
  }
  void handshake() {
    Hello hello;
    hello.version_max = 3;
    hello.lane = LaneKind::kBulk;
    hello.lane_index = 2;
    hello.features = 5;
    hello.session = 0x0102030405060708ull;
    hello.session_secret = 0x1112131415161718ull;
    const std::string token = "secret";
    add(encoder_.hello(1, hello, std::as_bytes(std::span(token)), "decode-0"));
    HelloOk ok;
    ok.bulk_lanes_max = 3;
    ok.slices = 16;
    ok.features = 1;
    ok.session = 0x0102030405060708ull;
    ok.session_secret = 0x1112131415161718ull;
    ok.boot_id = 0x2122232425262728ull;
    ok.epoch = 9;
    ok.domain = 4;
    ok.k = 4;
    ok.m = 2;
    ok.lease_ms_max = 60000;
    ok.reserve_ms_max = 30000;
    ok.pulls_max = 64;
    ok.attempts_max = 256;
    ok.formats_max = 8;
    ok.node = sample_digest(0x10);
    ok.domain_salt = sample_digest(0x40);
    add(encoder_.hello_ok(1, ok));
    add(encoder_.refused(2, Code::kUnauthorized, "token missing"));
    const std::string canonical = "not a real format";
    add(encoder_.format(3, std::as_bytes(std::span(canonical))));
    FormatOk format_ok;
    format_ok.format = 5;
    format_ok.fingerprint = sample_digest(0x80);
    add(encoder_.format_ok(3, format_ok));
  }
  void lookup() {
    const BaseId ids[] = {sample_digest(1), sample_digest(2), sample_digest(3)};
    Match match;
    match.format = 5;
    match.lease_ms = 1500;
    add(encoder_.match(4, match, ids));
    const TierKind tiers[] = {TierKind::kDram, TierKind::kFlash, TierKind::kObject};
    Matched matched;
    matched.recovering = 1;
    matched.lease = 77;
    matched.boot_id = 78;
    matched.lease_ms = 1000;
    matched.first_layer_ns = 123456;
    matched.last_layer_ns = 9876543;
    add(encoder_.matched(4, matched, tiers));
    add(encoder_.release(5, {77}));
    Released released;
    released.code = static_cast<uint8_t>(Code::kTimedOut);
    add(encoder_.released(5, released));
  }
  void push() {
    const BaseId ids[] = {sample_digest(1), sample_digest(2)};
    Reserve reserve;
    reserve.format = 5;
    reserve.rank = 1;
    reserve.epoch = 9;
    reserve.hold_ms = 5000;
    reserve.parent = sample_digest(0xF0);
    add(encoder_.reserve(6, reserve, ids));
    ReserveAnswer answers[2];
    answers[0].outcome = ReserveOutcome::kGranted;
    answers[0].attempt = kSampleAttempt;
    answers[1].code = static_cast<uint8_t>(Code::kNoSpace);
    add(encoder_.reserved(6, {}, answers));
    Extent extent;
    extent.reserve_op = 6;
    extent.index = 1;
    extent.extent = 2;
    extent.offset = 4096;
    extent.extent_bytes = 65536;
    extent.stored_crc = 0xDEADBEEF;
    extent.attempt = kSampleAttempt;
    add(encoder_.extent(7, extent));
    Commit commit;
    commit.reserve_op = 6;
    commit.epoch = 9;
    commit.index = 1;
    commit.ack = AckKind::kDurable;
    commit.attempt = kSampleAttempt;
    const ExtentEntry entries[] = {sample_entry(0), sample_entry(1)};
    add(encoder_.commit(8, commit, entries));
    Committed committed;
    committed.code = static_cast<uint8_t>(Code::kCorrupt);
    committed.ack = AckKind::kDurable;
    committed.index = 1;
    committed.attempt = kSampleAttempt;
    add(encoder_.committed(8, committed));
    Abort abort;
    abort.reserve_op = 6;
    abort.index = 1;
    abort.attempt = kSampleAttempt;
    add(encoder_.abort(9, abort));
    Aborted aborted;
    aborted.index = 1;
    aborted.attempt = kSampleAttempt;
    add(encoder_.aborted(9, aborted));
  }
  void pull() {
    const BaseId ids[] = {sample_digest(1), sample_digest(2)};
    Pull pull;
    pull.format = 5;
    pull.rank = 1;
    pull.lease = 77;
    pull.boot_id = 78;
    pull.deadline_ns = 10'000'000'000;
    pull.slack_ns = 5'000'000;
    pull.layer_ns = 300'000;
    pull.layer_first = 2;
    pull.layer_count = 30;
    add(encoder_.pull(10, pull, ids));
    Data data;
    data.block = 1;
    data.extent = 3;
    data.offset = 8192;
    data.entry = sample_entry(3);
    data.attempt = kSampleAttempt;
    add(encoder_.data(10, data));
    const uint8_t codes[] = {0, 8, 0};
    Pulled pulled;
    pulled.code = static_cast<uint8_t>(Code::kCancelled);
    add(encoder_.pulled(10, pulled, codes));
  }
  void small() {
    add(encoder_.cancel(11, {10, 1, 3}));
    add(encoder_.fenced(11, {10}));
    add(encoder_.credit(12, {262144}));
    add(encoder_.ping(13, {0xABCDEF}));
    add(encoder_.pong(13, {0xABCDEF}));
    add(encoder_.goodbye(0xFFFFFFFFFFFFFFFFull, {2000}));
  }

  void loss() {
    LostExtent lost[2];
    lost[0].block = 1;
    lost[0].extent = 4;
    lost[0].code = static_cast<uint8_t>(Code::kIo);
    lost[1].block = 2;
    lost[1].extent = 5;
    lost[1].state = LostState::kLate;
    for (LostExtent& extent : lost) {
      extent.entry = sample_entry(extent.extent);
      extent.attempt = kSampleAttempt;
    }
    add(encoder_.lost(10, lost));
  }
  void operation() {
    add(encoder_.renew(14, {77, 20000}));
    Renewed renewed;
    renewed.code = static_cast<uint8_t>(Code::kTimedOut);
    renewed.lease_ms = 15000;
    add(encoder_.renewed(14, renewed));
    Follow follow;
    follow.format = 5;
    follow.rank = 1;
    follow.deadline_ns = 10'000'000'000;
    follow.slack_ns = 5'000'000;
    follow.layer_ns = 300'000;
    follow.layer_first = 2;
    follow.layer_count = 30;
    const FollowBlock blocks[] = {{sample_digest(1), kSampleAttempt},
                                  {sample_digest(2), kSampleAttempt}};
    add(encoder_.follow(15, follow, blocks));
    add(encoder_.holds(16, {99}));
    Hold hold;
    hold.session = 0x0102030405060708ull;
    hold.hold = 100;
    hold.age_ns = 2'000'000'000;
    hold.left_ns = 58'000'000'000;
    hold.bytes = 1 << 20;
    hold.count = 12;
    hold.kind = HoldKind::kReservation;
    std::memcpy(hold.name, "prefill-3", 9);
    Held held;
    held.cursor = 101;
    add(encoder_.held(16, held, std::span<const Hold>(&hold, 1)));
    const BaseId ids[] = {sample_digest(1), sample_digest(2)};
    add(encoder_.purge(17, {}, ids));
    Purged purged;
    purged.generation = 6;
    purged.blocks = 2;
    purged.bytes = 1 << 21;
    purged.erased_ns = 3'600'000'000'000;
    add(encoder_.purged(17, purged));
  }

  std::vector<std::byte> buffer_;
  Encoder encoder_;
  std::vector<Sample> samples_;
};

inline std::vector<Sample> wire_samples() {
  return SampleBuilder().build();
}

}  // namespace varve::wire
