// Settings: every bad value has its sentence, all problems come at once, sizes and tokens are
// exact.
#include "server/config/config.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

ServerConfig good() {
  ServerConfig config;
  settle(config, Machine{4, 8 * kGiB});
  return config;
}

bool mentions(const std::vector<std::string>& problems, const std::string& text) {
  for (const std::string& problem : problems) {
    if (problem.find(text) != std::string::npos) return true;
  }
  return false;
}

TEST(Config, DefaultsAreGoodOnASmallMachine) {
  ServerConfig config;
  settle(config, Machine{1, 200 * kMiB});
  EXPECT_TRUE(config.problems().empty());
  EXPECT_EQ(config.shards, 1u);
  EXPECT_EQ(config.dram_bytes, 64 * kMiB);
}

TEST(Config, DefaultDramIsAQuarterAndAtMostOneGiB) {
  ServerConfig small, large;
  settle(small, Machine{2, 2 * kGiB});
  settle(large, Machine{128, 512 * kGiB});
  EXPECT_EQ(small.dram_bytes, 512 * kMiB);
  EXPECT_EQ(large.dram_bytes, kGiB);
  EXPECT_EQ(small.shards, 1u);
  EXPECT_EQ(large.shards, 16u);
}

TEST(Config, EveryBadSettingHasItsSentence) {
  struct Case {
    const char* mentioned;
    void (*spoil)(ServerConfig&);
  };
  const Case cases[] = {
      {"--data is empty", [](ServerConfig& c) { c.data_dir = ""; }},
      {"--data has a control character", [](ServerConfig& c) { c.data_dir = "a\nb"; }},
      {"--config has a control character", [](ServerConfig& c) { c.config_file = "a\nb"; }},
      {"--data \" a\" begins with a blank; begin it with ./",
       [](ServerConfig& c) { c.data_dir = " a"; }},
      {"--target is empty",
       [](ServerConfig& c) {
         c.target_paths = {"a", "b", "c", ""};
       }},
      {"--target has a control character",
       [](ServerConfig& c) {
         c.target_paths = {"a", "b", "c", "d\x7f"};
       }},
      {"--target has a control character",
       [](ServerConfig& c) {
         c.target_paths = {"a", "b", "c", "\td"};
       }},
      {"--target \" d\" begins with a blank",
       [](ServerConfig& c) {
         c.target_paths = {"a", "b", "c", " d"};
       }},
      {"must be HOST:PORT", [](ServerConfig& c) { c.listen = "127.0.0.1"; }},
      {"must be HOST:PORT", [](ServerConfig& c) { c.listen = "127.0.0.1:70000"; }},
      {"must be HOST:PORT", [](ServerConfig& c) { c.listen = ":7440"; }},
      {"must be HOST:PORT", [](ServerConfig& c) { c.listen = "::1:0"; }},
      {"is not loopback, so a token is needed", [](ServerConfig& c) { c.listen = "0.0.0.0:7440"; }},
      {"--listen is \"none\"; it must be HOST:PORT", [](ServerConfig& c) { c.listen = "none"; }},
      {"--control is \"off\"; it must be HOST:PORT, like 127.0.0.1:7440 or [::1]:7440, or none",
       [](ServerConfig& c) { c.control = "off"; }},
      {"--http is \"\"; it must be HOST:PORT", [](ServerConfig& c) { c.http = ""; }},
      {"--control 0.0.0.0:7441 is not loopback, so a token is needed: give --control-token-file",
       [](ServerConfig& c) {
         c.control = "0.0.0.0:7441";
         c.token_file = "t";  // of clients: who uses the node does not operate it
       }},
      {"--control 127.0.0.1:7440 has the port of another listener",
       [](ServerConfig& c) { c.control = "127.0.0.1:7440"; }},
      {"--http [::1]:07441 has the port of another listener",
       [](ServerConfig& c) { c.http = "[::1]:07441"; }},
      {"is not loopback, so a token is needed",
       [](ServerConfig& c) { c.listen = "127.evil.example:1"; }},
      {"--targets is 0", [](ServerConfig& c) { c.targets = 0; }},
      {"--targets is 33", [](ServerConfig& c) { c.targets = 33; }},
      {"given 2 times but --targets is 4",
       [](ServerConfig& c) {
         c.target_paths = {"a", "b"};
       }},
      {"--target a is given twice",
       [](ServerConfig& c) {
         c.target_paths = {"a", "b", "c", "a"};
       }},
      {"--scheme 8+3 stores every block on at least 8 targets, but there are 4; give 11 or more",
       [](ServerConfig& c) {
         c.scheme = {8, 3};
       }},
      {"--target-bytes is 1MiB", [](ServerConfig& c) { c.target_bytes = kMiB; }},
      {"a multiple of 4KiB", [](ServerConfig& c) { c.target_bytes = kGiB + 1; }},
      {"--dram-bytes is 1MiB", [](ServerConfig& c) { c.dram_bytes = kMiB; }},
      {"--shards is 17", [](ServerConfig& c) { c.shards = 17; }},
      {"--drain-ms is 1", [](ServerConfig& c) { c.drain_ms = 1; }},
      {"--scrub-interval-s is 1", [](ServerConfig& c) { c.scrub_interval_s = 1; }},
      {"--repair-mb-per-s is 100001", [](ServerConfig& c) { c.repair_mb_per_s = 100001; }},
      {"--sibling-ms-max is 999", [](ServerConfig& c) { c.sibling_ms_max = 999; }},
      {"--log-level is \"loud\"", [](ServerConfig& c) { c.log_level = "loud"; }},
      {"--fault-seed is 9223372036854775808", [](ServerConfig& c) { c.faults.seed = 1ull << 63; }},
      {"--fault-spill-per-mille is 1001", [](ServerConfig& c) { c.faults.spill_per_mille = 1001; }},
      {"needs --fault-volatile-cache",
       [](ServerConfig& c) {
         c.faults.spill_per_mille = 5;
         c.testing = true;
       }},
      {"--drain-target ./varve-data/target-9.dat is no target of this node; it has "
       "./varve-data/target-0.dat, ",
       [](ServerConfig& c) { c.drain_targets = {"./varve-data/target-9.dat"}; }},
      {"--drain-target b is given twice",
       [](ServerConfig& c) {
         c.target_paths = {"a", "b", "c", "d"};
         c.drain_targets = {"b", "b"};
       }},
      {"leaves 3 targets, but scheme 4+1 puts a block on 5, so nothing could be moved; give 2",
       [](ServerConfig& c) {
         c.scheme = {4, 1};
         c.drain_targets = {"./varve-data/target-1.dat"};
       }},
      {"--drain-target is the work of repair",
       [](ServerConfig& c) {
         c.drain_targets = {"./varve-data/target-1.dat"};
         c.repair_mb_per_s = 0;
       }},
      {"need --i-am-testing", [](ServerConfig& c) { c.faults.ack_before_flush = true; }},
      {"need --i-am-testing", [](ServerConfig& c) { c.faults.purge_before_flush = true; }},
      {"need --i-am-testing", [](ServerConfig& c) { c.faults.stuck_target = 0; }},
      {"--fault-stuck-target is 4, but targets are numbered from 0 and there are 4",
       [](ServerConfig& c) {
         c.faults.stuck_target = 4;
         c.testing = true;
       }},
  };
  for (const Case& bad : cases) {
    ServerConfig config = good();
    bad.spoil(config);
    EXPECT_TRUE(mentions(config.problems(), bad.mentioned)) << bad.mentioned;
  }
}

