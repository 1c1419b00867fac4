// Goal: one read serves all who wait, tells all of a failure, and keeps from use what the device
// has not given back. Method: several pulls over reads that are held, fail, or end in limbo.
#include "server/op/fetch.h"

#include <gtest/gtest.h>

#include "tests/server/op/rig.h"

namespace varve {
namespace {

TEST(FetchTable, TellsEveryReaderOfAFailedRead) {
  Rig rig;
  rig.push({1});
  rig.drop_from_dram(1);
  rig.flash.hold_reads = true;
  rig.flash.fail_reads = Status::io("read", 5);
  auto a = rig.make_pull({1});
  auto b = rig.make_pull({1});
  rig.start(*a);
  rig.start(*b);
  rig.settle();
  rig.flash.let_go();
  rig.finish(*a);
  rig.finish(*b);
  EXPECT_EQ(a->code(0), Code::kIo);
  EXPECT_EQ(b->code(0), Code::kIo);
  rig.expect_at_rest();
}

TEST(FetchTable, ReadsAgainAfterAFailure) {
  Rig rig;
  rig.push({1});
  rig.drop_from_dram(1);
  rig.flash.fail_reads = Status::io("read", 5);
  auto a = rig.make_pull({1});
  rig.start(*a);
  rig.finish(*a);
  EXPECT_EQ(a->code(0), Code::kIo);
  rig.flash.fail_reads = Status();
  auto b = rig.make_pull({1});
  rig.start(*b);
  rig.finish(*b);
  EXPECT_EQ(b->code(0), Code::kOk);
  rig.expect_bytes(*b, {1});
  rig.expect_at_rest();
}

TEST(FetchTable, KeepsPagesFromUseThatTheDeviceHasNotGivenBack) {
  Rig rig;
  rig.push({1});
  rig.drop_from_dram(1);
  const uint32_t free_pages = rig.arena.free_pages();
  rig.flash.fail_reads = Status::unavailable("stuck");
  rig.flash.held_by_device = true;
  auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kUnavailable) << "the reader is told at once";
  rig.settle();
  EXPECT_LT(rig.arena.free_pages(), free_pages) << "the pages are still the device's";
  EXPECT_FALSE(rig.operations->at_rest());
  rig.flash.return_limbo();
  rig.expect_at_rest();
  EXPECT_EQ(rig.arena.free_pages(), free_pages);
}

TEST(FetchTable, LetsAnExtentInLimboNotHurtTheOthersOfItsBlock) {
  Rig rig;
  rig.push({1});
  rig.drop_from_dram(1);
  auto first = rig.make_pull({1});
  first->part.extent_end = 1;  // header and extent 0
  rig.start(*first);
  rig.finish(*first);
  rig.flash.fail_reads = Status::unavailable("stuck");
  rig.flash.held_by_device = true;
  auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kUnavailable);
  rig.flash.fail_reads = Status();
  rig.flash.held_by_device = false;
  auto again = rig.make_pull({1});
  rig.start(*again);
  rig.finish(*again);
  EXPECT_EQ(again->code(0), Code::kOk) << "read anew, into other pages";
  rig.expect_bytes(*again, {1});
  rig.flash.return_limbo();
  rig.expect_at_rest();
}

TEST(FetchTable, WorksWithTheFewestReadsAtOnce) {
  RigOptions options;
  options.op.fetches_max = 2;
  Rig rig(options);
  std::vector<uint32_t> ids{1, 2, 3, 4};
  rig.push(ids);
  for (const uint32_t n : ids)
    rig.drop_from_dram(n);
  auto a = rig.make_pull(ids);
  auto b = rig.make_pull(ids);
  rig.start(*a);
  rig.start(*b);
  rig.finish(*a);
  rig.finish(*b);
  rig.expect_bytes(*a, ids);
  rig.expect_bytes(*b, ids);
  rig.expect_at_rest();
}

