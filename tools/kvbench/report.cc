// Validated first, printed after.
#include "tools/kvbench/report.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

namespace varve::kvbench {

Json spread_json(const std::vector<double>& values) {
  const Spread spread = spread_of(values);
  return {{"min", spread.low}, {"median", spread.middle}, {"max", spread.high}, {"rounds", values}};
}

Json times_json(std::vector<double> times_ms) {
  if (times_ms.empty()) return nullptr;
  const double sum = std::accumulate(times_ms.begin(), times_ms.end(), 0.0);
  return {{"mean", sum / static_cast<double>(times_ms.size())},
          {"p50", quantile(times_ms, 500)},
          {"p95", quantile(times_ms, 950)},
          {"p99", quantile(times_ms, 990)},
          {"p999", quantile(times_ms, 999)},
          {"max", quantile(times_ms, 1000)},
          {"n", times_ms.size()}};
}

Json stats_json(const std::vector<double>& values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {{"mean", sum / static_cast<double>(values.size())},
          {"p50", quantile(values, 500)},
          {"p95", quantile(values, 950)},
          {"p99", quantile(values, 990)},
          {"max", quantile(values, 1000)}};
}

int report_failure(const Status& status) {
  std::fprintf(stderr, "kvbench: no result: %s (%s)", status.what(), code_name(status.code()));
  if (status.errno_value() != 0) std::fprintf(stderr, ", errno %d", status.errno_value());
  std::fprintf(stderr, "\n");
  return 1;
}

int report(const Declaration& declaration, const std::vector<std::string>& lines,
           const std::string& json_path) {
  const auto text = declaration.text();
  if (!text) return report_failure(text.error());
  if (!json_path.empty() && !write_document(*text, json_path)) {
    std::fprintf(stderr, "kvbench: no result: %s cannot be written\n", json_path.c_str());
    return 1;
  }
  const Json document = declaration.document();
  for (const std::string& warning : declaration.warnings())
    std::printf("warning %s\n", warning.c_str());
  for (const std::string& line : lines)
    std::printf("%s\n", line.c_str());
  std::printf("label %s\n", document["results"]["label"].get<std::string>().c_str());
  std::printf("machine %s, load %s when the run began\n",
              document["host_fingerprint"].get<std::string>().c_str(),
              number_text(document["load_average"].get<double>()).c_str());
  std::printf("commit %s\n", document["git_commit"].get<std::string>().c_str());
  if (document.contains("server_commit")) {
    std::printf("varved_commit %s\n", document["server_commit"].get<std::string>().c_str());
  }
  std::printf("declared %zu fields, omitted %zu with reasons%s\n", document["declaration"].size(),
              document["omissions"].size(), json_path.empty() ? "; --json FILE keeps them" : "");
  std::printf("repeat %s\n", document["reproduction_command"].get<std::string>().c_str());
  return flush_output(json_path.empty() ? "the result is lost"
                                        : "the result is in the file of --json alone");
}

bool write_document(const std::string& text, const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  const bool there = std::filesystem::exists(status);
  const bool direct = there && !std::filesystem::is_regular_file(status);
  // A link names the file that is replaced, and is not replaced itself.
  const bool replaces = there && !direct;
  const std::string whole = replaces ? std::filesystem::canonical(path, error).string() : path;
  const std::string made = direct ? path : whole + ".new";
  std::ofstream file(made);
  if (!file) return false;
  file << text;
  file.close();
  if (direct) return !file.fail();
  if (file) std::filesystem::rename(made, whole, error);
  if (file && !error) return true;
  std::filesystem::remove(made, error);  // a part of a document is none
  return false;
}

int flush_output(const char* consequence) {
  errno = 0;
  const bool whole = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (whole) return 0;
  std::fprintf(stderr, "kvbench: standard output cannot be written (%s): %s\n",
               std::strerror(errno == 0 ? EIO : errno), consequence);
  return 1;
}

}  // namespace varve::kvbench
