// Rounds of requests and ceilings in turns (open loop: the raw socket before and after each), then
// what was played, summed up and declared.
#include "tools/kvbench/replay.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "tools/kvbench/drive_ceiling.h"
#include "tools/kvbench/machine.h"
#include "tools/kvbench/options.h"
#include "tools/kvbench/replay_results.h"
#include "tools/kvbench/report.h"
#include "tools/kvbench/socket_ceiling.h"

namespace varve::kvbench {

namespace {

constexpr uint64_t kCeilingBytesMin = 64 * kMiB;  // of a round: shorter ones measure the start
constexpr uint32_t kCeilingRepeatsMax = 16;
constexpr uint32_t kDriveRepeatsMax = 1024;  // a seat has 64 KiB at least
constexpr uint32_t kClosedRounds = 5, kOpenRounds = 3;
constexpr double kPlayMsMax = 30.0 * 24 * 3600 * 1000;  // of an open loop

Result<trace::Trace> trace_of(const ReplayOptions& options) {
  if (options.trace_path.empty()) return trace::generate_trace(options.requests, options.seed);
  return trace::read_any(options.trace_path, options.requests);
}

LoadOptions load_options(const ReplayOptions& options) {
  return {options.loop == "open" ? Loop::kOpen : Loop::kClosed, options.concurrency};
}

// The raw socket moves what a prompt of the round has on average, as often as it takes.
Result<double> ceiling_round(SocketCeiling& socket, WorkingSet& set, uint32_t blocks,
                             uint64_t& verified_bytes) {
  const uint64_t bytes = blocks * set.shape().block_bytes();
  const auto repeats =
      static_cast<uint32_t>(std::clamp<uint64_t>(kCeilingBytesMin / bytes, 1, kCeilingRepeatsMax));
  Nanos took_ns = 0;
  for (uint32_t i = 0; i < repeats; ++i) {
    VARVE_TRY(const Nanos one_ns, socket.compared_round(set, blocks));
    took_ns += one_ns;
    verified_bytes += bytes;
  }
  return static_cast<double>(repeats * bytes) / static_cast<double>(took_ns);
}

uint32_t mean_blocks(const ReplayPlan& plan, Slice slice) {
  uint64_t blocks = 0;
  for (uint32_t i = slice.first; i < slice.first + slice.count; ++i)
    blocks += plan.prompts[i].content.size();
  return static_cast<uint32_t>(std::max<uint64_t>(1, blocks / std::max(1u, slice.count)));
}

Status play_round(const ReplayOptions& options, const ReplayPlan& plan, Slice slice, Player& player,
                  ReplayRun& run) {
  const auto begin = plan.load.begin() + slice.first;
  std::vector<LoadRequest> requests(begin, begin + slice.count);
  for (LoadRequest& request : requests)
    request.due_ns -= plan.load[slice.first].due_ns;
  SystemPacer pacer;
  player.begin_at(slice.first, PlayPart::kWhole);
  const Nanos daemon_ns = run.server_pid > 0 ? cpu_ns(run.server_pid) : 0;
  const Nanos own_ns = own_cpu_ns();
  const Nanos begin_ns = pacer.now_ns();
  const auto times = run_load(load_options(options), requests, pacer, player);
  run.rounds.back().took_ns = pacer.now_ns() - begin_ns;
  run.client_cpu_ns += own_cpu_ns() - own_ns;
  if (run.server_pid > 0) {
    const Nanos after_ns = cpu_ns(run.server_pid);
    if (after_ns == 0) return Status::unavailable("kvbench: varved is gone");
    run.server_cpu_ns += after_ns - daemon_ns;
  }
  run.times.insert(run.times.end(), times.begin(), times.end());
  std::vector<double> request_ms;
  for (const LoadTime& time : times)
    request_ms.push_back(static_cast<double>(time.latency_ns()) / 1e6);
  run.rounds.back().request_p99_ms = quantile(std::move(request_ms), 990);
  std::vector<Span> pulls;
  for (uint32_t i = slice.first; i < slice.first + slice.count; ++i) {
    const Played& played = player.played()[i];
    if (played.wrong_blocks > 0) return Status::corrupt("kvbench: a pull delivered wrong bytes");
    for (const PlayedPull* pull : {&played.prefill, &played.decode}) {
      if (pull->took_ns == 0) continue;  // none was asked for; one that failed took its time
      run.rounds.back().pulled_bytes += pull->bytes;
      run.rounds.back().flash_blocks += pull->flash_blocks;
      pulls.push_back({pull->began_ns, pull->began_ns + pull->took_ns});
    }
  }
  run.rounds.back().pull_busy_ns = busy_ns(std::move(pulls));
  return {};
}

// The drive's ceiling stands beside rounds that flash served, after their pulls: it reads what lies
// in the targets by then. Where it cannot be had the run goes on without it, and says so.
Status drive_round(const ReplayOptions& options, const ServerUnderTest& server, WorkingSet& set,
                   ReplayRun& run) {
  ReplayRound& round = run.rounds.back();
  if (!server.is_own() || round.flash_blocks == 0) return {};
  DriveCeilingOptions drive;
  drive.paths = server.target_paths();
  drive.bytes = drive.run_bytes = set.shape().layer_bytes;
  drive.requests_in_flight = options.depth;
  const auto ceiling = DriveCeiling::open(drive);
  if (!ceiling) {
    run.drive_refused = ceiling.error().what();
    return {};
  }
  const uint32_t request_bytes = (*ceiling)->request_bytes();
  const uint64_t bytes = std::min<uint64_t>(kCeilingBytesMin, set.memory().size());
  if (bytes < uint64_t{options.depth} * request_bytes) {
    run.drive_refused =
        "the memory of a request is smaller than what the drive has in flight: a larger "
        "--blocks-max, or a smaller --depth";
    return {};
  }
  const ByteSpan to = set.memory().first(bytes / request_bytes * request_bytes);
  const auto repeats =
      std::clamp<uint64_t>(kCeilingBytesMin / to.size(), 1, uint64_t{kDriveRepeatsMax});
  Nanos took_ns = 0;
  for (uint64_t i = 0; i < repeats; ++i) {
    VARVE_TRY(const Nanos one_ns, (*ceiling)->round(to));
    took_ns += one_ns;
  }
  round.drive_rate = static_cast<double>(repeats * to.size()) / static_cast<double>(took_ns);
  return {};
}

Status play_all(const ReplayOptions& options, const ReplayPlan& plan, const ServerUnderTest& server,
                SocketCeiling& socket, Player& player, ReplayRun& run) {
  const auto requests = static_cast<uint32_t>(plan.prompts.size());
  // Once for nothing: sockets start small.
  VARVE_TRY(const double warm_up,
            ceiling_round(socket, player.memory(0), mean_blocks(plan, {0, requests}),
                          run.verified_bytes));
  VARVE_ASSERT(warm_up > 0);
  const bool open = options.loop == "open";
  for (const Slice slice : rounds_of(options, requests)) {
    run.rounds.push_back({});
    const bool ceiling_first = run.rounds.size() % 2 == 1;
    const auto ceiling = [&](double& rate) -> Status {
      VARVE_TRY(rate, ceiling_round(socket, player.memory(0), mean_blocks(plan, slice),
                                    run.verified_bytes));
      return {};
    };
    double before = 0, after = 0;
    if (ceiling_first || open) VARVE_RETURN_IF_ERROR(ceiling(before));
    VARVE_RETURN_IF_ERROR(play_round(options, plan, slice, player, run));
    if (!ceiling_first || open) VARVE_RETURN_IF_ERROR(ceiling(after));
    VARVE_RETURN_IF_ERROR(drive_round(options, server, player.memory(0), run));
    run.rounds.back().ceiling_rate = open ? (before + after) / 2 : before + after;
  }
  return {};
}

// What a server did that is gone by now says nothing of a server.
Status check_there(const ServerUnderTest& server) {
  if (server.open_client("kvbench-end", 1)) return {};
  return Status::unavailable(
      "kvbench: the server takes no session any more at the end of the run: it is gone, full or "
      "too slow, see the line before");
}

Status measure(const ReplayOptions& options, const RunStart& start, Declaration& out,
               std::vector<std::string>& lines) {
  VARVE_TRY(const trace::Trace trace, trace_of(options));
  VARVE_RETURN_IF_ERROR(check_times(options, trace));
  const ReplayPlan once = plan_of(trace, options.blocks_max, options.speedup);
  const ReplayPlan plan = repeated(once, options.loop == "open" ? rounds_asked(options) : 1);
  PlayerOptions playing;
  playing.lanes = options.lanes;
  playing.workers = options.concurrency;
  playing.layers = options.layers;
  playing.layer_bytes = static_cast<uint32_t>(options.layer_kib * kKiB);
  playing.blocks_max = options.blocks_max;
  playing.block_tokens = trace::kTraceBlockTokens;
  playing.ack = options.ack == "cached" ? wire::AckKind::kCached : wire::AckKind::kDurable;
  playing.deadline_ns = options.deadline_ms * kMillisecond;
  playing.run_id = start.run_id;
  // The sender is forked before this process has threads.
  VARVE_TRY(auto socket,
            SocketCeiling::start({{options.blocks_max, playing.layers, playing.layer_bytes},
                                  options.lanes,
                                  LinkOptions().congestion}));
  ServerOptions served = options.server;
  if (options.storage_only) served.mode = Mode::kStorageOnly;
  VARVE_TRY(auto server, ServerUnderTest::start(served, start.run_id));
  VARVE_TRY(auto player, Player::make(playing, *server, plan.prompts));
  ReplayRun run;
  run.server_pid = server->pid();
  VARVE_RETURN_IF_ERROR(play_all(options, plan, *server, *socket, *player, run));
  VARVE_RETURN_IF_ERROR(check_there(*server));
  if (server->is_own()) {
    const std::string metrics = server->metrics();
    if (metrics.empty()) return Status::timed_out("kvbench: varved does not tell its counters");
    run.dram_bytes = metric_sum(metrics, "varve_pull_bytes_total", "tier=\"dram\"");
    run.flash_bytes = metric_sum(metrics, "varve_pull_bytes_total", "tier=\"flash\"");
  }
  Conditions conditions;
  conditions.start = start;
  server->describe(conditions);
  conditions.layers = playing.layers;
  conditions.layer_bytes = playing.layer_bytes;
  conditions.block_tokens = playing.block_tokens;
  conditions.lanes = options.lanes;
  conditions.concurrency = options.concurrency;
  conditions.client_memory_bytes = player->memory_bytes();
  conditions.hardware_path = options.hardware_path;
  return conclude({options, trace, plan, player->played(), run}, conditions, out, lines);
}

}  // namespace

Status check_times(const ReplayOptions& options, const trace::Trace& trace) {
  if (options.loop != "open" || trace.requests.empty()) return {};
  if (!trace.timed) {
    return Status::invalid(
        "kvbench: requests of the trace have no timestamp, so none are due: "
        "--loop closed");
  }
  const uint64_t lasts_ms = trace.requests.back().time_ms - trace.requests.front().time_ms;
  if (static_cast<double>(lasts_ms) * rounds_asked(options) / options.speedup > kPlayMsMax) {
    return Status::invalid(
        "kvbench: an open loop would play for longer than 30 days: --speedup, --rounds");
  }
  return {};
}

ReplayPlan plan_of(const trace::Trace& trace, uint32_t blocks_max, double speedup) {
  VARVE_ASSERT(blocks_max > 0 && speedup > 0);  // problem_of_number refuses others
  ReplayPlan plan;
  std::unordered_map<uint64_t, uint32_t> dense;
  std::unordered_set<uint32_t> seen;
  std::map<uint32_t, double> turns;
  for (const trace::TraceRequest& request : trace.requests) {
    Prompt prompt;
    const size_t blocks = std::min<size_t>(request.ids.size(), blocks_max);
    plan.cut_blocks += request.ids.size() - blocks;
    plan.cut_requests += request.ids.size() > blocks ? 1 : 0;
    uint32_t prefix = 0;
    for (size_t i = 0; i < blocks; ++i) {
      const auto id = static_cast<uint32_t>(dense.size());
      prompt.content.push_back(dense.try_emplace(request.ids[i], id).first->second);
      if (prefix == i && seen.count(prompt.content[i]) > 0) ++prefix;
    }
    seen.insert(prompt.content.begin(), prompt.content.end());
    plan.hits_possible += prefix;
    plan.prefix_tokens.push_back(static_cast<double>(prefix) * trace::kTraceBlockTokens);
    plan.blocks += blocks;
    const double due_ms =
        static_cast<double>(request.time_ms - trace.requests[0].time_ms) / speedup;
    const double ms = std::min(due_ms, kPlayMsMax);  // later: check_times refuses it
    const bool told = request.session != trace::kNoSession;
    plan.load.push_back({static_cast<Nanos>(ms * static_cast<double>(kMillisecond)),
                         told ? request.session : kNoLoadSession});
    if (told) ++turns[request.session];
    plan.prompts.push_back(std::move(prompt));
  }
  plan.cut_blocks += trace.cut_blocks;
  plan.unique_blocks = dense.size();
  plan.sessions = static_cast<uint32_t>(turns.size());
  for (const auto& [session, count] : turns)
    plan.session_turns.push_back(count);
  return plan;
}

ReplayPlan repeated(const ReplayPlan& plan, uint32_t times) {
  ReplayPlan all = plan;
  for (uint32_t time = 1; time < times; ++time) {
    const auto first = static_cast<uint32_t>(time * plan.unique_blocks);
    for (Prompt prompt : plan.prompts) {
      for (uint32_t& content : prompt.content)
        content += first;
      all.prompts.push_back(std::move(prompt));
    }
    all.load.insert(all.load.end(), plan.load.begin(), plan.load.end());
    all.prefix_tokens.insert(all.prefix_tokens.end(), plan.prefix_tokens.begin(),
                             plan.prefix_tokens.end());
  }
  for (uint64_t* sum :
       {&all.blocks, &all.cut_blocks, &all.cut_requests, &all.hits_possible, &all.unique_blocks})
    *sum *= times;
  return all;
}

uint32_t rounds_asked(const ReplayOptions& options) {
  if (options.rounds > 0) return options.rounds;
  return options.loop == "open" ? kOpenRounds : kClosedRounds;
}

std::vector<Slice> rounds_of(const ReplayOptions& options, uint32_t requests) {
  const uint32_t rounds = std::min(rounds_asked(options), requests);
  std::vector<Slice> slices;
  uint32_t first = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    const auto end = static_cast<uint32_t>(uint64_t{requests} * (round + 1) / rounds);
    slices.push_back({first, end - first});
    first = end;
  }
  return slices;
}

