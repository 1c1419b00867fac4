// How ops ended is counted apart, and without a server there is no player. What it plays is
// checked against a real server in tests/e2e/kvbench_test.py.
#include "tools/kvbench/player.h"

#include <gtest/gtest.h>

namespace varve::kvbench {
namespace {

TEST(Player, RefusedTimedOutAndFailedAreNotTheSame) {
  Outcomes outcomes;
  for (const Code code : {Code::kOk, Code::kOverloaded, Code::kQuota, Code::kNoSpace,
                          Code::kTimedOut, Code::kUnavailable, Code::kCorrupt})
    outcomes.count(code);
  Outcomes sum;
  sum.add(outcomes);
  sum.add(outcomes);
  EXPECT_EQ(sum.ops, 14u);
  EXPECT_EQ(sum.ok, 2u);
  EXPECT_EQ(sum.refused, 6u);
  EXPECT_EQ(sum.timed_out, 2u);
  EXPECT_EQ(sum.failed, 4u);
}

TEST(Player, APullThatFailsHasTheTimeUntilThatWasKnown) {
  PlayedPull lost;
  note_end(Status::timed_out("no answer"), 5, 1000, lost);
  EXPECT_EQ(lost.took_ns, 1000u);
  EXPECT_EQ(lost.last_layer_ns, 1005u);
  EXPECT_EQ(lost.first_layer_ns, 0u) << "none came, and 0 + the match is no time of one";
  EXPECT_TRUE(lost.failed);

  Event refused;
  refused.status = Status::unavailable("it says");
  PlayedPull half;
  note_end(refused, 5, 700, half);
  EXPECT_EQ(half.last_layer_ns, 705u);
  EXPECT_EQ(half.first_layer_ns, 0u);
  EXPECT_TRUE(half.failed);
}

TEST(Player, OfAPartOfAPullOnlyWhatCameIsCompared) {
  PlayedPull pull;
  const std::vector<Code> codes = {Code::kOk, Code::kUnavailable, Code::kOk};
  EXPECT_EQ(note_blocks(codes, 4, pull), 1u) << "what is usable ends at the first that is missing";
  EXPECT_EQ(pull.slots, (std::vector<uint32_t>{0, 2})) << "slot 1 is no corruption: it never came";
  EXPECT_EQ(pull.blocks, 2u);
  EXPECT_EQ(pull.failed_blocks, 2u);
}

TEST(Player, APullThatEndsWellHasTheTimesOfItsEvent) {
  Event event;
  event.first_layer_ns = 10;
  event.done_ns = 90;
  event.bytes = 7;
  PlayedPull pull;
  note_end(event, 5, 1000, pull);
  EXPECT_EQ(pull.first_layer_ns, 15u);
  EXPECT_EQ(pull.last_layer_ns, 95u);
  EXPECT_EQ(pull.took_ns, 90u);
  EXPECT_EQ(pull.bytes, 7u);
  EXPECT_FALSE(pull.failed);
}

}  // namespace
}  // namespace varve::kvbench
