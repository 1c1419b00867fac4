// RESERVE over several homes: answers by position, limits shared out before anything is granted.
#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

uint32_t count(const wire::ReservedView& view, wire::ReserveOutcome outcome) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < view.answers.size(); ++i)
    n += view.answers[i].outcome == outcome ? 1 : 0;
  return n;
}

TEST(Reserve, AnswersComeByPositionFromFourHomes) {
  World world(4);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  const auto ids = ids_of(40);
  for (uint32_t i = 0; i < 40; i += 4)
    world.home_of(ids[i]).known[ids[i]] = wire::TierKind::kFlash;
  const auto view = client.wait<wire::ReservedView>(client.reserve(format, ids));
  ASSERT_EQ(view.answers.size(), 40u);
  for (uint32_t i = 0; i < 40; ++i) {
    const wire::ReserveAnswer answer = view.answers[i];
    EXPECT_EQ(answer.outcome,
              i % 4 == 0 ? wire::ReserveOutcome::kExists : wire::ReserveOutcome::kGranted)
        << i;
    if (i % 4 != 0) {
      EXPECT_EQ(answer.attempt.target, Shard::home(ids[i], kSlicesDefault, 4));
    }
  }
  EXPECT_EQ(world.metric("varve_session_grants"), 30);
}

// Expect: as many pushes of one block at once as a client may have requests, none is overloaded.
TEST(Reserve, OneClientAloneIsNeverOverloaded) {
  World world;
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  world.homes[0]->hold = true;
  world.homes[0]->hold_kind = Part::Kind::kReserve;
  std::vector<uint64_t> ops;
  for (uint32_t i = 0; i < 256; ++i)
    ops.push_back(client.reserve(format, {id_of(i)}));
  EXPECT_TRUE(world.run_until([&] { return world.homes[0]->held_count() == 256; }));
  EXPECT_EQ(world.metric("varve_session_requests_refused_total", "code=\"overloaded\""), 0);
  world.homes[0]->release_held();
  EXPECT_EQ(client.wait<wire::ReservedView>(ops.back()).body.code, 0);
}

TEST(Reserve, ASecondWriterIsBusy) {
  World world;
  TestClient a(world), b(world);
  const uint32_t format_a = a.register_format(small_format());
  const uint32_t format_b = b.register_format(small_format());
  a.wait<wire::ReservedView>(a.reserve(format_a, ids_of(2)));
  const auto view = b.wait<wire::ReservedView>(b.reserve(format_b, ids_of(3)));
  EXPECT_EQ(count(view, wire::ReserveOutcome::kBusy), 2u);
  EXPECT_EQ(count(view, wire::ReserveOutcome::kGranted), 1u);
}

TEST(Reserve, AttemptsBeyondTheLimitAreQuotaAndExistsStillSaysSo) {
  SessionOptions options;
  options.attempts_max = 5;
  World world(1, options);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  const auto ids = ids_of(10);
  world.homes[0]->known[ids[9]] = wire::TierKind::kFlash;
  const auto view = client.wait<wire::ReservedView>(client.reserve(format, ids));
  EXPECT_EQ(count(view, wire::ReserveOutcome::kGranted), 5u);
  EXPECT_EQ(view.answers[9].outcome, wire::ReserveOutcome::kExists);
  EXPECT_EQ(view.answers[8].code, static_cast<uint8_t>(Code::kQuota));
  // Expect: with nothing left, existing blocks are still reported, and ABORT makes room again.
  const auto none = client.wait<wire::ReservedView>(client.reserve(format, {ids[9], ids[8]}));
  EXPECT_EQ(none.answers[0].outcome, wire::ReserveOutcome::kExists);
  EXPECT_EQ(none.answers[1].code, static_cast<uint8_t>(Code::kQuota));
}

TEST(Reserve, TheLimitHoldsInSumOverHomes) {
  SessionOptions options;
  options.attempts_max = 7;
  World world(4, options);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  const auto view = client.wait<wire::ReservedView>(client.reserve(format, ids_of(100)));
  EXPECT_LE(count(view, wire::ReserveOutcome::kGranted), 7u);
  EXPECT_GT(count(view, wire::ReserveOutcome::kGranted), 0u);
  EXPECT_EQ(world.metric("varve_session_grants"), count(view, wire::ReserveOutcome::kGranted));
}

