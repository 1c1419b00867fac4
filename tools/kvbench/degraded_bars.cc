// Two daemons with the same set, one whole and one not, take turns pass by pass; what a percentile
// is of are all pulls of a round, so that a round has enough of them.
#include "tools/kvbench/degraded_bars.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "tools/kvbench/coded_node.h"

namespace varve::kvbench {

namespace {

constexpr double kWholeTarget = 1.5;
constexpr double kFirstTarget = 3.0;
constexpr double kStuckTarget = 1.5;
constexpr double kDeviceShareMin = 0.75;
constexpr uint32_t kStuckTargetIndex = 0;
// The daemon takes a signal in its own time, and what was stuck has to answer.
constexpr Nanos kSignalWait = 200 * kMillisecond;
// The target answers again after this, whatever is still under way: after 10 s it would have
// failed.
constexpr Nanos kStuckMax = 3 * kSecond;
constexpr Scheme kStuckScheme{2, 1};

void sleep_ns(Nanos ns) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
}

// A target is stuck from begin() to end(), but for kStuckMax at most.
class StuckTime {
 public:
  explicit StuckTime(const Daemon& daemon) : daemon_(daemon) {}
  ~StuckTime() {
    if (timer_.joinable()) end();
  }
  StuckTime(const StuckTime&) = delete;
  StuckTime& operator=(const StuckTime&) = delete;

  void begin() {
    over_ = false;
    daemon_.signal(SIGUSR1);
    sleep_ns(kSignalWait);
    timer_ = std::thread([this] {
      for (Nanos waited_ns = 0; waited_ns < kStuckMax && !over_; waited_ns += kLook)
        sleep_ns(kLook);
      daemon_.signal(SIGUSR2);
    });
  }
  void end() {
    over_ = true;
    timer_.join();
    sleep_ns(kSignalWait);
  }

