// Purges of one home: what they take out, whom they end, and what must be on the drives first.
#include "server/op/purge.h"

#include <gtest/gtest.h>

#include "server/op/lineage.h"
#include "tests/server/op/rig.h"

namespace varve {
namespace {

struct Purging {
  PurgePart part;
  RequestIds request;
  bool back = false;
};

std::unique_ptr<Purging> make_purge(Rig& rig, const std::vector<uint32_t>& blocks) {
  auto made = std::make_unique<Purging>();
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    made->request.ids[i] = rig.id(blocks[i]);
    made->request.positions[i] = static_cast<uint16_t>(i);
  }
  made->request.count = static_cast<uint32_t>(blocks.size());
  PurgePart& part = made->part;
  part.domain = rig.domain;
  part.request = &made->request;
  part.end = made->request.count;
  part.session_reactor = &rig.reactor;
  part.owner = made.get();
  part.on_back = [](Part& back) { static_cast<Purging*>(back.owner)->back = true; };
  return made;
}

Status finish(Rig& rig, Purging& purging) {
  EXPECT_TRUE(rig.run_until([&] { return purging.back; }));
  return purging.part.status;
}

std::unique_ptr<Purging> purge(Rig& rig, const std::vector<uint32_t>& blocks) {
  auto made = make_purge(rig, blocks);
  rig.operations->begin(made->part);
  EXPECT_TRUE(finish(rig, *made).ok());
  return made;
}

// As the session does: raised, then walked.
std::unique_ptr<Purging> purge_lineage(Rig& rig, uint64_t lineage) {
  auto made = make_purge(rig, {});
  made->part.what = lineage == 0 ? wire::PurgeKind::kDomain : wire::PurgeKind::kLineage;
  made->part.lineage = lineage;
  made->part.raise = true;
  rig.operations->begin(made->part);
  EXPECT_TRUE(finish(rig, *made).ok());
  made->part.raise = made->back = false;
  rig.operations->begin(made->part);
  EXPECT_TRUE(finish(rig, *made).ok());
  return made;
}

TEST(Purge, BlocksAreGoneAndEachTargetHasARecord) {
  Rig rig;
  rig.push({1, 2, 3});
  const uint32_t pages = rig.place_of(rig.block(1)).pages + rig.place_of(rig.block(2)).pages;
  const auto done = purge(rig, {1, 2, 77});
  EXPECT_EQ(done->part.blocks, 2u);
  EXPECT_EQ(done->part.bytes, bytes_of(pages));
  EXPECT_EQ(rig.match({1}).found(), 0u);
  EXPECT_EQ(rig.match({2}).found(), 0u);
  EXPECT_EQ(rig.match({3}).found(), 1u);
  ASSERT_EQ(rig.flash.killed.size(), 3u * 2);  // the unknown id too: remnants may lie there
  for (const auto& record : rig.flash.killed) {
    EXPECT_EQ(record.away, 0u);
    EXPECT_EQ(record.limit.counter, rig.context->attempts);
    EXPECT_EQ(record.slice, slice_of(record.base, rig.context->options.slices));
  }
  rig.settle();
  rig.expect_at_rest();
}

// The log comes round once at the rate since the start; without a rate nobody can say.
TEST(Purge, WhenItWillBeErasedIsEstimated) {
  Rig rig;
  rig.push({1, 2});
  rig.flash.shown.capacity_pages = 1000;
  EXPECT_EQ(purge(rig, {1})->part.erased_ns, kErasedNever);
  rig.flash.shown.written_pages = 100;
  const auto done = purge(rig, {2});
  EXPECT_GT(done->part.erased_ns, 0u);
  EXPECT_LE(done->part.erased_ns, 11 * rig.clock.now_ns());
}

TEST(Purge, NothingOnADriveIsErasedAtOnce) {
  Rig rig;
  const auto done = purge(rig, {5});
  EXPECT_EQ(done->part.blocks, 0u);
  EXPECT_EQ(done->part.erased_ns, 0u);
}

TEST(Purge, TheAnswerWaitsForTheRecords) {
  Rig rig;
  rig.push({1});
  rig.flash.hold_kills = true;
  auto purging = make_purge(rig, {1});
  rig.operations->begin(purging->part);
  rig.run_for(kSecond);
  EXPECT_FALSE(purging->back);
  EXPECT_EQ(rig.match({1}).found(), 0u);  // unreachable before
  EXPECT_FALSE(rig.operations->pushes_done());
  rig.flash.let_go();
  EXPECT_TRUE(finish(rig, *purging).ok());
  EXPECT_TRUE(rig.operations->pushes_done());
}

TEST(Purge, ALeaseDoesNotProtect) {
  Rig rig;
  rig.push({1});
  const auto matched = rig.match({1}, 10000);
  ASSERT_NE(matched.lease, 0u);
  EXPECT_EQ(purge(rig, {1})->part.blocks, 1u);
  auto pull = rig.make_pull({1});
  pull->part.lease = matched.lease;
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kUnavailable);
  rig.release(matched.lease);
  rig.settle();
  rig.expect_at_rest();
}

