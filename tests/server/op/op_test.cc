// Goal: whatever mix of requests comes, every part comes back once, reads are right and nothing is
// left (O1, I6, I7).
// Method: a seeded walk of pushes, pulls, matches, leases, evictions and faults on a small rig,
// with a session that is slow by coin; then everything is let go.
#include "server/op/op.h"

#include <gtest/gtest.h>

#include "tests/server/op/rig.h"

namespace varve {
namespace {

// Of the ids 0 .. 5 this home has the odd positions; the even ones are another's.
TEST(Operations, AnswersByPositionWhereARequestIsSplitOverHomes) {
  Rig rig;
  rig.push({1, 3});
  RequestIds request;
  request.count = 6;
  const uint16_t positions[] = {0, 2, 4, 1, 3, 5};
  for (uint32_t i = 0; i < 6; ++i) {
    request.ids[i] = rig.id(i);
    request.positions[i] = positions[i];
  }
  const auto run = [&](Part& part) {
    bool back = false;
    part.session_reactor = &rig.reactor;
    part.owner = &back;
    part.on_back = [](Part& p) { *static_cast<bool*>(p.owner) = true; };
    rig.operations->begin(part);
    EXPECT_TRUE(rig.run_until([&] { return back; }));
  };
  wire::TierKind tiers[6];
  for (wire::TierKind& tier : tiers)
    tier = wire::TierKind::kObject;  // never touched
  MatchPart match;
  match.request = &request;
  match.begin = 3;
  match.end = 6;
  match.tiers = tiers;
  run(match);
  using enum wire::TierKind;
  EXPECT_EQ(std::vector<wire::TierKind>(tiers, tiers + 6),
            (std::vector<wire::TierKind>{kObject, kDram, kObject, kDram, kObject, kNone}));

  GrantLoan loans[6];
  ReservePart reserve;
  reserve.request = &request;
  reserve.begin = 3;
  reserve.end = 6;
  reserve.format = &rig.format;
  reserve.epoch = 1;
  reserve.grants_max = 8;
  reserve.loans = loans;
  run(reserve);
  EXPECT_EQ(loans[1].outcome, wire::ReserveOutcome::kExists);
  EXPECT_EQ(loans[4].outcome, wire::ReserveOutcome::kRefused) << "another home's: untouched";
  ASSERT_EQ(loans[5].outcome, wire::ReserveOutcome::kGranted);
  rig.fill(loans[5], 5);
  EXPECT_TRUE(rig.commit(loans[5]).ok());
  const auto header =
      load<flash::FragmentHeader>(ConstByteSpan(rig.arena.byte_at(loans[5].block->header, 0), 256));
  EXPECT_EQ(header.parent, rig.id(4)) << "the id before it, whoever has it";

  auto pull = rig.make_pull({0, 1, 2, 3, 4, 5});
  std::copy(positions, positions + 6, pull->request.positions);
  pull->part.begin = 3;
  rig.start(*pull);
  rig.finish(*pull);
  for (const uint32_t position : {1u, 3u, 5u}) {
    EXPECT_EQ(pull->code(position), Code::kOk);
    for (uint32_t e = 0; e < rig.table().extents.size(); ++e) {
      EXPECT_TRUE((pull->got[{position, e}] == rig.bytes_of_extent(position, e)));
    }
  }
  EXPECT_EQ(pull->codes[0], 0xFF);
  rig.expect_at_rest();
}

class OpWalk : public testing::TestWithParam<uint64_t> {
 protected:
  static RigOptions options_of(Random& random) {
    RigOptions o;
    o.arena_pages = 900;
    o.push_pages = 300;
    o.pull_pages = static_cast<uint32_t>(random.between(60, 300));
    o.resident_pages = static_cast<uint32_t>(random.between(0, 300));
    o.blocks_max = static_cast<uint32_t>(random.between(12, 60));
    o.index_blocks_max = 40;
    o.layer_bytes.assign(random.between(1, 5), static_cast<uint32_t>(random.between(1, 300000)));
    o.op.slices = 2;
    o.op.pulls_max = 6;
    o.op.pushes_max = 8;
    o.op.appends_max = 2;
    o.op.fetches_max = static_cast<uint32_t>(random.between(2, 8));
    o.op.data_sends_max = static_cast<uint32_t>(random.between(4, 32));
    o.op.extents_max = static_cast<uint32_t>(random.between(4, 64));
    o.op.pull_window_bytes = random.between(1, 800000);
    o.op.pull_windows_max = static_cast<uint32_t>(random.between(1, 6));
    o.op.leases_max = 4;
    o.op.lease_pins_max = 64;
    o.op.lease_ms_max = 50;
    return o;
  }
};

TEST_P(OpWalk, BringsEveryPartBackWithRightBytesAndLeavesNothing) {
  Random random(GetParam());
  Rig rig(options_of(random));
  rig.flash.capacity_pages = 1200;
  std::vector<std::pair<std::unique_ptr<Rig::Pull>, std::vector<uint32_t>>> pulls;
  uint64_t ok_blocks = 0;
  for (uint32_t step = 0; step < 300; ++step) {
    const auto n = static_cast<uint32_t>(random.below(40));
    switch (random.below(10)) {
      case 0:
      case 1:
      case 2: {
        const GrantLoan loan = rig.reserve({n}).loans[0];
        if (loan.outcome != wire::ReserveOutcome::kGranted) break;
        if (random.chance(200)) {
          EXPECT_TRUE(rig.abort(loan).ok());
          break;
        }
        rig.fill(loan, n);
        const Status status =
            rig.commit(loan, random.chance(500) ? wire::AckKind::kCached : wire::AckKind::kDurable);
        if (rig.flash.fail_appends.ok()) {
          EXPECT_TRUE(status.ok());
        }
        break;
      }
      case 3:
      case 4:
      case 5: {
        std::vector<uint32_t> ids;
        for (uint64_t i = random.between(1, 8); i > 0; --i) {
          ids.push_back(static_cast<uint32_t>(random.below(40)));
        }
        auto pull = rig.make_pull(ids);
        pull->part.deadline_ns = rig.clock.now_ns() + random.between(1, 40) * kMillisecond;
        pull->part.first_wanted_ns += random.below(10 * kMillisecond);
        rig.start(*pull);
        pulls.emplace_back(std::move(pull), ids);
        break;
      }
      case 6:
        rig.match({n, n + 1, n + 2}, random.chance(500) ? 20 : 0);
        break;
      case 7:
        rig.hold_data = random.chance(300);
        rig.hold_credit = random.chance(200);
        rig.flash.hold_reads = random.chance(200);
        if (!rig.hold_data) rig.answer_data();
        if (!rig.hold_credit) rig.answer_credit();
        if (!rig.flash.hold_reads) rig.flash.let_go();
        break;
      case 8:
        rig.flash.fail_reads = random.chance(100) ? Status::io("read", 5) : Status();
        if (const auto slot = rig.index.base_slot(kDomainDefault, rig.id(n));
            slot && random.chance(300)) {
          rig.operations->catalog().evict(*slot);
        }
        break;
      case 9:
        if (!pulls.empty() && random.chance(300)) {
          pulls[random.below(pulls.size())].first->part.cancelled = true;
        }
        rig.run_for(random.between(1, 5) * kMillisecond);
        break;
    }
    ASSERT_LE(rig.tier.used_bytes(Budget::kPull), rig.tier.limit_bytes(Budget::kPull));  // I7
  }
  rig.hold_data = rig.hold_credit = false;
  rig.flash.fail_reads = Status();
  rig.flash.let_go();
  rig.answer_credit();
  rig.answer_data();
  for (const auto& [pull, ids] : pulls) {
    rig.finish(*pull);
    rig.expect_bytes(*pull, ids);
    for (uint32_t i = 0; i < ids.size(); ++i) {
      EXPECT_NE(pull->codes[i], 0xFF) << "every position has a code";
      EXPECT_NE(pull->code(i), Code::kInternal);
      if (pull->code(i) == Code::kOk) ++ok_blocks;
    }
  }
  rig.gone();
  rig.expect_at_rest();
  EXPECT_EQ(rig.flash.fragments(), rig.index.block_count());
  RecordProperty("ok_blocks", static_cast<int>(ok_blocks));
}

INSTANTIATE_TEST_SUITE_P(Seeds, OpWalk, testing::Range<uint64_t>(1, 61));

}  // namespace
}  // namespace varve
