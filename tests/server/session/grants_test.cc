// Pushes: payload lands in lent slabs, checksums are checked at receipt, and every way of ending
// gives the slabs back exactly once, never while a receive is in flight into them.
#include "server/session/grants.h"

#include <gtest/gtest.h>

#include "tests/server/session/session_world.h"

namespace varve::test {
namespace {

struct Pushing {
  explicit Pushing(World& world, uint32_t blocks = 1, uint32_t hold_ms = 10000, uint32_t lanes = 2)
      : client(world, lanes), format(client.register_format(small_format())) {
    ids = ids_of(blocks);
    op = client.reserve(format, ids, hold_ms);
    const wire::ReservedView view = client.wait<wire::ReservedView>(op);
    EXPECT_EQ(view.body.code, 0);
    for (uint32_t i = 0; i < view.answers.size(); ++i) {
      EXPECT_EQ(view.answers[i].outcome, wire::ReserveOutcome::kGranted);
      attempts.push_back(view.answers[i].attempt);
    }
  }
  BlockId block(uint32_t i = 0) const { return {ids[i], 0}; }
  Code commit_code(uint32_t i = 0, int32_t lane = 0) {
    const uint64_t commit = client.commit(op, i, block(i), attempts[i], lane);
    return static_cast<Code>(client.wait<wire::CommittedView>(commit).body.code);
  }
  Code commit_rows(const std::vector<ExtentEntry>& rows) {
    wire::Commit body;
    body.reserve_op = op;
    body.epoch = client.welcome.epoch;
    body.attempt = attempts[0];
    body.count = static_cast<uint32_t>(rows.size());
    const uint64_t commit = client.next_op++;
    client.bulk[0]->send(client.encoder().commit(commit, body, rows));
    return static_cast<Code>(client.wait<wire::CommittedView>(commit).body.code);
  }
  wire::Extent first_piece(uint32_t bytes) const {
    wire::Extent body;
    body.reserve_op = op;
    body.extent_bytes = bytes;
    body.attempt = attempts[0];
    return body;
  }
  // The session must end; answers the code and the text are on the urgent lane.
  Code closed_with(World& world) {
    EXPECT_TRUE(world.run_until([&] { return client.urgent->closed(); }, 5 * kSecond));
    const Got* got = client.urgent->find(wire::FrameType::kRefused);
    if (got == nullptr) return Code::kOk;
    const wire::Frame frame = got->frame();
    return static_cast<Code>(std::get<wire::RefusedView>(frame.body).body.code);
  }
  TestClient client;
  uint32_t format;
  std::vector<BaseId> ids;
  uint64_t op = 0;
  std::vector<Attempt> attempts;
};

std::vector<std::byte> extent0(const Pushing& push) {
  return bytes_of_extent(push.block(), 0, 300 * 1024 + 100);
}

TEST(Grants, ABlockIsReceivedVerifiedAndCommitted) {
  World world;
  Pushing push(world);
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], {});
  EXPECT_EQ(push.commit_code(), Code::kOk);
  const auto& stored = world.homes[0]->stored.at(push.block());
  EXPECT_EQ(stored.size(), 4u);
  EXPECT_EQ(stored[0], extent0(push));
  EXPECT_EQ(world.homes[0]->commits, 1u);
  EXPECT_EQ(world.metric("varve_session_grants"), 0);
  EXPECT_EQ(world.metric("varve_push_received_bytes_total"),
            300 * 1024 + 100 + (80 + 70 + 65) * 1024);
}

TEST(Grants, PiecesOfAnySizeAddUp) {
  World world;
  Pushing push(world);
  TestClient::PushShape shape;
  shape.piece_bytes = 10007;  // begins in the middle of pages
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], shape);
  EXPECT_EQ(push.commit_code(), Code::kOk);
  EXPECT_EQ(world.homes[0]->stored.at(push.block())[0], extent0(push));
}