TEST(Purge, ABlockInDramOnlyIsGoneAndItsCommitIsCancelled) {
  Rig rig;
  rig.flash.hold_appends = true;
  auto reserved = rig.reserve({1});
  rig.fill(reserved.loans[0], 1);
  CommitPart commit;
  bool back = false;
  commit.push = reserved.loans[0].push;
  commit.attempt = reserved.loans[0].attempt;
  commit.epoch = 1;
  commit.ack = wire::AckKind::kDurable;
  commit.session_reactor = &rig.reactor;
  commit.owner = &back;
  commit.on_back = [](Part& part) { *static_cast<bool*>(part.owner) = true; };
  rig.operations->begin(commit);
  rig.settle();
  ASSERT_EQ(rig.match({1}).found(), 1u);
  const auto done = purge(rig, {1});
  EXPECT_EQ(done->part.blocks, 1u);
  EXPECT_GT(done->part.bytes, 0u);
  EXPECT_EQ(rig.match({1}).found(), 0u);
  EXPECT_FALSE(back);
  rig.flash.let_go();
  ASSERT_TRUE(rig.run_until([&] { return back; }));
  EXPECT_EQ(commit.status.code(), Code::kCancelled);
  rig.settle();
  EXPECT_EQ(rig.match({1}).found(), 0u);
  EXPECT_EQ(rig.flash.fragments(), 0u);
  rig.expect_at_rest();
  rig.push({1});  // and may be written again
  EXPECT_EQ(rig.match({1}).found(), 1u);
}

TEST(Purge, APushBeforeItsCommitEndsCancelled) {
  Rig rig;
  auto reserved = rig.reserve({1});
  rig.fill(reserved.loans[0], 1);
  purge(rig, {1});
  EXPECT_EQ(rig.commit(reserved.loans[0]).code(), Code::kCancelled);
  rig.settle();
  EXPECT_EQ(rig.match({1}).found(), 0u);
  rig.expect_at_rest();
}

TEST(Purge, APushOfItMayBeAborted) {
  Rig rig;
  auto reserved = rig.reserve({1});
  purge(rig, {1});
  EXPECT_TRUE(rig.abort(reserved.loans[0]).ok());
  rig.expect_at_rest();
}

// Goal: a pull of it ends, without any extent that was not on its way. Method: frames are held, the
// first window is out, the purge comes.
TEST(Purge, APullInProgressEndsUnavailable) {
  Rig rig;
  rig.push({1, 2});
  rig.hold_data = true;
  auto pull = rig.make_pull({1, 2});
  rig.start(*pull);
  ASSERT_TRUE(rig.run_until([&] { return !rig.sends.empty(); }));
  auto purging = make_purge(rig, {1});
  rig.operations->begin(purging->part);
  EXPECT_TRUE(finish(rig, *purging).ok());
  rig.hold_data = false;
  rig.answer_data();
  rig.finish(*pull);
  EXPECT_TRUE(pull->code(0) == Code::kUnavailable || pull->code(0) == Code::kOk);
  EXPECT_EQ(pull->code(1), Code::kOk);
  rig.settle();
  rig.expect_at_rest();
}

