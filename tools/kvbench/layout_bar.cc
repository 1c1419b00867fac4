// Both formats name the same memory in the same order, so the same bytes are pushed and pulled; the
// cut one has k layers where the other has one, and thus stripes that are one layer each. Both lie
// on the same two daemons, one of which has lost m targets.
#include "tools/kvbench/layout_bar.h"

#include <algorithm>

#include "tools/kvbench/coded_node.h"

namespace varve::kvbench {

namespace {

struct Side {
  std::string name;
  CodedNode* node = nullptr;
  uint32_t index = 0;                // of the node's cuts
  std::vector<Puller::Pulled> all;   // pulls
  std::vector<double> round_firsts;  // median, ms
  NodeCounts counts;
  Nanos daemon_cpu_ns = 0, client_cpu_ns = 0;
};

Status run_side(const LayoutBarOptions& options, uint32_t round, Side& side) {
  VARVE_TRY(const NodeCounts before, NodeCounts::of(side.node->daemon()));
  std::vector<Puller::Pulled> pulls;
  for (uint32_t p = 0; p < options.passes; ++p) {
    const uint64_t seed = uint64_t{round} * options.passes + p + 1;
    VARVE_TRY(const CodedNode::Pass pass,
              side.node->pass(side.index, {options.pull_blocks, 1, seed}));
    pulls.insert(pulls.end(), pass.pulls.begin(), pass.pulls.end());
    side.daemon_cpu_ns += pass.daemon_cpu_ns;
    side.client_cpu_ns += pass.client_cpu_ns;
  }
  VARVE_TRY(const NodeCounts after, NodeCounts::of(side.node->daemon()));
  const NodeCounts counts = after.since(before);
  side.counts.device_reads += counts.device_reads;
  side.counts.device_read_bytes += counts.device_read_bytes;
  side.counts.extents_lost += counts.extents_lost;
  side.round_firsts.push_back(quantile(times_ms(pulls, &Puller::Pulled::first_layer_ns), 500));
  side.all.insert(side.all.end(), pulls.begin(), pulls.end());
  return {};
}

std::string side_text(const Side& side) {
  uint64_t bytes = 0;
  for (const Puller::Pulled& pulled : side.all)
    bytes += pulled.bytes;
  const auto served = static_cast<double>(bytes);
  const auto pulls = static_cast<double>(side.all.size());
  return "first layer " + times_text(times_ms(side.all, &Puller::Pulled::first_layer_ns)) +
         "; whole " + times_text(times_ms(side.all, &Puller::Pulled::took_ns)) + "; " +
         number_text(static_cast<double>(side.counts.device_reads) / pulls) +
         " device reads a pull, " +
         number_text(static_cast<double>(side.counts.device_read_bytes) / served) +
         " bytes read per byte pulled; varved " +
         number_text(static_cast<double>(side.daemon_cpu_ns) / served) + " s/GB, client " +
         number_text(static_cast<double>(side.client_cpu_ns) / served) + " s/GB; " +
         std::to_string(side.counts.extents_lost) + " extents lost, " +
         std::to_string(side.all.size()) + " pulls";
}

Status check_evidence(const Side& side, const LayoutBarOptions& options, bool degraded) {
  const double served =
      static_cast<double>(options.shape.bytes()) * options.passes * options.rounds;
  if (static_cast<double>(side.counts.device_read_bytes) < 0.75 * served) {
    return Status::invalid("bench: too much of what was pulled did not come from the drives");
  }
  if ((side.counts.extents_lost > 0) != degraded) {
    return Status::invalid("bench: extents were lost where none should, or none where some should");
  }
  return {};
}

// The set is pushed twice, whole and cut.
CodedDaemonOptions daemon_of(const LayoutBarOptions& options, Scheme scheme) {
  CodedDaemonOptions daemon;
  daemon.varved = options.varved;
  daemon.scheme = scheme;
  daemon.data_bytes = 2 * options.shape.bytes();
  daemon.dram_bytes = options.shape.bytes() / kSetPerDram;
  return daemon;
}

// Value of the bar by round: the first layer of the cut format over the whole one's, healthy.
Result<std::vector<double>> run_scheme(const LayoutBarOptions& options, Scheme scheme,
                                       WorkingSet& set, Bar& bar) {
  CodedNodeOptions node;
  node.daemon = daemon_of(options, scheme);
  node.cuts = {1, scheme.k};
  node.lanes = options.lanes;
  node.daemon.folder = options.folder + "/healthy";
  VARVE_TRY(const auto healthy, CodedNode::make(node, set));
  node.daemon.folder = options.folder + "/degraded";
  node.lost = scheme.m;
  VARVE_TRY(const auto degraded, CodedNode::make(node, set));
  if (scheme == bar.setup.schemes[0]) bar.setup.seen = degraded->daemon().seen();
  std::vector<Side> sides(4);
  for (uint32_t i = 0; i < sides.size(); ++i) {
    sides[i].name =
        scheme.text() + (i % 2 == 0 ? ".whole" : ".cut") + (i / 2 == 0 ? ".healthy" : ".degraded");
    sides[i].node = i / 2 == 0 ? healthy.get() : degraded.get();
    sides[i].index = i % 2;
  }
  for (uint32_t round = 0; round < options.rounds; ++round) {
    for (uint32_t i = 0; i < sides.size(); ++i)
      VARVE_RETURN_IF_ERROR(run_side(options, round, sides[(i + round) % sides.size()]));
  }
  for (uint32_t i = 0; i < sides.size(); ++i) {
    VARVE_RETURN_IF_ERROR(check_evidence(sides[i], options, i / 2 == 1));
    bar.fact(sides[i].name, side_text(sides[i]));
  }
  bar.verified_bytes += sides.size() * options.rounds * options.passes * set.shape().bytes();
  std::vector<double> ratios;
  for (uint32_t round = 0; round < options.rounds; ++round)
    ratios.push_back(sides[1].round_firsts[round] / sides[0].round_firsts[round]);
  return ratios;
}

Status run(const LayoutBarOptions& options, Bar& bar) {
  VARVE_TRY(auto set, WorkingSet::make(options.shape));
  set->fill();
  bar.fact("set", std::to_string(set->shape().bytes() / kMiB) + " MiB, blocks of " +
                      std::to_string(options.shape.layers) + " layers of " +
                      std::to_string(options.shape.layer_bytes / kKiB) +
                      " KiB; cut: each layer as k layers; pulls of " +
                      std::to_string(options.pull_blocks) + " blocks, one at a time, from flash");
  VARVE_TRY(bar.rounds, run_scheme(options, {2, 1}, *set, bar));
  VARVE_TRY(const std::vector<double> wide, run_scheme(options, {4, 2}, *set, bar));
  bar.fact("4+2.first_layer", number_text(median(wide)) + " of whole layers, median of rounds");
  return {};
}

}  // namespace

Bar ec_layout_bar(const LayoutBarOptions& options) {
  Bar bar;
  bar.name = "ec_layout";
  bar.unit = "first layer, cut in k / whole (2+1)";
  bar.sense = Sense::kNoTarget;
  bar.setup = setup_of(daemon_of(options, {2, 1}), options.shape, options.lanes, 1);
  bar.setup.schemes.push_back({4, 2});
  bar.setup.fault = "m target files of one of two daemons are gone";
  if (Status status = run(options, bar); !status.ok()) bar.refused = bench_error(status);
  return bar;
}

}  // namespace varve::kvbench
