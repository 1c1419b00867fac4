// Feeds arbitrary text to the settings: up to the first NUL a file, behind it the arguments of a
// command line, a line each. Whatever comes, it is refused in sentences or it is a daemon whose
// printed settings start the same one again (G4).
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "server/config/setting.h"

namespace {

constexpr size_t kArgumentsMax = 64;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size() && lines.size() < kArgumentsMax;) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

void check(bool good) {
  if (!good) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve;
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::string file = input.substr(0, input.find('\0'));
  const std::vector<std::string> words =
      lines_of(file.size() < input.size() ? input.substr(file.size() + 1) : "");
  std::vector<const char*> argv = {"varved"};
  for (const std::string& word : words)
    argv.push_back(word.c_str());
  CommandLine line = parse_command_line(static_cast<int>(argv.size()), argv.data(), version_text());
  if (line.exit_code >= 0) return 0;
  ServerConfig& config = line.config;
  if (config.config_file.empty()) config.config_file = "v.toml";
  read_config(file, config, line.problems);
  settle(config, Machine{4, 8 * kGiB});
  for (const std::string& problem : config.problems())
    line.problems.push_back(problem);
  for (const std::string& problem : line.problems)
    check(!problem.empty());
  if (!line.problems.empty()) return 0;
  for (const Setting& setting : settings())  // what no file can say is not said
    if (!is_utf8(value_text(setting, config))) return 0;
  ServerConfig again;
  std::vector<std::string> problems;
  again.config_file = config.config_file;
  read_config(config.print(), again, problems);
  check(problems.empty());
  settle(again, Machine{4, 8 * kGiB});
  check(again.problems().empty());
  check(again.metrics_path() == config.metrics_path());
  for (const Setting& setting : settings()) {
    const bool printed =
        setting.place == Place::kFile && &setting != find_setting("--metrics-file");
    if (!printed) continue;
    // Off, the settings of testing are not printed.
    const bool hidden = setting.section == std::string_view("testing") && !config.testing;
    check(hidden || value_text(setting, again) == value_text(setting, config));
  }
  return 0;
}
