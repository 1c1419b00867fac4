// A new daemon for each measurement: no room is missed, no id is known, nothing is reclaimed.
#include "tools/kvbench/store_bars.h"

#include <algorithm>

#include "tools/kvbench/coded_node.h"
#include "tools/kvbench/drive_writes.h"

namespace varve::kvbench {

namespace {

constexpr double kFlashTarget = 1.05;
constexpr double kPushTarget = 0.7;
constexpr uint64_t kPushBatchBytes = 32 * kMiB;
constexpr uint32_t kPushTargets = 3;

struct Stored {
  Nanos took_ns = 0;  // of the push, until the last block is durable
  Nanos daemon_cpu_ns = 0, client_cpu_ns = 0;
  double bytes_ratio = 0;  // device bytes per byte pushed, the drain's included
  DaemonSeen seen;
};

CodedDaemonOptions daemon_of(const StoreBarOptions& options, Scheme scheme, uint32_t targets) {
  CodedDaemonOptions daemon;
  daemon.varved = options.varved;
  daemon.folder = options.folder + "/node";
  daemon.scheme = scheme;
  daemon.targets = targets;
  daemon.data_bytes = options.shape.bytes();
  daemon.dram_bytes = options.dram_bytes;
  return daemon;
}

// Pushes the set to a new daemon, pulls it back and compares, and ends the daemon.
Result<Stored> store(const StoreBarOptions& options, Scheme scheme, uint32_t targets,
                     WorkingSet& set) {
  const CodedDaemonOptions daemon_options = daemon_of(options, scheme, targets);
  VARVE_TRY(auto daemon, start_coded_daemon(daemon_options));
  PullerOptions puller_options;
  puller_options.address = daemon->address();
  puller_options.bulk_lanes = options.lanes;
  puller_options.push_batch_bytes = kPushBatchBytes;
  puller_options.pushes = options.pushes;
  VARVE_TRY(auto puller, Puller::open(puller_options, set));
  VARVE_TRY(const NodeCounts counts, NodeCounts::of(*daemon));
  const uint64_t before = counts.device_written_bytes;
  const SystemClock clock;
  Stored stored;
  stored.seen = daemon->seen();
  const Nanos daemon_before_ns = cpu_ns(daemon->pid());
  const Nanos client_before_ns = own_cpu_ns();
  const Nanos begin_ns = clock.now_ns();
  VARVE_RETURN_IF_ERROR(puller->push());
  stored.took_ns = clock.now_ns() - begin_ns;
  stored.client_cpu_ns = own_cpu_ns() - client_before_ns;
  stored.daemon_cpu_ns = cpu_ns(daemon->pid()) - daemon_before_ns;
  const uint64_t pushed = puller->counters().pushed_bytes;
  if (pushed != set.shape().bytes()) return Status::corrupt("bench: not everything was pushed");
  set.poison();
  VARVE_TRY(const Puller::Pulled pulled, puller->pull());
  if (pulled.bytes != pushed || set.wrong_extents() != 0) {
    return Status::corrupt("bench: what was pushed did not come back");
  }
  puller.reset();
  const NodeCounts end = NodeCounts::parse(Daemon::stop(std::move(daemon)));
  if (end.device_written_bytes < before) return Status::io("bench: no metrics at the end", 0);
  stored.bytes_ratio =
      static_cast<double>(end.device_written_bytes - before) / static_cast<double>(pushed);
  if (stored.bytes_ratio * scheme.k < scheme.width()) {
    return Status::invalid("bench: less was written than the fragments are long");
  }
  return stored;
}

std::string set_text(const StoreBarOptions& options) {
  return std::to_string(options.shape.bytes() / kMiB) + " MiB, blocks of " +
         std::to_string(options.shape.layers) + " layers of " +
         std::to_string(options.shape.layer_bytes / kKiB) + " KiB, " +
         std::to_string(options.pushes) + " pushes of " + std::to_string(kPushBatchBytes / kMiB) +
         " MiB at once, durable; pulled back and compared each time";
}

Status run_flash_bytes(const StoreBarOptions& options, Bar& bar) {
  VARVE_TRY(auto set, WorkingSet::make(options.shape));
  set->fill();
  std::vector<double> worst(options.rounds, 0);
  for (const Scheme scheme : {Scheme{2, 1}, Scheme{4, 2}}) {
    const double least = static_cast<double>(scheme.width()) / scheme.k;
    std::vector<double> written;
    for (uint32_t round = 0; round < options.rounds; ++round) {
      VARVE_TRY(const Stored stored, store(options, scheme, 0, *set));
      if (scheme == bar.setup.schemes[0]) bar.setup.seen = stored.seen;
      bar.verified_bytes += set->shape().bytes();
      written.push_back(stored.bytes_ratio);
      worst[round] = std::max(worst[round], stored.bytes_ratio / least);
    }
    bar.fact(scheme.text(), spread_text(written, "bytes written per byte pushed") + ", at least " +
                                number_text(least));
  }
  bar.rounds = worst;
  bar.fact("set", set_text(options));
  bar.fact("counted",
           "varve_device_written_bytes_total of all targets, from before the first push to after "
           "the drain: fragments, headers, footers, checkpoints; of both schemes the worse");
  return {};
}

struct PushSide {
  Scheme scheme;
  std::vector<double> rates, byte_ratios, daemon_cpu, client_cpu;
  DaemonSeen seen;
};

Status run_push_side(const StoreBarOptions& options, WorkingSet& set, PushSide& side) {
  VARVE_TRY(const Stored stored, store(options, side.scheme, kPushTargets, set));
  const auto bytes = static_cast<double>(set.shape().bytes());
  side.seen = stored.seen;
  side.rates.push_back(bytes / static_cast<double>(stored.took_ns));
  side.byte_ratios.push_back(stored.bytes_ratio);
  side.daemon_cpu.push_back(static_cast<double>(stored.daemon_cpu_ns) / bytes);
  side.client_cpu.push_back(static_cast<double>(stored.client_cpu_ns) / bytes);
  return {};
}

Status run_push(const StoreBarOptions& options, Bar& bar) {
  VARVE_TRY(auto set, WorkingSet::make(options.shape));
  set->fill();
  PushSide coded{{2, 1}, {}, {}, {}, {}, {}}, plain{{1, 0}, {}, {}, {}, {}, {}};
  std::vector<double> drive;  // GB/s that it takes of a process that does nothing else
  for (uint32_t round = 0; round < options.rounds; ++round) {
    const bool coded_first = round % 2 == 1;
    for (PushSide* side : coded_first ? std::array{&coded, &plain} : std::array{&plain, &coded})
      VARVE_RETURN_IF_ERROR(run_push_side(options, *set, *side));
    bar.verified_bytes += 2 * set->shape().bytes();
    bar.rounds.push_back(coded.rates.back() / plain.rates.back());
    set->fill();
    VARVE_TRY(const Nanos took_ns,
              write_to_drive({options.folder + "/raw", kPushTargets}, set->memory()));
    drive.push_back(static_cast<double>(set->shape().bytes()) / static_cast<double>(took_ns));
  }
  bar.setup.seen = coded.seen;
  bar.fact("set", set_text(options));
  for (const PushSide* side : {&plain, &coded}) {
    bar.fact(side->scheme.text(),
             spread_text(side->rates, "GB/s pushed") + "; " +
                 spread_text(side->byte_ratios, "bytes written per byte pushed") + "; " +
                 spread_text(side->daemon_cpu, "s/GB varved") + ", " +
                 spread_text(side->client_cpu, "s/GB client"));
  }
  const auto share = [&drive](const PushSide& side) {
    return number_text(median(side.rates) * median(side.byte_ratios) / median(drive));
  };
  bar.fact("drive", spread_text(drive, "GB/s") +
                        " of O_DIRECT io_uring writes and a flush, in turns "
                        "with the pushes; 1+0 wrote at " +
                        share(plain) + " of that, 2+1 at " + share(coded));
  const double bytes = median(coded.byte_ratios) / median(plain.byte_ratios);
  bar.fact("of_its_bytes",
           number_text(median(bar.rounds) * bytes) +
               ": what 2+1 wrote a second over what 1+0 did; 1 where its parity costs nothing but "
               "its bytes");
  bar.fact("ONE_DISK", "all " + std::to_string(kPushTargets) +
                           " targets of both daemons are files on one disk: 2+1 writes " +
                           number_text(bytes) +
                           " times as much to it, so where the disk is the limit the ratio cannot "
                           "be above " +
                           number_text(1 / bytes) + ", whatever coding costs");
  return {};
}

}  // namespace

Bar ec_flash_bytes_bar(const StoreBarOptions& options) {
  Bar bar;
  bar.name = "ec_flash_bytes";
  bar.unit = "of (k+m)/k";
  bar.target = kFlashTarget;
  bar.sense = Sense::kAtMost;
  bar.setup = setup_of(daemon_of(options, {2, 1}, 0), options.shape, options.lanes, options.pushes);
  bar.setup.schemes.push_back({4, 2});
  if (Status status = run_flash_bytes(options, bar); !status.ok()) {
    bar.refused = bench_error(status);
  }
  return bar;
}

Bar ec_push_bar(const StoreBarOptions& options) {
  Bar bar;
  bar.name = "ec_push_2+1";
  bar.unit = "of 1+0";
  bar.target = kPushTarget;
  bar.setup = setup_of(daemon_of(options, {2, 1}, kPushTargets), options.shape, options.lanes,
                       options.pushes);
  bar.setup.schemes.push_back({1, 0});
  if (Status status = run_push(options, bar); !status.ok()) bar.refused = bench_error(status);
  return bar;
}

}  // namespace varve::kvbench
