// Goal: an engine's scheduler can ask, ask again and look without waiting, and leases are kept,
// renewed and given up as C says. Method: the scripted daemon; answers held back by script.
#include <gtest/gtest.h>

#include "tests/client/c_rig.h"

namespace varve {
namespace {

class CMatchTest : public CRig {
 protected:
  // Until it is answered; the daemon is on another thread.
  varve_match_answer answered(uint64_t tag) {
    varve_match_answer answer;
    VARVE_INIT(&answer);
    varve_status status = VARVE_PENDING;
    while (status == VARVE_PENDING)
      status = varve_match_peek(client_, tag, &answer);
    EXPECT_EQ(status, VARVE_OK);
    return answer;
  }
  varve_status peek(uint64_t tag) {
    varve_match_answer answer;
    VARVE_INIT(&answer);
    return varve_match_peek(client_, tag, &answer);
  }
};

TEST_F(CMatchTest, TheCompletionSaysWhatIsThere) {
  open_ready();
  put(3);
  auto request = match_of(0, 5, 9);
  request.lease_ms = 5000;
  const varve_op op = match(request);
  Completion done;
  ASSERT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
  EXPECT_EQ(done.kind, uint32_t{VARVE_DONE_MATCH});
  EXPECT_EQ(done.op, op);
  EXPECT_EQ(done.tag, 9u);
  EXPECT_EQ(done.status, VARVE_OK);
  EXPECT_EQ(done.hit_count, 3u);
  ASSERT_NE(done.tiers, nullptr);
  EXPECT_NE(done.lease, 0u);
  EXPECT_GT(done.lease_left_ns, 0u);
  EXPECT_GT(done.done_ns, 0u);
  EXPECT_STREQ(done.reason, "");
  uint64_t left = 0;
  EXPECT_EQ(varve_lease_left(client_, done.lease, &left), VARVE_OK);
  EXPECT_GT(left, 0u);
  EXPECT_EQ(varve_lease_release(client_, done.lease), VARVE_OK);
  EXPECT_EQ(varve_lease_left(client_, done.lease, &left), VARVE_OK);
  EXPECT_EQ(left, 0u);
  EXPECT_EQ(varve_lease_release(client_, done.lease), VARVE_OK);
  EXPECT_EQ(varve_lease_release(client_, 0), VARVE_OK);
}

TEST_F(CMatchTest, ATagThatIsAskedIsNotAskedTwice) {
  open_ready();
  put(2);
  silence(Type::kMatch);
  EXPECT_EQ(peek(9), VARVE_UNKNOWN);
  const varve_op op = match(match_of(0, 2, 9));
  wait_asked(Type::kMatch, 1);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(peek(9), VARVE_PENDING);
    EXPECT_EQ(match(match_of(0, 2, 9)), op);
  }
  daemon_.call([](ScriptedDaemon& d) { EXPECT_EQ(d.count(Type::kMatch), 1u); });
  unsilence();
  EXPECT_EQ(varve_cancel(client_, op), VARVE_OK);
  EXPECT_EQ(answered(9).status, VARVE_CANCELLED);
  // Expect: after its answer the tag asks anew.
  const varve_op next = match(match_of(0, 2, 9));
  EXPECT_NE(next, op);
  EXPECT_EQ(answered(9).hit_count, 2u);
  EXPECT_EQ(answered(9).op, next);
  Completion done;
  EXPECT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);  // both have their completion
  varve_completion_clear(&done);
  EXPECT_EQ(varve_wait(client_, next, kLong, &done), VARVE_OK);
}

TEST_F(CMatchTest, OneThatIsOnlyPeekedLeavesNothingInTheQueue) {
  open_ready();
  put(2);
  for (int i = 0; i < 20; ++i) {
    auto request = match_of(0, 2, 1 + i % 3);
    request.flags = VARVE_MATCH_PEEK_ONLY;
    EXPECT_EQ(varve_match_submit(client_, &request, nullptr), VARVE_OK);
    EXPECT_EQ(answered(request.tag).hit_count, 2u);
  }
  size_t count = 9;
  Completion done;
  EXPECT_EQ(varve_poll(client_, &done, 1, &count), VARVE_OK);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(varve_match_forget(client_, 1), VARVE_OK);
  EXPECT_EQ(peek(1), VARVE_UNKNOWN);
  EXPECT_EQ(peek(2), VARVE_OK);
  EXPECT_EQ(varve_match_forget(client_, 4711), VARVE_OK);
}

TEST_F(CMatchTest, WhatIsForgottenBeforeItsAnswerIsCancelled) {
  open_ready();
  silence(Type::kMatch);
  const varve_op op = match(match_of(0, 2, 9));
  EXPECT_EQ(varve_match_forget(client_, 9), VARVE_OK);
  EXPECT_EQ(peek(9), VARVE_UNKNOWN);
  Completion done;
  ASSERT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
  EXPECT_EQ(done.status, VARVE_CANCELLED);
}

TEST_F(CMatchTest, NoDaemonIsZeroBlocksWithTheReason) {
  std::string address;
  { address = DaemonThread().address(); }
  open(address);
  auto request = match_of(0, 2, 9);
  match(request);
  const varve_match_answer answer = answered(9);
  EXPECT_EQ(answer.status, VARVE_UNAVAILABLE);
  EXPECT_EQ(answer.hit_count, 0u);
}

