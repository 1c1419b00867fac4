// Goal: who waits for pages is served by slack, one session's share is bounded, and the watchdog
// names what is overdue.
// Method: pulls of several sessions on a rig with pages for little more than one of them.
#include <gtest/gtest.h>

#include "server/op/pull.h"
#include "tests/server/op/rig.h"

namespace varve {
namespace {

TEST(PullTable, ServesTheWaiterWithTheLeastSlackFirst) {
  RigOptions options;
  options.pull_pages = 120;
  options.resident_pages = 0;
  options.targets = 1;
  Rig rig(options);
  for (uint32_t n = 1; n < 10; ++n)
    rig.push({n});
  rig.hold_data = true;
  // Of another session each: what one session may have in progress is not the matter here.
  std::vector<std::unique_ptr<Rig::Pull>> holders;
  for (uint32_t n = 4; n < 10; ++n) {
    holders.push_back(rig.make_pull({n}));
    holders.back()->part.session = 20 + n;
    rig.start(*holders.back());
    rig.settle();
  }
  const uint64_t waits = rig.context->metrics.pull_room_waits.value();
  auto late = rig.make_pull({2});
  late->part.session = 8;
  late->part.first_wanted_ns = rig.clock.now_ns() + 2 * kSecond;
  auto soon = rig.make_pull({3});
  soon->part.session = 9;
  soon->part.first_wanted_ns = rig.clock.now_ns() + 1 * kSecond;
  rig.start(*late);
  rig.settle();
  rig.start(*soon);
  rig.settle();
  EXPECT_EQ(rig.context->metrics.pull_room_waits.value(), waits + 2);
  rig.hold_data = false;
  rig.answer_data();
  rig.finish(*soon);
  EXPECT_FALSE(late->back);
  rig.finish(*late);
  for (const auto& holder : holders)
    rig.finish(*holder);
  rig.expect_bytes(*soon, {3});
  rig.expect_bytes(*late, {2});
  rig.expect_at_rest();
}

TEST(PullTable, BoundsWhatOneSessionHasInProgress) {
  RigOptions options;
  options.layer_bytes = std::vector<uint32_t>(8, 65536);
  options.op.pull_window_bytes = 65536;
  options.op.data_sends_max = 16;  // of which one session alone may have a third
  Rig rig(options);
  rig.push({1});
  rig.hold_data = true;
  std::vector<std::unique_ptr<Rig::Pull>> pulls;
  for (uint32_t i = 0; i < 6; ++i) {
    pulls.push_back(rig.make_pull({1}));
    rig.start(*pulls.back());
  }
  rig.settle();
  EXPECT_EQ(rig.sends.size(), 5u);
  rig.hold_data = false;
  rig.answer_data();
  for (const auto& pull : pulls) {
    rig.finish(*pull);
    rig.expect_bytes(*pull, {1});
  }
  rig.expect_at_rest();
}

// What it rebuilds from does not wait for the pull that it helps.
TEST(PullTable, ASessionHasAShareOfItsOwnForWhatItWantsOneByOne) {
  RigOptions options;
  options.layer_bytes = std::vector<uint32_t>(8, 65536);
  options.op.data_sends_max = 16;
  Rig rig(options);
  rig.push({1});
  rig.hold_data = true;
  const auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.settle();
  const size_t held = rig.sends.size();
  EXPECT_EQ(held, 5u) << "its share is full";
  const auto wants = rig.make_wants({1}, {{0, 7}, {0, 6}, {0, 5}, {0, 4}, {0, 3}, {0, 2}});
  rig.start(*wants);
  rig.settle();
  EXPECT_EQ(rig.sends.size(), held + 4) << "bounded by what is left, like that of another session";
  rig.hold_data = false;
  rig.answer_data();
  rig.finish(*pull);
  rig.finish(*wants);
  rig.expect_at_rest();
}

// Goal: however many sessions drain nothing, the next one is served.
TEST(PullTable, LeavesSomethingForTheNextSession) {
  RigOptions options;
  options.layer_bytes = std::vector<uint32_t>(8, 65536);
  options.op.pull_window_bytes = 65536;
  options.op.data_sends_max = 64;
  Rig rig(options);
  rig.push({1});
  rig.hold_data = true;
  std::vector<std::unique_ptr<Rig::Pull>> stuck;
  for (uint32_t i = 0; i < 16; ++i) {
    stuck.push_back(rig.make_pull({1}));
    stuck.back()->part.session = 100 + i / 2;
    rig.start(*stuck.back());
  }
  rig.settle();
  const size_t held = rig.sends.size();
  EXPECT_GT(held, 32u);
  auto next = rig.make_pull({1});
  next->part.session = 200;
  rig.start(*next);
  rig.settle();
  EXPECT_GT(rig.sends.size(), held);
  rig.hold_data = false;
  rig.answer_data();
  rig.finish(*next);
  rig.expect_bytes(*next, {1});
  for (const auto& pull : stuck)
    rig.finish(*pull);
  rig.expect_at_rest();
}

TEST(PullTable, NamesPullsThatArePastTheirDeadline) {
  Rig rig;
  rig.push({1});
  rig.hold_data = true;
  auto pull = rig.make_pull({1});
  pull->part.deadline_ns = rig.clock.now_ns() + kSecond;
  rig.start(*pull);
  rig.run_for(2 * kSecond);
  EXPECT_EQ(rig.operations->watch(), 0u) << "within the grace";
  rig.run_for(2 * kSecond);
  EXPECT_EQ(rig.operations->watch(), 1u);
  EXPECT_EQ(rig.context->metrics.pull_overdue.value(), 1u);
  rig.answer_data();
  rig.finish(*pull);
  EXPECT_EQ(rig.operations->watch(), 0u);
  rig.expect_at_rest();
}

TEST(PullTable, PollsOnlyWhileAPullIsInProgress) {
  Rig rig;
  rig.push({1});
  rig.settle();
  auto pull = rig.make_pull({1});
  rig.start(*pull);
  rig.finish(*pull);
  rig.settle();
  EXPECT_EQ(rig.reactor.timers().size(), 0u);
}

}  // namespace
}  // namespace varve
