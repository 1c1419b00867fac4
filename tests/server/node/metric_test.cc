// Goal: what was not written is not taken for written, whatever else ended meanwhile. Method: a
// node without threads whose lists are still at an older round. Numbers of cores:
// tests/e2e/varved_test.py.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "server/node/node.h"

namespace varve {
namespace {

// Work of an older round: it lasts until the files of the next one were begun.
struct OlderRound {
  std::string metrics;
  static bool work(void* context) {
    const auto& self = *static_cast<OlderRound*>(context);
    while (!exists(self.metrics))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return true;
  }
};

TEST(SeeNodeWhole, AnOlderRoundOfTheListsIsNotThisOne) {
  std::string folder = testing::TempDir() + "varve-metric-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  ServerConfig config;
  config.data_dir = folder;
  config.shards = 1;
  {
    Node node(config);
    node.targets.resize(1);
    OlderRound older{config.metrics_path()};
    node.lists.begin(OlderRound::work, &older);
    std::string unended;
    EXPECT_TRUE(see_node_whole(node, 10 * kSecond, &unended).ok());
    EXPECT_EQ(unended, "the lists of " + folder);
    EXPECT_EQ(node.lists_seen.round, 0u);
    EXPECT_EQ(node.round, 1u);
    EXPECT_TRUE(see_node_whole(node, 60 * kSecond, &unended).ok());
    EXPECT_EQ(unended, "");
    EXPECT_EQ(node.lists_seen.round, 2u);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace varve
