// Goal: what a daemon says is lost is delivered all the same, right in every byte, while m are not
// exceeded; never anything wrong (D3, D4, C1 to C3). Method: the rig with a daemon that loses
// extents by script; cancels, deadlines and losses of the session at every step.
#include "client/rebuild.h"

#include <gtest/gtest.h>

#include "tests/client/rebuild_rig.h"

namespace varve {
namespace {

// Two stripes of four under 4+2: ragged layers, a run of small ones, a cut layer.
const std::vector<uint32_t> kLayers = {100000, 131072, 70001, 66000, 20000, 50000, 5000000, 65537};

TEST_F(RebuildTest, AnyLostExtentOfAnySchemeIsRebuilt) {
  for (const Scheme scheme : kSchemes) {
    if (scheme.m == 0) continue;
    KvRig rig(kLayers, 1, coded(scheme.k, scheme.m));
    rig.put(0, 1);
    for (uint32_t e = 0; e < rig.table.data_count(); ++e) {
      SCOPED_TRACE(scheme.text() + " extent " + std::to_string(e));
      rig.poison();
      rig.daemon->lost = {{block(0), e}};
      const uint64_t bytes = counts(rig).rebuilt_bytes;
      const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 1)));
      const Event event = rig.finish(op);
      ASSERT_TRUE(event.status.ok() && event.codes[0] == Code::kOk) << code_name(event.codes[0]);
      EXPECT_EQ(event.bytes, rig.table.block_bytes);
      expect_whole(rig, 0, 0);
      const auto layers = rig.of(op, Event::Kind::kLayer);
      ASSERT_EQ(layers.size(), kLayers.size());
      for (uint32_t l = 0; l < layers.size(); ++l)
        EXPECT_EQ(layers[l].layer, l);
      EXPECT_EQ(counts(rig).rebuilt_bytes - bytes, rig.table.bytes_at(e));
      // Expect: k for k, no extra byte: the one parity extent that stands in for it.
      EXPECT_EQ(wants(rig).back().extent, rig.table.parity_at(rig.table.stripe_at(e), 0));
      EXPECT_EQ(scratch_used(rig), 0u);
    }
    EXPECT_EQ(wants(rig).size(), rig.table.data_count());
    EXPECT_EQ(counts(rig).rebuilt_extents, rig.table.data_count());
    EXPECT_EQ(counts(rig).hedges, 0u);
  }
}

TEST_F(RebuildTest, TwoOfAStripeAreRebuiltTogether) {
  KvRig rig(kLayers, 3, coded(4, 2));
  rig.put(0, 3);
  for (uint32_t b = 0; b < 3; ++b) {
    rig.daemon->lost.insert({block(b), b});
    rig.daemon->lost.insert({block(b), b + 1});
  }
  const Event event = pull(rig, rig.pull_of(ids_of(0, 3)));
  EXPECT_EQ(event.codes, std::vector<Code>(3, Code::kOk));
  for (uint32_t b = 0; b < 3; ++b)
    expect_whole(rig, b, b);
  EXPECT_EQ(counts(rig).rebuilt_extents, 6u);
  EXPECT_EQ(rig.daemon->count(Type::kPull), 2u);  // one batch for all
}

TEST_F(RebuildTest, ASourceThatIsLostItselfIsReplaced) {
  KvRig rig(kLayers, 1, coded(4, 2));
  rig.put(0, 1);
  rig.daemon->lost = {{block(0), 1}, {block(0), rig.table.parity_at(0, 0)}};
  EXPECT_EQ(pull(rig, rig.pull_of(ids_of(0, 1))).codes[0], Code::kOk);
  expect_whole(rig, 0, 0);
  EXPECT_EQ(wants(rig), (std::vector<wire::Want>{{0, rig.table.parity_at(0, 0)},
                                                 {0, rig.table.parity_at(0, 1)}}));
}

