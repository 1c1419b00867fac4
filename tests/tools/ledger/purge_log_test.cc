// Goal: of an op and a purge it is known which came first, or that they met.
// Method: purges and ticks by hand.
#include "tools/ledger/purge_log.h"

#include <gtest/gtest.h>

namespace varve::ledger {
namespace {

BaseId id(uint8_t byte) {
  BaseId base;
  base.bytes.fill(std::byte{byte});
  return base;
}

TEST(PurgeLog, APurgeIsDoneForWhoBeginsAfterItsAnswer) {
  PurgeLog log;
  const Tick before = log.now();
  const uint32_t purge = log.ask({id(1)}, false);
  const Tick under_way = log.now();
  log.answer(purge, true);
  EXPECT_FALSE(log.done(purge, before));
  EXPECT_FALSE(log.done(purge, under_way));
  EXPECT_TRUE(log.done(purge, log.now()));
  EXPECT_TRUE(log.done(purge, kNow));
  EXPECT_EQ(log.bases(purge), std::vector<BaseId>{id(1)});
}

TEST(PurgeLog, ItTouchesWhatItNamesUntilItsAnswer) {
  PurgeLog log;
  const Tick before = log.now();
  const uint32_t purge = log.ask({id(1), id(2)}, false);
  EXPECT_TRUE(log.touches(id(2), kNow));
  log.answer(purge, true);
  EXPECT_TRUE(log.touches(id(1), before));
  EXPECT_FALSE(log.touches(id(1), log.now()));
  EXPECT_FALSE(log.touches(id(3), before));
}

TEST(PurgeLog, WithoutAnAnswerItGoesOnUntilTheLifeEnds) {
  PurgeLog log;
  const uint32_t refused = log.ask({id(1)}, false);
  log.answer(refused, false);
  log.ask({id(1)}, false);
  EXPECT_TRUE(log.touches(id(1), log.now()));
  EXPECT_FALSE(log.done(refused, kNow));
  log.at_start(false);
  EXPECT_FALSE(log.touches(id(1), log.now()));
  EXPECT_FALSE(log.done(refused, kNow));
}

TEST(PurgeLog, OneOfALineageGoesOnUntilAllTargetsAreThere) {
  PurgeLog log;
  log.ask({id(1)}, true);
  log.at_start(false);
  EXPECT_TRUE(log.touches(id(1), log.now()));
  log.at_start(true);
  EXPECT_FALSE(log.touches(id(1), log.now()));
}

}  // namespace
}  // namespace varve::ledger
