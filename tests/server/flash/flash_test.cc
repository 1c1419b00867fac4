// The whole room on simulated drives: append, read, restart, stop, rot, stuck drives, shards.
#include "server/flash/flash.h"

#include <gtest/gtest.h>

#include "tests/server/flash/flash_rig.h"

namespace varve::flash {
namespace {

TEST(Flash, ReadsBackEveryByteThatWasAppended) {
  Rig rig({});
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 20; ++seed)
    ASSERT_NE(rig.append(seed, 1 + seed % 4), nullptr);
  ASSERT_TRUE(rig.run_until([&] { return rig.user().known.size() == 20; }));
  for (const auto& f : rig.appended) {
    EXPECT_TRUE(f->status.ok());
    const Status status = rig.read_back(f->block, *f);
    EXPECT_TRUE(status.ok()) << status.what();
  }
  EXPECT_EQ(rig.metric("appends_total"), 20);
  EXPECT_GE(rig.metric("reads_total"), 20);
}

TEST(Flash, NeverLosesADurableBlockWhenPowerIsCut) {
  RigOptions options;
  options.plan.volatile_cache = true;
  Rig rig(options);
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 20; ++seed)
    ASSERT_NE(rig.append(seed), nullptr);
  ASSERT_TRUE(rig.run_until([&] { return rig.user().known.size() == 20; }));
  rig.power_cut();
  rig.start_and_recover();
  EXPECT_EQ(rig.user().known.size(), 20u);
  for (const auto& f : rig.appended)
    EXPECT_TRUE(rig.read_back(f->block, *f).ok());
}

TEST(Flash, FindsEverythingAgainAfterACleanStopFromCheckpointsAlone) {
  Rig rig({});
  rig.start_and_recover();
  for (uint64_t seed = 1; seed <= 30; ++seed)
    ASSERT_NE(rig.append(seed), nullptr);
  ASSERT_TRUE(rig.run_until([&] { return rig.user().known.size() == 30; }));
  rig.user().evict(test_block(7));
  rig.stop();
  rig.start_and_recover();
  EXPECT_EQ(rig.user().known.size(), 29u);  // a clean stop revives nothing
  EXPECT_EQ(rig.metric("recovered_total", 0, ",source=\"checkpoint\""), 29);
  for (const auto& f : rig.appended) {
    if (f->block == test_block(7)) continue;
    EXPECT_TRUE(rig.read_back(f->block, *f).ok());
  }
}

}  // namespace
}  // namespace varve::flash
