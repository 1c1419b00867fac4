// Goal: ids arrive whole or not at all, and a purge never ends more than was named.
// Method: through an in-process channel against a node that is none.
#include <gtest/gtest.h>

#include "tests/server/control/control_rig.h"

namespace varve::control {
namespace {

using Stub = v1::Control::Stub;

TEST(ControlBlock, FindTellsOfEveryFragment) {
  ControlRig rig;
  Block block;
  block.rank = 1;
  block.state = BlockState::kAway;
  block.attempt = {3, 1, 77};
  block.lacking = 1;
  block.fragments.push_back({0, 2, 5, 7, 11, 13, 2, true});
  block.fragments.push_back({2, 0, 5, 1, 0, 7, 1, false});
  rig.node.found.blocks.push_back(block);
  rig.node.found.slice = 5;
  v1::FindBlockRequest in;
  in.set_base_id(bytes32(1));
  v1::FindBlockResponse out;
  ASSERT_TRUE(rig.call(&Stub::FindBlock, in, &out).ok());
  EXPECT_TRUE(out.found());
  ASSERT_EQ(out.blocks_size(), 1);
  const v1::Block& row = out.blocks(0);
  EXPECT_EQ(row.state(), v1::BLOCK_STATE_AWAY);
  EXPECT_EQ(row.attempt().counter(), 77u);
  EXPECT_EQ(row.stored_bytes(), 20u * kPageBytes);
  ASSERT_EQ(row.fragments_size(), 2);
  EXPECT_EQ(row.fragments(0).page(), 11u);
  EXPECT_EQ(row.fragments(0).lead_pages(), 2u);
  EXPECT_FALSE(row.fragments(1).readable());
}

TEST(ControlBlock, NothingFoundIsAnAnswer) {
  ControlRig rig;
  v1::FindBlockRequest in;
  in.set_base_id(bytes32(1));
  v1::FindBlockResponse out;
  ASSERT_TRUE(rig.call(&Stub::FindBlock, in, &out).ok());
  EXPECT_FALSE(out.found());
  in.set_base_id("short");
  EXPECT_EQ(rig.call(&Stub::FindBlock, in, &out).error_code(), grpc::INVALID_ARGUMENT);
}

TEST(ControlBlock, MatchTakesItsRanksFromTheFormatOrAsSaid) {
  ControlRig rig;
  FormatRow row;
  row.format = small_format();
  row.format.ranks.resize(3, row.format.ranks.front());
  row.fingerprint = digest_with(9);
  rig.node.format_rows.push_back(row);
  v1::MatchPrefixRequest in;
  in.add_base_ids(bytes32(1));
  in.add_base_ids(bytes32(2));
  v1::MatchPrefixResponse out;
  EXPECT_EQ(rig.call(&Stub::MatchPrefix, in, &out).error_code(), grpc::INVALID_ARGUMENT);
  in.set_fingerprint(bytes32(9));
  ASSERT_TRUE(rig.call(&Stub::MatchPrefix, in, &out).ok());
  EXPECT_EQ(out.length(), 1u);
  ASSERT_EQ(out.tiers_size(), 2);
  EXPECT_EQ(out.tiers(0), v1::TIER_KIND_FLASH);
  in.set_rank_count(2);
  ASSERT_TRUE(rig.call(&Stub::MatchPrefix, in, &out).ok());
  in.set_rank_count(33);
  EXPECT_EQ(rig.call(&Stub::MatchPrefix, in, &out).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(rig.node.asked, (std::vector<std::string>{"match 2 of 3", "match 2 of 2"}));
}

// Expect: no domain is the default one, and what can be no name of one does not reach the node.
TEST(ControlBlock, LooksSayInWhichDomain) {
  ControlRig rig;
  v1::FindBlockRequest find;
  find.set_base_id(bytes32(1));
  v1::FindBlockResponse found;
  ASSERT_TRUE(rig.call(&Stub::FindBlock, find, &found).ok());
  EXPECT_EQ(rig.node.find_domain, "default");
  find.set_domain("team");
  ASSERT_TRUE(rig.call(&Stub::FindBlock, find, &found).ok());
  EXPECT_EQ(rig.node.find_domain, "team");
  v1::MatchPrefixRequest match;
  match.add_base_ids(bytes32(1));
  match.set_rank_count(1);
  match.set_domain("team");
  v1::MatchPrefixResponse matched;
  ASSERT_TRUE(rig.call(&Stub::MatchPrefix, match, &matched).ok());
  EXPECT_EQ(rig.node.asked, std::vector<std::string>{"match 1 of 1 in team"});
  v1::PurgeRequest purge;
  purge.set_kind(v1::PURGE_KIND_DOMAIN);
  v1::PurgeResponse purged;
  for (const std::string& name : {std::string(65, 'a'), std::string("a\nb")}) {
    find.set_domain(name);
    match.set_domain(name);
    purge.set_domain(name);
    EXPECT_EQ(rig.call(&Stub::FindBlock, find, &found).error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_EQ(rig.call(&Stub::MatchPrefix, match, &matched).error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_EQ(rig.call(&Stub::Purge, purge, &purged).error_code(), grpc::INVALID_ARGUMENT);
  }
  EXPECT_EQ(rig.node.asked.size(), 1u);
  EXPECT_EQ(rig.node.find_domain, "team");
}

TEST(ControlBlock, IdsAreBounded) {
  ControlRig rig;
  v1::MatchPrefixRequest in;
  in.set_rank_count(1);
  v1::MatchPrefixResponse out;
  EXPECT_EQ(rig.call(&Stub::MatchPrefix, in, &out).error_code(), grpc::INVALID_ARGUMENT);
  for (uint32_t i = 0; i < kIdsMax; ++i)
    in.add_base_ids(bytes32(static_cast<uint8_t>(i)));
  EXPECT_TRUE(rig.call(&Stub::MatchPrefix, in, &out).ok());
  in.add_base_ids(bytes32(0));
  EXPECT_EQ(rig.call(&Stub::MatchPrefix, in, &out).error_code(), grpc::INVALID_ARGUMENT);
}

TEST(ControlBlock, PurgeOfEachKindReachesTheNode) {
  ControlRig rig;
  rig.node.purged = {4, 5, 6, 7, false};
  rig.node.format_rows.push_back({digest_with(9), small_format("fork"), true, 0, 0, 0});
  v1::PurgeRequest in;
  in.set_kind(v1::PURGE_KIND_BLOCKS);
  in.add_base_ids(bytes32(1));
  v1::PurgeResponse out;
  ASSERT_TRUE(rig.call(&Stub::Purge, in, &out).ok());
  EXPECT_EQ(out.generation(), 4u);
  EXPECT_EQ(out.bytes(), 6u);
  EXPECT_EQ(rig.node.purge_ask.ids, std::vector<BaseId>{digest_with(1)});
  EXPECT_EQ(rig.node.purge_ask.domain, "default");
  in.Clear();
  in.set_kind(v1::PURGE_KIND_LINEAGE);
  in.set_lineage("main");
  ASSERT_TRUE(rig.call(&Stub::Purge, in, &out).ok());
  EXPECT_EQ(rig.node.purge_ask.lineage, "main");
  in.set_fingerprint(bytes32(9));
  ASSERT_TRUE(rig.call(&Stub::Purge, in, &out).ok());
  EXPECT_EQ(rig.node.purge_ask.lineage, "fork");
  in.Clear();
  in.set_kind(v1::PURGE_KIND_DOMAIN);
  in.set_domain("team");
  ASSERT_TRUE(rig.call(&Stub::Purge, in, &out).ok());
  EXPECT_EQ(rig.node.purge_ask.kind, PurgeKind::kDomain);
  EXPECT_EQ(rig.node.purge_ask.domain, "team");
  // Expect: it has more time than other calls.
  EXPECT_GT(rig.node.limit_ns, 30 * kSecond);
}

TEST(ControlBlock, PurgeThatSaysTwoThingsPurgesNothing) {
  ControlRig rig;
  v1::PurgeResponse out;
  const auto refused = [&](const v1::PurgeRequest& in) {
    const grpc::Status status = rig.call(&Stub::Purge, in, &out);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << status.error_message();
  };
  v1::PurgeRequest in;
  refused(in);  // no kind
  in.set_kind(v1::PURGE_KIND_BLOCKS);
  refused(in);  // no ids
  in.add_base_ids("short");
  refused(in);
  in.set_base_ids(0, bytes32(1));
  in.set_lineage("main");
  refused(in);  // of both
  in.Clear();
  in.set_kind(v1::PURGE_KIND_DOMAIN);
  in.add_base_ids(bytes32(1));
  refused(in);
  in.Clear();
  in.set_kind(v1::PURGE_KIND_LINEAGE);
  refused(in);  // of which?
  in.set_lineage("");
  refused(in);
  EXPECT_TRUE(rig.node.asked.empty());
}

}  // namespace
}  // namespace varve::control
