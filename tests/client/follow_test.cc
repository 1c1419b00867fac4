// Goal: a follow hands over what is still being pushed, layer by layer, and says of each block how
// its push ended; nothing counts before (C5), and every rule of a pull holds. Method: the rig
// pushes and follows on one daemon; other attempts, losses and ends by script.
#include <gtest/gtest.h>

#include <set>

#include "client/pull.h"
#include "tests/client/client_rig.h"

namespace varve {
namespace {

// Each an extent of its own.
const std::vector<uint32_t> kLayers = {100000, 400000, 131072};
constexpr uint32_t kBlocks = 3;

// Slots 0.. are the pusher's, from kBlocks on the follower's.
struct FollowTest : testing::Test {
  static void fill(KvRig& rig, uint32_t count = kBlocks) {
    for (uint32_t n = 0; n < count; ++n)
      rig.fill(n, id_of(n));
  }
  static OpId push(KvRig& rig, uint32_t first, uint32_t count) {
    PushRequest request = rig.push_of(ids_of(first, count));
    for (uint32_t i = 0; i < count; ++i)
      request.slots[i] = first + i;
    return *rig.core->push(request);
  }
  static std::vector<FollowTag> tags_of(const KvRig& rig, OpId op) {
    std::vector<FollowTag> tags;
    for (const Event& event : rig.of(op, Event::Kind::kReserved))
      tags.insert(tags.end(), event.granted.begin(), event.granted.end());
    return tags;
  }
  static std::vector<FollowTag> granted(KvRig& rig, OpId op, uint32_t count) {
    EXPECT_TRUE(rig.run_until([&] { return tags_of(rig, op).size() >= count; }));
    return tags_of(rig, op);
  }
  static FollowTag stored_tag(const KvRig& rig, uint32_t n) {
    return {id_of(n), rig.daemon->store().at(BlockId{id_of(n), 0}).attempt};
  }
  static FollowRequest follow_of(const KvRig& rig, std::vector<FollowTag> tags) {
    FollowRequest request;
    request.format = rig.format_id;
    request.tag = 11;
    for (uint32_t i = 0; i < tags.size(); ++i)
      request.slots.push_back(kBlocks + i);
    request.blocks = std::move(tags);
    request.layout = &rig.layout;
    return request;
  }
  static bool same_layer(const KvRig& rig, uint32_t n, uint32_t layer) {
    return rig.read_layer(kBlocks + n, layer) == rig.layer_content(id_of(n), layer);
  }
  static bool untouched(const KvRig& rig, uint32_t n, uint32_t layer) {
    return rig.read_layer(kBlocks + n, layer) ==
           std::vector<std::byte>(kLayers[layer], KvRig::kPoison);
  }
  static size_t layers(const KvRig& rig, OpId op) { return rig.of(op, Event::Kind::kLayer).size(); }
  static uint64_t follow_op(const KvRig& rig) { return rig.daemon->last(Type::kFollow)->op; }
  static void swallow(KvRig& rig, Type type) {
    rig.daemon->hook = [type](const auto& r) { return r.type == type; };
  }
  static void say_pulled(KvRig& rig, Code code, const std::vector<uint8_t>& codes) {
    wire::Pulled body;
    body.code = static_cast<uint8_t>(code);
    rig.daemon->send(0, rig.daemon->encoder().pulled(follow_op(rig), body, codes));
  }
  static const ClientCounters& counts(const KvRig& rig) { return rig.core->counters(); }
};

TEST_F(FollowTest, LayersComeAsTheyAreMade) {
  KvRig rig(kLayers, 2 * kBlocks);
  fill(rig);
  const OpId pushed = push(rig, 0, kBlocks);
  const OpId op = *rig.core->follow(follow_of(rig, granted(rig, pushed, kBlocks)));
  for (uint32_t l = 0; l < kLayers.size(); ++l) {
    rig.run_for(50 * kMillisecond);
    ASSERT_EQ(layers(rig, op), l);  // not before it was made
    EXPECT_EQ(rig.terminal(op), nullptr);
    EXPECT_EQ(counts(rig).followed_blocks, 0u);
    ASSERT_TRUE(rig.core->push_layer(pushed, l).ok());
    ASSERT_TRUE(rig.run_until([&] { return layers(rig, op) == l + 1; }));
    for (uint32_t n = 0; n < kBlocks; ++n)
      EXPECT_TRUE(same_layer(rig, n, l)) << n << " layer " << l;
  }
  const Event event = rig.finish(op);
  EXPECT_EQ(event.kind, Event::Kind::kFollowed);
  EXPECT_EQ(event.tag, 11u);
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.codes, std::vector<Code>(kBlocks, Code::kOk));
  EXPECT_EQ(event.bytes, kBlocks * rig.table.block_bytes);
  EXPECT_TRUE(rig.finish(pushed).status.ok());
  EXPECT_EQ(counts(rig).follows, 1u);
  EXPECT_EQ(counts(rig).followed_blocks, kBlocks);
  EXPECT_EQ(counts(rig).followed_bytes, event.bytes);
  EXPECT_EQ(counts(rig).pulls + counts(rig).pulled_blocks + counts(rig).pulled_bytes, 0u);
}

TEST_F(FollowTest, EveryGrantIsToldOnce) {
  RigOptions options;
  options.daemon.attempts_max = 2;
  KvRig rig(kLayers, 7, options);
  fill(rig, 7);
  rig.put(3, 1);
  const OpId pushed = push(rig, 0, 7);
  ASSERT_TRUE(rig.core->push_layer(pushed, ClientCore::kEveryLayer).ok());
  EXPECT_TRUE(rig.finish(pushed).status.ok());
  EXPECT_GT(rig.of(pushed, Event::Kind::kReserved).size(), 2u);
  const auto tags = tags_of(rig, pushed);
  std::set<BaseId> ids;
  for (const FollowTag& tag : tags) {
    ids.insert(tag.id);
    EXPECT_EQ(tag.attempt, rig.daemon->store().at(BlockId{tag.id, 0}).attempt);
  }
  EXPECT_EQ(tags.size(), 6u);
  EXPECT_EQ(ids.size(), 6u);
  EXPECT_EQ(ids.count(id_of(3)), 0u);  // it exists: to be pulled
}

TEST_F(FollowTest, ATagIsItsBytes) {
  const FollowTag tag{id_of(9), Attempt{1, 2, 3}};
  std::byte bytes[48];
  std::memcpy(bytes, &tag, sizeof(bytes));
  FollowTag copy;
  std::memcpy(&copy, bytes, sizeof(bytes));
  EXPECT_EQ(copy, tag);
  EXPECT_EQ(std::memcmp(bytes, id_of(9).bytes.data(), 32), 0);
  EXPECT_EQ(load<uint64_t>(bytes, 40), 3u);
}

// All bytes of a block say nothing about its end (C5).
TEST_F(FollowTest, NothingCountsBeforeItsCommit) {
  for (const Code code : {Code::kCancelled, Code::kTimedOut}) {
    KvRig rig(kLayers, 2 * kBlocks);
    fill(rig);
    swallow(rig, Type::kCommit);
    const OpId pushed = push(rig, 0, kBlocks);
    const OpId op = *rig.core->follow(follow_of(rig, granted(rig, pushed, kBlocks)));
    ASSERT_TRUE(rig.core->push_layer(pushed, ClientCore::kEveryLayer).ok());
    ASSERT_TRUE(rig.run_until([&] { return layers(rig, op) == kLayers.size(); }));
    rig.run_for(kSecond);
    EXPECT_EQ(rig.terminal(op), nullptr);
    rig.daemon->end_reservations(code);
    const Event event = rig.finish(op);
    EXPECT_TRUE(event.status.ok());
    EXPECT_EQ(event.codes, std::vector<Code>(kBlocks, code));
    EXPECT_EQ(counts(rig).followed_blocks, 0u);
    EXPECT_EQ(counts(rig).failed_blocks, kBlocks);
    rig.core->cancel(pushed);
  }
}

TEST_F(FollowTest, TheEndOfEachPushIsToldApart) {
  KvRig rig(kLayers, 2 * kBlocks + 1);
  fill(rig);
  const OpId committed = push(rig, 0, 1);
  const OpId aborted = push(rig, 1, 1);
  std::vector<FollowTag> tags = granted(rig, committed, 1);
  tags.push_back(granted(rig, aborted, 1)[0]);
  tags.push_back({id_of(2), Attempt{1, 0, 1000}});
  const OpId op = *rig.core->follow(follow_of(rig, tags));
  ASSERT_TRUE(rig.core->push_layer(aborted, 0).ok());
  ASSERT_TRUE(rig.core->push_layer(committed, ClientCore::kEveryLayer).ok());
  EXPECT_TRUE(rig.finish(committed).status.ok());
  rig.run_for(50 * kMillisecond);
  EXPECT_EQ(rig.terminal(op), nullptr);
  rig.core->cancel(aborted);
  const Event event = rig.finish(op);
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.codes, (std::vector<Code>{Code::kOk, Code::kCancelled, Code::kUnavailable}));
  for (uint32_t l = 0; l < kLayers.size(); ++l)
    EXPECT_TRUE(same_layer(rig, 0, l));
  EXPECT_TRUE(untouched(rig, 2, 0));
}

