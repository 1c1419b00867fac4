// Goal: the core validates requests, keeps its tables bounded, registers formats, and comes to
// rest. Method: the rig; formats, regions, leases and closing, each at their limits.
#include "client/core.h"

#include <gtest/gtest.h>

#include "tests/client/client_rig.h"

namespace varve {
namespace {

const std::vector<uint32_t> kLayers = {1000, 2000, 70000};

TEST(CoreTest, RequestsThatCannotBeMeantAreRefusedAtOnce) {
  KvRig rig(kLayers, 4);
  const auto ids = ids_of(0, 2);
  const auto code = [](const auto& result) {
    return result.has_value() ? Code::kOk : result.error().code();
  };
  MatchRequest match;
  match.ids = ids;
  EXPECT_EQ(code(rig.core->match(match)), Code::kInvalid);  // no format
  match.format = rig.format_id + 1;
  EXPECT_EQ(code(rig.core->match(match)), Code::kInvalid);
  match.format = rig.format_id;
  match.ids.clear();
  EXPECT_EQ(code(rig.core->match(match)), Code::kInvalid);

  const auto pull = [&](const std::function<void(PullRequest&)>& change) {
    PullRequest request = rig.pull_of(ids);
    change(request);
    return code(rig.core->pull(request));
  };
  EXPECT_EQ(pull([](auto& r) { r.format = 0; }), Code::kInvalid);
  EXPECT_EQ(pull([](auto& r) { r.rank = 1; }), Code::kInvalid);
  EXPECT_EQ(pull([](auto& r) { r.ids.clear(), r.slots.clear(); }), Code::kInvalid);
  EXPECT_EQ(pull([](auto& r) { r.ids[1] = BaseId(); }), Code::kInvalid) << "an id that is none";
  EXPECT_EQ(pull([](auto& r) { r.slots.pop_back(); }), Code::kInvalid);
  EXPECT_EQ(pull([](auto& r) { r.slots[1] = 4; }), Code::kInvalid);
  EXPECT_EQ(pull([](auto& r) { r.layout = nullptr; }), Code::kInvalid);
  EXPECT_EQ(pull([](auto& r) { r.layer_first = 3; }), Code::kInvalid);
  EXPECT_EQ(pull([](auto& r) { r.layer_first = 1, r.layer_count = 3; }), Code::kInvalid);
  EXPECT_EQ(pull([](auto& r) { r.layer_first = 1, r.layer_count = ~0u; }), Code::kInvalid);
  EXPECT_EQ(pull([](auto& r) {
              r.ids = ids_of(0, 2049);
              r.slots.assign(2049, 0);
            }),
            Code::kInvalid);

  PushRequest push = rig.push_of(ids);
  push.rank = 1;
  EXPECT_EQ(code(rig.core->push(push)), Code::kInvalid);
  push = rig.push_of(ids);
  push.slots[0] = 9;
  EXPECT_EQ(code(rig.core->push(push)), Code::kInvalid);
  EXPECT_EQ(rig.core->push_layer(99, 0).code(), Code::kInvalid);
  EXPECT_EQ(code(rig.core->register_memory(nullptr, 5)), Code::kInvalid);
  EXPECT_EQ(code(rig.core->register_memory(rig.memory.data(), 0)), Code::kInvalid);
  EXPECT_EQ(rig.core->unregister_memory(0).code(), Code::kInvalid);
  EXPECT_EQ(rig.core->unregister_memory(77).code(), Code::kInvalid);
  EXPECT_TRUE(rig.events.empty());
  rig.core->cancel(99);
  rig.core->release(99);
  EXPECT_TRUE(rig.core->done(99));
}

TEST(CoreTest, OpsMaxBoundsWhatIsInFlight) {
  RigOptions options;
  options.client.ops_max = 3;
  KvRig rig(kLayers, 4, options);
  MatchRequest match;
  match.format = rig.format_id;
  match.ids = ids_of(0, 1);
  for (uint32_t i = 0; i < 3; ++i)
    EXPECT_TRUE(rig.core->match(match).has_value());
  auto over = rig.core->match(match);
  ASSERT_FALSE(over.has_value());
  EXPECT_EQ(over.error().code(), Code::kOverloaded);
  ASSERT_TRUE(rig.run_until([&] { return rig.events.size() == 3; }));
  EXPECT_TRUE(rig.core->match(match).has_value());
}

TEST(CoreTest, AFormatIsOneHoweverOftenItIsGiven) {
  KvRig rig(kLayers, 1);
  EXPECT_EQ(*rig.core->format(rig.format), rig.format_id);
  Format other = rig.format;
  other.lineage = "other";
  EXPECT_NE(*rig.core->format(other), rig.format_id);
  Format broken = rig.format;
  broken.ranks.clear();
  EXPECT_FALSE(rig.core->format(broken).has_value());
}

TEST(CoreTest, FormatsAreBounded) {
  ClientRig rig;
  Format format = format_of({100});
  for (uint32_t i = 0; i < kFormatsMax; ++i) {
    format.lineage = std::to_string(i);
    ASSERT_TRUE(rig.core->format(format).has_value()) << i;
  }
  format.lineage = "one too many";
  auto over = rig.core->format(format);
  ASSERT_FALSE(over.has_value());
  EXPECT_EQ(over.error().code(), Code::kOverloaded);
  // Expect: all are registered, one after the other.
  EXPECT_TRUE(rig.run_until([&] { return rig.daemon->count(Type::kFormat) == kFormatsMax; }));
}

// Formats as large as they come must not fill the urgent lane and drop the session.
TEST(CoreTest, LargeFormatsRegisterOverASmallLane) {
  RigOptions options;
  options.client.link.send_messages_max = 2;
  ClientRig rig(options);
  Format format = format_of({100});
  format.ranks.assign(30, std::vector<LayerSpec>(500, LayerSpec{LayerKind::kFull, 4096}));
  std::vector<FormatId> ids;
  for (uint32_t i = 0; i < 8; ++i) {
    format.lineage = std::to_string(i);
    ids.push_back(*rig.core->format(format));
  }
  MatchRequest match;
  match.ids = ids_of(0, 1);
  for (const FormatId id : ids) {
    match.format = id;
    const Event event = rig.finish(*rig.core->match(match));
    EXPECT_TRUE(event.status.ok()) << event.status.what();
  }
  EXPECT_EQ(rig.core->counters().disconnects, 0u);
}

TEST(CoreTest, TheNextFormatWaitsForTheAnswerOfTheLast) {
  ClientRig rig;
  rig.daemon->hook = [](const auto& r) { return r.type == Type::kFormat; };
  Format format = format_of({100});
  for (uint32_t i = 0; i < 3; ++i) {
    format.lineage = std::to_string(i);
    ASSERT_TRUE(rig.core->format(format).has_value());
  }
  ASSERT_TRUE(rig.ready());
  rig.run_for(100 * kMillisecond);
  EXPECT_EQ(rig.daemon->count(Type::kFormat), 1u);
}

TEST(CoreTest, FormatsAreRegisteredAgainWithEverySession) {
  KvRig rig(kLayers, 1);
  ASSERT_TRUE(rig.ready());
  MatchRequest match;
  match.format = rig.format_id;
  match.ids = ids_of(0, 1);
  EXPECT_TRUE(rig.finish(*rig.core->match(match)).status.ok());
  rig.daemon->close_lane(1);
  ASSERT_TRUE(rig.run_until([&] { return rig.core->counters().disconnects == 1; }));
  ASSERT_TRUE(rig.ready());
  EXPECT_TRUE(rig.finish(*rig.core->match(match)).status.ok());
  EXPECT_EQ(rig.daemon->count(Type::kFormat), 2u);
}

TEST(CoreTest, ARefusedFormatFailsItsOpsWithTheReason) {
  KvRig rig(kLayers, 2);
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kFormat) return false;
    wire::FormatOk no;
    no.code = static_cast<uint8_t>(Code::kQuota);
    rig.daemon->send(0, rig.daemon->encoder().format_ok(r.op, no));
    return true;
  };
  MatchRequest match;
  match.format = rig.format_id;
  match.ids = ids_of(0, 1);
  EXPECT_EQ(rig.finish(*rig.core->match(match)).status.code(), Code::kQuota);
  EXPECT_EQ(rig.finish(*rig.core->pull(rig.pull_of(ids_of(0, 1)))).status.code(), Code::kQuota);
  EXPECT_EQ(rig.finish(*rig.core->push(rig.push_of(ids_of(0, 1)))).status.code(), Code::kQuota);
}

