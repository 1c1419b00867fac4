// PULL: bytes arrive as stored, credit bounds what is on its way, and every end is typed and
// complete.
#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

constexpr uint64_t kBlockBytes = 300 * 1024 + 100 + (80 + 70 + 65) * 1024;

void store_block(World& world, const BaseId& id, uint32_t rank = 0) {
  std::vector<std::vector<std::byte>> extents;
  const ExtentTable table = *ExtentTable::of(small_format().ranks[0], Scheme{});
  for (uint32_t e = 0; e < table.extents.size(); ++e) {
    extents.push_back(bytes_of_extent({id, rank}, e, table.extents[e].bytes));
  }
  world.home_of(id).stored[{id, rank}] = extents;
  world.home_of(id).known[id] = wire::TierKind::kDram;
}

struct Pulling {
  Pulling(World& owner, uint32_t blocks, uint32_t lanes = 1, uint64_t credit = 64 * kMiB)
      : world(owner),
        client(owner, lanes, credit),
        format(client.register_format(small_format())),
        ids(ids_of(blocks)) {
    for (const BaseId& id : ids)
      store_block(world, id);
  }
  uint64_t received() const {
    uint64_t sum = 0;
    for (const auto& lane : client.bulk) {
      if (lane == nullptr) continue;
      for (const Got& got : lane->got)
        sum += got.payload.size();
    }
    return sum;
  }
  // Puts the DATA frames of `op` together; every piece must continue its extent on one lane.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<std::byte>> extents(uint64_t op) const {
    std::map<std::pair<uint32_t, uint32_t>, std::vector<std::byte>> out;
    for (const auto& lane : client.bulk) {
      if (lane == nullptr) continue;
      std::map<std::pair<uint32_t, uint32_t>, std::vector<std::byte>> here;
      for (const Got& got : lane->got) {
        const wire::Frame frame = got.frame();
        if (frame.header.op != op) continue;
        const wire::Data& data = std::get<wire::DataView>(frame.body).body;
        auto& bytes = here[{data.block, data.extent}];
        EXPECT_EQ(bytes.size(), data.offset);
        bytes.insert(bytes.end(), got.payload.begin(), got.payload.end());
      }
      for (auto& [key, bytes] : here) {
        EXPECT_EQ(out.count(key), 0u) << "one extent on two lanes";
        out[key] = std::move(bytes);
      }
    }
    return out;
  }
  World& world;
  TestClient client;
  uint32_t format;
  std::vector<BaseId> ids;
};

TEST(Pull, EveryByteArrivesFromFourHomesOverTwoLanes) {
  World world(4);
  Pulling pull(world, 6, 2);
  const uint64_t op = pull.client.pull(pull.format, pull.ids);
  const auto view = pull.client.wait<wire::PulledView>(op);
  EXPECT_EQ(view.body.code, 0);
  ASSERT_EQ(view.codes.size(), 6u);
  EXPECT_TRUE(world.run_until([&] { return pull.received() == 6 * kBlockBytes; }));
  const auto extents = pull.extents(op);
  EXPECT_EQ(extents.size(), 24u);
  for (uint32_t b = 0; b < 6; ++b) {
    EXPECT_EQ(view.codes[b], 0);
    for (uint32_t e = 0; e < 4; ++e) {
      const auto wanted = world.home_of(pull.ids[b]).stored.at({pull.ids[b], 0})[e];
      EXPECT_EQ(extents.at({b, e}), wanted) << b << "." << e;
    }
  }
  EXPECT_GT(pull.client.bulk[1]->got.size(), 0u);
  EXPECT_EQ(world.metric("varve_pull_sent_bytes_total"), static_cast<int64_t>(6 * kBlockBytes));
}

