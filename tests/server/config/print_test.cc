// What is printed says whence each value comes, and is a file that starts the same daemon (G4).
#include <gtest/gtest.h>

#include "server/config/setting.h"

namespace varve {
namespace {

ServerConfig config_of(std::vector<const char*> arguments, const std::string& file = "") {
  arguments.insert(arguments.begin(), {"varved", "--config=v.toml"});
  CommandLine line =
      parse_command_line(static_cast<int>(arguments.size()), arguments.data(), version_text());
  read_config(file, line.config, line.problems);
  settle(line.config, Machine{4, 8 * kGiB});
  EXPECT_EQ(line.problems, std::vector<std::string>());
  return line.config;
}

bool has_line(const std::string& text, const std::string& value, const std::string& origin) {
  std::string line = value;
  line.resize(std::max<size_t>(40, line.size()), ' ');
  return text.find("\n" + line + "  # " + origin + "\n") != std::string::npos;
}

TEST(Print, EachValueSaysWhereItComesFrom) {
  const std::string text =
      config_of({"--shards=2", "--io=epoll", "--accept-stale"},
                "[node]\nshards = 3\ndrain_ms = 500\n[session]\ntoken_file = 't'\n")
          .print();
  EXPECT_TRUE(has_line(text, "shards = 2", "command line, not v.toml:2")) << text;
  EXPECT_TRUE(has_line(text, "drain_ms = 500", "v.toml:3")) << text;
  EXPECT_TRUE(has_line(text, "io = \"epoll\"", "command line")) << text;
  EXPECT_TRUE(has_line(text, "token_file = \"t\"", "v.toml:5")) << text;
  EXPECT_TRUE(has_line(text, "targets = 4", "default")) << text;
  EXPECT_TRUE(has_line(text, "dram_bytes = \"1GiB\"", "derived from this machine")) << text;
  EXPECT_TRUE(has_line(text, "# --accept-stale", "command line")) << text;
  EXPECT_TRUE(has_line(text, "metrics_file = \"./varve-data/metrics.prom\"", "default")) << text;
  EXPECT_EQ(text.find("create-targets"), std::string::npos) << text;
  EXPECT_EQ(text.find("[testing]"), std::string::npos) << text;
  EXPECT_TRUE(has_line(config_of({}).print(), "# token_file: none", "default"));
  const std::string named = config_of({"--target=a", "--target=b"}).print();
  EXPECT_TRUE(has_line(named, "targets = 2", "as many as target names")) << named;
}

TEST(Print, TargetsAreShownAsTheyAre) {
  const ServerConfig config = config_of({});
  EXPECT_NE(
      config.print({400 * kMiB}).find("\n# target 0: ./varve-data/target-0.dat, 400MiB as it is\n"),
      std::string::npos);
  EXPECT_NE(config.print({0}).find("\n# target 0: ./varve-data/target-0.dat, to be created\n"),
            std::string::npos);
  EXPECT_NE(config_of({"--target=/dev/a"}).print().find("\n# target 0: /dev/a\n"),
            std::string::npos);
}

// Expect: read back, every setting has the value that it had.
TEST(Print, WhatIsPrintedStartsTheSameDaemon) {
  const std::vector<std::vector<const char*>> cases = {
      {},
      {"--data=/a \"b\" \\ \xc3\xa9\xf0\x9f\x98\x80", "--token-file=a\nb\x7f\x01", "--shards=3"},
      {"--target=/dev/a", "--target=b c", "--target=# x", "--scheme=1+1", "--drain-target=b c"},
      {"--dram-bytes=67108865", "--free-floor-bytes=0", "--scrub-interval-s=0", "--io=uring"},
      {"--i-am-testing", "--fault-volatile-cache", "--fault-seed=9223372036854775807",
       "--fault-stuck-target=3", "--fault-spill-per-mille=9", "--log-level=debug"},
  };
  for (const auto& arguments : cases) {
    const ServerConfig config = config_of(arguments);
    const ServerConfig again = config_of({}, config.print());
    for (const Setting& setting : settings()) {
      if (setting.option == std::string_view("--metrics-file")) continue;
      EXPECT_EQ(value_text(setting, again), value_text(setting, config)) << setting.option;
    }
    EXPECT_EQ(again.metrics_path(), config.metrics_path());
    EXPECT_EQ(again.problems(), config.problems());
  }
}

// A path may be any bytes, a file of settings may not: what it cannot say it does not hide.
TEST(Print, WhatNoFileCanSayIsSaidToBeMissing) {
  ServerConfig config = config_of({"--data=\xff", "--token-file=\xc3"});
  config.config_file = "\xfe";
  const std::string text = config.print();
  EXPECT_TRUE(is_utf8(text));
  EXPECT_TRUE(has_line(text, "# data: is not UTF-8, which a file must be", "command line")) << text;
  std::vector<std::string> problems;
  ServerConfig again;
  read_config(text, again, problems);
  EXPECT_TRUE(problems.empty()) << problems[0];
}

}  // namespace
}  // namespace varve