TEST_F(CMatchTest, RequestsThatAreWrongAreRefused) {
  open_ready();
  const varve_match_request good = match_of(0, 2, 9);
  const auto answer = [&](auto change) {
    varve_match_request request = good;
    change(request);
    return varve_match_submit(client_, &request, nullptr);
  };
  EXPECT_EQ(answer([](auto& r) { r.flags = VARVE_MATCH_PREFETCH; }), VARVE_UNSUPPORTED);
  EXPECT_NE(std::string(varve_last_error()).find("VARVE_CAN_PREFETCH"), std::string::npos);
  EXPECT_EQ(answer([](auto& r) { r.flags = 128; }), VARVE_UNSUPPORTED);
  EXPECT_EQ(answer([](auto& r) { r.reserved = 1; }), VARVE_UNSUPPORTED);
  EXPECT_EQ(answer([](auto& r) { r.count = 0; }), VARVE_INVALID);
  EXPECT_EQ(answer([](auto& r) { r.ids = nullptr; }), VARVE_INVALID);
  EXPECT_EQ(answer([](auto& r) { r.count = ~0u; }), VARVE_INVALID);
  EXPECT_EQ(answer([](auto& r) { r.struct_size -= 8; }), VARVE_INVALID);
  EXPECT_EQ(answer([](auto& r) {
              r.tag = 0;
              r.flags = VARVE_MATCH_PEEK_ONLY;
            }),
            VARVE_INVALID);
  varve_match_answer seen;
  VARVE_INIT(&seen);
  EXPECT_EQ(varve_match_peek(client_, 0, &seen), VARVE_INVALID);
  EXPECT_EQ(varve_match_peek(client_, 9, nullptr), VARVE_INVALID);
  seen.struct_size = 4;
  EXPECT_EQ(varve_match_peek(client_, 9, &seen), VARVE_INVALID);
  // Expect: what only the client's thread can know is in the completion.
  Completion done;
  varve_match_request unknown = good;
  unknown.format = 99;
  ASSERT_EQ(varve_wait(client_, match(unknown), kLong, &done), VARVE_OK);
  EXPECT_EQ(done.status, VARVE_INVALID);
  EXPECT_STRNE(done.reason, "");
}

TEST_F(CMatchTest, ExistsIsSaidOfEachId) {
  open_ready();
  put(6);
  daemon_.call([](ScriptedDaemon& d) {
    for (const uint32_t n : {0u, 3u})
      d.store().erase(BlockId{varve::id_of(n), 0});
  });
  varve_exists_request request;
  VARVE_INIT(&request);
  const varve_blocks of = blocks(0, 9);
  request.format = format_;
  request.ids = of.ids;
  request.count = of.count;
  request.tag = 9;
  varve_op op = 0;
  ASSERT_EQ(varve_exists_submit(client_, &request, &op), VARVE_OK);
  Completion done;
  ASSERT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
  EXPECT_EQ(done.kind, uint32_t{VARVE_DONE_EXISTS});
  EXPECT_EQ(done.status, VARVE_OK);
  EXPECT_EQ(done.count, 9u);
  EXPECT_EQ(done.ok_count, 4u);
  EXPECT_EQ(done.bitmap[0], 0b00110110);
  EXPECT_EQ(done.bitmap[1], 0);
  EXPECT_EQ(done.codes[0], VARVE_MISS);
  EXPECT_EQ(done.codes[1], VARVE_OK);
  EXPECT_EQ(done.codes[8], VARVE_MISS);
  EXPECT_EQ(done.hit_count, 4u);
  EXPECT_EQ(done.tiers[0], VARVE_TIER_NONE);
  EXPECT_EQ(done.tiers[1], VARVE_TIER_DRAM);
  daemon_.call([](ScriptedDaemon& d) { EXPECT_EQ(d.count(Type::kMatch), 1u); });
  EXPECT_EQ(peek(9), VARVE_UNKNOWN);  // not a tag of matches
  request.count = (1u << 20) + 1;
  EXPECT_EQ(varve_exists_submit(client_, &request, &op), VARVE_INVALID);
  request.count = 0;
  EXPECT_EQ(varve_exists_submit(client_, &request, &op), VARVE_INVALID);
  request.count = 1;
  request.reserved = 1;
  EXPECT_EQ(varve_exists_submit(client_, &request, &op), VARVE_UNSUPPORTED);
}

TEST_F(CMatchTest, ALeaseIsRenewed) {
  open_ready();
  put(1);
  auto request = match_of(0, 1);
  request.lease_ms = 5000;
  Completion found;
  ASSERT_EQ(varve_wait(client_, match(request), kLong, &found), VARVE_OK);
  varve_op op = 0;
  EXPECT_EQ(varve_lease_renew(client_, found.lease, 0, 0, &op), VARVE_INVALID);
  ASSERT_EQ(varve_lease_renew(client_, found.lease, 9000, 4, &op), VARVE_OK);
  Completion done;
  ASSERT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
  EXPECT_EQ(done.kind, uint32_t{VARVE_DONE_RENEW});
  EXPECT_EQ(done.tag, 4u);
  EXPECT_EQ(done.status, VARVE_OK) << done.reason;
  EXPECT_GT(done.lease_left_ns, 5 * kSecond);
  varve_completion_clear(&done);
  ASSERT_EQ(varve_lease_renew(client_, 4711, 9000, 0, &op), VARVE_OK);
  ASSERT_EQ(varve_wait(client_, op, kLong, &done), VARVE_OK);
  EXPECT_EQ(done.status, VARVE_TIMED_OUT);
  uint64_t left = 0;
  EXPECT_EQ(varve_lease_left(client_, found.lease, nullptr), VARVE_INVALID);
  EXPECT_EQ(varve_lease_left(client_, found.lease, &left), VARVE_OK);
  EXPECT_GT(left, 0u);
}

}  // namespace
}  // namespace varve
