// The command line of varved, through CLI11, which no other file names.
//
// CLI11 finds options and writes the help; what it would refuse by an exception, at the first
// fault, is let through and looked at here, so that all problems come at once.
#include <CLI/CLI.hpp>

#include <algorithm>

#include "server/config/setting.h"

namespace varve {

namespace {

constexpr const char* kPurpose =
    "varved: a KV-cache storage server. Without options it serves on loopback from ./varve-data.\n"
    "Every setting may stand in a file (--config FILE, TOML) as well, in the section that is "
    "named\n"
    "here, under the same name without dashes: --drain-ms 500 is drain_ms = 500 in [node]. The\n"
    "command line wins over the file, the file over the default.";
constexpr const char* kExits =
    "Exit: 0 drained, 2 a setting is wrong, 3 the environment, 4 a target is refused, 5 not "
    "drained\n"
    "in time.\n"
    "Sizes: 4096 (bytes), 16KiB, 64MiB, 10GiB, 2TiB. docs/OPERATIONS.md says more.";

bool is_list(const Setting& setting) {
  ServerConfig config;
  return std::holds_alternative<std::vector<std::string>*>(setting.field(config));
}

bool is_flag(const Setting& setting) {
  return setting.unit[0] == '\0';
}

std::string upper(std::string text) {
  for (char& c : text)
    c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

constexpr size_t kHelpColumns = 68;  // beside the names

std::string wrapped(const std::string& text) {
  std::string out;
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const bool breaks = column > 0 && column + 1 + end - at > kHelpColumns;
    if (column > 0) out += breaks ? '\n' : ' ';
    column = (breaks || column == 0 ? 0 : column + 1) + end - at;
    out += text.substr(at, end - at);
    at = end + 1;
  }
  return out;
}

// What it is, its range and its default.
std::string help_of(const Setting& setting) {
  std::string text = setting.help;
  if (is_flag(setting)) return wrapped(text);
  const std::string range = range_text(setting);
  if (!range.empty()) text += ": " + range;
  const std::string standard = default_text(setting);
  return wrapped(standard == "none" ? text : text + " [" + standard + "]");
}

std::string group_of(const Setting& setting) {
  const std::string section = setting.section;
  if (section == "testing") return "[testing] (breaks promises on purpose)";
  return section.empty() ? "All settings" : "[" + section + "]";
}

// An option that takes none, one or more texts: how many were right is looked at afterwards.
CLI::Option* add_option(CLI::App& app, const Setting& setting) {
  const std::string help = help_of(setting);
  if (is_flag(setting)) return app.add_flag(setting.option, help)->group(group_of(setting));
  const auto keep = [](const CLI::results_t&) { return true; };
  CLI::Option* option = app.add_option(setting.option, keep, help);
  option->type_name(upper(setting.unit))->expected(0, is_list(setting) ? 32 : 1);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return option->group(group_of(setting));
}

void take(const Setting& setting, const std::vector<std::string>& texts, CommandLine& out) {
  out.config.origins.push_back({setting.option, Origin::Kind::kCommandLine});
  if (texts.size() > 1 && !is_list(setting) && !is_flag(setting)) {
    out.problems.push_back(std::string(setting.option) + " is given " +
                           std::to_string(texts.size()) + " times; give it once");
    out.config.unread.push_back(setting.option);
    return;
  }
  for (const std::string& text : texts) {
    const std::string wanted = read_value(setting, text, out.config);
    if (wanted.empty()) continue;
    out.problems.push_back(std::string(setting.option) +
                           (text.empty() ? " has no value; " : ": \"" + text + "\": ") + wanted);
    out.config.unread.push_back(setting.option);
  }
}

// What no option took: misspelt ones, with what their value may have been, and stray words.
void refuse(const std::vector<std::string>& words, std::vector<std::string>& problems) {
  std::vector<std::string> names = {"--help", "--version"};
  for (const Setting& setting : settings())
    names.push_back(setting.option);
  bool value_follows = false;
  for (const std::string& word : words) {
    if (problems.size() >= kProblemsMax) return;
    const bool is_option = word.size() > 1 && word[0] == '-';
    if (!is_option && !value_follows) {
      problems.push_back("\"" + word + "\" is a stray word; settings begin with --");
    }
    value_follows = is_option && word.find('=') == std::string::npos;
    if (!is_option) continue;
    const std::string name = word.substr(0, word.find('='));
    const std::string meant = nearest(name, names);
    problems.push_back(name + " is no option" +
                       (meant.empty() ? "" : ": did you mean " + meant + "?"));
  }
}

}  // namespace

const char* version_text() {
  return "varved 0.1 (wire 1, format 1)";
}

CommandLine parse_command_line(int argc, const char* const* argv, const std::string& version) {
  CommandLine out;
  CLI::App app(kPurpose, "varved");
  app.footer(kExits);
  app.set_version_flag("--version", version);
  app.allow_extras();
  std::vector<const CLI::Option*> options;
  for (const Setting& setting : settings())
    options.push_back(add_option(app, setting));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    out.exit_code = 0;
    out.text = app.help();
    return out;
  } catch (const CLI::CallForVersion& asked) {
    out.exit_code = 0;
    out.text = std::string(asked.what()) + "\n";
    return out;
  } catch (const CLI::ParseError& error) {  // none that we know of
    out.problems.push_back(error.what());
    return out;
  }
  for (size_t i = 0; i < options.size(); ++i) {
    if (options[i]->count() > 0) take(settings()[i], options[i]->results(), out);
  }
  refuse(app.remaining(), out.problems);
  return out;
}

}  // namespace varve
