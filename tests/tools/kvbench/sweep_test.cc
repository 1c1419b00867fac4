// The plan of a sweep: what is pulled cold was touched by nothing before.
#include "tools/kvbench/sweep.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <set>

namespace varve::kvbench {
namespace {

TEST(Sweep, EveryColdRepetitionHasBlocksOfItsOwn) {
  SweepOptions options;
  options.blocks = {2, 3};
  options.concurrency = {1, 2};
  options.repetitions = 4;
  const SweepPlan plan = sweep_plan(options);
  ASSERT_EQ(plan.shapes.size(), 4u);
  EXPECT_EQ(plan.warm_up_prompt, 4u * (1 + 2 + 1 + 2));
  EXPECT_EQ(plan.prompts.size(), plan.warm_up_prompt + 2u) << "and what no cell pulls";
  std::set<uint32_t> seen;
  for (const Prompt& prompt : plan.prompts) {
    for (const uint32_t content : prompt.content)
      EXPECT_TRUE(seen.insert(content).second);
  }
  EXPECT_EQ(plan.blocks_all, seen.size());
  EXPECT_EQ(plan.blocks_max, 3u);
  EXPECT_EQ(plan.concurrency_max, 2u);
  EXPECT_EQ(plan.shapes[1].first_prompt, 4u);
  EXPECT_EQ(plan.prompts[plan.shapes[3].first_prompt].content.size(), 3u);
}

TEST(Sweep, WrongUseIsRefusedAndListsAreTaken) {
  for (const char* line :
       {"sweep --state warm", "sweep --extent-kib 1", "sweep --blocks 0", "sweep --tier hbm"}) {
    CLI::App app;
    SweepOptions options;
    add_sweep(app, options);
    EXPECT_THROW(app.parse(line), CLI::ParseError) << line;
  }
  CLI::App app;
  SweepOptions options;
  add_sweep(app, options);
  app.parse("sweep --extent-kib 64 128 --state cold");
  EXPECT_EQ(options.extents_kib, (std::vector<uint32_t>{64, 128}));
  EXPECT_EQ(options.states, std::vector<std::string>{"cold"});
}

// The kinds of a command line, "flash cold, dram hot"; or why it is refused.
std::string kinds_text(const std::string& line) {
  CLI::App app;
  SweepOptions options;
  add_sweep(app, options);
  try {
    app.parse(line);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  std::string text;
  for (const CellKind& kind : kinds_of(options)) {
    text += std::string(text.empty() ? "" : ", ") + name_of(kind.tier) + " " + name_of(kind.state);
  }
  return text;
}

TEST(Sweep, TierAndStateAreTwoAxesAndWhatIsNoCellIsRefusedByName) {
  EXPECT_EQ(kinds_text("sweep"), "flash cold, flash hot, dram hot");
  EXPECT_EQ(kinds_text("sweep --state hot"), "flash hot, dram hot");
  EXPECT_EQ(kinds_text("sweep --state cold"), "flash cold");
  EXPECT_EQ(kinds_text("sweep --tier dram"), "dram hot");
  EXPECT_EQ(kinds_text("sweep --tier flash --state cold hot"), "flash cold, flash hot");
  for (const char* line : {"sweep --tier dram --state cold", "sweep --tier dram flash --state cold",
                           "sweep --tier dram flash --state hot cold"})
    EXPECT_NE(kinds_text(line).find("no cell dram x cold"), std::string::npos) << line;
  EXPECT_EQ(kinds_text("sweep --address h:1"), "dram hot");
  for (const char* more : {"--tier flash", "--tier dram flash", "--state cold", "--state hot cold"})
    EXPECT_NE(kinds_text(std::string("sweep --address h:1 ") + more).find("runs already"),
              std::string::npos)
        << more;
}

TEST(Sweep, WithoutAServerThereIsNoResult) {
  SweepOptions options;
  options.extents_kib = {64};
  options.blocks = {1};
  options.concurrency = {1};
  options.server.folder = "/proc/kvbench";
  char name[] = "kvbench";
  char* arguments[] = {name};
  EXPECT_EQ(run_sweep(options, RunStart::now(1, arguments, "of a test")), 1);
}

}  // namespace
}  // namespace varve::kvbench
