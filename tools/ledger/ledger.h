// ledger: kills the real daemon again and again and accounts for every acknowledged block.
//
// Owns: the run, which starts a life of varved, waits for its recovery, audits, loads, kills, harms
// targets, and adds everything up; what is drawn stands in plan.h, what is owed in book.h and what
// targets have suffered in damage.h.
// Called by main. One thread, and kLoadThreads more while a load runs.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/ledger/audit.h"
#include "tools/ledger/daemon.h"
#include "tools/ledger/damage.h"
#include "tools/ledger/load.h"
#include "tools/ledger/plan.h"

namespace varve::ledger {

struct LedgerOptions {
  LedgerPlan plan;
  uint32_t loops = 100;
  std::string varved;    // the binary
  std::string data_dir;  // folder for the data folders; made, and removed after a clean run
};

struct LedgerTotals {
  Tally tally;
  LoadCounts load;
  AuditCounts audit;
  uint64_t loops = 0, lives = 0, kills = 0, stops = 0, audits = 0;
  uint64_t undrained_stops = 0;  // graceful ones that ended with exit 5, after --drain-ms
  uint64_t recovered_blocks = 0, dropped_fragments = 0, evicted_blocks = 0, shards_changed = 0;
  std::map<std::string, uint64_t> schemes;   // loops of each
  std::array<uint64_t, kHarmCount> harms{};  // done to targets
  uint64_t harms_beyond = 0;  // loops that began with more targets hurt than the scheme allows
  uint64_t healed = 0, unhealed = 0, roomless = 0;
  uint64_t drains = 0, drained = 0;   // targets: begun, and said to be removable
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
  bool harm(const LoopPlan& plan);
  bool must_refuse(const LoopPlan& plan, const Deed& swap);
  bool start(const LoopPlan& plan);
  bool settle(const LoopPlan& plan, bool audited);
  Status audit(const LoopPlan& plan);
  Status heal(const LoopPlan& plan);
  void see_drained();
  void drain(const LoopPlan& plan);
  void load(const LoopPlan& plan);
  void await_purge();
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
  std::optional<Damage> damage_;  // of the folder's targets
  LifeOptions life_;
  size_t log_begin_ = 0;     // where the log of this life begins
  uint32_t drain_loop_ = 0;  // in which the drain began
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
