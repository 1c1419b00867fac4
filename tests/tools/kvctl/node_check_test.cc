// Goal: each thing that a node says is wrong becomes one finding, and none twice.
#include "tools/kvctl/node_check.h"

#include <gtest/gtest.h>

#include "common/time/time.h"

namespace varve::kvctl {
namespace {

struct Node {
  v1::GetStatusResponse status;
  v1::ListTargetsResponse targets;

  Node() {
    status.set_ready(true);
    status.set_sessions_max(256);
    v1::Shard* shard = status.add_shards();
    shard->set_io("uring");
    shard->set_answers(true);
    status.mutable_repair()->set_rate_bytes_per_s(1000);
    v1::Target* target = targets.add_targets();
    target->set_state(v1::TARGET_STATE_OK);
    target->set_path("/t0");
  }
  std::vector<Finding> wrong() const {
    std::vector<Finding> out;
    for (const Finding& finding : check_node(status, targets)) {
      EXPECT_FALSE(finding.cause.empty()) << finding.check;
      EXPECT_EQ(finding.remedy.empty(), finding.severity == Severity::kOk) << finding.check;
      if (finding.severity != Severity::kOk) out.push_back(finding);
    }
    return out;
  }
  // Exactly one, and which.
  std::string only(Severity severity) const {
    const std::vector<Finding> findings = wrong();
    EXPECT_EQ(findings.size(), 1u);
    if (findings.size() != 1) return "none, or several";
    EXPECT_EQ(findings[0].severity, severity) << findings[0].cause;
    return findings[0].check;
  }
  void degrade(const std::string& reason) {
    v1::Degradation* degradation = status.add_degraded();
    degradation->set_reason(reason);
    degradation->set_remedy("what is; what to do");
  }
};

TEST(CheckNode, FindsNothingWhereAllIsRight) {
  EXPECT_TRUE(Node().wrong().empty());
}

TEST(CheckNode, SaysWhyItIsNotReady) {
  Node node;
  node.status.set_ready(false);
  node.status.set_ready_why_not("it recovers");
  EXPECT_EQ(node.only(Severity::kError), "ready");
  EXPECT_NE(node.wrong()[0].cause.find("it recovers"), std::string::npos);
  node = Node();
  node.status.set_numbers_age_ns(11 * kSecond);
  EXPECT_EQ(node.only(Severity::kWarning), "numbers");
}

TEST(CheckNode, TakesItsWordsForWhatIsDegraded) {
  Node node;
  node.degrade("no_space");
  EXPECT_EQ(node.only(Severity::kWarning), "no_space");
  EXPECT_EQ(node.wrong()[0].cause, "what is");
  EXPECT_EQ(node.wrong()[0].remedy, "what to do");
  node = Node();
  node.degrade("thin");
  node.status.mutable_repair()->set_blocks_left(9);
  EXPECT_EQ(node.only(Severity::kWarning), "thin") << "and not the repair of the same blocks";
  node.status.mutable_repair()->set_rate_bytes_per_s(0);
  EXPECT_EQ(node.wrong().size(), 2u) << "but that repair is off, which \"thin\" does not say";
}

// Goal: what a row says exactly is not said again by the flag.
TEST(CheckNode, SaysOneCauseOnceAndExactly) {
  Node node;
  for (uint32_t shard = 1; shard < 3; ++shard) {
    *node.status.add_shards() = node.status.shards(0);
    node.status.mutable_shards(static_cast<int>(shard))->set_index(shard);
  }
  node.degrade("io_fallback");
  EXPECT_EQ(node.only(Severity::kWarning), "io_fallback") << "no shard says more";
  for (v1::Shard& shard : *node.status.mutable_shards())
    shard.set_io_refusal("forbidden; allow it");
  EXPECT_EQ(node.only(Severity::kWarning), "shard 0, 1, 2");
  EXPECT_EQ(node.wrong()[0].remedy, "allow it");
  node = Node();
  node.degrade("stalled");
  node.status.mutable_shards(0)->set_answers(false);
  EXPECT_EQ(node.only(Severity::kError), "shard 0");
  node = Node();
  node.degrade("target");
  node.targets.mutable_targets(0)->set_state(v1::TARGET_STATE_LOST);
  node.targets.mutable_targets(0)->set_why("it is not there; bring it back");
  EXPECT_EQ(node.only(Severity::kError), "target 0");
  node = Node();
  node.degrade("recovering");
  node.status.set_ready(false);
  node.status.set_ready_why_not("it recovers");
  EXPECT_EQ(node.only(Severity::kError), "ready");
}

TEST(CheckNode, WarnsNotOfWhatEndsByItself) {
  for (const char* reason : {"recovering", "no_hits"}) {
    Node node;
    node.degrade(reason);
    EXPECT_EQ(node.only(Severity::kNote), reason);
  }
}

// Goal: a newer node's state is no fault of its drive.
TEST(CheckNode, DoesNotJudgeAStateThatItDoesNotKnow) {
  for (const int state : {0, 99}) {
    Node node;
    node.targets.mutable_targets(0)->set_state(static_cast<v1::TargetState>(state));
    EXPECT_EQ(node.only(Severity::kNote), "target 0");
    EXPECT_NE(node.wrong()[0].cause.find("does not know"), std::string::npos);
  }
}

TEST(CheckNode, LooksAtShardsAndSessions) {
  Node node;
  node.status.mutable_shards(0)->set_answers(false);
  EXPECT_EQ(node.only(Severity::kError), "shard 0");
  node = Node();
  node.status.set_sessions(250);
  EXPECT_EQ(node.only(Severity::kWarning), "sessions");
}

TEST(CheckNode, LooksAtTargets) {
  Node node;
  v1::Target* target = node.targets.mutable_targets(0);
  target->set_why("it failed; replace it");
  target->set_state(v1::TARGET_STATE_FAILED);
  EXPECT_EQ(node.only(Severity::kError), "target 0");
  EXPECT_EQ(node.wrong()[0].remedy, "replace it");
  target->set_state(v1::TARGET_STATE_SUSPECT);
  EXPECT_EQ(node.only(Severity::kWarning), "target 0");
  target->set_state(v1::TARGET_STATE_DRAINING);
  EXPECT_EQ(node.only(Severity::kNote), "target 0");
  target->set_state(v1::TARGET_STATE_OK);
  target->mutable_scrub()->set_rot(1);
  EXPECT_EQ(node.only(Severity::kWarning), "target 0");
  target->mutable_scrub()->set_rot(0);
  target->set_limbo(1);
  EXPECT_EQ(node.only(Severity::kWarning), "target 0");
  target->set_limbo(0);
  target->set_missed_purges(true);
  EXPECT_EQ(node.only(Severity::kNote), "target 0");
}

TEST(CheckNode, LooksAtWhatIsLeftToRepair) {
  Node node;
  v1::Repair* repair = node.status.mutable_repair();
  repair->set_blocks_left(3);
  EXPECT_EQ(node.only(Severity::kNote), "repair");
  repair->set_eta_ns(60 * kSecond);
  EXPECT_EQ(node.only(Severity::kNote), "repair");
  repair->set_rate_bytes_per_s(0);
  EXPECT_EQ(node.only(Severity::kWarning), "repair");
}

}  // namespace
}  // namespace varve::kvctl