TEST_F(RebuildTest, MoreThanMCostsTheBlockAndNoOther) {
  for (const bool parity : {false, true}) {
    KvRig rig(kLayers, 3, coded(4, 1));
    rig.put(0, 3);
    const uint32_t other = parity ? rig.table.parity_at(0, 0) : 2;
    rig.daemon->lost = {{block(1), 0}, {block(1), other}, {block(2), 3}};
    const Event event = pull(rig, rig.pull_of(ids_of(0, 3)));
    EXPECT_TRUE(event.status.ok());
    EXPECT_EQ(event.codes, (std::vector<Code>{Code::kOk, Code::kUnavailable, Code::kOk}));
    expect_whole(rig, 0, 0);
    expect_whole(rig, 2, 2);
    EXPECT_EQ(scratch_used(rig), 0u);
  }
}

// A daemon leaves out what is on a slow target, while others suffice: one now, another then. All in
// all more than m, and each of them comes when it is asked for again.
TEST_F(RebuildTest, WhatIsLeftOutNowAndThenIsAskedForAgain) {
  for (const Scheme scheme : {Scheme{1, 1}, Scheme{2, 1}, Scheme{4, 2}}) {
    SCOPED_TRACE(scheme.text());
    KvRig rig(std::vector<uint32_t>(scheme.k, 70000), 1, coded(scheme.k, scheme.m));
    rig.put(0, 1);
    uint32_t pulls = 0;
    rig.daemon->hook = [&](const auto& r) {
      if (r.type != Type::kPull) return false;
      rig.daemon->lost.clear();
      for (uint32_t i = 0; i < scheme.m && pulls < 8; ++i) {
        const uint32_t position = (pulls * scheme.m + i) % scheme.width();
        const bool parity = position >= scheme.k;
        rig.daemon->lost.insert(
            {block(0), parity ? rig.table.parity_at(0, position - scheme.k) : position});
      }
      ++pulls;
      return false;
    };
    EXPECT_EQ(pull(rig, rig.pull_of(ids_of(0, 1))).codes[0], Code::kOk);
    expect_whole(rig, 0, 0);
    EXPECT_EQ(scratch_used(rig), 0u);
  }
}

// Pauses between looks grow, but what comes whole begins them anew: the next stripe that has to be
// looked at again does not pay for the one before.
TEST_F(RebuildTest, WhatComesWholeMakesTheNextPauseShort) {
  KvRig rig(std::vector<uint32_t>(4, 70000), 1, coded(2, 1));  // two stripes
  rig.put(0, 1);
  rig.daemon->lost = {{block(0), 0}, {block(0), rig.table.parity_at(0, 0)}};
  uint64_t main = 0;
  std::vector<Nanos> asked_ns;  // wants of the second stripe
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kPull) return false;
    if (!has_wants(r)) {
      main = r.op;
      for (const uint32_t e : {1u, 3u})
        rig.daemon->send_extent(1, r.op, block(0), 0, e);
      const uint8_t codes[] = {0};
      rig.daemon->send(0, rig.daemon->encoder().pulled(r.op, {}, codes));
      rig.daemon->send_lost(r.op, rig.daemon->lost_of(block(0), 0, 0, wire::LostState::kLost));
      return true;
    }
    if (counts(rig).rebuilt_extents > 0) asked_ns.push_back(rig.clock.now_ns());
    return false;
  };
  ASSERT_TRUE(rig.ready());
  const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 1)));
  // Seven looks: 1 + 2 + ... + 64 ms.
  ASSERT_TRUE(rig.run_until([&] { return wants(rig).size() >= 14; }));
  rig.daemon->lost.clear();
  ASSERT_TRUE(rig.run_until([&] { return counts(rig).rebuilt_extents == 1; }));
  rig.daemon->lost = {{block(0), 2}, {block(0), rig.table.parity_at(1, 0)}};
  rig.daemon->send_lost(main, rig.daemon->lost_of(block(0), 0, 2, wire::LostState::kLost));
  ASSERT_TRUE(rig.run_until([&] { return asked_ns.size() == 2; }));
  rig.daemon->lost.clear();
  EXPECT_EQ(rig.finish(op).codes[0], Code::kOk);
  EXPECT_LT(asked_ns[1] - asked_ns[0], 2 * kMillisecond);
  expect_whole(rig, 0, 0);
}

