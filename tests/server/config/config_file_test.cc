// A file of settings: each value arrives in its field, and whatever is wrong is said with its
// place.
#include <gtest/gtest.h>

#include "server/config/setting.h"

namespace varve {
namespace {

struct Read {
  ServerConfig config;
  std::vector<std::string> problems;
  std::string all() const {
    std::string text;
    for (const std::string& problem : problems)
      text += problem + "\n";
    return text;
  }
};

Read read(std::string_view text) {
  Read out;
  out.config.config_file = "v.toml";
  read_config(text, out.config, out.problems);
  return out;
}

TEST(ConfigFile, EverySettingArrivesInItsField) {
  const Read in = read(R"(
[node]
data = "/d"
shards = 3
io = "epoll"
drain_ms = 500
log_level = "warn"
[session]
listen = "127.0.0.1:1"
token_file = "t"
sessions = 300
[index]
sibling_ms_max = 1000
[tier]
dram_bytes = "128MiB"
storage_only = true
[target]
targets = 2
target = ["x", "y"]
target_bytes = 2_147_483_648
scheme = "4+2"
free_floor_bytes = 0
drain_target = ["y"]
[repair]
repair_mb_per_s = 0
scrub_interval_s = 60
[control]
control = "127.0.0.1:2"
control_token_file = "ct"
[monitor]
http = "none"
metrics_file = "m"
[testing]
i_am_testing = true
fault_volatile_cache = true
fault_spill_per_mille = 7
fault_seed = 9
fault_ack_before_flush = true
fault_purge_before_flush = true
fault_stuck_target = 1
)");
  EXPECT_EQ(in.all(), "");
  const ServerConfig& c = in.config;
  EXPECT_EQ(c.data_dir, "/d");
  EXPECT_EQ(c.shards, 3u);
  EXPECT_EQ(c.io, IoSetting::kEpoll);
  EXPECT_EQ(c.drain_ms, 500u);
  EXPECT_EQ(c.log_level, "warn");
  EXPECT_EQ(c.listen, "127.0.0.1:1");
  EXPECT_EQ(c.token_file, "t");
  EXPECT_EQ(c.sessions, 300u);
  EXPECT_EQ(c.sibling_ms_max, 1000u);
  EXPECT_EQ(c.dram_bytes, 128 * kMiB);
  EXPECT_TRUE(c.storage_only);
  EXPECT_EQ(c.targets, 2u);
  EXPECT_EQ(c.target_paths, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(c.target_bytes, 2 * kGiB);
  EXPECT_EQ(c.scheme, (Scheme{4, 2}));
  EXPECT_EQ(c.free_floor_bytes, 0u);
  EXPECT_EQ(c.drain_targets, std::vector<std::string>{"y"});
  EXPECT_EQ(c.repair_mb_per_s, 0u);
  EXPECT_EQ(c.scrub_interval_s, 60u);
  EXPECT_EQ(c.metrics_file, "m");
  EXPECT_EQ(c.control, "127.0.0.1:2");
  EXPECT_EQ(c.control_token_file, "ct");
  EXPECT_EQ(c.http, "none");
  EXPECT_TRUE(c.testing && c.faults.volatile_cache && c.faults.ack_before_flush);
  EXPECT_TRUE(c.faults.purge_before_flush);
  EXPECT_EQ(c.faults.spill_per_mille, 7u);
  EXPECT_EQ(c.faults.seed, 9u);
  EXPECT_EQ(c.faults.stuck_target, 1u);
  size_t in_files = 0;
  for (const Setting& setting : settings())
    in_files += setting.place == Place::kFile ? 1 : 0;
  EXPECT_EQ(c.origins.size(), in_files) << "a setting is not in this test";
  EXPECT_EQ(c.origin("--data")->line, 3u);
  EXPECT_EQ(c.origin("--data")->kind, Origin::Kind::kFile);
}

TEST(ConfigFile, AnEmptyFileAndDottedKeysAreFine) {
  EXPECT_EQ(read("").all(), "");
  EXPECT_EQ(read("\xef\xbb\xbf# only a remark\n[node]\n").all(), "");
  const Read in = read("node.shards = 2\nnode.io = 'uring'\r\n");
  EXPECT_EQ(in.all(), "");
  EXPECT_EQ(in.config.shards, 2u);
}

// Goal: the whole sentence. Each names place, key and remedy.
TEST(ConfigFile, WhatIsWrongIsSaidWithItsPlace) {
  const struct {
    const char* text;
    const char* said;
  } cases[] = {
      {"[node]\nshard = 2", "v.toml:2:1: [node] has no shard; did you mean shards?\n"},
      {"[node]\n  gpu = 2", "v.toml:2:3: [node] has no gpu\n"},
      {"[nodes]\nshards = 2", "v.toml:1:2: [nodes] is no section; did you mean [node]?\n"},
      {"[gpu]",
       "v.toml:1:2: [gpu] is no section; there are [node], [session], [index], [tier], [target], "
       "[repair], [control], [monitor], [testing]\n"},
      {"shards = 2", "v.toml:1:1: shards stands outside of its section, [node]\n"},
      {"[tier]\nshards = 2", "v.toml:2:1: shards stands in [tier]; its section is [node]\n"},
      {"node = 2",
       "v.toml:1:1: node is a number; it is the section [node], and its settings stand below that "
       "line\n"},
      {"[[node]]\nshards = 2",
       "v.toml:1:3: node is a list; it is the section [node], and its settings stand below that "
       "line\n"},
      {"[node]\nshards = '2'",
       "v.toml:2:10: [node] shards is a text; it must be a whole number (cores), 1 to 16, or 0: as "
       "by default, as in shards = 0\n"},
      {"[node]\nshards = -2",
       "v.toml:2:10: [node] shards is \"-2\"; it must be a whole number (cores), 1 to 16, or 0: as "
       "by default, as in shards = 0\n"},
      {"[node]\ndrain_ms = '10s'",
       "v.toml:2:12: [node] drain_ms is a text; it must be a whole number (ms), 100 to 600000, as "
       "in drain_ms = 10000\n"},
      {"[node]\ndrain_ms = 1.5",
       "v.toml:2:12: [node] drain_ms is a number with a fraction; it must be a whole number (ms), "
       "100 to 600000, as in drain_ms = 10000\n"},
      {"[node]\ndrain_ms = 4294967296",
       "v.toml:2:12: [node] drain_ms is \"4294967296\"; it must be a whole number (ms), 100 to "
       "600000, as in drain_ms = 10000\n"},
      {"[node]\ndrain_ms = 2020-01-01",
       "v.toml:2:12: [node] drain_ms is a date; it must be a whole number (ms), 100 to 600000, as "
       "in drain_ms = 10000\n"},
      {"[node.drain_ms]",
       "v.toml:1:1: [node] drain_ms is a section; it must be a whole number (ms), 100 to 600000, "
       "as "
       "in drain_ms = 10000\n"},
      {"[tier]\ndram_bytes = '1GB'",
       "v.toml:2:14: [tier] dram_bytes is \"1GB\"; the unit of a size is KiB, MiB, GiB or TiB, as "
       "in 64MiB or 10GiB, as in dram_bytes = \"64MiB\"\n"},
      {"[tier]\ndram_bytes = true",
       "v.toml:2:14: [tier] dram_bytes is true or false; it must be a size, 64MiB to 4TiB, or 0: "
       "as "
       "by default, as in dram_bytes = \"64MiB\"\n"},
      {"[node]\ndata = 7",
       "v.toml:2:8: [node] data is a number; it must be a text (folder), as in data = "
       "\"./varve-data\"\n"},
      {"[target]\ntarget = '/dev/a'",
       "v.toml:2:10: [target] target is a text; it must be a list of texts (path), as in target = "
       "[\"/a/path\"]\n"},
      {"[target]\ntarget = ['/dev/a', 3]",
       "v.toml:2:10: [target] target is a list; it must be a list of texts (path), as in target = "
       "[\"/a/path\"]\n"},
      {"[target]\ntarget = []",
       "v.toml:2:10: [target] target is an empty list; it must be a list of texts (path), as in "
       "target = [\"/a/path\"]\n"},
      {"[target]\nscheme = '3+2'",
       "v.toml:2:10: [target] scheme is \"3+2\"; it must be 1+0, 1+1, 2+1, 3+1, 4+1, 4+2, 5+2 or "
       "8+3, as in scheme = \"1+0\"\n"},
      {"[node]\nio = 'kqueue'",
       "v.toml:2:6: [node] io is \"kqueue\"; it must be auto, uring or epoll, as in io = "
       "\"auto\"\n"},
      {"[testing]\ni_am_testing = 'yes'",
       "v.toml:2:16: [testing] i_am_testing is a text; it must be true or false, as in "
       "i_am_testing "
       "= false\n"},
      {"[target]\naccept_stale = true",
       "v.toml:2:1: accept_stale is for one start; give --accept-stale on the command line\n"},
      {"[node]\nconfig = 'x'",
       "v.toml:2:1: config is for one start; give --config on the command line\n"},
  };
  for (const auto& bad : cases)
    EXPECT_EQ(read(bad.text).all(), bad.said) << bad.text;
}

TEST(ConfigFile, WhatIsNoTomlIsRefusedWithItsPlace) {
  for (const char* bad :
       {"[~", "[[[a]]]", "[node", "[node]\nshards = ", "[node]\nshards = 2\nshards = 3", "=",
        "\xff", "[node]\ndata = \"\xc0\x80\"", "[node]\n[node]\n", "a\x01 = 1"}) {
    const Read in = read(bad);
    ASSERT_EQ(in.problems.size(), 1u) << bad;
    EXPECT_EQ(in.problems[0].find("v.toml:"), 0u) << in.problems[0];
    EXPECT_NE(in.problems[0].find(": this is not TOML: "), std::string::npos) << in.problems[0];
  }
}

TEST(ConfigFile, AllThatIsWrongComesAtOnceInTheOrderOfTheFile) {
  const Read in = read("[tier]\ndram_bytes = 'x'\n[node]\nshards = 'x'\ndata = 1\nz = 1\n");
  ASSERT_EQ(in.problems.size(), 4u) << in.all();
  for (size_t i = 0; i < 4; ++i) {
    const char* line[] = {"v.toml:2:", "v.toml:4:", "v.toml:5:", "v.toml:6:"};
    EXPECT_EQ(in.problems[i].find(line[i]), 0u) << in.problems[i];
  }
  EXPECT_EQ(in.config.unread.size(), 3u);
}

TEST(ConfigFile, AListOfProblemsHasAnEnd) {
  std::string text = "[node]\n";
  for (int i = 0; i < 1000; ++i)
    text += "k" + std::to_string(i) + " = 1\n";
  const Read in = read(text);
  EXPECT_EQ(in.problems.size(), kProblemsMax + 1);
  EXPECT_EQ(in.problems.back(), "v.toml: 950 faults more");
}

// Expect: the command line wins, value by value, and it is remembered what it won over.
TEST(ConfigFile, TheCommandLineWins) {
  const char* argv[] = {"varved", "--config", "v.toml", "--shards=2", "--target", "z"};
  CommandLine line = parse_command_line(6, argv, version_text());
  read_config("[node]\nshards = 5\nio = 'epoll'\n[target]\ntarget = ['x', 'y']\n", line.config,
              line.problems);
  EXPECT_TRUE(line.problems.empty());
  EXPECT_EQ(line.config.shards, 2u);
  EXPECT_EQ(line.config.io, IoSetting::kEpoll);
  EXPECT_EQ(line.config.target_paths, std::vector<std::string>{"z"});
  EXPECT_EQ(line.config.origin("--shards")->kind, Origin::Kind::kCommandLine);
  EXPECT_EQ(line.config.origin("--shards")->line, 2u);
  EXPECT_EQ(line.config.origin("--io")->kind, Origin::Kind::kFile);
  // Expect: a wrong one is said though it is overruled.
  read_config("[node]\nshards = 'x'\n", line.config, line.problems);
  EXPECT_EQ(line.problems.size(), 1u);
  EXPECT_EQ(line.config.shards, 2u);
}

// A table is a level of recursion for each dot, so there must be an end to them.
TEST(ConfigFile, DepthIsBounded) {
  std::string dots = "a";
  for (int i = 0; i < 4096; ++i)
    dots += ".a";
  EXPECT_EQ(read(dots + " = 1").problems.size(), 1u);  // taken down without harm
  EXPECT_EQ(read(dots + ".a = 1").all(),
            "v.toml has more than 4096 dots; that is no file of settings\n");
  EXPECT_EQ(read("a = " + std::string(60000, '[')).problems.size(), 1u);
}

}  // namespace
}  // namespace varve
