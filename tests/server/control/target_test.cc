// Goal: targets are named without mistake, and what is known of them arrives whole.
// Method: through an in-process channel against a node that is none.
#include <gtest/gtest.h>

#include "tests/server/control/control_rig.h"

namespace varve::control {
namespace {

using Stub = v1::Control::Stub;

TEST(ControlTarget, ListsCarryEveryNumber) {
  ControlRig rig;
  rig.node.tier_rows.push_back({"dram", 10, 5, 1, 2, 3, 4, "admit_all", "lru"});
  Target target;
  target.index = 3;
  target.path = "/data/target-3.dat";
  target.uuid[0] = std::byte{9};
  target.state = TargetState::kFailed;
  target.why = "it erred";
  target.fragments = 12;
  target.shards_ok = 1;
  target.shards = 2;
  target.missed_purges = true;
  target.scrub_running = true;
  target.scrub_pass_bytes = 100;
  target.scrub_pass_done_bytes = 40;
  rig.node.target_rows.push_back(target);
  v1::ListTiersResponse tiers;
  ASSERT_TRUE(rig.call(&Stub::ListTiers, v1::ListTiersRequest(), &tiers).ok());
  ASSERT_EQ(tiers.tiers_size(), 1);
  EXPECT_EQ(tiers.tiers(0).name(), "dram");
  EXPECT_EQ(tiers.tiers(0).pulled_bytes(), 4u);
  EXPECT_EQ(tiers.tiers(0).admission(), "admit_all");
  EXPECT_EQ(tiers.tiers(0).eviction(), "lru");
  v1::ListTargetsResponse targets;
  ASSERT_TRUE(rig.call(&Stub::ListTargets, v1::ListTargetsRequest(), &targets).ok());
  ASSERT_EQ(targets.targets_size(), 1);
  const v1::Target& row = targets.targets(0);
  EXPECT_EQ(row.index(), 3u);
  EXPECT_EQ(row.uuid().size(), 16u);
  EXPECT_EQ(row.state(), v1::TARGET_STATE_FAILED);
  EXPECT_EQ(row.why(), "it erred");
  EXPECT_EQ(row.fragments(), 12u);
  EXPECT_TRUE(row.missed_purges());
  EXPECT_TRUE(row.scrub().running());
  EXPECT_EQ(row.scrub().pass_done_bytes(), 40u);
}

TEST(ControlTarget, EveryVerbReachesItsTarget) {
  ControlRig rig;
  v1::DrainTargetRequest drain;
  drain.set_index(2);
  drain.set_uuid(std::string(16, '\x01'));
  v1::DrainTargetResponse drained;
  ASSERT_TRUE(rig.call(&Stub::DrainTarget, drain, &drained).ok());
  EXPECT_EQ(drained.target().state(), v1::TARGET_STATE_DRAINING);
  v1::UndrainTargetRequest undrain;
  v1::UndrainTargetResponse undrained;
  ASSERT_TRUE(rig.call(&Stub::UndrainTarget, undrain, &undrained).ok());
  v1::FailTargetRequest fail;
  fail.set_index(1);
  fail.set_force(true);
  v1::FailTargetResponse failed;
  ASSERT_TRUE(rig.call(&Stub::FailTarget, fail, &failed).ok());
  v1::ReplaceTargetRequest replace;
  replace.set_index(1);
  replace.set_path("/dev/new");
  v1::ReplaceTargetResponse replaced;
  ASSERT_TRUE(rig.call(&Stub::ReplaceTarget, replace, &replaced).ok());
  v1::StartScrubRequest scrub;
  scrub.add_targets(4);
  v1::StartScrubResponse begun;
  ASSERT_TRUE(rig.call(&Stub::StartScrub, scrub, &begun).ok());
  EXPECT_EQ(begun.begun(), 3u);
  EXPECT_EQ(rig.node.asked,
            (std::vector<std::string>{"drain 2 01010101010101010101010101010101", "undrain 0",
                                      "fail 1 force", "replace 1 /dev/new", "scrub 4"}));
}

TEST(ControlTarget, MistypedNamesDoNotReachTheNode) {
  ControlRig rig;
  v1::DrainTargetRequest drain;
  drain.set_uuid("short");
  v1::DrainTargetResponse drained;
  const grpc::Status status = rig.call(&Stub::DrainTarget, drain, &drained);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_NE(status.error_message().find("16"), std::string::npos);
  v1::ReplaceTargetRequest replace;
  replace.set_path(std::string(5000, 'x'));
  v1::ReplaceTargetResponse replaced;
  EXPECT_EQ(rig.call(&Stub::ReplaceTarget, replace, &replaced).error_code(),
            grpc::INVALID_ARGUMENT);
  v1::StartScrubRequest scrub;
  for (int i = 0; i < 33; ++i)
    scrub.add_targets(0);
  v1::StartScrubResponse begun;
  EXPECT_EQ(rig.call(&Stub::StartScrub, scrub, &begun).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_TRUE(rig.node.asked.empty());
}

TEST(ControlTarget, WhatTheNodeRefusesSaysWhyAndHow) {
  ControlRig rig;
  rig.node.refusal = Code::kUnavailable;
  rig.node.refusal_kind = Refusal::Kind::kState;
  v1::FailTargetResponse failed;
  const grpc::Status status = rig.call(&Stub::FailTarget, v1::FailTargetRequest(), &failed);
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(), "the node says no");
}

}  // namespace
}  // namespace varve::control