TEST(Purge, APullThatReadsFromADriveEndsUnavailable) {
  Rig rig;
  rig.push({1});
  rig.drop_from_dram(1);
  rig.flash.hold_reads = true;
  auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.settle();
  auto purging = make_purge(rig, {1});
  rig.operations->begin(purging->part);
  EXPECT_TRUE(finish(rig, *purging).ok());
  rig.flash.let_go();
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kUnavailable);
  EXPECT_TRUE(pull->got.empty());
  rig.settle();
  rig.expect_at_rest();
}

TEST(Purge, ATargetThatIsAwayIsNamedInTheRecords) {
  Rig rig;
  rig.flash.ok[1] = false;
  purge(rig, {1});
  ASSERT_EQ(rig.flash.killed.size(), 1u);
  EXPECT_EQ(rig.flash.killed[0].target, 0u);
  EXPECT_EQ(rig.flash.killed[0].away, 1u << 1);
}

// One that was drained comes back blank, if ever: records for it would be kept for good.
TEST(Purge, ATargetThatWasDrainedIsNotMissed) {
  RigOptions options;
  options.targets = 3;
  options.op.drained_targets = 0b010;
  Rig rig(options);
  rig.flash.ok[1] = false;
  purge(rig, {1});
  ASSERT_EQ(rig.flash.killed.size(), 2u);
  EXPECT_EQ(rig.flash.killed[0].away | rig.flash.killed[1].away, 0u);
  rig.flash.ok[0] = false;
  purge(rig, {1});
  EXPECT_EQ(rig.flash.killed.back().target, 2u);
  EXPECT_EQ(rig.flash.killed.back().away, 0b001u);
  rig.flash.ok[2] = false;
  auto purging = make_purge(rig, {1});
  rig.operations->begin(purging->part);
  EXPECT_EQ(finish(rig, *purging).code(), Code::kUnavailable);
}

// One that the settings leave out now may be used again, so the records are kept for it.
TEST(Purge, ATargetBeyondThoseOfThisStartIsNamedInTheRecords) {
  RigOptions options;
  options.op.absent_targets = 0b1100;
  Rig rig(options);
  purge(rig, {1});
  ASSERT_EQ(rig.flash.killed.size(), 2u);
  EXPECT_EQ(rig.flash.killed[0].away, 0b1100u);
  rig.flash.ok[0] = false;
  purge(rig, {1});
  EXPECT_EQ(rig.flash.killed.back().away, 0b1101u);
  // Expect: it is none of those that work.
  rig.flash.ok[1] = false;
  auto purging = make_purge(rig, {1});
  rig.operations->begin(purging->part);
  EXPECT_EQ(finish(rig, *purging).code(), Code::kUnavailable);
}

// A record is a page for good on every target: one id named often costs no more than once.
TEST(Purge, AnIdNamedTwiceHasOneRecordOnEachTarget) {
  Rig rig;
  rig.push({1, 2});
  std::vector<uint32_t> blocks(2040, 1);
  for (const uint32_t n : {2u, 77u, 2u, 1u, 77u})
    blocks.push_back(n);
  EXPECT_EQ(purge(rig, blocks)->part.blocks, 2u);
  ASSERT_EQ(rig.flash.killed.size(), 3u * 2);
  for (size_t i = 0; i < 6; ++i)
    EXPECT_EQ(rig.flash.killed[i].base, rig.id(i < 2 ? 1 : i < 4 ? 2 : 77)) << i;
  purge(rig, {1});  // nothing of the last one is left
  EXPECT_EQ(rig.flash.killed.size(), 4u * 2);
  rig.settle();
  rig.expect_at_rest();
}