TEST(Grants, ExtentsOfOneBlockMayComeOverTwoLanes) {
  World world;
  Pushing push(world);
  TestClient::PushShape odd;
  odd.lane = 1;
  odd.skip_extent = 0;
  // Lane 0 brings extent 0 only, lane 1 the rest: the commit may overtake either.
  const auto bytes = extent0(push);
  const auto rows = push.client.entries(push.block(), push.attempts[0]);
  wire::Extent body = push.first_piece(rows[0].stored_bytes);
  body.stored_crc = rows[0].stored_crc;
  push.client.send_piece(body, std::span(bytes).first(kPayloadBytesMax), 0);
  body.offset = kPayloadBytesMax;
  push.client.send_piece(body, std::span(bytes).subspan(kPayloadBytesMax), 0);
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], odd);
  EXPECT_EQ(push.commit_code(0, -1), Code::kOk);
}

TEST(Grants, ACommitThatOvertakesItsExtentsWaitsForThem) {
  World world;
  Pushing push(world);
  const uint64_t commit = push.client.commit(push.op, 0, push.block(), push.attempts[0], -1);
  world.run_for(100 * kMillisecond);
  EXPECT_EQ(push.client.answer(commit), nullptr);
  EXPECT_EQ(world.homes[0]->commits, 0u);
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], {});
  EXPECT_EQ(push.client.wait<wire::CommittedView>(commit).body.code, 0);
}

TEST(Grants, ACommitWithoutAllExtentsEndsWithTheReservation) {
  World world;
  Pushing push(world, 1, 500);
  TestClient::PushShape shape;
  shape.skip_extent = 2;
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], shape);
  const uint64_t commit = push.client.commit(push.op, 0, push.block(), push.attempts[0]);
  EXPECT_EQ(push.client.wait<wire::CommittedView>(commit).body.code,
            static_cast<uint8_t>(Code::kTimedOut));
  EXPECT_EQ(world.homes[0]->aborts, 1u);
  EXPECT_EQ(world.homes[0]->commits, 0u);
  EXPECT_TRUE(world.homes[0]->at_rest());
}

TEST(Grants, OneFlippedBitMakesTheAttemptCorrupt) {
  World world;
  Pushing push(world);
  TestClient::PushShape shape;
  shape.spoil = true;
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], shape);
  EXPECT_EQ(push.commit_code(), Code::kCorrupt);
  EXPECT_EQ(world.homes[0]->commits, 0u);
  EXPECT_EQ(world.homes[0]->aborts, 1u);
  EXPECT_GE(world.metric("varve_session_corrupt_extents_total"), 1);
  EXPECT_TRUE(world.homes[0]->at_rest());
  // Expect: the session lives and can try again.
  const uint64_t again = push.client.reserve(push.format, push.ids);
  const wire::ReservedView view = push.client.wait<wire::ReservedView>(again);
  push.client.send_extents(again, 0, push.block(), view.answers[0].attempt, {});
  const uint64_t commit = push.client.commit(again, 0, push.block(), view.answers[0].attempt);
  EXPECT_EQ(push.client.wait<wire::CommittedView>(commit).body.code, 0);
}

TEST(Grants, ATableThatDiffersFromWhatCameIsCorrupt) {
  World world;
  Pushing push(world);
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], {});
  auto rows = push.client.entries(push.block(), push.attempts[0]);
  rows[1].stored_crc ^= 1;
  wire::Commit body;
  body.reserve_op = push.op;
  body.epoch = push.client.welcome.epoch;
  body.attempt = push.attempts[0];
  body.count = static_cast<uint32_t>(rows.size());
  const uint64_t op = push.client.next_op++;
  push.client.bulk[0]->send(push.client.encoder().commit(op, body, rows));
  EXPECT_EQ(push.client.wait<wire::CommittedView>(op).body.code,
            static_cast<uint8_t>(Code::kCorrupt));
  EXPECT_TRUE(world.homes[0]->at_rest());
}

