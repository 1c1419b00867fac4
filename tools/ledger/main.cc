// varve_ledger: the crash ledger's command line.
//
//   varve_ledger --loops 100 [--seed 1] [--scheme K+M] [--mutant flush|repair|purge]
//                [--json FILE] [--varved PATH] [--data DIR]
//
// Exit 0: every promise was kept (with --mutant: the planted fault was seen), 1: not, 2: usage.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "tools/ledger/ledger.h"

namespace {

using namespace varve::ledger;

int report(const LedgerOptions& options, const Ledger& ledger, const std::string& json_path) {
  const LedgerTotals& totals = ledger.totals();
  std::fputs(report_text(options, totals).c_str(), stdout);
  if (!json_path.empty()) {
    std::ofstream file(json_path);
    file << report_json(options, totals);
    if (!file.flush()) std::fprintf(stderr, "varve_ledger: cannot write %s\n", json_path.c_str());
  }
  if (!ledger.kept().empty()) {
    std::printf("kept: %s and %s.log\n", ledger.kept().c_str(), ledger.kept().c_str());
  }
  std::string repeat = "repeat: tools/dev ledger --loops " + std::to_string(options.loops) +
                       " --seed " + std::to_string(options.plan.seed);
  if (options.plan.scheme) repeat += " --scheme " + options.plan.scheme->text();
  if (options.plan.mutant == Mutant::kFlush) repeat += " --mutant flush";
  if (options.plan.mutant == Mutant::kRepair) repeat += " --mutant repair";
  if (options.plan.mutant == Mutant::kPurge) repeat += " --mutant purge";
  std::puts(repeat.c_str());
  return passed(options, totals) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Kills varved at random points under load and accounts for every acknowledged block."};
  LedgerOptions options;
  std::string json_path;
  app.add_option("--loops", options.loops, "kills of the daemon [100]")
      ->check(CLI::Range(1u, 1000000u));
  app.add_option("--seed", options.plan.seed, "of every choice [1]");
  app.add_option("--varved", options.varved, "the daemon [beside this program]");
  app.add_option("--data", options.data_dir, "scratch folder [build/ledger]");
  app.add_option("--json", json_path, "write the report here as well");
  std::string scheme_text;
  app.add_option("--scheme", scheme_text, "of all folders, as 2+1 [drawn for each]");
  const std::map<std::string, Mutant> mutants = {
      {"flush", Mutant::kFlush}, {"repair", Mutant::kRepair}, {"purge", Mutant::kPurge}};
  app.add_option("--mutant", options.plan.mutant,
                 "plants a fault that must be seen: an acknowledgement before its flush, a repair "
                 "that is off and taken for done, or a purge that is answered before its flush")
      ->transform(CLI::CheckedTransformer(mutants));
  CLI11_PARSE(app, argc, argv);
  if (!scheme_text.empty()) {
    const varve::Result<varve::Scheme> scheme = varve::Scheme::parse(scheme_text);
    if (!scheme) {
      std::fprintf(stderr, "varve_ledger: --scheme %s: %s\n", scheme_text.c_str(),
                   scheme.error().what());
      return 2;
    }
    options.plan.scheme = *scheme;
  }
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (options.varved.empty()) options.varved = (self.parent_path() / "varved").string();
  if (options.data_dir.empty()) options.data_dir = "build/ledger";
  if (::access(options.varved.c_str(), X_OK) != 0) {
    std::fprintf(stderr, "varve_ledger: %s is no program; build varved or give --varved\n",
                 options.varved.c_str());
    return 2;
  }
  varve::log_level_set(varve::LogLevel::kWarn);  // a client says much when its daemon dies
  Ledger ledger(options);
  ledger.run();
  return report(options, ledger, json_path);
}
