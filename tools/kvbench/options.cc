// What strtod and the file system say of a value of the command line.
#include "tools/kvbench/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "tools/kvbench/bar.h"
#include "tools/kvbench/conditions.h"

namespace varve::kvbench {

std::string problem_of_number(const std::string& text, double low, double high) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool whole = !text.empty() && *end == '\0';
  if (whole && std::isfinite(value) && value >= low && value <= high) return "";
  return text + " is no number from " + number_text(low) + " to " + number_text(high);
}

std::string problem_of_output(const std::string& path) {
  if (path.empty()) return "no file is named";
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return path + " is a folder";
  if (::access(path.c_str(), F_OK) == 0 && ::access(path.c_str(), W_OK) != 0) {
    return path + " cannot be written";
  }
  // A pipe or a device is written as it is, a file is replaced.
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    return "";
  }
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const std::string folder = parent.empty() ? "." : parent;
  if (!std::filesystem::is_directory(folder, error)) return folder + " is no folder";
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? "" : folder + " cannot be written";
}

std::string problem_of_hardware(const std::string& path) {
  const auto hardware = read_hardware(path);
  return hardware ? "" : path + ": " + hardware.error().what();
}

std::string problem_of_trace(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  const bool good =
      type == std::filesystem::file_type::regular || type == std::filesystem::file_type::directory;
  return good ? "" : path + " is neither a regular file nor a folder";
}

void add_document_options(CLI::App& command, std::string& json_path, std::string& hardware_path) {
  command.add_option("--json", json_path, "write the declaration there")->check(problem_of_output);
  command.add_option("--hardware", hardware_path, "a system description to embed, JSON")
      ->check(problem_of_hardware);
}

}  // namespace varve::kvbench