TEST(CoreTest, AFormatTheNodeCannotHoldEndsEveryOpUnsupported) {
  KvRig rig(kLayers, 2);
  rig.daemon->hook = [&](const auto& r) {
    if (r.type != Type::kFormat) return false;
    wire::FormatOk no;
    no.code = static_cast<uint8_t>(Code::kUnsupported);
    rig.daemon->send(0, rig.daemon->encoder().format_ok(r.op, no));
    return true;
  };
  MatchRequest match;
  match.format = rig.format_id;
  match.ids = ids_of(0, 1);
  const Event matched = rig.finish(*rig.core->match(match));
  EXPECT_EQ(matched.status.code(), Code::kUnsupported);
  EXPECT_STREQ(matched.status.what(), "the daemon's node cannot hold blocks of this format");
  const Event pulled = rig.finish(*rig.core->pull(rig.pull_of(ids_of(0, 1))));
  EXPECT_EQ(pulled.status.code(), Code::kUnsupported);
  const Event pushed = rig.finish(*rig.core->push(rig.push_of(ids_of(0, 1))));
  EXPECT_EQ(pushed.status.code(), Code::kUnsupported);
  EXPECT_EQ(pushed.codes, std::vector<Code>(1, Code::kUnsupported));
}

TEST(CoreTest, ADaemonThatComesBackAsAnotherIsCounted) {
  KvRig rig(kLayers, 1);
  ASSERT_TRUE(rig.ready());
  const std::vector<uint32_t> tokens(16, 5);
  const auto before = *rig.core->base_ids(rig.format_id, BaseId(), tokens);
  const auto reconnect = [&] {
    const uint64_t connects = rig.core->counters().connects;
    rig.daemon->close_lane(0);
    ASSERT_TRUE(rig.run_until([&] { return rig.core->counters().connects > connects; }));
  };
  reconnect();
  EXPECT_EQ(rig.core->counters().identity_changes, 0u);
  rig.daemon->options().node.bytes[3] = std::byte{9};
  reconnect();
  EXPECT_EQ(rig.core->counters().identity_changes, 1u);
  EXPECT_EQ(*rig.core->base_ids(rig.format_id, BaseId(), tokens), before);
  rig.daemon->options().domain_salt.bytes[3] = std::byte{9};
  reconnect();
  EXPECT_EQ(rig.core->counters().identity_changes, 2u);
  EXPECT_NE(*rig.core->base_ids(rig.format_id, BaseId(), tokens), before);
}

