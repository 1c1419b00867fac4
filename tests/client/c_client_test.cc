// Goal: a client of C is opened, looked at and closed as varve_c.h says, whoever else is inside.
// Method: a scripted daemon on a thread, and none at all.
#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

#include "tests/client/c_rig.h"

namespace varve {
namespace {

class CClientTest : public CRig {};

TEST_F(CClientTest, SaysWhatItIs) {
  EXPECT_STREQ(varve_version(), "0.1.0");
  const uint64_t can = varve_capabilities();
  for (const uint64_t bit :
       {VARVE_CAN_MATCH, VARVE_CAN_EXISTS, VARVE_CAN_PULL, VARVE_CAN_FOLLOW, VARVE_CAN_PUSH,
        VARVE_CAN_BUFFERS, VARVE_CAN_TCP, VARVE_CAN_BOUNCE, VARVE_CAN_PULL_TIERS})
    EXPECT_NE(can & bit, 0u);
  for (const uint64_t bit :
       {VARVE_CAN_SHM, VARVE_CAN_RDMA, VARVE_CAN_CUDA_REGIONS, VARVE_CAN_SHARED_REGIONS,
        VARVE_CAN_PREFETCH, VARVE_CAN_TOUCH, VARVE_CAN_REPORT_BAD, VARVE_CAN_PRIORITY,
        VARVE_CAN_PIN, VARVE_CAN_SHOULD_LOAD, VARVE_CAN_READY_EVENT})
    EXPECT_EQ(can & bit, 0u);
}

TEST_F(CClientTest, WhatCannotWorkIsRefusedWithItsReason) {
  EXPECT_EQ(varve_open(&options_, nullptr), VARVE_INVALID);
  options_.bulk_lanes = 9;
  EXPECT_EQ(varve_open(&options_, &client_), VARVE_INVALID);
  EXPECT_NE(std::string(varve_last_error()).find("bulk_lanes"), std::string::npos);
  EXPECT_EQ(client_, nullptr);
  VARVE_INIT(&options_);
  options_.struct_size = 8;
  EXPECT_EQ(varve_open(&options_, &client_), VARVE_INVALID);
  VARVE_INIT(&options_);
  ASSERT_EQ(varve_options_set(&options_, "address", "no-port"), VARVE_OK);
  EXPECT_EQ(varve_open(&options_, &client_), VARVE_INVALID);
}

TEST_F(CClientTest, ADaemonThatIsDownIsNoErrorOfOpen) {
  std::string address;
  { address = DaemonThread().address(); }
  open(address);
  EXPECT_NE(varve_wait_ready(client_, kMillisecond), VARVE_OK);
  uint32_t state = 99;
  char why[400] = "";
  for (const std::string wanted = "errno 111"; std::string(why).find(wanted) == std::string::npos;)
    ASSERT_EQ(varve_state(client_, &state, why, sizeof why), VARVE_OK);
  EXPECT_NE(state, uint32_t{VARVE_STATE_READY});
  char little[4] = "xyz";
  EXPECT_EQ(varve_state(client_, &state, little, sizeof little), VARVE_OK);
  EXPECT_EQ(std::strlen(little), 3u);
  EXPECT_EQ(std::string(why).substr(0, 3), little);
  EXPECT_EQ(varve_state(client_, &state, nullptr, 4), VARVE_INVALID);
  EXPECT_EQ(varve_state(client_, nullptr, nullptr, 0), VARVE_INVALID);
  DaemonThread daemon(address);
  EXPECT_EQ(varve_wait_ready(client_, kLong), VARVE_OK);
  EXPECT_EQ(varve_state(client_, &state, nullptr, 0), VARVE_OK);
  EXPECT_EQ(state, uint32_t{VARVE_STATE_READY});
  EXPECT_EQ(varve_close(client_), VARVE_OK);  // before its daemon goes
}

TEST_F(CClientTest, ClosingTwiceIsFineAndCallsSaySo) {
  open_ready();
  EXPECT_EQ(varve_close(client_), VARVE_OK);
  EXPECT_EQ(varve_close(client_), VARVE_OK);
  const auto request = match_of(0, 1, 5);
  varve_op op = 0;
  EXPECT_EQ(varve_match_submit(client_, &request, &op), VARVE_CLOSED);
  varve_match_answer answer;
  VARVE_INIT(&answer);
  EXPECT_EQ(varve_match_peek(client_, 5, &answer), VARVE_CLOSED);
  EXPECT_EQ(varve_event_fd(client_), -1);
  EXPECT_EQ(varve_wait_ready(client_, kLong), VARVE_CLOSED);
  Completion done;
  EXPECT_EQ(varve_wait(client_, 1, kLong, &done), VARVE_CLOSED);
  EXPECT_STREQ(varve_last_error(), "the client is closed");
}

TEST_F(CClientTest, ClosingEndsTheWaitsOfOthers) {
  open_ready();
  put(2);
  daemon_.call([](ScriptedDaemon& d) {
    d.hook = [](const auto& r) { return r.type == Type::kPull || r.type == Type::kMatch; };
  });
  auto request = pull_of(0, 2);
  request.deadline_ns = 3600 * kSecond;
  const varve_op op = pull(request);
  wait_asked(Type::kPull, 1);
  std::vector<std::thread> waiting;
  std::atomic<uint32_t> entered{0}, left{0};
  const auto wait_in = [&](auto call) {
    waiting.emplace_back([&, call] {
      ++entered;
      EXPECT_NE(call(), VARVE_INTERNAL);
      ++left;
    });
  };
  wait_in([&] { return varve_wait_layer(client_, op, 0, 3600 * kSecond, nullptr, 0); });
  wait_in([&] {
    Completion done;
    return varve_wait(client_, op, 3600 * kSecond, &done);
  });
  wait_in([&] { return varve_quiesce(client_, 0, 3600 * kSecond); });
  while (entered.load() < 3)
    std::this_thread::yield();
  EXPECT_EQ(varve_close(client_), VARVE_OK);
  for (auto& thread : waiting)
    thread.join();
  EXPECT_EQ(left.load(), 3u);
}

TEST_F(CClientTest, ClosingEndsAWaitForADaemonThatIsNotThere) {
  std::string address;
  { address = DaemonThread().address(); }
  open(address);
  std::atomic<bool> entered{false};
  std::thread waiting([&] {
    entered = true;
    EXPECT_NE(varve_wait_ready(client_, 3600 * kSecond), VARVE_OK);
  });
  while (!entered.load())
    std::this_thread::yield();
  EXPECT_EQ(varve_close(client_), VARVE_OK);
  waiting.join();
}

TEST_F(CClientTest, StatsCountWhatCameOfOps) {
  open_ready();
  put(3);
  Completion done;
  ASSERT_EQ(varve_wait(client_, match(match_of(0, 5)), kLong, &done), VARVE_OK);
  varve_completion_clear(&done);
  ASSERT_EQ(varve_wait(client_, pull(pull_of(0, 3)), kLong, &done), VARVE_OK);
  const varve_stats s = stats();
  EXPECT_EQ(s.matches, 1u);
  EXPECT_EQ(s.match_ids, 5u);
  EXPECT_EQ(s.hit_ids, 3u);
  EXPECT_EQ(s.pulls, 1u);
  EXPECT_EQ(s.pulled_blocks, 3u);
  EXPECT_EQ(s.pulled_bytes, uint64_t{3} * kLayers * kLayerBytes);
  EXPECT_EQ(s.connects, 1u);
  EXPECT_EQ(s.breaker_opens, 0u);
  varve_stats small;
  small.struct_size = 8;
  EXPECT_EQ(varve_stats_read(client_, &small), VARVE_INVALID);
  EXPECT_EQ(varve_stats_read(client_, nullptr), VARVE_INVALID);
}

// By default, without a word of the engine's.
TEST_F(CClientTest, TheBreakerAnswersForADaemonThatIsSilent) {
  open_ready();
  silence(Type::kMatch);
  for (int i = 0; i < 5; ++i) {
    auto request = match_of(0, 1);
    request.deadline_ns = kMillisecond;
    Completion done;
    ASSERT_EQ(varve_wait(client_, match(request), kLong, &done), VARVE_OK);
    EXPECT_EQ(done.status, VARVE_TIMED_OUT);
  }
  EXPECT_EQ(stats().breaker_opens, 1u);
  auto request = match_of(0, 1, 77);
  request.flags = VARVE_MATCH_PEEK_ONLY;
  match(request);
  varve_match_answer answer;
  VARVE_INIT(&answer);
  varve_status status = VARVE_PENDING;
  while (status == VARVE_PENDING)
    status = varve_match_peek(client_, 77, &answer);
  EXPECT_EQ(status, VARVE_OK);
  // Expect: the breaker's, unless this machine stood still for the whole second of a probe.
  EXPECT_TRUE(answer.status == VARVE_UNAVAILABLE || stats().breaker_probes > 0);
  EXPECT_EQ(answer.hit_count, 0u);
}

}  // namespace
}  // namespace varve
