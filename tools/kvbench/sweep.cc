// One server for all extent sizes: push; start anew without a tier in DRAM, pull cold what nothing
// has touched, pull it again hot; start anew with one, pull it hot from there. Ceilings and pulls
// take turns, and so does who is first.
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

constexpr const char* kNoOtherKind =
    "of a server that runs already only dram x hot can be had: nobody can empty its DRAM, or have "
    "it keep nothing there";

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
  RunTimes times = {};
  uint64_t claimed_bytes = 0;  // of the tier that is measured, by what the matches answered
};

WorkingSetShape shape_of(const SweepOptions& options, const SweepPlan& plan, uint32_t extent_kib) {
  return {plan.blocks_max * plan.concurrency_max, options.layers,
          static_cast<uint32_t>(extent_kib * kKiB)};
}

bool wants(const SweepOptions& options, CellTier tier) {
  const std::vector<CellKind> kinds = kinds_of(options);
  return std::any_of(kinds.begin(), kinds.end(),
                     [tier](const CellKind& kind) { return kind.tier == tier; });
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

Status run_ceilings(const Ceilings& ceilings, uint32_t blocks, CellTier tier, CellRepetition& out,
                    Sweep& sweep) {
  WorkingSet& set = *ceilings.memory;
  const uint64_t bytes = blocks * set.shape().block_bytes();
  const auto rate = [bytes](Nanos took_ns) {
    return static_cast<double>(bytes) / static_cast<double>(took_ns);
  };
  if (tier == CellTier::kFlash) {
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
  const bool cold = cell.kind.state == CellState::kCold;
  const SystemClock clock;
  const Nanos begin_ns = clock.now_ns();
  if (!cold) {  // once, so that it was used just before
    CellRepetition warm_up;
    VARVE_RETURN_IF_ERROR(pull_once(shape.first_prompt, shape.concurrency, player, warm_up));
  }
  const Nanos warm_ns = clock.now_ns();
  for (uint32_t r = 0; r < sweep.options.repetitions; ++r) {
    CellRepetition one;
    const uint32_t first = shape.first_prompt + (cold ? r * shape.concurrency : 0);
    if (r % 2 == 0) {
      VARVE_RETURN_IF_ERROR(run_ceilings(ceilings, blocks, cell.kind.tier, one, sweep));
    }
    VARVE_RETURN_IF_ERROR(pull_once(first, shape.concurrency, player, one));
    VARVE_RETURN_IF_ERROR(compare(first, shape.concurrency, player, sweep));
    if (r % 2 == 1) {
      VARVE_RETURN_IF_ERROR(run_ceilings(ceilings, blocks, cell.kind.tier, one, sweep));
    }
    const uint32_t there = cell.is_of_flash() ? one.flash_blocks : one.dram_blocks;
    if (there == one.blocks) sweep.claimed_bytes += one.bytes;
    cell.repetitions.push_back(std::move(one));
  }
  sweep.times.warmup_ns += warm_ns - begin_ns;
  sweep.times.measured_ns += clock.now_ns() - warm_ns;
  return {};
}

Result<Ceilings> ceilings_of(const SweepPlan& plan, uint32_t extent_kib, Sweep& sweep) {
  Ceilings ceilings;
  ceilings.socket = std::move(sweep.sockets.front());
  sweep.sockets.erase(sweep.sockets.begin());
  const WorkingSetShape shape = shape_of(sweep.options, plan, extent_kib);
  VARVE_TRY(ceilings.memory, WorkingSet::make(shape));
  if (!wants(sweep.options, CellTier::kFlash)) return ceilings;
  DriveCeilingOptions drive;
  drive.paths = sweep.server->target_paths();
  drive.bytes = plan.blocks_all * shape.block_bytes();
  drive.run_bytes = shape.layer_bytes;
  drive.requests_in_flight = sweep.options.depth;
  VARVE_TRY(ceilings.drive, DriveCeiling::open(drive));
  return ceilings;
}

// What the daemon itself counted, of the pulls since it was started.
struct Counted {
  uint64_t dram_bytes = 0, flash_bytes = 0;
};

Result<Counted> counted_of(const Sweep& sweep) {
  if (!sweep.server->is_own()) return Counted();
  const std::string metrics = sweep.server->metrics();
  if (metrics.empty()) return Status::timed_out("kvbench: varved does not tell its counters");
  return Counted{metric_sum(metrics, "varve_pull_bytes_total", "tier=\"dram\""),
                 metric_sum(metrics, "varve_pull_bytes_total", "tier=\"flash\"")};
}

// It must agree with what its matches answered.
Status check_tier(CellTier tier, const Counted& before, const Sweep& sweep) {
  if (!sweep.server->is_own()) return {};
  VARVE_TRY(const Counted now, counted_of(sweep));
  if (tier == CellTier::kFlash && now.dram_bytes > before.dram_bytes) {
    return Status::invalid("kvbench: the server answered flash and sent what was in its DRAM");
  }
  const uint64_t counted = tier == CellTier::kFlash ? now.flash_bytes - before.flash_bytes
                                                    : now.dram_bytes - before.dram_bytes;
  if (counted < sweep.claimed_bytes) {
    return Status::invalid("kvbench: the server sent less of a tier than its matches answered");
  }
  return {};
}

// The cells of a tier: cold ones first, what they touch is cold no more.
Status run_tier(uint32_t extent_kib, const SweepPlan& plan, CellTier tier, const Ceilings& ceilings,
                Sweep& sweep) {
  VARVE_TRY(auto player, player_of(sweep, plan, extent_kib));
  sweep.client_memory_bytes = std::max(sweep.client_memory_bytes,
                                       player->memory_bytes() + ceilings.memory->shape().bytes());
  VARVE_TRY(const Counted before, counted_of(sweep));
  sweep.claimed_bytes = 0;
  // Once for nothing, all of it: sockets start small, and so does whoever was just started.
  const SystemClock clock;
  const Nanos begin_ns = clock.now_ns();
  CellRepetition warm_up;
  VARVE_RETURN_IF_ERROR(pull_once(plan.warm_up_prompt, plan.concurrency_max, *player, warm_up));
  VARVE_RETURN_IF_ERROR(
      run_ceilings(ceilings, plan.blocks_max * plan.concurrency_max, tier, warm_up, sweep));
  sweep.times.warmup_ns += clock.now_ns() - begin_ns;
  for (const CellKind& kind : kinds_of(sweep.options)) {
    if (kind.tier != tier) continue;
    for (const SweepPlan::Shape& shape : plan.shapes) {
      Cell cell{extent_kib, shape.blocks, shape.concurrency, kind, {}};
      VARVE_RETURN_IF_ERROR(run_cell(shape, ceilings, *player, cell, sweep));
      sweep.cells.push_back(std::move(cell));
    }
  }
  return check_tier(tier, before, sweep);
}

Status run_extent(uint32_t extent_kib, const SweepPlan& plan, Sweep& sweep) {
  {
    VARVE_TRY(auto pusher, player_of(sweep, plan, extent_kib));
    VARVE_RETURN_IF_ERROR(push_all(plan, *pusher, sweep));
  }
  const bool flash = wants(sweep.options, CellTier::kFlash);
  if (flash) VARVE_RETURN_IF_ERROR(sweep.server->restart(Mode::kStorageOnly));
  VARVE_TRY(const Ceilings ceilings, ceilings_of(plan, extent_kib, sweep));
  if (flash) {
    VARVE_RETURN_IF_ERROR(run_tier(extent_kib, plan, CellTier::kFlash, ceilings, sweep));
  }
  if (!wants(sweep.options, CellTier::kDram)) return {};
  if (flash) VARVE_RETURN_IF_ERROR(sweep.server->restart(Mode::kStoragePlusMemory));
  return run_tier(extent_kib, plan, CellTier::kDram, ceilings, sweep);
}

// What each kind of cell is, in words.
std::string method_of(const Sweep& sweep) {
  std::string text;
  for (const CellKind& kind : kinds_of(sweep.options)) {
    text += std::string(text.empty() ? "" : "; ") + name_of(kind.tier) + " x " +
            name_of(kind.state) + ": " + meaning_of(kind);
  }
  return text + (sweep.server->is_own()
                     ? "; all as the match before each pull answered, and as the server counted"
                     : "; as the match before each pull answered: the server's counters were not "
                       "looked at");
}

void declare_sweep(const Sweep& sweep, Declaration& out) {
  const SweepOptions& options = sweep.options;
  out.declare("cache_state", "per_cell");
  out.declare("cache_state_proof",
              {{"method", method_of(sweep)}, {"prefill_bytes", sweep.pushed_bytes}});
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
  declare_duration(sweep.times, options.repetitions, out);
  out.omit_part("workload.duration", "of the pulls alone",
                "duration_s is of all repetitions, ceilings and comparing with them");
  omit_rest({"workload."}, "does not apply: a sweep has shapes, not tokens of requests", out);
  if (sweep.server->is_own()) {
    out.declare("persistence", {{"tier", "nvme_local"},
                                {"medium", "files of the server's targets"},
                                {"restart_survival_proved", wants(options, CellTier::kFlash)}});
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
  if (wants(options, CellTier::kFlash) && wants(options, CellTier::kDram)) {
    out.omit_part("tiers[].name", "of the cells of flash",
                  "their server keeps no block in DRAM: only nvme_local is a tier of it");
  }
  declare_sweep(sweep, out);
  for (const Cell& cell : sweep.cells)
    lines.push_back(cell.line());
  return {};
}

}  // namespace

std::vector<CellKind> kinds_of(const SweepOptions& options) {
  const auto asked = [](const std::vector<std::string>& names, const char* name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<CellKind> kinds;
  for (const CellTier tier : {CellTier::kFlash, CellTier::kDram}) {
    if (!asked(options.tiers, name_of(tier))) continue;
    if (tier == CellTier::kFlash && options.tiers.empty() && !options.server.address.empty()) {
      continue;
    }
    for (const CellState state : {CellState::kCold, CellState::kHot}) {
      if (!asked(options.states, name_of(state))) continue;
      const CellKind kind{tier, state};
      const bool named = !options.tiers.empty() && !options.states.empty();
      if (named || *problem_of_kind(kind) == '\0') kinds.push_back(kind);
    }
  }
  return kinds;
}

std::string problem_of_kinds(const SweepOptions& options) {
  const std::vector<CellKind> kinds = kinds_of(options);
  for (const CellKind& kind : kinds) {
    if (const char* problem = problem_of_kind(kind); *problem != '\0') return problem;
  }
  const bool own = options.server.address.empty();
  if (own) return "";
  const bool only = kinds == std::vector<CellKind>{{CellTier::kDram, CellState::kHot}};
  const bool cold =
      std::find(options.states.begin(), options.states.end(), "cold") != options.states.end();
  return only && !cold ? "" : kNoOtherKind;
}

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
  CLI::App* command =
      app.add_subcommand("sweep", "pulls in many shapes, of each tier, hot and cold");
  add_server_options(*command, options.server);
  command->add_option("--extent-kib", options.extents_kib, "sizes of a layer, multiples of 64")
      ->check(CLI::Range(64u, 4096u));
  command->add_option("--blocks", options.blocks, "of a pull")->check(CLI::Range(1u, 256u));
  command->add_option("--concurrency", options.concurrency, "pulls at once")
      ->check(CLI::Range(1u, 16u));
  command->add_option("--tier", options.tiers, "where blocks are; default: both")
      ->check(CLI::IsMember({"dram", "flash"}));
  command
      ->add_option("--state", options.states,
                   "hot: used just before; cold: for the first time since a start anew; default: "
                   "each that a tier has, dram has no cold")
      ->check(CLI::IsMember({"hot", "cold"}));
  command->add_option("--layers", options.layers, "of a block")->check(CLI::Range(1u, 64u));
  command->add_option("--repetitions", options.repetitions, "of each cell")
      ->check(CLI::Range(1u, 100u));
  command->add_option("--lanes", options.lanes, "bulk lanes, raw connections")
      ->check(CLI::Range(1u, 4u));
  command->add_option("--depth", options.depth, "requests in flight of the drive's ceiling")
      ->check(CLI::Range(1u, 256u));
  command->add_flag("--quick", options.quick, "few small cells, two repetitions: a smoke test");
  add_document_options(*command, options.json_path, options.hardware_path);
  command->callback([&options] {
    const std::string problem = problem_of_kinds(options);
    if (!problem.empty()) throw CLI::ValidationError("--tier, --state", problem);
  });
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