// The answer says so: what was found is unreachable, and what no record ends may come back.
TEST(Purge, WhereNoRecordIsTakenAnyMoreItIsNoSpace) {
  Rig rig;
  rig.push({1});
  rig.flash.fail_kills = Status::no_space("records");
  auto purging = make_purge(rig, {1});
  rig.operations->begin(purging->part);
  EXPECT_EQ(finish(rig, *purging).code(), Code::kNoSpace);
  EXPECT_EQ(rig.match({1}).found(), 0u);
  // Expect: nothing of it stays with the op, and a lineage needs no records.
  rig.flash.fail_kills = Status();
  EXPECT_TRUE(purge(rig, {1})->part.status.ok());
  rig.flash.fail_kills = Status::no_space("records");
  purge_lineage(rig, 0);
  rig.settle();
  rig.expect_at_rest();
}

// It was told nothing, so the others must speak for it: written once more, with its bit.
TEST(Purge, ATargetThatFailsMeanwhileIsNamedInNewRecords) {
  Rig rig;
  rig.flash.hold_kills = true;
  auto purging = make_purge(rig, {1});
  rig.operations->begin(purging->part);
  rig.settle();
  rig.flash.ok[1] = false;
  rig.flash.let_go();
  EXPECT_TRUE(finish(rig, *purging).ok());
  ASSERT_EQ(rig.flash.killed.size(), 2u);
  EXPECT_EQ(rig.flash.killed.back().target, 0u);
  EXPECT_EQ(rig.flash.killed.back().away, 1u << 1);
}

TEST(Purge, WithoutAnyTargetItIsUnavailable) {
  Rig rig;
  rig.flash.ok[0] = rig.flash.ok[1] = false;
  auto purging = make_purge(rig, {1});
  rig.operations->begin(purging->part);
  EXPECT_EQ(finish(rig, *purging).code(), Code::kUnavailable);
}

TEST(Purge, ADrainTakesNoNewOnes) {
  Rig rig;
  rig.operations->drain();
  auto purging = make_purge(rig, {1});
  rig.operations->begin(purging->part);
  EXPECT_EQ(finish(rig, *purging).code(), Code::kUnavailable);
}

TEST(Purge, ManyIdsGoThroughFewRecordsAtATime) {
  RigOptions options;
  options.targets = 2;
  Rig rig(options);
  std::vector<uint32_t> blocks;
  for (uint32_t i = 0; i < 1000; ++i)
    blocks.push_back(i);
  purge(rig, blocks);
  EXPECT_EQ(rig.flash.killed.size(), 2000u);
  rig.expect_at_rest();
}

TEST(Purge, ALineageIsGoneAndTheOthersStay) {
  Rig rig;
  rig.format.lineage = 111;
  rig.push({1, 2});
  rig.drop_from_dram(1);
  rig.format.lineage = 222;
  rig.push({3});
  const auto done = purge_lineage(rig, 111);
  EXPECT_EQ(done->part.generation, 1u);
  EXPECT_EQ(done->part.blocks, 2u);
  EXPECT_EQ(rig.match({1}).found() + rig.match({2}).found(), 0u);
  EXPECT_EQ(rig.match({3}).found(), 1u);
  EXPECT_EQ(rig.flash.rows.size(), 1u);
  EXPECT_TRUE(rig.flash.killed.empty());
  rig.format.lineage = 111;
  rig.push({1});  // written after it: another generation
  EXPECT_EQ(rig.match({1}).found(), 1u);
  EXPECT_EQ(rig.context->lineages->mark(1, 111).lineage_generation, 1u);
  EXPECT_EQ(purge_lineage(rig, 0)->part.blocks, 2u);
  EXPECT_EQ(rig.match({1}).found() + rig.match({3}).found(), 0u);
  rig.settle();
  rig.expect_at_rest();
}

