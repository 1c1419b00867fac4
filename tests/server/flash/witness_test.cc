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
  return stale_one(looks) != nullptr;
}

TEST(Witness, OneThatMissedPurgesNeedsOneThatDidNot) {
  EXPECT_FALSE(is_stale({}));
  EXPECT_FALSE(is_stale({with_data({}), with_data({})}));
  EXPECT_TRUE(is_stale({with_data({.missed = 5})}));
  EXPECT_TRUE(is_stale({with_data({.missed = 5}), with_data({.missed = 7})}));
  EXPECT_FALSE(is_stale({with_data({.missed = 5}), with_data({})}));
}

TEST(Witness, ABlankOneBringsNothingBackAndSpeaksForNobody) {
  EXPECT_FALSE(is_stale({blank()}));
  EXPECT_TRUE(is_stale({blank(), with_data({.missed = 5})}));
}

TEST(Witness, OneThatWasFormattedSpeaksForWhatWasMissedSince) {
  EXPECT_FALSE(is_stale({with_data({.from = 8})}));
  EXPECT_TRUE(is_stale({with_data({.from = 8}), with_data({.missed = 7})}));
  EXPECT_FALSE(is_stale({with_data({.from = 8}), with_data({.missed = 8})}));
  EXPECT_FALSE(is_stale({with_data({.from = 8}), with_data({.missed = 7}), with_data({})}));
}

std::vector<uint32_t> missed_after(std::vector<WitnessNow> all, bool recovering = false) {
  witness_now(all, 9, recovering);
  std::vector<uint32_t> missed;
  for (const WitnessNow& one : all)
    missed.push_back(one.witness.missed);
  return missed;
}

TEST(Witness, OneThatDoesNotWorkMissesWhatTheOthersTake) {
  const WitnessNow works{.works = true};
  EXPECT_EQ(missed_after({works, {}}), (std::vector<uint32_t>{0, 9}));
  EXPECT_EQ(missed_after({works, {.witness = {.missed = 4}}}), (std::vector<uint32_t>{0, 4}));
  EXPECT_EQ(missed_after({works, {.drained = true}}), (std::vector<uint32_t>{0, 0}));
  EXPECT_EQ(missed_after({{}, {}}), (std::vector<uint32_t>{0, 0})) << "none works: no purge";
}

TEST(Witness, OneThatIsBackHasSeenAllWhenTheOthersWereRead) {
  const WitnessNow works{.works = true};
  const WitnessNow back{.witness = {.missed = 4}, .works = true};
  EXPECT_EQ(missed_after({works, back}, true), (std::vector<uint32_t>{0, 4}));
  EXPECT_EQ(missed_after({works, back}), (std::vector<uint32_t>{0, 0}));
  EXPECT_EQ(missed_after({back, back}), (std::vector<uint32_t>{4, 4}));
  const WitnessNow young{.witness = {.from = 5}, .works = true};
  EXPECT_EQ(missed_after({young, back}), (std::vector<uint32_t>{0, 4}));
}

// The records end what may still lie there, and stand on the others.
TEST(Witness, OneForWhichRecordsAreKeptNeedsTheOthersForGood) {
  const WitnessNow works{.works = true};
  const WitnessNow back{.witness = {.missed = 4}, .works = true, .owed = true};
  EXPECT_EQ(missed_after({works, back}), (std::vector<uint32_t>{0, 4}));
}

}  // namespace
}  // namespace varve::flash