// What was slow when the pull began is all there is: another fragment rots meanwhile.
TEST_F(RebuildTest, WhatWasLeftOutIsAskedForWhenNothingElseIsLeft) {
  for (const bool wrong : {false, true}) {
    KvRig rig(std::vector<uint32_t>(2, 70000), 1, coded(2, 1));
    rig.put(0, 1);
    rig.daemon->lost = {{block(0), 1}};
    rig.daemon->hook = [&](const auto& r) {
      if (!has_wants(r)) return false;
      rig.daemon->lost = {{block(0), rig.table.parity_at(0, 0)}};
      if (wrong) rig.daemon->put(block(0), rig.table, 77);
      return false;
    };
    const Event event = pull(rig, rig.pull_of(ids_of(0, 1)));
    EXPECT_EQ(event.codes[0], wrong ? Code::kUnavailable : Code::kOk);
    EXPECT_EQ(scratch_used(rig), 0u);
    if (wrong) continue;
    expect_whole(rig, 0, 0);
    EXPECT_EQ(wants(rig), (std::vector<wire::Want>{{0, rig.table.parity_at(0, 0)}, {0, 1}}));
  }
}

TEST_F(RebuildTest, WithoutParityALossIsUnavailable) {
  KvRig rig(kLayers, 2);
  rig.put(0, 2);
  rig.daemon->lost = {{block(1), 2}};
  EXPECT_EQ(pull(rig, rig.pull_of(ids_of(0, 2))).codes,
            (std::vector<Code>{Code::kOk, Code::kUnavailable}));
}

// Sources that the pull did not ask for, in whole or in part, come into scratch; of what is rebuilt
// only what was asked for reaches the memory.
TEST_F(RebuildTest, AnyRangeOfLayersIsRebuiltAndTouchesOnlyItsOwn) {
  const std::vector<uint32_t> layers = {20000, 30000, 40000, 70000, 10000, 70000, 66000, 80000};
  KvRig rig(layers, 1, coded(2, 1));
  rig.put(0, 1);
  for (uint32_t first = 0; first < layers.size(); ++first) {
    for (uint32_t count = 1; first + count <= layers.size(); ++count) {
      for (uint32_t e = 0; e < rig.table.data_count(); ++e) {
        SCOPED_TRACE(testing::Message() << first << "+" << count << " lost " << e);
        rig.poison();
        rig.daemon->lost = {{block(0), e}};
        PullRequest request = rig.pull_of(ids_of(0, 1));
        request.layer_first = first;
        request.layer_count = count;
        ASSERT_EQ(pull(rig, request).codes[0], Code::kOk);
        for (uint32_t l = 0; l < layers.size(); ++l) {
          if (l >= first && l < first + count) {
            ASSERT_TRUE(rig.layer_is_stored(id_of(0), 0, l)) << l;
          } else {
            ASSERT_EQ(rig.read_layer(0, l), std::vector<std::byte>(layers[l], KvRig::kPoison));
          }
        }
      }
    }
  }
  EXPECT_EQ(scratch_used(rig), 0u);
}

