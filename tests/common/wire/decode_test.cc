// Goal: decode accepts exactly what encode produces (W1) and never reads past the head (W3).
// Method: each sample frame is cut, stretched and changed byte by byte; whatever is still accepted
// must encode to the very same bytes. Field rules are in check_test.cc.
#include <gtest/gtest.h>

#include <memory>

#include "tests/common/wire/wire_samples.h"
#include "tests/fuzz/wire_reencode.h"

namespace varve::wire {
namespace {

// Decodes from an allocation of exactly that size, so that a sanitizer sees any read past the end.
class Exact {
 public:
  explicit Exact(ConstByteSpan head)
      : bytes_(std::make_unique<std::byte[]>(head.size())), span_(bytes_.get(), head.size()) {
    if (!head.empty()) std::memcpy(bytes_.get(), head.data(), head.size());
  }
  Result<Frame> decoded() const { return decode(span_); }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  ConstByteSpan span_;
};

std::vector<std::byte> encoded(const Frame& frame) {
  std::vector<std::byte> buffer(kHeadBytesMax);
  const ConstByteSpan head = reencode(frame, buffer);
  return {head.begin(), head.end()};
}

TEST(Decode, EverySampleComesBackAsTheSameBytes) {
  const auto samples = wire_samples();
  EXPECT_EQ(samples.size(), 33u);
  for (const Sample& sample : samples) {
    const Exact head(sample.head);
    const auto frame = head.decoded();
    ASSERT_TRUE(frame.has_value()) << sample.name << ": " << frame.error().what();
    EXPECT_EQ(encoded(*frame), sample.head) << sample.name;
  }
}

TEST(Decode, EveryTruncationIsRefused) {
  for (const Sample& sample : wire_samples()) {
    for (size_t bytes = 0; bytes < sample.head.size(); ++bytes) {
      // As it is, and with a header that claims the shorter body.
      std::vector<std::byte> cut(sample.head.begin(), sample.head.begin() + bytes);
      EXPECT_FALSE(Exact(cut).decoded().has_value()) << sample.name << " " << bytes;
      if (bytes < sizeof(FrameHeader)) continue;
      store(cut, offsetof(FrameHeader, body_bytes),
            static_cast<uint32_t>(bytes - sizeof(FrameHeader)));
      const auto frame = Exact(cut).decoded();
      ASSERT_FALSE(frame.has_value()) << sample.name << " " << bytes;
      EXPECT_EQ(frame.error().code(), Code::kInvalid);
    }
  }
}

TEST(Decode, TrailingBytesAreRefused) {
  for (const Sample& sample : wire_samples()) {
    std::vector<std::byte> longer = sample.head;
    longer.resize(longer.size() + 8);
    EXPECT_FALSE(Exact(longer).decoded().has_value()) << sample.name;
    store(longer, offsetof(FrameHeader, body_bytes),
          static_cast<uint32_t>(longer.size() - sizeof(FrameHeader)));
    EXPECT_FALSE(Exact(longer).decoded().has_value()) << sample.name;
  }
}

TEST(Decode, AnyChangedByteIsRefusedOrDecodesToExactlyItself) {
  for (const Sample& sample : wire_samples()) {
    for (size_t at = 0; at < sample.head.size(); ++at) {
      for (const uint8_t value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
        std::vector<std::byte> changed = sample.head;
        changed[at] = static_cast<std::byte>(value);
        const Exact head(changed);
        const auto frame = head.decoded();
        if (!frame.has_value()) continue;
        ASSERT_EQ(encoded(*frame), changed) << sample.name << " byte " << at;
      }
    }
  }
}

TEST(Decode, RandomHeadsOfEveryTypeNeverReachAnAssert) {
  Random random(1);
  for (uint32_t i = 0; i < 200'000; ++i) {
    std::vector<std::byte> head(sizeof(FrameHeader) + random.below(120));
    for (std::byte& byte : head) {
      byte = random.chance(600) ? std::byte{0} : static_cast<std::byte>(random.next());
    }
    FrameHeader header;
    header.type = static_cast<FrameType>(1 + random.below(26));
    header.body_bytes = static_cast<uint32_t>(head.size() - sizeof(FrameHeader));
    store(head, 0, header);
    const Exact exact(head);
    const auto frame = exact.decoded();
    if (frame.has_value()) {
      ASSERT_EQ(encoded(*frame), head);
    }
  }
}

TEST(Decode, TheHeaderIsCheckedFieldByField) {
  std::vector<std::byte> good;
  for (const Sample& sample : wire_samples()) {
    if (sample.name == "MATCH") good = sample.head;
  }
  ASSERT_FALSE(good.empty());
  const auto refused = [&](size_t at, uint8_t value) {
    std::vector<std::byte> bad = good;
    bad[at] = static_cast<std::byte>(value);
    const auto frame = decode(bad);
    return frame.has_value() ? std::string() : std::string(frame.error().what());
  };
  EXPECT_EQ(refused(0, 2), "frame: unknown version");
  EXPECT_EQ(refused(2, 0), "frame: unknown type");
  EXPECT_EQ(refused(2, 34), "frame: unknown type");
  EXPECT_EQ(refused(3, 1), "frame: reserved field");
  EXPECT_EQ(refused(4, 0), "frame: body_bytes does not fit the head");
  EXPECT_FALSE(decode({}).has_value());
}

TEST(Decode, TheFramesOfEveryVersionAreReadWhateverTheirHeaderSays) {
  for (const Sample& sample : wire_samples()) {
    std::vector<std::byte> later = sample.head;
    later[0] = std::byte{9};
    const bool for_ever =
        sample.name == "HELLO" || sample.name == "HELLO_OK" || sample.name == "REFUSED";
    EXPECT_EQ(decode(later).has_value(), for_ever) << sample.name;
  }
}

TEST(Decode, ElementsOfArraysAreReadByCopyAtAnyAlignment) {
  for (const Sample& sample : wire_samples()) {
    if (sample.name != "MATCH") continue;
    std::vector<std::byte> shifted(sample.head.size() + 1);
    std::memcpy(shifted.data() + 1, sample.head.data(), sample.head.size());
    const auto frame = decode(ConstByteSpan(shifted).subspan(1));
    ASSERT_TRUE(frame.has_value());
    const MatchView& match = std::get<MatchView>(frame->body);
    ASSERT_EQ(match.ids.size(), 3u);
    EXPECT_EQ(match.ids[2], sample_digest(3));
  }
}

}  // namespace
}  // namespace varve::wire
