// Goal: pushes of C: whole or layer by layer, once, with their answers per block. Method: the
// scripted daemon and its store.
#include <gtest/gtest.h>

#include "tests/client/c_rig.h"

namespace varve {
namespace {

class CPushTest : public CRig {
 protected:
  void fill() {
    for (size_t i = 0; i < memory_.size(); ++i)
      memory_[i] = static_cast<std::byte>(i * 11 / 9);
  }
};

TEST_F(CPushTest, WholeBlocksAreStoredOnce) {
  open_ready();
  fill();
  Completion done;
  ASSERT_EQ(varve_wait(client_, push(push_of(0, 3)), kLong, &done), VARVE_OK);
  EXPECT_EQ(done.kind, uint32_t{VARVE_DONE_PUSH});
  EXPECT_EQ(done.status, VARVE_OK);
  EXPECT_EQ(done.count, 3u);
  EXPECT_EQ(done.ok_count, 3u);
  EXPECT_EQ(done.bitmap[0], 7);
  for (uint32_t b = 0; b < 3; ++b)
    EXPECT_TRUE(slot_holds(b, b));
  size_t sent = 0;
  daemon_.call([&](ScriptedDaemon& d) { sent = d.count(Type::kExtent); });
  varve_completion_clear(&done);
  ASSERT_EQ(
      varve_wait(client_, push(push_of(0, 3, VARVE_PUSH_FINAL | VARVE_PUSH_CACHED)), kLong, &done),
      VARVE_OK);
  EXPECT_EQ(done.ok_count, 3u);
  daemon_.call([&](ScriptedDaemon& d) { EXPECT_EQ(d.count(Type::kExtent), sent); });
  EXPECT_EQ(stats().existing_blocks, 3u);
}

TEST_F(CPushTest, LayersLeaveAsTheyAreFinal) {
  open_ready();
  fill();
  const varve_op op = push(push_of(0, 2, 0));
  for (const uint32_t l : {2u, 0u})
    ASSERT_EQ(varve_push_layer(client_, op, l), VARVE_OK);
  Completion done;
  EXPECT_EQ(varve_wait(client_, op, kMillisecond, &done), VARVE_TIMED_OUT);
  ASSERT_EQ(varve_push_layer(client_, op, VARVE_NONE), VARVE_OK);
  ASSERT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
  EXPECT_EQ(done.ok_count, 2u);
  EXPECT_TRUE(slot_holds(1, 1));
  EXPECT_EQ(varve_push_layer(client_, op, 0), VARVE_UNKNOWN);
  EXPECT_EQ(varve_push_layer(client_, 4711, 0), VARVE_UNKNOWN);
}

TEST_F(CPushTest, ACancelledOneIsNeverSeen) {
  open_ready();
  const varve_op op = push(push_of(0, 2, 0));
  ASSERT_EQ(varve_push_layer(client_, op, 0), VARVE_OK);
  ASSERT_EQ(varve_quiesce(client_, op, kLong), VARVE_OK);
  Completion done;
  ASSERT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
  EXPECT_EQ(done.status, VARVE_CANCELLED);
  EXPECT_EQ(done.ok_count, 0u);
  Completion found;
  ASSERT_EQ(varve_wait(client_, match(match_of(0, 2)), kLong, &found), VARVE_OK);
  EXPECT_EQ(found.hit_count, 0u);
}

TEST_F(CPushTest, WhatIsWantedIsToldWithTagsToFollow) {
  open_ready();
  put(1);  // of three one exists
  const varve_op op = push(push_of(0, 3, VARVE_TELL_RESERVED | VARVE_PUSH_FINAL));
  EXPECT_EQ(varve_quiesce(client_, 0, 0), VARVE_OK);
  std::vector<varve_follow_tag> tags;
  std::vector<uint8_t> codes;
  for (bool ended = false; !ended;) {
    Completion told;
    size_t count = 0;
    ASSERT_EQ(varve_poll(client_, &told, 1, &count), VARVE_OK);
    if (count == 0) continue;
    EXPECT_EQ(told.op, op);
    ended = told.kind == VARVE_DONE_PUSH;
    if (ended) continue;
    EXPECT_EQ(told.kind, uint32_t{VARVE_DONE_RESERVED});
    tags.insert(tags.end(), told.tags, told.tags + told.tag_count);
    codes.assign(told.codes, told.codes + told.count);
  }
  EXPECT_EQ(tags.size(), 2u);
  EXPECT_EQ(codes, (std::vector<uint8_t>{VARVE_CANCELLED, VARVE_OK, VARVE_OK}));
}

TEST_F(CPushTest, RequestsThatAreWrongAreRefused) {
  open_ready();
  auto request = push_of(0, 1, 0);
  EXPECT_EQ(varve_push_submit(client_, &request, nullptr), VARVE_INVALID);  // no way to its layers
  request.flags = VARVE_TELL_LAYERS;
  varve_op op = 0;
  EXPECT_EQ(varve_push_submit(client_, &request, &op), VARVE_UNSUPPORTED);
  request.flags = VARVE_PUSH_FINAL;
  request.struct_size = 0;
  EXPECT_EQ(varve_push_submit(client_, &request, &op), VARVE_INVALID);
  request = push_of(0, 1);
  request.blocks.ids = nullptr;
  EXPECT_EQ(varve_push_submit(client_, &request, &op), VARVE_INVALID);
  EXPECT_EQ(varve_push_submit(client_, nullptr, &op), VARVE_INVALID);
  EXPECT_EQ(op, 0u);
}

}  // namespace
}  // namespace varve
