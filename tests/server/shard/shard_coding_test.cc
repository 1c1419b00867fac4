// Goal: a block of k + m fragments outlives restarts, power cuts and the loss of m targets, byte
// for byte; with fewer targets it is thin, with fewer than k gone. Method: the rig of the shard
// with schemes of one parity fragment, whose bytes are the sum of the data; targets are pulled out,
// what a reader would rebuild is rebuilt here from LOST and wants.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/server/shard/shard_rig.h"

namespace varve {
namespace {

constexpr Scheme kOneParity[] = {{1, 1}, {2, 1}, {3, 1}};

ShardRigOptions coded(Scheme scheme, uint32_t targets) {
  ShardRigOptions options;
  options.scheme = scheme;
  options.targets = targets;
  options.layers = 5;
  options.arena_bytes = 16 * kMiB;
  return options;
}

// Writes until the shard has noticed that the device is gone.
void lose_target(ShardRig& node, uint32_t target) {
  node.devices[target]->vanish();
  const std::string label = "target=\"" + std::to_string(target) + "\"";
  for (uint32_t n = 5000; n < 5100 && node.metric("varve_target_ok_shards", label) != 0; ++n) {
    (void)node.push(n, wire::AckKind::kDurable);
    node.run_for(100 * kMillisecond);
  }
  ASSERT_EQ(node.metric("varve_target_ok_shards", label), 0);
}

// As a client does: what is lost is the sum of the others of its stripe. How many were.
uint32_t rebuild_all(ShardRig& node, uint32_t n) {
  const ShardRig::Pulled pulled = node.pull_some(n);
  EXPECT_EQ(pulled.code, Code::kOk) << n;
  const ExtentTable& table = node.format.tables[0];
  EXPECT_EQ(pulled.extents.size() + pulled.lost.size(), table.data_count()) << n;
  for (const auto& [e, note] : pulled.lost) {
    EXPECT_EQ(note.state, wire::LostState::kLost);
    const uint32_t s = table.stripe_at(e);
    std::vector<wire::Want> wants = {{0, table.parity_at(s, 0)}};
    for (uint32_t i = 0; i < table.stripes[s].count; ++i) {
      if (table.stripes[s].first + i != e) wants.push_back({0, table.stripes[s].first + i});
    }
    const ShardRig::Pulled others = node.pull_some(n, wants);
    EXPECT_EQ(others.code, Code::kOk) << n << " " << e;
    EXPECT_EQ(others.extents.size(), wants.size()) << n << " " << e;
    std::vector<std::byte> sum(table.bytes_at(wants[0].extent));
    for (const auto& [i, bytes] : others.extents)
      ShardRig::add(bytes, &sum);
    sum.resize(table.bytes_at(e));
    EXPECT_TRUE(sum == node.extent(n, e)) << n << " " << e;
    ExtentDigest digest(checksum_seed({node.id(n), 0}, e, note.attempt));
    digest.update(sum);
    EXPECT_EQ(digest.stored_crc(), note.entry.stored_crc) << n << " " << e;
  }
  return static_cast<uint32_t>(pulled.lost.size());
}

TEST(ShardCoding, FindsEveryDurableBlockAfterAPowerCutAndAfterAStop) {
  for (const Scheme scheme : kOneParity) {
    SCOPED_TRACE(scheme.text());
    ShardRig node(coded(scheme, scheme.width()));
    for (uint32_t n = 0; n < 12; ++n)
      ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok()) << n;
    node.kill();
    node.boot();
    for (uint32_t n = 0; n < 12; ++n) {
      ASSERT_TRUE(node.has(n)) << n;
      EXPECT_EQ(node.pull(n), Code::kOk) << n;
    }
    node.stop();
    node.boot();
    for (uint32_t n = 0; n < 12; ++n)
      EXPECT_EQ(node.pull(n), Code::kOk) << n;
    EXPECT_EQ(node.metric("varve_index_blocks"), 12);
    EXPECT_EQ(node.metric("varve_index_thin_blocks"), 0);
    node.expect_at_rest();
  }
}

// Whichever target goes. Expect: every block stays a hit and is whole again by its parity.
TEST(ShardCoding, LosesNothingWithOneTarget) {
  for (const Scheme scheme : kOneParity) {
    for (uint32_t target = 0; target < scheme.width(); ++target) {
      SCOPED_TRACE(scheme.text() + " without " + std::to_string(target));
      ShardRig node(coded(scheme, scheme.width()));
      for (uint32_t n = 0; n < 8; ++n)
        ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok()) << n;
      node.stop();
      node.boot();
      lose_target(node, target);
      uint32_t rebuilt = 0;
      for (uint32_t n = 0; n < 8; ++n) {
        ASSERT_TRUE(node.has(n)) << n;
        rebuilt += rebuild_all(node, n);
      }
      EXPECT_GT(rebuilt, 0u);
      EXPECT_GE(node.metric("varve_index_thin_blocks"), 8);
      node.expect_at_rest();
    }
  }
}

