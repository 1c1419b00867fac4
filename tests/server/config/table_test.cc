// The table against itself and against the two texts that people read: the settings of
// docs/OPERATIONS.md and the example of a file, deploy/systemd/varved.toml. Both are what this test
// writes from the table, and so is the manual's table of sizes from what varved reckons with; where
// they differ it says where the right text lies.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>

#include "server/config/setting.h"

namespace varve {
namespace {

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path << " (tests run in the root of the tree)";
  return {std::istreambuf_iterator<char>(file), {}};
}

// Keeps the text where it can be copied from.
std::string kept(const char* name, const std::string& text) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path) << text;
  return "it must be as in " + path;
}

bool is_for_people(const Setting& setting) {
  return setting.section[0] != '\0' && setting.section != std::string_view("testing");
}

TEST(Table, EachSettingStandsThereOnceAndWhole) {
  std::set<std::string> options, sections;
  std::string section;
  for (const Setting& setting : settings()) {
    EXPECT_TRUE(options.insert(setting.option).second) << setting.option;
    EXPECT_EQ(std::string(setting.option).substr(0, 2), "--");
    EXPECT_NE(std::string(setting.help), "") << setting.option;
    EXPECT_EQ(is_for_people(setting) && setting.reason[0] == '\0', false) << setting.option;
    if (section != setting.section) {  // a section is in one piece
      section = setting.section;
      EXPECT_TRUE(sections.insert(section).second) << section;
    }
    ServerConfig config;
    const Field field = setting.field(config);
    const bool number = std::holds_alternative<uint32_t*>(field) ||
                        std::holds_alternative<uint64_t*>(field) ||
                        std::holds_alternative<SizeField>(field);
    EXPECT_EQ(number || std::holds_alternative<TargetField>(field), setting.high > 0)
        << setting.option << " is a number without limits, or has limits and is none";
    EXPECT_EQ(std::holds_alternative<bool*>(field), setting.unit[0] == '\0') << setting.option;
    EXPECT_LE(setting.low, setting.high) << setting.option;
  }
}

// Expect: no two settings share a field: each value that is read changes its own and no other.
TEST(Table, EachSettingHasAFieldOfItsOwn) {
  ServerConfig config;
  std::set<const void*> fields;
  for (const Setting& setting : settings()) {
    const void* at = std::visit(
        [](auto field) -> const void* {
          if constexpr (std::is_same_v<decltype(field), SizeField>)
            return field.bytes;
          else if constexpr (std::is_same_v<decltype(field), TargetField>)
            return field.index;
          else
            return field;
        },
        setting.field(config));
    EXPECT_TRUE(fields.insert(at).second) << setting.option;
  }
}

TEST(Table, EachLimitRefusesWhatIsBeyondIt) {
  for (const Setting& setting : settings()) {
    ServerConfig config;
    settle(config, Machine{4, 8 * kGiB});
    ASSERT_TRUE(config.problems().empty());
    if (setting.high == 0 || setting.high == kNoLimit) continue;
    for (const uint64_t value : {setting.low - 1, setting.high + 1}) {
      if (value > setting.high + 1) continue;  // below 0
      ServerConfig beyond = config;
      ASSERT_EQ(read_value(setting, std::to_string(value), beyond), "") << setting.option;
      const std::vector<std::string> problems = beyond.problems();
      const bool never = value == 0 && setting.zero != nullptr && setting.derived == nullptr;
      EXPECT_EQ(problems.empty(), never) << setting.option << " " << value;
    }
  }
}

std::string table_text() {
  std::string out =
      "| setting | default | range | what it is; why its default |\n|---|---|---|---|\n";
  std::string section;
  for (const Setting& setting : settings()) {
    if (!is_for_people(setting)) continue;
    if (section != setting.section) {
      section = setting.section;
      out += "| **`[" + section + "]`** | | | |\n";
    }
    const bool flag = setting.unit[0] == '\0';
    out += std::string("| `") + setting.option + (flag ? "" : " " + std::string(setting.unit)) +
           "` | " + (flag ? "off" : default_text(setting)) + " | " + range_text(setting) + " | " +
           setting.help + (setting.place == Place::kCommandLine ? "; not in a file" : "") + ". *" +
           setting.reason + "* |\n";
  }
  return out;
}

// What stands in the manual between this mark and the next end.
std::string marked(const std::string& mark) {
  const std::string text = read_all("docs/OPERATIONS.md");
  const std::string begin = "<!-- " + mark + " -->\n", end = "<!-- end -->";
  const size_t from = text.find(begin);
  EXPECT_NE(from, std::string::npos) << mark;
  if (from == std::string::npos) return {};
  return text.substr(from + begin.size(), text.find(end, from) - from - begin.size());
}

TEST(Table, TheDocumentSaysTheSame) {
  EXPECT_TRUE(marked("of server/config/table.cc") == table_text())
      << kept("settings.md", table_text());
}

struct NodeSize {
  uint32_t targets = 0;
  const char* drive = "";
  uint64_t drive_bytes = 0;
  const char* scheme = "";
  uint32_t shards = 0;
};
// Drives have the sizes that are sold.
constexpr NodeSize kNodeSizes[] = {
    {4, "1 GiB (the default)", kGiB, "1+0", 2},  {4, "960 GB", 960197124096, "1+0", 4},
    {4, "3.84 TB", 3840755982336, "1+0", 8},     {4, "3.84 TB", 3840755982336, "2+1", 8},
    {8, "3.84 TB", 3840755982336, "4+2", 16},    {8, "7.68 TB", 7681501126656, "4+2", 16},
    {12, "15.36 TB", 15362991415296, "8+3", 16},
};

