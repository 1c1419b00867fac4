// The subcommand `bars`: every target of the benchmark, one line each, beside what shaped it.
#include "tools/kvbench/bars.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>

#include "tools/kvbench/bar.h"
#include "tools/kvbench/bars_declaration.h"
#include "tools/kvbench/cancel_bar.h"
#include "tools/kvbench/degraded_bars.h"
#include "tools/kvbench/ec_bars.h"
#include "tools/kvbench/index_bars.h"
#include "tools/kvbench/layout_bar.h"
#include "tools/kvbench/match_bars.h"
#include "tools/kvbench/options.h"
#include "tools/kvbench/process.h"
#include "tools/kvbench/pull_bars.h"
#include "tools/kvbench/recovery_bar.h"
#include "tools/kvbench/report.h"
#include "tools/kvbench/store_bars.h"

namespace varve::kvbench {

namespace {

const std::vector<std::string> kBars = {"tcp_dram_pull",
                                        "server_cpu",
                                        "first_layer",
                                        "flash_pull",
                                        "match",
                                        "match_wire",
                                        "match_wire_tail",
                                        "cancel_fenced",
                                        "recovery",
                                        "ec_encode_4+2",
                                        "index_bytes_per_fragment",
                                        "ec_fused_4+2",
                                        "ec_decode_4+2",
                                        "ec_degraded_whole",
                                        "ec_degraded_first",
                                        "ec_degraded_whole_4+2",
                                        "ec_degraded_first_4+2",
                                        "ec_stuck_first",
                                        "ec_flash_bytes",
                                        "ec_push_2+1",
                                        "ec_layout"};
const std::string kCodingGroup = "ec";  // every bar whose name begins with it and "_"

// Bars that are one measurement, once it was made.
struct Measured {
  std::optional<DramPullBars> dram_pull;
  std::optional<MatchBars> match;
  std::map<std::string, std::optional<DegradedBars>> degraded;  // by scheme
};

// What the bars that need a daemon of a scheme have in common.
template <class BarOptions>
BarOptions coded_options(const BarsOptions& options, const std::string& folder,
                         uint32_t quick_blocks) {
  BarOptions coded;
  coded.varved = varved_path();
  coded.folder = folder;
  coded.lanes = options.lanes;
  if (options.quick) {
    coded.shape.blocks = quick_blocks;
    coded.rounds = 2;
  }
  if (options.rounds > 0) coded.rounds = options.rounds;
  return coded;
}

DegradedBarOptions degraded_options(const BarsOptions& options, const std::string& folder) {
  auto degraded = coded_options<DegradedBarOptions>(options, folder, 48);
  if (options.quick) degraded.passes = 2;
  return degraded;
}

LayoutBarOptions layout_options(const BarsOptions& options, const std::string& folder) {
  auto layout = coded_options<LayoutBarOptions>(options, folder, 48);
  if (options.quick) layout.passes = 1;
  return layout;
}

PullBarOptions pull_options(const BarsOptions& options, const std::string& folder) {
  PullBarOptions pull;
  pull.varved = varved_path();
  pull.folder = folder;
  pull.lanes = options.lanes;
  if (options.quick) {
    pull.shape.blocks = 96;
    pull.rounds = 3;
    pull.flash_dram_bytes = 64 * kMiB;
    pull.flash_shape.blocks = 96;
  }
  if (options.rounds > 0) pull.rounds = options.rounds;
  return pull;
}

CancelBarOptions cancel_options(const BarsOptions& options, const std::string& folder) {
  auto cancel = coded_options<CancelBarOptions>(options, folder, 16);
  if (options.quick) cancel.cancels = 20;
  return cancel;
}

MatchBarOptions match_options(const BarsOptions& options, const std::string& folder) {
  MatchBarOptions match;
  match.varved = varved_path();
  match.folder = folder;
  if (options.quick) {
    match.prefixes = 4;
    match.matches = 200;
    match.rounds = 3;
  }
  if (options.rounds > 0) match.rounds = options.rounds;
  return match;
}

// The coding bars that a daemon serves. Two of a scheme are one measurement, kept in `measured`.
Bar run_coded_bar(const std::string& name, const BarsOptions& options, const std::string& folder,
                  Measured& measured) {
  if (name == "ec_stuck_first") return ec_stuck_first_bar(degraded_options(options, folder));
  if (name == "ec_layout") return ec_layout_bar(layout_options(options, folder));
  const auto store = coded_options<StoreBarOptions>(options, folder, 16);
  if (name == "ec_flash_bytes") return ec_flash_bytes_bar(store);
  if (name == "ec_push_2+1") return ec_push_bar(store);
  const auto scheme = name.ends_with("_4+2") ? Scheme{4, 2} : Scheme{2, 1};
  auto& bars = measured.degraded[scheme.text()];
  if (!bars) bars = ec_degraded_bars(degraded_options(options, folder), scheme);
  return name.starts_with("ec_degraded_whole") ? bars->whole : bars->first;
}

// Runs one bar by name in an empty folder of its own.
Bar run_bar(const std::string& name, const BarsOptions& options, Measured& measured) {
  const std::string folder = options.folder + "/" + name;
  Bar bar;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    bar.name = name;
    bar.refused = "the work folder cannot be made: " + error.message();
    return bar;
  }
  IndexBarOptions index;
  RecoveryBarOptions recovery;
  EcBarOptions ec;
  recovery.folder = folder;
  if (options.quick) {
    index.rounds = 3;
    recovery.fragments = 200000;
    recovery.rounds = 3;
    ec.data_bytes = 96 * kMiB;
    ec.rounds = 3;
  }
  if (options.rounds > 0) index.rounds = recovery.rounds = ec.rounds = options.rounds;
  if (name == "tcp_dram_pull" || name == "server_cpu" || name == "first_layer") {
    auto& bars = measured.dram_pull;
    if (!bars) bars = dram_pull_bars(pull_options(options, folder));
    bar = name == "tcp_dram_pull" ? bars->pull
          : name == "server_cpu"  ? bars->server_cpu
                                  : bars->first_layer;
  }
  if (name.starts_with("match_wire")) {
    auto& bars = measured.match;
    if (!bars) bars = match_wire_bars(match_options(options, folder));
    bar = name == "match_wire" ? bars->wire : bars->tail;
  }
  if (name == "cancel_fenced") bar = cancel_fenced_bar(cancel_options(options, folder));
  if (name == "flash_pull") bar = flash_pull_bar(pull_options(options, folder));
  if (name == "match") bar = match_bar(index);
  if (name == "index_bytes_per_fragment") bar = index_bytes_bar(index);
  if (name == "recovery") bar = recovery_bar(recovery);
  if (name == "ec_encode_4+2") bar = ec_encode_bar(ec);
  if (name == "ec_fused_4+2") bar = ec_fused_bar(ec);
  if (name == "ec_decode_4+2") bar = ec_decode_bar(ec);
  if (bar.name.empty()) bar = run_coded_bar(name, options, folder, measured);
  std::filesystem::remove_all(folder, error);
  return bar;
}

// The bars that were asked for: a group stands for its bars, nothing for all of them.
std::vector<std::string> bars_of(const std::vector<std::string>& asked) {
  if (asked.empty()) return kBars;
  std::vector<std::string> names;
  for (const std::string& name : asked) {
    for (const std::string& bar : kBars) {
      const bool meant = bar == name || (name == kCodingGroup && bar.starts_with(name + "_"));
      const bool there = std::find(names.begin(), names.end(), bar) != names.end();
      if (meant && !there) names.push_back(bar);
    }
  }
  return names;
}

bool measured_daemon(const std::vector<Bar>& bars) {
  return std::any_of(bars.begin(), bars.end(),
                     [](const Bar& bar) { return bar.setup.has_daemon && bar.has_value(); });
}

}  // namespace

