// Goal: the turn keeps its order, its budgets and its promises (R1-R3), and sleep ends when it
// must.
// Method: a ManualClock and no backend for the turn; a real backend and a second thread for run().
#include "common/reactor/reactor.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "common/reactor/op.h"

namespace varve {
namespace {

struct Probe : Task {
  explicit Probe(std::vector<std::string>& log, std::string label)
      : log_(log), label_(std::move(label)) {}
  void run() override {
    log_.push_back(label_);
    if (again_ > 0) {
      --again_;
      reactor_->make_ready(*this);
    }
  }
  const char* name() const override { return "probe"; }
  std::vector<std::string>& log_;
  std::string label_;
  Reactor* reactor_ = nullptr;
  uint32_t again_ = 0;
};

struct ReactorTest : testing::Test {
  ManualClock clock;
  Reactor reactor{clock, nullptr, ReactorOptions{}};
  std::vector<std::string> log;
};

TEST_F(ReactorTest, ATurnGoesMailboxThenTimersThenTasks) {
  Probe task(log, "task");
  Timer timer;
  timer.owner = &log;
  timer.on_fire = [](Timer& t) {
    static_cast<std::vector<std::string>*>(t.owner)->push_back("timer");
  };
  Message message;
  message.owner = &log;
  message.deliver = [](Message& m) {
    static_cast<std::vector<std::string>*>(m.owner)->push_back("message");
  };
  reactor.make_ready(task);
  reactor.arm(timer, 0);
  reactor.post(message);
  EXPECT_TRUE(reactor.turn());
  EXPECT_EQ(log, (std::vector<std::string>{"message", "timer", "task"}));
  EXPECT_FALSE(reactor.turn());
  EXPECT_TRUE(reactor.idle());
  EXPECT_EQ(reactor.counters().tasks, 1u);
  EXPECT_EQ(reactor.counters().turns, 2u);
}

TEST_F(ReactorTest, ATaskIsReadyAtMostOnceAndAgainMeansTheNextTurn) {
  Probe task(log, "task");
  task.reactor_ = &reactor;
  task.again_ = 1;
  reactor.make_ready(task);
  reactor.make_ready(task);  // R3
  EXPECT_TRUE(reactor.turn());
  EXPECT_EQ(log.size(), 1u);
  EXPECT_EQ(reactor.next_work_ns(), reactor.now_ns());
  EXPECT_TRUE(reactor.turn());
  EXPECT_EQ(log.size(), 2u);
  EXPECT_FALSE(reactor.turn());
}

TEST_F(ReactorTest, TheTaskBudgetHoldsAndKeepsTheOrder) {
  ReactorOptions options;
  options.tasks_per_turn = 2;
  Reactor small(clock, nullptr, options);
  Probe a(log, "a");
  Probe b(log, "b");
  Probe c(log, "c");
  for (Probe* probe : {&a, &b, &c})
    small.make_ready(*probe);
  EXPECT_TRUE(small.turn());
  EXPECT_EQ(log, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(small.turn());
  EXPECT_EQ(log, (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(ReactorTest, TheClockIsReadOncePerTurnAndTimersFollowIt) {
  Timer timer;
  timer.owner = &log;
  timer.on_fire = [](Timer& t) {
    static_cast<std::vector<std::string>*>(t.owner)->push_back("timer");
  };
  const Nanos begin = reactor.now_ns();
  reactor.arm(timer, 100);
  EXPECT_EQ(reactor.next_work_ns(), begin + 100);
  EXPECT_FALSE(reactor.turn());
  clock.advance_by(100);
  EXPECT_EQ(reactor.now_ns(), begin);  // R2: until the next turn
  EXPECT_TRUE(reactor.turn());
  EXPECT_EQ(reactor.now_ns(), begin + 100);
  EXPECT_EQ(log.size(), 1u);
  EXPECT_EQ(reactor.next_work_ns(), kNever);
}

// R4. A turn that comes late for a timer, or for work that was ready, tells that the core stood
// still; one that nothing asked for to come sooner does not.
TEST_F(ReactorTest, ATurnThatComesLateIsAStandstill) {
  Timer timer;
  timer.on_fire = [](Timer&) {};
  reactor.arm(timer, 100);
  clock.advance_by(100 + kStandstill - 1);
  reactor.turn();
  EXPECT_EQ(reactor.awake_ns(), 0u);
  EXPECT_EQ(reactor.owed_ns(kSecond), 0u);
  reactor.arm(timer, 100 * kSecond);
  clock.advance_by(100 * kSecond);
  reactor.turn();
  EXPECT_EQ(reactor.awake_ns(), 0u) << "nothing was due before";
  reactor.arm(timer, 100);
  clock.advance_by(100 + kStandstill);
  reactor.turn();
  EXPECT_EQ(reactor.awake_ns(), reactor.now_ns());
  EXPECT_EQ(reactor.counters().standstills, 1u);
  EXPECT_EQ(reactor.owed_ns(3 * kSecond), 3 * kSecond);
  clock.advance_by(kSecond);
  reactor.turn();
  EXPECT_EQ(reactor.owed_ns(3 * kSecond), 2 * kSecond);
  EXPECT_EQ(reactor.owed_ns(kSecond), 0u);
  Probe task(log, "task");
  reactor.make_ready(task);
  clock.advance_by(kStandstill);
  reactor.turn();
  EXPECT_EQ(reactor.counters().standstills, 2u);
}

struct CountingOp : Op {
  using Op::Op;
  void run() override {
    RunScope scope(*this);
    ++runs;
    failure = take_failure();
    if (stage++ == 0) return wait(2);
    if (stage == 2) return wait(0);  // zero completions: ready again, not stuck
  }
  const char* name() const override { return "counting"; }
  void begin() { again(); }
  uint32_t stage = 0;
  uint32_t runs = 0;
  Status failure;
};

TEST_F(ReactorTest, AnOpRunsWhenAllItWaitedForIsDoneAndKeepsTheFirstFailure) {
  CountingOp op(reactor);
  op.begin();
  reactor.turn();
  EXPECT_EQ(op.runs, 1u);
  op.completed(Status::io("first", 5));
  EXPECT_FALSE(reactor.turn());
  op.completed(Status::corrupt("second"));
  reactor.turn();
  EXPECT_EQ(op.runs, 2u);
  EXPECT_EQ(op.failure.code(), Code::kIo);
  reactor.turn();
  EXPECT_EQ(op.runs, 3u);
  EXPECT_TRUE(op.failure.ok());
}

TEST_F(ReactorTest, ACompletionInsideRunAborts) {
  struct BadOp : Op {
    using Op::Op;
    void run() override {
      RunScope scope(*this);
      wait(1);
      completed(Status());  // R1
    }
    const char* name() const override { return "bad"; }
    void begin() { again(); }
  };
  BadOp op(reactor);
  op.begin();
  EXPECT_DEATH(reactor.turn(), "in_run_");
}

TEST(ReactorRun, SleepsEndsByPostAndStopAndReleasesItsCore) {
  for (const auto preference : {IoBackendPreference::kProbe, IoBackendPreference::kEpoll}) {
    SystemClock clock;
    Result<IoBackendChoice> choice = make_io_backend(preference, IoBackendOptions{});
    ASSERT_TRUE(choice);
    Reactor reactor(clock, choice->backend.get(), ReactorOptions{});
    struct Stopper : Message {
      Reactor* reactor = nullptr;
      bool on_core = false;
    } stopper;
    stopper.reactor = &reactor;
    stopper.deliver = [](Message& m) {
      auto& self = static_cast<Stopper&>(m);
      self.on_core = self.reactor->on_owner_core();
      self.reactor->stop();
    };
    // The task posts from a third thread once the core has had time to fall asleep or not: both
    // orders must end, and the join below hangs if a wake-up is lost.
    std::thread core([&] { reactor.run(); });
    std::thread other([&] { reactor.post(stopper); });
    other.join();
    core.join();
    EXPECT_TRUE(stopper.on_core);
    EXPECT_TRUE(reactor.stopping());
    EXPECT_TRUE(reactor.on_owner_core());
  }
}

TEST(ReactorRun, WakesForATimerWhenNothingElseHappens) {
  for (const auto preference : {IoBackendPreference::kProbe, IoBackendPreference::kEpoll}) {
    SystemClock clock;
    Result<IoBackendChoice> choice = make_io_backend(preference, IoBackendOptions{});
    ASSERT_TRUE(choice);
    Reactor reactor(clock, choice->backend.get(), ReactorOptions{});
    Timer timer;
    timer.owner = &reactor;
    timer.on_fire = [](Timer& t) { static_cast<Reactor*>(t.owner)->stop(); };
    reactor.arm(timer, 5 * kMillisecond);
    const Nanos begin = clock.now_ns();
    reactor.run();
    EXPECT_GE(clock.now_ns() - begin, 4 * kMillisecond);
    EXPECT_GE(reactor.counters().sleeps, 1u);
    EXPECT_LT(reactor.counters().turns, 1000u);  // it slept and did not spin
  }
}

}  // namespace
}  // namespace varve
