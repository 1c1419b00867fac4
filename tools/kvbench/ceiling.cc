// Four ceilings over one working set; each round's bytes are compared with what they must be.
#include "tools/kvbench/ceiling.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "tools/kvbench/drive_ceiling.h"
#include "tools/kvbench/drive_writes.h"
#include "tools/kvbench/memory_ceiling.h"
#include "tools/kvbench/options.h"
#include "tools/kvbench/process.h"
#include "tools/kvbench/report.h"
#include "tools/kvbench/socket_ceiling.h"

namespace varve::kvbench {

namespace {

constexpr uint32_t kFiles = 2;  // as many as the targets that kvbench gives a daemon
constexpr const char* kContent =
    "splitmix64 of (block, layer), every word; socket and memcpy compared by CRC32C of each "
    "extent, drive reads by the sum of their words, what was written by nothing";

struct Ceilings {
  std::unique_ptr<SocketCeiling> socket;
  std::unique_ptr<WorkingSet> set;
  std::unique_ptr<MemoryCeiling> memory;
  std::unique_ptr<DriveCeiling> drive;
  uint64_t sum = 0;  // of all words of the set
  std::vector<double> socket_rates, memory_rates, read_rates, write_rates;  // GB/s, by round
  uint64_t verified_bytes = 0;
  RunTimes times;
};

// Independent of the order of the words: reads land in the order of their requests.
uint64_t sum_of(ConstByteSpan bytes) {
  uint64_t sum = 0;
  for (size_t at = 0; at + 8 <= bytes.size(); at += 8)
    sum += load<uint64_t>(bytes, at);
  return sum;
}

DriveWritesOptions writes(const CeilingOptions& options, const std::string& folder,
                          DriveWritesOptions::After after) {
  return {
      folder,       kFiles, options.depth, after, static_cast<uint32_t>(options.layer_kib * kKiB),
      options.depth};
}

Result<Ceilings> make(const CeilingOptions& options, const WorkingSetShape& shape,
                      const std::string& folder) {
  Ceilings c;
  VARVE_TRY(c.socket, SocketCeiling::start({shape, options.lanes, LinkOptions().congestion}));
  VARVE_TRY(c.set, WorkingSet::make(shape));
  c.set->fill();
  VARVE_TRY(c.memory, MemoryCeiling::make(shape));
  c.sum = sum_of(c.memory->source());
  const auto written =
      write_to_drive(writes(options, folder, DriveWritesOptions::After::kKeep), c.memory->source());
  if (!written) return written.error();
  DriveCeilingOptions drive;
  for (uint32_t i = 0; i < kFiles; ++i)
    drive.paths.push_back(folder + "/" + std::to_string(i) + ".dat");
  drive.bytes = shape.bytes();
  drive.run_bytes = shape.layer_bytes;
  drive.requests_in_flight = options.depth;
  VARVE_TRY(c.drive, DriveCeiling::open(drive));
  if (c.drive->written_bytes() != shape.bytes()) {
    return Status::corrupt("kvbench: the drive does not hold what was just written to it");
  }
  return c;
}

Status check_set(Ceilings& c, const char* wrong) {
  if (c.set->wrong_extents() != 0) return Status::corrupt(wrong);
  c.verified_bytes += c.set->shape().bytes();
  return {};
}

Status run_one(uint32_t which, const CeilingOptions& options, const std::string& folder,
               Ceilings& c) {
  const auto rate = [&c](Nanos took_ns) {
    return static_cast<double>(c.set->shape().bytes()) / static_cast<double>(took_ns);
  };
  c.set->poison();
  if (which == 0) {
    VARVE_TRY(const Nanos took_ns, c.socket->round(*c.set));
    c.socket_rates.push_back(rate(took_ns));
    return check_set(c, "kvbench: the raw socket's bytes differ");
  }
  if (which == 1) {
    c.memory_rates.push_back(rate(c.memory->round(*c.set)));
    return check_set(c, "kvbench: the copied bytes differ");
  }
  if (which == 2) {
    VARVE_TRY(const Nanos took_ns, c.drive->round(c.set->memory()));
    c.read_rates.push_back(rate(took_ns));
    if (sum_of(c.set->memory()) != c.sum)
      return Status::corrupt("kvbench: the drive's bytes differ");
    c.verified_bytes += c.set->shape().bytes();
    return {};
  }
  VARVE_TRY(const Nanos took_ns,
            write_to_drive(writes(options, folder + "/written", DriveWritesOptions::After::kRemove),
                           c.memory->source()));
  c.write_rates.push_back(rate(took_ns));
  return {};
}

void declare(const CeilingOptions& options, const Ceilings& c, Declaration& out) {
  out.declare("cache_state", "cold");
  out.declare("cache_state_proof", {{"method", "O_DIRECT: the page cache is not asked"}});
  out.declare("engine.pd_disaggregated", false);
  out.declare("workload.source", {{"name", "ceiling"}, {"source", "all of one working set"}});
  out.declare("workload.arrival", {{"kind", "fixed_concurrency"}, {"n", 1}});
  out.declare("workload.concurrent_requests", 1);
  declare_duration(c.times, options.rounds, out);
  out.omit_part("workload.duration", "of the ceilings alone",
                "duration_s is of all rounds, comparing with them");
  out.declare("workload.access_mix",
              {{"read_bytes", 3 * c.set->shape().bytes() * options.rounds},
               {"write_bytes", c.set->shape().bytes() * options.rounds},
               {"order", "layer order; drive reads in runs of an extent in random order"}});
  omit_rest({"engine.kv", "workload.", "persistence"},
            "does not apply: no store takes part in this run, ceilings only", out);
  const std::pair<const char*, const std::vector<double>*> rates[] = {
      {"socket", &c.socket_rates},
      {"memcpy", &c.memory_rates},
      {"drive_read", &c.read_rates},
      {"drive_write", &c.write_rates}};
  Json json = Json::object();
  for (const auto& [name, values] : rates)
    json[std::string(name) + "_gb_per_s"] = spread_json(*values);
  out.result("rates", json);
  out.result("mode", "no_store");
  omit_rest({"results."}, "no store takes part in this run: ceilings only", out);
}

Status measure(const CeilingOptions& options, const RunStart& start, const std::string& folder,
               Declaration& out, std::vector<std::string>& lines) {
  const WorkingSetShape shape{options.blocks, options.layers,
                              static_cast<uint32_t>(options.layer_kib * kKiB)};
  VARVE_TRY(Ceilings c, make(options, shape, folder));
  const SystemClock clock;
  const Nanos begin_ns = clock.now_ns();
  VARVE_RETURN_IF_ERROR(run_one(0, options, folder, c));  // for nothing: sockets start small
  c.socket_rates.clear();
  const Nanos warm_ns = clock.now_ns();
  for (uint32_t round = 0; round < options.rounds; ++round) {
    for (uint32_t turn = 0; turn < 4; ++turn)
      VARVE_RETURN_IF_ERROR(run_one((turn + round) % 4, options, folder, c));
  }
  c.times = {warm_ns - begin_ns, clock.now_ns() - warm_ns};
  declare(options, c, out);
  Conditions conditions;
  conditions.start = start;
  conditions.folder = folder;
  conditions.targets = kFiles;
  conditions.layers = shape.layers;
  conditions.layer_bytes = shape.layer_bytes;
  conditions.lanes = options.lanes;
  conditions.drive_depth = options.depth;
  conditions.client_memory_bytes = 2 * shape.bytes();
  conditions.verified_bytes = c.verified_bytes;
  conditions.content = kContent;
  conditions.hardware_path = options.hardware_path;
  VARVE_RETURN_IF_ERROR(declare_conditions(conditions, out));
  const std::string shape_text = std::to_string(shape.bytes() / kMiB) + " MiB in extents of " +
                                 std::to_string(options.layer_kib) + " KiB, " +
                                 std::to_string(options.rounds) + " rounds in turns";
  lines = {"ceiling set " + shape_text, "ceiling socket " + spread_text(c.socket_rates, "GB/s"),
           "ceiling memcpy " + spread_text(c.memory_rates, "GB/s"),
           "ceiling drive_read " + spread_text(c.read_rates, "GB/s"),
           "ceiling drive_write " + spread_text(c.write_rates, "GB/s")};
  return {};
}

}  // namespace

CLI::App* add_ceiling(CLI::App& app, CeilingOptions& options) {
  CLI::App* command = app.add_subcommand("ceiling", "what this machine gives without a store");
  command->add_option("--blocks", options.blocks)->check(CLI::Range(1u, 4096u));
  command->add_option("--layers", options.layers)->check(CLI::Range(1u, 256u));
  command->add_option("--layer-kib", options.layer_kib, "an extent: a multiple of 64")
      ->check(CLI::Range(64u, 4096u));
  command->add_option("--lanes", options.lanes, "raw connections")->check(CLI::Range(1u, 4u));
  command
      ->add_option("--depth", options.depth, "requests in flight at the drive, all files together")
      ->check(CLI::Range(1u, 256u));
  command->add_option("--rounds", options.rounds)->check(CLI::Range(1u, kRoundsMax));
  command->add_flag("--quick", options.quick, "a small set, two rounds: a smoke test");
  command->add_option("--dir", options.folder, "work folder; default: beside the build");
  add_document_options(*command, options.json_path, options.hardware_path);
  return command;
}

int run_ceiling(CeilingOptions options, const RunStart& start) {
  if (options.quick) {
    options.blocks = 8;
    options.rounds = 2;
  }
  const auto folder = work_folder(options.folder);
  if (!folder) return report_failure(folder.error());
  const std::string own = run_folder(*folder, start.run_id);
  Declaration declaration;
  std::vector<std::string> lines;
  const Status measured = measure(options, start, own, declaration, lines);
  std::error_code ignored;
  std::filesystem::remove_all(own, ignored);
  if (!measured.ok()) return report_failure(measured);
  return report(declaration, lines, options.json_path);
}

}  // namespace varve::kvbench
