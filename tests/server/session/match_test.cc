// MATCH over several homes: the merged prefix, and leases that cover exactly it.
#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

void know(World& world, const std::vector<BaseId>& ids, uint32_t begin, uint32_t end,
          wire::TierKind tier = wire::TierKind::kDram) {
  for (uint32_t i = begin; i < end; ++i)
    world.home_of(ids[i]).known[ids[i]] = tier;
}

TEST(Match, TheMergedPrefixEndsAtTheFirstMissOfAnyHome) {
  World world(4);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  const auto ids = ids_of(100);
  know(world, ids, 0, 37);
  know(world, ids, 38, 100, wire::TierKind::kFlash);
  const auto view = client.wait<wire::MatchedView>(client.match(format, ids));
  EXPECT_EQ(view.body.code, 0);
  EXPECT_EQ(view.body.n_blocks, 37u);
  EXPECT_EQ(view.tiers.size(), 37u);
  EXPECT_EQ(view.body.lease, 0u);
  EXPECT_EQ(view.body.boot_id, client.welcome.boot_id);
  for (uint32_t i = 0; i < 37; ++i)
    EXPECT_EQ(view.tiers[i], wire::TierKind::kDram);
}

TEST(Match, OfEachTheTiersOfAllIdsAreMergedAndCounted) {
  World world(4);
  TestClient client(world);
  EXPECT_NE(client.welcome.features & wire::kFeatureEach, 0u);
  const uint32_t format = client.register_format(small_format());
  const auto ids = ids_of(wire::kIdsMax);
  know(world, ids, 1, 2, wire::TierKind::kFlash);
  know(world, ids, 7, 10);
  know(world, ids, 2047, 2048);
  const auto view = client.wait<wire::MatchedView>(client.match_each(format, ids));
  EXPECT_EQ(view.body.code, 0);
  EXPECT_EQ(view.body.lease, 0u);
  EXPECT_GT(view.body.last_layer_ns, 0u);
  ASSERT_EQ(view.tiers.size(), wire::kIdsMax);
  for (uint32_t i = 0; i < wire::kIdsMax; ++i) {
    const bool dram = (i >= 7 && i < 10) || i == 2047;
    const auto expected = i == 1 ? wire::TierKind::kFlash
                          : dram ? wire::TierKind::kDram
                                 : wire::TierKind::kNone;
    EXPECT_EQ(view.tiers[i], expected) << i;
  }
  EXPECT_EQ(world.metric("varve_match_hits_total", "tier=\"dram\""), 4);
  EXPECT_EQ(world.metric("varve_match_hits_total", "tier=\"flash\""), 1);
  EXPECT_EQ(world.metric("varve_match_misses_total"), 2043);
}

TEST(Match, OfEachAHomeThatFailsFailsItWhole) {
  World world(4);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  const auto ids = ids_of(50);
  know(world, ids, 0, 50);
  world.homes[1]->fail_next = Status::overloaded("busy");
  const auto view = client.wait<wire::MatchedView>(client.match_each(format, ids));
  EXPECT_EQ(view.body.code, static_cast<uint8_t>(Code::kOverloaded));
  EXPECT_EQ(view.body.n_blocks, 0u);
  EXPECT_EQ(world.metric("varve_match_refused_ids_total"), 50);
}

TEST(Match, EightHundredIdsGoInOneCallAndDuplicatesAreLikeAnyOther) {
  World world(4);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  auto ids = ids_of(800);
  ids[500] = ids[3];
  know(world, ids, 0, 800);
  EXPECT_EQ(client.wait<wire::MatchedView>(client.match(format, ids)).body.n_blocks, 800u);
  const auto most = ids_of(wire::kIdsMax);
  EXPECT_EQ(client.wait<wire::MatchedView>(client.match(format, most)).body.n_blocks, 500u);
}

TEST(Match, LeasesBeyondTheMergedPrefixAreTrimmedBeforeTheAnswer) {
  World world(4);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  const auto ids = ids_of(100);
  know(world, ids, 0, 37);
  know(world, ids, 38, 100);
  const auto view = client.wait<wire::MatchedView>(client.match(format, ids, 5000));
  EXPECT_EQ(view.body.n_blocks, 37u);
  EXPECT_NE(view.body.lease, 0u);
  EXPECT_EQ(view.body.lease_ms, 5000u);
  // Expect: the home of the miss needs no trim, every other home keeps only what lies below 37.
  const uint32_t missing = Shard::home(ids[37], kSlicesDefault, 4);
  for (uint32_t s = 0; s < 4; ++s) {
    ASSERT_EQ(world.homes[s]->leases.size(), 1u) << s;
    EXPECT_EQ(world.homes[s]->leases.begin()->second, s == missing ? ~uint64_t{0} : 37u) << s;
  }
}

