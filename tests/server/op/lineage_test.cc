// Lineages: numbers by block slot, dead from a purge on, and never by mistake.
#include "server/op/lineage.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

constexpr uint64_t kOne = 11, kTwo = 22;

flash::Generations raised(const flash::Generations& rows, uint64_t lineage) {
  uint32_t generation = 0;
  return *flash::raised(rows, 1, lineage, &generation);
}

TEST(Lineage, APurgeEndsWhatWasThereAndNotWhatComes) {
  Lineages lineages(8, {});
  lineages.set(0, 1, kOne);
  lineages.set(1, 1, kTwo);
  lineages.purge(1, kOne, raised(lineages.rows(), kOne));
  lineages.set(2, 1, kOne);
  EXPECT_TRUE(lineages.is_dead(0));
  EXPECT_FALSE(lineages.is_dead(1));
  EXPECT_FALSE(lineages.is_dead(2));
  EXPECT_EQ(lineages.mark(1, kOne).lineage_generation, 1u);
  EXPECT_EQ(lineages.mark(1, kTwo).lineage_generation, 0u);
  EXPECT_TRUE(lineages.is_old({1, 0, kOne, 0}));
  lineages.set(0, 1, kTwo);  // the slot was given to another block
  EXPECT_FALSE(lineages.is_dead(0));
}

TEST(Lineage, APurgeOfTheDomainEndsAll) {
  Lineages lineages(8, {});
  lineages.set(0, 1, kOne);
  lineages.set(1, 1, kTwo);
  lineages.purge(1, 0, raised(lineages.rows(), 0));
  lineages.set(2, 1, kOne);
  EXPECT_TRUE(lineages.is_dead(0) && lineages.is_dead(1));
  EXPECT_FALSE(lineages.is_dead(2));
  EXPECT_EQ(lineages.mark(1, kTwo).domain_generation, 1u);
}

TEST(Lineage, APurgeOfALineageThatWasNeverMetIsNothing) {
  Lineages lineages(8, {});
  lineages.set(0, 1, kOne);
  lineages.purge(1, kTwo, raised(lineages.rows(), kTwo));
  EXPECT_FALSE(lineages.is_dead(0));
}

// Beyond the numbers there are, a purge drops more than it must, never less.
TEST(Lineage, WhatHasNoNumberDiesWithTheNextPurge) {
  Lineages lineages(70000, {});
  for (uint32_t i = 0; i < 66000; ++i)
    lineages.set(i, 1, 1000 + i);
  EXPECT_FALSE(lineages.is_dead(65999));
  lineages.purge(1, 1000, raised({}, 1000));
  EXPECT_TRUE(lineages.is_dead(0));
  EXPECT_FALSE(lineages.is_dead(1));
  EXPECT_TRUE(lineages.is_dead(65999));
}

// The walk of a purge leaves no block with a dead number, so the limit is of those that live.
TEST(Lineage, NumbersOfWhatWasPurgedAreGivenAgain) {
  Lineages lineages(8, {});
  for (uint32_t i = 0; i < 70000; ++i) {
    lineages.set(0, 1, kOne);
    lineages.purge(1, kOne, lineages.rows());
    ASSERT_TRUE(lineages.is_dead(0));
    lineages.walked();
  }
  lineages.set(1, 1, kTwo);
  lineages.set(0, 1, kOne);
  lineages.purge(1, kOne, lineages.rows());
  EXPECT_FALSE(lineages.is_dead(1));
  EXPECT_TRUE(lineages.is_dead(0));
  lineages.purge(1, 0, lineages.rows());
  EXPECT_TRUE(lineages.is_dead(1));
}

// A number is not given again while another walk has still to find blocks of it: they would live
// again with it (I10).
TEST(Lineage, WalksThatOverlapGiveNumbersAgainWhenTheLastHasEnded) {
  Lineages lineages(8, {});
  lineages.set(0, 1, kOne);
  lineages.set(1, 1, kTwo);
  lineages.purge(1, kOne, lineages.rows());
  lineages.purge(1, kTwo, lineages.rows());
  lineages.walked();  // of kOne: the other one has not come to block 1
  for (uint64_t other = 100; other < 104; ++other)
    lineages.set(2, 1, other);
  EXPECT_TRUE(lineages.is_dead(1));
  EXPECT_FALSE(lineages.is_dead(2));
  lineages.walked();
  EXPECT_TRUE(lineages.is_dead(1));  // nobody has it any more, whatever its slot says
  lineages.set(1, 1, 200);
  EXPECT_FALSE(lineages.is_dead(1));
}

