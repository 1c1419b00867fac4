// The command line: every option arrives in its field, what is unknown is refused with a hint, and
// all that is wrong comes at once.
#include <gtest/gtest.h>

#include "server/config/setting.h"

namespace varve {
namespace {

template <size_t n>
CommandLine parse(const char* const (&arguments)[n]) {
  const char* argv[n + 1] = {"varved"};
  for (size_t i = 0; i < n; ++i)
    argv[i + 1] = arguments[i];
  return parse_command_line(static_cast<int>(n + 1), argv, version_text());
}

TEST(CommandLine, NothingMeansServeWithDefaults) {
  const char* argv[] = {"varved"};
  const CommandLine line = parse_command_line(1, argv, version_text());
  EXPECT_EQ(line.exit_code, -1) << line.text;
  EXPECT_TRUE(line.config.origins.empty() && line.problems.empty());
  EXPECT_EQ(line.config.listen, "127.0.0.1:7440");
  EXPECT_EQ(line.config.scheme, Scheme{});
}

TEST(CommandLine, EveryOptionArrivesInItsField) {
  const CommandLine line = parse({"--data",
                                  "d",
                                  "--listen",
                                  "127.0.0.1:1",
                                  "--token-file",
                                  "t",
                                  "--target",
                                  "x",
                                  "--target",
                                  "y",
                                  "--target-bytes",
                                  "2GiB",
                                  "--free-floor-bytes",
                                  "1MiB",
                                  "--dram-bytes=128MiB",
                                  "--storage-only",
                                  "--scheme",
                                  "4+2",
                                  "--shards",
                                  "3",
                                  "--io",
                                  "epoll",
                                  "--metrics-file",
                                  "m",
                                  "--drain-ms",
                                  "500",
                                  "--log-level",
                                  "warn",
                                  "--i-am-testing",
                                  "--fault-volatile-cache",
                                  "--fault-spill-per-mille",
                                  "7",
                                  "--fault-seed",
                                  "9",
                                  "--fault-ack-before-flush",
                                  "--fault-purge-before-flush",
                                  "--fault-stuck-target",
                                  "1",
                                  "--sessions",
                                  "300",
                                  "--scrub-interval-s=60",
                                  "--repair-mb-per-s=1",
                                  "--sibling-ms-max=1000",
                                  "--drain-target=x",
                                  "--create-targets",
                                  "--accept-stale",
                                  "--targets=2",
                                  "--config=f",
                                  "--control=127.0.0.1:2",
                                  "--control-token-file=ct",
                                  "--http=none",
                                  "--print-config"});
  ASSERT_EQ(line.exit_code, -1) << line.text;
  EXPECT_EQ(line.problems, std::vector<std::string>());
  const ServerConfig& c = line.config;
  EXPECT_EQ(c.data_dir, "d");
  EXPECT_EQ(c.listen, "127.0.0.1:1");
  EXPECT_EQ(c.token_file, "t");
  EXPECT_EQ(c.target_paths, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(c.target_bytes, 2 * kGiB);
  EXPECT_EQ(c.free_floor_bytes, kMiB);
  EXPECT_EQ(c.dram_bytes, 128 * kMiB);
  EXPECT_TRUE(c.storage_only);
  EXPECT_EQ(c.scheme, (Scheme{4, 2}));
  EXPECT_EQ(c.shards, 3u);
  EXPECT_EQ(c.io, IoSetting::kEpoll);
  EXPECT_EQ(c.metrics_file, "m");
  EXPECT_EQ(c.drain_ms, 500u);
  EXPECT_EQ(c.sessions, 300u);
  EXPECT_EQ(c.log_level, "warn");
  EXPECT_TRUE(c.testing && c.faults.volatile_cache && c.print_config);
  EXPECT_TRUE(c.faults.ack_before_flush && c.faults.purge_before_flush);
  EXPECT_EQ(c.faults.spill_per_mille, 7u);
  EXPECT_EQ(c.faults.seed, 9u);
  EXPECT_EQ(c.faults.stuck_target, 1u);
  EXPECT_EQ(c.scrub_interval_s, 60u);
  EXPECT_EQ(c.repair_mb_per_s, 1u);
  EXPECT_EQ(c.sibling_ms_max, 1000u);
  EXPECT_EQ(c.drain_targets, std::vector<std::string>{"x"});
  EXPECT_TRUE(c.create_targets && c.accept_stale);
  EXPECT_EQ(c.targets, 2u);
  EXPECT_EQ(c.config_file, "f");
  EXPECT_EQ(c.control, "127.0.0.1:2");
  EXPECT_EQ(c.control_token_file, "ct");
  EXPECT_EQ(c.http, "none");
  EXPECT_EQ(c.origins.size(), settings().size()) << "a setting is not in this test";
}

bool says(const CommandLine& line, const std::string& text) {
  for (const std::string& problem : line.problems) {
    if (problem.find(text) != std::string::npos) return true;
  }
  return false;
}

std::string all(const CommandLine& line) {
  std::string text;
  for (const std::string& problem : line.problems)
    text += problem + "\n";
  return text;
}

TEST(CommandLine, AMisspeltOptionGetsAHint) {
  EXPECT_EQ(all(parse({"--dram-byte", "1GiB"})),
            "--dram-byte is no option: did you mean --dram-bytes?\n");
  EXPECT_EQ(all(parse({"--dram-byte=1GiB", "start"})),
            "--dram-byte is no option: did you mean --dram-bytes?\n"
            "\"start\" is a stray word; settings begin with --\n");
  EXPECT_EQ(all(parse({"--gpu"})), "--gpu is no option\n");
}

// "Could not convert" helps nobody: the text says what a value looks like.
TEST(CommandLine, BadValuesSayWhatIsWanted) {
  const struct {
    const char* given;
    const char* said;
  } cases[] = {
      {"--target-bytes=10GB", "the unit of a size is KiB, MiB, GiB or TiB, as in 64MiB or 10GiB"},
      {"--dram-bytes=lots", "a size begins with a number"},
      {"--dram-bytes=1GB", "the unit of a size"},
      {"--free-floor-bytes=99999999999TiB", "over 2^64"},
      {"--shards=-1", "it must be a whole number (cores), 1 to 16"},
      {"--shards=many", "--shards: \"many\": it must be a whole number (cores), 1 to 16"},
      {"--targets=4294967296", "it must be a whole number (targets), 1 to 32"},
      {"--targets=-1", "a whole number"},
      {"--drain-ms=1s", "a whole number (ms), 100 to 600000"},
      {"--drain-ms=", "--drain-ms has no value; it must be a whole number (ms), 100 to 600000"},
      {"--drain-ms", "--drain-ms has no value"},
      {"--fault-seed=x", "a whole number"},
      {"--fault-seed=18446744073709551616", "a whole number"},
      {"--io=foo", "it must be auto, uring or epoll"},
      {"--io=kqueue", "it must be auto, uring or epoll"},
      {"--scheme=4", "it must be 1+0"},
      {"--scheme=04+2", "it must be 1+0"},
      {"--scheme=", "--scheme has no value"},
      {"--scheme=3+2", "\"3+2\": it must be 1+0, 1+1, 2+1, 3+1, 4+1, 4+2, 5+2 or 8+3"},
      {"--create-targets=perhaps", "it must be true or false"},
  };
  for (const auto& bad : cases) {
    const CommandLine line = parse({bad.given});
    EXPECT_TRUE(says(line, bad.said)) << bad.given << ": " << all(line);
    EXPECT_EQ(line.problems.size(), 1u) << all(line);
    EXPECT_EQ(line.config.unread.size(), 1u) << bad.given;
  }
  EXPECT_EQ(parse({"--fault-seed=18446744073709551615"}).config.faults.seed, ~uint64_t{0});
  EXPECT_FALSE(parse({"--create-targets=false"}).config.create_targets);
}

// A variable that is not set leaves an empty text, which must not take the next option for its own.
TEST(CommandLine, AnEmptyValueIsNoOtherOption) {
  const CommandLine line = parse({"--token-file=", "--sessions", "3", "--data", "--shards", "2"});
  EXPECT_EQ(line.config.token_file, "");
  EXPECT_TRUE(line.config.is_given("--token-file"));
  EXPECT_EQ(line.config.sessions, 3u);
  EXPECT_EQ(line.config.data_dir, "");
  EXPECT_EQ(line.config.shards, 2u);
  EXPECT_EQ(all(line), "");
}

TEST(CommandLine, OneValueIsOneValue) {
  EXPECT_EQ(all(parse({"--shards", "2", "--shards=3"})),
            "--shards is given 2 times; give it once\n");
  EXPECT_EQ(parse({"--target", "a", "b", "--target=c"}).config.target_paths.size(), 3u);
  EXPECT_TRUE(says(parse({"--shards", "2", "3"}), "\"3\" is a stray word"));
  EXPECT_TRUE(says(parse({"start"}), "\"start\" is a stray word"));
}

TEST(CommandLine, AllThatIsWrongComesAtOnce) {
  const CommandLine line = parse({"--shard", "1", "--io=x", "--drain-ms=1s", "go", "--scheme"});
  EXPECT_EQ(line.problems.size(), 5u) << all(line);
  std::vector<const char*> argv = {"varved"};
  for (int i = 0; i < 1000; ++i)
    argv.push_back("word");
  EXPECT_EQ(parse_command_line(static_cast<int>(argv.size()), argv.data(), version_text())
                .problems.size(),
            kProblemsMax);
}

TEST(CommandLine, HelpSaysEachSettingWithDefaultAndRange) {
  const std::string text = parse({"--help"}).text;
  for (const Setting& setting : settings()) {
    EXPECT_NE(text.find(setting.option), std::string::npos) << setting.option;
    if (setting.section[0] == '\0') continue;
    EXPECT_NE(text.find("[" + std::string(setting.section) + "]"), std::string::npos);
  }
  EXPECT_NE(text.find(": 1 to 4096 [256]"), std::string::npos) << text;
  EXPECT_NE(text.find("--dram-bytes SIZE"), std::string::npos) << text;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    EXPECT_LE(text.find('\n', at) - at, 104u) << text.substr(at, 104);
}

TEST(CommandLine, HelpAndVersionEndWell) {
  const CommandLine help = parse({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.text.find("--token-file"), std::string::npos);
  const CommandLine version = parse({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_NE(version.text.find("varved"), std::string::npos);
}

}  // namespace
}  // namespace varve