// Goal: what the tail scan, reclaim and scrub will judge these bytes by is judged at receipt, for a
// commit behind its extents and for one that overtakes them. Method: one bit of one XXH3 is wrong.
TEST(Grants, AWrongDecodedChecksumIsRefusedAtCommit) {
  for (const bool overtakes : {false, true}) {
    World world;
    Pushing push(world);
    auto rows = push.client.entries(push.block(), push.attempts[0]);
    rows[2].decoded_xxh3 ^= 1;
    wire::Commit body;
    body.reserve_op = push.op;
    body.epoch = push.client.welcome.epoch;
    body.attempt = push.attempts[0];
    body.count = static_cast<uint32_t>(rows.size());
    body.ack = wire::AckKind::kDurable;
    const uint64_t op = push.client.next_op++;
    if (!overtakes) push.client.send_extents(push.op, 0, push.block(), push.attempts[0], {});
    world.run_for(100 * kMillisecond);
    push.client.urgent->send(push.client.encoder().commit(op, body, rows));
    world.run_for(100 * kMillisecond);
    if (overtakes) push.client.send_extents(push.op, 0, push.block(), push.attempts[0], {});
    EXPECT_EQ(push.client.wait<wire::CommittedView>(op).body.code,
              static_cast<uint8_t>(Code::kCorrupt));
    EXPECT_EQ(world.homes[0]->commits, 0u);
    EXPECT_EQ(world.metric("varve_session_corrupt_extents_total"), 1);
    EXPECT_TRUE(world.homes[0]->at_rest());
  }
}

TEST(Grants, ATableOfAnotherShapeIsRefused) {
  World world;
  Pushing push(world, 2);
  for (uint32_t i = 0; i < 2; ++i) {
    push.client.send_extents(push.op, i, push.block(i), push.attempts[i], {});
    auto rows = push.client.entries(push.block(i), push.attempts[i]);
    if (i == 0) rows.pop_back();
    if (i == 1) rows[2].stored_bytes += 1;
    wire::Commit body;
    body.reserve_op = push.op;
    body.index = i;
    body.epoch = push.client.welcome.epoch;
    body.attempt = push.attempts[i];
    body.count = static_cast<uint32_t>(rows.size());
    const uint64_t op = push.client.next_op++;
    push.client.bulk[0]->send(push.client.encoder().commit(op, body, rows));
    EXPECT_NE(push.client.wait<wire::CommittedView>(op).body.code, 0) << i;
  }
  EXPECT_EQ(world.homes[0]->commits, 0u);
  EXPECT_TRUE(world.homes[0]->at_rest());
}

TEST(Grants, AnAbortGivesTheSlabsBack) {
  World world;
  Pushing push(world, 2);
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], {});
  const uint64_t abort = push.client.abort(push.op, 0, push.attempts[0]);
  EXPECT_EQ(push.client.wait<wire::AbortedView>(abort).body.code, 0);
  EXPECT_EQ(world.homes[0]->aborts, 1u);
  EXPECT_EQ(world.metric("varve_session_grants"), 1);
  // Expect: late extents are discarded, a late commit is told, a second abort is no error.
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], {});
  EXPECT_EQ(push.commit_code(), Code::kTimedOut);
  const uint64_t second = push.client.abort(push.op, 0, push.attempts[0]);
  EXPECT_EQ(push.client.wait<wire::AbortedView>(second).body.code, 0);
  EXPECT_EQ(world.metric("varve_session_extents_discarded_total", "reason=\"unknown\""), 5);
  EXPECT_EQ(world.homes[0]->aborts, 1u);
}

TEST(Grants, AForeignAttemptIsDiscardedAndNeverMixed) {
  World world;
  Pushing push(world);
  Attempt foreign = push.attempts[0];
  ++foreign.counter;
  push.client.send_extents(push.op, 0, push.block(), foreign, {});
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], {});
  EXPECT_EQ(push.commit_code(), Code::kOk);
  EXPECT_EQ(world.metric("varve_session_extents_discarded_total", "reason=\"foreign\""), 5);
  EXPECT_EQ(world.homes[0]->stored.at(push.block())[0], extent0(push));
}

TEST(Grants, AReservationEndsByItsTime) {
  World world;
  Pushing push(world, 2, 300);
  EXPECT_FALSE(world.homes[0]->at_rest());
  world.run_for(kSecond);
  EXPECT_EQ(world.homes[0]->aborts, 2u);
  EXPECT_TRUE(world.homes[0]->at_rest());
  EXPECT_EQ(push.commit_code(), Code::kTimedOut);
  EXPECT_EQ(world.metric("varve_session_reservations_expired_total"), 2);
}

