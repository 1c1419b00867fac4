// Wrong use is refused before anything runs: no assertion, no run whose result has no place.
#include "tools/kvbench/options.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

namespace varve::kvbench {
namespace {

TEST(Options, ANumberIsFiniteAndWithinItsBounds) {
  for (const char* text : {"1", "0.001", "1e6", "1000000"})
    EXPECT_EQ(problem_of_number(text, 0.001, 1e6), "") << text;
  for (const char* text : {"nan", "-nan", "inf", "-inf", "1e308", "1e999", "-0", "0", "-1", "", "x",
                           "1x", "1 2", "0.0009"})
    EXPECT_NE(problem_of_number(text, 0.001, 1e6), "") << text;
}

TEST(Options, WhatCannotBeWrittenIsKnownBeforeAndNothingIsMade) {
  const std::string there = testing::TempDir() + "/kvbench_options_there.json";
  const std::string to_come = testing::TempDir() + "/kvbench_options_to_come.json";
  std::ofstream(there) << "{}";
  std::filesystem::remove(to_come);
  EXPECT_EQ(problem_of_output(there), "");
  EXPECT_EQ(problem_of_output(to_come), "");
  EXPECT_FALSE(std::filesystem::exists(to_come));
  EXPECT_EQ(problem_of_output("a_name_without_a_folder.json"), "");
  for (const std::string& path : {std::string(), testing::TempDir(), std::string("/no/such/x"),
                                  there + "/x", std::string("/proc/x/y")})
    EXPECT_NE(problem_of_output(path), "") << path;
}

TEST(Options, ADescriptionAndATraceAreRegularFiles) {
  const std::string good = testing::TempDir() + "/kvbench_options_good.json";
  const std::string pipe = testing::TempDir() + "/kvbench_options_pipe";
  std::ofstream(good) << "{\"nodes\": 1}";
  ::unlink(pipe.c_str());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(problem_of_hardware(good), "");
  EXPECT_EQ(problem_of_trace(good), "");
  EXPECT_EQ(problem_of_trace(testing::TempDir()), "");
  for (const std::string& path : {std::string("/dev/zero"), pipe, std::string("/no/such/x")}) {
    EXPECT_NE(problem_of_hardware(path), "") << path;
    EXPECT_NE(problem_of_trace(path), "") << path;
  }
  EXPECT_NE(problem_of_hardware(testing::TempDir()), "");
}

TEST(Options, TheDocumentsOptionsAreChecked) {
  CLI::App app;
  std::string json_path, hardware_path;
  add_document_options(app, json_path, hardware_path);
  EXPECT_THROW(app.parse("--hardware /dev/zero"), CLI::ParseError);
  EXPECT_THROW(app.parse("--json /no/such/x"), CLI::ParseError);
  EXPECT_THROW(app.parse(std::vector<std::string>{"", "--json"}), CLI::ParseError);
  app.parse("--json a_name.json");
  EXPECT_EQ(json_path, "a_name.json");
}

}  // namespace
}  // namespace varve::kvbench
