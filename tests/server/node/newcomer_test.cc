// Goal: only a blank drive that is large enough comes into the place of another; it stands in the
// list before it is formatted, and whatever ends in between, no start takes the old one in again.
// Method: small real files of a test, taken away, and put back.
#include "server/node/newcomer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "server/node/node.h"

namespace varve {
namespace {

constexpr uint64_t kTargetBytes = 64 * kMiB;

class Newcomers : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "varve-newcomer-XXXXXX";
    folder_ = mkdtemp(name.data());
    config_.data_dir = folder_;
    config_.targets = 2;
    config_.target_bytes = kTargetBytes;
    config_.free_floor_bytes = 0;
    config_.shards = 1;
    ASSERT_TRUE(load_identity(folder_, entropy_, &identity_).ok());
    const Failure failure = prepare();
    if (!failure.ok() && failure.text.find("O_DIRECT") != std::string::npos) {
      GTEST_SKIP() << failure.text;
    }
    ASSERT_TRUE(failure.ok()) << failure.text;
    entropy_.fill(uuid_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Failure prepare() {
    targets_.clear();
    testing::internal::CaptureStderr();
    const Failure failure = prepare_targets(config_, identity_, entropy_, &targets_);
    log_ = testing::internal::GetCapturedStderr();
    return failure;
  }
  Newcomer newcomer() { return {config_, identity_, 1, targets_[1], 1}; }
  std::string path() const { return folder_ + "/target-1.dat"; }
  void take_away() { std::filesystem::rename(path(), path() + ".away"); }
  void put_back() { std::filesystem::rename(path() + ".away", path()); }
  Failure look() { return look_newcomer(newcomer(), &capacity_, &resumes_); }
  Failure keep() { return keep_newcomer(newcomer(), uuid_, capacity_, &witness_); }
  Failure format() { return format_newcomer(newcomer(), uuid_, {}, entropy_, &info_); }

  std::string folder_, log_;
  ServerConfig config_;
  Identity identity_;
  SystemEntropy entropy_;
  std::vector<NodeTarget> targets_;
  std::byte uuid_[16] = {};
  uint64_t capacity_ = 0;
  bool resumes_ = false;
  flash::Witness witness_;
  flash::TargetInfo info_;
};

TEST_F(Newcomers, TheOldOneIsRefusedByName) {
  const Failure failure = look();
  ASSERT_FALSE(failure.ok());
  EXPECT_NE(failure.text.find("it is the one to be replaced"), std::string::npos) << failure.text;
  EXPECT_NE(failure.text.find("first MiB"), std::string::npos);
  EXPECT_EQ(format().exit_code, kExitTargetRefused) << "and left as it is";
  EXPECT_TRUE(prepare().ok());
  EXPECT_NE(log_.find("adopted"), std::string::npos) << log_;
}

TEST_F(Newcomers, AFileOfTheDataFolderIsMadeAndThatOfAGivenPathIsNot) {
  take_away();
  config_.target_paths = {folder_ + "/target-0.dat", path()};
  EXPECT_FALSE(look().ok());
  EXPECT_FALSE(std::filesystem::exists(path()));
  config_.target_paths.clear();
  EXPECT_TRUE(look().ok());
  EXPECT_EQ(std::filesystem::file_size(path()), kTargetBytes);
}

TEST_F(Newcomers, OneThatIsTooSmallForTheBlocksOfTheOthersIsRefused) {
  take_away();
  Newcomer small = newcomer();
  small.fragment_pages = ~0u;
  const Failure failure = look_newcomer(small, &capacity_, &resumes_);
  ASSERT_FALSE(failure.ok());
  EXPECT_NE(failure.text.find("give a larger one"), std::string::npos) << failure.text;
}

TEST_F(Newcomers, TheNewOneIsAdoptedAndTheOldOneRefused) {
  const uint32_t start = targets_[1].info.super.boot_generation;
  take_away();
  ASSERT_TRUE(look().ok());
  EXPECT_FALSE(resumes_);
  ASSERT_TRUE(keep().ok());
  EXPECT_EQ(witness_.from, start + 1);
  ASSERT_TRUE(format().ok());
  EXPECT_EQ(std::memcmp(info_.super.target_uuid, uuid_, 16), 0);
  EXPECT_EQ(info_.super.boot_generation, start);
  targets_[1].coming = info_;
  EXPECT_TRUE(look().ok());
  EXPECT_TRUE(resumes_) << "a call that comes again finds its own";
  std::filesystem::rename(path(), path() + ".new");
  put_back();
  const Failure failure = prepare();
  EXPECT_EQ(failure.exit_code, kExitTargetRefused);
  EXPECT_NE(failure.text.find("another one in its place"), std::string::npos) << failure.text;
  std::filesystem::rename(path() + ".new", path());
  ASSERT_TRUE(prepare().ok()) << log_;
  EXPECT_EQ(log_.find("formatted"), std::string::npos) << log_;
  EXPECT_EQ(std::memcmp(targets_[1].info.super.target_uuid, uuid_, 16), 0);
}

// Expect: of an end behind the list and before the format, that the next start formats it.
TEST_F(Newcomers, AnEndBeforeTheFormatLeavesABlankOneAndNotTheOldOne) {
  take_away();
  ASSERT_TRUE(look().ok());
  ASSERT_TRUE(keep().ok());
  std::filesystem::rename(path(), path() + ".new");
  put_back();
  EXPECT_EQ(prepare().exit_code, kExitTargetRefused);
  std::filesystem::rename(path() + ".new", path());
  ASSERT_TRUE(prepare().ok()) << log_;
  EXPECT_NE(log_.find("target-1.dat: formatted"), std::string::npos) << log_;
}

}  // namespace
}  // namespace varve
