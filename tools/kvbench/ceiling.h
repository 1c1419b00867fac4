// Ceiling: the subcommand that measures what this machine gives without a store: a raw socket of
// the same message shape, memcpy into the same pages, O_DIRECT io_uring at the same sizes and
// depth. They take turns, round by round.
#pragma once

#include <cstdint>
#include <string>

#include "tools/kvbench/conditions.h"

namespace CLI {
class App;
}

namespace varve::kvbench {

struct CeilingOptions {
  uint32_t blocks = 64, layers = 16, layer_kib = 256;  // 256 MiB
  uint32_t lanes = 1;
  uint32_t depth = 32;  // requests in flight at the drive, reads and writes
  uint32_t rounds = 5;
  bool quick = false;
  std::string folder, json_path, hardware_path;
};

CLI::App* add_ceiling(CLI::App& app, CeilingOptions& options);
int run_ceiling(CeilingOptions options, const RunStart& start);

}  // namespace varve::kvbench