TEST(Purge, PushesOfALineageEndCancelled) {
  Rig rig;
  rig.format.lineage = 111;
  auto waiting = rig.reserve({1});
  rig.fill(waiting.loans[0], 1);
  rig.flash.hold_appends = true;
  auto written = rig.reserve({2});
  rig.fill(written.loans[0], 2);
  EXPECT_TRUE(rig.commit(written.loans[0]).ok());  // cached
  EXPECT_EQ(purge_lineage(rig, 111)->part.blocks, 1u);
  EXPECT_EQ(rig.match({2}).found(), 0u);
  rig.flash.let_go();
  EXPECT_EQ(rig.commit(waiting.loans[0]).code(), Code::kCancelled);
  rig.settle();
  EXPECT_EQ(rig.flash.fragments(), 0u);
  rig.expect_at_rest();
}

// What waits for a slot when its record is written may not come behind it.
TEST(Purge, WhatWaitsForAnAppendIsNotAppendedAnyMore) {
  RigOptions options;
  options.op.appends_max = 2;
  Rig rig(options);
  rig.flash.hold_appends = true;
  for (uint32_t n = 1; n <= 3; ++n) {
    const auto reserved = rig.reserve({n});
    rig.fill(reserved.loans[0], n);
    EXPECT_TRUE(rig.commit(reserved.loans[0]).ok());  // cached
  }
  rig.settle();
  const int64_t waiting = rig.context->metrics.appends_waiting.value();
  ASSERT_GE(waiting, 1);
  EXPECT_EQ(purge(rig, {1, 2, 3})->part.blocks, 3u);
  rig.flash.let_go();
  rig.settle();
  EXPECT_EQ(rig.flash.appends_done, 3u - static_cast<uint32_t>(waiting));
  EXPECT_EQ(rig.context->metrics.appends_waiting.value(), 0);
  EXPECT_EQ(rig.context->metrics.push_purged.value(), 3u);
  EXPECT_EQ(rig.flash.fragments(), 0u);
  rig.expect_at_rest();
}

// Of a lineage that has no number: every purge of another ends it, its write included.
TEST(Purge, APushOfALineageWithoutANumberEndsWithTheNextOfAny) {
  Rig rig;
  for (uint32_t i = 0; i < 66000; ++i)
    rig.context->lineages->set(0, 1, 1000 + i);
  rig.format.lineage = 111;
  rig.flash.hold_appends = true;
  auto written = rig.reserve({1});
  rig.fill(written.loans[0], 1);
  EXPECT_TRUE(rig.commit(written.loans[0]).ok());  // cached
  EXPECT_EQ(purge_lineage(rig, 222)->part.blocks, 1u);
  EXPECT_EQ(rig.match({1}).found(), 0u);
  rig.flash.let_go();
  rig.settle();
  EXPECT_EQ(rig.context->metrics.push_purged.value(), 1u);
  EXPECT_EQ(rig.flash.fragments(), 0u);
  rig.expect_at_rest();
}

TEST(Purge, AFullTableIsRefusedByName) {
  Rig rig;
  for (uint32_t i = 0; i < flash::kLineageRowsMax; ++i)
    purge_lineage(rig, 100 + i);
  auto made = make_purge(rig, {});
  made->part.what = wire::PurgeKind::kLineage;
  made->part.lineage = 999;
  made->part.raise = true;
  rig.operations->begin(made->part);
  EXPECT_EQ(finish(rig, *made).code(), Code::kNoSpace);
  EXPECT_EQ(purge_lineage(rig, 0)->part.generation, 1u);
  EXPECT_EQ(purge_lineage(rig, 999)->part.generation, 1u);
}

TEST(Purge, ARaiseThatNoTargetTookFails) {
  Rig rig;
  rig.flash.fail_raise = Status::unavailable("no target works");
  auto made = make_purge(rig, {});
  made->part.what = wire::PurgeKind::kDomain;
  made->part.raise = true;
  rig.operations->begin(made->part);
  EXPECT_EQ(finish(rig, *made).code(), Code::kUnavailable);
}