TEST_F(FollowTest, ALayerRangeIsAskedAsOfAPull) {
  KvRig rig(kLayers, 2 * kBlocks);
  fill(rig);
  const OpId pushed = push(rig, 0, 1);
  FollowRequest request = follow_of(rig, granted(rig, pushed, 1));
  request.layer_first = 1;
  request.layer_count = 1;
  request.slack_ns = 5;
  request.layer_ns = 6;
  request.deadline_ns = 3 * kSecond;
  const OpId op = *rig.core->follow(request);
  ASSERT_TRUE(rig.core->push_layer(pushed, ClientCore::kEveryLayer).ok());
  EXPECT_TRUE(rig.finish(op).status.ok());
  const auto frame = rig.daemon->last(Type::kFollow)->frame();
  const auto& body = std::get<wire::FollowView>(frame.body).body;
  EXPECT_EQ(body.layer_first, 1u);
  EXPECT_EQ(body.layer_count, 1u);
  EXPECT_EQ(body.slack_ns, 5u);
  EXPECT_EQ(body.layer_ns, 6u);
  EXPECT_LE(body.deadline_ns, 3 * kSecond);
  EXPECT_TRUE(same_layer(rig, 0, 1));
  EXPECT_TRUE(untouched(rig, 0, 0));
  EXPECT_TRUE(untouched(rig, 0, 2));
}

