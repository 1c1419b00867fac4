// Goal: each of the six classes is given where it is due and nowhere else.
// Method: short histories of one or two blocks, judged by the book.
#include "tools/ledger/book.h"

#include <gtest/gtest.h>

namespace varve::ledger {
namespace {

constexpr bool kDurable = true, kCached = false;

struct BookTest : ::testing::Test {
  BookTest() {
    base.bytes.fill(std::byte{7});
    pair.bytes.fill(std::byte{8});
    book.declare(base, 1);
    book.declare(pair, 2);
  }
  void commit(const BlockId& block, Salt salt, bool durable) {
    book.begin(block, salt);
    book.finish(block, salt);
    book.acknowledge(block, durable);
  }
  uint64_t of(Class c) const { return book.tally().of(c); }

  Book book;
  BaseId base, pair;
};

TEST_F(BookTest, AnAcknowledgedBlockThatIsThereIsIntactAtEveryAudit) {
  commit({base, 0}, 1, kDurable);
  EXPECT_EQ(book.found({base, 0}, 1), Class::kIntact);
  EXPECT_EQ(book.found({base, 0}, 1), Class::kIntact);
  EXPECT_EQ(of(Class::kIntact), 2u);
  EXPECT_EQ(book.tally().violations(), 0u);
}

TEST_F(BookTest, ADurableBlockThatIsGoneIsLostOnceAndSaysItsHistory) {
  book.at_start(3, 0);
  commit({base, 0}, 1, kDurable);
  book.at_start(5, 0);
  book.missing(base, {0}, Room::kRoomy);
  book.missing(base, {0}, Room::kRoomy);
  EXPECT_EQ(of(Class::kLost), 1u);
  ASSERT_EQ(book.findings().size(), 1u);
  EXPECT_NE(book.findings()[0].find("in loop 5, acknowledged in loop 3"), std::string::npos);
}

TEST_F(BookTest, GoneFromATightFolderIsEvicted) {
  commit({base, 0}, 1, kDurable);
  book.missing(base, {0}, Room::kTight);
  EXPECT_EQ(of(Class::kEvicted), 1u);
  EXPECT_EQ(of(Class::kLost), 0u);
}

TEST_F(BookTest, ACachedBlockMayGo) {
  commit({base, 0}, 1, kCached);
  book.missing(base, {0}, Room::kRoomy);
  EXPECT_EQ(book.tally().cached_lost, 1u);
  EXPECT_EQ(book.tally().violations(), 0u);
}

TEST_F(BookTest, WhatWasNeverAcknowledgedIsNotMissed) {
  book.begin({base, 0}, 1);
  book.finish({base, 0}, 1);
  book.missing(base, {0}, Room::kRoomy);
  EXPECT_EQ(book.tally().violations(), 0u);
  EXPECT_EQ(book.tally().cached_lost, 0u);
}

TEST_F(BookTest, FoundAgainIsRevived) {
  commit({base, 0}, 1, kDurable);
  book.missing(base, {0}, Room::kTight);
  EXPECT_EQ(book.found({base, 0}, 1), Class::kRevived);
}

TEST_F(BookTest, ALaterWriterRevivesNothing) {
  commit({base, 0}, 1, kCached);
  book.missing(base, {0}, Room::kRoomy);
  book.begin({base, 0}, 2);
  book.finish({base, 0}, 2);
  EXPECT_EQ(book.found({base, 0}, 2), std::nullopt);
  EXPECT_EQ(book.tally().unanswered, 1u);
}

TEST_F(BookTest, CommittedWithoutAnAnswerIsLegal) {
  book.begin({base, 0}, 1);
  book.finish({base, 0}, 1);
  EXPECT_EQ(book.found({base, 0}, 1), std::nullopt);
  EXPECT_EQ(book.tally().unanswered, 1u);
}

TEST_F(BookTest, BytesOfNobodyAreCorrupt) {
  commit({base, 0}, 1, kDurable);
  EXPECT_EQ(book.found({base, 0}, std::nullopt), Class::kCorrupt);
}

TEST_F(BookTest, AWriterThatNeverFinishedIsAPhantom) {
  commit({base, 0}, 1, kDurable);
  book.begin({base, 0}, 2);
  EXPECT_EQ(book.found({base, 0}, 2), Class::kPhantom);
}

TEST_F(BookTest, AWriterThatWasNotGrantedIsAPhantom) {
  commit({base, 0}, 1, kDurable);
  book.begin({base, 0}, 2);
  book.finish({base, 0}, 2);
  book.retract({base, 0}, 2);
  book.judge_bytes({base, 0}, 2);
  EXPECT_EQ(of(Class::kPhantom), 1u);
}

TEST_F(BookTest, ABlockThatNobodyPushedIsAPhantom) {
  EXPECT_EQ(book.found({base, 0}, 9), Class::kPhantom);
}

TEST_F(BookTest, OfTwoWritersEitherMayHaveWon) {
  commit({base, 0}, 1, kCached);
  commit({base, 0}, 2, kDurable);
  EXPECT_EQ(book.found({base, 0}, 1), Class::kIntact);
  EXPECT_EQ(book.found({base, 0}, 2), Class::kIntact);
}

TEST_F(BookTest, SiblingsThatAreAllDurableAreLostTogether) {
  commit({pair, 0}, 1, kDurable);
  commit({pair, 1}, 2, kDurable);
  EXPECT_TRUE(book.must_keep(pair));
  book.missing(pair, {0, 1}, Room::kRoomy);
  EXPECT_EQ(of(Class::kLost), 2u);
}

TEST_F(BookTest, ARunWithoutAllItsSiblingsMayBeDropped) {
  commit({pair, 0}, 1, kDurable);
  commit({pair, 1}, 2, kCached);
  EXPECT_FALSE(book.must_keep(pair));
  book.missing(pair, {0, 1}, Room::kRoomy);
  EXPECT_EQ(book.tally().partial_gone, 1u);
  EXPECT_EQ(book.tally().cached_lost, 1u);
  EXPECT_EQ(book.tally().violations(), 0u);
}

TEST_F(BookTest, GrantingADurableBlockAgainProvesItsLoss) {
  commit({base, 0}, 1, kDurable);
  book.granted_again({base, 0}, Room::kTight);
  EXPECT_EQ(of(Class::kLost), 0u);
  book.granted_again({base, 0}, Room::kRoomy);
  EXPECT_EQ(of(Class::kLost), 1u);
}

TEST_F(BookTest, WithinTheBudgetALossStaysALoss) {
  book.budget(1);
  commit({base, 0}, 1, kDurable);
  book.struck(0b10);
  EXPECT_EQ(book.found({base, 0}, 1), Class::kIntact);
  EXPECT_EQ(book.tally().within_kept, 1u);
  EXPECT_FALSE(book.excused(base));
  book.missing(base, {0}, Room::kRoomy);
  EXPECT_EQ(of(Class::kLost), 1u);
  EXPECT_NE(book.findings().at(0).find("1 targets hurt since"), std::string::npos);
}

TEST_F(BookTest, BeyondTheBudgetAnAbsenceIsLegalAndWrongBytesAreNot) {
  book.budget(1);
  commit({base, 0}, 1, kDurable);
  book.struck(0b10);
  book.struck(0b01);
  EXPECT_TRUE(book.excused(base));
  EXPECT_EQ(book.found({base, 0}, 1), Class::kIntact);
  EXPECT_EQ(book.tally().beyond_kept, 1u);
  EXPECT_EQ(book.found({base, 0}, std::nullopt), Class::kCorrupt);
  book.missing(base, {0}, Room::kRoomy);
  EXPECT_EQ(book.tally().beyond_gone, 1u);
  EXPECT_EQ(of(Class::kLost), 0u);
}

TEST_F(BookTest, TheSameTargetTwiceIsOneLoss) {
  book.budget(1);
  commit({base, 0}, 1, kDurable);
  book.struck(0b10);
  book.struck(0b10);
  EXPECT_FALSE(book.excused(base));
}

TEST_F(BookTest, WhatIsWholeAgainBearsTheNextLoss) {
  book.budget(1);
  commit({base, 0}, 1, kDurable);
  book.struck(0b10);
  book.healed();
  book.struck(0b01);
  EXPECT_FALSE(book.excused(base));
  book.missing(base, {0}, Room::kRoomy);
  EXPECT_EQ(of(Class::kLost), 1u);
}

TEST_F(BookTest, ABlockWrittenAfterTheDamageIsNotHurtByItButMayBeThin) {
  book.budget(1);
  book.struck(0b10);
  commit({base, 0}, 1, kDurable);
  book.struck(0b01);
  EXPECT_FALSE(book.excused(base));
  book.at_start(2, 0b100);
  commit({base, 0}, 2, kDurable);
  book.struck(0b01);
  EXPECT_TRUE(book.excused(base));
}

TEST_F(BookTest, WhatOnlyExistsMayHaveNoFragmentToSpare) {
  book.budget(1);
  commit({base, 0}, 1, kCached);
  book.confirm({base, 0});
  EXPECT_FALSE(book.excused(base));
  book.struck(0b10);
  EXPECT_TRUE(book.excused(base));
  book.healed();
  book.struck(0b10);
  EXPECT_FALSE(book.excused(base));
  commit({pair, 0}, 2, kDurable);
  commit({pair, 1}, 3, kDurable);
  book.confirm({pair, 0});
  book.struck(0b10);
  EXPECT_FALSE(book.excused(pair)) << "it was durable before";
}

TEST_F(BookTest, SiblingsShareTheirExcuse) {
  book.budget(0);
  commit({pair, 0}, 1, kDurable);
  book.struck(0b1);
  commit({pair, 1}, 2, kDurable);
  book.missing(pair, {0, 1}, Room::kRoomy);
  EXPECT_EQ(book.tally().beyond_gone, 2u);
  EXPECT_EQ(of(Class::kLost), 0u);
}

TEST_F(BookTest, AHurtBlockThatWasNeverDurableIsNotOwed) {
  book.budget(2);
  commit({base, 0}, 1, kCached);
  EXPECT_FALSE(book.excused(base)) << "a leased hit is delivered where nothing is hurt";
  book.struck(0b1);
  EXPECT_TRUE(book.excused(base));
}

TEST_F(BookTest, GrantingAgainBeyondTheBudgetIsLegal) {
  book.budget(0);
  commit({base, 0}, 1, kDurable);
  book.struck(0b1);
  book.granted_again({base, 0}, Room::kRoomy);
  EXPECT_EQ(of(Class::kLost), 0u);
  EXPECT_EQ(book.tally().beyond_gone, 1u);
}

TEST_F(BookTest, TalliesAddUp) {
  commit({base, 0}, 1, kDurable);
  book.found({base, 0}, 1);
  Tally sum = book.tally();
  sum.merge(book.tally());
  EXPECT_EQ(sum.of(Class::kIntact), 2u);
}

}  // namespace
}  // namespace varve::ledger