// --- recovery

flash::FragmentInfo found_fragment(Rig& rig, uint32_t n, const Attempt& attempt) {
  flash::FragmentInfo info;
  info.block = rig.block(n);
  info.attempt = attempt;
  info.place = {
      .slice = static_cast<uint8_t>(slice_of(info.block.base, rig.context->options.slices)),
      .page = 1,
      .pages = 4,
      .lead_pages = 2};
  info.block_bytes = 1000;
  info.mark.domain = rig.domain;
  rig.flash.adopt(info.place, info.block);
  return info;
}

TEST(Purge, RecoveryKeepsNothingThatAMoreRecentLimitEnds) {
  Rig rig;
  Catalog& catalog = rig.operations->catalog();
  catalog.killed(rig.domain, rig.id(1), {3, 0, 10});
  EXPECT_FALSE(catalog.recovered(found_fragment(rig, 1, {3, 0, 10})));
  EXPECT_FALSE(catalog.recovered(found_fragment(rig, 1, {2, 1, 99})));
  catalog.killed(rig.domain, rig.id(1), {2, 0, 5});  // an older record changes nothing
  EXPECT_FALSE(catalog.recovered(found_fragment(rig, 1, {3, 0, 9})));
  EXPECT_TRUE(catalog.recovered(found_fragment(rig, 1, {3, 0, 11})));
  EXPECT_EQ(rig.context->metrics.recovered_purged.value(), 3u);
}

TEST(Purge, ARecordFoundAfterItsFragmentTakesItOut) {
  Rig rig;
  Catalog& catalog = rig.operations->catalog();
  ASSERT_TRUE(catalog.recovered(found_fragment(rig, 1, {3, 0, 10})));
  ASSERT_TRUE(catalog.recovered(found_fragment(rig, 2, {3, 0, 11})));
  catalog.killed(rig.domain, rig.id(1), {3, 0, 10});
  catalog.killed(rig.domain, rig.id(2), {3, 0, 10});
  EXPECT_EQ(rig.match({1}).found(), 0u);
  EXPECT_EQ(rig.match({2}).found(), 1u);
  EXPECT_EQ(rig.flash.releases, 1u);
  // A purge while recovery runs binds what is still to come.
  purge(rig, {2});
  EXPECT_FALSE(catalog.recovered(found_fragment(rig, 2, {4, 0, 1})));
}

TEST(Purge, WhileASliceRecoversNothingOfItIsServed) {
  Rig rig;
  rig.flash.is_recovering = true;
  rig.flash.ready = false;
  Catalog& catalog = rig.operations->catalog();
  ASSERT_TRUE(catalog.recovered(found_fragment(rig, 1, {3, 0, 11})));
  EXPECT_EQ(rig.match({1}).found(), 0u);
  auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kUnavailable);
  const auto reserved = rig.reserve({1});
  EXPECT_EQ(reserved.loans[0].outcome, wire::ReserveOutcome::kRefused);
  EXPECT_EQ(reserved.loans[0].code, Code::kOverloaded);
  rig.flash.ready = true;
  EXPECT_EQ(rig.match({1}).found(), 1u);
}

TEST(Purge, RecoveryRefusesAnOlderGeneration) {
  Rig rig;
  Catalog& catalog = rig.operations->catalog();
  purge_lineage(rig, 111);
  flash::FragmentInfo info = found_fragment(rig, 1, {3, 0, 11});
  info.mark.lineage = 111;
  EXPECT_FALSE(catalog.recovered(info));
  info.mark.lineage_generation = 1;
  EXPECT_TRUE(catalog.recovered(info));
}

// --- domains

