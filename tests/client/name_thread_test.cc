// Goal: a name is looked up elsewhere than on the asking thread, and nobody waits for a resolver
// that stands still. Method: a resolver by script, which stands still until the test lets it go.
#include "client/name_thread.h"

#include <gtest/gtest.h>

#include <future>

#include "tests/client/resolver_script.h"

namespace varve {
namespace {

using Numbers = ResolverScript::Numbers;

struct User final : NameUser {
  void on_looked_up(Result<Numbers> found) override {
    thread = std::this_thread::get_id();
    ++answers;
    answer.set_value(std::move(found));
  }
  std::promise<Result<Numbers>> answer;
  std::thread::id thread;
  uint32_t answers = 0;
};

TEST(NameThread, AnswersOnAThreadOfItsOwn) {
  ResolverScript script;
  script.say(Numbers{"10.0.0.1:7440"});
  User user;
  NameThread names(script.resolver(), user);
  for (uint32_t i = 0; i < 3; ++i) {
    user.answer = {};
    auto answer = user.answer.get_future();
    names.ask("varve.test:7440");
    const auto found = answer.get();
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(*found, Numbers{"10.0.0.1:7440"});
    EXPECT_NE(user.thread, std::this_thread::get_id());
  }
  EXPECT_EQ(script.asked(), 3u);
  EXPECT_EQ(script.last_address(), "varve.test:7440");
}

TEST(NameThread, AFailureIsAnAnswer) {
  ResolverScript script;
  User user;
  NameThread names(script.resolver(), user);
  auto answer = user.answer.get_future();
  names.ask("varve.test:7440");
  EXPECT_EQ(answer.get().error().code(), Code::kUnavailable);
}

TEST(NameThread, EndsAtOnceWhereNothingIsAsked) {
  ResolverScript script;
  User user;
  {
    NameThread names(script.resolver(), user);
    names.stop();
    names.ask("varve.test:7440");
  }
  script.wait_freed();
  EXPECT_EQ(script.asked(), 0u);
  EXPECT_EQ(user.answers, 0u);
}

// Expect: the end does not wait, no answer comes after it, and what was left behind is freed when
// the resolver answers at last.
TEST(NameThread, AResolverThatStandsStillIsLeftBehind) {
  ResolverScript script;
  script.hold();
  User user;
  {
    NameThread names(script.resolver(), user);
    names.ask("varve.test:7440");
    script.wait_asked(1);
  }
  script.let_go();
  script.wait_freed();
  EXPECT_EQ(user.answers, 0u);
}

// Expect: stopped in the middle of a lookup that then ends, it says nothing either.
TEST(NameThread, AfterStopNoAnswerComes) {
  ResolverScript script;
  script.hold();
  User user;
  {
    NameThread names(script.resolver(), user);
    names.ask("varve.test:7440");
    script.wait_asked(1);
    names.stop();
    script.let_go();
  }
  script.wait_freed();
  EXPECT_EQ(user.answers, 0u);
}

}  // namespace
}  // namespace varve