// A push that meets a lost target is stored thin, with all its data.
TEST(ShardCoding, StoresThinWhereTargetsAreTooFew) {
  ShardRig node(coded({2, 1}, 3));
  lose_target(node, 1);
  for (uint32_t n = 0; n < 8; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok()) << n;
  EXPECT_GE(node.metric("varve_index_thin_blocks"), 8);
  node.stop();
  node.boot();  // the target is back, without what was pushed meanwhile
  for (uint32_t n = 0; n < 8; ++n) {
    ASSERT_TRUE(node.has(n)) << n;
    EXPECT_EQ(node.pull(n), Code::kOk) << n;
  }
  // Expect: what lacked a fragment gets it now.
  EXPECT_TRUE(node.run_until([&] { return node.metric("varve_index_thin_blocks") == 0; }));
  node.expect_at_rest();
}

// One target more than the scheme needs. Expect: what the lost one held is made anew on others, and
// stays where a restart without the lost one finds it.
TEST(ShardCoding, MakesTheFragmentsOfALostTargetAnewOnASpareOne) {
  ShardRig node(coded({2, 1}, 4));
  for (uint32_t n = 0; n < 12; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok()) << n;
  node.stop();
  node.boot();
  lose_target(node, 2);
  EXPECT_TRUE(
      node.run_until([&] { return node.metric("varve_index_thin_blocks") == 0; }, 120 * kSecond));
  for (uint32_t n = 0; n < 12; ++n)
    EXPECT_EQ(node.pull(n), Code::kOk) << n;  // nothing LOST
  node.expect_at_rest();
  lose_target(node, 0);
  for (uint32_t n = 0; n < 12; ++n) {
    EXPECT_TRUE(node.has(n)) << n;
    rebuild_all(node, n);
  }
}

TEST(ShardCoding, APolicyPausesRepairAndLetsItGoOn) {
  ShardRig node(coded({2, 1}, 4));
  for (uint32_t n = 0; n < 12; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok()) << n;
  ShardPolicy policy = node.shards[0]->policy();
  const uint64_t bytes_per_s = std::exchange(policy.repair_bytes_per_s, 0);
  node.shards[0]->policy_set(policy);
  lose_target(node, 2);
  node.run_for(60 * kSecond);
  EXPECT_GT(node.metric("varve_index_thin_blocks"), 0);
  EXPECT_TRUE(node.shards[0]->can_drain()) << "when it goes on";
  policy.repair_bytes_per_s = bytes_per_s;
  node.shards[0]->policy_set(policy);
  EXPECT_TRUE(
      node.run_until([&] { return node.metric("varve_index_thin_blocks") == 0; }, 120 * kSecond));
  node.expect_at_rest();
}

// Three targets of 2+1. Expect: repair fills the drive that is put in the place of one that failed,
// after which another may fail; and a start finds it all.
TEST(ShardCoding, FillsTheDriveThatIsPutInThePlaceOfALostOne) {
  ShardRig node(coded({2, 1}, 3));
  for (uint32_t n = 0; n < 12; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok()) << n;
  EXPECT_EQ(node.replace(2).code(), Code::kInvalid) << "it works";
  lose_target(node, 2);
  ASSERT_TRUE(node.run_until([&] { return node.shards[0]->replaceable(2).ok(); }));
  EXPECT_GT(node.metric("varve_index_thin_blocks"), 0);
  ASSERT_TRUE(node.replace(2).ok());
  EXPECT_TRUE(
      node.run_until([&] { return node.metric("varve_index_thin_blocks") == 0; }, 120 * kSecond));
  EXPECT_EQ(node.metric("varve_target_ok_shards", "target=\"2\""), 1);
  EXPECT_GE(node.metric("varve_target_fragments", "target=\"2\""), 12);
  node.expect_at_rest();
  node.kill();
  node.boot();
  lose_target(node, 0);
  for (uint32_t n = 0; n < 12; ++n) {
    EXPECT_TRUE(node.has(n)) << n;
    rebuild_all(node, n);
  }
}

TEST(ShardCoding, MissesWhatMoreThanItsParityTookAndStoresItAgain) {
  ShardRig node(coded({2, 1}, 4));
  for (uint32_t n = 0; n < 8; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok()) << n;
  node.stop();
  node.boot();
  node.devices[0]->vanish();
  node.devices[1]->vanish();
  lose_target(node, 0);
  lose_target(node, 1);
  node.run_for(5 * kSecond);
  for (uint32_t n = 0; n < 8; ++n) {
    if (node.has(n)) {
      rebuild_all(node, n);
      continue;
    }
    EXPECT_TRUE(node.push(n, wire::AckKind::kDurable).ok()) << n;
    EXPECT_EQ(node.pull(n), Code::kOk) << n;
  }
  node.expect_at_rest();
}

// A drive that takes writes and flushes and ends none, and one target to spare. Expect: soon, and
// long before it counts as failed, durable pushes go round it and wait no more.
TEST(ShardCoding, PushesGoRoundATargetThatEndsNoWrites) {
  ShardRig node(coded({2, 1}, 4));
  node.devices[1]->stuck_set(true);
  for (uint32_t n = 0; n < 4; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kCached).ok()) << n;
  node.run_for(1500 * kMillisecond);
  const Nanos began_ns = node.clock.now_ns();
  for (uint32_t n = 100; n < 130; ++n)
    EXPECT_TRUE(node.push(n, wire::AckKind::kDurable).ok()) << n;
  EXPECT_LT(node.clock.now_ns() - began_ns, kSecond);
  EXPECT_EQ(node.metric("varve_target_ok_shards", "target=\"1\""), 1);
  node.devices[1]->stuck_set(false);
  node.expect_at_rest();
}

}  // namespace
}  // namespace varve