TEST(Config, APathMayHaveBlanksInsideAndAnyLetters) {
  ServerConfig config = good();
  config.data_dir = "./ a folder";
  config.target_paths = {"/a b ", "b", "c\xc3\xa9", "d"};
  EXPECT_TRUE(config.problems().empty());
}

TEST(Config, AllProblemsComeAtOnce) {
  ServerConfig config = good();
  config.targets = 0;
  config.shards = 99;
  config.drain_ms = 0;
  EXPECT_EQ(config.problems().size(), 3u);
}

TEST(Config, ScrubWithoutAPauseIsForTests) {
  ServerConfig config = good();
  config.scrub_interval_s = 1;
  EXPECT_FALSE(config.problems().empty());
  config.testing = true;
  EXPECT_TRUE(config.problems().empty());
}

TEST(Config, FaultsWithTheirConsentAreGood) {
  ServerConfig config = good();
  config.faults.volatile_cache = true;
  config.faults.spill_per_mille = 20;
  config.faults.stuck_target = 3;
  config.testing = true;
  EXPECT_TRUE(config.problems().empty());
}

TEST(Config, TargetsAreDrainedByThePathThatTheyHave) {
  ServerConfig config = good();
  EXPECT_FALSE(config.drains(0));
  config.drain_targets = {"./varve-data/target-3.dat"};
  config.scheme = {2, 1};
  EXPECT_TRUE(config.problems().empty());
  EXPECT_TRUE(config.drains(3) && !config.drains(2));
  config.target_paths = {"/dev/a", "/dev/b", "/dev/c", "/dev/d"};
  config.drain_targets = {"/dev/b"};
  EXPECT_TRUE(config.problems().empty());
  EXPECT_TRUE(config.drains(1) && !config.drains(3));
}