// I3: what the daemon has under the id may be somebody else's.
TEST_F(FollowTest, AnotherAttemptIsRefused) {
  KvRig rig(kLayers, 2 * kBlocks);
  rig.put(0, 2);
  std::vector<FollowTag> tags = {stored_tag(rig, 0), stored_tag(rig, 1)};
  ++tags[0].attempt.counter;
  swallow(rig, Type::kFollow);
  const OpId op = *rig.core->follow(follow_of(rig, tags));
  ASSERT_TRUE(rig.run_until([&] { return rig.saw(Type::kFollow); }));
  for (uint32_t n = 0; n < 2; ++n) {
    for (uint32_t e = 0; e < kLayers.size(); ++e)
      rig.daemon->send_extent(1, follow_op(rig), BlockId{id_of(n), 0}, n, e);
  }
  ASSERT_TRUE(rig.run_until([&] { return layers(rig, op) == kLayers.size(); }));
  say_pulled(rig, Code::kOk, {0, 0});
  EXPECT_EQ(rig.finish(op).codes, (std::vector<Code>{Code::kUnavailable, Code::kOk}));
  for (uint32_t l = 0; l < kLayers.size(); ++l) {
    EXPECT_TRUE(untouched(rig, 0, l));
    EXPECT_TRUE(rig.layer_is_stored(id_of(1), kBlocks + 1, l));
  }
}

