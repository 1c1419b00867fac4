// Goal: a file's head and blocks are what the key says, on every machine. The store itself needs a
// node: tests/e2e/kvctl_test.cc.
#include "tools/kvctl/file_store.h"

#include <gtest/gtest.h>

#include <tuple>

namespace varve::kvctl {
namespace {

TEST(FileStore, CutsAFileWithItsHeadInBlocks) {
  EXPECT_EQ(file_blocks(0), 1u);
  EXPECT_EQ(file_blocks(kFileBlockBytes - sizeof(FileHead)), 1u);
  EXPECT_EQ(file_blocks(kFileBlockBytes - sizeof(FileHead) + 1), 2u);
  EXPECT_EQ(file_blocks(3 * kMiB), 4u);
  EXPECT_EQ(file_blocks(kFileBytesMax), 16385u);
}

TEST(FileStore, NamesBlocksByTheKeyAndTheirPlace) {
  Digest key;
  key.bytes[0] = std::byte{1};
  Digest other = key;
  other.bytes[31] = std::byte{1};
  EXPECT_EQ(block_hash(key, 0), block_hash(key, 0));
  EXPECT_NE(block_hash(key, 0), block_hash(key, 1));
  EXPECT_NE(block_hash(key, 0), block_hash(other, 0));
}

// What another version put must be found by this one: these may never change.
TEST(FileStore, IsTheSameInEveryVersion) {
  EXPECT_EQ(to_hex(file_format().fingerprint().bytes).substr(0, 16), "9f8f4bf20fac8754");
  EXPECT_EQ(to_hex(block_hash(Digest(), 7).bytes).substr(0, 16), "95f1f8ffe5b54fd4");
}

// Goal: a script tells a node that went away from a refusal and from content that is wrong, and the
// sentence has a remedy.
TEST(FileStore, TellsFailuresOfTheDataPlaneApart) {
  const std::vector<std::tuple<Code, Exit, std::string>> all = {
      {Code::kUnavailable, Exit::kUnreached, "UNAVAILABLE"},
      {Code::kUnauthorized, Exit::kDenied, "UNAUTHENTICATED"},
      {Code::kTimedOut, Exit::kTimedOut, "DEADLINE_EXCEEDED"},
      {Code::kCorrupt, Exit::kFailed, "DATA_LOSS"},
      {Code::kOverloaded, Exit::kFailed, "RESOURCE_EXHAUSTED"},
      {Code::kQuota, Exit::kFailed, "RESOURCE_EXHAUSTED"},
      {Code::kNoSpace, Exit::kFailed, "RESOURCE_EXHAUSTED"},
      {Code::kUnsupported, Exit::kFailed, "FAILED_PRECONDITION"},
      {Code::kIo, Exit::kFailed, "INTERNAL"}};
  for (const auto& [code, exit, name] : all) {
    const Outcome outcome = store_failed("block 3 did not come", Status(code, "cause"));
    EXPECT_EQ(outcome.exit, exit) << name;
    EXPECT_EQ(outcome.code, name);
    EXPECT_EQ(outcome.text.rfind("block 3 did not come: cause (", 0), 0u) << outcome.text;
    EXPECT_NE(outcome.text.find("); "), std::string::npos) << outcome.text;
  }
}

// A limit of one client is over when what it has under way is; purging would help nobody.
TEST(FileStore, TellsNobodyToPurgeForALimitOfHisOwn) {
  const std::string text = store_failed("it is refused", Status(Code::kQuota, "cause")).text;
  EXPECT_EQ(text.find("purge"), std::string::npos) << text;
  EXPECT_NE(text.find("try again"), std::string::npos) << text;
}

TEST(FileStore, RefusesHeadsThatAreNotTheFiles) {
  Digest key;
  key.bytes[3] = std::byte{9};
  const FileHead good = head_of(key, 5);
  EXPECT_EQ(bad_head(good, key), "");
  FileHead head = good;
  head.magic[0] = 'x';
  EXPECT_NE(bad_head(head, key), "");
  head = good;
  head.version = 2;
  EXPECT_NE(bad_head(head, key), "");
  head = good;
  head.file_bytes = kFileBytesMax + 1;
  EXPECT_NE(bad_head(head, key), "");
  EXPECT_NE(bad_head(good, Digest()), "");
}

}  // namespace
}  // namespace varve::kvctl