TEST(CoreTest, AnotherFingerprintOrNoHandleIsNoRegistration) {
  for (const bool wrong_fingerprint : {true, false}) {
    KvRig rig(kLayers, 1);
    rig.daemon->hook = [&](const auto& r) {
      if (r.type != Type::kFormat) return false;
      wire::FormatOk ok;
      ok.format = wrong_fingerprint ? 1 : 0;
      if (!wrong_fingerprint) ok.fingerprint = rig.format.fingerprint();
      rig.daemon->send(0, rig.daemon->encoder().format_ok(r.op, ok));
      return true;
    };
    MatchRequest match;
    match.format = rig.format_id;
    match.ids = ids_of(0, 1);
    const Event event = rig.finish(*rig.core->match(match));
    EXPECT_EQ(event.status.code(), wrong_fingerprint ? Code::kUnsupported : Code::kInvalid);
  }
}

TEST(CoreTest, ARegionInUseStaysAndGoesWithTheTerminalEvent) {
  KvRig rig(kLayers, 1);
  rig.put(0, 1);
  const OpId op = *rig.core->pull(rig.pull_of(ids_of(0, 1)));
  EXPECT_EQ(rig.core->unregister_memory(rig.region).code(), Code::kOverloaded);
  ASSERT_TRUE(rig.run_until([&] { return rig.core->done(op); }));
  EXPECT_TRUE(rig.core->unregister_memory(rig.region).ok());
  EXPECT_FALSE(rig.core->unregister_memory(rig.region).ok());
  auto gone = rig.core->pull(rig.pull_of(ids_of(0, 1)));
  ASSERT_FALSE(gone.has_value());
  EXPECT_EQ(gone.error().code(), Code::kInvalid);
}

TEST(CoreTest, RegionsAreBoundedAndTheirNumbersComeBack) {
  ClientRig rig;
  std::byte memory[16];
  for (uint32_t i = 0; i < 3 * kRegionsMax; ++i) {
    auto region = rig.core->register_memory(memory, sizeof(memory));
    ASSERT_TRUE(region.has_value());
    ASSERT_TRUE(rig.core->unregister_memory(*region).ok());
  }
  for (uint32_t i = 0; i < kRegionsMax; ++i) {
    ASSERT_TRUE(rig.core->register_memory(memory, sizeof(memory)).has_value());
  }
  EXPECT_EQ(rig.core->register_memory(memory, sizeof(memory)).error().code(), Code::kOverloaded);
}

