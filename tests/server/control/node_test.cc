// Goal: what the node says of itself arrives whole, and stop and policies reach it.
// Method: through an in-process channel against a node that is none.
#include <gtest/gtest.h>

#include "tests/server/control/control_rig.h"

namespace varve::control {
namespace {

using Stub = v1::Control::Stub;

TEST(ControlNode, StatusIsWhatTheNodeSays) {
  ControlRig rig;
  NodeStatus& node = rig.node.node;
  node.version = "varved 9";
  node.node_uuid[15] = std::byte{4};
  node.boot_id = ~0ull;
  node.state = NodeState::kRecovering;
  node.scheme = Scheme{2, 1};
  node.degraded.push_back({"thin", "wait for repair"});
  node.shards.push_back({"epoll", "io_uring: not allowed", false});
  node.match_ids = 10;
  node.hits_flash = 6;
  node.repair_eta_ns = 3 * kSecond;
  v1::GetStatusResponse out;
  ASSERT_TRUE(rig.call(&Stub::GetStatus, v1::GetStatusRequest(), &out).ok());
  EXPECT_EQ(out.version(), "varved 9");
  EXPECT_EQ(out.node_uuid().size(), 16u);
  EXPECT_EQ(out.node_uuid()[15], 4);
  EXPECT_EQ(out.boot_id(), ~0ull);
  EXPECT_EQ(out.state(), v1::NODE_STATE_RECOVERING);
  EXPECT_TRUE(out.ready());
  EXPECT_EQ(out.k(), 2u);
  EXPECT_EQ(out.m(), 1u);
  ASSERT_EQ(out.degraded_size(), 1);
  EXPECT_EQ(out.degraded(0).reason(), "thin");
  ASSERT_EQ(out.shards_size(), 1);
  EXPECT_EQ(out.shards(0).io_refusal(), "io_uring: not allowed");
  EXPECT_FALSE(out.shards(0).answers());
  EXPECT_EQ(out.counts().match_ids(), 10u);
  EXPECT_EQ(out.counts().hits_flash(), 6u);
  EXPECT_EQ(out.repair().eta_ns(), 3 * kSecond);
}

TEST(ControlNode, NotReadySaysWhy) {
  ControlRig rig;
  rig.node.node.why_not_ready = "shard 1 does not answer";
  v1::GetStatusResponse out;
  ASSERT_TRUE(rig.call(&Stub::GetStatus, v1::GetStatusRequest(), &out).ok());
  EXPECT_FALSE(out.ready());
  EXPECT_EQ(out.ready_why_not(), "shard 1 does not answer");
}

TEST(ControlNode, DrainAnswersItsBound) {
  ControlRig rig;
  v1::DrainResponse out;
  ASSERT_TRUE(rig.call(&Stub::Drain, v1::DrainRequest(), &out).ok());
  EXPECT_EQ(out.bound_ns(), 5 * kSecond);
  EXPECT_EQ(rig.node.asked, std::vector<std::string>{"drain"});
}

TEST(ControlNode, PoliciesAreListedAndSet) {
  ControlRig rig;
  rig.node.policy_rows.push_back({"log_level", "info", "info", "debug, info, warn, error", "Log."});
  v1::ListPoliciesResponse list;
  ASSERT_TRUE(rig.call(&Stub::ListPolicies, v1::ListPoliciesRequest(), &list).ok());
  ASSERT_EQ(list.policies_size(), 1);
  EXPECT_EQ(list.policies(0).range(), "debug, info, warn, error");
  v1::SetPolicyRequest in;
  in.set_name("log_level");
  in.set_value("debug");
  v1::SetPolicyResponse out;
  ASSERT_TRUE(rig.call(&Stub::SetPolicy, in, &out).ok());
  EXPECT_EQ(out.before(), "1");
  EXPECT_EQ(out.policy().value(), "debug");
  EXPECT_EQ(rig.node.asked, std::vector<std::string>{"policy log_level=debug"});
}

TEST(ControlNode, BadPoliciesDoNotReachTheNode) {
  ControlRig rig;
  v1::SetPolicyResponse out;
  v1::SetPolicyRequest in;
  EXPECT_EQ(rig.call(&Stub::SetPolicy, in, &out).error_code(), grpc::INVALID_ARGUMENT);
  in.set_name(std::string(65, 'x'));
  EXPECT_EQ(rig.call(&Stub::SetPolicy, in, &out).error_code(), grpc::INVALID_ARGUMENT);
  in.set_name("log\nlevel");
  EXPECT_EQ(rig.call(&Stub::SetPolicy, in, &out).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_TRUE(rig.node.asked.empty());
}

}  // namespace
}  // namespace varve::control
