// Goal: who misses a purge is written down while it is so, and no longer; never of all at once.
// Method: a node without threads, numbers by hand, the list in a folder of the test.
#include <gtest/gtest.h>

#include <filesystem>

#include "server/node/node.h"

namespace varve {
namespace {

class NodeMisses : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "varve-missed-XXXXXX";
    folder_ = mkdtemp(name.data());
    ServerConfig config;
    config.data_dir = folder_;
    config.shards = 2;
    node_ = std::make_unique<Node>(config);
    node_->targets.resize(3);
    for (NodeTarget& target : node_->targets)
      target.info.super.boot_generation = 3;
    TargetList list{3, 4, {1, 0}, {}};
    list.records.resize(4);
    for (uint32_t t = 0; t < 4; ++t)
      list.records[t].index = t;
    list.records[3].missed = {{2, 0}};  // beyond the settings
    ASSERT_TRUE(save_records(folder_, list).ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  struct Numbers {
    int64_t ok[3] = {2, 2, 2};
    int64_t kept[3] = {};
    int64_t recovering = 0;
    uint32_t counted = 2;
  };
  std::string see(const Numbers& numbers) {
    MetricSnapshot sum;
    const auto put = [&sum](const char* name, const std::string& labels, int64_t number) {
      sum.append({{name, labels, ""}, MetricSnapshot::Value::Kind::kGauge, number, {}});
    };
    for (uint32_t t = 0; t < 3; ++t) {
      const std::string label = "target=\"" + std::to_string(t) + "\"";
      put("varve_target_ok_shards", label, numbers.ok[t]);
      put("varve_target_kills_missed", label, numbers.kept[t]);
    }
    put("varve_recovering", "", numbers.recovering);
    testing::internal::CaptureStderr();
    kept_ = see_missed(*node_, {sum, numbers.counted, 1});
    return testing::internal::GetCapturedStderr();
  }
  void restart(uint32_t boot_generation) {
    for (NodeTarget& target : node_->targets)
      target.info.super.boot_generation = boot_generation;
  }
  // Bits, of the list, which the node must agree with.
  uint32_t missed() const {
    TargetList list;
    EXPECT_TRUE(load_records(folder_, &list).ok());
    uint32_t bits = 0;
    for (const TargetRecord& record : list.records)
      bits |= !record.missed.empty() ? 1u << record.index : 0;
    EXPECT_NE(bits & 1u << 3, 0u) << "is not this node's to change now";
    for (uint32_t t = 0; t < 3; ++t)
      EXPECT_EQ(!node_->targets[t].witness.missed.empty(), (bits >> t & 1) != 0) << t;
    return bits & 7;
  }

  std::string folder_;
  std::unique_ptr<Node> node_;
  bool kept_ = false;
};

TEST_F(NodeMisses, OneThatFailsIsListedOnce) {
  EXPECT_EQ(see({}), "");
  const std::string log = see({.ok = {2, 1, 2}});
  EXPECT_NE(log.find("target 1"), std::string::npos) << log;
  EXPECT_EQ(missed(), 2u);
  EXPECT_EQ(see({.ok = {2, 1, 2}}), "");
  EXPECT_NE(see({.ok = {2, 1, 0}}).find("target 2"), std::string::npos);
  EXPECT_EQ(missed(), 6u);
}

// Else a node whose controller is reset would be refused for good.
TEST_F(NodeMisses, WhereNoneWorksNobodyMissesAnything) {
  EXPECT_EQ(see({.ok = {0, 0, 0}}), "");
  EXPECT_EQ(missed(), 0u);
}

TEST_F(NodeMisses, AShardThatDidNotAnswerSaysNothing) {
  EXPECT_EQ(see({.ok = {1, 1, 1}, .counted = 1}), "");
  EXPECT_EQ(missed(), 0u);
}

TEST_F(NodeMisses, OneThatWasDrainedIsMissedByNobody) {
  node_->targets[1].drained = true;
  EXPECT_EQ(see({.ok = {2, 0, 2}}), "");
  EXPECT_EQ(missed(), 0u);
}

TEST_F(NodeMisses, OneThatIsBackKnowsWhenAllWasFoundAndNoRecordIsKeptForIt) {
  see({.ok = {2, 1, 2}});
  restart(4);
  const std::string back = see({.recovering = 1});
  EXPECT_NE(back.find("takes purges again"), std::string::npos) << back;
  EXPECT_EQ(see({.kept = {0, 3, 0}}), "");
  EXPECT_EQ(missed(), 2u);
  EXPECT_NE(see({}).find("knows of every purge again"), std::string::npos);
  EXPECT_EQ(missed(), 0u);
}

// A record names a place of the node, which another drive has now.
TEST_F(NodeMisses, RecordsOfBeforeItWasMadeAreNotKeptForIt) {
  see({.ok = {2, 1, 2}});
  restart(4);
  node_->targets[1].witness.from = 3;
  EXPECT_NE(see({.kept = {0, 1, 0}}).find("knows of every purge again"), std::string::npos);
}

TEST_F(NodeMisses, NobodyLearnsFromThoseThatMissedToo) {
  see({.ok = {2, 1, 1}});
  restart(4);
  EXPECT_NE(see({.ok = {0, 2, 2}}), "");
  EXPECT_EQ(missed(), 7u);
}

// Else the list that is written would know of no start before.
TEST_F(NodeMisses, AListThatIsGoneIsSaidAndNotMadeAnew) {
  std::filesystem::remove(folder_ + "/targets.list");
  const std::string log = see({.ok = {2, 1, 2}});
  EXPECT_NE(log.find("targets.list is gone; restore it"), std::string::npos) << log;
  EXPECT_FALSE(exists(folder_ + "/targets.list"));
}

TEST_F(NodeMisses, WhatCannotBeListedIsSaidOnceAMinuteAndTriedAgain) {
  const std::string list = folder_ + "/targets.list";
  std::filesystem::rename(list, list + ".kept");
  std::filesystem::create_directory(list);
  const std::string log = see({.ok = {2, 1, 2}});
  EXPECT_FALSE(kept_);
  EXPECT_NE(log.find("that cannot be kept"), std::string::npos) << log;
  EXPECT_EQ(see({.ok = {2, 1, 2}}), "");
  EXPECT_TRUE(node_->targets[1].witness.missed.empty());
  std::filesystem::remove(list);
  std::filesystem::rename(list + ".kept", list);
  EXPECT_NE(see({.ok = {2, 1, 2}}), "");
  EXPECT_TRUE(kept_);
  EXPECT_EQ(missed(), 2u);
}

}  // namespace
}  // namespace varve
