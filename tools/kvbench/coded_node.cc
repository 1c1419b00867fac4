// Started, filled, stopped, robbed of target files, started again.
#include "tools/kvbench/coded_node.h"

#include <algorithm>
#include <filesystem>

namespace varve::kvbench {

namespace {

constexpr uint64_t kTargetFloor = 512 * kMiB;
constexpr uint64_t kPushBatchBytes = 32 * kMiB;
constexpr Nanos kRecoveryWait = 60 * kSecond;

Result<std::unique_ptr<Daemon>> start_in(const CodedDaemonOptions& options) {
  std::vector<std::string> arguments = {
      "--shards",           "1",
      "--targets",          std::to_string(targets_of(options)),
      "--target-bytes",     std::to_string(target_bytes_of(options)),
      "--dram-bytes",       std::to_string(round_up(options.dram_bytes, kMiB)),
      "--scheme",           options.scheme.text(),
      "--repair-mb-per-s",  "0",
      "--scrub-interval-s", "0",
      "--log-level",        "error"};
  arguments.insert(arguments.end(), options.more.begin(), options.more.end());
  return Daemon::start(options.varved, options.folder, std::move(arguments));
}

}  // namespace

uint32_t targets_of(const CodedDaemonOptions& options) {
  return options.targets == 0 ? options.scheme.width() : options.targets;
}

uint64_t target_bytes_of(const CodedDaemonOptions& options) {
  const uint64_t stored = options.data_bytes / options.scheme.k * options.scheme.width();
  return std::max(kTargetFloor, round_up(2 * stored / targets_of(options), kMiB));
}

BarSetup setup_of(const CodedDaemonOptions& options, const WorkingSetShape& shape, uint32_t lanes,
                  uint32_t at_once) {
  BarSetup setup;
  setup.has_daemon = true;
  setup.blocks = shape.blocks;
  setup.layers = shape.layers;
  setup.layer_bytes = shape.layer_bytes;
  setup.schemes = {options.scheme};
  setup.targets = targets_of(options);
  setup.target_bytes = target_bytes_of(options);
  setup.dram_bytes = options.dram_bytes;
  setup.pushed_bytes = options.data_bytes;
  setup.client_memory_bytes = shape.bytes();
  setup.lanes = lanes;
  setup.at_once = at_once;
  return setup;
}

Result<std::unique_ptr<Daemon>> start_coded_daemon(const CodedDaemonOptions& options) {
  std::error_code error;
  std::filesystem::remove_all(options.folder, error);
  std::filesystem::create_directories(options.folder, error);
  if (error) return Status::io("bench: the work folder cannot be made", error.value());
  return start_in(options);
}

Result<std::unique_ptr<CodedNode>> CodedNode::make(const CodedNodeOptions& options,
                                                   WorkingSet& set) {
  VARVE_ASSERT(!options.cuts.empty() && options.lost <= options.daemon.scheme.m, options.lost);
  std::unique_ptr<CodedNode> node(new CodedNode(options, set));
  VARVE_TRY(node->daemon_, start_coded_daemon(options.daemon));
  VARVE_RETURN_IF_ERROR(node->open_pullers());
  for (const auto& puller : node->pullers_)
    VARVE_RETURN_IF_ERROR(puller->push());
  VARVE_RETURN_IF_ERROR(node->restart());
  return node;
}

Status CodedNode::open_pullers() {
  pullers_.clear();
  for (const uint32_t cut : options_.cuts) {
    PullerOptions puller;
    puller.address = daemon_->address();
    puller.bulk_lanes = options_.lanes;
    puller.push_batch_bytes = kPushBatchBytes;
    puller.cut = cut;
    VARVE_TRY(auto opened, Puller::open(puller, set_));
    pullers_.push_back(std::move(opened));
  }
  return {};
}

// Drained first: what is lost then is a target, and nothing that was on its way to one.
Status CodedNode::restart() {
  pullers_.clear();
  daemon_.reset();
  for (uint32_t t = 0; t < options_.lost; ++t) {
    std::error_code error;
    const std::string path = options_.daemon.folder + "/target-" + std::to_string(t) + ".dat";
    if (!std::filesystem::remove(path, error)) {
      return Status::io("bench: a target is not where it should be", error.value());
    }
  }
  VARVE_TRY(daemon_, start_in(options_.daemon));
  const SystemClock clock;
  const Nanos until_ns = clock.now_ns() + kRecoveryWait;
  while (true) {
    const std::string metrics = daemon_->metrics();
    if (!metrics.empty() && metric_sum(metrics, "varve_recovering", "") == 0) break;
    if (clock.now_ns() > until_ns) return Status::timed_out("bench: recovery does not end");
  }
  return open_pullers();
}

Result<CodedNode::Pass> CodedNode::pass(uint32_t index, const Puller::PassOptions& options) {
  VARVE_ASSERT(index < pullers_.size(), index);
  set_.poison();
  Pass pass;
  const Nanos daemon_before_ns = cpu_ns(daemon_->pid());
  const Nanos client_before_ns = own_cpu_ns();
  VARVE_TRY(pass.pulls, pullers_[index]->pass(options));
  pass.client_cpu_ns = own_cpu_ns() - client_before_ns;
  pass.daemon_cpu_ns = cpu_ns(daemon_->pid()) - daemon_before_ns;
  if (set_.wrong_extents() != 0) return Status::corrupt("bench: a pull delivered wrong bytes");
  return pass;
}

ClientCounters CodedNode::client_counters() const {
  ClientCounters sum;
  for (const auto& puller : pullers_) {
    const ClientCounters one = puller->counters();
    sum.rebuilt_extents += one.rebuilt_extents;
    sum.rebuilt_bytes += one.rebuilt_bytes;
    sum.hedges += one.hedges;
    sum.hedges_won += one.hedges_won;
    sum.hedges_refused += one.hedges_refused;
    sum.hedged_bytes += one.hedged_bytes;
  }
  return sum;
}

Result<NodeCounts> NodeCounts::of(const Daemon& daemon) {
  const std::string metrics = daemon.metrics();
  if (metrics.empty()) return Status::timed_out("bench: a daemon that does not tell its metrics");
  return parse(metrics);
}

NodeCounts NodeCounts::parse(const std::string& metrics) {
  NodeCounts counts;
  counts.device_reads = metric_sum(metrics, "varve_device_reads_total", "");
  counts.device_read_bytes = metric_sum(metrics, "varve_device_read_bytes_total", "");
  counts.device_written_bytes = metric_sum(metrics, "varve_device_written_bytes_total", "");
  counts.extents_lost = metric_sum(metrics, "varve_pull_extents_lost_total", "");
  counts.extents_late = metric_sum(metrics, "varve_pull_extents_late_total", "");
  counts.repaired_bytes = metric_sum(metrics, "varve_repair_bytes_total", "outcome=\"done\"");
  return counts;
}

NodeCounts NodeCounts::since(const NodeCounts& before) const {
  NodeCounts counts;
  for (uint64_t NodeCounts::*field : {&NodeCounts::device_reads, &NodeCounts::device_read_bytes,
                                      &NodeCounts::device_written_bytes, &NodeCounts::extents_lost,
                                      &NodeCounts::extents_late, &NodeCounts::repaired_bytes}) {
    VARVE_ASSERT(this->*field >= before.*field);
    counts.*field = this->*field - before.*field;
  }
  return counts;
}

std::vector<double> times_ms(const std::vector<Puller::Pulled>& pulls,
                             Nanos Puller::Pulled::*time) {
  std::vector<double> times;
  for (const Puller::Pulled& pulled : pulls)
    times.push_back(static_cast<double>(pulled.*time) / kMillisecond);
  return times;
}

std::string times_text(const std::vector<double>& times_ms) {
  return "p50 " + number_text(quantile(times_ms, 500)) + " ms, p99 " +
         number_text(quantile(times_ms, 990)) + " ms";
}

std::string bench_error(const Status& status) {
  std::string text = std::string(status.what()) + " (" + code_name(status.code()) + ")";
  if (status.errno_value() != 0) text += ", errno " + std::to_string(status.errno_value());
  return text;
}

}  // namespace varve::kvbench
