// Goal: a tag is the match that was asked last under it, its answer stays until it is forgotten,
// and there is a bound. Method: the table by hand.
#include "client/c_tags.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

class CTagsTest : public testing::Test {
 protected:
  void ask(uint64_t tag, OpId op) {
    ASSERT_TRUE(tags_.make_room(tag));
    tags_.ask(tag, op);
  }
  void answer(uint64_t tag, OpId op, uint32_t hits = 0, Nanos now = 0) {
    Event event;
    event.op = op;
    event.n_blocks = hits;
    tags_.answer(tag, event, now);
  }
  varve_status peek(uint64_t tag, Nanos now = 0) { return tags_.peek(tag, now, seen_); }
  Tags tags_;
  varve_match_answer seen_{};
};

TEST_F(CTagsTest, ATagIsUnknownThenPendingThenAnswered) {
  EXPECT_EQ(peek(7), VARVE_UNKNOWN);
  ask(7, 1);
  EXPECT_EQ(peek(7), VARVE_PENDING);
  EXPECT_EQ(tags_.running(7), 1u);
  answer(7, 1, 12);
  EXPECT_EQ(tags_.running(7), 0u);
  EXPECT_EQ(peek(7), VARVE_OK);
  EXPECT_EQ(peek(7), VARVE_OK);  // it is not taken
  EXPECT_EQ(seen_.hit_count, 12u);
  EXPECT_EQ(seen_.op, 1u);
  EXPECT_EQ(tags_.forget(7), 0u);
  EXPECT_EQ(peek(7), VARVE_UNKNOWN);
}

TEST_F(CTagsTest, AnAnswerSaysAllThatTheMatchDid) {
  ask(7, 1);
  Event event;
  event.op = 1;
  event.status = Status::overloaded("");
  event.n_blocks = 3;
  event.recovering = true;
  event.tiers = {wire::TierKind::kDram, wire::TierKind::kFlash, wire::TierKind::kDram};
  event.lease = 55;
  event.lease_ns = 1000;
  event.first_layer_ns_estimate = 21;
  event.last_layer_ns_estimate = 22;
  tags_.answer(7, event, 100);
  ASSERT_EQ(peek(7, 400), VARVE_OK);
  EXPECT_EQ(seen_.status, VARVE_OVERLOADED);
  EXPECT_EQ(seen_.hit_count, 3u);
  EXPECT_EQ(seen_.flags, VARVE_ANSWER_RECOVERING);
  EXPECT_EQ(seen_.slowest_tier, uint32_t{VARVE_TIER_FLASH});
  EXPECT_EQ(seen_.lease, 55u);
  EXPECT_EQ(seen_.lease_left_ns, 700u);
  EXPECT_EQ(seen_.age_ns, 300u);
  EXPECT_EQ(seen_.first_layer_ns_estimate, 21u);
  EXPECT_EQ(seen_.last_layer_ns_estimate, 22u);
  ASSERT_EQ(peek(7, 1100), VARVE_OK);
  EXPECT_EQ(seen_.lease_left_ns, 0u);
}

TEST_F(CTagsTest, WhatAnOlderOpAnswersIsNotTheTags) {
  ask(7, 1);
  EXPECT_EQ(tags_.forget(7), 1u);
  answer(7, 1, 5);
  EXPECT_EQ(peek(7), VARVE_UNKNOWN);
  ask(7, 2);
  answer(7, 1, 5);
  EXPECT_EQ(peek(7), VARVE_PENDING);
  answer(7, 2, 6);
  EXPECT_EQ(peek(7), VARVE_OK);
  EXPECT_EQ(seen_.hit_count, 6u);
  // Expect: asked anew, the old answer is gone at once.
  ask(7, 3);
  EXPECT_EQ(peek(7), VARVE_PENDING);
}

TEST_F(CTagsTest, TheAnswerOfLongestAgoMakesRoom) {
  for (uint64_t tag = 1; tag <= kTagsMax; ++tag)
    ask(tag, tag);
  EXPECT_FALSE(tags_.make_room(kTagsMax + 1));  // all of them wait
  answer(9, 9);
  answer(8, 8);
  ask(kTagsMax + 1, kTagsMax + 1);
  EXPECT_EQ(peek(9), VARVE_UNKNOWN);
  EXPECT_EQ(peek(8), VARVE_OK);
  EXPECT_EQ(tags_.forgotten(), 1u);
  ask(kTagsMax + 2, kTagsMax + 2);
  EXPECT_EQ(peek(8), VARVE_UNKNOWN);
  EXPECT_FALSE(tags_.make_room(kTagsMax + 3));
}

}  // namespace
}  // namespace varve