TEST(Grants, ExpiryInTheMiddleOfAPayloadWaitsForItsEnd) {
  SimFabricOptions fabric;
  fabric.piece_ns_max = 400 * kMillisecond;  // a payload takes long to land
  World world(1, {}, fabric);
  Pushing push(world, 1, 200);
  const auto bytes = extent0(push);
  wire::Extent body = push.first_piece(static_cast<uint32_t>(bytes.size()));
  push.client.send_piece(body, std::span(bytes).first(kPayloadBytesMax));
  EXPECT_TRUE(world.run_until(
      [&] { return world.metric("varve_session_reservations_expired_total") == 1; }, 5 * kSecond));
  // Expect: whatever is still landing, lands in pages that nobody else has.
  const bool landing = world.homes[0]->aborts == 0;
  EXPECT_TRUE(world.run_until([&] { return world.homes[0]->aborts == 1; }, 5 * kSecond));
  EXPECT_TRUE(landing);
  EXPECT_TRUE(world.homes[0]->at_rest());
}

// Goal: a client that trickles a payload does not keep slabs for as long as it likes. Expect: a
// grant that still drains when its time for that is over fails the session, whose fences give the
// slabs back.
TEST(Grants, APayloadThatTricklesPastItsReservationFailsTheSession) {
  SimFabricOptions fabric;
  fabric.piece_ns_max = 200 * kSecond;
  World world(1, {}, fabric);
  Pushing push(world, 1, 200);
  const auto bytes = extent0(push);
  push.client.send_piece(push.first_piece(static_cast<uint32_t>(bytes.size())),
                         std::span(bytes).first(kPayloadBytesMax));
  EXPECT_TRUE(world.run_until(
      [&] { return world.metric("varve_session_reservations_expired_total") == 1; }, 5 * kSecond));
  const Nanos ended_ns = world.clock.now_ns();
  world.run_for(4 * kSecond);
  EXPECT_EQ(world.metric("varve_sessions"), 1) << "within its time nothing happens";
  EXPECT_EQ(push.closed_with(world), Code::kTimedOut);
  EXPECT_LT(world.clock.now_ns() - ended_ns, 7 * kSecond);
  EXPECT_EQ(world.metric("varve_session_slow_total", "reason=\"extent\""), 1);
  EXPECT_EQ(world.metric("varve_session_closed_total", "code=\"timed_out\""), 1);
  EXPECT_TRUE(world.run_until([&] { return world.homes[0]->aborts == 1; }, kSecond));
  EXPECT_TRUE(world.settle());
}

TEST(Grants, OfAnAttemptThatDrainsACommitIsTimedOut) {
  SimFabricOptions fabric;
  fabric.piece_ns_max = 2 * kSecond;
  World world(1, {}, fabric);
  Pushing push(world);
  const auto bytes = extent0(push);
  push.client.send_piece(push.first_piece(static_cast<uint32_t>(bytes.size())),
                         std::span(bytes).first(kPayloadBytesMax));
  world.run_for(10 * kMillisecond);
  push.client.cancel(push.op);  // the attempt ends as cancelled, and waits for its payload
  world.run_for(10 * kMillisecond);
  EXPECT_EQ(world.homes[0]->aborts, 0u);
  EXPECT_EQ(push.commit_code(0, -1), Code::kTimedOut);
  EXPECT_TRUE(world.run_until([&] { return world.homes[0]->aborts == 1; }, 5 * kSecond));
}

