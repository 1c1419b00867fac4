// Goal: a shard put together over real flash keeps its promises across restarts and power cuts:
// what was acknowledged durable is found, byte for byte; what was abandoned is not; nothing is left
// over. Method: memory platters under devices with a volatile write cache, manual time, a tiny
// session that speaks only parts; kill by crash() of the devices, reopen over the same platters.
// Blocks of several fragments in shard_coding_test.cc.
#include <gtest/gtest.h>

#include "tests/server/shard/shard_rig.h"

namespace varve {
namespace {

using Node = ShardRig;
using NodeOptions = ShardRigOptions;

TEST(Shard, StoresAndDeliversABlock) {
  Node node({});
  EXPECT_FALSE(node.has(1));
  EXPECT_TRUE(node.push(1, wire::AckKind::kDurable).ok());
  EXPECT_TRUE(node.has(1));
  EXPECT_EQ(node.pull(1), Code::kOk);
  EXPECT_EQ(node.pull(2), Code::kUnavailable);
  node.expect_at_rest();
}

TEST(Shard, NamesThePoliciesOfItsTiers) {
  Node node({});
  EXPECT_STREQ(node.shards[0]->dram_policy().admission, "admit_all");
  EXPECT_STREQ(node.shards[0]->dram_policy().eviction, "lru");
  EXPECT_STREQ(node.shards[0]->flash_policy().admission, "every_commit");
  EXPECT_STREQ(node.shards[0]->flash_policy().eviction, "leaf_first_lru");
  NodeOptions nothing;
  nothing.keeps = false;
  Node keeps_nothing(nothing);
  EXPECT_STREQ(keeps_nothing.shards[0]->dram_policy().admission, "none");
  EXPECT_STREQ(keeps_nothing.shards[0]->dram_policy().eviction, "none");
}

// Expect: what is pushed is on flash, and in DRAM as long as nobody wants the room.
TEST(Shard, SaysWhatADomainHas) {
  Node node({});
  EXPECT_TRUE(node.shards[0]->domain_use().empty());
  EXPECT_TRUE(node.push(1, wire::AckKind::kDurable).ok());
  EXPECT_EQ(node.pull(1), Code::kOk);
  const std::vector<DomainUse> uses = node.shards[0]->domain_use();
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].domain, kDomainDefault);
  EXPECT_EQ(uses[0].blocks, 1u);
  EXPECT_EQ(uses[0].flash_bytes,
            static_cast<uint64_t>(node.metric("varve_target_live_bytes", "target=\"0\"") +
                                  node.metric("varve_target_live_bytes", "target=\"1\"")));
  EXPECT_EQ(uses[0].dram_bytes, node.shards[0]->tier().used_bytes(Budget::kResident));
  EXPECT_GT(uses[0].dram_bytes, 0u);
}

TEST(Shard, FindsEveryDurableBlockAfterAPowerCut) {
  NodeOptions options;
  options.arena_bytes = 16 * kMiB;  // for nine blocks that are not yet flushed
  Node node(options);
  for (uint32_t n = 0; n < 60; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok()) << n;
  for (uint32_t n = 100; n < 108; ++n)
    EXPECT_TRUE(node.push(n, wire::AckKind::kCached).ok());
  const GrantLoan abandoned = node.reserve(200);
  node.fill(abandoned, 200);
  node.kill();
  node.boot();
  for (uint32_t n = 0; n < 60; ++n) {
    ASSERT_TRUE(node.has(n)) << n;
    EXPECT_EQ(node.pull(n), Code::kOk) << n;
  }
  for (uint32_t n = 100; n < 110; ++n) {
    if (node.has(n)) {
      EXPECT_EQ(node.pull(n), Code::kOk) << "cached: lost or right, never wrong";
    }
  }
  EXPECT_FALSE(node.has(200));
  EXPECT_GE(node.metric("varve_recovered_blocks_total"), 60);
  node.expect_at_rest();
}