TEST(Reserve, APartThatFailsRefusesItsPositionsOnly) {
  World world(4);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  const auto ids = ids_of(40);
  world.homes[2]->fail_next = Status::overloaded("no part for you");
  const auto view = client.wait<wire::ReservedView>(client.reserve(format, ids));
  for (uint32_t i = 0; i < 40; ++i) {
    const bool failed = Shard::home(ids[i], kSlicesDefault, 4) == 2;
    EXPECT_EQ(view.answers[i].outcome,
              failed ? wire::ReserveOutcome::kRefused : wire::ReserveOutcome::kGranted);
    if (failed) {
      EXPECT_EQ(view.answers[i].code, static_cast<uint8_t>(Code::kOverloaded));
    }
  }
}

TEST(Reserve, UnknownFormatsRanksAndTimesAreInvalid) {
  World world;
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  EXPECT_EQ(client.wait<wire::ReservedView>(client.reserve(format + 1, ids_of(1))).body.code,
            static_cast<uint8_t>(Code::kInvalid));
  EXPECT_EQ(client.wait<wire::ReservedView>(client.reserve(format, ids_of(1), 100, 1)).body.code,
            static_cast<uint8_t>(Code::kInvalid));
  EXPECT_EQ(client.wait<wire::ReservedView>(client.reserve(format, ids_of(1), 0)).body.code,
            static_cast<uint8_t>(Code::kInvalid));
}

TEST(Reserve, CancelledBeforeItsAnswerItGivesEverythingBack) {
  World world(2);
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  world.homes[1]->hold = true;
  world.homes[1]->hold_kind = Part::Kind::kReserve;
  const uint64_t op = client.reserve(format, ids_of(10));
  EXPECT_TRUE(world.run_until([&] { return world.homes[1]->held_count() == 1; }));
  client.cancel(op);
  world.run_for(100 * kMillisecond);
  EXPECT_EQ(client.urgent->count(wire::FrameType::kFenced), 0u);
  world.homes[1]->release_held();
  EXPECT_EQ(client.wait<wire::ReservedView>(op).body.code, static_cast<uint8_t>(Code::kCancelled));
  EXPECT_TRUE(world.run_until([&] { return client.urgent->count(wire::FrameType::kFenced) == 1; }));
  EXPECT_TRUE(world.run_until([&] { return world.metric("varve_session_grants") == 0; }));
  EXPECT_TRUE(world.homes[0]->at_rest() && world.homes[1]->at_rest());
}

TEST(Reserve, GrantsOfASessionThatEndedMeanwhileGoBack) {
  World world(2);
  {
    TestClient client(world);
    const uint32_t format = client.register_format(small_format());
    world.homes[1]->hold = true;
    world.homes[1]->hold_kind = Part::Kind::kReserve;
    client.reserve(format, ids_of(10));
    EXPECT_TRUE(world.run_until([&] { return world.homes[1]->held_count() == 1; }));
  }
  EXPECT_FALSE(world.table->at_rest());
  world.homes[1]->release_held();
  EXPECT_TRUE(world.settle());
  EXPECT_EQ(world.homes[0]->gone + world.homes[1]->gone, 2u);
}

TEST(Reserve, AnOpInUseClosesTheSession) {
  World world;
  TestClient client(world);
  const uint32_t format = client.register_format(small_format());
  client.wait<wire::ReservedView>(client.reserve(format, ids_of(1)));
  --client.next_op;  // the live attempt is named by this op
  client.reserve(format, ids_of(1, 50));
  EXPECT_TRUE(world.run_until([&] { return client.urgent->closed(); }, 5 * kSecond));
  EXPECT_EQ(world.metric("varve_session_malformed_total", "reason=\"state\""), 1);
  EXPECT_TRUE(world.settle());
}

}  // namespace
}  // namespace varve::test
