// A quick run measures all four ceilings and declares itself validly; how fast is nobody's promise.
#include "tools/kvbench/ceiling.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

namespace varve::kvbench {
namespace {

RunStart start_of_test() {
  char name[] = "kvbench", command[] = "ceiling";
  char* arguments[] = {name, command};
  return RunStart::now(2, arguments, std::string(40, 'a'));
}

TEST(Ceiling, AQuickRunHasFourRatesAndAValidDeclaration) {
  CeilingOptions options;
  options.quick = true;
  options.layers = 2;
  options.folder = std::filesystem::read_symlink("/proc/self/exe").string() + ".ceiling";
  options.json_path = testing::TempDir() + "/kvbench_ceiling.json";
  ASSERT_EQ(run_ceiling(options, start_of_test()), 0);
  std::ifstream file(options.json_path);
  const Json document = Json::parse(file);
  EXPECT_EQ(document["reproduction_command"], "kvbench ceiling");
  for (const char* rate :
       {"socket_gb_per_s", "memcpy_gb_per_s", "drive_read_gb_per_s", "drive_write_gb_per_s"}) {
    EXPECT_EQ(document["results"]["rates"][rate]["rounds"].size(), 2u) << rate;
    EXPECT_GT(document["results"]["rates"][rate]["min"], 0) << rate;
  }
  EXPECT_GT(document["results"]["verified"]["bytes"], 0);
  EXPECT_TRUE(std::filesystem::is_empty(options.folder)) << "nothing of it stays";
  std::filesystem::remove_all(options.folder);
}

TEST(Ceiling, SetsThatAreNoWholeNumberOfRequestsAreMeasuredOrRefusedByAnError) {
  CeilingOptions options;
  options.blocks = options.layers = options.rounds = 1;
  options.depth = 3;
  options.folder = std::filesystem::read_symlink("/proc/self/exe").string() + ".odd";
  options.json_path = testing::TempDir() + "/kvbench_ceiling_odd.json";
  for (const uint32_t layer_kib : {64u, 768u}) {  // one request of 64 KiB; one run in one file
    options.layer_kib = layer_kib;
    ASSERT_EQ(run_ceiling(options, start_of_test()), 0) << layer_kib;
    std::ifstream file(options.json_path);
    const Json declared = Json::parse(file)["declaration"];
    EXPECT_EQ(declared["io[].queue_depth"]["nvme_local"]["total"], 3);
    EXPECT_EQ(declared["io[].block_bytes"]["nvme_local"]["max"], std::min(layer_kib, 256u) * 1024);
  }
  options.layer_kib = 320;
  EXPECT_EQ(run_ceiling(options, start_of_test()), 1);
  std::filesystem::remove_all(options.folder);
}

TEST(Ceiling, WhatCannotBeMeasuredHasNoResult) {
  CeilingOptions options;
  options.quick = true;
  options.layer_kib = 100;  // no multiple of 64
  EXPECT_EQ(run_ceiling(options, start_of_test()), 1);
  options.layer_kib = 256;
  options.folder = "/proc/kvbench";
  EXPECT_EQ(run_ceiling(options, start_of_test()), 1);
}

TEST(Ceiling, WrongUseIsRefused) {
  CLI::App app;
  CeilingOptions options;
  add_ceiling(app, options);
  EXPECT_THROW(app.parse("ceiling --rounds 0"), CLI::ParseError);
  EXPECT_THROW(app.parse("ceiling --no-such"), CLI::ParseError);
}

}  // namespace
}  // namespace varve::kvbench