// Four reads at once, one target that answers nothing: pulls of the other go on past those of it.
TEST(FetchTable, LeavesOtherTargetsTheirReads) {
  RigOptions options;
  options.op.fetches_max = 4;
  Rig rig(options);
  std::vector<uint32_t> stuck, others;
  for (uint32_t n = 0; n < 12; ++n) {
    rig.push({n});
    (rig.place_of(rig.block(n)).target == 0 ? stuck : others).push_back(n);
    rig.drop_from_dram(n);
  }
  ASSERT_GT(stuck.size(), 2u);
  ASSERT_GT(others.size(), 2u);
  rig.flash.hold_reads = true;
  rig.flash.hold_targets = 1;
  std::vector<std::unique_ptr<Rig::Pull>> waiting;
  for (const uint32_t n : stuck) {
    waiting.push_back(rig.make_pull({n}));
    rig.start(*waiting.back());
  }
  rig.settle();
  EXPECT_EQ(rig.context->fetches->live(), 2u);
  EXPECT_GT(rig.context->metrics.pull_target_waits.value(), 0u);
  auto pull = rig.make_pull(others);
  rig.start(*pull);
  rig.finish(*pull);
  for (uint32_t i = 0; i < others.size(); ++i)
    EXPECT_EQ(pull->code(i), Code::kOk);
  rig.expect_bytes(*pull, others);
  rig.flash.let_go();
  for (size_t i = 0; i < waiting.size(); ++i) {
    rig.finish(*waiting[i]);
    EXPECT_EQ(waiting[i]->code(0), Code::kOk) << stuck[i];
  }
  rig.expect_at_rest();
}

// As many may be stuck as the scheme does without.
TEST(FetchTable, TwoStuckTargetsLeaveTheOthersReads) {
  RigOptions options;
  options.op.scheme = {4, 2};
  options.op.fetches_max = 9;
  options.op.repair_bytes_per_s = 0;
  options.targets = 6;
  options.layer_bytes = {70000, 70000, 70000, 70000};
  Rig rig(options);
  constexpr uint32_t kBlocks = 12;
  for (uint32_t n = 0; n < kBlocks; ++n) {
    rig.push({n});
    rig.drop_from_dram(n);
  }
  rig.flash.hold_reads = true;
  rig.flash.hold_targets = 0b11;
  std::vector<std::unique_ptr<Rig::Pull>> waiting;
  std::optional<wire::Want> free;  // of block 0
  for (uint32_t n = 0; n < kBlocks; ++n) {
    for (uint32_t e = 0; e < rig.table().data_count(); ++e) {
      const bool stuck = rig.holder_of(n, e) < 2;
      if (n == 0 && !stuck) free = wire::Want{0, e};
      if (n == 0 || !stuck) continue;
      waiting.push_back(rig.make_wants({n}, {{0, e}}));
      rig.start(*waiting.back());
    }
  }
  rig.settle();
  EXPECT_EQ(rig.context->fetches->live(), 6u) << "a third of the reads each";
  ASSERT_TRUE(free.has_value());
  auto pull = rig.make_wants({0}, {*free});
  rig.start(*pull);
  rig.finish(*pull);
  EXPECT_EQ(pull->code(0), Code::kOk);
  rig.flash.let_go();
  for (const auto& one : waiting)
    rig.finish(*one);
  rig.expect_at_rest();
}

TEST(FetchTable, EstimatesTheNextReadFromTheOnesBefore) {
  Rig rig;
  rig.push({1});
  EXPECT_EQ(rig.context->fetches->read_ns_estimate(), 0u);
  rig.flash.latency_ns = 8 * kMillisecond;
  for (int i = 0; i < 30; ++i) {
    rig.drop_from_dram(1);
    auto pull = rig.make_pull({1});
    rig.start(*pull);
    rig.finish(*pull);
  }
  EXPECT_GT(rig.context->fetches->read_ns_estimate(), 7 * kMillisecond);
  EXPECT_LT(rig.context->fetches->read_ns_estimate(), 9 * kMillisecond);
}

}  // namespace
}  // namespace varve