// C1: what does not verify against its row is not delivered, and costs its block only.
TEST_F(RebuildTest, ARowThatIsWrongFailsItsBlockAndDeliversNothing) {
  struct Case {
    const char* what;
    Code code;
    std::function<void(wire::LostExtent&)> change;
  };
  const Case cases[] = {
      {"another checksum", Code::kCorrupt, [](auto& r) { ++r.entry.stored_crc; }},
      {"another decoded checksum", Code::kCorrupt, [](auto& r) { ++r.entry.decoded_xxh3; }},
      {"another size", Code::kCorrupt, [](auto& r) { --r.entry.stored_bytes; }},
      {"another stripe", Code::kCorrupt, [](auto& r) { ++r.entry.stripe; }},
      {"another attempt", Code::kCorrupt, [](auto& r) { ++r.attempt.counter; }},
      {"no attempt", Code::kCorrupt, [](auto& r) { r.attempt = Attempt(); }},
      {"a codec we do not know", Code::kUnsupported, [](auto& r) { r.entry.codec = 9; }},
      {"an extent not asked for", Code::kInvalid, [](auto& r) { r.extent = 400; }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    KvRig rig({70000, 70000}, 2, coded(2, 1));
    rig.put(0, 2);
    rig.daemon->hook = [&](const auto& r) {
      if (r.type != Type::kPull || has_wants(r)) return false;
      for (uint32_t b = 0; b < 2; ++b) {
        for (uint32_t e = 0; e < 2; ++e) {
          if (b != 1 || e != 0) rig.daemon->send_extent(1, r.op, block(b), b, e);
        }
      }
      const uint8_t codes[] = {0, 0};
      rig.daemon->send(0, rig.daemon->encoder().pulled(r.op, {}, codes));  // overtakes the LOST
      auto row = rig.daemon->lost_of(block(1), 1, 0, wire::LostState::kLost);
      c.change(row);
      rig.daemon->send_lost(r.op, row);
      return true;
    };
    const Event event = pull(rig, rig.pull_of(ids_of(0, 2)));
    EXPECT_EQ(event.codes, (std::vector<Code>{Code::kOk, c.code}));
    expect_whole(rig, 0, 0);
    EXPECT_EQ(rig.read_layer(1, 0), std::vector<std::byte>(70000, KvRig::kPoison));
    EXPECT_EQ(counts(rig).disconnects, 0u);
    EXPECT_EQ(scratch_used(rig), 0u);
  }
}

TEST_F(RebuildTest, ALossOfABlockNotAskedForEndsThePull) {
  KvRig rig({70000, 70000}, 2, coded(2, 1));
  rig.put(0, 2);
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kPull) return false;
    rig.daemon->send_lost(r.op, rig.daemon->lost_of(block(0), 7, 0, wire::LostState::kLost));
    return true;
  };
  EXPECT_EQ(pull(rig, rig.pull_of(ids_of(0, 2))).status.code(), Code::kInvalid);
}

// Sources that are wrong are as good as lost: another takes their place, or the block fails.
TEST_F(RebuildTest, AWrongSourceIsReplacedWhileThereAreOthers) {
  struct Case {
    const char* what;
    std::function<void(wire::Data&, std::vector<std::byte>&)> change;
  };
  const Case cases[] = {
      {"a flipped bit", [](auto&, auto& p) { p[777] ^= std::byte{1}; }},
      {"another attempt", [](auto& d, auto&) { ++d.attempt.counter; }},
      {"another size", [](auto& d, auto&) { ++d.entry.stored_bytes; }},
      {"an offset that skips", [](auto& d, auto&) { d.offset = 8; }},
      {"more bytes than the extent", [](auto&, auto& p) { p.resize(80000); }},
      {"a codec we do not know", [](auto& d, auto&) { d.entry.codec = 9; }},
  };
  for (const Case& c : cases) {
    for (const uint32_t m : {1u, 2u}) {
      SCOPED_TRACE(std::string(c.what) + " m " + std::to_string(m));
      KvRig rig(std::vector<uint32_t>(4, 70000), 2, coded(4, m));
      rig.put(0, 2);
      rig.daemon->lost = {{block(1), 2}};
      const uint32_t parity = rig.table.parity_at(0, 0);
      rig.daemon->hook = [&](const auto& r) {
        if (!has_wants(r) || wants(rig).size() > 1) return false;
        wire::Data data = rig.daemon->data_of(block(1), 0, parity);
        auto bytes = rig.daemon->store().at(block(1)).extents[parity];
        c.change(data, bytes);
        rig.daemon->send_data(1, r.op, data, bytes);
        const uint8_t codes[] = {0};
        rig.daemon->send(0, rig.daemon->encoder().pulled(r.op, {}, codes));
        return true;
      };
      const Event event = pull(rig, rig.pull_of(ids_of(0, 2)));
      EXPECT_EQ(event.codes[0], Code::kOk);
      EXPECT_EQ(event.codes[1], m == 2 ? Code::kOk : Code::kUnavailable);
      if (m == 2) expect_whole(rig, 1, 1);
      EXPECT_EQ(scratch_used(rig), 0u);
    }
  }
}

// The block was evicted, or written anew, between the two PULLs.
TEST_F(RebuildTest, SourcesOfABlockThatIsGoneMakeItUnavailable) {
  for (const bool anew : {false, true}) {
    KvRig rig(std::vector<uint32_t>(4, 70000), 1, coded(4, 1));
    rig.put(0, 1);
    rig.daemon->lost = {{block(0), 2}};
    rig.daemon->hook = [&](const auto& r) {
      if (has_wants(r) && anew) rig.daemon->put(block(0), rig.table, 77);
      if (has_wants(r) && !anew) rig.daemon->store().erase(block(0));
      return false;
    };
    EXPECT_EQ(pull(rig, rig.pull_of(ids_of(0, 1))).codes[0], Code::kUnavailable);
    EXPECT_EQ(rig.read_layer(0, 2), std::vector<std::byte>(70000, KvRig::kPoison));
  }
}

