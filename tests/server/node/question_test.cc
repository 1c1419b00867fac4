// Goal: a question is answered on its core, by that core's own time; whoever gives up leaves
// nothing that dangles, and a stop ends every wait. Method: a reactor on a thread, and one that
// nobody turns.
#include "server/node/question.h"

#include <gtest/gtest.h>

#include <thread>

namespace varve {
namespace {

struct Counted {
  explicit Counted(uint32_t* of) : count(of) {}
  uint32_t* count;
  std::thread::id where = {};
  void on_core() {
    ++*count;
    where = std::this_thread::get_id();
  }
};

// Answered when somebody says so, from wherever.
class Later final : public Question {
 public:
  explicit Later(Later** where, bool* gone) : gone_(gone) { *where = this; }
  ~Later() override { *gone_ = true; }
  void end() { answered(); }

 private:
  Step ask() override { return Step::kLater; }
  bool* gone_;
};

class Core {
 public:
  Core() : io_(make_io_backend(IoBackendPreference::kEpoll, {})) {
    reactor = std::make_unique<Reactor>(clock_, io_->backend.get(), ReactorOptions{});
    thread_ = std::thread([this] { reactor->run(); });
  }
  ~Core() {
    reactor->stop();
    thread_.join();
  }
  std::thread::id id() const { return thread_.get_id(); }
  std::unique_ptr<Reactor> reactor;

 private:
  SystemClock clock_;
  Result<IoBackendChoice> io_;
  std::thread thread_;
};

TEST(Questions, AreAnsweredOnTheCore) {
  Core core;
  Questions questions;
  Status why;
  uint32_t count = 0;
  for (uint32_t i = 1; i <= 100; ++i) {
    const auto answer = questions.ask(
        *core.reactor, std::make_unique<AtOnce<Counted>>(Counted(&count)), 30 * kSecond, &why);
    ASSERT_NE(answer, nullptr);
    EXPECT_EQ(static_cast<AtOnce<Counted>&>(*answer).what.where, core.id());
    EXPECT_EQ(count, i);
  }
  EXPECT_EQ(questions.out(), 0u);
}

TEST(Questions, OneThatIsGivenUpIsStillDoneAndThenForgotten) {
  SystemClock clock;
  Reactor reactor(clock, nullptr, ReactorOptions{});
  Questions questions;
  Status why;
  uint32_t count = 0;
  const auto answer = questions.ask(reactor, std::make_unique<AtOnce<Counted>>(Counted(&count)),
                                    kMillisecond, &why);
  EXPECT_EQ(answer, nullptr);
  EXPECT_EQ(why.code(), Code::kTimedOut);
  EXPECT_EQ(questions.out(), 1u);
  reactor.turn();
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(questions.out(), 0u);
}

TEST(Questions, OneThatIsAnsweredLaterIsWaitedFor) {
  Core core;
  Questions questions;
  Later* later = nullptr;
  bool gone = false;
  auto asked = std::make_unique<Later>(&later, &gone);
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    later->end();
  });
  Status why;
  const auto answer = questions.ask(*core.reactor, std::move(asked), 30 * kSecond, &why);
  ends.join();
  EXPECT_EQ(answer.get(), later);
  EXPECT_FALSE(gone);
}

TEST(Questions, AreBoundedInNumber) {
  SystemClock clock;
  Reactor reactor(clock, nullptr, ReactorOptions{});
  Questions questions;
  Status why;
  uint32_t count = 0;
  for (uint32_t i = 0; i < Questions::kOutMax; ++i) {
    (void)questions.ask(reactor, std::make_unique<AtOnce<Counted>>(Counted(&count)), 0, &why);
    EXPECT_EQ(why.code(), Code::kTimedOut);
  }
  EXPECT_EQ(
      questions.ask(reactor, std::make_unique<AtOnce<Counted>>(Counted(&count)), kSecond, &why),
      nullptr);
  EXPECT_EQ(why.code(), Code::kOverloaded);
  while (reactor.turn()) {
  }
  EXPECT_EQ(count, Questions::kOutMax);
  EXPECT_EQ(questions.out(), 0u);
}

TEST(Questions, CloseEndsEveryWait) {
  SystemClock clock;
  Reactor reactor(clock, nullptr, ReactorOptions{});
  bool gone = false;
  {
    Questions questions;
    Later* later = nullptr;
    Status why;
    std::thread waits([&] {
      const auto answer =
          questions.ask(reactor, std::make_unique<Later>(&later, &gone), 600 * kSecond, &why);
      EXPECT_EQ(answer, nullptr);
    });
    while (questions.out() == 0)
      std::this_thread::yield();
    questions.close();
    waits.join();
    EXPECT_EQ(why.code(), Code::kUnavailable);
    uint32_t count = 0;
    Status closed;
    EXPECT_EQ(questions.ask(reactor, std::make_unique<AtOnce<Counted>>(Counted(&count)), kSecond,
                            &closed),
              nullptr);
    EXPECT_EQ(closed.code(), Code::kUnavailable);
    EXPECT_FALSE(gone) << "its core may still come to it";
  }
  EXPECT_TRUE(gone) << "no core comes any more";
}

}  // namespace
}  // namespace varve
