// The command line: every option arrives in its field, and what is unknown is refused with a hint.
#include <gtest/gtest.h>

#include "server/config/config.h"

namespace varve {
namespace {

template <size_t n>
CommandLine parse(const char* const (&arguments)[n]) {
  const char* argv[n + 1] = {"varved"};
  for (size_t i = 0; i < n; ++i)
    argv[i + 1] = arguments[i];
  return parse_command_line(static_cast<int>(n + 1), argv);
}

TEST(CommandLine, NothingMeansServeWithDefaults) {
  const char* argv[] = {"varved"};
  const CommandLine line = parse_command_line(1, argv);
  EXPECT_EQ(line.exit_code, -1) << line.text;
  EXPECT_TRUE(line.config.from_command_line.empty());
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
                                  "--print-config"});
  ASSERT_EQ(line.exit_code, -1) << line.text;
  const ServerConfig& c = line.config;
  EXPECT_EQ(c.data_dir, "d");
  EXPECT_EQ(c.listen, "127.0.0.1:1");
  EXPECT_EQ(c.token_file, "t");
  EXPECT_EQ(c.target_paths, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(c.target_bytes, 2 * kGiB);
  EXPECT_EQ(c.free_floor_bytes, kMiB);
  EXPECT_EQ(c.dram_bytes, 128 * kMiB);
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
  EXPECT_EQ(c.from_command_line.size(), 22u);
}

TEST(CommandLine, AMisspeltOptionGetsAHint) {
  const CommandLine line = parse({"--dram-byte", "1GiB"});
  EXPECT_EQ(line.exit_code, kExitUsage);
  EXPECT_NE(line.text.find("--dram-byte"), std::string::npos) << line.text;
  EXPECT_NE(line.text.find("did you mean --dram-bytes?"), std::string::npos) << line.text;
}

TEST(CommandLine, BadValuesAreRefused) {
  for (const char* bad : {"--io=kqueue", "--scheme=4", "--scheme=04+2", "--scheme=",
                          "--dram-bytes=1GB", "--shards=many", "--targets=-1", "--drain-ms="}) {
    const CommandLine line = parse({bad});
    EXPECT_EQ(line.exit_code, kExitUsage) << bad;
    EXPECT_FALSE(line.text.empty()) << bad;
  }
}

// "Could not convert" helps nobody: the text says what a value looks like.
TEST(CommandLine, BadValuesSayWhatIsWanted) {
  const struct {
    const char* given;
    const char* said;
  } cases[] = {
      {"--target-bytes=10GB", "the unit of a size is KiB, MiB, GiB or TiB"},
      {"--dram-bytes=lots", "a size begins with a number"},
      {"--free-floor-bytes=99999999999TiB", "over 2^64"},
      {"--shards=-1", "a whole number from 0 to 4294967295"},
      {"--targets=4294967296", "a whole number from 0 to 4294967295"},
      {"--drain-ms=1s", "a whole number"},
      {"--fault-seed=x", "a whole number"},
      {"--fault-seed=18446744073709551616", "a whole number from 0 to 18446744073709551615"},
      {"--io=foo", "auto, uring or epoll"},
      {"--scheme=3+2", "\"3+2\": it must be 1+0, 1+1, 2+1, 3+1, 4+1, 4+2, 5+2 or 8+3"},
  };
  for (const auto& bad : cases) {
    const CommandLine line = parse({bad.given});
    EXPECT_EQ(line.exit_code, kExitUsage) << bad.given;
    EXPECT_NE(line.text.find(bad.said), std::string::npos) << bad.given << ": " << line.text;
    EXPECT_EQ(line.text.find("Could not convert"), std::string::npos) << line.text;
  }
}

TEST(CommandLine, StrayWordsAreRefused) {
  EXPECT_EQ(parse({"--fault-seed=18446744073709551615"}).config.faults.seed, ~uint64_t{0});
  EXPECT_EQ(parse({"start"}).exit_code, kExitUsage);
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