TEST_F(FollowTest, ALossOfAnotherAttemptIsRefused) {
  RigOptions options;
  options.daemon.k = 2;
  options.daemon.m = 1;
  KvRig rig(kLayers, 2 * kBlocks, options);
  rig.put(0, 1);
  FollowTag tag = stored_tag(rig, 0);
  ++tag.attempt.counter;
  swallow(rig, Type::kFollow);
  const OpId op = *rig.core->follow(follow_of(rig, {tag}));
  ASSERT_TRUE(rig.run_until([&] { return rig.saw(Type::kFollow); }));
  rig.daemon->send_lost(follow_op(rig),
                        rig.daemon->lost_of(BlockId{id_of(0), 0}, 0, 0, wire::LostState::kLost));
  say_pulled(rig, Code::kOk, {0});
  EXPECT_EQ(rig.finish(op).codes, std::vector<Code>{Code::kUnavailable});
  EXPECT_FALSE(rig.saw(Type::kPull));
  EXPECT_TRUE(untouched(rig, 0, 0));
}

TEST_F(FollowTest, WrongBytesAreNotHandedOver) {
  KvRig rig(kLayers, 2 * kBlocks);
  rig.put(0, 1);
  swallow(rig, Type::kFollow);
  const OpId op = *rig.core->follow(follow_of(rig, {stored_tag(rig, 0)}));
  ASSERT_TRUE(rig.run_until([&] { return rig.saw(Type::kFollow); }));
  wire::Data data = rig.daemon->data_of(BlockId{id_of(0), 0}, 0, 0);
  data.entry.stored_crc ^= 1;
  const auto& bytes = rig.daemon->store().at(BlockId{id_of(0), 0}).extents[0];
  for (uint32_t at = 0; at < bytes.size(); at += kPayloadBytesMax) {
    data.offset = at;
    const size_t length = std::min<size_t>(kPayloadBytesMax, bytes.size() - at);
    rig.daemon->send_data(1, follow_op(rig), data, ConstByteSpan(bytes).subspan(at, length));
  }
  say_pulled(rig, Code::kOk, {0});
  EXPECT_EQ(rig.finish(op).codes, std::vector<Code>{Code::kCorrupt});
  EXPECT_EQ(layers(rig, op), 0u);
  EXPECT_EQ(counts(rig).corrupt_extents, 1u);
}

// Cut short the op knows of no block how it ended, also of those that are here (C5).
TEST_F(FollowTest, CancelAndDeadlineGoThroughTheFence) {
  for (const bool by_deadline : {false, true}) {
    KvRig rig(kLayers, 2 * kBlocks);
    fill(rig);
    swallow(rig, Type::kCommit);
    const OpId pushed = push(rig, 0, 1);
    FollowRequest request = follow_of(rig, granted(rig, pushed, 1));
    request.deadline_ns = 2 * kSecond;
    const OpId op = *rig.core->follow(request);
    ASSERT_TRUE(rig.core->push_layer(pushed, ClientCore::kEveryLayer).ok());
    ASSERT_TRUE(rig.run_until([&] { return layers(rig, op) == kLayers.size(); }));
    if (!by_deadline) rig.core->cancel(op);
    const Event event = rig.finish(op);
    const Code code = by_deadline ? Code::kTimedOut : Code::kCancelled;
    EXPECT_EQ(event.status.code(), code);
    EXPECT_EQ(event.codes, std::vector<Code>{code});
    EXPECT_EQ(rig.daemon->count(Type::kCancel), 1u);
    EXPECT_EQ(counts(rig).followed_blocks, 0u);
    rig.core->cancel(pushed);
  }
}

