// Goal: any fragmentation of a stream gives the same messages; anything that is no message is
// refused with its cause before anything is stored for it. Method: streams made by hand, fed in
// pieces of every size into exactly the memory the reader asked for.
#include "common/fabric/message_reader.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/common/fabric/link_harness.h"

namespace varve {
namespace {

class Feeder {
 public:
  explicit Feeder(uint32_t head_bytes_max = kHeadBytesMax) : reader(head_bytes_max) {}
  MessageReader reader;
  RecordingUser user;
  Link::Counters counters;
  uint64_t direct_bytes = 0;  // received without passing the read-ahead

  // Feeds at most `bytes` from `stream` in one receive; returns how many.
  Result<uint64_t> feed_once(ConstByteSpan stream, uint64_t bytes) {
    iovec iov[MessageReader::kIovMax];
    const uint32_t count = reader.next_iov(iov);
    uint64_t fed = 0;
    for (uint32_t i = 0; i < count && fed < bytes && fed < stream.size(); ++i) {
      const uint64_t n = std::min<uint64_t>({iov[i].iov_len, bytes - fed, stream.size() - fed});
      std::memcpy(iov[i].iov_base, stream.data() + fed, n);
      fed += n;
      if (i + 1 < count) direct_bytes += n;
    }
    VARVE_RETURN_IF_ERROR(reader.received(fed, user, counters));
    return fed;
  }
  Status feed(ConstByteSpan stream, Random& random, uint64_t bytes_max) {
    while (!stream.empty()) {
      VARVE_TRY(const uint64_t fed, feed_once(stream, random.between(1, bytes_max)));
      stream = stream.subspan(fed);
    }
    return {};
  }
  Status feed(ConstByteSpan stream) {
    Random random(1);
    return feed(stream, random, 1 << 20);
  }
};

void append_message(std::vector<std::byte>& stream, std::string_view head, ConstByteSpan payload) {
  MessagePrefix prefix;
  prefix.head_bytes = static_cast<uint32_t>(head.size());
  prefix.payload_bytes = static_cast<uint32_t>(payload.size());
  prefix.head_crc = crc32c(0, text_bytes(head));
  for (const ConstByteSpan part : {bytes_view(prefix), text_bytes(head), payload}) {
    stream.insert(stream.end(), part.begin(), part.end());
  }
}

std::vector<std::byte> prefix_only(MessagePrefix prefix) {
  const ConstByteSpan bytes = bytes_view(prefix);
  return {bytes.begin(), bytes.end()};
}

TEST(MessageReader, AnyFragmentationGivesTheSameMessages) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    Random random(seed);
    std::vector<std::unique_ptr<TestMessage>> messages;
    std::vector<std::byte> stream;
    for (int i = 0; i < 40; ++i) {
      const uint32_t head_bytes = static_cast<uint32_t>(
          random.chance(150) ? random.between(1, kHeadBytesMax) : random.between(1, 300));
      const uint32_t payload_bytes =
          static_cast<uint32_t>(random.chance(300) ? 0 : random.between(1, 90000));
      messages.push_back(std::make_unique<TestMessage>(random, head_bytes, payload_bytes, 1));
      append_message(stream, messages.back()->head, messages.back()->payload);
    }
    const uint64_t bytes_max[] = {7, 100, 5000, 70000, 1 << 20};
    Feeder feeder;
    feeder.user.piece_bytes = 4096 + static_cast<uint32_t>(seed);
    ASSERT_TRUE(feeder.feed(stream, random, bytes_max[seed % 5]).ok());
    ASSERT_EQ(feeder.user.messages().size(), messages.size());
    for (size_t i = 0; i < messages.size(); ++i) {
      ASSERT_EQ(feeder.user.messages()[i].head, messages[i]->head) << seed << " " << i;
      ASSERT_EQ(feeder.user.messages()[i].payload, messages[i]->payload) << seed << " " << i;
    }
    EXPECT_FALSE(feeder.reader.in_message());
  }
}

TEST(MessageReader, BigPayloadsInARowAreReceivedInPlaceButForAPage) {
  Random random(1);
  std::vector<std::byte> stream;
  const std::vector<std::byte> payload(kPayloadBytesMax);
  constexpr uint32_t kMessages = 32;
  for (uint32_t i = 0; i < kMessages; ++i)
    append_message(stream, "data", payload);
  Feeder feeder;
  feeder.user.keep = false;
  ASSERT_TRUE(feeder.feed(stream).ok());
  EXPECT_EQ(feeder.user.count(), kMessages);
  // Expect: at most 4 KiB of each payload was copied; the first came with a cold read-ahead.
  EXPECT_GE(feeder.direct_bytes, uint64_t{kMessages - 1} * (kPayloadBytesMax - 4096));
}

TEST(MessageReader, ItIsInsideAMessageFromItsFirstByteToItsLast) {
  std::vector<std::byte> stream;
  append_message(stream, "head", text_bytes("payload"));
  Feeder feeder;
  EXPECT_FALSE(feeder.reader.in_message());
  for (size_t i = 0; i + 1 < stream.size(); ++i) {
    ASSERT_TRUE(feeder.feed(ConstByteSpan(stream).subspan(i, 1)).ok());
    EXPECT_TRUE(feeder.reader.in_message()) << i;
  }
  ASSERT_TRUE(feeder.feed(ConstByteSpan(stream).last(1)).ok());
  EXPECT_FALSE(feeder.reader.in_message());
  EXPECT_EQ(feeder.user.count(), 1u);
}