TEST(Pull, OnlyTheLayersAskedForAreSent) {
  World world;
  Pulling pull(world, 1);
  wire::Pull body;
  body.format = pull.format;
  body.deadline_ns = kSecond;
  body.layer_first = 1;
  body.layer_count = 2;
  body.count = 1;
  const uint64_t op = pull.client.next_op++;
  pull.client.urgent->send(pull.client.encoder().pull(op, body, pull.ids));
  EXPECT_EQ(pull.client.wait<wire::PulledView>(op).body.code, 0);
  EXPECT_TRUE(world.run_until([&] { return pull.received() == 150 * 1024; }));
  const auto extents = pull.extents(op);
  EXPECT_EQ(extents.size(), 2u);
  EXPECT_EQ(extents.count({0, 1}) + extents.count({0, 2}), 2u);
}

TEST(Pull, MissingBlocksHaveTheirCodeAndTheOthersCome) {
  World world(2);
  Pulling pull(world, 4);
  world.home_of(pull.ids[2]).stored.erase({pull.ids[2], 0});
  const uint64_t op = pull.client.pull(pull.format, pull.ids);
  const auto view = pull.client.wait<wire::PulledView>(op);
  EXPECT_EQ(view.body.code, 0);
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(view.codes[i], i == 2 ? static_cast<uint8_t>(Code::kUnavailable) : 0) << i;
  }
}

TEST(Pull, TheTiersOfAllHomesAreToldWhoeverKnowsThem) {
  World world(2);
  Pulling pull(world, 10);
  const auto tiers = [&](TestClient& client, uint32_t format) {
    return client.wait<wire::PulledView>(client.pull(format, pull.ids)).body.tiers;
  };
  const uint8_t dram = wire::tier_bit(wire::TierKind::kDram);
  EXPECT_EQ(tiers(pull.client, pull.format), dram);
  world.home_of(pull.ids[3]).known[pull.ids[3]] = wire::TierKind::kFlash;
  EXPECT_EQ(tiers(pull.client, pull.format), dram | wire::tier_bit(wire::TierKind::kFlash));
  world.home_of(pull.ids[3]).known[pull.ids[3]] = wire::TierKind::kDram;
  EXPECT_EQ(tiers(pull.client, pull.format), dram) << "each pull by itself";
  // Expect: to a client of before they are a reserved field, which is zero.
  TestClient old(world, 1, 64 * kMiB, "", wire::kFeatureCore | wire::kFeatureEach);
  EXPECT_EQ(old.welcome.features & wire::kFeatureTiers, 0u);
  EXPECT_EQ(tiers(old, old.register_format(small_format())), 0);
}

TEST(Pull, AHomeThatFailsCostsItsBlocksOnly) {
  World world(2);
  Pulling pull(world, 10);
  world.homes[1]->fail_next = Status::overloaded("no pull left");
  const auto view = pull.client.wait<wire::PulledView>(pull.client.pull(pull.format, pull.ids));
  EXPECT_EQ(view.body.code, 0);
  for (uint32_t i = 0; i < 10; ++i) {
    const bool failed = Shard::home(pull.ids[i], kSlicesDefault, 2) == 1;
    EXPECT_EQ(view.codes[i], failed ? static_cast<uint8_t>(Code::kOverloaded) : 0) << i;
  }
}

TEST(Pull, ALeaseGivesEachHomeItsOwn) {
  World world(4);
  Pulling pull(world, 20);
  const auto matched =
      pull.client.wait<wire::MatchedView>(pull.client.match(pull.format, pull.ids, 5000));
  const uint64_t op = pull.client.pull(pull.format, pull.ids, matched.body.lease);
  EXPECT_EQ(pull.client.wait<wire::PulledView>(op).body.code, 0);
  for (const auto& home : world.homes) {
    ASSERT_EQ(home->pull_leases.size(), 1u);
    EXPECT_EQ(home->leases.count(home->pull_leases[0]), 1u);
  }
}

