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

TEST(Report, LostCorruptPhantomAndUnpurgedFailTheRunAndTheOthersDoNot) {
  LedgerOptions options;
  for (const Class c : {Class::kIntact, Class::kEvicted, Class::kRevived})
    EXPECT_TRUE(passed(options, with(c)));
  for (const Class c : {Class::kLost, Class::kCorrupt, Class::kPhantom, Class::kUnpurged})
    EXPECT_FALSE(passed(options, with(c)));
}

TEST(Report, AProblemFailsTheRun) {
  LedgerTotals totals;
  totals.problems.push_back("loop 3: varved ended by itself: signal 6");
  EXPECT_FALSE(passed(LedgerOptions{}, totals));
  EXPECT_NE(report_text(LedgerOptions{}, totals).find("signal 6"), std::string::npos);
}

TEST(Report, TheMutantPassesOnlyWhenCaughtAsALoss) {
  for (const Mutant mutant : {Mutant::kFlush, Mutant::kRepair}) {
    LedgerOptions options;
    options.plan.mutant = mutant;
    EXPECT_FALSE(passed(options, LedgerTotals{}));
    EXPECT_TRUE(passed(options, with(Class::kLost)));
    EXPECT_FALSE(passed(options, with(Class::kCorrupt)));
  }
}

TEST(Report, TheMutantOfAPurgePassesOnlyWhenCaughtAsAPurgeThatDidNotHold) {
  LedgerOptions options;
  options.plan.mutant = Mutant::kPurge;
  EXPECT_FALSE(passed(options, LedgerTotals{}));
  EXPECT_FALSE(passed(options, with(Class::kLost)));
  LedgerTotals totals = with(Class::kUnpurged);
  EXPECT_TRUE(passed(options, totals));
  EXPECT_NE(report_text(options, totals).find("the planted purge before flush was caught"),
            std::string::npos);
  totals.tally.classes[static_cast<uint32_t>(Class::kLost)] = 1;
  EXPECT_FALSE(passed(options, totals));
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

TEST(Report, SchemesAndDamageAndWhatWasWithinTheBudgetAreNamed) {
  LedgerTotals totals;
  totals.schemes["4+2"] = 10;
  totals.harms[static_cast<uint32_t>(Harm::kDestroy)] = 3;
  totals.harms[static_cast<uint32_t>(Harm::kRot)] = 4;
  totals.tally.within_kept = 500;
  totals.tally.beyond_gone = 60;
  const auto json = nlohmann::json::parse(report_json(LedgerOptions{}, totals));
  EXPECT_EQ(json["schemes"]["4+2"], 10);
  EXPECT_EQ(json["targets"]["destroyed"], 3);
  EXPECT_EQ(json["targets"]["rotten"], 4);
  EXPECT_EQ(json["targets"].size(), kHarmCount - 1);
  EXPECT_EQ(json["counts"]["kept_within_budget"], 500);
  EXPECT_EQ(json["counts"]["gone_beyond_budget"], 60);
  EXPECT_TRUE(json["passed"]);
  EXPECT_NE(report_text(LedgerOptions{}, totals).find("scheme 4+2 (10)"), std::string::npos);
}

TEST(Report, TheJsonCarriesTheClassesAndTheVerdict) {
  const auto json = nlohmann::json::parse(report_json(LedgerOptions{}, with(Class::kLost)));
  EXPECT_EQ(json["classes"]["lost"], 3);
  EXPECT_EQ(json["passed"], false);
  EXPECT_EQ(json["classes"].size(), kClassCount);
}

}  // namespace
}  // namespace varve::ledger