TEST(Shard, FindsEverythingAfterAGracefulStop) {
  Node node({});
  for (uint32_t n = 0; n < 30; ++n) {
    EXPECT_TRUE(node.push(n, wire::AckKind::kCached).ok()) << n;
    if (n % 5 == 4) node.run_for(100 * kMillisecond);  // DRAM for eight blocks at most
  }
  node.stop();
  node.boot();
  for (uint32_t n = 0; n < 30; ++n)
    EXPECT_EQ(node.pull(n), Code::kOk) << n;
  node.expect_at_rest();
}

TEST(Shard, ServesWhatAnotherNumberOfShardsWrote) {
  Node node({});
  for (uint32_t n = 0; n < 30; ++n)
    EXPECT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
  for (const uint32_t shards : {4u, 3u, 1u}) {
    node.stop();
    node.options.shards = shards;
    node.boot();
    for (uint32_t n = 0; n < 30; ++n)
      EXPECT_TRUE(node.has(n)) << n << " of " << shards;
    for (uint32_t n = 0; n < 30; n += 7) {
      EXPECT_EQ(node.pull(n), Code::kOk) << n;
    }
  }
  node.expect_at_rest();
}

TEST(Shard, GoesOnByEvictionWhenItsTargetsAreFull) {
  NodeOptions options;
  options.targets = 1;
  options.target_bytes = 16 * kMiB;
  options.slices = 1;
  Node node(options);
  uint32_t refused = 0;
  for (uint32_t n = 0; n < 400; ++n) {  // 220 KiB each: several times the target
    Status status = node.push(n, wire::AckKind::kDurable);
    for (int again = 0; again < 20 && status.code() == Code::kOverloaded; ++again) {
      ++refused;
      node.run_for(50 * kMillisecond);
      status = node.push(n, wire::AckKind::kDurable);
    }
    ASSERT_TRUE(status.ok()) << n << " " << code_name(status.code());
  }
  EXPECT_GT(node.metric("varve_evicted_blocks_total") +
                node.metric("varve_reclaim_fragments_total", "verdict=\"dropped\""),
            200);
  uint32_t found = 0;
  for (uint32_t n = 0; n < 400; ++n) {
    if (!node.has(n)) continue;
    ++found;
    EXPECT_EQ(node.pull(n), Code::kOk) << n;
  }
  EXPECT_GT(found, 20u);
  EXPECT_TRUE(node.has(399));
  node.expect_at_rest();
}

TEST(Shard, KeepsALeasedBlockThroughAFloodOfPushes) {
  NodeOptions options;
  options.targets = 1;
  options.target_bytes = 16 * kMiB;
  options.slices = 1;
  options.lease_ms_max = 60000;
  Node node(options);
  ASSERT_TRUE(node.push(7, wire::AckKind::kDurable).ok());
  ASSERT_TRUE(node.push(8, wire::AckKind::kDurable).ok());
  LeaseId lease = 0;
  ASSERT_TRUE(node.has(7, 60000, &lease));
  for (uint32_t n = 100; n < 300; ++n) {
    if (!node.push(n, wire::AckKind::kCached).ok()) node.run_for(50 * kMillisecond);
  }
  EXPECT_FALSE(node.has(8)) << "evicted long ago";
  EXPECT_TRUE(node.has(7));
  EXPECT_EQ(node.pull(7), Code::kOk);
  node.gone();
  node.expect_at_rest();
}

