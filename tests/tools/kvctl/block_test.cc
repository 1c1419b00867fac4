// Goal: where a block lies, what it lacks, and how far a prefix reaches, are read at a glance.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/kvctl/fake_node.h"

namespace varve::kvctl {
namespace {

const std::string kId(64, 'a');

TEST(Locate, NamesEachFragment) {
  FakeNode node;
  node.GetStatus_answer().set_k(2);
  v1::FindBlockResponse& found = node.FindBlock_answer();
  found.set_found(true);
  found.set_shard(1);
  v1::Block* block = found.add_blocks();
  block->set_state(v1::BLOCK_STATE_FLASH);
  block->set_in_dram(true);
  block->set_lacking(1);
  for (uint32_t position : {0u, 2u}) {
    v1::Fragment* fragment = block->add_fragments();
    fragment->set_position(position);
    fragment->set_target(position + 5);
    fragment->set_pages(3);
    fragment->set_readable(position == 0);
  }
  const Said said = node.kvctl({"block", "locate", kId});
  EXPECT_EQ(node.FindBlock_request.base_id(), std::string(32, '\xaa'));
  for (const char* mark : {"shard 1", "on flash and in DRAM", "LACKS 1 fragment", "data", "parity",
                           "12.0 KiB", "UNREADABLE"})
    EXPECT_NE(said.out.find(mark), std::string::npos) << mark << "\n" << said.out;
}

TEST(Locate, AnswersThatNothingIsThere) {
  FakeNode node;
  const Said said = node.kvctl({"block", "locate", kId});
  EXPECT_EQ(said.exit, Exit::kDone);
  EXPECT_EQ(said.out, "it is not there\n");
  EXPECT_EQ(node.kvctl({"--json", "block", "locate", kId}).json()["found"], false);
  EXPECT_EQ(node.FindBlock_request.domain(), "");
  EXPECT_EQ(node.kvctl({"block", "locate", kId, "--domain", "team-a"}).exit, Exit::kDone);
  EXPECT_EQ(node.FindBlock_request.domain(), "team-a");
  EXPECT_EQ(node.kvctl({"block", "locate", "aa"}).exit, Exit::kUsage);
}

TEST(Match, SumsUpNeighbours) {
  FakeNode node;
  v1::MatchPrefixResponse& matched = node.MatchPrefix_answer();
  matched.set_length(3);
  for (const v1::TierKind tier :
       {v1::TIER_KIND_DRAM, v1::TIER_KIND_DRAM, v1::TIER_KIND_FLASH, v1::TIER_KIND_NONE})
    matched.add_tiers(tier);
  const Said said = node.kvctl({"match", kId, "--ranks", "4"});
  EXPECT_EQ(said.out,
            "hit: the first 3 of 4 ids\n"
            "  0 to 1: in DRAM\n"
            "  2: on flash\n"
            "  3: miss\n");
  EXPECT_EQ(node.MatchPrefix_request.rank_count(), 4u);
  EXPECT_EQ(node.kvctl({"match", kId, "--format", "abababab"}).exit, Exit::kDone);
  EXPECT_EQ(node.MatchPrefix_request.fingerprint(), std::string(4, '\xab'));
  EXPECT_EQ(node.kvctl({"match", kId, "--format", "abababab", "--ranks", "1"}).exit, Exit::kUsage);
  EXPECT_EQ(node.kvctl({"match", kId, "--domain", "team-a"}).exit, Exit::kDone);
  EXPECT_EQ(node.MatchPrefix_request.domain(), "team-a");
  EXPECT_EQ(node.kvctl({"match", kId}).exit, Exit::kDone);
  EXPECT_EQ(node.MatchPrefix_request.rank_count(), 1u);
}

}  // namespace
}  // namespace varve::kvctl