// Expect: off, of any free port, or beyond loopback where that harms nobody.
TEST(Config, ListenersMayBeOffOrAnywhereWithTheirToken) {
  ServerConfig config = good();
  config.control = config.http = "none";
  EXPECT_TRUE(config.problems().empty());
  config.listen = config.control = config.http = "127.0.0.1:0";
  EXPECT_TRUE(config.problems().empty());
  config.http = "0.0.0.0:7442";
  config.control = "0.0.0.0:7441";
  config.control_token_file = "t";
  EXPECT_TRUE(config.problems().empty());
}

// A variable that is not set must not switch the token off.
TEST(Config, AnEmptyFileNameIsNoSetting) {
  ServerConfig config = good();
  EXPECT_TRUE(config.problems().empty());
  config.origins = {{"--token-file"}, {"--metrics-file"}, {"--config"}};
  const std::vector<std::string> problems = config.problems();
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(problems[2].find("--config is empty"), 0u) << problems[2];
  EXPECT_EQ(problems[0].find("--token-file is empty"), 0u) << problems[0];
  EXPECT_EQ(problems[1].find("--metrics-file is empty"), 0u) << problems[1];
}

// Without parity there is no repair, and what a drain moves borrows of the cache when it does.
TEST(Config, WithoutParityNothingIsSetAsideForMoving) {
  ServerConfig config = good();
  config.drain_targets = {"./varve-data/target-3.dat"};
  const ShardSizes sizes = shard_sizes(config, 4 * kGiB);
  EXPECT_EQ(sizes.repair_bytes, 0u);
  EXPECT_EQ(sizes.resident_bytes, sizes.arena_bytes - 2 * sizes.push_bytes);
  EXPECT_GE(sizes.resident_bytes, sizes.push_bytes) << "the largest block can be borrowed";
}

// Expect: where repair is off the cache has what it would take.
TEST(Config, WithoutARateNothingIsSetAsideForRepair) {
  for (const bool storage_only : {false, true}) {
    for (const Scheme scheme : {Scheme{2, 1}, Scheme{1, 0}}) {
      ServerConfig config = good();
      config.scheme = scheme;
      config.storage_only = storage_only;
      const ShardSizes with = shard_sizes(config, 4 * kGiB);
      config.repair_mb_per_s = 0;
      const ShardSizes without = shard_sizes(config, 4 * kGiB);
      EXPECT_EQ(without.repair_bytes, 0u);
      EXPECT_EQ(without.push_bytes, with.push_bytes);
      if (storage_only) continue;
      EXPECT_EQ(without.resident_bytes, with.resident_bytes + with.repair_bytes);
    }
  }
}

