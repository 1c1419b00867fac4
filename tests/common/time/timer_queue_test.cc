// Goal: T2 and T3, and the rule that what is armed while firing waits for the next call.
// Method: direct calls, and a random walk against a sorted model.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

#include "common/base/random.h"
#include "common/time/time.h"

namespace varve {
namespace {

struct Bell : Timer {
  int tag = 0;
  std::vector<int>* rung = nullptr;
  TimerQueue* queue = nullptr;
  Nanos again_ns = 0;        // when not 0: re-arm at this time inside the firing
  Timer* silence = nullptr;  // when set: cancelled inside the firing
};

void ring(Timer& timer) {
  auto& bell = static_cast<Bell&>(timer);
  bell.rung->push_back(bell.tag);
  if (bell.again_ns != 0) bell.queue->arm(bell, bell.again_ns);
  if (bell.silence != nullptr) bell.queue->cancel(*bell.silence);
}

struct TimerQueueTest : testing::Test {
  TimerQueueTest() {
    for (size_t i = 0; i < bells.size(); ++i) {
      bells[i].on_fire = &ring;
      bells[i].tag = static_cast<int>(i);
      bells[i].rung = &rung;
      bells[i].queue = &queue;
    }
  }
  std::vector<int> rung;
  TimerQueue queue;
  std::array<Bell, 8> bells;
};

TEST_F(TimerQueueTest, FiresInOrderOfDueThenOfArming) {
  queue.arm(bells[0], 30);
  queue.arm(bells[1], 10);
  queue.arm(bells[2], 10);
  queue.arm(bells[3], 20);
  EXPECT_EQ(queue.next_due_ns(), 10u);
  EXPECT_EQ(queue.fire_due(9, 100), 0u);
  EXPECT_EQ(queue.fire_due(20, 100), 3u);
  EXPECT_EQ(rung, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(queue.next_due_ns(), 30u);
  EXPECT_EQ(queue.fire_due(30, 100), 1u);
  EXPECT_EQ(queue.next_due_ns(), kNever);
}

TEST_F(TimerQueueTest, RearmingMovesATimerBehindItsEquals) {
  queue.arm(bells[0], 10);
  queue.arm(bells[1], 10);
  queue.arm(bells[0], 10);
  EXPECT_EQ(queue.size(), 2u);
  queue.fire_due(10, 100);
  EXPECT_EQ(rung, (std::vector<int>{1, 0}));
}

TEST_F(TimerQueueTest, CancelledTimersNeverFireAndCancelTwiceIsHarmless) {
  queue.arm(bells[0], 10);
  bells[1].silence = &bells[2];
  queue.arm(bells[1], 10);
  queue.arm(bells[2], 10);
  queue.cancel(bells[0]);
  queue.cancel(bells[0]);
  EXPECT_FALSE(bells[0].armed());
  EXPECT_EQ(queue.fire_due(100, 100), 1u);
  EXPECT_EQ(rung, (std::vector<int>{1}));
  EXPECT_EQ(queue.size(), 0u);
}

TEST_F(TimerQueueTest, FiresAtMostItsLimitAndKeepsTheRest) {
  for (Bell& bell : bells)
    queue.arm(bell, 10);
  EXPECT_EQ(queue.fire_due(10, 3), 3u);
  EXPECT_EQ(queue.fire_due(10, 100), 5u);
  EXPECT_EQ(rung, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(TimerQueueTest, ATimerArmedInThePastWhileFiringNeitherFiresNowNorStarvesOthers) {
  bells[0].again_ns = 1;  // long ago
  queue.arm(bells[0], 10);
  queue.arm(bells[1], 20);
  EXPECT_EQ(queue.fire_due(20, 100), 2u);
  EXPECT_EQ(rung, (std::vector<int>{0, 1}));
  EXPECT_EQ(bells[0].due_ns, 20u);
  EXPECT_EQ(queue.fire_due(20, 100), 1u);
  EXPECT_EQ(rung, (std::vector<int>{0, 1, 0}));
}

TEST_F(TimerQueueTest, EqualsASortedModelOverARandomWalk) {
  Random random(7);
  std::vector<Bell> many(64);
  for (size_t i = 0; i < many.size(); ++i) {
    many[i].on_fire = &ring;
    many[i].tag = static_cast<int>(i);
    many[i].rung = &rung;
  }
  std::vector<std::tuple<Nanos, uint64_t, int>> model;  // due, order, tag
  uint64_t order = 0;
  Nanos now = 0;
  const auto forget = [&](int tag) {
    std::erase_if(model, [&](const auto& entry) { return std::get<2>(entry) == tag; });
  };
  for (int step = 0; step < 20000; ++step) {
    const int tag = static_cast<int>(random.below(many.size()));
    const uint64_t what = random.below(10);
    if (what < 6) {
      const Nanos due = now + random.below(50);
      queue.arm(many[tag], due);
      forget(tag);
      model.emplace_back(due, order++, tag);
    } else if (what < 8) {
      queue.cancel(many[tag]);
      forget(tag);
    } else {
      now += random.below(20);
      rung.clear();
      queue.fire_due(now, 1000);
      std::sort(model.begin(), model.end());
      std::vector<int> expected;
      while (!model.empty() && std::get<0>(model.front()) <= now) {
        expected.push_back(std::get<2>(model.front()));
        model.erase(model.begin());
      }
      ASSERT_EQ(rung, expected) << "step " << step;
    }
    ASSERT_EQ(queue.size(), model.size());
  }
}

}  // namespace
}  // namespace varve
