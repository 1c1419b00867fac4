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
  bar.verified_bytes = 1000;
  bar.setup.has_daemon = has_daemon;
  if (has_daemon) {
    bar.setup.blocks = bar.setup.layers = 4;
    bar.setup.layer_bytes = kMiB;
    bar.setup.schemes = {Scheme()};
    bar.setup.targets = 2;
    bar.setup.target_bytes = bar.setup.dram_bytes = kGiB;
    bar.setup.pushed_bytes = 16 * kMiB;
    bar.setup.client_memory_bytes = 2 * kMiB;
    bar.setup.lanes = bar.setup.at_once = 1;
    bar.setup.seen = {.io = "io_uring", .registers = true, .registered_bytes = kGiB, .cores = "0"};
  }
  return bar;
}

BarsRun run_of(std::vector<Bar> bars) {
  BarsRun run;
  run.start.arguments = {"kvbench", "bars"};
  run.start.run_id = "1";
  run.start.timestamp = "now";
  run.start.commit = std::string(40, 'a');
  run.server_commit = run.start.commit;
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
  EXPECT_EQ(document["declaration"]["memory.resident_copies"][0]["bytes"], 2 * kMiB);
  const Json uring = document["declaration"]["io[].uring"]["nvme_local"];
  EXPECT_EQ(uring["fixed_buffers"], true);
  EXPECT_EQ(uring["registered_files"], false);
  EXPECT_EQ(document["results"]["bars"][1]["setup"]["registered_bytes"], kGiB);
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

TEST(BarsDeclaration, BytesOfAMeasurementAreCountedOnceAndABarWithoutSaysWhy) {
  Bar whole = bar_of("ec_degraded_whole", true), first = bar_of("ec_degraded_first", true);
  whole.measurement = first.measurement = "ec_degraded_whole";
  Bar match = bar_of("match", false);
  match.verified_bytes = 0;
  match.unverified = "ids only, no bytes";
  whole.warmup_ns = first.warmup_ns = 2 * kSecond;
  match.warmup_ns = kSecond;
  Declaration out;
  ASSERT_TRUE(declare_bars(run_of({whole, first, bar_of("flash_pull", true), match}), out).ok());
  EXPECT_EQ(out.problems(), Problems());
  EXPECT_EQ(out.document()["results"]["verified"]["bytes"], 2000);
  // Expect: so is the time of what does not count.
  EXPECT_EQ(out.document()["declaration"]["workload.duration"]["warmup_s"], 3.0);
  EXPECT_EQ(out.document()["results"]["bars"][0]["warmup_s"], 2.0);
  // Expect: the first layer alone says of its bytes what it would beside the other.
  Declaration alone;
  ASSERT_TRUE(declare_bars(run_of({first}), alone).ok());
  EXPECT_EQ(alone.document()["results"]["verified"]["bytes"], 1000);
  EXPECT_EQ(alone.document()["results"]["bars"][0]["verified_bytes"], 1000);
  // Expect: without a reason it is no result, and with bytes there is none to give.
  for (const auto& [bytes, why] :
       {std::pair<uint64_t, const char*>{0, ""}, {5, "a reason of it"}}) {
    Bar bar = bar_of("match", false);
    bar.verified_bytes = bytes;
    bar.unverified = why;
    Declaration wrong;
    ASSERT_TRUE(declare_bars(run_of({bar}), wrong).ok());
    EXPECT_EQ(wrong.problems().empty(), bytes > 0) << bytes;
  }
}

TEST(BarsDeclaration, TheDaemonSaysOfWhichCommitItIs) {
  BarsRun run = run_of({bar_of("flash_pull", true)});
  run.server_commit = std::string(40, 'b');
  Declaration out;
  ASSERT_TRUE(declare_bars(run, out).ok());
  EXPECT_EQ(out.problems(), Problems());
  EXPECT_EQ(out.document()["server_commit"], run.server_commit);
  EXPECT_EQ(std::count_if(out.warnings().begin(), out.warnings().end(),
                          [](const std::string& w) { return w.starts_with("varved is of"); }),
            1);
}

TEST(BarsDeclaration, ARefusedBarIsInItWithWhy) {
  Bar refused = bar_of("flash_pull", true);
  refused.refused = "not from the device";
  refused.verified_bytes = 0;
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