// Goal: a rate of storage alone differs from the other by the cache, not by the room at work.
TEST(Config, StorageOnlyKeepsNothingAndLeavesTheRoomOfWhatIsAtWork) {
  ServerConfig config = good();
  const ShardSizes cached = shard_sizes(config, 4 * kGiB);
  EXPECT_GT(cached.resident_bytes, 0u);
  config.storage_only = true;
  const ShardSizes sizes = shard_sizes(config, 4 * kGiB);
  EXPECT_EQ(sizes.resident_bytes, 0u);
  EXPECT_EQ(sizes.push_bytes, cached.push_bytes);
  EXPECT_EQ(sizes.pull_bytes, cached.pull_bytes);
  EXPECT_EQ(sizes.repair_bytes, sizes.push_bytes) << "there is no cache that a drain could borrow";
  config.scheme = {2, 1};
  const uint64_t own_bytes = shard_sizes(config, 4 * kGiB).repair_bytes;
  config.storage_only = false;
  EXPECT_EQ(own_bytes, shard_sizes(config, 4 * kGiB).repair_bytes) << "it has what it needs";
}

TEST(Config, NamedTargetsCountThemselves) {
  ServerConfig config;
  config.target_paths = {"/dev/a", "/dev/b"};
  settle(config, Machine{4, kGiB});
  EXPECT_EQ(config.targets, 2u);
  EXPECT_EQ(config.target_path(1), "/dev/b");
  EXPECT_TRUE(config.problems().empty());
}

// A container that is given less than the settings promise is killed without a word.
TEST(Config, MemoryThatIsNotThereIsNamedWithNumbers) {
  ServerConfig config = good();
  config.dram_bytes = kGiB;
  const std::string text = memory_problem(config, Machine{1, 250 * kMiB, 300 * kMiB}, 2 * kGiB);
  for (const char* said : {"--dram-bytes is 1GiB", "250 MiB", "300 MiB", "lower --dram-bytes"})
    EXPECT_NE(text.find(said), std::string::npos) << text;
  EXPECT_EQ(memory_problem(config, Machine{1, 64 * kGiB, 0}, 2 * kGiB), "");
  // Expect: drives that are there count, whatever --target-bytes says.
  EXPECT_NE(memory_problem(config, Machine{1, 64 * kGiB, 0}, 32768 * kGiB), "");
  EXPECT_EQ(memory_problem(config, Machine{1, 0, 0}, 32768 * kGiB), "");  // unknown
  // Expect: just what it needs is enough.
  const uint64_t need = memory_need(config, 4096 * kGiB);
  EXPECT_EQ(memory_problem(config, Machine{1, need, 0}, 4096 * kGiB), "");
  EXPECT_NE(memory_problem(config, Machine{1, need - 1, 0}, 4096 * kGiB), "");
}

TEST(Config, TheDefaultsFitASmallContainer) {
  ServerConfig config;
  const Machine machine{1, 290 * kMiB, 300 * kMiB};
  settle(config, machine);
  EXPECT_EQ(memory_problem(config, machine, config.targets * config.target_bytes), "");
  ServerConfig tiny;
  settle(tiny, Machine{1, 100 * kMiB, 100 * kMiB});
  EXPECT_NE(memory_problem(tiny, Machine{1, 100 * kMiB, 100 * kMiB}, 4 * kGiB), "");
}

