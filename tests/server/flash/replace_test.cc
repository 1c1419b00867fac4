// Goal: another drive has the place of a target that failed, when nothing of the old one is left;
// it holds nothing, knows of every purge, and is found again at the next start. Method: the rig,
// one target of two that fails.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/server/flash/flash_rig.h"

namespace varve::flash {
namespace {

RigOptions two() {
  RigOptions options;
  options.targets = 2;
  options.plan.volatile_cache = true;
  options.flash.io_ns_max = kSecond;
  return options;
}

void fill_both(Rig& rig, uint64_t first_seed) {
  for (uint64_t seed = first_seed; seed < first_seed + 10; ++seed)
    ASSERT_NE(rig.append(seed, 2, 6000, FlushBy::kNow, seed % 2), nullptr);
  ASSERT_TRUE(rig.run_until([&] {
    return std::all_of(rig.appended.begin(), rig.appended.end(),
                       [](const auto& append) { return append->done; });
  }));
}

// As the catalog does: what lay there is forgotten.
void forget(Rig& rig, uint32_t target) {
  std::erase_if(rig.user().known,
                [target](const auto& known) { return known.second.place.target == target; });
}

void fail(Rig& rig, uint32_t target) {
  rig.flash().fail_target(target, Status::unavailable("the test says so"));
  ASSERT_TRUE(rig.run_until([&] { return rig.flash().replaceable(target).ok(); }));
  forget(rig, target);
}

bool replaced(Rig& rig, size_t times = 1) {
  return rig.run_until([&] { return rig.user().replaced.size() == times; });
}

Status raise_to(Rig& rig, uint32_t generation) {
  struct Waiting {
    Raise raise;
    bool done = false;
  } waiting;
  waiting.raise.rows = {{.domain = 1, .domain_generation = generation}};
  waiting.raise.owner = &waiting;
  waiting.raise.on_done = [](Raise& done) { static_cast<Waiting*>(done.owner)->done = true; };
  rig.flash().raise(waiting.raise);
  VARVE_ASSERT(rig.run_until([&] { return waiting.done; }));
  return waiting.raise.status;
}

TEST(Replace, ATargetThatWorksIsNotReplaced) {
  Rig rig(two());
  rig.start_and_recover();
  EXPECT_EQ(rig.replace(1).code(), Code::kInvalid);
  EXPECT_TRUE(rig.flash().target_ok(1));
}

TEST(Replace, TheNewOneTakesFragmentsAndIsFoundAgain) {
  Rig rig(two());
  rig.start_and_recover();
  fill_both(rig, 1);
  const uint64_t old_key = rig.flash().target_key(1);
  fail(rig, 1);
  ASSERT_TRUE(rig.replace(1).ok());
  EXPECT_FALSE(rig.flash().target_ok(1)) << "its slices are not known to be empty yet";
  EXPECT_FALSE(rig.flash().recovering()) << "all else is served meanwhile";
  EXPECT_FALSE(rig.flash().reserve(1, 0, 3));
  ASSERT_TRUE(replaced(rig));
  EXPECT_TRUE(rig.flash().target_ok(1));
  EXPECT_NE(rig.flash().target_key(1), old_key);
  EXPECT_EQ(rig.user().replaced, std::vector<uint32_t>{1});
  EXPECT_EQ(rig.flash().usage(1).live_pages, 0u);
  fill_both(rig, 101);
  rig.power_cut();
  rig.start_and_recover();
  EXPECT_EQ(rig.user().known.size(), 15u) << "five of the first, and all of the others";
  for (const auto& [block, known] : rig.user().known)
    EXPECT_TRUE(rig.read_back(block, *rig.fragment(block)).ok());
}

// Expect: nothing of a stranger is found, then or at the next start.
TEST(Replace, WhatLiesBehindAnErasedFirstMibIsErased) {
  Rig rig(two());
  rig.start_and_recover();
  fill_both(rig, 1);
  fail(rig, 1);
  ASSERT_TRUE(rig.replace(1, Rig::Blank::kFirstMib).ok());
  ASSERT_TRUE(replaced(rig));
  rig.power_cut();
  rig.start_and_recover();
  EXPECT_EQ(rig.user().known.size(), 5u);
}

// Expect: memory that its device may still write to is the device's.
TEST(Replace, ADriveThatKeepsItsRequestsIsNotReplaced) {
  Rig rig(two());
  rig.start_and_recover();
  rig.device(1).stuck_set(true);
  rig.append_limbo = {[](void*) {}, nullptr};
  TestFragment* stuck = rig.append(11, 2, 6000, FlushBy::kNow, 1);
  ASSERT_NE(stuck, nullptr);
  ASSERT_TRUE(rig.run_until([&] { return stuck->done; }));
  rig.settle(3 * kSecond);
  EXPECT_EQ(rig.replace(1).code(), Code::kUnavailable);
  rig.device(1).stuck_set(false);
  ASSERT_TRUE(rig.run_until([&] { return rig.flash().replaceable(1).ok(); }));
  ASSERT_TRUE(rig.replace(1).ok());
  EXPECT_TRUE(replaced(rig));
}

TEST(Replace, APromiseOfRoomIsWaitedFor) {
  Rig rig(two());
  rig.start_and_recover();
  ASSERT_TRUE(rig.flash().reserve(1, 0, 3));
  rig.flash().fail_target(1, Status::unavailable("the test says so"));
  rig.settle(kSecond);
  EXPECT_EQ(rig.replace(1).code(), Code::kUnavailable);
  rig.flash().unreserve(1, 0, 3);
  EXPECT_TRUE(rig.replace(1).ok());
}

// Of the domain, by what lies in the superblocks of target 1.
uint32_t written_generation(Rig& rig) {
  const auto of_page = [&rig](uint32_t page) {
    const auto super = load<Superblock>(rig.platter(1).bytes().subspan(bytes_of(page), kPageBytes));
    return super.generations[0].domain_generation;
  };
  return std::max(of_page(0), of_page(1));
}

// Expect: what was raised before, while it came, and since, is in its superblock at the next start.
TEST(Replace, TheNewOneKnowsOfEveryRaise) {
  for (const bool meanwhile : {false, true}) {
    Rig rig(two());
    rig.start_and_recover();
    ASSERT_TRUE(raise_to(rig, 1).ok());
    fail(rig, 1);
    rig.formatted_with = rig.flash().generations();
    ASSERT_TRUE(raise_to(rig, 2).ok());
    ASSERT_TRUE(rig.replace(1).ok());
    EXPECT_FALSE(rig.flash().target_ok(1)) << "it does not know of the second yet";
    if (meanwhile) {
      ASSERT_TRUE(raise_to(rig, 3).ok());
    }
    ASSERT_TRUE(replaced(rig));
    const uint32_t last = meanwhile ? 3 : 2;
    EXPECT_EQ(rig.flash().generations().front().domain_generation, last);
    rig.power_cut();
    EXPECT_EQ(written_generation(rig), last);
  }
}

// Else the number of the last raise would be given twice.
TEST(Replace, WhatWasRaisedIsKnownThoughNoneWorksAnyMore) {
  Rig rig(two());
  rig.start_and_recover();
  fail(rig, 0);
  ASSERT_TRUE(raise_to(rig, 1).ok());
  fail(rig, 1);
  ASSERT_EQ(rig.flash().generations().size(), 1u);
  ASSERT_TRUE(rig.replace(1).ok());
  ASSERT_TRUE(replaced(rig));
  rig.power_cut();
  EXPECT_EQ(written_generation(rig), 1u);
}

TEST(Replace, OneThatFailsWhileItComesIsReplacedInItsTurn) {
  Rig rig(two());
  rig.start_and_recover();
  fail(rig, 1);
  ASSERT_TRUE(rig.replace(1).ok());
  rig.flash().fail_target(1, Status::unavailable("this one, too"));
  ASSERT_TRUE(rig.run_until([&] { return rig.flash().replaceable(1).ok(); }));
  EXPECT_TRUE(rig.user().replaced.empty());
  ASSERT_TRUE(rig.replace(1).ok());
  ASSERT_TRUE(replaced(rig));
  EXPECT_EQ(rig.user().failed, (std::vector<uint32_t>{1, 1}));
  rig.stop();
}

}  // namespace
}  // namespace varve::flash
