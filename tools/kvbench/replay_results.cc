// Sums first, then fields of the schema, then lines for people.
#include "tools/kvbench/replay_results.h"

#include <algorithm>
#include <numeric>

#include "tools/kvbench/machine.h"
#include "tools/kvbench/report.h"

namespace varve::kvbench {

namespace {

constexpr const char* kContent =
    "splitmix64 of (content id, layer), every word of every block that a pull delivered, in memory "
    "that was poisoned before";

constexpr double kFailedShareMax = 0.25;

double ms_of(Nanos ns) {
  return static_cast<double>(ns) / static_cast<double>(kMillisecond);
}

struct Times {
  std::vector<double> prefill_first, prefill_last, decode_first, decode_last;  // ms
  std::vector<double> dram, flash, mixed;  // last layer of decode pulls by where they came from
  std::vector<double> requests, services, late;
  uint64_t without_first_layer = 0;  // pulls, and matches that failed before one
};

struct Sums {
  uint64_t hit_blocks = 0, decode_hit_blocks = 0, misses = 0;
  uint64_t dram_blocks = 0, flash_blocks = 0, pulled_blocks = 0, failed_blocks = 0;
  uint64_t pulled_bytes = 0, pushed_bytes = 0, pushed_blocks = 0, unpushed_blocks = 0;
  Nanos own_work_ns = 0, push_ns = 0;
  Outcomes matches, pulls, pushes;
};

void sum_pull(const PlayedPull& pull, Sums& sums) {
  sums.dram_blocks += pull.dram_blocks;
  sums.flash_blocks += pull.flash_blocks;
  sums.pulled_blocks += pull.blocks;
  sums.failed_blocks += pull.failed_blocks;
  sums.pulled_bytes += pull.bytes;
}

Sums sums_of(const std::vector<Played>& all) {
  Sums sums;
  for (const Played& played : all) {
    sums.hit_blocks += played.hit_blocks;
    sums.decode_hit_blocks += played.decode_hit_blocks;
    sums.misses += played.misses;
    sum_pull(played.prefill, sums);
    sum_pull(played.decode, sums);
    sums.pushed_bytes += played.pushed_bytes;
    sums.pushed_blocks += played.pushed_blocks;
    sums.unpushed_blocks += played.unpushed_blocks;
    sums.own_work_ns += played.own_work_ns;
    sums.push_ns += played.push_ns;
    sums.matches.add(played.matches);
    sums.pulls.add(played.pulls);
    sums.pushes.add(played.pushes);
  }
  return sums;
}

// What failed is in them, with the time until that was known: else the slowest would be left out.
void add_times(const PlayedPull& pull, std::vector<double>& first, std::vector<double>& last,
               Times& times) {
  if (pull.last_layer_ns == 0) return;  // a miss: nothing was to be pulled
  last.push_back(ms_of(pull.last_layer_ns));
  if (pull.first_layer_ns > 0) first.push_back(ms_of(pull.first_layer_ns));
  if (pull.first_layer_ns == 0) ++times.without_first_layer;
}

Times times_of(const std::vector<Played>& all, const ReplayRun& run) {
  Times times;
  for (const Played& played : all) {
    add_times(played.prefill, times.prefill_first, times.prefill_last, times);
    add_times(played.decode, times.decode_first, times.decode_last, times);
    const PlayedPull& pull = played.decode;
    if (pull.dram_blocks + pull.flash_blocks == 0) continue;
    (pull.flash_blocks == 0  ? times.dram
     : pull.dram_blocks == 0 ? times.flash
                             : times.mixed)
        .push_back(ms_of(pull.last_layer_ns));
  }
  for (const LoadTime& time : run.times) {
    times.requests.push_back(ms_of(time.latency_ns()));
    times.services.push_back(ms_of(time.service_ns()));
    times.late.push_back(ms_of(time.late_ns()));
  }
  return times;
}

Json outcomes_json(const Outcomes& o) {
  return {{"ops", o.ops},
          {"ok", o.ok},
          {"refused", o.refused},
          {"timed_out", o.timed_out},
          {"failed", o.failed}};
}

std::string outcomes_text(const Outcomes& o) {
  return std::to_string(o.ops) + " (" + std::to_string(o.refused) + " refused, " +
         std::to_string(o.timed_out) + " timed out, " + std::to_string(o.failed) + " failed)";
}

std::string times_line(const char* name, const std::vector<double>& ms) {
  const std::string head = std::string("latency ") + name + " ";
  if (ms.empty()) return head + "none";
  return head + "p50 " + number_text(quantile(ms, 500)) + " ms, p99 " +
         number_text(quantile(ms, 990)) + " ms, max " + number_text(quantile(ms, 1000)) +
         " ms, n " + std::to_string(ms.size());
}

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::vector<double> played_tokens(const ReplayPlan& plan) {
  std::vector<double> tokens;
  for (const Prompt& prompt : plan.prompts)
    tokens.push_back(static_cast<double>(prompt.content.size() * trace::kTraceBlockTokens));
  return tokens;
}

void declare_source(const ReplayView& view, Declaration& out) {
  const auto& [options, trace, plan, played, run] = view;
  Json source = {{"name", options.trace_path.empty() ? "generator" : "trace"},
                 {"source", trace.source}};
  if (options.trace_path.empty()) {
    source["generator"] =
        "conversations: 45 % of requests continue one of 64 open ones, repeat its blocks and add a "
        "quarter of a draw; a first request has the tokens of a draw by the published quantiles of "
        "a chat trace, so that prompts as a whole do not have these quantiles";
    source["seed"] = options.seed;
  } else {
    source["sha256"] = sha256_of_files(options.trace_path);
  }
  out.declare("workload.source", source);
  out.declare("workload.input_tokens", stats_json(played_tokens(plan)));
  out.omit_part("workload.input_tokens", "those of the trace",
                "what is played is declared: whole blocks, at most --blocks-max of a prompt");
  out.omit("workload.output_tokens", "a replay plays inputs only");
  out.declare("workload.prefix_length", stats_json(plan.prefix_tokens));
  if (plan.sessions > 0) {
    const bool open = options.loop == "open";
    out.declare("workload.session",
                {{"count", plan.sessions},
                 {"turns", stats_json(plan.session_turns)},
                 {"think_time", open ? "as the times of the trace say"
                                     : "none: the next turn follows the one before"}});
    if (open && run.rounds.size() > 1) {
      out.omit_part("workload.session", "of the other rounds",
                    "each round plays all of these again, with blocks of its own");
    }
  } else {
    out.omit("workload.session", "the trace does not tell which requests are of one session");
  }
}

void declare_workload(const ReplayView& view, const Sums& sums, Declaration& out) {
  const auto& [options, trace, plan, played, run] = view;
  declare_source(view, out);
  out.declare("workload.prefix_reuse_rate", {{"ideal", share(plan.hits_possible, plan.blocks)},
                                             {"observed", share(sums.hit_blocks, plan.blocks)}});
  if (options.loop == "open") {
    out.declare("workload.arrival", {{"kind", "trace_timestamps"}, {"speedup", options.speedup}});
  } else {
    out.declare("workload.arrival", {{"kind", "fixed_concurrency"}, {"n", options.concurrency}});
  }
  out.declare("workload.concurrent_requests", options.concurrency);
  const Nanos took_ns =
      std::accumulate(run.rounds.begin(), run.rounds.end(), Nanos{0},
                      [](Nanos sum, const ReplayRound& round) { return sum + round.took_ns; });
  // No request is played that does not count; what the raw socket does first is no workload.
  Json duration = {{"warmup_s", 0},
                   {"duration_s", static_cast<double>(took_ns) / 1e9},
                   {"repetitions", run.rounds.size()}};
  if (options.trace_path.empty()) duration["seed"] = options.seed;
  out.declare("workload.duration", duration);
  out.declare("workload.tenants", {{"count", 1}, {"cross_tenant_sharing", false}});
  out.declare("workload.access_mix",
              {{"read_bytes", sums.pulled_bytes},
               {"write_bytes", sums.pushed_bytes},
               {"order", "layer order over the blocks of a prompt"},
               {"write_then_read_gap", "none: decode pulls as soon as prefill has pushed"}});
  out.declare("cache_state", "cold");
  out.declare("cache_state_proof",
              {{"method",
                "a format of this run alone: its blocks are no other run's, nor those of an "
                "open round another round's"},
               {"prefill_bytes", 0},
               {"hit_rate_at_start", 0}});
  out.declare("engine.pd_disaggregated", true);
  out.declare("engine.kv_transfer_protocol",
              "through the store: prefill pushes, decode matches and pulls");
  if (run.server_pid > 0) {
    out.declare("persistence", {{"tier", "nvme_local"},
                                {"medium", "files of the server's targets"},
                                {"restart_survival_proved", false}});
  } else {
    out.omit("persistence", kNotTold);
  }
}

Json by_tier_json(const Times& times) {
  return {{"what", "last layer of decode pulls, ms, by where all of it came from"},
          {"dram", times_json(times.dram)},
          {"flash", times_json(times.flash)},
          {"mixed", times_json(times.mixed)}};
}

Json rounds_json(const ReplayRun& run) {
  Json rounds = Json::array();
  for (const ReplayRound& round : run.rounds) {
    rounds.push_back({{"ceiling_gb_per_s", round.ceiling_rate},
                      {"pulled_bytes", round.pulled_bytes},
                      {"pull_busy_s", static_cast<double>(round.pull_busy_ns) / 1e9},
                      {"took_s", static_cast<double>(round.took_ns) / 1e9},
                      {"request_p99_ms", round.request_p99_ms},
                      {"flash_blocks", round.flash_blocks},
                      {"drive_gb_per_s", round.drive_rate}});
  }
  return rounds;
}

// By round in which a pull was under way; 0 where none delivered anything.
struct Rates {
  std::vector<double> pulls, ceilings, ratios;
  std::vector<double> drives, of_drives;  // of rounds that have the drive's ceiling
};

Rates rates_of(const ReplayRun& run) {
  Rates rates;
  for (const ReplayRound& round : run.rounds) {
    if (round.pull_busy_ns == 0) continue;
    const double pull =
        static_cast<double>(round.pulled_bytes) / static_cast<double>(round.pull_busy_ns);
    rates.pulls.push_back(pull);
    rates.ceilings.push_back(round.ceiling_rate);
    rates.ratios.push_back(pull / round.ceiling_rate);
    if (round.drive_rate == 0) continue;
    rates.drives.push_back(round.drive_rate);
    rates.of_drives.push_back(pull / round.drive_rate);
  }
  return rates;
}

struct Summary {
  Sums sums;
  Times times;
  Rates rates;
};

Mode mode_of(const ReplayOptions& options) {
  return options.storage_only ? Mode::kStorageOnly : Mode::kStoragePlusMemory;
}

// Against the drive alone only what the drive alone served.
bool has_drive_ratio(const ReplayView& view) {
  return view.options.storage_only && !rates_of(view.run).drives.empty();
}

// Bytes as a server of ours counted them; of others the matches answered only blocks.
Json served_of(const ReplayView& view, const Sums& sums) {
  Json served = {{"dram_blocks", sums.dram_blocks}, {"flash_blocks", sums.flash_blocks}};
  if (view.run.server_pid > 0) {
    served["dram_bytes"] = view.run.dram_bytes;
    served["flash_bytes"] = view.run.flash_bytes;
  }
  return served;
}

std::vector<double> p99_of(const ReplayRun& run) {
  std::vector<double> all;
  for (const ReplayRound& round : run.rounds)
    all.push_back(round.request_p99_ms);
  return all;
}

Json outcomes_of(const ReplayView& view, const Summary& summary) {
  const auto& [sums, times, rates] = summary;
  const ReplayPlan& plan = view.plan;
  return {{"matches", outcomes_json(sums.matches)},
          {"pulls", outcomes_json(sums.pulls)},
          {"pushes", outcomes_json(sums.pushes)},
          {"misses", sums.misses},
          {"without_first_layer", times.without_first_layer},
          {"pulled_blocks", sums.pulled_blocks},
          {"failed_blocks", sums.failed_blocks},
          {"pushed_blocks", sums.pushed_blocks},
          {"unpushed_blocks", sums.unpushed_blocks},
          {"cut_requests", plan.cut_requests},
          {"cut_blocks", plan.cut_blocks},
          {"own_work_s", static_cast<double>(sums.own_work_ns) / 1e9}};
}

void declare_results(const ReplayView& view, const Summary& summary, Declaration& out) {
  const ReplayOptions& options = view.options;
  const ReplayPlan& plan = view.plan;
  const ReplayRun& run = view.run;
  const auto& [sums, times, rates] = summary;
  out.result("mode", mode_name(mode_of(options)));
  out.result("served", served_of(view, sums));
  out.result("latency_counted_from",
             options.loop == "open"
                 ? "when the request was due by the trace, waiting for a worker included; decode: "
                   "when prefill was done"
                 : "when a worker began the request: a closed loop; what a stall kept from "
                   "beginning is not in it");
  const std::pair<const char*, const std::vector<double>*> transfers[] = {
      {"prefill_first_layer", &times.prefill_first},
      {"prefill_last_layer", &times.prefill_last},
      {"decode_first_layer", &times.decode_first},
      {"decode_last_layer", &times.decode_last},
      {"request", &times.requests},
      {"request_since_begun", &times.services}};
  Json transfer_ms = Json::object();
  for (const auto& [name, values] : transfers) {
    if (!values->empty()) transfer_ms[name] = times_json(*values);
  }
  out.result("transfer_ms", transfer_ms);
  out.result("lateness_ms", times_json(times.late));
  const uint64_t block_bytes = uint64_t{options.layers} * options.layer_kib * kKiB;
  out.result("hits", {{"blocks", plan.blocks},
                      {"hit_blocks", sums.hit_blocks},
                      {"rate", share(sums.hit_blocks, plan.blocks)},
                      {"possible_rate", share(plan.hits_possible, plan.blocks)},
                      {"bytes_by_tier",
                       {{"dram", sums.dram_blocks * block_bytes},
                        {"nvme_local", sums.flash_blocks * block_bytes}}},
                      {"tokens", sums.hit_blocks * trace::kTraceBlockTokens}});
  out.omit_part("results.hits", "bytes_by_tier of prefill and of decode, each",
                "they are of both together; blocks, rate and tokens are prefill's");
  out.omit_part("results.hits", "beneficial",
                "without a curve of recompute nobody knows which hits were worth their pull");
  out.result("recompute", {{"avoided_tokens", sums.hit_blocks * trace::kTraceBlockTokens}});
  out.omit_part("results.recompute", "lost_to_admission_tokens", "everything is admitted");
  Json json = {
      {"pull_gb_per_s", spread_json(rates.pulls)},
      {"ceiling_gb_per_s", spread_json(rates.ceilings)},
      {"of_ceiling", spread_json(rates.ratios)},
      {"ceiling_is_of", options.loop == "open" ? "before and after each round, the mean"
                                               : "each round, before or after its requests"},
      {"request_p99_ms", spread_json(p99_of(run))}};
  if (!rates.drives.empty()) json["drive_gb_per_s"] = spread_json(rates.drives);
  if (has_drive_ratio(view)) json["of_drive"] = spread_json(rates.of_drives);
  out.result("rates", json);
  out.result("by_tier", by_tier_json(times));
  out.result("rounds", rounds_json(run));
  out.result("outcomes", outcomes_of(view, summary));
  if (run.server_pid > 0) {
    const double gb = static_cast<double>(sums.pulled_bytes + sums.pushed_bytes) / 1e9;
    out.result(
        "cost",
        {{"cpu_s_per_gb",
          {{"varved", static_cast<double>(run.server_cpu_ns) / 1e9 / gb},
           {"client", static_cast<double>(run.client_cpu_ns) / 1e9 / gb},
           {"of", "bytes pulled and pushed; the client's with making and comparing them"}}}});
    out.omit_part("results.cost", "write_amplification, dram_bandwidth",
                  "not measured by a replay; `kvbench bars ec_flash_bytes` measures the first");
  } else {
    out.omit("results.cost", "the server's process is not ours to look at");
  }
}

// What did not end well is in the latencies, and named: a reader must not have to add it up.
void warn_of(const ReplayRun& run, const Sums& sums, Declaration& out) {
  const std::pair<const char*, const Outcomes*> kinds[] = {
      {"matches", &sums.matches}, {"pulls", &sums.pulls}, {"pushes", &sums.pushes}};
  for (const auto& [name, outcomes] : kinds) {
    if (outcomes->ok == outcomes->ops) continue;
    out.warn(std::to_string(outcomes->ops - outcomes->ok) + " of " + std::to_string(outcomes->ops) +
             " " + name + " did not end well");
  }
  if (sums.failed_blocks + sums.unpushed_blocks > 0) {
    out.warn(std::to_string(sums.failed_blocks) + " blocks of pulls did not come, " +
             std::to_string(sums.unpushed_blocks) + " of pushes were not taken");
  }
  if (!run.drive_refused.empty()) {
    out.warn("flash served and the drive's ceiling was not measured: " + run.drive_refused);
  }
}

std::vector<std::string> lines_of(const ReplayView& view, const Summary& summary) {
  const ReplayOptions& options = view.options;
  const ReplayPlan& plan = view.plan;
  const auto& [sums, times, rates] = summary;
  const auto percent = [](double value) { return number_text(100 * value) + " %"; };
  std::vector<std::string> lines = {
      "replay " + view.trace.source + ", " + std::to_string(plan.prompts.size()) + " requests, " +
          std::to_string(plan.blocks) + " blocks of " + std::to_string(options.layers) +
          " layers of " + std::to_string(options.layer_kib) + " KiB (scaled down)",
      "loop " + options.loop + ", at most " + std::to_string(options.concurrency) +
          " requests under way" +
          (options.loop == "open" ? ", " + number_text(options.speedup) + " times as fast" : ""),
      "hits " + percent(share(sums.hit_blocks, plan.blocks)) + " of blocks, possible " +
          percent(share(plan.hits_possible, plan.blocks)) + "; decode " +
          percent(share(sums.decode_hit_blocks, plan.blocks)),
      "pull " + spread_text(rates.pulls, "GB/s") + " over " + std::to_string(rates.pulls.size()) +
          " rounds",
      "ceiling " + spread_text(rates.ceilings, "GB/s") + " raw socket, in turns with them",
      "of_ceiling " + spread_text(rates.ratios, "of the raw socket"),
      times_line("prefill_first_layer", times.prefill_first),
      times_line("prefill_last_layer", times.prefill_last),
      times_line("decode_first_layer", times.decode_first),
      times_line("decode_last_layer", times.decode_last),
      times_line("decode_last_layer.dram", times.dram),
      times_line("decode_last_layer.flash", times.flash),
      times_line("decode_last_layer.mixed", times.mixed),
      times_line("request", times.requests),
      "request_p99 " + spread_text(p99_of(view.run), "ms") + " by round",
      std::string("mode ") + mode_name(mode_of(options)) +
          ", blocks of pulls: " + std::to_string(sums.dram_blocks) + " from DRAM, " +
          std::to_string(sums.flash_blocks) + " from flash"};
  if (!rates.drives.empty()) {
    lines.push_back("drive " + spread_text(rates.drives, "GB/s") +
                    " O_DIRECT io_uring, after rounds that flash served");
  }
  if (has_drive_ratio(view)) {
    lines.push_back("of_drive " + spread_text(rates.of_drives, "of the drive"));
  }
  if (options.loop == "open") {
    lines.push_back(times_line("request_since_begun", times.services) +
                    " (omits what waited: not the latency)");
    lines.push_back(times_line("late_begin", times.late));
  }
  lines.push_back("matches " + outcomes_text(sums.matches) + ", " + std::to_string(sums.misses) +
                  " missed");
  lines.push_back("pulls " + outcomes_text(sums.pulls) + ", " + std::to_string(sums.failed_blocks) +
                  " blocks did not come, " + std::to_string(times.without_first_layer) +
                  " without a first layer (failed matches included)");
  lines.push_back("pushes " + outcomes_text(sums.pushes) + ", " +
                  std::to_string(sums.unpushed_blocks) + " blocks were not taken");
  if (plan.cut_blocks > 0) {
    lines.push_back("cut " + std::to_string(plan.cut_blocks) + " blocks of " +
                    std::to_string(plan.cut_requests) + " prompts beyond --blocks-max");
  }
  return lines;
}

}  // namespace

Status check_failures(const std::vector<Played>& played) {
  const Sums sums = sums_of(played);
  const uint64_t ops = sums.matches.ops + sums.pulls.ops + sums.pushes.ops;
  const uint64_t failed = sums.matches.failed + sums.pulls.failed + sums.pushes.failed;
  if (share(failed, ops) <= kFailedShareMax) return {};
  return Status::unavailable(
      "kvbench: more than a quarter of the matches, pulls and pushes failed: the server was gone, "
      "or something is wrong with it");
}

Status check_storage_only(const std::vector<Played>& played, const ReplayRun& run) {
  const Sums sums = sums_of(played);
  if (sums.dram_blocks > 0 || run.dram_bytes > 0) {
    return Status::invalid(
        "kvbench: DRAM served a part of it, so this is no run of storage only; requests at once "
        "that share blocks share what one of them reads: --concurrency 1");
  }
  if (run.flash_bytes < sums.pulled_bytes) {
    return Status::invalid("kvbench: more was pulled than the server counted as read from flash");
  }
  return {};
}

Status conclude(const ReplayView& view, Conditions conditions, Declaration& out,
                std::vector<std::string>& lines) {
  VARVE_RETURN_IF_ERROR(check_failures(view.played));
  if (view.options.storage_only) {
    VARVE_RETURN_IF_ERROR(check_storage_only(view.played, view.run));
  }
  const Summary summary{sums_of(view.played), times_of(view.played, view.run), rates_of(view.run)};
  const Sums& sums = summary.sums;
  if (summary.rates.pulls.empty() || sums.pulled_bytes == 0) {
    return Status::invalid("kvbench: nothing was hit, so nothing is measured");
  }
  conditions.pushed_bytes = sums.pushed_bytes;
  conditions.verified_bytes = view.run.verified_bytes + sums.pulled_bytes;
  conditions.content = kContent;
  VARVE_RETURN_IF_ERROR(declare_conditions(conditions, out));
  declare_workload(view, sums, out);
  declare_results(view, summary, out);
  if (view.plan.cut_blocks > 0) {
    out.warn("prompts were cut: " + std::to_string(view.plan.cut_blocks) +
             " blocks are not played");
  }
  warn_of(view.run, sums, out);
  lines = lines_of(view, summary);
  return {};
}

}  // namespace varve::kvbench
