// Bars: the subcommand that measures the targets of the benchmark, those named or all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/kvbench/conditions.h"

namespace CLI {
class App;
}

namespace varve::kvbench {

struct BarsOptions {
  std::vector<std::string> only;  // bars, or `ec`: all those of erasure coding; none: all bars
  bool quick = false;
  uint32_t rounds = 0;  // 0 = each bar's own
  uint32_t lanes = 1;
  std::string folder;
  std::string json_path, hardware_path;
};

CLI::App* add_bars(CLI::App& app, BarsOptions& options);
// Exit code. 0: every bar has a number, ok or short; 1: a bar was refused, or there is no result.
int run_bars(BarsOptions options, const RunStart& start);

}  // namespace varve::kvbench
