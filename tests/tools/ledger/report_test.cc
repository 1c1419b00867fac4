// Goal: the verdict follows from the totals, and the texts carry them.
// Method: totals by hand.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/ledger/ledger.h"

namespace varve::ledger {
namespace {

LedgerTotals with(Class c) {
  LedgerTotals totals;
  totals.tally.classes[static_cast<uint32_t>(c)] = 3;
  return totals;
}

TEST(Report, LostCorruptAndPhantomFailTheRunAndTheOthersDoNot) {
  LedgerOptions options;
  for (const Class c : {Class::kIntact, Class::kEvicted, Class::kRevived})
    EXPECT_TRUE(passed(options, with(c)));
  for (const Class c : {Class::kLost, Class::kCorrupt, Class::kPhantom})
    EXPECT_FALSE(passed(options, with(c)));
}

TEST(Report, AProblemFailsTheRun) {
  LedgerTotals totals;
  totals.problems.push_back("loop 3: varved ended by itself: signal 6");
  EXPECT_FALSE(passed(LedgerOptions{}, totals));
  EXPECT_NE(report_text(LedgerOptions{}, totals).find("signal 6"), std::string::npos);
}

TEST(Report, TheMutantPassesOnlyWhenCaughtAsALoss) {
  LedgerOptions options;
  options.mutant = true;
  EXPECT_FALSE(passed(options, LedgerTotals{}));
  EXPECT_TRUE(passed(options, with(Class::kLost)));
  EXPECT_FALSE(passed(options, with(Class::kCorrupt)));
}

TEST(Report, AStopThatIsNotDrainedIsLegalOnlyAfterItsTime) {
  const Nanos limit_ns = kDrainMs * kMillisecond;
  EXPECT_EQ(stop_problem("exit 0", 0), "");
  EXPECT_EQ(stop_problem("exit 5", limit_ns), "");
  EXPECT_NE(stop_problem("exit 5", limit_ns - 1), "");
  EXPECT_NE(stop_problem("exit 3", limit_ns), "");
  EXPECT_NE(stop_problem("signal 6", limit_ns), "");
  LedgerTotals totals;
  totals.undrained_stops = 77;
  const std::string text = report_text(LedgerOptions{}, totals);
  EXPECT_NE(text.find("undrained_stops"), std::string::npos);
  EXPECT_NE(text.find("77"), std::string::npos);
}

TEST(Report, TheJsonCarriesTheClassesAndTheVerdict) {
  const auto json = nlohmann::json::parse(report_json(LedgerOptions{}, with(Class::kLost)));
  EXPECT_EQ(json["classes"]["lost"], 3);
  EXPECT_EQ(json["passed"], false);
  EXPECT_EQ(json["classes"].size(), kClassCount);
}

}  // namespace
}  // namespace varve::ledger