int run_bars(BarsOptions options, const RunStart& start) {
  options.only = bars_of(options.only);
  auto folder = work_folder(options.folder);
  if (!folder) return report_failure(folder.error());
  // Of this run alone: what else lies in the folder is not ours to remove.
  options.folder = run_folder(*folder, start.run_id);
  BarsRun run{start, {}, *folder, options.hardware_path, options.quick, {}};
  Measured measured;
  bool refused = false;
  for (const std::string& name : options.only) {
    std::fprintf(stderr, "kvbench: %s\n", name.c_str());  // numbers come with their declaration
    run.bars.push_back(run_bar(name, options, measured));
    refused = refused || !run.bars.back().has_value();
  }
  std::error_code ignored;
  std::filesystem::remove_all(options.folder, ignored);
  if (auto commit = commit_of_program(varved_path())) run.server_commit = *commit;
  if (run.server_commit.empty() && measured_daemon(run.bars)) {
    return report_failure(Status::unsupported(
        "kvbench: varved does not say of which commit it is: build it anew, beside kvbench"));
  }
  Declaration declaration;
  if (Status declared = declare_bars(run, declaration); !declared.ok()) {
    return report_failure(declared);
  }
  std::vector<std::string> lines = declared_lines(declaration);
  for (const Bar& bar : run.bars)
    lines.push_back(bar.details() + bar.line());
  const int code = report(declaration, lines, options.json_path);
  return code == 0 && refused ? 1 : code;
}

CLI::App* add_bars(CLI::App& app, BarsOptions& options) {
  CLI::App* command = app.add_subcommand("bars", "the targets of the benchmark, ok or short");
  std::vector<std::string> names = kBars;
  names.push_back(kCodingGroup);
  command->add_option("name,--only", options.only, "these bars only; ec: all of erasure coding")
      ->check(CLI::IsMember(names));
  command->add_flag("--quick", options.quick, "smaller sets, fewer rounds: a smoke test");
  command->add_option("--rounds", options.rounds, "of every bar")
      ->check(CLI::Range(1u, kRoundsMax));
  command->add_option("--lanes", options.lanes, "bulk lanes and raw connections")
      ->check(CLI::Range(1u, 4u));
  command->add_option("--dir", options.folder, "work folder, 10 GiB; default: beside the build");
  add_document_options(*command, options.json_path, options.hardware_path);
  return command;
}

}  // namespace varve::kvbench
