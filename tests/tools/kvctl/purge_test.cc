// Goal: a purge ends exactly what was named, in one of four ways, never two.
#include <gtest/gtest.h>

#include "common/time/time.h"
#include "tests/tools/kvctl/fake_node.h"

namespace varve::kvctl {
namespace {

const std::string kId(64, 'a');

TEST(Purge, NamesOneThing) {
  FakeNode node;
  for (const auto& wrong :
       std::vector<std::vector<std::string>>{{"purge"},
                                             {"purge", kId, "--all"},
                                             {"purge", "--all", "--lineage", "a"},
                                             {"purge", "--format", "abababab", "--lineage", "a"},
                                             {"purge", "--format", "zz"}}) {
    std::vector<std::string> arguments = wrong;
    arguments.emplace_back("--yes");
    EXPECT_EQ(node.kvctl(arguments).exit, Exit::kUsage) << arguments.size();
  }
  EXPECT_TRUE(node.asked.empty());
  EXPECT_EQ(node.kvctl({"--yes", "purge", kId}).exit, Exit::kDone);
  EXPECT_EQ(node.Purge_request.kind(), v1::PURGE_KIND_BLOCKS);
  EXPECT_EQ(node.Purge_request.base_ids_size(), 1);
  EXPECT_EQ(node.kvctl({"--yes", "purge", "--lineage", "a", "--domain", "d"}).exit, Exit::kDone);
  EXPECT_EQ(node.Purge_request.kind(), v1::PURGE_KIND_LINEAGE);
  EXPECT_EQ(node.Purge_request.lineage(), "a");
  EXPECT_EQ(node.Purge_request.domain(), "d");
  EXPECT_NE(node.kvctl({"--yes", "purge", "--lineage", "a"}).out.find("if it is misspelt"),
            std::string::npos)
      << "no block is answered";
  EXPECT_EQ(node.kvctl({"--yes", "purge", "--format", "abababab"}).exit, Exit::kDone);
  EXPECT_EQ(node.Purge_request.fingerprint(), std::string(4, '\xab'));
  EXPECT_EQ(node.kvctl({"--yes", "purge", "--all"}).exit, Exit::kDone);
  EXPECT_EQ(node.Purge_request.kind(), v1::PURGE_KIND_DOMAIN);
}

TEST(Purge, SaysWhatItWouldEndBeforeItAsks) {
  FakeNode node;
  const Said said = node.kvctl({"purge", "--all", "--domain", "team-a"}, "n\n");
  EXPECT_NE(said.err.find("purge everything of domain team-a?"), std::string::npos) << said.err;
}

TEST(Purge, SaysWhatItEnded) {
  FakeNode node;
  v1::PurgeResponse& purged = node.Purge_answer();
  purged.set_blocks(2);
  purged.set_bytes(8192);
  purged.set_generation(3);
  purged.set_erased_ns(120 * kSecond);
  EXPECT_EQ(node.kvctl({"--yes", "purge", "--all"}).out,
            "2 blocks (8.0 KiB) purged, for good, generation 3; the bytes themselves are "
            "overwritten in about 2 min\n");
  purged.set_erased_unknown(true);
  EXPECT_NE(node.kvctl({"--yes", "purge", "--all"}).out.find("nobody can say when"),
            std::string::npos);
  purged.Clear();
  const std::string none = node.kvctl({"--yes", "purge", kId}).out;
  EXPECT_EQ(none.rfind("0 blocks (0 B) purged, for good\nnone of these ids was here", 0), 0u)
      << none;
  EXPECT_EQ(node.kvctl({"--yes", "purge", "--all"}).out, "0 blocks (0 B) purged, for good\n");
}

}  // namespace
}  // namespace varve::kvctl
