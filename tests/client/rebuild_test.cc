// Goal: what a daemon says is lost or late is delivered all the same, right in every byte, while m
// are not exceeded; never anything wrong, and nothing written after a fence (D3, D4, I8). Method:
// the rig with a daemon that loses extents by script; cancels, deadlines and losses at every step.
#include "client/rebuild.h"

#include <gtest/gtest.h>

#include "client/core.h"
#include "tests/client/client_rig.h"

namespace varve {
namespace {

// Two stripes of four under 4+2: ragged layers, a run of small ones, a cut layer.
const std::vector<uint32_t> kLayers = {100000, 131072, 70001, 66000, 20000, 50000, 5000000, 65537};

RigOptions coded(uint32_t k, uint32_t m) {
  RigOptions options;
  options.daemon.k = k;
  options.daemon.m = m;
  return options;
}

struct RebuildTest : testing::Test {
  static Event pull(KvRig& rig, PullRequest request) {
    return rig.finish(*rig.core->pull(std::move(request)));
  }
  static BlockId block(uint32_t n) { return BlockId{id_of(n), 0}; }
  static void expect_whole(const KvRig& rig, uint32_t n, uint32_t slot) {
    for (uint32_t l = 0; l < rig.layout.layers.size(); ++l)
      EXPECT_TRUE(rig.layer_is_stored(id_of(n), slot, l)) << n << " layer " << l;
  }
  static const ClientCounters& counts(const KvRig& rig) { return rig.core->counters(); }
  static uint32_t scratch_used(const KvRig& rig) {
    return dynamic_cast<Core&>(*rig.core).rebuild_scratch().used();
  }
  // The wants of all PULLs that had any.
  static std::vector<wire::Want> wants(const KvRig& rig) {
    std::vector<wire::Want> out;
    for (const auto& r : rig.daemon->log()) {
      if (r.type != Type::kPull) continue;
      const auto frame = r.frame();
      const auto& view = std::get<wire::PullView>(frame.body);
      for (uint32_t i = 0; i < view.wants.size(); ++i)
        out.push_back(view.wants[i]);
    }
    return out;
  }
  static bool has_wants(const ScriptedDaemon::Received& r) {
    if (r.type != Type::kPull) return false;
    const auto frame = r.frame();
    return std::get<wire::PullView>(frame.body).wants.size() > 0;
  }
  static uint64_t main_op(const KvRig& rig) {
    for (const auto& r : rig.daemon->log()) {
      if (r.type == Type::kPull && !has_wants(r)) return r.op;
    }
    return 0;
  }
};

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

TEST_F(RebuildTest, WantsThatAreRefusedForNowAreAskedAgain) {
  KvRig rig(std::vector<uint32_t>(4, 70000), 1, coded(4, 1));
  rig.put(0, 1);
  rig.daemon->lost = {{block(0), 2}};
  uint32_t refused = 0;
  rig.daemon->hook = [&](const auto& r) {
    if (!has_wants(r) || refused == 3) return false;
    ++refused;
    wire::Pulled no;
    no.code = static_cast<uint8_t>(Code::kOverloaded);
    rig.daemon->send(0, rig.daemon->encoder().pulled(r.op, no, {}));
    return true;
  };
  EXPECT_EQ(pull(rig, rig.pull_of(ids_of(0, 1))).codes[0], Code::kOk);
  expect_whole(rig, 0, 0);
  EXPECT_EQ(wants(rig).size(), 4u);
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

// ---- what is only late ----

// Extent 1 of block 0 is late; its original, PULLED and FENCED come when the test says so.
struct LateTest : RebuildTest {
  static RigOptions slow() {
    RigOptions options = coded(4, 1);
    options.daemon.piece_bytes = 100000;
    return options;
  }
  explicit LateTest(const RigOptions& options = slow())
      : rig(std::vector<uint32_t>(4, 300000), 1, options) {
    rig.put(0, 1);
    rig.daemon->hook = [this](const auto& r) {
      if (r.type == Type::kCancel) return true;
      if (r.type != Type::kPull) return false;
      if (has_wants(r)) return hold_wants;
      for (const uint32_t e : {0u, 2u, 3u})
        rig.daemon->send_extent(1, r.op, block(0), 0, e);
      rig.daemon->send_lost(r.op, rig.daemon->lost_of(block(0), 0, 1, wire::LostState::kLate));
      return true;
    };
  }
  void start() {
    EXPECT_TRUE(rig.ready());
    op = *rig.core->pull(rig.pull_of(ids_of(0, 1)));
    EXPECT_TRUE(rig.run_until([&] { return main_op(rig) != 0; }));
  }
  bool cancelled() const { return rig.daemon->count(Type::kCancel) > 0; }
  void send_original(uint32_t from, uint32_t to) {
    wire::Data data = rig.daemon->data_of(block(0), 0, 1);
    const ConstByteSpan bytes = rig.daemon->store().at(block(0)).extents[1];
    data.offset = from;
    rig.daemon->send_data(1, main_op(rig), data, bytes.subspan(from, to - from));
  }
  void send_pulled() {
    const uint8_t codes[] = {0};
    rig.daemon->send(0, rig.daemon->encoder().pulled(main_op(rig), {}, codes));
  }
  void send_fenced() {
    const uint64_t main = main_op(rig);
    rig.daemon->send(0, rig.daemon->encoder().fenced(main, wire::Fenced{main, 0, 1}));
  }
  // After the first CANCEL: the answer to whatever the end of the pull cancels too.
  void answer_cancels() {
    rig.daemon->hook = nullptr;
    for (const auto& r : std::vector(rig.daemon->log())) {
      if (r.type != Type::kCancel) continue;
      const auto frame = r.frame();
      const auto body = std::get<wire::CancelView>(frame.body).body;
      if (body.extent != wire::kWhole) continue;
      rig.daemon->send(0, rig.daemon->encoder().fenced(r.op, wire::Fenced{body.target_op}));
    }
  }
  static constexpr uint32_t kBytes = 300000;
  KvRig rig;
  OpId op = 0;
  bool hold_wants = false;
};

TEST_F(LateTest, AHedgeIsDeliveredOnlyAfterItsFence) {
  start();
  ASSERT_TRUE(rig.run_until([&] { return cancelled(); }));
  const auto frame = rig.daemon->last(Type::kCancel)->frame();
  const auto& body = std::get<wire::CancelView>(frame.body).body;
  EXPECT_EQ(body.target_op, main_op(rig));
  EXPECT_EQ(body.block, 0u);
  EXPECT_EQ(body.extent, 1u);
  rig.run_for(50 * kMillisecond);
  EXPECT_EQ(rig.read_layer(0, 1), std::vector<std::byte>(kBytes, KvRig::kPoison));  // D3
  EXPECT_EQ(rig.of(op, Event::Kind::kLayer).size(), 1u);
  send_fenced();
  ASSERT_TRUE(rig.run_until([&] { return rig.of(op, Event::Kind::kLayer).size() == 4; }, kSecond));
  expect_whole(rig, 0, 0);
  EXPECT_FALSE(rig.core->done(op));
  send_pulled();
  EXPECT_EQ(rig.finish(op).codes[0], Code::kOk);
  EXPECT_EQ(counts(rig).hedges, 1u);
  EXPECT_EQ(counts(rig).hedges_won, 1u);
  EXPECT_EQ(counts(rig).hedges_refused, 0u);
  EXPECT_EQ(counts(rig).hedged_bytes, kBytes);
  EXPECT_EQ(rig.daemon->count(Type::kCancel), 1u);
}

TEST_F(LateTest, AnOriginalThatIsWholeBeforeTheFenceWins) {
  start();
  ASSERT_TRUE(rig.run_until([&] { return cancelled(); }));
  for (uint32_t at = 0; at < kBytes; at += 100000)
    send_original(at, at + 100000);
  ASSERT_TRUE(rig.run_until([&] { return rig.of(op, Event::Kind::kLayer).size() == 4; }, kSecond));
  expect_whole(rig, 0, 0);
  const auto before = rig.memory;
  send_fenced();
  send_pulled();
  EXPECT_EQ(rig.finish(op).codes[0], Code::kOk);
  EXPECT_EQ(rig.memory, before);
  EXPECT_EQ(counts(rig).hedges, 1u);
  EXPECT_EQ(counts(rig).hedges_won, 0u);
  EXPECT_EQ(counts(rig).rebuilt_extents, 0u);
  EXPECT_EQ(scratch_used(rig), 0u);
}

// The original wins while its hedge is still being read: the pull does not wait for that.
TEST_F(LateTest, AHedgeThatIsNotNeededIsFencedAtTheEnd) {
  hold_wants = true;
  start();
  ASSERT_TRUE(rig.run_until([&] { return wants(rig).size() == 1; }));
  EXPECT_GT(scratch_used(rig), 0u);
  for (uint32_t at = 0; at < kBytes; at += 100000)
    send_original(at, at + 100000);
  send_pulled();
  ASSERT_TRUE(rig.run_until([&] { return cancelled(); }, 100 * kMillisecond));
  const auto frame = rig.daemon->last(Type::kCancel)->frame();
  const auto& body = std::get<wire::CancelView>(frame.body).body;
  EXPECT_NE(body.target_op, main_op(rig));
  EXPECT_EQ(body.extent, wire::kWhole);
  rig.run_for(20 * kMillisecond);
  EXPECT_FALSE(rig.core->done(op));  // what it asked for may still come
  EXPECT_GT(scratch_used(rig), 0u);  // D4
  answer_cancels();
  EXPECT_EQ(rig.finish(op, 100 * kMillisecond).codes[0], Code::kOk);
  EXPECT_EQ(scratch_used(rig), 0u);
  EXPECT_EQ(counts(rig).cancels, 0u);  // of the caller
}

// A part of the original is there when the fence comes; the rest is already in the lane behind it.
TEST_F(LateTest, WhatComesOfTheOriginalAfterTheFenceIsDiscarded) {
  start();
  send_original(0, 100000);
  ASSERT_TRUE(rig.run_until([&] { return cancelled(); }));
  send_fenced();
  ASSERT_TRUE(rig.run_until([&] { return rig.of(op, Event::Kind::kLayer).size() == 4; }, kSecond));
  expect_whole(rig, 0, 0);
  const std::vector<std::byte> wrong(100000, std::byte{0xEE});
  wire::Data data = rig.daemon->data_of(block(0), 0, 1);
  data.offset = 100000;
  rig.daemon->send_data(1, main_op(rig), data, wrong);
  rig.run_for(20 * kMillisecond);
  expect_whole(rig, 0, 0);
  EXPECT_GE(counts(rig).discarded_bytes, 100000u);
  send_pulled();
  EXPECT_EQ(rig.finish(op).codes[0], Code::kOk);
  EXPECT_EQ(counts(rig).hedges_won, 1u);
}

// The same with the fence and the rest of the original racing, over seeds: one of both wins.
TEST(LateRaces, TheFenceAndTheOriginalMayComeInAnyOrder) {
  struct Fixture : LateTest {
    explicit Fixture(const RigOptions& options) : LateTest(options) {}
    void TestBody() override {}
  };
  uint32_t won = 0, lost = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    RigOptions options = LateTest::slow();
    options.seed = seed;
    Fixture f(options);
    f.start();
    f.send_original(0, 100000);
    ASSERT_TRUE(f.rig.run_until([&] { return f.cancelled(); }));
    f.send_original(100000, 200000);
    f.send_original(200000, 300000);
    f.send_fenced();
    f.send_pulled();
    EXPECT_EQ(f.rig.finish(f.op).codes[0], Code::kOk);
    RebuildTest::expect_whole(f.rig, 0, 0);
    f.rig.run_for(20 * kMillisecond);
    RebuildTest::expect_whole(f.rig, 0, 0);
    (RebuildTest::counts(f.rig).hedges_won > 0 ? won : lost) += 1;
  }
  EXPECT_GT(won, 5u);
  EXPECT_GT(lost, 5u);
}

TEST_F(LateTest, WhatIsLostAfterAllNeedsNoFence) {
  hold_wants = true;
  start();
  ASSERT_TRUE(rig.run_until([&] { return wants(rig).size() == 1; }));
  rig.daemon->send_lost(main_op(rig), rig.daemon->lost_of(block(0), 0, 1, wire::LostState::kLost));
  send_pulled();
  rig.run_for(5 * kMillisecond);
  for (const auto& r : std::vector(rig.daemon->log())) {
    if (has_wants(r)) rig.daemon->answer_pull(r);
  }
  EXPECT_EQ(rig.finish(op).codes[0], Code::kOk);
  expect_whole(rig, 0, 0);
  EXPECT_FALSE(cancelled());
  EXPECT_EQ(counts(rig).hedges_won, 0u);
  EXPECT_EQ(counts(rig).rebuilt_extents, 1u);
}

// A hedge whose source is lost: there is no other with m = 1, so the original is waited for.
TEST_F(LateTest, AHedgeWithoutSourcesIsGivenUpAndTheOriginalStillCounts) {
  rig.daemon->lost = {{block(0), rig.table.parity_at(0, 0)}};
  start();
  ASSERT_TRUE(rig.run_until([&] { return wants(rig).size() == 1; }));
  rig.run_for(20 * kMillisecond);
  EXPECT_FALSE(rig.core->done(op));
  EXPECT_EQ(scratch_used(rig), 0u);
  rig.daemon->send_extent(1, main_op(rig), block(0), 0, 1);
  send_pulled();
  EXPECT_EQ(rig.finish(op).codes[0], Code::kOk);
  expect_whole(rig, 0, 0);
}

// One late and one lost of the same stripe with m = 1: the loss needs what is late, and gets it.
TEST_F(LateTest, ALossNeedsWhatIsLate) {
  start();
  ASSERT_TRUE(rig.run_until([&] { return wants(rig).size() == 1; }));
  // Extent 2 came already, so nothing is lost of it; a second pull loses it.
  rig.daemon->lost = {{block(0), 2}};
  rig.daemon->send_extent(1, main_op(rig), block(0), 0, 1);
  send_pulled();
  EXPECT_EQ(rig.finish(op).codes[0], Code::kOk);
  rig.poison();
  rig.daemon->hook = [this](const auto& r) {
    if (r.type != Type::kPull || has_wants(r)) return r.type == Type::kCancel;
    for (const uint32_t e : {0u, 3u})
      rig.daemon->send_extent(1, r.op, block(0), 0, e);
    rig.daemon->send_lost(r.op, rig.daemon->lost_of(block(0), 0, 1, wire::LostState::kLate));
    rig.daemon->send_lost(r.op, rig.daemon->lost_of(block(0), 0, 2, wire::LostState::kLost));
    return true;
  };
  const OpId second = *rig.core->pull(rig.pull_of(ids_of(0, 1)));
  rig.run_for(50 * kMillisecond);
  EXPECT_FALSE(rig.core->done(second));
  EXPECT_EQ(rig.of(second, Event::Kind::kLayer).size(), 1u);
  const uint64_t op_on_wire = [&] {
    uint64_t last = 0;
    for (const auto& r : rig.daemon->log()) {
      if (r.type == Type::kPull && !has_wants(r)) last = r.op;
    }
    return last;
  }();
  rig.daemon->send_extent(1, op_on_wire, block(0), 0, 1);
  const uint8_t codes[] = {0};
  rig.daemon->send(0, rig.daemon->encoder().pulled(op_on_wire, {}, codes));
  EXPECT_EQ(rig.finish(second).codes[0], Code::kOk);
  expect_whole(rig, 0, 0);
}

// The budget: a burst, then a share of what was pulled; 0 is off.
TEST_F(RebuildTest, HedgesKeepToTheirBudget) {
  for (const uint32_t percent : {0u, 5u}) {
    SCOPED_TRACE(percent);
    RigOptions options = coded(4, 1);
    options.client.hedge_percent = percent;
    KvRig rig(std::vector<uint32_t>(8, 1000000), 1, options);
    rig.put(0, 1);
    rig.daemon->hook = [&](const auto& r) {
      if (r.type != Type::kPull || has_wants(r)) return false;
      for (uint32_t e = 0; e < 8; ++e) {
        if (e == 5) {
          rig.daemon->send_lost(r.op, rig.daemon->lost_of(block(0), 0, e, wire::LostState::kLate));
        } else {
          rig.daemon->send_extent(1, r.op, block(0), 0, e);
        }
      }
      return true;
    };
    uint32_t pulls = 0;
    for (; pulls < 40; ++pulls) {
      rig.poison();
      const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 1)));
      rig.run_for(50 * kMillisecond);
      // Whoever is not hedged waits for the original.
      uint64_t main = 0;
      for (const auto& r : rig.daemon->log()) {
        if (r.type == Type::kPull && !has_wants(r)) main = r.op;
      }
      rig.daemon->send_extent(1, main, block(0), 0, 5);
      const uint8_t codes[] = {0};
      rig.daemon->send(0, rig.daemon->encoder().pulled(main, {}, codes));
      ASSERT_EQ(rig.finish(op).codes[0], Code::kOk);
      expect_whole(rig, 0, 0);
    }
    const ClientCounters& count = counts(rig);
    EXPECT_LE(count.hedged_bytes,
              count.pulled_bytes * percent / 100 + (percent > 0 ? HedgeBudget::kBurstBytes : 0));
    if (percent > 0) {
      EXPECT_EQ(count.hedges + count.hedges_refused, 40u);
      EXPECT_GT(count.hedges, 10u);
      EXPECT_GT(count.hedges_refused, 5u);
      EXPECT_EQ(count.hedges_won, count.hedges);
    } else {
      EXPECT_EQ(count.hedges, 0u);
      EXPECT_EQ(rig.daemon->count(Type::kPull), 40u);
    }
    EXPECT_EQ(scratch_used(rig), 0u);
  }
}

// ---- the end, at any step ----

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