// As a whole, or block by block where one home of several has no pull left.
TEST_F(RebuildTest, WantsThatAreRefusedForNowAreAskedAgain) {
  for (const bool by_block : {false, true}) {
    for (const Code code : {Code::kOverloaded, Code::kQuota}) {
      SCOPED_TRACE(std::string(code_name(code)) + (by_block ? " by block" : " as a whole"));
      KvRig rig(std::vector<uint32_t>(4, 70000), 1, coded(4, 1));
      rig.put(0, 1);
      rig.daemon->lost = {{block(0), 2}};
      uint32_t refused = 0;
      rig.daemon->hook = [&](const auto& r) {
        if (!has_wants(r) || refused == 3) return false;
        ++refused;
        wire::Pulled no;
        const uint8_t codes[] = {static_cast<uint8_t>(code)};
        if (!by_block) no.code = codes[0];
        rig.daemon->send(
            0, rig.daemon->encoder().pulled(r.op, no, std::span(codes).first(by_block ? 1 : 0)));
        return true;
      };
      EXPECT_EQ(pull(rig, rig.pull_of(ids_of(0, 1))).codes[0], Code::kOk);
      expect_whole(rig, 0, 0);
      EXPECT_EQ(wants(rig).size(), 4u);
      EXPECT_EQ(scratch_used(rig), 0u);
    }
  }
}

// The lease of the pull may end between its LOST and its wants: once more without it, not twice.
TEST_F(RebuildTest, WantsOfALeaseThatEndedAreAskedOnceMoreWithoutIt) {
  for (const uint32_t refusals : {1u, 2u}) {
    KvRig rig(std::vector<uint32_t>(4, 70000), 1, coded(4, 1));
    rig.put(0, 1);
    MatchRequest match;
    match.format = rig.format_id;
    match.ids = ids_of(0, 1);
    match.lease_ms = 60000;
    PullRequest request = rig.pull_of(ids_of(0, 1));
    request.lease = rig.finish(*rig.core->match(match)).lease;
    rig.daemon->lost = {{block(0), 2}};
    std::vector<uint64_t> leases;
    rig.daemon->hook = [&](const auto& r) {
      if (!has_wants(r)) return false;
      const auto frame = r.frame();
      leases.push_back(std::get<wire::PullView>(frame.body).body.lease);
      if (leases.size() > refusals) return false;
      wire::Pulled no;
      no.code = static_cast<uint8_t>(Code::kTimedOut);
      rig.daemon->send(0, rig.daemon->encoder().pulled(r.op, no, {}));
      return true;
    };
    const Event event = pull(rig, request);
    EXPECT_EQ(event.codes[0], refusals == 1 ? Code::kOk : Code::kUnavailable);
    ASSERT_EQ(leases.size(), 2u);
    EXPECT_NE(leases[0], 0u);
    EXPECT_EQ(leases[1], 0u);
    rig.core->release(request.lease);
  }
}

TEST_F(RebuildTest, AnAnswerToWantsThatDoesNotFitEndsThePull) {
  KvRig rig(std::vector<uint32_t>(4, 70000), 1, coded(4, 1));
  rig.put(0, 1);
  rig.daemon->lost = {{block(0), 2}};
  rig.daemon->hook = [&](const auto& r) {
    if (!has_wants(r)) return false;
    const std::vector<uint8_t> codes(2000);
    rig.daemon->send(0, rig.daemon->encoder().pulled(r.op, {}, codes));
    return true;
  };
  EXPECT_EQ(pull(rig, rig.pull_of(ids_of(0, 1))).status.code(), Code::kInvalid);
}

