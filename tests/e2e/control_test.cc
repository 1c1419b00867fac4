// Goal: what the operator is told of a real node is so, and what he asks for happens and lasts.
// Method: the varved of this build, engines that push, match and pull through it, and the generated
// client of the control plane beside them. Everything waited for is a state; times are bounds.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/e2e/control_node.h"

namespace varve {
namespace {

TEST_F(ControlOfANode, TellsWhatIsThereAndPurgesIt) {
  start();
  Engine writer(real.daemon().address(), "writer");
  const std::vector<BaseId> ids = writer.ids(1), others = writer.ids(2);
  writer.store_blocks(ids);
  writer.store_blocks(others);

  v1::GetStatusResponse status;
  ASSERT_TRUE(ask(&Stub::GetStatus, v1::GetStatusRequest(), &status).ok());
  EXPECT_TRUE(status.ready()) << status.ready_why_not();
  EXPECT_EQ(status.k(), 2u);
  EXPECT_EQ(status.shards_size(), 2);
  EXPECT_EQ(status.listen(), real.daemon().address());
  EXPECT_EQ(status.control(), address);

  const v1::FindBlockResponse found = find(ids[0]);
  ASSERT_TRUE(found.found());
  ASSERT_EQ(found.blocks_size(), 1);
  const v1::Block& block = found.blocks(0);
  EXPECT_EQ(block.state(), v1::BLOCK_STATE_FLASH);
  ASSERT_EQ(block.fragments_size(), 3);
  EXPECT_EQ(block.lacking(), 0u);
  uint32_t targets = 0;
  for (const v1::Fragment& fragment : block.fragments()) {
    EXPECT_TRUE(fragment.readable());
    EXPECT_GT(fragment.pages(), fragment.lead_pages());
    targets |= 1u << fragment.target();
  }
  EXPECT_EQ(targets, 7u) << "each on a target of its own";
  EXPECT_FALSE(find(BaseId{}).found());

  // Expect: what was pulled and kept stands in DRAM, pushed is what was committed, without parity.
  EXPECT_EQ(writer.pull(ids, 0).codes, std::vector<Code>(kBlocks, Code::kOk));
  constexpr uint64_t kPushed = uint64_t{2} * kBlocks * kLayers * kLayerBytes;
  v1::ListTiersResponse tiers;
  const auto is_counted = [&] {
    return tiers.tiers_size() == 2 && tiers.tiers(0).blocks() > 0 &&
           tiers.tiers(1).blocks() == 2 * kBlocks && status.counts().pushed_bytes() > 0;
  };
  for (Nanos waited = 0; !is_counted() && waited < kPatience; waited += 100 * kMillisecond) {
    pause(100 * kMillisecond);  // the numbers are a second old
    ASSERT_TRUE(ask(&Stub::ListTiers, v1::ListTiersRequest(), &tiers).ok());
    ASSERT_TRUE(ask(&Stub::GetStatus, v1::GetStatusRequest(), &status).ok());
  }
  ASSERT_EQ(tiers.tiers_size(), 2);
  EXPECT_GE(tiers.tiers(0).blocks(), kBlocks);
  EXPECT_GT(tiers.tiers(0).used_bytes(), 0u);
  EXPECT_LE(tiers.tiers(0).used_bytes(), tiers.tiers(0).capacity_bytes());
  EXPECT_EQ(tiers.tiers(1).blocks(), 2 * kBlocks);
  EXPECT_EQ(status.counts().pushed_bytes(), kPushed);

  const uint64_t hits_before = status.counts().hits_dram() + status.counts().hits_flash();
  v1::MatchPrefixResponse matched = match({ids[0], ids[1], BaseId{}, others[0]});
  EXPECT_EQ(matched.length(), 2u);
  ASSERT_EQ(matched.tiers_size(), 4);
  EXPECT_EQ(matched.tiers(2), v1::TIER_KIND_NONE);
  EXPECT_NE(matched.tiers(3), v1::TIER_KIND_NONE);

  const Event leased = writer.match(ids, 30000);
  ASSERT_NE(leased.lease, 0u);
  v1::ListHoldsResponse holds;
  ASSERT_TRUE(ask(&Stub::ListHolds, v1::ListHoldsRequest(), &holds).ok());
  ASSERT_EQ(holds.holds_size(), 1);
  EXPECT_EQ(holds.holds(0).kind(), v1::HOLD_KIND_LEASE);
  EXPECT_EQ(holds.holds(0).client(), "writer");
  EXPECT_EQ(holds.holds(0).blocks(), 2u);
  EXPECT_EQ(find(ids[0]).leases(), 1u);

  // Expect: what is purged is gone for the engine too, leased or not, and the rest stays.
  v1::PurgeRequest purge;
  purge.set_kind(v1::PURGE_KIND_BLOCKS);
  for (const BaseId& id : ids)
    purge.add_base_ids(text_of(id));
  v1::PurgeResponse purged;
  ASSERT_TRUE(ask(&Stub::Purge, purge, &purged).ok());
  EXPECT_EQ(purged.blocks(), 2u);
  EXPECT_EQ(purged.generation(), 0u);
  EXPECT_GT(purged.bytes(), 0u);
  EXPECT_EQ(match(ids).length(), 0u);
  EXPECT_EQ(writer.match(ids).n_blocks, 0u);
  EXPECT_EQ(match(others).length(), 2u);
  purge.Clear();
  purge.set_kind(v1::PURGE_KIND_LINEAGE);
  purge.set_lineage("e2e");
  ASSERT_TRUE(ask(&Stub::Purge, purge, &purged).ok());
  EXPECT_EQ(purged.generation(), 1u);
  EXPECT_EQ(purged.blocks(), 2u);
  EXPECT_EQ(match(others).length(), 0u);
  purge.set_lineage("of nobody");
  ASSERT_TRUE(ask(&Stub::Purge, purge, &purged).ok());
  EXPECT_EQ(purged.blocks(), 0u);

  // Expect: the control plane's own looks are no hits of anybody.
  ASSERT_TRUE(ask(&Stub::GetStatus, v1::GetStatusRequest(), &status).ok());
  EXPECT_LE(status.counts().hits_dram() + status.counts().hits_flash(), hits_before + 2);
  stop();
}

TEST_F(ControlOfANode, ListsAndClosesSessions) {
  start();
  Engine one(real.daemon().address(), "one"), two(real.daemon().address(), "two");
  v1::ListSessionsRequest page;
  page.set_page_size(1);
  v1::ListSessionsResponse first, second;
  bool registers = true;  // in the background
  for (Nanos waited = 0; registers && waited < kPatience; waited += 10 * kMillisecond) {
    ASSERT_TRUE(ask(&Stub::ListSessions, page, &first).ok());
    ASSERT_EQ(first.sessions_size(), 1);
    registers = first.sessions(0).formats() == 0;
    pause(10 * kMillisecond);
  }
  EXPECT_EQ(first.sessions(0).client(), "one");
  EXPECT_EQ(first.sessions(0).formats(), 1u);
  EXPECT_EQ(first.sessions(0).peer().rfind("127.0.0.1:", 0), 0u);
  page.set_cursor(first.next_cursor());
  ASSERT_TRUE(ask(&Stub::ListSessions, page, &second).ok());
  ASSERT_EQ(second.sessions_size(), 1);
  EXPECT_EQ(second.sessions(0).client(), "two");
  EXPECT_EQ(second.next_cursor(), 0u);
  v1::CloseSessionRequest close;
  close.set_session(first.sessions(0).session());
  v1::CloseSessionResponse closed;
  ASSERT_TRUE(ask(&Stub::CloseSession, close, &closed).ok());
  bool gone = false;
  for (Nanos waited = 0; !gone && waited < kPatience; waited += 10 * kMillisecond) {
    v1::ListSessionsResponse all;
    ASSERT_TRUE(ask(&Stub::ListSessions, v1::ListSessionsRequest(), &all).ok());
    gone = true;
    for (const v1::Session& session : all.sessions())
      gone = gone && session.session() != close.session();
    pause(10 * kMillisecond);
  }
  EXPECT_TRUE(gone);
  EXPECT_EQ(ask(&Stub::CloseSession, close, &closed).error_code(), grpc::NOT_FOUND);
  stop();
}

TEST_F(ControlOfANode, KeepsFormatsOverARestart) {
  start();
  const Engine writer(real.daemon().address(), "writer");  // it registers in the background
  v1::ListFormatsResponse list;
  const auto is_kept = [&] { return list.formats_size() > 0 && list.formats(0).kept(); };
  for (Nanos waited = 0; !is_kept() && waited < kPatience; waited += 100 * kMillisecond) {
    ASSERT_TRUE(ask(&Stub::ListFormats, v1::ListFormatsRequest(), &list).ok());
    pause(100 * kMillisecond);  // main looks once a second, and a thread writes
  }
  ASSERT_EQ(list.formats_size(), 1);
  EXPECT_EQ(list.formats(0).lineage(), "e2e");
  EXPECT_TRUE(list.formats(0).kept());
  v1::GetFormatRequest get;
  get.set_fingerprint(list.formats(0).fingerprint());
  v1::GetFormatResponse format;
  ASSERT_TRUE(ask(&Stub::GetFormat, get, &format).ok());
  v1::RegisterFormatRequest other;
  *other.mutable_format() = format.format();
  other.mutable_format()->set_tokens_per_block(32);
  v1::RegisterFormatResponse registered;
  ASSERT_TRUE(ask(&Stub::RegisterFormat, other, &registered).ok());
  EXPECT_FALSE(registered.known_before());
  EXPECT_TRUE(registered.kept());
  other.mutable_format()->mutable_ranks(0)->mutable_layers(0)->set_bytes(64 << 20);
  EXPECT_EQ(ask(&Stub::RegisterFormat, other, &registered).error_code(), grpc::FAILED_PRECONDITION);
  real.daemon().kill_now();
  start();
  ASSERT_TRUE(ask(&Stub::ListFormats, v1::ListFormatsRequest(), &list).ok());
  ASSERT_EQ(list.formats_size(), 2);
  v1::DiffFormatsRequest diff;
  diff.set_a(list.formats(0).fingerprint());
  diff.set_b(list.formats(1).fingerprint().substr(0, 8));
  v1::DiffFormatsResponse differences;
  ASSERT_TRUE(ask(&Stub::DiffFormats, diff, &differences).ok());
  ASSERT_EQ(differences.differences_size(), 1);
  EXPECT_EQ(differences.differences(0).field(), "tokens_per_block");
  stop();
}

// A drain that begins while the node runs goes on behind a kill, ends, and lasts until it is taken
// back; the blocks are hits all the time.
TEST_F(ControlOfANode, DrainsATargetForGood) {
  shape("2+1", 4);
  start();
  auto writer = std::make_unique<Engine>(real.daemon().address(), "writer");
  std::vector<std::vector<BaseId>> prefixes;
  for (uint32_t n = 0; n < 8; ++n) {
    prefixes.push_back(writer->ids(n));
    writer->store_blocks(prefixes.back());
  }
  v1::DrainTargetRequest drain;
  drain.set_index(1);
  drain.set_uuid(target(0).uuid());
  v1::DrainTargetResponse drained;
  EXPECT_EQ(ask(&Stub::DrainTarget, drain, &drained).error_code(), grpc::FAILED_PRECONDITION);
  drain.set_uuid(target(1).uuid());
  ASSERT_TRUE(ask(&Stub::DrainTarget, drain, &drained).ok());
  EXPECT_EQ(drained.target().state(), v1::TARGET_STATE_DRAINING);
  // Expect: the others are as many as a block needs, so none of them may follow.
  v1::DrainTargetRequest second;
  second.set_index(2);
  EXPECT_EQ(ask(&Stub::DrainTarget, second, &drained).error_code(), grpc::FAILED_PRECONDITION);
  writer.reset();
  real.daemon().kill_now();
  start();
  ASSERT_TRUE(wait_for_state(1, v1::TARGET_STATE_DRAINED)) << real.log();
  for (const auto& ids : prefixes) {
    EXPECT_EQ(match(ids).length(), kBlocks);
    const v1::FindBlockResponse found = find(ids[0]);
    ASSERT_EQ(found.blocks_size(), 1);
    for (const v1::Fragment& fragment : found.blocks(0).fragments())
      EXPECT_NE(fragment.target(), 1u);
  }
  stop();
  start();
  EXPECT_EQ(target(1).state(), v1::TARGET_STATE_DRAINED);
  v1::GetStatusResponse status;
  ASSERT_TRUE(ask(&Stub::GetStatus, v1::GetStatusRequest(), &status).ok());
  for (const v1::Degradation& degradation : status.degraded())
    EXPECT_NE(degradation.reason(), "target");
  v1::UndrainTargetRequest undrain;
  undrain.set_index(1);
  v1::UndrainTargetResponse undrained;
  ASSERT_TRUE(ask(&Stub::UndrainTarget, undrain, &undrained).ok());
  stop();
  start();
  EXPECT_EQ(target(1).state(), v1::TARGET_STATE_OK);
  for (const auto& ids : prefixes)
    EXPECT_EQ(match(ids).length(), kBlocks);
  stop();
}

// Without parity nothing was set aside for it at the start. Expect: it needs no restart either.
TEST_F(ControlOfANode, DrainsATargetThatNoParityCovers) {
  shape("1+0", 2);
  start();
  Engine writer(real.daemon().address(), "writer");
  std::vector<std::vector<BaseId>> prefixes;
  for (uint32_t n = 0; n < 8; ++n) {
    prefixes.push_back(writer.ids(n));
    writer.store_blocks(prefixes.back());
  }
  v1::DrainTargetRequest drain;
  drain.set_index(0);
  v1::DrainTargetResponse drained;
  ASSERT_TRUE(ask(&Stub::DrainTarget, drain, &drained).ok());
  ASSERT_TRUE(wait_for_state(0, v1::TARGET_STATE_DRAINED)) << real.log();
  for (uint32_t n = 0; n < 8; ++n) {
    EXPECT_EQ(match(prefixes[n]).length(), kBlocks);
    const Event pulled = writer.pull(prefixes[n], 0);
    EXPECT_EQ(pulled.codes, std::vector<Code>(kBlocks, Code::kOk));
    for (uint32_t l = 0; l < kLayers; ++l)
      EXPECT_TRUE(writer.holds_layer(prefixes[n], l));
  }
  stop();
}

TEST_F(ControlOfANode, EndsADrainThatIsTakenBack) {
  shape("2+1", 4);
  start();
  Engine writer(real.daemon().address(), "writer");
  for (uint32_t n = 0; n < 8; ++n)
    writer.store_blocks(writer.ids(n));
  // As slow as it goes, so that it does not end before it is taken back.
  v1::SetPolicyRequest policy;
  policy.set_name("repair_mb_per_s");
  policy.set_value("1");
  v1::SetPolicyResponse set;
  ASSERT_TRUE(ask(&Stub::SetPolicy, policy, &set).ok());
  EXPECT_EQ(set.before(), "200");
  v1::DrainTargetRequest drain;
  drain.set_index(1);
  v1::DrainTargetResponse drained;
  ASSERT_TRUE(ask(&Stub::DrainTarget, drain, &drained).ok());
  v1::UndrainTargetRequest undrain;
  undrain.set_index(1);
  v1::UndrainTargetResponse undrained;
  ASSERT_TRUE(ask(&Stub::UndrainTarget, undrain, &undrained).ok());
  EXPECT_TRUE(wait_for_state(1, v1::TARGET_STATE_OK));
  for (uint32_t n = 0; n < 8; ++n)
    EXPECT_EQ(match(writer.ids(n)).length(), kBlocks);
  stop();
  start();
  EXPECT_EQ(target(1).state(), v1::TARGET_STATE_OK);
  stop();
}

TEST_F(ControlOfANode, FailsATargetAndBlocksStayHits) {
  start();
  Engine writer(real.daemon().address(), "writer");
  const std::vector<BaseId> ids = writer.ids(1);
  writer.store_blocks(ids);
  v1::FailTargetRequest fail;
  v1::FailTargetResponse failed;
  fail.set_index(7);
  EXPECT_EQ(ask(&Stub::FailTarget, fail, &failed).error_code(), grpc::NOT_FOUND);
  fail.set_index(0);
  ASSERT_TRUE(ask(&Stub::FailTarget, fail, &failed).ok());
  EXPECT_EQ(failed.target().state(), v1::TARGET_STATE_FAILED);
  fail.set_index(1);  // Expect: refused at once, before any numbers say that the first is gone.
  const grpc::Status refused = ask(&Stub::FailTarget, fail, &failed);
  EXPECT_EQ(refused.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_NE(refused.error_message().find("force"), std::string::npos);
  EXPECT_TRUE(wait_for_state(0, v1::TARGET_STATE_FAILED));
  EXPECT_EQ(match(ids).length(), kBlocks);
  const Event pulled = writer.pull(ids, 0);
  EXPECT_EQ(pulled.codes, std::vector<Code>(kBlocks, Code::kOk));
  for (uint32_t l = 0; l < kLayers; ++l)
    EXPECT_TRUE(writer.holds_layer(ids, l));
  v1::DrainTargetRequest drain;
  drain.set_index(0);
  v1::DrainTargetResponse drained;
  EXPECT_EQ(ask(&Stub::DrainTarget, drain, &drained).error_code(), grpc::FAILED_PRECONDITION);
  v1::ReplaceTargetRequest replace;
  v1::ReplaceTargetResponse replaced;
  replace.set_index(1);
  const grpc::Status works = ask(&Stub::ReplaceTarget, replace, &replaced);
  EXPECT_EQ(works.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_NE(works.error_message().find("fail or drain it first"), std::string::npos);
  replace.set_index(0);
  const grpc::Status same = ask(&Stub::ReplaceTarget, replace, &replaced);
  EXPECT_EQ(same.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_NE(same.error_message().find("it is the one to be replaced"), std::string::npos);
  replace.set_path("/nowhere/else");
  const grpc::Status elsewhere = ask(&Stub::ReplaceTarget, replace, &replaced);
  EXPECT_EQ(elsewhere.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_NE(elsewhere.error_message().find("put the blank drive under it"), std::string::npos);
  stop();
  start();
  EXPECT_EQ(target(0).state(), v1::TARGET_STATE_OK);
  stop();
}

TEST_F(ControlOfANode, ReplacesATargetAndRepairFillsIt) {
  start();
  Engine writer(real.daemon().address(), "writer");
  const std::vector<BaseId> ids = writer.ids(1);
  writer.store_blocks(ids);
  v1::FailTargetRequest fail;
  v1::FailTargetResponse failed;
  fail.set_index(0);
  ASSERT_TRUE(ask(&Stub::FailTarget, fail, &failed).ok());
  std::filesystem::remove(target(0).path());
  v1::ReplaceTargetRequest replace;
  v1::ReplaceTargetResponse replaced;
  replace.set_index(0);
  replace.set_uuid(target(0).uuid());
  const grpc::Status taken = ask(&Stub::ReplaceTarget, replace, &replaced);
  ASSERT_TRUE(taken.ok()) << taken.error_message();
  EXPECT_EQ(replaced.target().state(), v1::TARGET_STATE_OK);
  EXPECT_NE(replaced.target().uuid(), replace.uuid());
  EXPECT_EQ(ask(&Stub::ReplaceTarget, replace, &replaced).error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_TRUE(wait_for_state(0, v1::TARGET_STATE_OK));
  v1::GetStatusResponse status;
  for (Nanos waited = 0; waited < 60 * kSecond; waited += 100 * kMillisecond) {
    ASSERT_TRUE(ask(&Stub::GetStatus, v1::GetStatusRequest(), &status).ok());
    if (status.repair().blocks_left() == 0 && target(0).fragments() > 0) break;
    pause(100 * kMillisecond);
  }
  EXPECT_GT(target(0).fragments(), 0u);
  stop();
  start();
  EXPECT_EQ(target(0).state(), v1::TARGET_STATE_OK);
  EXPECT_EQ(match(ids).length(), kBlocks);
  stop();
}

TEST_F(ControlOfANode, ScrubsAndChangesPolicies) {
  start();
  Engine writer(real.daemon().address(), "writer");
  writer.store_blocks(writer.ids(1));
  v1::StartScrubRequest scrub;
  scrub.add_targets(1);
  v1::StartScrubResponse begun;
  ASSERT_TRUE(ask(&Stub::StartScrub, scrub, &begun).ok());
  EXPECT_EQ(begun.begun() + begun.running(), 1u);
  bool passed = false;
  for (Nanos waited = 0; !passed && waited < kPatience; waited += 100 * kMillisecond) {
    passed = target(1).scrub().passes() >= 2;  // one of each shard
    pause(100 * kMillisecond);
  }
  EXPECT_TRUE(passed);
  EXPECT_EQ(target(0).scrub().passes(), 0u);
  scrub.add_targets(9);
  EXPECT_EQ(ask(&Stub::StartScrub, scrub, &begun).error_code(), grpc::NOT_FOUND);

  v1::ListPoliciesResponse policies;
  ASSERT_TRUE(ask(&Stub::ListPolicies, v1::ListPoliciesRequest(), &policies).ok());
  ASSERT_EQ(policies.policies_size(), 4);
  const auto set = [&](const std::string& name, const std::string& value) {
    v1::SetPolicyRequest in;
    in.set_name(name);
    in.set_value(value);
    v1::SetPolicyResponse out;
    return ask(&Stub::SetPolicy, in, &out).error_code();
  };
  EXPECT_EQ(set("scrub_interval_s", "3600"), grpc::OK);
  EXPECT_EQ(set("scrub_interval_s", "0"), grpc::OK);
  EXPECT_EQ(set("scrub_interval_s", "1"), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(set("repair_mb_per_s", "0"), grpc::OK);
  EXPECT_EQ(set("repair_mb_per_s", "300"), grpc::OK);
  EXPECT_EQ(set("repair_mb_per_s", "-1"), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(set("sibling_ms_max", "5000"), grpc::OK);
  EXPECT_EQ(set("log_level", "loud"), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(set("log_level", "debug"), grpc::OK);
  EXPECT_EQ(set("shards", "3"), grpc::NOT_FOUND);
  v1::ListTiersResponse tiers;
  ASSERT_TRUE(ask(&Stub::ListTiers, v1::ListTiersRequest(), &tiers).ok());
  ASSERT_EQ(tiers.tiers_size(), 2);
  EXPECT_GT(tiers.tiers(0).capacity_bytes(), 30u << 20) << "of 128 MiB the part that keeps blocks";
  EXPECT_LT(tiers.tiers(0).capacity_bytes(), 64u << 20);
  EXPECT_GT(tiers.tiers(1).capacity_bytes(), 900u << 20);
  EXPECT_EQ(tiers.tiers(0).admission() + " " + tiers.tiers(0).eviction(), "admit_all lru");
  EXPECT_EQ(tiers.tiers(1).admission() + " " + tiers.tiers(1).eviction(),
            "every_commit leaf_first_lru");
  v1::ListDomainsResponse domains;
  ASSERT_TRUE(ask(&Stub::ListDomains, v1::ListDomainsRequest(), &domains).ok());
  ASSERT_EQ(domains.domains_size(), 1);
  EXPECT_EQ(domains.domains(0).name(), "default");
  stop();
}

TEST_F(ControlOfANode, StopsTheNode) {
  start();
  v1::DrainResponse out;
  ASSERT_TRUE(ask(&Stub::Drain, v1::DrainRequest(), &out).ok());
  EXPECT_EQ(out.bound_ns(), 2 * kSecond);
  for (Nanos waited = 0; real.daemon().running() && waited < 30 * kSecond;
       waited += 10 * kMillisecond)
    pause(10 * kMillisecond);
  EXPECT_EQ(real.daemon().ending(), "exit 0") << real.log();
}

TEST_F(ControlOfANode, AsksForItsToken) {
  const std::string file = real.folder() + "/token";
  std::ofstream(file) << "0123456789abcdef";
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  real.shape.insert(real.shape.end(), {"--control-token-file", file});
  start();
  v1::GetStatusResponse out;
  EXPECT_EQ(ask(&Stub::GetStatus, v1::GetStatusRequest(), &out).error_code(),
            grpc::UNAUTHENTICATED);
  token = "0123456789abcdef";
  EXPECT_TRUE(ask(&Stub::GetStatus, v1::GetStatusRequest(), &out).ok());
  stop();
}

}  // namespace
}  // namespace varve
