// Goal: what was purged never comes back, what was not is still there, over the real flash and
// index. Method: the rig of the shard; purges by parts as sessions send them, power cuts, stops,
// other numbers of shards, targets pulled out.
#include <gtest/gtest.h>

#include <vector>

#include "tests/server/shard/shard_rig.h"

namespace varve {
namespace {

uint64_t purge_blocks(ShardRig& node, uint32_t n) {
  auto request = std::make_unique<RequestIds>();
  request->count = 1;
  request->ids[0] = node.id(n);
  request->positions[0] = 0;
  PurgePart part;
  part.request = request.get();
  part.end = 1;
  EXPECT_TRUE(node.ask(node.home(n), part).ok()) << part.status.what();
  return part.blocks;
}

// As a session does: one home raises, all walk.
uint64_t purge_lineage(ShardRig& node, uint64_t lineage) {
  PurgePart raise;
  raise.what = lineage == 0 ? wire::PurgeKind::kDomain : wire::PurgeKind::kLineage;
  raise.lineage = lineage;
  raise.raise = true;
  EXPECT_TRUE(node.ask(*node.shards[0], raise).ok()) << raise.status.what();
  uint64_t blocks = 0;
  for (const auto& shard : node.shards) {
    PurgePart walk;
    walk.what = raise.what;
    walk.lineage = lineage;
    walk.rows = raise.rows;
    EXPECT_TRUE(node.ask(*shard, walk).ok());
    blocks += walk.blocks;
  }
  return blocks;
}

ShardRigOptions of_scheme(Scheme scheme, uint32_t shards) {
  ShardRigOptions options;
  options.scheme = scheme;
  options.targets = std::max(2u, scheme.width());
  options.shards = shards;
  options.arena_bytes = 16 * kMiB;
  return options;
}

TEST(ShardPurge, BlocksStayAwayAfterPowerCutsAndStops) {
  for (const Scheme scheme : {Scheme{1, 0}, Scheme{1, 1}, Scheme{2, 1}}) {
    SCOPED_TRACE(scheme.text());
    ShardRig node(of_scheme(scheme, 2));
    for (uint32_t n = 0; n < 12; ++n)
      ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok()) << n;
    node.stop();  // checkpoints list all of them
    node.boot();
    for (uint32_t n = 0; n < 6; ++n) {
      EXPECT_EQ(purge_blocks(node, n), 1u);
      EXPECT_FALSE(node.has(n));
      EXPECT_EQ(node.pull(n), Code::kUnavailable);
    }
    ASSERT_TRUE(node.push(0, wire::AckKind::kDurable).ok());  // again: another attempt
    for (const bool cut : {true, false, true}) {
      if (cut) node.kill();
      if (!cut) node.stop();
      node.boot();
      EXPECT_EQ(node.pull(0), Code::kOk);
      for (uint32_t n = 1; n < 6; ++n)
        EXPECT_FALSE(node.has(n)) << n;
      for (uint32_t n = 6; n < 12; ++n)
        EXPECT_EQ(node.pull(n), Code::kOk) << n;
    }
    node.gone();
    node.expect_at_rest();
  }
}

TEST(ShardPurge, ALineageAndTheDomainStayAwayWhatComesAfterStays) {
  ShardRig node(of_scheme({2, 1}, 2));
  node.format.lineage = 111;
  for (uint32_t n = 0; n < 6; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok()) << n;
  node.format.lineage = 222;
  for (uint32_t n = 6; n < 10; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok()) << n;
  node.stop();
  node.boot();
  EXPECT_EQ(purge_lineage(node, 111), 6u);
  node.format.lineage = 111;
  ASSERT_TRUE(node.push(3, wire::AckKind::kDurable).ok());
  node.kill();
  node.boot();
  EXPECT_EQ(node.pull(3), Code::kOk);
  for (const uint32_t n : {0u, 1u, 2u, 4u, 5u})
    EXPECT_FALSE(node.has(n)) << n;
  for (uint32_t n = 6; n < 10; ++n)
    EXPECT_EQ(node.pull(n), Code::kOk) << n;
  EXPECT_EQ(purge_lineage(node, 0), 5u);
  node.kill();
  node.boot();
  for (uint32_t n = 0; n < 10; ++n)
    EXPECT_FALSE(node.has(n)) << n;
  node.expect_at_rest();
}

// Cached blocks that a power cut may find half written: gone either way, and nothing else is.
TEST(ShardPurge, BlocksOnTheirWayToFlashStayAway) {
  ShardRig node(of_scheme({2, 1}, 1));
  for (uint32_t n = 0; n < 8; ++n) {
    ASSERT_TRUE(node.push(n, wire::AckKind::kCached).ok()) << n;
    EXPECT_EQ(purge_blocks(node, n), 1u) << n;
    EXPECT_FALSE(node.has(n));
  }
  node.run_for(kSecond);
  node.expect_at_rest();
  node.kill();
  node.boot();
  for (uint32_t n = 0; n < 8; ++n)
    EXPECT_FALSE(node.has(n)) << n;
}

}  // namespace
}  // namespace varve
