// Goal: what can be changed is seen with its range, and a change says what it was before.
#include <gtest/gtest.h>

#include "tests/tools/kvctl/fake_node.h"

namespace varve::kvctl {
namespace {

TEST(Policies, AreListed) {
  FakeNode node;
  v1::Policy* policy = node.ListPolicies_answer().add_policies();
  policy->set_name("repair_mb_per_s");
  policy->set_value("400");
  policy->set_setting("200");
  policy->set_range("1 to 100000");
  const Said said = node.kvctl({"policy", "list"});
  for (const char* mark : {"repair_mb_per_s", "400", "200", "1 to 100000"})
    EXPECT_NE(said.out.find(mark), std::string::npos) << mark;
}

TEST(Policies, AreSet) {
  FakeNode node;
  v1::SetPolicyResponse& set = node.SetPolicy_answer();
  set.mutable_policy()->set_name("log_level");
  set.mutable_policy()->set_value("debug");
  set.mutable_policy()->set_setting("info");
  set.set_before("warn");
  const Said said = node.kvctl({"policy", "set", "log_level", "debug"});
  EXPECT_EQ(node.SetPolicy_request.name(), "log_level");
  EXPECT_EQ(node.SetPolicy_request.value(), "debug");
  EXPECT_EQ(said.out, "log_level is debug, was warn; the next start takes info\n");
  EXPECT_EQ(node.kvctl({"policy", "set", "log_level"}).exit, Exit::kUsage);
}

}  // namespace
}  // namespace varve::kvctl