TEST(Grants, MalformedPiecesCloseTheSessionAndLeaveNothing) {
  struct Case {
    const char* name;
    void (*spoil)(wire::Extent&);
    uint32_t bytes;
  };
  const Case cases[] = {
      {"gap", [](wire::Extent& e) { e.offset = 4096; }, 1000},
      {"size", [](wire::Extent& e) { e.extent_bytes += 1; }, 1000},
      {"extent", [](wire::Extent& e) { e.extent = 4; }, 1000},
      {"other size", [](wire::Extent& e) { e.extent = 1; }, 1000},
      {"beyond", [](wire::Extent& e) { e.extent = 3, e.extent_bytes = 65 * 1024; }, 65 * 1024 + 1},
  };
  for (const Case& bad : cases) {
    World world;
    Pushing push(world);
    wire::Extent body = push.first_piece(300 * 1024 + 100);
    bad.spoil(body);
    push.client.send_piece(body, std::vector<std::byte>(bad.bytes));
    EXPECT_EQ(push.closed_with(world), Code::kInvalid) << bad.name;
    EXPECT_TRUE(world.settle()) << bad.name;
    EXPECT_EQ(world.metric("varve_session_malformed_total", "reason=\"extent\""), 1) << bad.name;
  }
}

TEST(Grants, AReplayedPieceClosesTheSession) {
  World world;
  Pushing push(world);
  const auto bytes = extent0(push);
  const wire::Extent body = push.first_piece(static_cast<uint32_t>(bytes.size()));
  push.client.send_piece(body, std::span(bytes).first(1000));
  push.client.send_piece(body, std::span(bytes).first(1000));
  EXPECT_EQ(push.closed_with(world), Code::kInvalid);
  EXPECT_TRUE(world.settle());
}

TEST(Grants, AReplayedCommitIsToldAndHarmless) {
  World world;
  Pushing push(world);
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], {});
  world.homes[0]->hold = true;
  world.homes[0]->hold_kind = Part::Kind::kCommit;
  const uint64_t first = push.client.commit(push.op, 0, push.block(), push.attempts[0]);
  EXPECT_TRUE(world.run_until([&] { return world.homes[0]->held_count() == 1; }));
  EXPECT_EQ(push.commit_code(), Code::kInvalid);
  const uint64_t abort = push.client.abort(push.op, 0, push.attempts[0]);
  EXPECT_EQ(push.client.wait<wire::AbortedView>(abort).body.code,
            static_cast<uint8_t>(Code::kInvalid));
  world.homes[0]->release_held();
  EXPECT_EQ(push.client.wait<wire::CommittedView>(first).body.code, 0);
  EXPECT_EQ(push.commit_code(), Code::kTimedOut);
  EXPECT_EQ(world.homes[0]->commits, 1u);
}

TEST(Grants, AFailedCommitIsReportedAsTheHomeSaysIt) {
  World world;
  Pushing push(world);
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], {});
  world.run_for(100 * kMillisecond);
  world.homes[0]->hold = true;
  world.homes[0]->hold_kind = Part::Kind::kCommit;
  const uint64_t commit = push.client.commit(push.op, 0, push.block(), push.attempts[0]);
  EXPECT_TRUE(world.run_until([&] { return world.homes[0]->held_count() == 1; }));
  world.homes[0]->fail_next = Status::no_space("a full drive");
  world.homes[0]->drop_failed = true;
  world.homes[0]->release_held();
  EXPECT_EQ(push.client.wait<wire::CommittedView>(commit).body.code,
            static_cast<uint8_t>(Code::kNoSpace));
}

TEST(Grants, CancellingAnAnsweredReserveEndsItsAttempts) {
  World world;
  Pushing push(world, 3);
  push.client.cancel(push.op);
  EXPECT_TRUE(world.run_until([&] { return world.homes[0]->aborts == 3; }));
  EXPECT_TRUE(
      world.run_until([&] { return push.client.urgent->count(wire::FrameType::kFenced) == 1; }));
  EXPECT_TRUE(world.homes[0]->at_rest());
}

// A lane breaks at every moment of a push: whatever was lent is back, nothing lands in given-back
// pages.
TEST(Grants, ADisconnectAtAnyMomentLeavesNothing) {
  for (uint32_t moment = 0; moment < 60; ++moment) {
    World world;
    {
      Pushing push(world, 2);
      push.client.send_extents(push.op, 0, push.block(0), push.attempts[0], {});
      push.client.send_extents(push.op, 1, push.block(1), push.attempts[1], {});
      push.client.commit(push.op, 0, push.block(0), push.attempts[0]);
      const Nanos end_ns = world.clock.now_ns() + kSecond;
      for (uint32_t s = 0; s < moment * 2; ++s)
        world.step(end_ns);
      if (moment % 3 == 0) world.fabric.break_all();
      if (moment % 3 == 1) push.client.bulk[0]->close();
      if (moment % 3 == 2) push.client.urgent->close();
      EXPECT_TRUE(world.settle()) << moment;
    }
    EXPECT_EQ(world.metric("varve_session_grants"), 0) << moment;
  }
}

