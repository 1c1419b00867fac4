// Goal: each of the seven classes is given where it is due and nowhere else.
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
    book.acknowledge(block, salt, durable, kNow);
    book.settle(block, salt);
  }
  void purge(const BaseId& id, bool done = true) {
    book.purge_answered(book.purge_asked({id}, false), done);
  }
  void next_life(bool all_here = true) { book.at_start(++loop, 0, all_here); }
  uint64_t of(Class c) const { return book.tally().of(c); }

  Book book;
  BaseId base, pair;
  uint32_t loop = 1;
};

TEST_F(BookTest, AnAcknowledgedBlockThatIsThereIsIntactAtEveryAudit) {
  commit({base, 0}, 1, kDurable);
  EXPECT_EQ(book.found({base, 0}, 1), Class::kIntact);
  EXPECT_EQ(book.found({base, 0}, 1), Class::kIntact);
  EXPECT_EQ(of(Class::kIntact), 2u);
  EXPECT_EQ(book.tally().violations(), 0u);
}

TEST_F(BookTest, ADurableBlockThatIsGoneIsLostOnceAndSaysItsHistory) {
  book.at_start(3, 0, true);
  commit({base, 0}, 1, kDurable);
  book.at_start(5, 0, true);
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
  book.judge_bytes({base, 0}, 2, kNow);
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
  book.granted_again({base, 0}, Room::kTight, kNow);
  EXPECT_EQ(of(Class::kLost), 0u);
  book.granted_again({base, 0}, Room::kRoomy, kNow);
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

TEST_F(BookTest, WhatIsGoneForGoodIsNotMadeWhole) {
  commit({base, 0}, 1, kDurable);
  book.struck(0b1);
  book.missing(base, {0}, Room::kRoomy);
  book.healed();
  EXPECT_TRUE(book.excused(base)) << "a rotten one, which every start finds in its index";
  commit({base, 0}, 2, kDurable);
  EXPECT_FALSE(book.excused(base));
}

TEST_F(BookTest, ABlockWrittenAfterTheDamageIsNotHurtByItButMayBeThin) {
  book.budget(1);
  book.struck(0b10);
  commit({base, 0}, 1, kDurable);
  book.struck(0b01);
  EXPECT_FALSE(book.excused(base));
  book.at_start(2, 0b100, true);
  commit({base, 0}, 2, kDurable);
  book.struck(0b01);
  EXPECT_TRUE(book.excused(base));
}

TEST_F(BookTest, WhatOnlyExistsMayHaveNoFragmentToSpare) {
  book.budget(1);
  commit({base, 0}, 1, kCached);
  book.confirm({base, 0}, kNow);
  EXPECT_FALSE(book.excused(base));
  book.struck(0b10);
  EXPECT_TRUE(book.excused(base));
  book.healed();
  book.struck(0b10);
  EXPECT_FALSE(book.excused(base));
  commit({pair, 0}, 2, kDurable);
  commit({pair, 1}, 3, kDurable);
  book.confirm({pair, 0}, kNow);
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
  book.granted_again({base, 0}, Room::kRoomy, kNow);
  EXPECT_EQ(of(Class::kLost), 0u);
  EXPECT_EQ(book.tally().beyond_gone, 1u);
}

TEST_F(BookTest, WhatWasPurgedIsNotMissedAndNeverFoundAgain) {
  commit({pair, 0}, 1, kDurable);
  commit({pair, 1}, 2, kDurable);
  purge(pair);
  EXPECT_FALSE(book.must_keep(pair));
  EXPECT_EQ(book.tally().purged, 2u);
  book.missing(pair, {0, 1}, Room::kRoomy);
  EXPECT_EQ(book.tally().violations(), 0u);
  next_life();
  EXPECT_EQ(book.found({pair, 1}, 2), Class::kUnpurged);
  EXPECT_EQ(of(Class::kUnpurged), 1u);
  EXPECT_NE(book.findings().at(0).find("unpurged"), std::string::npos);
}

TEST_F(BookTest, WhatIsPushedAfterAPurgeIsOwedLikeAnyOther) {
  commit({base, 0}, 1, kDurable);
  purge(base);
  commit({base, 0}, 2, kDurable);
  EXPECT_EQ(book.found({base, 0}, 2), Class::kIntact);
  EXPECT_EQ(book.found({base, 0}, 1), Class::kUnpurged);
  book.missing(base, {0}, Room::kRoomy);
  EXPECT_EQ(of(Class::kLost), 1u);
}

TEST_F(BookTest, AnOpThatBeganBeforeTheAnswerMaySeeWhatIsPurged) {
  commit({base, 0}, 1, kDurable);
  const uint32_t number = book.purge_asked({base}, false);
  const Tick since = book.now();
  book.purge_answered(number, true);
  book.judge_bytes({base, 0}, 1, since);
  book.judge_hit(base, since);
  book.confirm({base, 0}, since);
  EXPECT_EQ(book.tally().violations(), 0u);
  EXPECT_FALSE(book.must_keep(base)) << "it existed then";
  book.judge_bytes({base, 0}, 1, book.now());
  book.judge_hit(base, book.now());
  book.confirm({base, 0}, book.now());
  EXPECT_EQ(of(Class::kUnpurged), 3u) << "bytes, a hit, and that it exists";
}

TEST_F(BookTest, APurgeWithoutAnAnswerHasDoneAllOrSomeOrNothing) {
  commit({base, 0}, 1, kDurable);
  commit({pair, 0}, 2, kDurable);
  commit({pair, 1}, 3, kDurable);
  purge(base, false);
  purge(pair, false);
  EXPECT_FALSE(book.must_keep(base));
  next_life();
  book.missing(base, {0}, Room::kRoomy);
  EXPECT_EQ(book.tally().clouded_gone, 1u);
  EXPECT_EQ(book.found({base, 0}, 1), Class::kRevived) << "what was not flushed may vanish";
  // Found where all targets are read, it was not purged, and is owed once more.
  EXPECT_EQ(book.found({pair, 0}, 2), Class::kIntact);
  EXPECT_FALSE(book.must_keep(pair));
  EXPECT_EQ(book.found({pair, 1}, 3), Class::kIntact);
  EXPECT_EQ(book.tally().clouded_kept, 3u);
  EXPECT_TRUE(book.must_keep(pair));
  book.missing(pair, {0, 1}, Room::kRoomy);
  EXPECT_EQ(of(Class::kLost), 2u);
}

TEST_F(BookTest, WhileATargetIsAwayItMayStillKnowOfAPurgeWithoutAnAnswer) {
  commit({base, 0}, 1, kDurable);
  purge(base, false);
  next_life(false);
  EXPECT_EQ(book.found({base, 0}, 1), Class::kIntact);
  EXPECT_FALSE(book.must_keep(base));
  next_life(true);
  book.missing(base, {0}, Room::kRoomy);
  EXPECT_EQ(of(Class::kLost), 0u);
}

TEST_F(BookTest, AGenerationThatWasHalfRaisedCloudsWritesUntilAllTargetsAreBack) {
  book.purge_asked({base}, true);
  next_life(false);
  commit({base, 0}, 1, kDurable);
  EXPECT_FALSE(book.must_keep(base));
  next_life(true);
  EXPECT_EQ(book.found({base, 0}, 1), Class::kIntact);
  EXPECT_TRUE(book.must_keep(base));
}

TEST_F(BookTest, APushThatMeetsAPurgeMayBeEndedByItWhateverItsAnswer) {
  book.begin({base, 0}, 1);
  const Tick since = book.now();
  book.finish({base, 0}, 1);
  purge(base);
  EXPECT_TRUE(book.acknowledge({base, 0}, 1, kDurable, since));
  book.settle({base, 0}, 1);
  EXPECT_FALSE(book.must_keep(base));
  EXPECT_TRUE(book.purging(base, since));
  EXPECT_FALSE(book.purging(base, book.now()));
  book.granted_again({base, 0}, Room::kRoomy, since);
  EXPECT_EQ(of(Class::kLost), 0u);
  next_life();
  EXPECT_EQ(book.found({base, 0}, 1), Class::kIntact) << "it was granted after the purge";
  EXPECT_TRUE(book.must_keep(base));
}

TEST_F(BookTest, WhatAFollowerIsToldIsAnAcknowledgement) {
  book.begin({base, 0}, 1);
  book.finish({base, 0}, 1);
  EXPECT_TRUE(book.followed({base, 0}, 1, kDurable, kNow));
  EXPECT_TRUE(book.must_keep(base)) << "its pusher never heard of it";
  EXPECT_TRUE(book.acknowledge({base, 0}, 1, kDurable, kNow));
}

TEST_F(BookTest, AFollowerIsToldOfACommitOnlyAfterTheLastLayer) {
  book.begin({base, 0}, 1);
  book.followed({base, 0}, 1, kDurable, kNow);
  EXPECT_EQ(of(Class::kPhantom), 1u);
  book.followed_wrong({base, 0});
  EXPECT_EQ(of(Class::kCorrupt), 1u);
}

TEST_F(BookTest, WhoPushesAndWhoFollowsAreToldTheSame) {
  commit({base, 0}, 1, kDurable);
  EXPECT_FALSE(book.deny({base, 0}, 1, book.now()));
  book.begin({base, 0}, 2);
  book.finish({base, 0}, 2);
  EXPECT_TRUE(book.deny({base, 0}, 2, book.now()));
  EXPECT_FALSE(book.acknowledge({base, 0}, 2, kDurable, book.now()));
  const Tick since = book.now();
  purge(base);
  EXPECT_TRUE(book.deny({base, 0}, 1, since)) << "a purge ended it";
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
