// A run of bars is declared like every other: the schema is met with daemons and without, and what
// differs by bar is said to.
#include "tools/kvbench/bars_declaration.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace varve::kvbench {
namespace {

Bar bar_of(const char* name, bool has_daemon) {
  Bar bar;
  bar.name = name;
  bar.unit = "ratio";
  bar.target = 0.9;
  bar.rounds = {0.8, 0.9, 1.0};
  bar.setup.has_daemon = has_daemon;
  if (has_daemon) {
    bar.setup.blocks = bar.setup.layers = 4;
    bar.setup.layer_bytes = kMiB;
    bar.setup.schemes = {Scheme()};
    bar.setup.targets = 2;
    bar.setup.target_bytes = bar.setup.dram_bytes = kGiB;
    bar.setup.pushed_bytes = 16 * kMiB;
    bar.setup.lanes = bar.setup.at_once = 1;
  }
  return bar;
}

BarsRun run_of(std::vector<Bar> bars) {
  BarsRun run;
  run.start.arguments = {"kvbench", "bars"};
  run.start.run_id = "1";
  run.start.timestamp = "now";
  run.start.commit = std::string(40, 'a');
  run.bars = std::move(bars);
  run.folder = ".";
  return run;
}

using Problems = std::vector<std::string>;

TEST(BarsDeclaration, ARunWithADaemonMeetsTheSchema) {
  Declaration out;
  ASSERT_TRUE(declare_bars(run_of({bar_of("match", false), bar_of("flash_pull", true)}), out).ok());
  EXPECT_EQ(out.problems(), Problems());
  const Json document = out.document();
  EXPECT_EQ(document["declaration"]["tiers[].capacity_bytes"]["nvme_local"], 2 * kGiB);
  EXPECT_EQ(document["results"]["mode"], "each_bar_its_own");
  EXPECT_EQ(document["results"]["bars"].size(), 2u);
}

TEST(BarsDeclaration, ARunWithoutOneDeclaresNothingOfAStore) {
  Declaration out;
  ASSERT_TRUE(declare_bars(run_of({bar_of("match", false)}), out).ok());
  EXPECT_EQ(out.problems(), Problems());
  const Json document = out.document();
  EXPECT_EQ(document["results"]["mode"], "in_process");
  EXPECT_FALSE(document["declaration"].contains("tiers[].name"));
  EXPECT_EQ(document["declaration"]["network.present"], false);
}

TEST(BarsDeclaration, ACodedBarHasItsCodeAndItsFault) {
  Bar coded = bar_of("ec_degraded_whole", true);
  coded.setup.schemes = {Scheme{4, 2}};
  coded.setup.targets = 6;
  coded.setup.fault = "two targets are gone";
  Declaration out;
  ASSERT_TRUE(declare_bars(run_of({coded}), out).ok());
  EXPECT_EQ(out.problems(), Problems());
  const Json declared = out.document()["declaration"];
  EXPECT_EQ(declared["ec.scheme"]["kind"], "rs");
  EXPECT_EQ(declared["failure_injection"].size(), 1u);
}

TEST(BarsDeclaration, ARefusedBarIsInItWithWhy) {
  Bar refused = bar_of("flash_pull", true);
  refused.refused = "not from the device";
  Declaration out;
  ASSERT_TRUE(declare_bars(run_of({refused}), out).ok());
  EXPECT_EQ(out.problems(), Problems());
  EXPECT_EQ(out.document()["results"]["bars"][0]["why"], "not from the device");
}

TEST(BarsDeclaration, TheLinesForPeopleAreMadeFromIt) {
  BarsRun run = run_of({bar_of("flash_pull", true)});
  run.quick = true;
  Declaration out;
  ASSERT_TRUE(declare_bars(run, out).ok());
  const std::vector<std::string> lines = declared_lines(out);
  EXPECT_EQ(lines.size(), out.document()["declaration"].size());
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "declare network.medium loopback"), 1);
  const auto& warnings = out.warnings();
  EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(),
                          [](const std::string& w) { return w.starts_with("a quick run"); }));
}

}  // namespace
}  // namespace varve::kvbench