// Expect: a lease that ended at one home, which looks by its own clock, has the one answer that a
// lease which ended in the session has, whatever other homes did meanwhile.
TEST(Pull, ALeaseThatIsOverAtOneHomeIsOneAnswerForTheWholePull) {
  World world(4);
  Pulling pull(world, 20);
  const auto matched =
      pull.client.wait<wire::MatchedView>(pull.client.match(pull.format, pull.ids, 5000));
  world.homes[2]->lease_gone = true;
  const uint64_t op = pull.client.pull(pull.format, pull.ids, matched.body.lease);
  const auto view = pull.client.wait<wire::PulledView>(op);
  EXPECT_EQ(view.body.code, static_cast<uint8_t>(Code::kTimedOut));
  EXPECT_EQ(view.body.count, 0u);
  EXPECT_EQ(world.metric("varve_session_pulls_timed_out_total"), 0);  // no deadline did it
  // Expect: its credit is back and the session goes on.
  const uint64_t again = pull.client.pull(pull.format, pull.ids);
  EXPECT_EQ(pull.client.wait<wire::PulledView>(again).body.code, 0);
}

TEST(Pull, WhereItsLeasePinnedNothingAPullIsBestEffort) {
  World world(4);
  Pulling pull(world, 20);
  const auto matched =
      pull.client.wait<wire::MatchedView>(pull.client.match(pull.format, {pull.ids[0]}, 5000));
  EXPECT_NE(matched.body.lease, 0u);
  for (const auto& home : world.homes)
    home->lease_gone = home->leases.empty();  // a home that asked for one would refuse
  const uint64_t op = pull.client.pull(pull.format, pull.ids, matched.body.lease);
  const auto view = pull.client.wait<wire::PulledView>(op);
  EXPECT_EQ(view.body.code, 0);
  ASSERT_EQ(view.codes.size(), 20u);
  for (uint32_t i = 0; i < 20; ++i)
    EXPECT_EQ(view.codes[i], 0) << i;
}

// Goal: a client that drains nothing keeps no page of a pull that is over. Method: the network
// swallows everything once the frames are in the lane, and the deadline ends the pull.
TEST(Pull, FramesOfAStoppedPullThatNobodyDrainsFailTheSession) {
  World world;
  Pulling pull(world, 8);
  const uint64_t op = pull.client.pull(pull.format, pull.ids, 0, 300 * kMillisecond);
  EXPECT_TRUE(world.run_until([&] { return world.homes[0]->sends_posted > 0; }));
  world.fabric.partition("server", true);
  EXPECT_TRUE(world.run_until(
      [&] { return world.metric("varve_session_pulls_timed_out_total") == 1; }, kSecond));
  world.run_for(4 * kSecond);
  EXPECT_EQ(world.metric("varve_sessions"), 1);
  EXPECT_FALSE(world.homes[0]->at_rest());
  world.run_for(3 * kSecond);
  EXPECT_EQ(world.metric("varve_session_slow_total", "reason=\"data\""), 1);
  EXPECT_TRUE(world.run_until([&] { return world.homes[0]->at_rest(); }, 3 * kSecond));
  EXPECT_EQ(pull.client.answer(op), nullptr);
  world.fabric.partition("server", false);
  EXPECT_TRUE(world.settle());
}

// Expect: a home that is slow by itself is no fault of the client's.
TEST(Pull, AStoppedPullWaitsForASlowHome) {
  World world;
  Pulling pull(world, 4);
  world.homes[0]->send_slowly = true;
  const uint64_t op = pull.client.pull(pull.format, pull.ids, 0, 300 * kMillisecond);
  world.run_for(20 * kSecond);
  EXPECT_EQ(world.metric("varve_sessions"), 1);
  world.homes[0]->release_sends();
  EXPECT_EQ(pull.client.wait<wire::PulledView>(op).body.code,
            static_cast<uint8_t>(Code::kTimedOut));
  EXPECT_EQ(world.metric("varve_session_slow_total", "reason=\"data\""), 0);
}

TEST(Pull, NeverMoreIsOnItsWayThanTheCredit) {
  World world(2);
  Pulling pull(world, 16, 1, 4 * kMiB);  // 16 blocks are 8 MiB
  const uint64_t op = pull.client.pull(pull.format, pull.ids);
  world.run_for(kSecond);
  EXPECT_EQ(pull.client.answer(op), nullptr);
  const uint64_t first = pull.received();
  EXPECT_LE(first, 4 * kMiB);
  EXPECT_GT(first, 3 * kMiB);
  // Expect: what is given back is used again, never more.
  uint64_t returned = 0;
  while (pull.client.answer(op) == nullptr) {
    const uint64_t news = pull.received() - returned;
    ASSERT_GT(news, 0u);
    pull.client.credit(news);
    returned += news;
    world.run_for(100 * kMillisecond);
    EXPECT_LE(pull.received() - returned, 4 * kMiB);
  }
  EXPECT_EQ(pull.received(), 16 * kBlockBytes);
  EXPECT_EQ(pull.client.wait<wire::PulledView>(op).body.code, 0);
}