// Wants name the lease that the pull has, and take their turn like every pull.
TEST_F(RebuildTest, WantsNameTheLeaseAndKeepTheLimits) {
  RigOptions options = coded(4, 1);
  options.daemon.pulls_max = 1;
  KvRig rig(std::vector<uint32_t>(4, 70000), 4, options);
  rig.put(0, 4);
  MatchRequest match;
  match.format = rig.format_id;
  match.ids = ids_of(0, 4);
  match.lease_ms = 60000;
  const uint64_t lease = rig.finish(*rig.core->match(match)).lease;
  std::vector<OpId> ops;
  uint32_t under_way = 0, most = 0;
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kPull) return false;
    most = std::max(most, ++under_way);
    rig.daemon->answer_pull(r);  // with PULLED at its end
    --under_way;
    return true;
  };
  for (uint32_t b = 0; b < 4; ++b) {
    rig.daemon->lost.insert({block(b), b});
    PullRequest request = rig.pull_of({id_of(b)});
    request.slots = {b};
    request.lease = lease;
    ops.push_back(*rig.core->pull(request));
  }
  for (const OpId op : ops)
    EXPECT_EQ(rig.finish(op).codes[0], Code::kOk);
  EXPECT_EQ(most, 1u);
  for (const auto& r : rig.daemon->log()) {
    if (r.type != Type::kPull) continue;
    const auto frame = r.frame();
    EXPECT_NE(std::get<wire::PullView>(frame.body).body.lease, 0u);
  }
  rig.core->release(lease);
}

// Scratch for one stripe at a time, and everything degraded: the losses stand in line and all come.
TEST_F(RebuildTest, AFullScratchMakesLossesWait) {
  RigOptions options = coded(2, 1);
  options.client.rebuild_scratch_bytes = 56 * kMiB;
  options.client.bulk_lanes = 2;
  const uint32_t kBlocks = 6;
  KvRig rig(std::vector<uint32_t>(4, 4 * kMiB), kBlocks, options);
  rig.put(0, kBlocks);
  for (uint32_t b = 0; b < kBlocks; ++b) {
    for (uint32_t e = 0; e < 4; e += 2)
      rig.daemon->lost.insert({block(b), e + b % 2});
  }
  std::vector<OpId> ops;
  for (uint32_t i = 0; i < 2; ++i) {
    PullRequest request = rig.pull_of(ids_of(3 * i, 3));
    request.slots = {3 * i, 3 * i + 1, 3 * i + 2};
    ops.push_back(*rig.core->pull(request));
  }
  Scratch& scratch = dynamic_cast<Core&>(*rig.core).rebuild_scratch();
  Columns held;  // leaves two stripes' worth
  ASSERT_TRUE(scratch.take(scratch.capacity() - 4 * 64, held));
  uint32_t most = 0;
  EXPECT_TRUE(rig.run_until([&] {
    most = std::max(most, scratch.used());
    return rig.core->done(ops[0]) && rig.core->done(ops[1]);
  }));
  for (const OpId op : ops)
    EXPECT_EQ(rig.finish(op).codes, std::vector<Code>(3, Code::kOk));
  for (uint32_t b = 0; b < kBlocks; ++b)
    expect_whole(rig, b, b);
  EXPECT_EQ(most, scratch.capacity());
  scratch.give(held);
  EXPECT_EQ(scratch.used(), 0u);
}

// Lost, late, sources lost: whatever the stage, a cancel, a deadline or a loss of the session ends
// it, and nothing touches the memory after that (C2, C3).
struct EndTest : RebuildTest {
  // A pull of three degraded blocks, `steps` into it.
  struct Begun {
    explicit Begun(uint32_t steps, Nanos deadline_ns) : rig(layers(), 3, options(steps)) {
      rig.put(0, 3);
      rig.daemon->lost = {{block(0), 0},
                          {block(1), 1},
                          {block(1), 2},
                          {block(2), rig.table.parity_at(0, 0)},
                          {block(2), 3}};
      rig.daemon->late = {{block(0), 5}};
      EXPECT_TRUE(rig.ready());
      PullRequest request = rig.pull_of(ids_of(0, 3));
      request.deadline_ns = deadline_ns;
      op = *rig.core->pull(request);
      for (uint32_t i = 0; i < steps; ++i)
        rig.step();
    }
    static std::vector<uint32_t> layers() { return {20000, 66000, 70000, 90000, 80000, 66000}; }
    static RigOptions options(uint32_t steps) {
      RigOptions options = coded(4, 2);
      options.seed = steps + 1;
      options.client.bulk_lanes = 1 + steps % 3;
      options.daemon.piece_bytes = 30000;
      return options;
    }
    // What holds after every end.
    void expect_ended() {
      const auto layers = rig.of(op, Event::Kind::kLayer).size();
      rig.poison();
      rig.run_for(50 * kMillisecond);
      EXPECT_TRUE(rig.poisoned());
      EXPECT_EQ(rig.of(op, Event::Kind::kLayer).size(), layers);
      EXPECT_EQ(scratch_used(rig), 0u);
      EXPECT_TRUE(rig.core->at_rest());
    }
    void expect_right(const Event& event) {
      for (uint32_t b = 0; b < 3; ++b) {
        if (event.codes[b] == Code::kOk) expect_whole(rig, b, b);
      }
    }
    KvRig rig;
    OpId op = 0;
  };
};

