// The setup of one bar stands for the run, the others are parts that each bar says itself.
#include "tools/kvbench/bars_declaration.h"

#include <algorithm>
#include <map>

#include "tools/kvbench/report.h"

namespace varve::kvbench {

namespace {

constexpr const char* kContent =
    "pulls and the raw socket: splitmix64 of (block, layer), every word, in memory that was "
    "poisoned before, after every round; coding: against the stripes as they must be; what the "
    "drive's ceiling reads is not compared";
constexpr const char* kNothingCompared =
    "no bar of this run moves bytes and has a number, see unverified and why of each";
constexpr const char* kProof =
    "each bar has its own: all from DRAM (tcp_dram_pull) or from the drives (flash_pull, "
    "ec_degraded_*, ec_stuck_*: after a start anew) by the daemon's counters, else it is refused";

// The bar whose setup is declared.
const Bar& lead_of(const std::vector<Bar>& bars) {
  VARVE_ASSERT(!bars.empty());
  const auto served =
      std::find_if(bars.begin(), bars.end(), [](const Bar& bar) { return bar.setup.has_daemon; });
  return served == bars.end() ? bars.front() : *served;
}

Conditions conditions_of(const BarsRun& run, const Bar& lead) {
  const BarSetup& setup = lead.setup;
  Conditions c;
  c.start = run.start;
  c.server = setup.has_daemon ? Server::kOwn : Server::kInProcess;
  c.folder = run.folder;
  c.dram_bytes = setup.dram_bytes;
  c.target_bytes = setup.target_bytes;
  c.targets = setup.targets;
  if (!setup.schemes.empty()) c.scheme = setup.schemes[0];
  c.layers = setup.layers;
  c.layer_bytes = setup.layer_bytes;
  c.lanes = std::max(1u, setup.lanes);
  c.concurrency = std::max(1u, setup.at_once);
  c.pushed_bytes = setup.pushed_bytes;
  c.client_memory_bytes = setup.client_memory_bytes;
  c.seen = setup.seen;
  c.content = kContent;
  c.hardware_path = run.hardware_path;
  c.server_commit = setup.has_daemon ? run.server_commit : "";
  std::map<std::string, uint64_t> verified;  // by measurement
  for (const Bar& bar : run.bars) {
    verified[bar.measurement.empty() ? bar.name : bar.measurement] = bar.verified_bytes;
    if (!bar.setup.fault.empty()) c.faults.push_back(bar.name + ": " + bar.setup.fault);
  }
  for (const auto& [measurement, bytes] : verified)
    c.verified_bytes += bytes;
  if (c.verified_bytes == 0) c.content = kNothingCompared;
  return c;
}

// Of bars that are one measurement the warm-up is one.
void declare_times(const BarsRun& run, const Bar& lead, Declaration& out) {
  std::map<std::string, Nanos> warmups;
  for (const Bar& bar : run.bars)
    warmups[bar.measurement.empty() ? bar.name : bar.measurement] = bar.warmup_ns;
  RunTimes times;
  for (const auto& [measurement, warmup_ns] : warmups)
    times.warmup_ns += warmup_ns;
  times.measured_ns = SystemClock().now_ns() - run.start.began_ns - times.warmup_ns;
  declare_duration(times, static_cast<uint32_t>(lead.rounds.size()), out);
  out.omit_part("workload.duration", "the time of measured rounds alone",
                "duration_s is the rest of the run: starts, pushes and comparing with it");
  out.omit_part("workload.duration", "repetitions of the other bars", "each has its rounds");
}

void declare_workload(const BarsRun& run, const Bar& lead, Declaration& out) {
  const uint32_t at_once = std::max(1u, lead.setup.at_once);
  out.declare("workload.source",
              {{"name", "bars"},
               {"source", std::string("a working set of its own for each bar, see results.bars") +
                              (run.quick ? "; quick: smaller sets, fewer rounds" : "")}});
  out.declare("workload.arrival", {{"kind", "fixed_concurrency"}, {"n", at_once}});
  out.declare("workload.concurrent_requests", at_once);
  declare_times(run, lead, out);
  out.omit("engine.kv_transfer_protocol", "does not apply: no prefill and decode apart");
  out.declare("engine.pd_disaggregated", false);
  if (lead.setup.has_daemon) {
    out.declare("cache_state", "per_cell");
    out.declare("cache_state_proof", {{"method", kProof}});
    out.declare("workload.prefix_reuse_rate", {{"ideal", 1}, {"observed", 1}});
    out.declare("workload.tenants", {{"count", 1}, {"cross_tenant_sharing", false}});
    const bool restarts = std::any_of(run.bars.begin(), run.bars.end(), [](const Bar& bar) {
      return bar.has_value() && !bar.setup.fault.empty();
    });
    out.declare("persistence", {{"tier", "nvme_local"},
                                {"medium", "files of the daemons' targets"},
                                {"restart_survival_proved", restarts}});
  }
  omit_rest({"workload.", "cache_state", "persistence"},
            "does not apply: bars have working sets, not requests of a trace", out);
}

void omit_other_setups(const BarsRun& run, const Bar& lead, Declaration& out) {
  const bool one = std::all_of(run.bars.begin(), run.bars.end(),
                               [&lead](const Bar& bar) { return bar.setup == lead.setup; });
  if (one || !lead.setup.has_daemon) return;
  const std::string reason = "those of " + lead.name + " are declared, each bar's own are in setup";
  for (const char* field :
       {"tiers[].capacity_bytes", "tiers[].working_set_ratio", "io[].queue_depth",
        "io[].block_bytes", "transfer.granularity", "tensor.layout", "ec.scheme",
        "memory.resident_copies", "workload.concurrent_requests"})
    out.omit_part(field, "of the other bars", reason);
}

}  // namespace

Status declare_bars(const BarsRun& run, Declaration& out) {
  const Bar& lead = lead_of(run.bars);
  VARVE_RETURN_IF_ERROR(declare_conditions(conditions_of(run, lead), out));
  declare_workload(run, lead, out);
  omit_other_setups(run, lead, out);
  if (run.quick) out.warn("a quick run: smaller sets, fewer rounds; not for publication");
  Json bars = Json::array();
  for (const Bar& bar : run.bars)
    bars.push_back(bar.json());
  out.result("mode", lead.setup.has_daemon ? "each_bar_its_own" : "in_process");
  out.result("bars", bars);
  omit_rest({"results."}, "bars have them, or what they mean, in results.bars", out);
  return {};
}

std::vector<std::string> declared_lines(const Declaration& declaration) {
  std::vector<std::string> lines;
  const Json declared = declaration.document()["declaration"];
  for (const auto& [field, value] : declared.items())
    lines.push_back("declare " + field + " " +
                    (value.is_string() ? value.get<std::string>() : value.dump()));
  return lines;
}

}  // namespace varve::kvbench
