// The credit queue alone: order, exactness, and that lies of a client stay a Status.
#include "server/session/credit.h"

#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

struct NoTask final : Task {
  void run() override {}
  const char* name() const override { return "none"; }
};

// A context with one home whose reactor takes the answers.
struct Bench {
  Bench()
      : context(world.reactor, SessionOptions{}, {world.homes[0].get()}),
        scope(context, task),
        credit(scope) {}
  CreditAsk& ask(uint64_t bytes, Nanos wanted_ns) {
    asks.push_back(std::make_unique<CreditAsk>());
    CreditAsk& ask = *asks.back();
    ask.bytes = bytes;
    ask.wanted_ns = wanted_ns;
    ask.part = &part;
    ask.owner = this;
    ask.back = [](Message& message) {
      auto& answered = *static_cast<CreditAsk*>(message.owner);
      static_cast<Bench*>(answered.owner)->answers.push_back(&answered);
    };
    credit.ask(ask);
    return ask;
  }
  void turn() { world.run_for(kMillisecond); }
  World world;
  SessionContext context;
  NoTask task;
  SessionScope scope;
  Credit credit;
  PullPart part;
  std::vector<std::unique_ptr<CreditAsk>> asks;
  std::vector<CreditAsk*> answers;
};

TEST(Credit, WindowsAreServedByWantedTimeAndEqualOnesInOrder) {
  Bench bench;
  bench.credit.open(100);
  CreditAsk& first = bench.ask(100, 50);
  CreditAsk& late = bench.ask(40, 90);
  CreditAsk& early = bench.ask(60, 10);
  CreditAsk& early_too = bench.ask(40, 10);
  bench.turn();
  EXPECT_EQ(bench.answers, std::vector<CreditAsk*>{&first});
  bench.credit.sent(100);
  EXPECT_TRUE(bench.credit.give(100).ok());
  bench.turn();
  EXPECT_EQ(bench.answers, (std::vector<CreditAsk*>{&first, &early, &early_too}));
  bench.credit.take_back(40);
  bench.turn();
  EXPECT_EQ(bench.answers.back(), &late);
  EXPECT_FALSE(bench.credit.waiting());
}

TEST(Credit, NobodyOvertakesALargeWindow) {
  Bench bench;
  bench.credit.open(100);
  bench.ask(60, 1);
  CreditAsk& large = bench.ask(80, 2);
  CreditAsk& small = bench.ask(10, 3);
  bench.turn();
  EXPECT_EQ(bench.answers.size(), 1u);
  bench.credit.take_back(60);
  bench.turn();
  EXPECT_EQ(bench.answers[1], &large);
  EXPECT_EQ(bench.answers[2], &small);
  EXPECT_EQ(bench.credit.available_bytes(), 10u);
}

TEST(Credit, AWindowThatNeverFitsIsQuotaAtOnce) {
  Bench bench;
  bench.credit.open(100);
  CreditAsk& ask = bench.ask(101, 1);
  bench.turn();
  EXPECT_EQ(ask.status.code(), Code::kQuota);
  EXPECT_EQ(bench.credit.available_bytes(), 100u);
}

TEST(Credit, DroppingAnOwnerAnswersItsAsksAndServesTheNext) {
  Bench bench;
  bench.credit.open(100);
  bench.ask(90, 1);
  PullPart other;
  other.owner = &other;
  CreditAsk& doomed = bench.ask(50, 2);
  doomed.part = &other;
  CreditAsk& next = bench.ask(10, 3);
  bench.turn();
  EXPECT_EQ(bench.answers.size(), 1u);
  bench.credit.drop(&other, Status::cancelled("gone"));
  bench.turn();
  EXPECT_EQ(doomed.status.code(), Code::kCancelled);
  EXPECT_TRUE(next.status.ok());
  EXPECT_EQ(bench.answers.size(), 3u);
}

TEST(Credit, AClientCannotGiveBackWhatItWasNotSent) {
  Bench bench;
  bench.credit.open(100);
  EXPECT_FALSE(bench.credit.give(1).ok());
  bench.ask(60, 1);
  EXPECT_FALSE(bench.credit.give(60).ok());  // granted to a window, not sent
  bench.credit.sent(50);
  EXPECT_FALSE(bench.credit.give(~uint64_t{0}).ok());
  EXPECT_TRUE(bench.credit.give(50).ok());
  EXPECT_TRUE(bench.credit.give(0).ok());
  bench.credit.take_back(10);
  EXPECT_EQ(bench.credit.available_bytes(), 100u);
}

}  // namespace
}  // namespace varve::test
