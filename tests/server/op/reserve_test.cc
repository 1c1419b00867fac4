// Goal: a reservation is answered at once, and a grant holds all it needs or is not given (O2, I7).
// Method: each scarce thing made scarce in turn on the rig; what a refused one took must be back.
#include <gtest/gtest.h>

#include <utility>

#include "tests/server/op/rig.h"

namespace varve {
namespace {

using wire::ReserveOutcome;

Code refusal(const Rig::Reserved& reserved, size_t i = 0) {
  EXPECT_EQ(reserved.loans[i].outcome, ReserveOutcome::kRefused);
  return reserved.loans[i].code;
}

void abort_all(Rig& rig, const Rig::Reserved& reserved) {
  for (const GrantLoan& loan : reserved.loans) {
    if (loan.outcome == ReserveOutcome::kGranted) {
      EXPECT_TRUE(rig.abort(loan).ok());
    }
  }
}

TEST(Reserve, AnswersExistsBusyAndGrantedEachByItself) {
  Rig rig;
  rig.push({1});
  const Rig::Reserved first = rig.reserve({2});
  const Rig::Reserved reserved = rig.reserve({1, 2, 3, 3});
  EXPECT_EQ(reserved.loans[0].outcome, ReserveOutcome::kExists);
  EXPECT_EQ(reserved.loans[1].outcome, ReserveOutcome::kBusy);
  EXPECT_EQ(reserved.loans[2].outcome, ReserveOutcome::kGranted);
  EXPECT_EQ(reserved.loans[3].outcome, ReserveOutcome::kBusy) << "a duplicate waits for itself";
  abort_all(rig, reserved);
  abort_all(rig, first);
  rig.expect_at_rest();
}

// "Exists" is what a writer who wants durability is told instead of writing.
TEST(Reserve, SaysExistsOnlyOfWhatIsFlushed) {
  Rig rig;
  rig.flash.hold_appends = true;
  const Rig::Reserved first = rig.reserve({1});
  rig.fill(first.loans[0], 1);
  EXPECT_TRUE(rig.commit(first.loans[0], wire::AckKind::kCached).ok());
  EXPECT_EQ(rig.match({1}).found(), 1u);
  EXPECT_EQ(rig.reserve({1}).loans[0].outcome, ReserveOutcome::kBusy) << "in memory only";
  rig.flash.let_go();
  rig.settle();
  EXPECT_EQ(rig.reserve({1}).loans[0].outcome, ReserveOutcome::kExists);
  rig.expect_at_rest();
}

// One target that takes nothing holds half of the push budget, and the rest goes to the other.
TEST(Reserve, LeavesOtherTargetsHalfOfTheBudgetOfOneThatIsStuck) {
  RigOptions options;
  options.layer_bytes = {kPageBytes};
  options.push_pages = 64;  // 32 blocks
  Rig rig(options);
  rig.flash.hold_appends = true;
  rig.flash.hold_targets = 1;
  uint32_t committed = 0;
  for (uint32_t n = 0; n < 200; ++n) {
    const Rig::Reserved reserved = rig.reserve({n});
    ASSERT_EQ(reserved.loans[0].outcome, ReserveOutcome::kGranted)
        << n << " " << code_name(reserved.loans[0].code);
    rig.fill(reserved.loans[0], n);
    EXPECT_TRUE(rig.commit(reserved.loans[0], wire::AckKind::kCached).ok());
    rig.settle();
    ++committed;
  }
  EXPECT_EQ(committed, 200u);
  EXPECT_EQ(rig.operations->pushes_done(), false);
  EXPECT_LE(rig.tier.used_bytes(Budget::kPush), bytes_of(options.push_pages / 2));
  EXPECT_GT(rig.context->metrics.push_share_full.value(), 0u);
  rig.flash.let_go();
  rig.expect_at_rest();
}

// A domain that reserves with ever more sessions, and sends nothing, leaves the other one its part.
TEST(Reserve, LeavesOtherDomainsTheirPartOfTheBudget) {
  RigOptions options;
  options.layer_bytes = {kPageBytes};
  options.push_pages = 64;  // 32 blocks
  Rig rig(options);
  std::vector<GrantLoan> granted;
  const auto take_all = [&] {
    uint32_t count = 0;
    for (uint32_t n = 0; n < 100; ++n) {
      rig.session = 100 * rig.domain + n;
      const Rig::Reserved reserved = rig.reserve({n});
      if (reserved.loans[0].outcome != ReserveOutcome::kGranted) {
        EXPECT_EQ(reserved.loans[0].code, Code::kOverloaded);
        continue;
      }
      granted.push_back(reserved.loans[0]);
      ++count;
    }
    return count;
  };
  rig.domains = 2;
  rig.domain = 2;
  EXPECT_EQ(take_all(), 24u) << "all but what is set aside";
  rig.domain = kDomainDefault;
  EXPECT_EQ(take_all(), 8u);
  for (const GrantLoan& loan : granted)
    EXPECT_TRUE(rig.abort(loan).ok());
  granted.clear();
  // Expect: what went back counts for nobody; and a node of one domain has all of it.
  rig.domains = 1;
  EXPECT_EQ(take_all(), 32u);
  for (const GrantLoan& loan : granted)
    EXPECT_TRUE(rig.abort(loan).ok());
  rig.expect_at_rest();
}

// Nor does one that commits more than the drives take.
TEST(Reserve, LeavesOtherDomainsTheirPartBesideWriteBehind) {
  RigOptions options;
  options.layer_bytes = {kPageBytes};
  options.push_pages = 64;  // 32 blocks
  Rig rig(options);
  rig.flash.hold_appends = true;
  rig.domains = 2;
  rig.domain = 2;
  uint32_t committed = 0;
  for (uint32_t n = 0; n < 100; ++n) {
    rig.session = 200 + n;
    const Rig::Reserved reserved = rig.reserve({n});
    if (reserved.loans[0].outcome != ReserveOutcome::kGranted) continue;
    rig.fill(reserved.loans[0], n);
    EXPECT_TRUE(rig.commit(reserved.loans[0], wire::AckKind::kCached).ok());
    ++committed;
  }
  EXPECT_LE(committed, 24u);
  EXPECT_GT(committed, 8u);
  rig.domain = kDomainDefault;
  rig.session = 7;
  std::vector<GrantLoan> granted;
  for (uint32_t n = 0; n < 8; ++n) {
    if (n == 4) rig.session = 8;
    const Rig::Reserved reserved = rig.reserve({n});
    ASSERT_EQ(reserved.loans[0].outcome, ReserveOutcome::kGranted) << n << ": half by one session";
    granted.push_back(reserved.loans[0]);
  }
  for (const GrantLoan& loan : granted)
    EXPECT_TRUE(rig.abort(loan).ok());
  rig.flash.let_go();
  rig.expect_at_rest();
}

// Nothing is set aside for one that was dropped, until the last of it is written.
TEST(Reserve, SetsNothingAsideForADomainThatWasDropped) {
  RigOptions options;
  options.layer_bytes = {kPageBytes};
  options.push_pages = 64;  // 32 blocks
  Rig rig(options);
  rig.flash.hold_appends = true;
  rig.domains = 2;
  rig.domain = 2;
  for (uint32_t n = 0; n < 4; ++n) {
    const Rig::Reserved reserved = rig.reserve({n});
    rig.fill(reserved.loans[0], n);
    EXPECT_TRUE(rig.commit(reserved.loans[0], wire::AckKind::kCached).ok());
  }
  PurgePart drop;
  bool back = false;
  drop.what = wire::PurgeKind::kDomain;
  drop.domain = 2;
  drop.domains = {.ids = {kDomainDefault}, .last = 2};
  drop.raise = false;
  drop.session_reactor = &rig.reactor;
  drop.owner = &back;
  drop.on_back = [](Part& part) { *static_cast<bool*>(part.owner) = true; };
  rig.operations->begin(drop);
  ASSERT_TRUE(rig.run_until([&] { return back; }));
  rig.domains = 1;
  rig.domain = kDomainDefault;
  std::vector<GrantLoan> granted;
  for (uint32_t n = 0; n < 40; ++n) {
    rig.session = 100 + n;
    const Rig::Reserved reserved = rig.reserve({n});
    if (reserved.loans[0].outcome == ReserveOutcome::kGranted) granted.push_back(reserved.loans[0]);
  }
  EXPECT_EQ(granted.size(), 28u) << "all but what is still being written";
  for (const GrantLoan& loan : granted)
    EXPECT_TRUE(rig.abort(loan).ok());
  rig.flash.let_go();
  rig.expect_at_rest();
}

// Readers that keep what was just written, and take no more of it, hold up no push.
TEST(Reserve, LeavesMemoryToPushesWhileReadersKeepWhatIsWritten) {
  RigOptions options;
  options.layer_bytes = {kPageBytes};
  options.push_pages = 16;  // 8 blocks
  Rig rig(options);
  rig.flash.hold_appends = true;
  std::vector<uint32_t> blocks;
  for (uint32_t n = 0; n < 8; ++n) {
    rig.session = 1 + n;
    const Rig::Reserved reserved = rig.reserve({n});
    ASSERT_EQ(reserved.loans[0].outcome, ReserveOutcome::kGranted) << n;
    rig.fill(reserved.loans[0], n);
    EXPECT_TRUE(rig.commit(reserved.loans[0], wire::AckKind::kCached).ok());
    blocks.push_back(n);
  }
  rig.hold_data = true;
  auto pull = rig.make_pull(blocks);
  rig.start(*pull);
  rig.settle();
  rig.flash.let_go();
  rig.settle();
  EXPECT_EQ(rig.tier.used_bytes(Budget::kPush), 0u);
  const Rig::Reserved next = rig.reserve({100});
  EXPECT_EQ(next.loans[0].outcome, ReserveOutcome::kGranted) << code_name(next.loans[0].code);
  EXPECT_TRUE(rig.abort(next.loans[0]).ok());
  rig.hold_data = false;
  rig.answer_data();
  rig.finish(*pull);
  rig.expect_bytes(*pull, blocks);
  rig.expect_at_rest();
}

// One session that reserves and sends nothing leaves the others of its domain some, also where
// another domain has all that is common.
TEST(Reserve, LeavesTheOtherSessionsOfADomainHalfOfItsPart) {
  RigOptions options;
  options.layer_bytes = {kPageBytes};
  options.push_pages = 64;  // 32 blocks, a part is 8
  Rig rig(options);
  rig.domains = 2;
  std::vector<GrantLoan> granted;
  const auto take_all = [&](uint32_t sessions) {
    const size_t before = granted.size();
    for (uint32_t n = 0; n < 40; ++n) {
      rig.session = 100 * rig.domain + n % sessions;
      const Rig::Reserved reserved = rig.reserve({n + 100 * sessions});
      if (reserved.loans[0].outcome == ReserveOutcome::kGranted)
        granted.push_back(reserved.loans[0]);
    }
    return granted.size() - before;
  };
  rig.domain = 2;
  EXPECT_EQ(take_all(40), 24u);
  rig.domain = kDomainDefault;
  EXPECT_EQ(take_all(1), 4u) << "half of the part";
  rig.session = 7;
  const Rig::Reserved other = rig.reserve({1});
  EXPECT_EQ(other.loans[0].outcome, ReserveOutcome::kGranted);
  granted.push_back(other.loans[0]);
  for (const GrantLoan& loan : granted)
    EXPECT_TRUE(rig.abort(loan).ok());
  rig.expect_at_rest();
}

TEST(Reserve, TagsEveryAttemptAnew) {
  Rig rig;
  const Rig::Reserved first = rig.reserve({1});
  abort_all(rig, first);
  const Rig::Reserved second = rig.reserve({1});
  EXPECT_NE(first.loans[0].attempt, second.loans[0].attempt);
  const Attempt attempt = second.loans[0].attempt;
  EXPECT_EQ(attempt.boot_generation, rig.flash.boot_generation(attempt.target));
  EXPECT_FALSE(attempt.is_none());
  abort_all(rig, second);
  rig.expect_at_rest();
}

TEST(Reserve, RefusesBeyondTheSessionsQuotaButStillSaysWhatExists) {
  Rig rig;
  rig.push({3});
  auto request = std::make_unique<RequestIds>();
  request->count = 3;
  for (uint32_t i = 0; i < 3; ++i) {
    request->ids[i] = rig.id(i + 1);
    request->positions[i] = static_cast<uint16_t>(i);
  }
  GrantLoan loans[3];
  ReservePart part;
  part.request = request.get();
  part.end = 3;
  part.format = &rig.format;
  part.epoch = 1;
  part.grants_max = 1;
  part.loans = loans;
  bool back = false;
  part.session_reactor = &rig.reactor;
  part.owner = &back;
  part.on_back = [](Part& p) { *static_cast<bool*>(p.owner) = true; };
  rig.operations->begin(part);
  ASSERT_TRUE(rig.run_until([&] { return back; }));
  EXPECT_EQ(loans[0].outcome, ReserveOutcome::kGranted);
  EXPECT_EQ(loans[1].outcome, ReserveOutcome::kRefused);
  EXPECT_EQ(loans[1].code, Code::kQuota);
  EXPECT_EQ(loans[2].outcome, ReserveOutcome::kExists);
  EXPECT_TRUE(rig.abort(loans[0]).ok());
  rig.expect_at_rest();
}

TEST(Reserve, RefusesWhenDramHasNoRoomAndGivesTheFlashSpaceBack) {
  RigOptions options;
  options.push_pages = 110;  // one block: 102 pages of data, one of header
  Rig rig(options);
  const Rig::Reserved reserved = rig.reserve({1, 2});
  EXPECT_EQ(reserved.loans[0].outcome, ReserveOutcome::kGranted);
  EXPECT_EQ(refusal(reserved, 1), Code::kOverloaded);
  abort_all(rig, reserved);
  rig.expect_at_rest();
  EXPECT_EQ(rig.context->metrics.refused[static_cast<int>(Code::kOverloaded)].value(), 1u);
}

// Goal: a session that reserves and sends nothing cannot take what the others need, however often
// it asks, and has it all again once it commits.
TEST(Reserve, LeavesTheOthersSomeOfThePushMemory) {
  RigOptions options;
  options.push_pages = 1030;  // ten blocks
  Rig rig(options);
  const Rig::Reserved greedy = rig.reserve({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(refusal(greedy, 7), Code::kOverloaded);
  EXPECT_EQ(refusal(rig.reserve({9})), Code::kOverloaded);
  const uint64_t mine = std::exchange(rig.session, 99);
  const Rig::Reserved other = rig.reserve({20, 21});
  EXPECT_EQ(other.loans[0].outcome, ReserveOutcome::kGranted);
  EXPECT_EQ(other.loans[1].outcome, ReserveOutcome::kGranted);
  abort_all(rig, other);
  rig.session = mine;
  abort_all(rig, greedy);
  rig.push({1, 2, 3, 4, 5, 6, 7, 8});
  rig.expect_at_rest();
}

TEST(Reserve, RefusesWhenNoTargetHasSpace) {
  Rig rig;
  rig.flash.capacity_pages = 10;
  EXPECT_EQ(refusal(rig.reserve({1})), Code::kNoSpace);
  rig.expect_at_rest();
}

// A full drive is an overload while reclaim has something to gain: the client asks again, and what
// is behind the block in its run waits with it.
TEST(Reserve, AFullTargetThatMakesRoomIsAskedAgain) {
  Rig rig;
  rig.flash.capacity_pages = 10;
  rig.flash.making = 3;  // both
  EXPECT_EQ(refusal(rig.reserve({1})), Code::kOverloaded);
  rig.flash.making = 0;
  EXPECT_EQ(refusal(rig.reserve({1})), Code::kNoSpace) << "and its eviction has nothing either";
  rig.expect_at_rest();
}

// Nothing to gain but by eviction: as long as that looks, or found something, it is worth asking.
TEST(Reserve, AFullTargetIsFinalOnlyWhenNothingMayBeEvicted) {
  RigOptions options;
  options.targets = 1;
  options.op.slices = 1;
  options.layer_bytes = {1000};  // two pages a fragment
  options.push_pages = 2000;
  options.resident_pages = 1000;
  options.blocks_max = 1024;
  Rig rig(options);
  std::vector<uint32_t> all;
  for (uint32_t n = 0; n < 200; ++n) {
    rig.push({n});
    all.push_back(n);
  }
  rig.flash.capacity_pages = 400;
  const Rig::Matched matched = rig.match(all, 5000);
  ASSERT_EQ(matched.found(), 200u);
  EXPECT_EQ(refusal(rig.reserve({1000})), Code::kOverloaded) << "it has looked at some only";
  rig.settle();
  EXPECT_EQ(refusal(rig.reserve({1000})), Code::kNoSpace) << "all are leased";
  rig.settle();
  EXPECT_EQ(refusal(rig.reserve({1000})), Code::kNoSpace);
  rig.release(matched.lease);
  const Rig::Reserved reserved = rig.reserve({1000});
  EXPECT_EQ(reserved.loans[0].outcome, ReserveOutcome::kGranted);
  abort_all(rig, reserved);
  rig.settle();
  rig.expect_at_rest();
}

// Leases end: what was in vain a while ago is no answer for now.
TEST(Reserve, ThatNothingCouldBeEvictedIsForgotten) {
  RigOptions options;
  options.targets = 1;
  options.op.slices = 1;
  Rig rig(options);
  rig.flash.capacity_pages = 10;
  EXPECT_EQ(refusal(rig.reserve({1})), Code::kNoSpace);
  rig.flash.user = nullptr;  // nobody asks for evictions meanwhile
  EXPECT_EQ(refusal(rig.reserve({1})), Code::kNoSpace);
  rig.run_for(2 * kSecond);
  EXPECT_EQ(refusal(rig.reserve({1})), Code::kOverloaded);
}

// With a target to spare it is enough that one of those that said no may take it later.
TEST(Reserve, OneTargetThatMakesRoomIsEnoughForTheLastFragment) {
  RigOptions options;
  options.targets = 3;
  options.op.scheme = {2, 1};
  options.op.repair_bytes_per_s = 0;
  Rig rig(options);
  rig.flash.capacity_pages = 1;
  rig.reserve({1});
  rig.settle();  // eviction has looked everywhere
  rig.flash.making = 0b011;
  EXPECT_EQ(refusal(rig.reserve({1})), Code::kNoSpace) << "the third has nothing to gain";
  rig.flash.making = 0b111;
  EXPECT_EQ(refusal(rig.reserve({1})), Code::kOverloaded);
  rig.expect_at_rest();
}

TEST(Reserve, SkipsATargetThatFailed) {
  Rig rig;
  rig.flash.ok[0] = false;
  const Rig::Reserved reserved = rig.reserve({1, 2, 3});
  for (const GrantLoan& loan : reserved.loans) {
    ASSERT_EQ(loan.outcome, ReserveOutcome::kGranted);
    EXPECT_EQ(loan.attempt.target, 1u);
  }
  abort_all(rig, reserved);
  rig.flash.ok[1] = false;
  EXPECT_EQ(refusal(rig.reserve({1})), Code::kUnavailable);
  rig.expect_at_rest();
}

TEST(Reserve, UsesEveryTarget) {
  Rig rig;
  bool seen[2] = {};
  for (uint32_t n = 0; n < 20; ++n) {
    const Rig::Reserved reserved = rig.reserve({n});
    seen[reserved.loans[0].attempt.target] = true;
    abort_all(rig, reserved);
  }
  EXPECT_TRUE(seen[0] && seen[1]);
}

TEST(Reserve, RefusesWhileItsSliceIsBeingRecovered) {
  Rig rig;
  rig.flash.ready = false;
  EXPECT_EQ(refusal(rig.reserve({1})), Code::kOverloaded);
}

TEST(Reserve, RefusesWhatNoSegmentCouldTake) {
  Rig rig;
  rig.flash.pages_max = 50;
  EXPECT_EQ(refusal(rig.reserve({1})), Code::kUnsupported);
}

TEST(Reserve, RefusesForGoodWhatThePushBudgetCouldNeverHold) {
  RigOptions options;
  options.push_pages = 100;  // a block is 103
  Rig rig(options);
  EXPECT_EQ(refusal(rig.reserve({1})), Code::kUnsupported);
  EXPECT_EQ(rig.context->metrics.push_block_bytes_max.value(), bytes_of(100));
  rig.expect_at_rest();
}

TEST(Reserve, RefusesEverythingWhileDraining) {
  Rig rig;
  rig.push({1});
  rig.operations->drain();
  const Rig::Reserved reserved = rig.reserve({1, 2});
  EXPECT_EQ(reserved.loans[0].outcome, ReserveOutcome::kExists);
  EXPECT_EQ(refusal(reserved, 1), Code::kUnavailable);
}

TEST(Reserve, RefusesBeyondTheLiveAttempts) {
  RigOptions options;
  options.op.pushes_max = 2;
  Rig rig(options);
  const Rig::Reserved reserved = rig.reserve({1, 2, 3});
  EXPECT_EQ(refusal(reserved, 2), Code::kOverloaded);
  abort_all(rig, reserved);
  rig.expect_at_rest();
}

TEST(Reserve, KeepsAPlaceInTheIndexForEveryGrant) {
  RigOptions options;
  options.index_blocks_max = 2;
  Rig rig(options);
  rig.push({1});
  const Rig::Matched matched = rig.match({1}, 1000);  // leased: it cannot make room
  const Rig::Reserved reserved = rig.reserve({2, 3});
  EXPECT_EQ(reserved.loans[0].outcome, ReserveOutcome::kGranted);
  EXPECT_EQ(refusal(reserved, 1), Code::kNoSpace);
  rig.fill(reserved.loans[0], 2);
  EXPECT_TRUE(rig.commit(reserved.loans[0]).ok()) << "what was granted is kept";
  rig.release(matched.lease);
  rig.expect_at_rest();
  EXPECT_EQ(rig.reserve({3}).loans[0].outcome, ReserveOutcome::kGranted) << "for one evicted";
}

TEST(Reserve, RefusesAnotherEpochWhole) {
  Rig rig;
  auto request = std::make_unique<RequestIds>();
  request->count = 1;
  request->ids[0] = rig.id(1);
  request->positions[0] = 0;
  GrantLoan loan;
  ReservePart part;
  part.request = request.get();
  part.end = 1;
  part.format = &rig.format;
  part.epoch = 2;
  part.grants_max = 10;
  part.loans = &loan;
  bool back = false;
  part.session_reactor = &rig.reactor;
  part.owner = &back;
  part.on_back = [](Part& p) { *static_cast<bool*>(p.owner) = true; };
  rig.operations->begin(part);
  ASSERT_TRUE(rig.run_until([&] { return back; }));
  EXPECT_EQ(part.status.code(), Code::kInvalid);
  EXPECT_EQ(loan.outcome, ReserveOutcome::kRefused);
  rig.expect_at_rest();
}

// "Exists" and "busy" would tell that another domain has it, and keep this one from having its own.
TEST(Reserve, WhatAnotherDomainHasOrWritesIsGranted) {
  Rig rig;
  rig.push({1});
  const Rig::Reserved writing = rig.reserve({2});
  rig.domain = 2;
  const Rig::Reserved own = rig.reserve({1, 2});
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_EQ(own.loans[i].outcome, wire::ReserveOutcome::kGranted);
    rig.fill(own.loans[i], i + 1);
    EXPECT_TRUE(rig.commit(own.loans[i], wire::AckKind::kDurable).ok());
  }
  EXPECT_EQ(rig.reserve({1}).loans[0].outcome, wire::ReserveOutcome::kExists);
  EXPECT_EQ(rig.match({1, 2}).found(), 2u);
  rig.domain = 1;
  EXPECT_EQ(rig.match({2}).found(), 0u) << "that it is published is the other's";
  EXPECT_EQ(rig.reserve({2}).loans[0].outcome, wire::ReserveOutcome::kBusy);
  EXPECT_TRUE(rig.abort(writing.loans[0]).ok());
  rig.expect_at_rest();
}

}  // namespace
}  // namespace varve
