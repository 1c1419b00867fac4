// Goal: what is wrong with a file or a key is said before a node is asked, and nothing is written
// over. With a node: tests/e2e/kvctl_test.cc.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/tools/kvctl/fake_node.h"

namespace varve::kvctl {
namespace {

const std::string kKey(64, 'a');
// A port on which nobody listens for long; the data plane is never reached by these tests.
const std::vector<std::string> kNobody = {"--address", "127.0.0.1:1", "--timeout", "0.2"};

Said kvctl(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), kNobody.begin(), kNobody.end());
  return run_kvctl(arguments);
}

class Files : public ::testing::Test {
 protected:
  Files() : folder(::testing::TempDir() + "kvctl_file_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/there") << "kept";
  }
  ~Files() override { std::filesystem::remove_all(folder); }
  const std::string folder;
};

TEST_F(Files, ThatCannotBePutAreRefusedAtOnce) {
  EXPECT_EQ(kvctl({"put", folder + "/none"}).exit, Exit::kFailed);
  EXPECT_EQ(kvctl({"put", folder}).exit, Exit::kUsage);
  ASSERT_EQ(::mkfifo((folder + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(kvctl({"put", folder + "/pipe"}).exit, Exit::kUsage);
  const std::string large = folder + "/large";
  std::ofstream(large) << "";
  ASSERT_EQ(::truncate(large.c_str(), (16ll << 30) + 1), 0);
  const Said said = kvctl({"put", large});
  EXPECT_EQ(said.exit, Exit::kUsage);
  EXPECT_NE(said.err.find("16.0 GiB"), std::string::npos) << said.err;
  EXPECT_EQ(kvctl({"put", folder + "/there", "--ack", "maybe"}).exit, Exit::kUsage);
}

TEST_F(Files, AreNotWrittenOverUnlessForced) {
  const Said said = kvctl({"get", kKey, folder + "/there"});
  EXPECT_EQ(said.exit, Exit::kUsage);
  EXPECT_NE(said.err.find("--force"), std::string::npos);
  EXPECT_EQ(kvctl({"get", "aa", folder + "/new"}).exit, Exit::kUsage);
  const Said device = kvctl({"get", kKey, "/dev/null", "--force"});
  EXPECT_EQ(device.exit, Exit::kUsage);
  EXPECT_NE(device.err.find("no regular file"), std::string::npos) << device.err;
}

TEST_F(Files, AreLeftAloneWhereNoNodeIsReached) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"put", folder + "/there"}, {"get", kKey, folder + "/there", "--force"}}) {
    const Said said = kvctl(arguments);
    EXPECT_EQ(said.exit, Exit::kUnreached) << said.err;
    EXPECT_NE(said.err.find("--address"), std::string::npos) << said.err;
  }
  std::string content;
  std::ifstream(folder + "/there") >> content;
  EXPECT_EQ(content, "kept");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1)
      << "no unfinished file stays behind";
}

TEST_F(Files, NeedATokenFileThatOthersCannotRead) {
  std::ofstream(folder + "/token") << "0123456789abcdef";
  ::chmod((folder + "/token").c_str(), 0644);
  const Said said = kvctl({"put", folder + "/there", "--client-token-file", folder + "/token"});
  EXPECT_EQ(said.exit, Exit::kFailed);
  EXPECT_NE(said.err.find("chmod 600"), std::string::npos) << said.err;
}

}  // namespace
}  // namespace varve::kvctl
