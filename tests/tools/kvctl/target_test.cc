// Goal: a target's state is seen at once, with what to do about it; what is done is done to the one
// that was meant.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/kvctl/fake_node.h"

namespace varve::kvctl {
namespace {

const std::string kUuid = "00112233445566778899aabbccddeeff";
const std::string kUuidBytes("\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff",
                             16);

v1::Target target(uint32_t index, v1::TargetState state) {
  v1::Target target;
  target.set_index(index);
  target.set_path("/dev/nvme" + std::to_string(index) + "n1");
  target.set_uuid(kUuidBytes);
  target.set_state(state);
  target.set_capacity_bytes(4ull << 30);
  target.set_live_bytes(1ull << 30);
  target.set_shards(2);
  target.set_shards_ok(2);
  return target;
}

TEST(Targets, AreListedWithWhatIsWrong) {
  FakeNode node;
  v1::ListTargetsResponse& list = node.ListTargets_answer();
  *list.add_targets() = target(0, v1::TARGET_STATE_OK);
  list.mutable_targets(0)->mutable_scrub()->set_running(true);
  list.mutable_targets(0)->mutable_scrub()->set_pass_bytes(100);
  list.mutable_targets(0)->mutable_scrub()->set_pass_done_bytes(25);
  *list.add_targets() = target(1, v1::TARGET_STATE_FAILED);
  list.mutable_targets(1)->set_why("it failed; replace it");
  list.mutable_targets(1)->set_limbo(3);
  list.mutable_targets(1)->set_missed_purges(true);
  list.mutable_targets(1)->mutable_scrub()->set_rot(2);
  const Said said = node.kvctl({"targets"});
  for (const char* mark : {"/dev/nvme0n1", "ok", "25.0 %", "FAILED", "ROT 2", "00112233...",
                           "target 1: it failed; replace it", "3 transfers", "missed purges"})
    EXPECT_NE(said.out.find(mark), std::string::npos) << mark << "\n" << said.out;
  const auto json = node.kvctl({"--json", "targets", "list"}).json();
  EXPECT_EQ(json["targets"][1]["state"], "TARGET_STATE_FAILED");
  EXPECT_EQ(json["targets"][1]["uuid"], kUuid);
}

TEST(Targets, AreDrainedAndTakenBackByNumberAndUuid) {
  FakeNode node;
  *node.DrainTarget_answer().mutable_target() = target(2, v1::TARGET_STATE_DRAINING);
  const Said drain = node.kvctl({"targets", "drain", "2", "--uuid", kUuid});
  EXPECT_EQ(drain.exit, Exit::kDone) << drain.err;
  EXPECT_EQ(node.DrainTarget_request.index(), 2u);
  EXPECT_EQ(node.DrainTarget_request.uuid(), kUuidBytes);
  EXPECT_NE(drain.out.find("target 2 /dev/nvme2n1 is draining"), std::string::npos) << drain.out;
  EXPECT_EQ(node.kvctl({"targets", "undrain", "1"}).exit, Exit::kDone);
  EXPECT_EQ(node.UndrainTarget_request.index(), 1u);
  EXPECT_EQ(node.UndrainTarget_request.uuid(), "");
  node.asked.clear();
  EXPECT_EQ(node.kvctl({"targets", "drain", "2", "--uuid", "0011"}).exit, Exit::kUsage);
  EXPECT_TRUE(node.asked.empty());
}

// Goal: what the table shows of a uuid is enough to name the target. Expect: the node is asked with
// all of it; another target's, and too little, change nothing.
TEST(Targets, AreNamedByTheDigitsThatTheTableShows) {
  FakeNode node;
  *node.ListTargets_answer().add_targets() = target(1, v1::TARGET_STATE_OK);
  node.ListTargets_answer().mutable_targets(0)->set_uuid(std::string(16, '\x55'));
  *node.ListTargets_answer().add_targets() = target(2, v1::TARGET_STATE_OK);
  const std::string table = node.kvctl({"targets"}).out;
  const std::string shown = table.substr(table.find("00112233"), 8);
  const Said drain = node.kvctl({"targets", "drain", "2", "--uuid", shown});
  EXPECT_EQ(drain.exit, Exit::kDone) << drain.err;
  EXPECT_EQ(node.DrainTarget_request.uuid(), kUuidBytes);
  node.asked.clear();
  for (const char* index : {"1", "3"}) {
    const Said other = node.kvctl({"targets", "drain", index, "--uuid", shown});
    EXPECT_EQ(other.exit, Exit::kFailed) << index;
    EXPECT_NE(other.err.find("see kvctl targets"), std::string::npos) << other.err;
  }
  EXPECT_EQ(node.asked, std::vector<std::string>(2, "ListTargets"));
}

TEST(Targets, AreFailedWithForceOnlyWhereItIsSaid) {
  FakeNode node;
  EXPECT_EQ(node.kvctl({"--yes", "targets", "fail", "1"}).exit, Exit::kDone);
  EXPECT_FALSE(node.FailTarget_request.force());
  EXPECT_EQ(node.kvctl({"--yes", "targets", "fail", "1", "--force"}).exit, Exit::kDone);
  EXPECT_TRUE(node.FailTarget_request.force());
}

TEST(Targets, AreReplacedAsTheNodeSays) {
  FakeNode node;
  node.refuse("ReplaceTarget", "FAILED_PRECONDITION", "restart it so");
  const Said said = node.kvctl({"--yes", "targets", "replace", "1", "--path", "/dev/x"});
  EXPECT_EQ(said.exit, Exit::kFailed);
  EXPECT_EQ(said.err, "kvctl: restart it so\n");
  EXPECT_EQ(node.ReplaceTarget_request.path(), "/dev/x");
}

TEST(Scrub, BeginsOnThoseNamedOrAll) {
  FakeNode node;
  node.StartScrub_answer().set_begun(1);
  node.StartScrub_answer().set_running(1);
  const Said said = node.kvctl({"scrub", "0", "2"});
  EXPECT_EQ(said.exit, Exit::kDone) << said.err;
  ASSERT_EQ(node.StartScrub_request.targets_size(), 2);
  EXPECT_EQ(node.StartScrub_request.targets(1), 2u);
  EXPECT_NE(said.out.find("begins on 1 target;"), std::string::npos) << said.out;
  EXPECT_EQ(node.kvctl({"scrub"}).exit, Exit::kDone);
  EXPECT_EQ(node.StartScrub_request.targets_size(), 0);
}

}  // namespace
}  // namespace varve::kvctl