TEST_F(EndTest, ACancelAtAnyStep) {
  uint32_t cancelled = 0, with_wants = 0;
  for (uint32_t steps = 0; steps < 400; ++steps) {
    SCOPED_TRACE(steps);
    Begun begun(steps, 10 * kSecond);
    const bool asked = !wants(begun.rig).empty();
    begun.rig.core->cancel(begun.op);
    const Event event = begun.rig.finish(begun.op, 2 * kSecond);
    begun.expect_right(event);
    cancelled += event.status.code() == Code::kCancelled;
    with_wants += asked && event.status.code() == Code::kCancelled;
    begun.expect_ended();
    if (event.status.ok()) break;
  }
  EXPECT_GT(cancelled, 30u);
  EXPECT_GT(with_wants, 10u);
}

TEST_F(EndTest, ADeadlineAtAnyTime) {
  uint32_t timed_out = 0;
  for (uint32_t i = 0; i < 80; ++i) {
    SCOPED_TRACE(i);
    Begun begun(i % 7, (1 + i) * 40 * kMicrosecond);
    const Event event = begun.rig.finish(begun.op, 2 * kSecond);
    begun.expect_right(event);
    timed_out += event.status.code() == Code::kTimedOut;
    begun.expect_ended();
  }
  EXPECT_GT(timed_out, 10u);
  EXPECT_LT(timed_out, 80u);
}

TEST_F(EndTest, ALossOfTheSessionAtAnyStep) {
  uint32_t resent = 0;
  for (uint32_t steps = 0; steps < 400; ++steps) {
    SCOPED_TRACE(steps);
    Begun begun(steps, 10 * kSecond);
    const bool early = begun.rig.terminal(begun.op) != nullptr;
    begun.rig.fabric.break_all();
    const Event event = begun.rig.finish(begun.op, 2 * kSecond);
    begun.expect_right(event);
    if (event.status.ok()) {
      EXPECT_EQ(event.codes, std::vector<Code>(3, Code::kOk));
      EXPECT_EQ(event.bytes, 3 * begun.rig.table.block_bytes);
      resent += begun.rig.core->counters().disconnects;
    }
    begun.expect_ended();
    if (early) break;
  }
  EXPECT_GT(resent, 30u);
}

// A daemon that answers no CANCEL costs the session, whatever is asked of it (C3).
TEST_F(EndTest, WithoutFencedTheLanesAreClosed) {
  for (const uint32_t steps : {0u, 5u, 20u, 40u}) {
    SCOPED_TRACE(steps);
    Begun begun(steps, 10 * kSecond);
    bool mute = true;
    begun.rig.daemon->hook = [&](const auto& r) {
      return mute && (r.type == Type::kCancel || r.type == Type::kPull);
    };
    begun.rig.run_for(10 * kMillisecond);
    if (begun.rig.core->done(begun.op)) continue;
    const Nanos from = begun.rig.clock.now_ns();
    begun.rig.core->cancel(begun.op);
    EXPECT_EQ(begun.rig.finish(begun.op).status.code(), Code::kCancelled);
    EXPECT_LE(begun.rig.clock.now_ns() - from, kSecond + 50 * kMillisecond);
    mute = false;
    begun.expect_ended();
  }
}

}  // namespace
}  // namespace varve
