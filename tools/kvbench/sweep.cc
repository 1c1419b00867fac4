// One server for all extent sizes: push, restart, pull cold what nothing has touched, pull it again
// hot. Ceilings and pulls take turns, and so does who is first.
#include "tools/kvbench/sweep.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "tools/kvbench/drive_ceiling.h"
#include "tools/kvbench/options.h"
#include "tools/kvbench/replay.h"
#include "tools/kvbench/report.h"
#include "tools/kvbench/socket_ceiling.h"

namespace varve::kvbench {

namespace {

constexpr uint32_t kBlockTokens = 512;
constexpr const char* kContent =
    "splitmix64 of (content id, layer), every word of every block that a pull delivered, in memory "
    "that was poisoned before; the raw socket's likewise";

constexpr const char* kStartedAnew =
    "cold: blocks that nothing has touched since the server was started anew; hot: pulled once "
    "before; both as the match before each pull answered";
constexpr const char* kNotStartedAnew =
    "the match before each pull answered so; hot: pulled once before; the server was not started "
    "anew, and its counters were not looked at";

struct Ceilings {
  std::unique_ptr<SocketCeiling> socket;
  std::unique_ptr<DriveCeiling> drive;  // none where the server is not ours
  std::unique_ptr<WorkingSet> memory;   // into which they move
};

struct Sweep {
  const SweepOptions& options;
  const RunStart& start;
  std::unique_ptr<ServerUnderTest> server;
  std::vector<std::unique_ptr<SocketCeiling>> sockets;  // by extent size
  std::vector<Cell> cells;
  uint64_t pushed_bytes = 0, pulled_bytes = 0, verified_bytes = 0, client_memory_bytes = 0;
  uint64_t cold_bytes = 0;  // that cold cells claim to be of flash
};

WorkingSetShape shape_of(const SweepOptions& options, const SweepPlan& plan, uint32_t extent_kib) {
  return {plan.blocks_max * plan.concurrency_max, options.layers,
          static_cast<uint32_t>(extent_kib * kKiB)};
}

bool wants(const SweepOptions& options, const char* state) {
  return std::find(options.states.begin(), options.states.end(), state) != options.states.end();
}

Result<std::unique_ptr<Player>> player_of(const Sweep& sweep, const SweepPlan& plan,
                                          uint32_t extent_kib) {
  PlayerOptions playing;
  playing.lanes = sweep.options.lanes;
  playing.workers = plan.concurrency_max;
  playing.layers = sweep.options.layers;
  playing.layer_bytes = static_cast<uint32_t>(extent_kib * kKiB);
  playing.blocks_max = plan.blocks_max;
  playing.block_tokens = kBlockTokens;
  playing.deadline_ns = 60 * kSecond;
  playing.run_id = sweep.start.run_id;
  return Player::make(playing, *sweep.server, plan.prompts);
}

Status push_all(const SweepPlan& plan, Player& player, Sweep& sweep) {
  SystemPacer pacer;
  player.begin_at(0, PlayPart::kPush);
  const std::vector<LoadRequest> all(plan.prompts.size());
  (void)run_load({Loop::kClosed, plan.concurrency_max}, all, pacer, player);
  for (const Played& played : player.played()) {
    if (played.pushed_blocks != played.blocks) {
      return Status::unavailable("kvbench: not everything that was pushed was taken");
    }
    sweep.pushed_bytes += played.pushed_bytes;
  }
  return {};
}

// `concurrency` prompts from `first`, at once, one each worker.
Status pull_once(uint32_t first, uint32_t concurrency, Player& player, CellRepetition& out) {
  SystemPacer pacer;
  player.begin_at(first, PlayPart::kPullOnly);
  const LoadOptions one_each{Loop::kClosed, concurrency, Take::kOwn};
  (void)run_load(one_each, std::vector<LoadRequest>(concurrency), pacer, player);
  std::vector<Span> spans;
  for (uint32_t prompt = first; prompt < first + concurrency; ++prompt) {
    const Played& played = player.played()[prompt];
    out.add(played);
    spans.push_back({played.decode.began_ns, played.decode.began_ns + played.decode.took_ns});
  }
  out.busy_ns = busy_ns(std::move(spans));
  return {};
}

// After all pulls of a repetition, so that it is in nobody's way.
Status compare(uint32_t first, uint32_t concurrency, const Player& player, Sweep& sweep) {
  for (uint32_t prompt = first; prompt < first + concurrency; ++prompt) {
    if (player.compare(prompt) > 0) return Status::corrupt("kvbench: a pull delivered wrong bytes");
    sweep.verified_bytes += player.played()[prompt].decode.bytes;
    sweep.pulled_bytes += player.played()[prompt].decode.bytes;
  }
  return {};
}

Status run_ceilings(const Ceilings& ceilings, uint32_t blocks, Warmth warmth, CellRepetition& out,
                    Sweep& sweep) {
  WorkingSet& set = *ceilings.memory;
  const uint64_t bytes = blocks * set.shape().block_bytes();
  const auto rate = [bytes](Nanos took_ns) {
    return static_cast<double>(bytes) / static_cast<double>(took_ns);
  };
  if (warmth == Warmth::kCold && ceilings.drive) {
    VARVE_TRY(const Nanos took_ns, ceilings.drive->round(set.memory().first(bytes)));
    out.drive_rate = rate(took_ns);
  }
  VARVE_TRY(const Nanos took_ns, ceilings.socket->compared_round(set, blocks));
  out.socket_rate = rate(took_ns);
  sweep.verified_bytes += bytes;
  return {};
}

Status run_cell(const SweepPlan::Shape& shape, const Ceilings& ceilings, Player& player, Cell& cell,
                Sweep& sweep) {
  const uint32_t blocks = shape.blocks * shape.concurrency;
  if (cell.warmth == Warmth::kHot) {  // once, so that it is in DRAM
    CellRepetition warm_up;
    VARVE_RETURN_IF_ERROR(pull_once(shape.first_prompt, shape.concurrency, player, warm_up));
  }
  for (uint32_t r = 0; r < sweep.options.repetitions; ++r) {
    CellRepetition one;
    const uint32_t first =
        shape.first_prompt + (cell.warmth == Warmth::kCold ? r * shape.concurrency : 0);
    if (r % 2 == 0) {
      VARVE_RETURN_IF_ERROR(run_ceilings(ceilings, blocks, cell.warmth, one, sweep));
    }
    VARVE_RETURN_IF_ERROR(pull_once(first, shape.concurrency, player, one));
    VARVE_RETURN_IF_ERROR(compare(first, shape.concurrency, player, sweep));
    if (r % 2 == 1) {
      VARVE_RETURN_IF_ERROR(run_ceilings(ceilings, blocks, cell.warmth, one, sweep));
    }
    if (cell.warmth == Warmth::kCold) sweep.cold_bytes += one.bytes;
    cell.repetitions.push_back(std::move(one));
  }
  return {};
}

Result<Ceilings> ceilings_of(const SweepPlan& plan, uint32_t extent_kib, Sweep& sweep) {
  Ceilings ceilings;
  ceilings.socket = std::move(sweep.sockets.front());
  sweep.sockets.erase(sweep.sockets.begin());
  const WorkingSetShape shape = shape_of(sweep.options, plan, extent_kib);
  VARVE_TRY(ceilings.memory, WorkingSet::make(shape));
  if (!sweep.server->is_own() || !wants(sweep.options, "cold")) return ceilings;
  DriveCeilingOptions drive;
  drive.paths = sweep.server->target_paths();
  drive.bytes = plan.blocks_all * shape.block_bytes();
  drive.run_bytes = shape.layer_bytes;
  drive.requests_in_flight = sweep.options.depth;
  VARVE_TRY(ceilings.drive, DriveCeiling::open(drive));
  return ceilings;
}

// What the daemon itself counted must agree with what its matches answered.
Status check_tiers(uint64_t cold_bytes_before, const Sweep& sweep) {
  const uint64_t claimed = sweep.cold_bytes - cold_bytes_before;
  const uint64_t counted = sweep.server->metric("varve_pull_bytes_total", "tier=\"flash\"");
  if (counted < claimed) {
    return Status::invalid("kvbench: the server answered flash and sent what was in its DRAM");
  }
  return {};
}

Status run_extent(uint32_t extent_kib, const SweepPlan& plan, Sweep& sweep) {
  const bool cold = wants(sweep.options, "cold");
  {
    VARVE_TRY(auto pusher, player_of(sweep, plan, extent_kib));
    VARVE_RETURN_IF_ERROR(push_all(plan, *pusher, sweep));
  }
  if (cold && sweep.server->is_own()) VARVE_RETURN_IF_ERROR(sweep.server->restart());
  VARVE_TRY(auto player, player_of(sweep, plan, extent_kib));
  VARVE_TRY(const Ceilings ceilings, ceilings_of(plan, extent_kib, sweep));
  sweep.client_memory_bytes = std::max(sweep.client_memory_bytes,
                                       player->memory_bytes() + ceilings.memory->shape().bytes());
  const uint64_t cold_bytes_before = sweep.cold_bytes;
  // Once for nothing, all of it: sockets start small, and so does whoever was just started.
  CellRepetition warm_up;
  VARVE_RETURN_IF_ERROR(pull_once(plan.warm_up_prompt, plan.concurrency_max, *player, warm_up));
  VARVE_RETURN_IF_ERROR(run_ceilings(ceilings, plan.blocks_max * plan.concurrency_max,
                                     Warmth::kCold, warm_up, sweep));
  for (const Warmth warmth : {Warmth::kCold, Warmth::kHot}) {
    if (!wants(sweep.options, warmth == Warmth::kCold ? "cold" : "hot")) continue;
    for (const SweepPlan::Shape& shape : plan.shapes) {
      Cell cell{extent_kib, shape.blocks, shape.concurrency, warmth, {}};
      VARVE_RETURN_IF_ERROR(run_cell(shape, ceilings, *player, cell, sweep));
      sweep.cells.push_back(std::move(cell));
    }
  }
  return cold && sweep.server->is_own() ? check_tiers(cold_bytes_before, sweep) : Status();
}

void declare_sweep(const Sweep& sweep, Declaration& out) {
  const SweepOptions& options = sweep.options;
  out.declare("cache_state", "per_cell");
  out.declare("cache_state_proof",
              {{"method", sweep.server->is_own() ? kStartedAnew : kNotStartedAnew},
               {"prefill_bytes", sweep.pushed_bytes}});
  out.declare("engine.pd_disaggregated", false);
  out.omit("engine.kv_transfer_protocol", "does not apply: one worker pushes and pulls");
  out.declare("workload.source",
              {{"name", "sweep"}, {"source", "prompts of equal length, each of its own blocks"}});
  out.declare("workload.prefix_reuse_rate", {{"ideal", 1}, {"observed", 1}});
  const uint32_t most = *std::max_element(options.concurrency.begin(), options.concurrency.end());
  out.declare("workload.arrival", {{"kind", "fixed_concurrency"}, {"n", most}});
  out.declare("workload.concurrent_requests", most);
  out.declare("workload.tenants", {{"count", 1}, {"cross_tenant_sharing", false}});
  out.declare("workload.access_mix", {{"read_bytes", sweep.pulled_bytes},
                                      {"write_bytes", sweep.pushed_bytes},
                                      {"order", "layer order over the blocks of a prompt"}});
  out.omit("workload.session", "does not apply: no conversations in a sweep");
  declare_duration(sweep.start, options.repetitions, out);
  omit_rest({"workload."}, "does not apply: a sweep has shapes, not tokens of requests", out);
  if (sweep.server->is_own()) {
    out.declare("persistence", {{"tier", "nvme_local"},
                                {"medium", "files of the server's targets"},
                                {"restart_survival_proved", wants(options, "cold")}});
  } else {
    out.omit("persistence", kNotTold);
  }
  Json cells = Json::array();
  for (const Cell& cell : sweep.cells)
    cells.push_back(cell.json());
  out.result("mode", "each_cell_its_own");
  out.result("cells", cells);
  out.result("latency_counted_from", "the call of the pull, after its match");
  omit_rest({"results."}, "a sweep has them, or what they mean, in its cells", out);
}

Status measure(const SweepOptions& options, const RunStart& start, Declaration& out,
               std::vector<std::string>& lines) {
  const SweepPlan plan = sweep_plan(options);
  Sweep sweep{options, start, nullptr, {}, {}};
  // The senders are forked before this process has threads.
  for (const uint32_t extent_kib : options.extents_kib) {
    VARVE_TRY(auto socket, SocketCeiling::start({shape_of(options, plan, extent_kib), options.lanes,
                                                 LinkOptions().congestion}));
    sweep.sockets.push_back(std::move(socket));
  }
  VARVE_TRY(sweep.server, ServerUnderTest::start(options.server, start.run_id));
  for (const uint32_t extent_kib : options.extents_kib)
    VARVE_RETURN_IF_ERROR(run_extent(extent_kib, plan, sweep));
  Conditions conditions;
  conditions.start = start;
  sweep.server->describe(conditions);
  conditions.layers = options.layers;
  conditions.layer_bytes = static_cast<uint32_t>(
      *std::max_element(options.extents_kib.begin(), options.extents_kib.end()) * kKiB);
  conditions.block_tokens = kBlockTokens;
  conditions.lanes = options.lanes;
  conditions.concurrency =
      *std::max_element(options.concurrency.begin(), options.concurrency.end());
  conditions.pushed_bytes = sweep.pushed_bytes;
  conditions.client_memory_bytes = sweep.client_memory_bytes;
  conditions.verified_bytes = sweep.verified_bytes;
  conditions.content = kContent;
  conditions.hardware_path = options.hardware_path;
  VARVE_RETURN_IF_ERROR(declare_conditions(conditions, out));
  out.omit_part("transfer.granularity", "bytes of the other cells",
                "the largest extent is declared; each cell names its own");
  declare_sweep(sweep, out);
  for (const Cell& cell : sweep.cells)
    lines.push_back(cell.line());
  return {};
}

}  // namespace

SweepPlan sweep_plan(const SweepOptions& options) {
  SweepPlan plan;
  uint32_t content = 0;
  const auto add = [&plan, &content](uint32_t prompts, uint32_t blocks) {
    for (uint32_t p = 0; p < prompts; ++p) {
      Prompt prompt;
      for (uint32_t b = 0; b < blocks; ++b)
        prompt.content.push_back(content++);
      plan.prompts.push_back(std::move(prompt));
    }
  };
  for (const uint32_t blocks : options.blocks) {
    for (const uint32_t concurrency : options.concurrency) {
      plan.shapes.push_back({blocks, concurrency, static_cast<uint32_t>(plan.prompts.size())});
      add(concurrency * options.repetitions, blocks);
      plan.blocks_max = std::max(plan.blocks_max, blocks);
      plan.concurrency_max = std::max(plan.concurrency_max, concurrency);
    }
  }
  plan.warm_up_prompt = static_cast<uint32_t>(plan.prompts.size());
  add(plan.concurrency_max, plan.blocks_max);
  plan.blocks_all = content;
  return plan;
}

CLI::App* add_sweep(CLI::App& app, SweepOptions& options) {
  CLI::App* command = app.add_subcommand("sweep", "pulls in many shapes, hot and cold");
  add_server_options(*command, options.server);
  command->add_option("--extent-kib", options.extents_kib, "sizes of a layer, multiples of 64")
      ->check(CLI::Range(64u, 4096u));
  command->add_option("--blocks", options.blocks, "of a pull")->check(CLI::Range(1u, 256u));
  command->add_option("--concurrency", options.concurrency, "pulls at once")
      ->check(CLI::Range(1u, 16u));
  command->add_option("--state", options.states)->check(CLI::IsMember({"hot", "cold"}));
  command->add_option("--layers", options.layers, "of a block")->check(CLI::Range(1u, 64u));
  command->add_option("--repetitions", options.repetitions, "of each cell")
      ->check(CLI::Range(1u, 100u));
  command->add_option("--lanes", options.lanes, "bulk lanes, raw connections")
      ->check(CLI::Range(1u, 4u));
  command->add_option("--depth", options.depth, "requests in flight of the drive's ceiling")
      ->check(CLI::Range(1u, 256u));
  command->add_flag("--quick", options.quick, "few small cells, two repetitions: a smoke test");
  add_document_options(*command, options.json_path, options.hardware_path);
  return command;
}

int run_sweep(SweepOptions options, const RunStart& start) {
  if (options.quick) {
    options.extents_kib = {64, 256};
    options.blocks = {2};
    options.concurrency = {1, 2};
    options.repetitions = 2;
    options.server.dram_mib = 256;
    options.server.target_mib = 512;
  }
  Declaration declaration;
  std::vector<std::string> lines;
  if (Status measured = measure(options, start, declaration, lines); !measured.ok()) {
    return report_failure(measured);
  }
  return report(declaration, lines, options.json_path);
}

}  // namespace varve::kvbench
