// Goal: the send queue is the byte stream of its messages whatever piecewise way it leaves in,
// keeps its limits, and completes each request exactly once (F3, F4).
#include "common/fabric/send_queue.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/common/fabric/link_harness.h"

namespace varve {
namespace {

constexpr uint32_t kIovMax = 512;

void append(std::vector<std::byte>& stream, ConstByteSpan bytes) {
  stream.insert(stream.end(), bytes.begin(), bytes.end());
}

// The bytes that docs/WIRE.md 2 draws for one message.
std::vector<std::byte> framed(const TestMessage& message) {
  std::vector<std::byte> bytes;
  const uint32_t words[4] = {0x31565256, static_cast<uint32_t>(message.head.size()),
                             static_cast<uint32_t>(message.payload.size()),
                             crc32c(0, text_bytes(message.head))};
  append(bytes, std::as_bytes(std::span(words)));
  append(bytes, text_bytes(message.head));
  append(bytes, message.payload);
  return bytes;
}

// Takes at most `bytes` of what gather offers.
std::vector<std::byte> take(const SendQueue& queue, uint64_t bytes) {
  iovec iov[kIovMax];
  const uint32_t count = queue.gather(iov, kIovMax, bytes);
  std::vector<std::byte> out;
  for (uint32_t i = 0; i < count; ++i) {
    append(out, {static_cast<const std::byte*>(iov[i].iov_base), iov[i].iov_len});
  }
  if (out.size() > bytes) out.resize(bytes);
  return out;
}

TEST(SendQueue, OneMessageIsItsPrefixItsHeadAndItsPayload) {
  Random random(1);
  SendQueue queue(8, kMiB);
  TestMessage message(random, 100, 10000, 3);
  queue.push(message.request.head, &message.request);
  EXPECT_EQ(take(queue, kMiB), framed(message));
  SendRequests finished;
  Link::Counters counters;
  queue.sent(framed(message).size(), finished, counters);
  EXPECT_EQ(finished.pop(), &message.request);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(counters.sent_messages, 1u);
  EXPECT_EQ(counters.sent_bytes, 10100u);
}

TEST(SendQueue, AnyPiecewiseWayOutIsTheSameStream) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    SendQueue queue(16, 2 * kMiB);
    std::vector<std::unique_ptr<TestMessage>> messages;
    std::vector<std::byte> want, got;
    Link::Counters counters;
    uint64_t finished_count = 0;
    for (int i = 0; i < 200 || !queue.empty();) {
      if (i < 200 && random.chance(500)) {
        const auto head_bytes = static_cast<uint32_t>(
            random.chance(100) ? random.between(1, kHeadBytesMax) : random.between(1, 200));
        auto message = std::make_unique<TestMessage>(
            random, head_bytes, static_cast<uint32_t>(random.below(6000)),
            static_cast<uint32_t>(random.between(1, kPayloadPiecesMax)));
        if (queue.has_room(message->request.payload_bytes())) {
          queue.push(message->request.head, &message->request);
          append(want, framed(*message));
          messages.push_back(std::move(message));
          ++i;
        }
      }
      const std::vector<std::byte> part = take(queue, random.between(1, 20000));
      append(got, part);
      SendRequests finished;
      queue.sent(part.size(), finished, counters);
      while (SendRequest* request = finished.pop()) {
        ASSERT_EQ(request, &messages[finished_count]->request);  // in order, once
        ++finished_count;
      }
    }
    ASSERT_EQ(got, want) << "seed " << seed;
    EXPECT_EQ(finished_count, messages.size());
    EXPECT_EQ(counters.sent_messages, messages.size());
  }
}

TEST(SendQueue, SeveralMessagesLeaveInOneGather) {
  Random random(2);
  SendQueue queue(64, kMiB);
  std::vector<std::unique_ptr<TestMessage>> messages;
  std::vector<std::byte> want;
  for (int i = 0; i < 5; ++i) {
    messages.push_back(std::make_unique<TestMessage>(random, 80, 4096, 1));
    queue.push(messages.back()->request.head, &messages.back()->request);
    append(want, framed(*messages.back()));
  }
  EXPECT_EQ(take(queue, kMiB), want);
}

TEST(SendQueue, GatherStopsAtItsPiecesAndItsBytes) {
  Random random(3);
  SendQueue queue(64, 16 * kMiB);
  std::vector<std::unique_ptr<TestMessage>> messages;
  for (int i = 0; i < 20; ++i) {
    messages.push_back(
        std::make_unique<TestMessage>(random, 80, kPayloadBytesMax, kPayloadPiecesMax));
    queue.push(messages.back()->request.head, &messages.back()->request);
  }
  iovec iov[kIovMax];
  const uint32_t pieces = queue.gather(iov, 2 + kPayloadPiecesMax, 100 * kMiB);
  EXPECT_LE(pieces, 2 + kPayloadPiecesMax);
  EXPECT_GT(pieces, kPayloadPiecesMax);
  uint64_t bytes = 0;
  const uint32_t count = queue.gather(iov, kIovMax, kMiB);
  for (uint32_t i = 0; i < count; ++i)
    bytes += iov[i].iov_len;
  EXPECT_GE(bytes, kMiB);
  EXPECT_LE(bytes, kMiB + kPayloadBytesMax + 100);
}

TEST(SendQueue, RoomEndsWithMessagesPayloadBytesOrHeadBytes) {
  Random random(4);
  TestMessage big(random, 10, kPayloadBytesMax, 1);
  SendQueue by_count(2, kMiB);
  by_count.push(text_bytes("a"), nullptr);
  EXPECT_TRUE(by_count.has_room(0));
  by_count.push(text_bytes("b"), nullptr);
  EXPECT_FALSE(by_count.has_room(0));
  SendQueue by_payload(100, kPayloadBytesMax + 5);
  by_payload.push(big.request.head, &big.request);
  EXPECT_TRUE(by_payload.has_room(5));
  EXPECT_FALSE(by_payload.has_room(6));
  SendQueue by_heads(100, kMiB);
  const std::string head(kHeadBytesMax, 'h');
  uint32_t heads = 0;
  for (; by_heads.has_room(0); ++heads)
    by_heads.push(text_bytes(head), nullptr);
  EXPECT_EQ(heads, 2u);  // the ring holds two of the largest
}

TEST(SendQueue, TakingAllReturnsEveryRequestInOrderAndLeavesItUsable) {
  Random random(5);
  SendQueue queue(8, kMiB);
  TestMessage first(random, 10, 100, 1), second(random, 10, 100, 1);
  queue.push(first.request.head, &first.request);
  queue.push(text_bytes("nobody waits"), nullptr);
  queue.push(second.request.head, &second.request);
  SendRequests finished, unfinished;
  Link::Counters counters;
  queue.sent(20, finished, counters);  // in the middle of the first
  queue.take_all(unfinished);
  EXPECT_EQ(unfinished.pop(), &first.request);
  EXPECT_EQ(unfinished.pop(), &second.request);
  EXPECT_TRUE(unfinished.empty() && finished.empty() && queue.empty());
  queue.push(second.request.head, &second.request);
  EXPECT_EQ(take(queue, kMiB), framed(second));
}

TEST(SendQueueDeathTest, PushingPastTheLimitIsABug) {
  SendQueue queue(1, kMiB);
  queue.push(text_bytes("a"), nullptr);
  EXPECT_DEATH(queue.push(text_bytes("b"), nullptr), "has_room");
  EXPECT_DEATH(SendQueue(8, 1), "kPayloadBytesMax");
}

}  // namespace
}  // namespace varve