TEST(Pull, TheWindowWantedFirstGetsTheCreditFirst) {
  World world;
  Pulling pull(world, 7, 1, 4 * kMiB);
  world.homes[0]->window_bytes = 4 * kMiB;
  const uint64_t big = pull.client.pull(pull.format, pull.ids);  // takes nearly all of it
  world.run_for(100 * kMillisecond);
  EXPECT_NE(pull.client.answer(big), nullptr);
  world.homes[0]->credit_order.clear();
  const Nanos now_ns = world.clock.now_ns();
  std::vector<uint64_t> ops;
  for (const uint32_t slack_ms : {900u, 300u, 600u}) {
    ops.push_back(
        pull.client.pull(pull.format, pull.ids, 0, 10 * kSecond, slack_ms * kMillisecond));
  }
  world.run_for(100 * kMillisecond);
  EXPECT_TRUE(world.homes[0]->credit_order.empty());
  for (uint32_t round = 1; round <= 3; ++round) {
    pull.client.credit(pull.received() - (round - 1) * 7 * kBlockBytes);
    EXPECT_TRUE(world.run_until([&] { return pull.received() == (round + 1) * 7 * kBlockBytes; }));
  }
  const auto& order = world.homes[0]->credit_order;
  ASSERT_EQ(order.size(), 3u);
  EXPECT_LT(order[0], order[1]);
  EXPECT_LT(order[1], order[2]);
  EXPECT_GE(order[0], now_ns + 300 * kMillisecond);
  for (const uint64_t op : ops)
    EXPECT_NE(pull.client.wait_got(op), nullptr);
}

TEST(Pull, MoreCreditThanWasSentClosesTheSession) {
  World world;
  Pulling pull(world, 1);
  pull.client.wait<wire::PulledView>(pull.client.pull(pull.format, pull.ids));
  pull.client.credit(kBlockBytes);
  world.run_for(10 * kMillisecond);
  EXPECT_FALSE(pull.client.urgent->closed());
  pull.client.credit(1);
  EXPECT_TRUE(world.run_until([&] { return pull.client.urgent->closed(); }, 5 * kSecond));
  EXPECT_EQ(world.metric("varve_session_malformed_total", "reason=\"credit\""), 1);
}

TEST(Pull, TheDeadlineEndsItWithWhatIsDone) {
  World world;
  Pulling pull(world, 16, 1, 4 * kMiB);  // will hang for want of credit
  const Nanos began_ns = world.clock.now_ns();
  const uint64_t op = pull.client.pull(pull.format, pull.ids, 0, 300 * kMillisecond);
  EXPECT_TRUE(world.run_until([&] { return pull.client.answer(op) != nullptr; }, 5 * kSecond));
  EXPECT_LT(world.clock.now_ns() - began_ns, 400 * kMillisecond);
  const auto view = pull.client.wait<wire::PulledView>(op);
  EXPECT_EQ(view.body.code, static_cast<uint8_t>(Code::kTimedOut));
  for (uint32_t i = 0; i < view.codes.size(); ++i)
    EXPECT_EQ(view.codes[i], static_cast<uint8_t>(Code::kTimedOut));
  EXPECT_EQ(pull.client.urgent->count(wire::FrameType::kFenced), 0u);
  EXPECT_EQ(world.metric("varve_session_pulls_timed_out_total"), 1);
}