TEST_F(FollowTest, ARefusalOfTheWholeSaysNothingOfItsBlocks) {
  KvRig rig(kLayers, 2 * kBlocks);
  rig.put(0, 1);
  swallow(rig, Type::kFollow);
  const OpId op = *rig.core->follow(follow_of(rig, {stored_tag(rig, 0)}));
  ASSERT_TRUE(rig.run_until([&] { return rig.saw(Type::kFollow); }));
  for (uint32_t e = 0; e < kLayers.size(); ++e)
    rig.daemon->send_extent(1, follow_op(rig), BlockId{id_of(0), 0}, 0, e);
  ASSERT_TRUE(rig.run_until([&] { return layers(rig, op) == kLayers.size(); }));
  say_pulled(rig, Code::kInternal, {});
  const Event event = rig.finish(op);
  EXPECT_EQ(event.status.code(), Code::kInternal);
  EXPECT_EQ(event.codes, std::vector<Code>{Code::kInternal});
}

TEST_F(FollowTest, RefusedForNowIsAskedAgain) {
  KvRig rig(kLayers, 2 * kBlocks);
  rig.put(0, 1);
  uint32_t asked = 0;
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kFollow || ++asked > 3) return false;
    say_pulled(rig, Code::kOverloaded, {});
    return true;
  };
  const Event event = rig.finish(*rig.core->follow(follow_of(rig, {stored_tag(rig, 0)})));
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.codes, std::vector<Code>{Code::kOk});
  EXPECT_EQ(asked, 4u);
}

TEST_F(FollowTest, ALostSessionIsAskedOnceMoreFromTheNextLayer) {
  KvRig rig(kLayers, 2 * kBlocks);
  rig.put(0, 1);
  swallow(rig, Type::kFollow);
  const OpId op = *rig.core->follow(follow_of(rig, {stored_tag(rig, 0)}));
  ASSERT_TRUE(rig.run_until([&] { return rig.saw(Type::kFollow); }));
  rig.daemon->send_extent(1, follow_op(rig), BlockId{id_of(0), 0}, 0, 0);
  ASSERT_TRUE(rig.run_until([&] { return layers(rig, op) == 1; }));
  rig.daemon->hook = nullptr;
  rig.daemon->close_all();
  const Event event = rig.finish(op);
  EXPECT_TRUE(event.status.ok());
  EXPECT_EQ(event.codes, std::vector<Code>{Code::kOk});
  EXPECT_EQ(event.bytes, rig.table.block_bytes);
  EXPECT_EQ(rig.daemon->count(Type::kFollow), 2u);
  const auto frame = rig.daemon->last(Type::kFollow)->frame();
  EXPECT_EQ(std::get<wire::FollowView>(frame.body).body.layer_first, 1u);
  EXPECT_EQ(layers(rig, op), kLayers.size());
}

// What was handed over stays as it is: nothing is left to ask for.
TEST_F(FollowTest, ASessionLostBehindTheLastLayerEndsIt) {
  KvRig rig(kLayers, 2 * kBlocks);
  rig.put(0, 1);
  swallow(rig, Type::kFollow);
  const OpId op = *rig.core->follow(follow_of(rig, {stored_tag(rig, 0)}));
  ASSERT_TRUE(rig.run_until([&] { return rig.saw(Type::kFollow); }));
  for (uint32_t e = 0; e < kLayers.size(); ++e)
    rig.daemon->send_extent(1, follow_op(rig), BlockId{id_of(0), 0}, 0, e);
  ASSERT_TRUE(rig.run_until([&] { return layers(rig, op) == kLayers.size(); }));
  rig.daemon->close_all();
  const Event event = rig.finish(op);
  EXPECT_EQ(event.status.code(), Code::kUnavailable);
  EXPECT_EQ(event.codes, std::vector<Code>{Code::kUnavailable});
  EXPECT_EQ(counts(rig).followed_blocks, 0u);
}