TEST(CoreTest, BaseIdsChainOverTheSaltOfTheDomain) {
  KvRig rig(kLayers, 1);
  std::vector<uint32_t> tokens(16 * 3 + 5);
  for (uint32_t i = 0; i < tokens.size(); ++i)
    tokens[i] = i;
  EXPECT_EQ(rig.core->base_ids(rig.format_id, BaseId(), tokens).error().code(), Code::kUnavailable);
  ASSERT_TRUE(rig.ready());
  const auto ids = *rig.core->base_ids(rig.format_id, BaseId(), tokens);
  ASSERT_EQ(ids.size(), 3u);
  Digest salt;
  salt.bytes[0] = std::byte{42};
  const std::span<const uint32_t> all(tokens);
  const BaseId first =
      base_id_of_tokens(rig.format.fingerprint(), salt, BaseId(), all.subspan(0, 16));
  EXPECT_EQ(ids[0], first);
  EXPECT_EQ(ids[1], base_id_of_tokens(rig.format.fingerprint(), salt, first, all.subspan(16, 16)));
  EXPECT_EQ(rig.core->base_ids(99, BaseId(), tokens).error().code(), Code::kInvalid);
  // Expect: the second half continues where the first ended.
  EXPECT_EQ((*rig.core->base_ids(rig.format_id, ids[0], all.subspan(16)))[1], ids[2]);
}

struct Listener : Task {
  void run() override { ++runs; }
  const char* name() const override { return "listener"; }
  uint32_t runs = 0;
};

TEST(CoreTest, TheListenerHearsOfStatesEventsAndRest) {
  Listener listener;
  KvRig rig(kLayers, 1);
  rig.core->notify(listener);
  const auto heard = [&](const std::function<bool()>& until) {
    const uint32_t before = listener.runs;
    EXPECT_TRUE(rig.run_until(until));
    EXPECT_TRUE(rig.run_until([&] { return listener.runs > before; }, kMillisecond));
  };
  heard([&] { return rig.core->state() == SessionState::kReady; });
  MatchRequest match;
  match.format = rig.format_id;
  match.ids = ids_of(0, 1);
  const OpId op = *rig.core->match(match);
  heard([&] { return rig.core->done(op); });
  rig.daemon->close_lane(0);
  heard([&] { return rig.core->state() == SessionState::kWaiting; });
  heard([&] { return rig.core->state() == SessionState::kConnecting; });
  rig.core->close();
  heard([&] { return rig.core->state() == SessionState::kClosed; });
  EXPECT_TRUE(rig.core->at_rest());
}

TEST(CoreTest, CloseEndsEveryOpAndAcceptsNoMore) {
  KvRig rig(kLayers, 8);
  rig.put(0, 4);
  ASSERT_TRUE(rig.ready());
  rig.daemon->hook = [](const auto& r) { return r.type != Type::kFormat; };
  MatchRequest match;
  match.format = rig.format_id;
  match.ids = ids_of(0, 4);
  std::vector<OpId> ops = {*rig.core->match(match), *rig.core->pull(rig.pull_of(ids_of(0, 4))),
                           *rig.core->push(rig.push_of(ids_of(4, 4)))};
  rig.run_for(5 * kMillisecond);
  rig.core->close();
  for (const OpId op : ops) {
    EXPECT_EQ(rig.finish(op, kSecond).status.code(), Code::kCancelled);
  }
  EXPECT_EQ(rig.core->match(match).error().code(), Code::kCancelled);
  ASSERT_TRUE(rig.run_until([&] { return rig.core->at_rest(); }, kSecond));
  EXPECT_EQ(rig.core->state(), SessionState::kClosed);
}

TEST(CoreTest, RestMeansNoOpAndNoLease) {
  KvRig rig(kLayers, 2);
  rig.put(0, 2);
  ASSERT_TRUE(rig.ready());
  EXPECT_TRUE(rig.core->at_rest());
  MatchRequest match;
  match.format = rig.format_id;
  match.ids = ids_of(0, 2);
  match.lease_ms = 1000;
  const Event matched = rig.finish(*rig.core->match(match));
  ASSERT_NE(matched.lease, 0u);
  rig.run_for(kMillisecond);
  EXPECT_FALSE(rig.core->at_rest());
  rig.core->release(matched.lease);
  EXPECT_TRUE(rig.core->at_rest());
  ASSERT_NE(rig.finish(*rig.core->match(match)).lease, 0u);
  EXPECT_FALSE(rig.core->at_rest());
  rig.run_for(2 * kSecond);  // it expires
  EXPECT_TRUE(rig.core->at_rest());
}

TEST(CoreTest, AnAbsurdDeadlineIsALongOne) {
  KvRig rig(kLayers, 1);
  rig.daemon->hook = [](const auto& r) { return r.type == Type::kMatch; };
  MatchRequest match;
  match.format = rig.format_id;
  match.ids = ids_of(0, 1);
  match.deadline_ns = kNever;
  const OpId op = *rig.core->match(match);
  rig.run_for(kSecond);
  EXPECT_FALSE(rig.core->done(op));
  rig.core->cancel(op);
  EXPECT_EQ(rig.finish(op).status.code(), Code::kCancelled);
}

}  // namespace
}  // namespace varve
