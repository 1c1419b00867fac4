// Goal: an open loop hides nothing that a stalled server does, a closed loop is not sold as one,
// and every request is served once. Method: time that the test moves, so that numbers are exact.
#include "tools/kvbench/load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

namespace varve::kvbench {
namespace {

class ManualPacer final : public Pacer {
 public:
  Nanos now_ns() override { return now_; }
  void wait_until(Nanos t) override { now_ = std::max(now_, t); }
  void pass(Nanos d) { now_ += d; }

 private:
  Nanos now_ = 1000;
};

// Takes a millisecond for each request, but for one, at which it stalls for a second.
class StallingServer final : public LoadServer {
 public:
  StallingServer(ManualPacer& pacer, uint32_t stalled) : pacer_(pacer), stalled_(stalled) {}
  void serve(uint32_t, uint32_t index, Nanos origin_ns) override {
    origins.push_back(origin_ns);
    pacer_.pass(index == stalled_ ? kSecond : kMillisecond);
  }
  std::vector<Nanos> origins;

 private:
  ManualPacer& pacer_;
  uint32_t stalled_;
};

uint32_t slower_than(const std::vector<LoadTime>& times, Nanos limit_ns) {
  return static_cast<uint32_t>(std::count_if(
      times.begin(), times.end(), [&](const LoadTime& t) { return t.latency_ns() > limit_ns; }));
}

constexpr uint32_t kRequests = 300;
constexpr Nanos kApart = 10 * kMillisecond;

std::vector<LoadRequest> every_ten_ms() {
  std::vector<LoadRequest> requests(kRequests);
  for (uint32_t i = 0; i < kRequests; ++i)
    requests[i].due_ns = i * kApart;
  return requests;
}

TEST(Load, AStallIsInTheLatencyOfEveryRequestThatItKeptWaiting) {
  ManualPacer pacer;
  StallingServer server(pacer, 100);
  const auto times = run_load({Loop::kOpen, 1}, every_ten_ms(), pacer, server);
  // Expect: the stalled one took a second, the next was due 10 ms after it and waited 990 ms, and
  // so on; 9 ms are made good with each.
  EXPECT_EQ(times[99].latency_ns(), kMillisecond);
  EXPECT_EQ(times[100].latency_ns(), kSecond);
  EXPECT_EQ(times[101].latency_ns(), 991 * kMillisecond);
  EXPECT_EQ(times[101].service_ns(), kMillisecond);
  EXPECT_EQ(times[101].late_ns(), 990 * kMillisecond);
  EXPECT_GT(slower_than(times, 100 * kMillisecond), 90u);
}

TEST(Load, TheSameStallIsOneSlowRequestOfAClosedLoop) {
  ManualPacer pacer;
  StallingServer server(pacer, 100);
  const auto times = run_load({Loop::kClosed, 1}, every_ten_ms(), pacer, server);
  EXPECT_EQ(slower_than(times, kMillisecond), 1u);
  for (const LoadTime& time : times)
    EXPECT_EQ(time.late_ns(), 0u);
}

TEST(Load, WhatAWorkerIsToldToCountFromIsWhenARequestWasDue) {
  ManualPacer pacer;
  const Nanos begin_ns = pacer.now_ns();
  StallingServer server(pacer, 0);
  (void)run_load({Loop::kOpen, 1}, every_ten_ms(), pacer, server);
  for (uint32_t i = 0; i < kRequests; ++i)
    EXPECT_EQ(server.origins[i], begin_ns + i * kApart);
}

// Counts who was served, and that no session is served twice at once.
class CountingServer final : public LoadServer {
 public:
  explicit CountingServer(const std::vector<LoadRequest>& requests)
      : requests_(requests), served(requests.size()), inside_(16) {}
  void serve(uint32_t worker, uint32_t index, Nanos) override {
    EXPECT_LT(worker, 4u);
    const uint32_t session = requests_[index].session;
    if (session != kNoLoadSession && inside_[session].fetch_add(1) != 0) ++overlaps;
    ++served[index];
    if (session != kNoLoadSession) inside_[session].fetch_sub(1);
  }

 private:
  const std::vector<LoadRequest>& requests_;

 public:
  std::vector<std::atomic<uint32_t>> served;
  std::atomic<uint32_t> overlaps = 0;

 private:
  std::vector<std::atomic<uint32_t>> inside_;
};

TEST(Load, SeveralWorkersServeEachRequestOnceAndASessionInOrder) {
  std::vector<LoadRequest> requests(2000);
  for (uint32_t i = 0; i < requests.size(); ++i)
    requests[i].session = i % 5 == 0 ? kNoLoadSession : i % 3;
  for (const Loop loop : {Loop::kClosed, Loop::kOpen}) {
    SystemPacer pacer;
    CountingServer server(requests);
    const auto times = run_load({loop, 4}, requests, pacer, server);
    ASSERT_EQ(times.size(), requests.size());
    for (const auto& count : server.served)
      EXPECT_EQ(count.load(), 1u);
    EXPECT_TRUE(loop == Loop::kOpen || server.overlaps.load() == 0);
  }
}

// Notes which worker served what.
class NotingServer final : public LoadServer {
 public:
  explicit NotingServer(size_t count) : workers(count) {}
  void serve(uint32_t worker, uint32_t index, Nanos) override { workers[index] = worker; }
  std::vector<std::atomic<uint32_t>> workers;
};

TEST(Load, AWorkerTakesItsOwnAloneWhereThatIsAsked) {
  SystemPacer pacer;
  NotingServer server(9);
  (void)run_load({Loop::kClosed, 3, Take::kOwn}, std::vector<LoadRequest>(9), pacer, server);
  for (uint32_t i = 0; i < 9; ++i)
    EXPECT_EQ(server.workers[i].load(), i % 3);
}

TEST(Load, NoRequestsAreNoTimes) {
  ManualPacer pacer;
  StallingServer server(pacer, 0);
  EXPECT_TRUE(run_load({Loop::kOpen, 3}, {}, pacer, server).empty());
}

}  // namespace
}  // namespace varve::kvbench
