// Goal: a change of the domains that its own call could not mark is marked at the next look, so
// that an older list is known as one. Method: a node without threads, the lists in a folder of the
// test. Calls of operators: tests/e2e/domain_test.cc.
#include <gtest/gtest.h>

#include <filesystem>

#include "server/node/node.h"

namespace varve {
namespace {

class NodeDomains : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "varve-domains-XXXXXX";
    folder_ = mkdtemp(name.data());
    ServerConfig config;
    config.data_dir = folder_;
    config.shards = 2;
    node_ = std::make_unique<Node>(config);
    ASSERT_TRUE(save_records(folder_, TargetList{3, 4, {1, 0}, {}}).ok());
    node_->identity.domain_salt.bytes[0] = std::byte{1};
    ASSERT_TRUE(node_->domains.load(folder_, "", &node_->identity).ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  TargetList list() const {
    TargetList list;
    EXPECT_TRUE(load_records(folder_, &list).ok());
    return list;
  }

  std::string folder_;
  std::unique_ptr<Node> node_;
  SeededEntropy entropy_{7};
};

TEST_F(NodeDomains, AChangeThatIsNotMarkedIsMarkedAtTheNextLook) {
  EXPECT_TRUE(node_->domains.is_marked());
  ASSERT_TRUE(node_->domains.add(folder_, "team-a", entropy_, 7));
  ASSERT_TRUE(node_->domains.rotate(folder_, "team-a", entropy_));
  EXPECT_FALSE(node_->domains.is_marked());
  EXPECT_EQ(list().domain_changes, 0u);
  const Seen nobody{{}, 0, 1};  // no core needs to answer for that
  EXPECT_TRUE(see_domains(*node_, nobody));
  EXPECT_TRUE(node_->domains.is_marked());
  EXPECT_EQ(list().domain_changes, 2u);
  EXPECT_EQ(list().domain_id_last, 2u);
}

TEST_F(NodeDomains, AMarkThatCannotBeWrittenIsTriedAgainAndSaidOnce) {
  ASSERT_TRUE(node_->domains.add(folder_, "team-a", entropy_, 7));
  const Seen nobody{{}, 0, 1};
  node_->config.data_dir = folder_ + "/nowhere";
  testing::internal::CaptureStderr();
  EXPECT_FALSE(see_domains(*node_, nobody));
  EXPECT_FALSE(see_domains(*node_, nobody));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("cannot be marked"), std::string::npos) << log;
  EXPECT_EQ(log.find("cannot be marked"), log.rfind("cannot be marked")) << log;
  node_->config.data_dir = folder_;
  EXPECT_TRUE(see_domains(*node_, nobody));
  EXPECT_EQ(list().domain_changes, 1u);
}

}  // namespace
}  // namespace varve
