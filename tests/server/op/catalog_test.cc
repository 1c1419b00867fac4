// Goal: index, eviction order, DRAM and flash agree after every change, and what must stay stays
// (I3, I4, I10).
// Method: recovery, loss, reclaim and eviction played to the catalog on the rig.
#include "server/op/catalog.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/server/op/rig.h"

namespace varve {
namespace {

using Verdict = flash::FlashUser::Verdict;

flash::Place place_at(uint32_t page, uint8_t target = 0, uint8_t slice = 0) {
  return {
      .target = target, .slice = slice, .segment = 1, .page = page, .pages = 4, .lead_pages = 2};
}

flash::FragmentInfo fragment(const Rig& rig, uint32_t n, uint32_t generation, uint64_t counter,
                             const flash::Place& place) {
  return {.block = rig.block(n),
          .rank_count = 1,
          .attempt = {.boot_generation = generation, .target = place.target, .counter = counter},
          .place = place,
          .block_bytes = 1000};
}

// Goal: ids that were chosen to meet in one bucket do not, in the table of attempts (of a power of
// two buckets) or any other, unless the seed is known.
TEST(Catalog, ChosenIdsSpreadOverTheBucketsOfEveryTable) {
  constexpr uint32_t kIds = 1024, kBuckets = 2048;
  static_assert(sizeof(BlockId) == 40);
  std::set<size_t> buckets[2];
  uint32_t same = 0;
  for (uint32_t i = 0; i < kIds; ++i) {
    BlockId block;  // of one first word
    store(block.base.bytes, 24, i);
    const size_t at[2] = {BlockHash{1}(block) % kBuckets, BlockHash{2}(block) % kBuckets};
    for (size_t seed = 0; seed < 2; ++seed)
      buckets[seed].insert(at[seed]);
    if (at[0] == at[1]) ++same;
  }
  // By chance 1 - 1/e^0.5 of the buckets have one: 806.
  EXPECT_GT(buckets[0].size(), 700u);
  EXPECT_GT(buckets[1].size(), 700u);
  EXPECT_LT(same, 20u);
  BlockId block;
  for (uint32_t domain = 1; domain <= kIds; ++domain) {
    block.domain = domain;
    buckets[0].insert(kBuckets + BlockHash{1}(block) % kBuckets);
  }
  EXPECT_GT(buckets[0].size(), 1400u);
}

// A target is told of in the order in which it was written: the first may be the one that had
// rotted and that repair wrote anew. Of another target's nobody knows.
TEST(Catalog, KeepsTheLaterOfTwoCopiesOnOneTarget) {
  RigOptions options;
  options.targets = 2;
  Rig rig(options);
  Catalog& catalog = rig.operations->catalog();
  std::vector<flash::Place> places[2];  // real ones, which can be released
  for (uint32_t n = 10; n < 20; ++n) {
    rig.push({n});
    const flash::Place place = rig.place_of(rig.block(n));
    places[place.target].push_back(place);
  }
  ASSERT_TRUE(places[0].size() >= 2 && !places[1].empty());
  EXPECT_TRUE(catalog.recovered(fragment(rig, 1, 2, 7, places[0][0])));
  flash::FragmentInfo copy = fragment(rig, 1, 2, 7, places[0][1]);
  EXPECT_TRUE(catalog.recovered(copy));
  EXPECT_EQ(rig.place_of(rig.block(1)), places[0][1]);
  EXPECT_FALSE(rig.flash.holds(places[0][0])) << "the earlier one was given back";
  copy.place = places[1][0];
  EXPECT_FALSE(catalog.recovered(copy));
  EXPECT_EQ(rig.place_of(rig.block(1)), places[0][1]);
}

TEST(Catalog, KeepsTheLargerAttemptOfTwoThatRecoveryFound) {
  Rig rig;
  Catalog& catalog = rig.operations->catalog();
  rig.push({9});  // a real fragment whose place can be released
  const flash::Place real = rig.place_of(rig.block(9));
  EXPECT_TRUE(catalog.recovered(fragment(rig, 1, 2, 7, place_at(0))));
  EXPECT_FALSE(catalog.recovered(fragment(rig, 1, 2, 6, place_at(10)))) << "smaller counter";
  EXPECT_FALSE(catalog.recovered(fragment(rig, 1, 1, 9, place_at(20)))) << "earlier boot";
  EXPECT_FALSE(catalog.recovered(fragment(rig, 1, 2, 7, place_at(0)))) << "the same again";
  EXPECT_EQ(rig.place_of(rig.block(1)), place_at(0));
  EXPECT_FALSE(catalog.recovered(fragment(rig, 9, 1, 1, place_at(40)))) << "written at this boot";
  EXPECT_TRUE(catalog.recovered(fragment(rig, 9, 99, 1, place_at(50))));
  EXPECT_EQ(rig.place_of(rig.block(9)), place_at(50));
  EXPECT_FALSE(rig.flash.holds(real)) << "the replaced one was given back";
  const TierBlock* block = rig.tier.find(rig.index.find(rig.block(9))->block_slot);
  EXPECT_EQ(block, nullptr) << "nor is its old attempt served from DRAM";
}

TEST(Catalog, RefusesToRecoverIntoAFullIndex) {
  RigOptions options;
  options.index_blocks_max = 1;
  Rig rig(options);
  EXPECT_TRUE(rig.operations->catalog().recovered(fragment(rig, 1, 1, 1, place_at(0))));
  EXPECT_FALSE(rig.operations->catalog().recovered(fragment(rig, 2, 1, 2, place_at(10))));
  EXPECT_EQ(rig.context->metrics.recovered_full.value(), 1u);
}

TEST(Catalog, EvictsNothingThatWasRecoveredBeforeEveryLeaseOfTheLastLifeIsOver) {
  RigOptions options;
  options.op.lease_ms_max = 500;
  Rig rig(options);
  rig.push({1});
  Catalog& catalog = rig.operations->catalog();
  EXPECT_TRUE(catalog.recovered(fragment(rig, 2, 1, 1, place_at(0))));
  EXPECT_TRUE(catalog.in_grace(*rig.index.base_slot(kDomainDefault, rig.id(2))));
  EXPECT_EQ(catalog.evict(*rig.index.base_slot(kDomainDefault, rig.id(2))), 0u);
  EXPECT_EQ(catalog.reclaim(rig.block(2), place_at(0)), Verdict::kReinsert);
  EXPECT_GT(catalog.evict(*rig.index.base_slot(kDomainDefault, rig.id(1))), 0u)
      << "pushed at this boot";
  rig.run_for(500 * kMillisecond);
  EXPECT_FALSE(catalog.in_grace(*rig.index.base_slot(kDomainDefault, rig.id(2))));
}

TEST(Catalog, EvictsAllRanksOfABaseTogether) {
  RigOptions options;
  options.ranks = 2;
  Rig rig(options);
  rig.push({1}, 0);
  rig.push({1}, 1);
  EXPECT_EQ(rig.flash.fragments(), 2u);
  EXPECT_GT(rig.operations->catalog().evict(*rig.index.base_slot(kDomainDefault, rig.id(1))), 0u);
  EXPECT_EQ(rig.flash.fragments(), 0u);
  EXPECT_EQ(rig.index.ranks_of(kDomainDefault, rig.id(1)), 0u);
  EXPECT_EQ(rig.index.block_count(), 0u);
  rig.expect_at_rest();
  EXPECT_EQ(rig.arena.free_pages(), rig.arena.page_count()) << "DRAM copies are gone too";
}

TEST(Catalog, LeavesAloneWhatIsLeasedOrBeingWritten) {
  Rig rig;
  rig.push({1});
  const Rig::Matched matched = rig.match({1}, 1000);
  const uint32_t leased = *rig.index.base_slot(kDomainDefault, rig.id(1));
  EXPECT_EQ(rig.operations->catalog().evict(leased), 0u);
  rig.flash.hold_appends = true;
  const GrantLoan loan = rig.reserve({2}).loans[0];
  rig.fill(loan, 2);
  EXPECT_TRUE(rig.commit(loan).ok());
  EXPECT_EQ(rig.operations->catalog().evict(*rig.index.base_slot(kDomainDefault, rig.id(2))), 0u);
  rig.release(matched.lease);
  EXPECT_GT(rig.operations->catalog().evict(leased), 0u);
  rig.flash.let_go();
  rig.expect_at_rest();
}

TEST(Catalog, ForgetsALostBlockEvenWhenItIsLeasedAndTakesItAgain) {
  Rig rig;
  rig.push({1});
  const Rig::Matched matched = rig.match({1}, 1000);
  const flash::Place place = rig.place_of(rig.block(1));
  Catalog& catalog = rig.operations->catalog();
  catalog.lost(rig.block(1), place, flash::DropReason::kRot);
  catalog.lost(rig.block(1), place, flash::DropReason::kRot);  // told twice
  EXPECT_EQ(rig.match({1}).found(), 0u);
  EXPECT_EQ(rig.context->metrics.lost_fragments[static_cast<int>(flash::DropReason::kRot)].value(),
            1u);
  EXPECT_FALSE(rig.flash.holds(place));
  rig.push({1});
  EXPECT_EQ(rig.match({1}).found(), 1u);
  rig.release(matched.lease);
  EXPECT_EQ(rig.match({1}).found(), 1u);
  rig.expect_at_rest();
}

// From the failure on, what lies there is a miss, before and after the walk that loses it.
TEST(Catalog, LosesWhatLiesOnAFailedTargetAStepATurn) {
  RigOptions options;
  options.index_blocks_max = 4096;
  options.layer_bytes = {100};
  Rig rig(options);
  Catalog& catalog = rig.operations->catalog();
  std::vector<uint32_t> gone, stays;
  for (uint32_t n = 0; n < 40; ++n) {
    rig.push({n});
    (rig.place_of(rig.block(n)).target == 0 ? gone : stays).push_back(n);
  }
  for (uint32_t n = 1000; n < 3000; ++n)  // so that the walk takes many turns
    ASSERT_TRUE(catalog.recovered(fragment(rig, n, 1, n, place_at(10 * n, 1))));
  ASSERT_FALSE(gone.empty());
  ASSERT_FALSE(stays.empty());
  const Rig::Matched leased = rig.match({stays[0], gone[0]}, 1000);
  ASSERT_EQ(leased.found(), 2u);
  rig.flash.ok[0] = false;
  catalog.target_failed(0);
  catalog.target_failed(0);  // told twice
  EXPECT_TRUE(catalog.losing());
  EXPECT_EQ(rig.match({stays[0], gone[0]}).found(), 1u);
  for (const uint32_t n : gone)
    EXPECT_EQ(rig.match({n}).found(), 0u) << n;
  rig.settle();
  EXPECT_FALSE(catalog.losing());
  for (const uint32_t n : stays)
    EXPECT_EQ(rig.match({n}).found(), 1u) << n;
  for (const uint32_t n : gone) {
    EXPECT_FALSE(rig.index.find(rig.block(n)).has_value()) << n;
  }
  EXPECT_EQ(
      rig.context->metrics.lost_fragments[static_cast<int>(flash::DropReason::kTargetLost)].value(),
      gone.size());
  EXPECT_EQ(rig.context->metrics.lost_blocks.value(), gone.size()) << "without parity they are one";
  EXPECT_FALSE(catalog.recovered(fragment(rig, 5000, 1, 5000, place_at(1, 0))));
  // The lease is good for the rest, and the lost ones may be written again elsewhere.
  auto pull = rig.make_pull({stays[0], gone[0]});
  pull->part.lease = leased.lease;
  pull->part.lease_required = true;
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  EXPECT_EQ(pull->code(1), Code::kUnavailable);
  rig.push(gone);
  EXPECT_EQ(rig.match(gone).found(), gone.size());
  for (const uint32_t n : gone)
    EXPECT_EQ(rig.place_of(rig.block(n)).target, 1u);
  rig.release(leased.lease);
  rig.expect_at_rest();
}

// Expect: not before the walk is over; then what is written lies there as before.
TEST(Catalog, ATargetIsReplaceableWhenNothingLiesThereAndWorksAgainAfterwards) {
  Rig rig;
  std::vector<uint32_t> gone;
  for (uint32_t n = 0; n < 40; ++n) {
    rig.push({n});
    if (rig.place_of(rig.block(n)).target == 0) gone.push_back(n);
  }
  ASSERT_FALSE(gone.empty());
  rig.operations->catalog().recovery_done();
  rig.settle();
  rig.flash.ok[0] = false;
  rig.operations->catalog().target_failed(0);
  EXPECT_EQ(rig.operations->replaceable(0).code(), Code::kUnavailable);
  rig.settle();
  ASSERT_TRUE(rig.operations->replaceable(0).ok());
  rig.flash.ok[0] = true;
  rig.operations->target_replaced(0);
  EXPECT_FALSE(rig.operations->catalog().is_failed(0));
  rig.settle();
  rig.push(gone);
  EXPECT_EQ(rig.match(gone).found(), gone.size());
  uint32_t there = 0;
  for (const uint32_t n : gone)
    there += rig.place_of(rig.block(n)).target == 0 ? 1 : 0;
  EXPECT_GT(there, 0u);
  rig.expect_at_rest();
}

// A reservation and a pull that come before the walk does see a miss as well.
TEST(Catalog, TreatsWhatIsOnAFailedTargetAsAbsentBeforeTheWalk) {
  Rig rig;
  uint32_t n = 0;
  do {
    rig.push({++n});
  } while (rig.place_of(rig.block(n)).target != 0);
  rig.flash.ok[0] = false;
  auto pull = rig.make_pull({n});
  rig.operations->catalog().target_failed(0);
  rig.operations->begin(pull->part);
  const Rig::Reserved reserved = rig.reserve({n});
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kUnavailable);
  ASSERT_EQ(reserved.loans[0].outcome, wire::ReserveOutcome::kGranted);
  EXPECT_EQ(reserved.loans[0].attempt.target, 1u);
  EXPECT_TRUE(rig.abort(reserved.loans[0]).ok());
  rig.expect_at_rest();
}

// Goal: fragments and blocks that are lost are two numbers; with parity, few blocks are.
// Method: 2+1 on three targets, so that each block has a fragment on each; rot, a failed target,
// another one. Expect: a block counts once, when it stops being a hit, and not when it goes.
TEST(Catalog, CountsABlockAsLostOnlyWhenItStopsBeingAHit) {
  RigOptions options;
  options.targets = 3;
  options.op.scheme = {2, 1};
  options.op.repair_bytes_per_s = 0;
  Rig rig(options);
  OpMetrics& metrics = rig.context->metrics;
  const auto fragments = [&metrics](flash::DropReason reason) {
    return metrics.lost_fragments[static_cast<uint32_t>(reason)].value();
  };
  const auto fail = [&rig](uint32_t target) {
    rig.flash.ok[target] = false;
    rig.operations->catalog().target_failed(target);
    rig.settle();
  };
  rig.push({1, 2, 3});
  rig.lose(1, 0);
  EXPECT_EQ(rig.match({1}).found(), 1u);
  EXPECT_EQ(fragments(flash::DropReason::kRot), 1u);
  EXPECT_EQ(metrics.lost_blocks.value(), 0u) << "parity covers it";
  rig.lose(1, 1);
  EXPECT_EQ(rig.match({1}).found(), 0u);
  EXPECT_EQ(fragments(flash::DropReason::kRot), 2u);
  EXPECT_EQ(metrics.lost_blocks.value(), 1u);
  fail(0);
  EXPECT_EQ(rig.match({2}).found(), 1u);
  EXPECT_GE(fragments(flash::DropReason::kTargetLost), 2u) << "of 2 and 3";
  EXPECT_EQ(metrics.lost_blocks.value(), 1u) << "all that were hits are";
  fail(1);
  EXPECT_EQ(rig.index.away_count(), 2u) << "they may come back, and are no hits now";
  EXPECT_EQ(metrics.lost_blocks.value(), 3u);
  fail(2);
  EXPECT_EQ(rig.index.block_count(), 0u);
  EXPECT_EQ(metrics.lost_blocks.value(), 3u) << "what was away is lost a second time to nobody";
}

TEST(Catalog, IgnoresNewsOfAPlaceThatIsNoLongerTheBlocks) {
  Rig rig;
  rig.push({1});
  const flash::Place place = rig.place_of(rig.block(1));
  flash::Place other = place;
  other.page += 1;
  Catalog& catalog = rig.operations->catalog();
  catalog.lost(rig.block(1), other, flash::DropReason::kRot);
  EXPECT_EQ(catalog.reclaim(rig.block(1), other), Verdict::kDead);
  EXPECT_FALSE(catalog.is_live(rig.block(1), other));
  EXPECT_FALSE(catalog.moved(rig.block(1), other, place));
  EXPECT_EQ(rig.match({1}).found(), 1u);
  EXPECT_TRUE(catalog.is_live(rig.block(1), place));
}

TEST(Catalog, FollowsAFragmentThatReclaimMoved) {
  Rig rig;
  rig.push({1});
  const flash::Place place = rig.place_of(rig.block(1));
  flash::Place to = place;
  to.segment = 9;
  Catalog& catalog = rig.operations->catalog();
  EXPECT_TRUE(catalog.moved(rig.block(1), place, to));
  EXPECT_EQ(rig.place_of(rig.block(1)), to);
  EXPECT_EQ(catalog.reclaim(rig.block(1), place), Verdict::kDead);
}

TEST(Catalog, LetsReclaimDropAnOldBlockWithItsSiblings) {
  RigOptions options;
  options.ranks = 2;
  options.targets = 1;
  options.op.slices = 1;
  options.layer_bytes = {70000};
  Rig rig(options);
  for (uint32_t n = 0; n < 40; ++n) {
    rig.push({n}, 0);
    rig.push({n}, 1);
  }
  for (int round = 0; round < 8; ++round) {
    for (uint32_t n = 1; n < 40; ++n)
      rig.match({n});  // block 0 grows old
  }
  Catalog& catalog = rig.operations->catalog();
  const flash::Place place = rig.place_of(rig.block(0, 0));
  const flash::Place sibling = rig.place_of(rig.block(0, 1));
  EXPECT_EQ(catalog.reclaim(rig.block(0, 0), place), Verdict::kReinsert);
  EXPECT_TRUE(rig.flash.holds(sibling)) << "not inside the upcall";
  rig.settle();
  EXPECT_EQ(rig.index.ranks_of(kDomainDefault, rig.id(0)), 0u);
  EXPECT_FALSE(rig.flash.holds(sibling));
  EXPECT_FALSE(rig.flash.holds(place));
  const flash::Place young = rig.place_of(rig.block(39, 0));
  EXPECT_EQ(catalog.reclaim(rig.block(39, 0), young), Verdict::kReinsert);
}

TEST(Catalog, LetsReclaimDropAnOldBlockAtOnce) {
  RigOptions options;
  options.targets = 1;
  options.op.slices = 1;
  options.layer_bytes = {70000};
  Rig rig(options);
  for (uint32_t n = 0; n < 40; ++n)
    rig.push({n});
  for (int round = 0; round < 8; ++round) {
    for (uint32_t n = 1; n < 40; ++n)
      rig.match({n});
  }
  const flash::Place place = rig.place_of(rig.block(0));
  EXPECT_EQ(rig.operations->catalog().reclaim(rig.block(0), place), Verdict::kDropped);
  EXPECT_EQ(rig.index.ranks_of(kDomainDefault, rig.id(0)), 0u);
  EXPECT_TRUE(rig.flash.holds(place)) << "flash counts its pages itself";
}

TEST(Catalog, GivesThePlaceBackWhenABlockVanishedWhileItWasWritten) {
  Rig rig;
  rig.push({1});
  const TierBlock* block = rig.tier.find(rig.index.find(rig.block(1))->block_slot);
  ASSERT_NE(block, nullptr);
  const flash::Place place = rig.place_of(rig.block(1));
  rig.operations->catalog().placed(*block, 0, place);  // it is not in memory only
  EXPECT_FALSE(rig.flash.holds(place));
}

TEST(Catalog, AnEvictionTakesNothingOfAnotherDomain) {
  Rig rig;
  for (const uint32_t domain : {1u, 2u}) {
    rig.domain = domain;
    rig.push({1});
  }
  EXPECT_GT(rig.operations->catalog().evict(*rig.index.base_slot(2, rig.id(1))), 0u);
  EXPECT_EQ(rig.match({1}).found(), 0u);
  rig.domain = 1;
  EXPECT_EQ(rig.match({1}).found(), 1u);
  auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  rig.expect_bytes(*pull, {1});
}

// What reclaim and rot say of a block is of that of its domain, though the id is another's too.
TEST(Catalog, NewsOfABlockAreOfItsDomain) {
  Rig rig;
  flash::Place places[3];
  for (const uint32_t domain : {1u, 2u}) {
    rig.domain = domain;
    rig.push({1});
    places[domain] = rig.place_of(rig.block(1));
  }
  Catalog& catalog = rig.operations->catalog();
  EXPECT_FALSE(catalog.is_live({rig.id(1), 0, 1}, places[2]));
  EXPECT_EQ(catalog.reclaim({rig.id(1), 0, 1}, places[2]), Verdict::kDead);
  catalog.lost({rig.id(1), 0, 2}, places[1], flash::DropReason::kRot);
  EXPECT_TRUE(catalog.is_live({rig.id(1), 0, 1}, places[1]));
  catalog.lost({rig.id(1), 0, 2}, places[2], flash::DropReason::kRot);
  EXPECT_EQ(rig.match({1}).found(), 0u);
  rig.domain = 1;
  EXPECT_EQ(rig.match({1}).found(), 1u);
}

}  // namespace
}  // namespace varve
