// Sweep: the subcommand that pulls in many shapes: extent size x blocks x concurrency x tier x hot
// or cold, each repetition beside its ceilings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/kvbench/cell.h"
#include "tools/kvbench/conditions.h"
#include "tools/kvbench/server_under_test.h"

namespace varve::kvbench {

struct SweepOptions {
  ServerOptions server;
  std::vector<uint32_t> extents_kib = {64, 256, 1024};
  std::vector<uint32_t> blocks = {4, 16};
  std::vector<uint32_t> concurrency = {1, 4};
  std::vector<std::string> tiers, states;  // empty: every one that there is, see kinds_of
  uint32_t layers = 4;
  uint32_t repetitions = 5;
  uint32_t lanes = 1;
  uint32_t depth = 32;  // of the drive's ceiling
  bool quick = false;
  std::string json_path, hardware_path;
};

// The kinds of cells, in the order in which they are measured: flash first, and of it cold. Tiers
// and states that are named are all combined. Pure.
std::vector<CellKind> kinds_of(const SweepOptions& options);
// Which combination that was asked for does not exist, and why; empty: all do. Pure.
std::string problem_of_kinds(const SweepOptions& options);

// The prompts of the cells of one extent size. Each repetition of a cold cell has prompts of its
// own, which nothing has touched since the restart; a hot cell repeats those of the first.
struct SweepPlan {
  struct Shape {
    uint32_t blocks = 0, concurrency = 0;
    uint32_t first_prompt = 0;  // of concurrency x repetitions
  };
  std::vector<Shape> shapes;
  std::vector<Prompt> prompts;
  uint32_t blocks_max = 0, concurrency_max = 0;
  uint32_t warm_up_prompt = 0;  // the first of concurrency_max that no cell pulls
  uint64_t blocks_all = 0;
};
SweepPlan sweep_plan(const SweepOptions& options);

CLI::App* add_sweep(CLI::App& app, SweepOptions& options);
int run_sweep(SweepOptions options, const RunStart& start);

}  // namespace varve::kvbench
