// Goal: the probes tell the truth: alive while the node looks at its shards and they answer, ready
// while a client may be sent to it.
#include "server/node/watch.h"

#include <gtest/gtest.h>

#include "common/time/time.h"

namespace varve {
namespace {

class NodeWatch : public testing::Test {
 protected:
  void see(const NodeHealth& health = {.targets_work = 3, .targets_least = 2}) {
    watch_.see("numbers", health);
  }
  bool alive() const { return watch_.health().not_alive.empty(); }
  std::string not_ready() const { return watch_.health().not_ready; }

  ManualClock clock_;
  Watch watch_{clock_};
};

TEST_F(NodeWatch, IsReadyOnceItWasSeenAndTheNumbersAreThoseOfThen) {
  EXPECT_EQ(not_ready(), "it starts");
  EXPECT_TRUE(alive());
  see();
  EXPECT_EQ(not_ready(), "");
  EXPECT_EQ(watch_.metrics_text(), "numbers");
}

TEST_F(NodeWatch, ANodeThatIsNotLookedAtIsNotAlive) {
  see();
  clock_.advance_by(Watch::kStalledMax);
  EXPECT_TRUE(alive());
  clock_.advance_by(1);
  EXPECT_NE(watch_.health().not_alive.find("for 15 s"), std::string::npos);
  see();
  EXPECT_TRUE(alive());
}

TEST_F(NodeWatch, AShardThatHangsIsNotReadyAtOnceAndNotAliveInTheEnd) {
  const NodeHealth hangs{.shards_stalled = 1, .targets_work = 3, .targets_least = 2};
  see(hangs);
  EXPECT_EQ(not_ready(), "1 shards do not answer");
  EXPECT_TRUE(alive());
  clock_.advance_by(Watch::kStalledMax + 1);
  see(hangs);
  EXPECT_FALSE(alive());
  see();
  EXPECT_TRUE(alive());
  clock_.advance_by(1);
  see(hangs);
  EXPECT_TRUE(alive()) << "the time counts from anew";
}

TEST_F(NodeWatch, TooFewTargetsAndRecoveryAreNotReady) {
  see({.targets_work = 1, .targets_least = 2});
  EXPECT_EQ(not_ready(), "only 1 targets work, blocks need 2");
  see({.shards_recovering = 1, .targets_work = 2, .targets_least = 2});
  EXPECT_NE(not_ready().find("recovers"), std::string::npos);
  EXPECT_TRUE(alive());
}

TEST_F(NodeWatch, ADrainIsNotReadyAndNeverCutShort) {
  see();
  watch_.drains();
  clock_.advance_by(100 * kSecond);
  EXPECT_EQ(not_ready(), "it drains and will stop");
  EXPECT_TRUE(alive());
}

}  // namespace
}  // namespace varve
