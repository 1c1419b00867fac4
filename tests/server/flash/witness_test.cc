// Goal: a target that missed purges is stale unless one is there that saw them all; what is written
// down of each while the node serves. Pure.
#include <gtest/gtest.h>

#include "server/flash/flash.h"

namespace varve::flash {
namespace {

TargetLook with_data(Witness witness) {
  TargetLook look;
  look.witness = witness;
  return look;
}

TargetLook blank() {
  TargetLook look;
  look.blank = true;
  return look;
}

bool is_stale(std::vector<TargetLook> looks) {
  for (uint32_t i = 0; i < looks.size(); ++i)
    looks[i].index = i;
  return !stale_ones(looks).empty();
}

TEST(Witness, OneThatMissedPurgesNeedsOneThatDidNot) {
  EXPECT_FALSE(is_stale({}));
  EXPECT_FALSE(is_stale({with_data({}), with_data({})}));
  EXPECT_TRUE(is_stale({with_data({.missed = {{5, 0}}})}));
  EXPECT_TRUE(is_stale({with_data({.missed = {{5, 0}}}), with_data({.missed = {{7, 0}}})}));
  EXPECT_FALSE(is_stale({with_data({.missed = {{5, 0}}}), with_data({})}));
}

TEST(Witness, ABlankOneBringsNothingBackAndSpeaksForNobody) {
  EXPECT_FALSE(is_stale({blank()}));
  EXPECT_TRUE(is_stale({blank(), with_data({.missed = {{5, 0}}})}));
}

TEST(Witness, OneThatWasFormattedSpeaksForWhatWasMissedSince) {
  EXPECT_FALSE(is_stale({with_data({.from = 8})}));
  EXPECT_TRUE(is_stale({with_data({.from = 8}), with_data({.missed = {{7, 0}}})}));
  EXPECT_FALSE(is_stale({with_data({.from = 8}), with_data({.missed = {{8, 0}}})}));
  EXPECT_FALSE(is_stale({with_data({.from = 8}), with_data({.missed = {{7, 0}}}), with_data({})}));
}

// Each was away for a while, and the records of what they missed lie on the others for good.
TEST(Witness, OnesThatMissedDifferentStartsSpeakForEachOther) {
  const TargetLook one = with_data({.missed = {{5, 6}}}), other = with_data({.missed = {{9, 10}}}),
                   third = with_data({.missed = {{12, 0}}});
  EXPECT_FALSE(is_stale({one, other, third}));
  EXPECT_FALSE(is_stale({one, other}));
  EXPECT_FALSE(is_stale({one, third}));
  EXPECT_TRUE(is_stale({one}));
  EXPECT_TRUE(is_stale({one, with_data({.missed = {{4, 6}}})}));
}

TEST(Witness, SeveralTogetherKnowWhatNoneOfThemKnowsAlone) {
  const TargetLook first = with_data({.missed = {{3, 0}}}),
                   second = with_data({.missed = {{7, 0}}}), young = with_data({.from = 5});
  EXPECT_FALSE(is_stale({first, second, young}));
  EXPECT_TRUE(is_stale({first, young})) << "nobody knows of 3 and 4";
  EXPECT_TRUE(is_stale({first, second})) << "nor of 7";
  EXPECT_TRUE(is_stale({first, second, with_data({.from = 8})})) << "7 alone is not known";
  const std::vector<TargetLook> looks = {first, second, with_data({.from = 8})};
  ASSERT_EQ(stale_ones(looks).size(), 2u);
  EXPECT_EQ(stale_ones(looks).front().start, 7u);
}

using Missed = std::vector<Starts>;

std::vector<Missed> missed_after(std::vector<WitnessNow> all, bool recovering = false) {
  witness_now(all, 9, recovering);
  std::vector<Missed> missed;
  for (const WitnessNow& one : all)
    missed.push_back(one.witness.missed);
  return missed;
}

const Missed kNone;

TEST(Witness, OneThatDoesNotWorkMissesWhatTheOthersTake) {
  const WitnessNow works{.works = true};
  EXPECT_EQ(missed_after({works, {}}), (std::vector<Missed>{kNone, {{9, 0}}}));
  EXPECT_EQ(missed_after({works, {.witness = {.missed = {{4, 0}}}}}),
            (std::vector<Missed>{kNone, {{4, 0}}}));
  EXPECT_EQ(missed_after({works, {.drained = true}}), (std::vector<Missed>{kNone, kNone}));
  EXPECT_EQ(missed_after({{}, {}}), (std::vector<Missed>{kNone, kNone})) << "none works: no purge";
}

TEST(Witness, OneThatIsBackHasSeenAllWhenTheOthersWereRead) {
  const WitnessNow works{.works = true};
  const WitnessNow back{.witness = {.missed = {{4, 0}}}, .works = true};
  EXPECT_EQ(missed_after({works, back}, true), (std::vector<Missed>{kNone, {{4, 9}}}));
  EXPECT_EQ(missed_after({works, back}), (std::vector<Missed>{kNone, kNone}));
  EXPECT_EQ(missed_after({back, back}), (std::vector<Missed>{{{4, 9}}, {{4, 9}}}));
  const WitnessNow young{.witness = {.from = 5}, .works = true};
  EXPECT_EQ(missed_after({young, back}), (std::vector<Missed>{kNone, {{4, 9}}}));
}

// Expect: it needs nobody once it works for all shards, and is no witness of what was before it.
TEST(Witness, OneThatWasPutInDuringThisStartHasMissedNothingOnceItWorks) {
  WitnessNow newcomer{.witness = {.from = 10, .missed = {{9, 0}}}};
  EXPECT_EQ(missed_after({{.works = true}, newcomer}), (std::vector<Missed>{kNone, {{9, 0}}}));
  newcomer.works = true;
  EXPECT_EQ(missed_after({newcomer}), (std::vector<Missed>{kNone})) << "with nobody beside it";
  EXPECT_FALSE(knows({.from = 10}, 9));
  EXPECT_EQ(missed_after({{.works = true}, {.witness = {.from = 10}}}),
            (std::vector<Missed>{kNone, {{9, 0}}}))
      << "it failed, too";
}

// The records end what may still lie there, and stand on the others.
TEST(Witness, OneForWhichRecordsAreKeptNeedsTheOthersForGood) {
  const WitnessNow works{.works = true};
  const WitnessNow back{.witness = {.missed = {{4, 0}}}, .works = true, .kept = 4};
  EXPECT_EQ(missed_after({works, back}), (std::vector<Missed>{kNone, {{4, 9}}}));
}

// A record names a place, which another drive has now: none of what it ends is on that, unless it
// was put in during the very start of the purge, before that purge.
TEST(Witness, RecordsOfBeforeItWasMadeAreNotKeptForIt) {
  const WitnessNow works{.works = true};
  WitnessNow back{.witness = {.from = 6, .missed = {{5, 7}}}, .works = true, .kept = 4};
  EXPECT_EQ(missed_after({works, back}), (std::vector<Missed>{kNone, kNone}));
  back.kept = 5;
  EXPECT_EQ(missed_after({works, back}), (std::vector<Missed>{kNone, {{5, 7}}}));
}

TEST(Witness, WhatWasMissedAgainStandsBesideWhatWasMissedBefore) {
  const WitnessNow works{.works = true};
  EXPECT_EQ(missed_after({works, {.witness = {.missed = {{4, 6}}}}}),
            (std::vector<Missed>{kNone, {{4, 6}, {9, 0}}}));
  EXPECT_EQ(missed_after({works, {.witness = {.missed = {{4, 9}}}}}),
            (std::vector<Missed>{kNone, {{4, 0}}}))
      << "it was back in this start and failed in it";
  Witness often;
  for (uint32_t i = 0; i < kMissedMax; ++i)
    often.missed.push_back({10 + 3 * i, 12 + 3 * i});
  begin_to_miss(often, 100);
  ASSERT_EQ(often.missed.size(), kMissedMax);
  EXPECT_EQ(often.missed.front(), (Starts{10, 15})) << "more than it missed, never less";
  EXPECT_EQ(often.missed.back(), (Starts{100, 0}));
}

}  // namespace
}  // namespace varve::flash