TEST(Purge, BlocksOfAnotherDomainStayWithTheirPushes) {
  Rig rig;
  for (const uint32_t domain : {1u, 2u}) {
    rig.domain = domain;
    rig.push({1});
  }
  const Rig::Reserved writing = rig.reserve({3});  // of domain 2
  rig.fill(writing.loans[0], 3);
  rig.domain = 1;
  EXPECT_EQ(purge(rig, {1, 3})->part.blocks, 1u);
  EXPECT_EQ(rig.match({1}).found(), 0u);
  for (const auto& record : rig.flash.killed)
    EXPECT_EQ(record.domain, 1u);
  rig.domain = 2;
  EXPECT_EQ(rig.match({1}).found(), 1u);
  EXPECT_TRUE(rig.commit(writing.loans[0]).ok());
  EXPECT_EQ(rig.match({3}).found(), 1u);
  rig.settle();
  rig.expect_at_rest();
}

TEST(Purge, ALineageOrADomainEndsNothingOfAnotherDomain) {
  for (const uint64_t lineage : {uint64_t{111}, uint64_t{0}}) {
    Rig rig;
    rig.format.lineage = 111;
    for (const uint32_t domain : {1u, 2u}) {
      rig.domain = domain;
      rig.push({1});
    }
    const Rig::Reserved writing = rig.reserve({3});  // of domain 2
    rig.fill(writing.loans[0], 3);
    rig.domain = 1;
    EXPECT_EQ(purge_lineage(rig, lineage)->part.blocks, 1u);
    EXPECT_EQ(rig.match({1}).found(), 0u);
    EXPECT_EQ(current_mark(rig.context->lineages->rows(), 2, 111), (flash::LineageMark{2, 0, 111}));
    rig.domain = 2;
    EXPECT_EQ(rig.match({1}).found(), 1u);
    EXPECT_TRUE(rig.commit(writing.loans[0]).ok());
    EXPECT_EQ(rig.match({3}).found(), 1u);
    EXPECT_EQ(purge_lineage(rig, lineage)->part.blocks, 2u);
    rig.settle();
    rig.expect_at_rest();
  }
}

// Of two domains each has half of the table: one that used it up takes nothing of the other's.
TEST(Purge, ADomainThatUsedUpItsShareOfTheTableLeavesTheOthersTheirs) {
  Rig rig;
  const auto raised = [&](uint32_t domain, uint64_t lineage) {
    rig.domain = domain;
    auto made = make_purge(rig, {});
    made->part.what = lineage == 0 ? wire::PurgeKind::kDomain : wire::PurgeKind::kLineage;
    made->part.lineage = lineage;
    made->part.domains = {.ids = {1, 2}, .last = 5};
    made->part.raise = true;
    rig.operations->begin(made->part);
    const Status status = finish(rig, *made);
    if (!status.ok()) return status.code();
    made->part.raise = made->back = false;
    rig.operations->begin(made->part);
    return finish(rig, *made).code();
  };
  for (uint32_t i = 0; i < flash::kLineageRowsMax / 2; ++i)
    ASSERT_EQ(raised(1, 100 + i), Code::kOk);
  EXPECT_EQ(raised(1, 999), Code::kNoSpace);
  for (uint32_t i = 0; i < flash::kLineageRowsMax / 2; ++i)
    ASSERT_EQ(raised(2, 100 + i), Code::kOk);
  EXPECT_EQ(raised(2, 999), Code::kNoSpace);
  // One that was dropped is purged all the same, and has no row any more after the next.
  EXPECT_EQ(raised(1, 0), Code::kOk);
  EXPECT_EQ(raised(5, 0), Code::kOk);
  EXPECT_EQ(flash::domain_generation(rig.flash.rows, 5), 1u);
  EXPECT_EQ(raised(1, 0), Code::kOk);
  EXPECT_EQ(flash::domain_generation(rig.flash.rows, 5), 0u);
  EXPECT_EQ(flash::domain_generation(rig.flash.rows, 1), 2u);
}

}  // namespace
}  // namespace varve