TEST(Pull, CancelAnswersPulledAndThenFenced) {
  World world;
  Pulling pull(world, 16, 1, 4 * kMiB);
  const uint64_t op = pull.client.pull(pull.format, pull.ids);
  world.run_for(100 * kMillisecond);
  pull.client.cancel(op);
  pull.client.cancel(op);  // once more is no harm
  const auto view = pull.client.wait<wire::PulledView>(op);
  EXPECT_EQ(view.body.code, static_cast<uint8_t>(Code::kCancelled));
  EXPECT_TRUE(
      world.run_until([&] { return pull.client.urgent->count(wire::FrameType::kFenced) == 1; }));
  const wire::Frame fenced = pull.client.urgent->find(wire::FrameType::kFenced)->frame();
  EXPECT_EQ(std::get<wire::FencedView>(fenced.body).body.target_op, op);
  // Expect: the credit of what was never sent is there for the next one.
  pull.client.credit(pull.received());
  const uint64_t again = pull.client.pull(pull.format, {pull.ids[0], pull.ids[1]});
  EXPECT_EQ(pull.client.wait<wire::PulledView>(again).body.code, 0);
  // Expect: of an op that ended, FENCED comes at once.
  pull.client.cancel(again);
  EXPECT_TRUE(
      world.run_until([&] { return pull.client.urgent->count(wire::FrameType::kFenced) == 2; }));
}

TEST(Pull, FramesOfACancelledPullThatStillComeFromTheHomeAreNotSent) {
  World world;
  Pulling pull(world, 4);
  world.homes[0]->send_slowly = true;
  const uint64_t op = pull.client.pull(pull.format, pull.ids);
  world.run_for(50 * kMillisecond);
  world.homes[0]->release_sends();
  EXPECT_TRUE(world.run_until([&] { return pull.received() > 0; }));
  world.run_for(10 * kMillisecond);  // the home has it back
  const uint64_t before = pull.received();
  pull.client.cancel(op);
  world.run_for(10 * kMillisecond);
  world.homes[0]->release_sends();  // it did not look yet
  EXPECT_EQ(pull.client.wait<wire::PulledView>(op).body.code,
            static_cast<uint8_t>(Code::kCancelled));
  world.run_for(50 * kMillisecond);
  EXPECT_EQ(pull.received(), before);
  EXPECT_EQ(world.homes[0]->sends_cancelled, 1u);
  EXPECT_TRUE(world.homes[0]->at_rest());
}

TEST(Pull, LimitsAndNonsenseAreTypedRefusals) {
  SessionOptions options;
  options.pulls_max = 2;
  World world(1, options);
  Pulling pull(world, 1);
  EXPECT_EQ(pull.client.wait<wire::PulledView>(pull.client.pull(99, pull.ids)).body.code,
            static_cast<uint8_t>(Code::kInvalid));
  EXPECT_EQ(
      pull.client.wait<wire::PulledView>(pull.client.pull(pull.format, pull.ids, 0, 0)).body.code,
      static_cast<uint8_t>(Code::kInvalid));
  world.homes[0]->hold = true;
  world.homes[0]->hold_kind = Part::Kind::kPull;
  const uint64_t a = pull.client.pull(pull.format, pull.ids);
  const uint64_t b = pull.client.pull(pull.format, pull.ids);
  const uint64_t c = pull.client.pull(pull.format, pull.ids);
  EXPECT_EQ(pull.client.wait<wire::PulledView>(c).body.code, static_cast<uint8_t>(Code::kQuota));
  world.homes[0]->release_held();
  EXPECT_EQ(pull.client.wait<wire::PulledView>(a).body.code, 0);
  EXPECT_EQ(pull.client.wait<wire::PulledView>(b).body.code, 0);
}

TEST(Pull, WithoutABulkLaneItIsUnavailable) {
  World world;
  Pulling pull(world, 1, 0);
  EXPECT_EQ(pull.client.wait<wire::PulledView>(pull.client.pull(pull.format, pull.ids)).body.code,
            static_cast<uint8_t>(Code::kUnavailable));
}