 private:
  static constexpr Nanos kLook = 10 * kMillisecond;
  const Daemon& daemon_;
  std::atomic<bool> over_ = false;
  std::thread timer_;
};

struct Side {
  std::unique_ptr<CodedNode> node;
  NodeCounts before;
  std::vector<Puller::Pulled> round, all;  // pulls
  std::vector<Puller::Pulled> settled;     // of all, those that began after the first of a pass
  Nanos daemon_cpu_ns = 0, client_cpu_ns = 0;
  Nanos began_ns_max = kNever;  // pulls of a pass that begin later do not count
};

CodedDaemonOptions daemon_of(const DegradedBarOptions& options, Scheme scheme) {
  CodedDaemonOptions daemon;
  daemon.varved = options.varved;
  daemon.scheme = scheme;
  daemon.data_bytes = options.shape.bytes();
  daemon.dram_bytes = options.shape.bytes() / kSetPerDram;
  return daemon;
}

Result<Side> make_side(const DegradedBarOptions& options, const CodedNodeOptions& node,
                       WorkingSet& set) {
  Side side;
  CodedNodeOptions with = node;
  with.lanes = options.lanes;
  VARVE_TRY(side.node, CodedNode::make(with, set));
  VARVE_TRY(side.before, NodeCounts::of(side.node->daemon()));
  return side;
}

Status run_pass(Side& side, const Puller::PassOptions& options) {
  VARVE_TRY(CodedNode::Pass pass, side.node->pass(0, options));
  side.daemon_cpu_ns += pass.daemon_cpu_ns;
  side.client_cpu_ns += pass.client_cpu_ns;
  for (size_t i = 0; i < pass.pulls.size(); ++i) {
    if (pass.pulls[i].began_ns >= side.began_ns_max) continue;
    side.round.push_back(pass.pulls[i]);
    side.all.push_back(pass.pulls[i]);
    if (i >= 2 * size_t{options.pulls}) side.settled.push_back(pass.pulls[i]);
  }
  return {};
}

Result<NodeCounts> counts_of(const Side& side) {
  VARVE_TRY(const NodeCounts now, NodeCounts::of(side.node->daemon()));
  return now.since(side.before);
}

using Time = Nanos Puller::Pulled::*;
constexpr Time kWhole = &Puller::Pulled::took_ns;
constexpr Time kFirst = &Puller::Pulled::first_layer_ns;

double p99_ratio(const std::vector<Puller::Pulled>& ours,
                 const std::vector<Puller::Pulled>& healthy, Time time) {
  return quantile(times_ms(ours, time), 990) / quantile(times_ms(healthy, time), 990);
}

uint64_t pulled_bytes(const Side& side) {
  uint64_t bytes = 0;
  for (const Puller::Pulled& pulled : side.all)
    bytes += pulled.bytes;
  return bytes;
}

std::string cpu_text(const Side& side) {
  const double gigabytes = static_cast<double>(pulled_bytes(side)) / 1e9;
  return number_text(static_cast<double>(side.daemon_cpu_ns) / 1e9 / gigabytes) + " s/GB varved, " +
         number_text(static_cast<double>(side.client_cpu_ns) / 1e9 / gigabytes) + " s/GB client";
}

// One round; `before` and `after` frame each pass of the side that is not whole.
template <class Before, class After>
Status run_round(const DegradedBarOptions& options, uint32_t round, Side& healthy, Side& ours,
                 uint32_t pulls, Before before, After after) {
  healthy.round.clear();
  ours.round.clear();
  for (uint32_t p = 0; p < options.passes; ++p) {
    const uint64_t seed = uint64_t{round} * options.passes + p + 1;
    const Puller::PassOptions pass{options.pull_blocks, pulls, seed};
    const auto run_ours = [&]() -> Status {
      before();
      const Status status = run_pass(ours, pass);
      after();
      return status;
    };
    const bool ours_first = (round + p) % 2 == 1;
    if (ours_first) VARVE_RETURN_IF_ERROR(run_ours());
    VARVE_RETURN_IF_ERROR(run_pass(healthy, pass));
    if (!ours_first) VARVE_RETURN_IF_ERROR(run_ours());
  }
  return {};
}

// What both kinds of bars must show: bytes from the drives, nothing repaired, nobody hurt that was
// whole.
Status check_evidence(const DegradedBarOptions& options, const NodeCounts& healthy,
                      const NodeCounts& ours, const ClientCounters& whole) {
  const double served = static_cast<double>(options.shape.bytes()) * options.passes *
                        options.rounds * kDeviceShareMin;
  if (static_cast<double>(healthy.device_read_bytes) < served ||
      static_cast<double>(ours.device_read_bytes) < served) {
    return Status::invalid("bench: too much of what was pulled did not come from the drives");
  }
  if (healthy.extents_lost != 0) return Status::invalid("bench: the whole side lost extents");
  if (whole.rebuilt_extents > whole.hedges) {
    return Status::invalid("bench: the whole side rebuilt what nobody was late with");
  }
  if (healthy.repaired_bytes != 0 || ours.repaired_bytes != 0) {
    return Status::invalid("bench: repair was at work");
  }
  return {};
}

std::string evidence_text(const NodeCounts& counts, const ClientCounters& client) {
  return std::to_string(counts.extents_lost) + " extents lost, " +
         std::to_string(counts.extents_late) + " late, " + std::to_string(client.rebuilt_bytes) +
         " bytes rebuilt, " + std::to_string(client.hedges) + " hedges (" +
         std::to_string(client.hedges_won) + " won, " + std::to_string(client.hedges_refused) +
         " refused), " + std::to_string(counts.device_read_bytes) + " bytes in " +
         std::to_string(counts.device_reads) + " device reads";
}

void add_sides(const Side& healthy, const Side& ours, Time time, Bar& bar) {
  bar.fact("healthy", times_text(times_ms(healthy.all, time)));
  bar.fact("degraded", times_text(times_ms(ours.all, time)) + "; of " +
                           std::to_string(ours.all.size()) + " pulls a side");
}

std::string set_text(const DegradedBarOptions& options, uint32_t pulls) {
  return std::to_string(options.shape.bytes() / kMiB) + " MiB, blocks of " +
         std::to_string(options.shape.layers) + " layers of " +
         std::to_string(options.shape.layer_bytes / kKiB) + " KiB, pulls of " +
         std::to_string(options.pull_blocks) + " blocks, " + std::to_string(pulls) +
         " at once, in random order; " + std::to_string(options.passes) +
         " passes of each side a round, in turns";
}

Status run_lost(const DegradedBarOptions& options, Scheme scheme, DegradedBars& bars) {
  VARVE_TRY(auto set, WorkingSet::make(options.shape));
  set->fill();
  CodedNodeOptions node;
  node.daemon = daemon_of(options, scheme);
  node.daemon.folder = options.folder + "/healthy";
  VARVE_TRY(Side healthy, make_side(options, node, *set));
  node.daemon.folder = options.folder + "/degraded";
  node.lost = scheme.m;
  VARVE_TRY(Side ours, make_side(options, node, *set));
  bars.whole.setup.seen = bars.first.setup.seen = ours.node->daemon().seen();
  for (uint32_t round = 0; round < options.rounds; ++round) {
    VARVE_RETURN_IF_ERROR(run_round(
        options, round, healthy, ours, 1, [] {}, [] {}));
    bars.whole.rounds.push_back(p99_ratio(ours.round, healthy.round, kWhole));
    bars.first.rounds.push_back(p99_ratio(ours.round, healthy.round, kFirst));
  }
  VARVE_TRY(const NodeCounts h, counts_of(healthy));
  VARVE_TRY(const NodeCounts d, counts_of(ours));
  const ClientCounters client = ours.node->client_counters();
  const ClientCounters other = healthy.node->client_counters();
  VARVE_RETURN_IF_ERROR(check_evidence(options, h, d, other));
  if (d.extents_lost == 0 || client.rebuilt_bytes == 0) {
    return Status::invalid("bench: nothing was lost or rebuilt");
  }
  bars.whole.verified_bytes = pulled_bytes(healthy) + pulled_bytes(ours);
  bars.first.verified_bytes = bars.whole.verified_bytes;
  for (auto [bar, time] : {std::pair{&bars.whole, kWhole}, std::pair{&bars.first, kFirst}}) {
    bar->fact("set", set_text(options, 1));
    bar->fact("scheme", scheme.text() + " without " + std::to_string(node.lost) + " targets");
    add_sides(healthy, ours, time, *bar);
    bar->fact("healthy_cpu", cpu_text(healthy));
    bar->fact("degraded_cpu", cpu_text(ours));
    bar->fact("healthy_evidence", evidence_text(h, other));
    bar->fact("degraded_evidence", evidence_text(d, client));
  }
  return {};
}

Status run_stuck(const DegradedBarOptions& options, Bar& bar) {
  VARVE_TRY(auto set, WorkingSet::make(options.shape));
  set->fill();
  CodedNodeOptions node;
  node.daemon = daemon_of(options, kStuckScheme);
  // On both sides, so that both go through the same device.
  node.daemon.more = {"--i-am-testing", "--fault-stuck-target", std::to_string(kStuckTargetIndex)};
  node.daemon.folder = options.folder + "/healthy";
  VARVE_TRY(Side healthy, make_side(options, node, *set));
  node.daemon.folder = options.folder + "/stuck";
  VARVE_TRY(Side ours, make_side(options, node, *set));
  const Daemon& daemon = ours.node->daemon();
  bar.setup.seen = daemon.seen();
  ours.began_ns_max = kStuckMax;
  StuckTime stuck(daemon);
  NodeCounts seen = ours.before;
  for (uint32_t round = 0; round < options.rounds; ++round) {
    VARVE_RETURN_IF_ERROR(run_round(
        options, round, healthy, ours, options.stuck_pulls, [&] { stuck.begin(); },
        [&] { stuck.end(); }));
    VARVE_TRY(const NodeCounts now, NodeCounts::of(daemon));
    if (daemon.metric("varve_flash_target_ok", "target=\"0\"") != 1) {
      return Status::invalid("bench: the stuck target failed");
    }
    const NodeCounts round_counts = now.since(seen);
    if (round_counts.extents_late + round_counts.extents_lost == 0) {
      return Status::invalid("bench: nobody noticed the stuck target: it was not stuck");
    }
    seen = now;
    bar.rounds.push_back(p99_ratio(ours.round, healthy.round, kFirst));
  }
  VARVE_TRY(const NodeCounts h, counts_of(healthy));
  VARVE_TRY(const NodeCounts d, counts_of(ours));
  VARVE_RETURN_IF_ERROR(check_evidence(options, h, d, healthy.node->client_counters()));
  bar.verified_bytes = pulled_bytes(healthy) + pulled_bytes(ours);
  bar.fact("set", set_text(options, options.stuck_pulls));
  bar.fact("fault",
           "target 0 of 3 swallows what it is asked for the time of each pass, 3 s at most, and "
           "answers it all afterwards: it does not count as failed; pulls that began meanwhile");
  add_sides(healthy, ours, kFirst, bar);
  if (!ours.settled.empty()) {
    bar.fact("once_suspect",
             times_text(times_ms(ours.settled, kFirst)) + ", degraded, without the first " +
                 std::to_string(2 * options.stuck_pulls) + " pulls of a pass; healthy " +
                 times_text(times_ms(healthy.settled, kFirst)));
  }
  bar.fact("whole", "healthy " + times_text(times_ms(healthy.all, kWhole)) + ", stuck " +
                        times_text(times_ms(ours.all, kWhole)));
  bar.fact("healthy_evidence", evidence_text(h, healthy.node->client_counters()));
  bar.fact("degraded_evidence", evidence_text(d, ours.node->client_counters()));
  return {};
}

Bar make_bar(std::string name, const char* unit, double target) {
  Bar bar;
  bar.name = std::move(name);
  bar.unit = unit;
  bar.target = target;
  bar.sense = Sense::kAtMost;
  return bar;
}

}  // namespace

