// Goal: a block of k + m fragments is written, found again, read, evicted and lost as the catalog
// says: m losses cost its readers nothing but a rebuild, and never a wrong byte.
// Method: the rig with schemes; fragments are taken away one by one and in all pairs; what a pull
// sends and what it says is lost must together be the whole range, and the wants of what is left
// must be the bytes that were coded.
#include <bit>
#include <set>

#include "server/op/catalog.h"
#include "server/op/placer.h"
#include "server/op/pull.h"
#include "server/op/push.h"
#include "tests/server/op/rig.h"

namespace varve {
namespace {

RigOptions coded(Scheme scheme, uint32_t targets) {
  RigOptions options;
  options.op.scheme = scheme;
  options.op.repair_bytes_per_s = 0;  // what is thin stays so
  options.targets = targets;
  options.layer_bytes = {70000, 70000, 200000, 70000, 68000, 131072, 100000};
  return options;
}

uint32_t live_of(const Rig& rig, uint32_t n) {
  const std::optional<Located> located = rig.index.find(rig.block(n));
  return located ? static_cast<uint32_t>(std::popcount(located->live)) : 0;
}

// All data extents of one block, sent or told lost, nothing twice; the numbers of the lost ones.
std::set<uint32_t> pull_one(Rig& rig, uint32_t n) {
  const auto pull = rig.make_pull({n});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  rig.expect_bytes(*pull, {n});
  std::set<uint32_t> lost;
  for (const wire::LostExtent& row : pull->lost) {
    EXPECT_EQ(row.state, wire::LostState::kLost);
    EXPECT_TRUE(lost.insert(row.extent).second) << row.extent << " twice";
    EXPECT_EQ(row.entry.stored_bytes, rig.table().bytes_at(row.extent));
    EXPECT_FALSE(row.attempt.is_none());
    EXPECT_FALSE(pull->got.contains({0, row.extent}));
  }
  EXPECT_EQ(lost.size() + pull->got.size(), rig.table().data_count());
  return lost;
}

class Coding : public ::testing::TestWithParam<Scheme> {};

TEST_P(Coding, PutsEachPositionOnATargetOfItsOwn) {
  const Scheme scheme = GetParam();
  Rig rig(coded(scheme, scheme.width() + 2));
  for (uint32_t n = 0; n < 20; ++n) {
    rig.push({n});
    ASSERT_EQ(live_of(rig, n), scheme.width());
    std::set<uint32_t> targets;
    for (uint32_t p = 0; p < scheme.width(); ++p) {
      targets.insert(rig.place_of(rig.block(n), p).target);
      EXPECT_TRUE(rig.flash.is_whole(rig.block(n), p)) << p;
    }
    EXPECT_EQ(targets.size(), scheme.width());
  }
  EXPECT_EQ(rig.index.thin_count(), 0u);
  EXPECT_EQ(rig.flash.fragments(), 20u * scheme.width());
  rig.expect_at_rest();
}

// Parity goes back after the appends: what stays in DRAM is what readers want.
TEST_P(Coding, KeepsNoParityInMemory) {
  Rig rig(coded(GetParam(), GetParam().width()));
  rig.push({1});
  const TierBlock* block = rig.tier.peek(rig.index.find(rig.block(1))->block_slot);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(block->whole());
  EXPECT_TRUE(block->spare_headers.empty());
  for (uint32_t e = block->data_count; e < block->extent_count; ++e)
    EXPECT_EQ(block->state[e], ExtentState::kAbsent) << e;
  EXPECT_TRUE(pull_one(rig, 1).empty());
}

// Every extent of the whole table can be asked for by itself, from memory as from flash.
TEST_P(Coding, SendsWantsOfDataAndParity) {
  Rig rig(coded(GetParam(), GetParam().width()));
  rig.push({1, 2});
  for (const bool from_flash : {false, true}) {
    if (from_flash) rig.drop_from_dram(2);
    std::vector<wire::Want> wants;
    for (uint32_t e = rig.table().count(); e > 0; --e)
      wants.push_back({.block = 1, .extent = e - 1});
    const auto pull = rig.make_wants({1, 2}, wants);
    rig.start(*pull);
    rig.finish(*pull);
    EXPECT_EQ(pull->code(0), Code::kOk) << "nothing was wanted of it";
    EXPECT_EQ(pull->code(1), Code::kOk);
    EXPECT_TRUE(pull->lost.empty());
    for (uint32_t e = 0; e < rig.table().count(); ++e) {
      const auto got = pull->got.find({1, e});
      ASSERT_NE(got, pull->got.end()) << e;
      EXPECT_TRUE(got->second == rig.bytes_of_extent(2, e)) << e;
    }
  }
  rig.expect_at_rest();
}

// Every loss of m fragments: the pull says exactly which extents those held.
TEST_P(Coding, SaysWhichExtentsAreLostForEveryLossOfM) {
  const Scheme scheme = GetParam();
  for (uint32_t gone = 0; gone < 1u << scheme.width(); ++gone) {
    if (std::popcount(gone) != static_cast<int>(scheme.m)) continue;
    Rig rig(coded(scheme, scheme.width()));
    rig.push({1});
    rig.drop_from_dram(1);
    std::set<uint32_t> expected;
    for (uint32_t e = 0; e < rig.table().data_count(); ++e) {
      if ((gone >> flash::position_at(rig.table(), rig.block(1), e) & 1) != 0) expected.insert(e);
    }
    for (uint32_t p = 0; p < scheme.width(); ++p) {
      if ((gone >> p & 1) != 0) rig.lose(1, p);
    }
    EXPECT_EQ(rig.match({1}).found(), 1u) << "still a hit";
    EXPECT_EQ(rig.index.thin_count(), 1u);
    EXPECT_EQ(pull_one(rig, 1), expected) << gone;
  }
}

TEST_P(Coding, DropsABlockOfWhichFewerThanKAreLeft) {
  const Scheme scheme = GetParam();
  Rig rig(coded(scheme, scheme.width()));
  rig.push({1});
  for (uint32_t p = 0; p <= scheme.m; ++p) {
    EXPECT_EQ(rig.match({1}).found(), 1u);
    rig.lose(1, p);
  }
  EXPECT_EQ(rig.match({1}).found(), 0u);
  EXPECT_EQ(rig.flash.fragments(), 0u) << "what was left of it is given back";
  EXPECT_EQ(rig.index.block_count(), 0u);
  rig.expect_at_rest();
}

TEST_P(Coding, EvictsAllFragmentsTogether) {
  const Scheme scheme = GetParam();
  Rig rig(coded(scheme, scheme.width() + 1));
  rig.push({1, 2});
  EXPECT_GT(rig.operations->catalog().evict(*rig.index.base_slot(kDomainDefault, rig.id(1))), 0u);
  EXPECT_EQ(rig.flash.fragments(), scheme.width());
  EXPECT_EQ(rig.match({2}).found(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Schemes, Coding,
                         ::testing::Values(Scheme{1, 1}, Scheme{2, 1}, Scheme{4, 2}, Scheme{5, 2},
                                           Scheme{8, 3}),
                         [](const auto& of) {
                           return std::to_string(of.param.k) + "p" + std::to_string(of.param.m);
                         });

// Room is wanted on one target only: blocks whose place in the order is with another target give
// theirs as well.
TEST(CodingEvict, FindsBlocksWithAFragmentOnTheTargetInEveryRoom) {
  Rig rig(coded({2, 1}, 3));
  for (uint32_t n = 0; n < 30; ++n)
    rig.push({n});
  for (uint32_t slice = 0; slice < rig.options.op.slices; ++slice)
    rig.operations->room_wanted(1, slice, 1u << 20);
  rig.run_for(kSecond);
  for (uint32_t n = 0; n < 30; ++n)
    EXPECT_EQ(live_of(rig, n), 0u) << n << ": every block has a fragment on target 1";
}

TEST(CodingPush, IsThinOnFewerTargetsAndRefusedOnFewerThanK) {
  Rig rig(coded({2, 1}, 3));
  rig.flash.ok[0] = false;
  rig.operations->catalog().target_failed(0);
  rig.push({1});
  EXPECT_EQ(live_of(rig, 1), 2u);
  EXPECT_EQ(rig.index.thin_count(), 1u);
  const std::optional<Located> located = rig.index.find(rig.block(1));
  EXPECT_TRUE(located->has(0) && located->has(1)) << "data first";
  rig.drop_from_dram(1);
  EXPECT_TRUE(pull_one(rig, 1).empty());
  rig.flash.ok[1] = false;
  rig.operations->catalog().target_failed(1);
  const auto reserved = rig.reserve({2});
  EXPECT_EQ(reserved.loans[0].outcome, wire::ReserveOutcome::kRefused);
  EXPECT_EQ(reserved.loans[0].code, Code::kUnavailable);
}

// Where others suffice. Expect: nothing is written to it, and with none to spare it is needed.
TEST(CodingPush, GoesRoundASuspectTargetWhileOthersSuffice) {
  for (const uint32_t targets : {4u, 3u}) {
    Rig rig(coded({2, 1}, targets));
    rig.flash.suspect_target = 1;
    uint32_t there = 0;
    for (uint32_t n = 0; n < 20; ++n) {
      rig.push({n});
      ASSERT_EQ(live_of(rig, n), 3u) << n;
      for (uint32_t p = 0; p < 3; ++p)
        there += rig.place_of(rig.block(n), p).target == 1 ? 1 : 0;
    }
    EXPECT_EQ(there, targets == 4 ? 0u : 20u);
    rig.expect_at_rest();
  }
}

// A target lost while the fragments are written: k + 1 are enough, fewer are not.
TEST(CodingPush, SurvivesALostHolderWithOneMoreThanK) {
  for (const Scheme scheme : {Scheme{4, 2}, Scheme{2, 1}}) {
    Rig rig(coded(scheme, scheme.width()));
    const GrantLoan loan = rig.reserve({1}).loans[0];
    ASSERT_EQ(loan.outcome, wire::ReserveOutcome::kGranted);
    rig.fill(loan, 1);
    rig.flash.ok[0] = false;  // its append fails
    const Status status = rig.commit(loan, wire::AckKind::kDurable);
    rig.operations->catalog().target_failed(0);
    EXPECT_EQ(status.ok(), scheme.m == 2) << scheme.text();
    EXPECT_EQ(rig.match({1}).found(), scheme.m == 2 ? 1u : 0u);
    if (scheme.m == 2) {
      EXPECT_EQ(live_of(rig, 1), scheme.width() - 1);
      rig.drop_from_dram(1);
      pull_one(rig, 1);
    }
    EXPECT_EQ(rig.context->metrics.push_fragments_lost.value(), 1u);
    rig.expect_at_rest();
  }
}

TEST(CodingTarget, AFailedTargetCostsItsFragmentsAndNoHit) {
  Rig rig(coded({2, 1}, 4));
  std::vector<uint32_t> all;
  for (uint32_t n = 0; n < 40; ++n)
    all.push_back(n);
  for (const uint32_t n : all)
    rig.push({n});
  for (const uint32_t n : all)
    rig.drop_from_dram(n);
  rig.flash.ok[2] = false;
  rig.operations->catalog().target_failed(2);
  EXPECT_EQ(rig.match(all).found(), all.size()) << "at once";
  rig.settle();
  EXPECT_EQ(rig.match(all).found(), all.size()) << "and after the walk";
  uint32_t lost = 0;
  for (const uint32_t n : all)
    lost += static_cast<uint32_t>(pull_one(rig, n).size());
  EXPECT_GT(lost, 0u);
  EXPECT_GT(rig.index.thin_count(), 0u);
  rig.expect_at_rest();
}

// While recovery goes on the third of three fragments may come after two are lost.
TEST(CodingTarget, OneThatFailsDuringRecoveryCostsNoBlockThatIsStillBeingFound) {
  Rig rig(coded({2, 1}, 3));
  rig.push({1});
  rig.flash.is_recovering = true;
  Catalog& catalog = rig.operations->catalog();
  const std::optional<Located> located = rig.index.find(rig.block(1));
  const Attempt attempt = rig.tier.peek(located->block_slot)->attempt;
  const flash::Place later = rig.index.place_of(*located, 0);
  const uint32_t failing = rig.index.place_of(*located, 1).target;
  rig.lose(1, 0);  // as if it were not found yet
  rig.flash.ok[failing] = false;
  catalog.target_failed(failing);
  rig.settle();
  EXPECT_EQ(rig.match({1}).found(), 0u) << "one is not enough";
  EXPECT_TRUE(catalog.recovered({.block = rig.block(1),
                                 .rank_count = 1,
                                 .position = 0,
                                 .attempt = attempt,
                                 .place = later,
                                 .block_bytes = 1000}));
  EXPECT_EQ(rig.match({1}).found(), 1u);
  rig.flash.is_recovering = false;
  catalog.recovery_done();
  rig.settle();
  EXPECT_EQ(rig.match({1}).found(), 1u);
}

// A copy that was given up comes back with a target that now holds another fragment of the block.
TEST(CodingRecovery, LeavesNoTwoFragmentsOnOneTargetWhileOneCanBeSpared) {
  for (const uint32_t found : {2u, 3u}) {
    Rig rig(coded({2, 1}, 4));
    Catalog& catalog = rig.operations->catalog();
    for (uint32_t p = 0; p < found; ++p) {
      const uint32_t target = p < 2 ? 0 : p;
      const flash::FragmentInfo info{.block = rig.block(1),
                                     .rank_count = 1,
                                     .position = p,
                                     .attempt = {.boot_generation = 1, .target = 0, .counter = 1},
                                     .place = {.target = static_cast<uint8_t>(target),
                                               .slice = 0,
                                               .segment = 1,
                                               .page = 10 * p,
                                               .pages = 4,
                                               .lead_pages = 2},
                                     .block_bytes = 1000,
                                     .mark = {}};
      rig.flash.adopt(info.place, info.block);
      EXPECT_TRUE(catalog.recovered(info));
    }
    catalog.recovery_done();
    rig.settle();
    EXPECT_EQ(live_of(rig, 1), 2u) << "of " << found << ": k stay, crowded or not";
    EXPECT_EQ(rig.flash.fragments(), 2u);
    EXPECT_EQ(rig.match({1}).found(), 1u);
    if (found > 2) continue;
    // Repair writes the third; of the two on one target one can be spared then.
    const flash::Place third{
        .target = 2, .slice = 0, .segment = 1, .page = 50, .pages = 4, .lead_pages = 2};
    rig.flash.adopt(third, rig.block(1));
    const Attempt attempt{.boot_generation = 1, .target = 0, .counter = 1};
    EXPECT_TRUE(catalog.repaired(rig.block(1), attempt, 2, third));
    EXPECT_EQ(live_of(rig, 1), 2u);
    EXPECT_EQ(rig.flash.fragments(), 2u);
  }
}

// What reclaim left of evicted blocks, a fragment each, in an index that has no more places: it
// goes for what is found later, once its slice was found whole and no sooner, also where it lies
// behind many (`sound`) that are whole.
void expect_room_of_remnants(uint32_t sound) {
  constexpr uint32_t kPlaces = 1000, kWhole = 40;
  RigOptions options = coded({2, 1}, 3);
  options.index_blocks_max = kPlaces;
  options.op.slices = 2;
  Rig rig(options);
  Catalog& catalog = rig.operations->catalog();
  uint32_t page = 0;
  const auto find = [&](uint32_t n, uint32_t position) {
    const flash::FragmentInfo info{.block = rig.block(n),
                                   .rank_count = 1,
                                   .position = position,
                                   .attempt = {.boot_generation = 1, .target = 0, .counter = n + 1},
                                   .place = {.target = static_cast<uint8_t>(position),
                                             .slice = static_cast<uint8_t>(slice_of(rig.id(n), 2)),
                                             .segment = 1,
                                             .page = page += 4,
                                             .pages = 4,
                                             .lead_pages = 2},
                                   .block_bytes = 1000,
                                   .mark = {}};
    rig.flash.adopt(info.place, info.block);
    if (catalog.recovered(info)) return true;
    rig.flash.release(info.place);  // as flash does with what is not kept
    return false;
  };
  std::vector<uint32_t> remnants, whole;  // of one slice, and of the other
  for (uint32_t n = 0; remnants.size() < kPlaces || whole.size() < kWhole; ++n)
    (slice_of(rig.id(n), 2) == 0 ? remnants : whole).push_back(n);
  rig.flash.is_recovering = true;
  rig.flash.ready = false;
  for (uint32_t i = 0; i < kPlaces; ++i) {
    ASSERT_TRUE(find(remnants[i], i % 3));
    if (i < sound) {
      ASSERT_TRUE(find(remnants[i], (i + 1) % 3));
    }
  }
  EXPECT_FALSE(find(whole[0], 0)) << "the others of each may still be found";
  EXPECT_EQ(rig.context->metrics.recovered_full.value(), 1u);
  rig.flash.ready = true;
  rig.flash.unready_slice = 1;
  for (uint32_t i = 0; i < kWhole; ++i) {
    EXPECT_TRUE(find(whole[i], 0));
    EXPECT_TRUE(find(whole[i], 1));
  }
  EXPECT_EQ(rig.context->metrics.recovered_full.value(), 1u);
  rig.flash.unready_slice = ~0u;
  rig.flash.is_recovering = false;
  catalog.recovery_done();
  rig.settle();
  for (uint32_t i = 0; i < kWhole; ++i)
    EXPECT_EQ(rig.match({whole[i]}).found(), 1u) << i;
  EXPECT_EQ(rig.context->metrics.recovered_too_few.value(), kPlaces - sound);
  EXPECT_EQ(rig.flash.fragments(), 2 * (sound + kWhole));
}

TEST(CodingRecovery, RemnantsMakeRoomForBlocksThatAreWhole) {
  for (const uint32_t sound : {0u, 900u})
    expect_room_of_remnants(sound);
}

// After a crash between the copy and what it was copied from: both are found, in either order.
TEST(CodingRecovery, OfTwoCopiesThatOnTheDrainedTargetIsGivenUp) {
  for (const Scheme scheme : {Scheme{1, 0}, Scheme{2, 1}}) {
    for (const bool drained_first : {true, false}) {
      RigOptions options = coded(scheme, 4);
      options.op.draining_targets = 0b1000;
      Rig rig(options);
      Catalog& catalog = rig.operations->catalog();
      const auto tell = [&](uint32_t position, uint32_t target) {
        const flash::FragmentInfo info{.block = rig.block(1),
                                       .rank_count = 1,
                                       .position = position,
                                       .attempt = {.boot_generation = 1, .target = 0, .counter = 1},
                                       .place = {.target = static_cast<uint8_t>(target),
                                                 .slice = 0,
                                                 .segment = 1,
                                                 .page = 10 * position,
                                                 .pages = 4,
                                                 .lead_pages = 2},
                                       .block_bytes = 1000,
                                       .mark = {}};
        rig.flash.adopt(info.place, info.block);
        if (!catalog.recovered(info)) rig.flash.release(info.place);
      };
      for (uint32_t p = 1; p < scheme.k; ++p)
        tell(p, p);
      tell(0, drained_first ? 3 : 0);
      tell(0, drained_first ? 0 : 3);
      EXPECT_EQ(rig.place_of(rig.block(1)).target, 0u);
      EXPECT_EQ(live_of(rig, 1), scheme.k);
      EXPECT_EQ(rig.flash.fragments(), scheme.k) << "the other is dead";
      EXPECT_EQ(rig.index.fragments_on(3), 0u);
      EXPECT_EQ(rig.index.thin_count(), scheme.m);
      catalog.recovery_done();
      rig.settle();
      EXPECT_EQ(rig.match({1}).found(), 1u);
    }
  }
}

// Rot that a reader finds: the extent is told lost, the block stays, the others of it are sent.
TEST(CodingRot, CostsTheReaderARebuildOnly) {
  for (uint32_t position = 0; position < 3; ++position) {
    Rig rig(coded({2, 1}, 3));
    rig.push({1});
    rig.drop_from_dram(1);
    rig.flash.rot(rig.block(1), static_cast<int>(position));
    const auto pull = rig.make_pull({1});
    rig.start(*pull);
    rig.finish(*pull);
    EXPECT_EQ(pull->code(0), Code::kOk);
    rig.expect_bytes(*pull, {1});
    EXPECT_EQ(pull->lost.empty(), position == 2) << "parity is not read";
    EXPECT_EQ(rig.match({1}).found(), 1u);
    rig.expect_at_rest();
  }
}

}  // namespace
}  // namespace varve
