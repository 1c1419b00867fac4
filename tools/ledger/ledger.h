// ledger: kills the real daemon again and again and accounts for every acknowledged block.
//
// Owns: the run, which starts a life of varved, waits for its recovery, audits, loads, kills, and
// adds everything up; what is drawn stands in plan.h, what is owed in book.h.
// Called by main. One thread, and kLoadThreads more while a load runs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/ledger/audit.h"
#include "tools/ledger/daemon.h"
#include "tools/ledger/load.h"
#include "tools/ledger/plan.h"

namespace varve::ledger {

struct LedgerOptions {
  uint32_t loops = 100;
  uint64_t seed = 1;
  std::string varved;    // the binary
  std::string data_dir;  // folder for the data folders; made, and removed after a clean run
  bool mutant = false;   // the daemon acknowledges before the flush: a loss must be found
};

struct LedgerTotals {
  Tally tally;
  LoadCounts load;
  AuditCounts audit;
  uint64_t loops = 0, lives = 0, kills = 0, stops = 0, audits = 0;
  uint64_t undrained_stops = 0;  // graceful ones that ended with exit 5, after --drain-ms
  uint64_t recovered_blocks = 0, dropped_fragments = 0, evicted_blocks = 0, shards_changed = 0;
  std::vector<std::string> problems;  // each one fails the run
};

class Ledger {
 public:
  explicit Ledger(const LedgerOptions& options) : options_(options) {}
  // Runs all loops, or until a violation; progress lines go to stdout.
  void run();
  const LedgerTotals& totals() const { return totals_; }
  const std::string& folder() const { return folder_; }  // the last one
  const std::string& kept() const { return kept_; }      // with a violation in it; empty = none

 private:
  void open_folder(const LoopPlan& plan);
  void close_folder();
  bool start(const LoopPlan& plan);
  bool settle(const LoopPlan& plan, bool audit);
  void load(const LoopPlan& plan);
  void end(const LoopPlan& plan);
  bool closing_audit();
  void note_metrics();
  void problem(const LoopPlan& plan, const std::string& text);
  bool failed() const;
  void progress(uint32_t loops) const;

  const LedgerOptions options_;
  LedgerTotals totals_;
  std::string folder_, log_path_, kept_;
  std::unique_ptr<World> world_;
  std::unique_ptr<Seat> auditor_;
  std::vector<std::unique_ptr<Seat>> seats_;
  std::unique_ptr<Daemon> daemon_;
  uint32_t shards_before_ = 0;
  bool ids_known_ = false;
};

// What is wrong with the end of a daemon that was asked to stop, and took so long; empty = nothing.
std::string stop_problem(const std::string& ending, Nanos took_ns);

// The final table, and the same as JSON.
std::string report_text(const LedgerOptions& options, const LedgerTotals& totals);
std::string report_json(const LedgerOptions& options, const LedgerTotals& totals);
// A mutant run passes when the planted fault was seen, any other when nothing was.
bool passed(const LedgerOptions& options, const LedgerTotals& totals);

}  // namespace varve::ledger
