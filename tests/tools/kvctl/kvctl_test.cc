// Goal: answers go to one stream and errors to the other, in both manners, with the exit code that
// is documented.
#include "tools/kvctl/kvctl.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tools/kvctl/fake_node.h"

namespace varve::kvctl {
namespace {

TEST(Kvctl, PrintsOneDocumentOrText) {
  FakeNode node;
  node.Drain_answer().set_bound_ns(2000000000);
  const Said json = node.kvctl({"--json", "--yes", "drain"});
  EXPECT_EQ(json.exit, Exit::kDone);
  EXPECT_EQ(json.json(), nlohmann::json({{"bound_ns", 2000000000}}));
  EXPECT_EQ(json.err, "");
  const Said text = node.kvctl({"--yes", "drain"});
  EXPECT_NE(text.out.find("2.0 s"), std::string::npos) << text.out;
}

TEST(Kvctl, SaysErrorsInOneLineOnTheOtherStream) {
  FakeNode node;
  node.refuse("GetStatus", "INTERNAL", "the cause\nand the remedy");
  const Said text = node.kvctl({"status"});
  EXPECT_EQ(text.exit, Exit::kFailed);
  EXPECT_EQ(text.out, "");
  EXPECT_EQ(text.err, "kvctl: the cause?and the remedy\n");
  const Said json = node.kvctl({"status", "--json"});
  EXPECT_EQ(json.out, "");
  EXPECT_EQ(json.error()["code"], "INTERNAL");
  EXPECT_EQ(json.error()["message"], "the cause?and the remedy");
  EXPECT_EQ(std::count(json.err.begin(), json.err.end(), '\n'), 1);
}

TEST(Kvctl, SaysWrongUseInJsonToo) {
  const Said said = run_kvctl({"tragets", "--json"});
  EXPECT_EQ(said.exit, Exit::kUsage);
  EXPECT_EQ(said.error()["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(said.out, "");
}

TEST(Kvctl, PrintsHelpAndVersionAsAnswers) {
  for (const std::string name : {"help", "version"}) {
    const Said said = run_kvctl({"--" + name});
    EXPECT_EQ(said.exit, Exit::kDone);
    EXPECT_NE(said.out, "");
    EXPECT_EQ(said.err, "");
    EXPECT_EQ(run_kvctl({"--json", "--" + name}).json()[name], said.out);
  }
}

// Goal: of an answer that is lost the operator hears that the deed was done.
TEST(Kvctl, SaysThatAnAnswerCouldNotBeWritten) {
  FakeNode node;
  std::ostringstream err;
  std::istringstream in;
  std::ostream full(nullptr);  // takes nothing
  Console console{full, err, in};
  EXPECT_EQ(run({"--control", node.address, "--yes", "drain"}, console), Exit::kFailed);
  EXPECT_EQ(node.asked, std::vector<std::string>{"Drain"});
  EXPECT_NE(err.str().find("what was asked is done"), std::string::npos) << err.str();
}

TEST(Kvctl, EndsWithADifferentCodeForEachReason) {
  FakeNode node;
  node.refuse("GetStatus", "UNAUTHENTICATED", "x");
  EXPECT_EQ(node.kvctl({"status"}).exit, Exit::kDenied);
  node.refuse("GetStatus", "UNAVAILABLE", "x");
  EXPECT_EQ(node.kvctl({"status"}).exit, Exit::kUnreached);
  node.refuse("GetStatus", "DEADLINE_EXCEEDED", "x");
  EXPECT_EQ(node.kvctl({"status"}).exit, Exit::kTimedOut);
}

}  // namespace
}  // namespace varve::kvctl
