// A setting is read and written by its line of the table, the same way back and forth.
#include "server/config/setting.h"

#include <gtest/gtest.h>

namespace varve {
namespace {

const Setting& of(const char* option) {
  const Setting* setting = find_setting(option);
  EXPECT_NE(setting, nullptr) << option;
  return *setting;
}

TEST(Setting, WhatIsWrittenIsReadBack) {
  const struct {
    const char* option;
    const char* text;
    const char* toml;
  } cases[] = {
      {"--data", "/a \"b\"\\c\t\xc3\xa9", "\"/a \\\"b\\\"\\\\c\\u0009\xc3\xa9\""},
      {"--shards", "7", "7"},
      {"--fault-seed", "9223372036854775807", "9223372036854775807"},
      {"--dram-bytes", "65MiB", "\"65MiB\""},
      {"--scheme", "8+3", "\"8+3\""},
      {"--io", "uring", "\"uring\""},
      {"--i-am-testing", "true", "true"},
      {"--fault-stuck-target", "3", "3"},
      {"--target", "/dev/a", "[\"/dev/a\"]"},
  };
  for (const auto& given : cases) {
    ServerConfig config;
    EXPECT_EQ(read_value(of(given.option), given.text, config), "") << given.option;
    EXPECT_EQ(value_text(of(given.option), config), given.text);
    EXPECT_EQ(toml_text(of(given.option), config), given.toml);
  }
  ServerConfig config;
  for (const char* path : {"a", "b"})
    EXPECT_EQ(read_value(of("--target"), path, config), "");
  EXPECT_EQ(toml_text(of("--target"), config), "[\"a\", \"b\"]");
  EXPECT_EQ(value_text(of("--target"), config), "a, b");
}

TEST(Setting, WhatIsNotSetHasNoText) {
  for (const char* option : {"--token-file", "--target", "--fault-stuck-target", "--config"}) {
    EXPECT_EQ(value_text(of(option), ServerConfig()), "") << option;
    EXPECT_EQ(toml_text(of(option), ServerConfig()), "") << option;
    EXPECT_EQ(default_text(of(option)), "none") << option;
  }
  EXPECT_EQ(find_setting("--gpu"), nullptr);
}

TEST(Setting, PeopleAreToldDefaultRangeAndExample) {
  EXPECT_EQ(default_text(of("--drain-ms")), "10000");
  EXPECT_EQ(default_text(of("--shards")), "half of the cores");
  EXPECT_EQ(range_text(of("--drain-ms")), "100 to 600000");
  EXPECT_EQ(range_text(of("--target-bytes")), "400MiB to 256TiB");
  EXPECT_EQ(range_text(of("--repair-mb-per-s")), "1 to 100000, or 0: never");
  EXPECT_EQ(range_text(of("--io")), "auto, uring, epoll");
  EXPECT_EQ(range_text(of("--free-floor-bytes")), "");
  EXPECT_EQ(example_text(of("--target")), "target = [\"/a/path\"]");
  EXPECT_EQ(example_text(of("--dram-bytes")), "dram_bytes = \"64MiB\"");
  EXPECT_EQ(example_text(of("--free-floor-bytes")), "free_floor_bytes = \"2GiB\"");
  EXPECT_EQ(example_text(of("--fault-stuck-target")), "fault_stuck_target = 0");
}

TEST(Setting, TheNearestNameIsMeantAndNoOther) {
  const std::vector<std::string> names = {"shards", "sessions", "io"};
  EXPECT_EQ(nearest("shard", names), "shards");
  EXPECT_EQ(nearest("sesions", names), "sessions");
  EXPECT_EQ(nearest("gpu", names), "");
  EXPECT_EQ(nearest("uo", names), "io");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest(std::string(100000, 's'), names), "");  // and soon
}

TEST(Setting, Utf8IsToldFromWhatIsNone) {
  for (const char* good : {"", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad : {"\xff", "\xc3", "\xc0\x80", "\xe2\x82", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\x80"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
}

}  // namespace
}  // namespace varve
