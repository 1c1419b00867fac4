// CodedNode: a daemon of one scheme that holds a working set on flash, started anew so that nothing
// of it is in DRAM, whole or without some of its targets.
//
// Two of them beside each other are the two sides of a coding bar: the same set, the same memory,
// one whole, one degraded. Repair and scrub are off: what is lost stays lost, and nothing else
// reads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/kvbench/bar.h"
#include "tools/kvbench/process.h"
#include "tools/kvbench/puller.h"

namespace varve::kvbench {

struct CodedDaemonOptions {
  std::string varved;
  std::string folder;  // made; what is in it goes
  Scheme scheme;
  uint32_t targets = 0;     // 0 = the width of the scheme
  uint64_t data_bytes = 0;  // that will be pushed; targets take twice that, so that nothing evicts
  uint64_t dram_bytes = 64 * kMiB;
  std::vector<std::string> more;  // arguments
};
uint32_t targets_of(const CodedDaemonOptions& options);
uint64_t target_bytes_of(const CodedDaemonOptions& options);
// How such a daemon, or two of it, is declared. Of `shape` all is pushed.
BarSetup setup_of(const CodedDaemonOptions& options, const WorkingSetShape& shape, uint32_t lanes,
                  uint32_t at_once);
Result<std::unique_ptr<Daemon>> start_coded_daemon(const CodedDaemonOptions& options);

struct CodedNodeOptions {
  CodedDaemonOptions daemon;
  std::vector<uint32_t> cuts = {1};  // the set is pushed once for each, see WorkingSet::format
  uint32_t lost = 0;                 // targets whose files are taken away after the push
  uint32_t lanes = 1;
};

class CodedNode {
 public:
  static Result<std::unique_ptr<CodedNode>> make(const CodedNodeOptions& options, WorkingSet& set);

  struct Pass {
    std::vector<Puller::Pulled> pulls;
    Nanos daemon_cpu_ns = 0, client_cpu_ns = 0;
  };
  // One pass (see Puller) of cuts[index] into poisoned memory; fails unless every byte is right.
  Result<Pass> pass(uint32_t index, const Puller::PassOptions& options);

  const Daemon& daemon() const { return *daemon_; }
  ClientCounters client_counters() const;  // of all cuts; the fields that coding bars look at

 private:
  CodedNode(const CodedNodeOptions& options, WorkingSet& set) : options_(options), set_(set) {}
  Status open_pullers();
  Status restart();
  CodedNodeOptions options_;
  WorkingSet& set_;
  std::unique_ptr<Daemon> daemon_;
  std::vector<std::unique_ptr<Puller>> pullers_;  // by cut
};

// What devices and pulls of a daemon did between two texts of its metrics.
struct NodeCounts {
  uint64_t device_reads = 0, device_read_bytes = 0, device_written_bytes = 0;
  uint64_t extents_lost = 0, extents_late = 0, repaired_bytes = 0;
  static NodeCounts parse(const std::string& metrics);
  static Result<NodeCounts> of(const Daemon& daemon);  // takes a second or two
  NodeCounts since(const NodeCounts& before) const;
};

// A daemon holds this share of a set in DRAM at most, so that what is pulled comes from its drives.
inline constexpr uint32_t kSetPerDram = 4;

// "(p50 .. p99) ms" of one of the times of pulls.
std::vector<double> times_ms(const std::vector<Puller::Pulled>& pulls, Nanos Puller::Pulled::*time);
std::string times_text(const std::vector<double>& times_ms);
std::string bench_error(const Status& status);

}  // namespace varve::kvbench