TEST(Config, DescriptorsGrowWithTargetsShardsAndSessions) {
  ServerConfig config = good();
  config.sessions = 1;
  const DescriptorNeed one = descriptor_need(config);
  config.sessions = 64;
  const DescriptorNeed many = descriptor_need(config);
  EXPECT_EQ(one.least, many.least);
  EXPECT_GE(many.full - many.least, 64u * 5);
  config.targets += 1;
  EXPECT_EQ(descriptor_need(config).least, one.least + config.shards);
  // Connections of operators and probes have their own.
  config = good();
  const uint64_t all = descriptor_need(config).least;
  config.control = kNoListener;
  EXPECT_EQ(descriptor_need(config).least, all - kControlConnectionsMax);
  config.http = kNoListener;
  EXPECT_EQ(descriptor_need(config).least, all - kControlConnectionsMax - kHttpConnectionsMax);
}

// Expect: what stands in a file is named as it stands there, and what could not be read has no
// consequences to complain of.
TEST(Config, AProblemNamesThePlaceOfItsSetting) {
  ServerConfig config = good();
  config.config_file = "v.toml";
  config.origins = {{"--drain-ms", Origin::Kind::kFile, 7}, {"--sessions"}};
  config.drain_ms = 1;
  config.sessions = 0;
  const std::vector<std::string> problems = config.problems();
  EXPECT_TRUE(mentions(problems, "v.toml:7: drain_ms is 1; it must be 100 to 600000"));
  EXPECT_TRUE(mentions(problems, "--sessions is 0; it must be 1 to 4096"));
  config = good();
  config.drain_targets = {"nowhere"};
  EXPECT_FALSE(config.problems().empty());
  config.unread = {"--target"};
  EXPECT_TRUE(config.problems().empty());
}

TEST(Config, WhatIsDerivedSaysSo) {
  ServerConfig config;
  config.target_paths = {"a", "b"};
  config.origins = {{"--target"}, {"--shards"}};  // as 0
  settle(config, Machine{4, 8 * kGiB});
  EXPECT_EQ(config.origin("--shards")->kind, Origin::Kind::kMachine);
  EXPECT_EQ(config.origin("--dram-bytes")->kind, Origin::Kind::kMachine);
  EXPECT_EQ(config.origin("--targets")->kind, Origin::Kind::kTargetList);
  EXPECT_TRUE(config.is_given("--target") && !config.is_given("--shards"));
  EXPECT_EQ(config.origin("--io"), nullptr);
  EXPECT_EQ(config.origins.size(), 4u);
}

TEST(Config, BudgetsOfAShardNeverExceedItsArena) {
  for (const uint64_t dram : {64 * kMiB, 100 * kMiB + 12345, 4 * kGiB}) {
    for (const uint32_t shards : {1u, 3u, 16u}) {
      ServerConfig config = good();
      config.dram_bytes = dram;
      config.shards = shards;
      const ShardSizes sizes = shard_sizes(config, 4 * kGiB);
      EXPECT_LE(sizes.arena_bytes * shards, dram);
      EXPECT_EQ(sizes.arena_bytes % kPageBytes, 0u);
      EXPECT_EQ(sizes.repair_bytes, 0u);
      EXPECT_LE(sizes.push_bytes + sizes.pull_bytes + sizes.resident_bytes, sizes.arena_bytes);
      config.scheme = {2, 1};
      const ShardSizes coded = shard_sizes(config, 4 * kGiB);
      EXPECT_GE(coded.repair_bytes, std::min(coded.push_bytes / 2, kBlockBytesMax));
      EXPECT_LE(coded.repair_bytes, coded.push_bytes);
      EXPECT_EQ(coded.repair_bytes % kPageBytes, 0u);
      EXPECT_LE(coded.push_bytes + coded.pull_bytes + coded.repair_bytes + coded.resident_bytes,
                coded.arena_bytes);
      EXPECT_GT(sizes.push_bytes, 0u);
      EXPECT_GE(sizes.index_blocks_max, 16384u);
      EXPECT_GE(sizes.dram_blocks_max, 512u);
    }
  }
}

