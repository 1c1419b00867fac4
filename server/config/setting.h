// The table of settings: each one once, with its section of the file, its option, its limits and
// the reason of its default.
//
// Command line, file, checks, --help, --print-config, docs/OPERATIONS.md and the example of a file
// come from it, the latter two by a test. A setting has one name: "--drain-ms" is the option, the
// key in the file is the same without dashes, "drain_ms". Only server/config includes this.
#pragma once

#include <span>
#include <variant>

#include "server/config/config.h"

namespace varve {

// Where a value lies; the type says how it is written.
struct SizeField {
  uint64_t* bytes;
};
struct TargetField {
  uint32_t* index;  // FaultSettings::kNoTarget = not set
};
using Field = std::variant<std::string*, std::vector<std::string>*, uint32_t*, uint64_t*, SizeField,
                           TargetField, bool*, Scheme*, IoSetting*>;

enum class Place : uint8_t {
  kFile,         // command line and file
  kCommandLine,  // for one start: in a file it would stay for all of them
};

struct Setting {
  const char* section;  // of the file, and of --help
  const char* option;
  const char* unit;  // what is given; "" = nothing, a switch
  Field (*field)(ServerConfig& config);
  const char* help;
  const char* reason;             // of the default
  uint64_t low = 0, high = 0;     // of numbers and sizes
  uint64_t low_testing = ~0ull;   // with --i-am-testing, where it is another
  const char* zero = nullptr;     // what 0 means, where it means something else
  const char* range = nullptr;    // of what is no number, in words
  const char* derived = nullptr;  // what the default comes to, where the field does not say it
  Place place = Place::kFile;
};

std::span<const Setting> settings();
const Setting* find_setting(std::string_view option);  // null: there is none

std::string key_of(const Setting& setting);  // "drain_ms"

// Reads a text of the command line into the setting; a list grows by it. Answers what a value must
// be instead, empty when it was good. Whether a good one is within the limits is a question of
// ServerConfig::problems().
std::string read_value(const Setting& setting, const std::string& text, ServerConfig& config);
// As the command line would take it, lists with commas; empty = not set.
std::string value_text(const Setting& setting, const ServerConfig& config);
// As the file would take it: 4, true, "64MiB", ["a", "b"]; empty = not set.
std::string toml_text(const Setting& setting, const ServerConfig& config);
// A line of a file: the default, or what the unit says where that is nothing.
std::string example_text(const Setting& setting);
// For people: "4", "none", "half of the cores".
std::string default_text(const Setting& setting);
// "1 to 16", "64MiB to 4TiB", "60 to 31622400, or 0: never"; empty = nothing more to say.
std::string range_text(const Setting& setting);
// "it must be a whole number (ms), 100 to 600000"
std::string wanted_text(const Setting& setting);

bool is_utf8(std::string_view text);
// The one of `names` that is nearest to what was given; empty when all are other words.
std::string nearest(const std::string& given, const std::vector<std::string>& names);

// No list of problems is longer: what follows from a file that is none helps nobody.
inline constexpr size_t kProblemsMax = 50;
inline constexpr uint32_t kShardsMax = 16;  // = slices of a large target: a shard owns whole slices
inline constexpr uint32_t kTargetsMaxSetting = 32;
inline constexpr uint64_t kDramFloor = 64 * kMiB;
inline constexpr uint64_t kNoLimit = ~uint64_t{0};  // Setting::high

}  // namespace varve
