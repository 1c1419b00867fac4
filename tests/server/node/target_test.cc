// Goal: a lost target costs itself and is said (N1); nothing is made in its place unasked (N2).
// Method: small real files of a test, taken away, cut short and handed to another node.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "server/node/node.h"

namespace varve {
namespace {

class NodeTargets : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "varve-node-XXXXXX";
    folder_ = mkdtemp(name.data());
    config_.data_dir = folder_;
    config_.targets = 2;
    config_.target_bytes = 400 * kMiB;
    config_.free_floor_bytes = 0;
    config_.shards = 1;
    ASSERT_TRUE(load_identity(folder_, entropy_, &identity_).ok());
    std::vector<NodeTarget> first;
    const Failure failure = prepare_targets(config_, identity_, entropy_, &first);
    if (!failure.ok() && failure.text.find("O_DIRECT") != std::string::npos) {
      GTEST_SKIP() << failure.text;
    }
    ASSERT_TRUE(failure.ok()) << failure.text;
    uuid_ = to_hex(first[1].info.super.target_uuid);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Failure prepare() {
    targets_.clear();
    testing::internal::CaptureStderr();
    const Failure failure = prepare_targets(config_, identity_, entropy_, &targets_);
    log_ = testing::internal::GetCapturedStderr();
    return failure;
  }
  std::string path(uint32_t index) const {
    return folder_ + "/target-" + std::to_string(index) + ".dat";
  }
  bool logged(const std::string& text) const { return log_.find(text) != std::string::npos; }

  std::string folder_, log_, uuid_;
  SeededEntropy entropy_{7};
  ServerConfig config_;
  Identity identity_;
  std::vector<NodeTarget> targets_;
};

TEST_F(NodeTargets, SoundOnesAreAdoptedAndSaid) {
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(targets_[0].lost.ok() && targets_[1].lost.ok());
  EXPECT_FALSE(targets_[1].info.formatted_now);
  EXPECT_TRUE(logged("target 1 " + path(1) + ": adopted, uuid " + uuid_ + ", 400 MiB")) << log_;
}

TEST_F(NodeTargets, AMissingOneIsLostAndNotMadeAnew) {
  std::filesystem::remove(path(1));
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(targets_[0].lost.ok());
  EXPECT_EQ(targets_[1].lost.errno_value(), ENOENT);
  EXPECT_EQ(to_hex(targets_[1].info.super.target_uuid), uuid_);  // keeps its place
  EXPECT_EQ(targets_[1].info.super.target_index, 1u);
  EXPECT_FALSE(exists(path(1)));
  EXPECT_TRUE(logged("target 1 " + path(1) + " IS LOST")) << log_;
  // Expect: the loss is not forgotten by the next start either.
  ASSERT_TRUE(prepare().ok());
  EXPECT_FALSE(targets_[1].lost.ok());
  config_.create_targets = true;
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(targets_[1].info.formatted_now);
  EXPECT_TRUE(logged("in the place of one that this node had")) << log_;
}

TEST_F(NodeTargets, OnesThatWereCutShortOrRottedAreLost) {
  for (const uint64_t bytes : {uint64_t{0}, 4 * kMiB, 399 * kMiB}) {
    ASSERT_EQ(truncate(path(1).c_str(), static_cast<off_t>(bytes)), 0);
    ASSERT_TRUE(prepare().ok()) << bytes;
    EXPECT_FALSE(targets_[1].lost.ok()) << bytes;
    EXPECT_TRUE(targets_[0].lost.ok());
    if (bytes > 0) continue;
    ASSERT_EQ(truncate(path(1).c_str(), 0), 0);
    std::filesystem::remove(path(1));
    config_.create_targets = true;
    ASSERT_TRUE(prepare().ok());
    config_.create_targets = false;
  }
}

TEST_F(NodeTargets, ForeignOnesAreStillRefused) {
  std::byte other[16] = {std::byte{9}};
  std::memcpy(identity_.node_uuid, other, 16);
  EXPECT_EQ(prepare().exit_code, kExitTargetRefused);
}

TEST_F(NodeTargets, AllLostIsTheEnd) {
  std::filesystem::remove(path(0));
  std::filesystem::remove(path(1));
  const Failure failure = prepare();
  EXPECT_EQ(failure.exit_code, kExitTargetRefused);
  EXPECT_NE(failure.text.find("all targets of this node are lost"), std::string::npos);
}

TEST_F(NodeTargets, AFurtherOneInTheFolderIsMadeAndOneNamedElsewhereIsNot) {
  config_.targets = 3;
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(targets_[2].info.formatted_now);
  config_.targets = 4;
  config_.target_paths = {path(0), path(1), path(2), folder_ + "/typo.dat"};
  const Failure failure = prepare();
  EXPECT_EQ(failure.exit_code, kExitTargetRefused);
  EXPECT_NE(failure.text.find("--create-targets"), std::string::npos) << failure.text;
  EXPECT_FALSE(exists(folder_ + "/typo.dat"));
}

TEST_F(NodeTargets, SettingsThatDoNotFitWhatIsThereAreSaid) {
  config_.target_bytes = 500 * kMiB;
  config_.from_command_line = {"--target-bytes"};
  config_.targets = 1;
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(logged("target 0 is 400 MiB as formatted; --target-bytes 500MiB")) << log_;
  EXPECT_TRUE(logged("target-1.dat")) << log_;
  EXPECT_TRUE(logged("not used")) << log_;
}

TEST(NodeTarget, WhatIsLostAndWhatIsNotOurs) {
  EXPECT_TRUE(is_lost(Status::io("read failed", EIO)));
  EXPECT_TRUE(is_lost(Status(Code::kUnavailable, "does not exist", ENOENT)));
  EXPECT_TRUE(is_lost(Status::corrupt("both superblocks are damaged")));
  EXPECT_FALSE(is_lost(Status(Code::kUnavailable, "another process uses it", EAGAIN)));
  EXPECT_FALSE(is_lost(Status::invalid("target belongs to another node")));
  EXPECT_FALSE(is_lost(Status::unsupported("a newer version")));
  EXPECT_EQ(refusal(0, "x", Status(Code::kOverloaded, "descriptors", EMFILE)).exit_code,
            kExitEnvironment);
}

}  // namespace
}  // namespace varve
