// Goal: what too few fragments are in reach of stays while targets are away, is seen by nobody,
// goes before all others, and is whole again when a start finds enough (I10). Method: the rig with
// schemes; targets that fail, and starts that find some of the fragments; then everything that may
// meet such a block: match, pull, push, purge, eviction, reclaim, siblings.
#include <bit>

#include "server/op/catalog.h"
#include "server/op/repair.h"
#include "tests/server/op/rig.h"

namespace varve {
namespace {

using Verdict = flash::FlashUser::Verdict;

RigOptions coded(Scheme scheme = {2, 1}, uint32_t targets = 3) {
  RigOptions options;
  options.op.scheme = scheme;
  options.op.repair_bytes_per_s = 0;
  options.targets = targets;
  options.layer_bytes = {70000, 70000, 200000, 70000};
  return options;
}

void fail(Rig& rig, uint32_t target) {
  rig.flash.ok[target] = false;
  rig.operations->catalog().target_failed(target);
}

// Pushes blocks until one has a fragment on the last target and fails the others: its number.
uint32_t push_and_lose(Rig& rig) {
  const auto keeper = static_cast<uint32_t>(rig.flash.ok.size() - 1);
  uint32_t n = 0;
  bool there = false;
  while (!there) {
    rig.push({++n});
    for (uint32_t p = 0; p < rig.options.op.scheme.width(); ++p)
      there = there || rig.place_of(rig.block(n), p).target == keeper;
  }
  for (uint32_t t = 0; t < keeper; ++t)
    fail(rig, t);
  rig.settle();
  return n;
}

void back(Rig& rig) {
  rig.flash.ok.assign(rig.flash.ok.size(), true);
}

BlockState state_of(const Rig& rig, uint32_t n, uint32_t rank = 0) {
  const std::optional<Located> located = rig.index.find_any(rig.block(n, rank));
  EXPECT_TRUE(located.has_value()) << n;
  return located.value_or(Located{}).state;
}

flash::Place first_place(const Rig& rig, uint32_t n) {
  const std::optional<Located> located = rig.index.find_any(rig.block(n));
  EXPECT_TRUE(located && located->live != 0) << n;
  return rig.index.place_of(*located, static_cast<uint32_t>(std::countr_zero(located->live)));
}

// What a start finds: the fragment of a position of block n.
bool find(Rig& rig, uint32_t n, uint32_t position, uint32_t rank = 0, uint32_t rank_count = 1) {
  const flash::FragmentInfo info{.block = rig.block(n, rank),
                                 .rank_count = rank_count,
                                 .position = position,
                                 .attempt = {.boot_generation = 1, .target = 0, .counter = n},
                                 .place = {.target = static_cast<uint8_t>(position),
                                           .slice = 0,
                                           .segment = 1,
                                           .page = 40 * n + 20 * rank + position,
                                           .pages = 4,
                                           .lead_pages = 2},
                                 .block_bytes = 1000,
                                 .mark = {}};
  rig.flash.adopt(info.place, info.block);
  return rig.operations->catalog().recovered(info);
}

void recovery_ends(Rig& rig) {
  rig.operations->catalog().recovery_done();
  rig.settle();
}

TEST(Away, KeepsWhatIsLeftOfABlockWhoseTargetsFail) {
  Rig rig(coded());
  const uint32_t n = push_and_lose(rig);
  EXPECT_EQ(rig.match({n}).found(), 0u);
  EXPECT_EQ(rig.index.ranks_of(kDomainDefault, rig.id(n)), 0u);
  EXPECT_EQ(rig.flash.fragments(), n) << "of each block the one in reach";
  EXPECT_EQ(rig.index.away_count(), n);
  EXPECT_EQ(rig.index.thin_count(), 0u) << "nothing for repair";
  auto pull = rig.make_pull({n});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kUnavailable);
  // Expect: a checkpoint has it, scrub reads it, reclaim copies it while nothing is old.
  const flash::Place place = first_place(rig, n);
  EXPECT_TRUE(rig.operations->catalog().is_live(rig.block(n), place));
  EXPECT_EQ(rig.operations->catalog().reclaim(rig.block(n), place), Verdict::kReinsert);
  rig.expect_at_rest();
}

TEST(Away, IsNeitherAHitNorGivenUpWhenALeaseOfItEnds) {
  Rig rig(coded());
  rig.push({1});
  const Rig::Matched leased = rig.match({1}, 10000);
  ASSERT_NE(leased.lease, 0u);
  fail(rig, 0);
  fail(rig, 1);
  EXPECT_EQ(rig.match({1}).found(), 0u) << "before the walk";
  rig.settle();
  EXPECT_EQ(rig.match({1}).found(), 0u);
  rig.release(leased.lease);
  EXPECT_EQ(rig.index.away_count(), 1u);
  EXPECT_EQ(rig.flash.fragments(), 1u);
  rig.expect_at_rest();
}

// Of 4+2 two were found. Expect: kept where four may be had with what the targets away have.
TEST(Away, StaysAfterAStartWhileItsTargetsMayHaveTheRest) {
  for (const uint32_t away : {0u, 1u, 2u, 3u}) {
    Rig rig(coded({4, 2}, 6));
    for (uint32_t t = 0; t < away; ++t)
      rig.flash.ok[5 - t] = false;
    ASSERT_TRUE(find(rig, 1, 0));
    ASSERT_TRUE(find(rig, 1, 1));
    recovery_ends(rig);
    const bool kept = away >= 2;
    EXPECT_EQ(rig.match({1}).found(), 0u);
    EXPECT_EQ(rig.index.away_count(), kept ? 1u : 0u) << away;
    EXPECT_EQ(rig.index.block_count(), kept ? 1u : 0u) << away;
    EXPECT_EQ(rig.flash.fragments(), kept ? 2u : 0u) << away;
    EXPECT_EQ(rig.context->metrics.recovered_too_few.value(), kept ? 0u : 1u);
  }
}

TEST(Away, CountsTargetsThatAreNotGivenAndNoneThatWasDrained) {
  for (const bool drained : {false, true}) {
    RigOptions options = coded();
    options.op.absent_targets = drained ? 0 : 0b1000;
    options.op.drained_targets = drained ? 0b100 : 0;
    Rig rig(options);
    rig.flash.ok[2] = !drained;
    ASSERT_TRUE(find(rig, 1, 0));
    recovery_ends(rig);
    EXPECT_EQ(rig.index.away_count(), drained ? 0u : 1u);
  }
}

TEST(Away, IsWholeAgainAtAStartThatFindsEnough) {
  Rig rig(coded());
  ASSERT_TRUE(find(rig, 1, 0));
  ASSERT_TRUE(find(rig, 1, 2));
  recovery_ends(rig);
  EXPECT_EQ(rig.match({1}).found(), 1u);
  EXPECT_EQ(rig.index.away_count(), 0u);
}

TEST(Away, IsGivenUpWhenTheLastOfItRots) {
  Rig rig(coded());
  const uint32_t n = push_and_lose(rig);
  rig.operations->catalog().lost(rig.block(n), first_place(rig, n), flash::DropReason::kRot);
  EXPECT_FALSE(rig.index.find_any(rig.block(n)).has_value());
  EXPECT_EQ(rig.flash.fragments(), n - 1);
}

TEST(Away, IsPushedAnewAndGivenUpAtTheCommitOnly) {
  Rig rig(coded());
  const uint32_t n = push_and_lose(rig);
  const flash::Place old = first_place(rig, n);
  back(rig);
  const GrantLoan given_up = rig.reserve({n}).loans[0];
  ASSERT_EQ(given_up.outcome, wire::ReserveOutcome::kGranted);
  EXPECT_TRUE(rig.flash.holds(old));
  EXPECT_TRUE(rig.abort(given_up).ok());
  EXPECT_TRUE(rig.flash.holds(old)) << "its writer died";
  EXPECT_EQ(state_of(rig, n), BlockState::kAway);
  rig.flash.ok.assign(rig.flash.ok.size(), true);
  const GrantLoan loan = rig.reserve({n}).loans[0];
  ASSERT_EQ(loan.outcome, wire::ReserveOutcome::kGranted);
  EXPECT_TRUE(rig.flash.holds(old));
  rig.fill(loan, n);
  EXPECT_TRUE(rig.commit(loan).ok());
  EXPECT_FALSE(rig.flash.holds(old)) << "of another attempt";
  EXPECT_EQ(rig.match({n}).found(), 1u);
  EXPECT_EQ(rig.index.away_count(), n - 1);
}

// Of two attempts the later one counts, also where the earlier one is the only one that is whole.
TEST(Away, IsReplacedByALaterAttemptThatAStartFinds) {
  Rig rig(coded());
  rig.flash.ok[2] = false;
  ASSERT_TRUE(find(rig, 1, 0));
  const flash::Place old = first_place(rig, 1);
  const flash::FragmentInfo later{
      .block = rig.block(1),
      .rank_count = 1,
      .position = 1,
      .attempt = {.boot_generation = 2, .target = 0, .counter = 1},
      .place = {.target = 1, .slice = 0, .segment = 2, .page = 1, .pages = 4, .lead_pages = 2},
      .block_bytes = 1000,
      .mark = {}};
  rig.flash.adopt(later.place, later.block);
  EXPECT_TRUE(rig.operations->catalog().recovered(later));
  recovery_ends(rig);
  EXPECT_FALSE(rig.flash.holds(old));
  EXPECT_EQ(first_place(rig, 1), later.place) << "never mixed";
  EXPECT_EQ(rig.match({1}).found(), 0u);
}

Status purge(Rig& rig, PurgePart& part) {
  bool done = false;
  part.session_reactor = &rig.reactor;
  part.owner = &done;
  part.on_back = [](Part& p) { *static_cast<bool*>(p.owner) = true; };
  rig.operations->begin(part);
  EXPECT_TRUE(rig.run_until([&] { return done; }));
  return part.status;
}

TEST(Away, IsReachedByPurgesOfBlocksAndOfTheDomain) {
  for (const bool domain : {false, true}) {
    Rig rig(coded());
    const uint32_t n = push_and_lose(rig);
    RequestIds request;
    request.ids[0] = rig.id(n);
    request.positions[0] = 0;
    request.count = 1;
    PurgePart part;
    part.what = domain ? wire::PurgeKind::kDomain : wire::PurgeKind::kBlocks;
    part.request = &request;
    part.end = domain ? 0 : 1;
    part.raise = domain;
    EXPECT_TRUE(purge(rig, part).ok());
    part.raise = false;
    if (domain) {
      EXPECT_TRUE(purge(rig, part).ok());
    }
    EXPECT_EQ(part.blocks, domain ? n : 1u);
    EXPECT_GT(part.bytes, 0u);
    EXPECT_FALSE(rig.index.find_any(rig.block(n)).has_value());
    EXPECT_EQ(rig.flash.fragments(), domain ? 0u : n - 1);
    EXPECT_EQ(rig.index.away_count(), domain ? 0u : n - 1);
  }
}

// One block is away, and the most recent by its push. Expect: room for bytes, and for a place in
// the index, is made of it before anything that gives hits.
TEST(Away, GoesBeforeAllOthersWhenRoomIsWanted) {
  for (const bool of_index : {false, true}) {
    RigOptions options = coded({2, 1}, 5);
    options.op.slices = 1;
    if (of_index) options.index_blocks_max = 12;
    Rig rig(options);
    recovery_ends(rig);
    for (uint32_t n = 1; n <= 12; ++n)
      rig.push({n});
    rig.lose(12, 0);
    const std::optional<Located> located = rig.index.find(rig.block(12));
    const flash::Place keeps = rig.index.place_of(*located, 1);
    const uint32_t failing = rig.index.place_of(*located, 2).target;
    fail(rig, failing);
    rig.settle();
    ASSERT_EQ(state_of(rig, 12), BlockState::kAway);
    const uint32_t before = rig.index.block_count();
    if (of_index) {
      const Rig::Reserved reserved = rig.reserve({99});
      EXPECT_EQ(reserved.loans[0].outcome, wire::ReserveOutcome::kGranted) << "for its place";
      EXPECT_TRUE(rig.abort(reserved.loans[0]).ok());
    } else {
      rig.operations->room_wanted(keeps.target, 0, 1);
    }
    EXPECT_FALSE(rig.index.find_any(rig.block(12)).has_value());
    EXPECT_EQ(rig.index.block_count(), before - 1);
    EXPECT_EQ(rig.context->metrics.evicted_away.value(), 1u);
    EXPECT_FALSE(rig.flash.holds(keeps));
  }
}

TEST(Away, HoldsWhatRecoveryStillLooksForFromEviction) {
  Rig rig(coded());
  rig.flash.is_recovering = true;
  rig.flash.ok[2] = false;
  ASSERT_TRUE(find(rig, 1, 0));
  const uint32_t slot = *rig.index.base_slot(kDomainDefault, rig.id(1));
  EXPECT_EQ(rig.operations->catalog().evict(slot), 0u);
  rig.flash.is_recovering = false;
  recovery_ends(rig);
  EXPECT_GT(rig.operations->catalog().evict(slot), 0u);
  EXPECT_EQ(rig.flash.fragments(), 0u);
}

// One rank away, known or wholly out of reach. Expect: the run is not one that lacks a rank.
TEST(Away, IsNoRankThatLacks) {
  for (const bool known : {true, false}) {
    RigOptions options = coded();
    options.ranks = 2;
    options.op.sibling_ns_max = kSecond;
    options.op.lease_ms_max = 10;
    Rig rig(options);
    rig.flash.ok[1] = false;
    if (!known) rig.flash.ok[2] = false;
    ASSERT_TRUE(find(rig, 1, 0, 0, 2));
    if (known) {
      ASSERT_TRUE(find(rig, 1, 2, 0, 2));
      ASSERT_TRUE(find(rig, 1, 0, 1, 2));
    }
    recovery_ends(rig);
    rig.run_for(10 * kSecond);
    EXPECT_EQ(rig.index.block_count(), known ? 2u : 1u);
    EXPECT_EQ(rig.context->metrics.siblings_dropped.value(), 0u);
    EXPECT_EQ(rig.match({1}).found(), 0u);
  }
}

}  // namespace
}  // namespace varve
