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
  for (uint32_t n = 1; n < 5; ++n)
    rig.push({n});
  rig.hold_data = true;
  auto holder = rig.make_pull({1});
  rig.start(*holder);
  rig.settle();
  auto late = rig.make_pull({2});
  late->part.first_wanted_ns = rig.clock.now_ns() + 2 * kSecond;
  auto soon = rig.make_pull({3});
  soon->part.first_wanted_ns = rig.clock.now_ns() + 1 * kSecond;
  rig.start(*late);
  rig.settle();
  rig.start(*soon);
  rig.settle();
  EXPECT_EQ(rig.context->metrics.pull_room_waits.value(), 2u);
  rig.hold_data = false;
  rig.answer_data();
  rig.finish(*soon);
  EXPECT_FALSE(late->back);
  rig.finish(*late);
  rig.finish(*holder);
  rig.expect_bytes(*soon, {3});
  rig.expect_bytes(*late, {2});
  rig.expect_at_rest();
}

TEST(PullTable, BoundsWhatOneSessionHasInProgress) {
  RigOptions options;
  options.layer_bytes = std::vector<uint32_t>(8, 65536);
  options.op.pull_window_bytes = 65536;
  options.op.data_sends_max = 16;  // four extents a session
  Rig rig(options);
  rig.push({1});
  rig.hold_data = true;
  std::vector<std::unique_ptr<Rig::Pull>> pulls;
  for (uint32_t i = 0; i < 6; ++i) {
    pulls.push_back(rig.make_pull({1}));
    rig.start(*pulls.back());
  }
  rig.settle();
  EXPECT_EQ(rig.sends.size(), 4u);
  rig.hold_data = false;
  rig.answer_data();
  for (const auto& pull : pulls) {
    rig.finish(*pull);
    rig.expect_bytes(*pull, {1});
  }
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