DegradedBars ec_degraded_bars(const DegradedBarOptions& options, Scheme scheme) {
  const std::string suffix = scheme == Scheme{2, 1} ? "" : "_" + scheme.text();
  DegradedBars bars;
  bars.whole = make_bar("ec_degraded_whole" + suffix, "p99 of whole pulls / healthy", kWholeTarget);
  bars.first =
      make_bar("ec_degraded_first" + suffix, "p99 of the first layer / healthy", kFirstTarget);
  bars.whole.setup = setup_of(daemon_of(options, scheme), options.shape, options.lanes, 1);
  bars.whole.setup.fault =
      std::to_string(scheme.m) + " target files of one of two daemons are gone";
  bars.first.setup = bars.whole.setup;
  bars.first.measurement = bars.whole.measurement = bars.whole.name;
  if (Status status = run_lost(options, scheme, bars); !status.ok()) {
    bars.whole.refused = bars.first.refused = bench_error(status);
  }
  return bars;
}

Bar ec_stuck_first_bar(const DegradedBarOptions& options) {
  Bar bar = make_bar("ec_stuck_first", "p99 of the first layer / healthy", kStuckTarget);
  bar.setup =
      setup_of(daemon_of(options, kStuckScheme), options.shape, options.lanes, options.stuck_pulls);
  bar.setup.fault = "one target of one of two daemons answers nothing for up to 3 s of each pass";
  if (Status status = run_stuck(options, bar); !status.ok()) bar.refused = bench_error(status);
  return bar;
}

}  // namespace varve::kvbench