TEST_F(FollowTest, WhatIsLostBehindTheCommitIsRebuilt) {
  for (uint32_t lost = 0; lost < kLayers.size(); ++lost) {
    RigOptions options;
    options.daemon.k = 2;
    options.daemon.m = 1;
    KvRig rig(kLayers, 2 * kBlocks, options);
    rig.put(0, 2);
    rig.daemon->lost = {{BlockId{id_of(1), 0}, lost}};
    const OpId op = *rig.core->follow(follow_of(rig, {stored_tag(rig, 0), stored_tag(rig, 1)}));
    const Event event = rig.finish(op);
    EXPECT_TRUE(event.status.ok());
    EXPECT_EQ(event.codes, std::vector<Code>(2, Code::kOk)) << lost;
    for (uint32_t l = 0; l < kLayers.size(); ++l)
      EXPECT_TRUE(rig.layer_is_stored(id_of(1), kBlocks + 1, l)) << lost << " " << l;
    EXPECT_EQ(counts(rig).rebuilt_extents, 1u);
  }
}

TEST_F(FollowTest, WhatIsLateIsWaitedFor) {
  RigOptions options;
  options.daemon.k = 2;
  options.daemon.m = 1;
  KvRig rig(kLayers, 2 * kBlocks, options);
  rig.put(0, 1);
  rig.daemon->late = {{BlockId{id_of(0), 0}, 1}};
  const OpId op = *rig.core->follow(follow_of(rig, {stored_tag(rig, 0)}));
  rig.run_for(kSecond);
  EXPECT_EQ(layers(rig, op), 1u);
  rig.daemon->send_extent(1, follow_op(rig), BlockId{id_of(0), 0}, 0, 1);
  EXPECT_EQ(rig.finish(op).codes, std::vector<Code>{Code::kOk});
  EXPECT_EQ(counts(rig).hedges + counts(rig).hedges_refused, 0u);
  EXPECT_FALSE(rig.saw(Type::kPull));
}

TEST_F(FollowTest, ItCountsAsAPullOfItsSession) {
  RigOptions options;
  options.daemon.pulls_max = 1;
  KvRig rig(kLayers, 2 * kBlocks, options);
  fill(rig);
  rig.put(2, 1);
  const OpId pushed = push(rig, 0, 1);
  const OpId op = *rig.core->follow(follow_of(rig, granted(rig, pushed, 1)));
  PullRequest request = rig.pull_of({id_of(2)});
  request.slots = {kBlocks + 1};
  const OpId pull = *rig.core->pull(request);
  rig.run_for(kSecond);
  EXPECT_FALSE(rig.saw(Type::kPull));
  ASSERT_TRUE(rig.core->push_layer(pushed, ClientCore::kEveryLayer).ok());
  EXPECT_TRUE(rig.finish(op).status.ok());
  EXPECT_TRUE(rig.finish(pull).status.ok());
}

TEST_F(FollowTest, AWrongRequestIsSaidAtOnce) {
  KvRig rig(kLayers, 2 * kBlocks);
  const FollowTag good{id_of(0), Attempt{1, 0, 1}};
  const auto code = [&](const FollowRequest& request) {
    return rig.core->follow(request).error().code();
  };
  EXPECT_EQ(code(follow_of(rig, {})), Code::kInvalid);
  EXPECT_EQ(code(follow_of(rig, {good, {id_of(1), Attempt()}})), Code::kInvalid);
  FollowRequest request = follow_of(rig, {good});
  request.slots.push_back(0);
  EXPECT_EQ(code(request), Code::kInvalid);
  request = follow_of(rig, {good});
  request.layer_count = 9;
  EXPECT_EQ(code(request), Code::kInvalid);
  request = follow_of(rig, {good});
  request.layout = nullptr;
  EXPECT_EQ(code(request), Code::kInvalid);
}

}  // namespace
}  // namespace varve