// Goal: under a scheme with parity a block is its whole table: as many extents, as many checks.
struct CodedWorld {
  static SessionOptions options() {
    SessionOptions options;
    options.scheme = {2, 1};
    return options;
  }
  World world{1, options()};
};

constexpr uint32_t kWhole = 7;   // stripes {0}, {1, 2}, {3} of small_format() and a parity of each
constexpr uint32_t kParity = 5;  // of stripe {1, 2}

TEST(Grants, ParityIsReceivedVerifiedAndCommittedLikeData) {
  CodedWorld coded;
  Pushing push(coded.world);
  ASSERT_EQ(push.client.table().count(), kWhole);
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], {});
  EXPECT_EQ(push.commit_code(), Code::kOk);
  const auto& stored = coded.world.homes[0]->stored.at(push.block());
  ASSERT_EQ(stored.size(), kWhole);
  EXPECT_EQ(stored[kParity], bytes_of_extent(push.block(), kParity, 80 * 1024));
}

TEST(Grants, CommitWaitsForTheLastParityExtent) {
  CodedWorld coded;
  Pushing push(coded.world);
  TestClient::PushShape shape;
  shape.skip_extent = kWhole - 1;
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], shape);
  const uint64_t commit = push.client.commit(push.op, 0, push.block(), push.attempts[0]);
  coded.world.run_for(100 * kMillisecond);
  EXPECT_EQ(push.client.answer(commit), nullptr);
  const auto bytes = bytes_of_extent(push.block(), kWhole - 1, 65 * 1024);
  wire::Extent body = push.first_piece(65 * 1024);
  body.extent = kWhole - 1;
  body.stored_crc = push.client.entries(push.block(), push.attempts[0]).back().stored_crc;
  push.client.send_piece(body, bytes);
  EXPECT_EQ(push.client.wait<wire::CommittedView>(commit).body.code, 0);
}

TEST(Grants, ParityThatIsNotWhatTheTableSaysIsCorrupt) {
  CodedWorld coded;
  Pushing push(coded.world);
  std::vector<ExtentEntry> rows = push.client.entries(push.block(), push.attempts[0]);
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], {});
  rows[kParity].decoded_xxh3 ^= 1;
  EXPECT_EQ(push.commit_rows(rows), Code::kCorrupt);
}

TEST(Grants, AStripeThatIsNotTheFormatsIsRefused) {
  CodedWorld coded;
  Pushing push(coded.world);
  std::vector<ExtentEntry> rows = push.client.entries(push.block(), push.attempts[0]);
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], {});
  rows[2].stripe = 0;
  EXPECT_EQ(push.commit_rows(rows), Code::kCorrupt);
}

TEST(Grants, ATableOfTheDataExtentsAloneIsRefused) {
  CodedWorld coded;
  Pushing push(coded.world);
  std::vector<ExtentEntry> rows = push.client.entries(push.block(), push.attempts[0]);
  push.client.send_extents(push.op, 0, push.block(), push.attempts[0], {});
  rows.resize(4);
  EXPECT_EQ(push.commit_rows(rows), Code::kInvalid);
}

TEST(Grants, BeyondTheWholeTableOrOfAnotherSizeClosesTheSession) {
  for (const uint32_t extent : {kParity, kWhole}) {
    CodedWorld coded;
    Pushing push(coded.world);
    const auto bytes = bytes_of_extent(push.block(), extent, 65 * 1024);
    wire::Extent body = push.first_piece(65 * 1024);  // kParity has 80 KiB
    body.extent = extent;
    push.client.send_piece(body, bytes);
    EXPECT_EQ(push.closed_with(coded.world), Code::kInvalid) << extent;
  }
}

}  // namespace
}  // namespace varve::test
