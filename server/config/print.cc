// The effective settings as a file that starts the same daemon, each with its origin (G4).
#include <algorithm>

#include "server/config/setting.h"

namespace varve {

namespace {

constexpr size_t kOriginColumn = 40;

std::string comment_of(const std::string& path) {
  return is_utf8(path) ? path : "(a path that is not UTF-8)";
}

std::string origin_text(const ServerConfig& config, const Setting& setting) {
  const Origin* from = config.origin(setting.option);
  if (from == nullptr) return "default";
  const std::string line = comment_of(config.config_file) + ":" + std::to_string(from->line);
  switch (from->kind) {
    case Origin::Kind::kMachine:
      return "derived from this machine";
    case Origin::Kind::kTargetList:
      return "as many as target names";
    case Origin::Kind::kFile:
      return line;
    case Origin::Kind::kCommandLine:
      break;
  }
  return from->line == 0 ? "command line" : "command line, not " + line;
}

// "key = value", padded, and where it comes from; as a comment where no file may have it.
std::string line_of(const ServerConfig& config, const Setting& setting) {
  std::string value = toml_text(setting, config);
  if (value.empty() && setting.option == std::string_view("--metrics-file")) {
    ServerConfig derived = config;
    derived.metrics_file = config.metrics_path();
    value = toml_text(setting, derived);
  }
  std::string line = key_of(setting) + " = " + value;
  if (value.empty()) line = "# " + key_of(setting) + ": none";
  if (!is_utf8(value)) line = "# " + key_of(setting) + ": is not UTF-8, which a file must be";
  if (setting.place == Place::kCommandLine) line = std::string("# ") + setting.option;
  if (line.size() < kOriginColumn) line.resize(kOriginColumn, ' ');
  return line + "  # " + origin_text(config, setting) + "\n";
}

// What each target is now, which no setting says.
std::string target_lines(const ServerConfig& config, const std::vector<uint64_t>& existing_bytes) {
  std::string out;
  for (uint32_t t = 0; t < config.targets; ++t) {
    const uint64_t bytes = t < existing_bytes.size() ? existing_bytes[t] : 0;
    out += "# target " + std::to_string(t) + ": " + comment_of(config.target_path(t)) +
           (bytes > 0                     ? ", " + bytes_text(bytes) + " as it is"
            : config.target_paths.empty() ? ", to be created"
                                          : "") +
           "\n";
  }
  return out;
}

}  // namespace

std::string ServerConfig::print(const std::vector<uint64_t>& existing_bytes) const {
  std::string out = std::string("# ") + version_text() +
                    ": what this command line would start, as a file for --config.\n";
  std::string section;
  for (const Setting& setting : settings()) {
    if (setting.section[0] == '\0') continue;
    if (setting.section == std::string_view("testing") && !testing && !faults.any()) continue;
    // Off, they are no part of what starts.
    const bool off = value_text(setting, *this) == "false";
    if (setting.place == Place::kCommandLine && off) continue;
    if (section != setting.section) {
      if (section == "target") out += target_lines(*this, existing_bytes);
      section = setting.section;
      out += "\n[" + section + "]\n";
    }
    out += line_of(*this, setting);
  }
  return out;
}

}  // namespace varve
