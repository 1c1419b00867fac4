// A file of settings in TOML, through toml++, which no other file names.
//
// The first fault of its syntax ends the reading; beyond that every section and key is looked at,
// and all that is wrong with them is said.
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
// toml++ 3.3 asserts, and with NDEBUG lets the compiler assume, what malformed text breaks ("[~":
// its issue 294). Without both it answers an error, as the fuzz target shows.
#undef NDEBUG
#define TOML_ASSERT(expr) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>

#include "server/config/setting.h"

namespace varve {

namespace {

// toml++ takes itself down by recursion, a level for each dot of a dotted key.
constexpr int64_t kDotsMax = 4096;

struct Reading {
  struct Fault {
    toml::source_position at;
    std::string text;
  };
  ServerConfig& config;
  std::vector<Fault> faults;

  void refuse(const toml::source_region& where, const std::string& text) {
    faults.push_back({where.begin, text});
  }
};

// In the order of the file, whose tables are kept by name.
void say_faults(Reading& in, std::vector<std::string>& problems) {
  std::sort(in.faults.begin(), in.faults.end(),
            [](const auto& a, const auto& b) { return a.at < b.at; });
  for (size_t i = 0; i < in.faults.size(); ++i) {
    const auto& [at, text] = in.faults[i];
    if (i == kProblemsMax) {
      problems.push_back(in.config.config_file + ": " + std::to_string(in.faults.size() - i) +
                         " faults more");
      return;
    }
    problems.push_back(in.config.config_file + ":" + std::to_string(at.line) + ":" +
                       std::to_string(at.column) + ": " + text);
  }
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const Setting& setting : settings()) {
    if (setting.section[0] == '\0') continue;
    if (std::find(names.begin(), names.end(), setting.section) != names.end()) continue;
    names.push_back(setting.section);
  }
  return names;
}

const Setting* setting_of_key(std::string_view key) {
  for (const Setting& setting : settings()) {
    if (key_of(setting) == key) return &setting;
  }
  return nullptr;
}

const char* type_text(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a section";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
      return "a number";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::none:
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      break;
  }
  return "a date";
}

// The texts of which the value consists, as the command line would have them; none when it has
// another type than the setting.
std::vector<std::string> texts_of(const Setting& setting, const toml::node& node) {
  ServerConfig config;
  const Field field = setting.field(config);
  const bool list = std::holds_alternative<std::vector<std::string>*>(field);
  const bool number = std::holds_alternative<uint32_t*>(field) ||
                      std::holds_alternative<uint64_t*>(field) ||
                      std::holds_alternative<TargetField>(field);
  const bool size = std::holds_alternative<SizeField>(field);
  std::vector<std::string> texts;
  if (std::holds_alternative<bool*>(field)) {
    if (const auto value = node.value_exact<bool>()) texts.push_back(*value ? "true" : "false");
  } else if (list) {
    const toml::array* array = node.as_array();
    if (array == nullptr) return texts;
    for (const toml::node& one : *array) {
      const auto value = one.value_exact<std::string>();
      if (!value) return {};
      texts.push_back(*value);
    }
  } else if (const auto value = node.value_exact<int64_t>(); value && (number || size)) {
    texts.push_back(std::to_string(*value));
  } else if (const auto text = node.value_exact<std::string>(); text && !number) {
    texts.push_back(*text);
  }
  return texts;
}

void read_setting(Reading& in, const Setting& setting, const toml::node& node) {
  const std::string name = std::string("[") + setting.section + "] " + key_of(setting);
  const std::vector<std::string> texts = texts_of(setting, node);
  std::string wanted;
  if (texts.empty()) {
    const bool empty_list = node.is_array() && node.as_array()->empty();
    in.refuse(node.source(), name + " is " + (empty_list ? "an empty list" : type_text(node)) +
                                 "; " + wanted_text(setting) + ", as in " + example_text(setting));
  }
  // One that is overruled is looked at all the same: it will count when the option is gone.
  ServerConfig overruled;
  const auto line = static_cast<uint32_t>(node.source().begin.line);
  const auto given = std::find_if(in.config.origins.begin(), in.config.origins.end(),
                                  [&](const Origin& o) { return o.option == setting.option; });
  const bool counts = given == in.config.origins.end();
  if (counts) {
    in.config.origins.push_back({setting.option, Origin::Kind::kFile, line});
  } else {
    given->line = line;
  }
  ServerConfig& config = counts ? in.config : overruled;
  for (const std::string& text : texts) {
    wanted = read_value(setting, text, config);
    if (wanted.empty()) continue;
    in.refuse(node.source(),
              name + " is \"" + text + "\"; " + wanted + ", as in " + example_text(setting));
    break;
  }
  if (texts.empty() || !wanted.empty()) in.config.unread.push_back(setting.option);
}

void read_section(Reading& in, const std::string& section, const toml::table& table) {
  std::vector<std::string> keys;
  for (const Setting& setting : settings()) {
    if (section == setting.section && setting.place == Place::kFile) {
      keys.push_back(key_of(setting));
    }
  }
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const Setting* setting = setting_of_key(name);
    if (setting == nullptr) {
      const std::string meant = nearest(name, keys);
      in.refuse(key.source(), "[" + section + "] has no " + name +
                                  (meant.empty() ? "" : "; did you mean " + meant + "?"));
    } else if (setting->place == Place::kCommandLine) {
      in.refuse(key.source(),
                name + " is for one start; give " + setting->option + " on the command line");
    } else if (section != setting->section) {
      in.refuse(key.source(),
                name + " stands in [" + section + "]; its section is [" + setting->section + "]");
    } else {
      read_setting(in, *setting, node);
    }
  }
}

void read_root(Reading& in, const toml::table& root) {
  const std::vector<std::string> sections = section_names();
  for (const auto& [key, node] : root) {
    const std::string name(key.str());
    const bool known = std::find(sections.begin(), sections.end(), name) != sections.end();
    const Setting* setting = setting_of_key(name);
    if (known && node.is_table()) {
      read_section(in, name, *node.as_table());
    } else if (known) {
      in.refuse(key.source(), name + " is " + type_text(node) + "; it is the section [" + name +
                                  "], and its settings stand below that line");
    } else if (setting != nullptr && setting->place == Place::kFile) {
      in.refuse(key.source(), name + " stands outside of its section, [" + setting->section + "]");
    } else {
      std::string all;
      for (const std::string& section : sections)
        all += (all.empty() ? "[" : ", [") + section + "]";
      const std::string meant = nearest(name, sections);
      in.refuse(key.source(),
                "[" + name + "] is no section" +
                    (meant.empty() ? "; there are " + all : "; did you mean [" + meant + "]?"));
    }
  }
}

}  // namespace

void read_config(std::string_view text, ServerConfig& config, std::vector<std::string>& problems) {
  if (std::count(text.begin(), text.end(), '.') > kDotsMax) {
    problems.push_back(config.config_file + " has more than " + std::to_string(kDotsMax) +
                       " dots; that is no file of settings");
    return;
  }
  Reading in{config, {}};
  const toml::parse_result result = toml::parse(text);
  if (!result) {
    const toml::parse_error& error = result.error();
    in.refuse(error.source(), "this is not TOML: " + std::string(error.description()));
  } else {
    read_root(in, result.table());
  }
  say_faults(in, problems);
}

}  // namespace varve
