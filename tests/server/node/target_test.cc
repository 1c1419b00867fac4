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

constexpr uint64_t kTargetBytes = 64 * kMiB;

// Without fallocate every target is written in full: too slow for a unit test.
bool preallocates(const std::string& folder) {
  const std::string path = folder + "/probe";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const bool works = fd >= 0 && fallocate(fd, 0, 0, kPageBytes) == 0;
  close(fd);
  std::filesystem::remove(path);
  return works;
}

class NodeTargets : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "varve-node-XXXXXX";
    folder_ = mkdtemp(name.data());
    if (!preallocates(folder_)) GTEST_SKIP() << "no fallocate in " << folder_;
    config_.data_dir = folder_;
    config_.targets = 2;
    config_.target_bytes = kTargetBytes;
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
  void take_away(uint32_t index) { std::filesystem::rename(path(index), path(index) + ".away"); }
  void bring_back(uint32_t index) { std::filesystem::rename(path(index) + ".away", path(index)); }
  std::string content(const std::string& name) const {
    std::string text;
    EXPECT_TRUE(read_file(folder_ + "/" + name, &text));
    return text;
  }
  std::string head_of(uint32_t index) const {
    std::string bytes(kMiB, 0);
    const int fd = open(path(index).c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(pread(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    close(fd);
    return bytes;
  }
  void erase_head(uint32_t index) const {
    const std::string zeros(kMiB, 0);
    const int fd = open(path(index).c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(pwrite(fd, zeros.data(), zeros.size(), 0), static_cast<ssize_t>(zeros.size()));
    close(fd);
  }
  bool missed(uint32_t index) const { return !targets_[index].witness.missed.empty(); }
  bool listed_missed(uint32_t index) const {
    TargetList list;
    EXPECT_TRUE(load_records(folder_, &list).ok());
    for (const TargetRecord& record : list.records) {
      if (record.index == index) return !record.missed.empty();
    }
    return false;
  }
  // Target 1 of a start of the same node that this data folder knows nothing of.
  void take_another(uint32_t shards) {
    ServerConfig config = config_;
    config.data_dir = folder_ + "/other-" + std::to_string(shards);
    config.shards = shards;
    std::filesystem::create_directory(config.data_dir);
    std::vector<NodeTarget> made;
    ASSERT_TRUE(prepare_targets(config, identity_, entropy_, &made).ok());
    std::filesystem::rename(made[1].info.path, path(1));
  }
  uint32_t generation(uint32_t index) const { return targets_[index].info.super.boot_generation; }
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
  EXPECT_TRUE(logged("target 1 " + path(1) + ": adopted, uuid " + uuid_ + ", 64 MiB")) << log_;
}

// Nothing would be hit; the files are left as they are.
TEST_F(NodeTargets, AnotherSaltIsRefused) {
  ASSERT_TRUE(prepare().ok());
  const std::string list = content("targets.list");
  identity_.domain_salt.bytes[5] ^= std::byte{1};
  const Failure failure = prepare();
  EXPECT_EQ(failure.exit_code, kExitEnvironment);
  EXPECT_NE(failure.text.find("domain.salt is not the one"), std::string::npos) << failure.text;
  EXPECT_EQ(content("targets.list"), list);
  identity_.domain_salt.bytes[5] ^= std::byte{1};
  EXPECT_TRUE(prepare().ok());
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
  for (const uint64_t bytes : {uint64_t{0}, 4 * kMiB, 63 * kMiB}) {
    ASSERT_EQ(truncate(path(1).c_str(), static_cast<off_t>(bytes)), 0);
    ASSERT_TRUE(prepare().ok()) << bytes;
    EXPECT_FALSE(targets_[1].lost.ok()) << bytes;
    EXPECT_TRUE(targets_[0].lost.ok());
    if (bytes > 0) continue;
    config_.create_targets = true;  // makes an empty one too
    ASSERT_TRUE(prepare().ok());
    EXPECT_TRUE(targets_[1].info.formatted_now && targets_[1].lost.ok()) << log_;
    config_.create_targets = false;
  }
}

TEST_F(NodeTargets, ForeignOnesAreStillRefused) {
  std::byte other[16] = {std::byte{9}};
  std::memcpy(identity_.node_uuid, other, 16);
  EXPECT_EQ(prepare().exit_code, kExitTargetRefused);
}

// Goal: what is written from now on is newer than each domain, or it would be taken for what an
// older one of its id left. Method: a list of domains that is all that was saved of a node.
TEST_F(NodeTargets, AStartIsNewerThanEachDomainThatItHas) {
  for (uint32_t index = 0; index < 2; ++index)
    std::filesystem::remove(path(index));
  std::filesystem::remove(folder_ + "/targets.list");
  identity_.domain_ids = {kDomainDefault, 2};
  identity_.domain_id_last = 2;
  identity_.domain_starts = {0, 57};
  ASSERT_TRUE(prepare().ok()) << log_;
  EXPECT_EQ(generation(0), 58u);
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
  config_.target_bytes = 72 * kMiB;
  config_.origins = {{"--target-bytes"}};
  config_.targets = 1;
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(logged("target 0 is 64 MiB as formatted; --target-bytes 72MiB")) << log_;
  EXPECT_TRUE(logged("target-1.dat")) << log_;
  EXPECT_TRUE(logged("not used")) << log_;
}

// Attempts of two starts may never compare equal, though no target saw both of them (I3).
TEST_F(NodeTargets, NoGenerationIsGivenTwiceWhicheverTargetsAreThere) {
  take_away(0);
  ASSERT_TRUE(prepare().ok());
  EXPECT_EQ(generation(1), 2u);
  ASSERT_TRUE(prepare().ok());
  EXPECT_EQ(generation(1), 3u);
  bring_back(0);
  take_away(1);
  config_.accept_stale = true;
  ASSERT_TRUE(prepare().ok());
  EXPECT_EQ(generation(0), 4u);
  bring_back(1);
  ASSERT_TRUE(prepare().ok());
  EXPECT_EQ(generation(0), 5u);
  EXPECT_EQ(generation(1), 5u);
  // Expect: nor after the list was lost, when all are in their places.
  std::filesystem::remove(folder_ + "/targets.list");
  ASSERT_TRUE(prepare().ok());
  EXPECT_EQ(generation(0), 6u);
}

// A purge that only the list remembers, because those that took it are away, still counts.
TEST_F(NodeTargets, WhatWasPurgedIsKnownToEveryTargetAfterTheNextStart) {
  TargetList list;
  ASSERT_TRUE(load_records(folder_, &list).ok());
  list.purged = {{1, 3, 0, 0}, {1, 3, 77, 2}};
  ASSERT_TRUE(save_records(folder_, list).ok());
  ASSERT_TRUE(prepare().ok());
  for (const NodeTarget& target : targets_) {
    ASSERT_EQ(target.info.super.generation_count, 2u);
    EXPECT_EQ(target.info.super.generations[0].domain_generation, 3u);
    EXPECT_EQ(target.info.super.generations[1].lineage_generation, 2u);
  }
  TargetList later;
  ASSERT_TRUE(load_records(folder_, &later).ok());
  EXPECT_EQ(later.purged.size(), 2u);
  EXPECT_FALSE(logged("STALE"));
}

// Expect: refused with the one to give, and nothing is written, not even that there was a start.
TEST_F(NodeTargets, ATargetThatComesBackAloneIsRefused) {
  take_away(0);
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(missed(0) && !missed(1));
  EXPECT_TRUE(listed_missed(0) && !listed_missed(1));
  bring_back(0);
  take_away(1);
  const std::string list = content("targets.list"), super = head_of(0);
  const Failure failure = prepare();
  EXPECT_EQ(failure.exit_code, kExitTargetRefused);
  for (const std::string& said :
       {std::string("STALE: ") + path(0) + " missed purges",
        "Give one of those that do (" + path(1) + ")", std::string("--accept-stale")})
    EXPECT_NE(failure.text.find(said), std::string::npos) << failure.text;
  EXPECT_EQ(content("targets.list"), list);
  EXPECT_EQ(head_of(0), super);
  // Expect: beside the other it is no risk, and still does not know by itself.
  bring_back(1);
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(missed(0) && !missed(1));
  EXPECT_FALSE(logged("STALE")) << log_;
}

TEST_F(NodeTargets, TheOperatorMayTakeTheRiskAndItIsSaid) {
  take_away(0);
  ASSERT_TRUE(prepare().ok());
  bring_back(0);
  take_away(1);
  config_.accept_stale = true;
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(logged("BLOCKS THAT WERE PURGED MAY COME BACK")) << log_;
  EXPECT_FALSE(missed(0));
  // Expect: once; now it is the other that missed what came since.
  config_.accept_stale = false;
  ASSERT_TRUE(prepare().ok());
  EXPECT_FALSE(logged("STALE")) << log_;
  bring_back(1);
  take_away(0);
  EXPECT_EQ(prepare().exit_code, kExitTargetRefused);
}

// What failed in the last run was marked then; its boot generation is that of the others.
TEST_F(NodeTargets, OneThatFailedInTheLastRunIsRefusedAlone) {
  TargetList list;
  ASSERT_TRUE(load_records(folder_, &list).ok());
  list.records[0].missed = {{1, 0}};
  ASSERT_TRUE(save_records(folder_, list).ok());
  take_away(1);
  EXPECT_EQ(prepare().exit_code, kExitTargetRefused);
  // Expect: a blank one in the other's place speaks for nobody, but alone has nothing to bring
  // back.
  config_.create_targets = true;
  EXPECT_EQ(prepare().exit_code, kExitTargetRefused);
  take_away(0);
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(targets_[0].info.formatted_now && !missed(0));
  config_.create_targets = false;
  ASSERT_TRUE(prepare().ok()) << "alone it brings nothing back";
  EXPECT_EQ(targets_[0].witness.from, targets_[1].witness.from);
}

// They name the node and themselves rightly, and know of no purge since.
TEST_F(NodeTargets, CopiesOfBeforeThatArePutBackNeedOneThatSawAll) {
  const auto copy = [](const std::string& from, const std::string& to) {
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  };
  for (uint32_t t = 0; t < 2; ++t)
    copy(path(t), path(t) + ".old");
  ASSERT_TRUE(prepare().ok());
  copy(path(0), path(0) + ".true");
  for (uint32_t t = 0; t < 2; ++t)
    copy(path(t) + ".old", path(t));
  const std::string list = content("targets.list"), super = head_of(1);
  const Failure failure = prepare();
  EXPECT_EQ(failure.exit_code, kExitTargetRefused);
  EXPECT_NE(failure.text.find("STALE: " + path(0) + ", " + path(1)), std::string::npos)
      << failure.text;
  EXPECT_TRUE(logged("target 1 " + path(1) + " IS AS IT WAS IN START 1, and took part in start 2"))
      << log_;
  EXPECT_TRUE(content("targets.list") == list && head_of(1) == super);
  // Expect: beside one that saw all it may start, and must learn.
  copy(path(0) + ".true", path(0));
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(!missed(0) && missed(1) && listed_missed(1));
  // Expect: from now on it is none of before.
  ASSERT_TRUE(prepare().ok());
  EXPECT_FALSE(logged("IS AS IT WAS")) << log_;
}

// It raised the list and no target, or some of them.
TEST_F(NodeTargets, AStartThatEndedEarlyMakesNoCopiesOfBefore) {
  TargetList list;
  ASSERT_TRUE(load_records(folder_, &list).ok());
  list.boot_generation = 5;
  ASSERT_TRUE(save_records(folder_, list).ok());
  ASSERT_TRUE(prepare().ok());
  EXPECT_FALSE(logged("IS AS IT WAS")) << log_;
  EXPECT_TRUE(!missed(0) && !missed(1));
}

// Two faults apart: what took the purge was replaced while the one that missed it was away.
TEST_F(NodeTargets, ABlankOneDoesNotSpeakForWhatWasMissedBeforeIt) {
  take_away(0);
  ASSERT_TRUE(prepare().ok());
  std::filesystem::remove(path(1));
  close(open(path(1).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(truncate(path(1).c_str(), kTargetBytes), 0);
  ASSERT_TRUE(prepare().ok());
  ASSERT_TRUE(prepare().ok()) << "alone it brings nothing back";
  EXPECT_EQ(targets_[1].witness, (flash::Witness{.from = 3}));
  bring_back(0);
  const Failure failure = prepare();
  EXPECT_EQ(failure.exit_code, kExitTargetRefused);
  EXPECT_NE(failure.text.find("STALE: " + path(0) + " missed"), std::string::npos) << failure.text;
  EXPECT_NE(failure.text.find("Give blank ones"), std::string::npos) << failure.text;
  config_.accept_stale = true;
  EXPECT_TRUE(prepare().ok());
}

// A start that ends early neither served nor purged: whoever was there before still knows.
TEST_F(NodeTargets, AStartThatEndedEarlyMakesNobodyStale) {
  ASSERT_EQ(truncate(path(0).c_str(), 0), 0);
  ASSERT_EQ(truncate(path(0).c_str(), 2 * kMiB), 0);
  ASSERT_EQ(prepare().exit_code, kExitTargetRefused);
  std::filesystem::remove(path(0));
  ASSERT_TRUE(prepare().ok());
  EXPECT_FALSE(missed(1));
}

// A start that ends before any target counted it has used its generation up all the same.
TEST_F(NodeTargets, TheGenerationIsKeptBeforeATargetCountsIt) {
  ASSERT_EQ(truncate(path(0).c_str(), 0), 0);
  ASSERT_EQ(truncate(path(0).c_str(), 2 * kMiB), 0);  // blank, and too small for anything
  EXPECT_EQ(prepare().exit_code, kExitTargetRefused);
  TargetList list;
  ASSERT_TRUE(load_records(folder_, &list).ok());
  EXPECT_EQ(list.boot_generation, 2u);
  EXPECT_EQ(list.slices, 1u);
  EXPECT_EQ(list.records.size(), 2u);
  std::filesystem::remove(path(0));
  ASSERT_TRUE(prepare().ok());
  EXPECT_EQ(generation(1), 3u);
  TargetList later;
  ASSERT_TRUE(load_records(folder_, &later).ok());
  EXPECT_EQ(later.boot_generation, 3u);
  EXPECT_EQ(later.records.size(), 2u);  // the lost one keeps its line
}

TEST_F(NodeTargets, OnesOfDifferentSlicesAreRefusedByBothNames) {
  take_another(2);
  Failure failure = prepare();
  EXPECT_EQ(failure.exit_code, kExitTargetRefused);
  for (const std::string& said : {path(0) + " with 1 slices", path(1) + " with 2 slices"})
    EXPECT_NE(failure.text.find(said), std::string::npos) << failure.text;
  // Expect: the one that is away still counts.
  take_away(0);
  config_.accept_stale = true;
  failure = prepare();
  EXPECT_EQ(failure.exit_code, kExitTargetRefused);
  for (const std::string& said : {path(0), path(1) + " with 2 slices"})
    EXPECT_NE(failure.text.find(said), std::string::npos) << failure.text;
}

TEST_F(NodeTargets, ABlankOneGetsTheSlicesOfThoseThatAreAway) {
  take_away(0);
  std::filesystem::remove(path(1));
  config_.shards = 2;
  config_.target_paths = {path(0), path(1)};
  close(open(path(1).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(truncate(path(1).c_str(), kTargetBytes), 0);
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(targets_[1].info.formatted_now);
  EXPECT_EQ(targets_[1].info.super.slices, 1u);
  // Expect: where all are new nothing binds, but the generation goes on.
  std::filesystem::remove(path(1));
  config_.create_targets = true;
  ASSERT_TRUE(prepare().ok());
  EXPECT_EQ(targets_[0].info.super.slices, 2u);
  EXPECT_EQ(generation(0), 3u);
}

// The scheme is fixed when targets are formatted; the setting that says another is refused with the
// one to give.
TEST_F(NodeTargets, AnotherSchemeIsRefusedByNameAndLeavesAllAsItIs) {
  config_.scheme = {2, 1};
  config_.targets = 3;  // the third would be made
  Failure failure = prepare();
  EXPECT_EQ(failure.exit_code, kExitTargetRefused);
  EXPECT_NE(failure.text.find("start with --scheme 1+0"), std::string::npos) << failure.text;
  EXPECT_NE(failure.text.find(path(0)), std::string::npos) << failure.text;
  // Expect: those that are away still count, however blank the rest is.
  take_away(0);
  std::filesystem::remove(path(1));
  std::filesystem::remove(path(2));
  config_.targets = 2;
  close(open(path(1).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(truncate(path(1).c_str(), kTargetBytes), 0);
  failure = prepare();
  EXPECT_EQ(failure.exit_code, kExitTargetRefused);
  EXPECT_NE(failure.text.find("Start with --scheme 1+0"), std::string::npos) << failure.text;
  bring_back(0);
  config_.scheme = {1, 0};
  EXPECT_TRUE(prepare().ok());
}

TEST_F(NodeTargets, NewOnesAreFormattedForTheSchemeAndKeepIt) {
  for (uint32_t t = 0; t < 2; ++t)
    std::filesystem::remove(path(t));
  config_.create_targets = true;
  config_.scheme = {2, 1};
  config_.targets = 3;
  ASSERT_TRUE(prepare().ok());
  config_.create_targets = false;
  for (const NodeTarget& target : targets_) {
    EXPECT_EQ(target.info.super.k, 2);
    EXPECT_EQ(target.info.super.m, 1);
  }
  EXPECT_FALSE(logged("THIN")) << log_;
  TargetList list;
  ASSERT_TRUE(load_records(folder_, &list).ok());
  EXPECT_EQ(list.scheme, (Scheme{2, 1}));
  config_.scheme = {1, 0};
  EXPECT_EQ(prepare().exit_code, kExitTargetRefused);
  // Expect: one that is away leaves enough to read and to store, thin and said so; two do not.
  config_.scheme = {2, 1};
  take_away(2);
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(logged("2 targets work, scheme 2+1 wants 3: BLOCKS ARE STORED THIN")) << log_;
  EXPECT_EQ(targets_[2].info.super.k, 2);  // the lost one stands in with the geometry of the rest
  take_away(0);
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(logged("ONLY 1 OF 3 TARGETS WORK")) << log_;
}

// One that is drained works on; the list says when it was emptied, and from then on nobody misses
// it, nor takes what may still lie there for a part of the node.
TEST_F(NodeTargets, OneThatWasDrainedIsNotMissedAndComesBackBlank) {
  config_.drain_targets = {path(1)};
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(targets_[1].draining && !targets_[1].drained && targets_[1].lost.ok());
  EXPECT_FALSE(targets_[0].draining);
  EXPECT_TRUE(logged("target 1 " + path(1) + " IS BEING DRAINED")) << log_;
  EXPECT_FALSE(logged("NO TARGET CAN BE EMPTIED"));
  TargetList list;
  ASSERT_TRUE(load_records(folder_, &list).ok());
  list.records[1].drained = true;
  ASSERT_TRUE(save_records(folder_, list).ok());
  // Expect: asked again, it is left alone.
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(targets_[1].drained && !targets_[1].lost.ok());
  EXPECT_TRUE(logged("target 1 " + path(1) + " was drained")) << log_;
  // Expect: nor is it missed when it is not there, at this start or the next.
  config_.drain_targets.clear();
  take_away(1);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(prepare().ok());
    EXPECT_TRUE(targets_[1].drained && !targets_[1].lost.ok());
    EXPECT_EQ(to_hex(targets_[1].info.super.target_uuid), uuid_);
    EXPECT_FALSE(logged("IS LOST")) << log_;
  }
  // Expect: nor when the settings leave its place out, be its file there or not.
  bring_back(1);
  config_.targets = 1;
  ASSERT_TRUE(prepare().ok());
  EXPECT_FALSE(logged("not used")) << log_;
  // Expect: there and not asked for, it is used like a new one.
  config_.targets = 2;
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(targets_[1].lost.ok() && !targets_[1].drained);
  EXPECT_TRUE(targets_[1].info.formatted_now);
  EXPECT_NE(to_hex(targets_[1].info.super.target_uuid), uuid_);
  EXPECT_EQ(generation(1), generation(0));
  EXPECT_TRUE(logged("formatted anew, because it was drained")) << log_;
  // Expect: from then on it counts again.
  take_away(1);
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(logged("IS LOST")) << log_;
}

// Purges of this start must be kept for it: it may be used again.
TEST_F(NodeTargets, OneBeyondTheSettingsIsAbsentUnlessItWasDrained) {
  config_.targets = 1;
  ASSERT_TRUE(prepare().ok());
  TargetList list;
  ASSERT_TRUE(load_records(folder_, &list).ok());
  EXPECT_EQ(absent_targets(list, 1), 0b10u);
  EXPECT_EQ(absent_targets(list, 2), 0u);
  list.records[1].drained = true;
  EXPECT_EQ(absent_targets(list, 1), 0u);
}

TEST_F(NodeTargets, AnotherDriveInThePlaceOfADrainedOneIsTakenAndAMistypedPathIsNot) {
  TargetList list;
  ASSERT_TRUE(load_records(folder_, &list).ok());
  list.records[1].drained = true;
  ASSERT_TRUE(save_records(folder_, list).ok());
  take_away(1);
  config_.target_paths = {path(0), folder_ + "/new.dat"};
  const Failure failure = prepare();
  EXPECT_EQ(failure.exit_code, kExitTargetRefused);
  EXPECT_NE(failure.text.find("new.dat"), std::string::npos) << failure.text;
  config_.create_targets = true;
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(targets_[1].lost.ok() && targets_[1].info.formatted_now);
}

TEST_F(NodeTargets, ADrainThatCannotEndIsSaid) {
  config_.drain_targets = {path(1)};
  take_away(0);
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(logged("NO TARGET CAN BE EMPTIED NOW: besides those being drained 0 work")) << log_;
  bring_back(0);
  take_away(1);
  config_.accept_stale = true;
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(logged("cannot be drained, because it is lost")) << log_;
  EXPECT_FALSE(targets_[1].drained);
}

// A start from another folder finds nothing there, and neither loses nor makes a target.
TEST_F(NodeTargets, ARelativePathNamesThePlaceWhereItWas) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  config_.target_paths = {path(0), "target-1.dat"};
  const Failure here = prepare();
  std::filesystem::create_directory("elsewhere");
  std::filesystem::current_path("elsewhere");
  const Failure elsewhere = prepare();
  std::filesystem::current_path(before);
  ASSERT_TRUE(here.ok()) << here.text;
  EXPECT_EQ(elsewhere.exit_code, kExitTargetRefused);
  EXPECT_NE(elsewhere.text.find("this node had it at /"), std::string::npos) << elsewhere.text;
  EXPECT_NE(elsewhere.text.find("/target-1.dat: correct --target"), std::string::npos);
}

TEST_F(NodeTargets, APathThatWasMistypedIsNoLoss) {
  config_.target_paths = {path(0), folder_ + "/tpyo.dat"};
  const Failure failure = prepare();
  EXPECT_EQ(failure.exit_code, kExitTargetRefused);
  for (const std::string& said : {folder_ + "/tpyo.dat", path(1)})
    EXPECT_NE(failure.text.find(said), std::string::npos) << failure.text;
  // Expect: the same place by another spelling, with nothing in it, is the loss that it was.
  config_.target_paths = {path(0), folder_ + "/./target-1.dat"};
  take_away(1);
  ASSERT_TRUE(prepare().ok());
  EXPECT_FALSE(targets_[1].lost.ok());
}

TEST_F(NodeTargets, AFolderThatMayNotBeEnteredIsNoLoss) {
  std::filesystem::remove(path(1));
  std::filesystem::create_symlink(path(1), path(1));  // ELOOP, as root may enter any folder
  const Failure failure = prepare();
  EXPECT_EQ(failure.exit_code, kExitTargetRefused) << failure.text;
}

// Expect: a drive that was replaced, drained before or not, is refused by both names when it comes
// back, and left as it is, whatever is accepted; its place takes blank ones as ever.
TEST_F(NodeTargets, AnotherOneThanTheRecordedInItsPlaceIsRefused) {
  for (const bool drained : {false, true}) {
    TargetList list;
    ASSERT_TRUE(load_records(folder_, &list).ok());
    list.records[1].drained = drained;
    ASSERT_TRUE(save_records(folder_, list).ok());
    take_away(1);
    config_.create_targets = true;
    ASSERT_TRUE(prepare().ok());
    const std::string now = to_hex(targets_[1].info.super.target_uuid);
    std::filesystem::remove(path(1));
    bring_back(1);
    config_.accept_stale = true;
    const std::string records = content("targets.list"), super = head_of(1);
    const Failure failure = prepare();
    EXPECT_EQ(failure.exit_code, kExitTargetRefused);
    for (const std::string& said : {path(1), now, uuid_, std::string("erase the first MiB")})
      EXPECT_NE(failure.text.find(said), std::string::npos) << failure.text;
    EXPECT_EQ(content("targets.list"), records);
    EXPECT_EQ(head_of(1), super);
    erase_head(1);
    ASSERT_TRUE(prepare().ok());
    EXPECT_TRUE(targets_[1].info.formatted_now);
    uuid_ = to_hex(targets_[1].info.super.target_uuid);
  }
}

// A start was killed between a format and the list: what it made is of the list's generation.
TEST_F(NodeTargets, WhatAnUnfinishedStartMadeIsTaken) {
  const std::string list = content("targets.list");
  std::filesystem::remove(path(1));
  config_.create_targets = true;
  ASSERT_TRUE(prepare().ok());
  std::string cut = list;  // as it stands before the first target is touched
  cut.replace(cut.find(" 1 1 1+0"), 8, " 2 1 1+0");
  ASSERT_EQ(replace_file(folder_ + "/targets.list", cut, Durability::kNone), 0);
  ASSERT_TRUE(prepare().ok());
  EXPECT_TRUE(targets_[1].lost.ok() && !targets_[1].info.formatted_now);
  EXPECT_EQ(targets_[1].witness.from, 2u) << "it cannot speak for what was before";
}

TEST(NodeTarget, DescriptorsAreNoFaultOfATarget) {
  EXPECT_EQ(refusal(0, "x", Status(Code::kOverloaded, "descriptors", EMFILE)).exit_code,
            kExitEnvironment);
}

}  // namespace
}  // namespace varve
