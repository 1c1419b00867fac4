// Goal: whole loops keep their accounts, and a daemon that lies is convicted.
// Method: the real daemon of this build for a few loops; programs that are no daemon.
#include "tools/ledger/ledger.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/ledger/real_daemon.h"

namespace varve::ledger {
namespace {

LedgerOptions options_of(const RealDaemon& real, uint32_t loops) {
  LedgerOptions options;
  options.loops = loops;
  options.varved = RealDaemon::program();
  options.data_dir = real.folder() + "/ledger";
  return options;
}

TEST(Ledger, LoopsOfTheRealDaemonBreakNoPromise) {
  if (!RealDaemon::available()) GTEST_SKIP() << "varved is not built beside this test";
  RealDaemon real("ledger_test");
  const LedgerOptions options = options_of(real, 2);
  Ledger ledger(options);
  ledger.run();
  EXPECT_TRUE(passed(options, ledger.totals())) << report_text(options, ledger.totals());
  EXPECT_EQ(ledger.totals().loops, 2u);
  EXPECT_GE(ledger.totals().kills + ledger.totals().stops, 2u);
  EXPECT_GT(ledger.totals().load.acks_durable, 0u);
  EXPECT_FALSE(std::filesystem::exists(ledger.folder())) << "a clean run leaves nothing behind";
}

TEST(Ledger, ADestroyedTargetThatRepairLeavesAloneIsConvicted) {
  if (!RealDaemon::available()) GTEST_SKIP() << "varved is not built beside this test";
  RealDaemon real("ledger_test_repair");
  LedgerOptions options = options_of(real, 10);
  options.plan.scheme = Scheme{1, 1};
  options.plan.mutant = Mutant::kRepair;
  Ledger ledger(options);
  ledger.run();
  EXPECT_TRUE(passed(options, ledger.totals())) << report_text(options, ledger.totals());
  EXPECT_GT(ledger.totals().tally.of(Class::kLost), 0u);
}

TEST(Ledger, AProgramThatIsNoDaemonFailsTheRun) {
  RealDaemon real("ledger_test_false");
  LedgerOptions options = options_of(real, 2);
  options.varved = "/bin/false";
  Ledger ledger(options);
  ledger.run();
  EXPECT_FALSE(passed(options, ledger.totals()));
  ASSERT_EQ(ledger.totals().problems.size(), 1u);
  EXPECT_NE(ledger.totals().problems[0].find("exit 1"), std::string::npos);
}

}  // namespace
}  // namespace varve::ledger