// With half the shards as much is found again at the next start.
TEST(Config, TheIndexHasAsMuchRoomWhateverTheShards) {
  ServerConfig config = good();
  for (const uint64_t flash : {uint64_t{64}, uint64_t{4096}, uint64_t{64 * 1024}}) {
    uint64_t blocks[2];
    for (uint32_t i = 0; i < 2; ++i) {
      config.shards = i == 0 ? 1 : 16;
      blocks[i] = uint64_t{config.shards} * shard_sizes(config, flash * kGiB).index_blocks_max;
    }
    EXPECT_EQ(blocks[0], blocks[1]) << flash;
  }
}

// What the flash can hold is fragments; a block has as many as its scheme says.
TEST(Config, TheIndexNamesAsManyBlocksAsTheirFragmentsFitTheFlash) {
  ServerConfig config = good();
  config.shards = 1;
  EXPECT_EQ(shard_sizes(config, 64 * kGiB).index_blocks_max, 2u << 20);
  config.scheme = {4, 2};
  EXPECT_EQ(shard_sizes(config, 64 * kGiB).index_blocks_max, (2u << 20) / 6);
  // Expect: fewer blocks need less memory; 96 bytes a fragment of 1+0, 29 of 4+2.
  const Machine machine{1, kGiB + 300 * kMiB, 0};
  config.targets = 6;
  config.dram_bytes = kGiB;
  EXPECT_EQ(memory_problem(config, machine, 64 * kGiB), "");
  config.scheme = {1, 0};
  EXPECT_NE(memory_problem(config, machine, 64 * kGiB), "");
}

// Fewer targets than fragments: that is stored thin, and said at start. With fewer than k nothing
// can be stored at all.
TEST(Config, ASchemeNeedsAtLeastItsDataTargets) {
  ServerConfig config = good();
  for (const Scheme scheme : kSchemes) {
    config.scheme = scheme;
    config.targets = scheme.k;
    EXPECT_TRUE(config.problems().empty()) << scheme.text();
    config.targets = scheme.k - 1;
    EXPECT_EQ(config.problems().size(), 1u) << scheme.text();
  }
}

TEST(Config, SizesAreExact) {
  EXPECT_EQ(*parse_bytes("4096"), 4096u);
  EXPECT_EQ(*parse_bytes("16KiB"), 16 * kKiB);
  EXPECT_EQ(*parse_bytes("64MiB"), 64 * kMiB);
  EXPECT_EQ(*parse_bytes("2TiB"), 2048 * kGiB);
  for (const char* bad :
       {"", "MiB", "1GB", "1.5GiB", "-1", "18446744073709551616", "99999999999TiB", "1 MiB"}) {
    EXPECT_FALSE(parse_bytes(bad).has_value()) << bad;
  }
  EXPECT_EQ(bytes_text(3 * kGiB), "3GiB");
  EXPECT_EQ(bytes_text(kGiB + kMiB), "1025MiB");
  EXPECT_EQ(bytes_text(2048 * kGiB), "2TiB");
  EXPECT_EQ(bytes_text(1), "1B");
}

TEST(Config, LoopbackIsRecognised) {
  for (const char* address : {"127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:7440"}) {
    EXPECT_TRUE(is_loopback(address)) << address;
  }
  for (const char* address :
       {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "127.evil.example:1", "localhost.evil:1"}) {
    EXPECT_FALSE(is_loopback(address)) << address;
  }
}

TEST(Config, ATokenIsOneOfPrintableCharacters) {
  const std::string token = "0123456789abcdef";
  EXPECT_EQ(*token_of_file(token + "\n"), token);
  EXPECT_EQ(token_of_file("short").error().code(), Code::kInvalid);
  EXPECT_EQ(token_of_file(std::string(257, 'x')).error().code(), Code::kInvalid);
  EXPECT_EQ(token_of_file("0123456789 abcdef").error().code(), Code::kInvalid);
}

}  // namespace
}  // namespace varve