Nanos busy_ns(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
  Nanos busy = 0, covered_ns = 0;  // until when it is counted
  for (const Span& span : spans) {
    const Nanos from = std::max(span.begin_ns, covered_ns);
    if (span.end_ns <= from) continue;
    busy += span.end_ns - from;
    covered_ns = span.end_ns;
  }
  return busy;
}

CLI::App* add_replay(CLI::App& app, ReplayOptions& options) {
  CLI::App* command = app.add_subcommand("replay", "plays a trace, closed or open loop");
  add_server_options(*command, options.server);
  command
      ->add_option("--trace", options.trace_path,
                   "JSON lines, a session, or a folder of sessions; none: the generator")
      ->check(problem_of_trace);
  command->add_option("--seed", options.seed, "of the generator");
  command->add_option("--requests", options.requests, "the first of the trace")
      ->check(CLI::Range(1u, trace::kTraceRequestsMax));
  command->add_option("--loop", options.loop)->check(CLI::IsMember({"closed", "open"}));
  command->add_option("--speedup", options.speedup, "open loop: times of the trace, divided by it")
      ->check([](const std::string& text) { return problem_of_number(text, 0.001, 1e6); });
  command->add_option("--concurrency", options.concurrency, "requests under way (open: at most)")
      ->check(CLI::Range(1u, kWorkersMax));
  command
      ->add_option("--rounds", options.rounds,
                   "closed loop: parts of the trace; open: all of it, each time anew")
      ->check(CLI::Range(1u, kRoundsMax));
  command->add_option("--layers", options.layers, "of a block")->check(CLI::Range(1u, 256u));
  command->add_option("--layer-kib", options.layer_kib, "of a layer of a block: a multiple of 64")
      ->check(CLI::Range(64u, 4096u));
  command->add_option("--blocks-max", options.blocks_max, "of a prompt; longer ones are cut")
      ->check(CLI::Range(1u, trace::kTraceBlocksMax));
  command->add_option("--lanes", options.lanes, "bulk lanes of each client, raw connections")
      ->check(CLI::Range(1u, 4u));
  command->add_option("--depth", options.depth, "requests in flight of the drive's ceiling")
      ->check(CLI::Range(1u, 256u));
  command->add_option("--ack", options.ack)->check(CLI::IsMember({"durable", "cached"}));
  command
      ->add_flag("--storage-only", options.storage_only,
                 "every hit is read from flash (a server that keeps no block in DRAM), or there is "
                 "no result; without it the result is of storage plus memory")
      ->excludes(command->get_option("--address"));  // whose counters we do not see
  command->add_option("--deadline-ms", options.deadline_ms, "of each operation")
      ->check(CLI::Range(1u, 600000u));
  add_document_options(*command, options.json_path, options.hardware_path);
  command->callback([&options, command] {
    if (!options.storage_only) return;
    // Requests at once that share blocks share what one of them reads.
    if (command->count("--concurrency") == 0) options.concurrency = 1;
    if (options.ack == "durable") return;
    throw CLI::ValidationError(
        "--storage-only",
        "what is acknowledged as cached is still in DRAM when decode asks for it: --ack durable");
  });
  return command;
}

int run_replay(ReplayOptions options, const RunStart& start) {
  Declaration declaration;
  std::vector<std::string> lines;
  if (Status measured = measure(options, start, declaration, lines); !measured.ok()) {
    return report_failure(measured);
  }
  return report(declaration, lines, options.json_path);
}

}  // namespace varve::kvbench