// Lanes break at every moment of two pulls over two homes: everything comes back, nothing is left.
TEST(Pull, ADisconnectAtAnyMomentLeavesNothing) {
  for (uint32_t moment = 0; moment < 60; ++moment) {
    World world(2);
    {
      Pulling pull(world, 12, 2, 4 * kMiB);
      pull.client.pull(pull.format, pull.ids);
      pull.client.pull(pull.format, pull.ids, 0, 200 * kMillisecond);
      const Nanos end_ns = world.clock.now_ns() + kSecond;
      for (uint32_t s = 0; s < moment * 3; ++s)
        world.step(end_ns);
      if (moment % 3 == 0) world.fabric.break_all();
      if (moment % 3 == 1) pull.client.bulk[1]->close();
      if (moment % 3 == 2) pull.client.urgent->close();
      EXPECT_TRUE(world.settle()) << moment;
    }
    EXPECT_EQ(world.metric("varve_session_requests"), 0) << moment;
  }
}

TEST(Pull, WantsAreSentAndNothingElse) {
  World world(4);
  Pulling pull(world, 12);
  std::vector<wire::Want> wants;
  for (uint32_t b = 0; b < 12; b += 2)
    wants.push_back({b, (b / 2) % 4});
  wants.push_back({0, 3});
  const uint64_t op = pull.client.pull_wants(pull.format, pull.ids, wants);
  const auto view = pull.client.wait<wire::PulledView>(op);
  EXPECT_EQ(view.body.code, 0);
  ASSERT_EQ(view.codes.size(), 12u);
  for (uint32_t i = 0; i < 12; ++i)
    EXPECT_EQ(view.codes[i], 0) << i;
  EXPECT_TRUE(world.run_until([&] { return pull.extents(op).size() == wants.size(); }));
  const auto extents = pull.extents(op);
  for (const wire::Want& want : wants) {
    const auto& stored = world.home_of(pull.ids[want.block]).stored.at({pull.ids[want.block], 0});
    EXPECT_EQ(extents.at({want.block, want.extent}), stored[want.extent]);
  }
  EXPECT_EQ(world.metric("varve_pull_wants_total"), static_cast<int64_t>(wants.size()));
}

TEST(Pull, AHomeGetsItsWantsInTheOrderTheyCame) {
  World world;
  Pulling pull(world, 3);
  const std::vector<wire::Want> wants = {{2, 1}, {0, 3}, {1, 0}, {0, 0}};
  const uint64_t op = pull.client.pull_wants(pull.format, pull.ids, wants);
  EXPECT_EQ(pull.client.wait<wire::PulledView>(op).body.code, 0);
  EXPECT_EQ(world.homes[0]->wants_got, wants);
}

TEST(Pull, WantsOfNoBlockOrNoExtentOrTwiceAreInvalid) {
  World world;
  Pulling pull(world, 2);
  for (const wire::Want want : {wire::Want{2, 0}, wire::Want{0, 4}, wire::Want{0, 0}}) {
    const uint64_t op = pull.client.pull_wants(pull.format, pull.ids, {{0, 0}, want});
    EXPECT_EQ(pull.client.wait<wire::PulledView>(op).body.code,
              static_cast<uint8_t>(Code::kInvalid));
  }
  EXPECT_EQ(world.homes[0]->pulls, 0u);
}

// Expect: of a block that a home fails, the code; of one of which nothing was asked, ok.
TEST(Pull, AHomeWithoutWantsIsNotAsked) {
  World world(2);
  Pulling pull(world, 10);
  std::vector<wire::Want> wants;
  for (uint32_t i = 0; i < 10; ++i) {
    if (Shard::home(pull.ids[i], kSlicesDefault, 2) == 1) wants.push_back({i, 0});
  }
  ASSERT_FALSE(wants.empty());
  world.homes[1]->fail_next = Status::overloaded("no pull left");
  const auto view =
      pull.client.wait<wire::PulledView>(pull.client.pull_wants(pull.format, pull.ids, wants));
  EXPECT_EQ(world.homes[0]->pulls, 0u);
  for (uint32_t i = 0; i < 10; ++i) {
    const bool asked = Shard::home(pull.ids[i], kSlicesDefault, 2) == 1;
    EXPECT_EQ(view.codes[i], asked ? static_cast<uint8_t>(Code::kOverloaded) : 0) << i;
  }
}

}  // namespace
}  // namespace varve::test