TEST(Lineage, WhatHasNoNumberAndComesAfterTheWalkLives) {
  Lineages lineages(70000, {});
  for (uint32_t i = 0; i < 66000; ++i)
    lineages.set(i, 1, 1000 + i);
  lineages.purge(1, kOne, lineages.rows());
  lineages.walked();
  lineages.set(66000, 1, kTwo);
  EXPECT_FALSE(lineages.is_dead(66000));
}

TEST(Lineage, APurgeEndsNothingOfAnotherDomain) {
  Lineages lineages(8, {});
  lineages.set(0, 1, kOne);
  lineages.set(1, 2, kOne);
  lineages.set(2, 2, kTwo);
  lineages.purge(1, kOne, raised(lineages.rows(), kOne));
  EXPECT_TRUE(lineages.is_dead(0));
  EXPECT_FALSE(lineages.is_dead(1));
  EXPECT_EQ(lineages.mark(2, kOne).lineage_generation, 0u);
  EXPECT_EQ(lineages.mark(2, kOne).domain, 2u);
  lineages.set(0, 1, kOne);
  lineages.purge(2, 0, lineages.rows());
  EXPECT_FALSE(lineages.is_dead(0));
  EXPECT_TRUE(lineages.is_dead(1) && lineages.is_dead(2));
}

// Lineages of one domain can use up its numbers; what has none of another is not theirs.
TEST(Lineage, WhatHasNoNumberDiesWithItsOwnDomainOnly) {
  Lineages lineages(70000, {});
  for (uint32_t i = 0; i < 66000; ++i)
    lineages.set(i, 1, 1000 + i);
  for (uint32_t i = 66000; i < 68000; ++i)
    lineages.set(i, 2, 1000 + i);
  lineages.purge(1, 1000, lineages.rows());
  EXPECT_TRUE(lineages.is_dead(65999));
  EXPECT_FALSE(lineages.is_dead(67999));
  lineages.walked();
  lineages.purge(2, kTwo, lineages.rows());
  EXPECT_TRUE(lineages.is_dead(67999));
  EXPECT_FALSE(lineages.is_dead(66000));
}

// Goal: a domain that has a block of each of very many lineages, and purges them all meanwhile,
// leaves the others as many numbers as are theirs: a purge of one of their lineages ends that one.
TEST(Lineage, EachDomainHasNumbersThatNoOtherUsesUp) {
  constexpr uint32_t kFull = 66000;
  constexpr uint32_t kOwn = 1008;  // exactly: what has no number takes none of them
  Lineages lineages(kFull + 31 * kOwn, {});
  const auto fill = [&] {
    for (uint32_t i = 0; i < kFull; ++i)
      lineages.set(i, 1, 1000 + i);
  };
  fill();
  lineages.purge(1, 0, lineages.rows());  // its walk lasts
  fill();
  uint32_t slot = kFull;
  for (uint32_t domain = 2; domain <= 32; ++domain) {
    for (uint32_t i = 0; i < kOwn; ++i)
      lineages.set(slot++, domain, 1000 + i);
  }
  lineages.walked();
  fill();
  lineages.purge(32, 1000, lineages.rows());
  EXPECT_TRUE(lineages.is_dead(slot - kOwn));
  for (uint32_t i = 1; i < kOwn; ++i)
    ASSERT_FALSE(lineages.is_dead(slot - kOwn + i)) << i;
}

// What is kept for those without a number is not used up by lineages that come and go.
TEST(Lineage, AFullTableGoesOnThroughPurgesWithoutEnd) {
  Lineages lineages(70000, {});
  for (uint32_t i = 0; i < 66000; ++i)
    lineages.set(i, 1, 1000 + i);
  for (uint64_t round = 0; round < 1500; ++round) {
    lineages.purge(1, 1000 + round, lineages.rows());
    ASSERT_TRUE(lineages.is_dead(65999)) << round;
    lineages.walked();
    for (uint64_t more = 0; more < 2; ++more)  // one has a number, the other has not
      lineages.set(65999, 1, 100000 + round * 2 + more);
    ASSERT_FALSE(lineages.is_dead(65999));
  }
}

}  // namespace
}  // namespace varve
