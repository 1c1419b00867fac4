// The subcommand takes the names of bars and groups, and nothing else. That bars have numbers is
// seen by tests/e2e/bars_test.py, which needs the daemon.
#include "tools/kvbench/bars.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

namespace varve::kvbench {
namespace {

TEST(Bars, NamesAndTheGroupAreTaken) {
  CLI::App app;
  BarsOptions options;
  const CLI::App* command = add_bars(app, options);
  app.parse("bars match ec --rounds 3 --quick --lanes 2");
  EXPECT_TRUE(*command);
  EXPECT_EQ(options.only, (std::vector<std::string>{"match", "ec"}));
  EXPECT_EQ(options.rounds, 3u);
  EXPECT_EQ(options.lanes, 2u);
  EXPECT_TRUE(options.quick);
}

TEST(Bars, WhatLiesInTheWorkFolderIsNotRemoved) {
  const std::string folder = testing::TempDir() + "/kvbench_bars";
  const std::string kept = folder + "/ec_encode_4+2/notes.txt";
  std::filesystem::create_directories(folder + "/ec_encode_4+2");
  std::ofstream(kept) << "mine";
  BarsOptions options;
  options.folder = folder;
  options.only = {"ec_encode_4+2"};
  options.quick = true;
  options.rounds = 1;
  options.json_path = testing::TempDir() + "/kvbench_bars.json";
  RunStart start;
  start.run_id = "1";
  start.timestamp = "now";
  start.arguments = {"kvbench"};
  start.commit = std::string(40, 'a');
  EXPECT_EQ(run_bars(options, start), 0);
  std::ifstream file(options.json_path);
  const Json document = Json::parse(file);
  EXPECT_EQ(document["results"]["bars"][0]["name"], "ec_encode_4+2");
  EXPECT_EQ(document["results"]["mode"], "in_process");
  EXPECT_TRUE(std::filesystem::exists(kept));
  EXPECT_FALSE(std::filesystem::exists(folder + "/kvbench-1"));
  std::filesystem::remove_all(folder);
}

TEST(Bars, WhatIsNotWhollyDeclaredHasNoResult) {
  BarsOptions options;
  options.folder = testing::TempDir() + "/kvbench_bars_undeclared";
  options.only = {"ec_encode_4+2"};
  options.quick = true;
  options.rounds = 1;
  options.json_path = testing::TempDir() + "/kvbench_bars_undeclared.json";
  RunStart start;  // of no commit, no time, no command
  start.run_id = "1";
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_bars(options, start), 1);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_FALSE(std::filesystem::exists(options.json_path));
  std::filesystem::remove_all(options.folder);
}

TEST(Bars, AnUnknownBarIsWrongUse) {
  CLI::App app;
  BarsOptions options;
  add_bars(app, options);
  EXPECT_THROW(app.parse("bars no_such_bar"), CLI::ParseError);
  EXPECT_THROW(app.parse("bars --rounds 0"), CLI::ParseError);
}

}  // namespace
}  // namespace varve::kvbench
