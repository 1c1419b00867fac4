// The synthetic target of the recovery bench is recovered like a real one: exactly its fragments,
// from checkpoints alone.
#include <gtest/gtest.h>

#include <set>

#include "tests/server/flash/flash_rig.h"

namespace varve::flash {
namespace {

TEST(Synthetic, IsRecoveredFragmentByFragmentFromCheckpoints) {
  RigOptions options;
  options.slices = 4;
  options.segment_pages = 256;
  options.segments = 64;
  Rig rig(options);
  rig.start_and_recover();
  TargetInfo info;
  info.super = rig.super(0);
  rig.power_cut();
  const auto written = write_synthetic(rig.platter(0), info, 500);
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(*written, 500u);
  rig.start_and_recover();
  EXPECT_EQ(rig.user().known.size(), 500u);
  EXPECT_EQ(rig.metric("recovered_total", 0, ",source=\"checkpoint\""), 500);
  for (const auto& [block, known] : rig.user().known) {
    EXPECT_EQ(rig.slice_of_block(block), known.place.slice);
  }
}

TEST(Synthetic, WritesWhatFitsAndSaysHowMuch) {
  RigOptions options;
  options.slices = 1;
  options.segment_pages = 64;
  options.segments = 8;
  Rig rig(options);
  rig.start_and_recover();
  TargetInfo info;
  info.super = rig.super(0);
  rig.power_cut();
  const auto written = write_synthetic(rig.platter(0), info, 1000000);
  ASSERT_TRUE(written.has_value());
  EXPECT_LT(*written, 100u);
  rig.start_and_recover();
  EXPECT_EQ(rig.user().told.size(), *written);
}

}  // namespace
}  // namespace varve::flash