TEST(Shard, KeepsRecoveredBlocksForTheLongestLease) {
  NodeOptions options;
  options.targets = 1;
  options.target_bytes = 16 * kMiB;
  options.slices = 1;
  options.lease_ms_max = 60000;
  Node node(options);
  for (uint32_t n = 0; n < 20; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
  node.kill();
  node.boot();
  for (uint32_t n = 100; n < 250; ++n) {
    if (!node.push(n, wire::AckKind::kCached).ok()) node.run_for(10 * kMillisecond);
  }
  for (uint32_t n = 0; n < 20; ++n)
    EXPECT_TRUE(node.has(n)) << n;
  node.expect_at_rest();
}

TEST(Shard, EndsADrainOnlyWhenEveryCommitIsOnFlash) {
  Node node({});
  const GrantLoan loan = node.reserve(1);
  node.fill(loan, 1);
  node.shards[0]->drain();
  node.run_for(100 * kMillisecond);
  EXPECT_FALSE(node.shards[0]->drained()) << "an attempt is live";
  EXPECT_EQ(node.reserve(2).code, Code::kUnavailable);
  CommitPart part;
  part.push = loan.push;
  part.attempt = loan.attempt;
  part.epoch = 1;
  EXPECT_TRUE(node.ask(*node.shards[0], part).ok());
  node.stop();
  node.boot();
  EXPECT_EQ(node.pull(1), Code::kOk);
}

TEST(Shard, GoesOnWithOneTargetOfTwo) {
  Node node({});
  for (uint32_t n = 0; n < 20; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
  node.devices[0]->vanish();
  uint32_t stored = 0;
  for (uint32_t n = 100; n < 140; ++n) {
    if (node.push(n, wire::AckKind::kDurable).ok()) ++stored;
  }
  EXPECT_GE(stored, 30u) << "the first pushes may meet the target as it fails";
  for (uint32_t n = 0; n < 20; ++n) {
    const Code code = node.pull(n);
    EXPECT_TRUE(code == Code::kOk || code == Code::kUnavailable || code == Code::kIo)
        << code_name(code);
  }
  EXPECT_EQ(node.metric("varve_target_ok_shards", "target=\"0\""), 0);
  EXPECT_EQ(node.metric("varve_target_ok_shards", "target=\"1\""), 1);
  node.expect_at_rest();
}

// Goal: what a client says of its format must never stop the daemon: refused, and all is well.
TEST(Shard, RefusesAPullOfAnotherFormatWithSmallerExtents) {
  Node node({});
  EXPECT_TRUE(node.push(1, wire::AckKind::kDurable).ok());
  node.stop();
  node.boot();
  for (const uint32_t bytes : {4096u, 69000u, 300000u}) {
    SessionFormat other;
    other.format.model.bytes[0] = std::byte{2};
    other.format.ranks.push_back(std::vector<LayerSpec>(3, {LayerKind::kFull, bytes}));
    other.fingerprint = other.format.fingerprint();
    other.tables.push_back(*ExtentTable::of(other.format.ranks[0], Scheme{}));
    std::swap(other, node.format);
    EXPECT_EQ(node.pull(1), Code::kInvalid) << bytes;
    std::swap(other, node.format);
  }
  EXPECT_EQ(node.pull(1), Code::kOk);
  node.expect_at_rest();
}

// Goal: what lies on a failed target is a miss, and may be written again elsewhere.
TEST(Shard, BlocksOfAFailedTargetAreMissesAndMayBeWrittenAgain) {
  Node node({});
  for (uint32_t n = 0; n < 20; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
  node.stop();
  node.boot();
  node.devices[0]->vanish();
  for (uint32_t n = 0; n < 20; ++n)
    (void)node.pull(n);
  node.run_for(5 * kSecond);
  ASSERT_EQ(node.metric("varve_target_ok_shards", "target=\"0\""), 0);
  uint32_t missed = 0;
  for (uint32_t n = 0; n < 20; ++n) {
    if (node.pull(n) == Code::kOk) continue;
    ++missed;
    EXPECT_FALSE(node.has(n)) << "match says hit, pull cannot";
    EXPECT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
    EXPECT_EQ(node.target_of(n), 1u);
    EXPECT_EQ(node.pull(n), Code::kOk);
  }
  EXPECT_GT(missed, 0u);
  EXPECT_GE(node.metric("varve_lost_fragments_total", "reason=\"target_lost\""), missed);
  EXPECT_GE(node.metric("varve_lost_blocks_total"), missed);
  node.expect_at_rest();
}

// Goal: who asked for durable and was told "exists" finds the block after a power cut.
TEST(Shard, ExistsIsAsDurableAsWasAsked) {
  Node node({});
  for (uint32_t n = 0; n < 6; ++n) {
    ASSERT_TRUE(node.push(n, wire::AckKind::kCached).ok());
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
  }
  node.kill();
  node.boot();
  for (uint32_t n = 0; n < 6; ++n)
    EXPECT_TRUE(node.has(n)) << n;
}

// Goal: a target that takes no request stops nobody's pushes and pulls of the other one.
// Goal: whoever waits for the reads of a stuck target hears of its end when it fails, also those
// that stand in no queue because its share of reads is full.
TEST(Shard, PullsThatWaitForAStuckTargetEndWhenItFails) {
  NodeOptions options;
  options.arena_bytes = 16 * kMiB;
  Node node(options);
  std::vector<uint32_t> stuck;
  for (uint32_t n = 0; n < 40; ++n) {
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
    if (node.target_of(n) == 0) stuck.push_back(n);
  }
  node.stop();
  node.boot();
  node.devices[0]->stuck_set(true);
  ::testing::internal::CaptureStderr();
  std::vector<std::unique_ptr<Node::Parked>> parked;
  for (uint32_t i = 0; i < 12; ++i)
    parked.push_back(node.park(stuck[i % stuck.size()]));
  node.run_for(5 * kSecond);
  EXPECT_EQ(node.metric("varve_target_suspect", "target=\"0\""), 1);
  EXPECT_EQ(node.metric("varve_target_suspect", "target=\"1\""), 0);
  EXPECT_EQ(node.metric("varve_target_limbo", "target=\"0\""), 0);
  node.run_for(7 * kSecond);  // io_ns_max is 10 s
  const std::string said = ::testing::internal::GetCapturedStderr();
  const size_t at = said.find("target 0 shard 0 is suspect");
  EXPECT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find("is suspect", at + 20), std::string::npos) << "once";
  EXPECT_EQ(node.metric("varve_target_suspect", "target=\"0\""), 0) << "it has failed";
  EXPECT_GT(node.metric("varve_target_limbo", "target=\"0\""), 0);
  EXPECT_EQ(node.metric("varve_target_ok_shards", "target=\"0\""), 0);
  for (const auto& pull : parked) {
    EXPECT_TRUE(pull->back);
    EXPECT_EQ(static_cast<Code>(pull->code), Code::kUnavailable);
  }
  node.devices[0]->stuck_set(false);
  node.run_for(kSecond);
  EXPECT_EQ(node.metric("varve_target_limbo", "target=\"0\""), 0) << "it gave all back";
}

TEST(Shard, OneStuckTargetLeavesTheOtherItsPushesAndPulls) {
  NodeOptions options;
  options.arena_bytes = 16 * kMiB;
  Node node(options);
  std::vector<uint32_t> stuck, others;
  for (uint32_t n = 0; n < 40; ++n) {
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
    (node.target_of(n) == 0 ? stuck : others).push_back(n);
  }
  node.stop();
  node.boot();
  node.devices[0]->stuck_set(true);
  const Nanos began_ns = node.clock.now_ns();
  std::vector<std::unique_ptr<Node::Parked>> parked;
  for (uint32_t i = 0; i < 12; ++i)  // fewer than all pulls, more pages than half of the budget
    parked.push_back(node.park(stuck[i % stuck.size()]));
  for (uint32_t n = 100; n < 200; ++n) {
    EXPECT_TRUE(node.push(n, wire::AckKind::kCached).ok()) << n;
    node.run_for(10 * kMillisecond);  // time for its write, where it can be written
  }
  for (const uint32_t n : others)
    EXPECT_EQ(node.pull(n), Code::kOk) << n;
  EXPECT_LT(node.clock.now_ns() - began_ns, 8 * kSecond) << "before the target counts as failed";
  EXPECT_EQ(node.metric("varve_target_ok_shards", "target=\"0\""), 1);
  node.devices[0]->stuck_set(false);
  EXPECT_TRUE(node.run_until([&] {
    for (const auto& pull : parked) {
      if (!pull->back) return false;
    }
    return true;
  }));
  for (const auto& pull : parked)
    EXPECT_EQ(pull->code, 0);
  node.expect_at_rest();
}

TEST(Shard, ReportsItsIndexAndItsTargets) {
  Node node({});
  EXPECT_TRUE(node.push(1, wire::AckKind::kDurable).ok());
  EXPECT_EQ(node.metric("varve_index_blocks"), 1);
  EXPECT_EQ(node.metric("varve_index_blocks_limit"), 2048);
  EXPECT_EQ(node.metric("varve_index_thin_blocks"), 0);
  EXPECT_GT(node.metric("varve_target_capacity_bytes", "target=\"0\""), int64_t{32} << 20);
  EXPECT_EQ(node.metric("varve_push_committed_total", "ack=\"durable\""), 1);
  EXPECT_EQ(node.metric("varve_recovering"), 0);
}

TEST(Shard, RefusesSettingsThatCannotWorkByName) {
  ManualClock clock;
  SeededEntropy entropy(1);
  NoFabric fabric;
  Env env{clock, entropy, fabric};
  Reactor reactor(clock, nullptr, {});
  std::vector<std::byte> memory(2 * kPageBytes);
  std::byte* base = memory.data();
  base += (kPageBytes - reinterpret_cast<uintptr_t>(base) % kPageBytes) % kPageBytes;
  const ByteSpan arena(base, kPageBytes);
  MemoryPlatter platter(32 * kMiB);
  const std::byte uuid[16] = {};
  flash::TargetOptions target;
  target.geometry = {.slices = 4, .segment_pages = 256};
  flash::TargetInfo info = *flash::prepare_platter(platter, target, uuid, entropy);
  const auto refused = [&](const ShardOptions& options, bool with_target) {
    std::vector<flash::TargetInfo> targets;
    std::vector<std::unique_ptr<BlockDevice>> devices;
    if (with_target) {
      targets.push_back(info);
      devices.push_back(make_memory_device(reactor, platter, {}));
    }
    auto shard = Shard::open(env, reactor, arena, targets, std::move(devices), options);
    return shard.has_value() ? Code::kOk : shard.error().code();
  };
  ShardOptions good;
  good.tier.blocks_max = 4;
  EXPECT_EQ(refused(good, true), Code::kOk);
  EXPECT_EQ(refused(good, false), Code::kInvalid);
  ShardOptions options = good;
  options.shards = 5;
  EXPECT_EQ(refused(options, true), Code::kInvalid) << "more shards than slices";
  options = good;
  options.tier.limit_bytes[0] = 2 * kPageBytes;
  EXPECT_EQ(refused(options, true), Code::kInvalid) << "budgets beyond the arena";
  options = good;
  options.scheme = {2, 1};
  EXPECT_EQ(refused(options, true), Code::kInvalid) << "a target of another scheme";
  info.super.k = 2;
  info.super.m = 1;
  EXPECT_EQ(refused(options, true), Code::kInvalid) << "one target for blocks of two";
}

// Goal: one bad sector costs one block, not its drive.
TEST(Shard, OneBadSectorDoesNotFailItsTarget) {
  NodeOptions options;
  options.targets = 1;
  Node node(options);
  for (uint32_t n = 0; n < 20; ++n)
    ASSERT_TRUE(node.push(n, wire::AckKind::kDurable).ok());
  node.stop();
  node.boot();
  const flash::Place place = node.place_of(1);
  std::vector<std::byte> raw(2 * kPageBytes);
  std::byte* page = raw.data();
  page += (kPageBytes - reinterpret_cast<uintptr_t>(page) % kPageBytes) % kPageBytes;
  ASSERT_TRUE(node.devices[0]->read_now(0, {page, kPageBytes}).ok());
  const auto super = load<flash::Superblock>(ConstByteSpan(page, kPageBytes));
  const uint64_t slice_pages =  // FORMAT 3: two checkpoint areas, then the segments
      2ull * super.checkpoint_pages + uint64_t{super.segments_per_slice} * super.segment_pages;
  const uint64_t at =
      bytes_of(flash::kHeadPages + place.slice * slice_pages + 2ull * super.checkpoint_pages +
               uint64_t{place.segment} * super.segment_pages + place.page);
  node.devices[0]->sector_error_set(at, kPageBytes);
  uint32_t hits = 0;
  for (uint32_t i = 0; i < 10; ++i) {
    hits += node.has(1) ? 1 : 0;
    EXPECT_NE(node.pull(1), Code::kOk);
  }
  EXPECT_LE(hits, 2u) << "a block that cannot be read stays a hit";
  EXPECT_EQ(node.reserve(1).outcome, wire::ReserveOutcome::kGranted) << "and is never written anew";
  EXPECT_EQ(node.metric("varve_target_ok_shards", "target=\"0\""), 1);
  EXPECT_EQ(node.pull(2), Code::kOk);
}

}  // namespace
}  // namespace varve