std::string sizes_text() {
  std::string out =
      "| targets | `--scheme` | `--shards` | memory beside `--dram-bytes` | descriptors |\n"
      "|---|---|--:|--:|--:|\n";
  for (const NodeSize& size : kNodeSizes) {
    ServerConfig config;
    config.targets = size.targets;
    config.scheme = *Scheme::parse(size.scheme);
    config.shards = size.shards;
    char memory[32];
    std::snprintf(memory, sizeof(memory), "%.1f GiB",
                  static_cast<double>(memory_need(config, size.targets * size.drive_bytes)) / kGiB);
    out += "| " + std::to_string(size.targets) + " of " + size.drive + " | " + size.scheme + " | " +
           std::to_string(size.shards) + " | " + memory + " | " +
           std::to_string(descriptor_need(config).full) + " |\n";
  }
  return out;
}

TEST(Table, TheDocumentSaysWhatNodesTake) {
  EXPECT_TRUE(marked("of memory_need() and descriptor_need()") == sizes_text())
      << kept("sizes.md", sizes_text());
}

// As a heading is named in a link to it.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char letter : heading) {
    if (letter == ' ' || letter == '-') anchor += '-';
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0) {
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
  }
  return anchor;
}

TEST(Table, TheDocumentListsItsChapters) {
  const std::string text = read_all("docs/OPERATIONS.md");
  std::string contents;
  for (size_t at = 0; (at = text.find("\n## ", at)) != std::string::npos; at += 4) {
    const size_t from = at + 4;
    const std::string heading = text.substr(from, text.find('\n', from) - from);
    contents += (contents.empty() ? "[" : ",\n[") + heading + "](#" + anchor_of(heading) + ")";
  }
  contents += "\n";
  EXPECT_TRUE(marked("contents") == contents) << kept("contents.md", contents);
}

std::string wrapped(const std::string& text) {
  std::string out, line = "#";
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (line.size() + 1 + end - at > 100) {
      out += line + "\n";
      line = "#";
    }
    line += " " + text.substr(at, end - at);
    at = end + 1;
  }
  return out + line + "\n";
}

// Where the service keeps what it owns: StateDirectory of varved.service.
constexpr const char* kDeployedData = "data = \"/var/lib/varve\"";

std::string example_file() {
  std::string out =
      "# Settings of varved: what each is, its range, its default and why. Lines that are not\n"
      "# commented out differ from the default. What counts: varved --config THIS --print-config.\n"
      "# Written from server/config/table.cc, which a test compares; docs/OPERATIONS.md says "
      "more.\n";
  std::string section;
  for (const Setting& setting : settings()) {
    if (!is_for_people(setting) || setting.place == Place::kCommandLine) continue;
    if (section != setting.section) {
      section = setting.section;
      out += "\n[" + section + "]\n";
    }
    const std::string range = range_text(setting);
    out += "\n" + wrapped(setting.help + (range.empty() ? "" : ": " + range) +
                          ". Default: " + default_text(setting) + " (" + setting.reason + ").");
    const bool data = setting.option == std::string_view("--data");
    out += data ? std::string(kDeployedData) + "\n" : "# " + example_text(setting) + "\n";
  }
  return out;
}

TEST(Table, TheExampleOfAFileSaysTheSame) {
  EXPECT_TRUE(read_all("deploy/systemd/varved.toml") == example_file())
      << kept("varved.toml", example_file());
}

// Expect: it starts a daemon as it is, and as well with every line of it in force.
TEST(Table, TheExampleOfAFileIsGood) {
  const std::string text = read_all("deploy/systemd/varved.toml");
  std::string whole;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    std::string line = text.substr(at, end - at);
    if (line.find(" = ") != std::string::npos && line.rfind("# ", 0) == 0 &&
        line.find(' ', 2) == line.find(" = ")) {
      line = line.substr(2);
    }
    whole += line + "\n";
    at = end + 1;
  }
  for (const bool all : {false, true}) {
    ServerConfig config;
    std::vector<std::string> problems;
    read_config(all ? whole : text, config, problems);
    EXPECT_EQ(problems, std::vector<std::string>());
    EXPECT_EQ(config.data_dir, "/var/lib/varve");
    EXPECT_EQ(config.origins.size() == 1, !all) << config.origins.size();
    EXPECT_EQ(config.origins.size() > 15, all) << config.origins.size();
    settle(config, Machine{4, 8 * kGiB});
    config.drain_targets.clear();  // "/a/path" is an example of one
    config.target_paths.clear();
    EXPECT_EQ(config.problems(), std::vector<std::string>());
  }
}

// A stop that systemd cuts short is a kill: the unit must wait for longer than the daemon may take.
TEST(Table, TheServiceWaitsForTheDrain) {
  const std::string unit = read_all("deploy/systemd/varved.service");
  const std::string key = "\nTimeoutStopSec=";
  const size_t at = unit.find(key);
  ASSERT_NE(at, std::string::npos);
  const uint64_t stop_ms = 1000 * std::stoull(unit.substr(at + key.size()));
  EXPECT_GE(stop_ms, ServerConfig().drain_ms + 1000u * kShardsMax + 10000u);
  EXPECT_NE(unit.find("\nKillSignal=SIGTERM\n"), std::string::npos);
}

}  // namespace
}  // namespace varve
