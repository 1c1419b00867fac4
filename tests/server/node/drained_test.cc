// Goal: a target that is being drained is said to be removable once nothing lies there for any
// shard, once, and after that stands in the list; never while anything may still come or is
// unknown. Method: a node without threads, numbers by hand, the list in a folder of the test.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "server/node/node.h"

namespace varve {
namespace {

constexpr const char* kSaid = "IS EMPTY AND MAY BE REMOVED";

class NodeDrains : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "varve-drained-XXXXXX";
    folder_ = mkdtemp(name.data());
    ServerConfig config;
    config.data_dir = folder_;
    config.shards = 2;
    node_ = std::make_unique<Node>(config);
    node_->targets.resize(2);
    node_->targets[1].info.path = "/dev/one";
    node_->targets[1].draining = true;
    TargetList list{3, 4, {1, 0}, {}};
    list.records.resize(2);
    list.records[1].index = 1;
    ASSERT_TRUE(save_records(folder_, list).ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // What all shards together say of target 1.
  std::string see(int64_t fragments, int64_t ok = 2, int64_t recovering = 0, uint32_t counted = 2) {
    MetricSnapshot sum;
    const auto put = [&sum](const char* name, const char* labels, int64_t number) {
      sum.append({{name, labels, ""}, MetricSnapshot::Value::Kind::kGauge, number, {}});
    };
    put("varve_target_ok_shards", "target=\"0\"", 2);
    put("varve_target_ok_shards", "target=\"1\"", ok);
    put("varve_target_draining", "target=\"1\"", known_);
    put("varve_target_fragments", "target=\"1\"", fragments);
    put("varve_recovering", "", recovering);
    put("varve_recovered_dropped_total", "reason=\"index_full\"", index_full_);
    put("varve_target_reserved_bytes", "target=\"1\"", reserved_);
    put("varve_target_live_bytes", "target=\"1\"", live_);
    put("varve_flash_kills_live", "target=\"1\"", kills_);
    put("varve_flash_unreadable_segments_total", "target=\"0\"", 7);
    put("varve_flash_unreadable_segments_total", "target=\"1\"", unreadable_);
    testing::internal::CaptureStderr();
    kept_ = see_drains(*node_, {sum, counted, round_});
    return testing::internal::GetCapturedStderr();
  }
  bool listed(uint32_t target) const {
    TargetList list;
    EXPECT_TRUE(load_records(folder_, &list).ok());
    return list.records[target].drained;
  }

  std::string folder_;
  std::unique_ptr<Node> node_;
  int64_t index_full_ = 0, unreadable_ = 0, known_ = 1;
  int64_t reserved_ = 0, live_ = 0, kills_ = 0;
  uint64_t round_ = 1;
  bool kept_ = false;
};

TEST_F(NodeDrains, OneThatIsEmptyIsListedAndThenSaidOnce) {
  EXPECT_EQ(see(5), "");
  EXPECT_FALSE(listed(1));
  const std::string log = see(0);
  EXPECT_NE(log.find("target 1 /dev/one IS EMPTY AND MAY BE REMOVED"), std::string::npos) << log;
  EXPECT_TRUE(listed(1) && !listed(0));
  EXPECT_TRUE(node_->targets[1].drained && !node_->targets[0].drained);
  EXPECT_EQ(see(0), "");
}

TEST_F(NodeDrains, NothingIsSaidWhileAnythingMayStillCome) {
  EXPECT_EQ(see(0, 2, 1), "") << "a shard recovers";
  EXPECT_EQ(see(0, 1), "")
      << "a shard does not have it any more: what lay there is lost, not moved";
  EXPECT_EQ(see(0, 2, 0, 1), "") << "a shard did not answer yet";
  EXPECT_FALSE(listed(1));
  EXPECT_NE(see(0).find(kSaid), std::string::npos);
}

// Its blocks were moved, its records of purges were not: without it a start would be refused.
TEST_F(NodeDrains, OneThatAloneKnowsWhatAnotherMissedStays) {
  node_->targets[0].witness.missed = {{2, 3}};
  node_->targets[0].info.path = "/dev/zero-th";
  const std::string log = see(0);
  EXPECT_NE(log.find("only it knows of purges that target 0 /dev/zero-th missed"),
            std::string::npos)
      << log;
  EXPECT_FALSE(listed(1) || node_->targets[1].drained);
  EXPECT_EQ(see(0), "") << "once a minute";
  node_->targets[0].witness.missed.clear();
  EXPECT_NE(see(0).find(kSaid), std::string::npos);
}

// A drain that began in this run: pushes that were granted before may still write there.
TEST_F(NodeDrains, OneThatBeganInThisRunWaitsForPushesOfBefore) {
  node_->targets[1].drain_late = true;
  reserved_ = 4096;
  EXPECT_EQ(see(0), "") << "promised";
  reserved_ = 0;
  kills_ = 2;
  live_ = 3 * 4096;
  EXPECT_EQ(see(0), "") << "written, and not in the index yet";
  EXPECT_FALSE(listed(1));
  live_ = 2 * 4096;
  EXPECT_NE(see(0).find(kSaid), std::string::npos) << "records of purges are no blocks";
  EXPECT_TRUE(listed(1));
}

// A drain may begin between the numbers and the look at them, or while a shard does not answer.
TEST_F(NodeDrains, NumbersOfBeforeTheDrainSayNothing) {
  node_->targets[1].drain_round = 1;
  EXPECT_EQ(see(0), "");
  round_ = 2;
  known_ = 0;
  EXPECT_EQ(see(0), "") << "a shard may still place fragments there";
  EXPECT_FALSE(listed(1) || node_->targets[1].drained);
  known_ = 1;
  EXPECT_NE(see(0).find(kSaid), std::string::npos);
}

// It is on some target, and nobody knows on which: repair has not moved it.
TEST_F(NodeDrains, WhatTheIndexHadNoRoomForKeepsItFromBeingRemovable) {
  index_full_ = 3;
  const std::string log = see(0);
  EXPECT_NE(log.find("3 fragments found no room in the index"), std::string::npos) << log;
  EXPECT_EQ(see(0), "") << "once a minute";
  EXPECT_FALSE(listed(1) || node_->targets[1].drained);
}

TEST_F(NodeDrains, WhatCannotBeReadThereIsSaidWithIt) {
  unreadable_ = 2;
  const std::string log = see(0);
  EXPECT_NE(log.find(std::string(kSaid) + ", BUT FOR 2 SEGMENTS"), std::string::npos) << log;
  EXPECT_TRUE(listed(1));
}

TEST_F(NodeDrains, WhatCannotBeListedIsNotSaidToBeRemovable) {
  std::filesystem::remove(folder_ + "/targets.list");
  std::filesystem::create_directory(folder_ + "/targets.list");
  const std::string log = see(0);
  EXPECT_EQ(log.find(kSaid), std::string::npos) << log;
  EXPECT_FALSE(kept_);
  EXPECT_NE(log.find("that cannot be kept"), std::string::npos) << log;
  EXPECT_EQ(see(0), "") << "once a minute";
  EXPECT_FALSE(node_->targets[1].drained);
}

}  // namespace
}  // namespace varve
