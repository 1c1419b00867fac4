// Both bars: start a daemon, push the working set durably, then rounds of ceiling and pull in
// alternating order; the bytes of every round are compared with what was pushed.
#include "tools/kvbench/pull_bars.h"

#include <algorithm>

#include "tools/kvbench/drive_ceiling.h"
#include "tools/kvbench/process.h"
#include "tools/kvbench/puller.h"
#include "tools/kvbench/socket_ceiling.h"

namespace varve::kvbench {

namespace {

constexpr double kDramTarget = 0.90;
constexpr double kFlashTarget = 0.95;
constexpr double kServerCpuTarget = 1.1;
constexpr double kDeviceShareMin = 0.75;
// Of the ceiling at the device. More do not make this drive faster, see docs/BENCHMARK.md.
constexpr uint32_t kDriveRequests = 32;

std::string text_of(const Status& status) {
  std::string text = std::string(status.what()) + " (" + code_name(status.code()) + ")";
  if (status.errno_value() != 0) text += ", errno " + std::to_string(status.errno_value());
  return text;
}

double rate_of(uint64_t bytes, Nanos took_ns) {  // GB/s
  return static_cast<double>(bytes) / static_cast<double>(took_ns);
}

// What both bars collect on the way.
struct Rounds {
  std::vector<double> ratios, ceiling_rates, pull_rates, first_layer_shares;
  std::vector<double> ceiling_cpu, pull_cpu;  // seconds a GB, of the process that serves
  uint64_t verified_bytes = 0;
};

// `ceiling` answers how long it took; its bytes were checked. `server` is the pid it burns in.
// A process that took no time at all was not looked at.
Status add_cpu(Nanos before_ns, Nanos after_ns, double gigabytes, std::vector<double>& out) {
  if (before_ns == 0 || after_ns <= before_ns) {
    return Status::unavailable("bench: the CPU time of the other process cannot be read");
  }
  out.push_back(static_cast<double>(after_ns - before_ns) / 1e9 / gigabytes);
  return {};
}

template <class Ceiling>
Status run_rounds(uint32_t count, WorkingSet& set, Puller& puller, pid_t daemon, pid_t other,
                  Ceiling ceiling, Rounds& rounds) {
  const uint64_t bytes = set.shape().bytes();
  const auto gigabytes = static_cast<double>(bytes) / 1e9;
  Nanos ceiling_ns = 0;
  Puller::Pulled pulled;
  const auto run_ceiling = [&]() -> Status {
    const Nanos cpu_before_ns = cpu_ns(other);
    VARVE_TRY(ceiling_ns, ceiling());
    if (other == 0) return {};  // the drive's ceiling is read by this process
    return add_cpu(cpu_before_ns, cpu_ns(other), gigabytes, rounds.ceiling_cpu);
  };
  const auto run_pull = [&]() -> Status {
    set.poison();
    const Nanos cpu_before_ns = cpu_ns(daemon);
    VARVE_TRY(pulled, puller.pull());
    VARVE_RETURN_IF_ERROR(add_cpu(cpu_before_ns, cpu_ns(daemon), gigabytes, rounds.pull_cpu));
    if (set.wrong_extents() != 0) return Status::corrupt("bench: a pull delivered wrong bytes");
    rounds.verified_bytes += bytes;
    return {};
  };
  for (uint32_t round = 0; round < count; ++round) {
    const bool ours_first = round % 2 == 1;
    if (ours_first) VARVE_RETURN_IF_ERROR(run_pull());
    VARVE_RETURN_IF_ERROR(run_ceiling());
    if (!ours_first) VARVE_RETURN_IF_ERROR(run_pull());
    rounds.ratios.push_back(static_cast<double>(ceiling_ns) / static_cast<double>(pulled.took_ns));
    rounds.ceiling_rates.push_back(rate_of(bytes, ceiling_ns));
    rounds.pull_rates.push_back(rate_of(bytes, pulled.took_ns));
    rounds.first_layer_shares.push_back(static_cast<double>(pulled.first_layer_ns) /
                                        static_cast<double>(pulled.took_ns));
  }
  return {};
}

// The first layer is there after 1.5 / L of the whole pull, and one extent more.
double first_layer_bound(const WorkingSetShape& shape) {
  return 1.5 / shape.layers + 1.0 / shape.extents();
}

void add_facts(const WorkingSetShape& shape, const Rounds& rounds, Bar& bar) {
  if (rounds.ratios.empty()) return;
  bar.rounds = rounds.ratios;
  bar.verified_bytes += rounds.verified_bytes;
  bar.fact("pull", spread_text(rounds.pull_rates, "GB/s"));
  bar.fact("ceiling", spread_text(rounds.ceiling_rates, "GB/s"));
  bar.fact("first_layer", spread_text(rounds.first_layer_shares, "of the whole pull") + ", 1 of " +
                              std::to_string(shape.layers) + " layers");
}

Result<std::unique_ptr<Daemon>> start_daemon(const PullBarOptions& options, uint64_t dram_bytes) {
  return Daemon::start(
      options.varved, options.folder,
      {"--shards", "1", "--targets", std::to_string(options.targets), "--target-bytes",
       std::to_string(options.target_bytes), "--dram-bytes", std::to_string(dram_bytes), "--scheme",
       Scheme().text(), "--log-level", "warn"});
}

// Half of the DRAM is what stays as cache; headers and the last pulls need a little more.
uint64_t dram_bytes_of(const WorkingSetShape& shape) {
  return round_up(2 * shape.bytes() + shape.bytes() / 4 + 64 * kMiB, kMiB);
}

BarSetup setup_of(const PullBarOptions& options, const WorkingSetShape& shape,
                  uint64_t dram_bytes) {
  BarSetup setup;
  setup.has_daemon = true;
  setup.blocks = shape.blocks;
  setup.layers = shape.layers;
  setup.layer_bytes = shape.layer_bytes;
  setup.schemes = {Scheme()};
  setup.targets = options.targets;
  setup.target_bytes = options.target_bytes;
  setup.dram_bytes = dram_bytes;
  setup.pushed_bytes = setup.client_memory_bytes = shape.bytes();
  setup.lanes = options.lanes;
  setup.at_once = 1;
  return setup;
}

PullerOptions puller_options(const PullBarOptions& options, const Daemon& daemon,
                             uint64_t push_batch_bytes) {
  PullerOptions puller;
  puller.address = daemon.address();
  puller.bulk_lanes = options.lanes;
  puller.push_batch_bytes = push_batch_bytes;
  return puller;
}

Status run_dram(const PullBarOptions& options, DramPullBars& bars) {
  Bar& bar = bars.pull;
  VARVE_TRY(auto set, WorkingSet::make(options.shape));
  VARVE_TRY(auto ceiling, SocketCeiling::start({options.shape, options.lanes, "cubic"}));
  const uint64_t bytes = options.shape.bytes();
  VARVE_TRY(auto daemon, start_daemon(options, dram_bytes_of(options.shape)));
  bar.fact("daemon", daemon->ready_line());
  bar.setup.seen = daemon->seen();
  set->fill();
  VARVE_TRY(auto puller, Puller::open(puller_options(options, *daemon, 32 * kMiB), *set));
  VARVE_RETURN_IF_ERROR(puller->push());
  const uint64_t reads_before = daemon->metric("varve_flash_read_bytes_total", "");
  const auto raw = [&]() -> Result<Nanos> {
    set->poison();
    VARVE_TRY(const Nanos took_ns, ceiling->round(*set));
    if (set->wrong_extents() != 0) return Status::corrupt("bench: the raw socket's bytes differ");
    bar.verified_bytes += bytes;
    return took_ns;
  };
  const SystemClock clock;
  const Nanos warmup_begin_ns = clock.now_ns();
  VARVE_RETURN_IF_ERROR(raw().has_value() ? Status() : Status::io("bench: raw sender", 0));
  VARVE_TRY(const Puller::Pulled warm, puller->pull());  // autotuning, like the raw one before it
  VARVE_ASSERT(warm.bytes == bytes);
  bar.warmup_ns = clock.now_ns() - warmup_begin_ns;
  Rounds rounds;
  VARVE_RETURN_IF_ERROR(
      run_rounds(options.rounds, *set, *puller, daemon->pid(), ceiling->pid(), raw, rounds));
  const uint64_t from_dram = daemon->metric("varve_pull_bytes_total", "tier=\"dram\"");
  const uint64_t from_flash = daemon->metric("varve_flash_read_bytes_total", "") - reads_before;
  if (from_dram < (options.rounds + 1) * bytes || from_flash != 0) {
    return Status::invalid("bench: not everything came from DRAM");
  }
  add_facts(set->shape(), rounds, bar);
  bars.server_cpu.verified_bytes = bars.first_layer.verified_bytes = bar.verified_bytes;
  bars.server_cpu.warmup_ns = bars.first_layer.warmup_ns = bar.warmup_ns;
  bars.server_cpu.setup = bars.first_layer.setup = bar.setup;
  for (size_t r = 0; r < rounds.ratios.size(); ++r) {
    bars.server_cpu.rounds.push_back(rounds.pull_cpu[r] / rounds.ceiling_cpu[r]);
    bars.first_layer.rounds.push_back(rounds.first_layer_shares[r] /
                                      first_layer_bound(set->shape()));
  }
  bars.server_cpu.fact("sender_cpu", spread_text(rounds.pull_cpu, "s/GB") + " varved, " +
                                         spread_text(rounds.ceiling_cpu, "s/GB") + " raw sender");
  bar.fact("evidence", std::to_string(from_dram) + " bytes of varve_pull_bytes_total{tier=dram}, " +
                           "0 device reads, every round's bytes compared");
  return {};
}

Status run_flash(const PullBarOptions& options, Bar& bar) {
  VARVE_TRY(auto set, WorkingSet::make(options.flash_shape));
  VARVE_TRY(auto daemon, start_daemon(options, options.flash_dram_bytes));
  bar.fact("daemon", daemon->ready_line());
  bar.setup.seen = daemon->seen();
  set->fill();
  VARVE_TRY(auto puller,
            Puller::open(puller_options(options, *daemon, options.flash_dram_bytes / 8), *set));
  VARVE_RETURN_IF_ERROR(puller->push());
  DriveCeilingOptions drive;
  for (uint32_t t = 0; t < options.targets; ++t) {
    drive.paths.push_back(options.folder + "/target-" + std::to_string(t) + ".dat");
  }
  drive.bytes = options.flash_shape.bytes();
  drive.run_bytes = options.flash_shape.layer_bytes;
  drive.requests_in_flight = kDriveRequests;
  VARVE_TRY(auto ceiling, DriveCeiling::open(drive));
  bar.fact("written", std::to_string(ceiling->written_bytes() / kMiB) + " MiB found in " +
                          std::to_string(options.targets) + " targets, read in runs of " +
                          std::to_string(drive.run_bytes / kKiB) + " KiB by requests of " +
                          std::to_string(kDriveRequestBytes / kKiB) + " KiB, " +
                          std::to_string(kDriveRequests) + " in flight");
  const SystemClock clock;
  const Nanos warmup_begin_ns = clock.now_ns();
  std::vector<double> in_cache_rates;
  for (uint32_t i = 0; i < 3; ++i) {
    VARVE_TRY(const Nanos took_ns, ceiling->round_in_cache(drive.bytes));
    in_cache_rates.push_back(rate_of(drive.bytes, took_ns));
  }
  VARVE_TRY(const Puller::Pulled warm, puller->pull());
  VARVE_ASSERT(warm.bytes == drive.bytes);
  bar.warmup_ns = clock.now_ns() - warmup_begin_ns;
  const uint64_t reads_before = daemon->metric("varve_flash_read_bytes_total", "");
  Rounds rounds;
  VARVE_RETURN_IF_ERROR(run_rounds(
      options.rounds, *set, *puller, daemon->pid(), 0,
      [&] { return ceiling->round(set->memory()); }, rounds));
  const uint64_t from_flash = daemon->metric("varve_flash_read_bytes_total", "") - reads_before;
  const auto share = std::min(
      1.0, static_cast<double>(from_flash) / (options.rounds * static_cast<double>(drive.bytes)));
  if (share < kDeviceShareMin) {
    return Status::invalid("bench: too much of what was pulled did not come from the device");
  }
  // What the last round left in DRAM is no merit of the flash path: only device bytes count.
  for (double& ratio : rounds.ratios)
    ratio *= share;
  add_facts(set->shape(), rounds, bar);
  bar.fact("ceiling_in_cache", spread_text(in_cache_rates, "GB/s") +
                                   ", the same reads into 8 MiB again and again: not the bar");
  bar.fact("varved_cpu", spread_text(rounds.pull_cpu, "s/GB"));
  bar.fact("evidence", number_text(share) +
                           " of the bytes were read from the device, and the "
                           "ratio is scaled by it; every round's compared");
  return {};
}

}  // namespace

DramPullBars dram_pull_bars(const PullBarOptions& options) {
  DramPullBars bars;
  bars.pull.name = "tcp_dram_pull";
  bars.pull.unit = "of the raw socket";
  bars.pull.target = kDramTarget;
  bars.server_cpu.name = "server_cpu";
  bars.server_cpu.unit = "of the raw sender";
  bars.server_cpu.target = kServerCpuTarget;
  bars.server_cpu.sense = Sense::kAtMost;
  bars.first_layer.name = "first_layer";
  bars.first_layer.unit = "of 1.5 / layers and one extent";
  bars.first_layer.target = 1;
  bars.first_layer.sense = Sense::kAtMost;
  bars.pull.setup = setup_of(options, options.shape, dram_bytes_of(options.shape));
  bars.server_cpu.setup = bars.first_layer.setup = bars.pull.setup;
  for (Bar* bar : {&bars.pull, &bars.server_cpu, &bars.first_layer})
    bar->measurement = bars.pull.name;
  if (const Status status = run_dram(options, bars); !status.ok()) {
    for (Bar* bar : {&bars.pull, &bars.server_cpu, &bars.first_layer})
      bar->refused = text_of(status);
  }
  return bars;
}

Bar flash_pull_bar(const PullBarOptions& options) {
  Bar bar;
  bar.name = "flash_pull";
  bar.unit = "of O_DIRECT io_uring";
  bar.target = kFlashTarget;
  bar.setup = setup_of(options, options.flash_shape, options.flash_dram_bytes);
  if (Status status = run_flash(options, bar); !status.ok()) bar.refused = text_of(status);
  return bar;
}

}  // namespace varve::kvbench