TEST(MessageReader, BadPrefixesAreRefusedBeforeTheHeadIsAwaited) {
  const struct {
    MessagePrefix prefix;
    Code code;
    const char* what;
  } cases[] = {
      {{0x20544547, 10, 0, 0}, Code::kInvalid, "not a Varve peer"},
      {{kMessageMagic, 0, 0, 0}, Code::kInvalid, "message without a head"},
      {{kMessageMagic, kHeadBytesMax + 1, 0, 0}, Code::kInvalid, "head over its limit"},
      {{kMessageMagic, ~0u, 0, 0}, Code::kInvalid, "head over its limit"},
      {{kMessageMagic, 10, kPayloadBytesMax + 1, 0}, Code::kInvalid, "payload over its limit"},
      {{kMessageMagic, 10, ~0u, 0}, Code::kInvalid, "payload over its limit"},
  };
  for (const auto& c : cases) {
    Feeder feeder;
    const Status status = feeder.feed(prefix_only(c.prefix));
    EXPECT_EQ(status.code(), c.code);
    EXPECT_STREQ(status.what(), c.what);
    EXPECT_EQ(feeder.user.count(), 0u);
  }
}

TEST(MessageReader, AChangedHeadIsCorruptWhereverItChanged) {
  const std::string head = "a head of some length";
  for (size_t at = 0; at < 4 + head.size(); ++at) {
    std::vector<std::byte> stream;
    append_message(stream, head, {});
    stream[12 + at] ^= std::byte{0x10};  // from the checksum on
    Feeder feeder;
    EXPECT_EQ(feeder.feed(stream).code(), Code::kCorrupt) << at;
    EXPECT_EQ(feeder.user.count(), 0u);
  }
}

TEST(MessageReader, ALargeHeadIsCheckedToo) {
  std::vector<std::byte> stream;
  append_message(stream, std::string(100'000, 'h'), {});
  stream[70'000] ^= std::byte{1};
  Feeder feeder;
  EXPECT_EQ(feeder.feed(stream).code(), Code::kCorrupt);
}

TEST(MessageReader, TheHeadLimitFollowsTheHandshake) {
  std::vector<std::byte> stream;
  append_message(stream, std::string(1001, 'h'), {});
  Feeder feeder;
  feeder.reader.set_head_bytes_max(1000);
  EXPECT_EQ(feeder.feed(stream).code(), Code::kInvalid);
  Feeder raised;
  raised.reader.set_head_bytes_max(1000);
  raised.reader.set_head_bytes_max(1001);
  EXPECT_TRUE(raised.feed(stream).ok());
}

TEST(MessageReader, AnErrorOfTheUserIsTheCause) {
  std::vector<std::byte> stream;
  append_message(stream, "head", text_bytes("payload"));
  Feeder feeder;
  feeder.user.place_status = Status::quota("no");
  EXPECT_EQ(feeder.feed(stream).code(), Code::kQuota);
}

TEST(MessageReader, AfterStopThereAreNoUpcalls) {
  std::vector<std::byte> stream;
  for (int i = 0; i < 5; ++i)
    append_message(stream, "head", {});
  Feeder feeder;
  feeder.user.at_message = [&](ConstByteSpan) { feeder.reader.stop(); };
  (void)feeder.feed(stream).ok();
  EXPECT_EQ(feeder.user.count(), 1u);
}

TEST(MessageReader, GarbageIsRefusedWithinItsFirstSixteenBytes) {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> stream(64);
    for (std::byte& byte : stream)
      byte = static_cast<std::byte>(random.next());
    if (round % 2 == 0) store(stream, 0, kMessageMagic);
    if (round % 4 == 0) store(stream, 4, uint32_t{16});
    if (round % 8 == 0) store(stream, 8, uint32_t{16});
    Feeder feeder;
    const Status status = feeder.feed(stream);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(feeder.user.count(), 0u);
  }
}

TEST(MessageReaderDeathTest, APlacementOfAnotherSizeIsABug) {
  std::vector<std::byte> stream;
  append_message(stream, "head", text_bytes("payload"));
  class Short final : public LinkUser {
   public:
    std::byte memory[4];
    Status place(ConstByteSpan, uint32_t, Placement& where) override {
      where.add(memory, sizeof(memory));
      return {};
    }
    void on_message(ConstByteSpan, uint32_t) override {}
    void on_closed(Status) override {}
  } user;
  MessageReader reader(kHeadBytesMax);
  iovec iov[MessageReader::kIovMax];
  reader.next_iov(iov);
  std::memcpy(iov[0].iov_base, stream.data(), stream.size());
  Link::Counters counters;
  EXPECT_DEATH((void)reader.received(stream.size(), user, counters).ok(), "placed_bytes");
}

}  // namespace
}  // namespace varve
