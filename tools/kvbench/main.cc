// kvbench: measures Varve, beside ceilings of the same run, and declares what shaped the numbers.
//
//   kvbench bars [NAME]...   the targets of the benchmark
//   kvbench ceiling          what this machine gives without a store
//   kvbench replay           a trace, closed or open loop
//   kvbench sweep            pulls in many shapes, hot and cold
//
// Exit 0: there is a result; 1: none, or a bar was refused, or the result could not be written
// where it was asked for; 2: wrong use; 128 + N: ended by signal N, no result, nothing left behind.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "tools/kvbench/bars.h"
#include "tools/kvbench/ceiling.h"
#include "tools/kvbench/process.h"
#include "tools/kvbench/replay.h"
#include "tools/kvbench/report.h"
#include "tools/kvbench/supervisor.h"
#include "tools/kvbench/sweep.h"

namespace varve {
extern const char* const kBuildCommit;  // of cmake/commit.cmake
}

using namespace varve::kvbench;

int main(int argc, char** argv) {
  // What is opened next would be standard output.
  if (::fcntl(STDOUT_FILENO, F_GETFD) < 0) {
    std::fprintf(stderr, "kvbench: no result: standard output is closed\n");
    return 1;
  }
  const RunStart start = RunStart::now(argc, argv, varve::kBuildCommit);
  CLI::App app{"Measures Varve: ratios against ceilings of the same run."};
  app.require_subcommand(1);
  BarsOptions bars;
  CeilingOptions ceiling;
  ReplayOptions replay;
  SweepOptions sweep;
  const CLI::App* bars_command = add_bars(app, bars);
  const CLI::App* ceiling_command = add_ceiling(app, ceiling);
  const CLI::App* replay_command = add_replay(app, replay);
  const CLI::App* sweep_command = add_sweep(app, sweep);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return 2;
    std::cout.flush();
    return flush_output("the help is not whole");
  }
  const std::string& work = *bars_command      ? bars.folder
                            : *ceiling_command ? ceiling.folder
                            : *replay_command  ? replay.server.folder
                                               : sweep.server.folder;
  if (const auto code = supervise(run_folder_asked(work, start.run_id))) return *code;
  if (*bars_command) return run_bars(bars, start);
  if (*ceiling_command) return run_ceiling(ceiling, start);
  if (*replay_command) return run_replay(replay, start);
  if (*sweep_command) return run_sweep(sweep, start);
  return 2;
}
