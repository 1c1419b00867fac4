// Goal: the worst stands first, the exit code says whether anything is wrong, and a node that is
// not there is a finding like any other.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/tools/kvctl/fake_node.h"
#include "tools/kvctl/finding.h"

namespace varve::kvctl {
namespace {

void make_healthy(FakeNode& node) {
  node.GetStatus_answer().set_ready(true);
  node.GetStatus_answer().set_sessions_max(8);
  node.ListTargets_answer().add_targets()->set_state(v1::TARGET_STATE_OK);
}

TEST(Doctor, FindsNothingWrongWithAHealthyNode) {
  FakeNode node;
  make_healthy(node);
  const Said said = node.kvctl({"doctor", "--remote"});
  EXPECT_EQ(said.exit, Exit::kDone) << said.out;
  EXPECT_NE(said.out.find("nothing is wrong\n"), std::string::npos) << said.out;
  EXPECT_EQ(said.err, "");
  EXPECT_EQ(node.kvctl({"--json", "doctor", "--remote"}).json()["errors"], 0);
}

TEST(Doctor, NamesTheWorstFirst) {
  FakeNode node;
  make_healthy(node);
  node.GetStatus_answer().set_sessions(8);
  v1::Target* target = node.ListTargets_answer().add_targets();
  target->set_index(1);
  target->set_state(v1::TARGET_STATE_LOST);
  target->set_why("it is not there; bring it back");
  const Said said = node.kvctl({"doctor", "--remote"});
  EXPECT_EQ(said.exit, Exit::kFailed);
  EXPECT_EQ(said.out.rfind("error    target 1: : it is not there\n         -> bring it back\n", 0),
            0u)
      << said.out;
  EXPECT_NE(said.out.find("1 error, 1 warning\n"), std::string::npos) << said.out;
  EXPECT_EQ(said.err, "") << "all of it was said";
  const auto json = node.kvctl({"--json", "doctor", "--remote"}).json();
  EXPECT_EQ(json["findings"][0]["severity"], "error");
  EXPECT_EQ(json["findings"][0]["remedy"], "bring it back");
  EXPECT_EQ(json["warnings"], 1);
}

TEST(Doctor, FindsThatNobodyIsThereOrWillNotAnswer) {
  std::string gone;
  {
    FakeNode node;
    gone = node.address;
    node.refuse("GetStatus", "UNAUTHENTICATED", "wrong or missing token");
    const Said denied = node.kvctl({"--json", "doctor", "--remote"});
    EXPECT_EQ(denied.exit, Exit::kFailed);
    EXPECT_EQ(denied.json()["findings"][0]["cause"], "wrong or missing token");
  }
  const Said said = run_kvctl({"--control", gone, "--json", "doctor", "--remote"});
  EXPECT_EQ(said.exit, Exit::kFailed);
  EXPECT_EQ(said.json()["findings"][0]["check"], "node");
}

// Goal: a node that says "not now" is there: its ports and memory are no findings of this machine.
TEST(Doctor, TakesNoAnswerThatIsARefusalForNoNode) {
  FakeNode node;
  const std::string token = ::testing::TempDir() + "kvctl_doctor_no_token";
  const auto checks_of = [](const Said& said) {
    std::set<std::string> checks;
    const nlohmann::json json = said.json();
    for (const auto& finding : json["findings"])
      checks.insert(finding["check"]);
    return checks;
  };
  for (const char* code : {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL", "UNAUTHENTICATED"}) {
    node.refuse("GetStatus", code, "not now");
    const std::set<std::string> checks = checks_of(node.kvctl({"--json", "doctor"}));
    EXPECT_EQ(checks.count("node"), 1u) << code;
    for (const char* check : {"port", "ports", "memory", "memlock", "data folder"})
      EXPECT_EQ(checks.count(check), 0u) << code << " " << check;
  }
  const std::set<std::string> unasked =
      checks_of(node.kvctl({"--json", "doctor", "--token-file", token}));
  EXPECT_EQ(unasked.count("node"), 1u);
  EXPECT_EQ(unasked.count("memory"), 0u) << "whether one runs is not known";
  std::string gone;
  {
    const FakeNode other;
    gone = other.address;
  }
  const std::set<std::string> absent =
      checks_of(run_kvctl({"--control", gone, "--json", "doctor", "--data", ::testing::TempDir()}));
  EXPECT_EQ(absent.count("memory"), 1u);
}

TEST(Doctor, LooksAtTheMachineAloneWhenToldTo) {
  FakeNode node;
  const Said said = node.kvctl({"--json", "doctor", "--local", "--data", ::testing::TempDir()});
  EXPECT_TRUE(node.asked.empty());
  std::vector<std::string> checks;
  const nlohmann::json json = said.json();
  for (const auto& finding : json["findings"])
    checks.push_back(finding["check"]);
  for (const char* check : {"kernel", "memlock", "descriptors", "memory", "clock", "data folder"})
    EXPECT_NE(std::find(checks.begin(), checks.end(), check), checks.end()) << check;
  const int wrong = json["errors"].get<int>() + json["warnings"].get<int>();
  EXPECT_EQ(said.exit, wrong > 0 ? Exit::kFailed : Exit::kDone);
  EXPECT_EQ(node.kvctl({"doctor", "--local", "--remote"}).exit, Exit::kUsage);
}

TEST(Finding, TakesWhatStandsBehindTheLastSemicolonAsTheRemedy) {
  EXPECT_EQ(finding_of(Severity::kError, "x", "a; b; c"),
            (Finding{Severity::kError, "x", "a; b", "c"}));
  EXPECT_EQ(finding_of(Severity::kError, "x", "a", "b"),
            (Finding{Severity::kError, "x", "a", "b"}));
  EXPECT_NE(finding_of(Severity::kError, "x", "a").remedy, "");
}

}  // namespace
}  // namespace varve::kvctl