TEST(Match, ALeaseCoversEveryHitOrThereIsNone) {
  World world(4);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  const auto ids = ids_of(100);
  know(world, ids, 0, 50);
  world.homes[2]->leases_full = true;
  const auto view = client.wait<wire::MatchedView>(client.match(format, ids, 5000));
  EXPECT_EQ(view.body.code, 0);
  EXPECT_EQ(view.body.n_blocks, 50u);
  EXPECT_EQ(view.body.lease, 0u);
  EXPECT_EQ(view.body.lease_ms, 0u);
  for (const auto& home : world.homes)
    EXPECT_TRUE(home->leases.empty()) << "the others gave theirs back before the answer";
  EXPECT_EQ(world.metric("varve_session_leases"), 0);
  EXPECT_EQ(world.metric("varve_session_leases_refused_total"), 1);
  // A home that has nothing of the prefix has nothing to lease.
  const uint32_t full = Shard::home(ids[0], kSlicesDefault, 4);
  for (uint32_t s = 0; s < 4; ++s)
    world.homes[s]->leases_full = s != full;
  const auto one = client.wait<wire::MatchedView>(client.match(format, {ids[0]}, 5000));
  EXPECT_NE(one.body.lease, 0u);
}

TEST(Match, CountsEveryIdOnceAsItsClientIsTold) {
  World world(4);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  const auto ids = ids_of(100);
  know(world, ids, 0, 1, wire::TierKind::kFlash);
  know(world, ids, 1, 3);
  know(world, ids, 4, 100);  // behind the first miss of another home: no hits
  client.wait<wire::MatchedView>(client.match(format, ids));
  EXPECT_EQ(world.metric("varve_match_ids_total"), 100);
  EXPECT_EQ(world.metric("varve_match_hits_total", "tier=\"flash\""), 1);
  EXPECT_EQ(world.metric("varve_match_hits_total", "tier=\"dram\""), 2);
  EXPECT_EQ(world.metric("varve_match_misses_total"), 97);
  client.wait<wire::MatchedView>(client.match(format + 7, ids));
  EXPECT_EQ(world.metric("varve_match_ids_total"), 200);
  EXPECT_EQ(world.metric("varve_match_refused_ids_total"), 100);
}

TEST(Match, NothingFoundLeasesNothing) {
  World world(4);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  const auto ids = ids_of(100);
  know(world, ids, 1, 100);  // every home pins something, the prefix is empty
  const auto view = client.wait<wire::MatchedView>(client.match(format, ids, 5000));
  EXPECT_EQ(view.body.n_blocks, 0u);
  EXPECT_EQ(view.body.lease, 0u);
  for (const auto& home : world.homes)
    EXPECT_TRUE(home->leases.empty());
  EXPECT_EQ(world.metric("varve_session_leases"), 0);
}

TEST(Match, AHomeThatFailsMakesItAMissWithItsReason) {
  World world(4);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  const auto ids = ids_of(50);
  know(world, ids, 0, 50);
  world.homes[1]->fail_next = Status::overloaded("busy");
  const auto view = client.wait<wire::MatchedView>(client.match(format, ids, 5000));
  EXPECT_EQ(view.body.code, static_cast<uint8_t>(Code::kOverloaded));
  EXPECT_EQ(view.body.n_blocks, 0u);
  EXPECT_EQ(view.body.lease, 0u);
  for (const auto& home : world.homes)
    EXPECT_TRUE(home->leases.empty());
}

TEST(Match, RecoveringAndQueuesAreReported) {
  World world(2);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  const auto ids = ids_of(20);
  know(world, ids, 0, 20, wire::TierKind::kFlash);
  const auto quiet = client.wait<wire::MatchedView>(client.match(format, ids));
  EXPECT_EQ(quiet.body.recovering, 0);
  EXPECT_GT(quiet.body.first_layer_ns, 0u);
  EXPECT_GT(quiet.body.last_layer_ns, quiet.body.first_layer_ns);
  world.homes[1]->recovering_ = true;
  world.homes[1]->read_ns_estimate = 7 * kMillisecond;
  const auto loaded = client.wait<wire::MatchedView>(client.match(format, ids));
  EXPECT_EQ(loaded.body.recovering, 1);
  EXPECT_EQ(loaded.body.first_layer_ns, quiet.body.first_layer_ns + 7 * kMillisecond);
  EXPECT_EQ(loaded.body.last_layer_ns, quiet.body.last_layer_ns + 7 * kMillisecond);
}

TEST(Match, AnUnknownFormatIsInvalid) {
  World world;
  TestClient client(world);
  const auto view = client.wait<wire::MatchedView>(client.match(1, ids_of(1)));
  EXPECT_EQ(view.body.code, static_cast<uint8_t>(Code::kInvalid));
}

TEST(Match, CancelledItAnswersFirstAndThenTheFence) {
  World world;
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  const auto ids = ids_of(5);
  know(world, ids, 0, 5);
  world.homes[0]->hold = true;
  const uint64_t op = client.match(format, ids, 1000);
  EXPECT_TRUE(world.run_until([&] { return world.homes[0]->held_count() == 1; }));
  client.cancel(op);
  world.run_for(10 * kMillisecond);
  EXPECT_EQ(client.answer(op), nullptr);
  world.homes[0]->release_held();
  const auto view = client.wait<wire::MatchedView>(op);
  EXPECT_EQ(view.body.code, static_cast<uint8_t>(Code::kCancelled));
  EXPECT_TRUE(world.run_until([&] { return client.urgent->count(wire::FrameType::kFenced) == 1; }));
  EXPECT_TRUE(world.homes[0]->leases.empty());
}

}  // namespace
}  // namespace varve::test
